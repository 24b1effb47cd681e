//! Rebalancing (B in [Gomez14 ch. 5]): borders between neighbours move until all nodes carry about the same. The
//! leader of a service decides it, once for all fronts ([`crate::lead`]).
//!
//! A [`Balancer`] looks at the loads, clockwise, and says which node should take how much from which neighbour; one
//! file each. [`Controller`] is Algorithm 3: it runs the balancer when efficiency is too low and turns load into
//! pieces of the circle. Loads are *offered* requests over capacity, not cut at 1: a balancer that cannot see how
//! much too much a node has cannot mend it.
//!
//! INVARIANT: moves are between neighbours on the ring; the sum of all loads stays.

mod dem;
mod density;
mod direct;
mod gde;
mod gradient;
mod of_mean;
mod rid;
mod sid;
mod spread;

pub use dem::Dem;
pub use density::{Density, DensityDelta};
pub use direct::Direct;
pub use gde::{Gde, Reach, lambda_best};
pub use gradient::Gradient;
pub use of_mean::OfMean;
pub use rid::Rid;
pub use sid::Sid;
pub use spread::Spread;

use crate::ring::Ring;

/// Most that one donor gives away in one go, where the density of its range is only assumed.
const GIVEN_MAX: f64 = 0.5;

/// The receiver's range grows until the donor has lost this much load. Places are clockwise on the ring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Move {
    pub receiver: usize,
    pub donor: usize,
    pub amount: f64,
}

/// Decides what to move.
pub trait Balancer: Send {
    fn name(&self) -> &'static str;
    /// The moves for these loads, by place on the ring. Fewer than two nodes, or loads that are no numbers, give none.
    /// Loads of earlier calls do not matter; who takes borders in turn remembers whose turn it is.
    fn moves(&mut self, loads: &[f64]) -> Vec<Move>;
}

/// Names that [`by_name`] knows.
pub const NAMES: [&str; 7] = ["spread", "rid", "sid", "gm", "dm", "dem", "gde"];

/// A balancer by its name, with the settings that the thesis recommends; thresholds are parts of the mean load.
pub fn by_name(name: &str) -> Option<Box<dyn Balancer>> {
    let threshold = 0.08;
    Some(match name {
        "spread" => Box::new(Spread { slack: 0.05 }),
        "rid" => Box::new(OfMean(Box::new(Rid { threshold }))),
        "sid" => Box::new(OfMean(Box::new(Sid { threshold }))),
        "gm" => Box::new(Gradient { light_below: 0.85, heavy_above: 1.15, portion: 0.5 }),
        "dm" => Box::new(Direct),
        "dem" => Box::new(Dem::new(Reach::Sweep)),
        "gde" => Box::new(Gde::new(Reach::Sweep)),
        _ => return None,
    })
}

/// Mean load over greatest load: 1 is perfect. 1 where nobody has any.
pub fn efficiency(loads: &[f64]) -> f64 {
    let most = loads.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 || loads.is_empty() { 1.0 } else { loads.iter().sum::<f64>() / loads.len() as f64 / most }
}

/// Loads after moves.
pub fn moved(loads: &[f64], moves: &[Move]) -> Vec<f64> {
    let mut loads = loads.to_vec();
    for one in moves {
        loads[one.receiver] += one.amount;
        loads[one.donor] -= one.amount;
    }
    loads
}

/// A load beyond this is a mistake, and products of two must stay numbers.
const LOAD_MAX: f64 = 1e15;

/// Whether these loads can be balanced at all.
fn are_loads(loads: &[f64]) -> bool {
    loads.len() > 1 && loads.iter().all(|load| (0.0..=LOAD_MAX).contains(load))
}

/// Moves from flows: `flows[i]` goes from place `i` to the next one clockwise, backwards where negative.
fn from_flows(flows: &[f64]) -> Vec<Move> {
    let next = |i: usize| (i + 1) % flows.len();
    flows
        .iter()
        .enumerate()
        .filter(|(_, flow)| flow.abs() > 1e-12)
        .map(|(i, flow)| match *flow > 0.0 {
            true => Move { receiver: next(i), donor: i, amount: *flow },
            false => Move { receiver: i, donor: next(i), amount: -*flow },
        })
        .collect()
}

/// What a controller looks at, by place on the ring.
#[derive(Clone, Copy)]
pub struct Loads<'a> {
    /// Everything that a node is asked.
    pub total: &'a [f64],
    /// What it is asked because of its range; only this moves with a border.
    pub owned: &'a [f64],
    /// Where on the circle the owned load lies, if that was measured.
    pub density: Option<&'a Density>,
}

/// Whose range `α` per cent of a donor's load are taken to be, where density is not measured. [Gomez14 §5.3]
/// says the receiver's (its "source" grows by α %); the donor's is where the load lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RangeOf {
    #[default]
    Donor,
    Receiver,
}

/// Algorithm 3.
pub struct Controller {
    pub balancer: Box<dyn Balancer>,
    /// `T_load`: below this efficiency borders move.
    pub efficiency_min: f64,
    pub range: RangeOf,
}

impl Controller {
    /// Moves borders if it must; answers how much of the circle changed owner.
    pub fn run(&mut self, ring: &mut Ring, loads: &Loads<'_>) -> f64 {
        if loads.total.len() != ring.len() || loads.owned.len() != ring.len() {
            return 0.0;
        }
        if efficiency(loads.total) >= self.efficiency_min {
            return 0.0;
        }
        let moves = self.balancer.moves(loads.total);
        let shifts = match loads.density {
            Some(density) => measured(ring, &moves, density),
            None => assumed(ring, &moves, loads.owned, self.range),
        };
        ring.shift(&shifts)
    }
}

/// Shifts of end points where load is taken to be spread evenly over a range [Gomez14 §5.3, §5.9].
fn assumed(ring: &Ring, moves: &[Move], owned: &[f64], range: RangeOf) -> Vec<f64> {
    let len = ring.len();
    let mut shifts = vec![0.0; len];
    for one in moves {
        let load = owned[one.donor];
        if load <= 0.0 {
            continue;
        }
        let place = if range == RangeOf::Donor { one.donor } else { one.receiver };
        let arc = ring.width(place) * (one.amount / load).min(GIVEN_MAX);
        if (one.receiver + 1) % len == one.donor {
            shifts[one.receiver] += arc;
        } else {
            shifts[one.donor] -= arc;
        }
    }
    shifts
}

/// Shifts of end points where the load along the circle is known.
fn measured(ring: &Ring, moves: &[Move], density: &Density) -> Vec<f64> {
    let len = ring.len();
    // What passes each end point, forward (to the next node) positive.
    let mut flows = vec![0.0; len];
    for one in moves {
        if (one.receiver + 1) % len == one.donor {
            flows[one.receiver] -= one.amount;
        } else {
            flows[one.donor] += one.amount;
        }
    }
    // Load that goes to the next node is a border that goes back.
    flows.iter().zip(ring.ends()).map(|(flow, (end, _))| density.shift(*end, -flow)).collect()
}

#[cfg(test)]
mod tests;
