//! A client that holds as many connections as it can get.

use crate::fixture::{Data, Farol, PATIENCE, Web};
use farol_synthetic::WebConfig;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Descriptors that the engine may have; a client wants more connections than that.
const FILES_MAX: usize = 256;
const PAGES: u64 = 60;

/// Opens connections and sends nothing, again and again as they are closed, until it is told to stop.
fn hold(address: SocketAddr, stop: &AtomicBool) {
    let mut held: Vec<TcpStream> = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let is_open = |stream: &TcpStream| {
            stream.set_nonblocking(true).unwrap();
            matches!(stream.peek(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock)
        };
        held.retain(is_open);
        while held.len() < FILES_MAX + 50
            && let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_secs(1))
        {
            held.push(stream);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn crawl_and_index_go_on_while_a_client_holds_all_connections_that_it_can_get() {
    let web = Web::start(WebConfig { hosts: 2, pages: PAGES, ..WebConfig::tame() });
    let data = Data::new();
    let mut arguments = web.flags();
    arguments.extend([web.seed(), "--delay".to_string(), "100ms".to_string()]);
    let limit = format!("--nofile={FILES_MAX}:{FILES_MAX}");
    let mut farol = Farol::start_under(&["prlimit", &limit], &data, "up", &arguments);
    let address = farol.address();
    let stop = Arc::new(AtomicBool::new(false));
    let client = std::thread::spawn({
        let stop = stop.clone();
        move || hold(address, &stop)
    });
    let begun = Instant::now();
    let crawled = || web.server.log().entries().iter().filter(|entry| entry.path != "/robots.txt").count();
    while (crawled() as u64) < PAGES {
        assert!(begun.elapsed() < PATIENCE, "the crawl stands still at {} pages", crawled());
        std::thread::sleep(Duration::from_millis(50));
    }
    // Twice the time between two commits of the index.
    std::thread::sleep(Duration::from_secs(4));
    stop.store(true, Ordering::SeqCst);
    client.join().unwrap();
    let status = farol.wait_for("an answer", |_| true);
    assert_eq!(status["index"]["documents"], PAGES, "it was all indexed meanwhile: {status:#}");
    let metrics = farol.get("/metrics").body;
    let value = |name: &str| -> u64 {
        metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok()).unwrap()
    };
    assert_eq!(value("farol_http_connections_max "), FILES_MAX as u64 / 4);
    assert!(value("farol_http_connections_refused_total ") > 0, "{metrics}");
    farol.interrupt();
    assert!(data.run(&["check"]).status.success());
}

#[test]
fn one_engine_alone_listens_for_people_and_needs_no_server() {
    let web = Web::start(WebConfig { hosts: 2, pages: 20, ..WebConfig::tame() });
    let data = Data::new();
    // Settings of a cluster concern nobody who is in none.
    data.configure(
        "[cluster]\njoin = 'nats://127.0.0.1:1'\nlisten_rpc = '127.0.0.1:0'\nmetrics = '127.0.0.1:0'\n",
    );
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    let status = farol.wait_until_idle();
    assert_eq!(status["index"]["documents"], 20);
    let front = farol.address().port();
    assert_eq!(farol.listening_ports(), [front]);
    assert!(farol.json("/api/v1/search?q=site:web.test")["total"].as_u64() >= Some(20));
    let metrics = farol.get("/metrics").body;
    assert!(!metrics.contains("farol_member_") && !metrics.contains("farol_rpc_"), "{metrics}");
    farol.interrupt();
}
