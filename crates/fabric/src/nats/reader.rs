//! Reads a stream from a position on: a consumer that the server forgets, pulled one batch at a time.
//!
//! Nothing is kept in the server: the consumer lives in the memory of one of them, and goes with it. What it sends is
//! numbered without holes (`consumer_sequence`); a hole, another stream under the same name, silence or a refusal
//! break the reader, and whoever reads opens another at its own mark.
//!
//! INVARIANT: what a reader gives is in order and follows its mark; what is at or below the mark is dropped.

use super::api::{Api, Trouble};
use async_nats::{Message, StatusCode, Subscriber};
use bytes::Bytes;
use futures_util::StreamExt;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// Where a reader begins.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    /// After this number.
    After(u64),
    /// With the newest message of each subject, then every later one.
    Newest,
}

/// A message as a stream stores it.
#[derive(Debug)]
pub struct Stored {
    pub seq: u64,
    pub subject: String,
    pub payload: Bytes,
    /// What `KV-Operation` says: the key was removed.
    pub is_removal: bool,
}

/// What a pull brought.
#[derive(Debug, Default)]
pub struct Pulled {
    pub items: Vec<Stored>,
    /// Messages that wait in the stream behind the last of these.
    pub pending: u64,
}

/// A consumer and the inbox it sends to.
pub struct Reader {
    stream: String,
    name: String,
    inbox: String,
    subscriber: Subscriber,
    order: Order,
    pulls: u64,
    /// Messages that the consumer will give at once, as was known when it was made.
    pending: u64,
    opened: Instant,
    used: Instant,
}

/// The server forgets a consumer that nobody pulls for so long.
const FORGET: Duration = Duration::from_secs(30);

/// A reader that has rested for so long is not used again: its consumer may be forgotten at any moment.
const REST_MAX: Duration = Duration::from_secs(20);

/// How long the server may take to make a consumer.
const OPEN: Duration = Duration::from_secs(5);

/// Where several servers are, not all know a new consumer at once: until then a pull is sent again.
const KNOWN_AFTER: Duration = Duration::from_secs(2);

/// Pause before a pull that nobody took is sent again.
const AGAIN: Duration = Duration::from_millis(25);

/// How much later than asked for a pull may end.
const LATE: Duration = Duration::from_secs(2);

/// Messages of one pull: at 256 KiB each 64 MiB.
const PULL_MAX: usize = 256;

/// Bytes of one pull, beyond the first message.
const PULL_BYTES_MAX: u64 = 32 << 20;

impl Reader {
    /// Makes a consumer of one subject (it may end in `>`).
    pub async fn open(api: &Api, stream: &str, subject: &str, begin: Begin) -> Result<Reader, Trouble> {
        let inbox = api.client().new_inbox();
        let subscribed = tokio::time::timeout(OPEN, api.client().subscribe(format!("{inbox}.*"))).await;
        let failed = |why: String| Trouble::Silent(format!("no inbox: {why}"));
        let subscriber = subscribed
            .map_err(|_| failed("it takes too long".to_string()))?
            .map_err(|error| failed(error.to_string()))?;
        let name = inbox.rsplit('.').next().unwrap_or_default().to_string();
        let mut config = json!({
            "name": name,
            "ack_policy": "none",
            "replay_policy": "instant",
            "filter_subject": subject,
            "inactive_threshold": FORGET.as_nanos() as u64,
            "num_replicas": 1,
            "mem_storage": true,
        });
        let at = match begin {
            Begin::After(seq) => {
                config["deliver_policy"] = json!("by_start_sequence");
                config["opt_start_seq"] = json!(seq + 1);
                seq
            }
            Begin::Newest => {
                config["deliver_policy"] = json!("last_per_subject");
                0
            }
        };
        let question = json!({ "stream_name": stream, "config": config });
        let made = api.ask(&format!("CONSUMER.CREATE.{stream}.{name}.{subject}"), question, OPEN).await?;
        let pending = made.get("num_pending").and_then(Value::as_u64).unwrap_or_default();
        let stream = stream.to_string();
        Ok(Reader {
            stream,
            name,
            inbox,
            subscriber,
            order: Order { at, delivered: 0 },
            pulls: 0,
            pending,
            opened: Instant::now(),
            used: Instant::now(),
        })
    }

    /// The last stream number it gave.
    pub fn at(&self) -> u64 {
        self.order.at
    }

    /// Messages that waited in the stream when it was opened.
    pub fn pending(&self) -> u64 {
        self.pending
    }

    pub fn is_fresh(&self) -> bool {
        self.used.elapsed() < REST_MAX
    }

    /// What there is, up to `max`; where there is nothing, what comes first within `wait`.
    ///
    /// # Errors
    ///
    /// After one the reader is broken.
    pub async fn pull(&mut self, api: &Api, max: usize, wait: Duration) -> Result<Pulled, Trouble> {
        self.pulls += 1;
        self.used = Instant::now();
        let reply = format!("{}.{}", self.inbox, self.pulls);
        let max = max.clamp(1, PULL_MAX);
        // With `no_wait` the server answers as soon as it has given what there is; with `expires` beside it, it first
        // waits so long for something to come.
        let mut question = json!({ "batch": max, "no_wait": true });
        if !wait.is_zero() {
            question["expires"] = json!(wait.as_nanos() as u64);
        }
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{}.{}", self.stream, self.name);
        let question = Bytes::from(question.to_string());
        let until = self.used + wait + LATE;
        let silent = || Trouble::Silent("a reader hears nothing".to_string());
        let ask = async || {
            let asked = api.client().publish_with_reply(subject.clone(), reply.clone(), question.clone());
            let asked = tokio::time::timeout_at(until, asked).await.map_err(|_| silent())?;
            asked.map_err(|error| Trouble::Silent(error.to_string()))
        };
        ask().await?;
        let (mut pulled, mut count, mut bytes) = (Pulled::default(), 0, 0);
        while count < max && bytes < PULL_BYTES_MAX {
            let message = match tokio::time::timeout_at(until, self.subscriber.next()).await {
                Ok(Some(message)) => message,
                // The end of the inbox, or silence after something came.
                Ok(None) | Err(_) => return Err(silent()),
            };
            if let Some(status) = message.status.filter(|status| *status != StatusCode::OK) {
                if message.subject.as_str() != reply {
                    continue; // The end of an earlier pull.
                }
                if status == StatusCode::IDLE_HEARTBEAT {
                    continue;
                }
                if status == StatusCode::NOT_FOUND || status == StatusCode::TIMEOUT {
                    break;
                }
                let is_young = self.order.delivered == 0 && self.opened.elapsed() < KNOWN_AFTER;
                if status == StatusCode::NO_RESPONDERS && is_young {
                    tokio::time::sleep(AGAIN).await;
                    ask().await?;
                    continue;
                }
                let why = message.description.unwrap_or_default();
                return Err(Trouble::Silent(format!("a reader ended with {status}: {why}")));
            }
            count += 1;
            bytes += message.payload.len() as u64;
            self.take(message, &mut pulled)?;
            if pulled.pending == 0 && !pulled.items.is_empty() {
                break;
            }
        }
        self.used = Instant::now();
        Ok(pulled)
    }

    fn take(&mut self, message: Message, pulled: &mut Pulled) -> Result<(), Trouble> {
        let numbers = message.reply.as_ref().and_then(|reply| Numbers::read(reply.as_str()));
        let numbers = numbers.ok_or_else(|| Trouble::Silent("a message has no numbers".to_string()))?;
        let is_new = self.order.follows(&numbers).map_err(Trouble::Silent)?;
        pulled.pending = numbers.pending;
        if !is_new {
            return Ok(());
        }
        let operation = message.headers.as_ref().and_then(|headers| headers.get("KV-Operation"));
        pulled.items.push(Stored {
            seq: numbers.stream,
            subject: message.subject.to_string(),
            payload: message.payload,
            is_removal: operation.is_some_and(|value| ["DEL", "PURGE"].contains(&value.as_str())),
        });
        Ok(())
    }
}

/// How far a reader is.
#[derive(Debug)]
struct Order {
    /// The last stream number it gave.
    at: u64,
    /// The last number that its consumer gave a message.
    delivered: u64,
}

impl Order {
    /// Whether this message is new; one at or below the mark is not.
    ///
    /// # Errors
    ///
    /// Where the consumer has sent something that did not arrive.
    fn follows(&mut self, numbers: &Numbers) -> Result<bool, String> {
        if numbers.consumer != self.delivered + 1 {
            return Err(format!(
                "a reader misses something: {} came after {}",
                numbers.consumer, self.delivered
            ));
        }
        self.delivered = numbers.consumer;
        let is_new = numbers.stream > self.at;
        self.at = self.at.max(numbers.stream);
        Ok(is_new)
    }
}

/// What the reply subject of a message tells.
#[derive(Debug, PartialEq, Eq)]
struct Numbers {
    stream: u64,
    consumer: u64,
    pending: u64,
}

impl Numbers {
    /// `$JS.ACK.STREAM.CONSUMER.DELIVERIES.SEQ.CONSUMER_SEQ.TIME.PENDING`; newer servers put domain and account first,
    /// and may have more to say at the end.
    fn read(reply: &str) -> Option<Numbers> {
        let parts: Vec<&str> = reply.strip_prefix("$JS.ACK.")?.split('.').collect();
        let first = match parts.len() {
            7 => 2,
            9.. => 4,
            _ => return None,
        };
        let number = |at: usize| parts.get(first + at)?.parse().ok();
        Some(Numbers { stream: number(1)?, consumer: number(2)?, pending: number(4)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_break_a_reader_and_what_is_below_its_mark_is_dropped() {
        let mut order = Order { at: 7, delivered: 0 };
        let numbers = |stream, consumer| Numbers { stream, consumer, pending: 0 };
        assert_eq!(order.follows(&numbers(7, 1)), Ok(false), "at its mark");
        assert_eq!(order.follows(&numbers(9, 2)), Ok(true), "other subjects leave holes in the stream");
        assert_eq!(order.follows(&numbers(3, 3)), Ok(false));
        assert_eq!((order.follows(&numbers(10, 4)), order.at), (Ok(true), 10));
        assert!(order.follows(&numbers(12, 6)).is_err_and(|why| why.contains("6 came after 4")));
        assert!(order.follows(&numbers(11, 4)).is_err(), "nor may one come twice");
    }

    #[test]
    fn numbers_of_old_and_new_servers_are_read() {
        let numbers = Some(Numbers { stream: 12, consumer: 3, pending: 7 });
        assert_eq!(Numbers::read("$JS.ACK.S.c.1.12.3.1700000000.7"), numbers);
        assert_eq!(Numbers::read("$JS.ACK._.hash.S.c.1.12.3.1700000000.7.random"), numbers);
        assert_eq!(Numbers::read("$JS.ACK._.hash.S.c.1.12.3.1700000000.7"), numbers);
        for wrong in ["", "$JS.ACK.S.c.1", "$JS.ACK.S.c.1.x.3.1.7", "_INBOX.a"] {
            assert_eq!(Numbers::read(wrong), None, "{wrong}");
        }
    }
}
