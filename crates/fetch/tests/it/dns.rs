//! Names, against a name server of this process.

use crate::server::{Server, get, page};
use farol_base::Host;
use farol_base::sync::Mutex;
use farol_fetch::{FetchConfig, FetchError, Fetcher};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::UdpSocket;

/// What the name server says about every name.
#[derive(Clone)]
struct Zone {
    addresses: Vec<Ipv4Addr>,
    ttl: u32,
    /// 0: no error, 2: the server failed, 3: no such name.
    code: u8,
    /// Data of a LOC record of every name.
    location: Option<[u8; 16]>,
}

struct NameServer {
    address: SocketAddr,
    zone: Arc<Mutex<Zone>>,
    /// Questions for IPv4 addresses so far.
    asked: Arc<Mutex<usize>>,
}

impl NameServer {
    async fn start(addresses: &[[u8; 4]], ttl: u32) -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let addresses = addresses.iter().map(|bytes| Ipv4Addr::from(*bytes)).collect();
        let server = NameServer {
            address: socket.local_addr().unwrap(),
            zone: Arc::new(Mutex::new(Zone { addresses, ttl, code: 0, location: None })),
            asked: Arc::default(),
        };
        let (zone, asked) = (server.zone.clone(), server.asked.clone());
        tokio::spawn(async move {
            let mut packet = [0; 1500];
            while let Ok((length, peer)) = socket.recv_from(&mut packet).await {
                let zone = zone.lock().clone();
                let Some((answer, is_v4)) = answer(&packet[..length], &zone) else { continue };
                *asked.lock() += usize::from(is_v4);
                let _ = socket.send_to(&answer, peer).await;
            }
        });
        server
    }

    fn config(&self, web: &Server) -> FetchConfig {
        FetchConfig {
            nameservers: vec![self.address],
            overrides: Vec::new(),
            allow_private: true,
            dns_ttl_min: Duration::ZERO,
            ..web.config()
        }
    }

    fn asked(&self) -> usize {
        *self.asked.lock()
    }

    fn set(&self, change: impl FnOnce(&mut Zone)) {
        change(&mut self.zone.lock());
    }
}

/// Writes the answer to a question (RFC 1035 §4), and tells whether it was for IPv4 addresses.
fn answer(question: &[u8], zone: &Zone) -> Option<(Vec<u8>, bool)> {
    let name_end = 12 + question.get(12..)?.iter().position(|b| *b == 0)? + 1;
    let is_v4 = question.get(name_end..name_end + 2)? == [0, 1];
    let mut answer = question.get(..name_end + 4)?.to_vec();
    answer[2..4].copy_from_slice(&[0x81, 0x80 | zone.code]);
    if let Some(location) = zone.location.filter(|_| question[name_end..name_end + 2] == [0, 29]) {
        answer[4..12].copy_from_slice(&[0, 1, 0, 1, 0, 0, 0, 0]);
        answer.extend_from_slice(&[0xc0, 12, 0, 29, 0, 1, 0, 0, 0, 60, 0, 16]);
        answer.extend_from_slice(&location);
        return Some((answer, false));
    }
    let records = if is_v4 && zone.code == 0 { zone.addresses.as_slice() } else { &[] };
    let is_negative = records.is_empty() && zone.code != 2;
    answer[4..12].copy_from_slice(&[0, 1, 0, records.len() as u8, 0, u8::from(is_negative), 0, 0]);
    for address in records {
        answer.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1]);
        answer.extend_from_slice(&zone.ttl.to_be_bytes());
        answer.extend_from_slice(&[0, 4]);
        answer.extend_from_slice(&address.octets());
    }
    if is_negative {
        // The zone's SOA says how long "no" holds.
        answer.extend_from_slice(&[0xc0, 12, 0, 6, 0, 1]);
        answer.extend_from_slice(&zone.ttl.to_be_bytes());
        answer.extend_from_slice(&[0, 22, 0, 0]);
        answer.extend_from_slice(&[0; 16]);
        answer.extend_from_slice(&zone.ttl.to_be_bytes());
    }
    Some((answer, is_v4))
}

fn host(name: &str) -> Host {
    Host::parse(&format!("http://{name}/")).unwrap()
}

#[tokio::test]
async fn an_address_is_remembered_for_its_time_to_live() {
    let web = Server::http(|_| page(200, &[], "")).await;
    let names = NameServer::start(&[[127, 0, 0, 1]], 1).await;
    let fetcher = Fetcher::new(names.config(&web)).unwrap();
    for _ in 0..5 {
        assert_eq!(fetcher.resolve(&host("a.example")).await.unwrap().to_string(), "127.0.0.1");
    }
    assert_eq!(names.asked(), 1);
    assert_eq!(
        fetcher.get(get(&format!("http://a.example:{}/", web.address.port()))).await.unwrap().status,
        200
    );
    assert_eq!(names.asked(), 1, "a page of the same name needs no second question");
    names.set(|zone| zone.addresses = vec![Ipv4Addr::new(127, 0, 0, 2)]);
    tokio::time::sleep(Duration::from_millis(1100)).await;
    assert_eq!(fetcher.resolve(&host("a.example")).await.unwrap().to_string(), "127.0.0.2");
    assert_eq!(names.asked(), 2);
}

#[tokio::test]
async fn time_to_live_has_bounds() {
    let web = Server::http(|_| page(200, &[], "")).await;
    let names = NameServer::start(&[[127, 0, 0, 1]], 0).await;
    let config = FetchConfig { dns_ttl_min: Duration::from_secs(60), ..names.config(&web) };
    let fetcher = Fetcher::new(config).unwrap();
    for _ in 0..5 {
        fetcher.resolve(&host("a.example")).await.unwrap();
    }
    assert_eq!(names.asked(), 1, "no shorter than the minimum");
    names.set(|zone| zone.ttl = 1_000_000);
    let config = FetchConfig { dns_ttl_max: Duration::from_millis(50), ..names.config(&web) };
    let fetcher = Fetcher::new(config).unwrap();
    fetcher.resolve(&host("b.example")).await.unwrap();
    tokio::time::sleep(Duration::from_millis(80)).await;
    fetcher.resolve(&host("b.example")).await.unwrap();
    assert_eq!(names.asked(), 3, "no longer than the maximum");
}

#[tokio::test]
async fn that_a_name_does_not_exist_is_remembered_too() {
    let web = Server::http(|_| page(200, &[], "")).await;
    let names = NameServer::start(&[], 300).await;
    let fetcher = Fetcher::new(names.config(&web)).unwrap();
    for (code, name) in [(3, "gone.example"), (0, "empty.example")] {
        names.set(|zone| zone.code = code);
        let before = names.asked();
        for _ in 0..3 {
            let error = fetcher.resolve(&host(name)).await.unwrap_err();
            assert_eq!((error.kind(), error.is_transient()), ("dns", false), "{error}");
        }
        assert_eq!(names.asked() - before, 1, "{name}");
    }
}

#[tokio::test]
async fn a_failing_name_server_is_trouble_that_may_pass() {
    let web = Server::http(|_| page(200, &[], "")).await;
    let names = NameServer::start(&[[127, 0, 0, 1]], 300).await;
    names.set(|zone| zone.code = 2);
    let fetcher = Fetcher::new(names.config(&web)).unwrap();
    let error = fetcher.resolve(&host("a.example")).await.unwrap_err();
    assert_eq!((error.kind(), error.is_transient()), ("dns_temporary", true), "{error}");

    let silent = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let config = FetchConfig {
        nameservers: vec![silent.local_addr().unwrap()],
        dns_timeout: Duration::from_millis(200),
        ..names.config(&web)
    };
    let error = Fetcher::new(config).unwrap().resolve(&host("a.example")).await.unwrap_err();
    assert_eq!(error.kind(), "dns_temporary", "{error}");
}

#[tokio::test]
async fn another_address_is_tried_when_one_does_not_answer() {
    let web = Server::http(|_| page(200, &[], "")).await;
    // Nobody listens on the first.
    let names = NameServer::start(&[[127, 0, 0, 9], [127, 0, 0, 1]], 300).await;
    let fetcher = Fetcher::new(names.config(&web)).unwrap();
    assert_eq!(fetcher.resolve(&host("a.example")).await.unwrap().to_string(), "127.0.0.9");
    let url = format!("http://a.example:{}/", web.address.port());
    assert_eq!(fetcher.get(get(&url)).await.unwrap().address, web.address);
    assert_eq!(fetcher.resolve(&host("a.example")).await.unwrap().to_string(), "127.0.0.1");
    assert_eq!(names.asked(), 1);
}

#[tokio::test]
async fn a_name_that_moves_into_the_private_network_is_refused() {
    let web = Server::http(|_| page(200, &[], "secret")).await;
    let names = NameServer::start(&[[127, 0, 0, 1]], 0).await;
    let config = FetchConfig { allow_private: false, ..names.config(&web) };
    let fetcher = Fetcher::new(config).unwrap();
    let url = format!("http://a.example:{}/", web.address.port());
    for result in
        [fetcher.get(get(&url)).await.map(|_| ()), fetcher.resolve(&host("a.example")).await.map(|_| ())]
    {
        assert!(matches!(result, Err(FetchError::Guard { .. })), "{result:?}");
    }
    // Public when the frontier asked, private when it connects: the address itself is judged again.
    names.set(|zone| zone.addresses = vec![Ipv4Addr::new(93, 184, 215, 14)]);
    assert_eq!(fetcher.resolve(&host("a.example")).await.unwrap().to_string(), "93.184.215.14");
    names.set(|zone| zone.addresses = vec![Ipv4Addr::new(127, 0, 0, 1)]);
    let result = fetcher.get(get(&url)).await;
    assert!(matches!(result, Err(FetchError::Guard { .. })), "{result:?}");
    assert_eq!(web.accepted(), 0);
}

#[tokio::test]
async fn where_a_name_says_that_it_is_comes_as_it_was_sent() {
    let names = NameServer::start(&[[127, 0, 0, 1]], 60).await;
    let overrides = vec!["set.test=127.0.0.1".parse().unwrap()];
    let config = FetchConfig { nameservers: vec![names.address], overrides, ..FetchConfig::default() };
    let fetcher = Fetcher::new(config).unwrap();
    assert_eq!(fetcher.location(&host("a.test")).await, None, "it does not say");
    let data = [0, 0x33, 0x16, 0x13, 0x89, 0x17, 0x2d, 0xd0, 0x70, 0xbe, 0x15, 0xf0, 0, 0x98, 0x8d, 0x20];
    names.set(|zone| zone.location = Some(data));
    assert_eq!(fetcher.location(&host("a.test")).await, Some(data.to_vec()));
    // Whose address the operator has set by hand is not asked for, and neither is what has no name.
    assert_eq!(fetcher.location(&host("set.test")).await, None);
    assert_eq!(fetcher.location(&host("127.0.0.1")).await, None);
    names.set(|zone| zone.code = 3);
}
