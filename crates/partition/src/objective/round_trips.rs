//! Short round trips: servers near to their agents, as measured.

use super::{Objective, Sense, Terms, affinities_by_distance};
use crate::{Error, Space};

/// Round-trip times, by pages: each page costs its server's round trip again.
#[derive(Clone, Copy, Debug, Default)]
pub struct RoundTrips {
    pub sense: Sense,
    /// Every server counts the same, however many pages it has, as in \[Exposto08\].
    pub per_server: bool,
}

impl Objective for RoundTrips {
    fn name(&self) -> &'static str {
        "rtt"
    }

    fn terms(&self, space: &Space) -> Result<Terms, Error> {
        space.check()?;
        let weight = |s: usize| if self.per_server { 1.0 } else { space.servers[s].pages.max(1) as f64 };
        let affinities = affinities_by_distance(space, self.sense, |s, j| space.rtt(s, j), weight);
        Ok(Terms { edges: Vec::new(), affinities })
    }
}
