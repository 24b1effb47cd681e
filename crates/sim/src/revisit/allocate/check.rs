//! Checks that an allocation is the best one: the conditions of Karush, Kuhn and Tucker.
//!
//! The problem is concave, so an allocation that meets them is optimal, however it was found. All residues are
//! relative: 0 is perfect.

use super::Allocation;
use farol_frontier::revisit::allocate::{Page, Server};

/// How far an allocation is from meeting each condition, the worst page or server counting.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Kkt {
    /// Visited pages of a server: one more visit is worth the same to each.
    pub stationary: f64,
    /// Pages that are not visited: a first visit is not worth more.
    pub unvisited: f64,
    /// Servers that are not saturated sell at the price of the channel, saturated ones not below it.
    pub price: f64,
    /// Visits beyond the channel, or short of it where it has a price.
    pub channel: f64,
    /// Visits beyond what a server bears.
    pub delay: f64,
}

impl Kkt {
    pub fn worst(&self) -> f64 {
        self.stationary.max(self.unvisited).max(self.price).max(self.channel).max(self.delay)
    }
}

/// Measures how well `allocation` meets the conditions for `channel` visits per second.
pub fn check(servers: &[Server<'_>], channel: f64, allocation: &Allocation) -> Kkt {
    let mut kkt = Kkt::default();
    let mut total = 0.0;
    for (server, share) in servers.iter().zip(&allocation.shares) {
        let worth = |page: &Page, frequency: f64| page.weight() * page.change.index(1.0 / frequency);
        let (mut visits, mut least, mut most) = (0.0, f64::INFINITY, 0.0f64);
        for page in server.pages {
            let frequency = share.frequency(page);
            if frequency > 0.0 {
                let worth = worth(page, frequency);
                (least, most) = (least.min(worth), most.max(worth));
                visits += frequency;
            }
        }
        total += visits;
        kkt.delay = kkt.delay.max(visits * server.delay - 1.0);
        let price = if most > 0.0 { most } else { allocation.price };
        let unvisited = |page: &&Page| page.is_active() && share.frequency(page) == 0.0;
        for page in server.pages.iter().filter(unvisited) {
            kkt.unvisited = kkt.unvisited.max(page.weight() * page.change.index_max() / price - 1.0);
        }
        if most > 0.0 {
            kkt.stationary = kkt.stationary.max(most / least - 1.0);
            let saturated = visits * server.delay >= 1.0 - 1e-9;
            let off =
                if saturated { allocation.price / most - 1.0 } else { (most / allocation.price - 1.0).abs() };
            kkt.price = kkt.price.max(off);
        }
    }
    let off = total / channel - 1.0;
    kkt.channel = if allocation.price > 0.0 && channel > 0.0 { off.abs() } else { off.max(0.0) };
    kkt
}
