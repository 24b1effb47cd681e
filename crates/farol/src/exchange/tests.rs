//! Several agents that exchange what they find, in one process: every URL ends with the agent that a naive look at table
//! and address names, and with no other.

use super::*;
use crate::fabric::LocalTables;
use crate::wire::urls::read;
use farol_base::random::{Random, Seeded};
use farol_cluster::route::{RouteMember, RouteStep};
use farol_cluster::{Epoch, RouteRecord};
use std::collections::BTreeSet;

const AGENTS: [NodeNo; 3] = [NodeNo(1), NodeNo(2), NodeNo(5)];

fn record(epoch: u64) -> RouteRecord {
    let member = RouteMember { incarnation: 1, share: 100 };
    let members = AGENTS.iter().map(|no| (*no, member)).collect();
    RouteRecord {
        v: 1,
        term: 1,
        settled: true,
        newest: RouteStep { epoch: Epoch(epoch), members, table: None },
        before: Vec::new(),
        seed: 3,
        bequests: Vec::new(),
        why: String::new(),
    }
}

fn url(host: u64, page: u64) -> CanonicalUrl {
    CanonicalUrl::parse(&format!("http://h{host}.test/{page}")).unwrap()
}

/// Three hosts share an address, and every tenth has none.
fn address(host: &Host) -> Option<IpAddr> {
    let number: u32 = host.name().trim_start_matches('h').trim_end_matches(".test").parse().unwrap();
    (number % 10 != 9).then(|| std::net::Ipv4Addr::from(0x0A00_0000 + number / 3).into())
}

struct Agent {
    no: NodeNo,
    exchange: Exchange,
    tables: LocalTables,
    /// Its URL store.
    has: BTreeSet<String>,
    hosts: BTreeSet<String>,
    _dir: tempfile::TempDir,
}

impl Agent {
    fn new(no: NodeNo) -> Agent {
        let dir = tempfile::tempdir().unwrap();
        let routing = Arc::new(Routing::of(no, &record(1), &|_| None).unwrap());
        let outboxes = Outboxes::open(&dir.path().join("outbox"), no, 1 << 20).unwrap();
        let tables = LocalTables::open(&dir.path().join("tables")).unwrap();
        let exchange = Exchange::open(Arc::new(move || Some(routing.clone())), outboxes, &tables).unwrap();
        Agent { no, exchange, tables, has: BTreeSet::new(), hosts: BTreeSet::new(), _dir: dir }
    }

    fn keep(&mut self, own: Vec<Found>) {
        for found in own {
            self.hosts.insert(found.url.host_str().to_string());
            self.has.insert(found.url.to_string());
        }
    }

    fn find(&mut self, found: Vec<Found>) {
        let hosts = self.hosts.clone();
        let own = self.exchange.sort(found, &|host| hosts.contains(host.as_str())).unwrap();
        self.keep(own);
    }

    /// Looks hosts up, and puts on the disk what is another's.
    fn turn(&mut self, end: PagePosition) {
        while let Some(host) = self.exchange.next_to_locate() {
            let own = self.exchange.located(&host, address(&host)).unwrap();
            self.keep(own);
        }
        if let Some(received) = self.exchange.settle().unwrap() {
            self.exchange.settled(end, received, &self.tables).unwrap();
        }
    }
}

/// Carries what waits for each agent there; whether there was anything. Each batch comes twice.
fn carry(agents: &mut [Agent]) -> bool {
    let mut carried = Vec::new();
    for agent in agents.iter() {
        let desk = agent.exchange.desk();
        let mut boxes = desk.outboxes.lock();
        for to in boxes.receivers() {
            for (number, bytes) in boxes.next_batches(to, 1, 100).unwrap() {
                boxes.appended(to, number);
                boxes.taken(to, number).unwrap();
                carried.push((agent.no, to, number, bytes));
            }
        }
    }
    let is_some = !carried.is_empty();
    for (from, to, number, bytes) in carried {
        let agent = agents.iter_mut().find(|agent| agent.no == to).unwrap();
        for _ in 0..2 {
            let body = read(&bytes).unwrap().1.unwrap();
            let mut found = Vec::new();
            agent.exchange.learned_from_others(&body.learned);
            for wire in body.hosts {
                let host = Host::parse(&wire.host).unwrap();
                if let Some(address) = wire.address {
                    agent.exchange.pin(&host, address);
                }
                found.extend(wire.urls.iter().map(|found| {
                    let url = host.url(&found.path).unwrap();
                    (Found { url, depth: found.depth, hint: None }, wire.hops)
                }));
            }
            let hosts = agent.hosts.clone();
            let own =
                agent.exchange.sort_received((from, number), found, &|host| hosts.contains(host.as_str()));
            agent.keep(own.unwrap());
            agent.exchange.took(from, number);
        }
    }
    is_some
}

#[test]
fn every_url_ends_with_the_one_agent_whose_it_is() {
    for seed in 0..8 {
        let mut random = Seeded::new(seed);
        let mut agents = AGENTS.map(Agent::new);
        let mut all = BTreeSet::new();
        for step in 1..30u64 {
            let finder = &mut agents[random.below(3) as usize];
            let found: Vec<Found> = (0..random.below(40))
                .map(|_| Found { url: url(random.below(60), random.below(9)), depth: 1, hint: None })
                .collect();
            all.extend(found.iter().map(|found| found.url.to_string()));
            finder.find(found);
            let end = PagePosition { file: 0, offset: step };
            agents[random.below(3) as usize].turn(end);
            if random.below(3) == 0 {
                carry(&mut agents);
            }
        }
        let end = PagePosition { file: 0, offset: 99 };
        loop {
            agents.iter_mut().for_each(|agent| agent.turn(end));
            if !carry(&mut agents) {
                break;
            }
        }
        let routing = Routing::of(AGENTS[0], &record(1), &|_| None).unwrap();
        let owner = |text: &str| {
            let host = CanonicalUrl::parse(text).unwrap().host();
            routing.owner(host.as_str(), address(&host)).unwrap()
        };
        let mut got = BTreeSet::new();
        for agent in &agents {
            for text in &agent.has {
                assert_eq!(owner(text), agent.no, "{text}, seed {seed}");
                got.insert(text.clone());
            }
            assert_eq!(agent.exchange.watermark(), end, "nothing is open");
        }
        assert_eq!(got, all, "seed {seed}");
    }
}

#[test]
fn what_waits_for_an_address_holds_the_marks_back() {
    let mut agents = AGENTS.map(Agent::new);
    let at = |offset| PagePosition { file: 0, offset };
    // A host that waits at the agent its name's hash names.
    let routing = Routing::of(AGENTS[0], &record(1), &|_| None).unwrap();
    let host = (0..60).find(|host| routing.owner(url(*host, 0).host_str(), None) == Some(AGENTS[0])).unwrap();
    agents[0].exchange.set_position(at(5));
    agents[0].find(vec![Found { url: url(host, 1), depth: 1, hint: None }]);
    let received = agents[0].exchange.settle().unwrap().unwrap();
    agents[0].exchange.settled(at(9), received, &agents[0].tables).unwrap();
    assert_eq!(agents[0].exchange.watermark(), at(5));
    agents[0].turn(at(9));
    assert_eq!(agents[0].exchange.watermark(), at(9));
}

#[test]
fn what_is_known_of_a_host_that_changes_hands_ends_with_its_owner_and_never_goes_round() {
    let mut agents: Vec<Agent> = AGENTS.into_iter().map(Agent::new).collect();
    let visited = WireVisited {
        path: "/1".to_string(),
        depth: 1,
        state: 0,
        visits: 0,
        last_visit: 0,
        last_change: 0,
        content_hash: 0,
        download: 0,
        due: 0,
        failures: 0,
        memo: [0; 8],
    };
    for number in 0..30 {
        let host = url(number, 1).host();
        for address in [address(&host), None] {
            for start in 0..agents.len() {
                let (mut at, mut hops, mut address) = (start, 1, address);
                let mut passed = 0;
                loop {
                    let wire = WireHost {
                        host: host.as_str().to_string(),
                        address,
                        hops,
                        rest: 7,
                        urls: Vec::new(),
                        visited: Vec::new(),
                    };
                    if !agents[at].exchange.pass_visited(&host, &visited, &wire).unwrap() {
                        break;
                    }
                    let mut cut = agents[at].exchange.gather.cut();
                    assert_eq!(cut.len(), 1);
                    let (to, mut body) = cut.remove(0);
                    let sent = body.hosts.remove(0);
                    assert_eq!((&sent.visited[0], sent.rest), (&visited, 7));
                    at = AGENTS.iter().position(|no| *no == to).unwrap();
                    (hops, address, passed) = (sent.hops, sent.address, passed + 1);
                    assert!(passed <= HOPS_MAX, "{host} goes round");
                }
                if address.is_some() {
                    let routing = agents[at].exchange.routing().unwrap();
                    let owner = routing.owner(host.as_str(), address);
                    assert_eq!(owner, Some(agents[at].no), "{host} from {start}");
                    assert!(passed <= 1, "the address goes along");
                }
            }
        }
    }
}
