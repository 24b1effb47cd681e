//! Watches what leaders write: no lower term may follow a greater one.
//!
//! Reads the bucket as it is stored: a consumer tells every revision once, in order. A bucket keeps of each key the
//! newest value only, so that what is written over before it is told is gone: this one is told to keep more. There is one
//! watch by each server, each goes on behind what it has seen where its connection breaks, and revisions that none of
//! them saw are counted.

use super::nats::{self, Talk};
use crate::json::Json;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

const STREAM: &str = "KV_farol_farol";
const SUBJECTS: &str = "$KV.farol_farol.";
/// Values of a key that the bucket keeps while it is watched; as many as NATS allows a bucket.
const KEPT: u32 = 64;
/// Nodes tell of themselves every few seconds: a watch that hears nothing for so long is not one.
const SILENCE_MAX: Duration = Duration::from_secs(8);

/// What was seen so far.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// What was there before the watch began has revisions up to this.
    before: u64,
    /// By revision; what bears no term has none.
    revisions: BTreeMap<u64, Option<(String, u64)>>,
    /// The greatest incarnation of each node, by its name.
    incarnations: BTreeMap<String, u64>,
}

/// What follows from it.
#[derive(Clone, Debug, Default)]
pub struct Terms {
    incarnations: BTreeMap<String, u64>,
    /// Writes of tables and of the leader's lease.
    pub writes: usize,
    /// Times that the lease was taken.
    pub takes: usize,
    /// Revisions that nobody saw.
    pub missed: u64,
    pub broken: Vec<String>,
}

impl Terms {
    pub fn incarnation(&self, name: &str) -> u64 {
        self.incarnations.get(name).copied().unwrap_or_default()
    }
}

impl Seen {
    fn see(&mut self, revision: u64, key: &str, value: &[u8]) {
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
        let is_led = key.starts_with("table.") || key == "leader" || key == "state";
        let write = (is_led && term.is_finite()).then(|| (key.to_string(), term as u64));
        self.revisions.insert(revision, write);
    }

    fn terms(&self) -> Terms {
        let mut terms = Terms { incarnations: self.incarnations.clone(), ..Terms::default() };
        let (mut greatest, mut expected) = (0, self.before + 1);
        for (revision, write) in &self.revisions {
            if *revision >= expected {
                terms.missed += revision - expected;
                expected = revision + 1;
            }
            let Some((key, term)) = write else { continue };
            // What was written before the watch began is the newest of each key only, in any order of terms.
            if *revision <= self.before {
                continue;
            }
            terms.writes += 1;
            terms.takes += usize::from(key == "leader" && term == revision);
            if *term < greatest {
                let told = format!("{key}: term {term} was written after {greatest}, at revision {revision}");
                terms.broken.push(told);
            }
            greatest = greatest.max(*term);
        }
        terms
    }
}

/// The watch, while it runs.
pub struct History {
    stop: Arc<AtomicBool>,
    seen: Arc<Mutex<Seen>>,
    threads: Vec<JoinHandle<()>>,
}

impl History {
    pub fn start(servers: &[SocketAddr], login: (&'static str, &'static str)) -> History {
        let (stop, seen) = (Arc::<AtomicBool>::default(), Arc::<Mutex<Seen>>::default());
        let told = nats::ask(servers, login, &format!("$JS.API.STREAM.INFO.{STREAM}"), "");
        let text = told.unwrap_or_default();
        if let Some(config) = object_behind(&text, "\"config\":") {
            let more = format!("\"max_msgs_per_subject\":{KEPT},");
            let config = config.replacen("\"max_msgs_per_subject\":1,", &more, 1);
            // Where it is refused, what is missed shows.
            let _ = nats::ask(servers, login, &format!("$JS.API.STREAM.UPDATE.{STREAM}"), &config);
        }
        let info = Json::read(&text).unwrap_or(Json::Null);
        let last = info.get("state.last_seq").number();
        lock(&seen).before = if last.is_finite() { last as u64 } else { 0 };
        let watch_by = |(nth, server): (usize, &SocketAddr)| {
            let (stop, seen, server) = (stop.clone(), seen.clone(), *server);
            std::thread::spawn(move || {
                let (mut upto, mut turn) = (0, 0);
                while !stop.load(Ordering::SeqCst) {
                    // A server that was killed: it is tried until it is back.
                    turn += 1;
                    let _ = watch(server, login, &format!("history.{nth}.{turn}"), &mut upto, &seen, &stop);
                    std::thread::sleep(Duration::from_millis(300));
                }
            })
        };
        let threads = servers.iter().enumerate().map(watch_by).collect();
        History { stop, seen, threads }
    }

    pub fn terms(&self) -> Terms {
        lock(&self.seen).terms()
    }
}

impl Drop for History {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Follows the bucket through one server, from behind `upto` on.
fn watch(
    server: SocketAddr,
    login: (&str, &str),
    inbox: &str,
    upto: &mut u64,
    seen: &Mutex<Seen>,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    let mut talk = Talk::open(server, login, SILENCE_MAX)?;
    talk.subscribe(inbox, "told")?;
    let create = format!(
        "{{\"stream_name\":\"{STREAM}\",\"config\":{{\"deliver_subject\":\"{inbox}\",\"ack_policy\":\"none\",\
         \"deliver_policy\":\"by_start_sequence\",\"opt_start_seq\":{},\"replay_policy\":\"instant\",\
         \"mem_storage\":true,\"num_replicas\":1,\"inactive_threshold\":30000000000}}}}",
        *upto + 1
    );
    talk.subscribe(&format!("{inbox}.made"), "made")?;
    talk.publish(&format!("$JS.API.CONSUMER.CREATE.{STREAM}"), &format!("{inbox}.made"), &create)?;
    while !stop.load(Ordering::SeqCst) {
        let message = talk.next()?;
        if message.id == "made" && !String::from_utf8_lossy(&message.value).contains("\"name\"") {
            return Err(std::io::Error::other("the bucket cannot be watched"));
        }
        if let (Some(key), Some(revision)) =
            (message.subject.strip_prefix(SUBJECTS), revision_of(&message.reply))
        {
            lock(seen).see(revision, key, &message.value);
            *upto = (*upto).max(revision);
        }
    }
    Ok(())
}

/// The JSON object that follows a text.
fn object_behind<'a>(text: &'a str, before: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    let (mut depth, mut is_text, mut is_escaped) = (0, false, false);
    for (at, c) in rest.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => is_text = !is_text,
            '{' if !is_text => depth += 1,
            '}' if !is_text => depth -= 1,
            _ => (),
        }
        if depth == 0 {
            return (at > 0).then(|| &rest[..=at]);
        }
    }
    None
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
        let mut seen = Seen { before: 2, ..Seen::default() };
        let mut see = |revision, key: &str, term: u64| {
            seen.see(revision, key, format!("{{\"term\":{term}}}").as_bytes())
        };
        see(1, "table.shards", 9);
        see(3, "leader", 0);
        see(5, "table.shards", 3);
        // Heard twice, and late.
        see(3, "leader", 0);
        see(4, "leader", 3);
        see(6, "node.a", 1);
        see(9, "leader", 0);
        let terms = seen.terms();
        assert_eq!((terms.writes, terms.takes, terms.missed), (4, 2, 2));
        assert_eq!(terms.broken.len(), 0);
        seen.see(10, "table.ranks", b"{\"term\":3}");
        seen.see(11, "node.b", b"{\"name\":\"index-1\",\"incarnation\":3}");
        seen.see(12, "node.b", b"{\"name\":\"index-1\",\"incarnation\":2}");
        let terms = seen.terms();
        assert_eq!((terms.incarnation("index-1"), terms.incarnation("index-2")), (3, 0));
        assert_eq!(terms.broken, ["table.ranks: term 3 was written after 9, at revision 10"]);
    }

    #[test]
    fn an_object_ends_with_its_own_brace() {
        let text = r#"{"type":"x","config":{"a":"}\"{","b":{"c":1}},"state":{}}"#;
        assert_eq!(object_behind(text, "\"config\":"), Some(r#"{"a":"}\"{","b":{"c":1}}"#));
        assert_eq!(object_behind("{}", "\"config\":"), None);
        assert_eq!(object_behind("\"config\":{", "\"config\":"), None);
    }

    #[test]
    fn revisions_are_read() {
        assert_eq!(revision_of("$JS.ACK.KV_a.x.1.42.1.1700.0"), Some(42));
        assert_eq!(revision_of("$JS.ACK._.HASH.KV_a.x.1.42.1.1700.0.zz"), Some(42));
        assert_eq!(revision_of("_INBOX.a"), None);
    }
}
