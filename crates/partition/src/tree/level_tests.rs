//! Three levels with nine agents, each level planned by its own partitioner from what its children told it.

use super::member_tests::walk;
use super::view::LevelTables;
use super::{Kind, Member, Sent};
use crate::replan::{Decision, Exchanged, HostFacts, Replanner, Report, Rule, Scope, Settings, Why};
use crate::table::{Route, Router, host_key};
use crate::{Agent, RoutingTable};
use farol_base::{Random, Seeded, Timestamp};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

const GROUPS: [&str; 3] = ["A", "B", "C"];

fn at(minutes: u32) -> Timestamp {
    Timestamp::from_secs(1_700_000_000) + Duration::from_secs(60) * minutes
}

fn node(group: usize, n: usize) -> String {
    format!("{}{n}", GROUPS[group])
}

/// Nine nodes, three groups, one group of groups.
fn members() -> BTreeMap<String, Member> {
    let mut members: BTreeMap<String, Member> = BTreeMap::new();
    let deliver = |members: &mut BTreeMap<String, Member>, mut letters: Vec<Sent>| {
        while let Some((to, message)) = letters.pop() {
            if let Some(member) = members.get_mut(&to) {
                letters.extend(member.take(message));
            }
        }
    };
    for group in 0..3 {
        for n in 0..3 {
            let name = node(group, n);
            let member = Member::define_node(&name, Kind::Robot, &format!("machine of {name}")).unwrap();
            members.insert(name, member);
        }
        let first = node(group, 0);
        let sent = members.get_mut(&first).unwrap().define_group(GROUPS[group], Kind::LocalGroup).unwrap();
        deliver(&mut members, sent);
        for n in 1..3 {
            let asked = members[&node(group, n)].join(GROUPS[group], &first);
            deliver(&mut members, vec![asked]);
        }
    }
    let sent = members.get_mut("A0").unwrap().define_group("M", Kind::WideGroup).unwrap();
    deliver(&mut members, sent);
    for first in ["B0", "C0"] {
        let asked = members[first].join("M", "A0");
        deliver(&mut members, vec![asked]);
    }
    members
}

/// 360 hosts in nine communities of 40; every seventh is Brazilian.
fn name_of(n: u32) -> String {
    if n.is_multiple_of(7) { format!("http://h{n}.com.br") } else { format!("http://h{n}.test") }
}

fn facts(n: u32) -> HostFacts {
    let mut random = Seeded::new(u64::from(n));
    let links = (0..8).map(|_| (host_key(&name_of(n / 40 * 40 + random.below(40) as u32)), 3)).collect();
    let address = IpAddr::from([10, (n / 100) as u8, (n % 100) as u8, 1]);
    HostFacts { host: name_of(n), address, pages: 10, rtt: None, position: None, language: None, links }
}

fn plan(planner: &mut Replanner, now: Timestamp) -> Why {
    let decision = planner.job(now).unwrap().run().unwrap();
    planner.decided(now, &decision);
    match decision {
        Decision::Publish { table, why, .. } => {
            planner.installed(table);
            why
        }
        Decision::Keep { why, .. } => why,
    }
}

fn owner(table: &RoutingTable, facts: &HostFacts) -> String {
    match Router::new(table).route_host(&facts.host, Some(facts.address)) {
        Route::To(owner) => table.destinations[owner as usize].clone(),
        Route::Hold => panic!("{} is nobody's", facts.host),
    }
}

#[test]
fn three_levels_plan_each_on_their_own_and_urls_find_home() {
    let members = members();
    for member in members.values() {
        // l(c − 1) + 1 with l = 2 levels above the nodes and c = 3 children.
        assert_eq!(member.entities(), 5, "{}", member.name());
    }
    let to_b = Rule { scope: Scope::Domain("br".to_string()), to: "B".to_string() };
    let mut top = Replanner::new(Settings { rules: vec![to_b], ..Settings::default() }).unwrap();
    let mut groups: Vec<Replanner> = (0..3).map(|_| Replanner::new(Settings::default()).unwrap()).collect();
    for (group, planner) in groups.iter_mut().enumerate() {
        planner.set_agents((0..3).map(|n| Agent::named(node(group, n))).collect());
        assert_eq!(plan(planner, at(0)), Why::First);
    }
    top.set_agents(groups.iter().zip(GROUPS).map(|(planner, name)| planner.as_agent(name)).collect());
    assert_eq!(plan(&mut top, at(0)), Why::First);
    let all: Vec<HostFacts> = (0..360).map(facts).collect();
    // Twice: by hash first; then what the top level has given to other groups is told to those by its new owners.
    for round in 1..=2u32 {
        let now = at(60 * round);
        let above = top.in_force().unwrap().clone();
        for (group, planner) in groups.iter_mut().enumerate() {
            planner.stay_within(&above, GROUPS[group]);
            let own = planner.in_force().unwrap().clone();
            let hosts: Vec<&HostFacts> =
                all.iter().filter(|facts| owner(&above, facts) == GROUPS[group]).collect();
            for agent in &own.destinations {
                let hosts =
                    hosts.iter().filter(|facts| owner(&own, facts) == *agent).map(|facts| (*facts).clone());
                let hosts: Vec<HostFacts> = hosts.collect();
                let count = hosts.len();
                let (number, version) = (2 * u64::from(round), own.version);
                let report = Report { agent: agent.clone(), version, number, hosts, ..Report::default() };
                assert_eq!(planner.take(now, &report).taken, count);
            }
            // What is another group's is none of ours.
            let stranger = all.iter().find(|facts| owner(&above, facts) != GROUPS[group]).unwrap().clone();
            let report = Report {
                agent: node(group, 0),
                number: 2 * u64::from(round) + 1,
                hosts: vec![stranger],
                ..Report::default()
            };
            assert_eq!(planner.take(now, &report).taken, 0);
            for report in
                planner.report_as(GROUPS[group], above.version, u64::from(round), Exchanged::default())
            {
                assert_eq!(top.take(now, &report).refused, []);
            }
        }
        if round == 1 {
            assert_eq!(plan(&mut top, now), Why::Saves);
        } else {
            groups.iter_mut().for_each(|planner| assert_eq!(plan(planner, now), Why::Saves));
        }
    }
    let above = top.in_force().unwrap();
    let tables: BTreeMap<String, LevelTables> = members
        .keys()
        .map(|name| {
            let mut own = LevelTables::default();
            let group = GROUPS.iter().position(|group| name.starts_with(group)).unwrap();
            own.install("M", above);
            own.install(GROUPS[group], groups[group].in_force().unwrap());
            (name.clone(), own)
        })
        .collect();
    let (mut most, mut crossed, mut links) = (0, 0, 0);
    let home = |facts: &HostFacts| {
        let group = owner(above, facts);
        owner(groups[GROUPS.iter().position(|name| *name == group).unwrap()].in_force().unwrap(), facts)
    };
    let homes: BTreeMap<u64, String> = all.iter().map(|facts| (host_key(&facts.host), home(facts))).collect();
    for facts in &all {
        let own = &homes[&host_key(&facts.host)];
        for from in members.keys() {
            let (reached, hops) = walk(&members, &tables, from, &facts.host, Some(facts.address));
            assert_eq!(reached, *own, "{} from {from}", facts.host);
            most = most.max(hops);
        }
        assert!(!facts.host.ends_with(".br") || own.starts_with('B'), "{} is {own}'s", facts.host);
        for (to, count) in &facts.links {
            links += count;
            crossed += if homes[to] == *own { 0 } else { *count };
        }
    }
    // log_3 9 = 2; a hash would let eight of nine links cross.
    assert_eq!(most, 2);
    assert!(crossed * 2 < links, "{crossed} of {links} cross");
    // What no table names finds one home too, from wherever it is met; Brazilians within their branch.
    for n in 0..200 {
        let (host, address) = (format!("http://new{n}.test"), IpAddr::from([172, 16, n as u8, 9]));
        for (host, address) in
            [(&host, Some(address)), (&host, None), (&format!("http://n{n}.br"), Some(address))]
        {
            let found: Vec<(String, usize)> =
                members.keys().map(|from| walk(&members, &tables, from, host, address)).collect();
            assert!(found.iter().all(|(home, hops)| *home == found[0].0 && *hops <= 2), "{host}: {found:?}");
            assert!(!host.ends_with(".br") || found[0].0.starts_with('B'), "{host}: {found:?}");
        }
    }
}
