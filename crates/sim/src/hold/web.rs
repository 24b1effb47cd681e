//! A small Web: hosts at addresses they share, names that DNS answers differently by place and by time, and pages that
//! are each linked from one page only, so that a URL that gets lost is missed.

use farol_base::random::{Random, Seeded, mix};
use std::net::IpAddr;

/// Names a page: its host and its number in all.
pub type PageNo = usize;

/// A host.
#[derive(Debug)]
pub struct WebHost {
    pub name: String,
    /// Addresses it has had, each from an instant on.
    addresses: Vec<(u64, usize)>,
    /// DNS answers by place: one of these, besides the address above.
    by_place: Vec<usize>,
}

/// Hosts, addresses and pages.
#[derive(Debug)]
pub struct SmallWeb {
    pub hosts: Vec<WebHost>,
    pub addresses: Vec<IpAddr>,
    /// The host of each page.
    pub pages: Vec<usize>,
    /// The pages that each page links to.
    pub links: Vec<Vec<PageNo>>,
    visited: std::collections::BTreeSet<PageNo>,
}

impl SmallWeb {
    pub fn new(random: &mut Seeded) -> SmallWeb {
        let addresses: Vec<IpAddr> = (0..6 + random.below(6))
            .map(|n| IpAddr::from([10, random.below(200) as u8, n as u8, random.below(250) as u8]))
            .collect();
        let count = 8 + random.below(8) as usize;
        let hosts = (0..count).map(|n| {
            let some = |random: &mut Seeded| random.below(addresses.len() as u64) as usize;
            let first = some(random);
            let places = if random.below(4) == 0 { 1 + random.below(2) } else { 0 };
            let by_place = (0..places).map(|_| some(random)).collect();
            let name = format!("http://h{n}-{}.test", random.below(1 << 20));
            WebHost { name, addresses: vec![(0, first)], by_place }
        });
        let hosts: Vec<WebHost> = hosts.collect();
        let total = 150 + random.below(250) as usize;
        let pages: Vec<usize> = (0..total).map(|_| random.below(count as u64) as usize).collect();
        let mut links = vec![Vec::new(); total];
        for page in 1..total {
            // Mostly far back, so that the crawl is wide and not one long chain.
            let parent = random.below(page as u64).min(random.below(page as u64)) as usize;
            links[parent].push(page);
        }
        SmallWeb { hosts, addresses, pages, links, visited: Default::default() }
    }

    /// A host moves.
    pub fn change(&mut self, host: usize, now: u64, random: &mut Seeded) {
        let to = random.below(self.addresses.len() as u64) as usize;
        self.hosts[host].addresses.push((now, to));
    }

    /// What DNS tells an agent.
    pub fn resolve(&self, host: usize, place: u64, now: u64) -> IpAddr {
        let known = &self.hosts[host];
        let present = known.addresses.iter().rev().find(|(since, _)| *since <= now);
        let mut choices: Vec<usize> = present.map(|(_, address)| *address).into_iter().collect();
        choices.extend(&known.by_place);
        self.addresses[choices[(mix(place ^ host as u64) % choices.len() as u64) as usize]]
    }

    /// Whether a host was ever at an address, or is for somebody.
    pub fn may_be_at(&self, host: usize, address: IpAddr) -> bool {
        let known = &self.hosts[host];
        let mut all = known.addresses.iter().map(|(_, at)| at).chain(&known.by_place);
        all.any(|at| self.addresses[*at] == address)
    }

    /// A page is visited as new; whether it was before.
    pub fn visited(&mut self, page: PageNo) -> bool {
        !self.visited.insert(page)
    }
}
