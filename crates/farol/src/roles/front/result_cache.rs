//! Keeps answers in memory: one cache node in this process, between the pages and the index.
//!
//! A question's key comes from `farol_cache`, read as the index reads letters. An answer is given again as long as the
//! index and the link ranks are what they were, for a grace after that, and not beyond its time; how old it is is said in
//! it. Of those who ask for one that is superseded for some seconds, one makes it anew while the others are given it. Who
//! asks while the same question is on its way waits for that answer. The node is the one that a cluster runs.
//!
//! INVARIANT: an answer is never older than `cache.ttl`, nor was its state of the index superseded longer ago than
//! `cache.grace`, as far as this process was asked.
//! INVARIANT: an answer without hits is only given while nothing has changed: what has just come in is found.

use crate::config;
use farol_base::query::{Answer, Fragment, Hit, Request};
use farol_base::sync::Mutex;
use farol_base::{Timestamp, fingerprint};
use farol_cache::flight::{Flights, Joined};
use farol_cache::freshness::{CLOCK_BEGINS, Expiry, Now};
use farol_cache::hot::SpaceSaving;
use farol_cache::key::{Analysis, QueryKey};
use farol_cache::lease::LeaseId;
use farol_cache::node::{Found, NodeLookup, NodeOptions};
use farol_cache::replace::Policy;
use farol_cache::shards::ShardedNode;
use farol_cache::store::Entry;
use farol_front::{CacheStatus, EngineError};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Who waits longer than this for somebody else's answer asks for themselves.
const WAIT_MAX: Duration = Duration::from_secs(5);
/// Waiting for one question at a time; the front has no more calls under way than 64.
const WAITERS_MAX: usize = 64;
/// Interval of the monitor.
const MINUTE: Duration = Duration::from_secs(60);
/// Minutes and questions per minute that the dashboard remembers: 10 × 20 × some 100 bytes.
const HOT_MINUTES: usize = 10;
const HOT_PER_MINUTE: usize = 20;
/// Bytes of a question that the monitor keeps.
const HOT_BYTES_MAX: usize = 200;
/// Counters of the monitor: 10,000 × some 150 bytes = 1.5 MB.
const COUNTERS: usize = 10_000;
/// States of the index that are remembered by their fingerprints.
const STATES: usize = 64;
/// Who names an earlier state so soon after a later one was named looked before it came; after that it has come back.
const OVERTAKEN: Duration = Duration::from_secs(1);
/// Slots that are cleared up with each question: a store of a million entries is gone through in some 60,000 questions.
const CLEARED_UP: usize = 16;

/// How the index reads letters.
struct AsIndexed;

impl Analysis for AsIndexed {
    fn lower(&self, text: &str) -> String {
        farol_index::one_case(text)
    }

    fn fold(&self, text: &str) -> String {
        farol_index::without_accents(text)
    }
}

/// The key of a question.
pub fn key_of(request: &Request, seed: u64) -> QueryKey {
    QueryKey::of(request, &AsIndexed, seed)
}

/// What is kept of an answer.
#[derive(Clone)]
struct CachedAnswer {
    answer: Arc<Answer>,
    /// The question as it was asked. Suggestions and corrections repeat its spelling, so they are for those who asked
    /// like this alone.
    asked: Arc<str>,
}

impl CachedAnswer {
    fn fits(&self, asked: &str) -> bool {
        (self.answer.suggestion.is_none() && self.answer.corrected.is_none()) || *self.asked == *asked
    }
}

/// A question as the monitor counts it: by its key, shown as it was spelt first.
#[derive(Clone)]
struct HotQuestion {
    key: u64,
    shown: Arc<str>,
}

impl PartialEq for HotQuestion {
    fn eq(&self, other: &HotQuestion) -> bool {
        self.key == other.key
    }
}

impl Eq for HotQuestion {}

type Waiter = SyncSender<Result<CachedAnswer, EngineError>>;

/// What comes of looking a question up.
enum Next {
    Given(Found<CachedAnswer>),
    /// To be made anew by this one.
    Renew(Found<CachedAnswer>, LeaseId),
    Join(Joined),
}

/// The cache of this process.
///
/// Locks are taken in this order: a shard, then flights. The others are held alone.
pub struct ResultCache {
    node: ShardedNode<QueryKey, CachedAnswer>,
    flights: Mutex<Flights<QueryKey, Waiter>>,
    monitor: Mutex<Monitor>,
    states: Mutex<StateNumbers>,
    /// Of keys' hashes: nobody outside can choose questions that fall together.
    seed: u64,
    /// Times are reckoned from here, by a clock that never goes back.
    begun: Instant,
    shared: AtomicU64,
    /// Answers that were there and not given: with a suggestion for another spelling, or without hits and superseded.
    unfit: AtomicU64,
}

impl ResultCache {
    /// A cache by the settings; `None` where they give it no memory.
    pub fn new(settings: &config::Cache) -> Option<ResultCache> {
        let limit = settings.memory.get();
        if limit == 0 {
            return None;
        }
        let expiry = Expiry { ttl: settings.ttl.get(), grace: settings.grace.get() };
        // One node has nobody whose copies it could keep.
        let node = ShardedNode::new(&NodeOptions::of_bytes(limit, Policy::default(), expiry));
        let cache = ResultCache {
            node,
            flights: Mutex::new(Flights::new(WAITERS_MAX)),
            monitor: Mutex::new(Monitor::new()),
            states: Mutex::new(StateNumbers::default()),
            seed: fingerprint::random_key(),
            begun: Instant::now(),
            shared: AtomicU64::new(0),
            unfit: AtomicU64::new(0),
        };
        Some(cache)
    }

    fn now(&self) -> Timestamp {
        CLOCK_BEGINS + self.begun.elapsed()
    }

    /// Answers from memory, or asks. `state` names the state of everything that answers are made from; it is asked
    /// again for an answer that has come, in case that is newer.
    pub fn answer(
        &self,
        request: &Request,
        state: u64,
        ask: impl FnOnce() -> Result<(Answer, u64), EngineError>,
    ) -> Result<Answer, EngineError> {
        let begun = Instant::now();
        let key = key_of(request, self.seed);
        let asked = farol_query::write(&request.query);
        let time = self.now();
        self.monitor.lock().count(&key, &asked, time);
        let now = Now { time, need: self.states.lock().current(state, time) };
        let (sender, receiver) = sync_channel(1);
        match self.look_up(&key, &asked, &now, || sender) {
            Next::Given(found) => Ok(again(&found, begun)),
            // If that fails there is still the old one.
            Next::Renew(found, lease) => {
                self.renew(&key, &asked, lease, ask).or_else(|_| Ok(again(&found, begun)))
            }
            Next::Join(Joined::Leads) => self.lead(&key, &asked, ask),
            Next::Join(Joined::Full) => ask().map(|(answer, _)| answer),
            Next::Join(Joined::Waits) => match receiver.recv_timeout(WAIT_MAX) {
                Ok(Ok(kept)) if kept.fits(&asked) => {
                    self.shared.fetch_add(1, Ordering::Relaxed);
                    Ok(again(&Found { value: kept, age: Duration::ZERO, state: 0 }, begun))
                }
                Ok(Err(trouble)) => Err(trouble),
                // Another spelling with a suggestion, or who led broke down or takes too long.
                Ok(Ok(_)) | Err(_) => ask().map(|(answer, _)| answer),
            },
        }
    }

    /// Looks a question up, and where nothing fits joins its flight: under one lock, so that exactly one leads.
    fn look_up(&self, key: &QueryKey, asked: &str, now: &Now, waiter: impl FnOnce() -> Waiter) -> Next {
        let mut shard = self.node.shard(key.hash());
        shard.clear_up(now.time, CLEARED_UP);
        let (found, is_stale, lease) = match shard.lookup(key.hash(), key, now, true) {
            NodeLookup::Hit(found) | NodeLookup::Adopted(found) => (Some(found), false, None),
            NodeLookup::Stale(found, lease) => (Some(found), true, lease),
            NodeLookup::Miss(_) => (None, false, None),
        };
        let Some(found) = found else { return Next::Join(self.flights.lock().join(key, waiter)) };
        if !found.value.fits(asked) || (is_stale && found.value.answer.hits.is_empty()) {
            self.unfit.fetch_add(1, Ordering::Relaxed);
            return Next::Join(self.flights.lock().join(key, waiter));
        }
        match lease {
            Some(lease) => Next::Renew(found, lease),
            None => Next::Given(found),
        }
    }

    /// Makes a superseded answer anew, for whoever comes next.
    fn renew(
        &self,
        key: &QueryKey,
        asked: &str,
        lease: LeaseId,
        ask: impl FnOnce() -> Result<(Answer, u64), EngineError>,
    ) -> Result<Answer, EngineError> {
        let made = self.now();
        let made_anew = ask().map(|(answer, state)| self.keep(key, asked, made, answer, state));
        self.node.shard(key.hash()).release(key.hash(), lease);
        made_anew.map(|kept| Arc::unwrap_or_clone(kept.answer))
    }

    /// Asks for everybody who waits, and keeps the answer.
    fn lead(
        &self,
        key: &QueryKey,
        asked: &str,
        ask: impl FnOnce() -> Result<(Answer, u64), EngineError>,
    ) -> Result<Answer, EngineError> {
        // Lands however this ends, so that nobody waits in vain.
        let mut flight = FlightGuard { cache: self, key, told: None };
        let made = self.now();
        match ask() {
            Ok((answer, state)) => {
                let kept = self.keep(key, asked, made, answer, state);
                flight.told = Some(Ok(kept.clone()));
                drop(flight);
                Ok(Arc::unwrap_or_clone(kept.answer))
            }
            Err(trouble) => {
                flight.told = Some(Err(trouble.clone()));
                Err(trouble)
            }
        }
    }

    fn keep(&self, key: &QueryKey, asked: &str, made: Timestamp, answer: Answer, state: u64) -> CachedAnswer {
        let kept = CachedAnswer { answer: Arc::new(answer), asked: asked.into() };
        // What some part of the index did not answer may be whole the next time.
        if !kept.answer.shards.is_some_and(|shards| shards.is_partial()) {
            let weight = weight(key, &kept);
            let state = self.states.lock().of(state);
            let entry =
                Entry { hash: key.hash(), key: key.clone(), value: kept.clone(), weight, made, state };
            self.node.shard(key.hash()).insert(entry);
        }
        kept
    }

    pub fn status(&self) -> CacheStatus {
        let counts = self.node.counts();
        let (shared, unfit) = (self.shared.load(Ordering::Relaxed), self.unfit.load(Ordering::Relaxed));
        CacheStatus {
            hits: counts.hits.saturating_sub(unfit),
            misses: (counts.misses + unfit).saturating_sub(shared),
            expired: counts.old,
            shared,
            answers: self.node.len().0 as u64,
            bytes: self.node.weight(),
            bytes_max: self.node.limit(),
            evicted: self.node.evicted(),
            hot: self.monitor.lock().hottest(),
        }
    }
}

/// Numbers for states that come as fingerprints: a later state has a greater number.
#[derive(Default)]
struct StateNumbers {
    /// Fingerprint and number, newest last.
    known: VecDeque<(u64, u64)>,
    /// When the newest one was first named.
    since: Timestamp,
}

impl StateNumbers {
    /// The number of what is the state now.
    fn current(&mut self, state: u64, now: Timestamp) -> u64 {
        if let Some((newest, number)) = self.known.back()
            && *newest == state
        {
            return *number;
        }
        match self.known.iter().rev().find(|(known, _)| *known == state) {
            // Whoever asks looked at the state just before somebody else looked again.
            Some((_, number)) if now.since(self.since) < OVERTAKEN => *number,
            _ => self.push(state, now),
        }
    }

    fn push(&mut self, state: u64, now: Timestamp) -> u64 {
        let number = self.known.back().map_or(1, |(_, number)| number + 1);
        self.known.push_back((state, number));
        if self.known.len() > STATES {
            self.known.pop_front();
        }
        self.since = now;
        number
    }

    /// The number of the state that an answer was made of. One that nobody has named yet is newer than all that were.
    fn of(&mut self, state: u64) -> u64 {
        match self.known.iter().rev().find(|(known, _)| *known == state) {
            Some((_, number)) => *number,
            None => self.push(state, self.since),
        }
    }
}

/// Counts questions for people to see.
struct Monitor {
    counts: SpaceSaving<HotQuestion>,
    minute_ends: Timestamp,
    /// The most asked questions of the last minutes, newest last.
    minutes: VecDeque<Vec<(Arc<str>, u32)>>,
}

impl Monitor {
    fn new() -> Monitor {
        let minute_ends = CLOCK_BEGINS + MINUTE;
        Monitor { counts: SpaceSaving::new(COUNTERS), minute_ends, minutes: VecDeque::new() }
    }

    /// Counts a question, by the key that the cache has it under.
    fn count(&mut self, key: &QueryKey, asked: &str, now: Timestamp) {
        let shown = asked[..asked.floor_char_boundary(HOT_BYTES_MAX)].into();
        self.counts.offer(key.hash(), &HotQuestion { key: key.hash(), shown });
        if now < self.minute_ends {
            return;
        }
        self.minute_ends = now + MINUTE;
        self.minutes.push_back(self.top());
        if self.minutes.len() > HOT_MINUTES {
            self.minutes.pop_front();
        }
        self.counts.reset();
    }

    fn top(&self) -> Vec<(Arc<str>, u32)> {
        let sure = self.counts.iter().take(HOT_PER_MINUTE);
        sure.map(|counted| (counted.key.shown.clone(), counted.count - counted.error)).collect()
    }

    /// Questions of the last minutes that were asked more than once, the most asked first.
    fn hottest(&self) -> Vec<(String, u64)> {
        let mut sums: HashMap<Arc<str>, u64> = HashMap::new();
        for (text, count) in self.minutes.iter().flatten().chain(&self.top()) {
            *sums.entry(text.clone()).or_default() += u64::from(*count);
        }
        let mut hot: Vec<(String, u64)> = sums
            .into_iter()
            .filter(|(_, count)| *count > 1)
            .map(|(text, count)| (text.to_string(), count))
            .collect();
        hot.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        hot.truncate(HOT_PER_MINUTE);
        hot
    }
}

/// Ends a flight when it goes out of sight.
struct FlightGuard<'a> {
    cache: &'a ResultCache,
    key: &'a QueryKey,
    told: Option<Result<CachedAnswer, EngineError>>,
}

impl Drop for FlightGuard<'_> {
    fn drop(&mut self) {
        let waiters = self.cache.flights.lock().land(self.key);
        for waiter in waiters {
            // Without an answer the waiter's channel closes, and they ask for themselves.
            if let Some(told) = &self.told {
                let _ = waiter.send(told.clone());
            }
        }
    }
}

/// A kept answer, given again: it took as long as finding it took, and says how old it is.
fn again(found: &Found<CachedAnswer>, begun: Instant) -> Answer {
    let mut answer = Answer::clone(&found.value.answer);
    answer.took = begun.elapsed();
    answer.age = found.age;
    answer
}

/// Bytes of an answer in memory, about: texts with what their allocations cost.
fn weight(key: &QueryKey, kept: &CachedAnswer) -> u32 {
    const ALLOCATION: usize = 32;
    let fragments = |list: &[Fragment]| -> usize {
        list.iter().map(|fragment| std::mem::size_of::<Fragment>() + fragment.text.len() + ALLOCATION).sum()
    };
    let hits: usize = kept
        .answer
        .hits
        .iter()
        .map(|hit| {
            let texts = hit.url.as_str().len() + fragments(&hit.title) + fragments(&hit.snippet);
            std::mem::size_of::<Hit>() + texts + 3 * ALLOCATION
        })
        .sum();
    let spelt = [&kept.answer.suggestion, &kept.answer.corrected];
    let spelt: usize = spelt.into_iter().flatten().map(|query| farol_query::write(query).len()).sum();
    let all =
        std::mem::size_of::<Answer>() + hits + spelt + key.text().len() + kept.asked.len() + 4 * ALLOCATION;
    u32::try_from(all).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests;
