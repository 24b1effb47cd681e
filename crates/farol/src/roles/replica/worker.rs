//! One replica: reads the log of its shard and takes it in.

use super::{IndexService, birth, mark, snapshot};
use crate::wire::batch::{DocumentBatch, WireChange, unpack};
use crate::wire::values::read_url;
use anyhow::{Context, Result};
use farol_base::{CanonicalUrl, Clock, Document, Host, PageId, PagePosition, SystemClock};
use farol_cluster::record::{ReplicaMark, ReplicaReport};
use farol_cluster::stretch::Fit;
use farol_cluster::{NodeNo, ShardId};
use farol_fabric::{Seq, Topic};
use farol_index::Shard;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Batches that are read at a time.
const READ_MAX: usize = 64;
/// How long to wait for the next batch.
const READ_WAIT: Duration = Duration::from_millis(200);
/// How often the position alone is committed, so that logs can be trimmed.
const POSITION_EVERY: Duration = Duration::from_secs(10);
/// An agent is asked again for the same gap after this.
const ASK_EVERY: Duration = Duration::from_secs(5);

/// A page that was fetched later than this ahead of the own clock was not: taken in, it would keep out all visits until
/// then. Whose clock is wrong cannot be told.
const AHEAD_MAX: Duration = Duration::from_secs(24 * 3600);

/// The thread of one replica.
pub struct ReplicaWorker {
    service: IndexService,
    id: ShardId,
    stop: Arc<AtomicBool>,
    shard: Option<Shard>,
    /// How far it has come, committed or not.
    progress: ReplicaMark,
    /// What was committed.
    committed: ReplicaMark,
    committed_at: Instant,
    /// Changes since the last commit.
    fresh: u64,
    /// Bytes of the log that no snapshot holds.
    unsaved: u64,
    /// Agents that were asked to send again, and when.
    gaps: BTreeMap<u16, Instant>,
    caught_up: Option<Instant>,
    trouble: Option<String>,
    snapshots: snapshot::Schedule,
}

impl ReplicaWorker {
    pub fn new(service: IndexService, id: ShardId, stop: Arc<AtomicBool>) -> ReplicaWorker {
        let snapshots = snapshot::Schedule::new(service.snapshot_every, service.snapshot_bytes);
        ReplicaWorker {
            service,
            id,
            stop,
            shard: None,
            progress: ReplicaMark::default(),
            committed: ReplicaMark::default(),
            committed_at: Instant::now(),
            fresh: 0,
            unsaved: 0,
            gaps: BTreeMap::new(),
            caught_up: None,
            trouble: None,
            snapshots,
        }
    }

    /// Works until it is told to stop; what goes wrong is told, and tried again from the last commit.
    pub fn run(&mut self) {
        while !self.stop.load(Ordering::SeqCst) {
            let Err(error) = self.work() else { break };
            let text = format!("shard {}: {error:#}", self.id);
            tracing::warn!("{text}");
            self.trouble = Some(text);
            // A replica that cannot be written to can still be read, as it was last committed.
            self.shard = None;
            self.caught_up = None;
            self.report();
            for _ in 0..10 {
                if !self.stop.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(100));
                }
            }
        }
    }

    fn work(&mut self) -> Result<()> {
        let Some(shard) = birth::open(&self.service, self.id, &self.stop)? else { return Ok(()) };
        self.progress = mark::read(shard.mark())?;
        self.committed = self.progress.clone();
        self.committed_at = Instant::now();
        self.fresh = 0;
        self.gaps.clear();
        self.service.replicas.set(self.id, Some(shard.searcher()));
        self.shard = Some(shard);
        self.trouble = None;
        loop {
            let stopping = self.stop.load(Ordering::SeqCst);
            if stopping {
                return if self.progress != self.committed { self.commit() } else { Ok(()) };
            }
            self.read_log()?;
            let waited = self.committed_at.elapsed();
            let moved = self.progress != self.committed && waited >= POSITION_EVERY;
            if moved || self.fresh > 0 && waited >= self.service.commit_every {
                self.commit()?;
            }
            self.report();
            let wanted =
                self.service.entry(self.id).is_some_and(|entry| entry.keeper == Some(self.service.me));
            if wanted && self.caught_up.is_some() && self.snapshots.is_due(&self.committed, self.unsaved) {
                self.begin_snapshot()?;
            }
            if let Some(result) = self.snapshots.ended() {
                self.tell_snapshot(result);
            }
        }
    }

    fn shard(&mut self) -> Result<&mut Shard> {
        self.shard.as_mut().context("the replica is closed")
    }

    fn read_log(&mut self) -> Result<()> {
        let topic = Topic::Docs(self.id.0);
        let after = Seq(self.progress.seq);
        let read = match self.service.fabric.read(&topic, after, READ_MAX, READ_WAIT) {
            Ok(read) => read,
            Err(away) => {
                // Search goes on; the log is looked for again.
                tracing::debug!(%away, shard = self.id.0, "the log is away");
                std::thread::sleep(READ_WAIT);
                return Ok(());
            }
        };
        let stream = read.stream.to_string();
        if stream != self.progress.stream || read.end < after {
            // Another log, or one that has lost its end: it is read from its beginning. What senders do not send again
            // by themselves shows as a gap.
            if !self.progress.stream.is_empty() {
                tracing::warn!(
                    shard = self.id.0,
                    "the log is not the one it was; it is read from its beginning"
                );
            }
            self.progress.stream = stream;
            self.progress.seq = 0;
            return Ok(());
        }
        let mut last = after;
        for (seq, bytes) in &read.items {
            self.take_batch(*seq, bytes)?;
            self.progress.seq = seq.0;
            self.unsaved += bytes.len() as u64;
            last = *seq;
        }
        if last >= read.end || read.items.is_empty() {
            self.caught_up = self.gaps.is_empty().then(Instant::now);
        }
        Ok(())
    }

    fn take_batch(&mut self, seq: Seq, bytes: &[u8]) -> Result<()> {
        let batch: DocumentBatch = match unpack(bytes) {
            Ok(batch) => batch,
            Err(error) => {
                // What it held is asked for again when the next one shows the gap.
                self.service.board.dead.take(Topic::Docs(self.id.0), seq.0, bytes, &error);
                return Ok(());
            }
        };
        if let Some(stretch) = &batch.stretch {
            match self.progress.take(&stretch.into()) {
                Fit::Take(_) => drop(self.gaps.remove(&stretch.from)),
                Fit::Known => return Ok(()),
                Fit::Gap => {
                    self.ask_again(stretch.from);
                    return Ok(());
                }
            }
        }
        batch.changes.into_iter().try_for_each(|change| self.take(change))
    }

    /// Has an agent send again from where this replica lacks something.
    fn ask_again(&mut self, agent: u16) {
        let asked = self.gaps.get(&agent);
        if asked.is_some_and(|asked| asked.elapsed() < ASK_EVERY) {
            return;
        }
        self.gaps.insert(agent, Instant::now());
        self.caught_up = None;
        let from: PagePosition = self.progress.reached(NodeNo(agent)).position;
        tracing::info!(shard = self.id.0, agent, ?from, "something is missing and asked for again");
        (self.service.ask_again)(NodeNo(agent), Topic::Docs(self.id.0), from);
    }

    fn take(&mut self, change: WireChange) -> Result<()> {
        match change {
            WireChange::Put(document) => {
                let document = match Document::try_from(*document) {
                    Ok(document) => document,
                    Err(error) => {
                        tracing::error!(%error, "a document means nothing and is left out");
                        return Ok(());
                    }
                };
                if document.fetched > SystemClock.now() + AHEAD_MAX {
                    self.pass_over(&document);
                    return Ok(());
                }
                self.shard()?.put_newer(document)?;
            }
            WireChange::Delete(url) => match read_url(&url) {
                Ok(url) => self.shard()?.delete(&url),
                Err(error) => tracing::error!(%error, "a deletion means nothing and is left out"),
            },
            WireChange::DeleteHost(host) => match Host::parse(&host) {
                Ok(host) => self.shard()?.delete_host(&host),
                Err(error) => tracing::error!(%error, "a deletion means nothing and is left out"),
            },
            WireChange::DeleteUnder(prefix) => match read_url(&prefix) {
                Ok(prefix) => self.delete_under(&prefix)?,
                Err(error) => tracing::error!(%error, "a deletion means nothing and is left out"),
            },
            WireChange::Anchors { page, text } => {
                self.shard()?.set_anchors(PageId(page), &text)?;
            }
        }
        self.fresh += 1;
        Ok(())
    }

    /// A page of tomorrow and later.
    fn pass_over(&self, document: &Document) {
        let board = &self.service.board;
        let count = board.pages_ahead.fetch_add(1, Ordering::Relaxed) + 1;
        tracing::debug!(url = %document.url, fetched = %document.fetched, "a page is dated ahead and passed over");
        let sentence = format!(
            "shard {}: {count} pages were dated more than a day ahead of this machine's clock and passed over; set the clock \
             that is wrong, here or where they were fetched, then `farol cluster rebuild {}`",
            self.id, self.id
        );
        board.complain("clock", &sentence);
    }

    /// Deletes all pages whose address begins with this one's.
    fn delete_under(&mut self, prefix: &CanonicalUrl) -> Result<()> {
        // Only what is committed can be looked through; the mark stays where it is, so that a crash repeats this.
        let mark = mark::write(&self.committed);
        self.shard()?.commit(mark.as_str())?;
        for url in self.shard()?.searcher().urls_of(&prefix.host())? {
            if url.as_str().starts_with(prefix.as_str()) {
                self.shard()?.delete(&url);
            }
        }
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let mark = mark::write(&self.progress);
        self.shard()?.commit(mark.as_str())?;
        self.committed = self.progress.clone();
        self.committed_at = Instant::now();
        self.fresh = 0;
        Ok(())
    }

    fn report(&self) {
        let searcher = self.service.replicas.searcher(self.id);
        let lag = self.caught_up.map(|at| u64::try_from(at.elapsed().as_millis()).unwrap_or(u64::MAX));
        let report = ReplicaReport {
            mark: self.committed.clone(),
            documents: searcher.as_ref().map_or(0, |searcher| searcher.documents()),
            bytes: searcher.as_ref().map_or(0, |searcher| searcher.bytes_on_disk()),
            lag_ms: lag,
            trouble: self.trouble.clone(),
        };
        self.service.board.replicas.lock().insert(self.id, report);
    }

    fn begin_snapshot(&mut self) -> Result<()> {
        self.commit()?;
        // One that fails is tried again by time.
        self.unsaved = 0;
        let begun = self.snapshots.begin(&self.service, self.id, &self.committed);
        if let Err(error) = begun {
            self.tell_snapshot(Err(error));
        }
        Ok(())
    }

    /// A snapshot that fails costs the log room, and nothing else.
    fn tell_snapshot(&self, result: Result<()>) {
        let text = match result {
            Ok(()) => String::new(),
            Err(error) => format!("shard {} has no new snapshot: {error:#}", self.id),
        };
        self.service.board.complain("snapshots", &text);
    }
}
