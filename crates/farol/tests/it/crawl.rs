//! Whole crawls of the made-up Web, judged by the checker that comes with it.

use crate::fixture::{Data, Farol, PATIENCE, Web};
use farol_synthetic::WebConfig;
use std::time::{Duration, Instant};

#[test]
fn a_troubled_web_is_crawled_whole_and_politely() {
    let config = WebConfig {
        hosts: 25,
        pages: 600,
        slow_millis: 300,
        crawl_delay_millis: 200,
        robots_failing: 0.0,
        huge: 0.002,
        broken: 0.01,
        failing: 0.0,
        ..WebConfig::default()
    };
    let web = Web::start(config);
    let data = Data::new();
    data.configure("[crawl]\ndelay_min = '20ms'\nbody_max = '1MiB'\ntotal_timeout = '10s'\n");
    let mut farol = Farol::up(&data, &web, &[]);
    let status = farol.wait_until_idle();
    farol.interrupt();
    let rules =
        farol_synthetic::check::CheckRules { delay_min: Duration::from_millis(20), ..Default::default() };
    let report =
        farol_synthetic::check::check(web.server.world(), web.server.log().entries().into_iter(), &rules);
    assert!(report.is_clean(), "{report}\n{status:#}");
    assert_eq!(data.run_well(&["check"]).matches("fine:").count(), 5);
}

#[test]
fn it_goes_on_where_it_was_stopped() {
    let web = Web::start(WebConfig { hosts: 4, pages: 300, ..WebConfig::tame() });
    let data = Data::new();
    let mut farol = Farol::up(&data, &web, &["--delay", "5ms"]);
    farol.wait_for("a few pages", |status| status["crawl"]["pages_fetched"].as_u64() > Some(30));
    farol.interrupt();
    let before = web.server.counts().requests;
    assert!(before < 300, "the crawl was over before it was stopped");
    // No seed this time: the folder remembers.
    let mut arguments = web.flags();
    arguments.extend(["--delay".to_string(), "0".to_string()]);
    let mut farol = Farol::start(&data, "up", &arguments);
    let status = farol.wait_until_idle();
    farol.interrupt();
    assert_eq!(status["index"]["documents"], 300);
    let robots = web.server.log().entries().iter().filter(|entry| entry.path == "/robots.txt").count();
    assert_eq!(web.server.counts().requests, 300 + robots as u64, "nothing was asked for twice");
    assert_eq!(robots, 4, "robots.txt was remembered");
}

#[test]
fn a_new_page_can_be_found_within_five_seconds() {
    let web = Web::start(WebConfig { hosts: 1, pages: 3, ..WebConfig::tame() });
    let data = Data::new();
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    farol.wait_for("the first page", |status| status["crawl"]["pages_fetched"].as_u64() > Some(0));
    let fetched = Instant::now();
    farol.wait_for("the first hit", |status| status["index"]["documents"].as_u64() > Some(0));
    assert!(fetched.elapsed() < Duration::from_secs(5), "it took {:?}", fetched.elapsed());
    farol.interrupt();
}

#[test]
fn the_operator_pauses_adds_and_removes() {
    let web = Web::start(WebConfig { hosts: 3, pages: 90, locality: 1.0, ..WebConfig::tame() });
    let name = |host| web.server.world().host_name(host);
    let data = Data::new();
    let resolve = web.flags()[1].clone();
    let arguments = [web.seed(), "--resolve".into(), resolve, "--delay".into(), "0".into()];
    let mut farol = Farol::start(&data, "up", &arguments);
    let status = farol.wait_until_idle();
    let first = status["index"]["documents"].as_u64().unwrap();
    assert!(first > 0 && first < 90, "only the seed's host is crawled: {first}");
    assert_eq!(farol.order("pause", &serde_json::json!({})).status, 200);
    farol.wait_for("the pause", |status| status["state"] == "paused");
    let seed = serde_json::json!({ "url": format!("http://{}/", name(1)) });
    assert_eq!(farol.order("seeds", &seed).status, 200);
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(farol.json("/api/v1/status")["index"]["documents"].as_u64(), Some(first), "it is paused");
    assert_eq!(farol.order("resume", &serde_json::json!({})).status, 200);
    farol.wait_for("the second host", |status| status["index"]["documents"].as_u64() > Some(first));
    farol.wait_until_idle();
    let remove = serde_json::json!({ "host": format!("http://{}", name(0)) });
    assert_eq!(farol.order("remove-host", &remove).status, 200);
    let gone = format!("/api/v1/search?q=site:{}", name(0));
    let begun = Instant::now();
    while farol.json(&gone)["total"] != 0 {
        assert!(begun.elapsed() < PATIENCE, "its pages stay");
        std::thread::sleep(Duration::from_millis(100));
    }
    farol.interrupt();
    // It stays away after a restart, even when the index is built again.
    std::fs::remove_dir_all(data.path().join("index")).unwrap();
    let mut farol = Farol::start(&data, "serve", &[]);
    farol.wait_for("the index", |status| status["index"]["documents"].as_u64() > Some(0));
    assert_eq!(farol.json(&gone)["total"], 0);
    farol.interrupt();
}

#[test]
fn private_addresses_are_refused_unless_allowed() {
    let web = Web::start(WebConfig { hosts: 1, pages: 3, ..WebConfig::tame() });
    let data = Data::new();
    let seed = format!("http://127.0.0.1:{}/", web.server.address().port());
    let mut farol = Farol::start(&data, "up", &[seed]);
    farol.wait_for("the refusal", |status| {
        let errors = status["crawl"]["errors"].to_string();
        errors.contains("guard")
    });
    assert_eq!(web.server.counts().requests, 0);
    farol.interrupt();
}

#[test]
fn the_demo_answers_the_questions_that_it_suggests_and_leaves_other_folders_alone() {
    let data = Data::new();
    let mut farol = Farol::start(&data, "demo", &[]);
    farol.wait_for("the library", |status| status["index"]["documents"].as_u64() >= Some(250));
    let mut first = |question: &str| {
        let found = farol.json(&format!("/api/v1/search?q={}", question.replace(' ', "+")));
        (found["hits"][0]["url"].to_string(), found["hits"][0]["language"].to_string())
    };
    let mut check = |question: &str, host: &str, language: &str| {
        let (url, of) = first(question);
        assert!(url.contains(host) && of.contains(language), "{question}: {url} in {of}");
    };
    check("olhos de ressaca", "dom-casmurro.library.test/32", "pt");
    check("combate de Trafalgar", "trafalgar.library.test/", "es");
    check("mad tea party", "alice.library.test/7", "en");
    check("a time to be born and a time to die", "king-james.library.test/38", "en");
    farol.interrupt();

    let own = Data::new();
    let web = Web::start(WebConfig { hosts: 1, pages: 3, ..WebConfig::tame() });
    let mut crawl: Vec<String> = vec!["crawl".into(), web.seed(), "--delay".into(), "0".into()];
    crawl.extend(web.flags());
    own.run_well(&crawl.iter().map(String::as_str).collect::<Vec<_>>());
    let refusal = own.run(&["demo"]);
    let said = String::from_utf8_lossy(&refusal.stderr).into_owned();
    assert_eq!(refusal.status.code(), Some(1));
    assert!(said.contains("holds pages of your own") && said.contains("--data"), "{said}");
}
