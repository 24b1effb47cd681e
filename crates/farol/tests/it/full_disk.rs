//! A full disk: crawling pauses with a clear message, search goes on, and crawling resumes when there is room.

use crate::fixture::{Data, Farol, Web};
use farol_synthetic::WebConfig;
use std::io::Write;

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

/// A disk that is small and has been filled, and what fills it.
struct Ballast(std::path::PathBuf);

impl Ballast {
    /// Takes all the room that is left.
    fn fill(data: &Data) -> Ballast {
        let path = data.path().parent().unwrap().join("ballast");
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        while file.write_all(&[0; 4096]).is_ok() {}
        Ballast(path)
    }

    /// Leaves so many bytes.
    fn leave(&self, bytes: u64) {
        let file = std::fs::OpenOptions::new().write(true).open(&self.0).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length - bytes).unwrap();
    }

    fn make_room(self) {
        std::fs::remove_file(self.0).unwrap();
    }
}

const PAGES: u64 = 60;

/// A small disk, where this machine lets us have one.
fn small_disk() -> Option<(Web, Data)> {
    let data = match Data::on_small_disk(96) {
        Ok(data) => data,
        Err(why) => {
            eprintln!("skipped, since no small disk can be had: {why}");
            return None;
        }
    };
    data.configure("[archive]\ndisk_reserve = '0'\n");
    Some((Web::start(WebConfig { hosts: 2, pages: PAGES, ..WebConfig::tame() }), data))
}

/// Whatever happens on a full disk, what is said of it is a sentence about room, and no panic.
#[track_caller]
fn speaks_of_room((ended_well, said): (bool, String)) {
    assert!(!said.contains("panicked at"), "{said}");
    assert!(ended_well || said.contains("No space left") || said.contains("room"), "{said}");
}

/// On a full disk nothing is called damaged.
#[track_caller]
fn check_says_no_damage(data: &Data) {
    let output = data.run(&["check"]);
    let said =
        [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned()).concat();
    assert!(!said.contains("DAMAGED") && !said.contains("--repair") && !said.contains("panicked"), "{said}");
    assert!(output.status.success() || said.contains("room"), "{said}");
}

/// With room again everything is there, and can be found.
#[track_caller]
fn goes_on_to_the_end(data: &Data, web: &Web) {
    let mut farol = Farol::up(data, web, &["--delay", "0"]);
    let status = farol.wait_until_idle();
    assert_eq!(status["index"]["documents"], PAGES, "{status:#}");
    farol.interrupt();
    let said = data.run_well(&["check"]);
    assert_eq!(said.matches("fine: ").count(), 5, "{said}");
    // Nothing that was archived was asked for again, but for answers that found no room when they came.
    let visits = data.run_well(&["export", "visits"]);
    let mut urls: Vec<&str> = visits.lines().filter_map(|line| line.split('\t').next_back()).collect();
    urls.retain(|url| !url.ends_with("/robots.txt"));
    let all = urls.len();
    urls.sort_unstable();
    urls.dedup();
    assert_eq!((urls.len() as u64, all as u64), (PAGES, PAGES), "{visits}");
}

/// Starts on a disk without room: it waits for some until it is told to stop, or says why it does not start.
#[track_caller]
fn start_and_stop(data: &Data, web: &Web) {
    let mut farol = Farol::up(data, web, &["--delay", "0"]);
    std::thread::sleep(std::time::Duration::from_secs(2));
    let ended = if farol.is_running() { farol.terminate() } else { farol.wait_for_end() };
    speaks_of_room(ended);
}

#[test]
fn a_disk_that_is_full_at_the_start_is_said_and_nothing_is_lost() {
    let Some((web, data)) = small_disk() else { return };
    let ballast = Ballast::fill(&data);
    // Nothing can be begun.
    let (ended_well, said) = Farol::up(&data, &web, &["--delay", "0"]).wait_for_end();
    assert!(!ended_well && said.contains("No space left") && said.contains("make room"), "{said}");
    // With a little room something is begun, and stays in the middle.
    for bytes in [8 << 10, 56 << 10, 448 << 10, 1 << 20] {
        ballast.leave(bytes);
        start_and_stop(&data, &web);
    }
    ballast.make_room();
    let mut farol = Farol::up(&data, &web, &["--delay", "0", "--max-pages", "20"]);
    farol.wait_for("some pages", |status| status["index"]["documents"].as_u64() >= Some(20));
    farol.interrupt();
    // What is there can be searched and checked, and a crawl waits for room or says why it does not start.
    let ballast = Ballast::fill(&data);
    check_says_no_damage(&data);
    let output = data.run(&["search", "site:web.test"]);
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && found.contains("http://"), "{found} {:?}", output.stderr);
    start_and_stop(&data, &web);
    check_says_no_damage(&data);
    ballast.make_room();
    goes_on_to_the_end(&data, &web);
}

#[test]
fn a_disk_that_fills_while_crawling_is_waited_for_and_nothing_is_lost() {
    let Some((web, data)) = small_disk() else { return };
    let mut farol = Farol::up(&data, &web, &["--delay", "100ms"]);
    farol.wait_for("some pages", |status| status["index"]["documents"].as_u64() >= Some(4));
    let ballast = Ballast::fill(&data);
    let status = farol.wait_for("the pause", |status| status["state"] == "disk_full");
    assert!(status["message"].as_str().unwrap().contains("room"), "{status:#}");
    let found = farol.json("/api/v1/search?q=site:web.test");
    assert!(found["total"].as_u64() >= Some(4), "{found:#}");
    speaks_of_room(farol.terminate());
    check_says_no_damage(&data);
    ballast.make_room();
    goes_on_to_the_end(&data, &web);
}

#[test]
fn a_disk_that_fills_at_the_stop_does_not_hold_it_up_and_nothing_is_lost() {
    let Some((web, data)) = small_disk() else { return };
    let mut farol = Farol::up(&data, &web, &["--delay", "20ms"]);
    farol.wait_for("some pages", |status| status["crawl"]["pages_fetched"].as_u64() >= Some(10));
    let ballast = Ballast::fill(&data);
    speaks_of_room(farol.terminate());
    check_says_no_damage(&data);
    ballast.make_room();
    goes_on_to_the_end(&data, &web);
}
