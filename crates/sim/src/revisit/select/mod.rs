//! Rules of page selection that the product's is compared with, one file each.
//!
//! [`Drawn`] (RANDOM) only gives an order, and `farol_frontier::revisit::Spaced` gives it instants. [`Delayed`] and
//! [`Punctual`] choose instants as well, never closer than the server's delay.

mod delayed;
mod drawn;
mod punctual;

pub use delayed::Delayed;
pub use drawn::Drawn;
pub use punctual::{LOOK, Punctual, SLACK, VisitReason};
