//! What is asked for, and how the question is written.

use crate::{Error, FetchConfig, FetchError};
use bytes::Bytes;
use farol_base::CanonicalUrl;
use http_body_util::Empty;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, Uri, Version};
use std::net::IpAddr;

/// Pages that can be read first, anything else after; servers that choose by it send HTML.
const ACCEPT: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,text/plain;q=0.9,application/rss+xml;q=0.9,*/*;q=0.5";
const ACCEPT_ENCODING: &str = "gzip, br, zstd";

/// A page to fetch.
#[derive(Clone, Debug)]
pub struct Request {
    /// The page.
    pub url: CanonicalUrl,
    /// The `ETag` of the copy at hand: the answer is 304 if the page still has it.
    pub etag: Option<String>,
    /// The `Last-Modified` of the copy at hand, likewise.
    pub last_modified: Option<String>,
    /// Most bytes of the body, where it differs from [`FetchConfig::body_bytes_max`].
    pub body_bytes_max: Option<u64>,
    /// The one address to ask, as [`crate::Fetcher::resolve`] gave it; judged by the guard all the same.
    /// `None` means any address of the host.
    pub address: Option<IpAddr>,
}

impl Request {
    /// Asks for a page without conditions.
    pub fn new(url: CanonicalUrl) -> Request {
        Request { url, etag: None, last_modified: None, body_bytes_max: None, address: None }
    }
}

/// The header lines that every request carries.
pub(crate) struct Template {
    lines: Vec<(HeaderName, &'static str, HeaderValue)>,
}

pub(crate) type RequestBody = Empty<Bytes>;

impl Template {
    pub fn new(config: &FetchConfig) -> Result<Template, Error> {
        let mut lines = Vec::new();
        let mut add = |name: HeaderName, title: &'static str, value: &str| {
            let header = HeaderValue::from_str(value)
                .ok()
                .filter(|_| value.bytes().all(|b| (0x20..0x7f).contains(&b)))
                .ok_or(Error::Header { header: title, value: value.chars().take(200).collect() })?;
            lines.push((name, title, header));
            Ok::<(), Error>(())
        };
        add(header::USER_AGENT, "User-Agent", &config.user_agent)?;
        if let Some(from) = &config.from {
            add(header::FROM, "From", from)?;
        }
        add(header::ACCEPT, "Accept", ACCEPT)?;
        add(header::ACCEPT_ENCODING, "Accept-Encoding", ACCEPT_ENCODING)?;
        if let Some(languages) = &config.accept_language {
            add(header::ACCEPT_LANGUAGE, "Accept-Language", languages)?;
        }
        Ok(Template { lines })
    }

    /// Writes a request twice: for the connection, and as text for an archive.
    pub fn write(
        &self,
        request: &Request,
        version: Version,
    ) -> Result<(hyper::Request<RequestBody>, Vec<u8>), FetchError> {
        let unsendable = || FetchError::Unsendable { url: request.url.clone() };
        let host = request.url.host();
        let target = request_target(request.url.path_and_query());
        let mut map = HeaderMap::with_capacity(self.lines.len() + 4);
        let mut head = Vec::with_capacity(512);
        head.extend_from_slice(format!("GET {target} HTTP/1.1\r\n").as_bytes());
        let mut add = |name: HeaderName, title: &str, value: HeaderValue, sent: bool| {
            for part in [title.as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
                head.extend_from_slice(part);
            }
            if sent {
                map.insert(name, value);
            }
        };
        let authority = HeaderValue::from_str(host.authority()).map_err(|_| unsendable())?;
        // HTTP/2 says the host in a pseudo-header of its own.
        add(header::HOST, "Host", authority, version != Version::HTTP_2);
        for (name, title, value) in &self.lines {
            add(name.clone(), title, value.clone(), true);
        }
        // What a server once sent can be anything; what cannot be sent back is left out.
        let stored = |value: &Option<String>| {
            value.as_deref().filter(|v| v.len() <= 1024).and_then(|v| HeaderValue::from_str(v).ok())
        };
        if let Some(etag) = stored(&request.etag) {
            add(header::IF_NONE_MATCH, "If-None-Match", etag, true);
        }
        if let Some(date) = stored(&request.last_modified) {
            add(header::IF_MODIFIED_SINCE, "If-Modified-Since", date, true);
        }
        head.extend_from_slice(b"\r\n");
        let uri = match version {
            Version::HTTP_2 => format!("{host}{target}").parse::<Uri>(),
            _ => target.parse::<Uri>(),
        };
        let mut out = hyper::Request::new(RequestBody::new());
        *out.method_mut() = Method::GET;
        *out.uri_mut() = uri.map_err(|_| unsendable())?;
        *out.headers_mut() = map;
        Ok((out, head))
    }
}

/// Path and query with everything escaped that has no place in a request line.
fn request_target(path_and_query: &str) -> String {
    let mut target = String::with_capacity(path_and_query.len());
    for byte in path_and_query.bytes() {
        match byte {
            0x21..=0x7e if !matches!(byte, b'"' | b'<' | b'>' | b'`' | b'{' | b'}' | b'#') => {
                target.push(byte as char)
            }
            _ => target.push_str(&format!("%{byte:02X}")),
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(config: &FetchConfig, request: &Request) -> String {
        let (_, head) = Template::new(config).unwrap().write(request, Version::HTTP_11).unwrap();
        String::from_utf8(head).unwrap()
    }

    fn config() -> FetchConfig {
        FetchConfig {
            user_agent: "farol/1 (+https://h.test/bot)".to_string(),
            from: Some("bot@h.test".to_string()),
            accept_language: Some("pt, es;q=0.8".to_string()),
            ..FetchConfig::default()
        }
    }

    #[test]
    fn a_request_says_who_asks_and_for_what() {
        let mut request = Request::new(CanonicalUrl::parse("http://h.test:81/a?b=c").unwrap());
        request.etag = Some("W/\"1\"".to_string());
        request.last_modified = Some("Mon, 06 May 2024 07:08:09 GMT".to_string());
        assert_eq!(
            head(&config(), &request),
            format!(
                "GET /a?b=c HTTP/1.1\r\nHost: h.test:81\r\nUser-Agent: farol/1 (+https://h.test/bot)\r\n\
                 From: bot@h.test\r\nAccept: {ACCEPT}\r\nAccept-Encoding: gzip, br, zstd\r\n\
                 Accept-Language: pt, es;q=0.8\r\nIf-None-Match: W/\"1\"\r\n\
                 If-Modified-Since: Mon, 06 May 2024 07:08:09 GMT\r\n\r\n"
            )
        );
    }

    #[test]
    fn nothing_can_be_smuggled_into_a_request() {
        let mut request = Request::new(CanonicalUrl::parse("http://h.test/").unwrap());
        request.etag = Some("\"1\"\r\nX-Evil: 1".to_string());
        request.last_modified = Some("\n".to_string());
        let text = head(&config(), &request);
        assert!(!text.contains("Evil") && !text.contains("If-"), "{text}");
        let bad = FetchConfig { user_agent: "a\r\nb".to_string(), ..FetchConfig::default() };
        assert!(matches!(Template::new(&bad), Err(Error::Header { header: "User-Agent", .. })));
    }

    #[test]
    fn odd_paths_can_be_asked_for() {
        let check = |url: &str, want: &str| {
            let request = Request::new(CanonicalUrl::parse(url).unwrap());
            let (out, _) = Template::new(&config()).unwrap().write(&request, Version::HTTP_11).unwrap();
            assert_eq!(out.uri().to_string(), want);
        };
        check("http://h/a|b^c[d]", "/a|b^c[d]");
        check("http://h/?q={x}`\"", "/?q=%7Bx%7D%60%22");
        check("http://h//double//slash", "//double//slash");
        check("http://h/*", "/*");
    }

    #[test]
    fn http2_names_the_whole_url() {
        let request = Request::new(CanonicalUrl::parse("https://h.test:444/a").unwrap());
        let (out, _) = Template::new(&config()).unwrap().write(&request, Version::HTTP_2).unwrap();
        assert_eq!(out.uri().to_string(), "https://h.test:444/a");
        assert!(!out.headers().contains_key("host"));
    }
}
