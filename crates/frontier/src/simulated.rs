//! A crawl on a clock of its own: random hosts, faults and removals, with somebody who watches the promises.
//!
//! The [`Watch`] knows nothing of the frontier's insides: it sees leases go out and come back, and keeps its own
//! record of who may be asked when and where every page is.

use crate::polite::Constant;
use crate::revisit::{History, Interval, RevisitPolicy, Visited};
use crate::*;
use farol_base::{CanonicalUrl, Host, Random, Scheduled, Seeded, Timestamp};
use proptest::prelude::*;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);
/// Hosts without pages, to which a robots.txt may be moved.
const GUESTS: usize = 3;

/// What a run is like.
#[derive(Clone, Debug)]
struct Weather {
    seed: u64,
    hosts: usize,
    addresses: usize,
    pages_per_host: usize,
    delay: Duration,
    in_flight_max: usize,
    /// Per thousand requests: how many go wrong, each in one of the ways that there are.
    faults: u64,
    /// Per thousand steps: how many remove or drain a host.
    removals: u64,
    /// Per thousand answers to robots.txt: how many are redirects, to any host.
    moves: u64,
    /// Hosts that fit in, and those of a domain or an address that always do.
    places: usize,
    share: usize,
    /// Whether pages are visited again when they are due.
    revisits: bool,
}

/// Where a page is, by the watcher's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whereabouts {
    /// In the store, due at this instant.
    Store {
        due: Timestamp,
        last: Option<Timestamp>,
    },
    /// Offered to the frontier.
    Offered {
        last: Option<Timestamp>,
    },
    Finished,
}

struct SimHost {
    host: Host,
    crawl_delay: Option<Duration>,
    address: IpAddr,
    pages: BTreeMap<CanonicalUrl, Whereabouts>,
    memory: HostMemory,
}

/// Keeps the record of who may be asked when.
#[derive(Default)]
struct Watch {
    busy_hosts: HashSet<Host>,
    busy_addresses: HashSet<IpAddr>,
    host_free_at: HashMap<Host, Timestamp>,
    address_free_at: HashMap<IpAddr, Timestamp>,
    robots_read: HashMap<Host, Timestamp>,
    requests: u64,
}

impl Watch {
    fn leased(&mut self, now: Timestamp, lease: &Lease) {
        let (host, address) = (lease.host(), lease.address());
        assert!(self.busy_hosts.insert(host.clone()), "{host} is leased twice");
        assert!(self.busy_addresses.insert(address), "{address} is leased twice");
        let free = self.host_free_at.get(host).copied().unwrap_or_default();
        assert!(now >= free, "{host} is asked at {now:?}, it rests until {free:?}");
        let free = self.address_free_at.get(&address).copied().unwrap_or_default();
        assert!(now >= free, "{address} is asked at {now:?}, it rests until {free:?}");
        if let Task::Page(page) = lease.task() {
            assert_eq!(&page.url.host(), host);
            let read = self.robots_read.get(host).expect("a page before robots.txt");
            assert!(now.since(*read) <= DAY, "robots.txt of {host} is older than a day");
        }
    }

    fn returned(
        &mut self,
        now: Timestamp,
        lease: &Lease,
        outcome: &Outcome,
        host_rest: Duration,
        address_rest: Duration,
    ) {
        self.busy_hosts.remove(lease.host());
        self.busy_addresses.remove(&lease.address());
        if *outcome == Outcome::NotAsked {
            return;
        }
        self.requests += 1;
        self.host_free_at.insert(lease.host().clone(), now + host_rest);
        self.address_free_at.insert(lease.address(), now + address_rest);
        if let (Outcome::Robots { .. }, Task::Robots) = (outcome, lease.task()) {
            self.robots_read.insert(lease.host().clone(), now);
        }
    }
}

struct Sim {
    weather: Weather,
    random: Seeded,
    now: Timestamp,
    frontier: Frontier,
    hosts: Vec<SimHost>,
    by_host: HashMap<Host, usize>,
    /// Hosts for which there was no room, by when they come back.
    outside: std::collections::BTreeSet<(Timestamp, usize)>,
    /// Leases out, by the instant at which they end.
    running: BTreeMap<(Timestamp, u64), (Lease, Outcome)>,
    /// Hosts that were removed while leased: their rest counts from the request's start.
    removed: HashSet<Host>,
    serial: u64,
    watch: Watch,
    finished: u64,
}

impl Sim {
    fn new(weather: Weather) -> Sim {
        let mut random = Seeded::new(weather.seed);
        let limits = Limits {
            delay_min: weather.delay,
            in_flight_max: weather.in_flight_max,
            queue_per_host: 4,
            hosts_max: weather.places,
            hosts_share: weather.share,
            ..Limits::default()
        };
        let now = Timestamp::from_secs(1_700_000_000);
        let hosts: Vec<SimHost> =
            (0..weather.hosts + GUESTS).map(|n| sim_host(n, &weather, &mut random, now)).collect();
        let by_host = hosts.iter().enumerate().map(|(n, sim)| (sim.host.clone(), n)).collect();
        let frontier = Frontier::new(Box::new(Constant(weather.delay)), limits);
        let hosts_with_pages = weather.hosts;
        let mut sim = Sim {
            weather,
            random,
            now,
            frontier,
            hosts,
            by_host,
            outside: Default::default(),
            running: BTreeMap::new(),
            removed: HashSet::new(),
            serial: 0,
            watch: Watch::default(),
            finished: 0,
        };
        (0..hosts_with_pages).for_each(|n| sim.add_back(n));
        sim
    }

    /// Goes on until `end`, or until nothing is left to do.
    fn run_until(&mut self, end: Timestamp) {
        while self.now < end {
            if self.random.below(1000) < self.weather.removals {
                self.remove_one();
            }
            match self.frontier.poll(self.now) {
                Step::Resolve(host) => self.resolve(&host),
                Step::Refill { host, want } => self.refill(&host, want),
                Step::Fetch(lease) => self.fetch(lease),
                Step::Left { host, memory } => self.sim(&host).memory = memory,
                Step::WaitUntil(then) => {
                    assert!(then > self.now, "waiting for the past");
                    self.pass_until(Some(then));
                }
                Step::Idle if self.running.is_empty() && self.outside.is_empty() => return,
                Step::Idle => self.pass_until(None),
            }
        }
    }

    /// Lets time pass until this instant or the end of the next request, whichever is sooner.
    fn pass_until(&mut self, then: Option<Timestamp>) {
        let ends = self.running.first_key_value().map(|((at, _), _)| *at);
        let comes = self.outside.first().map(|(at, _)| *at);
        let next = ends.into_iter().chain(comes).min();
        self.now = match (then, next) {
            (Some(then), Some(next)) => then.min(next),
            (then, next) => then.or(next).expect("something to wait for"),
        }
        .max(self.now);
        while let Some((at, n)) = self.outside.first().copied()
            && at <= self.now
        {
            self.outside.pop_first();
            self.add_back(n);
        }
        while let Some(entry) = self.running.first_entry()
            && entry.key().0 <= self.now
        {
            let (lease, outcome) = entry.remove();
            self.finish(lease, outcome);
        }
        self.check_counts();
    }

    fn sim(&mut self, host: &Host) -> &mut SimHost {
        let n = self.by_host[host];
        &mut self.hosts[n]
    }

    fn is_faulty(&mut self) -> bool {
        self.random.below(1000) < self.weather.faults
    }

    fn resolve(&mut self, host: &Host) {
        let address = self.sim(host).address;
        let answer = match self.is_faulty() {
            true => Resolution::Failed { transient: true },
            false => Resolution::Address(address),
        };
        if let Resolved::Crowded { until, memory, pages } = self.frontier.resolved(self.now, host, answer) {
            assert!(until > self.now);
            self.removed_with(host, memory, pages);
            self.outside.insert((until, self.by_host[host]));
        }
    }

    fn refill(&mut self, host: &Host, want: usize) {
        let now = self.now;
        if let Some(until) = self.frontier.makes_way(now, host) {
            let memory = self.frontier.host(host).expect("it is asked about").memory;
            assert_eq!(self.frontier.remove_host(host), []);
            self.sim(host).memory = memory;
            self.outside.insert((until, self.by_host[host]));
            return;
        }
        let sim = self.sim(host);
        let mut urls = Vec::new();
        let mut next_due = None;
        for (url, place) in &mut sim.pages {
            if let Whereabouts::Store { due, last } = *place {
                if due <= now && urls.len() < want {
                    *place = Whereabouts::Offered { last };
                    urls.push(Scheduled { url: url.clone(), revisit: last.is_some(), depth: 0 });
                } else {
                    next_due = Some(next_due.map_or(due, |next: Timestamp| next.min(due)));
                }
            }
        }
        match self.frontier.offer(now, host, urls, next_due) {
            Offered::Taken => {}
            Offered::Left(memory) => self.sim(host).memory = memory,
            Offered::GivenBack(pages) => panic!("{pages:?} were asked for"),
        }
    }

    fn fetch(&mut self, lease: Lease) {
        self.watch.leased(self.now, &lease);
        let download = Duration::from_millis(self.random.below(3_000));
        let fault = if self.is_faulty() { 1 + self.random.below(5) } else { 0 };
        let retry_after = (self.random.below(2) == 0).then(|| SECOND * self.random.below(900) as u32);
        let delay = self.sim(&lease.host).crawl_delay;
        let is_moved = self.random.below(1000) < self.weather.moves;
        let to = self.random.below(self.hosts.len() as u64) as usize;
        let outcome = match (lease.task(), fault) {
            (Task::Robots | Task::MovedRobots(_), 0) if is_moved => {
                let to = &self.hosts[to];
                Outcome::RobotsMoved {
                    to: to.host.url("/elsewhere").unwrap(),
                    memory: Box::new(to.memory.clone()),
                }
            }
            (Task::MovedRobots(moved), 0) => {
                let delay = self.hosts[self.by_host[&moved.of]].crawl_delay;
                Outcome::Robots { delay, valid_until: self.now + DAY, download }
            }
            (Task::MovedRobots(_), 1) => Outcome::NotAsked,
            (Task::MovedRobots(_), 2) => Outcome::Failed { transient: true },
            (Task::MovedRobots(_), _) => Outcome::RobotsUnavailable { retry_after, download },
            (Task::Robots, 0) => {
                let valid = self.now + SECOND * self.random.below(200_000) as u32;
                Outcome::Robots { delay, valid_until: valid, download }
            }
            (Task::Robots, 1) => Outcome::NotAsked,
            (Task::Robots, _) => Outcome::RobotsUnavailable { retry_after, download },
            (Task::Page(_), 0) => Outcome::Fetched { download, bytes: 1 },
            (Task::Page(_), 1) => Outcome::NotAsked,
            (Task::Page(_), 2) => Outcome::Failed { transient: false },
            (Task::Page(_), 3) => Outcome::Failed { transient: true },
            (Task::Page(_), _) => Outcome::Throttled { retry_after },
        };
        let took = if outcome == Outcome::NotAsked { Duration::ZERO } else { download };
        self.serial += 1;
        self.running.insert((self.now + took, self.serial), (lease, outcome));
    }

    fn finish(&mut self, lease: Lease, mut outcome: Outcome) {
        let (now, delay) = (self.now, self.weather.delay);
        // What is remembered of the host that it leads to may have changed since the request.
        if let Outcome::RobotsMoved { to, memory } = &mut outcome {
            **memory = self.sim(&to.host()).memory.clone();
        }
        // A Crawl-delay binds from the moment it is read.
        let reads_own = matches!((&outcome, lease.task()), (Outcome::Robots { .. }, Task::Robots));
        let is_known = reads_own || self.watch.robots_read.contains_key(&lease.host);
        let crawl_delay = self.sim(&lease.host).crawl_delay.filter(|_| is_known);
        let mut rest = delay.max(crawl_delay.unwrap_or_default());
        let is_own = !matches!(lease.task(), Task::MovedRobots(_));
        if let Outcome::Throttled { retry_after } | Outcome::RobotsUnavailable { retry_after, .. } = outcome
            && is_own
        {
            rest = rest.max(retry_after.unwrap_or(SECOND));
        }
        if self.removed.remove(&lease.host) {
            // Whoever removed it took its memory along, in which the rest counts from the start.
            rest = Duration::ZERO;
        }
        self.watch.returned(now, &lease, &outcome, rest, delay);
        if let (Outcome::Robots { delay, .. }, Task::Robots) = (&outcome, lease.task())
            && self.frontier.host(&lease.host).is_none()
        {
            // The frontier does not hear of it any more; whoever read the file knows what it says.
            self.sim(&lease.host).memory.crawl_delay = *delay;
        }
        let page = match lease.task() {
            Task::Page(page) => Some(page.clone()),
            Task::Robots | Task::MovedRobots(_) => None,
        };
        let moved = match lease.task() {
            Task::MovedRobots(moved) if matches!(outcome, Outcome::Robots { .. }) => Some(moved.of.clone()),
            _ => None,
        };
        let valid = |sim: &Sim, of: &Host| sim.frontier.host(of)?.memory.robots_valid_until;
        let before = moved.as_ref().and_then(|of| valid(self, of));
        let host = lease.host.clone();
        let fetched = matches!(outcome, Outcome::Fetched { .. });
        match (self.frontier.done(now, lease, outcome), page) {
            (Disposition::Finished, Some(page)) => self.settle(&host, &page, fetched),
            (Disposition::GaveUp(page), Some(asked)) => {
                assert_eq!(page, asked);
                self.settle(&host, &page, false);
            }
            (Disposition::GivenBack(page), Some(asked)) => {
                assert_eq!(page, asked);
                self.give_back(&host, vec![page]);
            }
            (Disposition::Requeued, Some(_)) | (Disposition::Finished, None) => {}
            (disposition, None) => panic!("{disposition:?} of robots.txt"),
        }
        // Whoever no longer waits for it does not take it.
        if let Some(of) = moved
            && valid(self, &of) != before
        {
            self.watch.robots_read.insert(of, now);
        }
    }

    /// The visit is over.
    fn settle(&mut self, host: &Host, page: &Scheduled, fetched: bool) {
        self.finished += 1;
        let (now, revisits) = (self.now, self.weather.revisits);
        let changed = self.random.below(4) == 0;
        let place = self.sim(host).pages.get_mut(&page.url).expect("a page that was offered");
        let Whereabouts::Offered { last } = *place else { panic!("{page:?} was not offered: {place:?}") };
        let visited = match (fetched, last) {
            (false, _) => Visited::Failed,
            (true, None) => Visited::New,
            (true, Some(_)) if changed => Visited::Changed,
            (true, Some(_)) => Visited::Unchanged,
        };
        let history =
            History { visited, since_last: last.map(|last| now.since(last)), misses: u32::from(!fetched) };
        let due = Interval::default().next_visit(now, &history);
        *place = if revisits { Whereabouts::Store { due, last: Some(now) } } else { Whereabouts::Finished };
    }

    fn give_back(&mut self, host: &Host, pages: Vec<Scheduled>) {
        let now = self.now;
        for page in pages {
            let place = self.sim(host).pages.get_mut(&page.url).expect("a page that was offered");
            let Whereabouts::Offered { last } = *place else { panic!("{page:?} was not offered: {place:?}") };
            *place = Whereabouts::Store { due: now, last };
        }
    }

    fn remove_one(&mut self) {
        let n = self.random.below(self.hosts.len() as u64) as usize;
        let host = self.hosts[n].host.clone();
        match self.random.below(8) {
            0 => {
                for (host, memory, pages) in self.frontier.drain() {
                    self.removed_with(&host, memory, pages);
                }
                for n in 0..self.hosts.len() {
                    self.add_back(n);
                }
            }
            1 => {
                if let Some((host, memory, pages)) = self.frontier.retire(self.now + DAY) {
                    self.removed_with(&host, memory, pages);
                    self.add_back(self.by_host[&host]);
                }
            }
            2 => {
                if let Some(view) = self.frontier.host(&host) {
                    let pages = self.frontier.remove_host(&host);
                    assert_eq!(pages.len(), view.queued);
                    self.removed_with(&host, view.memory, pages);
                }
            }
            _ => self.add_back(n),
        }
    }

    fn removed_with(&mut self, host: &Host, memory: HostMemory, pages: Vec<Scheduled>) {
        self.sim(host).memory = memory;
        self.give_back(host, pages);
        if self.watch.busy_hosts.contains(host) {
            self.removed.insert(host.clone());
        }
    }

    fn add_back(&mut self, n: usize) {
        let sim = &self.hosts[n];
        match self.frontier.add_host(self.now, &sim.host, sim.memory.clone()) {
            Added::New | Added::Known => {}
            Added::Full => drop(self.outside.insert((self.now + SECOND * 60, n))),
            Added::Crowded { until } => drop(self.outside.insert((until, n))),
        }
    }

    fn check_counts(&self) {
        let counts = self.frontier.counts();
        assert_eq!(counts.in_flight, self.running.len());
        let states: usize = HostState::ALL.iter().map(|state| counts.in_state(*state)).sum();
        assert_eq!(counts.hosts, states);
        assert!(counts.in_flight <= self.weather.in_flight_max);
    }

    /// Every page that the frontier was offered is in its queues, or in somebody's hands.
    fn check_pages(&self) {
        let offered =
            |sim: &SimHost| sim.pages.values().filter(|p| matches!(p, Whereabouts::Offered { .. })).count();
        let in_hands =
            self.running.values().filter(|(lease, _)| matches!(lease.task(), Task::Page(_))).count();
        let queued: usize = self.frontier.hosts().map(|view| view.queued).sum();
        assert_eq!(self.hosts.iter().map(offered).sum::<usize>(), queued + in_hands);
        assert_eq!(self.frontier.counts().queued, queued);
    }
}

fn sim_host(n: usize, weather: &Weather, random: &mut Seeded, now: Timestamp) -> SimHost {
    let host = Host::parse(&format!("http://h{n}.d{}.test/", n % 3)).unwrap();
    let address = IpAddr::from([10, 0, 0, random.below(weather.addresses as u64) as u8]);
    let page = |p| (host.url(&format!("/{p}")).unwrap(), Whereabouts::Store { due: now, last: None });
    let pages = if n < weather.hosts { weather.pages_per_host } else { 0 };
    let pages = (0..pages).map(page).collect();
    let crawl_delay = (random.below(4) == 0).then(|| SECOND * random.below(90) as u32);
    SimHost { host, crawl_delay, address, pages, memory: HostMemory::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn promises_hold_in_any_weather(
        seed in any::<u64>(), hosts in 1usize..14, addresses in 1usize..6, pages_per_host in 0usize..12,
        delay_millis in prop_oneof![Just(0u64), 1u64..60_000], in_flight_max in 1usize..6,
        faults in prop_oneof![Just(0u64), 0u64..600], removals in prop_oneof![Just(0u64), 0u64..100],
        moves in prop_oneof![Just(0u64), 0u64..900], places in 1usize..20, share in 1usize..8,
    ) {
        let weather = Weather {
            seed, hosts, addresses, pages_per_host, delay: Duration::from_millis(delay_millis), in_flight_max, faults,
            removals, moves, places, share, revisits: false,
        };
        let mut sim = Sim::new(weather);
        let start = sim.now;
        sim.run_until(start + DAY * 2);
        sim.check_pages();
        // The weather clears up: whoever was quarantined is tried again in time, and every page gets its end.
        sim.weather.faults = 0;
        sim.weather.moves /= 4;
        sim.weather.removals = 0;
        for n in 0..sim.hosts.len() {
            sim.add_back(n);
        }
        sim.run_until(start + DAY * 200);
        sim.check_pages();
        for sim in &sim.hosts {
            prop_assert!(sim.pages.values().all(|place| *place == Whereabouts::Finished), "{} starves", sim.host);
        }
        prop_assert_eq!(sim.frontier.counts(), Counts::default(), "something stays behind");
    }
}

/// One year of a small Web, revisits and bad weather included, in a second or two.
#[test]
fn a_year_passes() {
    let weather = Weather {
        seed: 1,
        hosts: 120,
        addresses: 60,
        pages_per_host: 8,
        delay: SECOND * 15,
        in_flight_max: 16,
        faults: 30,
        removals: 1,
        moves: 100,
        places: 20_000,
        share: 64,
        revisits: true,
    };
    let mut sim = Sim::new(weather);
    let start = sim.now;
    sim.run_until(start + DAY * 365);
    sim.check_pages();
    assert!(sim.now >= start + DAY * 365, "the year ended early");
    // 960 pages between 1 visit per 90 days and 1 per hour; about one per fortnight settles by itself.
    assert!((960 * 4..960 * 365).contains(&sim.finished), "{} visits", sim.finished);
    assert!(sim.watch.requests > sim.finished, "{} requests for {} visits", sim.watch.requests, sim.finished);
}
