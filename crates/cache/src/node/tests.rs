//! A node with values, weights, ages and states.

use super::*;
use farol_base::random::mix;
use farol_base::{Random, Seeded};
use std::collections::HashMap;

type Node = CacheNode<u64, u64>;

fn options(copies_share: f64) -> NodeOptions {
    NodeOptions { copies_share, ..NodeOptions::of_entries(1000, Policy::Lru) }
}

fn aging(limit: u64, ttl: u64, grace: u64) -> NodeOptions {
    let expiry = Expiry { ttl: Duration::from_secs(ttl), grace: Duration::from_secs(grace) };
    NodeOptions { copies_share: 0.1, ..NodeOptions::of_bytes(limit, Policy::Lru, expiry) }
}

fn entry(key: u64) -> Entry<u64, u64> {
    Entry { hash: mix(key), key, value: key * 10, weight: 1, made: Timestamp::EPOCH, state: 0 }
}

fn at(secs: u64, need: u64) -> Now {
    Now { time: Timestamp::from_secs(secs), need }
}

fn mark(source: u16, round: u64) -> RoundMark {
    RoundMark { source: NodeId(source), incarnation: 1, round }
}

fn copy(node: &mut Node, source: u16, round: u64, entry: Entry<u64, u64>) {
    node.keep_copy(mark(source, round), entry, Timestamp::EPOCH);
}

fn ask(node: &mut Node, key: u64, now: &Now) -> NodeLookup<u64> {
    node.lookup(mix(key), &key, now, false)
}

fn value(node: &mut Node, key: u64, now: &Now) -> Option<u64> {
    ask(node, key, now).found().map(|found| found.value)
}

const MISS: NodeLookup<u64> = NodeLookup::Miss(Turn::Alone);

#[test]
fn both_stores_share_the_room() {
    // Main capacity (1-α)N, protected αN.
    for (share, want) in
        [(0.0, (1000, 0)), (0.05, (950, 50)), (0.1, (900, 100)), (f64::NAN, (1000, 0)), (7.0, (500, 500))]
    {
        assert_eq!(Node::new(&options(share)).limits(), want);
    }
}

#[test]
fn a_copy_is_adopted_on_its_first_hit() {
    // The first lookup hits in `copies`, the second in `cache`.
    let mut node = Node::new(&options(0.1));
    copy(&mut node, 3, 1, entry(5));
    let now = Now::default();
    let found = Found { value: 50, age: Duration::ZERO, state: 0 };
    assert_eq!(ask(&mut node, 5, &now), NodeLookup::Adopted(found));
    assert_eq!(ask(&mut node, 5, &now), NodeLookup::Hit(found));
    assert_eq!(ask(&mut node, 6, &now), MISS);
    assert_eq!(node.counts(), Counts { hits: 2, adopted: 1, misses: 1, ..Counts::default() });
}

#[test]
fn copies_go_with_the_next_round_of_their_own_source_only() {
    let mut node = Node::new(&options(0.1));
    copy(&mut node, 1, 1, entry(1));
    copy(&mut node, 2, 1, entry(2));
    copy(&mut node, 1, 2, entry(3));
    node.round_done(mark(1, 2), Timestamp::EPOCH);
    let held = |node: &Node, key: u64| node.holds(mix(key), &key).1;
    assert_eq!([1, 2, 3].map(|key| held(&node, key)), [false, true, true]);
    // Source 1 has run for long; that says nothing on source 2, who is silent, and forgotten in the end.
    node.round_done(mark(1, 900), Timestamp::from_secs(500));
    assert_eq!([2, 3].map(|key| held(&node, key)), [true, false]);
    node.clear_up(Timestamp::from_secs(599), usize::MAX);
    assert!(held(&node, 2));
    node.clear_up(Timestamp::from_secs(600), usize::MAX);
    assert_eq!(node.len(), (0, 0));
}

#[test]
fn a_copy_that_is_refreshed_carries_the_stamp_of_the_fresh_answer() {
    // An entry that stays hot over a commit: the second round sends a newer answer for a key that is copied already.
    let mut node = Node::new(&aging(1 << 20, 600, 0));
    copy(&mut node, 1, 1, Entry { value: 1, made: Timestamp::from_secs(1), state: 1, ..entry(7) });
    copy(&mut node, 1, 2, Entry { value: 2, made: Timestamp::from_secs(400), state: 2, ..entry(7) });
    // Of state 2, and young enough: the first copy would be neither.
    let found = Found { value: 2, age: Duration::from_secs(500), state: 2 };
    assert_eq!(ask(&mut node, 7, &at(900, 2)), NodeLookup::Adopted(found));
    // Another source's older answer, or a late message, does not take a newer one's place.
    let mut node = Node::new(&aging(1 << 20, 600, 0));
    copy(&mut node, 1, 2, Entry { value: 2, made: Timestamp::from_secs(400), state: 2, ..entry(7) });
    copy(&mut node, 2, 9, Entry { value: 1, made: Timestamp::from_secs(1), state: 1, ..entry(7) });
    assert_eq!(value(&mut node, 7, &at(900, 2)), Some(2));
}

#[test]
fn copies_are_weighed_anew_and_never_exceed_their_room() {
    let mut node = Node::new(&aging(200_000, 600, 60));
    let mut random = Seeded::new(9);
    for i in 0..20_000u64 {
        let weight = 1 + random.below(2_500) as u32;
        let made = Timestamp::from_secs(random.below(50));
        copy(&mut node, (i % 3) as u16, i / 1_000, Entry { weight, made, ..entry(random.below(60)) });
        assert!(node.copies.weight() <= node.limits().1);
        let sum: u64 =
            node.copies.iter().map(|one| u64::from(one.weight + Store::<u64, Copy<u64>>::OVERHEAD)).sum();
        assert_eq!(sum, node.copies.weight());
    }
    assert!(node.len().1 > 0);
}

#[test]
fn what_is_adopted_or_copied_weighs_what_it_weighs_by_itself() {
    let mut node = Node::new(&aging(1 << 20, 600, 60));
    node.insert(Entry { weight: 1_000, ..entry(1) });
    let own = node.weight();
    let mut other = Node::new(&aging(1 << 20, 600, 60));
    let mut round = node.begin_round(1.0);
    let sent = node.step_round(&mut round, usize::MAX, Timestamp::EPOCH);
    assert_eq!((round.is_done(), sent.len(), sent[0].weight), (true, 1, 1_000));
    copy(&mut other, 1, 1, sent[0].clone());
    ask(&mut other, 1, &at(0, 0));
    assert_eq!(other.cache.weight(), own);
}

#[test]
fn looking_up_takes_nothing_away() {
    // Two who see a commit 200 ms apart, and one whose clock does not matter: nobody takes another's fresh answer away.
    let mut node = Node::new(&aging(1 << 20, 600, 60));
    let made = Timestamp::from_secs(1_000);
    assert_eq!(ask(&mut node, 1, &at(1_000, 7)), MISS);
    node.insert(Entry { made, state: 8, ..entry(1) });
    let age = Duration::from_secs(1);
    let found = Found { value: 10, age, state: 8 };
    assert_eq!(ask(&mut node, 1, &at(1_001, 7)), NodeLookup::Hit(found));
    assert_eq!(ask(&mut node, 1, &at(1_001, 8)), NodeLookup::Hit(found));
    assert_eq!(ask(&mut node, 1, &at(1_001, 9)), NodeLookup::Stale(found, None));
    assert_eq!(ask(&mut node, 1, &at(1_001, 8)), NodeLookup::Hit(found), "it is still fresh for the other");
    // Beyond the grace it is no answer for who needs state 9, and still one for who lags behind.
    assert_eq!(ask(&mut node, 1, &at(1_062, 9)), MISS);
    assert!(value(&mut node, 1, &at(1_062, 8)).is_some());
    // Beyond its time it is nobody's, whatever anybody needs, and clearing up removes it.
    assert_eq!(ask(&mut node, 1, &at(1_600, 8)), MISS);
    assert_eq!(node.counts().old, 2);
    node.clear_up(Timestamp::from_secs(1_600), usize::MAX);
    assert_eq!((node.len(), node.weight()), ((0, 0), 0));
}

#[test]
fn while_a_crawl_commits_every_two_seconds_the_cache_still_serves() {
    let mut node = Node::new(&aging(1 << 20, 600, 60));
    let (mut asked_index, mut oldest) = (0, Duration::ZERO);
    // Ten people a second ask one question for ten minutes, with a new state every two seconds.
    for tenth in 0..6_000u64 {
        let now = Now { time: Timestamp::from_millis(100 * tenth), need: tenth / 20 };
        let lookup = node.lookup(mix(1), &1, &now, true);
        let leads = matches!(lookup, NodeLookup::Stale(_, Some(_)) | NodeLookup::Miss(Turn::Lead(_)));
        if let Some(found) = lookup.found() {
            oldest = oldest.max(found.age);
        }
        if leads {
            asked_index += 1;
            node.insert(Entry { made: now.time, state: now.need, ..entry(1) });
        }
    }
    let counts = node.counts();
    assert!(counts.hit_rate() > 0.99 && counts.stale > 4_000, "{counts:?}");
    // A sixth of the grace after it was superseded one of those who ask makes it anew.
    assert!((45..=61).contains(&asked_index), "{asked_index}");
    assert!(oldest <= Duration::from_secs(13), "{oldest:?}");
}

#[test]
fn of_all_who_miss_one_leads() {
    let mut node = Node::new(&aging(1 << 20, 600, 60));
    let ask = |node: &mut Node, millis: u64| {
        node.lookup(mix(1), &1, &Now { time: Timestamp::from_millis(millis), need: 0 }, true)
    };
    let NodeLookup::Miss(Turn::Lead(lease)) = ask(&mut node, 0) else { panic!("the first one leads") };
    assert!(matches!(ask(&mut node, 5), NodeLookup::Miss(Turn::Wait(_))));
    node.release(mix(1), lease);
    assert!(matches!(ask(&mut node, 6), NodeLookup::Miss(Turn::Lead(_))));
    node.insert(entry(1));
    assert!(matches!(ask(&mut node, 7), NodeLookup::Hit(_)));
}

#[test]
fn a_round_sends_what_was_asked_for_most_in_steps() {
    let mut node = Node::new(&options(0.0));
    (0..1000).for_each(|key| {
        node.insert(entry(key));
    });
    (0..90).for_each(|i| {
        ask(&mut node, i % 30, &Now::default());
    });
    (30..60).for_each(|key| {
        ask(&mut node, key, &Now::default());
    });
    let mut round = node.begin_round(0.05);
    let (mut sent, mut steps) = (Vec::new(), 0);
    while !round.is_done() {
        let step = node.step_round(&mut round, 100, Timestamp::EPOCH);
        sent.extend(step.into_iter().map(|entry| entry.key));
        steps += 1;
    }
    assert_eq!((steps, sent.len()), (10, 50));
    assert!((0..30).all(|key| sent.contains(&key)) && sent.iter().all(|key| *key < 60), "{sent:?}");
}

#[test]
fn a_range_is_handed_over_in_steps_with_what_each_entry_is_worth() {
    let (mut old, mut new) = (Node::new(&options(0.1)), Node::new(&options(0.1)));
    let now = Now::default();
    (0..900).for_each(|key| {
        old.insert(entry(key));
        new.insert(entry(key + 1000));
    });
    for key in [2, 898] {
        ask(&mut old, key, &now);
    }
    ask(&mut new, 1001, &now);
    copy(&mut old, 9, 1, entry(5000));
    copy(&mut old, 8, 1, entry(6000));
    // Of its own the even ones move, and the copies of the node that is gone.
    let moving: HashMap<u64, ()> = (0..900).filter(|key| key % 2 == 0).map(|key| (mix(key), ())).collect();
    let (mut walk, mut given) = (HandOver::default(), Vec::new());
    while !walk.is_done() {
        given.extend(old.step_hand_over(&mut walk, 128, |hash, source| match source {
            Some(source) => source == NodeId(9),
            None => moving.contains_key(&hash),
        }));
    }
    assert_eq!(given.len(), 451);
    given.into_iter().for_each(|one| {
        new.take_over(one);
    });
    // The new node is full: what was asked for is let in, the rest is not.
    assert_eq!(new.len().0, 900);
    let held = |node: &Node, key: u64| node.holds(mix(key), &key).0;
    assert!([2, 898, 5000, 1001].iter().all(|key| held(&new, *key)));
    assert!(!held(&new, 0) && !held(&new, 1000) && !held(&old, 2));
    assert!(held(&old, 899) && old.holds(mix(6000), &6000).1);
}

#[test]
fn a_node_agrees_with_a_plain_list_of_everything_that_was_ever_told() {
    // Inserts, copies and rounds in any order, twice and late; who asks is never given what the list does not allow.
    for seed in 0..40 {
        let mut random = Seeded::new(seed);
        let mut node = Node::new(&aging(40_000, 300, 30));
        let mut told: HashMap<(u64, u64), (Timestamp, u64)> = HashMap::new();
        let (mut time, mut state, mut ended) = (1_000_000u64, 0u64, vec![1_000_000u64]);
        for number in 0..2_000u64 {
            time += random.below(400);
            if random.unit() < 0.1 {
                state += 1;
                ended.push(time);
            }
            let key = random.below(30);
            let now = Now { time: Timestamp::from_millis(time), need: state };
            let made = now.time - Duration::from_millis(random.below(5_000));
            let of = state - random.below(3).min(state);
            let new =
                Entry { value: number, weight: 1 + random.below(900) as u32, made, state: of, ..entry(key) };
            match random.below(5) {
                0 => {
                    node.insert(new);
                    told.insert((key, number), (made, of));
                }
                1 => {
                    node.keep_copy(mark(random.below(3) as u16, number / 100), new, now.time);
                    told.insert((key, number), (made, of));
                }
                2 => node.round_done(mark(random.below(3) as u16, number / 100), now.time),
                3 => node.clear_up(now.time, 64),
                _ => {
                    if let Some(found) = node.lookup(mix(key), &key, &now, true).found() {
                        let (made, of) = told[&(key, found.value)];
                        assert_eq!((found.age, found.state), (now.time.since(made), of));
                        assert!(found.age < Duration::from_secs(300));
                        let since = if of < state { time - ended[of as usize + 1] } else { 0 };
                        assert!(since < 30_000, "superseded {since} ms ago, seed {seed}");
                    }
                }
            }
            assert!(node.weight() <= 40_000);
        }
        assert!(node.counts().hits > 50, "{:?}", node.counts());
    }
}

#[test]
fn giving_copies_out_what_is_wanted_and_takes_nothing_away() {
    let mut node = Node::new(&options(0.1));
    (0..100).for_each(|key| {
        node.insert(entry(key));
    });
    copy(&mut node, 3, 1, entry(500));
    let now = Now::default();
    assert_eq!(value(&mut node, 7, &now), Some(70));
    let is_wanted = |hash: u64| [7, 50, 99, 500, 777].map(mix).contains(&hash);
    let (mut given, mut next, mut steps) = (Vec::new(), Some(0), 0);
    while let Some(from) = next {
        let step = node.step_give(from, 16, is_wanted);
        given.extend(step.found);
        (next, steps) = (step.next, steps + 1);
    }
    // Own entries alone, each once, in several steps; whoever takes them in keeps them even where it is full.
    let mut keys: Vec<u64> = given.iter().map(|one| one.entry.key).collect();
    keys.sort_unstable();
    assert_eq!(keys, [7, 50, 99]);
    assert!(steps > 3 && given.iter().all(|one| one.uses >= 1));
    assert_eq!(node.len(), (100, 1));
    let mut full = Node::new(&options(0.0));
    (1000..2000).for_each(|key| {
        full.insert(entry(key));
    });
    given.into_iter().for_each(|one| assert!(full.take_over(one)));
    assert!([7, 50, 99].iter().all(|key| value(&mut full, *key, &now) == Some(key * 10)));
}
