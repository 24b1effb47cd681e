//! One cache node beside memcached: the same answers of 4 KiB, as many callers, loopback, as fast as it goes.
//!
//! Twice: by a client that is alike, a thread and a connection for each caller, that sends a request, waits for the answer
//! and sends the next (`replay --raw`, by the product's own calls); and by a whole front, with all that it does around a
//! call, on one connection for all callers.
//! Who asks runs on the same processors as who answers, so what the server itself takes for a request is told as well.

use super::CacheOptions;
use super::lab::{CacheLab, worked};
use crate::faults::process::Process;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Answers that are asked for, over and over.
const ANSWERS: usize = 500;
/// Bytes of each.
const BYTES: usize = 4096;
/// Callers at a time.
const CALLERS: [usize; 3] = [1, 32, 256];

pub fn beside_memcached(options: &CacheOptions) -> Result<Vec<String>, String> {
    let mut out = Vec::new();
    let lab = CacheLab::start(options, 1, "memory = '64MiB'\nttl = '24h'\ncopies = 0.0")?;
    let log = options.dir.join("questions.txt");
    let text: String = (0..ANSWERS).map(|nth| format!("question number {nth}\n")).collect();
    std::fs::write(&log, text).map_err(|error| format!("cannot write the questions: {error}"))?;
    let mut alike = Vec::new();
    for callers in CALLERS {
        let time = format!("{}s", options.phase.as_secs());
        let (log, people) = (log.display().to_string(), callers.to_string());
        let words =
            ["--input", &log, "--time", &time, "--rate", "0", "--fronts", "1", "--people", &people, "--raw"];
        let before = lab.worked();
        let (_, total) = lab.replay(&words.map(String::from))?.end()?;
        let (hits, secs) = (total.get("asked").number(), total.get("seconds").number());
        alike.push(hits / secs);
        out.push(format!(
            "  farol, alike    {callers:>3} callers  {:>8.0} a second  {:6.1} µs of the node's processor each",
            hits / secs,
            1e6 * (lab.worked() - before) / hits.max(1.0)
        ));
    }
    let mut ours = Vec::new();
    for callers in CALLERS {
        let time = format!("{}s", options.phase.as_secs());
        let (log, people) = (log.display().to_string(), callers.to_string());
        let words = ["--input", &log, "--time", &time, "--rate", "0", "--fronts", "1", "--people", &people];
        let more = ["--index", "5ms", "--plain", "--patient"];
        let before = lab.worked();
        let words: Vec<String> = words.into_iter().chain(more).map(String::from).collect();
        let (_, total) = lab.replay(&words)?.end()?;
        let (asked, secs) = (total.get("asked").number(), total.get("seconds").number());
        // What went past the node does not count.
        let (made, hits) = (total.get("made").number(), total.get("counters.hits").number());
        ours.push(hits / secs);
        out.push(format!(
            "  farol, a front  {callers:>3} callers  {:>8.0} a second  {:6.1} µs of the node's processor each  ({made} of {asked} made anew)",
            hits / secs,
            1e6 * (lab.worked() - before) / hits.max(1.0)
        ));
    }
    drop(lab);
    let theirs = memcached(options, &mut out)?;
    for (nth, callers) in CALLERS.iter().enumerate() {
        let ratio = |ours: &[f64]| ours[nth] / theirs[nth].max(1.0);
        out.push(format!(
            "  ratio           {callers:>3} callers  {:.2} by clients that are alike, {:.2} by a front",
            ratio(&alike),
            ratio(&ours)
        ));
    }
    Ok(out)
}

/// Requests a second of memcached, by callers.
fn memcached(options: &CacheOptions, out: &mut Vec<String>) -> Result<Vec<f64>, String> {
    let address: SocketAddr = ([127, 77, (std::process::id() % 200) as u8, 1], 11311).into();
    let words =
        ["-l", &address.ip().to_string(), "-p", "11311", "-U", "0", "-m", "64", "-u", "root", "-t", "2"];
    let words = words.into_iter().map(String::from).collect();
    let mut server = Process::new("memcached", &options.memcached, words, &options.dir);
    server.start()?;
    let begun = Instant::now();
    let mut line = loop {
        match TcpStream::connect(address) {
            Ok(line) => break line,
            Err(_) if begun.elapsed() < Duration::from_secs(5) => {
                std::thread::sleep(Duration::from_millis(50))
            }
            Err(error) => return Err(format!("memcached does not answer: {error}")),
        }
    };
    let trouble = |error: std::io::Error| format!("memcached: {error}");
    let value = vec![b'x'; BYTES];
    for nth in 0..ANSWERS {
        write!(line, "set question-number-{nth} 0 0 {BYTES}\r\n").map_err(trouble)?;
        line.write_all(&value).map_err(trouble)?;
        line.write_all(b"\r\n").map_err(trouble)?;
        let mut stored = [0; 8];
        line.read_exact(&mut stored).map_err(trouble)?;
    }
    let mut rates = Vec::new();
    for callers in CALLERS {
        let before = server.id().map_or(0.0, worked);
        let (asked, secs) = ask(address, callers, options.phase)?;
        let used = server.id().map_or(0.0, worked) - before;
        rates.push(asked as f64 / secs);
        out.push(format!(
            "  memcached       {callers:>3} callers  {:>8.0} a second  {:6.1} µs of its processor each",
            asked as f64 / secs,
            1e6 * used / (asked as f64).max(1.0)
        ));
    }
    Ok(rates)
}

/// So many callers ask without pause; how many answers they got, in how many seconds.
fn ask(address: SocketAddr, callers: usize, time: Duration) -> Result<(u64, f64), String> {
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let begun = Instant::now();
    let threads: Vec<_> = (0..callers)
        .map(|caller| {
            let (stop, asked) = (stop.clone(), asked.clone());
            std::thread::spawn(move || call(address, caller, &stop, &asked))
        })
        .collect();
    std::thread::sleep(time);
    stop.store(true, Ordering::SeqCst);
    for thread in threads {
        let ended = thread.join().map_err(|_| "a caller of memcached broke down".to_string())?;
        ended.map_err(|error| format!("memcached: {error}"))?;
    }
    Ok((asked.load(Ordering::SeqCst), begun.elapsed().as_secs_f64()))
}

fn call(address: SocketAddr, caller: usize, stop: &AtomicBool, asked: &AtomicU64) -> std::io::Result<()> {
    let line = TcpStream::connect(address)?;
    line.set_nodelay(true)?;
    let mut writer = line.try_clone()?;
    let mut reader = BufReader::with_capacity(16 << 10, line);
    let (mut head, mut value) = (String::new(), vec![0; BYTES + 7]);
    for at in caller.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        // In one piece, or each piece would be a packet.
        writer.write_all(format!("get question-number-{}\r\n", at % ANSWERS).as_bytes())?;
        head.clear();
        reader.read_line(&mut head)?;
        if !head.starts_with("VALUE") {
            return Err(std::io::Error::other(format!("{head:?} is no value")));
        }
        // The value, and END behind it.
        reader.read_exact(&mut value)?;
        asked.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}
