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

pub(crate) use cursor::{Cursor, open};

use crate::error::Error;
use crate::filter::SegmentFilter;
use crate::plan::{Clause, Plan};
use crate::rank::Ranks;
use crate::rank::fields::Bm25;
use crate::rank::{links, names};
use crate::searcher::View;
use farol_base::PageId;
use farol_query::parts::{CANDIDATES_MAX, ENOUGH, share};
use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, HashSet};
use tantivy::{DocAddress, DocId, SegmentReader, TERMINATED};

/// Pages whose scores add up at a time: 16,384 × 6 bytes = 96 KiB, which stays in L2.
const WINDOW: u32 = 16_384;

/// Part of a loose score that does not depend on how many of the words a page has.
const LOOSE_BASE: f32 = 0.7;

/// A word that one page in [`COMMON_SHARE`] has, and at least [`COMMON_PAGES`] have, finds no page by itself where there
/// are rarer words: it only adds to the score of pages that have one of those. So a question with one rare word does
/// not rank half of a large index.
const COMMON_SHARE: u64 = 8;
const COMMON_PAGES: u64 = 10_000;

/// A page that matches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate {
    pub at: DocAddress,
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
        let key = |c: &Candidate| (c.tie, Reverse(c.page));
        self.text.total_cmp(&other.text).then_with(|| key(self).cmp(&key(other)))
    }
}

/// What a shard has for a plan.
#[derive(Default)]
pub(crate) struct Found {
    /// Best first.
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
) -> Result<Vec<Found>, Error> {
    let most = share(CANDIDATES_MAX, shards);
    if plan.clauses.is_empty() {
        let listed = views.iter().map(|view| list(view, plan, ranks, most));
        let found = |listed: TopK| Found { strict: listed.offered, candidates: listed.into_sorted() };
        return listed.map(|listed| listed.map(found)).collect();
    }
    let strict = views.iter().map(|view| find_strict(view, plan, most)).collect::<Result<Vec<TopK>, _>>()?;
    // Who sees one of them must do with its share.
    let enough = share(ENOUGH, shards / views.len().max(1));
    let lacking = strict.iter().map(|found| found.offered).sum::<u64>() < enough as u64;
    let required = plan.loose.iter().filter(|clause| clause.required);
    let loosely = lacking && required.clone().count() > 1 && required.clone().any(|clause| !clause.must);
    views.iter().zip(strict).map(|(view, strict)| complete(view, plan, strict, loosely, most)).collect()
}

/// Adds to the pages that have every word those with most of them, where wanted, and those with the name.
fn complete(view: &View, plan: &Plan, found: TopK, loosely: bool, most: usize) -> Result<Found, Error> {
    let mut named = names::find(view, plan)?;
    let strict = found.offered;
    let mut candidates = found.into_sorted();
    if loosely {
        let strict: HashSet<DocAddress> = candidates.iter().map(|candidate| candidate.at).collect();
        let loose = find_loose(view, plan, most)?;
        candidates.extend(loose.into_iter().filter(|candidate| !strict.contains(&candidate.at)));
        candidates.sort_unstable_by(|a, b| b.cmp(a));
        candidates.truncate(most);
    }
    for candidate in &mut candidates {
        candidate.named = named.remove(&candidate.at).unwrap_or(0);
    }
    // What has the name but lacks the words, or has too many betters by its words.
    if plan.clauses.iter().all(|clause| !clause.must) {
        let rest = named.into_iter().map(|(at, named)| {
            let page = view.columns[at.segment_ord as usize].page(at.doc_id);
            Candidate { at, page, strict: false, named, text: 0.0, tie: 0 }
        });
        candidates.extend(rest);
    }
    candidates.sort_unstable_by(|a, b| b.cmp(a));
    Ok(Found { candidates, strict })
}

/// Pages that have every required clause.
fn find_strict(view: &View, plan: &Plan, most: usize) -> Result<TopK, Error> {
    let mut best = TopK::new(most);
    for (ordinal, segment) in view.searcher.segment_readers().iter().enumerate() {
        let Some(mut cursors) = ClauseScorer::open_all(segment, &plan.clauses)? else { continue };
        let filter = SegmentFilter::new(segment, view, plan)?;
        let bm25 = Bm25::new(plan.fields, plan.means, segment)?;
        // The rarest required clause leads; the optional ones come last.
        cursors.sort_by_key(|scored| (!scored.required, scored.cursor.cost()));
        let required = cursors.iter().filter(|scored| scored.required).count();
        // Sums are taken in the plan's order, so that they are the same to the last bit in every segment.
        let mut order: Vec<usize> = (0..cursors.len()).collect();
        order.sort_by_key(|at| cursors[*at].number);
        let columns = &view.columns[ordinal];
        let mut doc = cursors[0].cursor.doc();
        while doc != TERMINATED {
            match first_beyond(&mut cursors[1..required], doc) {
                Some(next) => doc = cursors[0].cursor.seek(next),
                None => {
                    if filter.allows(doc) {
                        let text = order.iter().map(|at| cursors[*at].score(doc, &bm25)).sum();
                        let at = DocAddress::new(ordinal as u32, doc);
                        best.offer(text, 0, || Candidate {
                            at,
                            page: columns.page(doc),
                            strict: true,
                            named: 0,
                            text,
                            tie: 0,
                        });
                    }
                    doc = cursors[0].cursor.advance();
                }
            }
        }
    }
    Ok(best)
}

/// The first cursor that lacks the page says which page comes next; none lacks it where all have it.
fn first_beyond(cursors: &mut [ClauseScorer], doc: DocId) -> Option<DocId> {
    cursors.iter_mut().map(|scored| scored.cursor.seek(doc)).find(|found| *found != doc)
}

/// Pages that have what they must, and some of the other clauses.
fn find_loose(view: &View, plan: &Plan, most: usize) -> Result<Vec<Candidate>, Error> {
    let mut clauses: Vec<&Clause> = plan.loose.iter().collect();
    clauses.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    let counted = || clauses.iter().filter(|clause| clause.required);
    let weight_all: f32 = counted().map(|clause| weight(clause)).sum::<f32>().max(f32::MIN_POSITIVE);
    let musts = clauses.iter().filter(|clause| clause.must).count() as u16;
    let common = COMMON_PAGES.max(plan.slots / COMMON_SHARE);
    let is_common = |clause: &Clause| clause.pages > common || !clause.required;
    let leads = clauses.iter().any(|clause| !is_common(clause));
    let mut best = TopK::new(most);
    let longest = view.searcher.segment_readers().iter().map(SegmentReader::max_doc).max().unwrap_or(0);
    let mut scores = vec![Accumulator::default(); WINDOW.min(longest) as usize];
    for (ordinal, segment) in view.searcher.segment_readers().iter().enumerate() {
        let mut cursors = Vec::new();
        for clause in &clauses {
            let follows = leads && is_common(clause);
            cursors.extend(ClauseScorer::open(segment, clause, 0)?.map(|scored| (scored, follows, *clause)));
        }
        // Those that lead come first, so that it is known which pages the others can add to.
        cursors.sort_by_key(|(_, follows, _)| *follows);
        let filter = SegmentFilter::new(segment, view, plan)?;
        let bm25 = Bm25::new(plan.fields, plan.means, segment)?;
        let columns = &view.columns[ordinal];
        for start in (0..segment.max_doc()).step_by(WINDOW as usize) {
            let end = start.saturating_add(WINDOW).min(segment.max_doc());
            for (scored, follows, clause) in &mut cursors {
                let share = if clause.required { weight(clause) } else { 0.0 };
                let mut doc = scored.cursor.seek(start);
                while doc < end {
                    let slot = &mut scores[(doc - start) as usize];
                    if !*follows || slot.found {
                        slot.score += scored.score(doc, &bm25);
                        slot.share += share;
                        slot.musts += u16::from(clause.must);
                        slot.found |= clause.required;
                    }
                    doc = scored.cursor.advance();
                }
            }
            for doc in start..end {
                let slot = std::mem::take(&mut scores[(doc - start) as usize]);
                if !slot.found || slot.musts < musts || !filter.allows(doc) {
                    continue;
                }
                let share = slot.share / weight_all;
                let text = slot.score * (LOOSE_BASE + (1.0 - LOOSE_BASE) * share);
                let at = DocAddress::new(ordinal as u32, doc);
                best.offer(text, 0, || Candidate {
                    at,
                    page: columns.page(doc),
                    strict: false,
                    named: 0,
                    text,
                    tie: 0,
                });
            }
        }
    }
    Ok(best.into_sorted())
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

/// Pages that pass the filters, best linked and newest first.
fn list(view: &View, plan: &Plan, ranks: &dyn Ranks, most: usize) -> Result<TopK, Error> {
    let mut best = TopK::new(most);
    for (ordinal, segment) in view.searcher.segment_readers().iter().enumerate() {
        let filter = SegmentFilter::new(segment, view, plan)?;
        let column =
            |name| segment.fast_fields().u64(name).map_err(Error::engine("read what it knows of pages"));
        let (dated, fetched) = (column("dated")?, column("fetched")?);
        let columns = &view.columns[ordinal];
        let mut hosts = links::HostRanks::new(view, ordinal)?;
        for doc in 0..segment.max_doc() {
            if filter.allows(doc) {
                let page = columns.page(doc);
                let text = links::prior(ranks.page(page), hosts.host(doc, ranks).1);
                let tie = dated.first(doc).or_else(|| fetched.first(doc)).unwrap_or(0);
                let at = DocAddress::new(ordinal as u32, doc);
                best.offer(text, tie, || Candidate { at, page, strict: true, named: 0, text, tie });
            }
        }
    }
    Ok(best)
}

/// Scores pages by one clause: a cursor with the clause's weight.
struct ClauseScorer {
    cursor: Cursor,
    /// Its place in the plan.
    number: usize,
    /// How rare the clause is times how often it was asked for.
    weight: f32,
    required: bool,
    everywhere: bool,
}

impl ClauseScorer {
    fn open(segment: &SegmentReader, clause: &Clause, number: usize) -> Result<Option<ClauseScorer>, Error> {
        let cursor = Cursor::open(segment, clause)?;
        Ok(cursor.map(|cursor| ClauseScorer {
            cursor,
            number,
            weight: weight(clause),
            required: clause.required,
            everywhere: clause.fields.everywhere.is_some(),
        }))
    }

    /// Cursors of all clauses; none where the segment lacks a required one.
    fn open_all(segment: &SegmentReader, clauses: &[Clause]) -> Result<Option<Vec<ClauseScorer>>, Error> {
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
    fn score(&mut self, doc: DocId, bm25: &Bm25) -> f32 {
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
