//! What the broker knows of the cluster: which shards there are, who serves them, and where.

use farol_base::PageId;
use farol_query::scatter::{ReplicaNo, ShardNo};
use farol_rpc::Peer;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

/// Gives the table as it stands now.
pub type TableSource = Arc<dyn Fn() -> Arc<ServingTable> + Send + Sync>;

/// Shards that are asked, with their replicas. The pages of the shards tile all pages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServingTable {
    /// Version of the shard map; 0 before there is one.
    pub map: u64,
    /// Changes whenever answers may.
    pub state: u64,
    pub shards: Vec<ServedShard>,
    /// Where nodes answer calls.
    pub peers: BTreeMap<ReplicaNo, Peer>,
    /// Nodes that have an archive.
    pub agents: Vec<ReplicaNo>,
}

/// A shard that is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ServedShard {
    pub id: ShardNo,
    /// Its pages, first and last.
    pub pages: RangeInclusive<u64>,
    /// Who serves it, and how far each is behind the log.
    pub replicas: Vec<(ReplicaNo, Duration)>,
    /// Pages that can be found, as its replicas last told.
    pub documents: u64,
    /// Bytes on disk of one replica.
    pub bytes: u64,
}

impl ServingTable {
    /// The shard that has a page.
    pub fn shard_of(&self, page: PageId) -> Option<ShardNo> {
        self.shards.iter().find(|shard| shard.pages.contains(&page.0)).map(|shard| shard.id)
    }

    /// All shards, in their order.
    pub fn shard_numbers(&self) -> impl Iterator<Item = ShardNo> {
        self.shards.iter().map(|shard| shard.id)
    }
}
