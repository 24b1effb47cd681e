//! Servers for tests, each on a free port of loopback until the test ends.

use bytes::Bytes;
use farol_base::CanonicalUrl;
use farol_fetch::{FetchConfig, Fetcher, Request};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub type Page = hyper::Response<Full<Bytes>>;

/// A server and how many connections it has accepted.
#[derive(Clone)]
pub struct Server {
    pub address: SocketAddr,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    /// Hands each connection, with its number from 0, to `serve`.
    pub async fn raw<F, R>(serve: F) -> Server
    where
        F: Fn(usize, TcpStream) -> R + Send + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = Server { address: listener.local_addr().unwrap(), accepted: Arc::default() };
        let accepted = server.accepted.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(accepted.fetch_add(1, Ordering::SeqCst), stream));
            }
        });
        server
    }

    /// Reads one request from each connection, writes these bytes, and closes it.
    pub async fn saying(bytes: impl Into<Vec<u8>>) -> Server {
        let bytes: Arc<[u8]> = bytes.into().into();
        Server::raw(move |_, mut stream| {
            let bytes = bytes.clone();
            async move {
                read_request(&mut stream).await;
                let _ = stream.write_all(&bytes).await;
                let _ = stream.shutdown().await;
            }
        })
        .await
    }

    /// Answers properly, over HTTP/1.1 with kept connections.
    pub async fn http<F>(answer: F) -> Server
    where
        F: Fn(hyper::Request<Incoming>) -> Page + Clone + Send + Sync + 'static,
    {
        Server::raw(move |_, stream| {
            let answer = answer.clone();
            let service = service_fn(move |request| {
                let page = answer(request);
                async move { Ok::<_, Infallible>(page) }
            });
            async move {
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            }
        })
        .await
    }

    pub fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// A configuration with short limits, under which every name below `.test` is this server.
    pub fn config(&self) -> FetchConfig {
        FetchConfig {
            overrides: vec![format!("*.test={}", self.address).parse().unwrap()],
            connect_timeout: Duration::from_secs(2),
            first_byte_timeout: Duration::from_secs(2),
            total_timeout: Duration::from_secs(5),
            ..FetchConfig::default()
        }
    }

    pub fn fetcher(&self) -> Fetcher {
        Fetcher::new(self.config()).unwrap()
    }
}

/// Reads up to the empty line that ends a request's head.
pub async fn read_request(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte).await {
            Ok(1) => head.push(byte[0]),
            _ => break,
        }
    }
    String::from_utf8_lossy(&head).into_owned()
}

pub fn page(status: u16, headers: &[(&str, &str)], body: impl Into<Bytes>) -> Page {
    let mut builder = hyper::Response::builder().status(status);
    for (name, value) in headers {
        builder = builder.header(*name, *value);
    }
    builder.body(Full::new(body.into())).unwrap()
}

pub fn get(url: &str) -> Request {
    Request::new(CanonicalUrl::parse(url).unwrap())
}
