//! Burst detection (R in [Gomez14 ch. 6]): queries that many people begin to ask within minutes, found before their peak.
//!
//! [`online`] is Algorithm 4, which the router runs each minute over what the monitor counts; the product runs it. What
//! needs a whole history (the reference detector, its comparison, kinds of queries) is in `crates/sim/src/cache/burst`.

pub mod online;

pub use online::{Detector, Event, Rules, Series};
