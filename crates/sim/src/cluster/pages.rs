//! Pages on the nodes of the simulated world: agents send, replicas are born, read, commit and are copied.

use super::Ablation;
use super::documents::{Appended, Log, Replica, ReplicaDisk, half_of};
use super::world::{ClusterWorld, Incident};
use farol_base::PagePosition;
use farol_base::random::Random;
use farol_cluster::record::{ReplicaMark, write};
use farol_cluster::snapshot::{SnapshotManifest, SnapshotPointer, next_pointer};
use farol_cluster::{
    Key, NodeNo, Revision, Role, ShardEntry, ShardId, ShardMap, ShardState, Write, WriteOutcome,
};

/// A keeper uploads this often.
const SNAPSHOT_EVERY: u64 = 40_000;
/// A half without its parent's files waits so long for a snapshot.
const PATIENCE: u64 = 60_000;
/// A replica that the map names no more is kept for so long.
const FAREWELL: u64 = 60_000;

impl ClusterWorld {
    pub(super) fn document_turn(&mut self, node: usize) {
        if !self.is_reached(node) {
            return;
        }
        self.agent_turn(node);
        let at = self.now;
        let place = &self.nodes[node];
        let Some(map) = place.process.as_ref().and_then(|process| process.member.shards()).cloned() else {
            return;
        };
        let wanted: Vec<ShardEntry> = map.replicas_of(place.id).cloned().collect();
        for entry in &wanted {
            self.replica_turn(node, entry, &map);
        }
        let Some(process) = &mut self.nodes[node].process else { return };
        let is_wanted = |shard: &ShardId| wanted.iter().any(|entry| entry.id == *shard);
        process.unwanted.retain(|shard, _| !is_wanted(shard));
        let here: Vec<ShardId> = self.nodes[node].disk.replicas.keys().copied().collect();
        for shard in here.into_iter().filter(|shard| !is_wanted(shard)) {
            let place = &mut self.nodes[node];
            let Some(process) = &mut place.process else { return };
            let since = *process.unwanted.entry(shard).or_insert(at);
            if at - since >= FAREWELL {
                process.unwanted.remove(&shard);
                process.replicas.remove(&shard);
                place.disk.replicas.remove(&shard);
            }
        }
    }

    fn agent_turn(&mut self, node: usize) {
        let is_active = self.nodes[node].is_active(self.now);
        let count = if is_active && self.now < self.crawl_until { self.random.below(4) } else { 0 };
        let fresh: Vec<u64> = (0..count).map(|_| self.random.next_u64()).collect();
        let at = self.now;
        let lost = self.weather.lost;
        let place = &mut self.nodes[node];
        if !place.roles.contains(&Role::Crawl) {
            return;
        }
        let Some(process) = &mut place.process else { return };
        let (Some(no), Some(map)) = (process.member.no(), process.member.shards()) else { return };
        let (random, logs) = (&mut self.random, &mut self.logs);
        process.agent.turn(no, &mut place.disk.agent, &fresh, map, at, |shard, cut| {
            let log = logs.entry(shard).or_insert_with(|| Log { stream: at + 1, ..Log::default() });
            match random.below(1000) {
                draw if draw < lost => Appended::No,
                draw if draw < 2 * lost => {
                    log.append(cut.clone());
                    Appended::Unknown
                }
                _ => {
                    log.append(cut.clone());
                    Appended::Yes
                }
            }
        });
    }

    fn replica_turn(&mut self, node: usize, entry: &ShardEntry, map: &ShardMap) {
        let at = self.now;
        let shard = entry.id;
        if !self.nodes[node].process.as_ref().is_some_and(|process| process.replicas.contains_key(&shard)) {
            self.be_born(node, entry, map);
            return;
        }
        let detects = self.ablation != Some(Ablation::Gap);
        let is_keeper = entry.keeper == Some(self.nodes[node].id);
        let place = &mut self.nodes[node];
        let (Some(process), Some(disk)) = (&mut place.process, place.disk.replicas.get_mut(&shard)) else {
            return;
        };
        let Some(replica) = process.replicas.get_mut(&shard) else { return };
        let log = self.logs.entry(shard).or_insert_with(|| Log { stream: at + 1, ..Log::default() });
        let asks = replica.read(log, at, detects);
        replica.commit(disk, at);
        let is_due = is_keeper && replica.has_caught_up() && at - replica.snapshot_at >= SNAPSHOT_EVERY;
        if is_due {
            replica.snapshot_at = at;
            let disk = disk.clone();
            self.snapshot(node, shard, disk);
        }
        for (agent, from) in asks {
            self.ask(agent, shard, from);
        }
    }

    fn ask(&mut self, agent: NodeNo, shard: ShardId, from: PagePosition) {
        if self.chance(self.weather.lost) {
            return;
        }
        let found = self.nodes.iter().position(|other| {
            other.roles.contains(&Role::Crawl)
                && other.process.as_ref().is_some_and(|process| process.member.no() == Some(agent))
        });
        if let Some(node) = found {
            let generation = self.nodes[node].generation;
            let at = self.now + self.latency();
            self.schedule(at, Incident::Ask { node, generation, shard, from });
        }
    }

    /// A replica comes to its files, as soon as there are any.
    fn be_born(&mut self, node: usize, entry: &ShardEntry, map: &ShardMap) {
        let at = self.now;
        let shard = entry.id;
        let snapshot = self.snapshots.get(&shard).cloned();
        let place = &mut self.nodes[node];
        let Some(process) = &mut place.process else { return };
        let begun = *process.births.entry(shard).or_insert(at);
        let mut found = place.disk.replicas.get(&shard).cloned();
        let is_forming = matches!(entry.state, ShardState::Forming { .. });
        if let (None, ShardState::Forming { parent }) = (&found, &entry.state)
            && let (Some(parent), Some(files)) = (map.shard(*parent), place.disk.replicas.get(parent))
            && parent.may_divide(&files.mark, at - begun)
        {
            found = Some(half_of(files, entry.from, entry.to));
        }
        let found = found.or(snapshot);
        let may_be_empty = entry.born_of.is_none() || (!is_forming && at - begun > PATIENCE);
        let Some(files) = found.or(may_be_empty.then(ReplicaDisk::default)) else { return };
        process.births.remove(&shard);
        process.replicas.insert(shard, Replica::open(&files, at));
        place.disk.replicas.insert(shard, files);
    }

    fn snapshot(&mut self, node: usize, shard: ShardId, files: ReplicaDisk) {
        let key = Key::Snapshot(shard).to_string();
        let me = self.nodes[node].id;
        let present = self.kv.newest(&key).and_then(|version| {
            Some((
                serde_json::from_slice::<SnapshotPointer>(version.value.as_deref()?).ok()?,
                version.revision,
            ))
        });
        let number = present.as_ref().map_or(0, |(pointer, _)| pointer.number) + 1;
        let mark: ReplicaMark = files.mark.clone();
        let manifest = SnapshotManifest { v: 1, shard, number, node: me, mark, files: Vec::new() };
        let pointer = present.as_ref().map(|(pointer, _)| pointer);
        let Some(next) = next_pointer(&manifest, me, pointer).filter(|_| !self.chance(self.weather.lost))
        else {
            return;
        };
        let expected = Revision(present.as_ref().map_or(0, |(_, revision)| *revision));
        let write = Write { key, value: Some(write(&next)), expected };
        if matches!(self.kv.apply(&write, self.now), WriteOutcome::Written(_)) {
            self.note(|| format!("node {node} has a snapshot of shard {shard}"));
            self.snapshots.insert(shard, files);
        }
    }

    /// Logs forget what their leader lets them.
    pub(super) fn trim(&mut self) {
        let (at, mut trims) = (self.now, Vec::new());
        for node in self.nodes.iter().filter(|node| node.is_awake(at)) {
            let control = node.process.as_ref().and_then(|process| process.control.as_ref());
            trims.extend(control.map(|control| control.trims(node.clock.now(at))).unwrap_or_default());
        }
        for trim in trims {
            if let Some(log) = self.logs.get_mut(&trim.shard) {
                log.trim(trim.upto);
            }
        }
    }
}
