//! A cluster as people are shown it: what its nodes told, put together, and what needs a look.

use crate::graph::known::position_of;
use crate::handles::cluster::ClusterView;
use farol_base::{Clock, SystemClock, Timestamp};
use farol_cluster::planned::{GainRecord, LastPlanRecord, OutcomeRecord, PastEpoch, PlanRecord};
use farol_cluster::record::{NodeRecord, ReplicaReport, Role};
use farol_cluster::{NodeId, NodeNo, NodeState, ReplicaState, ShardEntry, ShardId, ShardMap, ShardState};
use farol_fabric::FabricState;
use farol_front::{
    ClusterAgent, ClusterLeader, ClusterLog, ClusterNode, ClusterPlan, ClusterReplica, ClusterRoute,
    ClusterShard, ClusterStatus, ClusterWarning, FabricServer, LastPlan, PlanCell, PlanEpoch, PlanGain,
    PlanOutcome,
};
use std::time::Duration;

/// A log that is fuller than this needs a look.
const FILL_MAX: f64 = 0.8;
/// A replica that is further behind needs a look.
const LAG_MAX: Duration = Duration::from_secs(60);
/// With less room than this on its disk a node needs a look.
const ROOM_MIN: u64 = 1 << 30;

/// Puts together what is known.
pub fn status_of(name: &str, view: &ClusterView, fabric: &FabricState) -> ClusterStatus {
    let mut status = ClusterStatus {
        name: name.to_string(),
        me: view.me.to_string(),
        leader: view
            .leader
            .as_ref()
            .filter(|leader| !leader.resigned && leader.term > 0)
            .map(|leader| ClusterLeader { node: leader.node.to_string(), term: leader.term }),
        nodes: view.nodes.values().map(|record| node(record, view)).collect(),
        shards: view.shards.as_deref().map_or_else(Vec::new, |map| shards(map, view)),
        agents: view.nodes.values().filter(|node| crawls(node)).map(agent).collect(),
        route: view.route.as_ref().map(|route| ClusterRoute {
            epoch: route.epoch().0,
            is_settled: route.settled,
            why: route.why.clone(),
        }),
        plan: view.plan.as_deref().map(|plan| plan_of(plan, view)),
        logs: fabric
            .streams
            .iter()
            .map(|stream| ClusterLog {
                name: log_name(name, &stream.name),
                messages: stream.messages,
                bytes: stream.bytes,
                bytes_max: stream.bytes_max,
            })
            .collect(),
        servers: fabric
            .servers
            .iter()
            .map(|server| FabricServer {
                // Told apart by it, so it is never empty.
                name: if server.name.is_empty() { server.address.clone() } else { server.name.clone() },
                address: server.address.clone(),
                version: server.version.clone(),
                is_reached: server.is_reached,
            })
            .collect(),
        sync_always: fabric.sync_always,
        warnings: Vec::new(),
        maps: Vec::new(),
    };
    balance(&mut status, view);
    status.nodes.sort_by_key(|node| (node.no.is_none(), node.no));
    let versions = [
        ("shards", view.shards.as_ref().map(|map| map.version)),
        ("route", view.route.as_ref().map(|route| route.epoch().0)),
        ("ranks", view.ranks.as_ref().map(|ranks| ranks.version)),
        ("state", view.state.as_ref().map(|state| state.version)),
    ];
    status.maps =
        versions.into_iter().filter_map(|(name, version)| Some((name.to_string(), version?))).collect();
    status.warnings = warnings(&status, view, fabric);
    status
}

/// `docs.3` for `FAROL_books_DOCS_3`.
fn log_name(cluster: &str, stream: &str) -> String {
    let own = stream.strip_prefix("FAROL_").and_then(|rest| rest.strip_prefix(cluster));
    own.map_or(stream, |rest| rest.trim_start_matches('_')).to_ascii_lowercase().replace('_', ".")
}

fn node(record: &NodeRecord, view: &ClusterView) -> ClusterNode {
    ClusterNode {
        id: record.id.to_string(),
        no: record.no.map(|no| no.0),
        name: record.name.clone(),
        state: match record.state {
            NodeState::Joining => farol_front::NodeState::Joining,
            NodeState::Up => farol_front::NodeState::Up,
            NodeState::Draining => farol_front::NodeState::Draining,
            NodeState::Left => farol_front::NodeState::Left,
            NodeState::Dead => farol_front::NodeState::Dead,
        },
        roles: record.roles.iter().map(|role| role_name(*role).to_string()).collect(),
        zone: record.zone.clone(),
        address: Some(record.rpc),
        version: record.program.clone(),
        wire: record.wire,
        age: view.heard.get(&record.id).map_or(Duration::ZERO, |heard| heard.elapsed()),
        load: f64::from(record.report.load) / 100.0,
        free_bytes: Some(record.report.room).filter(|room| *room > 0),
        trouble: record.report.trouble.clone(),
    }
}

fn crawls(node: &NodeRecord) -> bool {
    !node.state.is_gone() && node.roles.contains(&Role::Crawl)
}

fn agent(node: &NodeRecord) -> ClusterAgent {
    let report = &node.report;
    ClusterAgent {
        node: node.id.to_string(),
        place: node.place.country.clone(),
        position: position_of(node).map(|place| (place.latitude(), place.longitude())),
        capacity: node.capacity,
        planned_pages: 0,
        balance: None,
        hosts: report.agent.hosts,
        pages: report.agent.pages,
        pages_minute: report.agent.pages_minute,
        urls_sent: report.agent.urls_sent,
        urls_received: report.agent.urls_received,
        outbox: report.outbox,
        hosts_leaving: report.agent.hosts_leaving,
        hosts_coming: report.agent.hosts_coming,
        epoch: node.seen.epoch.0,
        released: report.released.0,
    }
}

/// Pages of agents by the table in force, and these over their shares.
fn balance(status: &mut ClusterStatus, view: &ClusterView) {
    let Some(plan) = &view.plan else { return };
    let told = |node: &str| {
        let no = view.nodes.values().find(|record| record.id.to_string() == node)?.no?;
        plan.agents.get(&no).map(|told| told.pages)
    };
    for agent in &mut status.agents {
        agent.planned_pages = told(&agent.node).unwrap_or(0);
    }
    let pages: u64 = status.agents.iter().map(|agent| agent.planned_pages).sum();
    let capacity: u64 = status.agents.iter().map(|agent| u64::from(agent.capacity)).sum();
    for agent in status.agents.iter_mut().filter(|agent| pages > 0 && agent.capacity > 0) {
        let share = pages as f64 * f64::from(agent.capacity) / capacity as f64;
        agent.balance = Some(agent.planned_pages as f64 / share);
    }
}

fn plan_of(plan: &PlanRecord, view: &ClusterView) -> ClusterPlan {
    let id = |no: &NodeNo| {
        let node = view.nodes.values().find(|record| record.no == Some(*no));
        node.map_or_else(|| no.to_string(), |record| record.id.to_string())
    };
    let name = |who: &String| {
        let node = view.nodes.values().find(|record| record.no.is_some_and(|no| no.to_string() == *who));
        node.map_or_else(|| who.clone(), |record| record.name.clone())
    };
    let gain = |gain: &GainRecord| PlanGain {
        exchange_before: gain.exchange_before,
        exchange_after: gain.exchange_after,
        rtt_before: gain.rtt_before,
        rtt_after: gain.rtt_after,
        pages: gain.pages,
        pages_moved: gain.moved_named + gain.moved_hashed + gain.orphaned,
        load_before: gain.overload_before,
        load_after: gain.overload_after,
    };
    let last = |last: &LastPlanRecord| LastPlan {
        number: last.number,
        at: Timestamp::from_millis(last.at),
        trigger: last.trigger.clone(),
        is_published: last.published,
        why: last.why.clone(),
        gain: gain(&last.gain),
        moves: last.moves.iter().map(|(from, to, pages)| (from.as_ref().map(id), id(to), *pages)).collect(),
        took: Duration::from_millis(last.took),
    };
    let outcome = |one: &OutcomeRecord| PlanOutcome {
        version: one.version,
        at: Timestamp::from_millis(one.at),
        expected: gain(&one.expected),
        links: one.links,
        forwarded: one.forwarded,
    };
    let epoch = |past: &PastEpoch| PlanEpoch {
        epoch: past.epoch,
        at: Timestamp::from_millis(past.at),
        why: past.why.clone(),
    };
    let cell = |(no, north, east, pages): &(NodeNo, i16, i16, u64)| PlanCell {
        node: id(no),
        // The middle of a cell of five degrees, which was cut to whole ones.
        north: f64::from(*north) + 0.5,
        east: f64::from(*east) + 0.5,
        pages: *pages,
    };
    ClusterPlan {
        last: plan.last.as_ref().map(last),
        hosts: plan.known.hosts,
        pages: plan.known.pages,
        links: plan.known.links,
        addresses: plan.known.addresses,
        times: plan.known.times.clone().into_iter().collect(),
        refused: plan.refused.iter().map(|(who, why, count)| (name(who), why.clone(), *count)).collect(),
        outcomes: plan.outcomes.iter().map(outcome).collect(),
        epochs: plan.epochs.iter().map(epoch).collect(),
        cells: plan.cells.iter().map(cell).collect(),
        trouble: plan.trouble.clone(),
    }
}

/// A role as people write it.
pub fn role_name(role: Role) -> &'static str {
    match role {
        Role::Crawl => "crawl",
        Role::Index => "index",
        Role::Cache => "cache",
        Role::Front => "front",
        Role::Control => "control",
        Role::Rank => "rank",
        Role::Other => "other",
    }
}

fn shards(map: &ShardMap, view: &ClusterView) -> Vec<ClusterShard> {
    let mut shards: Vec<&ShardEntry> = map.shards.iter().collect();
    shards.sort_by_key(|shard| (shard.from, shard.id));
    shards.into_iter().map(|shard| shard_of(shard, view)).collect()
}

fn report(view: &ClusterView, node: NodeId, shard: ShardId) -> Option<&ReplicaReport> {
    view.nodes.get(&node).filter(|record| !record.state.is_gone())?.report.replicas.get(&shard)
}

fn shard_of(entry: &ShardEntry, view: &ClusterView) -> ClusterShard {
    let replicas: Vec<ClusterReplica> = entry
        .replicas
        .iter()
        .map(|replica| {
            let report = report(view, replica.node, entry.id);
            ClusterReplica {
                node: replica.node.to_string(),
                state: match replica.state {
                    ReplicaState::Joining => farol_front::ReplicaState::Joining,
                    ReplicaState::Serving => farol_front::ReplicaState::Serving,
                    ReplicaState::Leaving => farol_front::ReplicaState::Leaving,
                },
                lag: Duration::from_millis(report.and_then(|report| report.lag_ms).unwrap_or(0)),
                mark: report.map_or(0, |report| report.mark.seq),
                pages: report.map_or(0, |report| report.documents),
            }
        })
        .collect();
    ClusterShard {
        id: entry.id.0,
        share: ((entry.to - entry.from) as f64 + 1.0) / 2f64.powi(64),
        state: match entry.state {
            ShardState::Serving => farol_front::ShardState::Serving,
            ShardState::Forming { .. } => farol_front::ShardState::Forming,
            ShardState::Splitting { .. } => farol_front::ShardState::Splitting,
            ShardState::Retired => farol_front::ShardState::Retired,
        },
        pages: replicas.iter().map(|replica| replica.pages).max().unwrap_or(0),
        replicas,
        keeper: entry.keeper.map(|keeper| keeper.to_string()),
        snapshot_age: view
            .snapshots
            .get(&entry.id)
            .map(|snapshot| snapshot.at)
            .filter(|at| *at > 0)
            .map(|at| SystemClock.now().since(Timestamp::from_millis(at))),
    }
}

/// What somebody should look at, the gravest first.
fn warnings(status: &ClusterStatus, view: &ClusterView, fabric: &FabricState) -> Vec<ClusterWarning> {
    let mut found = Vec::new();
    let mut warn =
        |text: String, advice: &str| found.push(ClusterWarning { text, advice: advice.to_string() });
    if let Some(trouble) = &fabric.trouble {
        warn(trouble.clone(), "Search goes on; crawling and indexing wait until NATS is there again.");
    }
    let read = || status.shards.iter().filter(|shard| shard.state != farol_front::ShardState::Retired);
    for shard in
        read().filter(|shard| !shard.is_answered() && shard.state != farol_front::ShardState::Forming)
    {
        warn(
            format!(
                "Nobody answers for shard {}: {:.0}% of the pages are not found.",
                shard.id,
                shard.share * 100.0
            ),
            "Start its nodes again; where they are lost for good, `farol cluster remove NODE`.",
        );
    }
    for server in status.servers.iter().filter(|server| fabric.connected && !server.is_reached) {
        warn(
            format!("The NATS server {} does not answer.", server.address),
            "The others carry on while they are more than half; start it again before a second one fails.",
        );
    }
    if status.leader.is_none() {
        warn(
            "Nobody leads: nothing is planned, and no node gets a new replica.".to_string(),
            "A leader is found within 35 s where a node with the role control runs.",
        );
    }
    let copies = view.shards.as_ref().map_or(0, |map| map.copies as usize);
    for shard in read().filter(|shard| shard.is_answered()) {
        let serving = shard
            .replicas
            .iter()
            .filter(|replica| replica.state == farol_front::ReplicaState::Serving)
            .count();
        if serving < copies {
            warn(
                format!("Shard {} has {serving} of {copies} replicas that answer.", shard.id),
                "Another is filled by itself where there is a node for it; otherwise start one more.",
            );
        }
        for replica in shard.replicas.iter().filter(|replica| replica.lag > LAG_MAX) {
            let (name, secs) = (status.name_of(&replica.node), replica.lag.as_secs());
            warn(
                format!("The replica of shard {} on {name} is {secs} s behind.", shard.id),
                "Look at the node's disk and load.",
            );
        }
    }
    for node in &status.nodes {
        match node.state {
            farol_front::NodeState::Dead => warn(
                format!("{} has not been heard of and was taken for dead.", node.name),
                "Start it again, or have its replicas given up with `farol cluster remove NODE`.",
            ),
            farol_front::NodeState::Left => {}
            _ => {
                let trouble = node.trouble.iter().map(|trouble| format!("{}: {trouble}", node.name));
                trouble.for_each(|text| warn(text, "Look at the node's log."));
                if node.free_bytes.is_some_and(|free| free < ROOM_MIN) {
                    let free = crate::progress::size(node.free_bytes.unwrap_or(0));
                    warn(
                        format!("{} has {free} left on its disk.", node.name),
                        "Make room, or add a node and `farol cluster rebalance`.",
                    );
                }
            }
        }
    }
    for log in status.logs.iter().filter(|log| log.bytes_max > 0 && log.fill() > FILL_MAX) {
        warn(
            format!("The log {} is {:.0}% full.", log.name, log.fill() * 100.0),
            "Crawling waits when it is full; it empties when all replicas have read it and one has a snapshot.",
        );
    }
    if status.sync_always == Some(false) {
        warn(
            "NATS acknowledges before it has written to disk: a power cut may lose messages, which are then sent again."
                .to_string(),
            "Set sync_interval: always, as `farol cluster nats-config` prints it.",
        );
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_cluster::ReplicaEntry;
    use farol_fabric::ServerSeen;

    fn record(id: u64, name: &str, state: NodeState) -> NodeRecord {
        let mut record = NodeRecord::new(NodeId(id), name, "127.0.0.1:1".parse().unwrap());
        record.state = state;
        record.no = Some(farol_cluster::NodeNo(id as u16));
        record
    }

    fn view(records: &[NodeRecord], map: ShardMap) -> ClusterView {
        let mut view = ClusterView::new(NodeId(0));
        view.nodes = records.iter().map(|record| (record.id, record.clone())).collect();
        view.shards = Some(std::sync::Arc::new(map));
        view
    }

    #[test]
    fn what_needs_a_look_is_said_with_what_to_do() {
        let mut map = ShardMap::new(2, 2);
        let replica = |node, state| ReplicaEntry { node: NodeId(node), state };
        map.shards[0].replicas = vec![replica(1, ReplicaState::Serving), replica(2, ReplicaState::Joining)];
        map.shards[1].replicas = vec![replica(2, ReplicaState::Joining)];
        let mut one = record(1, "one", NodeState::Up);
        one.report
            .replicas
            .insert(ShardId(0), ReplicaReport { documents: 7, lag_ms: Some(90_000), ..Default::default() });
        let view = view(&[one, record(2, "two", NodeState::Dead)], map);
        let server = |address: &str, is_reached| ServerSeen {
            address: address.to_string(),
            is_reached,
            ..ServerSeen::default()
        };
        let fabric = FabricState {
            connected: true,
            servers: vec![server("nats://a:1", true), server("nats://b:1", false)],
            sync_always: Some(false),
            ..FabricState::default()
        };
        let status = status_of("books", &view, &fabric);
        let texts: Vec<&str> = status.warnings.iter().map(|warning| &*warning.text).collect();
        assert!(texts[0].contains("Nobody answers for shard 1: 50%"), "{texts:?}");
        assert!(!texts.iter().any(|text| text.contains("nats://a:1")), "{texts:?}");
        for want in [
            "nats://b:1 does not answer",
            "Nobody leads",
            "has 1 of 2 replicas",
            "90 s behind",
            "taken for dead",
            "written to disk",
        ] {
            assert!(texts.iter().any(|text| text.contains(want)), "{want}: {texts:?}");
        }
        assert!(status.warnings.iter().all(|warning| !warning.advice.is_empty()));
        assert_eq!((status.shards[0].pages, status.nodes.len()), (7, 2));
    }

    #[test]
    fn a_cluster_in_order_has_no_warnings() {
        let mut map = ShardMap::new(1, 1);
        map.shards[0].replicas = vec![ReplicaEntry { node: NodeId(1), state: ReplicaState::Serving }];
        let mut view = view(&[record(1, "one", NodeState::Up)], map);
        let leader = r#"{"v":1,"node":"0000000000000","incarnation":1,"nonce":1,"term":5}"#;
        view.leader = Some(serde_json::from_str(leader).unwrap());
        let at = SystemClock.now().as_millis() - 60_000;
        let snapshot =
            format!(r#"{{"v":1,"number":1,"node":"0000000000000","manifest":"m","mark":{{}},"at":{at}}}"#);
        view.snapshots.insert(ShardId(0), serde_json::from_str(&snapshot).unwrap());
        let status = status_of("books", &view, &FabricState { connected: true, ..FabricState::default() });
        assert_eq!(status.warnings, []);
        assert!(status.shards[0].snapshot_age.is_some_and(|age| (59..100).contains(&age.as_secs())));
        assert_eq!(status.leader.map(|leader| leader.term), Some(5));
    }

    #[test]
    fn logs_are_called_by_their_topic() {
        assert_eq!(log_name("books", "FAROL_books_DOCS_3"), "docs.3");
        assert_eq!(log_name("books", "KV_farol_books"), "kv.farol.books");
    }
}
