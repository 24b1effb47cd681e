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

/// A front that follows a leader.
pub struct Routed {
    front: FrontRouter<u64>,
    leader: Leader<u64>,
    /// Whether the front passes over nodes that do not answer, before anybody declares them dead.
    passes_over: bool,
}

impl Routed {
    /// These nodes beat from the start.
    pub fn new(nodes: u16, seed: u64, front: FrontRules, leader: LeaderRules, passes_over: bool) -> Routed {
        let start = timestamp(0.0);
        let mut routed = Routed {
            front: FrontRouter::new(FrontId(1), 1, front, start),
            leader: Leader::new(leader, TERM, seed, start),
            passes_over,
        };
        routed.tick(0.0, &vec![true; usize::from(nodes)]);
        routed.publish(0.3);
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
        for (node, _) in alive.iter().enumerate().filter(|(_, alive)| **alive) {
            let beat = Beat { incarnation: 1, capacity: 1000, ..Beat::default() };
            self.leader.beat(NodeId(node as u16), &beat, now);
        }
        // Every ten seconds as in the product, and for each decision what there is by then.
        if self.front.report_is_due(now, REPORT) || now >= self.leader.next_decision() {
            let report = self.front.report(now);
            self.leader.report(report, now);
        }
        self.publish(at)
    }

    fn publish(&mut self, at: f64) -> Vec<BurstNews<u64>> {
        let now = timestamp(at);
        let mut news = Vec::new();
        for one in self.leader.tick(now) {
            match one {
                Publish::Ring(doc) => drop(self.front.install_ring(&doc)),
                Publish::Hot(doc) => drop(self.front.install_hot(&doc, now)),
                Publish::Burst(one) => news.push(one),
            }
        }
        news
    }

    pub fn ring(&self) -> &Ring {
        self.front.ring()
    }

    pub fn leader(&self) -> &Leader<u64> {
        &self.leader
    }
}
