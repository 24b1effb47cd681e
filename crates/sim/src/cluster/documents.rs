//! The way of documents: an agent's archive, its lanes, the logs, and the replicas that read them.
//!
//! Lanes, stretches and marks are the product's own; logs lose their end or everything, and take batches twice.

use farol_base::PagePosition;
use farol_cluster::lane::{Cut, Lane};
use farol_cluster::record::{ReplicaMark, ReplicaReport};
use farol_cluster::stretch::Fit;
use farol_cluster::{ArchivePosition, NodeNo, ShardId, ShardMap};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Batches that a replica reads at a time.
const READ_MAX: usize = 64;
/// Pages that are read from an archive at a time.
const FILL_MAX: u64 = 200;
/// A gap is asked for again after this.
const ASK_EVERY: u64 = 5_000;
/// What was taken is made durable after this.
const COMMIT_EVERY: u64 = 3_000;
/// Quiet lanes say this often how far they go.
const BEAT_EVERY: u64 = 30_000;
/// Progress that concerns none of a log's pages is told this often.
const TELL_EVERY: u64 = 5_000;

/// The log of a shard.
#[derive(Debug, Default)]
pub struct Log {
    pub stream: u64,
    pub items: VecDeque<(u64, Cut<u64>)>,
    pub end: u64,
}

impl Log {
    pub fn append(&mut self, cut: Cut<u64>) {
        self.end += 1;
        self.items.push_back((self.end, cut));
    }

    pub fn trim(&mut self, upto: u64) {
        while self.items.front().is_some_and(|(seq, _)| *seq <= upto) {
            self.items.pop_front();
        }
    }

    /// A server came back without what it had acknowledged last.
    pub fn lose_end(&mut self, count: usize) {
        for _ in 0..count {
            if let Some((seq, _)) = self.items.pop_back() {
                self.end = seq - 1;
            }
        }
    }

    /// The stream is gone; another takes its place.
    pub fn lose_all(&mut self, stream: u64) {
        *self = Log { stream, ..Log::default() };
    }
}

/// What an agent has on disk.
#[derive(Clone, Debug, Default)]
pub struct AgentDisk {
    /// Its pages, in the order it fetched them.
    pub archive: Vec<u64>,
    /// How far each log has come.
    pub remembered: BTreeMap<ShardId, PagePosition>,
}

/// A running sender.
#[derive(Debug, Default)]
pub struct Agent {
    lanes: BTreeMap<ShardId, Lane<u64>>,
    ranges: Vec<(ShardId, u64, u64, Option<ShardId>)>,
    acknowledged: BTreeMap<ShardId, PagePosition>,
    queue: VecDeque<(ShardId, Cut<u64>)>,
    beaten: u64,
    told: u64,
}

/// What became of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    Yes,
    /// It is in the log, and the sender does not know.
    Unknown,
    No,
}

fn at(offset: u64) -> PagePosition {
    PagePosition { file: 0, offset }
}

impl Agent {
    /// One turn: opens lanes, takes new pages, fills lanes that are behind, appends.
    pub fn turn(
        &mut self,
        no: NodeNo,
        disk: &mut AgentDisk,
        fresh: &[u64],
        map: &ShardMap,
        now: u64,
        mut append: impl FnMut(ShardId, &Cut<u64>) -> Appended,
    ) {
        self.send(&mut append);
        if self.queue.is_empty() {
            self.open_lanes(no, disk, map, now);
        }
        for page in fresh {
            disk.archive.push(*page);
            let end = at(disk.archive.len() as u64);
            let shard = self.shard_of(*page);
            for (id, lane) in self.lanes.iter_mut().filter(|(_, lane)| lane.is_live()) {
                if Some(*id) == shard {
                    self.queue.extend(lane.push(*page, 1 << 14).map(|cut| (*id, cut)));
                }
                self.queue.extend(lane.upto(end).map(|cut| (*id, cut)));
            }
        }
        if self.queue.is_empty() {
            self.fill(disk);
        }
        if now.saturating_sub(self.beaten) >= BEAT_EVERY {
            self.beaten = now;
            for (id, lane) in &mut self.lanes {
                self.queue.extend(lane.beat().map(|cut| (*id, cut)));
            }
        }
        if now.saturating_sub(self.told) >= TELL_EVERY {
            self.told = now;
            for (id, lane) in self.lanes.iter_mut().filter(|(_, lane)| lane.is_live() && lane.is_ahead()) {
                self.queue.push_back((*id, lane.flush()));
            }
        }
        self.send(&mut append);
        disk.remembered.extend(self.acknowledged.iter().map(|(shard, at)| (*shard, *at)));
    }

    /// A replica lacks something of a shard from here on.
    pub fn asked_again(&mut self, shard: ShardId, from: PagePosition) {
        if self.queue.is_empty()
            && let Some(lane) = self.lanes.get_mut(&shard)
        {
            lane.rewind(from);
        }
    }

    fn shard_of(&self, page: u64) -> Option<ShardId> {
        self.ranges.iter().find(|(_, from, to, _)| (*from..=*to).contains(&page)).map(|range| range.0)
    }

    fn send(&mut self, append: &mut impl FnMut(ShardId, &Cut<u64>) -> Appended) {
        while let Some((shard, cut)) = self.queue.front() {
            match append(*shard, cut) {
                Appended::Yes => {
                    self.acknowledged.insert(*shard, cut.stretch.upto);
                    self.queue.pop_front();
                }
                Appended::Unknown | Appended::No => return,
            }
        }
    }

    fn open_lanes(&mut self, no: NodeNo, disk: &AgentDisk, map: &ShardMap, now: u64) {
        let ranges: Vec<_> =
            map.written().map(|shard| (shard.id, shard.from, shard.to, shard.born_of)).collect();
        if ranges == self.ranges {
            return;
        }
        let mut lanes = BTreeMap::new();
        for (id, _, _, parent) in &ranges {
            let lane = self.lanes.remove(id).unwrap_or_else(|| {
                let known =
                    |shard: &ShardId| self.acknowledged.get(shard).or(disk.remembered.get(shard)).copied();
                let from = disk.remembered.get(id).copied();
                let from = from.or_else(|| parent.as_ref().and_then(known)).unwrap_or_default();
                // From here on the parent's log is written no more, and the report says so.
                self.acknowledged.insert(*id, from);
                Lane::new(no.0, from, (now as u32).wrapping_mul(2_654_435_761))
            });
            lanes.insert(*id, lane);
        }
        (self.lanes, self.ranges) = (lanes, ranges);
    }

    fn fill(&mut self, disk: &AgentDisk) {
        let end = disk.archive.len() as u64;
        for (id, lane) in self.lanes.iter_mut().filter(|(_, lane)| !lane.is_live()) {
            let Some((_, from, to, _)) = self.ranges.iter().find(|range| range.0 == *id) else { continue };
            let begin = lane.given().offset;
            let upto = end.min(begin + FILL_MAX);
            for offset in begin..upto {
                let page = disk.archive[offset as usize];
                if (*from..=*to).contains(&page) {
                    self.queue.extend(lane.push(page, 1 << 14).map(|cut| (*id, cut)));
                }
                self.queue.extend(lane.passed(at(offset + 1)).map(|cut| (*id, cut)));
            }
            if upto == end {
                self.queue.extend(lane.upto(at(end)).map(|cut| (*id, cut)));
                lane.set_live();
            }
        }
    }
}

/// How far an agent's archive is in each log, as its node tells.
pub fn sent_of(disk: &AgentDisk) -> BTreeMap<ShardId, ArchivePosition> {
    let position = |at: &PagePosition| ArchivePosition { file: u64::from(at.file), offset: at.offset };
    disk.remembered.iter().map(|(shard, at)| (*shard, position(at))).collect()
}

/// A replica's files.
#[derive(Clone, Debug, Default)]
pub struct ReplicaDisk {
    pub mark: ReplicaMark,
    pub pages: BTreeSet<u64>,
}

/// A running replica.
#[derive(Debug)]
pub struct Replica {
    mark: ReplicaMark,
    fresh: Vec<u64>,
    committed: u64,
    caught_up: Option<u64>,
    gaps: BTreeMap<u16, u64>,
    pub snapshot_at: u64,
}

impl Replica {
    pub fn open(disk: &ReplicaDisk, now: u64) -> Replica {
        Replica {
            mark: disk.mark.clone(),
            fresh: Vec::new(),
            committed: now,
            caught_up: None,
            gaps: BTreeMap::new(),
            snapshot_at: now,
        }
    }

    pub fn has_caught_up(&self) -> bool {
        self.caught_up.is_some()
    }

    /// Reads the log on; what it must ask agents for. `detects` is the rule that a gap is noticed.
    pub fn read(&mut self, log: &Log, now: u64, detects: bool) -> Vec<(NodeNo, PagePosition)> {
        let mut asks = Vec::new();
        let stream = log.stream.to_string();
        if self.mark.stream != stream || log.end < self.mark.seq {
            (self.mark.stream, self.mark.seq) = (stream, 0);
            return asks;
        }
        let from = log.items.partition_point(|(seq, _)| *seq <= self.mark.seq);
        let items = log.items.iter().skip(from).take(READ_MAX);
        let mut last = self.mark.seq;
        let mut count = 0;
        for (seq, cut) in items {
            self.take(cut, now, detects, &mut asks);
            (last, count) = (*seq, count + 1);
        }
        self.mark.seq = last;
        if last >= log.end || count == 0 {
            self.caught_up = self.gaps.is_empty().then_some(now);
        }
        asks
    }

    fn take(&mut self, cut: &Cut<u64>, now: u64, detects: bool, asks: &mut Vec<(NodeNo, PagePosition)>) {
        let agent = cut.stretch.from;
        match self.mark.take(&cut.stretch) {
            Fit::Take(_) => {
                self.gaps.remove(&agent);
                self.fresh.extend(&cut.items);
            }
            Fit::Known => {}
            Fit::Gap if !detects => {
                let upto = cut.stretch.upto;
                let position = ArchivePosition { file: 0, offset: upto.offset };
                self.mark.from.entry(NodeNo(agent)).or_default().position = position;
                self.fresh.extend(&cut.items);
            }
            Fit::Gap => {
                self.caught_up = None;
                let asked = self.gaps.get(&agent);
                if asked.is_none_or(|asked| now.saturating_sub(*asked) >= ASK_EVERY) {
                    self.gaps.insert(agent, now);
                    asks.push((NodeNo(agent), self.mark.reached(NodeNo(agent)).position));
                }
            }
        }
    }

    pub fn commit(&mut self, disk: &mut ReplicaDisk, now: u64) {
        if now.saturating_sub(self.committed) >= COMMIT_EVERY && (disk.mark != self.mark) {
            self.committed = now;
            disk.mark = self.mark.clone();
            disk.pages.extend(self.fresh.drain(..));
        }
    }

    pub fn report(&self, disk: &ReplicaDisk, now: u64) -> ReplicaReport {
        ReplicaReport {
            mark: disk.mark.clone(),
            documents: disk.pages.len() as u64,
            lag_ms: self.caught_up.map(|at| now.saturating_sub(at)),
            ..ReplicaReport::default()
        }
    }
}

/// The half of a replica that lies in a range.
pub fn half_of(parent: &ReplicaDisk, from: u64, to: u64) -> ReplicaDisk {
    let mark = ReplicaMark { from: parent.mark.from.clone(), ..ReplicaMark::default() };
    ReplicaDisk { mark, pages: parent.pages.range(from..=to).copied().collect() }
}
