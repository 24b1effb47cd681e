//! The planner, against histories of nodes and orders.

use super::*;
use crate::order::Order;
use crate::shards::take_order;
use proptest::prelude::*;

fn node(zone: &str, machine: u64) -> PlacedNode {
    PlacedNode {
        no: None,
        incarnation: 1,
        controls: true,
        may_take: true,
        leaves: false,
        is_gone: false,
        zone: zone.to_string(),
        machine,
        capacity: 100,
    }
}

/// Nodes 1, 2, … in one zone and on one machine.
fn nodes(count: u64) -> BTreeMap<NodeId, PlacedNode> {
    (1..=count).map(|id| (NodeId(id), node("", 0))).collect()
}

/// Plans until nothing changes; whoever joins is filled at once, and logs that are left are closed.
fn settle(mut map: ShardMap, nodes: &BTreeMap<NodeId, PlacedNode>) -> ShardMap {
    for step in 0.. {
        assert!(step < 200, "no fixed point: {map:?}");
        map.check().unwrap();
        let mut situation = Situation { nodes: nodes.clone(), ..Situation::default() };
        for shard in &map.shards {
            situation.ready.extend(shard.replicas.iter().map(|replica| (shard.id, replica.node)));
            situation.closed.insert(shard.id, BTreeMap::new());
        }
        match plan(&map, &situation) {
            Some(next) => map = next,
            None => break,
        }
    }
    map
}

fn loads(map: &ShardMap, nodes: &BTreeMap<NodeId, PlacedNode>) -> Vec<usize> {
    let shards = |id: &NodeId| map.read().filter(|shard| shard.replica(*id).is_some()).count();
    nodes.iter().filter(|(_, node)| node.may_take).map(|(id, _)| shards(id)).collect()
}

fn is_even(map: &ShardMap, nodes: &BTreeMap<NodeId, PlacedNode>) -> bool {
    let loads = loads(map, nodes);
    loads.iter().max().unwrap_or(&0) - loads.iter().min().unwrap_or(&0) <= 1
}

fn homes(map: &ShardMap) -> BTreeSet<(ShardId, NodeId)> {
    map.read().flat_map(|shard| shard.replicas.iter().map(|replica| (shard.id, replica.node))).collect()
}

fn states(shard: &ShardEntry) -> Vec<(u64, ReplicaState)> {
    shard.replicas.iter().map(|replica| (replica.node.0, replica.state)).collect()
}

#[test]
fn a_new_replica_serves_once_it_is_filled_and_only_then_another_leaves() {
    let nodes = nodes(2);
    let mut map = settle(ShardMap::new(1, 1), &nodes);
    let from = map.shards[0].replicas[0].node;
    let to = NodeId(3 - from.0);
    let mut situation = Situation { nodes, ..Situation::default() };
    take_order(&mut map, &Order::Move { shard: ShardId(0), from, to }, &situation).unwrap();
    let during = [(from.0, ReplicaState::Leaving), (to.0, ReplicaState::Joining)];
    assert_eq!(states(&map.shards[0]), during);
    let waiting = plan(&map, &situation).unwrap_or(map);
    assert_eq!(states(&waiting.shards[0]), during, "whoever leaves is asked until the other is filled");
    situation.ready.insert((ShardId(0), to));
    let after = plan(&waiting, &situation).unwrap();
    assert_eq!(states(&after.shards[0]), [(to.0, ReplicaState::Serving)]);
    assert_eq!(after.shards[0].keeper, Some(to));
}

#[test]
fn the_last_replica_stays_in_the_map_when_its_node_is_gone() {
    let mut nodes = nodes(2);
    let map = settle(ShardMap::new(1, 1), &nodes);
    let home = map.shards[0].replicas[0].node;
    nodes.get_mut(&home).unwrap().is_gone = true;
    nodes.get_mut(&home).unwrap().may_take = false;
    let mut situation = Situation { nodes, ..Situation::default() };
    let next = plan(&map, &situation).unwrap();
    let other = 3 - home.0;
    let both = [(home.0, ReplicaState::Serving), (other, ReplicaState::Joining)];
    assert_eq!(states(&next.shards[0]), both);
    assert_eq!(plan(&next, &situation), None);
    situation.ready.insert((ShardId(0), NodeId(other)));
    let full = plan(&next, &situation).unwrap();
    assert_eq!(states(&full.shards[0]), [(other, ReplicaState::Serving)]);
    // An operator who gives the node up gives up what only it had.
    let mut given_up = next;
    take_order(&mut given_up, &Order::Remove { node: home }, &situation).unwrap();
    assert_eq!(states(&given_up.shards[0]), [(other, ReplicaState::Joining)]);
}

#[test]
fn a_node_that_is_away_for_a_moment_keeps_everything_and_costs_nobody_a_replica() {
    let mut nodes = nodes(3);
    let map = settle(ShardMap::new(4, 3), &nodes);
    nodes.get_mut(&NodeId(2)).unwrap().may_take = false;
    assert_eq!(plan(&map, &Situation { nodes: nodes.clone(), ..Situation::default() }), None);
    nodes.remove(&NodeId(2));
    assert_eq!(plan(&map, &Situation { nodes, ..Situation::default() }), None, "not even heard of");
}

#[test]
fn a_split_goes_through_its_states() {
    let nodes = nodes(2);
    let mut map = settle(ShardMap::new(1, 2), &nodes);
    let mut situation = Situation { nodes, ..Situation::default() };
    take_order(&mut map, &Order::Split { shard: ShardId(0) }, &situation).unwrap();
    map.check().unwrap();
    let read = |map: &ShardMap| map.read().map(|shard| shard.id.0).collect::<Vec<_>>();
    let written = |map: &ShardMap| map.written().map(|shard| shard.id.0).collect::<Vec<_>>();
    assert_eq!((read(&map), written(&map)), (vec![0], vec![1, 2]));
    assert_eq!((map.shards[1].from, map.shards[1].to), (0, u64::MAX / 2));
    assert!(take_order(&mut map.clone(), &Order::Split { shard: ShardId(0) }, &situation).is_err());
    situation.closed.insert(ShardId(0), [(NodeNo(3), ArchivePosition { file: 0, offset: 9 })].into());
    let map = plan(&map, &situation).unwrap();
    let mark = |offset| {
        let position = ArchivePosition { file: 0, offset };
        let mark = crate::record::AgentMark { position, number: 0 };
        crate::record::ReplicaMark { from: [(NodeNo(3), mark)].into(), ..Default::default() }
    };
    assert!(!map.shards[0].may_divide(&mark(8), 0) && map.shards[0].may_divide(&mark(9), 0));
    assert!(map.shards[0].may_divide(&mark(8), 60_000));
    for half in [1, 2] {
        situation.ready.extend([1, 2].map(|node| (ShardId(half), NodeId(node))));
    }
    let map = plan(&map, &situation).unwrap();
    assert_eq!((read(&map), written(&map)), (vec![1, 2], vec![1, 2]));
    assert_eq!(map.shards[0].state, ShardState::Retired);
    situation.over.insert(ShardId(0));
    let map = plan(&map, &situation).unwrap();
    assert_eq!(map.shards.len(), 2);
    map.check().unwrap();
}

#[test]
fn halves_form_on_a_node_that_leaves_where_only_that_has_their_parent() {
    let mut nodes = nodes(2);
    let mut map = settle(ShardMap::new(1, 1), &nodes);
    let home = map.shards[0].replicas[0].node;
    let situation = Situation { nodes: nodes.clone(), ..Situation::default() };
    take_order(&mut map, &Order::Split { shard: ShardId(0) }, &situation).unwrap();
    let leaving = nodes.get_mut(&home).unwrap();
    (leaving.leaves, leaving.may_take) = (true, false);
    // Nobody can fill another replica of the parent any more: its log is written no more.
    let mut situation = Situation { nodes: nodes.clone(), ..Situation::default() };
    situation.closed.insert(ShardId(0), BTreeMap::new());
    while let Some(next) = plan(&map, &situation) {
        map = next;
    }
    assert!(map.shards[1..].iter().all(|half| half.replica(home) == Some(ReplicaState::Joining)), "{map:?}");
    situation.ready.extend([(ShardId(1), home), (ShardId(2), home)]);
    map = plan(&map, &situation).unwrap();
    assert_eq!(map.read().map(|shard| shard.id.0).collect::<Vec<_>>(), [1, 2]);
    let map = settle(map, &nodes);
    assert!(map.read().all(|half| half.replica(home).is_none() && half.asked().count() == 1), "{map:?}");
}

#[test]
fn replicas_are_apart_by_zone_and_then_by_machine() {
    let zones = [("a", 1), ("a", 1), ("a", 2), ("b", 3), ("b", 3), ("b", 4)];
    let nodes: BTreeMap<NodeId, PlacedNode> =
        (1..).zip(zones).map(|(id, (zone, machine))| (NodeId(id), node(zone, machine))).collect();
    let map = settle(ShardMap::new(8, 4), &nodes);
    for shard in map.read() {
        let at = |key: &dyn Fn(&PlacedNode) -> String| {
            let keys: BTreeSet<String> = shard.asked().map(|id| key(&nodes[&id])).collect();
            keys.len()
        };
        assert_eq!(
            (at(&|node| node.zone.clone()), at(&|node| node.machine.to_string())),
            (2, 4),
            "{shard:?}"
        );
    }
}

#[test]
fn what_cannot_be_done_is_refused_with_a_sentence() {
    let mut nodes = nodes(2);
    nodes.get_mut(&NodeId(2)).unwrap().may_take = false;
    nodes.get_mut(&NodeId(2)).unwrap().controls = false;
    let map = settle(ShardMap::new(1, 1), &nodes);
    let situation = Situation { nodes, ..Situation::default() };
    let (shard, one, two) = (ShardId(0), NodeId(1), NodeId(2));
    let check = |order: Order, want: &str| {
        let why = take_order(&mut map.clone(), &order, &situation).unwrap_err();
        assert!(why.contains(want), "{why}");
    };
    check(Order::Move { shard, from: one, to: two }, "takes no replicas");
    check(Order::Move { shard, from: two, to: one }, "has a replica of shard 0 already");
    check(Order::Split { shard: ShardId(9) }, "no shard 9");
    check(Order::AddReplica { shard, node: None }, "add a node first");
    check(Order::Drain { node: NodeId(9) }, "no node");
    check(Order::Drain { node: one }, "the last that may lead");
    check(Order::Remove { node: one }, "drain it instead");
    check(Order::Replicas { copies: 0 }, "not 0");
}

proptest! {
    #[test]
    fn any_history_of_nodes_and_orders_ends_in_an_even_map_that_tiles(
        shards in 1u32..20,
        copies in 1u32..4,
        count in 1u64..8,
        steps in proptest::collection::vec((0u8..6, 1u64..9, 0u32..40), 0..12),
    ) {
        let mut nodes = nodes(count);
        let mut map = settle(ShardMap::new(shards, copies), &nodes);
        prop_assert!(is_even(&map, &nodes), "at birth {:?}", loads(&map, &nodes));
        for (what, id, shard) in steps {
            let situation = Situation { nodes: nodes.clone(), ..Situation::default() };
            let (id, shard) = (NodeId(id), ShardId(shard));
            let order = match what {
                0 => { nodes.insert(id, node("", 0)); None }
                1 if nodes.len() > 1 => {
                    nodes.entry(id).and_modify(|node| (node.is_gone, node.may_take) = (true, false));
                    None
                }
                2 if map.shards.len() < 40 => Some(Order::Split { shard }),
                3 => Some(Order::Replicas { copies: 1 + shard.0 % 3 }),
                4 => Some(Order::AddReplica { shard, node: None }),
                _ => nodes.keys().next().map(|from| Order::Move { shard, from: *from, to: id }),
            };
            // What cannot be done is refused, and changes nothing.
            if let Some(order) = order {
                let _ = take_order(&mut map, &order, &situation);
            }
            map = settle(map, &nodes);
            let can_hold = nodes.values().filter(|node| node.may_take).count();
            for shard in map.read() {
                let wanted = ((map.copies + shard.extra) as usize).min(can_hold);
                let alive = shard.asked().filter(|id| nodes[id].may_take).count();
                prop_assert!(alive >= wanted, "{shard:?} wants {wanted}");
            }
        }
        let situation = Situation { nodes: nodes.clone(), ..Situation::default() };
        take_order(&mut map, &Order::Rebalance, &situation).unwrap();
        map = settle(map, &nodes);
        if nodes.values().any(|node| node.may_take) {
            prop_assert!(!map.rebalance && is_even(&map, &nodes), "{:?}", loads(&map, &nodes));
        }
    }

    /// A node more takes over its share and no more; a node less costs what it had and no more.
    #[test]
    fn joining_and_leaving_move_little(shards in 1u32..40, copies in 1u32..4, count in 4u64..10) {
        let mut nodes = nodes(count);
        let map = settle(ShardMap::new(shards, copies), &nodes);
        let before = homes(&map);
        nodes.insert(NodeId(100), node("", 0));
        let same = settle(map.clone(), &nodes);
        prop_assert_eq!(&same, &map, "nobody asked for moves");
        let mut joined = map;
        take_order(&mut joined, &Order::Rebalance, &Situation::default()).unwrap();
        let joined = settle(joined, &nodes);
        let moved = homes(&joined).difference(&before).count();
        prop_assert!(moved <= before.len() / (count as usize + 1) + 1, "{moved} of {}", before.len());
        let gone = nodes.get_mut(&NodeId(1)).unwrap();
        (gone.is_gone, gone.may_take) = (true, false);
        let had = joined.read().filter(|shard| shard.replica(NodeId(1)).is_some()).count();
        let left = settle(joined.clone(), &nodes);
        prop_assert_eq!(homes(&left).difference(&homes(&joined)).count(), had);
    }
}
