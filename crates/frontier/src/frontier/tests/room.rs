//! Who comes in where many want to.

use super::*;

fn small() -> Limits {
    Limits { hosts_max: 100, hosts_share: 10, ..Limits::default() }
}

#[test]
fn a_domain_of_many_names_gets_its_share_and_others_come_in() {
    let mut scene = Scene::new(small());
    let add = |scene: &mut Scene, name: String| {
        scene.frontier.add_host(scene.now, &host(&name), HostMemory::default())
    };
    let mut inside = 0;
    for n in 0..1000 {
        match add(&mut scene, format!("n{n}.trap.test")) {
            Added::New => inside += 1,
            Added::Crowded { until } => assert!(until > scene.now),
            added => panic!("{added:?}"),
        }
    }
    // An eighth of what is free, while that is more than its share: 11 are an eighth of 89.
    assert_eq!(inside, 11);
    for n in 0..8 {
        assert_eq!(add(&mut scene, format!("good{n}.test")), Added::New);
    }
    assert!(scene.frontier.crowded_until(scene.now, &host("n1001.trap.test")).is_some());
    assert_eq!(scene.frontier.crowded_until(scene.now, &host("www.good.test")), None);
}

#[test]
fn hosts_beyond_the_share_of_their_address_are_sent_away_with_their_pages() {
    let mut scene = Scene::new(small());
    let (mut inside, mut sent_away) = (0, 0);
    for n in 0..40 {
        scene.frontier.add_host(scene.now, &host(&format!("n{n}.test")), HostMemory::default());
        let Step::Resolve(asked) = scene.frontier.poll(scene.now) else { panic!() };
        match scene.frontier.resolved(scene.now, &asked, Resolution::Address(ip(1))) {
            Resolved::Taken => inside += 1,
            Resolved::Crowded { until, pages, .. } => {
                assert!(until > scene.now && pages.is_empty());
                assert_eq!(scene.frontier.host(&asked), None);
                sent_away += 1;
            }
        }
        while let Step::Fetch(lease) = scene.frontier.poll(scene.now) {
            let _ = scene.done(lease, Outcome::NotAsked);
        }
    }
    assert_eq!((inside, sent_away), (11, 29));
}

#[test]
fn slow_name_servers_of_one_domain_do_not_keep_others_from_being_looked_up() {
    let mut scene = Scene::default();
    for n in 0..60 {
        scene.frontier.add_host(scene.now, &host(&format!("n{n}.slow.test")), HostMemory::default());
    }
    scene.frontier.add_host(scene.now, &host("good.test"), HostMemory::default());
    let mut asked = Vec::new();
    while let Step::Resolve(host) = scene.frontier.poll(scene.now) {
        asked.push(host);
    }
    assert_eq!(asked.len(), 1 + scene.frontier.limits.resolving_per_domain());
    assert!(asked[..2].contains(&host("good.test")), "domains take turns");
    // Each answer makes room for one more of its own.
    let _ = scene.frontier.resolved(scene.now, &asked[0], Resolution::Failed { transient: true });
    assert!(matches!(scene.frontier.poll(scene.now), Step::Resolve(_)));
    assert!(matches!(scene.frontier.poll(scene.now), Step::WaitUntil(_)));
}

#[test]
fn servers_that_never_answer_leave_connections_to_others() {
    let mut scene = Scene::new(Limits { in_flight_max: 80, ..Limits::default() });
    let mut stalled = Vec::new();
    for n in 0..60 {
        scene.frontier.add_host(scene.now, &host(&format!("n{n}.stall.test")), HostMemory::default());
    }
    let mut n = 0;
    loop {
        match scene.frontier.poll(scene.now) {
            Step::Resolve(asked) => {
                n += 1;
                let _ = scene.frontier.resolved(scene.now, &asked, Resolution::Address(ip(n)));
            }
            Step::Fetch(lease) => stalled.push(lease),
            _ => break,
        }
    }
    assert_eq!(stalled.len(), 20, "a quarter");
    let lease = {
        scene.frontier.add_host(scene.now, &host("good.test"), HostMemory::default());
        scene.resolve("good.test", Resolution::Address(ip(200)));
        scene.lease_robots()
    };
    assert_eq!(lease.host(), &host("good.test"));
    // As its leases return, the others have their turns, each once.
    let mut asked: Vec<Host> = stalled.iter().map(|lease| lease.host().clone()).collect();
    while let Some(lease) = stalled.pop() {
        let unavailable = Outcome::RobotsUnavailable { retry_after: None, download: Duration::ZERO };
        let _ = scene.done(lease, unavailable);
        while let Step::Fetch(lease) = scene.frontier.poll(scene.now) {
            asked.push(lease.host().clone());
            stalled.push(lease);
        }
    }
    asked.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    asked.dedup();
    assert_eq!(asked.len(), 60);
}

#[test]
fn whoever_has_been_here_long_makes_way_for_its_own_kind() {
    let mut scene = Scene::new(Limits { hosts_max: 10, hosts_share: 1, ..Limits::default() });
    scene.add("a.crowd.test", ip(1), &["1"]);
    let lease = scene.lease();
    let _ = scene.done(lease, FETCHED);
    scene.now = scene.start + limits::TENURE;
    assert_eq!(scene.frontier.makes_way(scene.now, &host("a.crowd.test")), None, "nobody waits");
    let memory = HostMemory::default();
    let added = scene.frontier.add_host(scene.now, &host("b.crowd.test"), memory);
    assert!(matches!(added, Added::Crowded { until } if until > scene.now));
    let until = scene.frontier.makes_way(scene.now, &host("a.crowd.test")).unwrap();
    assert!(until > scene.now + limits::CROWDED_MAX, "those that wait come before it comes back");
}
