//! From records to a situation the planner understands, and from its plan to a write.

use super::Control;
use crate::order::{OrderId, TakenOrder};
use crate::record::ReplicaMark;
use crate::shards::{PlacedNode, Situation, plan, take_order};
use crate::{
    ArchivePosition, Monotonic, NodeId, NodeNo, NodeState, ReplicaState, Role, ShardEntry, ShardId, ShardMap,
    ShardState, Write,
};
use std::collections::{BTreeMap, BTreeSet};

/// A replica that had all its log held so long ago has caught up.
const LAG_MAX_MS: u64 = 2_000;
/// Taken orders that the map remembers after their keys were deleted.
const TAKEN_MAX: usize = 32;
/// Orders that are taken in one step.
const ORDERS_MAX: usize = 16;

/// What the leader remembers between plans; a new leader begins anew.
#[derive(Debug, Default)]
pub struct Memory {
    /// What a replica must have before it serves: all that the others had when it had caught up for the first time.
    goals: BTreeMap<(ShardId, NodeId), ReplicaMark>,
    /// Since when shards are known to be retired.
    retired: BTreeMap<ShardId, Monotonic>,
    /// Nodes that could have been given replicas at birth, and when their number last changed.
    arrived: (usize, Monotonic),
}

impl Memory {
    pub fn forget(&mut self) {
        *self = Memory::default();
    }
}

impl Control {
    pub(super) fn plan_shards(&mut self, term: u64, now: Monotonic) -> Option<Write> {
        if !self.shards.is_free() {
            return None;
        }
        let Some(map) = self.shards.get().cloned() else { return self.first_map(term, now) };
        let situation = self.situation(&map, now);
        let mut next = map.clone();
        self.take_orders(&mut next, &situation);
        let next = plan(&next, &situation).unwrap_or(next);
        self.trouble = self.trouble.take().or_else(|| self.trouble_of(&next, &situation));
        (next != map).then(|| self.publish(next, term))
    }

    /// The map at birth: once there is somebody to give shards to, and nobody has come for two renewals.
    fn first_map(&mut self, term: u64, now: Monotonic) -> Option<Write> {
        let cluster = self.cluster.as_ref()?;
        let map = ShardMap::new(cluster.shards, cluster.replicas);
        let situation = self.situation(&map, now);
        let count = situation.nodes.values().filter(|node| node.may_take).count();
        let arrived = &mut self.planning.arrived;
        if arrived.0 != count {
            *arrived = (count, now);
        }
        if count == 0 || now.since(arrived.1) < 2 * self.times.renew_ms {
            return None;
        }
        let map = plan(&map, &situation).unwrap_or(map);
        Some(self.publish(map, term))
    }

    fn publish(&mut self, mut map: ShardMap, term: u64) -> Write {
        let told = self.nodes.values().map(|node| node.value.seen.shards).max().unwrap_or(0);
        map.version = map.version.max(told) + 1;
        map.term = term;
        self.shards.replace(map)
    }

    fn take_orders(&mut self, map: &mut ShardMap, situation: &Situation) {
        let ids: Vec<OrderId> = self.orders.keys().copied().filter(|id| map.taken(*id).is_none()).collect();
        for id in ids.into_iter().take(ORDERS_MAX) {
            let mut after = map.clone();
            let done = match &self.orders[&id].order {
                Ok(record) => take_order(&mut after, &record.order, situation),
                Err(why) => Err(why.clone()),
            };
            if done.is_ok() {
                *map = after;
            }
            map.taken.push(TakenOrder { id, refused: done.err() });
        }
        // Those whose keys are there still must not be taken again.
        while map.taken.len() > TAKEN_MAX
            && let Some(at) = map.taken.iter().position(|taken| !self.orders.contains_key(&taken.id))
        {
            map.taken.remove(at);
        }
    }

    fn situation(&mut self, map: &ShardMap, now: Monotonic) -> Situation {
        let mut nodes = BTreeMap::new();
        for (id, watched) in &self.nodes {
            let record = &watched.value;
            let ordered = map.leaving.get(id) == Some(&record.incarnation);
            let leaves = ordered || record.state == NodeState::Draining;
            let is_silent = !self.rules.burial_first && self.silence(watched, now) >= self.times.dead_ms;
            let node = PlacedNode {
                no: record.no,
                incarnation: record.incarnation,
                controls: record.roles.contains(&Role::Control),
                may_take: record.state == NodeState::Up
                    && record.roles.contains(&Role::Index)
                    && !leaves
                    && !is_silent,
                leaves,
                is_gone: record.state.is_gone() || is_silent,
                zone: record.zone.clone(),
                machine: record.machine,
                capacity: record.capacity,
            };
            nodes.insert(*id, node);
        }
        let mut ready = BTreeSet::new();
        let mut closed = BTreeMap::new();
        for shard in &map.shards {
            for replica in shard.replicas.iter().filter(|replica| replica.state == ReplicaState::Joining) {
                if self.is_ready(shard, replica.node) {
                    ready.insert((shard.id, replica.node));
                }
            }
            if let ShardState::Splitting { into, closed: None } = shard.state
                && let Some(ends) = self.ends(shard.id, into)
            {
                closed.insert(shard.id, ends);
            }
        }
        let is_joining = |(shard, node): &(ShardId, NodeId)| {
            map.shard(*shard).and_then(|shard| shard.replica(*node)) == Some(ReplicaState::Joining)
        };
        self.planning.goals.retain(|at, _| is_joining(at));
        let retired = map.shards.iter().filter(|shard| shard.state == ShardState::Retired);
        let since: BTreeMap<ShardId, Monotonic> = retired
            .map(|shard| (shard.id, self.planning.retired.get(&shard.id).copied().unwrap_or(now)))
            .collect();
        let is_over = |(_, since): &(&ShardId, &Monotonic)| now.since(**since) >= self.times.retired_ms;
        let over = since.iter().filter(is_over).map(|(shard, _)| *shard).collect();
        self.planning.retired = since;
        Situation { nodes, ready, closed, over }
    }

    /// Whether a replica that is being filled has all that the others had when it first had caught up.
    fn is_ready(&mut self, shard: &ShardEntry, id: NodeId) -> bool {
        let Some(node) = self.nodes.get(&id).filter(|node| !node.value.state.is_gone()) else { return false };
        let Some(report) = node.value.report.replicas.get(&shard.id) else { return false };
        if report.lag_ms.is_none_or(|lag| lag > LAG_MAX_MS) {
            return false;
        }
        let goal = match self.planning.goals.get(&(shard.id, id)) {
            Some(goal) => goal,
            None => {
                let goal = self.goal(shard);
                self.planning.goals.entry((shard.id, id)).or_insert(goal)
            }
        };
        report.mark.covers(goal)
    }

    /// Everything that some replica of a shard has, or its newest snapshot.
    fn goal(&self, shard: &ShardEntry) -> ReplicaMark {
        let mut goal = ReplicaMark::default();
        let reports =
            shard.asked().filter_map(|id| self.nodes.get(&id)?.value.report.replicas.get(&shard.id));
        let snapshot = self.snapshots.get(&shard.id).map(|snapshot| &snapshot.value);
        for mark in reports.map(|report| &report.mark).chain(snapshot) {
            for (agent, at) in &mark.from {
                let best = goal.from.entry(*agent).or_default();
                best.position = best.position.max(at.position);
            }
        }
        goal
    }

    /// Where a shard's log ends, once every agent writes to its halves instead.
    fn ends(&self, shard: ShardId, into: [ShardId; 2]) -> Option<BTreeMap<NodeNo, ArchivePosition>> {
        let mut ends = BTreeMap::new();
        for node in self.nodes.values().map(|node| &node.value) {
            let Some(no) = node.no.filter(|_| node.roles.contains(&Role::Crawl)) else { continue };
            let sent = &node.report.sent;
            let has_switched = into.iter().all(|half| sent.contains_key(half));
            if !has_switched && !node.state.is_gone() {
                return None;
            }
            if let Some(end) = sent.get(&shard) {
                ends.insert(no, *end);
            }
        }
        Some(ends)
    }

    fn trouble_of(&self, map: &ShardMap, situation: &Situation) -> Option<String> {
        let name =
            |id: NodeId| self.nodes.get(&id).map_or_else(|| id.to_string(), |node| node.value.name.clone());
        let is_there = |id: &NodeId| situation.nodes.get(id).is_none_or(|node| !node.is_gone);
        for shard in map.read() {
            let mut asked = shard.asked().peekable();
            if asked.peek().is_some() && !shard.asked().any(|id| is_there(&id)) {
                let names: Vec<String> = asked.map(name).collect();
                return Some(format!(
                    "shard {} was complete only on {}, which is gone: start that node again, or give up what only it had \
                     with `farol cluster remove`",
                    shard.id,
                    names.join(" and ")
                ));
            }
        }
        None
    }
}
