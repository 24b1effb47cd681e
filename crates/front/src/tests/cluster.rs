//! What people see of a cluster, and that nobody sees any of it where there is none.

use super::*;
use crate::ClusterOrder;
use crate::text::Locale;
use farol_base::query::ShardsAnswered;
use serde_json::json;

fn member() -> Site {
    Site::over(Fake { in_cluster: true, ..Fake::default() }, Settings::default())
}

/// A front whose index has three parts, of which so many answer.
fn answered(answered: u32) -> Site {
    let shards = Some(ShardsAnswered { total: 3, answered });
    Site::over(Fake { shards, ..Fake::default() }, Settings::default())
}

#[tokio::test]
async fn an_engine_by_itself_looks_as_ever() {
    let alone = Site::new(Settings::default());
    let get = async |path: &str| Ask::get(path).admin().send(&alone).await;
    get("/admin?hl=en").await.is(200).lacks("/admin/cluster").lacks("Cluster");
    get("/admin/live?hl=en").await.is(200).lacks("/admin/cluster");
    get("/admin/cluster").await.is(404).says("this process is not a member of a cluster");
    get("/admin/ring").await.is(404).says("farol node --roles cache");
    assert_eq!(get("/api/v1/ring").await.is(404).json()["error"]["code"], "not_found");
    get("/admin/cluster/drain?node=n4d2k7").await.is(404);
    let got = get("/api/v1/cluster").await;
    assert_eq!(got.is(404).json()["error"]["code"], "not_found");
    assert_eq!(get("/api/v1/status").await.json().get("cluster"), None);
    get("/metrics").await.is(200).lacks("farol_cluster").lacks("farol_shard").lacks("farol_node");
    let drain = Ask::json("/api/v1/admin/drain-node", "{\"node\":\"n4d2k7\"}").admin();
    drain.send(&alone).await.is(503).says("this process is not a member of a cluster");
    let answer = alone.get("/api/v1/search?q=farol").await;
    assert_eq!(answer.is(200).json().get("shards"), None);
    alone.get("/search?q=farol&hl=en").await.is(200).lacks("Part of the index");
}

#[tokio::test]
async fn the_cluster_page_tells_all_of_it() {
    let page = Ask::get("/admin/cluster?hl=en").admin().send(&member()).await;
    page.is(200).says("<h1>Cluster litoral</h1>").lacks("<noscript>");
    // Nodes: who leads, who tells this, who can be drained, and what troubles them.
    page.says("<span title=\"b6c1m9\">granito</span> <span class=\"badge\">Leader</span>");
    page.says("<span title=\"n4d2k7\">quartzo</span> <span class=\"badge\">this node</span>");
    page.says("crawl, control, rank").says("192.0.2.13:7070").says("1 h 30 min ago").says("term 1,204");
    page.says("&lt;b&gt;crawling&lt;/b&gt; waits").lacks("<b>crawling</b>");
    assert_eq!(page.body.matches("/admin/cluster/drain?node=").count(), 3, "up and joining ones alone");
    page.lacks("drain?node=z9q8r7").lacks("drain?node=k0p3x5");
    // Shards, and one for which nobody answers.
    page.says("<th scope=\"row\">Shard 0</th>").says("splitting").says("34%").says("5 min 41 s behind");
    page.says("ardósia, catching up").says("5 min 12 s ago").says("(quartzo)").says("does not answer");
    // Logs, servers, warnings with what to do.
    page.says("docs.2").says("75% of 4 GB").says("<span class=\"bad\">100% of 4 GB</span>");
    page.says("192.0.2.3:4222").says("2.10.27").says("set sync_interval: always");
    page.says("No replica answers for shard 2").says("Start turmalina again").lacks("<script>document.title");
    // A lamp's colour is its class, and an element has one list of those.
    page.says("<span class=\"member dead\">").says("<span class=\"member warned\">");
    page.says("<span class=\"member joining\" title=\"catching up\">");
    page.says("shards 17 · ranks 4").says("aria-current=\"page\">Cluster</a>");
}

#[tokio::test]
async fn the_cluster_page_speaks_every_language() {
    let site = member();
    for locale in Locale::ALL {
        let path = format!("/admin/cluster?hl={}", locale.code());
        let page = Ask::get(&path).admin().send(&site).await;
        let texts = locale.texts();
        page.is(200).says(texts.cluster_nodes).says(texts.cluster_warnings).says(texts.replica_joining);
        page.lacks("{").lacks("}");
    }
}

#[tokio::test]
async fn the_dashboard_and_the_status_sum_the_cluster_up() {
    let site = member();
    let get = async |path: &str| Ask::get(path).admin().send(&site).await;
    for path in ["/admin?hl=en", "/admin/live?hl=en"] {
        let page = get(path).await;
        page.is(200).says("2 of 5 nodes up, 2 of 3 shards answer").says("Needs a look: 2");
        page.says("<a href=\"/admin/cluster?hl=en\">Cluster litoral</a>");
    }
    let summary = json!({
        "name": "litoral", "nodes": 5, "nodes_up": 2, "shards": 3, "shards_answered": 2,
        "lag_seconds": 2.3, "warnings": 2,
    });
    assert_eq!(get("/api/v1/status").await.json()["cluster"], summary);
}

#[tokio::test]
async fn programs_are_told_of_the_cluster() {
    let cluster = Ask::get("/api/v1/cluster").admin().send(&member()).await.is(200).json();
    assert_eq!(cluster["leader"], json!({ "node": "b6c1m9", "term": 1204 }));
    assert_eq!(cluster["nodes"][3]["state"], "dead");
    assert_eq!(cluster["nodes"][3]["silent_seconds"], 5400.0);
    assert_eq!(cluster["shards"][0]["replicas"][2]["state"], "joining");
    assert_eq!(cluster["shards"][0]["replicas"][2]["lag_seconds"], 341.0);
    assert_eq!(cluster["shards"][2]["snapshot_age_seconds"], json!(null));
    assert_eq!(cluster["logs"][0]["bytes_max"], 4_000_000_000_u64);
    assert_eq!(cluster["servers"][2]["reached"], false);
    assert_eq!(cluster["tables"][0], json!({ "name": "shards", "version": 17 }));
    assert_eq!(cluster["sync_always"], false);
}

#[tokio::test]
async fn a_cluster_is_measured() {
    let got = Ask::get("/metrics").admin().send(&member()).await;
    got.is(200).says("farol_cluster_nodes{state=\"up\"} 2\n").says("farol_cluster_nodes{state=\"left\"} 0\n");
    got.says("farol_cluster_leader{node=\"granito\"} 1\n").says("farol_cluster_term 1204\n");
    got.says("farol_shard_lag_seconds{shard=\"0\",node=\"ardósia\"} 341\n");
    got.says("farol_shard_replicas{shard=\"2\"} 0\n")
        .says("farol_node_silent_seconds{node=\"turmalina\"} 5400\n");
    got.says("farol_log_bytes{log=\"docs.1\"} 41022118\n").says("farol_fabric_server_up{server=\"n3\"} 0\n");
    got.says("farol_cluster_table_version{table=\"ranks\"} 4\n").says("farol_cluster_warnings 2\n");
    documents::check_metrics(&got.body);
}

#[tokio::test]
async fn a_node_is_drained_after_one_more_question() {
    let site = member();
    let page = Ask::get("/admin/cluster/drain?node=k0p3x5&hl=en").admin().send(&site).await;
    page.is(200).says("Drain basalto?").says("name=\"node\" value=\"k0p3x5\"");
    let token = page.body.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let form = format!("token={token}&node=k0p3x5");
    let done = Ask::form("/admin/cluster/drain?hl=en", &form).admin().send(&site).await;
    done.is(200).says("basalto gives its work away and leaves.").says("Back to the cluster");
    assert_eq!(*site.fake.orders.lock(), [ClusterOrder::Drain("k0p3x5".into())]);

    Ask::get("/admin/cluster/drain?node=nobody").admin().send(&site).await.is(404);
    Ask::form("/admin/cluster/drain", &format!("token={token}&node=nobody"))
        .admin()
        .send(&site)
        .await
        .is(400);
    Ask::form("/admin/cluster/drain", &format!("token={token}&node=")).admin().send(&site).await.is(400);
    let long = "x".repeat(65);
    Ask::form("/admin/cluster/drain", &format!("token={token}&node={long}"))
        .admin()
        .send(&site)
        .await
        .is(400);
}

#[tokio::test]
async fn who_crawls_what_is_shown_on_a_map_with_reasons_and_planned_anew_by_order() {
    let site = member();
    let page = Ask::get("/admin/cluster?hl=en").admin().send(&site).await;
    page.is(200).says("Who crawls what").says("<figure class=\"world\">").says("class=\"pin a\"");
    page.says("published: what it saves pays for what it moves").says("quartzo → granito: 1,200,000");
    page.says("agent 2 joined").says("What the planner did not believe").says("81 ms → 40 ms");
    page.lacks("style=\"").lacks("<script>document.title");
    let token = page.body.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    Ask::form("/admin/cluster/replan", "token=guess").admin().send(&site).await.is(403);
    assert!(site.fake.orders.lock().is_empty());
    let done = Ask::form("/admin/cluster/replan?hl=en", &format!("token={token}")).admin().send(&site).await;
    done.is(200).says("The planner plans as soon as").says("Back to the cluster");
    assert_eq!(*site.fake.orders.lock(), [ClusterOrder::Replan]);
    let metrics = Ask::get("/metrics").admin().send(&site).await;
    metrics
        .is(200)
        .says("farol_plan_exchange_expected_ratio 0.183")
        .says("farol_plan_exchange_measured_ratio 0.198");
    metrics.says("farol_agent_load_ratio{node=\"granito\"} 1.04");
}

#[tokio::test]
async fn no_other_site_and_no_stranger_drains_a_node() {
    let site = member();
    for path in ["/admin/cluster", "/admin/cluster/drain?node=k0p3x5", "/api/v1/cluster"] {
        site.get(path).await.is(401).lacks("granito");
    }
    Ask::form("/admin/cluster/drain", "token=guess&node=k0p3x5").admin().send(&site).await.is(403);
    Ask::form("/admin/cluster/drain", "node=k0p3x5").send(&site).await.is(401);
    let page = Ask::get("/admin/cluster/drain?node=k0p3x5").admin().send(&site).await;
    let token = page.body.split("name=\"token\" value=\"").nth(1).unwrap().split('"').next().unwrap();
    let elsewhere = Ask::form("/admin/cluster/drain", &format!("token={token}&node=k0p3x5"));
    elsewhere.admin().with("sec-fetch-site", "cross-site").send(&site).await.is(403);
    let no_json = Ask::form("/api/v1/admin/drain-node", "{\"node\":\"k0p3x5\"}").admin();
    no_json.send(&site).await.is(415);
    assert!(site.fake.orders.lock().is_empty());
}

#[tokio::test]
async fn an_answer_in_part_says_so() {
    let check = async |path: &str, text: &str| {
        answered(2).get(path).await.is(200).says(text);
    };
    check("/search?q=farol&hl=en", "Part of the index did not answer (2 of 3 did)").await;
    check("/search?q=nothing&hl=en", "Part of the index did not answer (2 of 3 did)").await;
    for locale in Locale::ALL {
        let text = locale.texts().partial.replace("{answered}", "2").replace("{total}", "3");
        check(&format!("/search?q=farol&hl={}", locale.code()), &text).await;
    }
    let answer = answered(2).get("/api/v1/search?q=farol").await.json();
    assert_eq!(answer["shards"], json!({ "total": 3, "answered": 2 }));

    // A whole answer of several parts is told to programs, and is nothing that people need to know.
    answered(3).get("/search?q=farol&hl=en").await.is(200).lacks("Part of the index");
    let answer = answered(3).get("/api/v1/search?q=farol").await.json();
    assert_eq!(answer["shards"], json!({ "total": 3, "answered": 3 }));
}

#[tokio::test]
async fn the_page_of_the_ring_tells_ranges_hot_questions_bursts_and_changes() {
    let page = Ask::get("/admin/ring?hl=en").admin().send(&member()).await;
    page.is(200).says("<h1>Answer cache</h1>").lacks("<noscript>").lacks("<script>document.title");
    page.says("91.2%").says("47.2%").says("ring 31 of term 1,204 · hot 44");
    assert_eq!(page.body.matches("class=\"range shade-").count(), 3, "one range per node on the ring");
    page.says("opala: 31%").says("#8").says("passed over").says("off the ring").says("1,200,441");
    page.says("farol da barra").says("4 / 4").says("1,902").says("is over");
    page.says("Ring 31: 25% changed owner").says("topázio left").says("jaspe joined");
    page.says("aria-current=\"page\">Cluster</a>");
    Ask::get("/admin/cluster?hl=en").admin().send(&member()).await.is(200).says("/admin/ring");
    member().get("/admin/ring").await.is(401);
}

#[tokio::test]
async fn the_page_of_the_ring_speaks_every_language() {
    let site = member();
    for locale in Locale::ALL {
        let page = Ask::get(&format!("/admin/ring?hl={}", locale.code())).admin().send(&site).await;
        let texts = locale.texts();
        page.is(200).says(texts.ring_nodes).says(texts.ring_hot).says(texts.ring_passed_over);
        page.lacks("{").lacks("}");
    }
}
