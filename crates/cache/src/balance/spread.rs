//! SPREAD, ours: no node above a little more than the mean, with the least load carried, in one go.
//!
//! Diffusion looks at three nodes at a time: it cannot see a slope, stops short of the mean, and takes tens of rounds
//! after several failures. The direct method sees everything, but levels what needs no levelling, and every
//! move costs misses. Between them: the excess of nodes above `(1 + slack) · mean` goes to the nearest room below that
//! mark. It is a minimum-cost flow on a ring, found by cheapest paths that may undo earlier flow.

use super::{Balancer, Move, are_loads, from_flows};

/// Levels what stands out.
#[derive(Clone, Copy, Debug)]
pub struct Spread {
    /// How far above the mean a node may stay.
    pub slack: f64,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread { slack: 0.02 }
    }
}

impl Balancer for Spread {
    fn name(&self) -> &'static str {
        "SPREAD"
    }

    fn moves(&mut self, loads: &[f64]) -> Vec<Move> {
        if !are_loads(loads) {
            return Vec::new();
        }
        let len = loads.len();
        let mean = loads.iter().sum::<f64>() / len as f64;
        let most = mean * (1.0 + self.slack.max(0.0));
        let mut loads = loads.to_vec();
        let mut flows = vec![0.0; len];
        let small = mean * 1e-9;
        // Each path empties a node's excess, fills a room or undoes a flow: a few per node are enough.
        for _ in 0..8 * len {
            let Some(from) =
                (0..len).filter(|i| loads[*i] > most + small).max_by(|a, b| loads[*a].total_cmp(&loads[*b]))
            else {
                break;
            };
            let Some(path) = cheapest(&flows, from, |i| loads[i] < most - small) else { break };
            let to = path.to;
            let amount = path.room.min(loads[from] - most).min(most - loads[to]);
            for (border, sign) in path.steps {
                flows[border] += sign * amount;
                if flows[border].abs() < small {
                    flows[border] = 0.0;
                }
            }
            loads[from] -= amount;
            loads[to] += amount;
        }
        from_flows(&flows)
    }
}

struct Path {
    to: usize,
    /// Borders with the direction in which they are crossed.
    steps: Vec<(usize, f64)>,
    /// What can go this way before a flow that is undone is used up.
    room: f64,
}

/// The cheapest way from a node to any that fits: 1 per border, -1 where it undoes a flow (Bellman and Ford).
fn cheapest(flows: &[f64], from: usize, fits: impl Fn(usize) -> bool) -> Option<Path> {
    let len = flows.len();
    let cost = |border: usize, sign: f64| if flows[border] * sign < 0.0 { -1 } else { 1 };
    let mut costs = vec![i64::MAX; len];
    let mut came: Vec<Option<(usize, usize, f64)>> = vec![None; len];
    costs[from] = 0;
    for _ in 0..len {
        let mut changed = false;
        for at in 0..len {
            if costs[at] == i64::MAX {
                continue;
            }
            for (to, border, sign) in
                [((at + 1) % len, at, 1.0), ((at + len - 1) % len, (at + len - 1) % len, -1.0)]
            {
                let new = costs[at] + cost(border, sign);
                if new < costs[to] && to != from {
                    (costs[to], came[to], changed) = (new, Some((at, border, sign)), true);
                }
            }
        }
        if !changed {
            break;
        }
    }
    let to = (0..len).filter(|i| *i != from && costs[*i] < i64::MAX && fits(*i)).min_by_key(|i| costs[*i])?;
    let (mut steps, mut room, mut at) = (Vec::new(), f64::INFINITY, to);
    while at != from {
        let (before, border, sign) = came[at]?;
        if flows[border] * sign < 0.0 {
            room = room.min(flows[border].abs());
        }
        steps.push((border, sign));
        at = before;
        if steps.len() > len {
            return None;
        }
    }
    Some(Path { to, steps, room })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::{Direct, moved};
    use proptest::prelude::*;

    fn carried(moves: &[Move]) -> f64 {
        moves.iter().map(|one| one.amount).sum()
    }

    #[test]
    fn a_slope_that_diffusion_cannot_see_is_levelled() {
        let loads: Vec<f64> = (0..20).map(|i| 0.5 + 0.02 * (10 - (i - 10i32).abs()) as f64).collect();
        assert!(crate::balance::Rid { threshold: 0.06 }.moves(&loads).is_empty());
        let after = moved(&loads, &Spread::default().moves(&loads));
        assert!(crate::balance::efficiency(&after) > 0.98, "{after:?}");
    }

    proptest! {
        #[test]
        fn nothing_stays_above_the_mark_and_less_is_carried_than_by_the_direct_method(
            loads in proptest::collection::vec(0.0f64..3.0, 2..40)
        ) {
            let moves = Spread { slack: 0.05 }.moves(&loads);
            let after = moved(&loads, &moves);
            let mean = loads.iter().sum::<f64>() / loads.len() as f64;
            prop_assert!(after.iter().all(|load| *load <= mean * 1.05 + 1e-6), "{after:?}");
            prop_assert!((after.iter().sum::<f64>() - loads.iter().sum::<f64>()).abs() < 1e-6);
            prop_assert!(carried(&moves) <= carried(&Direct.moves(&loads)) + 1e-6);
        }
    }
}
