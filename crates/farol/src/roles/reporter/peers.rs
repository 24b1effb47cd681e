//! Round-trip times to other agents: how long a connection to where they take calls takes.

use crate::handles::cluster::ClusterView;
use farol_base::{Clock, SystemClock};
use farol_cluster::{NodeNo, NodeState, Role};
use farol_partition::replan::RttMedian;
use farol_partition::rtt::{Samples, median};
use std::collections::BTreeMap;
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Agents that are measured in one turn; the others follow in the next ones.
const TURN_MAX: usize = 32;
/// Connections to each in one turn.
const PROBES: usize = 3;
const WAIT_MAX: Duration = Duration::from_secs(2);

/// What was measured.
#[derive(Debug, Default)]
pub struct Peers {
    samples: BTreeMap<NodeNo, Samples>,
    last: Option<NodeNo>,
}

impl Peers {
    /// Measures some of the agents that there are.
    pub fn measure(&mut self, view: &ClusterView) {
        let is_agent = |node: &&farol_cluster::NodeRecord| {
            node.state == NodeState::Up && node.roles.contains(&Role::Crawl) && node.id != view.me
        };
        let agents: BTreeMap<NodeNo, _> =
            view.nodes.values().filter(is_agent).filter_map(|node| Some((node.no?, node.rpc))).collect();
        self.samples.retain(|no, _| agents.contains_key(no));
        let after = self.last.take().filter(|last| agents.keys().any(|no| no > last));
        let turn = agents.iter().filter(|(no, _)| after.is_none_or(|last| **no > last)).take(TURN_MAX);
        for (no, address) in turn {
            for _ in 0..PROBES {
                let begun = Instant::now();
                if TcpStream::connect_timeout(address, WAIT_MAX).is_ok() {
                    self.samples.entry(*no).or_default().add(SystemClock.now(), begun.elapsed());
                }
            }
            self.last = Some(*no);
        }
    }

    /// Medians, by the numbers of nodes.
    pub fn medians(&self) -> Vec<(String, RttMedian)> {
        let told = |(no, samples): (&NodeNo, &Samples)| {
            let micros: Vec<f64> = samples.iter().map(|(_, micros)| f64::from(micros)).collect();
            let samples = u16::try_from(micros.len()).unwrap_or(u16::MAX);
            Some((no.to_string(), RttMedian { micros: median(&micros)? as u32, samples }))
        };
        self.samples.iter().filter_map(told).collect()
    }
}
