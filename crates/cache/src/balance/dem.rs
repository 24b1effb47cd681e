//! DEM, dimension exchange \[Cybenko89\]: pairs of neighbours meet in the middle. GDE with λ = ½.

use super::gde::{Gde, Reach};
use super::{Balancer, Move};

/// Dimension exchange.
#[derive(Clone, Copy, Debug)]
pub struct Dem(Gde);

impl Dem {
    pub fn new(reach: Reach) -> Dem {
        Dem(Gde::with_lambda(0.5, reach))
    }
}

impl Balancer for Dem {
    fn name(&self) -> &'static str {
        "DEM"
    }

    fn moves(&mut self, loads: &[f64]) -> Vec<Move> {
        self.0.moves(loads)
    }
}
