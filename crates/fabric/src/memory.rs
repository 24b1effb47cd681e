//! The fabric of one process, and of tests: logs and tables in memory, with faults to switch on.
//!
//! A [`Memory`] is a node's handle to a world that it shares with its [`Memory::another_node`]s. [`Faults`] are a
//! node's own, so that one can be cut off while the others go on; what happens to a log happens to all.

use crate::watch::{HearingFeed, WatchFeed};
use crate::{
    Away, Entry, Fabric, FabricState, Hearing, Lost, Read, Refused, Revision, Seq, ServerSeen, StreamFill,
    StreamId, Topic, Watch,
};
use bytes::Bytes;
use farol_base::sync::Mutex;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Condvar, PoisonError};
use std::time::{Duration, Instant};

/// What goes wrong for one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Nothing answers: not sent, not done.
    pub away: bool,
    /// Logs refuse as if they were full.
    pub full: bool,
    /// [`Fabric::get`] answers with the value before the newest, where there is one.
    pub stale_get: bool,
    /// What becomes of changes whose answers are lost.
    pub unknown: UnknownOutcome,
}

/// Whether answers to appends and changes of keys arrive, and if not, whether the change was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownOutcome {
    #[default]
    Never,
    /// Made, and nobody is told.
    Made,
    /// Not made, and nobody is told.
    NotMade,
}

/// A node's handle to a fabric in memory. A clone is the same node.
#[derive(Clone)]
pub struct Memory {
    world: Arc<World>,
    faults: Arc<Mutex<Faults>>,
}

struct World {
    inner: Mutex<Inner>,
    appended: Condvar,
    /// Bytes of each log.
    log_bytes_max: u64,
}

#[derive(Default)]
struct Inner {
    /// By name of stream.
    logs: HashMap<String, Log>,
    keys: BTreeMap<String, Versions>,
    revision: u64,
    watches: Vec<Listener<WatchFeed>>,
    hearings: Vec<Listener<HearingFeed>>,
}

/// Who follows keys or hears a subject, on a node with these faults.
struct Listener<F> {
    of: String,
    faults: Arc<Mutex<Faults>>,
    feed: F,
}

struct Log {
    id: StreamId,
    end: u64,
    batches: VecDeque<(u64, Topic, Bytes)>,
    bytes: u64,
}

impl Log {
    fn new() -> Log {
        Log { id: StreamId::random(), end: 0, batches: VecDeque::new(), bytes: 0 }
    }

    fn retain(&mut self, keep: impl Fn(u64, &Topic) -> bool) {
        self.batches.retain(|(seq, topic, _)| keep(*seq, topic));
        self.bytes = self.batches.iter().map(|(_, _, bytes)| bytes.len() as u64).sum();
    }
}

/// A key's newest value and the one before, which a stale `get` returns.
struct Versions {
    value: Option<Bytes>,
    revision: Revision,
    before: Option<(Option<Bytes>, Revision)>,
}

/// Enough for tests and for one process, where readers are as fast as writers.
const LOG_BYTES_MAX: u64 = 256 << 20;

impl Default for Memory {
    fn default() -> Memory {
        Memory::new()
    }
}

impl Memory {
    /// The first node of a new world.
    pub fn new() -> Memory {
        Memory::with_log_bytes_max(LOG_BYTES_MAX)
    }

    /// As [`Memory::new`], with a limit of one's own for each log.
    pub fn with_log_bytes_max(log_bytes_max: u64) -> Memory {
        let world = World { inner: Mutex::default(), appended: Condvar::new(), log_bytes_max };
        Memory { world: Arc::new(world), faults: Arc::default() }
    }

    /// Another node of the same world, with faults of its own.
    pub fn another_node(&self) -> Memory {
        Memory { world: Arc::clone(&self.world), faults: Arc::default() }
    }

    /// Switches this node's faults.
    pub fn set_faults(&self, faults: Faults) {
        *self.faults.lock() = faults;
        if faults.away {
            return;
        }
        // What a watch of this node missed while it was cut off, it learns now, as after a reconnect.
        let inner = self.world.inner.lock();
        for (key, versions) in &inner.keys {
            inner.tell(key, versions);
        }
    }

    /// Has a topic's stream lose its last `n` batches, as a server that lied about its disk.
    pub fn lose_tail(&self, topic: &Topic, n: u64) {
        if let Some(log) = self.world.inner.lock().logs.get_mut(&topic.stream("memory")) {
            log.end = log.end.saturating_sub(n);
            let end = log.end;
            log.retain(|seq, _| seq <= end);
        }
        self.world.appended.notify_all();
    }

    /// Has a topic's stream vanish; the next use makes another.
    pub fn lose_stream(&self, topic: &Topic) {
        self.world.inner.lock().logs.remove(&topic.stream("memory"));
        self.world.appended.notify_all();
    }

    fn reach(&self) -> Result<Faults, Away> {
        let faults = *self.faults.lock();
        if faults.away { Err(Away("the fabric is away".to_string())) } else { Ok(faults) }
    }

    fn change(&self, key: &str, value: Option<Bytes>, expected: Revision) -> Result<Revision, Lost> {
        let unknown = || Lost::Unknown("the answer got lost".to_string());
        let faults = self.reach().map_err(|away| Lost::Unknown(away.0))?;
        if faults.unknown == UnknownOutcome::NotMade {
            return Err(unknown());
        }
        let revision = self.world.inner.lock().change(key, value, expected);
        if faults.unknown == UnknownOutcome::Made { Err(unknown()) } else { revision }
    }
}

impl Inner {
    fn log(&mut self, topic: &Topic) -> &mut Log {
        self.logs.entry(topic.stream("memory")).or_insert_with(Log::new)
    }

    fn append(&mut self, topic: &Topic, bytes: &[u8], log_bytes_max: u64) -> Result<Seq, Refused> {
        let limits = topic.limits(log_bytes_max);
        let log = self.log(topic);
        let same = || log.batches.iter().filter(|(_, other, _)| other == topic).count() as u64;
        if log.bytes + bytes.len() as u64 > limits.bytes_max
            || limits.batches_max.is_some_and(|max| same() >= max)
        {
            return Err(Refused::Full);
        }
        log.end += 1;
        log.bytes += bytes.len() as u64;
        log.batches.push_back((log.end, *topic, Bytes::copy_from_slice(bytes)));
        Ok(Seq(log.end))
    }

    fn read(&mut self, topic: &Topic, after: Seq, max: usize) -> Read {
        let log = self.log(topic);
        let first = log.batches.partition_point(|(seq, ..)| *seq <= after.0);
        let items = log.batches.range(first..).filter(|(_, other, _)| other == topic).take(max);
        let items = items.map(|(seq, _, bytes)| (Seq(*seq), bytes.clone())).collect();
        Read { stream: log.id, items, end: Seq(log.end) }
    }

    fn change(&mut self, key: &str, value: Option<Bytes>, expected: Revision) -> Result<Revision, Lost> {
        let now = self.keys.get(key);
        let current =
            now.filter(|versions| versions.value.is_some()).map_or(Revision::NONE, |now| now.revision);
        if current != expected {
            return Err(Lost::Conflict);
        }
        self.revision += 1;
        let before = now.map(|versions| (versions.value.clone(), versions.revision));
        let versions = Versions { value, revision: Revision(self.revision), before };
        self.tell(key, &versions);
        self.keys.insert(key.to_string(), versions);
        Ok(Revision(self.revision))
    }

    fn tell(&self, key: &str, versions: &Versions) {
        let hears = |watch: &&Listener<WatchFeed>| key.starts_with(&watch.of) && !watch.faults.lock().away;
        for watch in self.watches.iter().filter(hears) {
            watch.feed.offer(versions.entry(key));
        }
    }
}

impl Versions {
    fn entry(&self, key: &str) -> Entry {
        Entry { key: key.to_string(), value: self.value.clone(), revision: self.revision }
    }
}

impl Fabric for Memory {
    fn append(&self, topic: &Topic, bytes: &[u8]) -> Result<Seq, Refused> {
        crate::check_batch(bytes).map_err(Refused::Away)?;
        let faults = self.reach()?;
        if faults.full {
            return Err(Refused::Full);
        }
        let unknown = || Refused::Away("the answer got lost".to_string());
        if faults.unknown == UnknownOutcome::NotMade {
            return Err(unknown());
        }
        let seq = self.world.inner.lock().append(topic, bytes, self.world.log_bytes_max)?;
        self.world.appended.notify_all();
        if faults.unknown == UnknownOutcome::Made { Err(unknown()) } else { Ok(seq) }
    }

    fn read(&self, topic: &Topic, after: Seq, max: usize, wait: Duration) -> Result<Read, Away> {
        let until = Instant::now() + wait;
        self.reach()?;
        let mut inner = self.world.inner.lock();
        loop {
            let read = inner.read(topic, after, max);
            let left = until.saturating_duration_since(Instant::now());
            if !read.items.is_empty() || read.end < after || left.is_zero() {
                return Ok(read);
            }
            inner = self.world.appended.wait_timeout(inner, left).unwrap_or_else(PoisonError::into_inner).0;
            self.reach()?;
        }
    }

    fn trim(&self, topic: &Topic, upto: Seq) -> Result<(), Away> {
        self.reach()?;
        self.world.inner.lock().log(topic).retain(|seq, other| other != topic || seq > upto.0);
        Ok(())
    }

    fn get(&self, key: &str) -> Result<Option<(Bytes, Revision)>, Away> {
        crate::check_key(key).map_err(Away)?;
        let faults = self.reach()?;
        let inner = self.world.inner.lock();
        let Some(versions) = inner.keys.get(key) else { return Ok(None) };
        let newest = (versions.value.clone(), versions.revision);
        let (value, revision) = versions.before.clone().filter(|_| faults.stale_get).unwrap_or(newest);
        Ok(value.map(|value| (value, revision)))
    }

    fn set(&self, key: &str, value: &[u8], expected: Revision) -> Result<Revision, Lost> {
        crate::check_value(key, value).map_err(Lost::Unknown)?;
        self.change(key, Some(Bytes::copy_from_slice(value)), expected)
    }

    fn delete(&self, key: &str, expected: Revision) -> Result<(), Lost> {
        crate::check_key(key).map_err(Lost::Unknown)?;
        if expected == Revision::NONE {
            // There is nothing to remove, whoever is right about it.
            return Err(Lost::Conflict);
        }
        self.change(key, None, expected).map(|_| ())
    }

    fn list(&self, prefix: &str) -> Result<Vec<(String, Bytes, Revision)>, Away> {
        self.reach()?;
        let inner = self.world.inner.lock();
        let keys = inner.keys.range(prefix.to_string()..).take_while(|(key, _)| key.starts_with(prefix));
        let row = |(key, versions): (&String, &Versions)| {
            versions.value.clone().map(|value| (key.clone(), value, versions.revision))
        };
        Ok(keys.filter_map(row).collect())
    }

    fn watch(&self, prefix: &str) -> Watch {
        let (watch, feed) = Watch::new();
        let mut inner = self.world.inner.lock();
        inner.watches.retain(|watch| watch.feed.is_watched());
        inner.watches.push(Listener { of: prefix.to_string(), faults: Arc::clone(&self.faults), feed });
        // Who watches already has seen these revisions.
        for (key, versions) in &inner.keys {
            inner.tell(key, versions);
        }
        watch
    }

    fn say(&self, subject: &str, bytes: &[u8]) {
        if self.reach().is_err() {
            return;
        }
        let said = Bytes::copy_from_slice(bytes);
        let stays = |hearing: &Listener<HearingFeed>| {
            hearing.of != subject || hearing.faults.lock().away || hearing.feed.offer(said.clone())
        };
        self.world.inner.lock().hearings.retain(stays);
    }

    fn hear(&self, subject: &str) -> Hearing {
        let (hearing, feed) = Hearing::new();
        let listener = Listener { of: subject.to_string(), faults: Arc::clone(&self.faults), feed };
        self.world.inner.lock().hearings.push(listener);
        hearing
    }

    fn state(&self) -> FabricState {
        let away = self.reach().err();
        let inner = self.world.inner.lock();
        let fill = |(name, log): (&String, &Log)| StreamFill {
            name: name.clone(),
            messages: log.batches.len() as u64,
            bytes: log.bytes,
            bytes_max: self.world.log_bytes_max,
        };
        FabricState {
            connected: away.is_none(),
            version: String::new(),
            servers: vec![ServerSeen {
                address: "this process".to_string(),
                is_reached: away.is_none(),
                ..ServerSeen::default()
            }],
            sync_always: None,
            streams: inner.logs.iter().map(fill).collect(),
            trouble: away.map(|away| away.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    const SOON: Duration = Duration::from_millis(200);

    #[test]
    fn does_what_every_fabric_does() {
        let memory = Memory::new();
        testing::check_contract(&memory, &memory.another_node());
    }

    #[test]
    fn a_cut_off_node_stands_alone_and_catches_up() {
        let cut = Memory::new();
        let other = cut.another_node();
        let watch = cut.watch("");
        cut.set_faults(Faults { away: true, ..Faults::default() });
        assert!(matches!(cut.append(&Topic::Links, b"x"), Err(Refused::Away(_))));
        assert!(cut.read(&Topic::Links, Seq(0), 1, Duration::ZERO).is_err() && cut.get("k").is_err());
        assert!(matches!(cut.set("k", b"x", Revision::NONE), Err(Lost::Unknown(_))));
        assert!(!cut.state().connected && other.state().connected);
        let revision = other.set("k", b"1", Revision::NONE).unwrap();
        assert_eq!(watch.next(Duration::ZERO), None);
        cut.set_faults(Faults::default());
        assert_eq!(watch.next(SOON).unwrap().revision, revision);
    }

    #[test]
    fn a_lost_answer_tells_nothing_of_the_outcome() {
        let memory = Memory::new();
        for (unknown, made) in [(UnknownOutcome::NotMade, false), (UnknownOutcome::Made, true)] {
            memory.set_faults(Faults { unknown, ..Faults::default() });
            assert!(matches!(memory.set("k", b"x", Revision::NONE), Err(Lost::Unknown(_))));
            assert!(matches!(memory.append(&Topic::Links, b"x"), Err(Refused::Away(_))));
            memory.set_faults(Faults::default());
            assert_eq!(memory.get("k").unwrap().is_some(), made);
            assert_eq!(
                memory.read(&Topic::Links, Seq(0), 9, Duration::ZERO).unwrap().items.len(),
                usize::from(made)
            );
        }
    }

    #[test]
    fn a_stale_get_answers_with_the_value_before() {
        let memory = Memory::new();
        let first = memory.set("k", b"1", Revision::NONE).unwrap();
        memory.set("k", b"2", first).unwrap();
        memory.set_faults(Faults { stale_get: true, ..Faults::default() });
        assert_eq!(memory.get("k").unwrap(), Some((Bytes::from_static(b"1"), first)));
    }

    #[test]
    fn full_is_said_by_switch_and_by_limit() {
        let memory = Memory::with_log_bytes_max(10);
        memory.set_faults(Faults { full: true, ..Faults::default() });
        assert_eq!(memory.append(&Topic::Links, b"x"), Err(Refused::Full));
        memory.set_faults(Faults::default());
        let seq = memory.append(&Topic::Links, b"0123456789").unwrap();
        assert_eq!(memory.append(&Topic::Links, b"x"), Err(Refused::Full));
        memory.trim(&Topic::Links, seq).unwrap();
        assert_eq!(memory.append(&Topic::Links, b"x"), Ok(Seq(2)));
    }

    #[test]
    fn a_lost_tail_is_an_end_below_the_mark_and_a_lost_stream_another_id() {
        let memory = Memory::new();
        for _ in 0..5 {
            memory.append(&Topic::Links, b"x").unwrap();
        }
        let before = memory.read(&Topic::Links, Seq(5), 9, Duration::ZERO).unwrap();
        memory.lose_tail(&Topic::Links, 2);
        let read = memory.read(&Topic::Links, Seq(5), 9, Duration::from_secs(9)).unwrap();
        assert_eq!((read.stream, read.end, read.items.len()), (before.stream, Seq(3), 0));
        memory.lose_stream(&Topic::Links);
        assert_ne!(memory.read(&Topic::Links, Seq(0), 9, Duration::ZERO).unwrap().stream, before.stream);
    }
}
