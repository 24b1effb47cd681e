//! The thesis' trees, and random ones with losses [Exposto08 §3.4, §3.5].

use super::view::{LevelTables, Next};
use super::*;
use crate::RoutingTable;
use crate::table::{Builder, Placed, Unknown};
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

    fn node(&mut self, name: &str) {
        let member = Member::define_node(name, Kind::Robot, &format!("machine of {name}")).unwrap();
        self.members.insert(name.to_string(), member);
    }

    fn group(&mut self, on: &str, name: &str, kind: Kind) {
        let sent = self.members.get_mut(on).unwrap().define_group(name, kind).unwrap();
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

/// The tree of Fig. 3.4: 27 nodes in threes, up to Group M.
fn tree_of_27() -> Net {
    let mut net = Net::new();
    (1..=27).for_each(|n| net.node(&format!("Node {n}")));
    let locals = ["A", "B", "C", "D", "E", "F", "G", "H", "I"];
    for (at, letter) in locals.iter().enumerate() {
        let (first, group) = (format!("Node {}", 3 * at + 1), format!("Group {letter}"));
        net.group(&first, &group, Kind::LocalGroup);
        net.join(&format!("Node {}", 3 * at + 2), &group, &first);
        net.join(&format!("Node {}", 3 * at + 3), &group, &first);
    }
    for (at, letter) in ["J", "K", "L"].iter().enumerate() {
        let (first, group) = (format!("Node {}", 9 * at + 1), format!("Group {letter}"));
        net.group(&first, &group, Kind::WideGroup);
        net.join(&format!("Node {}", 9 * at + 4), &group, &first);
        net.join(&format!("Node {}", 9 * at + 7), &group, &first);
    }
    net.group("Node 1", "Group M", Kind::WideGroup);
    net.join("Node 10", "Group M", "Node 1");
    net.join("Node 19", "Group M", "Node 1");
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
    for (node, want) in [
        ("Node 1", "A(1,2,3) J(A,B,C) M(J,K,L)"),
        ("Node 20", "G(19,20,21) L(G,H,I) M(J,K,L)"),
        ("Node 26", "I(25,26,27) L(G,H,I) M(J,K,L)"),
    ] {
        let ascendants = net.members[node].ascendants();
        let shown: Vec<String> = ascendants
            .iter()
            .map(|(group, of)| format!("{}({})", short(std::slice::from_ref(group)), short(of)))
            .collect();
        assert_eq!(shown.join(" "), want);
        // l(c − 1) + 1 with l = c = 3.
        assert_eq!(net.members[node].entities(), 7);
        // Whoever is not in one's own line has somebody to answer for it, and that one has an address.
        let answering = net.members[node].representatives();
        assert_eq!(answering.len(), 4);
        for nodes in answering.values() {
            assert!(!nodes.is_empty() && nodes.iter().all(|node| net.members[node.as_str()].name() == node));
            assert!(net.members[node].addresses().contains_key(&nodes[0]), "{nodes:?}");
        }
    }
    for member in net.members.values() {
        assert_eq!(member.entities(), 7, "{}", member.name());
    }
}

#[test]
fn a_newcomer_is_known_within_as_many_rounds_as_there_are_levels() {
    let mut net = tree_of_27();
    net.node("Node 28");
    let before = net.messages;
    let sent = net.members["Node 28"].join("Group I", "Node 27");
    net.post(vec![sent]);
    // One round to ask, one to answer, and the news goes down level by level.
    let rounds = net.settle();
    assert!(rounds <= 2 + 3, "{rounds} rounds");
    assert!(net.messages - before <= 2 + 28, "{} messages", net.messages - before);
    assert_eq!(short(&net.members["Node 25"].ascendants()[0].1), "25,26,27,28");
    assert_eq!(net.members["Node 28"].entities(), 8);
}

#[test]
fn wrong_requests_are_refused_with_a_reason() {
    let mut net = Net::new();
    net.node("Node 1");
    net.node("Node 2");
    assert!(Member::define_node("x", Kind::WideGroup, "n").is_err());
    net.group("Node 1", "Group A", Kind::LocalGroup);
    net.group("Node 2", "Group B", Kind::LocalGroup);
    let member = net.members.get_mut("Node 1").unwrap();
    assert_eq!(
        member.define_group("Group A", Kind::WideGroup).unwrap_err().to_string(),
        "there is an entity Group A already; choose another name"
    );
    assert!(member.define_group("Node 9", Kind::Robot).is_err());
    assert!(member.define_group("Group X", Kind::LocalGroup).is_err());
    // A group in a local group; a group that the asked one is not in.
    for into in ["Group A", "Group Z"] {
        let (_, message) = net.members["Node 2"].join(into, "Node 1");
        let sent = net.members.get_mut("Node 1").unwrap().take(message);
        assert!(matches!(&sent[..], [(to, Message::Refused { .. })] if to == "Node 2"), "{sent:?}");
    }
    assert!(net.members.get_mut("Node 1").unwrap().declare_failed("Node 77").is_err());
}

#[test]
fn more_machines_and_departures_are_told() {
    let mut net = tree_of_27();
    let sent = net.members.get_mut("Node 20").unwrap().add_machine("machine extra");
    net.post(sent);
    net.settle();
    assert_eq!(net.members["Node 19"].addresses()["Node 20"].len(), 2);
    let sent = net.members.get_mut("Node 20").unwrap().leave();
    net.post(sent);
    net.settle();
    for node in ["Node 19", "Node 21"] {
        assert_eq!(short(&net.members[node].ascendants()[0].1), "19,21");
    }
    // Nobody takes it for one who answers for Group G any more.
    for member in net.members.values().filter(|member| member.name() != "Node 20") {
        for nodes in member.representatives().values() {
            assert!(!nodes.contains(&"Node 20".to_string()), "{}: {nodes:?}", member.name());
        }
    }
}

#[test]
fn one_who_is_wrongly_taken_for_dead_comes_back() {
    let mut net = tree_of_27();
    let sent = net.members.get_mut("Node 19").unwrap().declare_failed("Node 20").unwrap();
    net.post(sent);
    net.settle();
    // Nobody tells the dead; it hears of it when it talks to others.
    let mut random = Seeded::new(3);
    net.gossip(6, &mut random);
    for node in ["Node 19", "Node 20", "Node 21"] {
        assert_eq!(short(&net.members[node].ascendants()[0].1), "19,20,21", "{node}");
    }
}

/// The table of a group, condensed from that of all nodes.
fn level_table(group: &str, all: &RoutingTable, net: &Net) -> RoutingTable {
    let mut names: Vec<String> = vec!["elsewhere".to_string()];
    let to: Vec<u32> = all
        .destinations
        .iter()
        .map(|node| {
            let line = net.members[node].line();
            let Some(at) = line.iter().position(|name| name == group) else { return 0 };
            let child = line[at - 1].clone();
            names.iter().position(|name| *name == child).unwrap_or_else(|| {
                names.push(child);
                names.len() - 1
            }) as u32
        })
        .collect();
    all.condense(&to, names).unwrap()
}

/// Follows a URL home; answers where that is, and after how many hops.
pub(super) fn walk(
    members: &BTreeMap<String, Member>,
    tables: &BTreeMap<String, LevelTables>,
    from: &str,
    host: &str,
    address: Option<IpAddr>,
) -> (String, usize) {
    let (mut at, mut hops) = (from.to_string(), 0);
    loop {
        match tables[&at].next(&members[&at], host, address) {
            Next::Here => return (at, hops),
            Next::To(nodes) => at = nodes[0].clone(),
            Next::Hold => panic!("{host} is nobody's at {at}"),
        }
        hops += 1;
        assert!(hops < 20, "{host} goes round from {from}");
    }
}

/// Every URL finds home from everywhere in at most three hops.
#[test]
fn urls_find_home_in_as_many_hops_as_there_are_levels() {
    let net = tree_of_27();
    let nodes: Vec<String> = (1..=27).map(|n| format!("Node {n}")).collect();
    let hosts: Vec<String> = (0..81).map(|n| format!("http://h{n}.test")).collect();
    let address = |n: usize| IpAddr::from([198, 51, n as u8, 7]);
    let placed: Vec<Placed<'_>> = hosts
        .iter()
        .enumerate()
        .map(|(n, host)| Placed { host, address: Some(address(n)), pages: 1, owner: (n / 3) as u32 })
        .collect();
    let all = Builder::default().build(nodes.clone(), &placed, 1, Unknown::Hold).unwrap();
    let mut tables: BTreeMap<String, LevelTables> = BTreeMap::new();
    for (name, member) in &net.members {
        let own = tables.entry(name.clone()).or_default();
        for (group, _) in member.ascendants() {
            assert!(own.install(&group, &level_table(&group, &all, &net)));
        }
        own.keep_line_of(member);
        assert_eq!(own.versions().count(), 3);
    }
    let mut most = 0;
    for (n, host) in hosts.iter().enumerate() {
        for from in &nodes {
            let (home, hops) = walk(&net.members, &tables, from, host, Some(address(n)));
            assert_eq!(home, nodes[n / 3]);
            most = most.max(hops);
        }
    }
    assert_eq!(most, 3);
    // Tables are smaller the farther away: one entry per branch.
    assert!(level_table("Group M", &all, &net).blocks.len() < all.blocks.len());
}

#[test]
fn the_least_burdened_answer_for_a_group() {
    let mut net = tree_of_27();
    for n in 1..=3 {
        let sent = net.members.get_mut(&format!("Node {n}")).unwrap().measured(10 * (4 - n), 0.5);
        net.post(sent);
        net.settle();
    }
    // A little more is nobody's business.
    assert!(net.members.get_mut("Node 3").unwrap().measured(11, 0.5).is_empty());
    let mut random = Seeded::new(8);
    net.gossip(6, &mut random);
    let answering = net.members["Node 4"].answering("Group A");
    assert!(answering.len() >= 2, "{answering:?}");
    assert_eq!(answering[0], "Node 3", "{answering:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    /// Some messages are lost, some come twice, in any order; after some gossip everybody knows what is so.
    #[test]
    fn lost_messages_are_made_good(seed in any::<u64>(), loss in 0u64..60) {
        let mut random = Seeded::new(seed);
        let mut net = tree_of_27();
        let mut gone: Vec<String> = Vec::new();
        for _ in 0..4 {
            let name = format!("Node {}", 1 + random.below(27));
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
                    // Some come twice.
                    let again = (random.below(5) == 0).then(|| message.clone());
                    let sent = member.take(message);
                    net.letters.extend(sent);
                    net.letters.extend(again.map(|message| (to, message)));
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
            for (group, children) in member.ascendants() {
                for child in &children {
                    prop_assert!(!gone.contains(child), "{} still has {child} in {group}", member.name());
                }
            }
        }
    }
}
