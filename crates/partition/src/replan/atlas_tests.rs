//! Reports that are true, wrong, hostile, doubled and merged.

use super::*;
use crate::replan::Bounds;
use crate::table::{Exception, Unknown};
use crate::{Block, RoutingTable};
use farol_base::{Random, Seeded};

const DAY: u64 = 24 * 3600;

fn at(secs: u64) -> Timestamp {
    Timestamp::from_secs(1_700_000_000 + secs)
}

fn members() -> Vec<String> {
    ["a", "b", "c"].map(String::from).to_vec()
}

fn facts(host: u32, address: &str, pages: u64) -> HostFacts {
    HostFacts {
        host: format!("http://h{host}.test"),
        address: address.parse().unwrap(),
        pages,
        rtt: Some(RttMedian { micros: 20_000 + host, samples: 9 }),
        position: None,
        language: None,
        links: vec![(host_key("http://h0.test"), 3)],
    }
}

fn report(agent: &str, number: u64, hosts: Vec<HostFacts>) -> Report {
    Report { agent: agent.to_string(), number, hosts, ..Report::default() }
}

/// 192.0.2.0/24 is a's, 198.51.100.0/24 is b's.
fn owners(version: u64) -> Owners {
    let block = |text: &str, owner| (text.parse::<Block>().unwrap(), owner);
    let table = RoutingTable {
        version,
        unknown: Unknown::Hash,
        destinations: members(),
        blocks: [block("192.0.2.0/24", 0), block("198.51.100.0/24", 1)].into(),
        ..RoutingTable::default()
    };
    let mut owners = Owners::default();
    owners.install(&InForce::new(table));
    owners
}

#[test]
fn what_an_agent_owns_is_taken_and_what_it_does_not_own_is_refused() {
    let mut atlas = Atlas::new(Bounds::default());
    let owners = owners(1);
    let told = report("a", 1, vec![facts(1, "192.0.2.1", 10), facts(2, "198.51.100.1", 10)]);
    let receipt = atlas.take(at(0), &told, &members(), &owners);
    assert_eq!((receipt.taken, receipt.refused), (1, vec![(Reason::NotYours, 1)]));
    // The same again, and from nobody.
    assert_eq!(atlas.take(at(1), &told, &members(), &owners).refused, [(Reason::Doubled, 1)]);
    let stranger = report("evil", 1, vec![facts(3, "192.0.2.3", 1)]);
    assert_eq!(atlas.take(at(1), &stranger, &members(), &owners).refused, [(Reason::UnknownAgent, 1)]);
    let old = Report { version: 9, ..report("b", 1, vec![]) };
    assert_eq!(atlas.take(at(1), &old, &members(), &owners).refused, [(Reason::WrongVersion, 1)]);
    assert_eq!(atlas.hosts().len(), 1);
    let counted: Vec<(String, Reason, u64)> =
        atlas.refused().map(|(who, why, count)| (who.to_string(), why, count)).collect();
    assert!(counted.contains(&("a".to_string(), Reason::NotYours, 1)));
    assert!(counted.contains(&(String::new(), Reason::UnknownAgent, 1)), "{counted:?}");
}

#[test]
fn nobody_pulls_a_host_to_an_address_of_its_own() {
    let mut atlas = Atlas::new(Bounds::default());
    let owners = owners(1);
    let take = |atlas: &mut Atlas, now, agent: &str, number, address: &str| {
        let told = report(agent, number, vec![facts(1, address, 10)]);
        let receipt = atlas.take(at(now), &told, &members(), &owners);
        receipt.refused.first().map(|(why, _)| *why)
    };
    assert_eq!(take(&mut atlas, 0, "b", 1, "198.51.100.7"), None);
    // 192.0.2.9 is a's, but the host is b's.
    assert_eq!(take(&mut atlas, 60, "a", 1, "192.0.2.9"), Some(Reason::NotYours));
    // Its owner may say that it moved, and after a day without news anybody may.
    assert_eq!(take(&mut atlas, 120, "b", 2, "198.51.100.8"), None);
    assert_eq!(take(&mut atlas, 121 + DAY, "a", 2, "192.0.2.9"), None);
}

#[test]
fn floods_and_nonsense_are_bounded_and_counted() {
    let bounds =
        Bounds { hosts_max: 60, hosts_per_minute_max: 100, report_hosts_max: 50, ..Bounds::default() };
    let mut atlas = Atlas::new(bounds);
    let nobody = Owners::default();
    let many = |from: u32, count: u32| (from..from + count).map(|n| facts(n, "192.0.2.1", 1)).collect();
    let take = |atlas: &mut Atlas, number, hosts| {
        atlas.take(at(0), &report("a", number, hosts), &members(), &nobody)
    };
    assert_eq!(take(&mut atlas, 1, many(0, 51)).refused, [(Reason::TooLarge, 1)]);
    assert_eq!(take(&mut atlas, 2, many(0, 50)).taken, 50);
    let receipt = take(&mut atlas, 3, many(50, 50));
    assert_eq!((receipt.taken, receipt.refused), (10, vec![(Reason::Full, 40)]));
    assert_eq!(take(&mut atlas, 4, many(0, 1)).refused, [(Reason::Flood, 1)]);
    // A minute later it may tell again; hosts that are known need no room.
    let again = report("a", 4, many(0, 5));
    assert_eq!(atlas.take(at(61), &again, &members(), &nobody).taken, 5);
    let mut bad = Vec::new();
    for host in [
        "h1.test",
        "http://",
        "http://a b",
        "http://h/path",
        "ftp://h",
        &format!("http://{}", "x".repeat(400)),
    ] {
        bad.push(HostFacts { host: host.to_string(), ..facts(1, "192.0.2.1", 1) });
    }
    bad.push(facts(1, "0.0.0.0", 1));
    bad.push(facts(1, "224.0.0.1", 1));
    bad.push(facts(1, "192.0.2.1", u64::MAX));
    let receipt = atlas.take(at(61), &report("a", 5, bad), &members(), &nobody);
    assert_eq!((receipt.taken, receipt.refused), (0, vec![(Reason::Malformed, 9)]));
    let lies = Report { exchanged: Exchanged { links: 1, forwarded: 2 }, ..report("a", 6, vec![]) };
    assert_eq!(atlas.take(at(61), &lies, &members(), &nobody).refused, [(Reason::Malformed, 1)]);
}

#[test]
fn of_a_hosts_links_the_strongest_are_kept() {
    let mut atlas = Atlas::new(Bounds { links_of_host_max: 3, links_max: 5, ..Bounds::default() });
    let links: Vec<(u64, u32)> = (0..9).map(|n| (n, 10 + n as u32)).chain([(0, 50), (4, 0)]).collect();
    for host in 1..=3 {
        let told = HostFacts { links: links.clone(), ..facts(host, "192.0.2.1", 1) };
        atlas.take(at(0), &report("a", u64::from(host), vec![told]), &members(), &Owners::default());
    }
    let kept: Vec<Vec<(u64, u32)>> = atlas.hosts().map(|(_, known)| known.told[0].links.clone()).collect();
    assert!(kept.contains(&vec![(0, 60), (7, 17), (8, 18)]), "{kept:?}");
    assert_eq!((atlas.links(), kept.iter().map(Vec::len).sum::<usize>()), (5, 5));
}

/// Random reports in three memories, merged in any order, stored and restored: the same knowledge.
#[test]
fn memories_merge_in_any_order_and_survive_being_stored() {
    let mut random = Seeded::new(11);
    let part = |random: &mut Seeded, from: u64| {
        let mut atlas = Atlas::new(Bounds::default());
        for number in 1..40u64 {
            let agent = ["a", "b", "c"][random.below(3) as usize];
            let hosts = (0..random.below(6))
                .map(|_| {
                    let mut told = facts(random.below(20) as u32, "192.0.2.1", random.below(100));
                    told.address = format!("192.0.2.{}", told.pages % 7 + 1).parse().unwrap();
                    told
                })
                .collect();
            let peers =
                vec![("c".to_string(), RttMedian { micros: 1 + random.below(90) as u32, samples: 7 })];
            let exchanged = Exchanged { links: number * 10, forwarded: number };
            let told = Report { peers, exchanged, ..report(agent, from + number, hosts) };
            // No two instants are the same: which of two accounts is later is never left to chance.
            atlas.take(at((from + number) * 100_000), &told, &members(), &Owners::default());
        }
        atlas
    };
    let parts = [part(&mut random, 0), part(&mut random, 1000), part(&mut random, 2000)];
    let knowledge = |order: [usize; 3]| {
        let mut all = Atlas::new(Bounds::default());
        order.iter().for_each(|at| all.merge(&parts[*at]));
        let names = all.agents().to_vec();
        let hosts: Vec<String> = all
            .hosts()
            .map(|(key, known)| {
                let told = known.told.iter().map(|told| format!("{}{told:?}", names[told.agent as usize]));
                let told = told.map(|text| text.replace(&format!("{:?}", "agent"), ""));
                format!("{key} {:?}", told.map(|text| strip_agent(&text)).collect::<Vec<_>>())
            })
            .collect();
        (hosts, all.links(), all.exchanged(0), all.pages())
    };
    let one = knowledge([0, 1, 2]);
    for order in [[2, 1, 0], [1, 0, 2], [2, 0, 1]] {
        assert_eq!(knowledge(order), one);
    }
    let stored = parts[0].memory();
    let back = Atlas::restore(Bounds::default(), stored.clone()).unwrap();
    assert_eq!(back.memory(), stored);
    assert_eq!((back.links(), back.pages()), (parts[0].links(), parts[0].pages()));
}

/// Without the agent's number, which depends on who was met first.
fn strip_agent(text: &str) -> String {
    let (before, after) = text.split_once("agent: ").unwrap();
    format!("{before}{}", after.split_once(',').unwrap().1)
}

#[test]
fn a_damaged_memory_is_refused() {
    let mut atlas = Atlas::new(Bounds::default());
    atlas.take(at(0), &report("a", 1, vec![facts(1, "192.0.2.1", 1)]), &members(), &Owners::default());
    let good = atlas.memory();
    let mut bad = vec![good.clone(), good.clone(), good.clone(), good.clone()];
    bad[0].numbers.clear();
    bad[1].hosts[0].told[0].agent = 7;
    bad[2].hosts[0].told.clear();
    bad[3].rtt[0].1[0].agent = 9;
    for bad in bad {
        assert!(Atlas::restore(Bounds::default(), bad).is_err());
    }
    let small = Bounds { hosts_max: 0, ..Bounds::default() };
    assert!(Atlas::restore(small, good).unwrap_err().to_string().contains("more hosts than may be"));
}

#[test]
fn what_is_old_is_forgotten_and_an_owner_before_is_still_heard() {
    let mut atlas = Atlas::new(Bounds::default());
    let mut owners = owners(1);
    // A newer table gives everything to c; a report that is under way by the older one is good.
    let mut newer = RoutingTable { version: 2, destinations: members(), ..RoutingTable::default() };
    newer.blocks.insert("0.0.0.0/0".parse().unwrap(), 2);
    newer.hosts.insert(1, Exception { owner: 2, address: None });
    owners.install(&InForce::new(newer));
    let told = Report { version: 1, ..report("a", 1, vec![facts(1, "192.0.2.1", 10)]) };
    assert_eq!(atlas.take(at(0), &told, &members(), &owners).taken, 1);
    let told = Report { version: 2, ..report("c", 1, vec![facts(1, "192.0.2.1", 4)]) };
    assert_eq!(atlas.take(at(5), &told, &members(), &owners).taken, 1);
    let (_, known) = atlas.hosts().next().unwrap();
    assert_eq!(
        (known.told.len(), known.told[0].pages, atlas.rtt("192.0.2.1".parse().unwrap()).len()),
        (2, 4, 2)
    );
    atlas.forget(at(31 * DAY));
    assert_eq!((atlas.hosts().len(), atlas.links()), (0, 0));
}
