//! Servers that mean well.

use crate::server::{Page, Server, get, page, read_request};
use farol_base::Truncated;
use farol_fetch::{FetchConfig, Fetcher};
use hyper::body::Incoming;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn a_page_arrives_with_all_that_is_known_about_it() {
    let server =
        Server::http(|_| page(200, &[("content-type", "text/html"), ("x-twice", "1")], "<p>olá")).await;
    let fetcher = server.fetcher();
    let first = fetcher.get(get("http://h.test/a?b=c")).await.unwrap();
    assert_eq!((first.status, &first.body[..], first.truncated), (200, "<p>olá".as_bytes(), None));
    assert_eq!((first.protocol, first.address), ("http/1.1", server.address));
    assert!(first.connect.is_some() && first.first_byte <= first.total);
    let asked = String::from_utf8(first.request_head).unwrap();
    assert!(asked.starts_with("GET /a?b=c HTTP/1.1\r\nHost: h.test\r\nUser-Agent: farol/"), "{asked}");
    assert!(asked.ends_with("\r\n\r\n"));
    let answered = String::from_utf8(first.response_head).unwrap();
    assert!(answered.starts_with("HTTP/1.1 200 OK\r\n"), "{answered}");
    assert!(answered.contains("\r\nContent-Type: text/html\r\n"), "{answered}");
    assert!(answered.contains("\r\nX-Archive-Orig-Content-Length: 7\r\n"), "{answered}");
    assert!(answered.ends_with("\r\nContent-Length: 7\r\n\r\n"), "{answered}");

    let second = fetcher.get(get("http://h.test/")).await.unwrap();
    assert!(second.connect.is_none(), "the connection was kept");
    let other = fetcher.get(get("http://g.test/")).await.unwrap();
    assert!(other.connect.is_some(), "another host has its own");
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn an_unchanged_page_is_not_sent_again() {
    let server = Server::http(|request| {
        let has = |name, value| request.headers().get(name).is_some_and(|v| v == value);
        if has("if-none-match", "\"v1\"") && has("if-modified-since", "Mon, 06 May 2024 07:08:09 GMT") {
            return page(304, &[("etag", "\"v1\"")], "");
        }
        page(200, &[("etag", "\"v1\"")], "page")
    })
    .await;
    let fetcher = server.fetcher();
    let mut request = get("http://h.test/");
    let first = String::from_utf8(fetcher.get(request.clone()).await.unwrap().response_head).unwrap();
    request.etag = first.lines().find_map(|line| line.strip_prefix("Etag: ")).map(str::to_string);
    request.last_modified = Some("Mon, 06 May 2024 07:08:09 GMT".to_string());
    for _ in 0..2 {
        let again = fetcher.get(request.clone()).await.unwrap();
        assert_eq!((again.status, again.body.len(), again.truncated), (304, 0, None));
    }
    assert_eq!(server.accepted(), 1);
}

const TEXT: &str = "uma página que se repete, ";

fn compressed(request: hyper::Request<Incoming>) -> Page {
    let plain = TEXT.repeat(1000);
    match request.uri().path() {
        "/gzip" => {
            let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            encoder.write_all(plain.as_bytes()).unwrap();
            page(200, &[("content-encoding", "gzip")], encoder.finish().unwrap())
        }
        "/br" => {
            let mut out = Vec::new();
            brotli::CompressorWriter::new(&mut out, 4096, 3, 20).write_all(plain.as_bytes()).unwrap();
            page(200, &[("content-encoding", "br")], out)
        }
        "/zstd" => page(200, &[("content-encoding", "zstd")], zstd::encode_all(plain.as_bytes(), 1).unwrap()),
        "/unknown" => page(200, &[("content-encoding", "sdch")], plain),
        _ => page(200, &[], plain),
    }
}

#[tokio::test]
async fn bodies_are_decompressed() {
    let server = Server::http(compressed).await;
    let fetcher = server.fetcher();
    for (path, decoded) in
        [("gzip", true), ("br", true), ("zstd", true), ("unknown", false), ("plain", false)]
    {
        let response = fetcher.get(get(&format!("http://h.test/{path}"))).await.unwrap();
        assert_eq!(response.body, TEXT.repeat(1000), "{path}");
        assert_eq!(response.truncated, None, "{path}");
        let head = String::from_utf8(response.response_head).unwrap();
        assert_eq!(head.contains("X-Archive-Orig-Content-Encoding"), decoded, "{head}");
        assert!(head.ends_with(&format!("Content-Length: {}\r\n\r\n", response.body.len())), "{head}");
    }
    assert_eq!(server.accepted(), 1, "every body was read to its end");
}

#[tokio::test]
async fn a_body_longer_than_its_limit_is_cut() {
    let server = Server::http(compressed).await;
    let fetcher = server.fetcher();
    for path in ["gzip", "br", "zstd", "plain"] {
        let mut request = get(&format!("http://h.test/{path}"));
        request.body_bytes_max = Some(100);
        let response = fetcher.get(request).await.unwrap();
        let kept = response.body.len();
        assert_eq!(response.truncated, Some(Truncated::Length), "{path}");
        // A compressed body longer than the limit may be cut before anything is decoded.
        assert!(kept == 100 || (path != "plain" && kept < 100), "{path} {kept}");
    }
}

#[tokio::test]
async fn redirects_are_answers() {
    let server = Server::http(|request| {
        let location = match request.uri().path() {
            "/relative" => "../there?x#top",
            "/elsewhere" => "https://g.test/",
            "/nowhere" => "javascript:alert(1)",
            _ => return page(200, &[("location", "/ignored")], "end"),
        };
        page(301, &[("location", location)], "moved")
    })
    .await;
    let fetcher = server.fetcher();
    for (path, want) in [
        ("/a/relative", None),
        ("/relative", Some("http://h.test/there?x")),
        ("/elsewhere", Some("https://g.test/")),
        ("/nowhere", None),
    ] {
        let response = fetcher.get(get(&format!("http://h.test{path}"))).await.unwrap();
        assert_eq!(response.location.as_ref().map(|url| url.as_str()), want, "{path}");
    }
}

#[tokio::test]
async fn a_server_can_ask_to_be_left_alone() {
    let server = Server::http(|_| page(503, &[("retry-after", "120")], "")).await;
    let response = server.fetcher().get(get("http://h.test/")).await.unwrap();
    assert_eq!((response.status, response.retry_after), (503, Some(Duration::from_secs(120))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_asked_one_thing_at_a_time() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let counters = (now.clone(), most.clone());
    let server = Server::raw(move |_, mut stream| {
        let (now, most) = counters.clone();
        async move {
            while !read_request(&mut stream).await.is_empty() {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                tokio::time::sleep(Duration::from_millis(5)).await;
                now.fetch_sub(1, Ordering::SeqCst);
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
            }
        }
    })
    .await;
    let fetcher = server.fetcher();
    let tasks: Vec<_> = (0..20)
        .map(|i| {
            let fetcher = fetcher.clone();
            tokio::spawn(async move { fetcher.get(get(&format!("http://h.test/{i}"))).await.unwrap().status })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap(), 200);
    }
    assert_eq!((most.load(Ordering::SeqCst), server.accepted()), (1, 1));
}

#[tokio::test]
async fn the_leased_address_is_the_one_asked() {
    let server = Server::http(|_| page(200, &[], "")).await;
    let config = FetchConfig { allow_private: true, overrides: Vec::new(), ..server.config() };
    let fetcher = Fetcher::new(config).unwrap();
    let mut request = get(&format!("http://h.test:{}/", server.address.port()));
    request.address = Some(server.address.ip());
    assert_eq!(fetcher.get(request.clone()).await.unwrap().address, server.address);
    // The kept connection goes to another address than the one leased now, so it is not used.
    request.address = Some("127.0.0.2".parse().unwrap());
    let refused = fetcher.get(request).await.unwrap_err();
    assert_eq!((refused.kind(), refused.is_transient()), ("connect", true));
}

#[tokio::test]
async fn nothing_private_is_asked_unless_allowed() {
    let server = Server::http(|_| page(200, &[], "")).await;
    let fetcher = Fetcher::new(FetchConfig { overrides: Vec::new(), ..server.config() }).unwrap();
    let error = fetcher.get(get(&format!("http://{}/", server.address))).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), ("guard", false));
    let text = error.to_string();
    assert!(text.ends_with("has address 127.0.0.1, which is loopback, not on the public Web"), "{text}");
    assert_eq!(server.accepted(), 0);
}

#[tokio::test]
async fn idle_connections_are_closed_after_a_time() {
    let ended = Arc::new(AtomicUsize::new(0));
    let count = ended.clone();
    let server = Server::raw(move |_, mut stream| {
        let count = count.clone();
        async move {
            while !read_request(&mut stream).await.is_empty() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
            }
            count.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    let config = FetchConfig { idle_timeout: Duration::from_millis(100), ..server.config() };
    let fetcher = Fetcher::new(config).unwrap();
    for i in 0..5 {
        fetcher.get(get(&format!("http://h{i}.test/"))).await.unwrap();
    }
    for _ in 0..100 {
        if ended.load(Ordering::SeqCst) == 5 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{} of 5 connections were closed", ended.load(Ordering::SeqCst));
}
