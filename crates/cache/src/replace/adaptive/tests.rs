//! Takeovers and shadows, beside plain judges.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

#[derive(Clone, Debug)]
enum Op {
    Ask(u16),
    Remove(u16),
    Reweigh(u16, u8),
    Evict,
    Run(usize),
    Resize(u8),
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        12 => (0u16..400).prop_map(Op::Ask),
        1 => (0u16..400).prop_map(Op::Remove),
        1 => (0u16..400, 1u8..9).prop_map(|(key, weight)| Op::Reweigh(key, weight)),
        3 => Just(Op::Evict),
        1 => (0..WAYS.len()).prop_map(Op::Run),
        1 => (1u8..=255).prop_map(Op::Resize),
    ];
    proptest::collection::vec(op, 0..600)
}

proptest! {
    /// Against a set of slots: whoever takes over, and in the middle of it, the same slots are held.
    #[test]
    fn takeovers_lose_nothing_and_shadows_stay_small(ops in ops()) {
        let mut tried = Adaptive::new(100, 64);
        let mut held = BTreeSet::new();
        for op in &ops {
            match *op {
                Op::Ask(key) if held.contains(&u32::from(key)) => tried.hit(u32::from(key)),
                Op::Ask(key) => {
                    tried.miss(mix(u64::from(key)));
                    tried.insert(u32::from(key), mix(u64::from(key)), 1);
                    held.insert(u32::from(key));
                }
                Op::Remove(key) => {
                    if held.remove(&u32::from(key)) {
                        tried.remove(u32::from(key));
                    }
                }
                Op::Reweigh(key, weight) => {
                    if held.contains(&u32::from(key)) {
                        tried.reweigh(u32::from(key), u32::from(weight));
                    }
                }
                Op::Evict => match tried.evict() {
                    Some(slot) => prop_assert!(held.remove(&slot), "{slot} twice"),
                    None => prop_assert!(held.is_empty()),
                },
                Op::Run(way) => tried.run(way),
                Op::Resize(limit) => tried.resize(u64::from(limit)),
            }
            let top = tried.top(usize::MAX);
            prop_assert_eq!(top.len(), held.len());
            prop_assert_eq!(top.into_iter().collect::<BTreeSet<_>>(), held.clone());
            for shadow in &tried.trial.shadows {
                prop_assert!(shadow.len() <= 64);
                prop_assert!(shadow.weight() <= tried.limit >> tried.trial.halvings);
                prop_assert!(shadow.iter().all(|entry| Trial::has(tried.trial.halvings, entry.hash)));
            }
        }
    }

    /// Against stores that run one way each, on the keys of the sample: the shadows hit what these hit.
    #[test]
    fn shadows_hit_what_stores_of_their_own_would(asked in proptest::collection::vec((0u64..300, 1u32..4), 1..1500), limit in 20u64..300) {
        let mut store: Store<u64, ()> = Store::of_entries(limit, super::super::Policy::Adaptive);
        let mut trial = Trial::new(limit, SHADOW_ENTRIES);
        let mut alone = Trial::new(limit, SHADOW_ENTRIES).shadows;
        let mut ahead = [[0.0; WAYS.len()]; WAYS.len()];
        for (key, weight) in asked {
            let (hash, weight) = (mix(key), weight.min((limit / 8) as u32));
            let hits = alone.each_mut().map(|one| {
                let hit = one.get(hash, &()).is_some();
                if !hit {
                    one.insert(shadow_entry(hash, weight));
                }
                hit
            });
            for (ahead, one) in ahead.iter_mut().zip(hits) {
                for (count, other) in ahead.iter_mut().zip(hits) {
                    *count += f64::from(u8::from(one && !other));
                }
            }
            trial.ask(hash);
            trial.give(hash, weight);
            if store.get(hash, &key).is_none() {
                store.insert(Entry { hash, key, value: (), weight, made: Timestamp::EPOCH, state: 0 });
            }
            prop_assert!(store.weight() <= limit);
        }
        prop_assert_eq!(trial.halvings, 0, "all keys are in the sample");
        prop_assert_eq!(trial.ahead, ahead);
    }
}

/// Share of hits of the last half of the requests, and which way is run in the end.
fn played(requests: impl Iterator<Item = u64> + Clone, entries: u64) -> (f64, Way) {
    let mut policy = Adaptive::of_entries(entries);
    let mut slots = std::collections::HashMap::new();
    let mut free: Vec<u32> = (0..=entries as u32).rev().collect();
    let mut keys = vec![0; entries as usize + 1];
    let count = requests.clone().count();
    let mut hits = 0;
    for (number, key) in requests.enumerate() {
        match slots.get(&key) {
            Some(slot) => {
                policy.hit(*slot);
                hits += usize::from(number >= count / 2);
            }
            None => {
                policy.miss(mix(key));
                let slot = free.pop().unwrap();
                policy.insert(slot, mix(key), 1);
                (keys[slot as usize], _) = (key, slots.insert(key, slot));
                if slots.len() as u64 > entries {
                    let gone = policy.evict().unwrap();
                    slots.remove(&keys[gone as usize]);
                    free.push(gone);
                }
            }
        }
    }
    (2.0 * hits as f64 / count as f64, WAYS[policy.run])
}

#[test]
fn what_is_asked_again_soon_is_left_to_recency_and_a_flood_to_frequency() {
    // Each key three times within 60 requests, and never again.
    let soon = (0..60_000u64).map(|i| match i % 3 {
        0 => i,
        1 => (i - 1).saturating_sub(30),
        _ => (i - 2).saturating_sub(57),
    });
    let (hits, way) = played(soon.clone(), 1000);
    assert!(way == Way::Window(1.0) || hits > 0.65, "{hits} {way:?}");
    // Favourites, and twice as many strangers.
    let flood = (0..200_000u64).map(|i| if i % 3 == 0 { mix(i) % 900 } else { 1_000_000 + i });
    let (hits, way) = played(flood.clone(), 1000);
    assert!(hits > 0.28, "a third are favourites: {hits} {way:?}");
    assert!(matches!(way, Way::Window(share) if share < 0.1), "{way:?}");
    // What was right does not stay so.
    let (_, way) = played(flood.chain(soon.map(|key| key + 10_000_000)), 1000);
    assert!(way != Way::Window(0.02), "{way:?}");
}

#[test]
fn a_takeover_moves_a_few_entries_with_each_request() {
    let mut policy = Adaptive::of_entries(10_000);
    for slot in 0..10_000u32 {
        policy.miss(mix(u64::from(slot)));
        policy.insert(slot, mix(u64::from(slot)), 1);
    }
    policy.run(S3_FIFO);
    let moved = |policy: &Adaptive| policy.entries.iter().filter(|placed| placed.in_s3_fifo).count();
    for requests in 1..=100 {
        policy.hit(9_999);
        assert_eq!(moved(&policy), MOVED_EACH * requests);
    }
    (0..300).for_each(|_| policy.hit(9_999));
    assert_eq!((moved(&policy), policy.is_moving), (10_000, false));
}

#[test]
fn shadows_of_small_caches_are_small() {
    let of = |limit: u64| Adaptive::of_bytes(limit).trial.entries_max;
    assert_eq!([0, 1 << 20, 16 << 20, 64 << 20, 1 << 40].map(of), [64, 64, 819, 2048, 2048]);
}
