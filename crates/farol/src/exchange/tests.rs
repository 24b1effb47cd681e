//! Several agents that exchange what they find, in one process: every URL ends with the agent that the table gives its
//! host's address to, and with no other, whatever each is told by DNS.

use super::*;
use crate::fabric::LocalTables;
use crate::wire::freight::{Freight, pack_notes, read};
use farol_base::Host;
use farol_base::random::{Random, Seeded};
use farol_cluster::route::{RouteMember, RouteStep};
use farol_cluster::{Monotonic, RouteRecord};
use farol_partition::hold::{AgentId, EpochOwners, HoldSettings, Move, Verdict};
use std::collections::BTreeSet;
use std::net::IpAddr;

const AGENTS: [NodeNo; 3] = [NodeNo(1), NodeNo(2), NodeNo(5)];

fn record() -> Arc<RouteRecord> {
    let member = RouteMember { incarnation: 1, share: 100 };
    let members = AGENTS.iter().map(|no| (*no, member)).collect();
    Arc::new(RouteRecord {
        v: 1,
        term: 1,
        settled: true,
        newest: RouteStep { epoch: Epoch(1), members, table: None },
        before: Vec::new(),
        seed: 3,
        bequests: Vec::new(),
        why: String::new(),
    })
}

fn url(host: u64, page: u64) -> CanonicalUrl {
    CanonicalUrl::parse(&format!("http://h{host}.test/{page}")).unwrap()
}

/// Three hosts share an address.
fn address(host: &Host) -> IpAddr {
    let number: u32 = host.name().trim_start_matches('h').trim_end_matches(".test").parse().unwrap();
    std::net::Ipv4Addr::from(0x0A00_0000 + number / 3).into()
}

struct Agent {
    no: NodeNo,
    exchange: Exchange,
    tables: LocalTables,
    /// Its URL store.
    has: BTreeSet<CanonicalUrl>,
    luggage: Vec<(NodeNo, Vec<CanonicalUrl>)>,
    _dir: tempfile::TempDir,
}

impl Agent {
    fn new(no: NodeNo) -> Agent {
        let dir = tempfile::tempdir().unwrap();
        let clock = || Monotonic::from_millis(1_000);
        let lease = |_| Some(Monotonic::from_millis(9_000));
        let me = AgentId { no, incarnation: 1 };
        let rights = Rights::new(me, HoldSettings::default(), Arc::new(lease), clock);
        rights.tick(Some(&record()), &|_| None);
        let outboxes = Outboxes::open(&dir.path().join("outbox"), no, 1 << 20).unwrap();
        let tables = LocalTables::open(&dir.path().join("tables")).unwrap();
        let exchange = Exchange::open(Arc::new(rights), outboxes, &tables).unwrap();
        Agent { no, exchange, tables, has: BTreeSet::new(), luggage: Vec::new(), _dir: dir }
    }

    fn find(&mut self, found: Vec<Found>) {
        let own = self.exchange.sort(found).unwrap();
        self.has.extend(own.into_iter().map(|found| found.url));
    }

    /// Finds out where its hosts are, and puts on the disk what is another's.
    fn turn(&mut self, end: PagePosition) {
        let rights = self.exchange.rights();
        let hosts: BTreeSet<Host> = self.has.iter().map(CanonicalUrl::host).collect();
        for host in hosts {
            match rights.may(&host, address(&host)) {
                Verdict::Place => rights.place(&host, address(&host)),
                Verdict::Elsewhere => rights.sweep(&host, Some(address(&host))),
                Verdict::Yes | Verdict::Wait | Verdict::At(_) => {}
            }
        }
        for next in rights.moves() {
            match next {
                Move::Tell { to, note } => {
                    let packed = pack_notes(1, &[note]).unwrap();
                    self.exchange.desk().outboxes.lock().keep(to, 1, &packed).unwrap();
                }
                Move::Luggage { host, to } => {
                    let urls = self.has.iter().filter(|url| url.host_str() == host).cloned().collect();
                    self.has.retain(|url| url.host_str() != host);
                    self.luggage.push((to, urls));
                }
                Move::Resolve { host, .. } => {
                    let host = Host::parse(&host).unwrap();
                    rights.place(&host, address(&host));
                }
            }
        }
        if let Some(received) = self.exchange.settle().unwrap() {
            self.exchange.settled(end, received, &self.tables).unwrap();
        }
    }
}

/// Carries what waits for each agent there; whether there was anything. Batches of URLs come twice.
fn carry(agents: &mut [Agent]) -> bool {
    let (mut carried, mut luggage) = (Vec::new(), Vec::new());
    for agent in agents.iter_mut() {
        let desk = agent.exchange.desk();
        let mut boxes = desk.outboxes.lock();
        for to in boxes.receivers() {
            for (number, bytes) in boxes.next_batches(to, 1, 100).unwrap() {
                boxes.appended(to, number);
                boxes.taken(to, number).unwrap();
                carried.push((agent.no, to, number, bytes));
            }
        }
        luggage.append(&mut agent.luggage);
    }
    let is_some = !carried.is_empty() || !luggage.is_empty();
    let at = |no| AGENTS.iter().position(|agent| *agent == no).unwrap();
    for (from, to, number, bytes) in carried {
        let agent = &mut agents[at(to)];
        match read(&bytes).unwrap().1.unwrap() {
            Freight::Urls(body) => {
                for _ in 0..2 {
                    agent.exchange.learned_from_others(&body.learned);
                    let found = body.hosts.iter().flat_map(|wire| {
                        let host = Host::parse(&wire.host).unwrap();
                        wire.urls.iter().map(move |found| {
                            let url = host.url(&found.path).unwrap();
                            (Found { url, depth: found.depth, hint: None }, wire.hops)
                        })
                    });
                    let own = agent.exchange.sort_received(from, found.collect()).unwrap();
                    agent.has.extend(own.into_iter().map(|found| found.url));
                }
            }
            Freight::Notes(notes) => {
                let rights = agent.exchange.rights();
                assert!(notes.notes.iter().all(|note| rights.heard(notes.from(from), note)));
            }
            Freight::Parcel(_) => panic!("nobody sends any here"),
        }
        agent.exchange.took(from, number);
    }
    for (to, urls) in luggage {
        agents[at(to)].has.extend(urls);
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
            all.extend(found.iter().map(|found| found.url.clone()));
            finder.find(found);
            let end = PagePosition { file: 0, offset: step };
            agents[random.below(3) as usize].turn(end);
            if random.below(3) == 0 {
                carry(&mut agents);
            }
        }
        let end = PagePosition { file: 0, offset: 99 };
        let mut quiet = 0;
        while quiet < 2 {
            agents.iter_mut().for_each(|agent| agent.turn(end));
            quiet = if carry(&mut agents) { 0 } else { quiet + 1 };
        }
        let owners = EpochOwners::new(&record().newest, 3, None);
        let mut got = BTreeSet::new();
        for agent in &agents {
            for url in &agent.has {
                let host = url.host();
                assert_eq!(owners.of_address(address(&host)).unwrap().no, agent.no, "{url}, seed {seed}");
                assert_eq!(agent.exchange.rights().may(&host, address(&host)), Verdict::Yes, "{url}");
                got.insert(url.clone());
            }
            assert_eq!(agent.exchange.watermark(), end, "nothing is open");
        }
        assert_eq!(got, all, "seed {seed}");
    }
}

#[test]
fn only_a_hosts_first_urls_go_round_by_its_home() {
    let mut agents = AGENTS.map(Agent::new);
    let owners = EpochOwners::new(&record().newest, 3, None);
    let end = PagePosition { file: 0, offset: 1 };
    // A host that is asked by one agent, has another for its home, and is met by the third.
    let of = |host: u64| {
        let host = url(host, 0).host();
        (owners.home(host.as_str()).unwrap().no, owners.of_address(address(&host)).unwrap().no)
    };
    let host = (0..60).find(|host| of(*host) == (AGENTS[1], AGENTS[2])).unwrap();
    for page in 0..3 {
        agents[0].find(vec![Found { url: url(host, page), depth: 1, hint: None }]);
        let mut quiet = 0;
        while quiet < 2 {
            agents.iter_mut().for_each(|agent| agent.turn(end));
            quiet = if carry(&mut agents) { 0 } else { quiet + 1 };
        }
    }
    assert_eq!(agents[2].has.len(), 3);
    let passed_on = agents[1].exchange.desk().counters.passed_on.load(Ordering::Relaxed);
    assert!(passed_on <= 2, "{passed_on} of 3 went by its home, each twice");
}

#[test]
fn what_a_hash_alone_would_have_sent_is_counted_beside() {
    use std::sync::atomic::Ordering;
    let mut agent = Agent::new(AGENTS[0]);
    let found: Vec<Found> = (1..60).map(|host| Found { url: url(host, 2), depth: 1, hint: None }).collect();
    agent.exchange.count_between(Some(&url(1, 1)), &found);
    let owners = agent.exchange.rights().by_hash().unwrap();
    let home = |host: u64| owners.home(url(host, 1).host_str());
    let want = (2..60).filter(|host| home(*host) != home(1)).count() as u64;
    let desk = agent.exchange.desk();
    assert_eq!(desk.counters.between.load(Ordering::Relaxed), 58);
    assert!(want > 0 && desk.counters.hashed.load(Ordering::Relaxed) == want, "{want}");
    assert!(desk.metrics_text().contains(&format!("what=\"foreign_by_hash\"}} {want}")));
}
