//! Which hosts of the bucket in turn are handed out first.
//!
//! One policy a file, those that the thesis names (ch. 2). Pure: numbers in, a key out.

mod fifo;
mod rank;
mod response;
mod size;

use std::fmt;

pub use fifo::Fifo;
pub use rank::Rank;
pub use response::Response;
pub use size::Size;

/// What is known of a host that has something to hand out.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostFacts<'a> {
    pub host: &'a str,
    /// Known URLs.
    pub known: u64,
    /// URLs never visited.
    pub waiting: u64,
    pub visited: u64,
    /// Mean download time of its visited URLs in milliseconds; 0 where there are none.
    pub download_millis: u64,
}

/// Orders hosts.
pub trait HostOrder: Send + Sync + fmt::Debug {
    /// Hosts with small keys come first, those of one key in the order in which they stand in the bucket. `None`:
    /// not in this turn.
    fn key(&self, host: &HostFacts<'_>) -> Option<u64>;
}
