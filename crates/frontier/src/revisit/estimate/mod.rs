//! How often pages change, learnt from visits \[Cho03a\].
//!
//! A visit only tells whether a page has changed since the one before, and visits come at irregular intervals.
//! [`Observed`] is what one visit tells; [`Evidence`] is what all visits of a page have told, in 12 bytes that are kept
//! with its record. A [`Prior`] per server says what its pages are like. Evidence and prior together are a [`Belief`],
//! and the belief becomes the [`super::Change`] that a schedule needs. [`signal`] reads
//! Last-Modified, sitemaps and feeds. The yardstick, the bias-corrected estimator on a whole history, is in `crates/sim`.
//!
//! *Changed* means that the main text is another: the caller compares hashes of the main text, never bytes. Dates,
//! advertisements and tokens do not count. Where a server answers 304 the page has not changed.

mod belief;
mod evidence;
mod prior;
pub mod signal;

pub use belief::Belief;
pub use evidence::Evidence;
pub use prior::Prior;

/// What a visit tells about the time since the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Observed {
    /// The page is what it was.
    Unchanged,
    /// It changed at least once.
    Changed,
    /// It changed, the last time so many seconds ago.
    ChangedAgo(f64),
}
