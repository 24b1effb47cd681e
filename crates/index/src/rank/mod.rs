//! Second-phase ranking: text, proximity, title, links and names.
//!
//! The best candidates by text are rescored by their links, the best of those also by proximity and title; how many is
//! counted over all shards, so a shard gives each candidate both scores. Their order, bands, copies and hosts are
//! [`farol_query::parts`]' and [`farol_query::thin`]'s business. Those numbers do not depend on which page of the answer
//! is asked for, so an answer's second page never repeats or skips a hit of its first.

pub(crate) mod fields;
mod language;
pub(crate) mod links;
pub(crate) mod names;
pub(crate) mod proximity;
#[cfg(test)]
mod thin_tests;
mod title;

pub use links::{NoRanks, Ranks};

use crate::error::Error;
use crate::matching::Candidate;
use crate::plan::Plan;
use crate::searcher::View;
use farol_query::parts::{CANDIDATES_MAX, Cand, LINKED_MAX, NEAR_MAX, share};
use fields::Bm25;
use language::LanguagePages;
use links::HostRanks;
use proximity::Proximity;
use tantivy::DocAddress;
use title::TitleBoost;

/// How many of a shard's candidates, the best by text, go on, and how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Depth {
    /// Can be in the answer.
    pub ranked: usize,
    /// Are rescored by links and language.
    pub linked: usize,
    /// By proximity and title too.
    pub near: usize,
}

impl Depth {
    /// For one of so many shards, which does not see the candidates of the others.
    pub(crate) fn of_one(shards: usize) -> Depth {
        Depth { ranked: usize::MAX, linked: share(LINKED_MAX, shards), near: share(NEAR_MAX, shards) }
    }

    /// For each of several shards whose candidates, each best first, are all seen: together they go as deep as one.
    pub(crate) fn of_each(shards: &[&[Candidate]]) -> Vec<Depth> {
        let mut depths = vec![Depth::default(); shards.len()];
        let numbered = shards.iter().enumerate();
        let mut all: Vec<(&Candidate, usize)> =
            numbered.flat_map(|(shard, found)| found.iter().map(move |one| (one, shard))).collect();
        all.sort_unstable_by(|a, b| b.0.cmp(a.0));
        for (at, (_, shard)) in all.into_iter().take(CANDIDATES_MAX).enumerate() {
            depths[shard].ranked += 1;
            depths[shard].linked += usize::from(at < LINKED_MAX);
            depths[shard].near += usize::from(at < NEAR_MAX);
        }
        depths
    }
}

/// Scores the candidates of a shard, segment by segment, and looks up what their order goes by. They stay in their
/// order; beside them, where they stand.
pub(crate) fn score(
    view: &View,
    plan: &Plan,
    mut candidates: Vec<Candidate>,
    ranks: &dyn Ranks,
    depth: Depth,
) -> Result<(Vec<Cand>, Vec<DocAddress>), Error> {
    let listing = plan.clauses.is_empty();
    let mut number = 0;
    candidates.retain(|candidate| {
        number += 1;
        number <= depth.ranked || candidate.named != 0
    });
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_unstable_by_key(|at| candidates[*at].at);
    let mut scored: Vec<Option<Cand>> = vec![None; candidates.len()];
    for group in order.chunk_by(|a, b| candidates[*a].at.segment_ord == candidates[*b].at.segment_ord) {
        let ordinal = candidates[group[0]].at.segment_ord;
        let segment = view.searcher.segment_reader(ordinal);
        let columns = &view.columns[ordinal as usize];
        let mut hosts = HostRanks::new(view, ordinal as usize)?;
        let mut proximity = Proximity::new(segment, plan)?;
        let mut title_boost = TitleBoost::new(segment, plan)?;
        let mut languages = LanguagePages::new(view, segment, plan)?;
        let bm25 = Bm25::new(plan.fields, plan.means, segment)?;
        for &at in group {
            let Candidate { at: place, page, strict, named, text, tie } = candidates[at];
            let doc = place.doc_id;
            let (host, host_rank) = hosts.host(doc, ranks);
            let (language, link_rank) = (languages.place(doc), ranks.page(page));
            let (mut linked, mut near) = (text, text);
            if at < depth.linked && !listing {
                let prior = links::prior(link_rank, host_rank) * language.factor();
                linked *= prior;
                near = linked;
                if at < depth.near {
                    near = text;
                    if let Some(proximity) = &mut proximity {
                        near += proximity.score(doc, &bm25);
                    }
                    near *= title_boost.factor(doc);
                    near *= prior;
                }
            }
            scored[at] = Some(Cand {
                page,
                host,
                content: columns.content(doc),
                simhash: columns.simhash(doc),
                strict,
                named,
                text,
                linked,
                near,
                tie,
                language: language.packed(),
                link_rank,
                address: columns.address(doc),
            });
        }
    }
    let at = candidates.iter().map(|candidate| candidate.at).collect();
    Ok((scored.into_iter().flatten().collect(), at))
}
