//! Answers kept by the cache nodes of the cluster: looks them up, has one of all who miss ask the index, and hands the
//! answer in.
//!
//! Of all who miss one question, the node gives one front the lease to make the answer; others wait there for 40 ms at
//! most. Of all who wait in this front one asks, however many there are. A superseded answer is given at once, and made
//! anew behind the back of who asked.
//!
//! INVARIANT: whatever cache nodes do, the index is asked in the end: no question fails for them.

use super::flight_board::{Boarded, FlightBoard, Landed};
use super::result_cache::key_of;
use crate::handles::index::RulesInForce;
use crate::ring::client::{AnswerPlace, Lease, Looked, RingClient};
use crate::ring::records::NodeLine;
use crate::wire::v1::cache::{ANSWER_BYTES_MAX, KEY_BYTES_MAX, WireAged, WireAnswer, WireKept};
use farol_base::fingerprint::hash64;
use farol_base::query::{Answer, Request};
use farol_cache::key::QueryKey;
use farol_front::{CacheStatus, EngineError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Answers that are made anew at a time; others stay as they are until somebody else asks.
const RENEWALS_MAX: usize = 8;

/// Questions that the dashboard shows.
const HOT_SHOWN: usize = 20;

/// Asks the index; also says which state of it the answer is made from.
pub type AskIndex = Arc<dyn Fn() -> Result<(Answer, u64), EngineError> + Send + Sync>;

/// A front's way to the cache nodes.
#[derive(Clone)]
pub struct RingCache {
    client: Arc<RingClient>,
    flights: FlightBoard,
    runtime: tokio::runtime::Handle,
    renewals: Arc<AtomicUsize>,
    /// Answers of somebody else's question that was on its way.
    shared: Arc<AtomicU64>,
    /// Answers that were there and not given: for another spelling, or without hits and superseded.
    unfit: Arc<AtomicU64>,
}

/// A question on its way through the cache.
struct Questioned {
    key: QueryKey,
    asked: Arc<str>,
    need: u64,
    begun: Instant,
}

impl RingCache {
    pub fn new(client: Arc<RingClient>, runtime: tokio::runtime::Handle) -> RingCache {
        RingCache {
            client,
            flights: FlightBoard::default(),
            runtime,
            renewals: Arc::default(),
            shared: Arc::default(),
            unfit: Arc::default(),
        }
    }

    /// Whether there are cache nodes at all.
    pub fn is_there(&self) -> bool {
        self.client.seed().is_some()
    }

    pub fn client(&self) -> &Arc<RingClient> {
        &self.client
    }

    /// As this front has seen it; what is kept is the whole ring's.
    pub fn status(&self) -> CacheStatus {
        let counters = &self.client.counters;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let caches = self.client.caches();
        let sum = |of: fn(&NodeLine) -> u64| -> u64 {
            caches.iter().flat_map(|record| &record.nodes).map(of).sum()
        };
        let unfit = self.unfit.load(Ordering::Relaxed);
        CacheStatus {
            hits: count(&counters.hits).saturating_sub(unfit),
            misses: count(&counters.misses) + count(&counters.new) + unfit,
            expired: unfit,
            shared: self.shared.load(Ordering::Relaxed),
            answers: sum(|node| node.entries),
            bytes: sum(|node| node.bytes),
            bytes_max: 0,
            evicted: 0,
            hot: self.hottest(),
        }
    }

    /// What everybody asked most in the last minute; what this front was asked, before that is known.
    fn hottest(&self) -> Vec<(String, u64)> {
        let told: Vec<(String, u64)> = self
            .client
            .caches()
            .iter()
            .flat_map(|record| &record.hot)
            .filter(|line| line.count > 1)
            .map(|line| (line.text.clone(), u64::from(line.count)))
            .take(HOT_SHOWN)
            .collect();
        match told.is_empty() {
            true => self
                .client
                .top(HOT_SHOWN)
                .into_iter()
                .filter(|(_, count)| *count > 1)
                .map(|(text, count)| (text.to_string(), u64::from(count)))
                .collect(),
            false => told,
        }
    }

    /// Answers from a cache node, or asks the index. `state` is the cluster's; 0 where it is not known yet.
    pub fn answer(
        &self,
        request: &Request,
        rules: &RulesInForce,
        state: u64,
        ask: &AskIndex,
    ) -> Result<Answer, EngineError> {
        let begun = Instant::now();
        let seed = self.client.seed().filter(|_| state > 0);
        let Some(seed) = seed else { return ask().map(|(answer, _)| answer) };
        let key = key_under(request, rules, seed);
        if key.text().len() > KEY_BYTES_MAX {
            return ask().map(|(answer, _)| answer);
        }
        let asked: Arc<str> = farol_query::write(&request.query).into();
        let question = Questioned { key, asked, need: state, begun };
        let looked = self.client.look_up(&question.key, &question.asked, state);
        self.follow(&question, looked, ask, true)
    }

    fn follow(
        &self,
        question: &Questioned,
        looked: Looked,
        ask: &AskIndex,
        may_wait: bool,
    ) -> Result<Answer, EngineError> {
        match looked {
            Looked::Fresh(place, aged) => match self.given(question, &aged, false) {
                Some(answer) => Ok(answer),
                None => self.make(question, Some(place), None, ask),
            },
            Looked::Stale(place, aged, lease) => match self.given(question, &aged, true) {
                Some(answer) => {
                    lease.into_iter().for_each(|lease| self.renew(question, lease, ask));
                    Ok(answer)
                }
                None => self.make(question, Some(place), lease, ask),
            },
            Looked::Miss(place, lease) => self.make(question, Some(place), lease, ask),
            Looked::New(place) => self.make(question, Some(place), None, ask),
            Looked::Nobody => self.make(question, None, None, ask),
            Looked::Wait(place, wait) => {
                // Somebody here makes it, or another front does.
                if let Some(ending) = self.flights.wait(&question.key) {
                    return self.shared(question, ending, Some(place), ask);
                }
                if !may_wait {
                    return self.make(question, Some(place), None, ask);
                }
                std::thread::sleep(wait);
                let looked = self.client.look_again(place, &question.key, question.need);
                self.follow(question, looked, ask, false)
            }
        }
    }

    /// A kept answer, where it is for this spelling and may be given as it is.
    fn given(&self, question: &Questioned, aged: &WireAged, is_stale: bool) -> Option<Answer> {
        let unfit = || {
            self.unfit.fetch_add(1, Ordering::Relaxed);
            None
        };
        if aged.kept.spelling.is_some_and(|spelling| spelling != hash64(question.asked.as_bytes())) {
            return unfit();
        }
        let Some(answer) = read_answer(&aged.kept.answer) else { return unfit() };
        // What came in meanwhile is to be found at once.
        if is_stale && answer.hits.is_empty() {
            return unfit();
        }
        let age = Duration::from_millis(aged.age_ms);
        Some(Answer { took: question.begun.elapsed(), age, ..answer })
    }

    /// Asks the index, for everybody here who asks the same at this time.
    fn make(
        &self,
        question: &Questioned,
        place: Option<AnswerPlace>,
        lease: Option<Lease>,
        ask: &AskIndex,
    ) -> Result<Answer, EngineError> {
        let ask_alone = || ask().map(|(answer, _)| answer);
        match self.flights.board(&question.key) {
            Boarded::Leads(flight) => {
                let made = ask_and_keep(&self.client, question, place, lease, ask);
                flight.land(&made, &question.asked);
                made
            }
            ended => {
                // Somebody here made it.
                lease.into_iter().for_each(|lease| self.client.release(&question.key, lease));
                match ended {
                    Boarded::Landed(ending) => self.shared(question, ending, None, ask),
                    _ => ask_alone(),
                }
            }
        }
    }

    /// Another's answer, where it is for this spelling.
    fn shared(
        &self,
        question: &Questioned,
        ending: Result<Landed, EngineError>,
        place: Option<AnswerPlace>,
        ask: &AskIndex,
    ) -> Result<Answer, EngineError> {
        let landed = ending?;
        match landed.fits(&question.asked) {
            true => {
                self.shared.fetch_add(1, Ordering::Relaxed);
                Ok(Answer { took: question.begun.elapsed(), ..Answer::clone(&landed.answer) })
            }
            false => ask_and_keep(&self.client, question, place, None, ask),
        }
    }

    /// Makes a superseded answer anew, on another thread.
    fn renew(&self, question: &Questioned, lease: Lease, ask: &AskIndex) {
        if self.renewals.fetch_add(1, Ordering::Relaxed) >= RENEWALS_MAX {
            self.renewals.fetch_sub(1, Ordering::Relaxed);
            return self.client.release(&question.key, lease);
        }
        let question = Questioned { key: question.key.clone(), asked: question.asked.clone(), ..*question };
        let (client, renewals, ask) = (self.client.clone(), self.renewals.clone(), ask.clone());
        self.runtime.spawn_blocking(move || {
            if let Err(error) = ask_and_keep(&client, &question, Some(lease.place), Some(lease), &ask) {
                tracing::debug!(%error, "an answer could not be made anew");
            }
            renewals.fetch_sub(1, Ordering::Relaxed);
        });
    }
}

/// The question's key: by other rules it is another question, since fronts may have different ones.
fn key_under(request: &Request, rules: &RulesInForce, seed: u64) -> QueryKey {
    let key = key_of(request, seed);
    let (synonyms, pins) = (&rules.texts.0, &rules.texts.1);
    if synonyms.is_empty() && pins.is_empty() {
        return key;
    }
    let rules = hash64(synonyms.as_bytes()) ^ hash64(pins.as_bytes()).rotate_left(1);
    QueryKey::of_sent(&format!("{}\nR16:{rules:016x}", key.text()), seed)
}

/// Asks the index, and hands what it says to the cache nodes.
fn ask_and_keep(
    client: &Arc<RingClient>,
    question: &Questioned,
    place: Option<AnswerPlace>,
    lease: Option<Lease>,
    ask: &AskIndex,
) -> Result<Answer, EngineError> {
    let made = Instant::now();
    let release = || lease.into_iter().for_each(|lease| client.release(&question.key, lease));
    let (answer, state) = ask().inspect_err(|_| release())?;
    // What some part of the index did not answer may be whole the next time.
    let is_whole = !answer.shards.is_some_and(|shards| shards.is_partial());
    match (place.filter(|_| is_whole), write_answer(&answer)) {
        (Some(place), Some(bytes)) => {
            let repeats = answer.suggestion.is_some() || answer.corrected.is_some();
            let spelling = repeats.then(|| hash64(question.asked.as_bytes()));
            let kept = WireKept { answer: bytes, spelling };
            // As old as the question to the index: what was committed since is not in it.
            let age_ms = u64::try_from(made.elapsed().as_millis()).unwrap_or(u64::MAX);
            client.insert(place, &question.key, &WireAged { kept, age_ms, state }, lease);
        }
        _ => release(),
    }
    Ok(answer)
}

/// An answer as cache nodes keep it; `None` where it is too large.
fn write_answer(answer: &Answer) -> Option<Vec<u8>> {
    let bytes = postcard::to_stdvec(&WireAnswer::from(answer)).ok()?;
    (bytes.len() <= ANSWER_BYTES_MAX).then_some(bytes)
}

fn read_answer(bytes: &[u8]) -> Option<Answer> {
    let read = postcard::from_bytes::<WireAnswer>(bytes).map_err(|error| error.to_string());
    match read.and_then(|wire| Answer::try_from(wire).map_err(|error| error.to_string())) {
        Ok(answer) => Some(answer),
        Err(error) => {
            tracing::warn!(error, "a kept answer means nothing");
            None
        }
    }
}
