//! The host graph, small enough for memory: 12 bytes per pair of hosts that are linked.

use super::power::Graph;
use crate::error::Error;

pub(crate) struct HostGraph {
    nodes: usize,
    /// From, to, number of links; sorted.
    pairs: Vec<(u32, u32, u32)>,
}

impl HostGraph {
    /// Takes pairs in order, no host with itself, all below `nodes`.
    pub(crate) fn new(nodes: usize, pairs: Vec<(u32, u32, u32)>) -> HostGraph {
        HostGraph { nodes, pairs }
    }
}

/// Ten times as many links do not make a host ten times as important to another.
pub(crate) fn weight(links: u32) -> f64 {
    f64::from(links).ln_1p()
}

impl Graph for HostGraph {
    fn nodes(&self) -> usize {
        self.nodes
    }

    fn spread(&mut self, rank: &[f32], next: &mut [f64]) -> Result<f64, Error> {
        let mut linked = 0.0;
        for row in self.pairs.chunk_by(|a, b| a.0 == b.0) {
            let has = f64::from(rank[row[0].0 as usize]);
            linked += has;
            let share = has / row.iter().map(|(_, _, links)| weight(*links)).sum::<f64>();
            for (_, to, links) in row {
                next[*to as usize] += share * weight(*links);
            }
        }
        Ok(linked)
    }
}
