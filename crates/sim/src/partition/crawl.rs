//! The crawl, event by event [Exposto08 §5.2.4, §6.4].
//!
//! Robots are the resources, URLs the customers. A robot has so many connections, a server is asked by one at a time
//! and rests between two requests as the politeness rule says; the rules are those of the product's frontier. Unlike in
//! the thesis an idle robot is woken by what comes from elsewhere.

use super::web::Web;
use farol_frontier::polite::{Constant, DelayRule, Density, DownloadTime, Facts};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// How long a server rests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Politeness {
    /// Always so many seconds.
    Constant(f64),
    /// Ten times as long as the last page took.
    Tenfold,
    /// Eq. 5.4: 15 s for a server of one page, 1 s for the densest.
    Adjustable,
}

impl Politeness {
    pub fn name(self) -> String {
        match self {
            Politeness::Constant(secs) => format!("{secs} s"),
            Politeness::Tenfold => "10×".to_string(),
            Politeness::Adjustable => "adjustable".to_string(),
        }
    }
}

/// Constants of the simulation; defaults are the thesis' [Exposto08 §5.2.4].
#[derive(Clone, Copy, Debug)]
pub struct Params {
    /// Bytes a second, of each connection.
    pub bandwidth: f64,
    pub connections: u32,
    pub page_bytes: f64,
    pub url_bytes: f64,
}

impl Default for Params {
    fn default() -> Params {
        Params { bandwidth: 250_000.0, connections: 50, page_bytes: 25_000.0, url_bytes: 40.0 }
    }
}

/// Who crawls what.
pub struct Crew<'a> {
    /// Host of each robot.
    pub robots: &'a [u32],
    /// Robot of each host.
    pub owner: &'a [u32],
    /// Server of each host, as politeness sees it: itself, or its address.
    pub server: &'a [u32],
}

/// How a crawl went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CrawlOutcome {
    /// Until the last page was down.
    pub secs: f64,
    pub pages: u64,
    pub forwarded: u64,
    /// To another robot: every link counts (decision D-15).
    pub exchanged: u64,
    /// Different URLs among those.
    pub exchanged_once: u64,
    /// Mean rest after a page.
    pub rest: f64,
}

impl CrawlOutcome {
    /// Share of forwarded URLs that go to another robot.
    pub fn exchange(&self) -> f64 {
        self.exchanged as f64 / self.forwarded.max(1) as f64
    }
}

const NONE: u32 = u32::MAX;

/// In the order in which they happen; time in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A URL from another robot.
    Arrival { page: u32 },
    /// A page is down.
    End { page: u32 },
    /// A server of this robot has rested.
    Wake { robot: u32 },
}

#[derive(Clone, Copy)]
struct ServerState {
    head: u32,
    tail: u32,
    rested: u64,
    busy: bool,
}

struct Robot {
    free: u32,
    /// Servers with pages to fetch that nobody asks now, by when they have rested.
    ready: BinaryHeap<Reverse<(u64, u32)>>,
    wakes: u64,
}

struct Simulation<'a> {
    web: &'a Web,
    crew: &'a Crew<'a>,
    /// Microseconds of a download, by host.
    download: Vec<u64>,
    /// Microseconds of rest, by server; `None` where it goes by the download.
    rests: Option<Vec<u64>>,
    /// Microseconds of sending a URL, robot by robot.
    sending: Vec<u64>,
    servers: Vec<ServerState>,
    robots: Vec<Robot>,
    next: Vec<u32>,
    seen: Vec<bool>,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    outcome: CrawlOutcome,
    rested: u64,
}

/// Crawls everything, from the first page of each host on.
pub fn crawl(web: &Web, crew: &Crew<'_>, politeness: Politeness, params: &Params) -> CrawlOutcome {
    let k = crew.robots.len();
    let micros = |secs: f64| (secs * 1e6) as u64;
    let page_secs = params.page_bytes / params.bandwidth;
    let host_rtt = |h: usize| web.rtt(h, crew.robots[crew.owner[h] as usize] as usize) / 1000.0;
    let download: Vec<u64> = (0..web.hosts()).map(|h| micros(2.0 * host_rtt(h) + page_secs)).collect();
    let sending = (0..k * k)
        .map(|pair| {
            let rtt = web.rtt(crew.robots[pair / k] as usize, crew.robots[pair % k] as usize) / 1000.0;
            micros(2.0 * rtt + params.url_bytes / params.bandwidth)
        })
        .collect();
    let servers = crew.server.iter().max().map_or(0, |most| *most as usize + 1);
    let mut simulation = Simulation {
        web,
        crew,
        download,
        rests: rests(web, crew, politeness, servers),
        sending,
        servers: vec![ServerState { head: NONE, tail: NONE, rested: 0, busy: false }; servers],
        robots: (0..k)
            .map(|_| Robot { free: params.connections, ready: BinaryHeap::new(), wakes: u64::MAX })
            .collect(),
        next: vec![NONE; web.pages()],
        seen: vec![false; web.pages()],
        events: BinaryHeap::new(),
        outcome: CrawlOutcome::default(),
        rested: 0,
    };
    simulation.run()
}

/// What the rule says for each server; the product's own rules.
fn rests(web: &Web, crew: &Crew<'_>, politeness: Politeness, servers: usize) -> Option<Vec<u64>> {
    let mut pages = vec![0u64; servers];
    (0..web.hosts()).for_each(|h| pages[crew.server[h] as usize] += u64::from(web.pages_of(h)));
    let most = pages.iter().copied().max().unwrap_or(1);
    let constant;
    let density = Density::default();
    let rule: &dyn DelayRule = match politeness {
        Politeness::Constant(secs) => {
            constant = Constant(Duration::from_secs_f64(secs));
            &constant
        }
        Politeness::Adjustable => &density,
        Politeness::Tenfold => return None,
    };
    let rest = |pages: &u64| {
        let facts = Facts { pages_known: *pages, pages_on_densest: most, ..Facts::default() };
        rule.delay(&facts).as_micros() as u64
    };
    Some(pages.iter().map(rest).collect())
}

impl Simulation<'_> {
    fn run(&mut self) -> CrawlOutcome {
        for h in 0..self.web.hosts() {
            let page = self.web.first[h];
            self.seen[page as usize] = true;
            self.enqueue(0, page);
        }
        (0..self.robots.len() as u32).for_each(|robot| self.start(0, robot));
        while let Some(Reverse((now, event))) = self.events.pop() {
            match event {
                Event::Arrival { page } => {
                    self.enqueue(now, page);
                    // The thesis forgot to wake the robot here.
                    self.start(now, self.owner(page));
                }
                Event::End { page } => self.end(now, page),
                Event::Wake { robot } => {
                    self.robots[robot as usize].wakes = u64::MAX;
                    self.start(now, robot);
                }
            }
        }
        self.outcome.rest = self.rested as f64 / 1e6 / self.outcome.pages.max(1) as f64;
        self.outcome
    }

    fn owner(&self, page: u32) -> u32 {
        self.crew.owner[self.web.page_host[page as usize] as usize]
    }

    fn enqueue(&mut self, now: u64, page: u32) {
        let server = self.crew.server[self.web.page_host[page as usize] as usize];
        let robot = self.owner(page);
        let state = &mut self.servers[server as usize];
        if state.head == NONE {
            state.head = page;
            if !state.busy {
                self.robots[robot as usize].ready.push(Reverse((state.rested.max(now), server)));
            }
        } else {
            self.next[state.tail as usize] = page;
        }
        state.tail = page;
    }

    /// Starts downloads while there are connections and servers that have rested.
    fn start(&mut self, now: u64, robot: u32) {
        let own = &mut self.robots[robot as usize];
        while own.free > 0 {
            match own.ready.peek() {
                Some(Reverse((when, _))) if *when > now => {
                    if *when < own.wakes {
                        own.wakes = *when;
                        self.events.push(Reverse((*when, Event::Wake { robot })));
                    }
                    return;
                }
                Some(_) => {}
                None => return,
            }
            let Some(Reverse((_, server))) = own.ready.pop() else { return };
            let state = &mut self.servers[server as usize];
            let page = state.head;
            state.head = self.next[page as usize];
            state.busy = true;
            own.free -= 1;
            let host = self.web.page_host[page as usize] as usize;
            self.events.push(Reverse((now + self.download[host], Event::End { page })));
        }
    }

    fn end(&mut self, now: u64, page: u32) {
        let (web, host) = (self.web, self.web.page_host[page as usize] as usize);
        let (robot, server) = (self.crew.owner[host], self.crew.server[host]);
        self.outcome.pages += 1;
        self.outcome.secs = self.outcome.secs.max(now as f64 / 1e6);
        for target in web.links(page) {
            let to = self.owner(*target);
            self.outcome.forwarded += 1;
            self.outcome.exchanged += u64::from(to != robot);
            if std::mem::replace(&mut self.seen[*target as usize], true) {
                continue;
            }
            if to == robot {
                self.enqueue(now, *target);
            } else {
                self.outcome.exchanged_once += 1;
                let sent = self.sending[robot as usize * self.robots.len() + to as usize];
                self.events.push(Reverse((now + sent, Event::Arrival { page: *target })));
            }
        }
        let rest = match &self.rests {
            Some(rests) => rests[server as usize],
            None => {
                let last_download = Duration::from_micros(self.download[host]);
                DownloadTime::default().delay(&Facts { last_download, ..Facts::default() }).as_micros() as u64
            }
        };
        self.rested += rest;
        let state = &mut self.servers[server as usize];
        state.busy = false;
        state.rested = now + rest;
        if state.head != NONE {
            self.robots[robot as usize].ready.push(Reverse((state.rested, server)));
        }
        self.robots[robot as usize].free += 1;
        self.start(now, robot);
    }
}

#[cfg(test)]
mod tests {
    use super::super::web::{Web, WebCounts, made_cities};
    use super::*;

    fn web() -> Web {
        let counts = WebCounts {
            urls: 3000,
            links: 13_000,
            hosts: 100,
            addresses: 30,
            densest: 300,
            external: 0.2,
            locality: 0.8,
            community: 10,
        };
        Web::make(&counts, made_cities(1), 1)
    }

    #[test]
    fn everything_is_fetched_once_and_the_densest_server_sets_the_pace() {
        let web = web();
        let robots = web.robots(4, 1);
        let owner: Vec<u32> = (0..100).map(|h| h % 4).collect();
        let server: Vec<u32> = (0..100).collect();
        let crew = Crew { robots: &robots, owner: &owner, server: &server };
        for (politeness, least) in
            [(Politeness::Constant(15.0), 299.0 * 15.0), (Politeness::Adjustable, 299.0)]
        {
            let outcome = crawl(&web, &crew, politeness, &Params::default());
            assert_eq!((outcome.pages, outcome.forwarded), (3000, 13_000));
            assert!(outcome.secs >= least && outcome.secs < 2.5 * least, "{politeness:?}: {}", outcome.secs);
            assert!(outcome.exchanged_once <= outcome.exchanged && outcome.exchanged > 0);
        }
        let tenfold = crawl(&web, &crew, Politeness::Tenfold, &Params::default());
        assert!(tenfold.rest > 1.0 && tenfold.rest < 6.0, "{}", tenfold.rest);
        // One robot for all exchanges nothing.
        let alone = Crew { robots: &robots[..1], owner: &vec![0; 100], server: &server };
        let outcome = crawl(&web, &alone, Politeness::Tenfold, &Params::default());
        assert_eq!((outcome.exchanged, outcome.pages), (0, 3000));
    }

    #[test]
    fn one_address_is_asked_one_thing_at_a_time() {
        let web = web();
        let robots = web.robots(1, 1);
        let all_on_one = vec![0u32; 100];
        let crew = Crew { robots: &robots, owner: &all_on_one, server: &all_on_one };
        let outcome = crawl(&web, &crew, Politeness::Constant(2.0), &Params::default());
        assert!(outcome.secs > 2999.0 * 2.0, "{}", outcome.secs);
    }
}
