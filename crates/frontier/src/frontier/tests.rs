//! Scenes from the life of a host, told step by step.

mod errands;
mod pace;
mod room;

use super::*;
use crate::limits::{ROBOTS_VALID, RetryPolicy};
use crate::polite::Constant;
use farol_base::CanonicalUrl;
use std::net::IpAddr;
use std::time::Duration;

const DELAY: Duration = Duration::from_secs(10);
const HOUR: Duration = Duration::from_secs(3600);

/// A frontier with a clock, and shorthand for what a crawler does.
struct Scene {
    frontier: Frontier,
    now: Timestamp,
    start: Timestamp,
}

fn host(name: &str) -> Host {
    Host::parse(&format!("http://{name}/")).unwrap()
}

fn page(name: &str, path: &str) -> Scheduled {
    Scheduled {
        url: CanonicalUrl::parse(&format!("http://{name}/{path}")).unwrap(),
        revisit: false,
        depth: 0,
    }
}

fn ip(last: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, last])
}

const FETCHED: Outcome = Outcome::Fetched { download: Duration::from_millis(50), bytes: 1 };

impl Scene {
    fn new(limits: Limits) -> Scene {
        let start = Timestamp::from_secs(1_000_000);
        Scene { frontier: Frontier::new(Box::new(Constant(DELAY)), limits), now: start, start }
    }

    fn default() -> Scene {
        Scene::new(Limits::default())
    }

    /// Adds a host whose robots.txt is known, with pages, ready to be leased.
    fn add(&mut self, name: &str, address: IpAddr, paths: &[&str]) {
        let memory =
            HostMemory { robots_valid_until: Some(self.now + ROBOTS_VALID), ..HostMemory::default() };
        assert_eq!(self.frontier.add_host(self.now, &host(name), memory), Added::New);
        self.resolve(name, Resolution::Address(address));
        self.refill(name, paths);
    }

    #[track_caller]
    fn resolve(&mut self, name: &str, answer: Resolution) {
        match self.frontier.poll(self.now) {
            Step::Resolve(asked) if asked == host(name) => {
                assert_eq!(self.frontier.resolved(self.now, &asked, answer), Resolved::Taken);
            }
            step => panic!("{step:?}"),
        }
    }

    #[track_caller]
    fn refill(&mut self, name: &str, paths: &[&str]) {
        match self.frontier.poll(self.now) {
            Step::Refill { host: asked, .. } if asked == host(name) => {
                let pages = paths.iter().map(|path| page(name, path)).collect();
                assert_eq!(self.frontier.offer(self.now, &asked, pages, None), Offered::Taken);
            }
            step => panic!("{step:?}"),
        }
    }

    #[track_caller]
    fn lease(&mut self) -> Lease {
        match self.frontier.poll(self.now) {
            Step::Fetch(lease) => lease,
            step => panic!("{step:?}"),
        }
    }

    /// Leases, and tells the address first if that is asked for.
    #[track_caller]
    fn lease_resolved(&mut self) -> Lease {
        match self.frontier.poll(self.now) {
            Step::Resolve(asked) => {
                let _ = self.frontier.resolved(self.now, &asked, Resolution::Address(ip(1)));
            }
            Step::Fetch(lease) => return lease,
            step => panic!("{step:?}"),
        }
        self.lease()
    }

    #[track_caller]
    fn lease_page(&mut self, want: Scheduled) -> Lease {
        let lease = self.lease();
        assert_eq!(lease.task(), &Task::Page(want));
        lease
    }

    #[track_caller]
    fn lease_robots(&mut self) -> Lease {
        let lease = self.lease();
        assert_eq!(lease.task(), &Task::Robots);
        lease
    }

    fn done(&mut self, lease: Lease, outcome: Outcome) -> Disposition {
        self.frontier.done(self.now, lease, outcome)
    }

    /// Waits as long as the frontier says, and tells how long that was.
    #[track_caller]
    fn wait(&mut self) -> Duration {
        match self.frontier.poll(self.now) {
            Step::WaitUntil(then) => {
                let waited = then.since(self.now);
                self.now = then;
                waited
            }
            step => panic!("{step:?}"),
        }
    }

    fn state(&self, name: &str) -> HostState {
        self.frontier.host(&host(name)).unwrap().state
    }
}

#[test]
fn a_host_is_born_asked_and_leaves() {
    let mut scene = Scene::default();
    scene.frontier.add_host(scene.now, &host("a"), HostMemory::default());
    assert_eq!(scene.state("a"), HostState::Resolving);
    scene.resolve("a", Resolution::Address(ip(1)));
    assert_eq!(scene.state("a"), HostState::Waiting);
    let lease = scene.lease_robots();
    assert_eq!((lease.host(), lease.address()), (&host("a"), ip(1)));
    assert_eq!(scene.state("a"), HostState::Leased);
    assert!(matches!(scene.frontier.poll(scene.now), Step::Idle));
    let read = Outcome::Robots { delay: Some(DELAY * 3), valid_until: scene.now + HOUR, download: DELAY };
    assert_eq!(scene.done(lease, read), Disposition::Finished);
    assert_eq!(scene.state("a"), HostState::Resting);
    assert_eq!(scene.wait(), DELAY * 3); // Its own Crawl-delay.
    scene.refill("a", &["1"]);
    let lease = scene.lease_page(page("a", "1"));
    assert_eq!(scene.done(lease, FETCHED), Disposition::Finished);
    assert_eq!(scene.wait(), DELAY * 3);
    let Step::Refill { host: asked, want: 32 } = scene.frontier.poll(scene.now) else { panic!() };
    assert_eq!(scene.state("a"), HostState::Refilling);
    let Offered::Left(memory) = scene.frontier.offer(scene.now, &asked, vec![], None) else { panic!() };
    assert_eq!(memory.crawl_delay, Some(DELAY * 3));
    assert_eq!(memory.robots_valid_until, Some(scene.start + HOUR));
    assert_eq!(scene.frontier.host(&asked), None);
    assert_eq!(scene.frontier.counts(), Counts::default());
    assert!(matches!(scene.frontier.poll(scene.now), Step::Idle));
}

#[test]
fn what_is_remembered_is_not_asked_again() {
    let mut scene = Scene::default();
    let memory = HostMemory {
        robots_valid_until: Some(scene.now + HOUR * 999),
        not_before: scene.now + Duration::from_secs(7),
        ..HostMemory::default()
    };
    scene.frontier.add_host(scene.now, &host("a"), memory);
    assert_eq!(scene.wait(), Duration::from_secs(7)); // Politeness outlives a restart.
    scene.resolve("a", Resolution::Address(ip(1)));
    scene.refill("a", &["1", "2"]);
    let lease = scene.lease_page(page("a", "1"));
    // A page that takes a day: robots.txt is a day old at most, whatever was remembered.
    scene.now = scene.now + ROBOTS_VALID;
    let _ = scene.done(lease, FETCHED);
    scene.wait();
    scene.resolve("a", Resolution::Address(ip(1)));
    let _robots = scene.lease_robots();
}

#[test]
fn hosts_of_one_address_take_turns() {
    let mut scene = Scene::default();
    scene.add("a", ip(1), &["1", "2"]);
    let first = scene.lease_page(page("a", "1"));
    let memory = HostMemory { robots_valid_until: Some(scene.now + HOUR), ..HostMemory::default() };
    scene.frontier.add_host(scene.now, &host("b"), memory);
    scene.resolve("b", Resolution::Address("::ffff:192.0.2.1".parse().unwrap())); // The same machine.
    scene.refill("b", &["1", "2"]);
    assert!(matches!(scene.frontier.poll(scene.now), Step::Idle));
    let _ = scene.done(first, FETCHED);
    assert_eq!(scene.wait(), DELAY);
    let second = scene.lease_page(page("b", "1"));
    let _ = scene.done(second, FETCHED);
    assert_eq!(scene.wait(), DELAY);
    let _third = scene.lease_page(page("a", "2"));
    assert_eq!(scene.frontier.counts().addresses, 1);
}

#[test]
fn a_zero_delay_costs_nothing() {
    let limits = Limits { delay_min: Duration::ZERO, ..Limits::default() };
    let mut scene = Scene::new(limits);
    scene.frontier = Frontier::new(Box::new(Constant(Duration::ZERO)), scene.frontier.limits.clone());
    scene.add("a", ip(1), &["1", "2", "3"]);
    for path in ["1", "2", "3"] {
        let lease = scene.lease_page(page("a", path));
        let slow = Outcome::Fetched { download: HOUR, bytes: 1 };
        assert_eq!(scene.done(lease, slow), Disposition::Finished);
    }
    assert_eq!(scene.now, scene.start);
    assert!(matches!(scene.frontier.poll(scene.now), Step::Refill { .. }));
}

#[test]
fn a_refused_page_costs_no_rest() {
    let mut scene = Scene::default();
    scene.add("a", ip(1), &["1", "2"]);
    let lease = scene.lease_page(page("a", "1"));
    assert_eq!(scene.done(lease, Outcome::NotAsked), Disposition::Finished);
    let _second = scene.lease_page(page("a", "2"));
}

#[test]
fn a_throttled_page_comes_first_again_when_the_server_says() {
    let mut scene = Scene::default();
    scene.add("a", ip(1), &["1", "2"]);
    let throttled = |secs: Option<u64>| Outcome::Throttled { retry_after: secs.map(Duration::from_secs) };
    let waits = [(Some(90), 90), (None, 60), (Some(0), 120)]; // The first time as asked, then at least ours.
    for (asked_for, waited) in waits {
        let lease = scene.lease_page(page("a", "1"));
        assert_eq!(scene.done(lease, throttled(asked_for)), Disposition::Requeued);
        assert_eq!(scene.wait(), Duration::from_secs(waited));
    }
    let lease = scene.lease_page(page("a", "1"));
    assert_eq!(scene.done(lease, throttled(Some(1_000_000))), Disposition::GaveUp(page("a", "1")));
    assert_eq!(scene.wait(), HOUR * 24);
    scene.resolve("a", Resolution::Address(ip(1)));
    let lease = scene.lease_robots();
    let read = Outcome::Robots { delay: None, valid_until: scene.now, download: DELAY };
    let _ = scene.done(lease, read);
    scene.wait();
    let _second = scene.lease_page(page("a", "2"));
}

#[test]
fn a_dead_host_is_quarantined_with_its_pages() {
    let mut scene = Scene::default();
    scene.add("a", ip(1), &["1", "2", "3"]);
    let mut given_up = 0;
    let mut pauses = Vec::new();
    for _ in 0..8 {
        let lease = scene.lease();
        let disposition = scene.done(lease, Outcome::Failed { transient: true });
        given_up += usize::from(matches!(disposition, Disposition::GaveUp(_)));
        pauses.push(scene.wait().as_secs());
        scene.resolve("a", Resolution::Address(ip(2))); // Perhaps it has moved.
    }
    assert_eq!(pauses, [30, 60, 120, 240, 480, 960, 1920, 86_400]);
    assert_eq!((given_up, scene.frontier.counts().queued), (0, 3));
    let lease = scene.lease_robots(); // A day has passed.
    assert_eq!(lease.address(), ip(2));
    let _ = scene.done(lease, Outcome::RobotsUnavailable { retry_after: None, download: DELAY });
    assert_eq!(scene.state("a"), HostState::Unreachable);
    assert_eq!(scene.wait(), HOUR * 48); // Still dead: twice as long.
    assert_eq!(scene.frontier.remove_host(&host("a")).len(), 3);
}

#[test]
fn a_broken_page_is_given_up_and_the_host_goes_on() {
    let mut scene = Scene::default();
    scene.add("a", ip(1), &["1", "2"]);
    let lease = scene.lease();
    assert_eq!(scene.done(lease, Outcome::Failed { transient: false }), Disposition::GaveUp(page("a", "1")));
    assert_eq!(scene.wait(), DELAY);
    let _second = scene.lease_page(page("a", "2"));
}

#[test]
fn without_robots_txt_no_page_is_asked_for() {
    let mut scene = Scene::default();
    scene.frontier.add_host(scene.now, &host("a"), HostMemory::default());
    for try_ in 1..=8 {
        let lease = scene.lease_resolved();
        let _ = scene.done(lease, Outcome::RobotsUnavailable { retry_after: None, download: DELAY });
        let want = if try_ == 8 { HostState::Unreachable } else { HostState::Resting };
        assert_eq!(scene.state("a"), want);
        // Somebody who finds more pages does not wake it.
        assert_eq!(scene.frontier.add_host(scene.now, &host("a"), HostMemory::default()), Added::Known);
        scene.wait();
    }
    // Three hours of tries, then a day.
    assert_eq!(scene.now.since(scene.start), HOUR * 27 + Duration::from_secs(120));
    let lease = scene.lease_resolved();
    assert_eq!(lease.task(), &Task::Robots);
    let _ = scene.done(lease, Outcome::Robots { delay: None, valid_until: scene.now, download: DELAY });
    assert_eq!(scene.frontier.host(&host("a")).unwrap().memory.failures, 0);
}

#[test]
fn names_that_do_not_resolve() {
    let mut scene = Scene::default();
    scene.frontier.add_host(scene.now, &host("a"), HostMemory::default());
    scene.resolve("a", Resolution::Failed { transient: true });
    assert_eq!((scene.state("a"), scene.wait().as_secs()), (HostState::Resting, 120));
    scene.resolve("a", Resolution::Failed { transient: false });
    assert_eq!((scene.state("a"), scene.wait()), (HostState::Unreachable, HOUR * 24));
    scene.resolve("a", Resolution::Refused);
    assert_eq!((scene.state("a"), scene.wait()), (HostState::Refused, HOUR * 24));
    scene.resolve("a", Resolution::Address(ip(1)));
    let _robots = scene.lease_robots();
}

#[test]
fn a_dry_host_sleeps_until_something_is_due() {
    let mut scene = Scene::default();
    scene.add("a", ip(1), &["1"]);
    let lease = scene.lease();
    let _ = scene.done(lease, FETCHED);
    scene.wait();
    let Step::Refill { host: a, .. } = scene.frontier.poll(scene.now) else { panic!() };
    assert_eq!(scene.frontier.offer(scene.now, &a, vec![], Some(scene.now + HOUR / 2)), Offered::Taken);
    assert_eq!(scene.state("a"), HostState::Sleeping);
    assert_eq!(scene.wait(), HOUR / 2);
    // Also where that is in a moment.
    let Step::Refill { host: a, .. } = scene.frontier.poll(scene.now) else { panic!() };
    let _ = scene.frontier.offer(scene.now, &a, vec![], Some(scene.now + Duration::from_millis(30)));
    assert_eq!(scene.wait(), Duration::from_millis(30));
    // A store that says "now" and brings nothing is asked again a second later, not at once.
    let Step::Refill { host: a, .. } = scene.frontier.poll(scene.now) else { panic!() };
    let _ = scene.frontier.offer(scene.now, &a, vec![], Some(scene.now));
    assert_eq!(scene.wait(), Duration::from_secs(1));
    // More work found while the refill is under way: its empty answer is out of date.
    let Step::Refill { host: a, .. } = scene.frontier.poll(scene.now) else { panic!() };
    scene.frontier.add_host(scene.now, &a, HostMemory::default());
    assert_eq!(scene.frontier.offer(scene.now, &a, vec![], None), Offered::Taken);
    let Step::Refill { host: a, .. } = scene.frontier.poll(scene.now) else { panic!() };
    let _ = scene.frontier.offer(scene.now, &a, vec![], Some(Timestamp::NEVER));
    assert!(matches!(scene.frontier.poll(scene.now), Step::Idle));
    // Found while it sleeps: it wakes.
    scene.frontier.add_host(scene.now, &a, HostMemory::default());
    assert!(matches!(scene.frontier.poll(scene.now), Step::Refill { .. }));
}

#[test]
fn limits_hold() {
    let limits =
        Limits { hosts_max: 3, in_flight_max: 2, resolving_max: 1, queued_bytes_max: 1, ..Limits::default() };
    let mut scene = Scene::new(limits);
    for (name, want) in [("a", Added::New), ("b", Added::New), ("c", Added::New), ("d", Added::Full)] {
        assert_eq!(scene.frontier.add_host(scene.now, &host(name), HostMemory::default()), want);
    }
    let ask = |scene: &mut Scene, name: &str| match scene.frontier.poll(scene.now) {
        Step::Resolve(asked) => assert_eq!(asked, host(name)),
        step => panic!("{step:?}"),
    };
    ask(&mut scene, "a");
    assert!(matches!(scene.frontier.poll(scene.now), Step::Idle)); // One question at a time.
    let _ = scene.frontier.resolved(scene.now, &host("a"), Resolution::Address(ip(1)));
    ask(&mut scene, "b");
    let _lease_a = scene.lease_robots();
    let _ = scene.frontier.resolved(scene.now, &host("b"), Resolution::Address(ip(2)));
    ask(&mut scene, "c");
    let _lease_b = scene.lease_robots();
    let _ = scene.frontier.resolved(scene.now, &host("c"), Resolution::Address(ip(3)));
    assert!(matches!(scene.frontier.poll(scene.now), Step::Idle)); // Two leases are out.
    assert_eq!(scene.frontier.counts().in_flight, 2);
}

#[test]
fn a_full_frontier_retires_who_sleeps_longest() {
    let mut scene = Scene::new(Limits { hosts_max: 3, ..Limits::default() });
    scene.add("a", ip(1), &["1"]);
    for (name, hours) in [("b", 5), ("c", 9)] {
        let memory =
            HostMemory { not_before: scene.now + HOUR * hours, failures: 3, ..HostMemory::default() };
        scene.frontier.add_host(scene.now, &host(name), memory);
    }
    assert_eq!(scene.frontier.retire(scene.now + HOUR * 10), None);
    let (retired, memory, pages) = scene.frontier.retire(scene.now + HOUR).unwrap();
    assert_eq!((retired, memory.failures, pages.len()), (host("c"), 3, 0));
    assert_eq!(scene.frontier.retire(scene.now + HOUR).unwrap().0, host("b"));
    assert_eq!(scene.frontier.retire(scene.now + HOUR), None); // The last one is busy.
}

#[test]
fn a_removed_host_cannot_be_leased_twice() {
    let mut scene = Scene::default();
    scene.add("a", ip(1), &["1", "2"]);
    let lease = scene.lease();
    assert_eq!(scene.frontier.remove_host(&host("a")), [page("a", "2")]);
    assert_eq!((scene.frontier.counts().hosts, scene.frontier.counts().in_flight), (0, 1));
    assert_eq!(scene.frontier.hosts().count(), 0);
    assert_eq!(
        scene.frontier.offer(scene.now, &host("a"), vec![page("a", "3")], None),
        Offered::GivenBack(vec![page("a", "3")])
    );
    // It comes back while its old lease runs.
    assert_eq!(scene.frontier.add_host(scene.now, &host("a"), HostMemory::default()), Added::New);
    assert!(matches!(scene.frontier.poll(scene.now), Step::Idle));
    assert_eq!(scene.done(lease, FETCHED), Disposition::Finished);
    assert_eq!(scene.wait(), DELAY);
    let lease = scene.lease_robots();
    assert_eq!(scene.frontier.drain().len(), 1);
    assert_eq!(scene.done(lease, FETCHED), Disposition::Finished);
    assert_eq!(scene.wait(), DELAY); // The address still rests…
    assert!(matches!(scene.frontier.poll(scene.now), Step::Idle));
    assert_eq!(scene.frontier.counts(), Counts::default()); // …and is then forgotten.
}

#[test]
fn a_drained_page_is_as_unvisited_as_it_was() {
    let mut scene = Scene::default();
    scene.add("a", ip(1), &["1", "2"]);
    let lease = scene.lease();
    let drained = scene.frontier.drain();
    assert_eq!(drained[0].2, [page("a", "2")]);
    assert_eq!(drained[0].1.not_before, scene.now + DELAY); // It was asked just now.
    assert_eq!(
        scene.done(lease, Outcome::Failed { transient: true }),
        Disposition::GivenBack(page("a", "1"))
    );
}

#[test]
fn a_site_that_wants_a_day_between_requests_gets_it() {
    let mut scene = Scene::default();
    scene.frontier.add_host(scene.now, &host("a"), HostMemory::default());
    let mut pages = Vec::new();
    for _ in 0..40 {
        match scene.frontier.poll(scene.now) {
            Step::Resolve(asked) => {
                let _ = scene.frontier.resolved(scene.now, &asked, Resolution::Address(ip(1)));
            }
            Step::Refill { host: asked, .. } => {
                let _ = scene.frontier.offer(scene.now, &asked, vec![page("a", "1")], None);
            }
            Step::Fetch(lease) => {
                let day = Some(HOUR * 24);
                let read = Outcome::Robots { delay: day, valid_until: scene.now, download: Duration::ZERO };
                let is_page = lease.task() != &Task::Robots;
                pages.extend(is_page.then_some(scene.now));
                let _ = scene.done(lease, if is_page { FETCHED } else { read });
            }
            Step::WaitUntil(then) => scene.now = then,
            Step::Left { .. } | Step::Idle => panic!(),
        }
    }
    assert!(pages.len() >= 4, "{pages:?}");
    assert!(pages.windows(2).all(|pair| pair[1].since(pair[0]) >= HOUR * 24), "{pages:?}");
}

#[test]
fn in_a_long_line_pages_follow_robots_txt() {
    // 200 hosts on one address with a rest of 10 min: a round takes 33 h, longer than robots.txt is valid.
    let mut scene = Scene::new(Limits { delay_min: Duration::from_secs(600), ..Limits::default() });
    for n in 0..200 {
        scene.frontier.add_host(scene.now, &host(&format!("h{n}")), HostMemory::default());
    }
    let (mut robots, mut pages) = (0, 0);
    while scene.now < scene.start + HOUR * 24 * 30 {
        match scene.frontier.poll(scene.now) {
            Step::Resolve(asked) => {
                let _ = scene.frontier.resolved(scene.now, &asked, Resolution::Address(ip(1)));
            }
            Step::Refill { host: asked, .. } => {
                let _ = scene.frontier.offer(scene.now, &asked, vec![page(asked.name(), "1")], None);
            }
            Step::Fetch(lease) if lease.task() == &Task::Robots => {
                robots += 1;
                let read =
                    Outcome::Robots { delay: None, valid_until: Timestamp::NEVER, download: Duration::ZERO };
                let _ = scene.done(lease, read);
            }
            Step::Fetch(lease) => {
                pages += 1;
                let _ = scene.done(lease, FETCHED);
            }
            Step::WaitUntil(then) => scene.now = then,
            Step::Left { .. } | Step::Idle => panic!(),
        }
    }
    assert!(pages >= robots * 9 / 10, "{robots} files and {pages} pages");
}

#[test]
fn odd_limits_do_not_stop_it() {
    let never =
        RetryPolicy { first: Duration::ZERO, longest: Duration::ZERO, tries: 0, quarantine: Duration::ZERO };
    let limits = Limits {
        queue_per_host: 0,
        in_flight_max: 0,
        resolving_max: 0,
        tries_per_page: 0,
        address_valid: Duration::ZERO,
        host_retry: never,
        robots_retry: never,
        ..Limits::default()
    };
    let mut scene = Scene::new(limits);
    scene.add("a", ip(1), &["1"]);
    let lease = scene.lease();
    assert_eq!(scene.done(lease, Outcome::Failed { transient: true }), Disposition::GaveUp(page("a", "1")));
    assert_eq!(scene.wait(), DELAY);
    scene.resolve("a", Resolution::Address(ip(1)));
    scene.refill("a", &["2"]);
    let _lease = scene.lease_page(page("a", "2"));
}
