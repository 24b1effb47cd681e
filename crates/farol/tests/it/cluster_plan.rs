//! Who crawls what is planned while the crawl runs: agents tell, the leader plans, hosts move, and what the table promised
//! is what agents count. Real processes on a made-up Web with communities; its own log is the judge.

use crate::cluster_fixture::{Cluster, holds};
use crate::fixture::{Web, get, request};
use farol_synthetic::WebConfig;
use farol_synthetic::check::{CheckRules, check};
use serde_json::Value;
use std::time::Duration;

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(String::from).collect()
}

/// A cluster whose planner is quick, with more settings of the test's own.
fn cluster(web: &Web, size: &str, more: &str) -> Cluster {
    let dir = tempfile::tempdir().unwrap();
    let settings = "[index]\ncommit_every = '300ms'\nrank_every = '1s'\n[serve]\nrate_per_minute = 1000000\n\
                    [partition]\nreport_every = '1s'\nplan_gap = '3s'\n";
    std::fs::write(dir.path().join("farol.toml"), format!("{settings}{more}")).unwrap();
    Cluster::up_in(dir, &[words(size), web.flags()].concat())
}

fn add_seed(cluster: &mut Cluster, web: &Web, node: &str) {
    let front = cluster.front(node);
    let key = std::fs::read_to_string(cluster.node(node).join("admin.key")).unwrap();
    let headers = ["Content-Type: application/json", &format!("Authorization: Bearer {}", key.trim())];
    let seed = serde_json::json!({ "url": web.seed() }).to_string();
    assert_eq!(request(front, "POST /api/v1/admin/seeds HTTP/1.0", &headers, &seed).status, 200);
}

#[track_caller]
fn wait_for_agents(cluster: &mut Cluster, count: usize) {
    cluster.wait_for("the agents", |status| {
        let agents = status["agents"].as_array().cloned().unwrap_or_default();
        agents.len() == count && status["route"]["settled"] == true
    });
}

/// The newest table that was published, as far as agents have counted something under it.
fn counted(status: &Value) -> Option<&Value> {
    let outcomes = status["plan"]["outcomes"].as_array()?;
    outcomes.iter().rev().find(|one| one["links"].as_u64() > Some(0))
}

#[test]
fn a_table_is_planned_from_what_agents_tell_and_hosts_move_while_each_page_is_fetched_once() {
    let config = WebConfig { hosts: 60, pages: 1500, communities: 6, neighbours: 0.95, ..WebConfig::tame() };
    let web = Web::start(config);
    let mut cluster = cluster(&web, "--nodes 3 --crawlers 3 --shards 1 --replicas 1 --delay 60ms", "");
    wait_for_agents(&mut cluster, 3);
    add_seed(&mut cluster, &web, "node-2");
    let status = cluster.wait_for("a table that is worth its moves", |status| {
        status["plan"]["last"]["number"].as_u64() > Some(0) && status["plan"]["outcomes"][0].is_object()
    });
    let first = &status["plan"]["outcomes"][0]["expected"];
    assert!(first["exchange_before"].as_f64() > first["exchange_after"].as_f64(), "{first:#}");
    assert!(first["pages_moved"].as_u64() > Some(0), "{first:#}");
    cluster.wait_for("every page", |status| holds(status, 1500));
    let rules = CheckRules { complete: true, delay_min: Duration::from_millis(60), ..CheckRules::default() };
    let report = check(web.server.world(), web.server.log().entries().into_iter(), &rules);
    assert!(report.is_clean(), "{report}\n{}", cluster.log());
    // What is known is told, everybody has a share, and the reason stands beside the table.
    let status = cluster.wait_for("counts under a table", |status| {
        counted(status).is_some() && status["plan"]["hosts"] == 60
    });
    let plan = &status["plan"];
    // Agents that joined after one another may have gone by a table of which the planner never heard.
    let refused = plan["refused"].as_array().unwrap();
    let is_old = |one: &Value| one["why"].as_str().unwrap().contains("not in force");
    assert!(refused.iter().all(is_old), "{plan:#}");
    assert!(
        status["agents"].as_array().unwrap().iter().all(|agent| agent["planned_pages"].as_u64() > Some(0))
    );
    let epochs = plan["epochs"].as_array().unwrap();
    assert!(
        epochs.iter().any(|past| past["why"].as_str().unwrap().contains("links to other agents")),
        "{epochs:?}"
    );
    let shown = String::from_utf8_lossy(&cluster.partition(&["plan", "--running"])).into_owned();
    for want in ["60 hosts at 60 addresses", "It would", "pages planned"] {
        assert!(shown.contains(want), "{want}: {shown}");
    }
    // By order; where nothing has changed the table stays.
    let listed =
        |arguments: &[&str]| String::from_utf8_lossy(&cluster.command(arguments).stdout).into_owned();
    let said = listed(&["replan"]);
    assert!(said.starts_with("The table stays") || said.starts_with("A new table"), "{said}");
    let text = listed(&["agents"]);
    for want in ["LOAD", "last plan", "it was ordered", "measured over"] {
        assert!(text.contains(want), "{want}: {text}");
    }
    let front = cluster.front("node-1");
    let key = std::fs::read_to_string(cluster.node("node-1").join("admin.key")).unwrap();
    let headers = [&*format!("Authorization: Bearer {}", key.trim())];
    let page = get(front, "/admin/cluster?hl=en", &headers).body;
    assert!(page.contains("Who crawls what") && page.contains("it was ordered"), "{page}");
    assert!(get(front, "/metrics", &headers).body.contains("farol_plan_exchange_expected_ratio"));
}
