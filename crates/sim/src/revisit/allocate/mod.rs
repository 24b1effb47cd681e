//! Allocations that the optimal polite one is compared with, and the check of its optimality. One file each.
//!
//! [`unpolite()`] is the bound without politeness; [`uniform()`] and [`proportional()`] are yardsticks, polite too.

mod check;
mod proportional;
mod uniform;
mod unpolite;

pub use check::{Kkt, check};
pub use proportional::proportional;
pub use uniform::uniform;
pub use unpolite::unpolite;

use farol_frontier::revisit::allocate::Server;

/// Fills a channel in fixed proportions: the greatest k with `Σ min(cap_s, k·share_s) ≤ channel`, for each server as
/// its own k. Servers whose cap binds get less.
fn fill(servers: &[Server<'_>], wants: &[f64], channel: f64) -> Vec<f64> {
    let cap = |s: usize| 1.0 / servers[s].delay / wants[s];
    let mut order: Vec<usize> = (0..servers.len()).filter(|s| wants[*s] > 0.0).collect();
    order.sort_by(|a, b| cap(*a).total_cmp(&cap(*b)));
    let mut left = channel;
    let mut want: f64 = order.iter().map(|s| wants[*s]).sum();
    let mut scale = vec![0.0; servers.len()];
    for (at, s) in order.iter().enumerate() {
        let k = left / want;
        if k <= cap(*s) {
            order[at..].iter().for_each(|s| scale[*s] = k);
            break;
        }
        scale[*s] = cap(*s);
        left = (left - 1.0 / servers[*s].delay).max(0.0);
        want = (want - wants[*s]).max(f64::MIN_POSITIVE);
    }
    scale
}

#[cfg(test)]
mod tests;
