//! Calls other engines, over connections that are kept.
//!
//! INVARIANT: the address that is connected to passes `farol_fetch::guard`, as a page's does: a card cannot lead into the
//! network of whoever reads it.

use super::tls::{TlsIdentity, engine_of};
use anyhow::{Context as _, Result, bail, ensure};
use bytes::Bytes;
use farol_base::sync::Mutex;
use farol_federation::agreement::EngineId;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{HOST, HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

const CONNECT_MAX: Duration = Duration::from_secs(10);
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Longest answer that is read: a packet.
const ANSWER_BYTES_MAX: usize = 16 << 20;
const PING: Duration = Duration::from_secs(20);
/// Engines to which connections are kept.
const LINES_MAX: usize = 256;

/// Where an engine is, and how one knows that it is the right one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EngineAddress {
    /// `https://HOST[:PORT]`.
    pub url: String,
    /// Its key; `None` to learn it.
    pub engine: Option<EngineId>,
    pub behind_proxy: bool,
}

/// An answer of another engine.
pub struct CallReply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Whose certificate the connection showed.
    pub end: Option<EngineId>,
}

/// Calls engines; clones share connections.
#[derive(Clone)]
pub struct EngineCalls(Arc<CallsState>);

/// A connection, and who is at its other end.
type OpenLine = (http2::SendRequest<Full<Bytes>>, Option<EngineId>);

struct CallsState {
    identity: TlsIdentity,
    allow_private: bool,
    lines: Mutex<HashMap<EngineAddress, OpenLine>>,
}

/// What an address is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EngineUrl {
    pub host: String,
    pub port: u16,
    pub is_plain: bool,
}

/// Reads the address of an engine.
pub fn read_address(text: &str) -> Result<EngineUrl> {
    let wrong = || format!("{text:?} is no address of an engine; write it as https://HOST:PORT");
    let whole = if text.contains("://") { text.to_string() } else { format!("https://{text}") };
    let uri: Uri = whole.parse().with_context(wrong)?;
    let authority = uri.authority().with_context(wrong)?;
    ensure!(!authority.as_str().contains('@') && uri.path().trim_matches('/').is_empty(), wrong());
    let is_plain = match uri.scheme_str() {
        Some("https") => false,
        Some("http") => true,
        _ => bail!(wrong()),
    };
    let host = authority.host().trim_matches(['[', ']']).to_string();
    let port = authority.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
    Ok(EngineUrl { host, port, is_plain })
}

impl EngineCalls {
    pub fn new(identity: TlsIdentity, allow_private: bool) -> EngineCalls {
        EngineCalls(Arc::new(CallsState { identity, allow_private, lines: Mutex::default() }))
    }

    /// Asks an engine. `path` begins with `/federation/v1/`.
    pub async fn call(
        &self,
        to: &EngineAddress,
        method: Method,
        path: &str,
        headers: &[(HeaderName, String)],
        body: Bytes,
    ) -> Result<CallReply> {
        let url = read_address(&to.url)?;
        let authority = if url.host.contains(':') {
            format!("[{}]:{}", url.host, url.port)
        } else {
            format!("{}:{}", url.host, url.port)
        };
        let scheme = if url.is_plain { "http" } else { "https" };
        let mut request = Request::builder()
            .method(method)
            .uri(format!("{scheme}://{authority}{path}"))
            .body(Full::new(body))
            .context("the request cannot be made")?;
        for (name, value) in headers {
            let value = HeaderValue::from_str(value).context("a header cannot be written")?;
            request.headers_mut().insert(name.clone(), value);
        }
        let known = self.0.lines.lock().get(to).filter(|(line, _)| !line.is_closed()).cloned();
        let work = async {
            if let Some((mut line, end)) = known {
                return answered(line.send_request(request).await?, end).await;
            }
            match self.connect(to, &url).await? {
                (EngineLine::Http2(mut line), end) => {
                    self.keep(to, (line.clone(), end));
                    answered(line.send_request(request).await?, end).await
                }
                (EngineLine::Http1(mut line), end) => {
                    request.headers_mut().insert(HOST, HeaderValue::from_str(&authority)?);
                    *request.uri_mut() = path.parse()?;
                    answered(line.send_request(request).await?, end).await
                }
            }
        };
        let done = match tokio::time::timeout(ANSWER_MAX, work).await {
            Ok(done) => done,
            Err(_) => Err(anyhow::anyhow!("no answer within {} s", ANSWER_MAX.as_secs())),
        };
        if done.is_err() {
            self.0.lines.lock().remove(to);
        }
        done.with_context(|| format!("{} cannot be asked", to.url))
    }

    fn keep(&self, to: &EngineAddress, line: (http2::SendRequest<Full<Bytes>>, Option<EngineId>)) {
        let mut lines = self.0.lines.lock();
        if lines.len() >= LINES_MAX {
            lines.clear();
        }
        lines.insert(to.clone(), line);
    }

    async fn connect(&self, to: &EngineAddress, url: &EngineUrl) -> Result<(EngineLine, Option<EngineId>)> {
        let addresses = self.resolve(url).await?;
        let connecting = async {
            let mut last = None;
            for address in addresses {
                match TcpStream::connect(address).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = Some(error),
                }
            }
            Err(last.map_or_else(|| anyhow::anyhow!("it has no address"), anyhow::Error::from))
        };
        let stream =
            tokio::time::timeout(CONNECT_MAX, connecting).await.context("no connection in time")??;
        stream.set_nodelay(true)?;
        if url.is_plain {
            ensure!(
                to.behind_proxy,
                "an engine is asked over https; http is for proxies on the same machine"
            );
            ensure!(
                stream.peer_addr()?.ip().is_loopback(),
                "http is for proxies on the same machine; use https"
            );
            return Ok((speak_http1(stream).await?, None));
        }
        let config = match to.behind_proxy {
            true => self.0.identity.web_client()?,
            false => self.0.identity.client(to.engine)?,
        };
        let name = ServerName::try_from(url.host.clone()).context("the host's name cannot be one")?;
        let handshake = TlsConnector::from(config).connect(name, stream);
        let stream = tokio::time::timeout(CONNECT_MAX, handshake)
            .await
            .context("no TLS handshake in time")?
            .map_err(|error| match to.engine {
                Some(engine) if error.to_string().contains("ApplicationVerificationFailure") => {
                    anyhow::anyhow!(
                        "whoever answers there is not {engine}: its certificate is of another key"
                    )
                }
                _ => error.into(),
            })?;
        let connection = stream.get_ref().1;
        let end = match to.behind_proxy {
            true => None,
            false => connection.peer_certificates().and_then(|chain| chain.first()).and_then(engine_of),
        };
        let line = match connection.alpn_protocol() == Some(b"h2") {
            true => speak_http2(stream).await?,
            false => speak_http1(stream).await?,
        };
        Ok((line, end))
    }

    /// Looks a name up; each of its addresses must be one that may be asked.
    async fn resolve(&self, url: &EngineUrl) -> Result<Vec<SocketAddr>> {
        ensure!(!farol_fetch::guard::is_for_others(url.port), "port {} is another protocol's", url.port);
        let found = tokio::net::lookup_host((url.host.as_str(), url.port));
        let found: Vec<SocketAddr> = tokio::time::timeout(CONNECT_MAX, found)
            .await
            .context("its name was not found in time")?
            .with_context(|| format!("{} was not found", url.host))?
            .collect();
        for address in &found {
            if let Err(reason) = farol_fetch::guard::verdict(address.ip())
                && !(self.0.allow_private && reason.is_local())
            {
                bail!(
                    "{} is at {}, an address that is {reason}; set crawl.allow_private = true if that is meant",
                    url.host,
                    address.ip()
                );
            }
        }
        Ok(found)
    }
}

enum EngineLine {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

async fn speak_http2<S>(stream: S) -> Result<EngineLine>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (line, connection) = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PING)
        .handshake(TokioIo::new(stream))
        .await?;
    tokio::spawn(connection);
    Ok(EngineLine::Http2(line))
}

async fn speak_http1<S>(stream: S) -> Result<EngineLine>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (line, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(EngineLine::Http1(line))
}

async fn answered(response: Response<Incoming>, end: Option<EngineId>) -> Result<CallReply> {
    let (head, body) = response.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| anyhow::anyhow!("the answer cannot be read: {error}"))?.to_bytes();
    Ok(CallReply { status: head.status, headers: head.headers, body, end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::federation::door::{self, Asked, Reply};
    use crate::federation::key::EngineKey;

    #[test]
    fn an_address_is_read_or_refused() {
        let url = |host: &str, port, is_plain| EngineUrl { host: host.to_string(), port, is_plain };
        assert_eq!(read_address("https://a.example:8090").unwrap(), url("a.example", 8090, false));
        assert_eq!(read_address("a.example/").unwrap(), url("a.example", 443, false));
        assert_eq!(read_address("http://[::1]:80").unwrap(), url("::1", 80, true));
        for wrong in ["", "ftp://a", "https://a/path", "https://u@a", "https://"] {
            assert!(read_address(wrong).is_err(), "{wrong}");
        }
    }

    #[tokio::test]
    async fn engines_know_each_other_by_their_keys() {
        let keys = [1, 2, 3].map(|seed| EngineKey::of_seed([seed; 32]).unwrap());
        let identities = keys.each_ref().map(|key| TlsIdentity::of(key).unwrap());
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        let answering: door::Answering = Arc::new(|asked: Asked| {
            Box::pin(async move {
                let end = asked.end.map_or("nobody".to_string(), |end| end.to_string());
                Reply::text(StatusCode::OK, format!("{} {} {end}", asked.path, asked.body.len()))
            })
        });
        let refused = Arc::new(Mutex::new(Vec::new()));
        let counting: door::Counting = {
            let refused = refused.clone();
            Arc::new(move |why| refused.lock().push(why))
        };
        door::open(listener, Some(identities[0].server().unwrap()), answering, counting);
        let [_, second, _] = identities;
        let calls = EngineCalls::new(second, true);
        let to = |engine| EngineAddress { url: url.clone(), engine, behind_proxy: false };
        let call = |to: EngineAddress, path: &'static str, body: Vec<u8>| {
            let calls = calls.clone();
            async move { calls.call(&to, Method::POST, path, &[], body.into()).await }
        };
        // Whoever answers is learnt; then that is who must answer.
        let reply = call(to(None), "/federation/v1/card", Vec::new()).await.unwrap();
        assert_eq!(reply.end, Some(keys[0].id()));
        assert_eq!(reply.body, format!("card 0 {}", keys[1].id()).as_bytes());
        let reply = call(to(Some(keys[0].id())), "/federation/v1/x", vec![0; 1 << 20]).await.unwrap();
        assert!(reply.body.starts_with(b"x 1048576 farol:"));
        let other = call(to(Some(keys[2].id())), "/federation/v1/x", Vec::new()).await.err().unwrap();
        assert!(format!("{other:#}").contains("certificate is of another key"), "{other:#}");
        let large = call(to(None), "/federation/v1/x", vec![0; 2 << 20]).await;
        assert!(large.is_err() || large.is_ok_and(|reply| reply.status == StatusCode::PAYLOAD_TOO_LARGE));
        assert_eq!(*refused.lock(), ["door_too_large"]);
        let elsewhere = call(to(None), "/x", Vec::new()).await.unwrap();
        assert_eq!(elsewhere.status, StatusCode::NOT_FOUND);
        // A card that leads into our own network leads nowhere.
        let guarded = EngineCalls::new(TlsIdentity::of(&keys[2]).unwrap(), false);
        let refused = guarded.call(&to(None), Method::GET, "/federation/v1/card", &[], Bytes::new()).await;
        assert!(format!("{:#}", refused.err().unwrap()).contains("loopback"));
    }
}
