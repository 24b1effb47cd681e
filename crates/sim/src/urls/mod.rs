//! URL stores side by side: the experiment of [Henrique11 ch. 4], and what to compare with.
//!
//! A run's life: [`load`] makes the cycles of a crawl from a seed, [`driver`] hands them to a store and measures, and
//! [`experiment`] runs each store in a process of its own and puts their figures side by side.
//!
//! Yardsticks, each honest and tuned, all of them exact on this load:
//!
//! - [`drum`]: IRLbot's DRUM with a plain sorted central file;
//! - [`mercator`]: one sorted file of URLs, merged with a batch;
//! - [`central`]: one repository with hosts in order, rewritten every cycle; what VEUNI's author gave up for VEUNI.
//!
//! They implement [`Verifier`](farol_store::urls::Verifier) and no more: not one of them opens again after a crash.

pub mod atlas;
mod batch;
pub mod central;
pub mod driver;
pub mod drum;
pub mod exact;
pub mod experiment;
mod facts;
mod front;
mod keys;
pub mod lines;
pub mod load;
pub mod mercator;
pub mod meter;
mod plot;
pub mod queue;
pub mod report;
pub mod spell;
pub mod stores;

#[cfg(test)]
mod race;

pub use experiment::{CHILD, ChildArgs, UrlsArgs, compare, run_one};
pub use facts::{FACTS_BYTES, Facts, Tally};
pub use stores::{STORES, StoreKind};
