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
use crate::matching::{Candidate, DocPlace};
use crate::patience::Effort;
use crate::plan::Plan;
use crate::searcher::View;
use farol_query::parts::{Cand, LINKED_MAX, NEAR_MAX, share};
use fields::Bm25;
use language::LanguagePages;
use links::HostRanks;
use proximity::Proximity;
use title::TitleBoost;

/// Scores the best candidates of one of so many shards, or of all of them, segment by segment, and looks up what their
/// order goes by. They stay in their order; beside them, where they stand.
pub(crate) fn score(
    views: &[&View],
    plan: &Plan,
    candidates: Vec<Candidate>,
    ranks: &dyn Ranks,
    shards: usize,
    effort: &Effort<'_>,
) -> Result<(Vec<Cand>, Vec<DocPlace>), Error> {
    let listing = plan.clauses.is_empty();
    // Who sees one shard does not see the candidates of the others, and must do with its share.
    let shares = shards / views.len().max(1);
    let (linked_max, near_max) = (share(LINKED_MAX, shares), share(NEAR_MAX, shares));
    let mut order: Vec<usize> = (0..candidates.len()).collect();
    order.sort_unstable_by_key(|at| candidates[*at].at);
    let mut scored: Vec<Option<Cand>> = vec![None; candidates.len()];
    let segment_of = |at: usize| (candidates[at].at.shard, candidates[at].at.segment);
    for group in order.chunk_by(|a, b| segment_of(*a) == segment_of(*b)) {
        effort.check()?;
        let (shard, ordinal) = segment_of(group[0]);
        let segment = views[shard as usize].segment(ordinal);
        let columns = segment.columns;
        let mut hosts = HostRanks::new(segment);
        let mut languages = LanguagePages::new(segment, plan)?;
        let is_near = |at: usize| at < near_max && !listing;
        let mut near_scorer = match group.iter().any(|at| is_near(*at)) {
            true => Some((Proximity::new(segment, plan)?, TitleBoost::new(segment, plan)?)),
            false => None,
        };
        let bm25 = Bm25::new(plan.length_factors(), &columns.lengths);
        for &at in group {
            let Candidate { at: place, page, strict, named, text, tie } = candidates[at];
            let doc = place.doc;
            let (host, host_rank) = hosts.host(doc, ranks);
            let (language, link_rank) = (languages.place(doc), ranks.page(page));
            let (mut linked, mut near) = (text, text);
            if at < linked_max && !listing {
                let prior = links::prior(link_rank, host_rank) * language.factor();
                linked *= prior;
                near = linked;
                if let Some((proximity, title_boost)) = near_scorer.as_mut().filter(|_| is_near(at)) {
                    near = text;
                    if let Some(proximity) = proximity {
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
