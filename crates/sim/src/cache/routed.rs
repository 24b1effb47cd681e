//! A front and a leader as the product has them, in one thread: beats once a second, reports every ten, tables at once.

use super::strategy::timestamp;
use farol_cache::front::{FrontRouter, FrontRules};
use farol_cache::health::Failure;
use farol_cache::lead::{Leader, LeaderRules, Publish};
use farol_cache::tables::{Beat, BurstNews, FrontId};
use farol_cache::{NodeId, Ring};
use std::time::Duration;

/// The leader of the run; its seed of keys' hashes is not used: the stream has its own.
const TERM: u64 = 1;

const REPORT: Duration = Duration::from_secs(10);

/// Messages of the control traffic, and their bytes about as the product writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Control {
    pub messages: u64,
    pub bytes: u64,
}

/// Bytes of a beat; of a report with nothing in it, and of what it says of a node, of a cell of the density, and of a
/// query; of a table, of a node in the ring's, and of a hot query.
const BEAT_BYTES: u64 = 64;
const REPORT_BYTES: u64 = 48;
const TALLY_BYTES: u64 = 24;
const CELL_BYTES: u64 = 4;
const QUERY_BYTES: u64 = 40;
const TABLE_BYTES: u64 = 80;
const NODE_BYTES: u64 = 110;
const HOT_BYTES: u64 = 32;

impl Control {
    fn add(&mut self, messages: usize, bytes: u64) {
        self.messages += messages as u64;
        self.bytes += messages as u64 * bytes;
    }
}

/// A front that follows a leader.
pub struct Routed {
    front: FrontRouter<u64>,
    leader: Leader<u64>,
    /// Whether the front passes over nodes that do not answer, before anybody declares them dead.
    passes_over: bool,
    /// Control traffic so far: all of it, and what each live node sends or is sent.
    control: Control,
    by_node: Control,
}

impl Routed {
    /// These nodes beat from the start.
    pub fn new(nodes: u16, seed: u64, front: FrontRules, leader: LeaderRules, passes_over: bool) -> Routed {
        let start = timestamp(0.0);
        let mut routed = Routed {
            front: FrontRouter::new(FrontId(1), 1, front, start),
            leader: Leader::new(leader, TERM, seed, start),
            passes_over,
            control: Control::default(),
            by_node: Control::default(),
        };
        routed.tick(0.0, &vec![true; usize::from(nodes)]);
        routed.publish(0.3, usize::from(nodes));
        routed
    }

    /// The node that is asked, and whether there is anything to look up.
    pub fn route(&mut self, hash: u64, query: u64, at: f64) -> Option<(u16, bool)> {
        self.front.route(hash, &query, timestamp(at)).map(|route| (route.node.0, !route.is_new))
    }

    pub fn given_to(&self, hash: u64, node: u16, at: f64) -> Vec<u16> {
        self.front.given_to(hash, NodeId(node), timestamp(at)).into_iter().map(|node| node.0).collect()
    }

    /// A node did not answer; `true` where the front will pass it over.
    pub fn failed(&mut self, node: u16, at: f64) -> bool {
        if self.passes_over {
            self.front.failed(NodeId(node), Failure::Late, timestamp(at));
        }
        self.passes_over
    }

    /// A second has gone: who lives says so, the front reports. Answers which bursts were declared.
    pub fn tick(&mut self, at: f64, alive: &[bool]) -> Vec<BurstNews<u64>> {
        let now = timestamp(at);
        let mut live = 0;
        for (node, _) in alive.iter().enumerate().filter(|(_, alive)| **alive) {
            let beat = Beat { incarnation: 1, capacity: 1000, ..Beat::default() };
            self.leader.beat(NodeId(node as u16), &beat, now);
            live += 1;
        }
        self.control.add(live, BEAT_BYTES);
        self.by_node.add(1, BEAT_BYTES);
        // Every ten seconds as in the product, and for each decision what there is by then.
        if self.front.report_is_due(now, REPORT) || now >= self.leader.next_decision() {
            let report = self.front.report(now);
            let queries = report.minute.as_ref().map_or(0, |minute| minute.tallies.len()) as u64;
            let (nodes, cells) = (report.nodes.len() as u64, report.density.counts().count() as u64);
            let bytes = nodes * TALLY_BYTES + cells * CELL_BYTES + queries * QUERY_BYTES;
            self.control.add(1, REPORT_BYTES + bytes);
            self.leader.report(report, now);
        }
        self.publish(at, live)
    }

    /// To every live node, and to the front.
    fn publish(&mut self, at: f64, live: usize) -> Vec<BurstNews<u64>> {
        let now = timestamp(at);
        let mut news = Vec::new();
        for one in self.leader.tick(now) {
            let entries = match &one {
                Publish::Ring(doc) => doc.nodes.len() as u64 * NODE_BYTES,
                Publish::Hot(doc) => doc.hot.len() as u64 * HOT_BYTES,
                Publish::Burst(_) => 0,
            };
            self.control.add(live + 1, TABLE_BYTES + entries);
            self.by_node.add(1, TABLE_BYTES + entries);
            match one {
                Publish::Ring(doc) => drop(self.front.install_ring(&doc)),
                Publish::Hot(doc) => drop(self.front.install_hot(&doc, now)),
                Publish::Burst(one) => news.push(one),
            }
        }
        news
    }

    /// Control traffic since it was asked last: all of it, and of each live node.
    pub fn take_control(&mut self) -> (Control, Control) {
        (std::mem::take(&mut self.control), std::mem::take(&mut self.by_node))
    }

    pub fn ring(&self) -> &Ring {
        self.front.ring()
    }

    pub fn leader(&self) -> &Leader<u64> {
        &self.leader
    }
}
