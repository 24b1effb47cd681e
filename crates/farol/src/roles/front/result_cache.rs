//! Keeps answers in memory: one cache node in this process, between the pages and the index.
//!
//! A question's key comes from `farol_cache`, read as the index reads letters. An answer is given again as long as the
//! index and the link ranks are what they were, and not beyond its time. Who asks while the same question is on its way
//! waits for that answer. The monitor of hot questions is the one that a cluster's front runs.
//!
//! INVARIANT: an answer is never older than `cache.ttl`, and never of an earlier state of the index than `cache.grace`
//! allows.

use crate::config;
use farol_base::query::{Answer, Fragment, Hit, Request};
use farol_base::sync::Mutex;
use farol_base::{Clock, SystemClock, Timestamp};
use farol_cache::flight::{Flights, Joined};
use farol_cache::key::{Analysis, QueryKey};
use farol_cache::node::{CacheNode, NodeLookup, NodeOptions};
use farol_cache::replace::Policy;
use farol_cache::route::{HotRules, Router, RouterRules};
use farol_cache::store::{Entry, Expiry, Now};
use farol_cache::{Ring, burst};
use farol_front::{CacheStatus, EngineError};
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, MutexGuard};
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
pub fn key_of(request: &Request) -> QueryKey {
    QueryKey::of(request, &AsIndexed)
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

/// The cache of this process.
pub struct ResultCache {
    state: Mutex<CacheState>,
    shared: AtomicU64,
}

struct CacheState {
    node: CacheNode<QueryKey, CachedAnswer>,
    flights: Flights<QueryKey, Waiter>,
    router: Router<HotQuestion>,
    minute_ends: Timestamp,
    /// Hits with a suggestion for another spelling: the index was asked all the same.
    unfit: u64,
    /// The most asked questions of the last minutes, newest last.
    hot: VecDeque<Vec<(Arc<str>, u32)>>,
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
        let node = CacheNode::new(&NodeOptions {
            limit,
            in_entries: false,
            copies_share: 0.0,
            policy: Policy::default(),
            expiry,
        });
        let rules = RouterRules {
            hot: Some(HotRules { counters: COUNTERS, ..HotRules::ours() }),
            bursts: Some(burst::Rules::default()),
            balance: None,
            remembered: 0,
        };
        Some(ResultCache {
            state: Mutex::new(CacheState {
                node,
                flights: Flights::new(WAITERS_MAX),
                router: Router::new(Ring::equal(1), rules, 1.0),
                minute_ends: SystemClock.now() + MINUTE,
                unfit: 0,
                hot: VecDeque::new(),
            }),
            shared: AtomicU64::new(0),
        })
    }

    /// Answers from memory, or asks. `generation` is the state of everything that answers are made from; it is asked
    /// again for an answer that has come, in case that is newer.
    pub fn answer(
        &self,
        request: &Request,
        generation: u64,
        ask: impl FnOnce() -> Result<(Answer, u64), EngineError>,
    ) -> Result<Answer, EngineError> {
        let begun = Instant::now();
        let key = key_of(request);
        let asked = farol_query::write(&request.query);
        let (sender, receiver) = sync_channel(1);
        let joined = {
            let mut state = self.lock();
            let now = SystemClock.now();
            state.count(&key, &asked, now);
            let present = Now { time: now, generation };
            if let NodeLookup::Hit(kept) | NodeLookup::Adopted(kept) =
                state.node.lookup(key.hash(), &key, &present)
            {
                if kept.fits(&asked) {
                    drop(state);
                    return Ok(again(&kept, begun));
                }
                state.unfit += 1;
            }
            state.flights.join(&key, || sender)
        };
        match joined {
            Joined::Leads => self.lead(&key, &asked, ask),
            Joined::Full => ask().map(|(answer, _)| answer),
            Joined::Waits => match receiver.recv_timeout(WAIT_MAX) {
                Ok(Ok(kept)) if kept.fits(&asked) => {
                    self.shared.fetch_add(1, Ordering::Relaxed);
                    Ok(again(&kept, begun))
                }
                Ok(Err(trouble)) => Err(trouble),
                // Another spelling with a suggestion, or who led broke down or takes too long.
                Ok(Ok(_)) | Err(_) => ask().map(|(answer, _)| answer),
            },
        }
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
        let made = SystemClock.now();
        match ask() {
            Ok((answer, generation)) => {
                let kept = CachedAnswer { answer: Arc::new(answer), asked: asked.into() };
                flight.told = Some(Ok(kept.clone()));
                // What some part of the index did not answer may be whole the next time.
                if kept.answer.shards.is_some_and(|shards| shards.is_partial()) {
                    drop(flight);
                    return Ok(Arc::unwrap_or_clone(kept.answer));
                }
                let weight = weight(key, &kept);
                let entry = Entry {
                    hash: key.hash(),
                    key: key.clone(),
                    value: kept.clone(),
                    weight,
                    made,
                    generation,
                };
                self.lock().node.insert(entry);
                drop(flight);
                Ok(Arc::unwrap_or_clone(kept.answer))
            }
            Err(trouble) => {
                flight.told = Some(Err(trouble.clone()));
                Err(trouble)
            }
        }
    }

    pub fn status(&self) -> CacheStatus {
        let state = self.lock();
        let counts = state.node.counts();
        let shared = self.shared.load(Ordering::Relaxed);
        CacheStatus {
            hits: counts.hits - state.unfit,
            misses: (counts.misses + state.unfit).saturating_sub(shared),
            expired: counts.old,
            shared,
            answers: state.node.len().0 as u64,
            bytes: state.node.weight(),
            bytes_max: state.node.limits().0,
            evicted: state.node.evicted(),
            hot: state.hottest(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CacheState> {
        self.state.lock()
    }
}

impl CacheState {
    /// Counts a question, by the key that the cache has it under.
    fn count(&mut self, key: &QueryKey, asked: &str, now: Timestamp) {
        let shown = asked[..asked.floor_char_boundary(HOT_BYTES_MAX)].into();
        self.router.route(key.hash(), &HotQuestion { key: key.hash(), shown }, now);
        self.end_minute(now);
    }

    fn end_minute(&mut self, now: Timestamp) {
        if now < self.minute_ends {
            return;
        }
        self.minute_ends = now + MINUTE;
        self.hot.push_back(self.top());
        if self.hot.len() > HOT_MINUTES {
            self.hot.pop_front();
        }
        self.router.minute(now);
    }

    fn top(&self) -> Vec<(Arc<str>, u32)> {
        self.router
            .top(HOT_PER_MINUTE)
            .into_iter()
            .map(|hot| (hot.key.shown, hot.count - hot.error))
            .collect()
    }

    /// Questions of the last minutes that were asked more than once, the most asked first.
    fn hottest(&self) -> Vec<(String, u64)> {
        let mut sums: HashMap<Arc<str>, u64> = HashMap::new();
        for (text, count) in self.hot.iter().flatten().chain(&self.top()) {
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
        let waiters = self.cache.lock().flights.land(self.key);
        for waiter in waiters {
            // Without an answer the waiter's channel closes, and they ask for themselves.
            if let Some(told) = &self.told {
                let _ = waiter.send(told.clone());
            }
        }
    }
}

/// A kept answer, given again: it took as long as finding it took.
fn again(kept: &CachedAnswer, begun: Instant) -> Answer {
    let mut answer = Answer::clone(&kept.answer);
    answer.took = begun.elapsed();
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
