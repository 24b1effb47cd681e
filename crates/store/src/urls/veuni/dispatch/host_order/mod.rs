//! Which hosts of an active bucket are dispatched first: policies, one file each.
//!
//! Pure: facts in, a key out.

mod fifo;

use std::fmt;

pub use fifo::Fifo;

/// What is known of a host that has something to draw.
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

/// Orders the hosts of a bucket.
pub trait HostOrder: Send + Sync + fmt::Debug {
    /// Hosts with small keys come first, those with the same key in the order of the bucket's directory.
    /// `None`: not before the bucket is activated again.
    fn key(&self, host: &HostFacts<'_>) -> Option<u64>;
}
