//! The cache service between processes: the tables that its leader publishes, what nodes and fronts say of themselves, and
//! the calls of a front to the nodes of the ring.
//!
//! What is decided here is decided by [`farol_cache`]: this carries its decisions. Cache nodes are members of the cluster
//! with the role `cache`; on the ring a node has the number that it has in the cluster.
//!
//! INVARIANT: no question waits for a table, a beat or the leader: with the tables that came last everything goes on.

pub mod choice;
pub mod client;
pub mod metrics;
pub mod records;
pub mod reporter;
pub mod tables;

use farol_cache::NodeId;
use farol_rpc::Peer;
use std::sync::Arc;

/// Said by every cache node about once a second: a [`crate::wire::v1::cache::WireBeat`].
pub const BEATS: &str = "cache.beat";
/// Said by every front every ten seconds and when a node refuses it: a [`crate::wire::v1::cache::WireReport`].
pub const REPORTS: &str = "cache.report";

/// Where a node of the ring is reached; `None` where nobody knows it.
pub type PeerOf = Arc<dyn Fn(NodeId) -> Option<Peer> + Send + Sync>;

/// Bytes of a question that monitors keep.
const SHOWN_BYTES_MAX: usize = 200;

/// A question as monitors count it: by its hash, shown as it was spelt first.
#[derive(Clone, Debug)]
pub struct AskedQuery {
    pub hash: u64,
    pub shown: Arc<str>,
}

impl AskedQuery {
    pub fn new(hash: u64, asked: &str) -> AskedQuery {
        AskedQuery { hash, shown: asked[..asked.floor_char_boundary(SHOWN_BYTES_MAX)].into() }
    }
}

impl AsRef<str> for AskedQuery {
    fn as_ref(&self) -> &str {
        &self.shown
    }
}

impl PartialEq for AskedQuery {
    fn eq(&self, other: &AskedQuery) -> bool {
        self.hash == other.hash
    }
}

impl Eq for AskedQuery {}
