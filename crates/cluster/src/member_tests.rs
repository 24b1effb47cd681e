//! Membership with tables that always answer.

use super::*;
use crate::record::{RECORD_VERSION, Role};
use crate::route::{Epoch, RouteMember, RouteStep};

const ID: NodeId = NodeId(7);

fn at(millis: u64) -> Monotonic {
    Monotonic::from_millis(millis)
}

fn profile(folder: u64) -> NodeRecord {
    let mut record = NodeRecord::new(ID, "seven", "127.0.0.1:9007".parse().unwrap());
    record.roles = [Role::Index].into();
    record.folder = folder;
    record
}

fn member(folder: u64, disk: MemberDisk, now: u64) -> Member {
    Member::start(profile(folder), disk, Times::default(), Rules::default(), folder, at(now))
}

/// The tables, with a cluster in them.
#[derive(Default)]
struct Tables {
    keys: BTreeMap<String, (Vec<u8>, u64)>,
    revision: u64,
}

impl Tables {
    fn new() -> Tables {
        let mut tables = Tables::default();
        let cluster = ClusterRecord {
            v: RECORD_VERSION,
            id: "one".to_string(),
            created: 0,
            wire: 1,
            shards: 2,
            replicas: 1,
        };
        tables.put(&Key::Cluster.to_string(), write(&cluster));
        tables
    }

    fn put(&mut self, key: &str, value: Vec<u8>) {
        self.revision += 1;
        self.keys.insert(key.to_string(), (value, self.revision));
    }

    fn give_number(&mut self, no: u16) {
        let numbers = NumberTable {
            v: RECORD_VERSION,
            version: 1,
            term: 1,
            next: no + 1,
            numbers: [(ID, NodeNo(no))].into(),
        };
        self.put(&Key::Numbers.to_string(), write(&numbers));
    }

    fn record(&self) -> NodeRecord {
        let key = Key::Node(ID).to_string();
        read(&key, &self.keys[&key].0).unwrap()
    }

    fn turn(&mut self, member: &mut Member, millis: u64) {
        let now = at(millis);
        for (key, (value, revision)) in &self.keys {
            member.heard(key, Some(value), Revision(*revision), now);
        }
        for key in member.wants() {
            let found = self.keys.get(&key);
            let revision = found.map_or(Revision::NONE, |(_, revision)| Revision(*revision));
            member.heard(&key, found.map(|(value, _)| &value[..]), revision, now);
        }
        for write in member.tick(now) {
            let found = self.keys.get(&write.key).map_or(0, |(_, revision)| *revision);
            let outcome = match Revision(found) == write.expected {
                true => {
                    self.put(&write.key, write.value.clone().unwrap());
                    WriteOutcome::Written(Revision(self.revision))
                }
                false => WriteOutcome::Conflict,
            };
            member.wrote(&write.key, outcome, now);
        }
    }
}

#[test]
fn a_node_joins_gets_its_number_and_is_up() {
    let (mut tables, mut node) = (Tables::new(), member(1, MemberDisk::default(), 0));
    tables.turn(&mut node, 0);
    assert_eq!((node.phase(), node.is_active(at(0))), (&Phase::Joining, false));
    tables.give_number(3);
    tables.turn(&mut node, 200);
    assert_eq!((node.phase(), node.no()), (&Phase::Up, Some(NodeNo(3))));
    assert!(node.is_active(at(20_199)) && !node.is_active(at(20_200)));
    assert_eq!((tables.record().state, tables.record().no), (NodeState::Up, Some(NodeNo(3))));
    let revision = tables.revision;
    tables.turn(&mut node, 5_199);
    assert_eq!(tables.revision, revision, "it renews every five seconds, not sooner");
    tables.turn(&mut node, 5_200);
    assert_eq!(tables.revision, revision + 1);
}

#[test]
fn a_restart_on_the_same_machine_does_not_wait() {
    let (mut tables, mut node) = (Tables::new(), member(1, MemberDisk::default(), 0));
    tables.give_number(3);
    tables.turn(&mut node, 0);
    let mut again = member(1, node.disk().clone(), 1_000);
    tables.turn(&mut again, 1_000);
    tables.turn(&mut again, 1_001);
    assert_eq!((again.phase(), tables.record().incarnation), (&Phase::Up, 2));
}

#[test]
fn a_copied_folder_waits_until_the_other_is_silent_and_then_the_other_stops() {
    let (mut tables, mut node) = (Tables::new(), member(1, MemberDisk::default(), 0));
    tables.give_number(3);
    tables.turn(&mut node, 0);
    let mut twin = member(2, node.disk().clone(), 0);
    for second in 0..100 {
        tables.turn(&mut node, second * 1000);
        tables.turn(&mut twin, second * 1000);
        assert_eq!(twin.phase(), &Phase::Waiting);
    }
    assert!(twin.trouble().unwrap().contains("a copy of this folder"));
    // The last renewal was at 95 s or a little later; the node sleeps from 100 s on.
    for second in 100..140 {
        tables.turn(&mut twin, second * 1000);
        assert!(!(twin.is_active(at(second * 1000)) && node.is_active(at(second * 1000))), "{second}");
    }
    assert_eq!(twin.phase(), &Phase::Up);
    tables.turn(&mut node, 140_000);
    tables.turn(&mut node, 140_200);
    assert_eq!(node.phase(), &Phase::Waiting);
}

#[test]
fn a_buried_node_stops_and_joins_as_a_new_incarnation() {
    let (mut tables, mut node) = (Tables::new(), member(1, MemberDisk::default(), 0));
    tables.give_number(3);
    tables.turn(&mut node, 0);
    tables.turn(&mut node, 100);
    let buried = NodeRecord { state: NodeState::Dead, ..tables.record() };
    tables.put(&Key::Node(ID).to_string(), write(&buried));
    let key = Key::Node(ID).to_string();
    node.heard(&key, Some(&write(&buried)), Revision(tables.revision), at(5_000));
    assert!(!node.is_active(at(5_000)));
    tables.turn(&mut node, 5_001);
    tables.turn(&mut node, 5_002);
    assert_eq!((node.phase(), tables.record().incarnation), (&Phase::Up, 2));
}

#[test]
fn a_drained_node_leaves_once_it_has_no_replicas() {
    use crate::{ReplicaEntry, ReplicaState};
    let (mut tables, mut node) = (Tables::new(), member(1, MemberDisk::default(), 0));
    tables.give_number(3);
    let mut map = ShardMap::new(1, 1);
    map.version = 1;
    map.shards[0].replicas = vec![ReplicaEntry { node: ID, state: ReplicaState::Serving }];
    tables.put(&Key::Shards.to_string(), write(&map));
    for millis in [0, 200] {
        tables.turn(&mut node, millis);
    }
    node.drain(at(300));
    for millis in (300..10_000).step_by(200) {
        tables.turn(&mut node, millis);
        assert_eq!(node.phase(), &Phase::Draining);
        assert!(node.is_active(at(millis)));
    }
    (map.version, map.shards[0].replicas) = (2, Vec::new());
    tables.put(&Key::Shards.to_string(), write(&map));
    node.report(NodeReport { busy: true, ..NodeReport::default() });
    tables.turn(&mut node, 10_000);
    assert_eq!(node.phase(), &Phase::Draining);
    node.report(NodeReport::default());
    // Before anybody can read that it has left, it has stopped.
    let mut leaving = node.tick(at(10_100));
    assert!(leaving.pop().is_some() && !node.is_active(at(10_100)));
    node.wrote(&Key::Node(ID).to_string(), WriteOutcome::Unknown, at(10_150));
    tables.turn(&mut node, 10_200);
    tables.turn(&mut node, 10_300);
    assert_eq!((node.phase(), tables.record().state), (&Phase::Left, NodeState::Left));
    assert!(!node.is_active(at(10_200)));
}

#[test]
fn an_older_map_is_passed_over_also_after_a_restart() {
    let (mut tables, mut node) = (Tables::new(), member(1, MemberDisk::default(), 0));
    let map = |version| ShardMap { version, term: 1, ..ShardMap::new(2, 1) };
    let key = Key::Shards.to_string();
    let hear = |node: &mut Member, version| node.heard(&key, Some(&write(&map(version))), Revision(9), at(0));
    hear(&mut node, 5);
    hear(&mut node, 4);
    assert_eq!(node.shards().unwrap().version, 5);
    tables.turn(&mut node, 0);
    assert_eq!(tables.record().seen.shards, 5);
    let mut again = member(1, node.disk().clone(), 0);
    hear(&mut again, 4);
    assert_eq!(again.shards(), None);
    hear(&mut again, 5);
    assert_eq!(again.shards().unwrap().version, 5);
}

#[test]
fn another_cluster_and_another_wire_are_refused_with_a_sentence() {
    let mut tables = Tables::new();
    let disk = MemberDisk { cluster: Some("two".to_string()), ..MemberDisk::default() };
    let mut node = member(1, disk, 0);
    tables.turn(&mut node, 0);
    assert!(matches!(node.phase(), Phase::Refused(why) if why.contains("belongs to cluster two")));
    let mut other = NodeRecord::new(NodeId(8), "eight", "127.0.0.1:9008".parse().unwrap());
    other.wire = (2, 3);
    tables.put(&Key::Node(NodeId(8)).to_string(), write(&other));
    let mut node = member(1, MemberDisk::default(), 0);
    tables.turn(&mut node, 0);
    assert!(node.trouble().unwrap().ends_with("upgrade this node first"));
    assert!(!tables.keys.contains_key(&Key::Node(ID).to_string()), "nothing was written");
}

#[test]
fn a_drained_agent_stays_until_others_have_its_hosts() {
    let (mut tables, mut node) = (Tables::new(), member(1, MemberDisk::default(), 0));
    tables.give_number(3);
    let put = |tables: &mut Tables, epoch, settled, share, before: &[RouteStep]| {
        let of = |share| RouteMember { incarnation: 1, share };
        let members = [(NodeNo(3), of(share)), (NodeNo(4), of(100))].into();
        let newest = RouteStep { epoch: Epoch(epoch), members, table: None };
        let record = RouteRecord {
            v: RECORD_VERSION,
            term: 1,
            settled,
            newest,
            before: before.to_vec(),
            seed: 1,
            bequests: Vec::new(),
            why: String::new(),
        };
        tables.put(&Key::Route.to_string(), write(&record));
        record.newest
    };
    let first = put(&mut tables, 1, true, 100, &[]);
    for millis in [0, 200, 400] {
        tables.turn(&mut node, millis);
    }
    assert_eq!((node.route().unwrap().epoch(), node.disk().seen.epoch), (Epoch(1), Epoch(1)));
    node.drain(at(500));
    put(&mut tables, 2, false, 0, &[first]);
    for millis in (500..10_000).step_by(200) {
        tables.turn(&mut node, millis);
        assert_eq!(node.phase(), &Phase::Draining, "the table before may still give it something");
    }
    // Who waits for a release is told at once.
    let revision = tables.revision;
    node.report(NodeReport { released: Epoch(2), ..NodeReport::default() });
    tables.turn(&mut node, 10_000);
    assert_eq!((tables.revision, tables.record().report.released), (revision + 1, Epoch(2)));
    put(&mut tables, 2, true, 0, &[]);
    tables.turn(&mut node, 10_200);
    tables.turn(&mut node, 10_400);
    assert_eq!(node.phase(), &Phase::Left);
    // A table from before is passed over.
    let mut again = member(1, node.disk().clone(), 11_000);
    put(&mut tables, 1, true, 100, &[]);
    tables.turn(&mut again, 11_000);
    assert_eq!(again.route(), None);
}
