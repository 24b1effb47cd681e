//! What goes wrong, and what operators want, drawn at random.

use super::checkers::newest_route;
use super::world::{HoldEvent, HoldNode, HoldWorld};
use crate::cluster::node::Clock;
use farol_base::random::Random;
use farol_cluster::record::{ClusterRecord, write};
use farol_cluster::route::{Proposal, TableBlob};
use farol_cluster::{Key, NodeId, Revision, Write};
use farol_partition::table::Filter;
use farol_partition::{Block, RoutingTable};

/// Trouble ends here, and everything that can run runs again.
pub const HEALED: u64 = 240_000;
/// By then every page was visited, and every host has one asker.
pub const CONVERGED: u64 = HEALED + 260_000;

/// Three to six agents, of which some start later.
pub fn build(world: &mut HoldWorld) {
    let count = world.between(3, 6);
    for node in 0..count as usize {
        let clock = Clock { offset: world.random.below(1 << 30), rate: world.between(900_000, 1_100_000) };
        let id = NodeId(world.random.next_u64());
        world.nodes.push(HoldNode::new(id, clock));
        let is_late = world.chance(250);
        let at = if is_late { world.between(30_000, 150_000) } else { world.between(0, 12_000) };
        world.schedule(at, HoldEvent::Start { node });
    }
    let cluster = ClusterRecord {
        v: 1,
        id: format!("{}", world.random.next_u64()),
        created: 0,
        wire: 1,
        shards: 1,
        replicas: 1,
    };
    let first =
        Write { key: Key::Cluster.to_string(), value: Some(write(&cluster)), expected: Revision::NONE };
    world.kv.apply(&first, 0);
    // The seed of the crawl is known to everybody.
    let seed = (world.web.pages[0], 0);
    for node in &mut world.nodes {
        node.disk.hosts.entry(seed.0).or_default().pages.insert(seed.1, false);
    }
    world.lost = world.random.below(60);
    world.schedule(35_000, HoldEvent::Trouble);
}

/// One thing goes wrong, and the next is scheduled.
pub fn trouble(world: &mut HoldWorld) {
    if world.now >= HEALED {
        heal(world);
        return;
    }
    let next = (world.now + world.between(800, 12_000)).min(HEALED);
    world.schedule(next, HoldEvent::Trouble);
    let node = world.random.below(world.nodes.len() as u64) as usize;
    let length = if world.chance(300) { world.between(1_000, 8_000) } else { world.between(8_000, 70_000) };
    let until = world.now + length;
    match world.random.below(16) {
        0 | 1 => world.freeze(node, until),
        2 | 3 => {
            world.nodes[node].cut_until = until;
            world.note(|| format!("node {node} is cut off until {until}"));
        }
        4 | 5 => {
            world.kill(node);
            let at = if world.chance(500) { world.now + world.between(100, 3_000) } else { until };
            world.schedule(at, HoldEvent::Start { node });
        }
        6 => {
            world.away_until = world.away_until.max(until);
            world.note(|| format!("the tables are away until {until}"));
        }
        7 => world.slow_until = until,
        8 => for_good(world, node),
        9 => drain(world, node),
        10 => {
            let count = world.between(1, 10) as usize;
            world.lose_log(node, count);
        }
        11 | 12 => repartition(world),
        _ => {
            let host = world.random.below(world.web.hosts.len() as u64) as usize;
            let now = world.now;
            world.web.change(host, now, &mut world.random);
            world.note(|| format!("host {host} moves"));
        }
    }
}

/// Agents that stay whatever happens.
fn staying(world: &HoldWorld) -> usize {
    world.nodes.iter().filter(|node| !node.is_over && !node.drains).count()
}

/// A machine dies with its disk.
fn for_good(world: &mut HoldWorld, node: usize) {
    // Without a backup nobody could know what it had.
    let has_backup = world.nodes[node].member.no.is_some_and(|no| world.backups.contains_key(&no));
    if staying(world) > 2 && has_backup && !world.nodes[node].is_over {
        world.kill(node);
        world.nodes[node].is_over = true;
        world.note(|| format!("node {node} is gone for good"));
    }
}

fn drain(world: &mut HoldWorld, node: usize) {
    if staying(world) > 2 && !world.nodes[node].is_over && world.nodes[node].process.is_some() {
        world.nodes[node].drains = true;
        world.note(|| format!("node {node} is to leave"));
    }
}

/// Somebody has worked out another table.
fn repartition(world: &mut HoldWorld) {
    let Some(route) = newest_route(&world.kv) else { return };
    let members: Vec<_> = route.owners().collect();
    if members.is_empty() {
        return;
    }
    let name = format!("route/{}", world.files.len());
    let destinations = members.iter().map(|no| no.to_string()).collect();
    let mut table = RoutingTable { version: 1, destinations, ..RoutingTable::default() };
    for address in world.web.addresses.clone() {
        if world.chance(800) {
            let owner = world.random.below(members.len() as u64) as u32;
            table.blocks.insert(Block::single(address), owner);
        }
    }
    // The operator has given some hosts to somebody, wherever they are.
    for host in 0..world.web.hosts.len() {
        if world.chance(100) {
            let domain = world.web.hosts[host].name.trim_start_matches("http://").to_string();
            let owner = world.random.below(members.len() as u64) as u32;
            table.filters.push((Filter::Domain(domain), owner));
        }
    }
    world.files.insert(name.clone(), table);
    let table = Some(TableBlob { name, digest: String::new() }).filter(|_| world.random.below(8) > 0);
    let now = world.now;
    let proposal = Proposal { table, members: members.into_iter().collect(), why: "better".to_string() };
    for node in &mut world.nodes {
        if let Some(control) = node.control(now) {
            control.propose(proposal.clone());
        }
    }
}

/// Everything that can run does, and nothing gets lost any more.
fn heal(world: &mut HoldWorld) {
    world.note(|| "trouble is over".to_string());
    (world.lost, world.away_until, world.slow_until) = (0, 0, 0);
    for node in 0..world.nodes.len() {
        world.nodes[node].cut_until = 0;
        world.start(node);
    }
}
