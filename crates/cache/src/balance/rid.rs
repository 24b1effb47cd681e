//! RID, receiver-initiated diffusion \[Willebeek93\]: the choice of [Gomez14 §5.8.1].
//!
//! A node whose load is below the mean of its neighbourhood asks its heavier neighbours, each for a part in
//! proportion to what it has above that mean. All from one snapshot; a donor gives half of what it has at most.

use super::{Balancer, GIVEN_MAX, Move, are_loads};

/// Receiver-initiated diffusion.
#[derive(Clone, Copy, Debug)]
pub struct Rid {
    /// `L_threshold`: who is this much below its neighbourhood asks. Useful from 0.06 to 0.12 (Tables 5.4 to 5.7).
    pub threshold: f64,
}

impl Balancer for Rid {
    fn name(&self) -> &'static str {
        "RID"
    }

    fn moves(&mut self, loads: &[f64]) -> Vec<Move> {
        let mut moves = neighbourhoods(loads, self.threshold, -1.0);
        for (donor, load) in loads.iter().enumerate() {
            let asked: f64 = moves.iter().filter(|one| one.donor == donor).map(|one| one.amount).sum();
            let most = load * GIVEN_MAX;
            if asked > most {
                moves.iter_mut().filter(|one| one.donor == donor).for_each(|one| one.amount *= most / asked);
            }
        }
        moves
    }
}

/// Diffusion from one snapshot. With a sign of -1 nodes below their neighbourhood ask, with +1 those above it give.
pub(super) fn neighbourhoods(loads: &[f64], threshold: f64, sign: f64) -> Vec<Move> {
    let mut moves = Vec::new();
    if !are_loads(loads) || threshold.is_nan() {
        return moves;
    }
    let len = loads.len();
    for i in 0..len {
        let (before, after) = ((i + len - 1) % len, (i + 1) % len);
        let others: &[usize] = if before == after { &[after] } else { &[before, after] };
        let mean = (loads[i] + others.iter().map(|k| loads[*k]).sum::<f64>()) / (others.len() + 1) as f64;
        let gap = sign * (loads[i] - mean);
        if gap <= threshold {
            continue;
        }
        let share = |k: usize| (sign * (mean - loads[k])).max(0.0);
        let all: f64 = others.iter().map(|k| share(*k)).sum();
        if all <= 0.0 {
            continue;
        }
        for k in others.iter().copied().filter(|k| share(*k) > 0.0) {
            let amount = gap * share(k) / all;
            moves.push(match sign < 0.0 {
                true => Move { receiver: i, donor: k, amount },
                false => Move { receiver: k, donor: i, amount },
            });
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::moved;

    #[test]
    fn one_call_gives_the_check_vector() {
        // Part 1, §4.9.
        let loads = [0.90, 0.50, 0.60, 0.40];
        let moves = Rid { threshold: 0.05 }.moves(&loads);
        let told: Vec<(usize, usize, f64)> =
            moves.iter().map(|one| (one.receiver, one.donor, (one.amount * 1e4).round() / 1e4)).collect();
        assert_eq!(told, [(1, 0, 0.1667), (3, 0, 0.2333)]);
        let after: Vec<f64> = moved(&loads, &moves).iter().map(|load| (load * 1e4).round() / 1e4).collect();
        assert_eq!(after, [0.5, 0.6667, 0.6, 0.6333]);
        let mut loads = loads.to_vec();
        for _ in 0..4 {
            loads = moved(&loads, &Rid { threshold: 0.01 }.moves(&loads));
        }
        assert!(loads.iter().all(|load| (load - 0.6).abs() < 0.01), "{loads:?}");
    }

    #[test]
    fn nobody_gives_more_than_half() {
        let loads = [0.0, 1.0, 0.0, 0.0, 0.0];
        let after = moved(&loads, &Rid { threshold: 0.0 }.moves(&loads));
        assert!(after[1] >= 0.5 - 1e-12 && after.iter().all(|load| *load >= 0.0));
    }
}
