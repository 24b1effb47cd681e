//! Whose a host is, by the routing table of an epoch, and whether it may be asked yet.
//!
//! Pure: the tables are handed in. What a table names (filters, exceptions, blocks of addresses) goes where it says; the
//! rest by consistent hashing of the address, or of the host's name while nobody knows that, so that a newcomer takes its
//! share from all and nothing else moves. Two agents with the same record come to the same answers.
//!
//! INVARIANT: under an epoch that is not settled yet an agent may ask only what every table since the last settled one has
//! given to it ([`Routing::may_ask`]): of whatever else, another agent may still be busy.

use farol_cluster::route::{RouteStep, TableBlob};
use farol_cluster::{NodeNo, RouteRecord};
use farol_partition::RoutingTable;
use farol_partition::split::consistent::Ring;
use farol_partition::table::{Route, Router, Unknown};
use std::net::IpAddr;
use std::sync::Arc;

/// Points of an agent on the ring, for the usual share of 100: loads are within about a tenth of each other.
const POINTS: usize = 128;

/// The routing table in force, with those from the last settled one on.
#[derive(Clone, Debug)]
pub struct Routing {
    pub epoch: u64,
    pub is_settled: bool,
    pub me: NodeNo,
    newest: EpochTable,
    before: Vec<EpochTable>,
    /// Agents in the newest table, those that give all away with them.
    members: Vec<NodeNo>,
    /// This start of this agent is in every table.
    has_stayed: bool,
}

/// Tells the newest table; `None` before there is one.
pub type RouteSource = Arc<dyn Fn() -> Option<Arc<Routing>> + Send + Sync>;

/// Files of tables, by their names in the record.
pub type TableFiles<'a> = &'a dyn Fn(&TableBlob) -> Option<RoutingTable>;

/// One epoch's table.
#[derive(Clone, Debug)]
struct EpochTable {
    agents: Vec<NodeNo>,
    ring: Ring,
    /// What a file names, and whose number each of its destinations is.
    named: Option<(Router, Vec<Option<NodeNo>>)>,
}

impl EpochTable {
    fn new(step: &RouteStep, seed: u64, files: TableFiles<'_>) -> Option<EpochTable> {
        let owners = step.members.iter().filter(|(_, member)| member.share > 0);
        let (mut agents, mut names) = (Vec::new(), Vec::new());
        for (no, member) in owners {
            // A share of 100 is usual: who bears twice as much stands on the ring under two names.
            for copy in 0..(member.share as usize).div_ceil(100).clamp(1, 64) {
                agents.push(*no);
                names.push(format!("{seed:016x} {no} {copy}"));
            }
        }
        let named = match &step.table {
            None => None,
            Some(blob) => {
                let table = RoutingTable { unknown: Unknown::Hold, ..files(blob)? };
                let number = |name: &String| name.parse().ok().map(NodeNo);
                let member = |no: &NodeNo| step.members.get(no).is_some_and(|member| member.share > 0);
                let owners = table.destinations.iter().map(|name| number(name).filter(member)).collect();
                Some((Router::new(&table), owners))
            }
        };
        Some(EpochTable { ring: Ring::new(&names, POINTS), agents, named })
    }

    fn named(&self, find: impl Fn(&Router) -> Option<u32>) -> Option<NodeNo> {
        let (router, owners) = self.named.as_ref()?;
        owners.get(find(router)? as usize).copied().flatten()
    }

    fn by_name(&self, host: &str) -> Option<NodeNo> {
        self.named(|router| router.by_host(host))
    }

    fn owner(&self, host: &str, address: Option<IpAddr>) -> Option<NodeNo> {
        let named = self.named(|router| match router.route_host(host, address) {
            Route::To(owner) => Some(owner),
            Route::Hold => None,
        });
        named.or_else(|| {
            let place = match address {
                Some(address) => self.ring.of(&address.to_string()),
                None => self.ring.of(host),
            };
            self.agents.get(place? as usize).copied()
        })
    }
}

impl Routing {
    /// The tables of a record; `None` where a file is not at hand.
    pub fn of(me: NodeNo, record: &RouteRecord, files: TableFiles<'_>) -> Option<Routing> {
        let table = |step: &RouteStep| EpochTable::new(step, record.seed, files);
        Some(Routing {
            epoch: record.epoch().0,
            is_settled: record.settled,
            me,
            newest: table(&record.newest)?,
            before: record.before.iter().map(table).collect::<Option<_>>()?,
            members: record.newest.members.keys().copied().collect(),
            has_stayed: record
                .newest
                .members
                .get(&me)
                .is_some_and(|member| record.before.iter().all(|step| step.has(me, member.incarnation))),
        })
    }

    /// Whether a host could be given to this agent.
    pub fn has(&self, agent: NodeNo) -> bool {
        self.newest.agents.contains(&agent)
    }

    /// Whether an agent is there, though it may have nothing.
    pub fn is_member(&self, agent: NodeNo) -> bool {
        self.members.contains(&agent)
    }

    /// Whether everything is this agent's.
    pub fn is_alone(&self) -> bool {
        self.newest.agents.iter().all(|agent| *agent == self.me) && self.has(self.me)
    }

    /// Whose a host (such as `http://a.org`) at this address is; while nobody knows the address, who finds it out.
    pub fn owner(&self, host: &str, address: Option<IpAddr>) -> Option<NodeNo> {
        self.newest.owner(host, address)
    }

    /// Whose a host is whatever its address: by a filter of the operator or an exception for this host.
    pub fn owner_by_name(&self, host: &str) -> Option<NodeNo> {
        self.newest.by_name(host)
    }

    /// Whether this agent may ask a host at this address, which is its own.
    pub fn may_ask(&self, host: &str, address: IpAddr) -> bool {
        let is_mine = |table: &EpochTable| table.owner(host, Some(address)) == Some(self.me);
        let is_kept = self.has_stayed && !self.before.is_empty() && self.before.iter().all(is_mine);
        is_mine(&self.newest) && (self.is_settled || is_kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_cluster::Epoch;
    use farol_cluster::route::RouteMember;
    use farol_partition::table::{Exception, host_key};

    const ME: NodeNo = NodeNo(4);
    const OTHER: NodeNo = NodeNo(9);

    fn step(epoch: u64, agents: &[NodeNo]) -> RouteStep {
        let member = RouteMember { incarnation: 1, share: 100 };
        RouteStep {
            epoch: Epoch(epoch),
            members: agents.iter().map(|no| (*no, member)).collect(),
            table: None,
        }
    }

    fn record(steps: &[RouteStep], settled: bool) -> RouteRecord {
        let (newest, before) = steps.split_last().unwrap();
        RouteRecord {
            v: 1,
            term: 1,
            settled,
            newest: newest.clone(),
            before: before.to_vec(),
            seed: 7,
            bequests: Vec::new(),
            why: String::new(),
        }
    }

    fn none(_: &TableBlob) -> Option<RoutingTable> {
        None
    }

    fn address(n: u32) -> IpAddr {
        std::net::Ipv4Addr::from(0x0A00_0000 + n).into()
    }

    #[test]
    fn a_newcomer_may_ask_nothing_until_the_epoch_is_settled_and_others_go_on_with_what_they_keep() {
        let steps = [step(1, &[ME]), step(2, &[ME, OTHER])];
        let unsettled = record(&steps, false);
        let mine = Routing::of(ME, &unsettled, &none).unwrap();
        let others = Routing::of(OTHER, &unsettled, &none).unwrap();
        let settled = Routing::of(OTHER, &record(&steps[1..], true), &none).unwrap();
        let (mut kept, mut lost) = (0, 0);
        for n in 0..400 {
            let host = format!("http://h{n}.test");
            let owner = mine.owner(&host, Some(address(n)));
            assert_eq!(owner, others.owner(&host, Some(address(n))), "all come to the same");
            assert_eq!(mine.may_ask(&host, address(n)), owner == Some(ME));
            assert!(!others.may_ask(&host, address(n)), "the other may still be busy with it");
            assert_eq!(settled.may_ask(&host, address(n)), owner == Some(OTHER));
            kept += u32::from(owner == Some(ME));
            lost += u32::from(owner == Some(OTHER));
        }
        assert!(kept > 100 && lost > 100 && kept + lost == 400, "{kept} {lost}");
        assert!(!mine.is_alone() && Routing::of(ME, &record(&steps[..1], true), &none).unwrap().is_alone());
    }

    #[test]
    fn a_file_comes_before_the_hash_for_what_it_names_and_for_members_only() {
        let (host, other) = ("http://a.test", "http://b.test");
        let mut table = RoutingTable {
            destinations: vec!["4".into(), "9".into(), "5".into()],
            ..RoutingTable::default()
        };
        table.hosts.insert(host_key(host), Exception { owner: 1, address: None });
        table.blocks.insert("10.0.0.0/8".parse().unwrap(), 0);
        table.blocks.insert("11.0.0.0/8".parse().unwrap(), 2);
        let mut newest = step(3, &[ME, OTHER]);
        newest.table = Some(TableBlob { name: "t".into(), digest: "d".into() });
        let record = record(&[newest], true);
        assert!(Routing::of(ME, &record, &none).is_none(), "without the file nobody knows");
        let routing = Routing::of(ME, &record, &|_| Some(table.clone())).unwrap();
        let inside = Some(address(3));
        assert_eq!((routing.owner(host, inside), routing.owner_by_name(host)), (Some(OTHER), Some(OTHER)));
        assert_eq!((routing.owner(other, inside), routing.owner_by_name(other)), (Some(ME), None));
        // What is given to somebody who is no member goes by the hash.
        let strange = routing.owner(other, Some([11, 0, 0, 1].into()));
        assert!(strange.is_some_and(|owner| routing.has(owner)));
        assert!(routing.owner(other, None).is_some());
    }
}
