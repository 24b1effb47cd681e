//! Servers that answer as a test says, on loopback.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// What a server is asked, and what it answers: host and path in; head lines and body out.
type Answer = dyn Fn(&str, &str) -> SiteReply + Send + Sync;

/// An answer of a [`Site`].
pub struct SiteReply {
    pub status: u16,
    /// Whole lines without their ends.
    pub headers: Vec<String>,
    pub body: String,
}

impl SiteReply {
    pub fn html(body: String) -> SiteReply {
        SiteReply { status: 200, headers: vec!["Content-Type: text/html".to_string()], body }
    }

    pub fn missing() -> SiteReply {
        SiteReply { status: 404, headers: Vec::new(), body: String::new() }
    }
}

/// A server for any number of hosts, at two addresses; ends when dropped.
pub struct Site {
    addresses: Vec<SocketAddr>,
    asked: Arc<Mutex<HashMap<String, u64>>>,
    stop: Arc<AtomicBool>,
}

impl Site {
    pub fn start(answer: impl Fn(&str, &str) -> SiteReply + Send + Sync + 'static) -> Site {
        let listeners = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| TcpListener::bind(address).unwrap());
        let site = Site {
            addresses: listeners.iter().map(|listener| listener.local_addr().unwrap()).collect(),
            asked: Arc::default(),
            stop: Arc::new(AtomicBool::new(false)),
        };
        let answer: Arc<Answer> = Arc::new(answer);
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

    /// Flags that lead a crawler here for these hosts, each at the next address, with no pause between requests.
    pub fn flags(&self, hosts: &[&str]) -> Vec<String> {
        let mut flags = vec!["--allow-private".to_string(), "--delay".to_string(), "0".to_string()];
        for (host, address) in hosts.iter().zip(self.addresses.iter().cycle()) {
            flags.extend(["--resolve".to_string(), format!("{host}={address}")]);
        }
        flags
    }

    /// How often each page was asked for, by host and path: `a.test/x`.
    pub fn asked(&self) -> HashMap<String, u64> {
        self.asked.lock().unwrap().clone()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for address in &self.addresses {
            // Wakes the listener, which then sees that it is over.
            let _ = TcpStream::connect(address);
        }
    }
}

/// Answers the requests of one connection.
fn talk(stream: &TcpStream, asked: &Mutex<HashMap<String, u64>>, answer: &Answer) -> std::io::Result<()> {
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
        *asked.lock().unwrap().entry(format!("{host}{path}")).or_default() += 1;
        let SiteReply { status, headers, body } = answer(&host, &path);
        let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
        let head = format!("HTTP/1.1 {status} X\r\n{headers}Content-Length: {}\r\n\r\n", body.len());
        (&*stream).write_all(&[head.as_bytes(), body.as_bytes()].concat())?;
    }
    Ok(())
}
