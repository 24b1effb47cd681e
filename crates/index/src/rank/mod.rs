//! Second-phase ranking: text, proximity, title, links and names; then duplicates are collapsed and hosts share places.
//!
//! Pages stand in bands: one that is called what was asked for, those with every word, those with most of them. All of
//! a better band come before any of a worse one.
//!
//! The best [`RERANKED`] candidates by text are rescored, the best [`PROXIMITY_RERANKED`] of them also by proximity
//! and title. Those numbers do not depend on which page of the answer is asked for, so an answer's second page never
//! repeats or skips a hit of its first.

mod collapse;
mod duplicates;
pub(crate) mod fields;
mod language;
pub(crate) mod links;
pub(crate) mod names;
pub(crate) mod proximity;
mod title;

pub(crate) use duplicates::is_near;
pub use links::{NoRanks, Ranks};

use crate::error::Error;
use crate::matching::Candidate;
use crate::plan::Plan;
use crate::searcher::View;
use farol_base::{HostHash, PageId};
use fields::Bm25;
use language::{LanguagePages, LanguagePlace};
use links::HostRanks;
use proximity::Proximity;
use tantivy::DocAddress;
use title::TitleBoost;

/// Candidates that are rescored by their links; the others follow in their order by text.
const RERANKED: usize = 1_000;

/// Candidates that are rescored by proximity and title.
const PROXIMITY_RERANKED: usize = 300;

/// A page that scores less than this part of the best is not worth as much as one more of a host that is shown already.
const WEAK: f32 = 0.5;

/// A page in its place in the answer.
#[derive(Clone, Debug)]
pub(crate) struct Ranked {
    pub at: DocAddress,
    pub score: f32,
    pub duplicates: u32,
    pub more_from_host: bool,
}

impl Ranked {
    /// A page that stands where it stands because somebody put it there.
    pub(crate) fn pinned(at: DocAddress, score: f32) -> Ranked {
        Ranked { at, score, duplicates: 0, more_from_host: false }
    }
}

/// A candidate with its final score, and what collapsing goes by.
#[derive(Clone, Debug)]
pub(crate) struct ScoredCandidate {
    candidate: Candidate,
    score: f32,
    page: u64,
    host: HostHash,
    content: u64,
    simhash: u64,
    language: LanguagePlace,
    link_rank: f32,
    /// Copies that were left out for it.
    duplicates: u32,
    band: Band,
}

/// What a page has of the question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Band {
    /// Of the pages that are called what was asked for, the best.
    Named,
    /// Every word.
    All,
    /// Some of the words, and much of what the best page has.
    Most,
    /// Some of the words.
    Some,
}

/// The answer's list, best first.
pub(crate) fn order(
    view: &View,
    plan: &Plan,
    mut candidates: Vec<Candidate>,
    ranks: &dyn Ranks,
    hits_per_host: usize,
) -> Result<Vec<Ranked>, Error> {
    let listing = plan.clauses.is_empty();
    let mut scored = rescore(view, plan, &mut candidates, ranks, listing)?;
    let top = scored.iter().map(|page| page.score).fold(0.0, f32::max);
    let named = scored.iter().filter(|page| page.candidate.named != 0);
    let named = named.max_by(|a, b| {
        a.candidate.named.cmp(&b.candidate.named).then(a.score.total_cmp(&b.score)).then(b.page.cmp(&a.page))
    });
    let named = named.map(|page| page.candidate.at);
    for page in &mut scored {
        let weak = page.score < WEAK * top;
        page.band = match page.candidate {
            Candidate { at, .. } if named == Some(at) => Band::Named,
            Candidate { strict: true, .. } => Band::All,
            _ if weak => Band::Some,
            _ => Band::Most,
        };
    }
    scored.sort_by(|a, b| {
        let newer = b.candidate.tie.cmp(&a.candidate.tie);
        a.band.cmp(&b.band).then(b.score.total_cmp(&a.score)).then(newer).then(a.page.cmp(&b.page))
    });
    let scored = duplicates::join(view, scored)?;
    let hits_per_host = if plan.filters.sites.is_empty() { hits_per_host } else { 0 };
    Ok(collapse::collapse(scored, hits_per_host))
}

/// Looks up the columns of each candidate, segment by segment, and rescores the best.
fn rescore(
    view: &View,
    plan: &Plan,
    candidates: &mut [Candidate],
    ranks: &dyn Ranks,
    listing: bool,
) -> Result<Vec<ScoredCandidate>, Error> {
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_unstable_by_key(|at| candidates[*at].at);
    let mut scored: Vec<Option<ScoredCandidate>> = vec![None; candidates.len()];
    for group in order.chunk_by(|a, b| candidates[*a].at.segment_ord == candidates[*b].at.segment_ord) {
        let ordinal = candidates[group[0]].at.segment_ord;
        let segment = view.searcher.segment_reader(ordinal);
        let column =
            |name| segment.fast_fields().u64(name).map_err(Error::engine("read what it knows of pages"));
        let (pages, contents, simhashes) = (column("page")?, column("content")?, column("simhash")?);
        let mut hosts = HostRanks::new(view, ordinal as usize)?;
        let mut proximity = Proximity::new(segment, plan)?;
        let mut title_boost = TitleBoost::new(segment, plan)?;
        let mut languages = LanguagePages::new(segment, plan)?;
        let bm25 = Bm25::new(view, segment)?;
        for &at in group {
            let candidate = candidates[at];
            let doc = candidate.at.doc_id;
            let page = pages.first(doc).unwrap_or(0);
            let (host, host_rank) = hosts.host(doc, ranks);
            let (language, link_rank) = (languages.place(doc), ranks.page(PageId(page)));
            let mut score = candidate.text;
            if at < PROXIMITY_RERANKED && !listing {
                if let Some(proximity) = &mut proximity {
                    score += proximity.score(doc, &bm25);
                }
                score *= title_boost.factor(doc);
            }
            if at < RERANKED && !listing {
                score *= links::prior(link_rank, host_rank) * language.factor();
            }
            scored[at] = Some(ScoredCandidate {
                candidate,
                score,
                page,
                host,
                content: contents.first(doc).unwrap_or(0),
                simhash: simhashes.first(doc).unwrap_or(0),
                language,
                link_rank,
                duplicates: 0,
                band: Band::All,
            });
        }
    }
    Ok(scored.into_iter().flatten().collect())
}
