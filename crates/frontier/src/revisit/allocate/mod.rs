//! How often each page is visited: frequencies under a channel and under politeness [Souza10 ch. 4].
//!
//! The channel carries `C` visits a second in all; a server takes one every `delay` seconds. [`polite()`] finds the
//! frequencies with the greatest freshness; the product runs it. What it is compared with (uniform, proportional, and the
//! bound without politeness), and the check of its optimality, are in `crates/sim/src/revisit/allocate`.
//!
//! A server is a slice of pages, so that 14.5 million pages cost 12 bytes each here. The answer is one [`Level`] per
//! server, a formula from which [`Level::frequency`] gives the frequency of a page.
//!
//! Does not say when a page is visited; see [`super::select`]. Does not use threads: 14.5 million pages take seconds.

mod level;
mod polite;
#[cfg(test)]
mod slow;

pub use level::Level;
pub use level::level_for;
use level::useful;
pub use polite::polite;

use super::Change;

/// A page as the allocation sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Page {
    pub change: Change,
    /// Importance: what an hour of its freshness counts. Not negative; 0 is never visited.
    pub weight: f32,
}

/// A server: its pages and how often it may be asked.
#[derive(Clone, Copy, Debug)]
pub struct Server<'a> {
    /// Least seconds between two requests; 0 sets no limit.
    pub delay: f64,
    pub pages: &'a [Page],
}

/// Frequencies of all pages.
#[derive(Clone, Debug)]
pub struct Allocation {
    /// What one more visit per second of channel would be worth, in weighted freshness; 0 where there is too much.
    pub price: f64,
    /// What one more visit is worth on each server.
    pub levels: Vec<Level>,
    /// Visits per second of each server.
    pub rates: Vec<f64>,
}

/// What cannot be allocated.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The channel is negative, not a number, or without limit while a server sets none either.
    Channel(f64),
    /// A server's delay is negative or not a number.
    Delay { server: usize },
    /// A page's weight is negative, infinite or not a number.
    Weight { server: usize, page: usize },
}

impl std::error::Error for Error {}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Error::Channel(channel) => {
                write!(f, "no schedule fills a channel of {channel} visits per second")
            }
            Error::Delay { server } => write!(f, "the delay of server {server} is not a length of time"),
            Error::Weight { server, page } => {
                write!(f, "the weight of page {page} of server {server} is not a weight")
            }
        }
    }
}

impl Page {
    /// Whether visits can do it any good.
    pub fn is_active(&self) -> bool {
        self.weight > 0.0 && self.change.is_active()
    }

    /// The weight, with room for sums.
    pub fn weight(&self) -> f64 {
        f64::from(self.weight)
    }

    /// How often it is visited when one more visit must be worth `level`.
    pub fn frequency_at(&self, level: f64) -> f64 {
        1.0 / self.interval_at(level)
    }

    /// How long after a visit the next is worth `level`; infinite where it never is.
    pub fn interval_at(&self, level: f64) -> f64 {
        if self.weight > 0.0 { self.change.interval_at(level / self.weight()) } else { f64::INFINITY }
    }
}

/// Checks what an allocation is given.
///
/// # Errors
///
/// See [`Error`].
pub fn validate(servers: &[Server<'_>], channel: f64) -> Result<(), Error> {
    if channel.is_nan() || channel < 0.0 {
        return Err(Error::Channel(channel));
    }
    for (s, server) in servers.iter().enumerate() {
        if server.delay.is_nan() || server.delay < 0.0 {
            return Err(Error::Delay { server: s });
        }
        if let Some(page) =
            server.pages.iter().position(|page| !(page.weight >= 0.0 && page.weight.is_finite()))
        {
            return Err(Error::Weight { server: s, page });
        }
        let endless = channel.is_infinite() && server.delay == 0.0;
        if endless && server.pages.iter().any(Page::is_active) {
            return Err(Error::Channel(channel));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
