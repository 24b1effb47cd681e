//! The link ranks in use.

use farol_base::sync::RwLock;
use farol_base::{HostHash, PageId};
use farol_links::RankTable;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Ranks that change under their readers' feet without disturbing them.
#[derive(Default)]
pub struct Ranks {
    table: RwLock<Option<Arc<RankTable>>>,
    version: AtomicU64,
}

impl Ranks {
    pub fn set(&self, table: Arc<RankTable>) {
        *self.table.write() = Some(table);
        self.version.fetch_add(1, Ordering::SeqCst);
    }

    /// Grows with each change.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    /// The ranks of this moment, for one query.
    pub fn now(&self) -> RanksNow {
        RanksNow(self.table.read().clone())
    }
}

/// Ranks as the index asks for them.
pub struct RanksNow(Option<Arc<RankTable>>);

impl farol_index::Ranks for RanksNow {
    fn page(&self, page: PageId) -> f32 {
        self.0.as_ref().map_or(0.0, |table| table.page(page))
    }

    fn host(&self, host: &str) -> f32 {
        self.0.as_ref().map_or(0.0, |table| table.host(HostHash::of(host)))
    }
}
