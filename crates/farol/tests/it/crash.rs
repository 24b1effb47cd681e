//! `kill -9` at any moment, then run again.

use crate::fixture::{Data, Farol, Web};
use farol_base::{Random, Seeded};
use farol_synthetic::WebConfig;
use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

/// Requests under way at once in this test: at most so many pages may be fetched again after each kill.
const IN_FLIGHT: usize = 4;

#[test]
fn nothing_is_lost_and_nothing_is_fetched_twice() {
    let web = Web::start(WebConfig { hosts: 8, pages: 1200, mean_page_bytes: 4000, ..WebConfig::tame() });
    let data = Data::new();
    data.configure(&format!(
        "[crawl]\nconcurrency = {IN_FLIGHT}\ndelay_min = '0'\n[index]\ncommit_every = '300ms'\n"
    ));
    let mut random = Seeded::new(7);
    let kills = 12;
    for _ in 0..kills {
        let mut farol = Farol::up(&data, &web, &[]);
        farol.address();
        std::thread::sleep(Duration::from_millis(20 + random.below(250)));
        farol.kill();
    }
    let mut farol = Farol::up(&data, &web, &[]);
    let status = farol.wait_until_idle();
    farol.interrupt();
    assert_eq!(status["index"]["documents"], 1200, "{status:#}");

    // Every page that is in the archive can be found, and the other way round.
    let visits = data.run_well(&["export", "visits"]);
    let archived: BTreeSet<&str> = visits
        .lines()
        .filter(|line| line.split('\t').nth(1) == Some("200") && !line.ends_with("/robots.txt"))
        .filter_map(|line| line.split('\t').nth(5))
        .collect();
    let urls = data.run_well(&["export", "urls"]);
    let indexed: BTreeSet<&str> = urls.lines().collect();
    assert_eq!(archived, indexed);
    assert_eq!(archived.len(), 1200);

    // What was asked for twice was under way when a kill came.
    let mut asked: HashMap<(String, String), usize> = HashMap::new();
    for entry in web.server.log().entries() {
        *asked.entry((entry.host, entry.path)).or_default() += 1;
    }
    let again: usize = asked.values().map(|count| count - 1).sum();
    assert!(again <= kills * IN_FLIGHT, "{again} requests were made again after {kills} kills");
    assert_eq!(data.run_well(&["check"]).matches("fine:").count(), 5);
}

#[test]
fn a_torn_archive_is_cut_and_reported() {
    let web = Web::start(WebConfig { hosts: 1, pages: 20, ..WebConfig::tame() });
    let data = Data::new();
    let mut arguments = web.flags();
    arguments.extend([web.seed(), "--delay".into(), "0".into(), "--max-pages".into(), "10".into()]);
    Farol::start(&data, "crawl", &arguments).finish();
    let warc = crate::fixture::files(&data.path().join("pages"), ".warc.gz").remove(0);
    let whole = std::fs::metadata(&warc).unwrap().len();
    let torn = std::fs::OpenOptions::new().append(true).open(&warc).unwrap();
    std::io::Write::write_all(&mut &torn, &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3]).unwrap();
    let output = data.run(&["status"]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    assert_eq!(std::fs::metadata(&warc).unwrap().len(), whole);
    let check = data.run_well(&["check"]);
    assert!(check.contains("fine: "), "{check}");
}

#[test]
fn a_lost_index_is_built_again_from_the_archive() {
    let web = Web::start(WebConfig { hosts: 2, pages: 40, ..WebConfig::tame() });
    let data = Data::new();
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    farol.wait_until_idle();
    farol.interrupt();
    for lost in ["index", "links", "urls"] {
        std::fs::remove_dir_all(data.path().join(lost)).unwrap();
    }
    let requests = web.server.counts().requests;
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    let status = farol.wait_until_idle();
    farol.interrupt();
    assert_eq!(status["index"]["documents"], 40);
    assert_eq!(web.server.counts().requests, requests, "everything was in the archive");
}

#[test]
fn a_flipped_bit_in_the_url_store_is_named_and_built_anew_from_the_archive() {
    let web = Web::start(WebConfig { hosts: 6, pages: 200, mean_page_bytes: 3000, ..WebConfig::tame() });
    let data = Data::new();
    let mut arguments = web.flags();
    arguments.extend([web.seed(), "--delay".into(), "0".into(), "--max-pages".into(), "120".into()]);
    Farol::start(&data, "crawl", &arguments).finish();
    let known = |data: &Data| {
        let report = data.run_well(&["check"]);
        let urls = report.lines().find(|line| line.starts_with("urls")).unwrap().to_string();
        assert!(urls.contains("fine: "), "{report}");
        urls
    };
    let before = known(&data);
    let folder = data.path().join("urls");
    let block = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| path.file_name().unwrap().to_string_lossy().starts_with("block-"))
        .unwrap();
    let mut bytes = std::fs::read(&block).unwrap();
    // Among the URLs, which begin behind the file's header.
    bytes[200] ^= 4;
    std::fs::write(&block, bytes).unwrap();
    let output = data.run(&["check"]);
    let report = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success());
    assert!(
        report.contains("urls     DAMAGED: block-") && report.contains("farol check --repair"),
        "{report}"
    );
    let report = data.run_well(&["check", "--repair"]);
    assert!(report.contains("urls     emptied: block-"), "{report}");
    // The next run builds it anew, even where it has nothing else to do.
    let mut arguments = web.flags();
    arguments.extend(["--delay".into(), "0".into(), "--max-pages".into(), "120".into()]);
    Farol::start(&data, "crawl", &arguments).finish();
    assert_eq!(known(&data), before);
    // The crawl goes on, and asks for nothing that it has.
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    let status = farol.wait_until_idle();
    farol.interrupt();
    assert_eq!(status["index"]["documents"], 200, "{status:#}");
    let robots = web.server.log().entries().iter().filter(|entry| entry.path == "/robots.txt").count();
    assert_eq!(web.server.counts().requests, 200 + robots as u64, "nothing was asked for twice");
}
