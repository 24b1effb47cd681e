//! The planner from the first table to rest: agents that come and go, rules, liars, successors.

use super::*;
use crate::Position;
use crate::table::{Filter, Route, Router, host_key};
use farol_base::{Random, Seeded};
use std::time::Duration;

fn at(minutes: u64) -> Timestamp {
    Timestamp::from_secs(1_700_000_000 + 60 * minutes)
}

fn agents(names: &[&str]) -> Vec<Agent> {
    names.iter().map(|name| Agent::named(*name)).collect()
}

fn host(n: u32) -> String {
    format!("http://h{n}.test")
}

fn address(n: u32) -> IpAddr {
    // Two hosts to an address, addresses far from each other.
    format!("10.{}.{}.1", n / 2 / 200, n / 2 % 200).parse().unwrap()
}

/// Groups of 20 hosts that link within themselves.
fn facts(n: u32, random: &mut Seeded) -> HostFacts {
    let mut links = vec![(host_key(&host(random.below(400) as u32)), 1)];
    links.extend((0..6).map(|_| (host_key(&host(n / 20 * 20 + random.below(20) as u32)), 4)));
    HostFacts {
        host: host(n),
        address: address(n),
        pages: 10,
        rtt: None,
        position: None,
        language: None,
        links,
    }
}

/// Reports of all hosts by whoever owns them.
fn tell_all(planner: &mut Replanner, now: Timestamp, number: u64, hosts: std::ops::Range<u32>) {
    let mut random = Seeded::new(5);
    let all: Vec<HostFacts> = hosts.map(|n| facts(n, &mut random)).collect();
    tell(planner, now, number, &all);
}

fn tell(planner: &mut Replanner, now: Timestamp, number: u64, all: &[HostFacts]) {
    let names = planner.names.clone();
    let router = planner.in_force().map(Router::new);
    let version = planner.in_force().map_or(0, |table| table.version);
    for (j, agent) in names.iter().enumerate() {
        let owns = |facts: &&HostFacts| match &router {
            None => host_key(&facts.host) as usize % names.len() == j,
            Some(router) => router.route_host(&facts.host, Some(facts.address)) == Route::To(j as u32),
        };
        let hosts: Vec<HostFacts> = all.iter().filter(owns).cloned().collect();
        let count = hosts.len();
        let report = Report { agent: agent.clone(), version, number, hosts, ..Report::default() };
        assert_eq!(planner.take(now, &report), Receipt { taken: count, refused: vec![] });
    }
}

/// Plans and installs; answers what was decided.
fn step(planner: &mut Replanner, now: Timestamp) -> Option<Decision> {
    let decision = planner.job(now)?.run().unwrap();
    planner.decided(now, &decision);
    if let Decision::Publish { table, .. } = &decision {
        planner.installed(table.clone());
    }
    Some(decision)
}

fn published(decision: Option<Decision>) -> (RoutingTable, Gain, Why) {
    match decision {
        Some(Decision::Publish { table, gain, why, .. }) => (table, gain, why),
        other => panic!("nothing was published: {other:?}"),
    }
}

fn kept(decision: Option<Decision>) -> Why {
    match decision {
        Some(Decision::Keep { why, .. }) => why,
        other => panic!("{other:?}"),
    }
}

fn started(settings: Settings, names: &[&str]) -> Replanner {
    let mut planner = Replanner::new(settings).unwrap();
    planner.set_agents(agents(names));
    let (table, _, why) = published(step(&mut planner, at(0)));
    assert_eq!((why, table.version, table.blocks.len()), (Why::First, 1, 0));
    planner
}

/// By a table each address with all its hosts has one owner.
fn assert_whole(planner: &Replanner) {
    let table = planner.in_force().unwrap();
    assert!(table.hosts.is_empty(), "a host by name could split an address");
    let router = Router::new(table);
    for (_, known) in planner.atlas().hosts() {
        let address = known.told[0].address;
        let by_host = router.route_host(&known.name, Some(address));
        assert_eq!(by_host, Route::To(router.by_address(address).unwrap()), "{}", known.name);
    }
}

#[test]
fn a_crawl_comes_from_hash_to_communities_and_then_to_rest() {
    let mut planner = started(Settings::default(), &["a", "b", "c", "d"]);
    tell_all(&mut planner, at(1), 1, 0..400);
    assert_eq!(planner.due(at(5)), None);
    assert_eq!(planner.due(at(11)), Some(Trigger::Grown(4000.0)));
    let (table, gain, why) = published(step(&mut planner, at(11)));
    assert_eq!((why, table.version), (Why::Saves, 2));
    assert!(gain.exchange_before > 0.6 && gain.exchange_after < 0.3 * gain.exchange_before, "{gain:?}");
    assert!(gain.overload_after <= 1.051 && gain.moved_named == 0, "{gain:?}");
    assert_whole(&planner);
    // Nothing new: nothing is due before a day is over, and then nothing is published.
    tell_all(&mut planner, at(12), 2, 0..400);
    assert_eq!(planner.due(at(60)), None);
    let why = kept(step(&mut planner, at(11 + 24 * 60)));
    assert!(matches!(why, Why::Same | Why::SavesTooLittle), "{why:?}");
    planner.order();
    assert_eq!(planner.due(at(11 + 24 * 60)), Some(Trigger::Ordered));
    kept(step(&mut planner, at(11 + 24 * 60)));
    assert_eq!(planner.due(at(12 + 24 * 60)), None);
}

#[test]
fn an_agent_that_joins_gets_a_share_and_one_that_leaves_gives_all() {
    let mut planner = started(Settings::default(), &["a", "b", "c", "d"]);
    tell_all(&mut planner, at(1), 1, 0..400);
    step(&mut planner, at(11));
    planner.set_agents(agents(&["a", "b", "c", "d", "e"]));
    let (table, gain, why) = published(step(&mut planner, at(12)));
    assert_eq!((why, table.destinations.len()), (Why::AgentsChanged, 5));
    assert!((gain.moved_named as f64) <= 1.3 / 5.0 * gain.pages as f64, "{gain:?}");
    assert!(gain.overload_after <= 1.051, "{gain:?}");
    assert_whole(&planner);
    planner.set_agents(agents(&["a", "c", "d", "e"]));
    let before = planner.in_force().unwrap().clone();
    let (table, gain, _) = published(step(&mut planner, at(13)));
    assert!(gain.orphaned > 500 && gain.moved_named <= gain.pages / 8, "{gain:?}");
    assert_eq!(table.destinations, ["a", "c", "d", "e"]);
    let (old, new) = (Router::new(&before), Router::new(&table));
    let stayed = (0..400).filter(|n| {
        let owner = |router: &Router, table: &RoutingTable| {
            let Route::To(owner) = router.route_host(&host(*n), Some(address(*n))) else { panic!() };
            table.destinations[owner as usize].clone()
        };
        owner(&old, &before) == owner(&new, &table)
    });
    assert!(stayed.count() >= 250);
}

#[test]
fn rules_stand_above_the_split_and_keep_addresses_whole() {
    let places = "10.0.0.0,10.0.15.255,PT\n10.0.16.0,10.0.199.255,ES\n";
    let places = Arc::new(GeoTable::read(places, &Default::default()).unwrap());
    let rule = |scope, to: &str| Rule { scope, to: to.to_string() };
    let settings = Settings {
        rules: vec![
            rule(Scope::Domain("h40.test".to_string()), "b"),
            rule(Scope::Domain("h41.test".to_string()), "c"), // The same address: the first rule decides.
            rule(Scope::Block("10.0.50.0/24".parse().unwrap()), "c"),
            rule(Scope::Country(*b"PT"), "d"),
            rule(Scope::Language(*b"is"), "a"),
            rule(Scope::Domain("h100.test".to_string()), "b"), // In the block that is c's: the block's rule is first.
            rule(Scope::Domain("gone.test".to_string()), "nobody"),
        ],
        ..Settings::default()
    };
    let mut planner = started(settings, &["a", "b", "c", "d"]);
    planner.set_places(Some(places));
    let mut random = Seeded::new(5);
    let mut all: Vec<HostFacts> = (0..400).map(|n| facts(n, &mut random)).collect();
    for n in [300, 301, 302] {
        all[n].language = Some(*b"is");
    }
    tell(&mut planner, at(1), 1, &all);
    let (table, gain, _) = published(step(&mut planner, at(11)));
    assert!(gain.overload_after <= 1.06, "{gain:?}");
    assert_whole(&planner);
    let router = Router::new(&table);
    let owner = |n: u32| match router.route_host(&host(n), Some(address(n))) {
        Route::To(owner) => table.destinations[owner as usize].as_str(),
        Route::Hold => "",
    };
    assert_eq!((owner(40), owner(41)), ("b", "b"));
    assert_eq!((owner(100), owner(101)), ("c", "c"));
    assert!((0..32).all(|n| owner(n) == "d"));
    // Most pages of one address are Icelandic, half of the other's.
    assert_eq!((owner(300), owner(301)), ("a", "a"));
    // Strangers: by country, by domain, by block.
    let stranger = |host: &str, address: &str| match router.route_host(host, address.parse().ok()) {
        Route::To(owner) => table.destinations[owner as usize].as_str(),
        Route::Hold => "",
    };
    assert_eq!(stranger("http://new.pt", "10.0.9.77"), "d");
    assert_eq!(stranger("http://www.h40.test", "203.0.113.9"), "b");
    assert_eq!(stranger("http://x.test", "10.0.50.200"), "c");
    assert!(table.filters.iter().any(|(filter, _)| *filter == Filter::Domain("h41.test".to_string())));
    let nobody = Settings { rules: vec![rule(Scope::Domain(String::new()), "a")], ..Settings::default() };
    assert!(Replanner::new(nobody).unwrap_err().to_string().starts_with("the rule that gives"));
}

#[test]
fn hosts_that_no_table_knows_go_by_a_consistent_hash_or_wait() {
    let names: Vec<String> = (0..9).map(|n| format!("agent {n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let few = started(Settings::default(), &names[..8]);
    let many = started(Settings::default(), &names);
    let (few, many) = (Router::new(few.in_force().unwrap()), Router::new(many.in_force().unwrap()));
    let mut moved = 0;
    for n in 0..9000u32 {
        let address = IpAddr::from(u32::to_be_bytes(0x1000_0000 + n * 977));
        for address in [Some(address), None] {
            let (old, new) = (few.route_host(&host(n), address), many.route_host(&host(n), address));
            assert!(old == new || new == Route::To(8), "{n} moved between old agents");
            moved += u32::from(old != new);
        }
    }
    // A ninth of 18,000, give or take.
    assert!((1400..2700).contains(&moved), "{moved}");
    let held = started(Settings { unknown: Unknown::Hold, ..Settings::default() }, &names);
    let router = Router::new(held.in_force().unwrap());
    assert_eq!(router.route_host("http://x.test", "192.0.2.1".parse().ok()), Route::Hold);
}

#[test]
fn measured_exchanges_stand_beside_expected_ones() {
    let mut planner = started(Settings::default(), &["a", "b"]);
    tell_all(&mut planner, at(1), 1, 0..400);
    let (table, gain, _) = published(step(&mut planner, at(11)));
    for (agent, forwarded) in [("a", 30), ("b", 10)] {
        let exchanged = Exchanged { links: 100, forwarded };
        let version = table.version;
        let report = Report { agent: agent.to_string(), version, number: 9, exchanged, ..Report::default() };
        planner.take(at(20), &report);
    }
    let outcomes = planner.outcomes();
    assert_eq!(outcomes.len(), 2);
    assert_eq!((outcomes[1].expected, outcomes[1].exchange_measured()), (gain, Some(0.2)));
    assert_eq!(outcomes[0].exchange_measured(), None);
}

type Addresses = Vec<(IpAddr, Option<Position>)>;

/// One host in the middle of nowhere for each of 40 addresses; three agents on a line.
fn on_a_line(liar: bool) -> (Atlas, Vec<Agent>, Addresses) {
    let mut atlas = Atlas::new(Bounds::default());
    let place = [0.0, 20.0, 40.0, 30.0];
    let names: Vec<String> = ["a", "b", "c", "d"].map(String::from).to_vec();
    let millis = |x: f64, y: f64| 3.0 + (x - y).abs();
    let mut random = Seeded::new(3);
    let mut wanted = Vec::new();
    for (j, agent) in names.iter().enumerate() {
        let hosts = (0..40u32).filter(|n| j < 3 && (n % 4 != j as u32 || liar)).map(|n| {
            let true_rtt = millis(place[j], f64::from(n));
            let told = if liar && j == 0 { 0.4 + 0.01 * random.unit() } else { true_rtt };
            let samples = if n % 2 == 0 { 9 } else { 3 };
            let rtt = Some(RttMedian { micros: (told * 1000.0) as u32, samples });
            HostFacts { rtt, links: vec![], ..facts(n * 2, &mut Seeded::new(1)) }
        });
        let peers = (0..4)
            .filter(|other| *other != j)
            .map(|other| {
                let micros = (millis(place[j], place[other]) * 1000.0) as u32;
                (names[other].clone(), RttMedian { micros, samples: 20 })
            })
            .collect();
        let hosts = hosts.collect();
        let report = Report { agent: agent.clone(), number: 1, hosts, peers, ..Report::default() };
        let receipt = atlas.take(at(0), &report, &names, &Owners::default());
        assert_eq!(receipt.refused, []);
    }
    for n in 0..40 {
        wanted.push((address(n * 2), None));
    }
    (atlas, agents(&["a", "b", "c", "d"]), wanted)
}

#[test]
fn times_that_nobody_measured_come_from_coordinates_and_few_samples_are_marked() {
    let (atlas, agents, addresses) = on_a_line(false);
    let filled = fill(&atlas, &agents, &addresses, None, 1);
    assert!(filled.disbelieved.is_empty(), "{:?}", filled.disbelieved);
    assert_eq!((filled.counts[&Source::Measured], filled.counts[&Source::Few]), (40, 50));
    // d measured nothing but its distance to the other agents.
    let of_d = |n: usize| (filled.rtt[n * 4 + 3], filled.sources[n * 4 + 3]);
    let off: Vec<f64> =
        (0..40).map(|n| (f64::from(of_d(n).0) - (3.0 + (30.0 - n as f64).abs())).abs()).collect();
    assert!((0..40).all(|n| of_d(n).1 == Source::Coordinates));
    let mean = off.iter().sum::<f64>() / 40.0;
    assert!(mean < 6.0, "off by {mean} ms in the mean");
}

#[test]
fn an_agent_that_claims_to_be_near_everything_is_not_heard() {
    let (atlas, agents, addresses) = on_a_line(true);
    let filled = fill(&atlas, &agents, &addresses, None, 1);
    assert_eq!(filled.disbelieved, [0]);
    assert!((0..40).all(|n| filled.sources[n * 4] > Source::Few));
    assert!((0..40).all(|n| filled.sources[n * 4 + 1] <= Source::Few));
}

#[test]
fn traceroutes_and_places_fill_what_is_left() {
    let mut planner = started(Settings::default(), &["a", "b"]);
    planner.set_source("a", "198.51.100.1".parse().unwrap());
    planner.set_source("stranger", "198.51.100.9".parse().unwrap());
    planner.add_trace(&Trace {
        source: "198.51.100.1".parse().unwrap(),
        hops: vec![Some(("198.51.100.2".parse().unwrap(), 4.0)), None, Some((address(0), 9.0))],
    });
    let mut all: Vec<HostFacts> = (0..4).map(|n| facts(n * 2, &mut Seeded::new(1))).collect();
    all[1].position = Position::new(38.7, -9.1);
    tell(&mut planner, at(1), 1, &all);
    let mut near = agents(&["a", "b"]);
    near[1].position = Position::new(41.2, -8.6);
    planner.set_agents(near);
    let job = planner.job_for(at(2), Trigger::Ordered);
    assert_eq!(job.sources()[&Source::Route], 1);
    assert_eq!(job.sources()[&Source::Distance], 1);
    assert_eq!(job.sources()[&Source::Unknown], 6);
    assert_eq!(job.addresses(), 4);
}

#[test]
fn a_successor_takes_up_what_was_known() {
    let mut planner = started(Settings::default(), &["a", "b", "c", "d"]);
    tell_all(&mut planner, at(1), 1, 0..400);
    let memory = planner.atlas().memory();
    let mut next = Replanner::new(Settings::default()).unwrap();
    next.recall(&Atlas::restore(Bounds::default(), memory).unwrap());
    next.set_agents(agents(&["a", "b", "c", "d"]));
    next.installed(planner.in_force().unwrap().clone());
    let ours = published(step(&mut planner, at(11)));
    let theirs = published(step(&mut next, at(11)));
    assert_eq!(ours, theirs);
    assert!(at(11).since(at(1)) == Duration::from_secs(600));
}

#[test]
fn what_agents_share_by_a_hash_of_their_own_is_theirs_before_any_table_and_counts_as_hashed() {
    let mut planner = Replanner::new(Settings::default()).unwrap();
    planner.set_agents(agents(&["4", "9"]));
    let names = vec!["4".to_string(), "9".to_string()];
    let by_last: OwnerOf = Arc::new(|_, address| match address {
        IpAddr::V4(four) => Some(u32::from(four.octets()[2] % 2)),
        IpAddr::V6(_) => None,
    });
    let table = RoutingTable { version: 3, destinations: names.clone(), ..RoutingTable::default() };
    planner.install(InForce::shared(table, names, by_last));
    let mut random = Seeded::new(5);
    let all: Vec<HostFacts> = (0..400).map(|n| facts(n, &mut random)).collect();
    let (even, odd): (Vec<_>, Vec<_>) = all
        .into_iter()
        .partition(|facts| matches!(facts.address, IpAddr::V4(four) if four.octets()[2] % 2 == 0));
    let (evens, odds) = (even.len(), odd.len());
    let report = |agent: &str, number, hosts| Report {
        agent: agent.into(),
        version: 3,
        number,
        hosts,
        ..Report::default()
    };
    // Whoever tells of hosts that the hash gives to another is not believed.
    let refused = planner.take(at(1), &report("4", 1, odd.clone())).refused;
    assert_eq!(refused, [(Reason::NotYours, odds as u64)]);
    assert_eq!(planner.take(at(1), &report("4", 2, even)).taken, evens);
    assert_eq!(planner.take(at(1), &report("9", 1, odd)).taken, odds);
    assert!(planner.loads().iter().all(|(_, pages)| *pages > 0));
    let (table, gain, why) = published(step(&mut planner, at(11)));
    assert_eq!((why, table.version), (Why::Saves, 4));
    assert!(gain.moved_named == 0 && gain.moved_hashed > 0 && gain.exchange_before > 0.3, "{gain:?}");
    // Counted under the table and under the same one after an agent started again.
    let counted = |version, number| Report {
        version,
        exchanged: Exchanged { links: 100, forwarded: 10 },
        ..report("4", number, Vec::new())
    };
    planner.take(at(12), &counted(4, 3));
    let table = RoutingTable { version: 5, ..table };
    planner.installed(table);
    planner.take(at(13), &counted(5, 4));
    assert_eq!(planner.outcomes()[0].measured, Exchanged { links: 200, forwarded: 20 });
    assert_eq!(planner.outcomes()[0].exchange_measured(), Some(0.1));
}

#[test]
fn rules_that_are_new_or_gone_are_kept_at_once_whatever_they_cost() {
    let mut planner = started(Settings::default(), &["a", "b"]);
    tell_all(&mut planner, at(1), 1, 0..400);
    step(&mut planner, at(11));
    let rule = Rule { scope: Scope::Domain("h7.test".into()), to: "b".into() };
    planner.set_rules(vec![rule.clone(), Rule { to: "nobody".into(), ..rule }]).unwrap();
    assert_eq!(planner.due(at(12)), None, "not before the gap is over");
    assert_eq!(planner.due(at(21)), Some(Trigger::Rules));
    let (table, _, why) = published(step(&mut planner, at(21)));
    assert_eq!(why, Why::Ruled);
    assert!(table.filters.iter().any(|(filter, _)| *filter == Filter::Domain("h7.test".into())));
    assert_eq!(planner.due(at(40)), None, "it has come to rest");
    planner.set_rules(Vec::new()).unwrap();
    assert_eq!(planner.due(at(40)), Some(Trigger::Rules));
    assert!(published(step(&mut planner, at(40))).0.filters.is_empty());
    assert_eq!(planner.due(at(60)), None);
}
