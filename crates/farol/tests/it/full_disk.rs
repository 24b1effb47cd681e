//! A full disk: crawling pauses with a clear message, search goes on, and crawling resumes when there is room.

use crate::fixture::{Data, Farol, Web};
use farol_synthetic::WebConfig;

#[test]
fn crawling_waits_for_room_while_search_goes_on() {
    let web = Web::start(WebConfig { hosts: 2, pages: 60, ..WebConfig::tame() });
    let data = Data::new();
    let mut farol = Farol::up(&data, &web, &["--delay", "0", "--max-pages", "20"]);
    farol.wait_for("some pages", |status| status["index"]["documents"].as_u64() >= Some(20));
    farol.interrupt();
    // More room set aside than any disk has: the disk is full as far as the crawl is concerned.
    data.configure("[archive]\ndisk_reserve = '100000TiB'\n");
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    let status = farol.wait_for("the pause", |status| status["state"] == "disk_full");
    assert!(status["message"].as_str().unwrap().contains("make room"), "{status:#}");
    let found = farol.json("/api/v1/search?q=site:web.test");
    assert!(found["total"].as_u64() >= Some(20), "{found:#}");
    farol.interrupt();
    data.configure("[archive]\ndisk_reserve = '1MiB'\n");
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    let status = farol.wait_until_idle();
    assert_eq!(status["index"]["documents"], 60);
    farol.interrupt();
}
