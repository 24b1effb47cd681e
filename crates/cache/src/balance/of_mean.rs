//! Thresholds as parts of the mean load, for where nobody knows what a node bears: \[Gomez14\] has them in points of a
//! node's capacity.

use super::{Balancer, Move};

/// A balancer whose loads are parts of their mean.
pub struct OfMean(pub Box<dyn Balancer>);

impl Balancer for OfMean {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn moves(&mut self, loads: &[f64]) -> Vec<Move> {
        let mean = loads.iter().sum::<f64>() / loads.len().max(1) as f64;
        if mean <= 0.0 || !mean.is_finite() {
            return Vec::new();
        }
        let parts: Vec<f64> = loads.iter().map(|load| load / mean).collect();
        let mut moves = self.0.moves(&parts);
        moves.iter_mut().for_each(|one| one.amount *= mean);
        moves
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::{Rid, moved};

    #[test]
    fn what_is_moved_grows_with_the_loads_and_who_moves_does_not() {
        let loads = [300.0, 100.0, 110.0, 90.0];
        let mut rid = OfMean(Box::new(Rid { threshold: 0.08 }));
        let (small, large) = (rid.moves(&loads), rid.moves(&loads.map(|load| load * 1e3)));
        assert!(!small.is_empty() && small.len() == large.len());
        for (one, other) in small.iter().zip(&large) {
            assert_eq!((one.receiver, one.donor), (other.receiver, other.donor));
            assert!((one.amount * 1e3 - other.amount).abs() < 1e-6);
        }
        assert!(moved(&loads, &small)[0] < 300.0);
        // By points of load the same threshold would be nothing, and everybody would ask for chance's sake.
        assert!(rid.moves(&[1000.0, 1010.0, 990.0, 1005.0]).is_empty());
        assert!(rid.moves(&[0.0; 4]).is_empty());
    }
}
