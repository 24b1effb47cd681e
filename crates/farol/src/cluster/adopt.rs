//! How a folder of `farol up` becomes agent 1 of a new cluster: its archive is sent to the shards from the beginning, and
//! what it knows of URLs stays, so that nothing is fetched again.
//!
//! The cluster is made first; everything here may be done twice.

use super::door::Door;
use super::identity;
use crate::exchange::orders::{CrawlOrder, place, seeds};
use crate::fabric::Fabric as LocalFabric;
use crate::folder::Folder;
use crate::operator::OperatorState;
use anyhow::{Context, Result, bail, ensure};
use farol_base::CanonicalUrl;
use farol_cluster::record::{NumberTable, RECORD_VERSION, write};
use farol_cluster::{Key, NodeNo};
use farol_fabric::{Fabric, Lost, Revision};
use std::path::{Path, PathBuf};

/// What a member remembers: a folder with it has been in a cluster.
const MEMBER: &str = "member.json";
/// Where the index of the engine alone is put: the node's replicas take its place.
const INDEX_OF_BEFORE: &str = "index.before";

/// A folder that may become an agent, held so that nobody starts it meanwhile.
pub struct Adopted {
    folder: Folder,
    _lock: crate::folder::FolderLock,
}

impl Adopted {
    /// Looks at the folder; nothing is changed.
    pub fn open(path: &Path) -> Result<Adopted> {
        let folder = Folder::open(path)?;
        let lock = folder.lock()?;
        ensure!(
            !path.join(MEMBER).exists(),
            "{} is that of a node already; start it with `farol node --data {}`",
            path.display(),
            path.display()
        );
        Ok(Adopted { folder, _lock: lock })
    }

    /// Makes it the first agent; where its index lies now.
    pub fn enroll(self, door: &Door) -> Result<Option<PathBuf>> {
        self.number(door)?;
        self.tell_orders(door)?;
        self.put_index_aside()
    }

    /// Number 1 is its own, whoever starts first.
    fn number(&self, door: &Door) -> Result<()> {
        let id = identity::read_or_draw(self.folder.path())?;
        let table = NumberTable {
            v: RECORD_VERSION,
            version: 1,
            term: 0,
            next: 2,
            numbers: [(id, NodeNo(1))].into(),
        };
        let key = Key::Numbers.to_string();
        match door.fabric.set(&key, &write(&table), Revision::NONE) {
            Ok(_) => Ok(()),
            Err(Lost::Conflict) => bail!("nodes have joined this cluster already; begin with a new one"),
            Err(Lost::Unknown(why)) => match door.fabric.get(&key)? {
                Some((value, _)) if value == write(&table) => Ok(()),
                _ => {
                    bail!("the folder could not be made agent 1: {why}; try again with another cluster name")
                }
            },
        }
    }

    /// What the operator said of this crawl holds for all agents.
    fn tell_orders(&self, door: &Door) -> Result<()> {
        let told = OperatorState::open(LocalFabric::local(&self.folder.tables())?.tables)?;
        let removed = |url: &&CanonicalUrl| !told.removed().contains_key(&url.host());
        let kept: Vec<CanonicalUrl> = told.seeds().iter().filter(removed).cloned().collect();
        let hosts = told.removed().keys().map(|host| CrawlOrder::RemoveHost(host.to_string()));
        let pages = told.removed_pages().map(|(pages, _)| CrawlOrder::RemovePages(pages.to_string()));
        let pause = told.paused().then_some(CrawlOrder::Pause);
        let mut known = 0;
        for order in pause.into_iter().chain(hosts).chain(pages).chain(seeds(&kept)) {
            known = place(&*door.fabric, known, &order)?;
        }
        Ok(())
    }

    fn put_index_aside(&self) -> Result<Option<PathBuf>> {
        let (index, aside) = (self.folder.index(), self.folder.path().join(INDEX_OF_BEFORE));
        if !index.exists() {
            return Ok(None);
        }
        std::fs::rename(&index, &aside).with_context(|| {
            format!("{} cannot be renamed to {}; delete the latter", index.display(), aside.display())
        })?;
        Ok(Some(aside))
    }
}
