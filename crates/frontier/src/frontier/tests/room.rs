//! Who comes in where many want to.

use super::*;
use farol_base::{Random, Seeded};
use proptest::prelude::*;
use std::collections::HashMap;

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

/// Goes on until nobody can be leased; each host has an address of its own.
fn lease_all(scene: &mut Scene, leases: &mut Vec<Lease>) {
    loop {
        match scene.frontier.poll(scene.now) {
            Step::Resolve(asked) => {
                let n: u16 = asked
                    .as_str()
                    .bytes()
                    .filter(u8::is_ascii_digit)
                    .fold(0, |n, digit| n * 10 + u16::from(digit - b'0'));
                let address = IpAddr::from([10, 0, (n >> 8) as u8, n as u8]);
                assert_eq!(
                    scene.frontier.resolved(scene.now, &asked, Resolution::Address(address)),
                    Resolved::Taken
                );
            }
            Step::Refill { host, .. } => {
                let page = Scheduled { url: host.url("/p").unwrap(), revisit: false, depth: 0 };
                assert_eq!(scene.frontier.offer(scene.now, &host, vec![page], None), Offered::Taken);
            }
            Step::Fetch(lease) => leases.push(lease),
            _ => return,
        }
    }
}

#[test]
fn servers_that_never_answer_leave_connections_to_others() {
    let mut scene = Scene::new(Limits { in_flight_max: 80, ..Limits::default() });
    scene.add("good.test", ip(1), &["1", "2"]);
    let lease = scene.lease();
    let _ = scene.done(lease, FETCHED);
    let mut stalled = Vec::new();
    for n in 0..200 {
        scene.frontier.add_host(scene.now, &host(&format!("n{n}.stall.test")), HostMemory::default());
    }
    lease_all(&mut scene, &mut stalled);
    assert_eq!(stalled.len(), 79, "all but the one that is kept for the host that rests");
    scene.now = scene.now + DELAY;
    let good = scene.lease();
    assert_eq!(good.host(), &host("good.test"));
    // A newcomer has the next that returns, however many others stand in line.
    scene.frontier.add_host(scene.now, &host("new.test"), HostMemory::default());
    scene.resolve("new.test", Resolution::Address(ip(200)));
    let mut asked: Vec<Host> = stalled.iter().map(|lease| lease.host().clone()).collect();
    let unavailable = || Outcome::RobotsUnavailable { retry_after: None, download: Duration::ZERO };
    let _ = scene.done(stalled.remove(0), unavailable());
    assert_eq!(scene.lease_robots().host(), &host("new.test"));
    // As their leases return, the others have their turns, each once.
    while let Some(lease) = stalled.pop() {
        let _ = scene.done(lease, unavailable());
        let before = stalled.len();
        lease_all(&mut scene, &mut stalled);
        asked.extend(stalled[before..].iter().map(|lease| lease.host().clone()));
    }
    asked.sort_by(|a, b| a.as_str().cmp(b.as_str()));
    assert_eq!(asked.len(), 200);
    asked.dedup();
    assert_eq!(asked.len(), 200);
}

#[test]
fn a_domain_that_is_alone_has_every_lease() {
    let mut scene = Scene::new(Limits { in_flight_max: 80, ..Limits::default() });
    let mut leases = Vec::new();
    for n in 0..100 {
        scene.frontier.add_host(scene.now, &host(&format!("n{n}.big.test")), HostMemory::default());
    }
    lease_all(&mut scene, &mut leases);
    assert_eq!(leases.len(), 80);
    // Somebody who is away for an hour has nothing kept for him.
    let away = HostMemory { not_before: scene.now + HOUR, ..HostMemory::default() };
    scene.frontier.add_host(scene.now, &host("away.test"), away);
    let _ = scene.done(leases.remove(0), Outcome::RobotsUnavailable { retry_after: None, download: HOUR });
    lease_all(&mut scene, &mut leases);
    assert_eq!(leases.len(), 80);
}

/// What somebody outside sees when nobody can be leased.
fn check_shares(scene: &Scene, leases: &[Lease]) {
    let limits = &scene.frontier.limits;
    let share = limits.leased_per_domain();
    let domain = |host: &Host| host.registrable_domain().to_string();
    let mut leased: HashMap<String, usize> = HashMap::new();
    leases.iter().for_each(|lease| *leased.entry(domain(lease.host())).or_default() += 1);
    let of = |name: &String| leased.get(name).copied().unwrap_or(0);
    let (mut waiting, mut near) = (Vec::new(), HashMap::<String, usize>::new());
    for view in scene.frontier.hosts() {
        let name = domain(&view.host);
        if view.state == HostState::Waiting {
            waiting.push(name.clone());
        }
        if view.wakes.is_none_or(|wakes| wakes <= scene.now + limits::NEAR) {
            *near.entry(name).or_default() += 1;
        }
    }
    assert!(leases.len() <= limits.in_flight_max);
    if waiting.iter().any(|name| of(name) < share) {
        assert_eq!(leases.len(), limits.in_flight_max, "somebody below the share waits for a free lease");
    }
    if !waiting.is_empty() {
        let unmet = near.iter().map(|(name, near)| (*near).min(share).saturating_sub(of(name))).sum();
        let kept = limits.kept_for_others(unmet);
        assert!(
            leases.len() + kept >= limits.in_flight_max,
            "{} leases lie idle",
            limits.in_flight_max - leases.len()
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn leases_are_lent_to_whoever_wants_them_and_never_before_those_below_their_share(
        seed in any::<u64>(), in_flight_max in 1usize..100, sizes in prop::collection::vec(1usize..90, 1..5),
    ) {
        let mut random = Seeded::new(seed);
        let mut scene = Scene::new(Limits { in_flight_max, hosts_max: 20_000, ..Limits::default() });
        let share = scene.frontier.limits.leased_per_domain();
        let mut leases: Vec<Lease> = Vec::new();
        let mut n = 0;
        for (domain, size) in ["a.test", "b.test", "c.test", "d.test"].iter().zip(sizes) {
            for _ in 0..size {
                n += 1;
                let memory = HostMemory { robots_valid_until: Some(scene.now + ROBOTS_VALID), ..HostMemory::default() };
                scene.frontier.add_host(scene.now, &host(&format!("n{n}.{domain}")), memory);
            }
            for _ in 0..6 {
                let before = leases.len();
                lease_all(&mut scene, &mut leases);
                check_shares(&scene, &leases);
                // Whoever was lent one: nobody below the share was left waiting.
                let domain = |host: &Host| host.registrable_domain().to_string();
                let count = |name: &str, upto: usize| leases[..upto].iter().filter(|lease| domain(lease.host()) == name).count();
                let lent = (before..leases.len()).any(|n| count(&domain(leases[n].host()), n) >= share);
                let left = scene.frontier.hosts().any(|view| {
                    view.state == HostState::Waiting && count(&domain(&view.host), leases.len()) < share
                });
                prop_assert!(!(lent && left));
                for _ in 0..random.below(1 + leases.len() as u64) {
                    let lease = leases.swap_remove(random.below(leases.len() as u64) as usize);
                    let outcome = match random.below(6) {
                        0 => Outcome::NotAsked,
                        1 => Outcome::Failed { transient: true },
                        _ => FETCHED,
                    };
                    let _ = scene.done(lease, outcome);
                }
                scene.now = scene.now + Duration::from_secs(random.below(15));
            }
        }
        // Nothing is kept for those who have left.
        leases.drain(..).for_each(|lease| drop(scene.frontier.done(scene.now, lease, FETCHED)));
        scene.frontier.drain();
        prop_assert_eq!(scene.frontier.domains.unmet(), 0);
    }
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
