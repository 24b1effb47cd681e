//! When a page is visited again: a small trait, one file per policy; and the theory of doing it best \[Souza10\].
//!
//! | file | what | run by |
//! |---|---|---|
//! | `interval.rs` | [`Interval`], the naive rule behind [`RevisitPolicy`] | `farol`: pages that are gone or fail, sitemaps, feeds; all pages where the operator prefers it |
//! | `planner/` | the rule for pages that are there: due when a visit is worth its price | `farol` |
//! | `change.rs` | [`Change`]: how a page changes, what a visit is worth | `farol` |
//! | `estimate/` | learns it from visits and from what servers say about changes | `farol` |
//! | `allocate/` | how often each page is visited: the optimum under politeness | `farol`, at each rebalancing |
//! | `freshness.rs` | [`Freshness`]: how fresh pages are believed to be | `farol` |
//! | `clicks.rs` | which pages people open | `farol` |
//! | `select/`, `space.rs`, `heap.rs` | pages in the order of equal intervals, servers at equal intervals: the rule with a proven bound | nobody yet but the simulator (`crates/sim/src/revisit`) |
//!
//! Rules that are there to be compared with, and whatever keeps every page in memory, are in `crates/sim/src/revisit`.
//!
//! Does not decide when the *host* may be asked; see [`crate::Frontier`].

pub mod allocate;
mod change;
pub mod clicks;
pub mod estimate;
mod freshness;
mod heap;
mod interval;
pub mod planner;
pub mod select;
mod space;

pub use change::Change;
pub use freshness::Freshness;
pub use heap::Heap;
pub use interval::Interval;
pub use space::{Servers, Spaced};

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
