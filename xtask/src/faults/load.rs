//! People who ask at a steady pace, whether or not they are answered.
//!
//! INVARIANT: a question is counted from the instant at which it was due, so that a stall shows in all the questions
//! that fell due meanwhile and not in one. Two fronts are asked in turn; where one refuses or drops the connection the
//! other is asked, as a load balancer does, and the question is counted as such.

use crate::json::Json;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Nobody waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions under way at most: at 200 a second, all of a stall of two seconds.
const WORKERS: usize = 400;
/// A worker parses one small answer.
const STACK_BYTES: usize = 512 << 10;
const ANSWER_BYTES_MAX: u64 = 4 << 20;

/// What became of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Whole,
    /// Some shards did not answer, and the answer says so.
    Partial,
    Failed,
}

#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// When it was due, in seconds after the begin.
    pub due: f64,
    /// From then to the end of the answer.
    pub seconds: f64,
    pub outcome: Outcome,
    /// The first front dropped it and the other one was asked.
    pub was_moved: bool,
}

/// The crowd, while it asks.
pub struct Load {
    begun: Instant,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Vec<Sample>>>,
    troubles: Arc<Mutex<BTreeMap<String, u64>>>,
}

/// What all workers share.
struct Crowd {
    fronts: Vec<SocketAddr>,
    questions: Vec<String>,
    begun: Instant,
    every: Duration,
    repeats: bool,
    next: AtomicUsize,
    stop: Arc<AtomicBool>,
    troubles: Arc<Mutex<BTreeMap<String, u64>>>,
}

impl Load {
    /// Each question is a new one, so that no answer is one that was kept, unless it `repeats`.
    pub fn start(
        fronts: &[SocketAddr],
        questions: &[String],
        per_second: f64,
        repeats: bool,
    ) -> Result<Load, String> {
        let (stop, troubles) = (Arc::<AtomicBool>::default(), Arc::default());
        let crowd = Arc::new(Crowd {
            fronts: fronts.to_vec(),
            questions: questions.to_vec(),
            begun: Instant::now(),
            every: Duration::from_secs_f64(1.0 / per_second),
            repeats,
            next: AtomicUsize::new(0),
            stop: stop.clone(),
            troubles: Arc::clone(&troubles),
        });
        let mut threads = Vec::new();
        for _ in 0..WORKERS {
            let crowd = crowd.clone();
            let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(move || work(&crowd));
            threads.push(thread.map_err(|error| format!("cannot start threads that ask: {error}"))?);
        }
        Ok(Load { begun: crowd.begun, stop, threads, troubles })
    }

    /// Seconds since the begin.
    pub fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Stops asking; all that was asked, and why questions failed with how many did.
    pub fn end(self) -> (Vec<Sample>, BTreeMap<String, u64>) {
        self.stop.store(true, Ordering::SeqCst);
        let samples = self.threads.into_iter().flat_map(|thread| thread.join().unwrap_or_default()).collect();
        let troubles = self.troubles.lock().map(|troubles| troubles.clone()).unwrap_or_default();
        (samples, troubles)
    }
}

fn work(crowd: &Crowd) -> Vec<Sample> {
    let mut samples = Vec::new();
    while !crowd.stop.load(Ordering::SeqCst) {
        let nth = crowd.next.fetch_add(1, Ordering::SeqCst);
        let due = crowd.begun + crowd.every.mul_f64(nth as f64);
        while let Some(rest) = due.checked_duration_since(Instant::now()) {
            if crowd.stop.load(Ordering::SeqCst) {
                return samples;
            }
            std::thread::sleep(rest.min(Duration::from_millis(200)));
        }
        let turn = if crowd.repeats { 0 } else { nth };
        let question = format!("{} -n{turn}", crowd.questions[nth % crowd.questions.len()]);
        let (outcome, was_moved) = ask_either(crowd, nth, &question);
        let due_seconds = (due - crowd.begun).as_secs_f64();
        samples.push(Sample { due: due_seconds, seconds: due.elapsed().as_secs_f64(), outcome, was_moved });
    }
    samples
}

fn ask_either(crowd: &Crowd, nth: usize, question: &str) -> (Outcome, bool) {
    let front = |turn: usize| crowd.fronts[(nth + turn) % crowd.fronts.len()];
    let mut told = ask(front(0), question);
    let was_moved = matches!(told, Err(Trouble::Dropped(_)));
    if was_moved {
        told = ask(front(1), question);
    }
    let text = match told {
        Ok(outcome) => return (outcome, was_moved),
        Err(Trouble::Dropped(text) | Trouble::Wrong(text)) => text,
    };
    if let Ok(mut troubles) = crowd.troubles.lock() {
        *troubles.entry(text).or_default() += 1;
    }
    (Outcome::Failed, was_moved)
}

#[derive(Debug)]
enum Trouble {
    /// The connection was refused or broke before the answer: another front may be asked.
    Dropped(String),
    Wrong(String),
}

fn ask(front: SocketAddr, question: &str) -> Result<Outcome, Trouble> {
    let path = format!("/api/v1/search?q={}", crate::debian_docs::http::escaped(question));
    let bytes = exchange(front, &path).map_err(|error| match error.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            Trouble::Wrong(format!("no answer within {} s", PATIENCE.as_secs()))
        }
        kind => Trouble::Dropped(format!("{kind}")),
    })?;
    read_answer(&bytes)
}

/// What an answer says of itself.
fn read_answer(bytes: &[u8]) -> Result<Outcome, Trouble> {
    let text = String::from_utf8_lossy(bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else {
        return Err(Trouble::Dropped("the connection broke before an answer".to_string()));
    };
    let status = head.lines().next().unwrap_or_default();
    if status.split(' ').nth(1) != Some("200") {
        return Err(Trouble::Wrong(status.to_string()));
    }
    // A cut body does not read as JSON.
    let json = Json::read(body)
        .map_err(|_| Trouble::Dropped("the connection broke within an answer".to_string()))?;
    let (total, answered) = (json.get("shards.total").number(), json.get("shards.answered").number());
    match answered {
        answered if answered == total => Ok(Outcome::Whole),
        answered if answered < total => Ok(Outcome::Partial),
        _ => Err(Trouble::Wrong("an answer that does not say of how many shards it is".to_string())),
    }
}

fn exchange(front: SocketAddr, path: &str) -> std::io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect_timeout(&front, PATIENCE)?;
    socket.set_nodelay(true)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    // HTTP/1.0 has no chunks.
    let request = format!("GET {path} HTTP/1.0\r\nHost: {front}\r\nConnection: close\r\n\r\n");
    socket.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    socket.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(shards: &str) -> Result<Outcome, Trouble> {
        read_answer(format!("HTTP/1.1 200 OK\r\na: b\r\n\r\n{{\"shards\":{shards}}}").as_bytes())
    }

    #[test]
    fn an_answer_says_of_how_many_shards_it_is() {
        assert_eq!(told("{\"total\":4,\"answered\":4}").unwrap(), Outcome::Whole);
        assert_eq!(told("{\"total\":4,\"answered\":3}").unwrap(), Outcome::Partial);
        assert!(matches!(told("{}"), Err(Trouble::Wrong(_))));
        assert!(matches!(told("{\"total\":4,"), Err(Trouble::Dropped(_))));
        assert!(matches!(read_answer(b"HTTP/1.1 503 x\r\n\r\n"), Err(Trouble::Wrong(_))));
        assert!(matches!(read_answer(b""), Err(Trouble::Dropped(_))));
    }

    #[test]
    fn who_is_refused_by_one_front_asks_the_other() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = listener.local_addr().unwrap();
        let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        std::thread::spawn(move || {
            for mut socket in listener.incoming().flatten() {
                let _ = socket.read(&mut [0; 1024]);
                let _ = socket.write_all(b"HTTP/1.1 200 OK\r\n\r\n{\"shards\":{\"total\":1,\"answered\":1}}");
            }
        });
        let load = Load::start(&[there, nobody], &["a".to_string()], 100.0, false).unwrap();
        while load.now() < 0.5 {
            std::thread::sleep(Duration::from_millis(10));
        }
        let (samples, troubles) = load.end();
        assert!(samples.len() > 4, "{samples:?}");
        assert!(samples.iter().all(|sample| sample.outcome == Outcome::Whole), "{troubles:?}");
        let moved = samples.iter().filter(|sample| sample.was_moved).count();
        assert!(moved.abs_diff(samples.len() / 2) <= 1, "{moved} of {}", samples.len());
    }
}
