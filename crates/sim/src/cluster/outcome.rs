//! How a healed cluster must look.

use super::chaos::QUIET;
use super::checkers::{Violation, broken, newest};
use super::world::ClusterWorld;
use farol_cluster::record::NodeRecord;
use farol_cluster::{Key, Phase, ReplicaState, Role, ShardMap, ShardState};

/// Two minutes after the last trouble everything is as it should be.
pub fn check_converged(world: &ClusterWorld) -> Result<(), Violation> {
    let fail = |what: String| broken("converges", what);
    let leaders = world.nodes.iter().filter(|node| node.term(world.now).is_some()).count();
    if leaders != 1 {
        return fail(format!("{leaders} nodes lead"));
    }
    let Some(map) = newest::<ShardMap>(&world.kv, Key::Shards) else {
        return fail("there is no map".to_string());
    };
    let mut can_hold = 0;
    for (i, node) in world.nodes.iter().enumerate().filter(|(_, node)| !node.is_over) {
        let Some(process) = &node.process else { return fail(format!("node {i} does not run")) };
        let phase = process.member.phase();
        let drains = map.leaving.contains_key(&node.id);
        if !node.is_active(world.now) || (*phase != Phase::Up && !drains) {
            return fail(format!("node {i} is {phase:?}: {:?}", process.member.trouble()));
        }
        let is_fresh = world.kv.table_writes_since(world.now.saturating_sub(10_000)) > 0;
        if process.member.shards() != Some(&map) && !is_fresh {
            return fail(format!("node {i} has not seen the newest map"));
        }
        can_hold += usize::from(node.roles.contains(&Role::Index) && *phase == Phase::Up);
    }
    if let Some(order) = world.kv.keys("order.").next() {
        return fail(format!("{order} was not taken"));
    }
    if map.rebalance {
        return fail("replicas are still being spread".to_string());
    }
    for shard in map.shards.iter().filter(|shard| shard.state != ShardState::Retired) {
        if shard.state != ShardState::Serving {
            return fail(format!("shard {} is {:?}", shard.id, shard.state));
        }
        let wanted = ((map.copies + shard.extra) as usize).min(can_hold);
        let serving = shard.replicas.iter().filter(|replica| replica.state == ReplicaState::Serving);
        let is_there = |id| {
            let mut nodes = world.nodes.iter().filter(|node| node.id == id);
            nodes.any(|node| node.is_active(world.now))
        };
        let there = serving.filter(|replica| is_there(replica.node)).count();
        if there != shard.replicas.len() || there < wanted {
            return fail(format!(
                "shard {} has {there} of {wanted} replicas: {:?}",
                shard.id, shard.replicas
            ));
        }
    }
    check_documents(world, &map)
}

/// Who stands where, for whoever looks for the cause of a failure.
pub fn describe(world: &ClusterWorld) -> Vec<String> {
    let mut lines = Vec::new();
    for (i, node) in world.nodes.iter().enumerate() {
        let process = node.process.as_ref();
        let phase = process.map(|process| process.member.phase());
        let term = node.term(world.now);
        let trouble =
            process.and_then(|process| process.control.as_ref()).and_then(|control| control.trouble());
        let roles = &node.roles;
        let over = node.is_over;
        lines.push(format!("node {i} {} {phase:?} over {over} term {term:?} {roles:?} {trouble:?}", node.id));
        for (shard, replica) in process.into_iter().flat_map(|process| &process.replicas) {
            let files = node.disk.replicas.get(shard);
            lines.push(format!("  shard {shard}: {:?}", files.map(|files| replica.report(files, world.now))));
        }
    }
    if let Some(map) = newest::<ShardMap>(&world.kv, Key::Shards) {
        lines.push(format!("copies {} leaving {:?} rebalance {}", map.copies, map.leaving, map.rebalance));
        lines.extend(map.shards.iter().map(|shard| format!("{shard:?}")));
    }
    lines
}

/// Every page of every archive is in every replica that is asked.
fn check_documents(world: &ClusterWorld, map: &ShardMap) -> Result<(), Violation> {
    let agents = world.nodes.iter().filter(|node| node.roles.contains(&Role::Crawl));
    let pages: Vec<u64> = agents.flat_map(|node| node.disk.agent.archive.iter().copied()).collect();
    for shard in map.read() {
        for id in shard.asked() {
            let Some(node) = world.nodes.iter().find(|node| node.id == id && node.process.is_some()) else {
                continue;
            };
            let files = node.disk.replicas.get(&shard.id);
            let has = |page: &u64| files.is_some_and(|files| files.pages.contains(page));
            let all = pages.iter().filter(|page| (shard.from..=shard.to).contains(page));
            let lost = all.filter(|page| !has(page)).count();
            if lost > 0 {
                let what = format!("the replica of shard {} on node {id} lacks {lost} pages", shard.id);
                return broken("no lost document", what);
            }
        }
    }
    Ok(())
}

/// A cluster to which nothing happens writes its leases and nothing else, and keeps nothing for ever.
pub fn check_quiet(world: &ClusterWorld, since: u64) -> Result<(), Violation> {
    let tables = world.kv.table_writes_since(since);
    // Retired shards may be forgotten in this time.
    if tables > 4 {
        return broken("bounded", format!("{tables} tables were written in {} s of quiet", QUIET / 1000));
    }
    let keys = world.kv.keys("").count();
    let nodes = world.kv.keys("node.").count();
    let snapshots = world.kv.keys("snap.").count();
    if keys > nodes + snapshots + 8 {
        return broken("bounded", format!("{keys} keys for {nodes} nodes and {snapshots} snapshots"));
    }
    for key in world.kv.keys("node.") {
        let value = world.kv.newest(key).and_then(|version| version.value.as_deref());
        let record = value.and_then(|value| farol_cluster::record::read::<NodeRecord>(key, value).ok());
        let Some(record) = record else { return broken("bounded", format!("{key} cannot be read")) };
        if record.incarnation > 100 {
            return broken("bounded", format!("node {} began {} times", record.id, record.incarnation));
        }
    }
    Ok(())
}
