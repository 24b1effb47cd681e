//! Sends entries to other nodes: copies for the successor, what belongs to others since borders moved, and hot answers to
//! those who are to serve them as well.
//!
//! INVARIANT: whatever is under way may be given up at any time: all of it costs misses only.

use super::{CacheNodeParts, TICK};
use crate::handles::cache_node::{CacheShelf, TAKEN_PER_SECOND};
use crate::wire::v1::cache::{
    BATCH_BYTES_MAX, BATCH_ENTRIES_MAX, CacheTail, HandOverReply, HandOverRequest, ProtectRequest, WireEntry,
    WireKept, verb,
};
use farol_base::random::mix;
use farol_cache::NodeId;
use farol_cache::failover::{FailoverCopies, Round};
use farol_cache::hot::{Sequence, sequence};
use farol_cache::key::QueryKey;
use farol_cache::node::HandOver;
use farol_cache::store::Proven;
use farol_cache::tables::RingDoc;
use farol_rpc::CallError;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Slots that are looked at under one lock.
const STEP: usize = 256;
/// How long a node may take for a batch.
const BATCH_MAX: Duration = Duration::from_secs(2);
/// Nothing is handed over where the tables have been out of reach for so long: who owns what is not known.
const CUT_OFF: Duration = Duration::from_secs(30);
/// How often it is looked whether they are.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Bytes per second that are sent, so that lookups have the network to themselves.
const SENT_PER_SECOND: u64 = TAKEN_PER_SECOND as u64;

pub struct Carrier {
    parts: CacheNodeParts,
    stop: Arc<AtomicBool>,
    /// The ring that what is kept here agrees with.
    settled: Option<Arc<RingDoc>>,
    /// The hot questions whose answers were given to others.
    given: HashMap<u64, usize>,
    hot_version: u64,
    rounds: u64,
    next_round: Instant,
    /// When the tables were last known to be in reach, and when that was looked at.
    connected: Instant,
    looked: Instant,
}

/// Batches for several nodes, sent when they are full.
struct CarriedBatches<'a> {
    carrier: &'a Carrier,
    ring: &'a RingDoc,
    by_node: BTreeMap<NodeId, (Vec<WireEntry>, usize)>,
    /// Nodes that did not take a batch; they get no more.
    lost: Vec<NodeId>,
    /// The round of copies; `None` where entries are handed over.
    round: Option<u64>,
    sent: u64,
}

impl Carrier {
    pub fn new(parts: CacheNodeParts, stop: Arc<AtomicBool>) -> Carrier {
        let every = parts.copies.map_or(Duration::MAX, |copies| copies.every);
        // Nodes that start together send their copies one after another.
        let part = mix(u64::from(parts.shelf.me.no) ^ parts.shelf.me.incarnation) % 1000;
        let first = every.min(Duration::from_secs(3600)).mul_f64(0.5 + part as f64 / 2000.0);
        Carrier {
            parts,
            stop,
            settled: None,
            given: HashMap::new(),
            hot_version: 0,
            rounds: 0,
            next_round: Instant::now() + first,
            connected: Instant::now(),
            looked: Instant::now(),
        }
    }

    pub fn run(&mut self) {
        while !self.stop.load(Ordering::SeqCst) {
            std::thread::sleep(TICK);
            if self.looked.elapsed() >= LOOK_EVERY {
                self.looked = Instant::now();
                if self.parts.fabric.state().connected {
                    self.connected = self.looked;
                }
            }
            let Some(ring) = self.parts.shelf.ring() else { continue };
            self.hand_over(&ring);
            self.give_hot(&ring);
            if let Some(copies) = self.parts.copies.filter(|_| Instant::now() >= self.next_round) {
                self.next_round = Instant::now() + copies.every;
                self.send_round(&copies, &ring);
            }
            // Who leaves stays until the ring is without it, and others have what it kept.
            let is_settled = self.settled.as_ref().is_some_and(|doc| doc.epoch == ring.epoch);
            let is_busy = ring.ring.contains(self.me()) || !is_settled;
            self.parts.board.busy.store(is_busy, Ordering::SeqCst);
        }
    }

    fn me(&self) -> NodeId {
        NodeId(self.parts.shelf.me.no)
    }

    fn shelf(&self) -> &CacheShelf {
        &self.parts.shelf
    }

    /// Hands over what belongs to others since the ring last agreed with what is kept here.
    fn hand_over(&mut self, ring: &Arc<RingDoc>) {
        let Some(before) = self.settled.clone() else {
            self.settled = Some(ring.clone());
            return;
        };
        if before.epoch == ring.epoch || self.connected.elapsed() > CUT_OFF {
            return;
        }
        if before.ring != ring.ring {
            let me = self.me();
            let goes = |hash: u64, source: Option<NodeId>| match source {
                // Copies of a node that is gone are for who has its range now.
                Some(source) => !ring.ring.contains(source) && ring.ring.owner(hash) != Some(me),
                None => before.ring.owner(hash) == Some(me) && ring.ring.owner(hash) != Some(me),
            };
            let sent = {
                let mut out = CarriedBatches::new(self, ring, None);
                for shard in 0..self.shelf().node.shards() {
                    let mut walk = HandOver::default();
                    while !walk.is_done() && !self.stop.load(Ordering::SeqCst) {
                        let step = self.shelf().node.numbered(shard).step_hand_over(&mut walk, STEP, goes);
                        for given in step {
                            if let Some(to) = ring.ring.owner(given.entry.hash) {
                                out.add(to, &given);
                            }
                        }
                    }
                }
                out.end(&[])
            };
            if sent > 0 {
                tracing::info!(entries = sent, ring = ring.epoch.version, "answers were handed over");
            }
        }
        self.settled = Some(ring.clone());
    }

    /// Gives answers of questions that have become hot to the nodes that are to serve them as well, before they are asked.
    fn give_hot(&mut self, ring: &Arc<RingDoc>) {
        let Some(hot) = self.parts.shelf.tables.now().hot else { return };
        let version = mix(hot.epoch.term) ^ hot.epoch.version;
        if version == self.hot_version {
            return;
        }
        self.hot_version = version;
        let degrees: HashMap<u64, usize> =
            hot.hot.iter().map(|hot| (hot.degree.hash, hot.degree.nodes)).collect();
        let me = self.me();
        let is_new = |hash: u64| {
            let nodes = degrees.get(&hash).copied().unwrap_or(0);
            nodes > self.given.get(&hash).copied().unwrap_or(1) && ring.ring.owner(hash) == Some(me)
        };
        if degrees.keys().any(|hash| is_new(*hash)) {
            let mut out = CarriedBatches::new(self, ring, None);
            for shard in 0..self.shelf().node.shards() {
                let mut next = Some(0);
                while let Some(from) = next.filter(|_| !self.stop.load(Ordering::SeqCst)) {
                    let step = self.shelf().node.numbered(shard).step_give(from, STEP, is_new);
                    next = step.next;
                    for given in step.found {
                        let degree = degrees.get(&given.entry.hash).copied().unwrap_or(0);
                        let serving = sequence(Sequence::Random, &ring.ring, given.entry.hash);
                        for to in serving.into_iter().take(degree).filter(|to| *to != me) {
                            out.add(to, &given);
                        }
                    }
                }
            }
            out.end(&[]);
        }
        self.given = degrees;
    }

    /// Sends copies of the best answers to those who would inherit this node's range.
    fn send_round(&mut self, copies: &FailoverCopies, ring: &RingDoc) {
        let me = self.me();
        let keepers = copies.keepers(&ring.ring, me, 0);
        if !ring.ring.contains(me) || keepers.is_empty() {
            return;
        }
        self.rounds += 1;
        let mut out = CarriedBatches::new(self, ring, Some(self.rounds));
        for shard in 0..self.shelf().node.shards() {
            let mut round: Round<QueryKey, WireKept> = copies.begin(&self.shelf().node.numbered(shard));
            loop {
                let now = self.shelf().now();
                let step = round.step(&mut self.shelf().node.numbered(shard), STEP, now);
                let Some(step) = step.filter(|_| !self.stop.load(Ordering::SeqCst)) else { break };
                for entry in step {
                    for to in copies.keepers(&ring.ring, me, entry.hash) {
                        out.add(to, &Proven { uses: 1, entry: entry.clone() });
                    }
                }
            }
        }
        let sent = out.end(&keepers);
        self.shelf().counters.copies_sent.fetch_add(sent, Ordering::Relaxed);
    }
}

impl<'a> CarriedBatches<'a> {
    fn new(carrier: &'a Carrier, ring: &'a RingDoc, round: Option<u64>) -> CarriedBatches<'a> {
        CarriedBatches { carrier, ring, by_node: BTreeMap::new(), lost: Vec::new(), round, sent: 0 }
    }

    fn add(&mut self, to: NodeId, given: &Proven<QueryKey, WireKept>) {
        if self.lost.contains(&to) {
            return;
        }
        let entry = WireEntry::of(&given.entry, given.uses, self.carrier.shelf().now());
        let (batch, bytes) = self.by_node.entry(to).or_default();
        *bytes += entry.bytes();
        batch.push(entry);
        if *bytes >= BATCH_BYTES_MAX || batch.len() >= BATCH_ENTRIES_MAX {
            self.flush(to, false);
        }
    }

    /// Sends what is left, and tells these that it was all. Answers how many entries were sent.
    fn end(mut self, tell: &[NodeId]) -> u64 {
        let mut nodes: Vec<NodeId> = self.by_node.keys().copied().chain(tell.iter().copied()).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.into_iter().for_each(|node| self.flush(node, true));
        self.sent
    }

    fn flush(&mut self, to: NodeId, last: bool) {
        let (entries, bytes) = self.by_node.remove(&to).unwrap_or_default();
        if self.lost.contains(&to) || (entries.is_empty() && self.round.is_none()) {
            return;
        }
        let (count, begun) = (entries.len() as u64, Instant::now());
        match self.send(to, entries, last) {
            Ok(room) => {
                self.sent += count;
                if self.round.is_none() {
                    let given = &self.carrier.shelf().counters.entries_given;
                    given.fetch_add(count, Ordering::Relaxed);
                }
                // At the pace of the sender, or of a receiver that is given more than it takes.
                let full = (room as usize) < BATCH_BYTES_MAX;
                let own = Duration::from_micros(bytes as u64 * 1_000_000 / SENT_PER_SECOND);
                let pause = if full { Duration::from_secs(1) } else { own };
                self.pause(pause.saturating_sub(begun.elapsed()));
            }
            Err(error) => {
                tracing::debug!(node = to.0, %error, "a cache node does not take what is sent to it");
                self.lost.push(to);
            }
        }
    }

    /// Sends a batch; answers how many bytes the receiver takes in the next second.
    fn send(&self, to: NodeId, entries: Vec<WireEntry>, last: bool) -> Result<u32, CallError> {
        let parts = &self.carrier.parts;
        let peer = (parts.peer_of)(to).ok_or_else(|| CallError::Unreachable {
            peer: format!("cache node {}", to.0),
            why: "nobody knows where it is".to_string(),
        })?;
        let (head, deadline) = (parts.shelf.head(self.ring), Instant::now() + BATCH_MAX);
        match self.round {
            Some(round) => {
                let request = ProtectRequest { head, round, last, entries };
                let _: CacheTail = parts.caller.call(&peer, verb::PROTECT, &request, deadline)?;
                Ok(TAKEN_PER_SECOND)
            }
            None => {
                let request = HandOverRequest { head, last, entries };
                let reply: HandOverReply = parts.caller.call(&peer, verb::HAND_OVER, &request, deadline)?;
                Ok(reply.room)
            }
        }
    }

    fn pause(&self, pause: Duration) {
        let until = Instant::now() + pause;
        while !self.carrier.stop.load(Ordering::SeqCst) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(TICK));
        }
    }
}

#[cfg(test)]
#[path = "carry_tests.rs"]
mod tests;
