//! Repeated questions come from memory, and what changed on the Web is found all the same.

use crate::fixture::{Data, Farol, Web};
use farol_synthetic::WebConfig;
use serde_json::Value;
use std::time::Duration;

/// Hits of an answer, as people see them.
fn urls(answer: &Value) -> Vec<String> {
    let hits = answer["hits"].as_array().cloned().unwrap_or_default();
    hits.iter().filter_map(|hit| hit["url"].as_str().map(String::from)).collect()
}

fn cache(farol: &mut Farol) -> Value {
    farol.json("/api/v1/status")["cache"].clone()
}

#[test]
fn a_repeated_question_costs_the_index_nothing() {
    let web = Web::start(WebConfig { hosts: 5, pages: 120, ..WebConfig::tame() });
    let data = Data::new();
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    farol.wait_until_idle();
    let all = farol.json("/api/v1/search?q=site:web.test");
    let title = all["hits"][0]["title"].as_str().unwrap_or_default().to_string();
    let word = title.split(|c: char| !c.is_ascii_alphabetic()).find(|word| word.len() > 2).unwrap_or("web");
    let (lower, upper) = (word.to_lowercase(), word.to_uppercase());
    let question = format!("/api/v1/search?q={lower}");
    let first = farol.json(&question);
    assert!(!urls(&first).is_empty(), "{first:#}");
    let before = cache(&mut farol);
    // Other case, more spaces: the same question.
    let spellings =
        [question, format!("/api/v1/search?q={upper}"), format!("/api/v1/search?q=%20{lower}%20%20")];
    for path in &spellings {
        assert_eq!(urls(&farol.json(path)), urls(&first), "{path}");
    }
    let after = cache(&mut farol);
    // Ranks may have been computed anew in between, which makes one of the three ask again.
    let hits = after["hits"].as_u64().unwrap() - before["hits"].as_u64().unwrap();
    assert!(hits >= 2, "{before:#} {after:#}");
    assert!(after["bytes"].as_u64() <= after["bytes_max"].as_u64() && after["answers"].as_u64() > Some(0));
    assert_eq!(after["hot"][0]["name"], lower.as_str());
    let page = farol.get("/admin?hl=en").body;
    assert!(page.contains("Answers from the cache") && page.contains("Hot questions"), "{page}");
    assert!(farol.get("/metrics").body.contains("farol_cache_hits_total"));
    farol.interrupt();
}

#[test]
fn a_changed_index_is_not_answered_from_memory() {
    let web = Web::start(WebConfig { hosts: 4, pages: 60, ..WebConfig::tame() });
    let data = Data::new();
    // An answer may live for a day; only the state of the index can make it old here, and then at once.
    data.configure("[cache]\nttl = '24h'\ngrace = '0s'\n");
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    farol.wait_until_idle();
    let host = web.server.world().host_name(0);
    let question = format!("/api/v1/search?q=site:{host}");
    let some = |answer: &Value| answer["total"].as_u64().unwrap_or(0);
    assert!(some(&farol.json(&question)) > 0 && some(&farol.json(&question)) > 0);
    let address = farol.address();
    let reply = farol.order("remove-host", &serde_json::json!({ "host": format!("http://{host}") }));
    assert_eq!(reply.status, 200, "{}", reply.body);
    // As soon as the index has taken it in, nobody is shown the pages any more.
    farol.wait_for("the host to leave the index", |_| {
        let answer = crate::fixture::get(address, &question, &[]);
        serde_json::from_str::<Value>(&answer.body).is_ok_and(|answer| some(&answer) == 0)
    });
    assert!(cache(&mut farol)["expired"].as_u64() >= Some(1));
    farol.interrupt();
}

#[test]
fn a_removed_page_is_gone_within_the_grace_and_answers_say_their_age() {
    let web = Web::start(WebConfig { hosts: 4, pages: 60, ..WebConfig::tame() });
    let data = Data::new();
    data.configure("[cache]\nttl = '24h'\ngrace = '6s'\n");
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    farol.wait_until_idle();
    let host = web.server.world().host_name(0);
    let question = format!("/api/v1/search?q=site:{host}");
    let made = farol.json(&question);
    assert!(made["total"].as_u64() > Some(0) && made["age_ms"] == 0, "{made}");
    std::thread::sleep(Duration::from_millis(30));
    let again = farol.json(&question);
    assert!(again["total"] == made["total"] && again["age_ms"].as_u64() >= Some(30), "{again}");
    let address = farol.address();
    let reply = farol.order("remove-host", &serde_json::json!({ "host": format!("http://{host}") }));
    assert_eq!(reply.status, 200, "{}", reply.body);
    // Asked all the time, as a popular question is: it is made anew while the old answer still serves.
    farol.wait_for("the host to leave the answers", |_| {
        let answer = crate::fixture::get(address, &question, &[]);
        serde_json::from_str::<Value>(&answer.body).is_ok_and(|answer| answer["total"] == 0)
    });
    farol.interrupt();
}

#[test]
fn without_memory_there_is_no_cache() {
    let web = Web::start(WebConfig { hosts: 2, pages: 20, ..WebConfig::tame() });
    let data = Data::new();
    data.configure("[cache]\nmemory = '0B'\n");
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    farol.wait_until_idle();
    assert!(!urls(&farol.json("/api/v1/search?q=site:web.test")).is_empty());
    assert!(cache(&mut farol).is_null());
    farol.interrupt();
}
