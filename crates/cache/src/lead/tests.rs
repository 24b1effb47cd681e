//! Membership, heat and borders as the leader decides them.

use super::*;
use crate::front::{FrontRouter, FrontRules};
use crate::tables::{FrontId, NodeTally};
use farol_base::random::mix;

fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn beat(incarnation: u64) -> Beat {
    Beat { incarnation, capacity: 1000, ..Beat::default() }
}

/// A leader with these nodes on the ring, which all beat at 1 s.
fn leader(rules: LeaderRules, nodes: &[u16]) -> Leader<u64> {
    let mut leader = Leader::new(rules, 1, 42, at(0));
    nodes.iter().for_each(|node| leader.beat(NodeId(*node), &beat(1), at(1_000)));
    leader.tick(at(1_300));
    assert_eq!(leader.ring().len(), nodes.len());
    leader
}

fn rings(published: Vec<Publish<u64>>) -> Vec<RingDoc> {
    published
        .into_iter()
        .filter_map(|one| if let Publish::Ring(doc) = one { Some(doc) } else { None })
        .collect()
}

fn hots(published: Vec<Publish<u64>>) -> Vec<HotDoc> {
    published
        .into_iter()
        .filter_map(|one| if let Publish::Hot(doc) = one { Some(doc) } else { None })
        .collect()
}

fn report(front: u64, number: u64, refusing: &[u16]) -> FrontReport<u64> {
    let tally = |node: u16| NodeTally {
        node: NodeId(node),
        sent: 0,
        owned: 0,
        late: 0,
        refused: 0,
        refusing_ms: refusing.contains(&node).then_some(2_000),
    };
    FrontReport {
        front: FrontId(front),
        incarnation: 1,
        number,
        ring: Epoch::default(),
        nodes: (0..8).map(tally).collect(),
        density: Default::default(),
        minute: None,
        raised: Vec::new(),
    }
}

#[test]
fn nodes_that_come_together_get_equal_shares_in_one_epoch() {
    let mut leader: Leader<u64> = Leader::new(LeaderRules::default(), 3, 42, at(0));
    for (node, millis) in [(5u16, 1_000), (900, 1_100), (65_535, 1_250)] {
        leader.beat(NodeId(node), &beat(1), at(millis));
        assert!(leader.tick(at(millis)).is_empty());
    }
    let docs = rings(leader.tick(at(1_300)));
    assert_eq!(docs.len(), 1);
    assert_eq!((docs[0].epoch, docs[0].check()), (Epoch { term: 3, version: 1 }, Ok(())));
    assert!((0..3).all(|place| (docs[0].ring.width(place) - 1.0 / 3.0).abs() < 1e-9));
    assert!(leader.tick(at(1_400)).is_empty(), "nothing has changed");
}

#[test]
fn who_misses_six_beats_is_gone_and_comes_back_to_its_old_place() {
    let mut leader = leader(LeaderRules::default(), &[0, 1, 2, 3]);
    let before = leader.ring().clone();
    let beats = |leader: &mut Leader<u64>, nodes: &[u16], millis: u64| {
        nodes.iter().for_each(|node| leader.beat(NodeId(*node), &beat(1), at(millis)));
        rings(leader.tick(at(millis)))
    };
    // Two die together: one epoch.
    let mut epochs = Vec::new();
    for step in 1..12 {
        epochs.extend(beats(&mut leader, &[0, 3], 1_000 + 1_200 * step).into_iter().map(|doc| (step, doc)));
    }
    assert_eq!(epochs.len(), 1, "{epochs:?}");
    let (step, doc) = &epochs[0];
    assert!((6..=8).contains(step), "{step}");
    assert_eq!(doc.ring.nodes().collect::<Vec<_>>(), [0, 3].map(NodeId));
    // Late beats of an earlier life are not heard; one comes back with a new one.
    leader.beat(NodeId(1), &beat(2), at(15_000));
    leader.beat(NodeId(1), &beat(1), at(15_001));
    let doc = rings(leader.tick(at(15_300))).remove(0);
    let place = doc.ring.place(NodeId(1)).unwrap();
    assert_eq!(doc.ring.ends()[place], before.ends()[1]);
    assert_eq!(doc.nodes[1].incarnation, 2);
    // A restart so quick that nobody missed a beat changes no border, and is told.
    leader.beat(NodeId(1), &beat(3), at(15_400));
    let again = rings(leader.tick(at(15_400))).remove(0);
    assert_eq!((again.ring, again.nodes[1].incarnation), (doc.ring, 3));
}

#[test]
fn who_leaves_does_not_come_back_with_its_next_beat() {
    let mut leader = leader(LeaderRules::default(), &[0, 1, 2]);
    leader.leave(NodeId(1), at(2_000));
    assert_eq!(rings(leader.tick(at(2_300)))[0].ring.len(), 2);
    leader.beat(NodeId(1), &beat(1), at(2_400));
    assert!(leader.tick(at(3_000)).is_empty());
    leader.beat(NodeId(1), &beat(2), at(3_100));
    assert_eq!(rings(leader.tick(at(3_400)))[0].ring.len(), 3, "a new start is a new will");
}

#[test]
fn whom_most_fronts_cannot_reach_is_taken_out_for_a_while() {
    let mut leader = leader(LeaderRules::default(), &[0, 1, 2, 3, 4, 5, 6, 7]);
    let all = |leader: &mut Leader<u64>, millis: u64| {
        (0..8).for_each(|node| leader.beat(NodeId(node), &beat(1), at(millis)))
    };
    for front in 1..=3 {
        leader.report(report(front, 1, if front < 2 { &[3] } else { &[] }), at(2_000));
    }
    assert!(leader.tick(at(2_400)).is_empty(), "one of three fronts does not see it");
    leader.report(report(2, 2, &[3]), at(3_000));
    // The same report again, and a late older one, say nothing new.
    leader.report(report(2, 1, &[]), at(3_001));
    leader.tick(at(3_000));
    let doc = rings(leader.tick(at(3_300))).remove(0);
    assert!(!doc.ring.contains(NodeId(3)) && doc.ring.len() == 7);
    // It still beats; after half a minute it is tried again.
    for millis in (4_000..33_000).step_by(1_000) {
        all(&mut leader, millis);
        (1..=3).for_each(|front| leader.report(report(front, millis, &[]), at(millis)));
        assert!(rings(leader.tick(at(millis))).is_empty(), "{millis}");
    }
    all(&mut leader, 33_400);
    assert_eq!(rings(leader.tick(at(33_800)))[0].ring.len(), 8);
}

#[test]
fn who_was_started_again_is_not_blamed_for_its_earlier_life() {
    let mut leader = leader(LeaderRules::default(), &[0, 1, 2, 3, 4, 5, 6, 7]);
    let beats = |leader: &mut Leader<u64>, millis: u64| {
        (0..8).for_each(|node| leader.beat(NodeId(node), &beat(if node == 3 { 2 } else { 1 }), at(millis)))
    };
    beats(&mut leader, 5_000);
    // Fronts speak of the one that was killed, and have not tried it since.
    leader.report(report(1, 1, &[3]), at(5_100));
    for millis in [5_400, 6_200, 6_900] {
        beats(&mut leader, millis);
        assert!(rings(leader.tick(at(millis))).iter().all(|doc| doc.ring.len() == 8), "at {millis}");
    }
    // Whoever still refuses two seconds later is taken out as ever.
    beats(&mut leader, 7_100);
    leader.tick(at(7_100));
    assert_eq!(rings(leader.tick(at(7_500)))[0].ring.len(), 7);
}

#[test]
fn a_front_that_sees_everybody_refuse_takes_nobody_away() {
    let mut leader = leader(LeaderRules::default(), &[0, 1, 2, 3, 4, 5, 6, 7]);
    // They beat on: nothing but the refusals speaks against them, and those are older than two seconds of their lives.
    (0..8).for_each(|node| leader.beat(NodeId(node), &beat(1), at(3_000)));
    leader.report(report(1, 1, &[0, 1, 2, 3, 4, 5, 6, 7]), at(3_100));
    leader.tick(at(3_100));
    assert!(leader.tick(at(3_500)).is_empty());
    leader.report(report(1, 2, &[0, 1, 2, 3]), at(3_600));
    leader.tick(at(3_600));
    assert_eq!(rings(leader.tick(at(4_000)))[0].ring.len(), 4, "half of them may be");
}

#[test]
fn a_leader_that_hears_nobody_takes_nobody_away_unless_fronts_say_so_too() {
    let mut leader = leader(LeaderRules::default(), &[0, 1, 2, 3, 4, 5, 6, 7]);
    assert!(rings(leader.tick(at(59_000))).is_empty(), "it is cut off, more likely");
    leader.report(report(1, 1, &[0, 1, 2, 3, 4, 5]), at(60_000));
    leader.tick(at(60_000));
    let doc = rings(leader.tick(at(60_300))).remove(0);
    assert_eq!(doc.ring.nodes().collect::<Vec<_>>(), [6, 7].map(NodeId));
}

/// Fronts that follow the leader, each with a part of the traffic.
fn traffic(
    leader: &mut Leader<u64>,
    fronts: &mut [FrontRouter<u64>],
    key: impl Fn(u64) -> u64,
    from: u64,
    count: u64,
) {
    let docs = (leader.ring_doc(), leader.hot_doc());
    for front in fronts.iter_mut() {
        front.install_ring(&docs.0);
        front.install_hot(&docs.1, at(from));
    }
    let len = fronts.len() as u64;
    for i in 0..count {
        let key = key(i);
        fronts[(i % len) as usize].route(mix(key), &key, at(from));
    }
    for front in fronts {
        leader.report(front.report(at(from + 60_000)), at(from + 60_000));
    }
}

fn fronts(count: u64, rules: FrontRules) -> Vec<FrontRouter<u64>> {
    (1..=count).map(|id| FrontRouter::new(FrontId(id), 1, rules, at(0))).collect()
}

#[test]
fn one_front_or_four_the_same_queries_are_hot() {
    let hot = |count: u64| {
        let mut leader = leader(
            LeaderRules { hot: Some(HotRules::ours()), ..LeaderRules::default() },
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9],
        );
        let mut fronts = fronts(count, FrontRules { remembered: 0, ..FrontRules::ours() });
        // Query k is asked about 3,000 / k times.
        let key = |i: u64| (1.0 / (f64::from((mix(i) >> 40) as u32) / f64::from(1u32 << 24) + 1e-4)) as u64;
        traffic(&mut leader, &mut fronts, key, 2_000, 40_000);
        leader.minute(at(62_000));
        let doc = leader.hot_doc();
        assert_eq!(usize::from(doc.fronts), fronts.len());
        (doc.hot.iter().map(|hot| hot.degree).collect::<Vec<_>>(), doc.at_once)
    };
    let (one, at_once) = hot(1);
    assert!(one.len() > 50 && one.iter().all(|degree| degree.nodes == 10), "{}", one.len());
    assert_eq!(at_once, 120);
    assert_eq!(hot(4), (one, at_once));
}

#[test]
fn what_a_front_raises_is_told_to_all_within_a_tick() {
    let mut leader =
        leader(LeaderRules { hot: Some(HotRules::ours()), ..LeaderRules::default() }, &[0, 1, 2]);
    let raised = FrontReport { raised: vec![(77, 30)], ..report(1, 1, &[]) };
    leader.report(raised.clone(), at(2_000));
    let docs = hots(leader.tick(at(2_100)));
    assert_eq!(docs[0].hot, [HotKey { degree: Degree { hash: 77, nodes: 3 }, severity: 0 }]);
    leader.report(raised, at(2_200));
    assert!(leader.tick(at(2_300)).is_empty(), "the same report again");
}

#[test]
fn bursts_are_found_in_the_sum_of_all_fronts_and_told() {
    let mut leader = leader(
        LeaderRules { bursts: Some(burst::Rules::default()), ..LeaderRules::default() },
        &[0, 1, 2, 3],
    );
    let mut fronts = fronts(3, FrontRules::thesis());
    let mut news = Vec::new();
    // Each front alone never sees a hundred.
    for (minute, count) in [20u64, 30, 60, 150, 240, 30].into_iter().enumerate() {
        let from = 60_000 * (minute as u64 + 1);
        traffic(&mut leader, &mut fronts, |i| if i < count { 5 } else { 1_000 + i }, from, 2_000);
        news.extend(
            leader.minute(at(from + 60_000)).into_iter().map(|one| (minute, one.key, one.severity > 0)),
        );
    }
    assert_eq!(news, [(3, Some(5), true), (5, Some(5), false)]);
}

#[test]
fn borders_follow_what_fronts_sent_and_not_what_nodes_say() {
    for measured in [false, true] {
        let rules = match measured {
            true => BalanceRules::ours(),
            // With the threshold of 0.08 diffusion stops at 2.2 times the mean: three nodes at a time do not see a slope.
            false => {
                let balancer = Box::new(Rid { threshold: 0.01 });
                BalanceRules { capacity: 4_000.0, balancer, ..BalanceRules::thesis() }
            }
        };
        let mut leader =
            leader(LeaderRules { balance: Some(rules), ..LeaderRules::default() }, &[0, 1, 2, 3, 4, 5, 6, 7]);
        let mut fronts = fronts(2, FrontRules::plain());
        // Half of the load lies in the first eighth of the circle.
        let point = |i: u64| if i.is_multiple_of(2) { mix(i) >> 3 } else { mix(i) };
        let mut hottest = Vec::new();
        for round in 0..20u64 {
            // Node 5 claims to be overwhelmed.
            leader.beat(NodeId(5), &Beat { lookups: 1 << 40, busy: 1000, ..beat(1) }, at(2_000));
            let doc = leader.ring_doc();
            let mut counts = [0u32; 8];
            for i in 0..16_000u64 {
                let front = &mut fronts[(i % 2) as usize];
                front.install_ring(&doc);
                let route = front.route(point(i), &i, at(2_000)).unwrap();
                counts[usize::from(route.node.0)] += 1;
            }
            fronts
                .iter_mut()
                .for_each(|front| leader.report(front.report(at(3_000 + round)), at(3_000 + round)));
            hottest.push(f64::from(*counts.iter().max().unwrap()) / 2_000.0);
            leader.balance();
            leader.publish(at(3_000));
        }
        let last = hottest[19];
        assert!(hottest[0] > 4.0 && last < if measured { 1.1 } else { 1.6 }, "{measured} {hottest:?}");
        assert!(leader.moved() > 0.1);
    }
}

#[test]
fn after_deaths_load_is_level_at_once_where_density_is_known() {
    let mut leader = leader(
        LeaderRules { balance: Some(BalanceRules::ours()), ..LeaderRules::default() },
        &(0..20).collect::<Vec<_>>(),
    );
    let mut fronts = fronts(1, FrontRules::plain());
    traffic(&mut leader, &mut fronts, |i| i, 2_000, 40_000);
    leader.balance();
    // Three are gone; the others go on beating.
    for millis in (2_000..12_000).step_by(1_000) {
        (0..20)
            .filter(|node| ![3, 4, 11].contains(node))
            .for_each(|node| leader.beat(NodeId(node), &beat(1), at(millis)));
        leader.tick(at(millis));
    }
    let ring = leader.ring().clone();
    assert_eq!(ring.len(), 17);
    let mut counts = std::collections::HashMap::new();
    (0..40_000u64).for_each(|i| *counts.entry(ring.owner(mix(i)).unwrap()).or_insert(0u32) += 1);
    let most = f64::from(*counts.values().max().unwrap()) / (40_000.0 / 17.0);
    assert!(most < 1.1, "{most}: by its range alone, nothing is spread over all");
}

#[test]
fn a_new_leader_goes_on_with_what_was_published_and_moves_nothing_at_first() {
    let mut old = leader(LeaderRules::ours(), &[0, 1, 2, 3]);
    let mut fronts = fronts(1, FrontRules::ours());
    traffic(&mut old, &mut fronts, |i| i % 7, 2_000, 10_000);
    old.minute(at(62_000));
    let (ring, hot) = (old.ring_doc(), old.hot_doc());
    assert!(!hot.hot.is_empty());
    let mut new: Leader<u64> = Leader::resume(LeaderRules::ours(), 2, &ring, Some(&hot), at(100_000));
    let mut published = new.tick(at(100_000));
    let Some(Publish::Hot(hot_again)) = published.pop() else { panic!("it tells what is hot") };
    let ring_again = rings(published).remove(0);
    assert!(ring_again.epoch > ring.epoch && ring_again.seed == ring.seed);
    assert_eq!((&ring_again.ring, &hot_again.hot), (&ring.ring, &hot.hot));
    // Everybody has their time to beat; nothing moves before a period of reports.
    assert!(new.tick(at(107_000)).is_empty());
    let mut resumed: Leader<u64> = Leader::resume(LeaderRules::ours(), 3, &ring, None, at(100_000));
    resumed.balance();
    assert_eq!(resumed.ring(), &ring.ring);
}
