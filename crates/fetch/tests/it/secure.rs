//! Servers with TLS, over HTTP/1.1 and HTTP/2.

use crate::server::{Server, get, read_request};
use bytes::Bytes;
use farol_base::Truncated;
use farol_fetch::{CertificateDer, FetchConfig, Fetcher};
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::time::Sleep;
use tokio_rustls::TlsAcceptor;

/// A body in one piece, which may be followed, a little later, by a failure of the server.
struct Piece {
    data: Option<Bytes>,
    failure: Option<Pin<Box<Sleep>>>,
}

impl Body for Piece {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        if let Some(data) = self.data.take() {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match &mut self.failure {
            Some(failure) => {
                failure.as_mut().poll(cx).map(|()| Some(Err(std::io::Error::other("fell over"))))
            }
            None => Poll::Ready(None),
        }
    }
}

/// Tells the protocol and host it was asked with; `/broken` fails half-way.
fn answer(request: &hyper::Request<Incoming>) -> hyper::Response<Piece> {
    let host = request.headers().get("host").map(|host| host.to_str().unwrap().to_string());
    let authority = request.uri().authority().map(|authority| authority.to_string());
    let text = format!("{:?} {}", request.version(), host.or(authority).unwrap_or_default());
    let is_broken = request.uri().path() == "/broken";
    let failure = is_broken.then(|| Box::pin(tokio::time::sleep(Duration::from_millis(50))));
    hyper::Response::new(Piece { data: Some(text.into()), failure })
}

/// A server whose certificate is for `h.test`, and that certificate.
async fn secure_server(protocols: &[&str]) -> (Server, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["h.test".to_string()]).unwrap();
    let certificate: CertificateDer<'static> = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.clone()], key)
        .unwrap();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Server::raw(move |_, stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
            let service = service_fn(|request| async move { Ok::<_, Infallible>(answer(&request)) });
            let stream = TokioIo::new(stream);
            let _ = match is_http2 {
                true => {
                    hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                        .serve_connection(stream, service)
                        .await
                }
                false => hyper::server::conn::http1::Builder::new().serve_connection(stream, service).await,
            };
        }
    })
    .await;
    (server, certificate)
}

fn trusting(server: &Server, certificate: CertificateDer<'static>) -> FetchConfig {
    FetchConfig { extra_roots: vec![certificate], ..server.config() }
}

#[tokio::test]
async fn the_best_protocol_that_both_speak_is_used() {
    for (offered, http2, protocol, text) in [
        (&["h2", "http/1.1"][..], true, "h2", "HTTP/2.0 h.test"),
        (&["h2", "http/1.1"][..], false, "http/1.1", "HTTP/1.1 h.test"),
        (&["http/1.1"][..], true, "http/1.1", "HTTP/1.1 h.test"),
        (&[][..], true, "http/1.1", "HTTP/1.1 h.test"),
    ] {
        let (server, certificate) = secure_server(offered).await;
        let fetcher = Fetcher::new(FetchConfig { http2, ..trusting(&server, certificate) }).unwrap();
        for kept in [false, true, true] {
            let response = fetcher.get(get("https://h.test/a")).await.unwrap();
            assert_eq!((response.protocol, &response.body[..]), (protocol, text.as_bytes()));
            assert_eq!(response.connect.is_none(), kept, "{protocol}");
            assert!(response.request_head.starts_with(b"GET /a HTTP/1.1\r\nHost: h.test\r\n"));
            assert!(response.response_head.starts_with(b"HTTP/1.1 200 OK\r\n"));
        }
        assert_eq!(server.accepted(), 1);
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_keeps_what_came() {
    for http2 in [true, false] {
        let (server, certificate) = secure_server(&["h2", "http/1.1"]).await;
        let fetcher = Fetcher::new(FetchConfig { http2, ..trusting(&server, certificate) }).unwrap();
        let response = fetcher.get(get("https://h.test/broken")).await.unwrap();
        assert_eq!((response.status, response.truncated), (200, Some(Truncated::Disconnect)));
        assert!(response.body.ends_with(b" h.test"));
        assert_eq!(fetcher.get(get("https://h.test/")).await.unwrap().truncated, None);
    }
}

#[tokio::test]
async fn a_certificate_must_be_trusted_and_carry_the_name() {
    let (server, certificate) = secure_server(&["h2"]).await;
    let strict = server.fetcher();
    let error = strict.get(get("https://h.test/")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), ("tls", false), "{error:?}");
    let trusting = Fetcher::new(trusting(&server, certificate)).unwrap();
    let error = trusting.get(get("https://other.test/")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), ("tls", false), "{error:?}");
}

#[tokio::test]
async fn a_server_that_speaks_no_tls_gives_an_error_in_time() {
    let server = Server::raw(|_, mut stream| async move {
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
        read_request(&mut stream).await;
    })
    .await;
    let error = server.fetcher().get(get("https://h.test/")).await.unwrap_err();
    assert_eq!(error.kind(), "tls", "{error:?}");
    let silent = Server::raw(|_, stream| async move {
        tokio::time::sleep(Duration::from_secs(20)).await;
        drop(stream);
    })
    .await;
    let config = FetchConfig { connect_timeout: Duration::from_millis(100), ..silent.config() };
    let error = Fetcher::new(config).unwrap().get(get("https://h.test/")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), ("timeout", true));
}
