//! GM, the gradient model \[Lin87\]: load flows downhill to the nearest lightly loaded node.
//!
//! A node's height is its distance to the nearest light node. Heavy nodes send a part of their excess to the neighbour
//! that is lower. Without a light node nothing happens: light nodes start it.

use super::{Balancer, Move, are_loads};

/// Gradient model. Marks are shares of the mean load.
#[derive(Clone, Copy, Debug)]
pub struct Gradient {
    pub light_below: f64,
    pub heavy_above: f64,
    /// Part of the excess that is sent in one go.
    pub portion: f64,
}

impl Default for Gradient {
    fn default() -> Gradient {
        Gradient { light_below: 0.95, heavy_above: 1.05, portion: 0.5 }
    }
}

impl Balancer for Gradient {
    fn name(&self) -> &'static str {
        "GM"
    }

    fn moves(&mut self, loads: &[f64]) -> Vec<Move> {
        let mut moves = Vec::new();
        if !are_loads(loads) {
            return moves;
        }
        let len = loads.len();
        let mean = loads.iter().sum::<f64>() / len as f64;
        let mut height: Vec<usize> =
            loads.iter().map(|load| if *load < self.light_below * mean { 0 } else { len }).collect();
        if height.iter().all(|height| *height > 0) {
            return moves;
        }
        // Twice around in each direction: distances are final then.
        for i in (0..2 * len).chain((0..2 * len).rev()) {
            let (before, at, after) = ((i + len - 1) % len, i % len, (i + 1) % len);
            height[at] = height[at].min(height[before].min(height[after]) + 1);
        }
        for i in (0..len).filter(|i| loads[*i] > self.heavy_above * mean) {
            let (before, after) = ((i + len - 1) % len, (i + 1) % len);
            let to = if height[before] < height[after] { before } else { after };
            moves.push(Move { receiver: to, donor: i, amount: self.portion * (loads[i] - mean) });
        }
        moves
    }
}
