//! Answers the calls to the cache node of this process.
//!
//! Each is a look at one shard, done in less than it takes to hand it to another thread; batches of copies take a little
//! longer, at most 256 entries. What a caller goes by is no error: the reply's tail tells it the ring in force here.

use crate::handles::cache_node::CacheShelf;
use crate::wire::WireError;
use crate::wire::v1::cache::{
    CacheTail, HandOverReply, HandOverRequest, InsertReply, InsertRequest, LookupReply, LookupRequest,
    ProtectRequest, ReleaseRequest, WireAged, WireKept, WireLookup, read_batch, read_key, verb,
};
use bytes::Bytes;
use farol_cache::freshness::Now;
use farol_cache::lease::{LeaseId, Turn};
use farol_cache::node::{Found, NodeLookup};
use farol_cache::tables::RingDoc;
use farol_rpc::{RpcError, decode, encode};
use serde::Serialize;
use std::sync::atomic::Ordering;

/// The verbs that are answered here.
pub const VERBS: [&str; 5] = [verb::LOOKUP, verb::INSERT, verb::RELEASE, verb::PROTECT, verb::HAND_OVER];

/// Slots that are cleared up with each lookup.
const CLEARED_UP: usize = 4;

/// Answers a verb.
pub fn answer(shelf: Option<&CacheShelf>, called: &str, body: &[u8]) -> Result<Bytes, RpcError> {
    let shelf = shelf.ok_or_else(|| RpcError::Refused("this node keeps no answers".to_string()))?;
    // Alive, and of no use yet: whoever asks goes on without it and comes again.
    let ring = shelf.ring().ok_or_else(|| RpcError::Busy("no ring was published yet".to_string()))?;
    match called {
        verb::LOOKUP => written(&look_up(shelf, &ring, &decode(body)?)?),
        verb::INSERT => written(&insert(shelf, &ring, decode(body)?)?),
        verb::RELEASE => written(&release(shelf, &ring, &decode(body)?)?),
        verb::PROTECT => written(&protect(shelf, &ring, decode(body)?)?),
        verb::HAND_OVER => written(&take_over(shelf, &ring, decode(body)?, body.len())?),
        _ => Err(RpcError::UnknownVerb(called.to_string())),
    }
}

fn written(reply: &impl Serialize) -> Result<Bytes, RpcError> {
    encode(reply).map_err(|error| RpcError::Failed(format!("the answer cannot be written: {error}")))
}

fn refused(error: WireError) -> RpcError {
    RpcError::Refused(error.to_string())
}

fn look_up(shelf: &CacheShelf, ring: &RingDoc, request: &LookupRequest) -> Result<LookupReply, RpcError> {
    shelf.tables.told(request.head.ring.into());
    let key = read_key(&request.key, ring.seed).map_err(refused)?;
    let now = Now { time: shelf.now(), need: request.need };
    let looked = {
        let mut shard = shelf.node.shard(key.hash());
        shard.clear_up(now.time, CLEARED_UP);
        shard.lookup(key.hash(), &key, &now, request.lease_wanted)
    };
    let found = match looked {
        NodeLookup::Hit(found) => WireLookup::Hit(aged(found)),
        NodeLookup::Adopted(found) => WireLookup::Adopted(aged(found)),
        NodeLookup::Stale(found, lease) => WireLookup::Stale(aged(found), lease.map(|lease| lease.0)),
        NodeLookup::Miss(Turn::Lead(lease)) => WireLookup::Miss { lease: Some(lease.0), wait_ms: 0 },
        NodeLookup::Miss(Turn::Wait(wait)) => {
            let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX).max(1);
            WireLookup::Miss { lease: None, wait_ms }
        }
        NodeLookup::Miss(Turn::Alone) => WireLookup::Miss { lease: None, wait_ms: 0 },
    };
    Ok(LookupReply { tail: shelf.tail(ring), found })
}

fn aged(found: Found<WireKept>) -> WireAged {
    let age_ms = u64::try_from(found.age.as_millis()).unwrap_or(u64::MAX);
    WireAged { kept: found.value, age_ms, state: found.state }
}

fn insert(shelf: &CacheShelf, ring: &RingDoc, request: InsertRequest) -> Result<InsertReply, RpcError> {
    let entry = request.entry.read(shelf.now(), ring.seed).map_err(refused)?.entry;
    shelf.counters.inserts.fetch_add(1, Ordering::Relaxed);
    let kept = shelf.node.shard(entry.hash).insert(entry);
    Ok(InsertReply { tail: shelf.tail(ring), kept })
}

fn release(shelf: &CacheShelf, ring: &RingDoc, request: &ReleaseRequest) -> Result<CacheTail, RpcError> {
    let key = read_key(&request.key, ring.seed).map_err(refused)?;
    shelf.counters.releases.fetch_add(1, Ordering::Relaxed);
    shelf.node.shard(key.hash()).release(key.hash(), LeaseId(request.lease));
    Ok(shelf.tail(ring))
}

fn protect(shelf: &CacheShelf, ring: &RingDoc, request: ProtectRequest) -> Result<CacheTail, RpcError> {
    let mark = request.head.mark(request.round).map_err(refused)?;
    let now = shelf.now();
    let entries = read_batch(request.entries, now, ring.seed).map_err(refused)?;
    shelf.counters.protects.fetch_add(1, Ordering::Relaxed);
    for copy in entries {
        shelf.node.shard(copy.entry.hash).keep_copy(mark, copy.entry, now);
    }
    if request.last {
        shelf.node.each().for_each(|mut shard| shard.round_done(mark, now));
    }
    Ok(shelf.tail(ring))
}

fn take_over(
    shelf: &CacheShelf,
    ring: &RingDoc,
    request: HandOverRequest,
    bytes: usize,
) -> Result<HandOverReply, RpcError> {
    let entries = read_batch(request.entries, shelf.now(), ring.seed).map_err(refused)?;
    shelf.counters.handed.fetch_add(1, Ordering::Relaxed);
    for given in entries {
        let kept = shelf.node.shard(given.entry.hash).take_over(given);
        shelf.counters.entries_taken.fetch_add(u64::from(kept), Ordering::Relaxed);
    }
    Ok(HandOverReply { tail: shelf.tail(ring), room: shelf.take_bytes(bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handles::cache_node::ShelfName;
    use crate::ring::records::write_ring;
    use crate::ring::tables::RingTables;
    use crate::wire::v1::cache::{CacheHead, WireEntry, WireSender};
    use farol_cache::freshness::Expiry;
    use farol_cache::node::NodeOptions;
    use farol_cache::replace::Policy;
    use farol_cache::tables::{Epoch, RingNode};
    use farol_cache::{NodeId, Ring};
    use serde::de::DeserializeOwned;
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    fn ring(version: u64, seed: u64) -> RingDoc {
        let epoch = Epoch { term: 1, version };
        let node = |id| RingNode { id: NodeId(id), incarnation: 1, capacity: 1000 };
        RingDoc { epoch, seed, nodes: vec![node(0), node(1)], ring: Ring::equal(2) }
    }

    fn shelf() -> CacheShelf {
        let expiry = Expiry { ttl: Duration::from_secs(600), grace: Duration::from_secs(60) };
        let options =
            NodeOptions { copies_share: 0.1, ..NodeOptions::of_bytes(1 << 20, Policy::default(), expiry) };
        let name = ShelfName { no: 1, incarnation: 4, capacity: 1000 };
        CacheShelf::new(&options, name, Arc::new(RingTables::default()))
    }

    fn head(from: WireSender) -> CacheHead {
        CacheHead { ring: Epoch::default().into(), from }
    }

    fn call<T: DeserializeOwned>(shelf: &CacheShelf, verb: &str, request: &impl Serialize) -> T {
        decode(&answer(Some(shelf), verb, &encode(request).unwrap()).unwrap()).unwrap()
    }

    fn entry(key: &str, state: u64) -> WireEntry {
        let kept = WireKept { answer: b"an answer".to_vec(), spelling: None };
        WireEntry { key: key.into(), aged: WireAged { kept, age_ms: 5, state }, uses: 0 }
    }

    #[test]
    fn a_miss_leads_others_wait_and_what_is_handed_in_is_found() {
        let shelf = shelf();
        let ask = |need| LookupRequest {
            head: head(WireSender::Front(9)),
            key: "k".into(),
            need,
            lease_wanted: true,
        };
        let early = answer(Some(&shelf), verb::LOOKUP, &encode(&ask(1)).unwrap());
        assert!(matches!(early, Err(RpcError::Busy(_))), "{early:?}");
        assert!(matches!(answer(None, verb::LOOKUP, b""), Err(RpcError::Refused(_))));
        shelf.tables.hear("table.ring", &write_ring(&ring(1, 7)));
        let looked = |need| call::<LookupReply>(&shelf, verb::LOOKUP, &ask(need)).found;
        let WireLookup::Miss { lease: Some(lease), .. } = looked(3) else { panic!("nobody had it") };
        assert!(matches!(looked(3), WireLookup::Miss { lease: None, wait_ms: 1.. }));
        let insert =
            InsertRequest { head: head(WireSender::Front(9)), entry: entry("k", 3), lease: Some(lease) };
        let kept: InsertReply = call(&shelf, verb::INSERT, &insert);
        assert!(kept.kept && kept.tail.incarnation == 4 && kept.tail.ring.version == 1);
        let WireLookup::Hit(aged) = looked(3) else { panic!("it was handed in") };
        assert!(aged.age_ms >= 5 && aged.state == 3 && aged.kept.answer == b"an answer");
        // A later state: it is superseded, and still given.
        assert!(matches!(looked(4), WireLookup::Stale(..)));
        let beat = shelf.beat();
        assert_eq!((beat.lookups, beat.hits, beat.inserts, beat.entries), (4, 2, 1, 1));
        // Under another seed nothing is what it was.
        shelf.tables.hear("table.ring", &write_ring(&ring(2, 8)));
        assert!(matches!(looked(4), WireLookup::Miss { .. }));
        assert_eq!(shelf.beat().entries, 0);
    }

    #[test]
    fn copies_and_what_is_handed_over_are_taken_in_from_nodes() {
        let shelf = shelf();
        shelf.tables.hear("table.ring", &write_ring(&ring(1, 7)));
        let from = WireSender::Node { id: 0, incarnation: 2 };
        let protect = ProtectRequest { head: head(from), round: 1, last: true, entries: vec![entry("c", 1)] };
        let _: CacheTail = call(&shelf, verb::PROTECT, &protect);
        let hand_over = HandOverRequest { head: head(from), last: true, entries: vec![entry("h", 1)] };
        let reply: HandOverReply = call(&shelf, verb::HAND_OVER, &hand_over);
        assert!(reply.room > 1 << 20 && shelf.node.len() == (1, 1));
        let ask = |key: &str| {
            let request = LookupRequest {
                head: head(WireSender::Front(9)),
                key: key.into(),
                need: 1,
                lease_wanted: false,
            };
            call::<LookupReply>(&shelf, verb::LOOKUP, &request).found
        };
        assert!(matches!(ask("c"), WireLookup::Adopted(_)));
        assert!(matches!(ask("h"), WireLookup::Hit(_)));
        assert!(matches!(ask("x"), WireLookup::Miss { lease: None, wait_ms: 0 }));
        let front = ProtectRequest { head: head(WireSender::Front(1)), ..protect };
        let body = encode(&front).unwrap();
        assert!(matches!(answer(Some(&shelf), verb::PROTECT, &body), Err(RpcError::Refused(_))));
        assert!(matches!(answer(Some(&shelf), verb::LOOKUP, b"\xff"), Err(RpcError::Refused(_))));
    }

    #[test]
    fn nodes_whose_clocks_are_hours_apart_tell_the_same_age() {
        let started_ago = |hours: u64| {
            let expiry = Expiry { ttl: Duration::from_secs(600), grace: Duration::from_secs(60) };
            let options = NodeOptions {
                copies_share: 0.1,
                ..NodeOptions::of_bytes(1 << 20, Policy::default(), expiry)
            };
            let begun = Instant::now() - Duration::from_secs(3600 * hours);
            let name = ShelfName { no: hours as u16, incarnation: 4, capacity: 1000 };
            let shelf = CacheShelf::since(&options, name, Arc::new(RingTables::default()), begun);
            shelf.tables.hear("table.ring", &write_ring(&ring(1, 7)));
            shelf
        };
        let (early, late) = (started_ago(1), started_ago(0));
        assert!(early.now().since(late.now()) >= Duration::from_secs(3599));
        let aged = |key: &str, secs: u64| {
            let entry = entry(key, 1);
            WireEntry { aged: WireAged { age_ms: 1000 * secs, ..entry.aged }, ..entry }
        };
        for (from, to) in [(&early, &late), (&late, &early)] {
            // Handed in at one node; then a copy of it, as old as it is there, goes to the other.
            for (key, secs) in [("young", 5), ("old", 595)] {
                let (head, entry) = (head(WireSender::Front(9)), aged(key, secs));
                let kept: InsertReply = call(from, verb::INSERT, &InsertRequest { head, entry, lease: None });
                assert!(kept.kept);
                let kept = {
                    let key = read_key(key, 7).unwrap();
                    let now = Now { time: from.now(), need: 1 };
                    from.node.shard(key.hash()).lookup(key.hash(), &key, &now, false).found().unwrap()
                };
                let age = kept.age.as_secs();
                assert!((secs..secs + 3).contains(&age), "{key} {age}");
                let mark = head_of_node(from);
                let entries = vec![aged(key, age)];
                let protect = ProtectRequest { head: mark, round: 1, last: false, entries };
                let _: CacheTail = call(to, verb::PROTECT, &protect);
            }
            let ask = |key: &str| {
                let head = head(WireSender::Front(9));
                let request = LookupRequest { head, key: key.into(), need: 1, lease_wanted: false };
                call::<LookupReply>(to, verb::LOOKUP, &request).found
            };
            let WireLookup::Adopted(found) = ask("young") else { panic!("it was copied") };
            assert!((5_000..9_000).contains(&found.age_ms), "{}", found.age_ms);
            let WireLookup::Adopted(found) = ask("old") else { panic!("it was copied") };
            assert!((595_000..599_000).contains(&found.age_ms), "{}", found.age_ms);
            to.node.each().for_each(|mut shard| shard.clear());
            from.node.each().for_each(|mut shard| shard.clear());
        }
        // What is beyond its time at one is so at the other.
        let insert =
            InsertRequest { head: head(WireSender::Front(9)), entry: aged("gone", 601), lease: None };
        for shelf in [&early, &late] {
            let _: InsertReply = call(shelf, verb::INSERT, &insert);
            let head = head(WireSender::Front(9));
            let request = LookupRequest { head, key: "gone".into(), need: 1, lease_wanted: false };
            let found = call::<LookupReply>(shelf, verb::LOOKUP, &request).found;
            assert!(matches!(found, WireLookup::Miss { .. }), "{found:?}");
        }
    }

    fn head_of_node(shelf: &CacheShelf) -> CacheHead {
        head(WireSender::Node { id: shelf.me.no, incarnation: shelf.me.incarnation })
    }
}
