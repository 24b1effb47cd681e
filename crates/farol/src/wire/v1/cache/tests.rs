//! Bytes, bounds, and that everything may come twice and in any order.

use super::*;
use farol_cache::CacheNode;
use farol_cache::freshness::{CLOCK_BEGINS, Expiry, Now};
use farol_cache::node::NodeOptions;
use farol_cache::replace::Policy;
use proptest::prelude::*;
use serde::de::DeserializeOwned;
use std::fmt::Debug;

fn frozen<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, golden: &[u8]) {
    assert_eq!(postcard::to_stdvec(value).unwrap(), golden, "{value:?}");
    assert_eq!(&postcard::from_bytes::<T>(golden).unwrap(), value);
}

fn head() -> CacheHead {
    CacheHead { ring: WireEpoch { term: 1, version: 2 }, from: WireSender::Node { id: 300, incarnation: 4 } }
}

fn entry(key: &str, answer: &[u8], age_ms: u64, state: u64) -> WireEntry {
    let kept = WireKept { answer: answer.to_vec(), spelling: None };
    WireEntry { key: key.into(), aged: WireAged { kept, age_ms, state }, uses: 3 }
}

#[test]
fn the_first_version_is_frozen() {
    let tail = CacheTail { node: 1, incarnation: 2, ring: WireEpoch { term: 3, version: 4 }, busy: 5 };
    frozen(&tail, b"\x01\x02\x03\x04\x05");
    frozen(&CacheHead { from: WireSender::Front(300), ..head() }, b"\x01\x02\x00\xac\x02");
    let lookup = LookupRequest { head: head(), key: "k".into(), need: 7, lease_wanted: true };
    frozen(&lookup, b"\x01\x02\x01\xac\x02\x04\x01k\x07\x01");
    let aged = WireAged { kept: WireKept { answer: vec![0, 255], spelling: Some(9) }, age_ms: 300, state: 6 };
    let aged_bytes = b"\x02\x00\xff\x01\x09\xac\x02\x06";
    let reply = |found| LookupReply { tail, found };
    let bytes = |kind: u8, rest: &[u8]| [&b"\x01\x02\x03\x04\x05"[..], &[kind], rest].concat();
    frozen(&reply(WireLookup::Hit(aged.clone())), &bytes(0, aged_bytes));
    frozen(&reply(WireLookup::Adopted(aged.clone())), &bytes(1, aged_bytes));
    frozen(
        &reply(WireLookup::Stale(aged.clone(), Some(8))),
        &bytes(2, &[&aged_bytes[..], b"\x01\x08"].concat()),
    );
    frozen(&reply(WireLookup::Miss { lease: None, wait_ms: 40 }), &bytes(3, b"\x00\x28"));
    let one = entry("k", b"a", 1, 2);
    let one_bytes = b"\x01k\x01a\x00\x01\x02\x03";
    let head_bytes = b"\x01\x02\x01\xac\x02\x04";
    let with = |parts: &[&[u8]]| parts.concat();
    let insert = InsertRequest { head: head(), entry: one.clone(), lease: Some(8) };
    frozen(&insert, &with(&[head_bytes, one_bytes, b"\x01\x08"]));
    frozen(&InsertReply { tail, kept: true }, b"\x01\x02\x03\x04\x05\x01");
    frozen(&ReleaseRequest { head: head(), key: "k".into(), lease: 8 }, &with(&[head_bytes, b"\x01k\x08"]));
    let protect = ProtectRequest { head: head(), round: 9, last: true, entries: vec![one.clone()] };
    frozen(&protect, &with(&[head_bytes, b"\x09\x01\x01", one_bytes]));
    let hand_over = HandOverRequest { head: head(), last: false, entries: vec![one] };
    frozen(&hand_over, &with(&[head_bytes, b"\x00\x01", one_bytes]));
    frozen(&HandOverReply { tail, room: 300 }, b"\x01\x02\x03\x04\x05\xac\x02");
}

#[test]
fn beats_reports_and_tables_are_frozen() {
    let beat = WireBeat {
        node: 1,
        incarnation: 2,
        ring: WireEpoch { term: 3, version: 4 },
        capacity: 5,
        lookups: 6,
        hits: 7,
        adopted: 8,
        misses: 9,
        inserts: 10,
        refused: 11,
        protects: 12,
        handed: 13,
        busy: 14,
        bytes: 15,
        entries: 16,
    };
    frozen(&beat, b"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10");
    let report = WireReport {
        front: 1,
        incarnation: 2,
        number: 3,
        ring: WireEpoch { term: 4, version: 5 },
        nodes: vec![WireTally { node: 6, sent: 7, owned: 8, late: 9, refused: 10, refusing_ms: Some(11) }],
        density: vec![(12, 13)],
        minute: Some(WireSummary {
            seen: 14,
            rest: 15,
            counted: vec![WireCounted { hash: 16, text: "q".into(), count: 17, error: 1 }],
        }),
        raised: vec![(18, 19)],
    };
    frozen(
        &report,
        b"\x01\x02\x03\x04\x05\x01\x06\x07\x08\x09\x0a\x01\x0b\x01\x0c\x0d\x01\x0e\x0f\x01\x10\x01q\x11\x01\x01\x12\x13",
    );
    let ring = WireRing {
        epoch: WireEpoch { term: 1, version: 2 },
        seed: 3,
        nodes: vec![WireRingNode { id: 4, incarnation: 5, capacity: 6 }],
        ends: vec![(300, 4)],
    };
    frozen(&ring, b"\x01\x02\x03\x01\x04\x05\x06\x01\xac\x02\x04");
    let hot =
        WireHot { epoch: WireEpoch { term: 1, version: 2 }, fronts: 3, at_once: 4, hot: vec![(5, 6, 7)] };
    frozen(&hot, b"\x01\x02\x03\x04\x01\x05\x06\x07");
    // And they mean what they say.
    assert_eq!(WireBeat::of(NodeId(1), &beat.read().1), beat);
    assert_eq!(WireReport::from(&FrontReport::try_from(report.clone()).unwrap()), report);
    assert_eq!(WireRing::from(&RingDoc::try_from(ring.clone()).unwrap()), ring);
    assert_eq!(WireHot::from(&HotDoc::try_from(hot.clone()).unwrap()), hot);
}

#[test]
fn what_is_too_large_or_makes_no_sense_is_refused_in_a_sentence() {
    let now = CLOCK_BEGINS;
    let read = |entry: WireEntry| entry.read(now, 7).map(|_| ()).map_err(|error| error.to_string());
    assert_eq!(read(entry("k", b"a", 5, 1)), Ok(()));
    let refused = |entry: WireEntry, part: &str| {
        let told = read(entry).unwrap_err();
        assert!(told.contains(part), "{told}");
    };
    refused(entry(&"k".repeat(KEY_BYTES_MAX + 1), b"", 0, 0), "bytes of a key");
    refused(entry("k", &vec![0; ANSWER_BYTES_MAX + 1], 0, 0), "bytes of an answer");
    refused(entry("k", b"", u64::MAX, 0), "ms old");
    refused(WireEntry { uses: 16, ..entry("k", b"", 0, 0) }, "uses");
    assert!(read_batch(vec![entry("k", b"", 0, 0); BATCH_ENTRIES_MAX + 1], now, 7).is_err());
    assert!(CacheHead { from: WireSender::Front(1), ..head() }.mark(1).is_err());
    let ring = |ends: &[(u64, u16)]| WireRing {
        epoch: WireEpoch::default(),
        seed: 0,
        nodes: vec![WireRingNode { id: 1, incarnation: 1, capacity: 1 }],
        ends: ends.to_vec(),
    };
    assert!(RingDoc::try_from(ring(&[(5, 1)])).is_ok());
    for wrong in [&[(5, 2)][..], &[(5, 1), (4, 2)], &[(5, 1), (6, 1)], &[]] {
        assert!(RingDoc::try_from(ring(wrong)).is_err(), "{wrong:?}");
    }
    let report = |density: Vec<(u32, u16)>, error: u32| WireReport {
        front: 1,
        incarnation: 1,
        number: 1,
        ring: WireEpoch::default(),
        nodes: Vec::new(),
        density,
        minute: Some(WireSummary {
            seen: 1,
            rest: 0,
            counted: vec![WireCounted { hash: 1, text: String::new(), count: 1, error }],
        }),
        raised: Vec::new(),
    };
    assert!(FrontReport::try_from(report(vec![(32_767, 1)], 1)).is_ok());
    assert!(FrontReport::try_from(report(vec![(32_768, 1)], 1)).is_err());
    assert!(FrontReport::try_from(report(vec![], 2)).is_err());
}

#[test]
fn answers_come_back_as_they_were() {
    let hit = |number: u64| Hit {
        url: farol_base::CanonicalUrl::parse(&format!("http://h.test/{number}")).unwrap(),
        title: vec![farol_base::query::Fragment { text: "t".into(), hit: true }],
        snippet: Vec::new(),
        language: Some(farol_base::Language::ENGLISH),
        dated: None,
        fetched: Timestamp::from_millis(number),
        score: 1.5,
        duplicates: 2,
        more_from_host: true,
        pinned: number == 1,
        position: farol_base::PagePosition { file: 3, offset: number },
        strict: number == 2,
        source: (number == 1).then(|| farol_base::Origin::named([1; 32], "n <http://s.test/>", true)),
        content: number,
        simhash: 1,
    };
    let answer = Answer {
        hits: (0..3).map(hit).collect(),
        total: 77,
        more: true,
        suggestion: Some(farol_query::read("ponte \"rio\" site:a.org -x").query),
        generation: 5,
        ..Answer::default()
    };
    let bytes = postcard::to_stdvec(&WireAnswer::from(&answer)).unwrap();
    let back = Answer::try_from(postcard::from_bytes::<WireAnswer>(&bytes).unwrap()).unwrap();
    assert_eq!(back.hits, answer.hits);
    assert_eq!((back.total, back.more, back.generation), (77, true, 5));
    assert_eq!((back.suggestion, back.corrected), (answer.suggestion, None));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = postcard::from_bytes::<LookupRequest>(&bytes);
        let _ = postcard::from_bytes::<LookupReply>(&bytes);
        let _ = postcard::from_bytes::<InsertRequest>(&bytes).map(|request| request.entry.read(CLOCK_BEGINS, 1));
        let _ = postcard::from_bytes::<ReleaseRequest>(&bytes);
        let _ = postcard::from_bytes::<ProtectRequest>(&bytes).map(|request| read_batch(request.entries, CLOCK_BEGINS, 1));
        let _ = postcard::from_bytes::<HandOverRequest>(&bytes);
        let _ = postcard::from_bytes::<WireBeat>(&bytes).map(WireBeat::read);
        let _ = postcard::from_bytes::<WireReport>(&bytes).map(FrontReport::try_from);
        let _ = postcard::from_bytes::<WireRing>(&bytes).map(RingDoc::try_from);
        let _ = postcard::from_bytes::<WireHot>(&bytes).map(HotDoc::try_from);
        let _ = postcard::from_bytes::<WireAnswer>(&bytes).map(Answer::try_from);
    }

    /// Inserts and copies that come once, twice and in any order leave the same answers, between clocks that differ by hours.
    #[test]
    fn each_verb_may_be_called_twice_and_in_any_order(
        messages in proptest::collection::vec((0u8..4, 0u64..50, 0u64..3, any::<bool>()), 1..30),
        order in any::<u64>(),
    ) {
        let expiry = Expiry { ttl: Duration::from_secs(600), grace: Duration::from_secs(60) };
        let run = |clock: u64, twice: bool, mixed: bool| {
            let now = CLOCK_BEGINS + Duration::from_secs(clock);
            let options = NodeOptions { copies_share: 0.5, ..NodeOptions::of_bytes(1 << 20, Policy::Lru, expiry) };
            let mut node: CacheNode<QueryKey, WireKept> = CacheNode::new(&options);
            let mut all = messages.clone();
            if twice {
                all.extend(messages.iter().rev().copied());
            }
            if mixed {
                all.sort_by_key(|message| farol_base::random::mix(order ^ (u64::from(message.0) << 32 | message.1 << 8 | message.2)));
            }
            for (key, age, state, copied) in all {
                // Age and state say which answer it is.
                let sent = entry(&key.to_string(), &[age as u8, state as u8], age * 1000, state);
                let Proven { entry, .. } = sent.read(now, 7).unwrap();
                match copied {
                    true => node.keep_copy(head().mark(1).unwrap(), entry, now),
                    false => drop(node.insert(entry)),
                }
            }
            (0..4u8).map(|key| {
                let key = read_key(&key.to_string(), 7).unwrap();
                let found = node.lookup(key.hash(), &key, &Now { time: now, need: 0 }, false).found()?;
                Some((found.value, found.age, found.state))
            }).collect::<Vec<_>>()
        };
        let once = run(0, false, false);
        prop_assert_eq!(&run(7_200, true, false), &once);
        prop_assert_eq!(&run(3_600, true, true), &once);
    }
}
