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
    with_engine(place, wants, |engine| engine.get(path))
}

/// Asks for one path after another: `next` is told the last answer, and says what to ask for next.
pub fn ask_on(
    place: &Place,
    next: &mut dyn FnMut(Option<serde_json::Value>) -> Result<Option<String>>,
) -> Result<()> {
    with_engine(place, Wants::Everything, |engine| {
        let mut path = next(None)?;
        while let Some(asked) = path {
            path = next(Some(engine.get(&asked)?))?;
        }
        Ok(())
    })
}

/// Gives orders, each a path of the API and a body, one after the other; each with its answer.
pub fn order(
    place: &Place,
    orders: Vec<(String, serde_json::Value)>,
) -> Result<Vec<Result<serde_json::Value>>> {
    with_engine(place, Wants::Now, |engine| {
        Ok(orders.iter().map(|(path, body)| engine.post(path, body)).collect())
    })
}

/// An engine that listens, and the key to it.
struct Listener {
    address: SocketAddr,
    token: String,
}

/// Does something with the engine that runs on the folder, or with one that is started for it and ends with it.
fn with_engine<T>(place: &Place, wants: Wants, work: impl FnOnce(&Listener) -> Result<T>) -> Result<T> {
    let folder = Folder::open(&place.data)?;
    if folder.is_locked() {
        let Some(address) = folder.listening() else {
            bail!(
                "a crawl without a search page is using {}; ask again when it has ended",
                place.data.display()
            );
        };
        let token = admin_key::read(folder.path(), &place.settings()?);
        return work(&Listener { address, token });
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
        Roles { crawl: false, index: true, serve: true, federates: false, ends_when_done: false },
    )?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let address = runtime.block_on(running.listen())?.context("the engine does not listen")?.address;
    let begun = Instant::now();
    while wants == Wants::Everything && !running.caught_up() && begun.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(20));
    }
    let done = work(&Listener { address, token });
    running.stop()?;
    done
}

impl Listener {
    fn get(&self, path: &str) -> Result<serde_json::Value> {
        self.request(&format!("GET {path}"), "")
    }

    fn post(&self, path: &str, body: &serde_json::Value) -> Result<serde_json::Value> {
        self.request(&format!("POST {path}"), &body.to_string())
    }

    /// A plain request over HTTP/1.0, to our own server on this machine.
    fn request(&self, what: &str, body: &str) -> Result<serde_json::Value> {
        let Listener { address, token } = self;
        let gone = || format!("the engine at http://{address} does not answer");
        let mut stream = TcpStream::connect_timeout(address, Duration::from_secs(3)).with_context(gone)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let head = format!(
            "{what} HTTP/1.0\r\nHost: {address}\r\nAccept: application/json\r\nAuthorization: Bearer {token}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).with_context(gone)?;
        let mut bytes = Vec::new();
        stream.take(ANSWER_BYTES_MAX).read_to_end(&mut bytes).with_context(gone)?;
        let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").with_context(gone)?;
        let json: serde_json::Value = serde_json::from_slice(&bytes[head + 4..]).with_context(gone)?;
        match json.get("error").and_then(|error| error.get("message")).and_then(|message| message.as_str()) {
            Some(message) => bail!("{message}"),
            None => Ok(json),
        }
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
