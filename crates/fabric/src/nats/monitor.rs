//! What a server's monitor tells: whether it writes before it acknowledges, and how much it may store.

use serde_json::Value;
use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// How long each step of asking may take: a monitor is near, or not there.
const STEP: Duration = Duration::from_millis(500);

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// What one server says of its JetStream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// Whether it writes to disk before it acknowledges.
    pub sync_always: bool,
    /// What all streams may store.
    pub store_bytes: u64,
}

/// Asks the monitor at `host:port`; `None` where there is none or it cannot be understood.
pub fn ask(address: &str) -> Option<Told> {
    read(&fetch(address, "/jsz").ok()?)
}

/// What all monitors together say: writing first only where all do, and the least room.
pub fn ask_all(addresses: &[String]) -> Option<Told> {
    let told = addresses.iter().filter_map(|address| ask(address));
    told.reduce(|one, other| Told {
        sync_always: one.sync_always && other.sync_always,
        store_bytes: one.store_bytes.min(other.store_bytes),
    })
}

/// Whether the server's monitor says that it is ready.
pub fn is_healthy(address: &str) -> bool {
    fetch(address, "/healthz")
        .is_ok_and(|answer| answer.starts_with("HTTP/1.1 200") || answer.starts_with("HTTP/1.0 200"))
}

fn fetch(address: &str, path: &str) -> std::io::Result<String> {
    let none = || std::io::Error::new(std::io::ErrorKind::NotFound, "no address");
    let address = address.to_socket_addrs()?.next().ok_or_else(none)?;
    let mut stream = TcpStream::connect_timeout(&address, STEP)?;
    stream.set_read_timeout(Some(STEP))?;
    stream.set_write_timeout(Some(STEP))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

fn read(answer: &str) -> Option<Told> {
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let told: Value = serde_json::from_str(body).ok()?;
    let config = told.get("config")?;
    let store_bytes = config.get("max_storage")?.as_u64()?;
    // What is not so is left out.
    let sync_always = config.get("sync_always").and_then(Value::as_bool).unwrap_or_default();
    Some(Told { sync_always, store_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_monitor_leaves_out_is_not_so() {
        let answer = |config: &str| format!("HTTP/1.0 200 OK\r\nDate: x\r\n\r\n{{\"config\":{config}}}");
        let told = |sync_always| Some(Told { sync_always, store_bytes: 7 });
        assert_eq!(read(&answer(r#"{"max_storage":7,"sync_always":true}"#)), told(true));
        assert_eq!(read(&answer(r#"{"max_storage":7,"sync_interval":120}"#)), told(false));
        assert_eq!(read(&answer("{}")), None);
        assert_eq!(read("HTTP/1.0 200 OK\r\n\r\nno JSON"), None);
    }
}
