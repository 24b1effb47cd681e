//! Sends what an agent's crawl finds to the rest of the cluster: documents to the log of their shard, links to the
//! ranker's.
//!
//! The archive is the outbox. What the crawl tells is sent as it comes; where a log has less (after a crash, a stream
//! that was lost, a replica that asks), it is filled from the archive while the others go on. A log that takes nothing
//! makes the crawl wait, as a full disk does.
//!
//! INVARIANT: the remembered position of a log is never beyond what the log has acknowledged.

mod lane;
#[cfg(test)]
mod tests;

use crate::archive::Interpreter;
use crate::archive::change::{change_of, deletion_of, links_of};
use crate::archive::position::{read_position, write_position};
use crate::archive::replay::is_damage;
use crate::fabric::{Change, Fabric, Table};
use crate::handles::sender::SendProgress;
use crate::operator::OperatorState;
use crate::wire::batch::{LinkChange, WireChange, pack};
use crate::wire::values::position;
use anyhow::{Context, Result};
use farol_base::{PageId, PagePosition};
use farol_cluster::lane::Cut;
use farol_fabric::{BATCH_BYTES_MAX, Topic};
use farol_store::pages::{ArchiveReader, Archived, Scan};
use lane::{Batch, Item, Lane};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Progress that concerns none of a log's pages is told this often.
const TELL_EVERY: Duration = Duration::from_secs(5);
/// Each log is told this often how far it goes, so that its readers miss what was lost at its end.
const BEAT_EVERY: Duration = Duration::from_secs(30);
/// Logs that are behind are filled for so long, then the crawl is listened to again.
const FILL_TURN: Duration = Duration::from_millis(200);
/// Pause before a log that refused is tried again.
const RETRY: Duration = Duration::from_millis(250);
/// How often positions are written to the tables.
const REMEMBER_EVERY: Duration = Duration::from_secs(1);

/// Which log takes which pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLog {
    pub shard: u32,
    /// Its pages, first and last.
    pub pages: std::ops::RangeInclusive<u64>,
    /// Where it was split off: its log goes on where that one's ends.
    pub parent: Option<u32>,
}

/// Tells which logs there are; none before the cluster has decided.
pub type ShardLogs = Arc<dyn Fn() -> Vec<ShardLog> + Send + Sync>;

/// What the sender needs.
pub struct SenderSources {
    /// Number of this node in the cluster.
    pub node: u16,
    pub local: Fabric,
    pub archive: ArchiveReader,
    pub interpreter: Interpreter,
    pub logs: Arc<dyn farol_fabric::Fabric>,
    pub shards: ShardLogs,
    /// Whether somebody keeps the graph of links: without, nobody would read their log.
    pub has_ranker: Arc<dyn Fn() -> bool + Send + Sync>,
}

/// A running sender.
pub struct ArchiveSender {
    stop: Arc<AtomicBool>,
    progress: Arc<SendProgress>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl ArchiveSender {
    pub fn start(sources: SenderSources) -> Result<ArchiveSender> {
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(SendProgress::default()));
        let mut work = SendWorker {
            upto: sources.archive.end(),
            is_beyond: false,
            sources,
            stop: stop.clone(),
            progress: progress.clone(),
            lanes: BTreeMap::new(),
            ranges: Vec::new(),
            filling: None,
            acknowledged: BTreeMap::new(),
            received: 0,
        };
        let thread = std::thread::Builder::new().name("sender".to_string()).spawn(move || {
            crate::process::be_nice();
            work.run()
        })?;
        Ok(ArchiveSender { stop, progress, thread: Some(thread) })
    }

    pub fn progress(&self) -> Arc<SendProgress> {
        self.progress.clone()
    }

    /// Sends what is left in the queue, as far as the logs take it, and ends.
    pub fn stop(mut self) -> Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => anyhow::bail!("sending broke down; what was not sent is sent at the next start"),
            None => Ok(()),
        }
    }
}

struct SendWorker {
    sources: SenderSources,
    stop: Arc<AtomicBool>,
    progress: Arc<SendProgress>,
    lanes: BTreeMap<Topic, Lane>,
    ranges: Vec<ShardLog>,
    /// Everything up to here was told by the crawl.
    upto: PagePosition,
    /// Pages came since: logs that are not live lack them.
    is_beyond: bool,
    /// The walk through the archive for logs that are behind.
    filling: Option<Filling>,
    acknowledged: BTreeMap<Topic, PagePosition>,
    /// The last change taken from the queue.
    received: u64,
}

struct Filling {
    scan: Scan,
    operator: OperatorState,
}

/// The log did not take a batch before this was told to stop.
struct Stopped;

impl SendWorker {
    fn run(&mut self) -> Result<()> {
        let (mut told, mut beaten, mut remembered) = (Instant::now(), Instant::now(), Instant::now());
        loop {
            let stopping = self.stop.load(Ordering::SeqCst);
            self.open_lanes()?;
            for (topic, from) in self.progress.take_wanted() {
                if self.lanes.get_mut(&topic).is_some_and(|lane| lane.rewind(from)) {
                    tracing::info!(%topic, ?from, "is sent again");
                    self.filling = None;
                }
            }
            let is_filling = !stopping && self.lanes.values().any(|lane| !lane.is_live());
            let wait = Duration::from_millis(if stopping || is_filling { 0 } else { 100 });
            // Nobody is there to be sent to: what the crawl tells waits in its queue, and then in the archive.
            let has_lanes = !self.lanes.is_empty();
            let mut quiet = true;
            for _ in 0..if has_lanes { 256 } else { 0 } {
                let Some(delivery) =
                    self.sources.local.changes.receive(if quiet { wait } else { Duration::ZERO })
                else {
                    break;
                };
                quiet = false;
                self.received = delivery.seqno;
                // Here the archive has all that was told: the one place where logs that are filled can become live.
                let is_told = is_filling && matches!(delivery.change, Change::Upto(_));
                if self.take(delivery.change).is_err() {
                    return self.remember();
                }
                if is_told {
                    break;
                }
            }
            if !has_lanes {
                std::thread::sleep(Duration::from_millis(100));
            }
            if is_filling && self.fill()?.is_err() {
                return self.remember();
            }
            if told.elapsed() >= TELL_EVERY || (stopping && quiet) {
                told = Instant::now();
                if self.tell().is_err() {
                    return self.remember();
                }
            }
            if beaten.elapsed() >= BEAT_EVERY {
                beaten = Instant::now();
                if self.beat().is_err() {
                    return self.remember();
                }
            }
            if remembered.elapsed() >= REMEMBER_EVERY {
                remembered = Instant::now();
                self.remember()?;
            }
            if stopping && quiet {
                return self.remember();
            }
        }
    }

    /// Has a lane for every log there is; one that was split goes on in its parts.
    fn open_lanes(&mut self) -> Result<()> {
        let ranges = (self.sources.shards)();
        let has_ranker = (self.sources.has_ranker)();
        let is_known = ranges == self.ranges && has_ranker == self.lanes.contains_key(&Topic::Links);
        if is_known && !self.lanes.is_empty() || ranges.is_empty() {
            return Ok(());
        }
        let mut topics: Vec<(Topic, Option<Topic>)> =
            ranges.iter().map(|range| (Topic::Docs(range.shard), range.parent.map(Topic::Docs))).collect();
        topics.extend(has_ranker.then_some((Topic::Links, None)));
        let mut lanes = BTreeMap::new();
        for (topic, parent) in topics {
            let lane = match self.lanes.remove(&topic) {
                Some(lane) => lane,
                None => {
                    let from = match self.remembered(topic)? {
                        // Told to others at once: who waits for it need not wait for the next batch.
                        Some(at) => *self.acknowledged.entry(topic).or_insert(at),
                        None => self.end_of(parent)?,
                    };
                    let cut = farol_base::fingerprint::random_key() as u32;
                    Lane::new(self.sources.node, from, cut)
                }
            };
            // A half begins where its parent ends: that it is written from there on must be told before it has anything.
            self.acknowledged.entry(topic).or_insert(lane.sent());
            lanes.insert(topic, lane);
        }
        self.lanes = lanes;
        self.ranges = ranges;
        self.filling = None;
        Ok(())
    }

    fn remembered(&self, topic: Topic) -> Result<Option<PagePosition>> {
        let mark = self.sources.local.tables.get(Table::Marks, &mark_key(topic))?;
        Ok(mark.map(|bytes| read_position(&bytes)))
    }

    /// Where a log ends that is written no more.
    fn end_of(&mut self, topic: Option<Topic>) -> Result<PagePosition> {
        let Some(topic) = topic else { return Ok(PagePosition::default()) };
        match self.acknowledged.get(&topic) {
            Some(at) => Ok(*at),
            None => Ok(self.remembered(topic)?.unwrap_or_default()),
        }
    }

    /// Writes down how far each log has come.
    fn remember(&mut self) -> Result<()> {
        let marks: Vec<(String, [u8; 12])> =
            self.acknowledged.iter().map(|(topic, at)| (mark_key(*topic), write_position(*at))).collect();
        let entries: Vec<_> = marks.iter().map(|(key, at)| (Table::Marks, key.as_str(), &at[..])).collect();
        self.sources.local.tables.put(&entries).context("cannot write down what was sent")?;
        self.sources.local.changes.ack(self.received);
        *self.progress.sent.lock() = self.acknowledged.clone();
        let behind = self.lanes.values().filter(|lane| !lane.is_live()).count();
        self.progress.behind.store(behind as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Takes one thing that the crawl tells.
    fn take(&mut self, change: Change) -> Result<(), Stopped> {
        if let Change::Upto(at) = change {
            self.upto = self.upto.max(at);
            self.is_beyond = false;
            for topic in self.live_topics() {
                let batch = self.lanes.get_mut(&topic).and_then(|lane| lane.upto(at));
                self.append(topic, batch)?;
            }
            return Ok(());
        }
        match change {
            // Logs that are being filled have not heard of it: what is to be removed is read anew.
            Change::DeleteHost(_) | Change::DeleteUnder(_) => self.filling = None,
            _ => self.is_beyond = true,
        }
        for (topic, item) in self.route(change) {
            let lane = self.lanes.get_mut(&topic).filter(|lane| lane.is_live());
            let batch = lane.and_then(|lane| push(lane, item));
            self.append(topic, batch)?;
        }
        Ok(())
    }

    fn live_topics(&self) -> Vec<Topic> {
        self.lanes.iter().filter(|(_, lane)| lane.is_live()).map(|(topic, _)| *topic).collect()
    }

    fn log_of(&self, page: PageId) -> Option<Topic> {
        let range = self.ranges.iter().find(|range| range.pages.contains(&page.0))?;
        Some(Topic::Docs(range.shard))
    }

    /// Which logs a change goes to.
    fn route(&self, change: Change) -> Vec<(Topic, Item)> {
        let everywhere = |change: WireChange| -> Vec<(Topic, Item)> {
            let to = |range: &ShardLog| (Topic::Docs(range.shard), Item::Document(change.clone()));
            self.ranges.iter().map(to).collect()
        };
        let to_page = |page: PageId, change: WireChange| -> Vec<(Topic, Item)> {
            self.log_of(page).map(|topic| (topic, Item::Document(change))).into_iter().collect()
        };
        match change {
            Change::Put(document) => {
                to_page(document.url.id(), WireChange::Put(Box::new((&*document).into())))
            }
            Change::Delete(url) => to_page(url.id(), WireChange::Delete(url.to_string())),
            Change::DeleteHost(host) => everywhere(WireChange::DeleteHost(host.to_string())),
            Change::DeleteUnder(prefix) => everywhere(WireChange::DeleteUnder(prefix.to_string())),
            Change::Links { page, host, links, at } => {
                let links = links.iter().map(Into::into).collect();
                let put = LinkChange::Put { page: page.0, host: host.0, at: position(at), links };
                vec![(Topic::Links, Item::Link(put))]
            }
            Change::LinksGone(page) => vec![(Topic::Links, Item::Link(LinkChange::Remove { page: page.0 }))],
            Change::Upto(_) => Vec::new(),
        }
    }

    /// Fills logs that are behind from the archive, for a while.
    fn fill(&mut self) -> Result<Result<(), Stopped>> {
        let begun = Instant::now();
        let mut filling = match self.filling.take() {
            Some(filling) => filling,
            None => match self.begin_filling()? {
                Ok(filling) => filling,
                Err(stopped) => return Ok(Err(stopped)),
            },
        };
        while begun.elapsed() < FILL_TURN {
            if filling.scan.position() >= self.upto {
                if self.is_beyond {
                    // A log that became live now would never have what came since: its next position is awaited.
                    std::thread::sleep(RETRY);
                    break;
                }
                return Ok(self.end_filling());
            }
            let (at, next, archived) = match filling.scan.next() {
                Some(Ok(record)) => record,
                Some(Err(error)) if is_damage(&error) => {
                    tracing::warn!(error = %error, "a damaged page is not sent; run `farol check`");
                    continue;
                }
                Some(Err(error)) => return Err(error.into()),
                None if self.is_beyond => return Ok(Ok(())),
                None => return Ok(self.end_filling()),
            };
            if self.send_read(at, next, &archived, &filling.operator).is_err() {
                return Ok(Err(Stopped));
            }
        }
        self.filling = Some(filling);
        Ok(Ok(()))
    }

    fn begin_filling(&mut self) -> Result<Result<Filling, Stopped>> {
        let operator = OperatorState::open(self.sources.local.tables.clone())?;
        let behind = |lane: &Lane| !lane.is_live();
        let from = self.lanes.values().filter(|lane| behind(lane)).map(Lane::given).min().unwrap_or_default();
        // A removal is not in the archive: where a log may have missed one, it is sent again.
        let removals = operator.removed().iter().map(|(host, end)| (Change::DeleteHost(host.clone()), *end));
        let pages = operator.removed_pages().map(|(pages, end)| (deletion_of(pages), end));
        let missed: Vec<Change> =
            removals.chain(pages).filter(|(_, end)| *end >= from).map(|(change, _)| change).collect();
        for change in missed {
            for (topic, item) in self.route(change) {
                let lane = self.lanes.get_mut(&topic).filter(|lane| behind(lane));
                let batch = lane.and_then(|lane| push(lane, item));
                if self.append(topic, batch).is_err() {
                    return Ok(Err(Stopped));
                }
            }
        }
        Ok(Ok(Filling { scan: self.sources.archive.scan(from), operator }))
    }

    /// Sends what one archived page means to the logs that lack it.
    fn send_read(
        &mut self,
        at: PagePosition,
        next: PagePosition,
        archived: &Archived,
        operator: &OperatorState,
    ) -> Result<(), Stopped> {
        let (url, host) = (archived.url(), archived.url().host());
        let removed =
            operator.removed().get(&host).is_some_and(|end| at < *end) || operator.removal_of(url).is_some();
        let interpreted = (!removed).then(|| self.sources.interpreter.interpret_archived(archived, 0));
        let mut changes = Vec::new();
        if let Some(mut interpreted) = interpreted {
            changes.extend(links_of(url, at, &mut interpreted));
            changes.extend(change_of(url, at, interpreted.outcome));
        }
        let items: Vec<(Topic, Item)> = changes.into_iter().flat_map(|change| self.route(change)).collect();
        for (topic, item) in items {
            let lane = self.lanes.get_mut(&topic).filter(|lane| !lane.is_live() && lane.given() <= at);
            let batch = lane.and_then(|lane| push(lane, item));
            self.append(topic, batch)?;
        }
        let topics: Vec<Topic> = self.lanes.keys().copied().collect();
        for topic in topics {
            let lane = self.lanes.get_mut(&topic).filter(|lane| !lane.is_live() && lane.given() <= at);
            let batch = lane.and_then(|lane| lane.passed(next));
            self.append(topic, batch)?;
        }
        Ok(())
    }

    /// The archive has nothing more that the crawl has not told: all logs are live.
    fn end_filling(&mut self) -> Result<(), Stopped> {
        let upto = self.upto;
        let topics: Vec<Topic> = self.lanes.keys().copied().collect();
        for topic in topics {
            let Some(lane) = self.lanes.get_mut(&topic).filter(|lane| !lane.is_live()) else { continue };
            let batch = lane.upto(upto);
            lane.set_live();
            self.append(topic, batch)?;
        }
        Ok(())
    }

    /// Tells logs of progress that concerned none of their pages.
    fn tell(&mut self) -> Result<(), Stopped> {
        for topic in self.live_topics() {
            let lane = self.lanes.get_mut(&topic).filter(|lane| lane.is_ahead());
            let batch = lane.map(Lane::flush);
            self.append(topic, batch)?;
        }
        Ok(())
    }

    /// Tells all live logs how far they go.
    fn beat(&mut self) -> Result<(), Stopped> {
        for topic in self.live_topics() {
            let batch = self.lanes.get_mut(&topic).and_then(Lane::beat);
            self.append(topic, batch)?;
        }
        Ok(())
    }

    /// Appends until the log takes it; gives up only when told to stop.
    fn append(&mut self, topic: Topic, cut: Option<Cut<Item>>) -> Result<(), Stopped> {
        let Some(cut) = cut else { return Ok(()) };
        let bytes = packed(lane::batch(topic, cut));
        while let Err(refused) = self.sources.logs.append(&topic, &bytes) {
            self.complain(&format!("{topic} takes nothing: {refused}; what was crawled waits for it"));
            if self.stop.load(Ordering::SeqCst) {
                return Err(Stopped);
            }
            std::thread::sleep(RETRY);
        }
        self.progress.batches.fetch_add(1, Ordering::Relaxed);
        self.progress.bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        self.progress.trouble.lock().clear();
        if let Some(lane) = self.lanes.get(&topic) {
            self.acknowledged.insert(topic, lane.sent());
        }
        Ok(())
    }

    fn complain(&self, message: &str) {
        let mut trouble = self.progress.trouble.lock();
        if *trouble != message {
            tracing::warn!("{message}");
            *trouble = message.to_string();
        }
    }
}

fn push(lane: &mut Lane, item: Item) -> Option<Cut<Item>> {
    let bytes = item.bytes();
    lane.push(item, bytes)
}

fn mark_key(topic: Topic) -> String {
    format!("sent {topic}")
}

/// The batch as bytes that the log takes; a page that is too large for it is cut short.
fn packed(mut batch: Batch) -> Vec<u8> {
    loop {
        let bytes = match &batch {
            Batch::Documents(batch) => pack(batch),
            Batch::Links(batch) => pack(batch),
        };
        match bytes {
            Ok(bytes) if bytes.len() > BATCH_BYTES_MAX => batch = lane::shortened(batch),
            Ok(bytes) => return bytes,
            Err(error) => {
                tracing::error!(%error, "a batch could not be written and is left out");
                return Vec::new();
            }
        }
    }
}
