//! Asks the engine over its own API: the running one, or one started just for the question.

use super::Place;
use crate::admin_key;
use crate::engine::{Roles, Running};
use crate::folder::Folder;
use anyhow::{Context, Result, bail};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// Longest answer read.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Whether what was crawled but not indexed yet matters for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// It should be found too, if that does not take too long.
    Everything,
    /// The answer is wanted at once.
    Now,
}

/// Asks for a path of the API and gives the answer as JSON.
pub fn ask(place: &Place, path: &str, wants: Wants) -> Result<serde_json::Value> {
    let folder = Folder::open(&place.data)?;
    if folder.is_locked() {
        let Some(address) = folder.listening() else {
            bail!(
                "a crawl without a search page is using {}; ask again when it has ended",
                place.data.display()
            );
        };
        return get(address, path, &admin_key::read(folder.path(), &place.settings()?));
    }
    let mut config = place.settings()?;
    config.serve.listen = "127.0.0.1:0".to_string();
    // The engine that is started here takes the same.
    config.serve.admin_token = admin_key::draw(folder.path(), &config)?;
    let token = config.serve.admin_token.clone();
    let running = Running::start(
        folder,
        config,
        &[],
        Roles { crawl: false, index: true, serve: true, ends_when_done: false },
    )?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let address = runtime.block_on(running.listen())?.context("the engine does not listen")?.address;
    let begun = Instant::now();
    while wants == Wants::Everything && !running.caught_up() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let answer = get(address, path, &token);
    running.stop()?;
    answer
}

/// A plain GET over HTTP/1.0, to our own server on this machine.
fn get(address: SocketAddr, path: &str, token: &str) -> Result<serde_json::Value> {
    let gone = || format!("the engine at http://{address} does not answer");
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(3)).with_context(gone)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let token = format!("Authorization: Bearer {token}");
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\n{token}\r\n\r\n")
        .with_context(gone)?;
    let mut bytes = Vec::new();
    stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).with_context(gone)?;
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").with_context(gone)?;
    let json: serde_json::Value = serde_json::from_slice(&bytes[head + 4..]).with_context(gone)?;
    match json.get("error").and_then(|error| error.get("message")).and_then(|message| message.as_str()) {
        Some(message) => bail!("{message}"),
        None => Ok(json),
    }
}

/// Percent-encodes a query value.
pub fn escaped(text: &str) -> String {
    text.bytes()
        .map(|b| match b {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' => char::from(b).to_string(),
            b => format!("%{b:02X}"),
        })
        .collect()
}
