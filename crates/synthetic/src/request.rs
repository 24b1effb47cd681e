//! Reads the head of a request: as a server is asked (`GET /path`) or as a proxy is (`GET http://host/path`).

use farol_base::Timestamp;

/// What of a request's head matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head<'a> {
    pub host: &'a str,
    pub path: &'a str,
    /// Only the head of the answer is wanted.
    pub head_only: bool,
    pub proxied: bool,
    pub keep_alive: bool,
    pub accepts_gzip: bool,
    pub if_none_match: Option<&'a str>,
    pub if_modified_since: Option<Timestamp>,
}

/// What the bytes so far are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reading<'a> {
    /// The start of a request.
    Partial,
    /// A request, and how many bytes it took.
    Whole(Head<'a>, usize),
    /// Nothing that is served: the status and the reason. The connection ends.
    Refused(u16, &'static str),
}

/// Longest head that is read.
pub const HEAD_BYTES_MAX: usize = 16 << 10;

/// Reads the head at the start of these bytes.
pub fn read_head(bytes: &[u8]) -> Reading<'_> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut request = httparse::Request::new(&mut headers);
    let taken = match request.parse(bytes) {
        Ok(httparse::Status::Complete(taken)) => taken,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Reading::Partial,
        Ok(httparse::Status::Partial) => return Reading::Refused(431, "The request's head is too long."),
        Err(_) => return Reading::Refused(400, "This is not HTTP/1.1."),
    };
    let head_only = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        Some("CONNECT") => {
            return Reading::Refused(
                405,
                "This proxy speaks plain http only; there is nothing to CONNECT to.",
            );
        }
        _ => return Reading::Refused(405, "Only GET and HEAD are served."),
    };
    let target = request.path.unwrap_or("/");
    let http_11 = request.version == Some(1);
    let mut head = Head {
        host: "",
        path: target,
        head_only,
        proxied: false,
        keep_alive: http_11,
        accepts_gzip: false,
        if_none_match: None,
        if_modified_since: None,
    };
    for header in request.headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or("").trim();
        let named = |name: &str| header.name.eq_ignore_ascii_case(name);
        // Compared by length first: this runs for every header of every request.
        match header.name.len() {
            4 if named("host") => head.host = value,
            10 if named("connection") => {
                let says = |word: &str| value.split(',').any(|part| part.trim().eq_ignore_ascii_case(word));
                head.keep_alive = if http_11 { !says("close") } else { says("keep-alive") };
            }
            13 if named("if-none-match") => head.if_none_match = Some(value),
            14 if named("content-length") && value != "0" => {
                return Reading::Refused(413, "Requests with a body are not served.");
            }
            15 if named("accept-encoding") => head.accepts_gzip = value.contains("gzip"),
            17 if named("if-modified-since") => head.if_modified_since = Timestamp::parse(value),
            17 if named("transfer-encoding") => {
                return Reading::Refused(413, "Requests with a body are not served.");
            }
            _ => {}
        }
    }
    if !target.starts_with('/') {
        let Some(rest) = target.strip_prefix("http://") else {
            return Reading::Refused(501, "This proxy speaks plain http only.");
        };
        let (host, path) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        head.proxied = true;
        head.host = host;
        head.path = if path.starts_with('/') { path } else { "/" };
    }
    Reading::Whole(head, taken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(text: &str) -> Head<'_> {
        match read_head(text.as_bytes()) {
            Reading::Whole(head, taken) => {
                assert_eq!(taken, text.len());
                head
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn requests_to_servers_and_to_proxies() {
        let direct = head("GET /a?b HTTP/1.1\r\nHost: h:81\r\nAccept-Encoding: br, gzip\r\n\r\n");
        assert_eq!((direct.host, direct.path, direct.proxied), ("h:81", "/a?b", false));
        assert!(direct.keep_alive && direct.accepts_gzip && !direct.head_only);
        let proxied = head("GET http://h/a HTTP/1.1\r\nHost: other\r\nConnection: close\r\n\r\n");
        assert_eq!((proxied.host, proxied.path, proxied.proxied), ("h", "/a", true));
        assert!(!proxied.keep_alive);
        assert_eq!(head("GET http://h HTTP/1.1\r\n\r\n").path, "/");
        assert!(!head("GET / HTTP/1.0\r\n\r\n").keep_alive);
        assert!(head("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").keep_alive);
        let since = head(
            "HEAD / HTTP/1.1\r\nIf-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\nIf-None-Match: \"x\"\r\n\r\n",
        );
        assert_eq!(since.if_modified_since.map(Timestamp::as_secs), Some(784_111_777));
        assert_eq!((since.if_none_match, since.head_only), (Some("\"x\""), true));
    }

    #[test]
    fn what_is_not_served_says_why() {
        let check = |text: &str, want: u16| match read_head(text.as_bytes()) {
            Reading::Refused(status, _) => assert_eq!(status, want, "{text}"),
            other => panic!("{text} is {other:?}"),
        };
        check("CONNECT h:443 HTTP/1.1\r\n\r\n", 405);
        check("POST / HTTP/1.1\r\n\r\n", 405);
        check("GET / HTTP/1.1\r\nContent-Length: 5\r\n\r\n", 413);
        check("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 413);
        check("GET https://h/ HTTP/1.1\r\n\r\n", 501);
        check("\x16\x03\x01 hello\r\n\r\n", 400);
        check(&format!("GET /{} HTTP/1.1\r\n", "a".repeat(HEAD_BYTES_MAX)), 431);
        assert_eq!(read_head(b"GET / HT"), Reading::Partial);
        assert_eq!(read_head(b""), Reading::Partial);
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read_head(&bytes);
        }

        #[test]
        fn no_target_breaks_it(target in "[!-~]{1,60}") {
            let text = format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n");
            if let Reading::Whole(head, _) = read_head(text.as_bytes()) {
                prop_assert!(head.path.starts_with('/'));
            }
        }
    }
}
