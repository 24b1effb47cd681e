//! Orders the candidates: text, nearness, title and links; then leaves duplicates and crowding hosts out.
//!
//! The best [`RERANKED`] candidates by text are looked at again, the best [`NEAR`] of them also for nearness and
//! title. Those numbers do not depend on which page of the answer is asked for, so an answer's second page never
//! repeats or skips a hit of its first.

mod crowd;
pub(crate) mod fields;
mod language;
pub(crate) mod links;
pub(crate) mod proximity;
mod title;

pub use links::{NoRanks, Ranks};

use crate::error::Error;
use crate::matching::{Candidate, Found};
use crate::plan::Plan;
use crate::searcher::View;
use farol_base::PageId;
use fields::Bm25;
use language::Spoken;
use links::HostRanks;
use proximity::Nearness;
use tantivy::DocAddress;
use title::Titles;

/// Candidates whose links are looked at; the others keep their order by text behind them.
const RERANKED: usize = 1_000;

/// Candidates for which nearness and title are looked at.
const NEAR: usize = 300;

/// A page in its place in the answer.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub at: DocAddress,
    pub score: f32,
    pub duplicates: u32,
    pub more_from_host: bool,
}

/// A candidate with what decides its place.
#[derive(Clone, Debug)]
pub(crate) struct Known {
    candidate: Candidate,
    score: f32,
    page: u64,
    host: u64,
    content: u64,
    simhash: u64,
}

/// The answer's list, best first.
pub(crate) fn order(view: &View, plan: &Plan, found: Found, ranks: &dyn Ranks) -> Result<Vec<Ranked>, Error> {
    let mut candidates = found.candidates;
    let listing = plan.units.is_empty();
    let mut known = know(view, plan, &mut candidates, ranks, listing)?;
    let head = known.len().min(RERANKED);
    known[..head].sort_by(|a, b| {
        let tier = b.candidate.strict.cmp(&a.candidate.strict);
        let newer = b.candidate.tie.cmp(&a.candidate.tie);
        tier.then(b.score.total_cmp(&a.score)).then(newer).then(a.page.cmp(&b.page))
    });
    Ok(crowd::thin(known, plan.filters.sites.is_empty()))
}

/// Looks up what is known about each candidate, segment by segment, and scores the best again.
fn know(
    view: &View,
    plan: &Plan,
    candidates: &mut [Candidate],
    ranks: &dyn Ranks,
    listing: bool,
) -> Result<Vec<Known>, Error> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_unstable_by_key(|at| candidates[*at].at);
    let mut known: Vec<Option<Known>> = vec![None; candidates.len()];
    for group in order.chunk_by(|a, b| candidates[*a].at.segment_ord == candidates[*b].at.segment_ord) {
        let ordinal = candidates[group[0]].at.segment_ord;
        let segment = view.searcher.segment_reader(ordinal);
        let column =
            |name| segment.fast_fields().u64(name).map_err(Error::engine("read what it knows of pages"));
        let (pages, contents, simhashes) = (column("page")?, column("content")?, column("simhash")?);
        let mut hosts = HostRanks::new(view, ordinal as usize)?;
        let mut nearness = Nearness::new(segment, plan)?;
        let mut titles = Titles::new(segment, plan)?;
        let mut spoken = Spoken::new(segment, plan)?;
        let bm25 = Bm25::new(view, segment)?;
        for &at in group {
            let candidate = candidates[at];
            let doc = candidate.at.doc_id;
            let page = pages.first(doc).unwrap_or(0);
            let (host, host_rank) = hosts.host(doc, ranks);
            let mut score = candidate.text;
            if at < NEAR && !listing {
                if let Some(nearness) = &mut nearness {
                    score += nearness.score(doc, &bm25);
                }
                score *= titles.factor(doc);
            }
            if at < RERANKED && !listing {
                score *= links::prior(ranks.page(PageId(page)), host_rank) * spoken.factor(doc);
            }
            known[at] = Some(Known {
                candidate,
                score,
                page,
                host,
                content: contents.first(doc).unwrap_or(0),
                simhash: simhashes.first(doc).unwrap_or(0),
            });
        }
    }
    Ok(known.into_iter().flatten().collect())
}
