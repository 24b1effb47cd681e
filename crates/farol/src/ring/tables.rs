//! Follows what the leader of the cache service publishes, for everybody in the process.

use super::records::{CachesRecord, read_hot, read_ring};
use farol_base::sync::RwLock;
use farol_cache::tables::{Epoch, HotDoc, RingDoc};
use farol_cluster::Key;
use farol_cluster::record::read;
use farol_fabric::Fabric;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often the follower looks whether it is to stop or to read again.
const TICK: Duration = Duration::from_millis(100);
/// Tables are read again so often, should the watch have missed something.
const AGAIN: Duration = Duration::from_secs(30);
/// Not more often than this because a node told of a newer one.
const AGAIN_MIN: Duration = Duration::from_millis(300);

/// The newest tables.
#[derive(Clone, Default)]
pub struct RingView {
    pub ring: Option<Arc<RingDoc>>,
    pub hot: Option<Arc<HotDoc>>,
    pub caches: Option<Arc<CachesRecord>>,
}

/// The tables as they were heard of last; where the fabric is out of reach they stay as they were.
#[derive(Default)]
pub struct RingTables {
    now: RwLock<RingView>,
    /// Grows with each change of ring or hot questions.
    changes: AtomicU64,
    is_behind: AtomicBool,
}

impl RingTables {
    pub fn now(&self) -> RingView {
        self.now.read().clone()
    }

    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Somebody goes by this ring: where it is newer, it is read soon.
    pub fn told(&self, epoch: Epoch) {
        let known = self.now.read().ring.as_ref().map(|doc| doc.epoch).unwrap_or_default();
        if epoch > known {
            self.is_behind.store(true, Ordering::Relaxed);
        }
    }

    /// Takes a value of a table in; older ones are passed over.
    pub fn hear(&self, key: &str, value: &[u8]) {
        let heard = match Key::parse(key) {
            Some(Key::Ring) => read_ring(key, value).map(|doc| self.install_ring(doc)),
            Some(Key::Hot) => read_hot(key, value).map(|doc| self.install_hot(doc)),
            Some(Key::Caches) => read::<CachesRecord>(key, value)
                .map(|record| self.now.write().caches = Some(Arc::new(record)))
                .map_err(|error| error.to_string()),
            _ => Ok(()),
        };
        if let Err(sentence) = heard {
            tracing::warn!("{sentence}; the one from before stays in force");
        }
    }

    fn install_ring(&self, doc: RingDoc) {
        let mut now = self.now.write();
        if now.ring.as_ref().is_none_or(|known| doc.epoch > known.epoch) {
            now.ring = Some(Arc::new(doc));
            self.changes.fetch_add(1, Ordering::Release);
        }
    }

    fn install_hot(&self, doc: HotDoc) {
        let mut now = self.now.write();
        if now.hot.as_ref().is_none_or(|known| doc.epoch > known.epoch) {
            now.hot = Some(Arc::new(doc));
            self.changes.fetch_add(1, Ordering::Release);
        }
    }
}

/// Keeps [`RingTables`] up to date, on a thread of its own.
pub struct TableFollower {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl TableFollower {
    pub fn start(fabric: Arc<dyn Fabric>, tables: Arc<RingTables>) -> std::io::Result<TableFollower> {
        let stop = Arc::<AtomicBool>::default();
        let stops = stop.clone();
        let thread = std::thread::Builder::new()
            .name("ring tables".to_string())
            .spawn(move || follow(&*fabric, &tables, &stops))?;
        Ok(TableFollower { stop, thread: Some(thread) })
    }
}

impl Drop for TableFollower {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}

fn follow(fabric: &dyn Fabric, tables: &RingTables, stop: &AtomicBool) {
    let watch = fabric.watch("table.");
    let mut read_at = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        if let Some(entry) = watch.next(TICK)
            && let Some(value) = &entry.value
        {
            tables.hear(&entry.key, value);
        }
        let since = read_at.elapsed();
        let is_told = since >= AGAIN_MIN && tables.is_behind.swap(false, Ordering::Relaxed);
        if is_told || since >= AGAIN {
            read_at = Instant::now();
            for key in [Key::Ring, Key::Hot] {
                let key = key.to_string();
                if let Ok(Some((value, _))) = fabric.get(&key) {
                    tables.hear(&key, &value);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ring::records::write_ring;
    use farol_cache::tables::RingNode;
    use farol_cache::{NodeId, Ring};

    #[test]
    fn an_older_table_or_a_broken_one_changes_nothing() {
        let doc = |term, version, nodes: u16| RingDoc {
            epoch: Epoch { term, version },
            seed: 1,
            nodes: (0..nodes).map(|id| RingNode { id: NodeId(id), incarnation: 1, capacity: 1000 }).collect(),
            ring: Ring::equal(nodes),
        };
        let tables = RingTables::default();
        let nodes = |tables: &RingTables| tables.now().ring.map_or(0, |doc| doc.ring.len());
        tables.hear("table.ring", &write_ring(&doc(2, 5, 3)));
        for older in [doc(2, 5, 4), doc(2, 4, 4), doc(1, 900, 4)] {
            tables.hear("table.ring", &write_ring(&older));
        }
        tables.hear("table.ring", b"{}");
        tables.hear("table.shards", b"{}");
        assert_eq!((nodes(&tables), tables.changes()), (3, 1));
        tables.told(Epoch { term: 2, version: 5 });
        assert!(!tables.is_behind.load(Ordering::Relaxed));
        tables.told(Epoch { term: 3, version: 0 });
        assert!(tables.is_behind.load(Ordering::Relaxed));
        tables.hear("table.ring", &write_ring(&doc(3, 1, 4)));
        assert_eq!((nodes(&tables), tables.changes()), (4, 2));
    }
}
