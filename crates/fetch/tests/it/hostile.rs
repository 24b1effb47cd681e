//! Servers that are broken, or wish us ill. None may stop, crash or fill the fetcher.

use crate::server::{Server, get, read_request};
use farol_base::Truncated;
use farol_fetch::{FetchConfig, Fetcher};
use proptest::prelude::*;
use std::time::{Duration, Instant};
use tokio::io::AsyncWriteExt;

type Want = Result<(u16, &'static str, Option<Truncated>), &'static str>;
type Seen = Result<(u16, String, Option<Truncated>), &'static str>;

/// What a client sees of a server that says these bytes and closes.
async fn seen(bytes: &[u8]) -> Seen {
    let server = Server::saying(bytes).await;
    match server.fetcher().get(get("http://h.test/")).await {
        Ok(r) => Ok((r.status, String::from_utf8_lossy(&r.body).into_owned(), r.truncated)),
        Err(error) => Err(error.kind()),
    }
}

#[track_caller]
fn check_seen(said: &str, seen: Seen, want: Want) {
    let want = want.map(|(status, body, truncated)| (status, body.to_string(), truncated));
    assert_eq!(seen, want, "{said:?}");
}

#[tokio::test]
async fn broken_answers() {
    let cut = Some(Truncated::Disconnect);
    let cases: &[(&str, Want)] = &[
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", Ok((200, "abc", None))),
        // The length promises more than comes, or less.
        ("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", Ok((200, "abc", cut))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nabc", Ok((200, "ab", None))),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", Err("protocol")),
        ("HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nabc", Err("protocol")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nabc", Err("protocol")),
        ("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551000\r\n\r\nabc", Ok((200, "abc", cut))),
        // No length: until the connection ends.
        ("HTTP/1.1 200 OK\r\n\r\nabc", Ok((200, "abc", None))),
        ("HTTP/1.0 200 OK\r\n\r\nabc", Ok((200, "abc", None))),
        // Chunks that are none, or end early.
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            Ok((200, "abc", None)),
        ),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nZZ\r\n", Ok((200, "abc", cut))),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", Ok((200, "abc", cut))),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nFFFFFFFFFFFFFFFFFF\r\n", Ok((200, "", cut))),
        ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n<html>", Ok((200, "", cut))),
        // Interim answers come first; a switch of protocols was not asked for.
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx", Ok((200, "x", None))),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Length: 1\r\n\r\nx",
            Ok((404, "x", None)),
        ),
        // These have no body, whatever they say.
        ("HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\nhello", Ok((204, "", None))),
        ("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\nhello", Ok((304, "", None))),
        // Unusual, yet readable.
        ("HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nx", Ok((200, "x", None))),
        ("HTTP/1.1 999 Request denied\r\nContent-Length: 1\r\n\r\nx", Ok((999, "x", None))),
        ("HTTP/1.1 200 OK\nContent-Length: 1\n\nx", Ok((200, "x", None))),
        ("HTTP/1.1 200 OK\r\nno colon here\r\nContent-Length: 1\r\n\r\nx", Ok((200, "x", None))),
        ("HTTP/1.1 200 OK\r\nX-Folded: a\r\n b\r\nContent-Length: 1\r\n\r\nx", Ok((200, "x", None))),
        ("HTTP/1.1 200 OK\r\nContent-Length : 1\r\n\r\nx", Ok((200, "x", None))),
        (
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",
            Ok((200, "plain", None)),
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x08xx",
            Ok((200, "\x1f\x08xx", None)),
        ),
        // No HTTP at all.
        ("", Err("closed")),
        ("HTTP/1.1 200 OK\r\nContent-", Err("closed")),
        ("HTTP/1.1 99 Too low\r\n\r\n", Err("protocol")),
        ("HTTP/1.1 abc\r\n\r\n", Err("protocol")),
        ("HTTP/9.9 200 OK\r\n\r\n", Err("protocol")),
        ("<html>no head</html>\r\n\r\n", Err("protocol")),
        ("SSH-2.0-OpenSSH_9.2\r\n\r\n", Err("protocol")),
    ];
    for (said, want) in cases {
        check_seen(said, seen(said.as_bytes()).await, *want);
    }
}

#[tokio::test]
async fn heads_that_are_too_large() {
    let long_line = format!("HTTP/1.1 200 OK\r\nX: {}\r\n\r\n", "x".repeat(70_000));
    check_seen("a long line", seen(long_line.as_bytes()).await, Err("head_too_large"));
    let many_lines = format!("HTTP/1.1 200 OK\r\n{}\r\n", "X: y\r\n".repeat(200));
    check_seen("many lines", seen(many_lines.as_bytes()).await, Err("head_too_large"));
    let endless = "X: y\r\n".repeat(50_000);
    check_seen(
        "endless",
        seen(format!("HTTP/1.1 200 OK\r\n{endless}").as_bytes()).await,
        Err("head_too_large"),
    );
}

#[tokio::test]
async fn header_bytes_that_are_no_text() {
    let mut said =
        b"HTTP/1.1 302 Found\r\nServer: caf\xe9\r\nLocation: /\xc3\xa9\xff\r\nContent-Length: 0\r\n\r\n"
            .to_vec();
    let response = Server::saying(said.clone()).await.fetcher().get(get("http://h.test/")).await.unwrap();
    let head = response.response_head;
    assert!(head.windows(16).any(|line| line == b"\r\nServer: caf\xe9\r\n"), "{}", head.escape_ascii());
    assert_eq!(response.location.unwrap().as_str(), "http://h.test/%C3%A9%EF%BF%BD");
    said.splice(..0, *b"HTTP/1.1 100 \x01\r\n\r\n");
    let _ = seen(&said).await;
}

#[tokio::test]
async fn a_damaged_compressed_body_keeps_what_came() {
    let mut gzip = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3];
    gzip.extend_from_slice(&[0, 3, 0, 0xfc, 0xff, b'a', b'b', b'c', 0xff, 0xff, 0xff, 0xff]);
    let mut said =
        format!("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n", gzip.len())
            .into_bytes();
    said.extend_from_slice(&gzip);
    check_seen("gzip", seen(&said).await, Ok((200, "abc", Some(Truncated::Disconnect))));
}

/// Sends `start`, then `drip` every 10 ms for ever.
async fn dripping(start: &'static str, drip: &'static str) -> Server {
    Server::raw(move |_, mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(start.as_bytes()).await;
        while stream.write_all(drip.as_bytes()).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await
}

fn impatient(server: &Server) -> FetchConfig {
    FetchConfig {
        first_byte_timeout: Duration::from_millis(150),
        total_timeout: Duration::from_secs(30),
        speed_window: Duration::from_millis(150),
        speed_min: 10_000,
        ..server.config()
    }
}

#[tokio::test]
async fn heads_that_never_end_are_given_up() {
    for (start, drip) in
        [("HTTP/1.1 200 OK\r\n", "X: y\r\n"), ("", "HTTP/1.1 100 Continue\r\n\r\n"), ("", ""), ("H", "")]
    {
        let server = dripping(start, drip).await;
        let began = Instant::now();
        let error = Fetcher::new(impatient(&server)).unwrap().get(get("http://h.test/")).await.unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(2), "{start:?} took {:?}", began.elapsed());
        assert!(matches!(error.kind(), "timeout" | "head_too_large"), "{start:?} {error}");
        assert!(error.kind() == "head_too_large" || error.is_transient());
    }
}

#[tokio::test]
async fn a_body_that_drips_is_cut() {
    let server = dripping("HTTP/1.1 200 OK\r\n\r\n", "x").await;
    let began = Instant::now();
    let response = Fetcher::new(impatient(&server)).unwrap().get(get("http://h.test/")).await.unwrap();
    assert_eq!(response.truncated, Some(Truncated::Time));
    assert!(!response.body.is_empty() && response.body.iter().all(|b| *b == b'x'));
    assert!(began.elapsed() < Duration::from_secs(3), "slow by speed: {:?}", began.elapsed());

    let config =
        FetchConfig { total_timeout: Duration::from_millis(300), speed_min: 0, ..impatient(&server) };
    let began = Instant::now();
    let response = Fetcher::new(config).unwrap().get(get("http://h.test/")).await.unwrap();
    assert_eq!(response.truncated, Some(Truncated::Time));
    assert!(began.elapsed() < Duration::from_secs(3), "slow in all: {:?}", began.elapsed());
}

/// Sends `start`, then `flood` without pause for ever.
async fn flooding(start: &'static str, flood: &'static str) -> Server {
    let flood = flood.repeat(4000);
    Server::raw(move |_, mut stream| {
        let flood = flood.clone();
        async move {
            read_request(&mut stream).await;
            let _ = stream.write_all(start.as_bytes()).await;
            while stream.write_all(flood.as_bytes()).await.is_ok() {}
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn floods_without_pause_end_with_their_time() {
    let server = flooding("", "HTTP/1.1 100 Continue\r\n\r\n").await;
    let began = Instant::now();
    let error = Fetcher::new(impatient(&server)).unwrap().get(get("http://h.test/")).await.unwrap_err();
    assert_eq!(error.kind(), "timeout");
    assert!(began.elapsed() < Duration::from_secs(3), "interim answers: {:?}", began.elapsed());

    let server = flooding("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "1\r\nx\r\n").await;
    let config = FetchConfig {
        total_timeout: Duration::from_millis(300),
        body_bytes_max: u64::MAX,
        ..impatient(&server)
    };
    let began = Instant::now();
    let response = Fetcher::new(config).unwrap().get(get("http://h.test/")).await.unwrap();
    assert_eq!(response.truncated, Some(Truncated::Time));
    assert!(began.elapsed() < Duration::from_secs(3), "tiny chunks: {:?}", began.elapsed());
}

#[tokio::test]
async fn a_body_that_never_ends_is_cut() {
    let server = Server::raw(|_, mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").await;
        while stream.write_all(b"4\r\nabcd\r\n").await.is_ok() {}
    })
    .await;
    let mut request = get("http://h.test/");
    request.body_bytes_max = Some(10_000);
    let response = server.fetcher().get(request).await.unwrap();
    assert_eq!((response.body.len(), response.truncated), (10_000, Some(Truncated::Length)));
}

#[tokio::test]
async fn a_kept_connection_that_died_is_replaced_once() {
    // The first connection answers once and closes on the second request, without an answer.
    let server = Server::raw(|number, mut stream| async move {
        read_request(&mut stream).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx").await;
        if number > 0 {
            while !read_request(&mut stream).await.is_empty() {
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx").await;
            }
        }
        read_request(&mut stream).await;
    })
    .await;
    let fetcher = server.fetcher();
    for _ in 0..3 {
        assert_eq!(fetcher.get(get("http://h.test/")).await.unwrap().status, 200);
    }
    assert_eq!(server.accepted(), 2);
}

#[tokio::test]
async fn a_new_connection_that_dies_is_not_tried_again() {
    let server = Server::saying("").await;
    let error = server.fetcher().get(get("http://h.test/")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient(), server.accepted()), ("closed", true, 1));
}

#[tokio::test]
async fn answers_that_nobody_asked_for_are_never_taken_for_one() {
    // After its answer the server sends a second one: the next request must not get it.
    let server = Server::raw(|number, mut stream| async move {
        read_request(&mut stream).await;
        let first = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{number}");
        let _ = stream.write_all(first.as_bytes()).await;
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil").await;
        read_request(&mut stream).await;
    })
    .await;
    let fetcher = server.fetcher();
    for _ in 0..4 {
        let body = fetcher.get(get("http://h.test/")).await.unwrap().body;
        assert_ne!(body, "evil");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_bytes_break_it(
        start in prop_oneof![
            Just(""), Just("HTTP/1.1 200 OK\r\n"), Just("HTTP/1.1 200 OK\r\n\r\n"),
            Just("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
            Just("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\n\r\n"),
        ],
        bytes in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let said = [start.as_bytes(), &bytes].concat();
        if let Ok((status, _, _)) = runtime.block_on(seen(&said)) {
            prop_assert!((100..1000).contains(&status));
        }
    }
}

#[tokio::test]
async fn many_large_bodies_at_once_stay_within_their_memory_and_all_arrive() {
    const BODY_BYTES: usize = 900 << 10;
    let server = Server::raw(|_, mut stream| async move {
        read_request(&mut stream).await;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BODY_BYTES}\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).await;
        // In pieces: while nobody reads on, the server waits.
        for _ in 0..BODY_BYTES / 1024 {
            let _ = stream.write_all(&[b'x'; 1024]).await;
        }
    })
    .await;
    let one = 1 << 20;
    let config = FetchConfig { body_bytes_max: one, large_bodies_bytes_max: 2 * one, ..server.config() };
    let fetcher = Fetcher::new(FetchConfig { total_timeout: Duration::from_secs(60), ..config }).unwrap();
    let fetches = 12;
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..fetches {
        let fetcher = fetcher.clone();
        tasks.spawn(async move { fetcher.get(get(&format!("http://h{n}.test/"))).await });
    }
    let mut most = 0;
    while !tasks.is_empty() {
        most = most.max(fetcher.usage().body_bytes);
        if let Ok(Some(fetched)) = tokio::time::timeout(Duration::from_millis(1), tasks.join_next()).await {
            let response = fetched.unwrap().unwrap();
            assert_eq!((response.body.len(), response.truncated), (BODY_BYTES, None));
        }
    }
    assert!(most <= fetches * (512 << 10) + 2 * one, "{most} bytes at once");
    assert_eq!(fetcher.usage().body_bytes, 0);
    assert!(fetcher.usage().connections <= fetches);
}

#[tokio::test]
async fn ports_of_other_protocols_are_not_asked() {
    let server = Server::saying("HTTP/1.1 200 OK\r\n\r\n").await;
    // The override names a port of the operator's choice; nothing else may.
    let fetcher = Fetcher::new(FetchConfig { allow_private: true, ..server.config() }).unwrap();
    for port in [22, 25, 6667] {
        let refused = fetcher.get(get(&format!("http://127.0.0.1:{port}/"))).await.unwrap_err();
        assert_eq!((refused.kind(), refused.is_transient()), ("port", false));
        assert!(refused.to_string().contains(&format!("port {port}")), "{refused}");
    }
    assert_eq!(server.accepted(), 0);
}
