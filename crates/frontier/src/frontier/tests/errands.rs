//! Robots.txt files that are elsewhere.

use super::*;
use crate::limits::{FOREIGN_ROBOTS_MAX, ROBOTS_CHAIN_MAX};

fn moved(name: &str) -> Outcome {
    let to = CanonicalUrl::parse(&format!("http://{name}/elsewhere")).unwrap();
    Outcome::RobotsMoved { to, memory: Box::default() }
}

fn read(scene: &Scene) -> Outcome {
    Outcome::Robots { delay: None, valid_until: scene.now + HOUR, download: Duration::ZERO }
}

impl Scene {
    /// Adds a host whose robots.txt was never read, and leases it.
    #[track_caller]
    fn lease_new(&mut self, name: &str, address: IpAddr) -> Lease {
        assert_eq!(self.frontier.add_host(self.now, &host(name), HostMemory::default()), Added::New);
        self.resolve(name, Resolution::Address(address));
        self.lease_robots()
    }

    #[track_caller]
    fn lease_moved(&mut self, of: &str, at: &str) -> Lease {
        let lease = self.lease();
        let Task::MovedRobots(moved) = lease.task() else { panic!("{:?}", lease.task()) };
        assert_eq!((&moved.of, lease.host()), (&host(of), &host(at)));
        lease
    }
}

#[test]
fn a_moved_robots_txt_is_asked_for_in_the_turn_of_the_host_that_has_it() {
    let mut scene = Scene::default();
    scene.add("b.test", ip(2), &["1", "2"]);
    let lease = scene.lease_page(page("b.test", "1"));
    assert_eq!(scene.done(lease, FETCHED), Disposition::Finished);
    let lease = scene.lease_new("a.test", ip(1));
    let _ = scene.done(lease, moved("b.test"));
    // b was asked just now: it rests first, whoever asks.
    assert_eq!(scene.wait(), DELAY);
    let lease = scene.lease_moved("a.test", "b.test");
    assert_eq!(lease.address(), ip(2));
    let answer = read(&scene);
    assert_eq!(scene.done(lease, answer), Disposition::Finished);
    // Then b rests again, and has its own turn; a has its rules.
    assert_eq!(scene.wait(), DELAY);
    scene.refill("a.test", &["1"]);
    let mut asked = [scene.lease(), scene.lease()].map(|lease| lease.host().name().to_string());
    asked.sort();
    assert_eq!(asked, ["a.test", "b.test"]);
}

#[test]
fn a_host_that_is_not_here_is_a_guest_and_leaves_with_its_memory() {
    let mut scene = Scene::default();
    let lease = scene.lease_new("a.test", ip(1));
    let _ = scene.done(lease, moved("b.test"));
    scene.resolve("b.test", Resolution::Address(ip(2)));
    let lease = scene.lease_moved("a.test", "b.test");
    let answer = read(&scene);
    let _ = scene.done(lease, answer);
    let Step::Left { host: left, memory } = scene.frontier.poll(scene.now) else { panic!() };
    assert_eq!((left, memory.not_before), (host("b.test"), scene.now + DELAY));
    assert_eq!(memory.robots_valid_until, None, "they are not its own rules");
    assert_eq!(scene.frontier.counts().hosts, 1);
}

#[test]
fn names_of_one_address_are_asked_one_after_the_other_whoever_points_there() {
    let mut scene = Scene::default();
    let leases: Vec<Lease> = (0..4).map(|n| scene.lease_new(&format!("evil{n}.test"), ip(10 + n))).collect();
    for (n, lease) in leases.into_iter().enumerate() {
        let _ = scene.done(lease, moved(&format!("{n}.victim.test")));
        scene.resolve(&format!("{n}.victim.test"), Resolution::Address(ip(1)));
    }
    let mut asked = Vec::new();
    while asked.len() < 4 {
        match scene.frontier.poll(scene.now) {
            Step::Fetch(lease) if lease.address() == ip(1) => {
                asked.push(scene.now);
                let answer = read(&scene);
                let _ = scene.done(lease, answer);
            }
            Step::Refill { host: asked, .. } => {
                let _ = scene.frontier.offer(scene.now, &asked, vec![], None);
            }
            Step::Left { .. } => {}
            Step::WaitUntil(then) => scene.now = then,
            step => panic!("{step:?}"),
        }
    }
    assert!(asked.windows(2).all(|pair| pair[1].since(pair[0]) >= DELAY), "{asked:?}");
}

#[test]
fn a_chain_of_redirects_has_one_deadline() {
    let mut scene = Scene::default();
    let lease = scene.lease_new("a.test", ip(1));
    let _ = scene.done(lease, moved("b.test"));
    scene.resolve("b.test", Resolution::Address(ip(2)));
    let lease = scene.lease_moved("a.test", "b.test");
    scene.now = scene.start + ROBOTS_CHAIN_MAX;
    let _ = scene.done(lease, moved("c.test"));
    // Its time is up: it is as if there had been no answer, and c is never asked.
    assert_eq!(scene.frontier.host(&host("a.test")).unwrap().memory.failures, 1);
    assert_eq!(scene.frontier.host(&host("c.test")), None);

    // Nor does it wait longer for a host that is never asked.
    let mut scene = Scene::default();
    let lease = scene.lease_new("a.test", ip(1));
    let _ = scene.done(lease, moved("b.test"));
    let Step::Resolve(asked) = scene.frontier.poll(scene.now) else { panic!() };
    assert_eq!(asked, host("b.test"));
    let failures = |scene: &Scene| scene.frontier.host(&host("a.test")).unwrap().memory.failures;
    while scene.now < scene.start + ROBOTS_CHAIN_MAX {
        assert_eq!(failures(&scene), 0);
        scene.wait();
    }
    assert!(matches!(scene.frontier.poll(scene.now), Step::WaitUntil(_)));
    assert_eq!((scene.now, failures(&scene)), (scene.start + ROBOTS_CHAIN_MAX, 1));
}

#[test]
fn a_domain_is_asked_for_few_files_of_others_at_a_time() {
    let mut scene = Scene::default();
    let mut refused = 0;
    for n in 0..20 {
        let name = format!("evil{n}.test");
        let lease = scene.lease_new(&name, ip(10 + n));
        let _ = scene.done(lease, moved(&format!("{n}.victim.test")));
        refused += u32::from(scene.frontier.host(&host(&name)).unwrap().memory.failures > 0);
        // Nobody answers where the victim's names lead.
        while let Step::Resolve(_) | Step::Left { .. } = scene.frontier.poll(scene.now) {}
    }
    assert_eq!(refused as usize, 20 - FOREIGN_ROBOTS_MAX);
}

#[test]
fn a_robots_txt_moved_within_its_host_takes_two_turns() {
    let mut scene = Scene::default();
    let lease = scene.lease_new("a.test", ip(1));
    let _ = scene.done(lease, moved("a.test"));
    assert_eq!(scene.wait(), DELAY);
    let lease = scene.lease_moved("a.test", "a.test");
    let answer = read(&scene);
    let _ = scene.done(lease, answer);
    assert_eq!(scene.wait(), DELAY);
    scene.refill("a.test", &["1"]);
    let _lease = scene.lease_page(page("a.test", "1"));
}

#[test]
fn where_the_file_cannot_be_had_nothing_is_asked_for() {
    for answer in [Resolution::Failed { transient: false }, Resolution::Refused] {
        let mut scene = Scene::default();
        let lease = scene.lease_new("a.test", ip(1));
        let _ = scene.done(lease, moved("nowhere.test"));
        scene.resolve("nowhere.test", answer);
        let Step::Left { host: left, memory } = scene.frontier.poll(scene.now) else { panic!() };
        assert!(left == host("nowhere.test") && memory.not_before > scene.now);
        let view = scene.frontier.host(&host("a.test")).unwrap();
        assert_eq!((view.memory.failures, view.memory.robots_valid_until), (1, None));
    }
}
