//! What carries things between the nodes of a cluster: numbered logs, tables with compare-and-set, and large files.
//!
//! The life of a batch: its sender writes it to its [`outbox`] (or has it in its archive), and then
//! [`Fabric::append`]s it to the log of a [`Topic`], which gives it a [`Seq`]. Its receiver [`Fabric::read`]s the log
//! from its own mark on, takes the batch in, and makes mark and data durable together. When every receiver's mark
//! has passed, [`Fabric::trim`] lets the log forget it, and the sender its outbox file.
//!
//! **The fabric carries, it does not keep.** A log may lose its tail or all of itself: its reader then sees another
//! [`StreamId`], or an end below its mark, and asks the senders to send again. A batch may also come twice: an append
//! that was refused as [`Refused::Away`] may have happened. So batches carry their senders' own numbers, and whoever
//! reads them drops what it has.
//!
//! Shared tables are small values under keys, each replaced only by who names the [`Revision`] it has seen. A set
//! whose answer got lost is [`Lost::Unknown`]: read the key, and look whether the value is one's own.
//!
//! [`memory`] is the implementation for one process and for tests, with faults to switch on; [`nats`] the one for
//! clusters. [`testing::check_contract`] is what both must do. [`blobs`] is for what is too large for a log.
//!
//! INVARIANT: calls block, and end: each within its own time limit. Nothing here retries on the caller's behalf,
//! except for [`Watch`] and [`Hearing`], which reconnect by themselves.

pub mod blobs;
pub mod memory;
pub mod nats;
pub mod outbox;
pub mod testing;
mod topic;
mod waiting;
mod watch;

pub use bytes::Bytes;
pub use topic::{LogLimits, Topic, TopicError};
pub use watch::{Entry, Hearing, Watch};

use std::fmt;
use std::time::Duration;

/// Logs and tables that several nodes share. Blocking, because roles are threads.
pub trait Fabric: Send + Sync {
    /// Appends a batch to a log and returns its number there.
    ///
    /// # Errors
    ///
    /// Both refusals mean "later, the same again". After [`Refused::Away`] the batch may be in the log all the same.
    fn append(&self, topic: &Topic, bytes: &[u8]) -> Result<Seq, Refused>;

    /// Reads up to `max` batches that follow `after`, and waits up to `wait` for the first of them.
    ///
    /// Returns early with no batch where the log ends below `after`: then the log is not what it was.
    fn read(&self, topic: &Topic, after: Seq, max: usize, wait: Duration) -> Result<Read, Away>;

    /// Lets the log forget all batches of this topic up to and including `upto`.
    fn trim(&self, topic: &Topic, upto: Seq) -> Result<(), Away>;

    /// The value of a key. It may be an older one: use it only if its revision is greater than what was seen before.
    fn get(&self, key: &str) -> Result<Option<(Bytes, Revision)>, Away>;

    /// Replaces the value of a key if its revision is still `expected`; [`Revision::NONE`] means that there must be no
    /// such key.
    fn set(&self, key: &str, value: &[u8], expected: Revision) -> Result<Revision, Lost>;

    /// Removes a key if its revision is still `expected`.
    fn delete(&self, key: &str, expected: Revision) -> Result<(), Lost>;

    /// All keys that begin with `prefix`, in order, with their values.
    fn list(&self, prefix: &str) -> Result<Vec<(String, Bytes, Revision)>, Away>;

    /// Follows the keys that begin with `prefix`: what they hold now, then every change.
    fn watch(&self, prefix: &str) -> Watch;

    /// Tells everyone who hears `subject` something that may be lost on the way.
    fn say(&self, subject: &str, bytes: &[u8]);

    /// Hears what is said on exactly this subject from now on.
    fn hear(&self, subject: &str) -> Hearing;

    /// How the fabric fares, for people.
    fn state(&self) -> FabricState;
}

/// Number of a batch in its log; the first is 1, and 0 is before the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seq(pub u64);

/// Version of a key. It grows with every change of any key in the tables.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl Revision {
    /// Of a key that does not exist.
    pub const NONE: Revision = Revision(0);
}

/// Which stream a log's numbers belong to: drawn at random when the stream is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

impl StreamId {
    /// A new id. Where the system has no randomness to give, the process cannot go on anyway.
    pub(crate) fn random() -> StreamId {
        StreamId(getrandom::u64().expect("the system gives random numbers"))
    }

    /// Reads what [`fmt::Display`] writes.
    pub fn parse(text: &str) -> Option<StreamId> {
        u64::from_str_radix(text, 16).ok().map(StreamId)
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// What [`Fabric::read`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The stream that the numbers belong to. Another one than before: start again at 0, and have all sent again.
    pub stream: StreamId,
    /// Batches in order; numbers grow, with holes where topics share a stream or where it was trimmed.
    pub items: Vec<(Seq, Bytes)>,
    /// The last number known in the stream, of any topic in it. Below the reader's mark: the stream's tail was lost.
    pub end: Seq,
}

/// Why a batch was not appended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// The log has no room until it is trimmed.
    #[error("the log is full until its readers have caught up")]
    Full,
    /// No answer in time, or no connection. The batch may have been appended.
    #[error("{0}")]
    Away(String),
}

/// The fabric did not answer, with a sentence on why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Away(pub String);

impl From<Away> for Refused {
    fn from(away: Away) -> Refused {
        Refused::Away(away.0)
    }
}

/// Why a key was not changed, as far as is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The key has another revision: nothing was changed.
    #[error("somebody else has changed the key")]
    Conflict,
    /// Nobody knows whether it was changed, or will be in a moment: read the key and compare, and build the next change on
    /// what was read.
    #[error("{0}")]
    Unknown(String),
}

/// How the fabric fares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricState {
    /// Whether there is a connection at this instant.
    pub connected: bool,
    /// Version of the server that is connected to; empty where there is none.
    pub version: String,
    /// The known servers, as each was seen last.
    pub servers: Vec<ServerSeen>,
    /// Whether servers write to disk before they acknowledge; `None` where nobody could say.
    pub sync_always: Option<bool>,
    /// Every stream of the cluster.
    pub streams: Vec<StreamFill>,
    /// What is wrong and what to do about it, a sentence.
    pub trouble: Option<String>,
}

/// One server of the fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerSeen {
    pub address: String,
    /// What it calls itself; empty where it did not say.
    pub name: String,
    /// Empty where it did not say.
    pub version: String,
    /// It answers.
    pub is_reached: bool,
}

/// How full a stream is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamFill {
    pub name: String,
    pub messages: u64,
    pub bytes: u64,
    /// What it may hold; 0 for no limit of its own.
    pub bytes_max: u64,
}

/// Largest value of a key: what is larger is a blob, and its key a pointer.
pub const VALUE_BYTES_MAX: usize = 256 * 1024;

/// Largest batch of a log. Senders cut at 256 KiB; servers refuse messages of more than 2 MB.
pub const BATCH_BYTES_MAX: usize = 1024 * 1024;

/// Refuses keys that NATS would not take, so that [`memory`] does not take them either.
pub(crate) fn check_key(key: &str) -> Result<(), String> {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || b"-_=".contains(&byte);
    if !key.is_empty()
        && key.len() <= 256
        && key.split('.').all(|part| !part.is_empty() && part.bytes().all(is_fine))
    {
        return Ok(());
    }
    Err(format!(
        "{key:?} is no key; use parts of letters, digits, '-', '_' and '=' with single dots between them"
    ))
}

/// Refuses what is too large for a table.
pub(crate) fn check_value(key: &str, value: &[u8]) -> Result<(), String> {
    check_key(key)?;
    if value.len() <= VALUE_BYTES_MAX {
        return Ok(());
    }
    Err(format!(
        "the value of {key} has {} bytes, more than the {VALUE_BYTES_MAX} of a table; write a blob and point to it",
        value.len()
    ))
}

/// Refuses what is too large for a log.
pub(crate) fn check_batch(bytes: &[u8]) -> Result<(), String> {
    if bytes.len() <= BATCH_BYTES_MAX {
        return Ok(());
    }
    Err(format!("a batch has {} bytes, more than the {BATCH_BYTES_MAX} of a log; cut it in two", bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_parts_with_dots_between() {
        for (key, is_key) in [
            ("cluster", true),
            ("node.ab-c_2=", true),
            ("", false),
            (".a", false),
            ("a..b", false),
            ("a b", false),
            ("a.*", false),
            ("a.>", false),
            ("ä", false),
        ] {
            assert_eq!(check_key(key).is_ok(), is_key, "{key:?}");
        }
    }

    #[test]
    fn a_stream_id_survives_its_text() {
        for id in [StreamId(0), StreamId(1), StreamId(u64::MAX)] {
            assert_eq!(StreamId::parse(&id.to_string()), Some(id));
        }
        assert_eq!(StreamId::parse("no id"), None);
    }

    #[test]
    fn too_large_is_said() {
        assert!(check_batch(&vec![0; BATCH_BYTES_MAX]).is_ok());
        assert!(check_batch(&vec![0; BATCH_BYTES_MAX + 1]).is_err_and(|text| text.contains("cut it")));
        assert!(check_value("k", &vec![0; VALUE_BYTES_MAX + 1]).is_err_and(|text| text.contains("blob")));
    }
}
