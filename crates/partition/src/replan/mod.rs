//! Re-planning while the crawl runs: reports in, decisions out [Exposto08 §3.3.2].
//!
//! # The life of a decision
//!
//! Agents tell what they know of their hosts in batches ([`Report`]); the [`Atlas`] takes in what can be believed and
//! counts what cannot ([`Reason`]). Now and then something makes a plan due ([`Trigger`]): an agent came or went, the
//! crawl has grown, somebody has too much, it is time, or it was ordered. A [`PlanJob`] gathers addresses with all their
//! hosts, fills the round-trip times that nobody measured ([`Source`]), lets the operator's [`Rule`]s decide first, and
//! splits the rest with little moved. What comes out is judged by a [`Price`]: [`Decision::Publish`] with a table, or
//! [`Decision::Keep`] with the reason. Later the exchanges that agents counted under the table are set beside the
//! expected ones ([`Outcome`]).
//!
//! ```
//! use farol_base::Timestamp;
//! use farol_partition::replan::{Decision, Replanner, Settings};
//! use farol_partition::Agent;
//!
//! let now = Timestamp::from_secs(1_000_000);
//! let mut planner = Replanner::new(Settings::default()).unwrap();
//! planner.set_agents(vec![Agent::named("lisbon"), Agent::named("porto")]);
//! // Nothing is measured on day one: two names and a consistent hash.
//! let job = planner.job(now).unwrap();
//! let decision = job.run().unwrap();
//! let Decision::Publish { table, .. } = &decision else { panic!("the first table is always published") };
//! assert_eq!(table.destinations, ["lisbon", "porto"]);
//! planner.decided(now, &decision);
//! planner.installed(table.clone());
//! assert!(planner.job(now).is_none());
//! ```
//!
//! # Groups
//!
//! A group of agents is itself an agent to the level above it: its planner tells that level what its children told it
//! ([`Replanner::report_as`]), is given a part of the Web by that level's table ([`Replanner::stay_within`]), and splits
//! only that among its own children.
//!
//! INVARIANT: a table gives an address with all its hosts to one agent, whatever rules say.
//! INVARIANT: the planner comes to rest: where nothing changed, nothing is published.
//! Does not send tables, and does not move hosts: whoever leads the cluster does.

mod atlas;
mod bounds;
mod decide;
mod fill;
mod gather;
mod in_force;
mod map;
mod plan;
mod report;
mod rules;
mod trigger;
mod upward;

pub use atlas::{Atlas, KnownHost, Memory, Owners, RttTold, Told};
pub use bounds::Bounds;
pub use decide::{Decision, Gain, Moves, Price, Why};
pub use fill::{Filled, Source, fill};
pub use in_force::{InForce, OwnerOf};
pub use map::Cell;
pub use plan::PlanJob;
pub use report::{Exchanged, HostFacts, Reason, Receipt, Report, RttMedian};
pub use rules::{Rule, Scope, check_rules};
pub use trigger::{LastPlan, Trigger, Triggers};

use crate::geo::GeoTable;
use crate::rtt::{Routes, Trace};
use crate::table::{Filter, Unknown};
use crate::{Agent, Error, Owner, RoutingTable};
use farol_base::Timestamp;
use gather::{Beside, Gathered, gather};
use rules::Rules;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;

/// How plans are made.
#[derive(Clone, Debug)]
pub struct Settings {
    pub bounds: Bounds,
    pub triggers: Triggers,
    pub price: Price,
    /// What the operator orders; the first rule that fits counts.
    pub rules: Vec<Rule>,
    /// How much links between agents matter.
    pub links: f64,
    /// How much round-trip times matter.
    pub round_trips: f64,
    /// What becomes of hosts that no table names.
    pub unknown: Unknown,
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            bounds: Bounds::default(),
            triggers: Triggers::default(),
            price: Price::default(),
            rules: Vec::new(),
            links: 4.0,
            round_trips: 1.0,
            unknown: Unknown::default(),
            seed: 1,
        }
    }
}

/// What a table was expected to bring, and what it brought.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    pub version: u64,
    pub at: Timestamp,
    pub expected: Gain,
    /// What agents counted under the table; links to hosts that it does not name are among them.
    pub measured: Exchanged,
}

impl Outcome {
    /// Share of links that led to another agent; `None` before anybody told.
    pub fn exchange_measured(&self) -> Option<f64> {
        (self.measured.links > 0).then(|| self.measured.forwarded as f64 / self.measured.links as f64)
    }
}

/// Tables whose outcome is remembered.
const OUTCOMES_MAX: usize = 8;

/// The partitioner of a running crawl, for whoever leads the cluster.
#[derive(Clone, Debug)]
pub struct Replanner {
    settings: Settings,
    atlas: Atlas,
    agents: Vec<Agent>,
    names: Vec<String>,
    owners: Owners,
    in_force: Option<InForce>,
    places: Option<Arc<GeoTable>>,
    routes: Routes,
    /// Addresses of agents, for traceroutes.
    sources: BTreeMap<String, IpAddr>,
    /// Of a group: what is its own.
    within: Option<upward::Within>,
    last: LastPlan,
    ordered: bool,
    outcomes: VecDeque<(u64, Timestamp, Gain)>,
}

impl Replanner {
    /// A planner that knows nothing yet.
    ///
    /// # Errors
    /// Where a rule cannot be kept.
    pub fn new(settings: Settings) -> Result<Replanner, Error> {
        check_rules(&settings.rules)?;
        let atlas = Atlas::new(settings.bounds);
        Ok(Replanner {
            settings,
            atlas,
            agents: Vec::new(),
            names: Vec::new(),
            owners: Owners::default(),
            in_force: None,
            places: None,
            routes: Routes::default(),
            sources: BTreeMap::new(),
            within: None,
            last: LastPlan::default(),
            ordered: false,
            outcomes: VecDeque::new(),
        })
    }

    /// Adds what a planner before this one knew.
    pub fn recall(&mut self, atlas: &Atlas) {
        self.atlas.merge(atlas);
    }

    /// The agents that there are now, with their capacities and places; of two of one name the first counts.
    pub fn set_agents(&mut self, agents: Vec<Agent>) {
        self.agents.clear();
        self.names.clear();
        for agent in agents {
            if !self.names.contains(&agent.name) {
                self.names.push(agent.name.clone());
                self.agents.push(agent);
            }
        }
    }

    /// Where addresses are.
    pub fn set_places(&mut self, places: Option<Arc<GeoTable>>) {
        self.places = places;
    }

    /// Where an agent's traceroutes start.
    pub fn set_source(&mut self, agent: &str, address: IpAddr) {
        if self.names.iter().any(|name| name == agent) {
            self.sources.insert(agent.to_string(), address);
        }
    }

    /// Adds a traceroute that somebody made.
    pub fn add_trace(&mut self, trace: &Trace) {
        self.routes.add(trace);
    }

    /// The table that is in force from now on.
    pub fn installed(&mut self, table: RoutingTable) {
        self.install(InForce::new(table));
    }

    /// The same, where agents have their own way with what it does not name.
    pub fn install(&mut self, table: InForce) {
        self.owners.install(&table);
        if self.in_force.as_ref().is_none_or(|known| known.version() < table.version()) {
            self.in_force = Some(table);
        }
    }

    /// Goes on where another planner has stopped: what was known at its last plan, and what its tables promised.
    pub fn resume(&mut self, last: LastPlan, promised: Vec<(u64, Timestamp, Gain)>) {
        self.last = last;
        self.outcomes = promised.into();
        self.outcomes.drain(..self.outcomes.len().saturating_sub(OUTCOMES_MAX));
    }

    /// What was known at the last plan.
    pub fn last(&self) -> LastPlan {
        self.last
    }

    /// Takes a report in.
    pub fn take(&mut self, now: Timestamp, report: &Report) -> Receipt {
        let Some((report, outside)) = self.only_within(report) else {
            return self.atlas.take(now, report, &self.names, &self.owners);
        };
        let mut receipt = self.atlas.take(now, &report, &self.names, &self.owners);
        receipt.refused.extend(outside.refused);
        receipt
    }

    /// Counts what could not even be read.
    pub fn unreadable(&mut self, agent: &str) {
        self.atlas.refuse(agent, Reason::Malformed);
    }

    /// What the operator orders from now on.
    ///
    /// # Errors
    /// Where a rule cannot be kept.
    pub fn set_rules(&mut self, rules: Vec<Rule>) -> Result<(), Error> {
        check_rules(&rules)?;
        self.settings.rules = rules;
        Ok(())
    }

    /// Agents that have not told anything yet.
    pub fn silent(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str).filter(|name| !self.atlas.has_heard(name))
    }

    /// A table that was decided upon and never came into force.
    pub fn withdrawn(&mut self, version: u64) {
        self.outcomes.retain(|(known, ..)| *known != version);
    }

    /// Somebody wants a plan now.
    pub fn order(&mut self) {
        self.ordered = true;
    }

    /// Why a plan is due, if one is.
    pub fn due(&self, now: Timestamp) -> Option<Trigger> {
        if self.agents.is_empty() {
            return None;
        }
        let Some(in_force) = &self.in_force else { return Some(Trigger::First) };
        let table = in_force.table();
        let missing = |all: &[String], among: &[String]| -> Vec<String> {
            all.iter().filter(|name| !among.contains(name)).cloned().collect()
        };
        let joined = missing(&self.names, &table.destinations);
        let left = missing(&table.destinations, &self.names);
        if !joined.is_empty() || !left.is_empty() {
            return Some(Trigger::Agents { joined, left });
        }
        if self.ordered {
            return Some(Trigger::Ordered);
        }
        if now.since(self.last.at) >= self.settings.triggers.gap && self.rules_differ(table) {
            return Some(Trigger::Rules);
        }
        let (hosts, pages) = (self.atlas.hosts().len() as u64, self.atlas.pages());
        let waiting = || self.waiting(in_force);
        self.settings.triggers.due(now, &self.last, hosts, pages, || self.overload(), waiting)
    }

    /// Hosts that wait until a table names them.
    fn waiting(&self, in_force: &InForce) -> u64 {
        // A table that does otherwise with what it does not name than the operator wishes makes all of them wait.
        let differs = self.settings.unknown != in_force.table().unknown;
        let waits = |known: &&KnownHost| differs || in_force.lacks(&known.name, known.told[0].address);
        self.atlas.hosts().map(|(_, known)| known).filter(waits).count() as u64
    }

    /// Whether a table has other filters than the rules ask for. Those that keep addresses whole stand before the rules'.
    fn rules_differ(&self, table: &RoutingTable) -> bool {
        let rules = Rules::new(&self.settings.rules, &self.names);
        let wanted = named_filters(&rules.filters(), &self.names);
        let known = named_filters(&table.filters, &table.destinations);
        !known.ends_with(&wanted) || (wanted.is_empty() && !known.is_empty())
    }

    /// The plan that is due, ready to be made.
    pub fn job(&mut self, now: Timestamp) -> Option<PlanJob> {
        let trigger = self.due(now)?;
        Some(self.job_for(now, trigger))
    }

    /// A plan for any reason; `farol partition plan` shows what would move.
    pub fn job_for(&mut self, now: Timestamp, trigger: Trigger) -> PlanJob {
        self.atlas.forget(now);
        let gathered = self.gathered();
        for agent in &gathered.disbelieved {
            if let Some(name) = self.names.get(*agent as usize) {
                self.atlas.refuse(name, Reason::Disbelieved);
            }
        }
        PlanJob {
            gathered,
            in_force: self.in_force.clone(),
            trigger,
            rules: Rules::new(&self.settings.rules, &self.names),
            places: self.places.clone(),
            price: self.settings.price,
            overload_from: self.settings.triggers.overload,
            links: self.settings.links,
            round_trips: self.settings.round_trips,
            unknown: self.settings.unknown,
            seed: self.settings.seed,
        }
    }

    fn gathered(&mut self) -> Gathered {
        let routes = (self.routes.machines() > 0).then_some((&mut self.routes, &self.sources));
        let beside = Beside { places: self.places.as_deref(), routes, seed: self.settings.seed };
        gather(&self.atlas, &self.agents, beside)
    }

    /// What a plan decided; whoever publishes its table says so with [`Replanner::installed`].
    pub fn decided(&mut self, now: Timestamp, decision: &Decision) {
        self.ordered = false;
        let gain = match decision {
            Decision::Publish { table, gain, .. } => {
                self.outcomes.push_back((table.version, now, *gain));
                self.outcomes.drain(..self.outcomes.len().saturating_sub(OUTCOMES_MAX));
                Gain { overload_before: gain.overload_after, ..*gain }
            }
            Decision::Keep { gain, .. } => *gain,
        };
        self.last = LastPlan {
            at: now,
            hosts: self.atlas.hosts().len() as u64,
            pages: self.atlas.pages(),
            overload: gain.overload_before,
        };
    }

    /// Expected and measured, newest last.
    pub fn outcomes(&self) -> Vec<Outcome> {
        let outcome = |(nth, (version, at, expected)): (usize, &(u64, Timestamp, Gain))| {
            // Agents that start again get the same table under a later version.
            let until = self.outcomes.get(nth + 1).map_or(u64::MAX, |(next, ..)| *next);
            let measured = self.atlas.exchanged_within(*version..until);
            Outcome { version: *version, at: *at, expected: *expected, measured }
        };
        self.outcomes.iter().enumerate().map(outcome).collect()
    }

    pub fn atlas(&self) -> &Atlas {
        &self.atlas
    }

    pub fn in_force(&self) -> Option<&RoutingTable> {
        self.in_force.as_ref().map(InForce::table)
    }

    /// Pages of each of today's agents, by the table in force and what is known now.
    pub fn loads(&self) -> Vec<(&str, u64)> {
        let mut pages = vec![0u64; self.names.len()];
        for (_, known) in self.atlas.hosts() {
            let newest = &known.told[0];
            let owner =
                self.in_force.as_ref().and_then(|table| table.owner(&known.name, Some(newest.address)));
            if let Some(at) = owner.and_then(|owner| self.names.iter().position(|name| name == owner)) {
                pages[at] += newest.pages;
            }
        }
        self.names.iter().map(String::as_str).zip(pages).collect()
    }

    /// Greatest load over its share, by the table in force and what is known now.
    pub fn overload(&self) -> f64 {
        if self.in_force.is_none() {
            return 1.0;
        }
        let loads = self.loads();
        let sum: f64 = self.agents.iter().map(|agent| agent.connections).sum();
        let total = loads.iter().map(|(_, pages)| *pages).sum::<u64>() as f64;
        let over = loads.iter().zip(&self.agents).filter(|(_, agent)| agent.connections > 0.0);
        over.map(|((_, pages), agent)| *pages as f64 * sum / (agent.connections * total.max(1.0)))
            .fold(0.0, f64::max)
    }
}

/// Filters with the names of their owners.
fn named_filters<'a>(filters: &[(Filter, Owner)], names: &'a [String]) -> Vec<(Filter, &'a str)> {
    let named = |(filter, owner): &(Filter, Owner)| {
        (filter.clone(), names.get(*owner as usize).map_or("", String::as_str))
    };
    filters.iter().map(named).collect()
}

#[cfg(test)]
mod tests;
