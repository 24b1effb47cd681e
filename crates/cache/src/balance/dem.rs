//! DEM, dimension exchange (Cybenko, 1989): pairs of neighbours meet in the middle. GDE with λ = ½.

use super::gde::sweep;
use super::{Balancer, Move, from_flows};

/// Dimension exchange.
#[derive(Clone, Copy, Debug)]
pub struct Dem;

impl Balancer for Dem {
    fn name(&self) -> &'static str {
        "DEM"
    }

    fn moves(&self, loads: &[f64]) -> Vec<Move> {
        from_flows(&sweep(loads, 0.5))
    }
}
