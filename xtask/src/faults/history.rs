//! Watches what leaders write: of one table no lower term may follow a greater one.
//!
//! Reads the bucket as it is stored, through NATS's own text protocol: a consumer tells every revision once, in order.
//! A connection that breaks is opened again behind the last revision seen.

use crate::json::Json;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

const STREAM: &str = "KV_farol_farol";
const SUBJECTS: &str = "$KV.farol_farol.";
/// A message is a table of a small cluster.
const BYTES_MAX: usize = 4 << 20;

/// What was seen so far.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    newest: BTreeMap<String, u64>,
    /// The greatest incarnation of each node, by its name.
    incarnations: BTreeMap<String, u64>,
    /// Revision up to which the bucket was read.
    upto: u64,
    pub writes: u64,
    pub broken: Vec<String>,
}

impl Terms {
    pub fn incarnation(&self, name: &str) -> u64 {
        self.incarnations.get(name).copied().unwrap_or_default()
    }

    fn see(&mut self, revision: u64, key: &str, value: &[u8]) {
        if revision <= self.upto {
            return;
        }
        self.upto = revision;
        let json =
            std::str::from_utf8(value).ok().and_then(|text| Json::read(text).ok()).unwrap_or(Json::Null);
        if key.starts_with("node.") {
            let known = self.incarnations.entry(json.get("name").text().to_string()).or_default();
            *known = (*known).max(json.get("incarnation").number() as u64);
        }
        let mut term = json.get("term").number();
        if key == "leader" && term == 0.0 {
            // The write that takes the lease cannot know its term, which is its own revision.
            term = revision as f64;
        }
        if !(key.starts_with("table.") || key == "leader") || term.is_nan() {
            return;
        }
        self.writes += 1;
        let newest = self.newest.entry(key.to_string()).or_default();
        if (term as u64) < *newest {
            self.broken
                .push(format!("{key}: term {term} was written after {newest}, at revision {revision}"));
        }
        *newest = (*newest).max(term as u64);
    }
}

/// The watch, while it runs.
pub struct History {
    stop: Arc<AtomicBool>,
    terms: Arc<Mutex<Terms>>,
    thread: Option<JoinHandle<()>>,
}

impl History {
    pub fn start(servers: Vec<SocketAddr>, login: (&'static str, &'static str)) -> History {
        let (stop, terms) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Terms>>::default());
        let (stopped, seen) = (stop.clone(), terms.clone());
        let thread = std::thread::spawn(move || {
            for server in servers.iter().cycle() {
                // A server that was killed: the next one has the bucket as well.
                let _ = watch(*server, login, &seen, &stopped);
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        History { stop, terms, thread: Some(thread) }
    }

    pub fn terms(&self) -> Terms {
        lock(&self.terms).clone()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn lock(terms: &Mutex<Terms>) -> MutexGuard<'_, Terms> {
    terms.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn watch(
    server: SocketAddr,
    login: (&str, &str),
    terms: &Mutex<Terms>,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    let socket = TcpStream::connect_timeout(&server, Duration::from_secs(2))?;
    // The server says PING, and a watch without any word for so long is not one.
    socket.set_read_timeout(Some(Duration::from_secs(15)))?;
    let mut out = socket.try_clone()?;
    let mut reader = BufReader::new(socket);
    let from = lock(terms).upto + 1;
    let create = format!(
        "{{\"stream_name\":\"{STREAM}\",\"config\":{{\"deliver_subject\":\"history.in\",\"ack_policy\":\"none\",\
         \"deliver_policy\":\"by_start_sequence\",\"opt_start_seq\":{from},\"replay_policy\":\"instant\",\
         \"mem_storage\":true,\"num_replicas\":1,\"inactive_threshold\":30000000000}}}}"
    );
    let (user, password) = login;
    write!(
        out,
        "CONNECT {{\"verbose\":false,\"pedantic\":false,\"user\":\"{user}\",\"pass\":\"{password}\",\
         \"lang\":\"text\",\"version\":\"1\",\"name\":\"history\"}}\r\nSUB history.in 1\r\nSUB history.made 2\r\n\
         PUB $JS.API.CONSUMER.CREATE.{STREAM} history.made {}\r\n{create}\r\n",
        create.len()
    )?;
    let mut line = String::new();
    while !stop.load(Ordering::SeqCst) {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            break;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (header, whole) = match words[..] {
            ["PING"] => {
                out.write_all(b"PONG\r\nPING\r\n")?;
                continue;
            }
            ["MSG", _, _, .., bytes] => (0, read_number(bytes)?),
            ["HMSG", _, _, .., header, bytes] => (read_number(header)?, read_number(bytes)?),
            ["-ERR", ..] => return Err(std::io::Error::other(line)),
            _ => continue,
        };
        let mut bytes = vec![0; whole + 2];
        reader.read_exact(&mut bytes)?;
        let value = &bytes[header.min(whole)..whole];
        if words[2] == "2" && !String::from_utf8_lossy(value).contains("\"name\"") {
            return Err(std::io::Error::other("the bucket cannot be watched"));
        }
        if let (Some(key), Some(revision)) = (words[1].strip_prefix(SUBJECTS), revision_of(words[3])) {
            lock(terms).see(revision, key, value);
        }
    }
    Ok(())
}

fn read_number(text: &str) -> std::io::Result<usize> {
    let number = text.parse().ok().filter(|number| *number <= BYTES_MAX);
    number.ok_or_else(|| std::io::Error::other("a message without a length"))
}

/// The revision out of `$JS.ACK.<stream>.<consumer>.<delivered>.<revision>.…`; newer servers name two more before it.
fn revision_of(reply: &str) -> Option<u64> {
    let rest = reply.strip_prefix("$JS.ACK.")?;
    let words: Vec<&str> = rest.split('.').collect();
    let at = if words.len() >= 9 { 5 } else { 3 };
    words.get(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lower_term_after_a_greater_one_is_told() {
        let mut terms = Terms::default();
        let mut see = |revision, key: &str, term: u64| {
            terms.see(revision, key, format!("{{\"term\":{term}}}").as_bytes())
        };
        see(1, "table.shards", 5);
        see(2, "table.ranks", 4);
        see(3, "leader", 2);
        see(4, "leader", 0);
        see(5, "node.a", 1);
        see(6, "table.shards", 9);
        // Told twice.
        see(1, "table.shards", 5);
        assert_eq!((terms.writes, terms.broken.len()), (5, 0));
        terms.see(7, "table.shards", b"{\"term\":5}");
        terms.see(8, "node.b", b"{\"name\":\"index-1\",\"incarnation\":3}");
        terms.see(9, "node.b", b"{\"name\":\"index-1\",\"incarnation\":2}");
        assert_eq!((terms.incarnation("index-1"), terms.incarnation("index-2")), (3, 0));
        assert_eq!(terms.broken, ["table.shards: term 5 was written after 9, at revision 7"]);
    }

    #[test]
    fn revisions_are_read() {
        assert_eq!(revision_of("$JS.ACK.KV_a.x.1.42.1.1700.0"), Some(42));
        assert_eq!(revision_of("$JS.ACK._.HASH.KV_a.x.1.42.1.1700.0.zz"), Some(42));
        assert_eq!(revision_of("_INBOX.a"), None);
    }
}
