//! The leader with tables that always answer.

use super::*;
use crate::order::{Order, place};
use crate::record::{AgentMark, NodeReport, ReplicaReport};
use crate::{ArchivePosition, ReplicaState};

/// A leader with tables that always answer.
struct Trial {
    keys: BTreeMap<String, (Option<Vec<u8>>, u64)>,
    revision: u64,
    control: Control,
    now: u64,
}

fn at(millis: u64) -> Monotonic {
    Monotonic::from_millis(millis)
}

fn node_key(id: u64) -> String {
    Key::Node(NodeId(id)).to_string()
}

impl Trial {
    fn new(shards: u32, replicas: u32) -> Trial {
        let control = Control::new(NodeId(99), 1, Times::default(), Rules::default(), 1, at(0));
        let mut trial = Trial { keys: BTreeMap::new(), revision: 0, control, now: 0 };
        let cluster = ClusterRecord { v: 1, id: "one".to_string(), created: 0, wire: 1, shards, replicas };
        trial.put("cluster", Some(write(&cluster)));
        trial
    }

    fn put(&mut self, key: &str, value: Option<Vec<u8>>) {
        self.revision += 1;
        self.keys.insert(key.to_string(), (value, self.revision));
    }

    fn get<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        read(key, self.keys.get(key)?.0.as_deref()?).ok()
    }

    fn map(&self) -> ShardMap {
        self.get("table.shards").expect("a map")
    }

    /// A node's renewal; its replicas have all that they are to have.
    fn renew(&mut self, id: u64, change: impl FnOnce(&mut NodeRecord)) {
        let address = "127.0.0.1:9000".parse().unwrap();
        let mut record = NodeRecord::new(NodeId(id), &format!("n{id}"), address);
        record.roles = [Role::Index, Role::Rank].into();
        record.state = NodeState::Up;
        record.no = self
            .get::<NumberTable>("table.numbers")
            .and_then(|table| table.numbers.get(&NodeId(id)).copied());
        let report = ReplicaReport { lag_ms: Some(1), ..ReplicaReport::default() };
        if let Some(map) = self.get::<ShardMap>("table.shards") {
            record.report = NodeReport {
                replicas: map.replicas_of(NodeId(id)).map(|shard| (shard.id, report.clone())).collect(),
                ..NodeReport::default()
            };
        }
        change(&mut record);
        self.put(&node_key(id), Some(write(&record)));
    }

    /// Some seconds, in which these nodes renew.
    fn run(&mut self, seconds: u64, alive: &[u64]) {
        for _ in 0..seconds {
            self.now += 1000;
            if self.now.is_multiple_of(5000) {
                alive.iter().for_each(|id| self.renew(*id, |_| {}));
            }
            self.turn();
        }
    }

    fn turn(&mut self) {
        let now = at(self.now);
        for (key, (value, revision)) in &self.keys {
            self.control.heard(key, value.as_deref(), Revision(*revision), now);
        }
        for key in self.control.wants() {
            let found = self.keys.get(&key).filter(|(value, _)| value.is_some());
            let revision = found.map_or(Revision::NONE, |(_, revision)| Revision(*revision));
            let value = found.and_then(|(value, _)| value.as_deref());
            self.control.heard(&key, value, revision, now);
        }
        for write in self.control.tick(now) {
            let present = self.keys.get(&write.key).filter(|(value, _)| value.is_some());
            let present = present.map_or(0, |(_, revision)| *revision);
            let outcome = match write.expected == Revision(present) {
                true => {
                    self.put(&write.key, write.value.clone());
                    WriteOutcome::Written(Revision(self.revision))
                }
                false => WriteOutcome::Conflict,
            };
            self.control.wrote(&write.key, outcome, now);
        }
    }
}

fn born(shards: u32, replicas: u32, nodes: &[u64]) -> Trial {
    let mut trial = Trial::new(shards, replicas);
    nodes.iter().for_each(|id| trial.renew(*id, |_| {}));
    trial.run(30, nodes);
    trial
}

#[test]
fn a_cluster_is_born_with_numbers_and_replicas_that_serve() {
    let trial = born(4, 2, &[1, 2, 3]);
    let numbers: NumberTable = trial.get("table.numbers").unwrap();
    assert_eq!(numbers.numbers.values().map(|no| no.0).collect::<Vec<_>>(), [1, 2, 3]);
    let map = trial.map();
    map.check().unwrap();
    assert!(map.shards.iter().all(|shard| shard.replicas.len() == 2 && shard.is_settled()), "{map:?}");
    assert_eq!(trial.get::<RankTable>("table.ranks").unwrap().node, Some(NodeId(1)));
    assert!(trial.get::<StateRecord>("state").unwrap().version > 0);
    assert_eq!(map.term, trial.control.term(at(trial.now)).unwrap());
}

#[test]
fn where_nothing_changes_nothing_is_written_but_leases() {
    let mut trial = born(4, 2, &[1, 2, 3]);
    trial.run(30, &[1, 2, 3]);
    let before: Vec<_> =
        ["table.numbers", "table.shards", "table.ranks", "state"].map(|key| trial.keys[key].1).into();
    trial.run(100, &[1, 2, 3]);
    let after: Vec<_> =
        ["table.numbers", "table.shards", "table.ranks", "state"].map(|key| trial.keys[key].1).into();
    assert_eq!(before, after);
}

#[test]
fn a_silent_node_is_buried_and_its_replicas_go_to_others() {
    let mut trial = born(4, 2, &[1, 2, 3]);
    trial.run(29, &[1, 2]);
    assert_eq!(trial.get::<NodeRecord>(&node_key(3)).unwrap().state, NodeState::Up);
    trial.run(12, &[1, 2]);
    assert_eq!(trial.get::<NodeRecord>(&node_key(3)).unwrap().state, NodeState::Dead);
    trial.run(12, &[1, 2]);
    let map = trial.map();
    assert!(map.replicas_of(NodeId(3)).next().is_none());
    assert!(map.shards.iter().all(|shard| shard.replicas.len() == 2 && shard.is_settled()), "{map:?}");
}

#[test]
fn an_order_is_taken_exactly_once_also_where_its_deletion_got_lost() {
    let mut trial = born(1, 1, &[1, 2]);
    let wanted = place(OrderId(5), Order::Split { shard: ShardId(0) });
    trial.put(&wanted.key, wanted.value.clone());
    let refused = place(OrderId(6), Order::Split { shard: ShardId(7) });
    trial.put(&refused.key, refused.value.clone());
    trial.run(3, &[1, 2]);
    assert_eq!(trial.map().taken(OrderId(5)).unwrap().refused, None);
    assert!(trial.map().taken(OrderId(6)).unwrap().refused.as_ref().unwrap().contains("no shard 7"));
    assert_eq!(trial.keys[&wanted.key].0, None);
    // As if the deletion had never happened, and another leader took over.
    trial.put(&wanted.key, wanted.value.clone());
    trial.control = Control::new(NodeId(98), 1, Times::default(), Rules::default(), 2, at(trial.now));
    trial.run(120, &[1, 2]);
    assert_eq!(trial.keys[&wanted.key].0, None);
    assert_eq!(trial.map().next, 3, "split once");
    assert_eq!(trial.map().read().count(), 2);
    trial.map().check().unwrap();
}

#[test]
fn a_replica_serves_only_once_it_has_what_the_others_have() {
    let mut trial = born(1, 1, &[1, 2]);
    let home = trial.map().shards[0].replicas[0].node.0;
    let other = 3 - home;
    let mark = |offset| {
        let position = ArchivePosition { file: 0, offset };
        let from = [(NodeNo(7), AgentMark { position, number: 0 })].into();
        ReplicaReport {
            mark: ReplicaMark { stream: "s".to_string(), seq: offset, from },
            lag_ms: Some(1),
            ..ReplicaReport::default()
        }
    };
    let copies = place(OrderId(1), Order::Replicas { copies: 2 });
    trial.put(&copies.key, copies.value);
    let tell = |trial: &mut Trial, has: u64| {
        trial.renew(home, |record| drop(record.report.replicas.insert(ShardId(0), mark(9))));
        trial.renew(other, |record| drop(record.report.replicas.insert(ShardId(0), mark(has))));
        trial.run(2, &[]);
        trial.map().shards[0].replica(NodeId(other))
    };
    tell(&mut trial, 0);
    assert_eq!(
        tell(&mut trial, 8),
        Some(ReplicaState::Joining),
        "its log has ended, and still it lacks something"
    );
    assert_eq!(tell(&mut trial, 9), Some(ReplicaState::Serving));
    // The log may forget what both have, and a snapshot too.
    assert_eq!(trial.control.trims(at(trial.now)), []);
    let snapshot = SnapshotPointer {
        v: 1,
        number: 1,
        node: NodeId(home),
        manifest: String::new(),
        before: None,
        mark: ReplicaMark { seq: 5, ..mark(5).mark },
        at: 0,
    };
    trial.put("snap.0", Some(write(&snapshot)));
    trial.run(1, &[]);
    assert_eq!(trial.control.trims(at(trial.now)), [Trim { shard: ShardId(0), upto: 5 }]);
}

#[test]
fn a_node_that_was_ordered_to_leave_is_emptied() {
    let mut trial = born(3, 1, &[1, 2]);
    let drain = place(OrderId(1), Order::Drain { node: NodeId(1) });
    trial.put(&drain.key, drain.value);
    trial.run(20, &[1, 2]);
    let map = trial.map();
    assert!(map.leaving.contains_key(&NodeId(1)) && map.replicas_of(NodeId(1)).next().is_none(), "{map:?}");
    assert!(map.shards.iter().all(|shard| shard.is_settled() && shard.replicas.len() == 1));
}

#[test]
fn who_reads_a_greater_term_leads_no_more() {
    let mut trial = born(1, 1, &[1]);
    let map = trial.map();
    let later = ShardMap { term: map.term + 1000, version: map.version + 1, ..map };
    trial.put("table.shards", Some(write(&later)));
    let (value, revision) = trial.keys["table.shards"].clone();
    trial.control.heard("table.shards", value.as_deref(), Revision(revision), at(trial.now));
    assert_eq!(trial.control.term(at(trial.now)), None);
}

/// A renewal of an agent that has released the newest epoch.
fn crawl(trial: &mut Trial, id: u64, change: impl FnOnce(&mut NodeRecord)) {
    let epoch = trial.get::<RouteRecord>("table.route").map(|route| route.epoch()).unwrap_or_default();
    trial.renew(id, |record| {
        record.roles = [Role::Crawl].into();
        record.incarnation = 1;
        record.report.released = epoch;
        change(record);
    });
}

#[test]
fn agents_get_a_table_and_the_dead_an_undertaker() {
    let mut trial = born(1, 1, &[9]);
    assert_eq!(trial.get::<RouteRecord>("table.route"), None, "nobody crawls");
    for _ in 0..8 {
        crawl(&mut trial, 1, |_| {});
        trial.run(1, &[9]);
    }
    let route: RouteRecord = trial.get("table.route").unwrap();
    assert_eq!((route.epoch().0, route.settled, route.newest.members.len()), (1, true, 1));
    for _ in 0..8 {
        (1..=3).for_each(|id| crawl(&mut trial, id, |_| {}));
        trial.run(1, &[9]);
    }
    let route: RouteRecord = trial.get("table.route").unwrap();
    assert_eq!((route.settled, route.newest.members.len()), (true, 3), "{route:?}");
    assert_eq!(route.term, trial.control.term(at(trial.now)).unwrap());
    // One that has a backup dies.
    let no = trial.get::<NodeRecord>(&node_key(2)).unwrap().no.unwrap();
    trial.put(&Key::Backup(no).to_string(), Some(b"{}".to_vec()));
    for _ in 0..9 {
        [1, 3].iter().for_each(|id| crawl(&mut trial, *id, |_| {}));
        trial.run(5, &[9]);
    }
    let route: RouteRecord = trial.get("table.route").unwrap();
    assert!(!route.newest.members.contains_key(&no) && route.settled, "{route:?}");
    assert_eq!(route.bequests.len(), 1);
    let key = Key::Undertake(no).to_string();
    let named: UndertakeRecord = trial.get(&key).unwrap();
    assert_eq!((named.no, named.done), (no, false));
    trial.put(&key, Some(write(&UndertakeRecord { done: true, ..named })));
    trial.run(2, &[9]);
    let after: RouteRecord = trial.get("table.route").unwrap();
    assert_eq!((after.bequests.len(), after.epoch()), (0, route.epoch()));
    // A better table becomes the next epoch.
    let members = after.newest.members.keys().copied().collect();
    let table = Some(crate::route::TableBlob { name: "route/1".to_string(), digest: "d".to_string() });
    trial.control.propose(Proposal { table: table.clone(), members, why: "nearer".to_string() });
    trial.run(2, &[9]);
    let last: RouteRecord = trial.get("table.route").unwrap();
    assert_eq!((last.newest.table, last.why.as_str(), last.settled), (table, "nearer", false));
}
