//! How the cache service fares, for people: the last minute of each node by its own counters, what is hot, what bursts,
//! and how the ring changed.

use crate::ring::AskedQuery;
use crate::ring::records::{BurstLine, CachesRecord, ChangeLine, HotLine, NodeLine};
use farol_base::{Clock, SystemClock};
use farol_cache::hot::Summary;
use farol_cache::lead::{Leader, Publish};
use farol_cache::tables::{Beat, BurstNews, FrontId, FrontReport};
use farol_cache::{NodeId, Ring};
use farol_cluster::Key;
use farol_cluster::record::{RECORD_VERSION, write};
use farol_fabric::{Fabric, Revision};
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Rates are over this time.
const MINUTE: Duration = Duration::from_secs(60);
/// Beats of a node that are remembered: one in five seconds.
const BEATS_EVERY: Duration = Duration::from_secs(5);
/// A node that has not beaten for so long is not shown any more, unless it is on the ring.
const FORGOTTEN: Duration = Duration::from_secs(60);
/// Lines of each list.
const LINES_MAX: usize = 50;
/// Questions of a minute whose texts are looked up.
const TEXTS_MAX: usize = 500;

/// What is known of a node.
struct KnownNode {
    /// Oldest first; the newest is the last that came.
    beats: VecDeque<(Instant, Beat)>,
    heard: Instant,
}

/// Gathers what people are shown.
pub struct ServiceStatus {
    nodes: BTreeMap<NodeId, KnownNode>,
    minutes: BTreeMap<FrontId, (Instant, Summary<AskedQuery>)>,
    bursts: VecDeque<BurstLine>,
    changes: VecDeque<ChangeLine>,
    ring: Ring,
    hot: Vec<(u64, usize, u8)>,
    /// Versions of what was published last.
    versions: (u64, u64),
    revision: Option<Revision>,
    /// What is decided by.
    rules: String,
}

impl ServiceStatus {
    /// `ring`: as the leader found it.
    pub fn new(ring: Ring, rules: &str) -> ServiceStatus {
        ServiceStatus {
            rules: rules.to_string(),
            nodes: BTreeMap::new(),
            minutes: BTreeMap::new(),
            bursts: VecDeque::new(),
            changes: VecDeque::new(),
            ring,
            hot: Vec::new(),
            versions: (0, 0),
            revision: None,
        }
    }

    pub fn beat(&mut self, node: NodeId, beat: &Beat) {
        let now = Instant::now();
        let known = self.nodes.entry(node).or_insert(KnownNode { beats: VecDeque::new(), heard: now });
        if known.beats.back().is_some_and(|(_, last)| last.incarnation != beat.incarnation) {
            known.beats.clear();
        }
        known.heard = now;
        // The newest replaces the one before it, unless that has stood long enough to be a mark in time.
        let before = known.beats.len().checked_sub(2).and_then(|at| known.beats.get(at)).map(|(at, _)| *at);
        if before.is_some_and(|at| now.duration_since(at) < BEATS_EVERY) {
            known.beats.pop_back();
        }
        known.beats.push_back((now, *beat));
        while known.beats.len() > 2 && known.beats[1].0.elapsed() > MINUTE {
            known.beats.pop_front();
        }
    }

    pub fn report(&mut self, report: &FrontReport<AskedQuery>) {
        if let Some(minute) = &report.minute {
            self.minutes.insert(report.front, (Instant::now(), minute.clone()));
        }
        self.minutes.retain(|_, (at, _)| at.elapsed() < 3 * MINUTE);
    }

    /// Something was decided.
    pub fn published(&mut self, publish: &Publish<AskedQuery>, ring: &Ring) {
        match publish {
            Publish::Ring(doc) => {
                let change = change_of(&self.ring, ring, doc.epoch.version);
                (self.ring, self.versions.0) = (ring.clone(), doc.epoch.version);
                keep(&mut self.changes, change);
            }
            Publish::Hot(doc) => {
                self.versions.1 = doc.epoch.version;
                self.hot =
                    doc.hot.iter().map(|hot| (hot.degree.hash, hot.degree.nodes, hot.severity)).collect();
            }
            Publish::Burst(news) => keep(&mut self.bursts, burst_of(news)),
        }
    }

    /// Writes the table for people. Where somebody else has written it, it is theirs until the next time.
    pub fn tell(&mut self, fabric: &dyn Fabric, leader: &Leader<AskedQuery>, term: u64) {
        let (key, record) = (Key::Caches.to_string(), self.record(leader, term));
        let revision = match self.revision {
            Some(revision) => revision,
            None => match fabric.get(&key) {
                Ok(found) => found.map_or(Revision::NONE, |(_, revision)| revision),
                Err(_) => return,
            },
        };
        // Where somebody else has written, or nobody knows who, it is read again.
        self.revision = fabric.set(&key, &write(&record), revision).ok();
    }

    fn record(&mut self, leader: &Leader<AskedQuery>, term: u64) -> CachesRecord {
        let ring = &self.ring;
        self.nodes.retain(|node, known| ring.contains(*node) || known.heard.elapsed() < FORGOTTEN);
        let nodes: Vec<NodeLine> =
            self.nodes.iter().map(|(node, known)| line(*node, known, ring.contains(*node))).collect();
        let loads: Vec<f64> =
            nodes.iter().filter(|node| node.is_on_ring).map(|node| node.per_second).collect();
        let (hits, lookups) = self
            .nodes
            .values()
            .map(minute_of)
            .fold((0, 0), |sum, minute| (sum.0 + minute.beat.hits, sum.1 + minute.beat.lookups));
        CachesRecord {
            v: RECORD_VERSION,
            term,
            ring: self.versions.0,
            hot_version: self.versions.1,
            at: SystemClock.now().as_millis(),
            rules: self.rules.clone(),
            fronts: leader.hot_doc().fronts,
            efficiency: efficiency(&loads),
            hit_rate: hits as f64 / (lookups as f64).max(1.0),
            nodes,
            hot: self.hot_lines(),
            bursts: self.bursts.iter().cloned().collect(),
            changes: self.changes.iter().cloned().collect(),
        }
    }

    fn hot_lines(&self) -> Vec<HotLine> {
        let sum = Summary::merge(self.minutes.values().map(|(_, minute)| minute), TEXTS_MAX);
        let known: BTreeMap<u64, (usize, u8)> =
            self.hot.iter().map(|(hash, nodes, severity)| (*hash, (*nodes, *severity))).collect();
        let mut lines: Vec<HotLine> = sum
            .tallies
            .iter()
            .filter_map(|tally| {
                let (nodes, severity) = *known.get(&tally.hash)?;
                let count = tally.count - tally.error;
                Some(HotLine { text: tally.key.shown.to_string(), nodes, count, severity })
            })
            .collect();
        lines.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.text.cmp(&b.text)));
        lines.truncate(LINES_MAX);
        lines
    }
}

fn keep<T>(lines: &mut VecDeque<T>, line: T) {
    lines.push_front(line);
    lines.truncate(LINES_MAX);
}

fn burst_of(news: &BurstNews<AskedQuery>) -> BurstLine {
    BurstLine {
        at: SystemClock.now().as_millis(),
        text: news.key.as_ref().map_or_else(String::new, |query| query.shown.to_string()),
        severity: news.severity,
    }
}

/// What a new ring changed.
fn change_of(before: &Ring, after: &Ring, version: u64) -> ChangeLine {
    let missing = |of: &Ring, from: &Ring| -> Vec<u16> {
        of.nodes().filter(|node| !from.contains(*node)).map(|node| node.0).collect()
    };
    ChangeLine {
        at: SystemClock.now().as_millis(),
        version,
        joined: missing(after, before),
        left: missing(before, after),
        moved: moved(before, after),
    }
}

/// The share of the circle that another node owns than before.
fn moved(before: &Ring, after: &Ring) -> f64 {
    let mut points: Vec<u64> = before.ends().iter().chain(after.ends()).map(|(end, _)| *end).collect();
    points.sort_unstable();
    points.dedup();
    let Some(last) = points.last().copied() else { return 0.0 };
    let (mut from, mut sum) = (last, 0.0);
    for point in points {
        // Between two ends next to each other every point has one owner, that of the later end.
        if before.owner(point) != after.owner(point) {
            sum += match point.wrapping_sub(from) {
                0 => 1.0,
                width => width as f64 / 2f64.powi(64),
            };
        }
        from = point;
    }
    sum
}

/// Mean over greatest; 1 where nobody bears anything.
fn efficiency(loads: &[f64]) -> f64 {
    let greatest = loads.iter().copied().fold(0.0, f64::max);
    match greatest > 0.0 {
        true => loads.iter().sum::<f64>() / loads.len() as f64 / greatest,
        false => 1.0,
    }
}

/// What a node did in the last minute.
struct LastMinute {
    beat: Beat,
    secs: f64,
}

fn minute_of(known: &KnownNode) -> LastMinute {
    let (Some((from, old)), Some((to, new))) = (known.beats.front(), known.beats.back()) else {
        return LastMinute { beat: Beat::default(), secs: 0.0 };
    };
    let since = |of: fn(&Beat) -> u64| of(new).saturating_sub(of(old));
    let beat = Beat {
        lookups: since(|beat| beat.lookups),
        hits: since(|beat| beat.hits),
        inserts: since(|beat| beat.inserts),
        protects: since(|beat| beat.protects),
        handed: since(|beat| beat.handed),
        ..*new
    };
    LastMinute { beat, secs: to.saturating_duration_since(*from).as_secs_f64() }
}

fn line(node: NodeId, known: &KnownNode, is_on_ring: bool) -> NodeLine {
    let beat = known.beats.back().map(|(_, beat)| *beat).unwrap_or_default();
    let minute = minute_of(known);
    NodeLine {
        no: node.0,
        incarnation: beat.incarnation,
        is_on_ring,
        silent_ms: u64::try_from(known.heard.elapsed().as_millis()).unwrap_or(u64::MAX),
        lookups: beat.lookups,
        hits: beat.hits,
        adopted: beat.adopted,
        misses: beat.misses,
        inserts: beat.inserts,
        refused: beat.refused,
        protects: beat.protects,
        handed: beat.handed,
        entries: beat.entries,
        bytes: beat.bytes,
        busy: beat.busy,
        per_second: if minute.secs > 0.0 { minute.beat.served() as f64 / minute.secs } else { 0.0 },
        hit_rate: minute.beat.hits as f64 / (minute.beat.lookups as f64).max(1.0),
        ring: beat.ring.version,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moved_is_what_has_another_owner() {
        let (two, four) = (Ring::equal(2), Ring::equal(4));
        assert_eq!(moved(&two, &two), 0.0);
        assert_eq!(moved(&Ring::equal(0), &two), 1.0);
        // Quarters 0 1 2 3 after halves 0 0 1 1: only the first stays.
        assert!((moved(&two, &four) - 0.75).abs() < 1e-6, "{}", moved(&two, &four));
        let mut without = four.clone();
        without.leave(NodeId(2));
        let change = change_of(&four, &without, 9);
        assert_eq!((change.left, change.joined, change.version), (vec![2], vec![], 9));
        assert!((change.moved - 0.25).abs() < 1e-6);
    }

    #[test]
    fn rates_are_of_the_last_minute_and_of_one_life() {
        let mut status = ServiceStatus::new(Ring::equal(2), "ours");
        let beat = |incarnation, lookups, hits| Beat { incarnation, lookups, hits, ..Beat::default() };
        status.beat(NodeId(0), &beat(1, 100, 50));
        std::thread::sleep(Duration::from_millis(20));
        status.beat(NodeId(0), &beat(1, 200, 140));
        let shown = line(NodeId(0), &status.nodes[&NodeId(0)], true);
        assert!((shown.hit_rate - 0.9).abs() < 1e-9 && shown.per_second > 0.0, "{shown:?}");
        assert_eq!((shown.lookups, shown.hits), (200, 140));
        // It was started again: nothing is taken away from what its earlier life counted.
        status.beat(NodeId(0), &beat(2, 10, 1));
        let shown = line(NodeId(0), &status.nodes[&NodeId(0)], true);
        assert_eq!((shown.lookups, shown.per_second), (10, 0.0));
        assert_eq!(efficiency(&[]), 1.0);
        assert_eq!(efficiency(&[2.0, 1.0]), 0.75);
    }

    #[test]
    fn few_beats_are_remembered() {
        let mut status = ServiceStatus::new(Ring::equal(1), "ours");
        for lookups in 0..1000 {
            status.beat(NodeId(0), &Beat { incarnation: 1, lookups, ..Beat::default() });
        }
        let known = &status.nodes[&NodeId(0)];
        assert!(known.beats.len() <= 3, "{}", known.beats.len());
        assert_eq!(known.beats.back().map(|(_, beat)| beat.lookups), Some(999));
    }
}
