//! GDE, generalised dimension exchange (\[Xu95\]; [Gomez14 §5.4, §5.5]): one neighbour at a time, and the next
//! exchange uses the new loads. A sweep takes each border once; borders that do not touch share a colour. A call may
//! also take one colour or one pair only, in turn ([`Reach`]).

use super::{Balancer, Move, are_loads, from_flows};
use std::f64::consts::PI;

/// The best λ for a ring of so many nodes: `1 / (1 + sin(π/m))` with `m` half of them, ½ for fewer than six.
pub fn lambda_best(nodes: usize) -> f64 {
    if nodes < 6 { 0.5 } else { 1.0 / (1.0 + (PI / (nodes as f64 / 2.0)).sin()) }
}

/// How far one call of a dimension exchange goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Each border once.
    Sweep,
    /// Borders of one colour, then of the next: every node meets one neighbour.
    Colour,
    /// One border, then the next.
    Pair,
}

/// Generalised dimension exchange.
#[derive(Clone, Copy, Debug)]
pub struct Gde {
    /// What is exchanged, from 0 to 1; `None` takes the best for the number of nodes.
    lambda: Option<f64>,
    reach: Reach,
    /// Calls so far.
    turn: usize,
}

impl Gde {
    /// With the best λ for the number of nodes.
    pub fn new(reach: Reach) -> Gde {
        Gde { lambda: None, reach, turn: 0 }
    }

    /// With a given λ, from 0 to 1.
    pub fn with_lambda(lambda: f64, reach: Reach) -> Gde {
        Gde { lambda: Some(lambda), reach, turn: 0 }
    }
}

impl Balancer for Gde {
    fn name(&self) -> &'static str {
        "GDE"
    }

    fn moves(&mut self, loads: &[f64]) -> Vec<Move> {
        let lambda = self.lambda.unwrap_or_else(|| lambda_best(loads.len()));
        if !are_loads(loads) || !(0.0..=1.0).contains(&lambda) {
            return Vec::new();
        }
        let turn = self.turn;
        self.turn = turn.wrapping_add(1);
        let colours = colours(loads.len());
        let all = colours.concat();
        let borders = match self.reach {
            Reach::Sweep => &all[..],
            Reach::Colour => &colours[turn % colours.len()],
            Reach::Pair => &all[turn % all.len()..][..1],
        };
        exchange(loads, lambda, borders)
    }
}

/// Borders by colour, each named by the node before it: two colours, and a third for the last border of an odd ring. Two
/// nodes have one border only.
fn colours(nodes: usize) -> Vec<Vec<usize>> {
    let borders = if nodes == 2 { 1 } else { nodes };
    let last_odd = usize::from(borders % 2 == 1 && borders > 1);
    let even = (0..borders - last_odd).step_by(2).collect();
    let odd = (1..borders - last_odd).step_by(2).collect();
    let mut colours: Vec<Vec<usize>> = vec![even, odd, (borders - last_odd..borders).collect()];
    colours.retain(|borders| !borders.is_empty());
    colours
}

/// Exchanges over these borders, one after the other.
fn exchange(loads: &[f64], lambda: f64, borders: &[usize]) -> Vec<Move> {
    let len = loads.len();
    let mut loads = loads.to_vec();
    let mut flows = vec![0.0; len];
    for i in borders.iter().copied() {
        let j = (i + 1) % len;
        let flow = lambda * (loads[i] - loads[j]);
        loads[i] -= flow;
        loads[j] += flow;
        flows[i] += flow;
    }
    from_flows(&flows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::moved;
    use farol_base::random::{Random, Seeded};

    #[test]
    fn lambdas_are_those_of_the_thesis() {
        for (nodes, want) in [(20, 0.76393), (30, 0.82788), (80, 0.92725)] {
            assert!((lambda_best(nodes) - want).abs() < 1e-5, "{nodes}: {}", lambda_best(nodes));
        }
    }

    #[test]
    fn pairs_and_colours_in_turn_make_a_sweep() {
        let mut random = Seeded::new(6);
        for nodes in [2usize, 3, 5, 20] {
            let start: Vec<f64> = (0..nodes).map(|_| random.unit()).collect();
            let after = |reach: Reach, calls: usize| {
                let mut gde = Gde::new(reach);
                (0..calls).fold(start.clone(), |loads, _| {
                    let moves = gde.moves(&loads);
                    assert!(reach != Reach::Pair || moves.len() <= 1, "{nodes} nodes: {moves:?}");
                    moved(&loads, &moves)
                })
            };
            let (borders, colours) = (if nodes == 2 { 1 } else { nodes }, colours(nodes).len());
            let sweep = after(Reach::Sweep, 1);
            for other in [after(Reach::Pair, borders), after(Reach::Colour, colours)] {
                let same = sweep.iter().zip(&other).all(|(one, two)| (one - two).abs() < 1e-12);
                assert!(same, "{nodes} nodes: {sweep:?} {other:?}");
            }
            // And so on: the turn goes around.
            let (two, other) = (after(Reach::Sweep, 2), after(Reach::Pair, 2 * borders));
            assert!(two.iter().zip(&other).all(|(one, two)| (one - two).abs() < 1e-12));
        }
    }

    #[test]
    fn it_converges_for_lambda_between_0_and_1_only() {
        // Theorem 3.1 of [Xu95].
        let mut random = Seeded::new(5);
        for nodes in [4usize, 5, 7, 20, 31, 80] {
            let start: Vec<f64> = (0..nodes).map(|_| random.unit()).collect();
            let mean = start.iter().sum::<f64>() / nodes as f64;
            let run = |lambda: f64, calls: usize| {
                let mut gde = Gde::with_lambda(lambda, Reach::Sweep);
                (0..calls).fold(start.clone(), |loads, _| {
                    let after = moved(&loads, &gde.moves(&loads));
                    assert!(
                        (after.iter().sum::<f64>() - mean * nodes as f64).abs() < 1e-9,
                        "load is conserved"
                    );
                    after
                })
            };
            let far = |loads: &[f64]| loads.iter().map(|load| (load - mean).abs()).fold(0.0, f64::max);
            for lambda in [0.1, 0.5, lambda_best(nodes), 0.95] {
                assert!(far(&run(lambda, 20_000)) < 1e-6, "{nodes} nodes, λ {lambda}");
            }
            for lambda in [0.0, 1.0] {
                assert!(far(&run(lambda, 2_000)) > 0.1, "{nodes} nodes, λ {lambda}");
            }
            // The best λ is ahead of the plain mean.
            if nodes >= 20 {
                assert!(far(&run(lambda_best(nodes), 40)) < far(&run(0.5, 40)));
            }
        }
    }
}
