//! Several objectives in one graph \[Schloegel99\], [Exposto08 §5.1].
//!
//! ```text
//! w(e) = Σ p_i · w_i(e) / norm_i
//! ```
//!
//! The thesis divides by the cut of each objective's own best split. With one agent in each part every server cuts
//! k−1 of its k edges to agents whatever is done, so that this weakens distances more the more agents there are. Our
//! norm is what the objective's own best split saves over a blind one: equal preferences then mean that one per cent of
//! what can be saved of one objective is worth one per cent of what can be saved of another, for any k (decision D-5).

use super::{Objective, Terms};
use crate::graph::WEIGHT_SUM_MAX;
use crate::split::{Balance, Incremental, Loads, Multilevel, Problem, Split};
use crate::{Error, Graph, Space};

/// An objective and how much it matters.
pub struct Wish<'a> {
    pub objective: &'a dyn Objective,
    pub preference: f64,
}

/// What an objective's weights are divided by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Normalisation {
    /// What its own best split saves over a blind one.
    #[default]
    Saving,
    /// The cut of its own best split, as in the thesis.
    Cut,
}

/// One graph for all objectives.
#[derive(Clone, Debug)]
pub struct Combined {
    pub graph: Graph,
    /// Server by server; empty where no objective has affinities.
    pub affinities: Vec<u32>,
}

/// How to plan.
#[derive(Clone, Copy, Debug)]
pub struct Planner {
    pub search: Multilevel,
    pub normalisation: Normalisation,
    /// How much more than its fair share of pages an agent may get.
    pub slack: f64,
    /// Whether nobody may get less than its share by more than the slack either.
    pub floors: bool,
    /// Whether dense servers are shared out too (C5).
    pub share_dense: bool,
}

impl Default for Planner {
    fn default() -> Planner {
        Planner {
            search: Multilevel::default(),
            normalisation: Normalisation::default(),
            slack: 0.05,
            floors: false,
            share_dense: true,
        }
    }
}

/// A split of a space, and what it went by.
#[derive(Clone, Debug)]
pub struct Plan {
    pub split: Split,
    pub combined: Combined,
    pub loads: Loads,
    pub balance: Balance,
}

/// Several objectives in one problem.
#[derive(Clone, Debug)]
pub struct Asked {
    pub combined: Combined,
    pub loads: Loads,
    pub balance: Balance,
}

impl Asked {
    pub fn problem(&self) -> Problem<'_> {
        problem(&self.combined, &self.loads, &self.balance)
    }

    fn answered(self, split: Split) -> Plan {
        Plan { split, combined: self.combined, loads: self.loads, balance: self.balance }
    }
}

impl Planner {
    /// Splits a space between its agents.
    ///
    /// # Errors
    /// Where the space does not fit together.
    pub fn plan(&self, space: &Space, wishes: &[Wish<'_>]) -> Result<Plan, Error> {
        let asked = self.ask(space, wishes)?;
        let split = self.search.split(&asked.problem())?;
        Ok(asked.answered(split))
    }

    /// What is to be split, for those who split it in more than one way.
    ///
    /// # Errors
    /// As for [`Planner::plan`].
    pub fn ask(&self, space: &Space, wishes: &[Wish<'_>]) -> Result<Asked, Error> {
        let (loads, balance) = self.loads(space)?;
        let combined = combine(space, wishes, &loads, &balance, self)?;
        Ok(Asked { combined, loads, balance })
    }

    /// Splits a space again, with little moved from `before`; see [`Incremental::split`].
    ///
    /// # Errors
    /// As for [`Planner::plan`].
    pub fn replan(
        &self,
        space: &Space,
        wishes: &[Wish<'_>],
        before: &[u32],
        incremental: &Incremental,
    ) -> Result<Plan, Error> {
        let asked = self.ask(space, wishes)?;
        let split = incremental.split(&asked.problem(), before)?;
        Ok(asked.answered(split))
    }

    fn loads(&self, space: &Space) -> Result<(Loads, Balance), Error> {
        space.check()?;
        let loads = match self.share_dense {
            true => space.loads(),
            false => Loads::pages(space.servers.iter().map(|server| server.pages.max(1)).collect()),
        };
        let balance = space.balance(&loads, self.slack)?;
        let balance = if self.floors { balance.with_floors(self.slack) } else { balance };
        Ok((loads, balance))
    }
}

fn problem<'a>(combined: &'a Combined, loads: &'a Loads, balance: &'a Balance) -> Problem<'a> {
    let affinities = (!combined.affinities.is_empty()).then_some(&combined.affinities[..]);
    Problem { affinities, ..Problem::new(&combined.graph, loads, balance) }
}

/// Combines objectives; each is first split on its own to learn its norm. Where only one has a preference above 0 and
/// something to say, that is not needed.
///
/// # Errors
/// Where the space does not fit together. A preference that is no positive number counts as 0.
pub fn combine(
    space: &Space,
    wishes: &[Wish<'_>],
    loads: &Loads,
    balance: &Balance,
    planner: &Planner,
) -> Result<Combined, Error> {
    let k = space.parts();
    let wanted = |wish: &&Wish<'_>| wish.preference.is_finite() && wish.preference > 0.0;
    let mut heard = Vec::with_capacity(wishes.len());
    for wish in wishes.iter().filter(wanted) {
        let terms = wish.objective.terms(space)?;
        if !terms.says_nothing() {
            heard.push((wish.preference, terms));
        }
    }
    if let [(_, only)] = &heard[..] {
        return whole_numbers(space.servers.len(), only);
    }
    let mut sum = Terms::default();
    for (preference, terms) in &heard {
        let alone = whole_numbers(space.servers.len(), terms)?;
        let split = planner.search.split(&problem(&alone, loads, balance))?;
        let own = terms.cut(&split.part, k);
        // Where balance costs more than an objective can save, its worth is that of one in a hundred saved.
        let norm = match planner.normalisation {
            Normalisation::Saving => (terms.cut_blindly(k) - own).max(own / 100.0),
            Normalisation::Cut => own,
        };
        // One that cuts nothing at all is content with anything.
        if norm > 0.0 && norm.is_finite() {
            sum.add(terms, preference / norm);
        }
    }
    whole_numbers(space.servers.len(), &sum)
}

/// Edges and affinities at one scale, as large as whole numbers allow.
fn whole_numbers(servers: usize, terms: &Terms) -> Result<Combined, Error> {
    let k = terms.affinities.len().checked_div(servers).unwrap_or(1).max(1);
    let edges: f64 = terms.edges.iter().filter(|(a, b, _)| a != b).map(|edge| edge.2.max(0.0)).sum();
    // Only differences between agents matter; without what all have in common, more digits are left for them.
    let rows = terms.affinities.chunks_exact(k);
    let least: Vec<f64> = rows.clone().map(|row| row.iter().copied().fold(f64::INFINITY, f64::min)).collect();
    let span = |row: &[f64], least: f64| row.iter().map(|affinity| affinity - least).fold(0.0, f64::max);
    let affinities: f64 = rows.clone().zip(&least).map(|(row, least)| span(row, *least)).sum();
    // Edges are seen from both ends when they become affinities of fixed vertices.
    let most = (2.0 * edges).max(affinities).max(f64::MIN_POSITIVE);
    let scale = 0.9 * WEIGHT_SUM_MAX as f64 / most;
    let graph = Graph::scaled(servers, &terms.edges, edges * scale / WEIGHT_SUM_MAX as f64)?;
    let whole = |affinity: f64, least: f64| ((affinity - least) * scale).round() as u32;
    let affinities =
        rows.zip(&least).flat_map(|(row, least)| row.iter().map(|affinity| whole(*affinity, *least)));
    Ok(Combined { graph, affinities: affinities.collect() })
}

#[cfg(test)]
mod tests {
    use super::super::{Geography, Links, RoundTrips, Sense};
    use super::*;
    use crate::{Agent, Position, Server};

    /// Two towns with an agent each, ten servers in each. Links go between servers of the same parity.
    fn two_towns() -> Space {
        let town = |s: usize| Position::new(40.0, if s < 10 { -8.0 } else { 20.0 });
        let servers = (0..20).map(|s| Server {
            name: format!("http://s{s}.test"),
            pages: 10,
            position: town(s),
            ..Server::default()
        });
        let mut links = Vec::new();
        for a in 0..20u32 {
            links.extend((0..a).filter(|b| a % 2 == b % 2).map(|b| (a, b, 1)));
        }
        let agent = |s: usize| Agent { position: town(s), ..Agent::named(format!("agent {s}")) };
        let rtt = (0..20).flat_map(|s| if s < 10 { [10.0, 60.0] } else { [60.0, 10.0] }).collect();
        Space { servers: servers.collect(), links, agents: vec![agent(0), agent(19)], rtt }
    }

    fn plan(wishes: &[(&dyn Objective, f64)]) -> (Space, Vec<u32>) {
        let space = two_towns();
        let wishes: Vec<Wish<'_>> = wishes
            .iter()
            .map(|(objective, preference)| Wish { objective: *objective, preference: *preference })
            .collect();
        let plan = Planner::default().plan(&space, &wishes).unwrap();
        (space, plan.split.part)
    }

    #[test]
    fn each_objective_gets_what_it_wants_alone() {
        let near = |part: &[u32]| (0..20).filter(|s| part[*s] == u32::from(*s >= 10)).count();
        let (space, part) = plan(&[(&Links, 1.0)]);
        assert_eq!(space.measure(&part).links_cut, 0);
        for wish in [&RoundTrips::default() as &dyn Objective, &Geography::default()] {
            let (space, part) = plan(&[(wish, 1.0)]);
            assert_eq!((near(&part), space.measure(&part).rtt_mean), (20, 10.0));
        }
        // The thesis' sense, to the letter: everybody at the far end.
        let (_, part) = plan(&[(&RoundTrips { sense: Sense::Literal, per_server: true }, 1.0)]);
        assert_eq!(near(&part), 0);
    }

    #[test]
    fn preferences_decide_between_them() {
        let rtt = RoundTrips::default();
        let (space, part) = plan(&[(&Links, 100.0), (&rtt, 1.0)]);
        assert_eq!(space.measure(&part).links_cut, 0);
        let (space, part) = plan(&[(&Links, 1.0), (&rtt, 100.0)]);
        assert_eq!(space.measure(&part).rtt_mean, 10.0);
        // Nonsense counts as nothing.
        let (space, part) = plan(&[(&Links, 1.0), (&rtt, f64::NAN), (&Geography::default(), -3.0)]);
        assert_eq!(space.measure(&part).links_cut, 0);
    }

    #[test]
    fn an_agent_that_says_the_same_of_all_is_not_heard() {
        let mut space = two_towns();
        (0..20).for_each(|s| space.rtt[s * 2 + 1] = 0.001);
        space.agents[1].position = None;
        let rtt = RoundTrips::default();
        let terms = rtt.terms(&space).unwrap();
        assert!(terms.affinities.iter().all(|affinity| *affinity == 0.0));
        // Nobody knows anything: still an answer, and a fair one.
        space.rtt.fill(f32::NAN);
        let plan = Planner::default().plan(
            &space,
            &[Wish { objective: &rtt, preference: 1.0 }, Wish { objective: &Links, preference: 1.0 }],
        );
        let plan = plan.unwrap();
        assert_eq!(space.measure(&plan.split.part).overload, 1.0);
        assert_eq!(space.measure(&plan.split.part).links_cut, 0);
    }
}
