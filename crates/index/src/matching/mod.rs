//! First-phase matching: finds the pages that match, and the best of them by their text.
//!
//! Two ways through the postings of a segment:
//! *strict* (conjunctive, document at a time), where a page must contain every required clause: the rarest one leads
//! and the others seek to its page; and *loose* (disjunctive, term at a time), where clauses add to score
//! accumulators in windows of [`WINDOW`] pages, for questions that no or few pages answer in full.
//!
//! INVARIANT: pages found strictly come before those found loosely.
//! Does not consider links, proximity or duplicates; see [`crate::rank`].

mod cursor;

pub(crate) use cursor::{Cursor, open};

use crate::error::Error;
use crate::filter::SegmentFilter;
use crate::plan::{Clause, Plan};
use crate::rank::Ranks;
use crate::rank::fields::Bm25;
use crate::rank::links;
use crate::searcher::View;
use farol_base::PageId;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use tantivy::{DocAddress, DocId, SegmentReader, TERMINATED};

/// With fewer pages than this, those that lack some words are let in.
pub(crate) const FEW: usize = 10;

/// Candidates kept for ranking: 2,000 × 32 bytes = 64 KiB. They fill [`crate::HITS_MAX`] hits even where
/// every other one is a duplicate.
const CANDIDATES_MAX: usize = 2_000;

/// Pages whose scores add up at a time: 16,384 × 6 bytes = 96 KiB, which stays in L2.
const WINDOW: u32 = 16_384;

/// Part of a loose score that does not depend on how many of the words a page has.
const LOOSE_BASE: f32 = 0.7;

/// A page that matches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub at: DocAddress,
    /// It has every required clause.
    pub strict: bool,
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
        let key = |c: &Candidate| (c.tie, Reverse((c.at.segment_ord, c.at.doc_id)));
        self.strict
            .cmp(&other.strict)
            .then(self.text.total_cmp(&other.text))
            .then_with(|| key(self).cmp(&key(other)))
    }
}

/// What matching found.
#[derive(Debug, Default)]
pub(crate) struct Matches {
    /// All pages that match.
    pub total: usize,
    /// The best of them, best first.
    pub candidates: Vec<Candidate>,
}

/// Finds the best candidates for a plan.
pub(crate) fn find(view: &View, plan: &Plan, ranks: &dyn Ranks) -> Result<Matches, Error> {
    if plan.clauses.is_empty() {
        return list(view, plan, ranks);
    }
    let strict = find_strict(view, plan)?;
    let required = plan.loose.iter().filter(|clause| clause.required).count();
    if strict.total >= FEW || required < 2 {
        return Ok(strict);
    }
    let loose = find_loose(view, plan)?;
    let mut known: Vec<DocAddress> = strict.candidates.iter().map(|candidate| candidate.at).collect();
    known.sort_unstable();
    let further =
        loose.candidates.into_iter().filter(|candidate| known.binary_search(&candidate.at).is_err());
    let mut candidates = strict.candidates;
    candidates.extend(further);
    candidates.truncate(CANDIDATES_MAX);
    Ok(Matches { total: strict.total.max(loose.total), candidates })
}

/// Pages that have every required clause.
fn find_strict(view: &View, plan: &Plan) -> Result<Matches, Error> {
    let mut best = TopK::default();
    for (ordinal, segment) in view.searcher.segment_readers().iter().enumerate() {
        let Some(mut cursors) = ClauseScorer::open_all(segment, &plan.clauses)? else { continue };
        let filter = SegmentFilter::new(segment, view.fields, plan)?;
        let bm25 = Bm25::new(view, segment)?;
        // The rarest required clause leads; the optional ones come last.
        cursors.sort_by_key(|scored| (!scored.required, scored.cursor.cost()));
        let required = cursors.iter().filter(|scored| scored.required).count();
        let mut doc = cursors[0].cursor.doc();
        while doc != TERMINATED {
            match first_beyond(&mut cursors[1..required], doc) {
                Some(next) => doc = cursors[0].cursor.seek(next),
                None => {
                    if filter.allows(doc) {
                        let text = cursors.iter_mut().map(|scored| scored.score(doc, &bm25)).sum();
                        let at = DocAddress::new(ordinal as u32, doc);
                        best.push(Candidate { at, strict: true, text, tie: 0 });
                    }
                    doc = cursors[0].cursor.advance();
                }
            }
        }
    }
    Ok(best.into_matches())
}

/// The first cursor that lacks the page says which page comes next; none lacks it where all have it.
fn first_beyond(cursors: &mut [ClauseScorer], doc: DocId) -> Option<DocId> {
    cursors.iter_mut().map(|scored| scored.cursor.seek(doc)).find(|found| *found != doc)
}

/// Pages that have any required clause; where enough have most of them, only those.
fn find_loose(view: &View, plan: &Plan) -> Result<Matches, Error> {
    let required: Vec<Clause> = plan.loose.iter().filter(|clause| clause.required).cloned().collect();
    let weight_all: f32 = required.iter().map(|clause| clause.idf * clause.count).sum();
    let most = (required.len() * 3).div_ceil(5);
    let mut best = TopK::default();
    let mut best_most = TopK::default();
    let mut scores = vec![(0f32, 0f32, 0u16); WINDOW as usize];
    for (ordinal, segment) in view.searcher.segment_readers().iter().enumerate() {
        let mut cursors = Vec::new();
        for clause in &required {
            cursors.extend(ClauseScorer::open(segment, clause)?);
        }
        let filter = SegmentFilter::new(segment, view.fields, plan)?;
        let bm25 = Bm25::new(view, segment)?;
        for start in (0..segment.max_doc()).step_by(WINDOW as usize) {
            let end = start.saturating_add(WINDOW).min(segment.max_doc());
            for scored in &mut cursors {
                let mut doc = scored.cursor.seek(start);
                while doc < end {
                    let slot = &mut scores[(doc - start) as usize];
                    slot.0 += scored.score(doc, &bm25);
                    slot.1 += scored.weight;
                    slot.2 += 1;
                    doc = scored.cursor.advance();
                }
            }
            for doc in start..end {
                let (sum, weight, clauses) = std::mem::take(&mut scores[(doc - start) as usize]);
                if clauses > 0 && filter.allows(doc) {
                    let share = weight / weight_all.max(f32::MIN_POSITIVE);
                    let text = sum * (LOOSE_BASE + (1.0 - LOOSE_BASE) * share);
                    let at = DocAddress::new(ordinal as u32, doc);
                    let candidate = Candidate { at, strict: false, text, tie: 0 };
                    best.push(candidate);
                    if usize::from(clauses) >= most {
                        best_most.push(candidate);
                    }
                }
            }
        }
    }
    Ok(if best_most.total >= FEW { best_most } else { best }.into_matches())
}

/// Pages that pass the filters, best linked and newest first.
fn list(view: &View, plan: &Plan, ranks: &dyn Ranks) -> Result<Matches, Error> {
    let mut best = TopK::default();
    for (ordinal, segment) in view.searcher.segment_readers().iter().enumerate() {
        let filter = SegmentFilter::new(segment, view.fields, plan)?;
        let column =
            |name| segment.fast_fields().u64(name).map_err(Error::engine("read what it knows of pages"));
        let (pages, dated, fetched) = (column("page")?, column("dated")?, column("fetched")?);
        let mut hosts = links::HostRanks::new(view, ordinal)?;
        for doc in 0..segment.max_doc() {
            if filter.allows(doc) {
                let page = PageId(pages.first(doc).unwrap_or(0));
                let text = links::prior(ranks.page(page), hosts.host(doc, ranks).1);
                let tie = dated.first(doc).or_else(|| fetched.first(doc)).unwrap_or(0);
                let at = DocAddress::new(ordinal as u32, doc);
                best.push(Candidate { at, strict: true, text, tie });
            }
        }
    }
    Ok(best.into_matches())
}

/// Scores pages by one clause: a cursor with the clause's weight.
struct ClauseScorer {
    cursor: Cursor,
    /// How rare the clause is times how often it was asked for.
    weight: f32,
    required: bool,
    everywhere: bool,
}

impl ClauseScorer {
    fn open(segment: &SegmentReader, clause: &Clause) -> Result<Option<ClauseScorer>, Error> {
        let cursor = Cursor::open(segment, clause)?;
        Ok(cursor.map(|cursor| ClauseScorer {
            cursor,
            weight: clause.idf * clause.count,
            required: clause.required,
            everywhere: clause.fields.everywhere,
        }))
    }

    /// Cursors of all clauses; none where the segment lacks a required one.
    fn open_all(segment: &SegmentReader, clauses: &[Clause]) -> Result<Option<Vec<ClauseScorer>>, Error> {
        let mut all = Vec::new();
        for clause in clauses {
            match ClauseScorer::open(segment, clause)? {
                Some(scored) => all.push(scored),
                None if clause.required => return Ok(None),
                None => {}
            }
        }
        Ok((!all.is_empty()).then_some(all))
    }

    /// What the clause adds to a page's score; 0 where the page lacks it.
    fn score(&mut self, doc: DocId, bm25: &Bm25) -> f32 {
        if self.cursor.doc() < doc {
            self.cursor.seek(doc);
        }
        if self.cursor.doc() != doc {
            return 0.0;
        }
        if self.everywhere { self.weight * bm25.saturate(self.cursor.frequency(), doc) } else { self.weight }
    }
}

/// The best [`CANDIDATES_MAX`] candidates so far in a heap, and a count of all.
#[derive(Default)]
struct TopK {
    total: usize,
    heap: BinaryHeap<Reverse<Candidate>>,
}

impl TopK {
    fn push(&mut self, candidate: Candidate) {
        self.total += 1;
        if self.heap.len() < CANDIDATES_MAX {
            self.heap.push(Reverse(candidate));
        } else if let Some(mut worst) = self.heap.peek_mut()
            && candidate > worst.0
        {
            *worst = Reverse(candidate);
        }
    }

    fn into_matches(self) -> Matches {
        let candidates =
            self.heap.into_sorted_vec().into_iter().map(|Reverse(candidate)| candidate).collect();
        Matches { total: self.total, candidates }
    }
}
