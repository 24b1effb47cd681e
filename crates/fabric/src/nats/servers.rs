//! Which of the servers answer: each is met on its own, since a connection to one of them says nothing of the others.

use super::options::Servers;
use crate::ServerSeen;
use farol_base::sync::Mutex;
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long each step of meeting a server may take: it greets at once, or it is not there.
const STEP: Duration = Duration::from_millis(700);
/// Servers are met this often; those with TLS less, because they write each meeting into their logs.
const EVERY: Duration = Duration::from_secs(10);
const EVERY_TLS: Duration = Duration::from_secs(60);
/// Bytes of a greeting that are read.
const GREETING_BYTES_MAX: u64 = 16 << 10;

/// What was seen of the servers, and when.
#[derive(Default)]
pub struct Met(Mutex<Option<(Instant, Vec<ServerSeen>)>>);

impl Met {
    /// Meets all servers at the same time, where it is time. Blocking, for as long as two steps take.
    pub fn look(&self, servers: &Servers) {
        let has_tls = servers.addresses.iter().any(|address| address.starts_with("tls://"));
        let every = if has_tls { EVERY_TLS } else { EVERY };
        if self.0.lock().as_ref().is_some_and(|(at, _)| at.elapsed() < every) {
            return;
        }
        let seen: Vec<ServerSeen> = std::thread::scope(|scope| {
            let begin = |address: &String| {
                let address = address.clone();
                scope.spawn(move || meet(&address))
            };
            let threads: Vec<_> = servers.addresses.iter().map(begin).collect();
            threads
                .into_iter()
                .zip(&servers.addresses)
                .map(|(thread, address)| {
                    thread
                        .join()
                        .unwrap_or_else(|_| ServerSeen { address: address.clone(), ..ServerSeen::default() })
                })
                .collect()
        });
        *self.0.lock() = Some((Instant::now(), seen));
    }

    /// The servers as they were met last; before that, all are taken to be as the connection is.
    pub fn seen(&self, servers: &Servers, connected: bool, version: &str) -> Vec<ServerSeen> {
        let unmet = |address: &String| ServerSeen {
            address: address.clone(),
            name: String::new(),
            version: version.to_string(),
            is_reached: connected,
        };
        let met = self.0.lock().as_ref().map(|(_, seen)| seen.clone());
        met.unwrap_or_else(|| servers.addresses.iter().map(unmet).collect())
    }
}

/// What a server says of itself as soon as somebody connects.
fn meet(address: &str) -> ServerSeen {
    let greeted = greeting(address).ok().and_then(|line| read(&line));
    let is_reached = greeted.is_some();
    let (name, version) = greeted.unwrap_or_default();
    ServerSeen { address: address.to_string(), name, version, is_reached }
}

fn greeting(address: &str) -> std::io::Result<String> {
    let none = || std::io::Error::new(std::io::ErrorKind::NotFound, "no address");
    let (_, place) = address.split_once("://").ok_or_else(none)?;
    let place = place.to_socket_addrs()?.next().ok_or_else(none)?;
    let stream = TcpStream::connect_timeout(&place, STEP)?;
    stream.set_read_timeout(Some(STEP))?;
    let mut line = String::new();
    BufReader::new(std::io::Read::take(stream, GREETING_BYTES_MAX)).read_line(&mut line)?;
    Ok(line)
}

/// Name and version out of `INFO {…}`.
fn read(line: &str) -> Option<(String, String)> {
    let told: Value = serde_json::from_str(line.strip_prefix("INFO ")?).ok()?;
    let text = |key: &str| told.get(key).and_then(Value::as_str).unwrap_or_default().to_string();
    Some((text("server_name"), text("version")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::TcpListener;

    #[test]
    fn a_server_that_greets_is_there_and_one_that_is_silent_is_not() {
        let (there, silent) =
            (TcpListener::bind("127.0.0.1:0").unwrap(), TcpListener::bind("127.0.0.1:0").unwrap());
        let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let join = [there.local_addr().unwrap(), silent.local_addr().unwrap(), gone];
        let servers = Servers::parse(&join.map(|address| address.to_string()).join(",")).unwrap();
        let greeter = std::thread::spawn(move || {
            let (mut stream, _) = there.accept().unwrap();
            stream.write_all(b"INFO {\"server_name\":\"n1\",\"version\":\"2.10.27\"} \r\n").unwrap();
        });
        let met = Met::default();
        assert!(
            met.seen(&servers, true, "2").iter().all(|server| server.is_reached && server.version == "2")
        );
        met.look(&servers);
        greeter.join().unwrap();
        let seen = met.seen(&servers, true, "2");
        assert_eq!(seen.iter().map(|server| server.is_reached).collect::<Vec<_>>(), [true, false, false]);
        assert_eq!((seen[0].name.as_str(), seen[0].version.as_str()), ("n1", "2.10.27"));
        assert_eq!(seen[2].address, format!("nats://{gone}"));
    }

    #[test]
    fn what_greets_otherwise_is_no_server() {
        assert_eq!(read("HTTP/1.1 400 Bad Request"), None);
        assert_eq!(read("INFO nonsense"), None);
        assert_eq!(read("INFO {}"), Some((String::new(), String::new())));
    }
}
