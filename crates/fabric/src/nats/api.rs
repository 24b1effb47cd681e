//! Questions to JetStream and what came of them, each within its own time.
//!
//! Asked and answered in JSON over plain requests, as the protocol is written down. The client's own layer over it has
//! ordered consumers, key-value buckets and batches with traps of their own, which docs/decisions/cluster.md lists.

use async_nats::connection::State;
use async_nats::{Client, HeaderMap, Request, RequestErrorKind};
use bytes::Bytes;
use serde_json::Value;
use std::fmt;
use std::time::Duration;

/// A stream of that name is not there.
pub const NO_STREAM: u64 = 10059;
/// A message of that subject is not there.
pub const NO_MESSAGE: u64 = 10037;
/// Somebody else made a stream of that name, with other settings.
pub const STREAM_EXISTS: u64 = 10058;
/// The key has another revision: as older and as newer servers call it.
pub const WRONG_REVISION: [u64; 2] = [10071, 10164];
/// A stream cannot take more: by its limits, or because the disk is full.
pub const STORE_FAILED: u64 = 10077;
/// The server's own limit of all streams is reached.
pub const NO_RESOURCES: [u64; 3] = [10023, 10047, 10028];
/// JetStream has no leader now.
pub const NO_LEADER: [u64; 2] = [10008, 10009];
/// Fewer servers than copies: of a cluster, and of a single server.
pub const TOO_FEW_SERVERS: [u64; 2] = [10005, 10074];
/// JetStream is not switched on, for the server or for the account.
pub const SWITCHED_OFF: [u64; 2] = [10076, 10039];

/// Why a question was not answered as hoped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// No answer in time, or no connection: whether it was done nobody knows.
    Silent(String),
    /// Nobody there takes such questions: not done.
    Nobody,
    /// A refusal with its number: not done.
    Refused { code: u64, text: String },
}

impl Trouble {
    /// Whether this is a refusal with one of these numbers.
    pub fn is(&self, codes: &[u64]) -> bool {
        matches!(self, Trouble::Refused { code, .. } if codes.contains(code))
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trouble::Silent(why) => write!(f, "NATS does not answer: {why}"),
            Trouble::Nobody => {
                write!(f, "NATS has nobody to answer now: a stream is without leader, or gone")
            }
            Trouble::Refused { code, text } => write!(f, "NATS refuses: {text} ({code})"),
        }
    }
}

/// A connection to ask by.
#[derive(Clone)]
pub struct Api {
    client: Client,
}

impl Api {
    pub fn new(client: Client) -> Api {
        Api { client }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends something and waits for its answer.
    ///
    /// Without a connection nothing is sent: the client would keep it, and send it whenever there is one again.
    pub async fn send(
        &self,
        subject: &str,
        headers: Option<HeaderMap>,
        payload: Bytes,
        limit: Duration,
    ) -> Result<Value, Trouble> {
        if self.client.connection_state() != State::Connected {
            return Err(Trouble::Silent("there is no connection".to_string()));
        }
        let mut request = Request::new().payload(payload).timeout(Some(limit));
        if let Some(headers) = headers {
            request = request.headers(headers);
        }
        // The client's own limit does not cover waiting for room in its queue.
        let sent = tokio::time::timeout(limit, self.client.send_request(subject.to_string(), request));
        let answer = match sent.await {
            Ok(Ok(message)) => message.payload,
            Ok(Err(error)) if error.kind() == RequestErrorKind::NoResponders => return Err(Trouble::Nobody),
            Ok(Err(error)) if error.kind() == RequestErrorKind::TimedOut => return Err(silent_for(limit)),
            Ok(Err(error)) => return Err(Trouble::Silent(error.to_string())),
            Err(_) => return Err(silent_for(limit)),
        };
        let answer = serde_json::from_slice(&answer)
            .map_err(|error| Trouble::Silent(format!("its answer cannot be read: {error}")))?;
        refusal(&answer).map_or(Ok(answer), Err)
    }

    /// Asks JetStream itself.
    pub async fn ask(&self, verb: &str, question: Value, limit: Duration) -> Result<Value, Trouble> {
        let payload = if question.is_null() { Bytes::new() } else { Bytes::from(question.to_string()) };
        self.send(&format!("$JS.API.{verb}"), None, payload, limit).await
    }
}

fn silent_for(limit: Duration) -> Trouble {
    Trouble::Silent(format!("nothing came for {:.1} s", limit.as_secs_f64()))
}

fn refusal(answer: &Value) -> Option<Trouble> {
    let error = answer.get("error")?;
    let number = |name: &str| error.get(name).and_then(Value::as_u64);
    let text = error.get("description").and_then(Value::as_str).unwrap_or("no reason given");
    // Old errors have only the code that HTTP would give them.
    let code = number("err_code").or_else(|| number("code")).unwrap_or_default();
    Some(Trouble::Refused { code, text: text.to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_refusal_is_told_from_an_answer() {
        assert_eq!(refusal(&json!({ "stream": "S", "seq": 1 })), None);
        let answer =
            json!({ "error": { "code": 503, "err_code": 10077, "description": "maximum bytes exceeded" } });
        let refused = refusal(&answer).unwrap();
        assert!(refused.is(&[STORE_FAILED]) && !refused.is(&[NO_STREAM]), "{refused}");
        assert!(refused.to_string().contains("maximum bytes exceeded"));
        assert!(refusal(&json!({ "error": { "code": 400 } })).unwrap().is(&[400]));
    }
}
