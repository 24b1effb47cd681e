//! One question on its way through the shards of a cluster.
//!
//! Counts come first, then each shard's part by the sums, then titles and snippets from the replicas that named the
//! pages; [`farol_query::parts::answer`] leads through it. A shard that does not answer in time leaves the answer
//! partial; what it said last of its sizes and words still counts.

use super::RemoteIndex;
use super::budget::Budget;
use super::known::{COUNTS_AGE_MAX, CountsByShard};
use super::table::ServingTable;
use crate::handles::index::RulesInForce;
use crate::wire::v1::node::ShardHead;
use crate::wire::v1::part::{
    CountRequest, SearchRequest, ShowRequest, WireAsking, WireCounts, WireFigures, WirePart, WireSizes,
};
use crate::wire::v1::question::{WireHit, WireQuery};
use crate::wire::v1::verb;
use crate::wire::values::language;
use farol_base::PageId;
use farol_base::query::{Answer, Hit, Query, Request, ShardsAnswered};
use farol_base::sync::Mutex;
use farol_query::parts::{self, Asking, Counts, Figures, Part, PartSpelling, Place, Shards, Sizes};
use farol_query::scatter::{ReplicaNo, ShardNo, Stage, Wanted};
use farol_rpc::Missing;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// A question under way.
pub struct Question<'a> {
    index: &'a RemoteIndex,
    table: Arc<ServingTable>,
    budget: Budget,
    request: &'a Request,
    rules: &'a RulesInForce,
    round: Mutex<Round>,
}

/// The parts that were given last, and who gave them.
#[derive(Default)]
struct Round {
    parts: Vec<(ShardNo, ReplicaNo)>,
    figures: Figures,
    /// Shards without an answer in any step of this round.
    missing: BTreeSet<ShardNo>,
    /// What the last of them said.
    why: Option<String>,
}

impl<'a> Question<'a> {
    pub fn new(
        index: &'a RemoteIndex,
        table: Arc<ServingTable>,
        request: &'a Request,
        rules: &'a RulesInForce,
    ) -> Question<'a> {
        let budget = Budget::new(Instant::now(), index.settings.deadline);
        Question { index, table, budget, request, rules, round: Mutex::default() }
    }

    pub fn answer(self) -> Result<Answer, String> {
        let started = Instant::now();
        let mut answer = parts::answer(&self, self.request, self.index.settings.hits_per_host)?;
        let total = u32::try_from(self.table.shards.len()).unwrap_or(u32::MAX);
        let missing = u32::try_from(self.round.lock().missing.len()).unwrap_or(u32::MAX);
        let shards = ShardsAnswered { total, answered: total.saturating_sub(missing) };
        answer.shards = (total > 1 || shards.is_partial()).then_some(shards);
        if shards.is_partial() {
            self.index.counters.partial.fetch_add(1, Ordering::Relaxed);
        }
        answer.took = started.elapsed();
        Ok(answer)
    }

    fn head(&self, shard: ShardNo) -> ShardHead {
        ShardHead { map: self.table.map, shard: shard.0 }
    }

    fn languages(&self) -> Vec<String> {
        self.request.languages.iter().map(language).collect()
    }

    fn synonyms(&self) -> String {
        self.rules.texts.0.clone()
    }

    /// What all shards plan and score by.
    ///
    /// Without any figures there is no answer: where no shard was in time with them, they have the time of the search.
    /// Beside them, whether every shard's words count.
    fn figures(&self, query: &Query) -> Result<(Figures, bool), String> {
        let in_time = || self.budget.ends(Stage::Count, Instant::now());
        let late = || self.budget.ends(Stage::Search, Instant::now());
        let sizes = self.index.sizes(&self.table, in_time());
        let sizes = sizes.or_else(|| self.index.sizes(&self.table, late()));
        let sizes = sizes.ok_or_else(|| self.no_answer(&[]))?;
        let counts = self.counts(query, &sizes, in_time()).or_else(|_| self.counts(query, &sizes, late()))?;
        let are_whole = counts.len() == self.table.shards.len();
        let counts = Counts::sum(counts.into_values());
        Ok((Figures { sizes, counts, shards: self.table.shards.len() }, are_whole))
    }

    /// How many pages of each shard have each word of a question.
    fn counts(&self, query: &Query, sizes: &Sizes, deadline: Instant) -> Result<CountsByShard, String> {
        let wire = WireQuery::from(query);
        let key = (&wire, self.languages(), self.rules.version, self.table.map);
        let key = postcard::to_stdvec(&key).map_err(|error| error.to_string())?;
        let known = self.index.counts.get(&key, Instant::now());
        if let Some((counts, age)) = &known
            && *age < COUNTS_AGE_MAX
        {
            return Ok(counts.clone());
        }
        let mut counts: CountsByShard = known.map(|(counts, _)| counts).unwrap_or_default();
        let sizes = WireSizes::from(sizes);
        let wanted = self.table.shard_numbers().map(Wanted::from);
        let gathered = self.index.ask(&self.table, verb::COUNT, wanted, deadline, |shard| CountRequest {
            head: self.head(shard),
            query: wire.clone(),
            languages: self.languages(),
            sizes: sizes.clone(),
            synonyms: self.synonyms(),
        });
        for answer in gathered.answers {
            let answered: WireCounts = answer.answer;
            counts.insert(answer.shard, Counts::from(answered));
        }
        if counts.is_empty() {
            return Err(self.no_answer(&gathered.missing));
        }
        // With some missing it is asked again next time.
        if gathered.missing.is_empty() {
            self.index.counts.set(key, counts.clone(), Instant::now());
        }
        Ok(counts)
    }

    fn no_answer(&self, missing: &[Missing]) -> String {
        let why = missing.iter().find_map(|missing| missing.why.as_ref());
        match why {
            Some(why) => format!("no shard of the index answers ({why})"),
            None => "no shard of the index answers; `farol cluster status` tells which nodes are there"
                .to_string(),
        }
    }
}

impl Shards for Question<'_> {
    type Error = String;

    fn search(&self, query: &Query, asking: Asking) -> Result<Vec<Part>, String> {
        let (figures, are_whole) = self.figures(query)?;
        let (wire, wire_figures) = (WireQuery::from(query), WireFigures::from(&figures));
        let pins: Vec<u64> = self.rules.rules.pins.of(query).iter().map(|page| page.0).collect();
        let deadline = self.budget.ends(Stage::Search, Instant::now());
        let wanted = self.table.shard_numbers().map(Wanted::from);
        let gathered = self.index.ask(&self.table, verb::SEARCH, wanted, deadline, |shard| SearchRequest {
            head: self.head(shard),
            query: wire.clone(),
            languages: self.languages(),
            asking: WireAsking::from(asking),
            figures: wire_figures.clone(),
            synonyms: self.synonyms(),
            pins: pins.clone(),
        });
        let mut round = Round { figures, ..Round::default() };
        round.missing.extend(gathered.missing.iter().map(|missing| missing.shard));
        let mut parts = Vec::with_capacity(gathered.answers.len());
        for answer in gathered.answers {
            let part: WirePart = answer.answer;
            match Part::try_from(part) {
                Ok(part) => {
                    parts.push(part);
                    round.parts.push((answer.shard, answer.replica));
                }
                Err(error) => {
                    tracing::warn!(%error, shard = answer.shard.0, "a part of an answer means nothing");
                    round.missing.insert(answer.shard);
                    round.why = Some(error.to_string());
                }
            }
        }
        // A word that only a silent shard has is not misspelt.
        if !(are_whole && round.missing.is_empty()) {
            parts.iter_mut().for_each(|part| part.spelling = PartSpelling::Right);
        }
        // A correction that nobody answers in time is none; the question as it was typed has found something.
        if parts.is_empty() && asking != Asking::Corrected {
            return Err(round.why.unwrap_or_else(|| self.no_answer(&gathered.missing)));
        }
        *self.round.lock() = round;
        Ok(parts)
    }

    fn show(&self, query: &Query, places: &[Place]) -> Result<Vec<Option<Hit>>, String> {
        let (parts, figures) = {
            let round = self.round.lock();
            (round.parts.clone(), WireFigures::from(&round.figures))
        };
        let wire = WireQuery::from(query);
        let pages_of =
            |part: usize| places.iter().filter(move |place| place.part == part).map(|place| place.page);
        let named = parts.iter().enumerate().filter(|(part, _)| pages_of(*part).next().is_some());
        let wanted: Vec<Wanted> =
            named.map(|(_, (shard, replica))| Wanted { shard: *shard, prefer: Some(*replica) }).collect();
        let number = |shard: ShardNo| parts.iter().position(|(known, _)| *known == shard);
        let deadline = self.budget.ends(Stage::Show, Instant::now());
        let gathered = self.index.ask(&self.table, verb::SHOW, wanted, deadline, |shard| ShowRequest {
            head: self.head(shard),
            query: wire.clone(),
            languages: self.languages(),
            figures: figures.clone(),
            synonyms: self.synonyms(),
            pages: number(shard).into_iter().flat_map(pages_of).map(|page| page.0).collect(),
        });
        let mut shown: Vec<Option<Hit>> = places.iter().map(|_| None).collect();
        for answer in gathered.answers {
            let hits: Vec<Option<WireHit>> = answer.answer;
            let Some(part) = number(answer.shard) else { continue };
            let of_part = places.iter().enumerate().filter(|(_, place)| place.part == part);
            for ((at, place), hit) in of_part.zip(hits) {
                shown[at] = hit.and_then(|hit| read_hit(hit, place.page));
            }
        }
        self.round.lock().missing.extend(gathered.missing.iter().map(|missing| missing.shard));
        Ok(shown)
    }
}

/// A hit, where it is the page that was asked for.
fn read_hit(hit: WireHit, page: PageId) -> Option<Hit> {
    match Hit::try_from(hit) {
        Ok(hit) => (hit.url.id() == page).then_some(hit),
        Err(error) => {
            tracing::warn!(%error, "a hit of another node means nothing");
            None
        }
    }
}
