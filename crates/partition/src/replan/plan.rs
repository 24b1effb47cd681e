//! One plan: several splits of what is known, the best of them judged, and its table.
//!
//! INVARIANT: by the table that comes out each address with all the hosts that are known at it has one owner.

use super::decide::{Case, Decision, Gain, Moves, Price, Why, round_trips};
use super::fill::Source;
use super::gather::Gathered;
use super::in_force::InForce;
use super::rules::{Rules, name_of};
use super::trigger::Trigger;
use crate::geo::GeoTable;
use crate::objective::{Asked, Links, Planner, RoundTrips, Wish};
use crate::split::{FREE, Incremental, Multilevel, Problem};
use crate::table::{Builder, Filter, Placed, Route, Router, Unknown};
use crate::{Block, Error, Owner, RoutingTable, Space};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages that move when an agent joins, as a multiple of a share; see [`Incremental::budget`].
const JOIN_BUDGET: f64 = 1.25;
/// Share of pages that a table must name for it to be changed little by little.
const NAMED_MIN: f64 = 0.5;

/// A plan that is to be made; owns all it needs, so that it can be made on a thread of its own.
#[derive(Debug)]
pub struct PlanJob {
    pub(super) gathered: Gathered,
    pub(super) in_force: Option<InForce>,
    pub(super) trigger: Trigger,
    pub(super) rules: Rules,
    pub(super) places: Option<Arc<GeoTable>>,
    pub(super) price: Price,
    pub(super) overload_from: f64,
    pub(super) links: f64,
    pub(super) round_trips: f64,
    pub(super) unknown: Unknown,
    pub(super) seed: u64,
}

/// Who owns what now, by the numbers of today's agents.
struct Before {
    /// By an entry of the table in force; [`FREE`] where it names nobody who is still there.
    named: Vec<u32>,
    /// By that table, hash included; [`FREE`] where the owner has gone.
    all: Vec<u32>,
}

/// One way to split, and what is thought of it.
struct Choice {
    judged: Result<Why, Why>,
    worth: f64,
    gain: Gain,
    part: Vec<u32>,
}

impl Choice {
    fn beats(&self, other: &Choice) -> bool {
        (self.judged.is_ok(), self.worth) > (other.judged.is_ok(), other.worth)
    }
}

impl PlanJob {
    pub fn trigger(&self) -> &Trigger {
        &self.trigger
    }

    /// Servers of the space: addresses.
    pub fn addresses(&self) -> usize {
        self.gathered.space.servers.len()
    }

    /// Pairs of agents and addresses by where their round-trip time comes from.
    pub fn sources(&self) -> &BTreeMap<Source, u64> {
        &self.gathered.counts
    }

    /// Plans. Takes seconds where addresses are many.
    ///
    /// # Errors
    /// Where there is no agent, or a capacity is no number.
    pub fn run(&self) -> Result<Decision, Error> {
        let space = &self.gathered.space;
        space.check()?;
        let before = self.before();
        let fixed: Vec<u32> = (0..space.servers.len())
            .map(|unit| self.rules.owner(&self.gathered.ruled(unit)).unwrap_or(FREE))
            .collect();
        let is_moved = |(fixed, before): (&u32, &u32)| *fixed != FREE && fixed != before;
        let case = Case {
            first: self.in_force.is_none(),
            agents_changed: matches!(self.trigger, Trigger::Agents { .. }),
            ruled: self.trigger == Trigger::Rules || fixed.iter().zip(&before.all).any(is_moved),
            waited: matches!(self.trigger, Trigger::Waiting(_)),
            overload_from: self.overload_from,
        };
        if space.servers.is_empty() {
            let gain = Gain::default();
            return match (case.first, case.agents_changed) {
                (true, _) => self.publish(&before, Vec::new(), gain, Why::First),
                (_, true) => self.publish(&before, Vec::new(), gain, Why::AgentsChanged),
                _ if case.ruled => self.publish(&before, Vec::new(), gain, Why::Ruled),
                _ => Ok(Decision::Keep { gain, why: Why::NothingKnown }),
            };
        }
        let rtt = RoundTrips::default();
        let wishes = [
            Wish { objective: &Links, preference: self.links },
            // What is known of a tenth of the pages counts a tenth.
            Wish { objective: &rtt, preference: self.round_trips * self.compared() },
        ];
        let search = Multilevel { seed: self.seed, cycles: 1, ..Multilevel::default() };
        let planner = Planner { search, slack: self.price.slack, floors: true, ..Planner::default() };
        let asked = planner.ask(space, &wishes)?;
        let problem = Problem { fixed: Some(&fixed), ..asked.problem() };
        let mut best: Option<Choice> = None;
        for part in self.candidates(&problem, &asked, &before, search)? {
            let gain = self.gain(&before, &part);
            let judged = self.price.judge(&gain, &case);
            let worth = if case.agents_changed || case.first { gain.paid() } else { self.price.worth(&gain) };
            let choice = Choice { judged, worth, gain, part };
            if best.as_ref().is_none_or(|best| choice.beats(best)) {
                best = Some(choice);
            }
        }
        match best {
            Some(Choice { judged: Ok(why), gain, part, .. }) => self.publish(&before, part, gain, why),
            Some(Choice { judged: Err(why), gain, .. }) => Ok(Decision::Keep { gain, why }),
            None => Ok(Decision::Keep { gain: Gain::default(), why: Why::NothingKnown }),
        }
    }

    /// Share of pages of whose address the times of two agents or more are known.
    fn compared(&self) -> f64 {
        let space = &self.gathered.space;
        let is_known = |s: usize| (0..space.parts()).filter(|j| space.rtt(s, *j).is_some()).count() >= 2;
        let pages = |s: usize| space.servers[s].pages;
        let known: u64 = (0..space.servers.len()).filter(|s| is_known(*s)).map(pages).sum();
        known as f64 / (0..space.servers.len()).map(pages).sum::<u64>().max(1) as f64
    }

    fn before(&self) -> Before {
        let space = &self.gathered.space;
        let Some(table) = &self.in_force else {
            let nobody = vec![FREE; space.servers.len()];
            return Before { named: nobody.clone(), all: nobody };
        };
        let number = |name: &str| space.agents.iter().position(|agent| agent.name == name);
        let today = |owner: Option<&str>| owner.and_then(number).map_or(FREE, |at| at as u32);
        let named = |server: &crate::Server| today(table.named(&server.name, server.address));
        let all = |server: &crate::Server| today(table.owner(&server.name, server.address));
        Before {
            named: space.servers.iter().map(named).collect(),
            all: space.servers.iter().map(all).collect(),
        }
    }

    /// Ways to split: with as little moved as can be, with some, and anew where the table in force says little.
    fn candidates(
        &self,
        problem: &Problem<'_>,
        asked: &Asked,
        before: &Before,
        search: Multilevel,
    ) -> Result<Vec<Vec<u32>>, Error> {
        let space = &self.gathered.space;
        let k = space.parts() as f64;
        let weigh = |s: usize| asked.loads.first(s) as f64;
        let total: f64 = (0..space.servers.len()).map(weigh).sum();
        let named: f64 = (0..space.servers.len()).filter(|s| before.named[*s] != FREE).map(weigh).sum();
        let again = |budget: f64, home: &[u32]| {
            Ok::<_, Error>(
                Incremental { search, budget, ..Incremental::default() }.split(problem, home)?.part,
            )
        };
        let mut all = Vec::new();
        if named > 0.0 {
            let joined = matches!(&self.trigger, Trigger::Agents { joined, .. } if !joined.is_empty());
            let budget = if joined { JOIN_BUDGET } else { 0.9 * self.price.moved_max * k };
            all.push(again(budget, &before.named)?);
            if !joined {
                all.push(again(0.0, &before.named)?);
                // Hosts that only a hash had placed stay where they are crawled already, as far as the budget goes.
                all.push(again(budget, &before.all)?);
            }
        }
        // From scratch, as long as agents are the same: what it would save may pay for moving much.
        if named < NAMED_MIN * total || !matches!(self.trigger, Trigger::Agents { .. }) {
            let part = search.split(problem)?.part;
            let is_free = problem.fixed.is_none_or(|fixed| fixed.iter().all(|part| *part == FREE));
            if is_free {
                all.push(relabelled(space, &before.all, part.clone()));
            }
            all.push(part);
        }
        Ok(all)
    }

    fn gain(&self, before: &Before, part: &[u32]) -> Gain {
        let space = &self.gathered.space;
        let mut gain = Gain::default();
        for (s, server) in space.servers.iter().enumerate() {
            gain.pages += server.pages;
            if before.all[s] == part[s] {
                continue;
            }
            match (before.named[s], before.all[s]) {
                (_, FREE) => gain.orphaned += server.pages,
                (FREE, _) => gain.moved_hashed += server.pages,
                _ => gain.moved_named += server.pages,
            }
        }
        // An owner who has gone is nobody: links to and from his hosts cross over to somebody.
        let (mut links, mut crossed, mut crosses) = (0u64, 0u64, 0u64);
        for (a, b, count) in &space.links {
            let (a, b, count) = (*a as usize, *b as usize, u64::from(*count));
            links += count;
            crossed += if before.all[a] == before.all[b] && before.all[a] != FREE { 0 } else { count };
            crosses += if part[a] == part[b] { 0 } else { count };
        }
        gain.exchange_before = crossed as f64 / links.max(1) as f64;
        gain.exchange_after = crosses as f64 / links.max(1) as f64;
        (gain.rtt_before, gain.rtt_after) =
            round_trips(space, &before.all, part, |s, agent| self.gathered.measured(s, agent));
        (gain.overload_before, _) = loads(space, &before.all);
        (gain.overload_after, gain.underload_after) = loads(space, part);
        gain
    }

    fn publish(&self, before: &Before, part: Vec<u32>, gain: Gain, why: Why) -> Result<Decision, Error> {
        let table = self.table(&part)?;
        let moves = Moves::of(&self.gathered.space, &before.all, &part);
        Ok(Decision::Publish { table, moves, gain, why })
    }

    fn table(&self, part: &[u32]) -> Result<RoutingTable, Error> {
        let space = &self.gathered.space;
        let placed: Vec<Placed<'_>> = space
            .servers
            .iter()
            .zip(part)
            .map(|(server, owner)| Placed {
                host: &server.name,
                address: server.address,
                pages: server.pages,
                owner: *owner,
            })
            .collect();
        let names: Vec<String> = space.agents.iter().map(|agent| agent.name.clone()).collect();
        let version = self.in_force.as_ref().map_or(1, |table| table.version() + 1);
        let mut table = Builder::default().build(names, &placed, version, self.unknown)?;
        if let Some(places) = &self.places {
            for (country, owner) in self.rules.countries() {
                for block in places.blocks_of(country) {
                    table.blocks.entry(block).or_insert(owner);
                }
            }
            table.aggregate();
        }
        table.filters = self.rules.filters();
        self.keep_whole(&mut table, part)?;
        table.check()?;
        Ok(table)
    }

    /// Where filters would give a host to one agent and its address to another, narrower filters before them keep the
    /// address whole.
    fn keep_whole(&self, table: &mut RoutingTable, part: &[u32]) -> Result<(), Error> {
        for round in 0..3 {
            let router = Router::new(table);
            let mut narrow: Vec<(Filter, Owner)> = Vec::new();
            for (s, server) in self.gathered.space.servers.iter().enumerate() {
                let Some(address) = server.address else { continue };
                if router.by_address(address) != Some(part[s]) {
                    narrow.push((Filter::Block(Block::single(address)), part[s]));
                }
                for at in &self.gathered.hosts[s] {
                    if router.route_host(&at.host, Some(address)) != Route::To(part[s]) {
                        narrow.push((Filter::Domain(name_of(&at.host).to_lowercase()), part[s]));
                    }
                }
            }
            if narrow.is_empty() {
                return Ok(());
            }
            if round == 2 {
                break;
            }
            narrow.append(&mut table.filters);
            table.filters = narrow;
        }
        // One name with hosts at two addresses, by scheme or port, that were given to two agents.
        Err(Error::Table(
            "two hosts of one name lie at addresses of different agents, and a filter names them",
        ))
    }
}

/// Greatest and least load over the share.
pub(super) fn loads(space: &Space, part: &[u32]) -> (f64, f64) {
    let mut pages = vec![0u64; space.parts()];
    for (server, part) in space.servers.iter().zip(part).filter(|(_, part)| **part != FREE) {
        pages[*part as usize] += server.pages;
    }
    let total: u64 = pages.iter().sum();
    let capacity: f64 = space.agents.iter().map(|agent| agent.connections).sum();
    let over = pages.iter().zip(&space.agents).map(|(pages, agent)| {
        *pages as f64 * capacity / (total.max(1) as f64 * agent.connections.max(f64::MIN_POSITIVE))
    });
    over.fold((0.0, f64::INFINITY), |(most, least): (f64, f64), load| (most.max(load), least.min(load)))
}

/// Gives each part to the agent that has most of its pages already; only agents of equal capacity change places.
fn relabelled(space: &Space, before: &[u32], part: Vec<u32>) -> Vec<u32> {
    let k = space.parts();
    let mut common = vec![0u64; k * k];
    for (s, server) in space.servers.iter().enumerate().filter(|(s, _)| before[*s] != FREE) {
        common[part[s] as usize * k + before[s] as usize] += server.pages;
    }
    let same = |a: usize, b: usize| space.agents[a].connections == space.agents[b].connections;
    let mut pairs: Vec<(usize, usize)> =
        (0..k).flat_map(|from| (0..k).map(move |to| (from, to))).filter(|(a, b)| same(*a, *b)).collect();
    pairs.sort_by_key(|(from, to)| (std::cmp::Reverse(common[from * k + to]), *from, *to));
    let (mut agent, mut taken) = (vec![FREE; k], vec![false; k]);
    for (from, to) in pairs {
        if agent[from] == FREE && !taken[to] {
            (agent[from], taken[to]) = (to as u32, true);
        }
    }
    part.into_iter().map(|part| agent[part as usize]).collect()
}
