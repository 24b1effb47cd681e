//! A crawl collects the graph of its hosts, and a plan for several agents is made of it.

use crate::fixture::{Data, Farol, Web};
use farol_partition::Exported;
use farol_partition::table::binary;
use farol_synthetic::WebConfig;

#[test]
fn a_crawl_is_exported_and_split_between_agents() {
    let web = Web::start(WebConfig { hosts: 24, pages: 500, mean_links: 12.0, ..WebConfig::tame() });
    let data = Data::new();
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    farol.wait_for("all pages of all hosts", |status| {
        status["crawl"]["pages_fetched"].as_u64() >= Some(500) && status["crawl"]["queue"].as_u64() == Some(0)
    });
    // While it runs nobody else reads the graph, and that is said.
    let output = data.run(&["export", "graph"]);
    assert!(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("another Farol"));
    farol.interrupt();

    let graph = Exported::read(&data.run_well(&["export", "graph", "--agent", "porto"])).unwrap();
    assert_eq!(graph.servers.len(), 24);
    assert!(graph.servers.iter().map(|server| server.pages).sum::<u64>() >= 500);
    for server in &graph.servers {
        assert!(server.address.is_some_and(|address| address.is_loopback()), "{server:?}");
    }
    assert_eq!((graph.agents[0].name.as_str(), graph.rtt.len()), ("porto", 24));
    assert!(graph.rtt.iter().all(|(_, _, millis)| *millis > 0.0 && *millis < 1000.0));
    // The links of the made-up Web itself, between hosts.
    assert!(graph.links.len() > 24, "{}", graph.links.len());

    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str| dir.path().join(name).to_str().unwrap().to_string();
    let (table, picture, exported) = (file("a.table"), file("plan.svg"), file("graph.tsv"));
    std::fs::write(&exported, graph.write()).unwrap();
    let said = data.run_well(&["partition", "plan", "--agents", "3", "--output", &table, "--svg", &picture]);
    for want in ["agent 3", "links to another agent", "Routing table, version 1", "24 hosts"] {
        assert!(said.contains(want), "{want:?} is not in\n{said}");
    }
    let read = binary::read(&std::fs::read(&table).unwrap()).unwrap();
    assert_eq!((read.version, read.destinations.len()), (1, 3));
    assert!(std::fs::read_to_string(&picture).unwrap().contains("<circle"));

    // The same from the exported file, as JSON, fair, and better than chance, though the links of this Web know no places.
    let answer = data.run_well(&["partition", "plan", "--agents", "3", "--graph", &exported, "--json"]);
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert!(answer["overload"].as_f64() < Some(1.1), "{answer}");
    assert!(answer["exchange"].as_f64() < Some(0.66), "{answer}");
    assert_eq!(answer["owners"].as_object().unwrap().len(), 24);

    // A fourth agent comes: some pages move, most stay.
    let said = data.run_well(&["partition", "plan", "--agents", "4", "--before", &table, "--json"]);
    let more: serde_json::Value = serde_json::from_str(&said).unwrap();
    let pages: u64 = graph.servers.iter().map(|server| server.pages).sum();
    let moved = more["pages_moved"].as_u64().unwrap();
    assert!(moved > 0 && moved < pages / 2, "{moved} of {pages}");
    assert_eq!(more["table"]["version"], 2);
    assert!(more["agents"].as_array().unwrap().iter().all(|agent| agent["pages"].as_u64() > Some(0)));

    for (arguments, want) in [
        (vec!["partition", "plan", "--agents", "0"], "at least one agent"),
        (vec!["partition", "plan", "--agents", "nowhere.txt"], "neither a number nor a file"),
        (vec!["partition", "plan", "--agents", "2", "--graph", &picture], "cannot use the graph"),
        (vec!["partition", "plan", "--agents", "2", "--before", &exported], "is no routing table"),
        (vec!["partition", "plan", "--agents", "2", "--geo", &exported], "cannot use the places"),
    ] {
        let output = data.run(&arguments);
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && text.contains(want), "{arguments:?}: {text}");
    }
}
