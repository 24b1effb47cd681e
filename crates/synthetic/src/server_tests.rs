//! Every way in which an answer is sent, over real connections on loopback.

use super::*;
use crate::{Breakage, Door, Failure, HUGE_BYTES, Kind, Likeness, Page, Trap};
use std::io::Read;
use tokio::io::AsyncWriteExt;

fn troubled() -> WebConfig {
    WebConfig {
        hosts: 30,
        pages: 6000,
        redirects: 0.1,
        missing: 0.1,
        failing: 0.1,
        slow: 0.05,
        broken: 0.1,
        huge: 0.02,
        duplicates: 0.1,
        traps: 0.1,
        robots: 0.5,
        sitemaps: 0.5,
        feeds: 0.5,
        slow_millis: 60,
        mean_page_bytes: 3000,
        mean_links: 10.0,
        robots_failing: 0.0,
        ..WebConfig::default()
    }
}

async fn start(config: WebConfig) -> Server {
    serve(config, "127.0.0.1:0".parse().unwrap(), LogSink::memory()).await.unwrap()
}

/// Sends bytes and reads all that comes back.
async fn exchange(address: SocketAddr, request: &str) -> Vec<u8> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut all = Vec::new();
    // Broken answers may end in a reset; what came before counts.
    let _ = stream.read_to_end(&mut all).await;
    all
}

struct Reply {
    status: u16,
    head: String,
    body: Vec<u8>,
}

impl Reply {
    fn of(bytes: &[u8]) -> Reply {
        let at = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = String::from_utf8(bytes[..at].to_vec()).unwrap();
        Reply { status: head[9..12].parse().unwrap(), head, body: bytes[at + 4..].to_vec() }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().filter_map(|line| line.split_once(": ")).find(|(n, _)| *n == name).map(|(_, v)| v)
    }
}

async fn get(server: &Server, host: &str, path: &str, headers: &str) -> Reply {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{headers}\r\n");
    Reply::of(&exchange(server.address(), &request).await)
}

async fn get_page(server: &Server, page: Page) -> Reply {
    get(server, &server.world().host_name(page.host), &server.world().path(page), "").await
}

fn first(server: &Server, wanted: impl Fn(Kind) -> bool) -> Page {
    let world = server.world();
    world.all_pages().find(|page| wanted(world.kind(*page))).expect("a page of this kind")
}

#[tokio::test]
async fn plain_pages_are_what_the_world_says() {
    let server = start(WebConfig { change_rate: 0.0, ..troubled() }).await;
    let world = server.world().clone();
    for page in world.all_pages().filter(|page| world.kind(*page) == Kind::Plain).step_by(500) {
        let reply = get_page(&server, page).await;
        assert_eq!(reply.status, 200);
        assert_eq!(reply.body, world.page(&world.url(page), world.config().start).body);
        assert_eq!(reply.header("Content-Length"), Some(reply.body.len().to_string().as_str()));
    }
}

#[tokio::test]
async fn one_connection_carries_many_requests() {
    let server = start(troubled()).await;
    let world = server.world();
    let mut requests = String::new();
    for host in 0..5 {
        requests += &format!("GET / HTTP/1.1\r\nHost: {}\r\n\r\n", world.host_name(host));
    }
    requests += &format!("HEAD / HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", world.host_name(0));
    let all = exchange(server.address(), &requests).await;
    let text = String::from_utf8(all).unwrap();
    assert_eq!(text.matches("HTTP/1.1 200 OK").count(), 6);
    assert_eq!(text.matches("</html>").count(), 5);
    assert_eq!((server.counts().connections, server.counts().requests, server.counts().pages), (1, 6, 6));
}

#[tokio::test]
async fn any_loopback_address_and_the_proxy_reach_every_host() {
    let server = start(troubled()).await;
    let name = server.world().host_name(3);
    let request = format!("GET / HTTP/1.1\r\nHost: {name}:80\r\nConnection: close\r\n\r\n");
    let want = Reply::of(&exchange(server.address(), &request).await).body;
    if server.whole_network() {
        let other = SocketAddr::from(([127, 77, 3, 9], server.address().port()));
        assert_eq!(Reply::of(&exchange(other, &request).await).body, want);
        assert_eq!(server.log().entries()[1].address, other.ip());
        assert!(server.resolve().starts_with("*.web.test=127.0.0.0/8:"));
    }
    let proxied = format!("GET http://{name}/ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert_eq!(Reply::of(&exchange(server.address(), &proxied).await).body, want);
    let entries = server.log().entries();
    let last = entries.last().unwrap();
    assert_eq!((last.host.as_str(), last.path.as_str(), last.proxied), (name.as_str(), "/", true));
    assert!(last.end_us >= last.start_us && last.bytes as usize > want.len());
    let connect = Reply::of(&exchange(server.address(), "CONNECT h:443 HTTP/1.1\r\n\r\n").await);
    assert_eq!(connect.status, 405);
    assert!(String::from_utf8(connect.body).unwrap().contains("plain http only"));
}

#[tokio::test]
async fn redirects_missing_and_failing() {
    let server = start(troubled()).await;
    let reply = get_page(&server, first(&server, |kind| matches!(kind, Kind::Redirect(_)))).await;
    assert!((301..=308).contains(&reply.status) && reply.header("Location").is_some());
    let reply = get_page(&server, first(&server, |kind| kind == Kind::Missing { gone: true })).await;
    assert_eq!(reply.status, 410);
    let reply = get_page(&server, first(&server, |kind| kind == Kind::Failing(Failure::Unavailable))).await;
    assert_eq!((reply.status, reply.header("Retry-After")), (503, Some("1")));
    let reply = get_page(&server, first(&server, |kind| kind == Kind::Failing(Failure::Error))).await;
    assert_eq!((reply.status, reply.header("Retry-After")), (500, None));
    let last = server.log().entries().pop().unwrap();
    assert_eq!((last.status, last.served), (500, Served::Failing));
}

#[tokio::test]
async fn slow_pages_take_their_time_and_arrive_whole() {
    let server = start(troubled()).await;
    for dribbles in [false, true] {
        let begin = Instant::now();
        let reply = get_page(&server, first(&server, |kind| kind == Kind::Slow { dribbles })).await;
        assert!(begin.elapsed() >= Duration::from_millis(50));
        assert!(reply.body.ends_with(b"</html>\n"));
    }
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed() {
    let server = start(WebConfig { slow_millis: 60_000, ..troubled() }).await;
    let world = server.world();
    let page = first(&server, |kind| kind == Kind::Slow { dribbles: false });
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let request =
        format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", world.path(page), world.host_name(page.host));
    stream.write_all(request.as_bytes()).await.unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(stream);
    for _ in 0..100 {
        if let Some(entry) = server.log().entries().pop() {
            assert!(entry.cut && entry.end_us - entry.start_us < 5_000_000);
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the client's leaving was not noticed");
}

#[tokio::test]
async fn broken_answers_are_broken_each_in_its_way() {
    let server = start(troubled()).await;
    let world = server.world();
    for breakage in Breakage::ALL {
        let page = first(&server, |kind| kind == Kind::Broken(breakage));
        let (host, path) = (world.host_name(page.host), world.path(page));
        let bytes = exchange(server.address(), &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n")).await;
        if matches!(breakage, Breakage::Noise | Breakage::Silence) {
            assert_eq!(bytes.is_empty(), breakage == Breakage::Silence);
            assert!(!bytes.starts_with(b"HTTP/"));
            continue;
        }
        let reply = Reply::of(&bytes);
        let length = reply.header("Content-Length").map(|length| length.parse::<usize>().unwrap());
        let mut unpacked = Vec::new();
        let unpacks = flate2::read::GzDecoder::new(&reply.body[..]).read_to_end(&mut unpacked).is_ok();
        match breakage {
            Breakage::CutShort => assert!(length.unwrap() > reply.body.len()),
            Breakage::LengthTooShort => assert!(length.unwrap() < reply.body.len()),
            Breakage::BadChunk => assert!(reply.body.ends_with(b"zz\r\nnot a chunk")),
            Breakage::CutChunks => assert!(!reply.body.ends_with(b"0\r\n\r\n")),
            Breakage::FalseGzip => assert!(reply.head.contains("gzip") && !unpacks && unpacked.is_empty()),
            Breakage::CutGzip => assert!(reply.head.contains("gzip") && !unpacks),
            Breakage::UnknownCoding => assert_eq!(reply.header("Content-Encoding"), Some("x-ancient")),
            Breakage::HeadFlood => assert!(reply.head.len() > 1_000_000),
            Breakage::BadText => assert!(reply.header("Content-Type").unwrap().contains("utf-16")),
            Breakage::Noise | Breakage::Silence => unreachable!("handled above"),
        }
    }
    let silent = server.log().entries().iter().filter(|entry| entry.status == 0).count();
    assert_eq!(silent, 2);
}

#[tokio::test]
async fn huge_pages_are_huge() {
    let server = start(troubled()).await;
    let reply = get_page(&server, first(&server, |kind| kind == Kind::Huge { bomb: true })).await;
    assert!(reply.body.len() < 2_000_000, "{}", reply.body.len());
    let mut unpacked = std::io::sink();
    let size = std::io::copy(&mut flate2::read::MultiGzDecoder::new(&reply.body[..]), &mut unpacked).unwrap();
    assert!(size > HUGE_BYTES);
    // The plain one is not read to its end; its length is enough.
    let page = first(&server, |kind| kind == Kind::Huge { bomb: false });
    let world = server.world();
    let mut stream = TcpStream::connect(server.address()).await.unwrap();
    let request =
        format!("GET {} HTTP/1.1\r\nHost: {}\r\n\r\n", world.path(page), world.host_name(page.host));
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut some = vec![0; 200_000];
    stream.read_exact(&mut some).await.unwrap();
    let length: u64 = Reply::of(&some).header("Content-Length").unwrap().parse().unwrap();
    assert!(length > HUGE_BYTES);
    assert_eq!(server.counts().pages, 0);
}

#[tokio::test]
async fn conditional_requests_and_gzip() {
    let server = start(WebConfig { gzip: true, change_rate: 0.0, ..troubled() }).await;
    let world = server.world();
    let host = (0..30).find(|host| {
        world.page(&format!("http://{}/", world.host_name(*host)), world.config().start).etag.is_some()
    });
    let name = world.host_name(host.unwrap());
    let plain = get(&server, &name, "/", "").await;
    let packed = get(&server, &name, "/", "Accept-Encoding: br, gzip\r\n").await;
    assert_eq!(packed.header("Content-Encoding"), Some("gzip"));
    let mut unpacked = Vec::new();
    flate2::read::GzDecoder::new(&packed.body[..]).read_to_end(&mut unpacked).unwrap();
    assert_eq!(unpacked, plain.body);
    let tag = plain.header("ETag").unwrap();
    let date = plain.header("Last-Modified").unwrap();
    for condition in [format!("If-None-Match: {tag}\r\n"), format!("If-Modified-Since: {date}\r\n")] {
        let again = get(&server, &name, "/", &condition).await;
        assert_eq!((again.status, again.body.len()), (304, 0), "{condition}");
    }
    let entries = server.log().entries();
    assert!(entries[3].conditional && !entries[0].conditional);
}

#[tokio::test]
async fn robots_sitemaps_feeds_and_traps() {
    let server = start(troubled()).await;
    let world = server.world();
    let ruled =
        (0..30).find(|host| !world.rules(*host).lines.is_empty() && !world.rules(*host).moved).unwrap();
    let robots = get(&server, &world.host_name(ruled), "/robots.txt", "").await;
    assert!(robots.status == 200 && String::from_utf8(robots.body).unwrap().contains("Disallow: /"));
    let mapped = (0..30).find(|host| !world.sitemap_paths(*host).is_empty()).unwrap();
    for path in world.sitemap_paths(mapped) {
        let map = get(&server, &world.host_name(mapped), &path, "").await;
        assert_eq!(
            (map.status, map.header("Content-Type").unwrap().contains("gzip")),
            (200, path.ends_with(".gz"))
        );
    }
    let fed = (0..30).find(|host| world.has_feed(*host)).unwrap();
    assert_eq!(get(&server, &world.host_name(fed), "/feed.xml", "").await.status, 200);
    for door in [Door::Calendar, Door::Maze, Door::Deep] {
        let page = first(&server, |kind| kind == Kind::Door(door));
        let html = String::from_utf8(get_page(&server, page).await.body).unwrap();
        assert!(html.contains(Trap::entrance(door)));
        assert_eq!(get(&server, &world.host_name(page.host), Trap::entrance(door), "").await.status, 200);
    }
    assert_eq!(server.counts().traps, 3);
    let copy = first(&server, |kind| matches!(kind, Kind::Duplicate { likeness: Likeness::Exact, .. }));
    let Kind::Duplicate { original, .. } = world.kind(copy) else { unreachable!("it is a duplicate") };
    assert_eq!(get_page(&server, copy).await.body, get_page(&server, original).await.body);
}

#[tokio::test]
async fn its_own_pages_count_and_explain() {
    let server = start(troubled()).await;
    let _ = get(&server, &server.world().host_name(0), "/", "").await;
    let about = get(&server, "127.0.0.1:99", "/", "").await;
    assert!(String::from_utf8(about.body).unwrap().contains("30 hosts"));
    let counts: Counts =
        serde_json::from_slice(&get(&server, "localhost", "/counters", "").await.body).unwrap();
    assert_eq!((counts.requests, counts.pages), (1, 1));
    assert_eq!(get(&server, "127.0.0.1", "/x", "").await.status, 404);
    assert_eq!(get(&server, "unknown.test", "/", "").await.status, 404);
}

#[tokio::test]
async fn what_cannot_be_served_is_refused() {
    let refused = |config, listen: &str| {
        let listen = listen.parse().unwrap();
        async move { serve(config, listen, LogSink::off()).await.unwrap_err().to_string() }
    };
    assert!(refused(WebConfig::default(), "192.0.2.1:0").await.contains("not on loopback"));
    assert!(refused(WebConfig::default(), "0.0.0.0:0").await.contains("not on loopback"));
    assert!(
        refused(WebConfig { hosts: 0, ..WebConfig::default() }, "127.0.0.1:0").await.contains("one host")
    );
    let server = start(WebConfig::default()).await;
    let taken = serve(WebConfig::default(), server.address(), LogSink::off()).await;
    assert_eq!(taken.unwrap_err().kind(), io::ErrorKind::AddrInUse);
    let address = server.address();
    server.stop().await;
    assert!(TcpStream::connect(address).await.is_err(), "it still listens");
}

#[tokio::test]
async fn nonsense_does_not_stop_it() {
    let server = start(troubled()).await;
    for bytes in
        ["\r\n\r\n", "GET\r\n\r\n", "GET / HTTP/9\r\n\r\n", "\0\0\0\r\n\r\n", "POST / HTTP/1.1\r\n\r\n"]
    {
        let mut stream = TcpStream::connect(server.address()).await.unwrap();
        stream.write_all(bytes.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply).await;
        assert!(reply.is_empty() || reply.starts_with(b"HTTP/1.1 4"), "{bytes:?}");
    }
    let flood = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "a".repeat(40_000));
    exchange(server.address(), &flood).await;
    assert_eq!(get(&server, &server.world().host_name(0), "/", "").await.status, 200);
}
