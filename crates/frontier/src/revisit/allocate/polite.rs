//! OPT_POLITE: the frequencies with the greatest freshness under the channel and under each server's delay.
//!
//! Water-filling [Souza10 ch. 4]. Each server has a level of its own at which it would be asked as often as it
//! bears. The channel has a price. A server whose own level is above the price is *saturated* and keeps its level; all
//! others sell at the price. The price is where the sum fits the channel.
//!
//! A sample of the pages says where the price is about; then it takes about five passes over all pages to find it, and
//! five over those of saturated servers for their levels. Nothing is stored per page.

use super::level::{self, Demand, SAMPLE, Search};
use super::{Allocation, Error, Level, Server, level_for, useful, validate};

/// Allocates `channel` visits per second.
///
/// More channel than all servers together bear is left unused. Pages that never change, always change or have no
/// weight get nothing.
///
/// # Errors
///
/// A channel, delay or weight that is not one; see [`Error`].
pub fn polite(servers: &[Server<'_>], channel: f64) -> Result<Allocation, Error> {
    validate(servers, channel)?;
    let active: Vec<bool> = servers.iter().map(|server| useful(server.pages)).collect();
    let cap = |s: usize| 1.0 / servers[s].delay;
    let bearable: f64 = (0..servers.len()).filter(|s| active[*s]).map(cap).sum();
    let (price, visits) = match channel {
        0.0 => (Level::exactly(f64::INFINITY), vec![0.0; servers.len()]),
        channel if channel >= bearable => (Level::exactly(0.0), vec![f64::INFINITY; servers.len()]),
        channel => price(servers, &active, channel),
    };
    let mut allocation = Allocation { price: price.low, levels: Vec::new(), rates: Vec::new() };
    for (s, server) in servers.iter().enumerate() {
        if !active[s] {
            allocation.levels.push(Level::exactly(f64::INFINITY));
            allocation.rates.push(0.0);
            continue;
        }
        let (mut level, mut rate) = (price, visits[s]);
        // Beyond what it bears by more than rounding.
        if rate > cap(s) * (1.0 + 1e-10) {
            (level, rate) = (level_for(server.pages, cap(s)), cap(s));
        }
        allocation.levels.push(level);
        allocation.rates.push(rate);
    }
    Ok(allocation)
}

/// The price of the channel, and what each server asks for at it, or more than it bears.
fn price(servers: &[Server<'_>], active: &[bool], channel: f64) -> (Level, Vec<f64>) {
    // Once a server has been seen to ask for more than it bears, it does so at every lower price.
    let mut saturated_below = vec![0.0f64; servers.len()];
    let (mut seen, mut seen_at) = (vec![0.0f64; servers.len()], f64::NAN);
    let mut demand = |level: f64, sampled: bool| {
        let mut sum = Demand::default();
        seen_at = if sampled { f64::NAN } else { level };
        for (s, server) in servers.iter().enumerate().filter(|(s, _)| active[*s]) {
            let cap = 1.0 / server.delay;
            if saturated_below[s] >= level {
                sum.visits += cap;
                seen[s] = f64::INFINITY;
                continue;
            }
            let step = if sampled { server.pages.len() / (SAMPLE / 8) + 1 } else { 1 };
            let wanted = Demand::of(server.pages, level, step);
            seen[s] = wanted.visits;
            if wanted.visits < cap {
                sum.add(wanted);
                continue;
            }
            sum.visits += cap;
            if step == 1 {
                saturated_below[s] = level;
            }
        }
        sum
    };
    let upper = level::upper(servers.iter().flat_map(|server| server.pages), channel);
    let rough = Search { start: upper, upper, tolerance: 1e-3 };
    let near = level::solve(rough, channel, |level| demand(level, true));
    let price = level::solve(rough.again(near), channel, |level| demand(level, false));
    if seen_at != price.low || price != Level::exactly(price.low) {
        let asked = |server: &Server<'_>| server.pages.iter().map(|page| price.frequency(page)).sum();
        seen = servers.iter().map(asked).collect();
    }
    (price, seen)
}
