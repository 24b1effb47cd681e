//! The streams of a cluster: made when they are first used, each with its limits and its random id.
//!
//! INVARIANT: the limits of all streams together stay below four fifths of what the servers may store. Where a server's
//! own limit is reached, every stream refuses at once, the tables with all leases too.

use super::api::{self, Api, Trouble};
use crate::{LogLimits, StreamFill, StreamId, Topic};
use serde_json::{Value, json};
use std::time::Duration;

/// How long one question about streams may take.
const ASK: Duration = Duration::from_secs(5);

/// Making a stream on several servers takes longer: they choose its leader.
const MAKE: Duration = Duration::from_secs(10);

/// Tries to be faster than all nodes.
const RENEWALS_MAX: usize = 10;

/// Where a stream's id stands in its metadata.
const ID: &str = "farol-stream-id";

/// What the tables may hold: 4,000 values of the largest size, or a million usual ones.
const TABLES_BYTES_MAX: u64 = 1 << 30;

/// What is known of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamInfo {
    pub id: StreamId,
    /// The last number given.
    pub end: u64,
    pub fill: StreamFill,
}

impl StreamInfo {
    fn read(answer: &Value) -> Option<StreamInfo> {
        let (config, state) = (answer.get("config")?, answer.get("state")?);
        let number = |from: &Value, name: &str| from.get(name).and_then(Value::as_u64);
        let name = config.get("name")?.as_str()?.to_string();
        let id = config.pointer("/metadata/farol-stream-id").and_then(Value::as_str);
        Some(StreamInfo {
            // A stream that somebody made by hand has none: the second of its birth tells it from the next.
            id: id.and_then(StreamId::parse).unwrap_or_else(|| id_of_birth(answer)),
            end: number(state, "last_seq")?,
            fill: StreamFill {
                name,
                messages: number(state, "messages")?,
                bytes: number(state, "bytes")?,
                bytes_max: number(config, "max_bytes").unwrap_or_default(),
            },
        })
    }
}

fn id_of_birth(answer: &Value) -> StreamId {
    let created = answer.get("created").and_then(Value::as_str).unwrap_or_default();
    let (low, high) = (crc32fast::hash(created.as_bytes()), crc32fast::hash(created.repeat(2).as_bytes()));
    StreamId(u64::from(high) << 32 | u64::from(low))
}

/// What a cluster's streams are made of.
#[derive(Clone, Debug)]
pub struct Streams {
    pub cluster: String,
    pub copies: usize,
    pub log_bytes_max: u64,
    /// What each server may store, where its monitor told.
    pub store_bytes: Option<u64>,
}

impl Streams {
    /// The stream of the tables: named and laid out as a key-value bucket, so that NATS's own tools show it.
    pub fn tables(&self) -> String {
        format!("KV_farol_{}", self.cluster)
    }

    /// The subject of a key.
    pub fn key_subject(&self, key: &str) -> String {
        format!("$KV.farol_{}.{key}", self.cluster)
    }

    /// What there is of a stream; `None` where there is none.
    pub async fn find(&self, api: &Api, name: &str) -> Result<Option<StreamInfo>, Trouble> {
        match api.ask(&format!("STREAM.INFO.{name}"), Value::Null, ASK).await {
            Ok(answer) => understood(&answer).map(Some),
            Err(trouble) if trouble.is(&[api::NO_STREAM]) => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// How many subjects below a pattern a stream has messages of, as its leader knows; `None` where there is no stream.
    pub async fn subjects(&self, api: &Api, name: &str, pattern: &str) -> Result<Option<usize>, Trouble> {
        let question = json!({ "subjects_filter": pattern });
        match api.ask(&format!("STREAM.INFO.{name}"), question, ASK).await {
            Ok(answer) => {
                Ok(Some(answer["state"]["subjects"].as_object().map_or(0, |subjects| subjects.len())))
            }
            Err(trouble) if trouble.is(&[api::NO_STREAM]) => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// The stream of a topic, made where it is missing.
    pub async fn log(&self, api: &Api, topic: &Topic) -> Result<StreamInfo, Trouble> {
        let name = topic.stream(&self.cluster);
        match self.find(api, &name).await? {
            Some(info) => Ok(info),
            None => self.make(api, &name, self.log_settings(topic)).await,
        }
    }

    /// Makes the stream of the tables, where it is missing.
    pub async fn make_tables(&self, api: &Api) -> Result<(), Trouble> {
        self.make(api, &self.tables(), self.tables_settings()).await.map(drop)
    }

    /// Makes the stream of the tables anew, so that its next number is `first`.
    pub async fn renew_tables(&self, api: &Api, first: u64) -> Result<(), Trouble> {
        let name = self.tables();
        let mut settings = self.tables_settings();
        settings["first_seq"] = json!(first);
        for _ in 0..RENEWALS_MAX {
            match api.ask(&format!("STREAM.DELETE.{name}"), Value::Null, MAKE).await {
                Err(trouble) if !trouble.is(&[api::NO_STREAM]) => return Err(trouble),
                _ => {}
            }
            // A node that has just written to it may have been faster with one of its own.
            if self.make(api, &name, settings.clone()).await?.end.saturating_add(1) >= first {
                return Ok(());
            }
        }
        Err(Trouble::Silent(format!("nodes make {name} again and again; stop them")))
    }

    /// Every stream of the cluster.
    pub async fn list(&self, api: &Api, limit: Duration) -> Result<Vec<StreamInfo>, Trouble> {
        let logs = format!("FAROL_{}_", self.cluster);
        let mut all = every(api, limit).await?;
        all.retain(|info| info.fill.name.starts_with(&logs) || info.fill.name == self.tables());
        Ok(all)
    }

    /// Whether `more` bytes fit beside the limits of all streams there are, of whatever cluster.
    pub async fn check_room(&self, api: &Api, more: u64) -> Result<(), String> {
        let Some(store) = self.store_bytes else { return Ok(()) };
        let all = every(api, ASK).await.map_err(|trouble| trouble.to_string())?;
        let taken = all.iter().map(|info| info.fill.bytes_max).sum::<u64>();
        room(store, taken, more)
    }

    async fn make(&self, api: &Api, name: &str, mut settings: Value) -> Result<StreamInfo, Trouble> {
        let more = settings.get("max_bytes").and_then(Value::as_u64).unwrap_or_default();
        let refused = |text: String| Trouble::Refused { code: 0, text };
        self.check_room(api, more).await.map_err(refused)?;
        settings["metadata"] = json!({ ID: StreamId::random().to_string() });
        match api.ask(&format!("STREAM.CREATE.{name}"), settings, MAKE).await {
            Ok(answer) => understood(&answer),
            // Another node was faster: its id counts.
            Err(trouble) if trouble.is(&[api::STREAM_EXISTS]) => {
                let found = self.find(api, name).await?;
                found.ok_or_else(|| Trouble::Silent(format!("stream {name} was there and is gone")))
            }
            Err(trouble) if trouble.is(&api::TOO_FEW_SERVERS) => Err(refused(format!(
                "there are fewer servers than the {} copies of each stream; start more, or set cluster.copies lower",
                self.copies
            ))),
            Err(trouble) if trouble.is(&api::NO_RESOURCES) => Err(refused(format!(
                "there is no room for stream {name} of {more} bytes; raise max_file_store of the servers, or lower \
                 cluster.log_max"
            ))),
            Err(trouble) => Err(trouble),
        }
    }

    fn log_settings(&self, topic: &Topic) -> Value {
        let LogLimits { bytes_max, batches_max } = topic.limits(self.log_bytes_max);
        let mut settings = self.settings(&topic.stream(&self.cluster), &topic.stream_subjects(&self.cluster));
        settings["max_bytes"] = json!(bytes_max);
        if let Some(batches_max) = batches_max {
            settings["max_msgs_per_subject"] = json!(batches_max);
            settings["discard_new_per_subject"] = json!(true);
        }
        settings
    }

    fn tables_settings(&self) -> Value {
        let mut settings = self.settings(&self.tables(), &self.key_subject(">"));
        settings["max_bytes"] = json!(TABLES_BYTES_MAX.min(self.log_bytes_max));
        settings["max_msgs_per_subject"] = json!(1);
        settings["allow_rollup_hdrs"] = json!(true);
        settings["deny_delete"] = json!(true);
        settings
    }

    /// What all streams have in common. None has an age, and none may be asked for its messages at a follower: that
    /// answer may be an old one.
    fn settings(&self, name: &str, subjects: &str) -> Value {
        json!({
            "name": name,
            "subjects": [subjects],
            "retention": "limits",
            "storage": "file",
            "discard": "new",
            "num_replicas": self.copies,
            "max_consumers": -1,
            "max_msgs": -1,
            "max_age": 0,
            "allow_direct": false,
        })
    }
}

fn understood(answer: &Value) -> Result<StreamInfo, Trouble> {
    let unread = || Trouble::Silent("what it says of a stream cannot be read".to_string());
    StreamInfo::read(answer).ok_or_else(unread)
}

/// Every stream of the account; servers give them in pages.
async fn every(api: &Api, limit: Duration) -> Result<Vec<StreamInfo>, Trouble> {
    let mut all: Vec<StreamInfo> = Vec::new();
    loop {
        let page = api.ask("STREAM.LIST", json!({ "offset": all.len() }), limit).await?;
        let streams = page.get("streams").and_then(Value::as_array).cloned().unwrap_or_default();
        let total = page.get("total").and_then(Value::as_u64).unwrap_or_default();
        all.extend(streams.iter().filter_map(StreamInfo::read));
        if streams.is_empty() || all.len() as u64 >= total {
            return Ok(all);
        }
    }
}

/// Streams may have four fifths of the store: raft and indexes need some too.
fn room(store: u64, taken: u64, more: u64) -> Result<(), String> {
    let usable = store / 5 * 4;
    if taken + more <= usable {
        return Ok(());
    }
    let mib = |bytes: u64| bytes >> 20;
    Err(format!(
        "streams may fill {} MiB and {} MiB more are wanted, of the {} MiB that are four fifths of the servers' \
         max_file_store; raise max_file_store, or lower cluster.log_max",
        mib(taken),
        mib(more),
        mib(usable)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_get_four_fifths_of_the_store() {
        assert_eq!(room(1000, 700, 100), Ok(()));
        let sentence = room(1000 << 20, 700 << 20, 101 << 20).unwrap_err();
        assert!(sentence.contains("800 MiB") && sentence.contains("cluster.log_max"), "{sentence}");
    }

    #[test]
    fn a_stream_made_by_hand_is_told_by_its_birth() {
        let answer = |created: &str| {
            json!({ "config": { "name": "S", "max_bytes": -1 }, "created": created,
                    "state": { "messages": 1, "bytes": 2, "last_seq": 3 } })
        };
        let first = StreamInfo::read(&answer("2024-01-01T00:00:00Z")).unwrap();
        assert_eq!((first.end, first.fill.messages, first.fill.bytes_max), (3, 1, 0));
        assert_ne!(first.id, StreamInfo::read(&answer("2024-01-01T00:00:01Z")).unwrap().id);
    }
}
