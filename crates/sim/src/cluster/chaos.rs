//! What goes wrong, and what operators want, drawn at random.

use super::node::{Clock, Node, NodeDisk};
use super::world::{ClusterWorld, Incident};
use farol_base::random::Random;
use farol_cluster::order::{Order, OrderId, place};
use farol_cluster::record::{ClusterRecord, write};
use farol_cluster::{Key, NodeId, Revision, Role, ShardId, ShardMap, Write};

/// Trouble ends here, and everything that can run runs again.
pub const HEALED: u64 = 220_000;
/// By then the cluster must be as it should be.
pub const CONVERGED: u64 = HEALED + 120_000;
/// Or by then, where operators' orders waited for the trouble to end.
pub const ORDERED: u64 = HEALED + 240_000;
/// Then it must be quiet for so long.
pub const QUIET: u64 = 20_000;

/// A cluster of three to six nodes on as many machines or fewer.
pub fn build(world: &mut ClusterWorld) {
    let count = world.between(3, 6) as usize;
    let machines = world.between(3, count as u64) as usize;
    world.boots = (0..machines).map(|_| world.random.next_u64() >> 12).collect();
    let agents = world.between(1, 2) as usize;
    let controls = world.between(2, 3) as usize;
    for i in 0..count {
        let mut roles = [Role::Index].into_iter().collect::<std::collections::BTreeSet<_>>();
        if i < agents {
            roles.insert(Role::Crawl);
        }
        if i + controls >= count {
            roles.insert(Role::Control);
        }
        if world.chance(500) {
            roles.insert(Role::Rank);
        }
        let clock = Clock { offset: world.random.below(1 << 30), rate: world.between(900_000, 1_100_000) };
        let id = NodeId(world.random.next_u64());
        world.nodes.push(Node {
            id,
            folder: i as u64,
            machine: i % machines,
            roles,
            disk: NodeDisk::default(),
            clock,
            process: None,
            generation: 0,
            paused_until: 0,
            cut_until: 0,
            is_over: false,
            is_twin: false,
        });
        let at = world.between(0, 15_000);
        world.schedule(at, Incident::Start { node: i });
    }
    let (shards, replicas) = (world.between(1, 4) as u32, world.between(1, 3) as u32);
    let cluster = ClusterRecord { v: 1, id: "simulated".to_string(), created: 0, wire: 1, shards, replicas };
    let first =
        Write { key: Key::Cluster.to_string(), value: Some(write(&cluster)), expected: Revision::NONE };
    world.kv.apply(&first, 0);
    world.weather.lost = world.random.below(60);
    world.weather.caught = world.random.below(30);
    world.schedule(30_000, Incident::Trim);
    world.schedule(40_000, Incident::Trouble);
    world.crawl_until = HEALED;
}

/// One thing goes wrong, and the next is scheduled.
pub fn trouble(world: &mut ClusterWorld) {
    if world.now >= HEALED {
        heal(world);
        return;
    }
    let next = (world.now + world.between(1_000, 14_000)).min(HEALED);
    world.schedule(next, Incident::Trouble);
    let node = world.random.below(world.nodes.len() as u64) as usize;
    let length = if world.chance(300) { world.between(1_000, 8_000) } else { world.between(8_000, 70_000) };
    let until = world.now + length;
    match world.random.below(14) {
        0 | 1 => {
            world.nodes[node].paused_until = until;
            world.note(|| format!("node {node} is stopped until {until}"));
        }
        2 | 3 => {
            world.nodes[node].cut_until = until;
            world.note(|| format!("node {node} is cut off until {until}"));
        }
        4 | 5 => {
            world.kill(node);
            let at = if world.chance(500) { world.now + world.between(100, 3_000) } else { until };
            world.schedule(at, Incident::Start { node });
        }
        6 => away(world, until),
        7 => {
            world.weather.slow_until = until;
            world.note(|| format!("everything is slow until {until}"));
        }
        8 => machine_dies(world, node, until),
        9 => twin(world, node, until),
        10 => lose_log(world),
        _ => order(world),
    }
}

fn away(world: &mut ClusterWorld, until: u64) {
    let is_away = world.weather.away_until >= world.now;
    let from = if is_away { world.checker.outage.0 } else { world.now };
    let until = until.max(world.weather.away_until);
    world.weather.away_until = until;
    world.checker.outage = (from, until);
    world.note(|| format!("the tables are away until {until}"));
}

/// Whether a node will still be there to lead when all orders were taken.
fn can_lead(node: &Node, map: &ShardMap) -> bool {
    !node.is_over
        && !node.is_twin
        && !map.leaving.contains_key(&node.id)
        && node.roles.contains(&Role::Control)
}

/// All nodes of a machine die; it comes back with its disks, or never.
fn machine_dies(world: &mut ClusterWorld, node: usize, until: u64) {
    let machine = world.nodes[node].machine;
    let lost: Vec<usize> = (0..world.nodes.len()).filter(|i| world.nodes[*i].machine == machine).collect();
    let map =
        super::checkers::newest::<ShardMap>(&world.kv, Key::Shards).unwrap_or_else(|| ShardMap::new(1, 1));
    let rest = || world.nodes.iter().filter(|other| other.machine != machine);
    let leaders = rest().filter(|other| can_lead(other, &map)).count();
    let others = rest().filter(|other| !other.is_over && !other.is_twin).count();
    let has_agent = lost.iter().any(|i| world.nodes[*i].roles.contains(&Role::Crawl));
    let is_ordered = world.kv.keys("order.").next().is_some();
    let is_for_ever = !has_agent && leaders > usize::from(is_ordered) && others > 1 && world.chance(500);
    world.boots[machine] = world.random.next_u64() >> 12;
    world.note(|| format!("machine {machine} dies{}", if is_for_ever { " for good" } else { "" }));
    for i in lost {
        world.kill(i);
        if is_for_ever {
            world.nodes[i].is_over = true;
        } else {
            world.schedule(until, Incident::Start { node: i });
        }
    }
}

/// Somebody copies a folder to another machine and starts it there.
fn twin(world: &mut ClusterWorld, node: usize, until: u64) {
    let original = &world.nodes[node];
    let has_twin = world.nodes.iter().filter(|other| other.id == original.id).count() > 1;
    if has_twin || original.is_over || original.roles.contains(&Role::Crawl) || original.process.is_none() {
        return;
    }
    let copy = Node {
        id: original.id,
        folder: 100 + world.nodes.len() as u64,
        machine: (original.machine + 1) % world.boots.len(),
        roles: original.roles.clone(),
        disk: original.disk.clone(),
        clock: Clock { offset: 7, rate: 2_000_000 - original.clock.rate },
        process: None,
        generation: 0,
        paused_until: 0,
        cut_until: 0,
        is_over: false,
        is_twin: true,
    };
    let at = world.nodes.len();
    world.nodes.push(copy);
    world.note(|| format!("node {at} is a copy of node {node}"));
    world.start(at);
    if world.chance(600) {
        world.nodes[node].paused_until = until;
        world.note(|| format!("node {node} is stopped until {until}"));
    }
}

fn lose_log(world: &mut ClusterWorld) {
    let shards: Vec<ShardId> = world.logs.keys().copied().collect();
    let Some(shard) = shards.get(world.random.below(shards.len() as u64) as usize).copied() else { return };
    let (is_whole, count, stream) =
        (world.chance(300), world.between(1, 12) as usize, world.random.next_u64());
    if let Some(log) = world.logs.get_mut(&shard) {
        if is_whole {
            log.lose_all(stream);
        } else {
            log.lose_end(count);
        }
    }
    world.note(|| format!("the log of shard {shard} loses {}", if is_whole { "all" } else { "its end" }));
}

/// An operator wants something.
fn order(world: &mut ClusterWorld) {
    if world.now + 40_000 > HEALED {
        return;
    }
    let Some(map) = super::checkers::newest::<ShardMap>(&world.kv, Key::Shards) else { return };
    let shard = map.shards[world.random.below(map.shards.len() as u64) as usize].id;
    let some_node = |world: &mut ClusterWorld| {
        let at = world.random.below(world.nodes.len() as u64) as usize;
        world.nodes[at].id
    };
    let (from, to) = (some_node(world), some_node(world));
    let draining = world.nodes.iter().find(|node| node.id == from);
    let may_drain = draining.is_some_and(|node| !node.roles.contains(&Role::Crawl) && !node.is_over)
        && world.nodes.iter().filter(|node| can_lead(node, &map)).count() > 1;
    let wanted = match world.random.below(6) {
        0 if map.shards.len() < 8 => Order::Split { shard },
        1 => Order::Move { shard, from, to },
        2 => Order::Replicas { copies: world.between(1, 3) as u32 },
        3 => Order::AddReplica { shard, node: None },
        4 if may_drain => Order::Drain { node: from },
        _ => Order::Rebalance,
    };
    let id = OrderId(world.random.next_u64());
    world.note(|| format!("an operator orders {wanted:?}"));
    let now = world.now;
    world.kv.apply(&place(id, wanted), now);
}

/// Whoever had the only complete replica and will not come back is removed by an operator, as the cluster asks for.
pub fn give_up(world: &mut ClusterWorld) {
    let Some(map) = super::checkers::newest::<ShardMap>(&world.kv, Key::Shards) else { return };
    let is_lost =
        |id: NodeId| !world.nodes.iter().any(|node| node.id == id && !node.is_over && node.process.is_some());
    let stuck = map.read().filter(|shard| shard.asked().next().is_some() && shard.asked().all(is_lost));
    let lost: std::collections::BTreeSet<NodeId> = stuck.flat_map(|shard| shard.asked()).collect();
    for node in lost {
        world.note(|| format!("an operator gives up node {node}"));
        world.has_orders = true;
        world.checker.removed.insert(node);
        let (id, now) = (OrderId(world.random.next_u64()), world.now);
        world.kv.apply(&place(id, Order::Remove { node }), now);
    }
}

/// Everything that can run does, and nothing gets lost any more.
pub fn heal(world: &mut ClusterWorld) {
    world.note(|| "trouble is over".to_string());
    let map = super::checkers::newest::<ShardMap>(&world.kv, Key::Shards);
    let is_busy = map.is_none_or(|map| {
        map.rebalance || !map.leaving.is_empty() || map.shards.iter().any(|shard| !shard.is_settled())
    });
    world.has_orders = is_busy || world.kv.keys("order.").next().is_some();
    world.weather = Default::default();
    world.schedule(HEALED + 100_000, Incident::GiveUp);
    if world.checker.outage.1 > world.now {
        world.checker.outage.1 = world.now;
    }
    for node in 0..world.nodes.len() {
        world.nodes[node].paused_until = world.now;
        world.nodes[node].cut_until = 0;
        if world.nodes[node].is_twin {
            world.kill(node);
            world.nodes[node].is_over = true;
        } else {
            world.start(node);
        }
    }
}
