//! The index as others see it: what can be searched, and how far it has come.

use farol_base::sync::{Mutex, RwLock};
use farol_index::{Searcher, Shard};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// What others may see of an indexer.
pub struct IndexProgress {
    searcher: RwLock<Searcher>,
    pub pages: AtomicU64,
    /// Why indexing waits; empty while all is well.
    pub trouble: Mutex<String>,
    /// Whether everything archived before the start has been taken in.
    pub caught_up: AtomicBool,
}

impl IndexProgress {
    pub fn of(shard: &Shard) -> IndexProgress {
        IndexProgress {
            searcher: RwLock::new(shard.searcher()),
            pages: AtomicU64::new(0),
            trouble: Mutex::new(String::new()),
            caught_up: AtomicBool::new(false),
        }
    }

    /// Searches the shard as it was last committed.
    pub fn searcher(&self) -> Searcher {
        self.searcher.read().clone()
    }

    /// Searches from now on are answered by this.
    pub fn set_searcher(&self, searcher: Searcher) {
        *self.searcher.write() = searcher;
    }
}
