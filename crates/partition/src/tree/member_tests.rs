//! The thesis' trees, and random ones with losses (spec §1.7, §1.8).

use super::view::{Next, next, table_of};
use super::*;
use crate::table::{Builder, Placed, Router, Unknown};
use farol_base::{Random, Seeded};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Members that talk to each other.
struct Net {
    members: BTreeMap<String, Member>,
    letters: Vec<Sent>,
    messages: usize,
}

impl Net {
    fn new() -> Net {
        Net { members: BTreeMap::new(), letters: Vec::new(), messages: 0 }
    }

    fn sir(&mut self, name: &str) {
        let member = Member::define_sir(name, Kind::Robot, &format!("Node of {name}")).unwrap();
        self.members.insert(name.to_string(), member);
    }

    fn sire(&mut self, on: &str, name: &str, kind: Kind) {
        let sent = self.members.get_mut(on).unwrap().define_sire(name, kind).unwrap();
        self.post(sent);
        self.settle();
    }

    /// The topmost entity of `who` joins `into`, by asking `asked`.
    fn join(&mut self, who: &str, into: &str, asked: &str) {
        let sent = self.members[who].join(into, asked);
        self.post(vec![sent]);
        self.settle();
    }

    fn post(&mut self, sent: Vec<Sent>) {
        self.letters.extend(sent);
    }

    /// Delivers everything; answers how many rounds that took.
    fn settle(&mut self) -> usize {
        let mut rounds = 0;
        while !self.letters.is_empty() {
            rounds += 1;
            for (to, message) in std::mem::take(&mut self.letters) {
                self.messages += 1;
                if let Some(member) = self.members.get_mut(&to) {
                    let sent = member.take(message);
                    self.letters.extend(sent);
                }
            }
            assert!(rounds < 100, "messages without end");
        }
        rounds
    }

    fn gossip(&mut self, rounds: usize, random: &mut Seeded) {
        for _ in 0..rounds {
            let sent: Vec<Sent> =
                self.members.values().filter(|m| !m.is_gone()).filter_map(|m| m.gossip(random)).collect();
            self.post(sent);
            self.settle();
        }
    }
}

/// The tree of Fig. 3.4: 27 SIRs in threes, up to SIRe M.
fn tree_of_27() -> Net {
    let mut net = Net::new();
    (1..=27).for_each(|n| net.sir(&format!("SIR {n}")));
    let locals = ["A", "B", "C", "D", "E", "F", "G", "H", "I"];
    for (at, letter) in locals.iter().enumerate() {
        let (first, sire) = (format!("SIR {}", 3 * at + 1), format!("SIRe {letter}"));
        net.sire(&first, &sire, Kind::LocalSire);
        net.join(&format!("SIR {}", 3 * at + 2), &sire, &first);
        net.join(&format!("SIR {}", 3 * at + 3), &sire, &first);
    }
    for (at, letter) in ["J", "K", "L"].iter().enumerate() {
        let (first, sire) = (format!("SIR {}", 9 * at + 1), format!("SIRe {letter}"));
        net.sire(&first, &sire, Kind::WideSire);
        net.join(&format!("SIR {}", 9 * at + 4), &sire, &first);
        net.join(&format!("SIR {}", 9 * at + 7), &sire, &first);
    }
    net.sire("SIR 1", "SIRe M", Kind::WideSire);
    net.join("SIR 10", "SIRe M", "SIR 1");
    net.join("SIR 19", "SIRe M", "SIR 1");
    net
}

/// The last word of names.
fn short(names: &[String]) -> String {
    let words: Vec<&str> = names.iter().filter_map(|name| name.split(' ').next_back()).collect();
    words.join(",")
}

#[test]
fn tables_3_7_to_3_9_come_out() {
    let net = tree_of_27();
    for (sir, want) in [
        ("SIR 1", "A(1,2,3) J(A,B,C) M(J,K,L)"),
        ("SIR 20", "G(19,20,21) L(G,H,I) M(J,K,L)"),
        ("SIR 26", "I(25,26,27) L(G,H,I) M(J,K,L)"),
    ] {
        let ascendants = net.members[sir].ascendants();
        let shown: Vec<String> = ascendants
            .iter()
            .map(|(sire, of)| format!("{}({})", short(std::slice::from_ref(sire)), short(of)))
            .collect();
        assert_eq!(shown.join(" "), want);
        // l(c − 1) + 1 with l = c = 3.
        assert_eq!(net.members[sir].entities(), 7);
        // Whoever is not in one's own line has somebody to answer for it, and that one has an address.
        let answering = net.members[sir].representatives();
        assert_eq!(answering.len(), 4);
        for sirs in answering.values() {
            assert!(!sirs.is_empty() && sirs.iter().all(|sir| net.members[sir.as_str()].name() == sir));
            assert!(net.members[sir].addresses().contains_key(&sirs[0]), "{sirs:?}");
        }
    }
    for member in net.members.values() {
        assert_eq!(member.entities(), 7, "{}", member.name());
    }
}

#[test]
fn a_newcomer_is_known_within_as_many_rounds_as_there_are_levels() {
    let mut net = tree_of_27();
    net.sir("SIR 28");
    let before = net.messages;
    let sent = net.members["SIR 28"].join("SIRe I", "SIR 27");
    net.post(vec![sent]);
    // One round to ask, one to answer, and the news goes down level by level.
    let rounds = net.settle();
    assert!(rounds <= 2 + 3, "{rounds} rounds");
    assert!(net.messages - before <= 2 + 28, "{} messages", net.messages - before);
    assert_eq!(short(&net.members["SIR 25"].ascendants()[0].1), "25,26,27,28");
    assert_eq!(net.members["SIR 28"].entities(), 8);
}

#[test]
fn wrong_requests_are_refused_with_a_reason() {
    let mut net = Net::new();
    net.sir("SIR 1");
    net.sir("SIR 2");
    assert!(Member::define_sir("x", Kind::WideSire, "n").is_err());
    net.sire("SIR 1", "SIRe A", Kind::LocalSire);
    net.sire("SIR 2", "SIRe B", Kind::LocalSire);
    let member = net.members.get_mut("SIR 1").unwrap();
    assert_eq!(
        member.define_sire("SIRe A", Kind::WideSire).unwrap_err().to_string(),
        "there is an entity SIRe A already; choose another name"
    );
    assert!(member.define_sire("SIR 9", Kind::Robot).is_err());
    assert!(member.define_sire("SIRe X", Kind::LocalSire).is_err());
    // A SIRe in a local SIRe; a SIRe that the asked one is not in.
    for into in ["SIRe A", "SIRe Z"] {
        let (_, message) = net.members["SIR 2"].join(into, "SIR 1");
        let sent = net.members.get_mut("SIR 1").unwrap().take(message);
        assert!(matches!(&sent[..], [(to, Message::Refused { .. })] if to == "SIR 2"), "{sent:?}");
    }
    assert!(net.members.get_mut("SIR 1").unwrap().declare_failed("SIR 77").is_err());
}

#[test]
fn more_machines_and_departures_are_told() {
    let mut net = tree_of_27();
    let sent = net.members.get_mut("SIR 20").unwrap().add_node("Node extra");
    net.post(sent);
    net.settle();
    assert_eq!(net.members["SIR 19"].addresses()["SIR 20"].len(), 2);
    let sent = net.members.get_mut("SIR 20").unwrap().leave();
    net.post(sent);
    net.settle();
    for sir in ["SIR 19", "SIR 21"] {
        assert_eq!(short(&net.members[sir].ascendants()[0].1), "19,21");
    }
    // Nobody takes it for one who answers for SIRe G any more.
    for member in net.members.values().filter(|member| member.name() != "SIR 20") {
        for sirs in member.representatives().values() {
            assert!(!sirs.contains(&"SIR 20".to_string()), "{}: {sirs:?}", member.name());
        }
    }
}

#[test]
fn one_who_is_wrongly_taken_for_dead_comes_back() {
    let mut net = tree_of_27();
    let sent = net.members.get_mut("SIR 19").unwrap().declare_failed("SIR 20").unwrap();
    net.post(sent);
    net.settle();
    // Nobody tells the dead; it hears of it when it talks to others.
    let mut random = Seeded::new(3);
    net.gossip(6, &mut random);
    for sir in ["SIR 19", "SIR 20", "SIR 21"] {
        assert_eq!(short(&net.members[sir].ascendants()[0].1), "19,20,21", "{sir}");
    }
}

/// Every URL finds home from everywhere in at most three hops.
#[test]
fn urls_find_home_in_as_many_hops_as_there_are_levels() {
    let net = tree_of_27();
    let sirs: Vec<String> = (1..=27).map(|n| format!("SIR {n}")).collect();
    let hosts: Vec<String> = (0..81).map(|n| format!("http://h{n}.test")).collect();
    let address = |n: usize| IpAddr::from([198, 51, n as u8, 7]);
    let placed: Vec<Placed<'_>> = hosts
        .iter()
        .enumerate()
        .map(|(n, host)| Placed { host, address: Some(address(n)), pages: 1, owner: (n / 3) as u32 })
        .collect();
    let all = Builder::default().build(sirs.clone(), &placed, 1, Unknown::Hold).unwrap();
    let lines: BTreeMap<String, Vec<String>> =
        net.members.iter().map(|(name, member)| (name.clone(), member.line()[1..].to_vec())).collect();
    let tables: BTreeMap<&String, _> = net
        .members
        .iter()
        .map(|(name, member)| {
            let table = table_of(member, &all, &lines).unwrap();
            let router = Router::new(&table);
            (name, (table, router))
        })
        .collect();
    let mut most = 0;
    for (n, host) in hosts.iter().enumerate() {
        for from in &sirs {
            let (mut at, mut hops) = (from.clone(), 0);
            loop {
                let (table, router) = &tables[&at];
                match next(&net.members[&at], table, router, host, Some(address(n))) {
                    Next::Here => break,
                    Next::To(sirs) => at = sirs[0].clone(),
                    Next::Hold => panic!("{host} is nobody's at {at}"),
                }
                hops += 1;
                assert!(hops <= 3, "{host} from {from}");
            }
            assert_eq!(at, sirs[n / 3]);
            most = most.max(hops);
        }
    }
    assert_eq!(most, 3);
    // Tables are smaller the farther away: siblings, then one entry per branch.
    assert!(tables[&sirs[0]].0.blocks.len() < all.blocks.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Some messages are lost, in any order; after some gossip everybody knows what is so.
    #[test]
    fn lost_messages_are_made_good(seed in any::<u64>(), loss in 0u64..60) {
        let mut random = Seeded::new(seed);
        let mut net = tree_of_27();
        let mut gone: Vec<String> = Vec::new();
        for _ in 0..4 {
            let name = format!("SIR {}", 1 + random.below(27));
            if !gone.contains(&name) {
                let sent = net.members.get_mut(&name).unwrap().leave();
                net.post(sent);
                gone.push(name);
            }
            // In any order, and not all of them.
            while !net.letters.is_empty() {
                let at = random.below(net.letters.len() as u64) as usize;
                let (to, message) = net.letters.swap_remove(at);
                if random.below(100) >= loss && let Some(member) = net.members.get_mut(&to) {
                    let sent = member.take(message);
                    net.letters.extend(sent);
                }
            }
        }
        // The departed do not answer any more.
        gone.iter().for_each(|name| drop(net.members.remove(name)));
        // Where nobody heard the farewell a neighbour finds out when the lease runs out.
        for name in &gone {
            let neighbour = net.members.values().find(|member| {
                member.ascendants().first().is_some_and(|(_, siblings)| siblings.contains(name))
            });
            if let Some(neighbour) = neighbour.map(|member| member.name().to_string()) {
                let sent = net.members.get_mut(&neighbour).unwrap().declare_failed(name).unwrap();
                net.post(sent.into_iter().filter(|_| random.below(100) >= loss).collect());
                net.settle();
            }
        }
        net.gossip(30, &mut random);
        for member in net.members.values() {
            for (sire, children) in member.ascendants() {
                for child in &children {
                    prop_assert!(!gone.contains(child), "{} still has {child} in {sire}", member.name());
                }
            }
        }
    }
}
