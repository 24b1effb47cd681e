//! Asks Farol's own API, on loopback.

use crate::json::Json;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// No answer of the API is near this size.
const ANSWER_BYTES_MAX: u64 = 16 << 20;

pub fn get(address: SocketAddr, path: &str, key: &str) -> Result<Json, String> {
    let bytes =
        exchange(address, path, key).map_err(|error| format!("cannot ask {address}{path}: {error}"))?;
    let end = find(&bytes, b"\r\n\r\n").ok_or(format!("no answer to {path}"))?;
    let head = String::from_utf8_lossy(&bytes[..end]).to_ascii_lowercase();
    let body = &bytes[end + 4..];
    if !head.starts_with("http/1.1 200") {
        return Err(format!("{path}: {}", head.lines().next().unwrap_or_default()));
    }
    let body = if head.contains("transfer-encoding: chunked") { joined(body) } else { Some(body.to_vec()) };
    let text = body.and_then(|body| String::from_utf8(body).ok()).ok_or(format!("{path}: broken answer"))?;
    Json::read(&text)
}

fn exchange(address: SocketAddr, path: &str, key: &str) -> std::io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect_timeout(&address, Duration::from_secs(10))?;
    socket.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(socket, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n")?;
    if !key.is_empty() {
        write!(socket, "Authorization: Bearer {key}\r\n")?;
    }
    write!(socket, "\r\n")?;
    let mut bytes = Vec::new();
    socket.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Joins the chunks of a chunked body.
fn joined(mut body: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let line = find(body, b"\r\n")?;
        let digits = std::str::from_utf8(&body[..line]).ok()?.split(';').next()?.trim();
        let size = usize::from_str_radix(digits, 16).ok()?;
        if size == 0 {
            return Some(whole);
        }
        let start = line + 2;
        whole.extend_from_slice(body.get(start..start.checked_add(size)?)?);
        body = body.get(start + size + 2..)?;
    }
}

fn find(bytes: &[u8], mark: &[u8]) -> Option<usize> {
    bytes.windows(mark.len()).position(|window| window == mark)
}

/// Escapes a text for a query parameter.
pub fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() {
            escaped.push(char::from(byte));
        } else {
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_joined() {
        assert_eq!(joined(b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n").unwrap(), b"abcde");
        assert_eq!(joined(b"ffffffffffffffff\r\nabc"), None);
        assert_eq!(joined(b""), None);
    }

    #[test]
    fn words_are_escaped() {
        assert_eq!(escaped("função x&y"), "fun%C3%A7%C3%A3o%20x%26y");
    }
}
