//! SID, sender-initiated diffusion \[Willebeek93\]: who has more than its neighbourhood gives.

use super::rid::neighbourhoods;
use super::{Balancer, Move};

/// Sender-initiated diffusion.
#[derive(Clone, Copy, Debug)]
pub struct Sid {
    /// Who is this much above its neighbourhood gives.
    pub threshold: f64,
}

impl Balancer for Sid {
    fn name(&self) -> &'static str {
        "SID"
    }

    fn moves(&mut self, loads: &[f64]) -> Vec<Move> {
        neighbourhoods(loads, self.threshold, 1.0)
    }
}
