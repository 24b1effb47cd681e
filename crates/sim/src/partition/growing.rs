//! A crawl that grows, with the product's planner in the loop, beside the same crawl by hash.
//!
//! Pages are fetched in the order in which they are found, so that both crawls see the same links at the same time. After
//! each hour every agent reports what it knows of its hosts, and the planner does what it thinks right. A link to
//! another host is an exchange where that host is another agent's by the table of the moment.

use super::web::{Web, WebCounts};
use super::{PartitionArgs, said};
use crate::Error;
use farol_base::{Random, Seeded, Timestamp};
use farol_partition::replan::{
    Decision, Exchanged, HostFacts, Replanner, Report, RttMedian, Settings, Trigger,
};
use farol_partition::table::{Route, Router, Unknown, host_key};
use farol_partition::{Agent, RoutingPlanner, RoutingTable};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

/// Hours that a crawl takes.
const HOURS: usize = 40;
/// Share of hosts that are seeds.
const SEEDS: f64 = 0.02;
/// Connections of which an agent keeps the times.
const SAMPLES_MAX: u16 = 15;

/// What came of a crawl.
#[derive(Clone, Debug, Default)]
pub struct GrowingOutcome {
    pub links: u64,
    pub planned: u64,
    pub hashed: u64,
    /// The same in the second half of the pages.
    pub late: (u64, u64, u64),
    pub tables: usize,
    /// Pages that changed hands, over all tables, as a multiple of all pages.
    pub moved: f64,
    /// Greatest share of all pages that one table moved from named owners, where it saved less than a quarter and agents
    /// were the same.
    pub moved_most: f64,
    /// Greatest and least load over the share, when all is known.
    pub overload: f64,
    pub underload: f64,
    /// Exchanges of a split of everything from scratch, by links alone, as a share of those by hash.
    pub afresh: f64,
    /// Mean of |measured − expected| exchanges over tables under which enough was counted.
    pub off: f64,
}

impl GrowingOutcome {
    /// Exchanges as a share of those by hash: all, and in the second half.
    pub fn of_hash(&self) -> (f64, f64) {
        let share = |ours: u64, hash: u64| ours as f64 / hash.max(1) as f64;
        (share(self.planned, self.hashed), share(self.late.1, self.late.2))
    }
}

/// What happens to agents: the hour, and whether one joins or the first leaves.
pub type Events = BTreeMap<usize, bool>;

struct Crawl<'a> {
    web: &'a Web,
    /// Hosts that are agents, by agents' names.
    robots: Vec<(String, u32)>,
    found: Vec<bool>,
    queue: VecDeque<u32>,
    /// Pages fetched.
    done: usize,
    /// Before this page all are found.
    searched: usize,
    /// Known pages of each host.
    known: Vec<u32>,
    /// Links from each host to each other.
    links: Vec<HashMap<u32, u32>>,
    /// Pages fetched by each agent from each host.
    fetched: HashMap<(u32, String), u16>,
    names: Vec<String>,
    exchanged: BTreeMap<String, Exchanged>,
}

impl<'a> Crawl<'a> {
    fn new(web: &'a Web, seed: u64) -> Crawl<'a> {
        let hosts = web.hosts();
        let mut crawl = Crawl {
            web,
            robots: Vec::new(),
            found: vec![false; web.pages()],
            queue: VecDeque::new(),
            done: 0,
            searched: 0,
            known: vec![0; hosts],
            links: vec![HashMap::new(); hosts],
            fetched: HashMap::new(),
            names: (0..hosts).map(|h| format!("http://h{h}.test")).collect(),
            exchanged: BTreeMap::new(),
        };
        let mut random = Seeded::new(seed ^ 0x5EED);
        for _ in 0..(hosts as f64 * SEEDS).ceil() as usize {
            let host = random.below(hosts as u64) as usize;
            crawl.find(web.first[host]);
        }
        crawl
    }

    fn find(&mut self, page: u32) {
        if !std::mem::replace(&mut self.found[page as usize], true) {
            self.known[self.web.page_host[page as usize] as usize] += 1;
            self.queue.push_back(page);
        }
    }

    /// Owners of all hosts by a table.
    fn owners(&self, table: &RoutingTable) -> Vec<u32> {
        let router = Router::new(table);
        let owner = |h: usize| match router.route_host(&self.names[h], Some(self.web.address_of(h))) {
            Route::To(owner) => owner,
            Route::Hold => u32::MAX,
        };
        (0..self.names.len()).map(owner).collect()
    }

    /// Fetches some pages; counts exchanges by two assignments.
    fn fetch(
        &mut self,
        pages: usize,
        names: &[String],
        owners: &[u32],
        hash: &[u32],
        done: &mut GrowingOutcome,
    ) {
        let all = self.web.pages();
        for _ in 0..pages {
            let Some(page) = self.queue.pop_front().or_else(|| {
                // Islands that nobody links to are seeds of their own.
                let rest = self.found.get(self.searched..)?;
                self.searched += rest.iter().position(|found| !found)?;
                self.find(self.searched as u32);
                self.queue.pop_front()
            }) else {
                return;
            };
            let from = self.web.page_host[page as usize];
            self.done += 1;
            let late = 2 * self.done > all;
            let owner = &names[owners[from as usize] as usize];
            let count = self.fetched.entry((from, owner.clone())).or_default();
            *count = count.saturating_add(1);
            for to_page in self.web.links(page).to_vec() {
                let to = self.web.page_host[to_page as usize];
                if to != from {
                    *self.links[from as usize].entry(to).or_default() += 1;
                    let planned = u64::from(owners[from as usize] != owners[to as usize]);
                    let hashed = u64::from(hash[from as usize] != hash[to as usize]);
                    done.links += 1;
                    done.planned += planned;
                    done.hashed += hashed;
                    if late {
                        done.late = (done.late.0 + 1, done.late.1 + planned, done.late.2 + hashed);
                    }
                    let exchanged = self.exchanged.entry(owner.clone()).or_default();
                    exchanged.links += 1;
                    exchanged.forwarded += planned;
                }
                self.find(to_page);
            }
        }
    }

    /// What each agent tells of the hosts that it owns.
    fn report(&self, planner: &mut Replanner, now: Timestamp, number: u64, names: &[String], owners: &[u32]) {
        let mut random = Seeded::new(number);
        let version = planner.in_force().map_or(0, |table| table.version);
        let place: BTreeMap<&String, u32> = self.robots.iter().map(|(name, host)| (name, *host)).collect();
        for (j, agent) in names.iter().enumerate() {
            // One that has left tells nothing any more.
            let Some(here) = place.get(agent).map(|host| *host as usize) else { continue };
            let mut hosts = Vec::new();
            for h in (0..self.names.len()).filter(|h| owners[*h] == j as u32 && self.known[*h] > 0) {
                let samples =
                    self.fetched.get(&(h as u32, agent.clone())).copied().unwrap_or(0).min(SAMPLES_MAX);
                // Connections are never faster than the way, and often slower.
                let way = self.web.rtt(h, here) * (1.0 + 0.1 * random.unit().powi(2));
                let rtt = RttMedian { micros: (way * 1000.0) as u32, samples };
                hosts.push(HostFacts {
                    host: self.names[h].clone(),
                    address: self.web.address_of(h),
                    pages: u64::from(self.known[h]),
                    rtt: (samples > 0).then_some(rtt),
                    position: None,
                    language: None,
                    links: self.links[h]
                        .iter()
                        .map(|(to, count)| (host_key(&self.names[*to as usize]), *count))
                        .collect(),
                });
            }
            let peers = names.iter().filter(|other| *other != agent).filter_map(|other| {
                let way = self.web.rtt(here, *place.get(other)? as usize);
                Some((other.clone(), RttMedian { micros: (way * 1000.0) as u32, samples: SAMPLES_MAX }))
            });
            let exchanged = self.exchanged.get(agent).copied().unwrap_or_default();
            let peers = peers.collect();
            let report = Report { agent: agent.clone(), version, number, hosts, peers, exchanged };
            let receipt = planner.take(now, &report);
            debug_assert!(receipt.refused.is_empty(), "{:?}", receipt.refused);
        }
    }
}

/// Crawls a Web with so many agents; `say` gets a line for each plan.
pub fn grow(
    web: &Web,
    agents: usize,
    events: &Events,
    seed: u64,
    mut say: impl FnMut(String),
) -> Result<GrowingOutcome, farol_partition::Error> {
    let mut crawl = Crawl::new(web, seed);
    let joins = events.values().filter(|joins| **joins).count();
    let mut spare: VecDeque<(String, u32)> = web
        .robots(agents + joins, seed)
        .into_iter()
        .enumerate()
        .map(|(n, host)| (format!("agent {n}"), host))
        .collect();
    crawl.robots = spare.drain(..agents).collect();
    let mut planner = Replanner::new(Settings { seed, ..Settings::default() })?;
    let agent = |(name, _): &(String, u32)| Agent { connections: 10.0, ..Agent::named(name.clone()) };
    planner.set_agents(crawl.robots.iter().map(agent).collect());
    let mut done = GrowingOutcome::default();
    let start = Timestamp::from_secs(1_700_000_000);
    let (mut owners, mut hash, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for hour in 0..=HOURS {
        let now = start + Duration::from_secs(3600) * hour as u32;
        match events.get(&hour) {
            Some(true) => crawl.robots.extend(spare.pop_front()),
            Some(false) => drop(crawl.robots.remove(0)),
            None => {}
        }
        if hour > 0 {
            crawl.report(&mut planner, now, hour as u64, &names, &owners);
        }
        planner.set_agents(crawl.robots.iter().map(agent).collect());
        while let Some(job) = planner.job(now) {
            let trigger = job.trigger().clone();
            let decision = job.run()?;
            planner.decided(now, &decision);
            let (gain, why) = match &decision {
                Decision::Publish { gain, why, .. } | Decision::Keep { gain, why } => (*gain, *why),
            };
            let published = matches!(decision, Decision::Publish { .. });
            let share = |pages: u64| 100.0 * pages as f64 / gain.pages.max(1) as f64;
            say(format!(
                "| {hour} | {} | {} | {} | {}: {} | {:.1} → {:.1} % | {:.1} % | {:.1} % | {:.1} % | {:.3}–{:.3} |",
                planner.atlas().hosts().len(),
                gain.pages,
                trigger.text(),
                if published { "published" } else { "kept" },
                why.text(),
                100.0 * gain.exchange_before,
                100.0 * gain.exchange_after,
                share(gain.moved_named),
                share(gain.moved_hashed),
                share(gain.orphaned),
                gain.underload_after,
                gain.overload_after,
            ));
            if let Decision::Publish { table, .. } = decision {
                done.tables += 1;
                done.moved +=
                    (gain.moved_named + gain.moved_hashed + gain.orphaned) as f64 / web.pages() as f64;
                let great = gain.exchange_saved().max(gain.rtt_saved()) >= 0.25;
                if !great && !matches!(trigger, Trigger::Agents { .. } | Trigger::First) {
                    done.moved_most = done.moved_most.max(share(gain.moved_named) / 100.0);
                }
                let blind = RoutingTable {
                    unknown: table.unknown,
                    destinations: table.destinations.clone(),
                    ..RoutingTable::default()
                };
                (owners, hash) = (crawl.owners(&table), crawl.owners(&blind));
                names = table.destinations.clone();
                crawl.exchanged.clear();
                planner.installed(table);
                (done.overload, done.underload) = (gain.overload_after, gain.underload_after);
            }
        }
        crawl.fetch(web.pages().div_ceil(HOURS), &names, &owners, &hash, &mut done);
    }
    (done.overload, done.underload) = loads(web, &owners, names.len());
    // What there is to be found: addresses are the unit, and many hosts of other communities share them.
    let hosts: Vec<u32> = crawl.robots.iter().map(|(_, host)| *host).collect();
    let best = RoutingPlanner { round_trips: 0.0, seed, ..RoutingPlanner::default() };
    let space = web.space(&hosts, 10.0);
    let blind = space.measure(&hash_of(&crawl, hosts.len())).exchange();
    done.afresh = best.plan(space, None)?.measure().exchange() / blind.max(1e-9);
    let outcomes = planner.outcomes();
    let known = outcomes.iter().filter(|outcome| outcome.version > 1 && outcome.measured.links >= 1000);
    let off: Vec<f64> = known
        .filter_map(|outcome| Some((outcome.exchange_measured()? - outcome.expected.exchange_after).abs()))
        .collect();
    done.off = off.iter().sum::<f64>() / off.len().max(1) as f64;
    Ok(done)
}

/// All hosts by a consistent hash of their addresses.
fn hash_of(crawl: &Crawl<'_>, agents: usize) -> Vec<u32> {
    let destinations = (0..agents).map(|n| format!("agent {n}")).collect();
    crawl.owners(&RoutingTable { unknown: Unknown::Hash, destinations, ..RoutingTable::default() })
}

/// Loads of agents over their shares, when every page is known.
fn loads(web: &Web, owners: &[u32], k: usize) -> (f64, f64) {
    let mut pages = vec![0u64; k];
    owners.iter().enumerate().for_each(|(h, owner)| pages[*owner as usize] += u64::from(web.pages_of(h)));
    let fair = web.pages() as f64 / k as f64;
    let over = pages.iter().map(|pages| *pages as f64 / fair);
    over.fold((0.0, f64::INFINITY), |(most, least): (f64, f64), load| (most.max(load), least.min(load)))
}

/// The experiment: one crawl told plan by plan, one whose agents change, and the sensitivity to locality.
pub fn run(args: &PartitionArgs) -> Result<(), Error> {
    let k = args.robots()?.into_iter().find(|k| *k >= 2).unwrap_or(4);
    let web = args.web()?;
    let told = [
        ("agents stay", Events::new()),
        ("one joins in hour 15, one leaves in hour 25", Events::from([(15, true), (25, false)])),
    ];
    for (name, events) in &told {
        println!("{k} agents, {} pages, {} hosts; {name}:\n", web.pages(), web.hosts());
        println!(
            "| hour | hosts known | pages known | trigger | decision | exchanges, expected | moved from named | from hash | from gone | loads |\n\
             |---:|---:|---:|---|---|---:|---:|---:|---:|---:|"
        );
        let done = grow(&web, k, events, args.seed, |line| println!("{line}")).map_err(said)?;
        println!("\n{}\n", summary(&done));
    }
    println!(
        "| locality | agents | exchanges / hash, all | in the second half | from scratch, all known | tables | pages moved / all | most by one table that saves less than a quarter | loads at the end | measured − expected |\n\
         |---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    for locality in [0.0, 0.25, 0.5, 0.7, 0.85, 0.95] {
        let counts = WebCounts { locality, ..args.counts.clone() };
        let web = Web::make(&counts, args.read_cities()?, args.seed);
        for k in args.robots()? {
            let done = grow(&web, k, &Events::new(), args.seed, drop).map_err(said)?;
            let (all, late) = done.of_hash();
            println!(
                "| {locality} | {k} | {:.1} % | {:.1} % | {:.1} % | {} | {:.2} | {:.1} % | {:.3}–{:.3} | {:.1} % |",
                100.0 * all,
                100.0 * late,
                100.0 * done.afresh,
                done.tables,
                done.moved,
                100.0 * done.moved_most,
                done.underload,
                done.overload,
                100.0 * done.off
            );
        }
    }
    println!();
    Ok(())
}

fn summary(done: &GrowingOutcome) -> String {
    let (all, late) = done.of_hash();
    format!(
        "{} links between hosts, {} exchanged, {} by hash: {:.1} %, {:.1} % in the second half, {:.1} % by a split of everything from scratch; {} tables, {:.2} × all pages moved; \
         loads {:.3}–{:.3} at the end; measured exchanges off by {:.1} points in the mean.",
        done.links,
        done.planned,
        done.hashed,
        100.0 * all,
        100.0 * late,
        100.0 * done.afresh,
        done.tables,
        done.moved,
        done.underload,
        done.overload,
        100.0 * done.off
    )
}

#[cfg(test)]
mod tests {
    use super::super::web::made_cities;
    use super::*;

    #[test]
    fn a_growing_crawl_exchanges_a_third_of_what_a_hash_does_and_stays_in_balance() {
        let counts = WebCounts {
            urls: 20_000,
            links: 90_000,
            hosts: 400,
            addresses: 200,
            densest: 800,
            external: 0.15,
            locality: 0.85,
            community: 20,
        };
        let web = Web::make(&counts, made_cities(1), 1);
        let events = Events::from([(15, true), (25, false)]);
        let mut lines = 0;
        let done = grow(&web, 4, &events, 1, |_| lines += 1).unwrap();
        let (_, late) = done.of_hash();
        assert!(late < 0.40, "{:.3} of the hash's in the second half", late);
        assert!(done.tables >= 4 && done.tables <= lines, "{} tables, {lines} plans", done.tables);
        assert!(done.moved_most <= 0.20, "{}", done.moved_most);
        assert!(done.links > 10_000 && done.planned < done.hashed);
    }
}
