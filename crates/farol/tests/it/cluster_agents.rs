//! Several agents crawl one made-up Web, as real processes: what they fetch together is what one would, and each host is
//! one agent's alone. The Web's own log and the agents' archives are the judges.

use crate::cluster_fixture::{Cluster, holds};
use crate::fixture::{PATIENCE, Web, get, request};
use crate::site::{Site, SiteReply};
use farol_base::disk::File;
use farol_synthetic::check::{CheckRules, check};
use farol_synthetic::{WebConfig, World};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(String::from).collect()
}

/// Pages of each host in an archive: its own archive says what an agent has asked for.
fn archived(node: &Path) -> BTreeMap<String, BTreeSet<String>> {
    let disk = Arc::new(File::at(node.join("pages")).unwrap());
    let archive = farol_store::pages::ArchiveReader::open(disk).unwrap();
    let mut hosts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for record in archive.scan(farol_base::PagePosition::default()) {
        let (_, _, archived) = record.unwrap();
        let url = archived.url();
        hosts.entry(url.host_str().to_string()).or_default().insert(url.to_string());
    }
    hosts
}

/// The one agent of each host, and how many hosts each agent has; a host in two archives is an error.
#[track_caller]
fn one_agent_each(cluster: &Cluster, agents: &[String], world: &World) -> Vec<usize> {
    let archives: Vec<_> = agents.iter().map(|name| archived(&cluster.node(name))).collect();
    let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
    for (name, archive) in agents.iter().zip(&archives) {
        for host in archive.keys() {
            let before = owners.insert(host, name);
            assert_eq!(before, None, "{host} was asked by {name} as well: {}", cluster.log());
        }
    }
    assert_eq!(owners.len(), world.config().hosts as usize, "hosts are missing");
    archives.iter().map(BTreeMap::len).collect()
}

/// Waits until so many agents go by one table, and all have released it.
#[track_caller]
fn wait_for_agents(cluster: &mut Cluster, count: usize) {
    cluster.wait_for("the agents", |status| {
        let agents = status["agents"].as_array().cloned().unwrap_or_default();
        let epoch = &status["route"]["epoch"];
        let follows = agents.iter().all(|agent| agent["epoch"] == *epoch && agent["released"] == *epoch);
        agents.len() == count && follows && status["route"]["settled"] == true
    });
}

#[track_caller]
fn judge(cluster: &Cluster, web: &Web, agents: usize) {
    let names: Vec<String> = (1..=agents).map(|nth| format!("node-{nth}")).collect();
    let rules = CheckRules { complete: true, ..CheckRules::default() };
    let report = check(web.server.world(), web.server.log().entries().into_iter(), &rules);
    assert!(report.is_clean(), "{report}\n{}", cluster.log());
    let shares = one_agent_each(cluster, &names, web.server.world());
    assert!(shares.iter().all(|hosts| *hosts > 0), "everybody has something to do: {shares:?}");
}

#[test]
fn four_agents_fetch_what_one_would_and_each_host_is_one_agents() {
    let web = Web::start(WebConfig { hosts: 80, pages: 800, ..WebConfig::tame() });
    let size = words("--nodes 4 --crawlers 4 --shards 2 --replicas 1 --delay 0");
    let mut cluster = Cluster::up(&[size, web.flags()].concat());
    let front = cluster.front("node-4");
    wait_for_agents(&mut cluster, 4);
    // A seed is told at one node, and is the whole crawl's.
    let key = std::fs::read_to_string(cluster.node("node-4").join("admin.key")).unwrap();
    let headers = ["Content-Type: application/json", &format!("Authorization: Bearer {}", key.trim())];
    let seed = serde_json::json!({ "url": web.seed() }).to_string();
    let reply = request(front, "POST /api/v1/admin/seeds HTTP/1.0", &headers, &seed);
    assert_eq!(reply.status, 200, "{}", reply.body);
    cluster.wait_for("every page", |status| holds(status, 800));
    judge(&cluster, &web, 4);
    let listed = cluster.command(&["agents"]);
    let text = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(text.contains("settled") && text.lines().count() >= 6, "{text}");
    let metrics = get(front, "/metrics", &headers[1..]).body;
    assert!(metrics.contains("farol_exchange_urls_total{what=\"sent\"}"), "{metrics}");
}

#[test]
fn agents_that_join_and_die_in_the_middle_lose_nothing_and_never_ask_a_server_at_once() {
    let web = Web::start(WebConfig { hosts: 40, pages: 1200, ..WebConfig::tame() });
    // The crawl begins with the first agent, and the others take their shares of it while it goes on.
    let size = words("--nodes 3 --crawlers 3 --shards 1 --replicas 1 --delay 40ms");
    let mut cluster = Cluster::up(&[size, web.flags(), vec![web.seed()]].concat());
    cluster.wait_for("some pages", |status| {
        status["shards"][0]["pages"].as_u64().is_some_and(|pages| pages > 100)
    });
    // Where the leader dies its heirs wait for another one first, half a minute and as long again; that takes too long here.
    let status = cluster.status();
    let leader =
        status["nodes"].as_array().unwrap().iter().find(|node| node["id"] == status["leader"]["node"]);
    let is_leader = |name: &str| leader.is_some_and(|node| node["name"] == name);
    cluster.kill(if is_leader("node-2") { "node-3" } else { "node-2" });
    cluster.wait_for("every page", |status| holds(status, 1200));
    let rules = CheckRules {
        complete: true,
        delay_min: Duration::from_millis(40),
        // What was under way when the agent was killed.
        doubles_max: 40,
        ..CheckRules::default()
    };
    let report = check(web.server.world(), web.server.log().entries().into_iter(), &rules);
    assert!(report.is_clean(), "{report}\n{}", cluster.log());
    let archives: Vec<_> = (1..=3).map(|nth| archived(&cluster.node(&format!("node-{nth}")))).collect();
    let mut pages: BTreeMap<&String, usize> = BTreeMap::new();
    for page in archives.iter().flat_map(|archive| archive.values()).flatten() {
        *pages.entry(page).or_default() += usize::from(!page.ends_with("/robots.txt"));
    }
    let doubled: Vec<_> = pages.iter().filter(|(_, count)| **count > 1).collect();
    assert!(doubled.is_empty(), "in two archives: {doubled:?}");
}

#[test]
fn a_changed_setting_wakes_a_site_in_a_cluster_and_a_missing_one_is_pointed_out() {
    let site = Site::start(|_, path| match path {
        "/robots.txt" => SiteReply::missing(),
        _ => SiteReply::html("<title>A page</title><p>Words of a page.</p>".to_string()),
    });
    let size = words("--nodes 1 --shards 1 --replicas 1 --delay 0");
    let seed = format!("http://127.0.0.1:{}/", site.port());
    let mut cluster = Cluster::up(&[size.clone(), vec![seed]].concat());
    let wait = |what: &str, cluster: &Cluster, holds: &mut dyn FnMut() -> bool| {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}: {}", cluster.log());
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let front = cluster.front("node-1");
    let bearer = cluster.bearer("node-1");
    wait("the refusal", &cluster, &mut || {
        get(front, "/api/v1/status", &[&bearer]).body.contains("is a private one")
    });
    assert!(site.asked().is_empty());
    let dir = cluster.end();
    let settings = dir.path().join("farol.toml");
    let plain = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, format!("{plain}[crawl]\nallow_private = true\n")).unwrap();
    // Not a day later, when the site would have been tried again.
    let cluster = Cluster::up_in(dir, &size);
    wait("the page", &cluster, &mut || !site.asked().is_empty());
    let mut dir = cluster.end();
    std::fs::write(&settings, plain).unwrap();
    for _ in 0..2 {
        let cluster = Cluster::up_in(dir, &size);
        wait("the note", &cluster, &mut || cluster.log().contains("name --allow-private again"));
        dir = cluster.end();
    }
}
