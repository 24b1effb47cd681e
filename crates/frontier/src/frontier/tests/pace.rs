//! How often a host can be asked as things stand.

use super::*;
use crate::polite::{Density, DownloadTime};

fn scene(rule: impl DelayRule + 'static) -> Scene {
    Scene { frontier: Frontier::new(Box::new(rule), Limits::default()), ..Scene::default() }
}

/// Adds a host with a page whose robots.txt is known and asks for this Crawl-delay.
fn add(scene: &mut Scene, name: &str, crawl_delay: Option<Duration>, pages_known: u64) {
    let robots_valid_until = Some(scene.now + ROBOTS_VALID);
    let memory = HostMemory { robots_valid_until, crawl_delay, pages_known, ..HostMemory::default() };
    assert_eq!(scene.frontier.add_host(scene.now, &host(name), memory), Added::New);
    scene.resolve(name, Resolution::Address(ip(1)));
    scene.refill(name, &["1"]);
}

#[track_caller]
fn check(scene: &Scene, name: &str, want: Option<Duration>) {
    assert_eq!(scene.frontier.pace(&host(name)), want, "{name}");
}

#[test]
fn hosts_of_one_address_share_its_pace() {
    let mut scene = Scene::default();
    check(&scene, "a", None);
    scene.add("a", ip(1), &["1"]);
    check(&scene, "a", Some(DELAY));
    scene.add("b", ip(1), &["1"]);
    scene.add("c", ip(1), &["1"]);
    scene.add("d", ip(2), &["1"]);
    check(&scene, "a", Some(DELAY * 3));
    check(&scene, "c", Some(DELAY * 3));
    check(&scene, "d", Some(DELAY));
    scene.frontier.remove_host(&host("b"));
    check(&scene, "a", Some(DELAY * 2));
    check(&scene, "b", None);
}

#[test]
fn the_pace_said_is_the_pace_kept() {
    let mut scene = Scene::default();
    for name in ["a", "b", "c"] {
        scene.add(name, ip(1), &["1", "2"]);
    }
    let said = scene.frontier.pace(&host("a")).unwrap();
    let mut asked = Vec::new();
    while asked.len() < 2 {
        let lease = scene.lease();
        if lease.host() == &host("a") {
            asked.push(scene.now);
        }
        assert_eq!(scene.done(lease, FETCHED), Disposition::Finished);
        scene.wait();
    }
    assert_eq!(asked[1].since(asked[0]), said);
}

#[test]
fn a_crawl_delay_slows_the_host_that_asks_for_it() {
    let mut scene = Scene::default();
    add(&mut scene, "a", Some(DELAY * 5), 0);
    check(&scene, "a", Some(DELAY * 5));
    // The others have their turns while it rests…
    add(&mut scene, "b", None, 0);
    check(&scene, "a", Some(DELAY * 5));
    check(&scene, "b", Some(DELAY * 2));
    // …until there are so many that it rests longer than it asked for.
    for name in ["c", "d", "e", "f"] {
        add(&mut scene, name, None, 0);
    }
    check(&scene, "a", Some(DELAY * 6));
}

#[test]
fn a_slow_answer_slows_the_host_and_not_the_others_of_its_address() {
    let mut scene = Scene::default();
    scene.add("a", ip(1), &["1", "2"]);
    scene.add("b", ip(1), &["1"]);
    let lease = scene.lease_page(page("a", "1"));
    let slow = Outcome::Fetched { download: DELAY * 4, bytes: 1 };
    assert_eq!(scene.done(lease, slow), Disposition::Finished);
    check(&scene, "a", Some(DELAY * 4));
    check(&scene, "b", Some(DELAY * 2));
}

#[test]
fn a_rule_that_goes_by_answers_is_asked_for_the_pace_of_now() {
    let mut scene = scene(DownloadTime { times: 10, longest: Duration::from_secs(300) });
    scene.add("a", ip(1), &["1", "2"]);
    scene.add("b", ip(1), &["1"]);
    let lease = scene.lease_page(page("a", "1"));
    let half_a_second = Outcome::Fetched { download: Duration::from_millis(500), bytes: 1 };
    assert_eq!(scene.done(lease, half_a_second), Disposition::Finished);
    check(&scene, "a", Some(Duration::from_secs(10)));
}

#[test]
fn a_rule_that_goes_by_pages_is_asked_for_the_pace_of_now() {
    let mut scene = scene(Density { least: DELAY, longest: DELAY * 3 });
    add(&mut scene, "a", None, 100);
    add(&mut scene, "b", None, 10);
    check(&scene, "a", Some(DELAY * 2));
    check(&scene, "b", Some(DELAY * 4));
}
