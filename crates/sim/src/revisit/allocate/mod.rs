//! Allocations that the optimal polite one is compared with, and the check of its optimality. One file each.
//!
//! [`polite()`] is the product's; [`unpolite()`] is the bound without politeness; [`uniform()`] and [`proportional()`] are
//! yardsticks, polite too. All of them answer with an [`Allocation`], so that they can be run and measured alike.

mod check;
mod proportional;
mod uniform;
mod unpolite;

pub use check::{Kkt, check};
pub use proportional::proportional;
pub use uniform::uniform;
pub use unpolite::unpolite;

use farol_frontier::revisit::allocate::{self, Error, Level, Page, Server};

/// The part of the channel that falls to the pages of one server.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Share {
    /// Each page as often as makes one more visit worth the same.
    Level(Level),
    /// Each active page equally often.
    Equal(f64),
    /// Each page so many visits per change.
    PerChange(f64),
}

impl Share {
    /// Visits per second of a page.
    pub fn frequency(&self, page: &Page) -> f64 {
        match self {
            Share::Level(level) => level.frequency(page),
            Share::Equal(each) if page.is_active() => *each,
            Share::PerChange(visits) if page.is_active() => visits * page.change.rate(),
            Share::Equal(_) | Share::PerChange(_) => 0.0,
        }
    }
}

/// Frequencies of all pages, by whatever rule.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// What one more visit per second of channel would be worth, in weighted freshness; 0 where there is too much, and
    /// for rules that have no price.
    pub price: f64,
    pub shares: Vec<Share>,
    /// Visits per second of each server.
    pub rates: Vec<f64>,
}

impl Allocation {
    /// Weighted freshness if every page were visited at equal intervals, per unit of weight: for [`polite()`] the
    /// POLITE bound.
    pub fn bound(&self, servers: &[Server<'_>], among: Among) -> f64 {
        let (mut fresh, mut weight) = (0.0, 0.0);
        for (server, share) in servers.iter().zip(&self.shares) {
            for page in server.pages.iter().filter(|page| among.counts(page)) {
                fresh += page.weight() * page.change.freshness(share.frequency(page));
                weight += page.weight();
            }
        }
        if weight > 0.0 { fresh / weight } else { 0.0 }
    }
}

/// Which pages a freshness is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Among {
    All,
    /// Those that change at all; the others are always fresh and flatter every policy.
    Changing,
}

impl Among {
    pub fn counts(self, page: &Page) -> bool {
        self == Among::All || page.change.rate() > 0.0
    }
}

/// OPT_POLITE, as the product allocates.
///
/// # Errors
///
/// See [`Error`].
pub fn polite(servers: &[Server<'_>], channel: f64) -> Result<Allocation, Error> {
    let best = allocate::polite(servers, channel)?;
    let shares = best.levels.into_iter().map(Share::Level).collect();
    Ok(Allocation { price: best.price, shares, rates: best.rates })
}

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
