//! A planner of a running cluster, put together from its tables and files; for whoever leads, and for whoever asks what
//! would be planned.

use super::{FOLDER, REPORT_BYTES_MAX, atlas, report_of, tables::TableStore};
use crate::archive::places::Places;
use crate::config::{Config, Partition};
use crate::exchange::route::Routing;
use crate::wire::batch::unpack;
use crate::wire::graph::WireReport;
use anyhow::Result;
use farol_base::Timestamp;
use farol_cluster::planned::{GainRecord, PlanRecord};
use farol_cluster::{NodeNo, NodeRecord, NodeState, RouteRecord};
use farol_fabric::blobs::Blobs;
use farol_partition::geo::{GeoTable, countries};
use farol_partition::replan::{Gain, InForce, LastPlan, Receipt, Replanner, Rule, Settings, Triggers};
use farol_partition::{Agent, Position, RoutingTable};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Reports of one agent that are taken in one turn.
const TURN_MAX: usize = 64;

/// How plans are made, by the settings. Rules come later, when names are known.
pub fn settings(config: &Partition) -> Settings {
    Settings {
        triggers: Triggers {
            every: config.plan_every.get(),
            gap: config.plan_gap.get(),
            growth: config.growth as f64 / 100.0,
            ..Triggers::default()
        },
        links: config.links,
        round_trips: config.round_trips,
        ..Settings::default()
    }
}

/// Where addresses are, by the operator's table; in the format of `crawl.places` or in one that is given away.
pub fn places(config: &Config) -> Result<Option<Arc<GeoTable>>> {
    let path = &config.crawl.places;
    if path.is_empty() {
        return Ok(None);
    }
    let table = match Places::read(Path::new(path)) {
        Ok(places) => places.geo_table(),
        Err(error) => {
            let text = std::fs::read_to_string(path)?;
            GeoTable::read(&text, &countries::capitals()).map_err(|_| error)?
        }
    };
    Ok(Some(Arc::new(table)))
}

/// Agents that get something by a record, with their capacities and places.
pub fn agents<'a>(nodes: impl Iterator<Item = &'a NodeRecord>, route: &RouteRecord) -> Vec<Agent> {
    let nodes: BTreeMap<NodeNo, &NodeRecord> = nodes.filter_map(|node| Some((node.no?, node))).collect();
    let members = route.newest.members.iter().filter(|(_, member)| member.share > 0);
    members
        .map(|(no, member)| Agent {
            name: no.to_string(),
            connections: f64::from(member.share),
            position: nodes.get(no).and_then(|node| position_of(node)),
        })
        .collect()
}

/// Where a node stands: where somebody said, or the capital of its country.
pub fn position_of(node: &NodeRecord) -> Option<Position> {
    let said = node
        .place
        .position
        .and_then(|(north, east)| Position::new(f64::from(north) / 1e6, f64::from(east) / 1e6));
    said.or_else(|| countries::capital(&node.place.country))
}

/// The operator's rules, with numbers for names. Who is not there is called by what nobody is called.
pub fn rules<'a>(wanted: &[Rule], nodes: impl Iterator<Item = &'a NodeRecord>) -> Vec<Rule> {
    let mut numbers: BTreeMap<&str, (bool, NodeNo)> = BTreeMap::new();
    for (node, no) in nodes.filter_map(|node| Some((node, node.no?))) {
        let is_there = !matches!(node.state, NodeState::Left | NodeState::Dead);
        let known = numbers.entry(&node.name).or_insert((is_there, no));
        if is_there || !known.0 {
            *known = (is_there, no);
        }
    }
    let number = |rule: &Rule| match numbers.get(rule.to.as_str()) {
        Some((_, no)) => Rule { scope: rule.scope.clone(), to: no.to_string() },
        None => Rule { scope: rule.scope.clone(), to: format!("?{}", rule.to) },
    };
    wanted.iter().map(number).collect()
}

/// The table in force, and how agents share what it does not name; `None` where its file cannot be had.
pub fn in_force(route: &RouteRecord, files: &TableStore) -> Option<InForce> {
    let newest = RouteRecord { before: Vec::new(), settled: true, bequests: Vec::new(), ..route.clone() };
    let file = |blob: &farol_cluster::route::TableBlob| files.get(blob).map(|table| (*table).clone());
    let routing = Routing::of(NodeNo(u16::MAX), &newest, &file)?;
    let owners: Vec<NodeNo> = route.owners().collect();
    let names: Vec<String> = owners.iter().map(NodeNo::to_string).collect();
    let table = match &route.newest.table {
        Some(blob) => (*files.get(blob)?).clone(),
        None => RoutingTable { destinations: names.clone(), ..RoutingTable::default() },
    };
    let table = RoutingTable { version: route.epoch().0, ..table };
    let owner = move |host: &str, address| {
        let owner = routing.owner(host, Some(address))?;
        owners.iter().position(|known| *known == owner).map(|at| at as u32)
    };
    Some(InForce::shared(table, names, Arc::new(owner)))
}

/// A planner that knows what the last one knew.
pub fn planner(config: &Partition, blobs: &Blobs, record: &PlanRecord) -> Result<(Replanner, bool)> {
    let settings = settings(config);
    let known = atlas::newest(blobs, settings.bounds)?;
    let mut planner = Replanner::new(settings)?;
    let is_known = known.is_some();
    if let Some(known) = known {
        planner.recall(&known);
    }
    let last = record.last.as_ref().map(|last| LastPlan {
        at: Timestamp::from_millis(last.at),
        hosts: last.hosts,
        pages: last.gain.pages,
        overload: last.overload,
    });
    let outcomes = &record.outcomes;
    let promised =
        outcomes.iter().map(|one| (one.version, Timestamp::from_millis(one.at), read_gain(&one.expected)));
    planner.resume(last.unwrap_or_default(), promised.collect());
    Ok((planner, is_known))
}

/// A report that was looked at.
pub struct Taken {
    /// The file's name.
    pub name: String,
    pub agent: NodeNo,
    /// What became of it; `None` where it could not be read.
    pub receipt: Option<Receipt>,
}

/// Takes in what agents have told, in the order in which each has told it. Names of `seen` reports are passed over.
pub fn take_reports(
    planner: &mut Replanner,
    blobs: &Blobs,
    now: Timestamp,
    seen: &dyn Fn(&str) -> bool,
) -> Result<Vec<Taken>> {
    let mut taken = Vec::new();
    let mut counts: BTreeMap<NodeNo, usize> = BTreeMap::new();
    for name in blobs.list(FOLDER)? {
        let Some((agent, number)) = report_of(&name) else { continue };
        let count = counts.entry(agent).or_default();
        if seen(&name) || *count >= TURN_MAX {
            continue;
        }
        *count += 1;
        let report = blobs.get_at_most(&name, REPORT_BYTES_MAX).map_err(anyhow::Error::from);
        let report = report.and_then(|bytes| Ok(unpack::<WireReport>(&bytes)?));
        let receipt = match report {
            // Whoever writes into another's folder tells nothing.
            Ok(report) if report.agent == agent.0 && report.number == number => {
                Some(planner.take(now, &report.read()))
            }
            Ok(_) => None,
            Err(error) => {
                tracing::debug!(error = %format!("{error:#}"), name, "a report cannot be read");
                None
            }
        };
        taken.push(Taken { name, agent, receipt });
    }
    Ok(taken)
}

/// A gain as it rests.
pub fn gain_record(gain: &Gain) -> GainRecord {
    let whole = |number: f64| if number.is_finite() { number } else { 0.0 };
    GainRecord {
        exchange_before: gain.exchange_before,
        exchange_after: gain.exchange_after,
        rtt_before: gain.rtt_before,
        rtt_after: gain.rtt_after,
        pages: gain.pages,
        moved_named: gain.moved_named,
        moved_hashed: gain.moved_hashed,
        orphaned: gain.orphaned,
        overload_before: whole(gain.overload_before),
        overload_after: whole(gain.overload_after),
        underload_after: whole(gain.underload_after),
    }
}

fn read_gain(gain: &GainRecord) -> Gain {
    Gain {
        exchange_before: gain.exchange_before,
        exchange_after: gain.exchange_after,
        rtt_before: gain.rtt_before,
        rtt_after: gain.rtt_after,
        pages: gain.pages,
        moved_named: gain.moved_named,
        moved_hashed: gain.moved_hashed,
        orphaned: gain.orphaned,
        overload_before: gain.overload_before,
        overload_after: gain.overload_after,
        underload_after: gain.underload_after,
    }
}
