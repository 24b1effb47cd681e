//! DM, the direct method for rings (DDE, \[Wu97\]): everything in one go, with the least load carried.
//!
//! With `S_i` the sum of surpluses up to node `i`, the flow over its border is `S_i - median(S)`: no other flow that
//! ends at the mean carries less in all. It moves much of the ring at once, which costs hits [Gomez14 Tables 5.2, 5.3].

use super::{Balancer, Move, are_loads, from_flows};

/// The direct method.
#[derive(Clone, Copy, Debug)]
pub struct Direct;

impl Balancer for Direct {
    fn name(&self) -> &'static str {
        "DM"
    }

    fn moves(&mut self, loads: &[f64]) -> Vec<Move> {
        if !are_loads(loads) {
            return Vec::new();
        }
        let mean = loads.iter().sum::<f64>() / loads.len() as f64;
        let mut sum = 0.0;
        let sums: Vec<f64> = loads
            .iter()
            .map(|load| {
                sum += load - mean;
                sum
            })
            .collect();
        let mut sorted = sums.clone();
        sorted.sort_by(f64::total_cmp);
        let median = sorted[(sorted.len() - 1) / 2];
        from_flows(&sums.iter().map(|sum| sum - median).collect::<Vec<_>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_those_of_the_check_vector() {
        // Part 1, §4.9: flows (0.1, 0, 0, -0.2), 0.3 moved in all.
        let moves = Direct.moves(&[0.90, 0.50, 0.60, 0.40]);
        let told: Vec<(usize, usize, f64)> =
            moves.iter().map(|one| (one.receiver, one.donor, (one.amount * 1e6).round() / 1e6)).collect();
        assert_eq!(told, [(1, 0, 0.1), (3, 0, 0.2)]);
    }
}
