//! Whom one epoch's table gives an address, and who is a host's home.
//!
//! What a file names comes first, where it leads to a member that gets something; the rest goes by a consistent hash
//! \[Karger97\] over the members and their shares, so that a newcomer takes its share from all and nothing else moves.
//! Hosts have a *home* besides: by their names alone, so that two agents never disagree about it, whatever DNS tells each.
//!
//! INVARIANT: the same record and file give the same answers on every machine; only whole numbers are used.

use super::AgentId;
use crate::table::{Router, RoutingTable, Unknown};
use farol_base::fingerprint::hash64;
use farol_base::random::mix;
use farol_cluster::NodeNo;
use farol_cluster::route::RouteStep;
use std::net::IpAddr;
use std::sync::Arc;

/// Points on the circle for a usual share; loads are within about a twentieth of what shares say.
const POINTS: u64 = 512;
/// One member with a huge share does not fill memory: 512 members × 4,096 × 16 bytes are 32 MiB.
const POINTS_MAX: u64 = 4_096;
/// The share of a usual node.
const SHARE_USUAL: u64 = 100;

/// A file of the operator's or the partitioner's, ready for look-ups.
#[derive(Clone, Debug)]
pub struct NamedOwners {
    router: Router,
    /// Destinations by number; `None` for names that are no numbers of nodes.
    nodes: Vec<Option<NodeNo>>,
    unknown: Unknown,
}

impl NamedOwners {
    pub fn new(table: &RoutingTable) -> NamedOwners {
        let nodes = table.destinations.iter().map(|name| name.parse().ok().map(NodeNo)).collect();
        NamedOwners { router: Router::new(table), nodes, unknown: table.unknown }
    }

    fn node(&self, owner: Option<crate::Owner>) -> Option<NodeNo> {
        *self.nodes.get(owner? as usize)?
    }
}

/// The table of one epoch.
#[derive(Clone, Debug)]
pub struct EpochOwners {
    step: RouteStep,
    named: Option<Arc<NamedOwners>>,
    /// Points of the circle in rising order, and whose they are.
    points: Vec<(u64, NodeNo)>,
}

impl EpochOwners {
    pub fn new(step: &RouteStep, seed: u64, named: Option<Arc<NamedOwners>>) -> EpochOwners {
        let mut points = Vec::new();
        for (no, member) in step.members.iter().filter(|(_, member)| member.share > 0) {
            let own = mix(seed ^ mix(u64::from(no.0) + 1));
            let count = (POINTS * u64::from(member.share) / SHARE_USUAL).clamp(1, POINTS_MAX);
            points.extend((0..count).map(|k| (mix(own ^ mix(k)), *no)));
        }
        points.sort_unstable();
        EpochOwners { step: step.clone(), named, points }
    }

    pub fn step(&self) -> &RouteStep {
        &self.step
    }

    /// Who may connect to an address; `None` where it waits for a table that names it.
    pub fn of_address(&self, address: IpAddr) -> Option<AgentId> {
        let named = self.named.as_ref();
        let found = named.and_then(|named| named.node(named.router.by_address(address)));
        if let Some(owner) = found.and_then(|no| self.member(no)) {
            return Some(owner);
        }
        let is_held = named.is_some_and(|named| named.unknown == Unknown::Hold) && found.is_none();
        if is_held {
            return None;
        }
        self.on_circle(match address {
            IpAddr::V4(four) => hash64(&four.octets()),
            IpAddr::V6(six) => hash64(&six.octets()),
        })
    }

    /// Who says by whom a host is asked.
    pub fn home(&self, host: &str) -> Option<AgentId> {
        let named = self.named.as_ref().and_then(|named| named.node(named.router.by_host(host)));
        named.and_then(|no| self.member(no)).or_else(|| self.on_circle(hash64(host.as_bytes())))
    }

    /// Whose a host is by the operator's word, wherever it is.
    pub fn filtered(&self, host: &str) -> Option<AgentId> {
        let named = self.named.as_ref()?;
        self.member(named.node(named.router.by_domain(host))?)
    }

    pub(super) fn member(&self, no: NodeNo) -> Option<AgentId> {
        let member = self.step.members.get(&no).filter(|member| member.share > 0)?;
        Some(AgentId { no, incarnation: member.incarnation })
    }

    fn on_circle(&self, hash: u64) -> Option<AgentId> {
        let at = self.points.partition_point(|(point, _)| *point < hash);
        let (_, no) = self.points.get(at).or_else(|| self.points.first())?;
        self.member(*no)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Block;
    use farol_cluster::Epoch;
    use farol_cluster::route::RouteMember;

    fn step(shares: &[u32]) -> RouteStep {
        let member = |(no, share): (usize, &u32)| {
            (NodeNo(no as u16 + 1), RouteMember { incarnation: 1, share: *share })
        };
        RouteStep { epoch: Epoch(1), members: shares.iter().enumerate().map(member).collect(), table: None }
    }

    fn owners(shares: &[u32]) -> EpochOwners {
        EpochOwners::new(&step(shares), 7, None)
    }

    #[test]
    fn a_newcomer_takes_its_share_and_nothing_else_moves() {
        let (before, after) = (owners(&[100; 8]), owners(&[100; 9]));
        let mut moved = 0;
        for n in 0..20_000u32 {
            let address = IpAddr::from(n.to_be_bytes());
            let (old, new) = (before.of_address(address).unwrap(), after.of_address(address).unwrap());
            assert!(old == new || new.no == NodeNo(9));
            moved += u32::from(old != new);
        }
        // A ninth is 2,222.
        assert!((1_950..2_500).contains(&moved), "{moved}");
    }

    #[test]
    fn shares_are_kept_and_who_leaves_gets_nothing() {
        let owners = owners(&[100, 300, 0]);
        let of =
            |no| (0..8_000).filter(|n| owners.home(&format!("http://h{n}.test")).unwrap().no.0 == no).count();
        let (one, two, three) = (of(1), of(2), of(3));
        assert_eq!(three, 0);
        assert!((1_750..2_250).contains(&one) && one + two == 8_000, "{one} {two}");
        assert_eq!(EpochOwners::new(&step(&[]), 7, None).home("http://h.test"), None);
    }

    #[test]
    fn a_file_comes_first_where_it_leads_to_a_member() {
        let block = |text: &str| text.parse::<Block>().unwrap();
        let names = ["2", "3", "x"].map(str::to_string).into();
        let blocks = [(block("10.0.0.0/8"), 0), (block("11.0.0.0/8"), 1), (block("12.0.0.0/8"), 2)].into();
        let filters = vec![(crate::table::Filter::Domain("br".to_string()), 0)];
        let mut table =
            RoutingTable { version: 1, destinations: names, blocks, filters, ..RoutingTable::default() };
        let with = |table: &RoutingTable| {
            EpochOwners::new(&step(&[100, 100, 0]), 7, Some(Arc::new(NamedOwners::new(table))))
        };
        let at =
            |owners: &EpochOwners, text: &str| owners.of_address(text.parse().unwrap()).map(|id| id.no.0);
        let hashed = owners(&[100, 100, 0]);
        let owners = with(&table);
        assert_eq!(at(&owners, "10.1.2.3"), Some(2));
        // Who leaves, and whom nobody knows, get nothing: the hash does.
        assert_eq!(at(&owners, "11.1.2.3"), at(&hashed, "11.1.2.3"));
        assert_eq!(at(&owners, "12.1.2.3"), at(&hashed, "12.1.2.3"));
        assert_eq!(owners.home("http://x.br").unwrap().no, NodeNo(2));
        assert_eq!(owners.filtered("http://x.br").unwrap().no, NodeNo(2));
        assert_eq!(owners.filtered("http://x.pt"), None);
        assert_eq!(owners.home("http://x.pt"), hashed.home("http://x.pt"));
        // What no entry names may wait, but who answers for a host is always known.
        table.unknown = Unknown::Hold;
        let holding = with(&table);
        assert_eq!((at(&holding, "99.1.2.3"), at(&holding, "10.1.2.3")), (None, Some(2)));
        assert!(at(&holding, "11.1.2.3").is_some() && holding.home("http://x.pt").is_some());
    }
}
