//! A planner of a running cluster, put together from its tables and files; for whoever leads, and for whoever asks what
//! would be planned.

use super::{FOLDER, REPORT_BYTES_MAX, atlas, report_of, tables::TableStore};
use crate::archive::places::Places;
use crate::config::partition::UnknownKind;
use crate::config::{Config, Partition};
use crate::wire::batch::unpack;
use crate::wire::graph::WireGraphReport;
use anyhow::{Context, Result};
use farol_base::Timestamp;
use farol_cluster::planned::{GainRecord, PlanRecord};
use farol_cluster::{NodeNo, NodeRecord, NodeState, RouteRecord};
use farol_fabric::blobs::Blobs;
use farol_partition::geo::{GeoTable, countries};
use farol_partition::hold::{EpochOwners, NamedOwners};
use farol_partition::replan::{Gain, InForce, LastPlan, Receipt, Replanner, Rule, Settings, Triggers};
use farol_partition::rtt::Trace;
use farol_partition::rtt::read_traces;
use farol_partition::table::Unknown;
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
        unknown: match config.unknown {
            UnknownKind::Hash => Unknown::Hash,
            UnknownKind::Hold => Unknown::Hold,
        },
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

/// Traceroutes that the operator has made from where agents stand; none where no file is named.
pub fn traces(config: &Config) -> Result<Vec<Trace>> {
    let path = &config.partition.traces;
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("partition.traces: cannot read {path}; name a file of traceroutes"))?;
    read_traces(&text).with_context(|| {
        format!("partition.traces: {path} is no list of traceroutes, each behind a line `from ADDRESS`")
    })
}

/// Tells a planner where its agents' traceroutes begin: at the addresses under which other nodes reach them.
pub fn set_sources<'a>(planner: &mut Replanner, nodes: impl Iterator<Item = &'a NodeRecord>) {
    for (no, address) in nodes.filter_map(|node| Some((node.no?, node.rpc.ip()))) {
        planner.set_source(&no.to_string(), address);
    }
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
    let file = match &route.newest.table {
        Some(blob) => Some(files.get(blob)?),
        None => None,
    };
    let named = file.as_deref().map(|table| Arc::new(NamedOwners::new(table)));
    let everyone = EpochOwners::new(&route.newest, route.seed, named);
    let owners: Vec<NodeNo> = route.owners().collect();
    let names: Vec<String> = owners.iter().map(NodeNo::to_string).collect();
    let table = match file {
        Some(table) => (*table).clone(),
        None => RoutingTable { destinations: names.clone(), ..RoutingTable::default() },
    };
    let table = RoutingTable { version: route.epoch().0, ..table };
    // As agents do it: a host that the operator has given to somebody is asked by that one wherever it is, and where nobody
    // may connect to an address yet its home knows of it.
    let owner = move |host: &str, address| {
        let asker = everyone.filtered(host).or_else(|| everyone.of_address(address));
        let owner = asker.or_else(|| everyone.home(host))?;
        owners.iter().position(|known| *known == owner.no).map(|at| at as u32)
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
pub struct TakenReport {
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
) -> Result<Vec<TakenReport>> {
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
        let report = report.and_then(|bytes| Ok(unpack::<WireGraphReport>(&bytes)?));
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
        taken.push(TakenReport { name, agent, receipt });
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::report_name;
    use crate::wire::batch::pack;
    use farol_cluster::Epoch;
    use farol_cluster::route::{RouteMember, RouteStep};
    use farol_partition::replan::{HostFacts, Reason, Report, RttMedian, Trigger};
    use std::net::IpAddr;

    const HONEST: NodeNo = NodeNo(1);
    const LIAR: NodeNo = NodeNo(2);

    fn route() -> RouteRecord {
        let member = RouteMember { incarnation: 1, share: 100 };
        RouteRecord {
            v: 1,
            term: 1,
            settled: true,
            newest: RouteStep {
                epoch: Epoch(7),
                members: [(HONEST, member), (LIAR, member)].into(),
                table: None,
            },
            before: Vec::new(),
            seed: 5,
            bequests: Vec::new(),
            why: String::new(),
        }
    }

    fn host(n: u32) -> (String, IpAddr) {
        (format!("http://h{n}.test"), std::net::Ipv4Addr::from(0x0A00_0000 + n).into())
    }

    /// Hosts of an agent by the table in force, or of the other.
    fn hosts(of: NodeNo, micros: impl Fn(u32) -> u32) -> Vec<HostFacts> {
        let table = in_force(&route(), &TableStore::new(None, None)).unwrap();
        let own = (0..60u32).map(|n| (n, host(n))).filter(|(_, (host, address))| {
            table.owner(host, Some(*address)) == Some(of.to_string().as_str())
        });
        own.map(|(n, (host, address))| HostFacts {
            host,
            address,
            pages: 10,
            rtt: Some(RttMedian { micros: micros(n), samples: 9 }),
            position: None,
            language: None,
            links: Vec::new(),
        })
        .collect()
    }

    struct Storage {
        blobs: Blobs,
        _dir: tempfile::TempDir,
    }

    impl Storage {
        fn new() -> Storage {
            let dir = tempfile::tempdir().unwrap();
            let blobs = Blobs::open(dir.path().to_str().unwrap()).unwrap();
            Storage { blobs, _dir: dir }
        }

        fn tell(&self, folder: NodeNo, agent: NodeNo, number: u64, hosts: Vec<HostFacts>) {
            let report = Report { version: 7, number, hosts, ..Report::default() };
            let bytes = pack(&WireGraphReport::of(agent.0, &report)).unwrap();
            self.blobs.put(&report_name(folder, number), &bytes).unwrap();
        }

        fn take(&self, planner: &mut Replanner) -> Vec<TakenReport> {
            let now = Timestamp::from_secs(1_700_000_000);
            let taken = take_reports(planner, &self.blobs, now, &|_| false).unwrap();
            for report in &taken {
                self.blobs.delete(&report.name).unwrap();
            }
            taken
        }
    }

    fn started() -> Replanner {
        let mut planner = Replanner::new(settings(&Partition::default())).unwrap();
        let nodes: Vec<NodeRecord> = Vec::new();
        planner.set_agents(agents(nodes.iter(), &route()));
        planner.install(in_force(&route(), &TableStore::new(None, None)).unwrap());
        planner
    }

    #[test]
    fn what_a_liar_tells_of_others_hosts_is_refused_and_counted_and_honest_reports_stay() {
        let (storage, mut planner) = (Storage::new(), started());
        let (honest, theirs) = (hosts(HONEST, |n| 900 + n), hosts(LIAR, |n| 900 + n));
        assert!(honest.len() > 10 && theirs.len() > 10);
        storage.tell(HONEST, HONEST, 1, honest.clone());
        // It claims all hosts of the other, moved to an address of its own, and writes into the other's folder.
        let stolen = honest.iter().map(|facts| HostFacts { pages: 9_999, ..facts.clone() }).collect();
        storage.tell(LIAR, LIAR, 1, stolen);
        storage.tell(HONEST, LIAR, 2, theirs.clone());
        storage.blobs.put(&report_name(LIAR, 3), b"\x01garbage").unwrap();
        storage.tell(LIAR, LIAR, 4, theirs.clone());
        storage.tell(NodeNo(9), NodeNo(9), 1, theirs.clone());
        let taken = storage.take(&mut planner);
        let told = |agent: NodeNo, nth: usize| {
            taken.iter().filter(|taken| taken.agent == agent).nth(nth).unwrap().receipt.clone()
        };
        assert_eq!(told(HONEST, 0).unwrap().taken, honest.len());
        assert_eq!(told(HONEST, 1), None, "it is not who it says it is");
        assert_eq!(told(LIAR, 0).unwrap().refused, [(Reason::NotYours, honest.len() as u64)]);
        assert_eq!(told(LIAR, 1), None, "it cannot be read");
        assert_eq!(told(LIAR, 2).unwrap().taken, theirs.len());
        assert_eq!(told(NodeNo(9), 0).unwrap().refused, [(Reason::UnknownAgent, 1)]);
        assert_eq!(planner.atlas().pages(), 10 * (honest.len() + theirs.len()) as u64);
        let said: Vec<_> = planner.atlas().refused().collect();
        assert!(said.contains(&("2", Reason::NotYours, honest.len() as u64)), "{said:?}");
    }

    #[test]
    fn times_that_cannot_be_are_left_out_and_said() {
        let (storage, mut planner) = (Storage::new(), started());
        storage.tell(HONEST, HONEST, 1, hosts(HONEST, |n| 20_000 + 100 * n));
        // Everything is a microsecond away: whoever says so wants all hosts.
        storage.tell(LIAR, LIAR, 1, hosts(LIAR, |_| 1));
        storage.take(&mut planner);
        let job = planner.job_for(Timestamp::from_secs(1_700_000_001), Trigger::Ordered);
        job.run().unwrap();
        let said: Vec<_> = planner.atlas().refused().collect();
        assert_eq!(said, [("2", Reason::Disbelieved, 1)]);
    }

    #[test]
    fn rules_name_agents_by_their_names_and_those_that_are_not_there_wait() {
        let mut node = NodeRecord::new(farol_cluster::NodeId(3), "lisbon", "127.0.0.1:1".parse().unwrap());
        node.no = Some(NodeNo(4));
        let wanted = |to: &str| Rule {
            scope: farol_partition::replan::Scope::Domain("pt".into()),
            to: to.to_string(),
        };
        let rules = rules(&[wanted("lisbon"), wanted("vigo")], [node].iter());
        assert_eq!(rules.iter().map(|rule| rule.to.as_str()).collect::<Vec<_>>(), ["4", "?vigo"]);
    }

    #[test]
    fn traceroutes_of_the_operators_fill_in_what_no_agent_measured() {
        use farol_partition::replan::Source;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("traces");
        let mut config = Config::default();
        assert_eq!(traces(&config).unwrap(), []);
        config.partition.traces = path.to_str().unwrap().to_string();
        let said = |config: &Config| format!("{:#}", traces(config).unwrap_err());
        assert!(said(&config).contains("name a file"), "{}", said(&config));
        std::fs::write(&path, "1  192.0.2.1  1 ms\n").unwrap();
        assert!(said(&config).contains("from ADDRESS"), "{}", said(&config));
        let (storage, mut planner) = (Storage::new(), started());
        let hosts: Vec<HostFacts> =
            hosts(HONEST, |n| 900 + n).into_iter().map(|facts| HostFacts { rtt: None, ..facts }).collect();
        let target = hosts[0].address;
        storage.tell(HONEST, HONEST, 1, hosts);
        storage.take(&mut planner);
        let text = format!(
            "from 127.0.0.9\ntraceroute to a.test ({target})\n 1  192.0.2.1  2.0 ms\n 2  {target}  9.0 ms\n"
        );
        std::fs::write(&path, text).unwrap();
        traces(&config).unwrap().iter().for_each(|trace| planner.add_trace(trace));
        let routes = |planner: &mut Replanner| {
            let job = planner.job_for(Timestamp::from_secs(1_700_000_001), Trigger::Ordered);
            job.sources().get(&Source::Route).copied().unwrap_or(0)
        };
        assert_eq!(routes(&mut planner), 0, "nobody stands where it was made");
        let mut node = NodeRecord::new(farol_cluster::NodeId(3), "lisbon", "127.0.0.9:1".parse().unwrap());
        node.no = Some(LIAR);
        set_sources(&mut planner, [node].iter());
        assert_eq!(routes(&mut planner), 1);
    }
}
