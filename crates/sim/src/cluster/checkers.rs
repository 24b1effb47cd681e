//! What must hold at every instant, and at the end.

use super::kv::Kv;
use farol_cluster::record::{LeaderRecord, NodeRecord, read};
use farol_cluster::{Key, NodeId, NodeState, ReplicaState, RouteRecord, ShardId, ShardMap, Write};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub checker: &'static str,
    pub what: String,
}

/// Fails with the checker's name.
pub fn broken<T>(checker: &'static str, what: impl Into<String>) -> Result<T, Violation> {
    Err(Violation { checker, what: what.into() })
}

#[derive(Deserialize)]
struct Versioned {
    version: u64,
    term: u64,
}

/// Looks at everything that is written.
#[derive(Debug, Default)]
pub struct WriteChecker {
    tables: BTreeMap<String, (u64, u64)>,
    /// Greatest term that was taken.
    pub term: u64,
    map: Option<(ShardMap, u64)>,
    /// When each node was last given a replica of each shard, in true time.
    given: BTreeMap<(ShardId, NodeId), u64>,
    /// When the tables were last out of reach for so long that leases ended: from, to.
    pub outage: (u64, u64),
    /// Nodes that an operator has given up.
    pub removed: BTreeSet<NodeId>,
}

impl WriteChecker {
    /// A leader is about to write something under its term.
    pub fn issued(&self, term: u64) -> Result<(), Violation> {
        if term < self.term {
            return broken(
                "one leader",
                format!("a leader of term {term} writes while term {} is taken", self.term),
            );
        }
        Ok(())
    }

    /// A write that has just happened; `issued` says when it was decided.
    pub fn applied(&mut self, kv: &Kv, write: &Write, now: u64, issued: u64) -> Result<(), Violation> {
        let Some(value) = &write.value else { return Ok(()) };
        match Key::parse(&write.key) {
            Some(Key::Leader) => {
                let Ok(record) = read::<LeaderRecord>(&write.key, value) else { return Ok(()) };
                if record.term == 0 {
                    self.term = self.term.max(kv.revision());
                }
                Ok(())
            }
            Some(Key::Numbers | Key::Shards | Key::Route | Key::Ranks | Key::State) => {
                self.table(kv, write, value, now)
            }
            Some(Key::Node(id)) => self.buried(write, value, id, issued),
            _ => Ok(()),
        }
    }

    fn table(&mut self, kv: &Kv, write: &Write, value: &[u8], now: u64) -> Result<(), Violation> {
        let versioned = match Key::parse(&write.key) {
            // An epoch is written again when it is settled.
            Some(Key::Route) => read::<RouteRecord>(&write.key, value)
                .map(|route| (2 * route.epoch().0 + u64::from(route.settled), route.term))
                .ok(),
            _ => serde_json::from_slice(value).ok().map(|Versioned { version, term }| (version, term)),
        };
        let Some((version, term)) = versioned else {
            return broken("fenced", format!("{} has no term", write.key));
        };
        let before = self.tables.insert(write.key.clone(), (version, term)).unwrap_or((0, 0));
        if term < before.1 {
            return broken("fenced", format!("{} has term {term} after {}", write.key, before.1));
        }
        if version <= before.0 {
            return broken("fenced", format!("{} has version {version} after {}", write.key, before.0));
        }
        if Key::parse(&write.key) != Some(Key::Shards) {
            return Ok(());
        }
        let Ok(map) = read::<ShardMap>(&write.key, value) else {
            return broken("tiles", "the map is unreadable");
        };
        if let Err(what) = map.check() {
            return broken("tiles", what);
        }
        if let Some((old, _)) = &self.map {
            self.check_step(kv, old, &map)?;
        }
        for shard in &map.shards {
            for replica in &shard.replicas {
                let had = self.map.as_ref().and_then(|(old, _)| old.shard(shard.id)?.replica(replica.node));
                if had.is_none() {
                    self.given.insert((shard.id, replica.node), now);
                }
            }
        }
        self.map = Some((map, now));
        Ok(())
    }

    /// What one map may take away that the one before had.
    fn check_step(&self, kv: &Kv, old: &ShardMap, new: &ShardMap) -> Result<(), Violation> {
        for before in old.shards.iter().filter(|shard| shard.is_read()) {
            let Some(after) = new.shard(before.id).filter(|after| after.is_read()) else { continue };
            if before.asked().any(|id| !self.removed.contains(&id)) && after.asked().next().is_none() {
                return broken(
                    "last replica",
                    format!("nobody can be asked for shard {} any more", before.id),
                );
            }
            let lasting =
                before.replicas.iter().filter(|replica| replica.state != ReplicaState::Leaving).count();
            if lasting > (new.copies + after.extra) as usize {
                continue;
            }
            for replica in before.replicas.iter().filter(|replica| replica.state == ReplicaState::Serving) {
                let id = replica.node;
                let has_it = after.replica(id).is_some();
                if !has_it && !new.leaving.contains_key(&id) && !self.was_told(kv, before.id, id) {
                    return broken(
                        "buried",
                        format!(
                            "shard {} is taken from node {id}, which is neither dead nor leaving",
                            before.id
                        ),
                    );
                }
            }
        }
        Ok(())
    }

    /// Whether a node was buried, has left or began to leave since it was given something.
    fn was_told(&self, kv: &Kv, shard: ShardId, id: NodeId) -> bool {
        let key = Key::Node(id).to_string();
        let since = self.given.get(&(shard, id)).copied().unwrap_or(0);
        kv.history(&key).iter().rev().take_while(|version| version.at >= since).any(|version| {
            let record = version.value.as_deref().and_then(|value| read::<NodeRecord>(&key, value).ok());
            record.is_some_and(|record| !matches!(record.state, NodeState::Up | NodeState::Joining))
        })
    }

    /// Nobody is buried for a silence that was the tables'.
    fn buried(&self, write: &Write, value: &[u8], id: NodeId, issued: u64) -> Result<(), Violation> {
        let Ok(record) = read::<NodeRecord>(&write.key, value) else { return Ok(()) };
        let (from, to) = self.outage;
        // No lease lives longer than 22.3 s without the tables, and no silence is long enough within 27.2 s of a new one.
        let is_after = issued >= from + 23_000 && issued < to + 25_000;
        if record.state == NodeState::Dead && to >= from + 30_000 && is_after {
            return broken(
                "patient",
                format!("node {id} is buried {} ms after the tables came back", issued.saturating_sub(to)),
            );
        }
        Ok(())
    }
}

/// What a process must never see.
#[derive(Debug, Default)]
pub struct SeenChecker {
    shards: u64,
    ranks: u64,
}

impl SeenChecker {
    pub fn check(&mut self, shards: u64, ranks: u64) -> Result<(), Violation> {
        if shards < self.shards || ranks < self.ranks {
            let what = format!("shards {shards} after {}, ranks {ranks} after {}", self.shards, self.ranks);
            return broken("monotonic", what);
        }
        (self.shards, self.ranks) = (shards, ranks);
        Ok(())
    }
}

/// The newest value of one of the leader's tables.
pub fn newest<T: serde::de::DeserializeOwned>(kv: &Kv, key: Key) -> Option<T> {
    let key = key.to_string();
    let value = kv.newest(&key)?.value.as_deref()?;
    read(&key, value).ok()
}
