//! When a page is visited again: a small trait, one file per policy; and the theory of doing it best.
//!
//! [`Interval`] is the naive rule behind [`RevisitPolicy`]. The rest knows of all pages at once: [`Change`] says how a
//! page changes and what a visit is worth, [`estimate`] learns it, [`allocate`] says how often each page is visited,
//! [`select`] which page of a server is next. [`Schedule`] puts them together for who has all pages in memory, and
//! [`book`] for a crawler, whose pages stand in a URL store. [`clicks`] says which pages people open.
//!
//! Does not decide when the *host* may be asked; see [`crate::Frontier`].

pub mod allocate;
pub mod book;
mod change;
pub mod clicks;
pub mod estimate;
mod heap;
mod interval;
mod schedule;
pub mod select;
mod space;

pub use change::Change;
pub use interval::Interval;
pub use schedule::{Schedule, Turn};
pub use space::{Servers, Spaced, excess_probability};

use farol_base::Timestamp;
use std::time::Duration;

/// How a visit went, as far as the next one is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visited {
    /// The page was collected for the first time.
    New,
    /// It is not what it was.
    Changed,
    /// It is what it was (304, or the same text).
    Unchanged,
    /// It is not there (404, 410).
    Gone,
    /// It could not be had, or robots.txt forbids it.
    Failed,
}

/// What a policy may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct History {
    /// How the visit just made went.
    pub visited: Visited,
    /// Time between the visit before and this one; `None` at the first.
    pub since_last: Option<Duration>,
    /// Visits in a row, this one included, on which the page was gone or failed.
    pub misses: u32,
}

/// Decides when a page is visited again.
pub trait RevisitPolicy: Send + Sync {
    /// The next visit, after one that ended `now`; [`Timestamp::NEVER`] where it is not worth another.
    fn next_visit(&self, now: Timestamp, history: &History) -> Timestamp;
}
