//! What agents tell the planner of the routing table, and what the planner keeps of it, as files in shared storage;
//! `docs/formats/graph-reports.md` draws them.

use farol_base::Timestamp;
use farol_partition::Position;
use farol_partition::replan::{
    Exchanged, HostFacts, KnownHost, Memory, Reason, Report, RttMedian, RttTold, Told,
};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Microseconds, and of how many samples.
pub type WireMedian = (u32, u16);
/// Ten-thousandths of a degree: north, east.
pub type WirePlace = (i32, i32);

/// A [`Report`] as it rests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireGraphReport {
    /// Number of the node that tells.
    pub agent: u16,
    /// Epoch of the routing table that it goes by.
    pub epoch: u64,
    pub number: u64,
    pub hosts: Vec<WireFacts>,
    pub peers: Vec<(u16, WireMedian)>,
    /// Links to other hosts that were found under the epoch, and those of them that went to other agents.
    pub exchanged: (u64, u64),
}

/// [`HostFacts`] as they rest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireFacts {
    pub host: String,
    pub address: IpAddr,
    pub pages: u64,
    pub rtt: Option<WireMedian>,
    pub place: Option<WirePlace>,
    pub language: Option<[u8; 2]>,
    pub links: Vec<(u64, u32)>,
}

/// What the planner keeps beside hosts: everything that is short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireAtlas {
    /// Files of hosts that belong to it.
    pub parts: u32,
    pub agents: Vec<String>,
    pub numbers: Vec<u64>,
    pub peers: Vec<(u16, u16, WireTime)>,
    /// Version, agent, links, forwarded.
    pub exchanged: Vec<(u64, u16, u64, u64)>,
    /// Who, why ([`REASONS`]), how often.
    pub refused: Vec<(String, u8, u64)>,
}

/// Some of the hosts and addresses of an atlas.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireAtlasPart {
    pub hosts: Vec<WireKnown>,
    pub rtt: Vec<(IpAddr, Vec<WireTime>)>,
}

/// A [`KnownHost`] as it rests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireKnown {
    pub name: String,
    pub told: Vec<WireTold>,
}

/// What one agent told of a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireTold {
    pub agent: u16,
    /// Milliseconds since 1970.
    pub at: u64,
    pub address: IpAddr,
    pub pages: u64,
    pub place: Option<WirePlace>,
    pub language: Option<[u8; 2]>,
    pub links: Vec<(u64, u32)>,
}

/// A round-trip time: by whom, when, what.
pub type WireTime = (u16, u64, WireMedian);

/// Reasons by their numbers on disk: only ever appended to.
const REASONS: [Reason; 9] = [
    Reason::UnknownAgent,
    Reason::Doubled,
    Reason::WrongVersion,
    Reason::TooLarge,
    Reason::Flood,
    Reason::NotYours,
    Reason::Full,
    Reason::Malformed,
    Reason::Disbelieved,
];

fn place(position: Position) -> WirePlace {
    let fixed = |degrees: f64| (degrees * 10_000.0).round() as i32;
    (fixed(position.latitude()), fixed(position.longitude()))
}

fn position((north, east): WirePlace) -> Option<Position> {
    Position::new(f64::from(north) / 10_000.0, f64::from(east) / 10_000.0)
}

fn median((micros, samples): WireMedian) -> RttMedian {
    RttMedian { micros, samples }
}

impl WireGraphReport {
    /// Twins of facts and counts; `agent` and `peers` are numbers of nodes.
    pub fn of(agent: u16, report: &Report) -> WireGraphReport {
        let peer =
            |(name, told): &(String, RttMedian)| Some((name.parse().ok()?, (told.micros, told.samples)));
        let facts = |facts: &HostFacts| WireFacts {
            host: facts.host.clone(),
            address: facts.address,
            pages: facts.pages,
            rtt: facts.rtt.map(|told| (told.micros, told.samples)),
            place: facts.position.map(place),
            language: facts.language,
            links: facts.links.clone(),
        };
        WireGraphReport {
            agent,
            epoch: report.version,
            number: report.number,
            hosts: report.hosts.iter().map(facts).collect(),
            peers: report.peers.iter().filter_map(peer).collect(),
            exchanged: (report.exchanged.links, report.exchanged.forwarded),
        }
    }

    pub fn read(self) -> Report {
        let facts = |facts: WireFacts| HostFacts {
            host: facts.host,
            address: facts.address,
            pages: facts.pages,
            rtt: facts.rtt.map(median),
            position: facts.place.and_then(position),
            language: facts.language,
            links: facts.links,
        };
        Report {
            agent: self.agent.to_string(),
            version: self.epoch,
            number: self.number,
            hosts: self.hosts.into_iter().map(facts).collect(),
            peers: self.peers.into_iter().map(|(peer, told)| (peer.to_string(), median(told))).collect(),
            exchanged: Exchanged { links: self.exchanged.0, forwarded: self.exchanged.1 },
        }
    }
}

fn time(told: &RttTold) -> WireTime {
    (told.agent, told.at.as_millis(), (told.median.micros, told.median.samples))
}

fn read_time((agent, at, told): WireTime) -> RttTold {
    RttTold { agent, at: Timestamp::from_millis(at), median: median(told) }
}

/// A memory in pieces of so many hosts.
pub fn write_memory(memory: Memory, hosts_each: usize) -> (WireAtlas, Vec<WireAtlasPart>) {
    let told = |told: Told| WireTold {
        agent: told.agent,
        at: told.at.as_millis(),
        address: told.address,
        pages: told.pages,
        place: told.position.map(place),
        language: told.language,
        links: told.links,
    };
    let mut parts: Vec<WireAtlasPart> = Vec::new();
    let mut hosts = memory.hosts.into_iter().peekable();
    while hosts.peek().is_some() {
        let some = hosts.by_ref().take(hosts_each.max(1));
        let hosts = some
            .map(|known| WireKnown { name: known.name, told: known.told.into_iter().map(told).collect() })
            .collect();
        parts.push(WireAtlasPart { hosts, rtt: Vec::new() });
    }
    for some in memory.rtt.chunks(hosts_each.max(1)) {
        let rtt = some.iter().map(|(address, told)| (*address, told.iter().map(time).collect())).collect();
        parts.push(WireAtlasPart { hosts: Vec::new(), rtt });
    }
    let reason = |reason: Reason| REASONS.iter().position(|known| *known == reason).map(|at| at as u8);
    let atlas = WireAtlas {
        parts: parts.len() as u32,
        agents: memory.agents,
        numbers: memory.numbers,
        peers: memory.peers.iter().map(|(a, b, told)| (*a, *b, time(told))).collect(),
        exchanged: memory
            .exchanged
            .iter()
            .map(|(version, agent, one)| (*version, *agent, one.links, one.forwarded))
            .collect(),
        refused: memory
            .refused
            .into_iter()
            .filter_map(|(who, why, count)| Some((who, reason(why)?, count)))
            .collect(),
    };
    (atlas, parts)
}

/// The memory of an atlas and all its parts.
pub fn read_memory(atlas: WireAtlas, parts: Vec<WireAtlasPart>) -> Memory {
    let told = |told: WireTold| Told {
        agent: told.agent,
        at: Timestamp::from_millis(told.at),
        address: told.address,
        pages: told.pages,
        position: told.place.and_then(position),
        language: told.language,
        links: told.links,
    };
    let mut memory = Memory {
        agents: atlas.agents,
        numbers: atlas.numbers,
        peers: atlas.peers.into_iter().map(|(a, b, told)| (a, b, read_time(told))).collect(),
        exchanged: atlas
            .exchanged
            .into_iter()
            .map(|(version, agent, links, forwarded)| (version, agent, Exchanged { links, forwarded }))
            .collect(),
        refused: atlas
            .refused
            .into_iter()
            .filter_map(|(who, why, count)| Some((who, *REASONS.get(usize::from(why))?, count)))
            .collect(),
        ..Memory::default()
    };
    for part in parts {
        let known = |known: WireKnown| KnownHost {
            name: known.name,
            told: known.told.into_iter().map(told).collect(),
        };
        memory.hosts.extend(part.hosts.into_iter().map(known));
        let times =
            |(address, all): (IpAddr, Vec<WireTime>)| (address, all.into_iter().map(read_time).collect());
        memory.rtt.extend(part.rtt.into_iter().map(times));
    }
    memory
}

#[cfg(test)]
mod tests {
    use super::super::batch::{pack, unpack};
    use super::*;
    use farol_partition::replan::{Atlas, Bounds, Owners};
    use proptest::prelude::*;

    fn report(agent: &str, number: u64) -> Report {
        let facts = HostFacts {
            host: "http://a.test".into(),
            address: [10, 0, 0, 1].into(),
            pages: 12,
            rtt: Some(RttMedian { micros: 1500, samples: 7 }),
            position: Position::new(38.7, -9.1),
            language: Some(*b"pt"),
            links: vec![(5, 2), (900, 1)],
        };
        Report {
            agent: agent.into(),
            version: 3,
            number,
            hosts: vec![facts],
            peers: vec![("9".into(), RttMedian { micros: 80, samples: 3 })],
            exchanged: Exchanged { links: 40, forwarded: 10 },
        }
    }

    #[test]
    fn the_first_version_of_reports_is_frozen() {
        let wire = WireGraphReport::of(4, &report("4", 6));
        let golden = [
            4, 3, 6, 1, 13, b'h', b't', b't', b'p', b':', b'/', b'/', b'a', b'.', b't', b'e', b's', b't', 0,
            10, 0, 0, 1, 12, 1, 0xdc, 11, 7, 1, 0xf0, 0x9e, 0x2f, 0xef, 0x8d, 0x0b, 1, b'p', b't', 2, 5, 2,
            0x84, 7, 1, 1, 9, 80, 3, 40, 10,
        ];
        assert_eq!(postcard::to_stdvec(&wire).unwrap(), golden);
        let again: WireGraphReport = unpack(&pack(&wire).unwrap()).unwrap();
        assert_eq!(again.read(), report("4", 6));
    }

    #[test]
    fn a_memory_is_what_it_was_after_it_rested_in_pieces() {
        let members = ["4".to_string(), "9".to_string()];
        let mut atlas = Atlas::new(Bounds::default());
        let at = Timestamp::from_secs(1_700_000_000);
        for n in 0..7u8 {
            let mut report = report("4", u64::from(n) + 1);
            report.version = 0;
            report.hosts[0].host = format!("http://h{n}.test");
            report.hosts[0].address = [10, 0, 0, n + 1].into();
            assert_eq!(atlas.take(at, &report, &members, &Owners::default()).taken, 1);
        }
        atlas.take(at, &report("7", 1), &members, &Owners::default());
        let (wire, parts) = write_memory(atlas.memory(), 3);
        assert_eq!((parts.len(), wire.parts), (6, 6));
        let parts = parts.iter().map(|part| unpack(&pack(part).unwrap()).unwrap()).collect();
        let wire: WireAtlas = unpack(&pack(&wire).unwrap()).unwrap();
        let again = Atlas::restore(Bounds::default(), read_memory(wire, parts)).unwrap();
        assert_eq!(again.memory(), atlas.memory());
        assert_eq!(again.refused().count(), 1);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = unpack::<WireGraphReport>(&bytes);
            let _ = postcard::from_bytes::<WireGraphReport>(&bytes).map(WireGraphReport::read);
            let _ = postcard::from_bytes::<WireAtlasPart>(&bytes);
        }
    }
}
