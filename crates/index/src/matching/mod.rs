//! First-phase matching: finds the pages that match, and the best of them by their text.
//!
//! Two ways through the postings of a segment:
//! *strict* (conjunctive, document at a time), where a page must contain every required clause: the rarest one leads
//! and the others seek to its page; and *loose* (disjunctive, term at a time), where clauses add to score
//! accumulators in windows of [`WINDOW`] pages. The loose way is taken unless pages with every word fill the answer:
//! pages with most of the words follow those with all of them. What must hold (quoted phrases, unwanted words, fields,
//! filters) holds for them too.
//!
//! Does not consider links, proximity or duplicates; see [`crate::rank`].

mod cursor;

pub(crate) use cursor::Cursor;

use crate::error::Error;
use crate::filter::SegmentFilter;
use crate::patience::Effort;
use crate::plan::{Clause, Plan};
use crate::rank::Ranks;
use crate::rank::fields::Bm25;
use crate::rank::{links, names};
use crate::searcher::{SegmentView, View};
use farol_base::PageId;
use farol_query::parts::{CANDIDATES_MAX, ENOUGH, lot, share};
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashSet};
use tantivy::{DocId, TERMINATED};

/// Pages whose scores add up at a time: 16,384 × 6 bytes = 96 KiB, which stays in L2.
const WINDOW: u32 = 16_384;

/// Part of a loose score that does not depend on how many of the words a page has.
const LOOSE_BASE: f32 = 0.7;

/// A word that one page in [`COMMON_SHARE`] has, and at least [`COMMON_PAGES`] have, finds no page by itself where there
/// are rarer words: it only adds to the score of pages that have one of those. So a question with one rare word does
/// not rank half of a large index.
const COMMON_SHARE: u64 = 8;
const COMMON_PAGES: u64 = 10_000;

/// Where a page stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct DocPlace {
    /// Number of the shard among those that are asked.
    pub shard: u32,
    pub segment: u32,
    pub doc: DocId,
}

/// A page that matches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub at: DocPlace,
    pub page: PageId,
    /// It has every required clause.
    pub strict: bool,
    /// How it is called what was asked for, see [`crate::rank::names`]; 0 where it is not.
    pub named: u8,
    /// Score of its text alone; of its links, where only filters were given.
    pub text: f32,
    /// Decides between equal scores: the later date, where only filters were given.
    pub tie: u64,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Candidate) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Candidate {}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The greater candidate is the better one.
impl Ord for Candidate {
    fn cmp(&self, other: &Candidate) -> Ordering {
        let key = |c: &Candidate| (c.tie, Reverse(lot(c.page)));
        self.text.total_cmp(&other.text).then_with(|| key(self).cmp(&key(other)))
    }
}

/// What shards have for a plan.
#[derive(Default)]
pub(crate) struct Found {
    /// Best first, of all shards.
    pub candidates: Vec<Candidate>,
    /// Pages that have every required clause, further ones too.
    pub strict: u64,
}

/// Finds the best candidates for a plan in one of so many shards, or in all of them.
pub(crate) fn find(
    views: &[&View],
    plan: &Plan,
    ranks: &dyn Ranks,
    shards: usize,
    effort: &Effort<'_>,
) -> Result<Found, Error> {
    // Who sees one of them must do with its share.
    let shares = shards / views.len().max(1);
    let mut best = TopK::new(share(CANDIDATES_MAX, shares));
    let segments = PlannedSegment::all(views, plan, shards == 1)?;
    if plan.clauses.is_empty() {
        for segment in &segments {
            list(segment, ranks, &mut best, effort)?;
        }
        return Ok(Found { strict: best.offered, candidates: best.into_sorted() });
    }
    for segment in &segments {
        find_strict(segment, plan, &mut best, effort)?;
    }
    let most = best.most;
    let strict = best.offered;
    let mut candidates = best.into_sorted();
    let required = plan.loose.iter().filter(|clause| clause.required);
    let lacking = strict < share(ENOUGH, shares) as u64;
    if lacking && required.clone().count() > 1 && required.clone().any(|clause| !clause.must) {
        let known: HashSet<DocPlace> = candidates.iter().map(|candidate| candidate.at).collect();
        let mut best = TopK::new(most);
        find_loose(&segments, plan, &mut best, effort)?;
        candidates.extend(best.into_sorted().into_iter().filter(|candidate| !known.contains(&candidate.at)));
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        candidates.truncate(most);
    }
    let mut named = names::find(&segments, plan)?;
    for candidate in &mut candidates {
        candidate.named = named.remove(&candidate.at).unwrap_or(0);
    }
    // What has the name but lacks the words, or has too many betters by its words.
    if !named.is_empty() && plan.clauses.iter().all(|clause| !clause.must) {
        let page = |at: DocPlace| views[at.shard as usize].segment(at.segment).columns.page(at.doc);
        let rest = named.into_iter();
        let rest =
            rest.map(|(at, named)| Candidate { at, page: page(at), strict: false, named, text: 0.0, tie: 0 });
        candidates.extend(rest);
        candidates.sort_unstable_by(|a, b| b.cmp(a));
    }
    if views.len() > 1 {
        // A page is in two shards while it moves between them.
        let mut seen = HashSet::with_capacity(candidates.len());
        candidates.retain(|candidate| seen.insert(candidate.page));
    }
    Ok(Found { candidates, strict })
}

/// A segment of one of the shards, and what a plan needs of it in every step.
pub(crate) struct PlannedSegment<'a> {
    /// Number of the shard.
    pub shard: u32,
    pub segment: SegmentView<'a>,
    pub filter: SegmentFilter<'a>,
    bm25: Bm25<'a>,
}

impl<'a> PlannedSegment<'a> {
    /// The segments of all shards where a page can answer; `is_whole` where there is one shard alone.
    fn all(views: &[&'a View], plan: &'a Plan, is_whole: bool) -> Result<Vec<PlannedSegment<'a>>, Error> {
        let mut all = Vec::new();
        for (shard, view) in (0..).zip(views) {
            for segment in view.segments() {
                let filter = SegmentFilter::new(view, segment, plan, is_whole)?;
                let bm25 = Bm25::new(plan.length_factors(), &segment.columns.lengths);
                all.push(PlannedSegment { shard, segment, filter, bm25 });
            }
        }
        Ok(all)
    }

    pub(crate) fn at(&self, doc: DocId) -> DocPlace {
        DocPlace { shard: self.shard, segment: self.segment.ordinal, doc }
    }

    fn candidate(&self, doc: DocId, strict: bool, text: f32, tie: u64) -> Candidate {
        Candidate { at: self.at(doc), page: self.segment.columns.page(doc), strict, named: 0, text, tie }
    }
}

/// Offers the pages that have every required clause.
fn find_strict(
    planned: &PlannedSegment<'_>,
    plan: &Plan,
    best: &mut TopK,
    effort: &Effort<'_>,
) -> Result<(), Error> {
    effort.check()?;
    let Some(mut cursors) = ClauseScorer::open_all(planned.segment, &plan.clauses)? else { return Ok(()) };
    // The rarest required clause leads; the optional ones come last.
    cursors.sort_by_cached_key(|scored| (!scored.required, scored.cost));
    let required = cursors.iter().filter(|scored| scored.required).count();
    // Sums are taken in the plan's order, so that they are the same to the last bit in every segment.
    let mut order: Vec<usize> = (0..cursors.len()).collect();
    order.sort_by_key(|at| cursors[*at].number);
    let mut doc = cursors[0].cursor.doc();
    let mut is_open = false;
    while doc != TERMINATED {
        effort.page()?;
        match first_beyond(&mut cursors[1..required], doc) {
            Some(next) => doc = cursors[0].cursor.seek(next),
            None => {
                if planned.filter.allows(doc) {
                    if !std::mem::replace(&mut is_open, true) {
                        for scored in &mut cursors {
                            scored.cursor.open_rest(planned.segment)?;
                        }
                    }
                    let text = order.iter().map(|at| cursors[*at].score(doc, &planned.bm25)).sum();
                    best.offer(text, 0, || planned.candidate(doc, true, text, 0));
                }
                doc = cursors[0].cursor.advance();
            }
        }
    }
    Ok(())
}

/// The first cursor that lacks the page says which page comes next; none lacks it where all have it.
fn first_beyond(cursors: &mut [ClauseScorer], doc: DocId) -> Option<DocId> {
    cursors.iter_mut().map(|scored| scored.cursor.seek(doc)).find(|found| *found != doc)
}

/// Offers the pages that have what they must, and some of the other clauses.
fn find_loose(
    segments: &[PlannedSegment<'_>],
    plan: &Plan,
    best: &mut TopK,
    effort: &Effort<'_>,
) -> Result<(), Error> {
    let mut clauses: Vec<&Clause> = plan.loose.iter().collect();
    clauses.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    let counted = || clauses.iter().filter(|clause| clause.required);
    let weight_all: f32 = counted().map(|clause| weight(clause)).sum::<f32>().max(f32::MIN_POSITIVE);
    let musts = clauses.iter().filter(|clause| clause.must).count() as u16;
    let common = COMMON_PAGES.max(plan.documents / COMMON_SHARE);
    let is_common = |clause: &Clause| clause.pages > common || !clause.required;
    let leads = clauses.iter().any(|clause| !is_common(clause));
    let longest = segments.iter().map(|planned| planned.segment.reader.max_doc()).max().unwrap_or(0);
    let mut scores = vec![Accumulator::default(); WINDOW.min(longest) as usize];
    for planned in segments {
        effort.check()?;
        let mut cursors = Vec::new();
        for clause in &clauses {
            let follows = leads && is_common(clause);
            if let Some(mut scored) = ClauseScorer::open(planned.segment, clause, 0)? {
                scored.cursor.open_rest(planned.segment)?;
                cursors.push((scored, follows, *clause));
            }
        }
        // Those that lead come first, so that it is known which pages the others can add to.
        cursors.sort_by_key(|(_, follows, _)| *follows);
        if cursors.iter().all(|(_, follows, clause)| *follows || !clause.required) {
            continue;
        }
        for start in (0..planned.segment.reader.max_doc()).step_by(WINDOW as usize) {
            let end = start.saturating_add(WINDOW).min(planned.segment.reader.max_doc());
            for (scored, follows, clause) in &mut cursors {
                let share = if clause.required { weight(clause) } else { 0.0 };
                let mut doc = scored.cursor.seek(start);
                while doc < end {
                    effort.page()?;
                    let slot = &mut scores[(doc - start) as usize];
                    if !*follows || slot.found {
                        slot.score += scored.score(doc, &planned.bm25);
                        slot.share += share;
                        slot.musts += u16::from(clause.must);
                        slot.found |= clause.required;
                    }
                    doc = scored.cursor.advance();
                }
            }
            for doc in start..end {
                let slot = std::mem::take(&mut scores[(doc - start) as usize]);
                if !slot.found || slot.musts < musts || !planned.filter.allows(doc) {
                    continue;
                }
                let share = slot.share / weight_all;
                let text = slot.score * (LOOSE_BASE + (1.0 - LOOSE_BASE) * share);
                best.offer(text, 0, || planned.candidate(doc, false, text, 0));
            }
        }
    }
    Ok(())
}

/// Score, share and clauses of a page so far.
#[derive(Clone, Copy, Default)]
struct Accumulator {
    score: f32,
    share: f32,
    musts: u16,
    found: bool,
}

fn weight(clause: &Clause) -> f32 {
    clause.idf * clause.count
}

/// Offers the pages that pass the filters, the best linked and newest as the best.
fn list(
    planned: &PlannedSegment<'_>,
    ranks: &dyn Ranks,
    best: &mut TopK,
    effort: &Effort<'_>,
) -> Result<(), Error> {
    effort.check()?;
    let columns = planned.segment.columns;
    let mut hosts = links::HostRanks::new(planned.segment);
    for doc in 0..planned.segment.reader.max_doc() {
        effort.page()?;
        if planned.filter.allows(doc) {
            let text = links::prior(ranks.page(columns.page(doc)), hosts.host(doc, ranks).1);
            let tie = columns.date(doc);
            best.offer(text, tie, || planned.candidate(doc, true, text, tie));
        }
    }
    Ok(())
}

/// Scores pages by one clause: a cursor with the clause's weight.
struct ClauseScorer {
    cursor: Cursor,
    /// Pages to iterate over, at most.
    cost: u64,
    /// Its place in the plan.
    number: usize,
    /// How rare the clause is times how often it was asked for.
    weight: f32,
    required: bool,
    everywhere: bool,
}

impl ClauseScorer {
    fn open(segment: SegmentView<'_>, clause: &Clause, number: usize) -> Result<Option<ClauseScorer>, Error> {
        let cursor = Cursor::open(segment, clause)?;
        Ok(cursor.map(|mut cursor| ClauseScorer {
            cost: cursor.cost(),
            cursor,
            number,
            weight: weight(clause),
            required: clause.required,
            everywhere: clause.fields.everywhere.is_some(),
        }))
    }

    /// Cursors of all clauses; none where the segment lacks a required one.
    fn open_all(segment: SegmentView<'_>, clauses: &[Clause]) -> Result<Option<Vec<ClauseScorer>>, Error> {
        // Looking a word up is cheap beside opening its pages.
        for clause in clauses.iter().filter(|clause| clause.required) {
            if !Cursor::can_open(segment, clause)? {
                return Ok(None);
            }
        }
        let mut all = Vec::new();
        for (number, clause) in clauses.iter().enumerate() {
            match ClauseScorer::open(segment, clause, number)? {
                Some(scored) => all.push(scored),
                None if clause.required => return Ok(None),
                None => {}
            }
        }
        Ok((!all.is_empty()).then_some(all))
    }

    /// What the clause adds to a page's score; 0 where the page lacks it.
    fn score(&mut self, doc: DocId, bm25: &Bm25<'_>) -> f32 {
        if self.cursor.doc() < doc {
            self.cursor.seek(doc);
        }
        if self.cursor.doc() != doc {
            return 0.0;
        }
        if self.everywhere { self.weight * bm25.saturate(self.cursor.frequency(bm25)) } else { self.weight }
    }
}

/// The best candidates so far, in a heap.
struct TopK {
    heap: BinaryHeap<Reverse<Candidate>>,
    most: usize,
    /// Candidates that were offered, taken or not.
    offered: u64,
}

impl TopK {
    fn new(most: usize) -> TopK {
        TopK { heap: BinaryHeap::new(), most, offered: 0 }
    }

    /// Takes a candidate with this score if it is among the best.
    fn offer(&mut self, text: f32, tie: u64, candidate: impl FnOnce() -> Candidate) {
        self.offered += 1;
        if self.heap.len() < self.most {
            self.heap.push(Reverse(candidate()));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && (text, tie) >= (worst.0.text, worst.0.tie)
        {
            let candidate = candidate();
            if candidate > worst.0 {
                *worst = Reverse(candidate);
            }
        }
    }

    /// Best first.
    fn into_sorted(self) -> Vec<Candidate> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(candidate)| candidate).collect()
    }
}
