//! The replicas of this node, as whoever answers questions sees them.

use farol_base::sync::RwLock;
use farol_cluster::ShardId;
use farol_index::Searcher;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What can be searched here, by shard.
#[derive(Default)]
pub struct Replicas {
    searchers: RwLock<BTreeMap<ShardId, Searcher>>,
}

impl Replicas {
    pub fn searcher(&self, shard: ShardId) -> Option<Searcher> {
        self.searchers.read().get(&shard).cloned()
    }

    /// The shards that can be searched here.
    pub fn shards(&self) -> Vec<ShardId> {
        self.searchers.read().keys().copied().collect()
    }

    /// Questions for the shard are answered by this from now on; by nobody where it is `None`.
    pub fn set(&self, shard: ShardId, searcher: Option<Searcher>) {
        match searcher {
            Some(searcher) => drop(self.searchers.write().insert(shard, searcher)),
            None => drop(self.searchers.write().remove(&shard)),
        }
    }
}

/// Asks a node to send again what a log lacks from a position of its archive on.
pub type AskAgain =
    Arc<dyn Fn(farol_cluster::NodeNo, farol_fabric::Topic, farol_base::PagePosition) + Send + Sync>;
