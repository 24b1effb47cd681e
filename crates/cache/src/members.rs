//! Who the leader hears of: nodes by their beats, fronts by their reports.
//!
//! A node is gone when six beats are missed, when most fronts say that it refuses them for two seconds, or when it says
//! so itself. Neither beats nor fronts alone take more than half of the ring away: a leader that is cut off hears nobody,
//! a front that is cut off sees everybody refuse. More go only where both say so.
//!
//! INVARIANT: a message that comes twice, late, or from an earlier life of its sender changes nothing.

use crate::hot::Summary;
use crate::ring::{NODES_MAX, NodeId, Ring};
use crate::tables::{Beat, FrontId, FrontReport, RingNode};
use farol_base::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Six beats of 1.2 s are missed before a node counts as gone [Gomez14 §1.6].
pub const SILENCE_MAX: Duration = Duration::from_millis(7_200);
/// Most fronts say for so long that a node refuses them.
const REFUSAL: Duration = Duration::from_secs(2);
/// Who was taken out because fronts do not reach them is let in again after this, twice as long each time, up to …
const BARRED: Duration = Duration::from_secs(30);
/// … this.
const BARRED_MAX: Duration = Duration::from_secs(300);
/// A front that has not reported for so long does not count.
const FRONT_SILENCE: Duration = Duration::from_secs(30);
/// A front's last minute counts until a newer one comes, at most so long.
const MINUTE_KEPT: Duration = Duration::from_secs(150);
const FRONTS_MAX: usize = 1024;

#[derive(Clone, Copy, Debug)]
struct Member {
    incarnation: u64,
    capacity: u32,
    /// When this start of it was first heard of: what was said of an earlier one is over.
    born: Timestamp,
    heard: Timestamp,
    leaves: bool,
    barred_until: Timestamp,
    barred_for: Duration,
}

/// Nodes.
#[derive(Debug, Default)]
pub(crate) struct Members {
    known: BTreeMap<NodeId, Member>,
}

impl Members {
    /// As the last leader had it; it has its time to beat.
    pub fn resume(&mut self, node: &RingNode, now: Timestamp) {
        self.known.insert(node.id, Member::new(node.incarnation, node.capacity, now));
    }

    /// Answers whether a known node has restarted.
    pub fn beat(&mut self, node: NodeId, beat: &Beat, now: Timestamp) -> bool {
        if self.known.len() >= NODES_MAX && !self.known.contains_key(&node) {
            return false;
        }
        let known = self.known.entry(node).or_insert(Member::new(beat.incarnation, beat.capacity, now));
        if beat.incarnation < known.incarnation {
            return false;
        }
        let restarted = beat.incarnation > known.incarnation;
        if restarted {
            (known.leaves, known.born) = (false, now);
        }
        (known.incarnation, known.capacity) = (beat.incarnation, beat.capacity);
        known.heard = known.heard.max(now);
        restarted
    }

    pub fn leave(&mut self, node: NodeId) {
        if let Some(known) = self.known.get_mut(&node) {
            known.leaves = true;
        }
    }

    pub fn listed(&self, id: NodeId) -> RingNode {
        let known = self.known.get(&id);
        RingNode {
            id,
            incarnation: known.map_or(0, |known| known.incarnation),
            capacity: known.map_or(1000, |known| known.capacity),
        }
    }

    /// Whether somebody is to go or to come.
    pub fn has_changes<K>(&self, ring: &Ring, fronts: &Fronts<K>, now: Timestamp) -> bool {
        !self.waiting(ring, now).is_empty() || !self.gone(ring, fronts, now).is_empty()
    }

    /// Who lives and is not on the ring.
    pub fn waiting(&self, ring: &Ring, now: Timestamp) -> Vec<NodeId> {
        let waits = |(node, known): (&NodeId, &Member)| {
            let lives = now.since(known.heard) < SILENCE_MAX && !known.leaves && now >= known.barred_until;
            (lives && !ring.contains(*node)).then_some(*node)
        };
        self.known.iter().filter_map(waits).collect()
    }

    /// Who is on the ring and has to go, and whether that is for their silence or will.
    fn gone<K>(&self, ring: &Ring, fronts: &Fronts<K>, now: Timestamp) -> Vec<(NodeId, bool)> {
        let leaves = |node: NodeId| self.known.get(&node).is_some_and(|known| known.leaves);
        let silent =
            |node: NodeId| self.known.get(&node).is_none_or(|known| now.since(known.heard) >= SILENCE_MAX);
        let born = |node: NodeId| self.known.get(&node).map_or(Timestamp::EPOCH, |known| known.born);
        let refused = |node: NodeId| fronts.most_refused_by(node, born(node), now);
        let count = |is: &dyn Fn(NodeId) -> bool| ring.nodes().filter(|node| is(*node)).count();
        let (silence_counts, refusal_counts) =
            (2 * count(&silent) <= ring.len(), 2 * count(&refused) <= ring.len());
        let mut gone = Vec::new();
        for node in ring.nodes() {
            let (silent, refused) = (silent(node), refused(node));
            if leaves(node) || (silent && (silence_counts || refused)) {
                gone.push((node, true));
            } else if refused && refusal_counts {
                gone.push((node, false));
            }
        }
        gone
    }

    /// Who goes now. Who is refused, though it beats, waits before it comes back.
    pub fn take_gone<K>(&mut self, ring: &Ring, fronts: &Fronts<K>, now: Timestamp) -> Vec<NodeId> {
        let gone = self.gone(ring, fronts, now);
        for (node, by_silence) in &gone {
            if *by_silence {
                // Who leaves may still beat for a while; it is kept in mind, so that it does not join again.
                if self.known.get(node).is_none_or(|known| !known.leaves) {
                    self.known.remove(node);
                }
            } else if let Some(known) = self.known.get_mut(node) {
                known.barred_for = (known.barred_for * 2).clamp(BARRED, BARRED_MAX);
                known.barred_until = now + known.barred_for;
            }
        }
        self.known.retain(|node, known| ring.contains(*node) || now.since(known.heard) < SILENCE_MAX);
        gone.into_iter().map(|(node, _)| node).collect()
    }
}

impl Member {
    fn new(incarnation: u64, capacity: u32, heard: Timestamp) -> Member {
        let (barred_until, barred_for) = (Timestamp::EPOCH, Duration::ZERO);
        Member { incarnation, capacity, born: heard, heard, leaves: false, barred_until, barred_for }
    }
}

struct Front<K> {
    incarnation: u64,
    number: u64,
    heard: Timestamp,
    /// By node, since the front started: sent and owned.
    sums: BTreeMap<NodeId, (u64, u64)>,
    /// Who refuses it, since when.
    refused_by: BTreeMap<NodeId, Timestamp>,
    minute: Option<(Timestamp, Summary<K>)>,
}

/// Fronts.
pub(crate) struct Fronts<K> {
    known: BTreeMap<FrontId, Front<K>>,
}

impl<K> Default for Fronts<K> {
    fn default() -> Fronts<K> {
        Fronts { known: BTreeMap::new() }
    }
}

impl<K> Fronts<K> {
    /// What a front sent to each node since its last report; `None` where the report is not a newer one.
    pub fn take(&mut self, report: &FrontReport<K>, now: Timestamp) -> Option<Vec<(NodeId, (u64, u64))>> {
        let is_known = self.known.contains_key(&report.front);
        if !is_known && self.known.len() >= FRONTS_MAX {
            return None;
        }
        let new = || Front {
            incarnation: report.incarnation,
            number: 0,
            heard: now,
            sums: BTreeMap::new(),
            refused_by: BTreeMap::new(),
            minute: None,
        };
        let known = self.known.entry(report.front).or_insert_with(new);
        if report.incarnation > known.incarnation {
            *known = new();
        }
        if report.incarnation < known.incarnation
            || report.number <= known.number
            || report.nodes.len() > NODES_MAX
        {
            return None;
        }
        (known.number, known.heard) = (report.number, known.heard.max(now));
        let before = std::mem::take(&mut known.sums);
        known.refused_by.clear();
        let mut since = Vec::with_capacity(report.nodes.len());
        for tally in &report.nodes {
            // A node that left the ring and came back counts from nothing again.
            let (sent, owned) = before.get(&tally.node).copied().unwrap_or((0, 0));
            let delta = |new: u64, old: u64| if new >= old { new - old } else { new };
            since.push((tally.node, (delta(tally.sent, sent), delta(tally.owned, owned))));
            known.sums.insert(tally.node, (tally.sent, tally.owned));
            if let Some(millis) = tally.refusing_ms {
                known.refused_by.insert(tally.node, now - Duration::from_millis(u64::from(millis)));
            }
        }
        Some(since)
    }

    pub fn keep_minute(&mut self, front: FrontId, minute: Summary<K>, now: Timestamp) {
        if let Some(known) = self.known.get_mut(&front) {
            known.minute = Some((now, minute));
        }
    }

    pub fn forget_silent(&mut self, now: Timestamp) {
        self.known.retain(|_, front| now.since(front.heard) < FRONT_SILENCE);
        for front in self.known.values_mut() {
            front.minute.take_if(|(at, _)| now.since(*at) >= MINUTE_KEPT);
        }
    }

    /// Fronts that report.
    pub fn count(&self) -> u16 {
        u16::try_from(self.known.len()).unwrap_or(u16::MAX).max(1)
    }

    /// Whether most say for long enough that a node refuses them, counted from its last start.
    fn most_refused_by(&self, node: NodeId, born: Timestamp, now: Timestamp) -> bool {
        let refused = |front: &&Front<K>| {
            front.refused_by.get(&node).is_some_and(|since| now.since((*since).max(born)) >= REFUSAL)
        };
        2 * self.known.values().filter(refused).count() > self.known.len()
    }
}

impl<K: Eq + Clone> Fronts<K> {
    /// The last minutes of all, as one.
    pub fn minutes(&self, count: usize) -> Summary<K> {
        Summary::merge(
            self.known.values().filter_map(|front| front.minute.as_ref().map(|(_, minute)| minute)),
            count,
        )
    }
}
