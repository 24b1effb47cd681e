//! Servers that answer as a test says, on loopback.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Header line that says of a body that its characters are bytes.
const BYTES: &str = "X-Body: bytes";

/// What a server is asked, and what it answers: host and path in; head lines and body out.
type Answer = dyn Fn(&str, &str) -> SiteReply + Send + Sync;

/// An answer of a [`Site`].
pub struct SiteReply {
    pub status: u16,
    /// Whole lines without their ends. Where one is a Content-Length, the connection ends with the body, however long.
    pub headers: Vec<String>,
    pub body: String,
}

impl SiteReply {
    pub fn html(body: String) -> SiteReply {
        SiteReply { status: 200, headers: vec!["Content-Type: text/html".to_string()], body }
    }

    /// A body of any bytes, which is kept as one character each until it is sent.
    pub fn bytes(content_type: &str, body: &[u8]) -> SiteReply {
        SiteReply {
            status: 200,
            headers: vec![format!("Content-Type: {content_type}"), BYTES.to_string()],
            body: body.iter().map(|byte| char::from(*byte)).collect(),
        }
    }

    /// A server that hangs up in the middle of its answer.
    pub fn broken_off() -> SiteReply {
        SiteReply { status: 200, headers: vec!["Content-Length: 5000".to_string()], body: "half".to_string() }
    }

    pub fn missing() -> SiteReply {
        SiteReply { status: 404, headers: Vec::new(), body: String::new() }
    }
}

/// A request that a [`Site`] was sent.
#[derive(Clone, Debug)]
pub struct Asked {
    /// At which of the site's addresses.
    pub address: IpAddr,
    /// Host and path: `a.test/x`.
    pub url: String,
    pub at: Instant,
}

/// A server for any number of hosts, at one or more addresses; ends when dropped.
pub struct Site {
    addresses: Vec<SocketAddr>,
    asked: Arc<Mutex<Vec<Asked>>>,
    stop: Arc<AtomicBool>,
}

impl Site {
    pub fn start(answer: impl Fn(&str, &str) -> SiteReply + Send + Sync + 'static) -> Site {
        Site::start_at(1, answer)
    }

    /// Listens at 127.0.0.1, 127.0.0.2 and so on, all at one port.
    pub fn start_at(addresses: u8, answer: impl Fn(&str, &str) -> SiteReply + Send + Sync + 'static) -> Site {
        let listeners = (0..20).find_map(|_| listen(addresses).ok()).expect("a port that is free everywhere");
        let site = Site {
            addresses: listeners.iter().map(|listener| listener.local_addr().unwrap()).collect(),
            asked: Arc::default(),
            stop: Arc::new(AtomicBool::new(false)),
        };
        let answer = Arc::new(answer);
        for listener in listeners {
            let (asked, stop, answer) = (site.asked.clone(), site.stop.clone(), answer.clone());
            std::thread::spawn(move || {
                for stream in listener.incoming() {
                    if stop.load(Ordering::SeqCst) {
                        break;
                    }
                    let (asked, answer) = (asked.clone(), answer.clone());
                    if let Ok(stream) = stream {
                        // A client that goes away is nobody's loss.
                        std::thread::spawn(move || drop(talk(&stream, &asked, &*answer)));
                    }
                }
            });
        }
        site
    }

    pub fn port(&self) -> u16 {
        self.addresses[0].port()
    }

    /// Flags that lead a crawler here for these hosts, with no pause between requests.
    pub fn flags(&self, hosts: &[&str]) -> Vec<String> {
        let mut flags = vec!["--allow-private".to_string(), "--delay".to_string(), "0".to_string()];
        for host in hosts {
            flags.extend(["--resolve".to_string(), format!("{host}=127.0.0.1:{}", self.port())]);
        }
        flags
    }

    /// How often each page was asked for, by host and path: `a.test/x`.
    pub fn asked(&self) -> HashMap<String, u64> {
        let mut counts = HashMap::new();
        for asked in self.asked.lock().unwrap().iter() {
            *counts.entry(asked.url.clone()).or_default() += 1;
        }
        counts
    }

    /// The requests at one of the addresses, in their order.
    pub fn asked_at(&self, last: u8) -> Vec<Asked> {
        let is_there = |asked: &&Asked| asked.address == IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        self.asked.lock().unwrap().iter().filter(is_there).cloned().collect()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the listener, which then sees that it is over.
        for address in &self.addresses {
            let _ = TcpStream::connect(address);
        }
    }
}

fn listen(addresses: u8) -> std::io::Result<Vec<TcpListener>> {
    let first = TcpListener::bind("127.0.0.1:0")?;
    let port = first.local_addr()?.port();
    let others = (2..=addresses).map(|last| TcpListener::bind((Ipv4Addr::new(127, 0, 0, last), port)));
    std::iter::once(Ok(first)).chain(others).collect()
}

/// Answers the requests of one connection.
fn talk(stream: &TcpStream, asked: &Mutex<Vec<Asked>>, answer: &Answer) -> std::io::Result<()> {
    let mut lines = BufReader::new(stream).lines();
    while let Some(first) = lines.next().transpose()? {
        let path = first.split(' ').nth(1).unwrap_or_default().to_string();
        let mut host = String::new();
        for line in lines.by_ref() {
            let line = line?;
            if line.is_empty() {
                break;
            }
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("host")
            {
                host = value.trim().split(':').next().unwrap_or_default().to_string();
            }
        }
        let address = stream.local_addr()?.ip();
        let url = format!("{host}{path}");
        asked.lock().unwrap().push(Asked { address, url, at: Instant::now() });
        let SiteReply { status, headers, body } = answer(&host, &path);
        let breaks_off = headers.iter().any(|line| line.starts_with("Content-Length:"));
        let body = match headers.iter().any(|line| line == BYTES) {
            true => body.chars().map(|byte| byte as u8).collect(),
            false => body.into_bytes(),
        };
        let length = if breaks_off { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let head = format!("HTTP/1.1 {status} X\r\n{headers}{length}\r\n");
        (&*stream).write_all(&[head.into_bytes(), body].concat())?;
        if breaks_off {
            break;
        }
    }
    Ok(())
}
