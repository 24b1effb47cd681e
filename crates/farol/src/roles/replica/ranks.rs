//! The ranks that replicas answer by: slices that the ranker has uploaded, one for each shard.
//!
//! Slices are kept beside the replicas, so that a node that starts while shared storage is away ranks as it did. Where
//! new ones cannot be had, those of before stay in use.

use super::IndexService;
use anyhow::{Context, Result, ensure};
use farol_cluster::ShardId;
use farol_cluster::record::RanksReport;
use farol_fabric::blobs::BlobError;
use farol_links::{RankSlice, RankTable};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What cannot be had is asked for again after this.
const RETRY: Duration = Duration::from_secs(5);
const SUFFIX: &str = ".ranks";

/// Follows the newest ranks.
pub struct RankLoader {
    service: IndexService,
    /// Version and shards of what is in use.
    loaded: (u64, BTreeSet<ShardId>),
    rests_until: Option<Instant>,
}

impl RankLoader {
    /// Begins with what is on disk.
    pub fn start(service: IndexService) -> RankLoader {
        let mut loader = RankLoader { service, loaded: Default::default(), rests_until: None };
        let slices = loader.slices_on_disk();
        if let Some(version) = slices.iter().map(|(_, slice)| slice.version).max() {
            loader.install(version, slices);
        }
        loader
    }

    /// Loads what the leader says is the newest, if it is not in use yet.
    pub fn look(&mut self) {
        let view = self.service.cluster.view();
        let Some(newest) = view.ranks.as_ref().and_then(|table| table.ranks.as_ref()) else { return };
        let Some(map) = &view.shards else { return };
        let shards: BTreeSet<ShardId> = map.replicas_of(self.service.me).map(|entry| entry.id).collect();
        let is_in_use = self.loaded.0 == newest.version && shards.is_subset(&self.loaded.1);
        if shards.is_empty() || is_in_use || self.rests_until.is_some_and(|until| Instant::now() < until) {
            return;
        }
        let trouble = match self.load(newest, &shards) {
            Ok(()) => String::new(),
            Err(error) => {
                self.rests_until = Some(Instant::now() + RETRY);
                format!("new ranks cannot be loaded, those of before stay in use: {error:#}")
            }
        };
        self.service.board.complain("ranks of replicas", &trouble);
    }

    fn load(&mut self, newest: &RanksReport, shards: &BTreeSet<ShardId>) -> Result<()> {
        // Slices of shards that have left hold pages of their halves, until there are slices of those.
        let is_newest = |slice: &RankSlice| slice.version == newest.version;
        let mut slices = self.slices_on_disk();
        slices.retain(|(_, slice)| is_newest(slice));
        for shard in shards {
            if !slices.iter().any(|(of, _)| of == shard)
                && let Some(slice) = self.download(newest, *shard)?
            {
                slices.push((*shard, slice));
            }
        }
        // A shard that was born after the ranks gets its slice with the next ones.
        self.rests_until = Some(Instant::now() + RETRY);
        self.install(newest.version, slices);
        self.tidy_up(shards);
        Ok(())
    }

    fn install(&mut self, version: u64, mut slices: Vec<(ShardId, RankSlice)>) {
        slices.retain(|(_, slice)| slice.version == version);
        let (shards, slices): (BTreeSet<ShardId>, Vec<RankSlice>) = slices.into_iter().unzip();
        self.service.ranks.set(Arc::new(RankTable::of_slices(&slices)));
        self.service.board.ranked_by.store(version, Ordering::SeqCst);
        tracing::info!(version, shards = shards.len(), "ranks are in use");
        self.loaded = (version, shards);
    }

    /// `None` where that shard has no slice yet.
    fn download(&self, newest: &RanksReport, shard: ShardId) -> Result<Option<RankSlice>> {
        let name = format!("ranks/{}/{shard}", newest.version);
        let bytes = match self.service.blobs.get(&name) {
            Ok(bytes) => bytes,
            Err(BlobError::Missing(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let slice = RankSlice::read(&bytes).with_context(|| format!("{name} cannot be used"))?;
        ensure!(
            (slice.version, format!("{:08x}", slice.digest)) == (newest.version, newest.digest.clone()),
            "{name} holds other ranks than the leader names; they are uploaded again with the next ones"
        );
        let (path, new) = (self.path(shard), self.service.dir.join(format!("{shard}{SUFFIX}.new")));
        std::fs::write(&new, &bytes)?;
        std::fs::rename(new, path)?;
        Ok(Some(slice))
    }

    fn path(&self, shard: ShardId) -> PathBuf {
        self.service.dir.join(format!("{shard}{SUFFIX}"))
    }

    /// Slices beside the replicas; what cannot be read is as good as none.
    fn slices_on_disk(&self) -> Vec<(ShardId, RankSlice)> {
        let entries = std::fs::read_dir(&self.service.dir).into_iter().flatten().flatten();
        let slices = entries.filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let shard = ShardId(name.strip_suffix(SUFFIX)?.parse().ok()?);
            Some((shard, RankSlice::read(&std::fs::read(entry.path()).ok()?).ok()?))
        });
        slices.collect()
    }

    /// Deletes slices of former ranks.
    fn tidy_up(&self, shards: &BTreeSet<ShardId>) {
        for (shard, slice) in self.slices_on_disk() {
            if slice.version != self.loaded.0 && !shards.contains(&shard) {
                // What stays behind is deleted the next time.
                let _ = std::fs::remove_file(self.path(shard));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::cluster::{ClusterHandle, ClusterView, ReportBoard};
    use crate::handles::ranks::Ranks;
    use crate::handles::replicas::Replicas;
    use farol_base::{HostHash, PageId, PagePosition, disk::Mem};
    use farol_cluster::record::RankTable as RankRecord;
    use farol_cluster::{NodeId, ReplicaEntry, ReplicaState, ShardMap};
    use farol_fabric::blobs::Blobs;
    use farol_fabric::memory::Memory;
    use farol_index::{Ranks as _, ShardOptions};
    use farol_links::{Budget, Links, LinksOptions, OutLink};
    use std::path::Path;

    fn page(number: u64) -> PageId {
        PageId::of(&format!("http://a.test/{number}"))
    }

    /// Ranks of twenty pages, of which one is linked to by the others.
    fn ranked(best: u64) -> Arc<RankTable> {
        let mut links = Links::open(Arc::new(Mem::new()), LinksOptions::default()).unwrap();
        let host = HostHash::of("http://a.test");
        for number in 0..20 {
            let link = OutLink { target: page(best), target_host: host, anchor: "x".into(), nofollow: false };
            links.put(page(number), host, &[link], PagePosition::default()).unwrap();
        }
        links.compute_ranks(Budget::default()).unwrap();
        links.ranks()
    }

    /// A node that has replicas of both shards.
    fn service(dir: &Path) -> IndexService {
        std::fs::create_dir_all(dir.join("index")).unwrap();
        IndexService {
            me: NodeId(1),
            dir: dir.join("index"),
            options: ShardOptions::default(),
            fabric: Arc::new(Memory::new()),
            blobs: Arc::new(Blobs::open(dir.join("blobs").to_str().unwrap()).unwrap()),
            cluster: Arc::new(ClusterHandle::new(NodeId(1))),
            board: Arc::new(ReportBoard::default()),
            replicas: Arc::new(Replicas::default()),
            ranks: Arc::new(Ranks::default()),
            ask_again: Arc::new(|_, _, _| {}),
            commit_every: Duration::from_secs(1),
            snapshot_every: Duration::from_secs(1),
            snapshot_bytes: 1 << 30,
        }
    }

    /// Uploads ranks, except for shards from `upto` on, and has the leader name them.
    fn publish(service: &IndexService, version: u64, table: &RankTable, upto: u32) {
        let mut map = ShardMap::new(2, 1);
        for entry in &mut map.shards {
            entry.replicas.push(ReplicaEntry { node: service.me, state: ReplicaState::Serving });
            if entry.id.0 < upto {
                let slice = RankSlice::of(table, version, table.digest(), entry.from..=entry.to);
                service.blobs.put(&format!("ranks/{version}/{}", entry.id), &slice.write()).unwrap();
            }
        }
        let report = RanksReport { version, digest: format!("{:08x}", table.digest()) };
        let ranks = RankRecord { v: 1, version, term: 1, node: None, ranks: Some(report) };
        service.cluster.set(ClusterView {
            shards: Some(Arc::new(map)),
            ranks: Some(ranks),
            ..ClusterView::new(service.me)
        });
    }

    #[track_caller]
    fn ranks_by(service: &IndexService, version: u64, table: &RankTable) {
        assert_eq!(service.board.ranked_by.load(Ordering::SeqCst), version);
        let now = service.ranks.now();
        (0..20).for_each(|number| assert_eq!(now.page(page(number)), table.page(page(number)), "{number}"));
    }

    #[test]
    fn replicas_rank_by_the_newest_slices_and_by_those_of_before_where_there_are_none() {
        let dir = tempfile::tempdir().unwrap();
        let (first, second) = (ranked(3), ranked(7));
        assert_ne!(first.page(page(7)), second.page(page(7)));
        let service_of_before = service(dir.path());
        let mut loader = RankLoader::start(service_of_before.clone());
        publish(&service_of_before, 5, &first, 2);
        loader.look();
        ranks_by(&service_of_before, 5, &first);

        // Damaged slices, and those of other ranks, are not taken.
        publish(&service_of_before, 6, &second, 2);
        service_of_before.blobs.put("ranks/6/1", b"FAROLSLC").unwrap();
        loader.rests_until = None;
        loader.look();
        ranks_by(&service_of_before, 5, &first);
        let foreign = RankSlice::of(&first, 6, first.digest(), 0..=u64::MAX).write();
        service_of_before.blobs.put("ranks/6/1", &foreign).unwrap();
        loader.rests_until = None;
        loader.look();
        ranks_by(&service_of_before, 5, &first);
        assert!(service_of_before.board.report().trouble[0].contains("those of before stay in use"));
        publish(&service_of_before, 6, &second, 2);
        loader.rests_until = None;
        loader.look();
        ranks_by(&service_of_before, 6, &second);
        assert_eq!(service_of_before.board.report().trouble, [""; 0]);

        // A node that starts while shared storage is away ranks as it did.
        std::fs::remove_dir_all(dir.path().join("blobs")).unwrap();
        let service = service(dir.path());
        RankLoader::start(service.clone());
        ranks_by(&service, 6, &second);
    }
}
