//! Short ways: servers near to their agents on the globe, where nothing was measured.

use super::{Objective, Sense, Terms, affinities_by_distance};
use crate::{Error, Space};

/// Geodesic distances, by pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct Geography {
    pub sense: Sense,
    /// Every server counts the same, as in \[Exposto08\].
    pub per_server: bool,
}

impl Objective for Geography {
    fn name(&self) -> &'static str {
        "geo"
    }

    fn terms(&self, space: &Space) -> Result<Terms, Error> {
        space.check()?;
        let distance = |s: usize, j: usize| {
            let (there, here) = (space.servers[s].position?, space.agents[j].position?);
            Some(there.distance_km(here))
        };
        let weight = |s: usize| if self.per_server { 1.0 } else { space.servers[s].pages.max(1) as f64 };
        Ok(Terms {
            edges: Vec::new(),
            affinities: affinities_by_distance(space, self.sense, distance, weight),
        })
    }
}
