//! Which of some views together hold everything of another, at the least cost.

use super::boxes::Boxes;
use super::{Answer, View};
use crate::Error;

/// So many candidates are tried in every combination: 4,096 subsets.
const EXACT_MAX: usize = 12;

/// A view that may take part.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What it holds.
    pub view: View,
    /// What taking it costs; more than nothing.
    pub cost: f64,
}

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Cover {
    /// Places of the chosen candidates in the list, ascending.
    pub chosen: Vec<usize>,
    /// What none of them is proved to hold; nothing where the cover is whole.
    pub residual: View,
    /// Whether nothing is left. Unknown: whether something is left could not be told.
    pub whole: Answer,
}

impl View {
    /// Chooses the cheapest candidates that are proved to hold everything of this view, of equally cheap ones those that come
    /// first; where there are none, those that hold as much of it as all do. Of more than twelve that meet the view, the one
    /// that holds most for its cost is taken next, by an estimate of how many pages a view has.
    pub fn cover(&self, candidates: &[Candidate], pages: &dyn Fn(&View) -> f64) -> Result<Cover, Error> {
        let whole = self.boxes()?;
        let mut useful = Vec::new();
        for (id, candidate) in candidates.iter().enumerate() {
            let boxes = candidate.view.boxes()?;
            if whole.intersects(&boxes)?.0 != Answer::No {
                useful.push(Useful { id, boxes, cost: candidate.cost });
            }
        }
        let chosen = match useful.len() {
            ..=EXACT_MAX => Search::run(&whole, &useful)?,
            _ => None,
        };
        let chosen = match chosen {
            Some(chosen) => chosen,
            None => without_redundant(&whole, &useful, greedy(&whole, &useful, pages)?)?,
        };
        let mut residual = whole;
        for &at in &chosen {
            residual = residual.minus(&useful[at].boxes)?;
        }
        let left = residual.any_page().0;
        let mut chosen: Vec<usize> = chosen.into_iter().map(|at| useful[at].id).collect();
        chosen.sort_unstable();
        Ok(Cover { chosen, residual: residual.to_view(), whole: left.not() })
    }
}

struct Useful {
    id: usize,
    boxes: Boxes,
    cost: f64,
}

/// Takes or leaves one candidate after the other, and turns back where the best so far is cheaper.
struct Search<'a> {
    useful: &'a [Useful],
    best: Option<(f64, Vec<usize>)>,
}

impl Search<'_> {
    fn run(whole: &Boxes, useful: &[Useful]) -> Result<Option<Vec<usize>>, Error> {
        let mut search = Search { useful, best: None };
        search.go(0, whole.clone(), 0.0, &mut Vec::new())?;
        Ok(search.best.map(|(_, chosen)| chosen))
    }

    fn go(&mut self, next: usize, rest: Boxes, cost: f64, taken: &mut Vec<usize>) -> Result<(), Error> {
        // Taking comes before leaving, so of equal costs the first found has the first ids.
        if self.best.as_ref().is_some_and(|(best, _)| cost >= *best) {
            return Ok(());
        }
        if rest.any_page().0 == Answer::No {
            self.best = Some((cost, taken.clone()));
            return Ok(());
        }
        let Some(candidate) = self.useful.get(next) else { return Ok(()) };
        let without = rest.minus(&candidate.boxes)?;
        if without != rest {
            taken.push(next);
            self.go(next + 1, without, cost + candidate.cost, taken)?;
            taken.pop();
        }
        self.go(next + 1, rest, cost, taken)
    }
}

/// Takes what holds most of the rest for its cost, until nothing holds any of it.
fn greedy(whole: &Boxes, useful: &[Useful], pages: &dyn Fn(&View) -> f64) -> Result<Vec<usize>, Error> {
    let mut rest = whole.clone();
    let mut chosen = Vec::new();
    while rest.any_page().0 != Answer::No {
        let mut best: Option<(f64, usize)> = None;
        for (at, candidate) in useful.iter().enumerate().filter(|(at, _)| !chosen.contains(at)) {
            let part = rest.and(&candidate.boxes)?;
            if part.any_page().0 == Answer::No {
                continue;
            }
            let worth = pages(&part.to_view()) / candidate.cost;
            if best.is_none_or(|(most, _)| worth > most) {
                best = Some((worth, at));
            }
        }
        let Some((_, at)) = best else { break };
        rest = rest.minus(&useful[at].boxes)?;
        chosen.push(at);
    }
    Ok(chosen)
}

/// Drops, the dearest first, whoever holds nothing that the others do not hold too.
fn without_redundant(whole: &Boxes, useful: &[Useful], mut chosen: Vec<usize>) -> Result<Vec<usize>, Error> {
    let mut by_cost = chosen.clone();
    by_cost.sort_by(|a, b| useful[*b].cost.total_cmp(&useful[*a].cost).then(b.cmp(a)));
    for at in by_cost {
        let mut alone = whole.and(&useful[at].boxes)?;
        for other in chosen.iter().filter(|other| **other != at) {
            alone = alone.minus(&useful[*other].boxes)?;
        }
        if alone.any_page().0 == Answer::No {
            chosen.retain(|other| *other != at);
        }
    }
    Ok(chosen)
}
