//! A part of the contract of bodies between nodes: any bytes as messages of the cache service, one after another, at one
//! node, one front and one leader. The first byte of each says which it is.
//!
//! Contract: a body is refused, or read; what was read is written as something that reads the same; what means nothing is
//! refused before it is used; whatever comes, a node keeps to its memory and a ring still tiles the circle.

use farol_base::query::Answer;
use farol_cache::front::{FrontRouter, FrontRules};
use farol_cache::freshness::{CLOCK_BEGINS, Expiry, Now};
use farol_cache::key::QueryKey;
use farol_cache::lead::{Leader, LeaderRules};
use farol_cache::node::NodeOptions;
use farol_cache::replace::Policy;
use farol_cache::tables::{FrontId, FrontReport, HotDoc, RingDoc};
use farol_cache::CacheNode;
use super::protocol::v1::cache::{
    HandOverReply, HandOverRequest, InsertReply, InsertRequest, LookupReply, LookupRequest, ProtectRequest,
    ReleaseRequest, WireAnswer, WireBeat, WireHot, WireKept, WireReport, WireRing, read_batch, read_key,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

const MEMORY: u64 = 1 << 16;
const SEED: u64 = 7;

struct Service {
    node: CacheNode<QueryKey, WireKept>,
    front: FrontRouter<String>,
    leader: Leader<String>,
    /// Milliseconds that have gone.
    gone: u64,
}

pub fn check(bytes: &[u8]) {
    let expiry = Expiry { ttl: Duration::from_secs(600), grace: Duration::from_secs(60) };
    let options = NodeOptions { copies_share: 0.2, ..NodeOptions::of_bytes(MEMORY, Policy::default(), expiry) };
    let rules = FrontRules { counters: 16, remembered: 64, ..FrontRules::ours() };
    let mut service = Service {
        node: CacheNode::new(&options),
        front: FrontRouter::new(FrontId(1), 1, rules, CLOCK_BEGINS),
        leader: Leader::new(LeaderRules::ours(), 1, SEED, CLOCK_BEGINS),
        gone: 0,
    };
    let mut rest = bytes;
    // Each message says how long it is.
    for _ in 0..16 {
        let [kind, low, high, tail @ ..] = rest else { break };
        let length = usize::from(u16::from_le_bytes([*low, *high])).min(tail.len());
        let (body, after) = tail.split_at(length);
        service.take(*kind, body);
        rest = after;
    }
}

impl Service {
    fn take(&mut self, kind: u8, body: &[u8]) {
        self.gone += 1 + u64::from(kind >> 4) * 500;
        let now = CLOCK_BEGINS + Duration::from_millis(self.gone);
        match kind % 12 {
            0 => drop(read::<LookupRequest>(body).map(|request| {
                let Ok(key) = read_key(&request.key, SEED) else { return };
                let asked = Now { time: now, need: request.need };
                self.node.lookup(key.hash(), &key, &asked, request.lease_wanted);
                self.front.route(key.hash(), &request.key, now);
            })),
            1 => drop(read::<LookupReply>(body)),
            2 => drop(read::<InsertRequest>(body).map(|request| {
                let Ok(proven) = request.entry.read(now, SEED) else { return };
                self.node.insert(proven.entry);
            })),
            3 => drop(read::<InsertReply>(body)),
            4 => drop(read::<ReleaseRequest>(body)),
            5 => drop(read::<ProtectRequest>(body).map(|request| {
                let Ok(mark) = request.head.mark(request.round) else { return };
                for one in read_batch(request.entries, now, SEED).into_iter().flatten() {
                    self.node.keep_copy(mark, one.entry, now);
                }
                if request.last {
                    self.node.round_done(mark, now);
                }
            })),
            6 => drop(read::<HandOverRequest>(body).map(|request| {
                for one in read_batch(request.entries, now, SEED).into_iter().flatten() {
                    self.node.take_over(one);
                }
            })),
            7 => drop(read::<HandOverReply>(body)),
            8 => drop(read::<WireBeat>(body).map(|beat| {
                let (node, beat) = beat.read();
                self.leader.beat(node, &beat, now);
            })),
            9 => drop(read::<WireReport>(body).map(|wire| {
                let Ok(report) = FrontReport::try_from(wire) else { return };
                assert_eq!(FrontReport::try_from(WireReport::from(&report)), Ok(report.clone()));
                self.leader.report(report, now);
            })),
            10 => drop(read::<WireRing>(body).map(|wire| {
                let Ok(doc) = RingDoc::try_from(wire) else { return };
                assert_eq!(RingDoc::try_from(WireRing::from(&doc)), Ok(doc.clone()));
                let newer = doc.epoch > self.front.epoch();
                assert_eq!(self.front.install_ring(&doc), newer);
            })),
            _ => drop(read::<WireHot>(body).map(|wire| {
                let Ok(doc) = HotDoc::try_from(wire) else { return };
                self.front.install_hot(&doc, now);
            })),
        }
        drop(read::<WireAnswer>(body).map(Answer::try_from));
        self.node.clear_up(now, 16);
        assert!(self.node.weight() <= MEMORY);
        for one in self.leader.tick(now) {
            if let farol_cache::lead::Publish::Ring(doc) = one {
                let widths: f64 = (0..doc.ring.len()).map(|place| doc.ring.width(place)).sum();
                assert!(doc.ring.is_empty() || (widths - 1.0).abs() < 1e-6);
                assert!(doc.check().is_ok());
            }
        }
        self.leader.report(self.front.report(now), now);
    }
}

/// Reads a body as calls do, all of it.
fn read<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<T> {
    let (value, rest) = postcard::take_from_bytes::<T>(bytes).ok()?;
    if !rest.is_empty() {
        return None;
    }
    let written = postcard::to_stdvec(&value).expect("what was read can be written");
    let again: T = postcard::from_bytes(&written).expect("what was written can be read");
    assert_eq!(postcard::to_stdvec(&again).expect("it was written before"), written);
    Some(value)
}
