//! A cache node: its own entries (`cache`), and copies of its predecessor's best ones (`copies`).
//!
//! Algorithm 6 of [Gomez14 §7.3]: what is asked for and stands only in `copies` is adopted into `cache` at
//! once. Both stores together have the room that one node without failover copies would have: (1-α)N + αN.
//! A large node is made of several of these, each with an own lock ([`crate::shards`]).
//!
//! INVARIANT: one node answers one question with one look at each store; it never asks another node.
//! INVARIANT: looking something up takes nothing away: what is too old for one asker stays for the others, until it is
//! replaced, evicted or beyond its TTL ([`crate::freshness`]).
//! INVARIANT: everything may come zero, one or several times, in any order: the newer answer stays.
//! INVARIANT: rounds, hand-overs and clearing up go in steps of as many slots as the caller says.

use crate::copies::{RoundMark, Sources};
use crate::freshness::{Expiry, Freshness, Now, States};
use crate::lease::{LeaseId, Leases, Turn};
use crate::replace::Policy;
use crate::ring::NodeId;
use crate::store::{Entry, Proven, Step, Store};
use farol_base::Timestamp;
use std::time::Duration;

/// After this part of its grace a stale answer is made anew by one of those who ask for it.
const REFRESHED_AFTER: u32 = 6;

/// How a node is built.
#[derive(Clone, Copy, Debug)]
pub struct NodeOptions {
    /// Room for both stores: bytes, or entries where `in_entries`.
    pub limit: u64,
    /// Count entries instead of bytes: for simulations.
    pub in_entries: bool,
    /// α: the share of the room that is kept for copies, from 0 to 0.5.
    pub copies_share: f64,
    pub policy: Policy,
    pub expiry: Expiry,
    /// Copies of a source that is silent for so long are dropped: two intervals of its rounds.
    pub silence_max: Duration,
}

impl NodeOptions {
    /// A node for so many entries that do not age.
    pub fn of_entries(limit: u64, policy: Policy) -> NodeOptions {
        NodeOptions {
            in_entries: true,
            expiry: Expiry::NEVER,
            ..NodeOptions::of_bytes(limit, policy, Expiry::NEVER)
        }
    }

    /// A node for so many bytes, without room for copies.
    pub fn of_bytes(limit: u64, policy: Policy, expiry: Expiry) -> NodeOptions {
        NodeOptions {
            limit,
            in_entries: false,
            copies_share: 0.0,
            policy,
            expiry,
            silence_max: Duration::from_secs(600),
        }
    }
}

/// A copy that a neighbour sent.
#[derive(Clone, Debug)]
struct Copy<V> {
    value: V,
    mark: RoundMark,
}

/// An answer that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found<V> {
    pub value: V,
    pub age: Duration,
    pub state: u64,
}

/// What a node answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeLookup<V> {
    /// From its own entries.
    Hit(Found<V>),
    /// From a neighbour's copies, and its own from now on.
    Adopted(Found<V>),
    /// Of a superseded state, within the grace. With a lease, this asker makes it anew while others are given this one.
    Stale(Found<V>, Option<LeaseId>),
    Miss(Turn),
}

impl<V> NodeLookup<V> {
    /// The answer, if there is one.
    pub fn found(self) -> Option<Found<V>> {
        match self {
            NodeLookup::Hit(found) | NodeLookup::Adopted(found) | NodeLookup::Stale(found, _) => Some(found),
            NodeLookup::Miss(_) => None,
        }
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub hits: u64,
    /// Of these, answered from copies.
    pub adopted: u64,
    /// Of these, of a superseded state.
    pub stale: u64,
    pub misses: u64,
    /// Of these, because the answer was too old.
    pub old: u64,
    pub inserted: u64,
    /// Answers that were not kept: too heavy, or not admitted.
    pub refused: u64,
}

impl Counts {
    pub fn lookups(&self) -> u64 {
        self.hits + self.misses
    }

    /// Share of lookups that found an answer; 0 where nothing was asked.
    pub fn hit_rate(&self) -> f64 {
        self.hits as f64 / self.lookups().max(1) as f64
    }

    pub fn add(&mut self, other: &Counts) {
        self.hits += other.hits;
        self.adopted += other.adopted;
        self.stale += other.stale;
        self.misses += other.misses;
        self.old += other.old;
        self.inserted += other.inserted;
        self.refused += other.refused;
    }
}

/// A round of failover copies under way: which entries it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundWalk {
    next: Option<usize>,
    /// Entries with so many uses are taken …
    uses_min: u8,
    /// … and of those with one less, so many.
    room_below: usize,
}

impl RoundWalk {
    pub fn is_done(&self) -> bool {
        self.next.is_none()
    }
}

/// A hand-over under way: through the own entries, then through the copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandOver {
    own: Option<usize>,
    copies: Option<usize>,
}

impl Default for HandOver {
    fn default() -> HandOver {
        HandOver { own: Some(0), copies: Some(0) }
    }
}

impl HandOver {
    pub fn is_done(&self) -> bool {
        self.own.is_none() && self.copies.is_none()
    }
}

/// A node, or one shard of a large one.
pub struct CacheNode<K, V> {
    cache: Store<K, V>,
    copies: Store<K, Copy<V>>,
    states: States,
    sources: Sources,
    leases: Leases,
    silence_max: Duration,
    counts: Counts,
    /// Where clearing up goes on: in `cache`, in `copies`.
    clearing: (usize, usize),
}

impl<K: Eq + Clone, V: Clone> CacheNode<K, V> {
    pub fn new(options: &NodeOptions) -> CacheNode<K, V> {
        let share = if options.copies_share.is_nan() { 0.0 } else { options.copies_share.clamp(0.0, 0.5) };
        let copies = (options.limit as f64 * share).round() as u64;
        let own = options.limit - copies;
        let (cache, copies) = match options.in_entries {
            true => (Store::of_entries(own, options.policy), Store::of_entries(copies, options.policy)),
            false => (Store::of_bytes(own, options.policy), Store::of_bytes(copies, options.policy)),
        };
        CacheNode {
            cache,
            copies,
            states: States::new(options.expiry),
            sources: Sources::default(),
            leases: Leases::default(),
            silence_max: options.silence_max,
            counts: Counts::default(),
            clearing: (0, 0),
        }
    }

    /// `LOOKUP`. With `lease_wanted`, of all who miss one key one is told to lead.
    pub fn lookup(&mut self, hash: u64, key: &K, now: &Now, lease_wanted: bool) -> NodeLookup<V> {
        self.states.learn(now);
        let mut is_old = false;
        if let Some(entry) = self.cache.get(hash, key) {
            let freshness = self.states.judge(entry.made, entry.state, now);
            let found = || found(&entry.value, entry.made, entry.state, now);
            match freshness {
                Freshness::Fresh => {
                    let found = found();
                    self.counts.hits += 1;
                    return NodeLookup::Hit(found);
                }
                Freshness::Stale(since) => {
                    let found = found();
                    return self.stale(hash, found, since, now, lease_wanted);
                }
                Freshness::TooOld => is_old = true,
            }
        }
        if let Some(adopted) = self.adopt(hash, key, now, lease_wanted) {
            return adopted;
        }
        self.counts.misses += 1;
        self.counts.old += u64::from(is_old);
        NodeLookup::Miss(if lease_wanted { self.leases.ask(hash, now.time) } else { Turn::Alone })
    }

    fn stale(
        &mut self,
        hash: u64,
        found: Found<V>,
        since: Duration,
        now: &Now,
        wanted: bool,
    ) -> NodeLookup<V> {
        self.counts.hits += 1;
        self.counts.stale += 1;
        let due = since >= self.states.expiry().grace / REFRESHED_AFTER;
        let lease = match wanted && due {
            true => match self.leases.ask(hash, now.time) {
                Turn::Lead(id) => Some(id),
                Turn::Wait(_) | Turn::Alone => None,
            },
            false => None,
        };
        NodeLookup::Stale(found, lease)
    }

    /// Answers from a neighbour's copy, which becomes an own entry.
    fn adopt(&mut self, hash: u64, key: &K, now: &Now, lease_wanted: bool) -> Option<NodeLookup<V>> {
        if self.copies.is_empty() {
            return None;
        }
        let copy = self.copies.peek(hash, key)?;
        let freshness = self.states.judge(copy.made, copy.state, now);
        if freshness == Freshness::TooOld || !self.sources.holds(&copy.value.mark) {
            return None;
        }
        let entry = own_of(copy);
        let found = found(&entry.value, entry.made, entry.state, now);
        // It was among the best of its node.
        self.cache.take_over(Proven { uses: 1, entry });
        self.counts.adopted += 1;
        Some(match freshness {
            Freshness::Stale(since) => self.stale(hash, found, since, now, lease_wanted),
            _ => {
                self.counts.hits += 1;
                NodeLookup::Adopted(found)
            }
        })
    }

    /// `INSERT`: an answer that the index gave after a miss here. Answers whether it was kept.
    pub fn insert(&mut self, entry: Entry<K, V>) -> bool {
        self.leases.end(entry.hash);
        let kept = self.cache.insert(entry);
        self.counts.inserted += u64::from(kept);
        self.counts.refused += u64::from(!kept);
        kept
    }

    /// `RELEASE`: who leads has no answer.
    pub fn release(&mut self, hash: u64, lease: LeaseId) {
        self.leases.release(hash, lease);
    }

    /// `PROTECT`: a copy of one of a neighbour's best entries. The newer answer stays, and it is the source's that sent
    /// it last.
    pub fn keep_copy(&mut self, mark: RoundMark, entry: Entry<K, V>, now: Timestamp) {
        if !self.sources.heard(&mark, now) {
            return;
        }
        let Entry { hash, key, value, weight, made, state } = entry;
        let copy = Entry { hash, key: key.clone(), value: Copy { value, mark }, weight, made, state };
        if !self.copies.insert(copy)
            && let Some(newer) = self.copies.peek_mut(hash, &key)
        {
            newer.mark = mark;
        }
    }

    /// The last of a round has come: the source's copies of earlier rounds no longer answer.
    pub fn round_done(&mut self, mark: RoundMark, now: Timestamp) {
        self.sources.complete(&mark, now);
    }

    /// Clears up what nobody will be given any more, `budget` slots of each store at a time.
    pub fn clear_up(&mut self, now: Timestamp, budget: usize) {
        self.sources.forget_silent(now, self.silence_max);
        let (states, sources) = (&self.states, &self.sources);
        let own = self.cache.sweep(self.clearing.0, budget, |entry| states.is_dead(entry.made, now));
        let copies = self.copies.sweep(self.clearing.1, budget, |copy| {
            states.is_dead(copy.made, now) || !sources.holds(&copy.value.mark)
        });
        self.clearing = (own.next.unwrap_or(0), copies.next.unwrap_or(0));
    }

    /// The best entries by the policy's order, a share of all: what [Gomez14 §7.3] protects.
    pub fn top(&self, share: f64) -> impl Iterator<Item = &Entry<K, V>> {
        self.cache.top(self.count_of(share))
    }

    fn count_of(&self, share: f64) -> usize {
        (self.cache.len() as f64 * share.clamp(0.0, 1.0)).round() as usize
    }

    /// Begins a round of copies of a share of the entries: those asked for most since they came.
    pub fn begin_round(&self, share: f64) -> RoundWalk {
        let (uses_min, room_below) = self.cache.mark_for(self.count_of(share));
        RoundWalk { next: Some(0), uses_min, room_below }
    }

    /// The next entries of a round, from so many slots. Only what a later asker could be given.
    pub fn step_round(&mut self, round: &mut RoundWalk, budget: usize, now: Timestamp) -> Vec<Entry<K, V>> {
        let Some(from) = round.next else { return Vec::new() };
        let states = &self.states;
        let present = Now { time: now, need: states.newest() };
        let Step { next, found } = self.cache.walk(from, budget, |entry, uses| {
            let mut wanted = uses >= round.uses_min;
            if !wanted && uses + 1 == round.uses_min && round.room_below > 0 {
                round.room_below -= 1;
                wanted = true;
            }
            let fresh = || states.judge(entry.made, entry.state, &present) != Freshness::TooOld;
            (wanted && fresh()).then(|| entry.clone())
        });
        round.next = next;
        found
    }

    /// `HAND OVER`: takes out, from so many slots, what belongs to other nodes now that borders have moved, and of the copies
    /// those whose node is gone; `moves` is told an entry's hash and whose copy it is.
    pub fn step_hand_over(
        &mut self,
        walk: &mut HandOver,
        budget: usize,
        mut moves: impl FnMut(u64, Option<NodeId>) -> bool,
    ) -> Vec<Proven<K, V>> {
        if let Some(from) = walk.own {
            let step = self.cache.sweep(from, budget, |entry| moves(entry.hash, None));
            walk.own = step.next;
            return step.found;
        }
        let Some(from) = walk.copies else { return Vec::new() };
        let sources = &self.sources;
        let step = self.copies.sweep(from, budget, |copy| {
            sources.holds(&copy.value.mark) && moves(copy.hash, Some(copy.value.mark.source))
        });
        walk.copies = step.next;
        step.found
            .into_iter()
            .map(|copy| Proven { uses: copy.uses.max(1), entry: own_of(&copy.entry) })
            .collect()
    }

    /// Copies out, from so many own slots, entries with these hashes: what other nodes are to have as well. Also says where to
    /// go on.
    pub fn step_give(
        &mut self,
        from: usize,
        budget: usize,
        mut wanted: impl FnMut(u64) -> bool,
    ) -> Step<Proven<K, V>> {
        self.cache.look(from, budget, |entry, uses| {
            wanted(entry.hash).then(|| Proven { uses: uses.max(1), entry: entry.clone() })
        })
    }

    /// Takes in what another node handed over, proven or where there is room.
    pub fn take_over(&mut self, given: Proven<K, V>) -> bool {
        self.cache.take_over(given)
    }

    /// Forgets everything, as a crash does.
    pub fn clear(&mut self) {
        self.cache.clear();
        self.copies.clear();
        self.sources.clear();
        self.leases.clear();
        self.states = States::new(self.states.expiry());
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The greatest state that anybody named here.
    pub fn newest_state(&self) -> u64 {
        self.states.newest()
    }

    /// Entries and copies.
    pub fn len(&self) -> (usize, usize) {
        (self.cache.len(), self.copies.len())
    }

    pub fn is_empty(&self) -> bool {
        self.cache.is_empty() && self.copies.is_empty()
    }

    /// Weight of everything kept, at most the limit.
    pub fn weight(&self) -> u64 {
        self.cache.weight() + self.copies.weight()
    }

    /// Own entries given up for room so far.
    pub fn evicted(&self) -> u64 {
        self.cache.evicted()
    }

    /// Room for own entries and for copies.
    pub fn limits(&self) -> (u64, u64) {
        (self.cache.limit(), self.copies.limit())
    }

    /// Whether this key is in `cache`, in `copies`.
    pub fn holds(&self, hash: u64, key: &K) -> (bool, bool) {
        let copy = self.copies.peek(hash, key).is_some_and(|copy| self.sources.holds(&copy.value.mark));
        (self.cache.peek(hash, key).is_some(), copy)
    }
}

fn found<V: Clone>(value: &V, made: Timestamp, state: u64, now: &Now) -> Found<V> {
    Found { value: value.clone(), age: now.time.since(made), state }
}

/// A copy as an entry of one's own.
fn own_of<K: Clone, V: Clone>(copy: &Entry<K, Copy<V>>) -> Entry<K, V> {
    Entry {
        hash: copy.hash,
        key: copy.key.clone(),
        value: copy.value.value.clone(),
        weight: copy.weight,
        made: copy.made,
        state: copy.state,
    }
}

#[cfg(test)]
mod tests;
