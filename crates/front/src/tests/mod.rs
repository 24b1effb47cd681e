//! The whole router, driven without a socket, over the made-up engine.

mod access;
mod cluster;
mod documents;
mod federation;
mod limits;
mod openapi;
mod safety;

use crate::fake::Fake;
use crate::{Settings, build};
use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use std::net::SocketAddr;
use std::sync::Arc;
use tower::ServiceExt;

/// The operator's.
const TOKEN: &str = "right";

/// A front over a made-up engine.
struct Site {
    router: Router,
    fake: Arc<Fake>,
}

impl Site {
    fn new(settings: Settings) -> Site {
        Site::over(Fake::default(), settings)
    }

    fn over(fake: Fake, settings: Settings) -> Site {
        let admin_token = settings.admin_token.or(Some(TOKEN.into()));
        Site::as_set(fake, Settings { admin_token, names: vec!["search.example.org".into()], ..settings })
    }

    /// With these settings and no others.
    fn as_set(fake: Fake, settings: Settings) -> Site {
        let fake = Arc::new(fake);
        Site { router: build(fake.clone(), settings).0, fake }
    }

    /// Asks as a stranger from the Internet.
    async fn get(&self, path: &str) -> Got {
        Ask::get(path).send(self).await
    }
}

/// A request in the making.
struct Ask {
    method: Method,
    path: String,
    peer: String,
    headers: Vec<(String, String)>,
    body: String,
}

impl Ask {
    fn new(method: Method, path: &str) -> Ask {
        let headers = vec![("host".into(), "search.example.org".into())];
        Ask { method, path: path.into(), peer: "203.0.113.9".into(), headers, body: String::new() }
    }

    fn get(path: &str) -> Ask {
        Ask::new(Method::GET, path)
    }

    /// A form, filled in.
    fn form(path: &str, body: &str) -> Ask {
        let ask = Ask { body: body.into(), ..Ask::new(Method::POST, path) };
        ask.with("content-type", "application/x-www-form-urlencoded")
    }

    fn json(path: &str, body: &str) -> Ask {
        Ask { body: body.into(), ..Ask::new(Method::POST, path) }.with("content-type", "application/json")
    }

    /// By the operator, at the machine itself.
    fn admin(self) -> Ask {
        let ask = self.with("host", "localhost:8080").with("authorization", &format!("Bearer {TOKEN}"));
        Ask { peer: "127.0.0.1".into(), ..ask }
    }

    fn from(self, peer: &str) -> Ask {
        Ask { peer: peer.into(), ..self }
    }

    fn with(mut self, name: &str, value: &str) -> Ask {
        self.headers.retain(|(header, _)| header != name);
        self.headers.push((name.into(), value.into()));
        self
    }

    async fn send(self, site: &Site) -> Got {
        let mut request = Request::builder().method(self.method).uri(&self.path);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        let mut request = request.body(Body::from(self.body)).unwrap();
        if let Ok(ip) = self.peer.parse() {
            request.extensions_mut().insert(ConnectInfo(SocketAddr::new(ip, 4321)));
        }
        let response = site.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        Got {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8_lossy(&body).into_owned(),
        }
    }
}

/// A response, read to its end.
struct Got {
    status: StatusCode,
    headers: HeaderMap,
    body: String,
}

impl Got {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("")
    }

    #[track_caller]
    fn says(&self, text: &str) -> &Got {
        assert!(self.body.contains(text), "{text:?} is not in:\n{}", self.body);
        self
    }

    #[track_caller]
    fn lacks(&self, text: &str) -> &Got {
        assert!(!self.body.contains(text), "{text:?} is in:\n{}", self.body);
        self
    }

    #[track_caller]
    fn is(&self, status: u16) -> &Got {
        assert_eq!(self.status.as_u16(), status, "{}", self.body);
        self
    }

    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap()
    }
}
