//! A made-up space with the thesis' counts [Exposto08 §5.2.1], down to pages and links.
//!
//! Pages per host follow a power law whose largest is given. Hosts belong to communities, which are what link locality
//! is about: an external link stays in its community with probability `locality`, and goes to any host by popularity
//! otherwise. Communities lie mostly in one city; addresses hold several hosts of a city.

use super::input::Cities;
use farol_base::{Random, Seeded};
use farol_partition::{Agent, Position, Server, Space};
use std::net::{IpAddr, Ipv4Addr};

/// Counts of the space; defaults are the thesis' (Table 5.1).
#[derive(Clone, Debug, clap::Args)]
pub struct WebCounts {
    #[arg(long, default_value_t = 1_246_129)]
    pub urls: u32,
    #[arg(long, default_value_t = 5_657_734)]
    pub links: u32,
    #[arg(long, default_value_t = 10_039)]
    pub hosts: u32,
    #[arg(long, default_value_t = 2_440)]
    pub addresses: u32,
    /// Pages of the densest host.
    #[arg(long, default_value_t = 78_523)]
    pub densest: u32,
    /// Share of links that leave their host.
    #[arg(long, default_value_t = 0.15)]
    pub external: f64,
    /// Share of those that stay in their community.
    #[arg(long, default_value_t = 0.85)]
    pub locality: f64,
    /// Hosts of a community in the mean.
    #[arg(long, default_value_t = 40)]
    pub community: u32,
}

/// Pages, hosts and links.
pub struct Web {
    /// First page of each host, and one past the last.
    pub first: Vec<u32>,
    pub page_host: Vec<u32>,
    /// Links of a page, by target page.
    offsets: Vec<u32>,
    targets: Vec<u32>,
    pub address: Vec<u32>,
    pub city: Vec<u32>,
    pub cities: Cities,
    /// Milliseconds of each host's own line.
    access: Vec<f32>,
    /// Links between hosts: from, to, how many.
    pub host_links: Vec<(u32, u32, u32)>,
}

impl Web {
    pub fn make(counts: &WebCounts, cities: Cities, seed: u64) -> Web {
        let mut random = Seeded::new(seed);
        let hosts = counts.hosts.max(2) as usize;
        let pages = pages_per_host(hosts, counts.urls, counts.densest);
        let mut first = vec![0u32; hosts + 1];
        for h in 0..hosts {
            first[h + 1] = first[h] + pages[h];
        }
        let page_host = (0..hosts).flat_map(|h| std::iter::repeat_n(h as u32, pages[h] as usize)).collect();
        let people: Vec<f64> = cities.people.iter().map(|people| (*people as f64).sqrt()).collect();
        let by_people = Draw::new(&people);
        let communities = (hosts / counts.community.max(1) as usize).max(1);
        let community_city: Vec<u32> = (0..communities).map(|_| by_people.draw(&mut random)).collect();
        let sizes: Vec<f64> = (0..communities).map(|rank| 1.0 / (rank as f64 + 8.0)).collect();
        let by_size = Draw::new(&sizes);
        let community: Vec<u32> = (0..hosts).map(|_| by_size.draw(&mut random)).collect();
        let city: Vec<u32> =
            community
                .iter()
                .map(|c| {
                    if random.below(10) < 7 {
                        community_city[*c as usize]
                    } else {
                        by_people.draw(&mut random)
                    }
                })
                .collect();
        let address = addresses(&city, counts.addresses, &mut random);
        let access = (0..hosts).map(|_| 1.0 + 6.0 * (random.unit() + random.unit()).powi(3) as f32).collect();
        let (offsets, targets) = page_links(counts, &first, &community, communities, &mut random);
        let mut web =
            Web { first, page_host, offsets, targets, address, city, cities, access, host_links: Vec::new() };
        web.host_links = web.count_host_links();
        web
    }

    pub fn hosts(&self) -> usize {
        self.first.len() - 1
    }

    pub fn pages(&self) -> usize {
        self.page_host.len()
    }

    pub fn pages_of(&self, host: usize) -> u32 {
        self.first[host + 1] - self.first[host]
    }

    pub fn links(&self, page: u32) -> &[u32] {
        &self.targets[self.offsets[page as usize] as usize..self.offsets[page as usize + 1] as usize]
    }

    pub fn link_count(&self) -> usize {
        self.targets.len()
    }

    /// Milliseconds between two hosts.
    pub fn rtt(&self, a: usize, b: usize) -> f64 {
        let between = self.cities.rtt(self.city[a] as usize, self.city[b] as usize);
        between + f64::from(self.access[a]) + f64::from(self.access[b])
    }

    pub fn address_of(&self, host: usize) -> IpAddr {
        IpAddr::V4(Ipv4Addr::from(0x0A00_0000 + self.address[host] * 256 + 1))
    }

    pub fn position(&self, host: usize) -> Option<Position> {
        self.cities.positions.get(self.city[host] as usize).copied()
    }

    /// The machines that are robots: hosts drawn at random, as in the thesis; always the same first ones.
    pub fn robots(&self, count: usize, seed: u64) -> Vec<u32> {
        let mut random = Seeded::new(seed ^ 0x0B07);
        let mut drawn = Vec::new();
        while drawn.len() < count.min(self.hosts()) {
            let host = random.below(self.hosts() as u64) as u32;
            if !drawn.contains(&host) {
                drawn.push(host);
            }
        }
        drawn
    }

    /// What a partitioner sees.
    pub fn space(&self, robots: &[u32], connections: f64) -> Space {
        let server = |h: usize| Server {
            name: format!("http://h{h}.test"),
            address: Some(self.address_of(h)),
            pages: u64::from(self.pages_of(h)),
            position: self.position(h),
        };
        let agent = |robot: &u32| Agent {
            name: format!("h{robot}"),
            connections,
            position: self.position(*robot as usize),
        };
        let rtt = (0..self.hosts())
            .flat_map(|h| robots.iter().map(move |robot| self.rtt(h, *robot as usize) as f32))
            .collect();
        Space {
            servers: (0..self.hosts()).map(server).collect(),
            links: self.host_links.clone(),
            agents: robots.iter().map(agent).collect(),
            rtt,
        }
    }

    fn count_host_links(&self) -> Vec<(u32, u32, u32)> {
        let mut pairs: Vec<u64> = Vec::new();
        for page in 0..self.pages() as u32 {
            let from = self.page_host[page as usize];
            let to = self.links(page).iter().map(|page| self.page_host[*page as usize]);
            pairs.extend(to.filter(|to| *to != from).map(|to| u64::from(from) << 32 | u64::from(to)));
        }
        pairs.sort_unstable();
        let runs = pairs.chunk_by(|a, b| a == b);
        runs.map(|run| ((run[0] >> 32) as u32, run[0] as u32, run.len() as u32)).collect()
    }
}

/// Sizes `densest / rank^s`, at least 1, with the exponent that makes them sum up to `urls`; in random order of hosts
/// they would be the same, so they stay in falling order.
fn pages_per_host(hosts: usize, urls: u32, densest: u32) -> Vec<u32> {
    let sizes = |s: f64| -> Vec<u32> {
        (1..=hosts).map(|rank| (f64::from(densest) / (rank as f64).powf(s)).round().max(1.0) as u32).collect()
    };
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        let sum: u64 = sizes(middle).iter().map(|size| u64::from(*size)).sum();
        if sum > u64::from(urls) { low = middle } else { high = middle }
    }
    let mut pages = sizes(high);
    // Rounding leaves a few over; the middle of the list takes them.
    let sum: u64 = pages.iter().map(|size| u64::from(*size)).sum();
    let left = u64::from(urls).saturating_sub(sum) as u32;
    (0..left).for_each(|n| pages[1 + n as usize % (hosts - 1)] += 1);
    pages
}

/// Addresses: each city has some in the measure of its hosts; a host takes one of its city, popular ones more often.
fn addresses(city: &[u32], count: u32, random: &mut Seeded) -> Vec<u32> {
    let cities = city.iter().max().map_or(1, |most| *most as usize + 1);
    let mut in_city = vec![0u32; cities];
    city.iter().for_each(|c| in_city[*c as usize] += 1);
    let mut start = vec![0u32; cities + 1];
    for c in 0..cities {
        let share = f64::from(in_city[c]) * f64::from(count) / city.len() as f64;
        start[c + 1] = start[c] + (share.round() as u32).max(u32::from(in_city[c] > 0));
    }
    city.iter()
        .map(|c| {
            let (from, to) = (start[*c as usize], start[*c as usize + 1]);
            // Squaring makes the first ones crowded: shared hosting.
            from + ((random.unit().powi(2)) * f64::from(to - from)) as u32
        })
        .collect()
}

fn page_links(
    counts: &WebCounts,
    first: &[u32],
    community: &[u32],
    communities: usize,
    random: &mut Seeded,
) -> (Vec<u32>, Vec<u32>) {
    let hosts = first.len() - 1;
    let pages = first[hosts] as usize;
    // A fifth of all pages have links, 21.63 each in the mean (Table 5.1); the first pages of each host.
    let linkers = |h: usize| (f64::from(first[h + 1] - first[h]) * 0.21).ceil().max(1.0) as u64;
    let mut edges: Vec<(u32, u32)> = Vec::with_capacity(counts.links as usize);
    for h in 0..hosts {
        for page in first[h] + 1..first[h + 1] {
            // Every page can be reached from its host's first one.
            let parent = first[h] + random.below(linkers(h).min(u64::from(page - first[h]))) as u32;
            edges.push((parent, page));
        }
    }
    let popularity: Vec<f64> = (0..hosts).map(|h| f64::from(first[h + 1] - first[h]).sqrt()).collect();
    let everywhere = Draw::new(&popularity);
    let mut members: Vec<Vec<u32>> = vec![Vec::new(); communities];
    community.iter().enumerate().for_each(|(h, c)| members[*c as usize].push(h as u32));
    let within: Vec<Draw> = members
        .iter()
        .map(|hosts| Draw::new(&hosts.iter().map(|h| popularity[*h as usize]).collect::<Vec<_>>()))
        .collect();
    let more = (counts.links as usize).saturating_sub(edges.len());
    let externals = (f64::from(counts.links) * counts.external.clamp(0.0, 1.0)) as usize;
    for n in 0..more {
        // A page drawn from all says which host; which of the host's linking pages is drawn again.
        let any = random.below(pages as u64) as u32;
        let h = first.partition_point(|first| *first <= any) - 1;
        let page = first[h] + random.below(linkers(h)) as u32;
        let to = if n < externals.min(more) {
            let c = community[h] as usize;
            let stays = random.unit() < counts.locality && members[c].len() > 1;
            let other = loop {
                let other =
                    if stays { members[c][within[c].draw(random) as usize] } else { everywhere.draw(random) };
                if other as usize != h {
                    break other as usize;
                }
            };
            // Front pages are linked to most.
            let deep = random.unit().powi(3) * f64::from(first[other + 1] - first[other]);
            first[other] + deep as u32
        } else {
            first[h] + random.below(u64::from(first[h + 1] - first[h])) as u32
        };
        edges.push((page, to));
    }
    let mut offsets = vec![0u32; pages + 1];
    edges.iter().for_each(|(from, _)| offsets[*from as usize + 1] += 1);
    for page in 0..pages {
        offsets[page + 1] += offsets[page];
    }
    let mut next = offsets.clone();
    let mut targets = vec![0u32; edges.len()];
    for (from, to) in edges {
        let at = &mut next[from as usize];
        targets[*at as usize] = to;
        *at += 1;
    }
    (offsets, targets)
}

/// Draws numbers with given weights.
pub struct Draw {
    sums: Vec<f64>,
}

impl Draw {
    pub fn new(weights: &[f64]) -> Draw {
        let mut sum = 0.0;
        let sums = weights.iter().map(|weight| {
            sum += weight;
            sum
        });
        Draw { sums: sums.collect() }
    }

    pub fn draw(&self, random: &mut impl Random) -> u32 {
        let at = random.unit() * self.sums.last().copied().unwrap_or(0.0);
        self.sums.partition_point(|sum| *sum <= at).min(self.sums.len().saturating_sub(1)) as u32
    }
}

/// Made-up cities: 45 % of the servers in Portugal [Exposto08 §4.1], the others in Europe and North America.
pub fn made_cities(seed: u64) -> Cities {
    let mut random = Seeded::new(seed ^ 0xC171);
    let mut cities = Cities::default();
    // South, north, west, east, how many, weight of each.
    for (south, north, west, east, count, people) in [
        (37.0, 42.0, -9.3, -6.8, 30, 3600),
        (41.0, 58.0, -3.0, 24.0, 50, 900),
        (29.0, 46.0, -122.0, -72.0, 30, 1200),
        (-30.0, 20.0, -60.0, -38.0, 10, 600),
    ] {
        for _ in 0..count {
            let north_at = south + (north - south) * random.unit();
            let east_at = west + (east - west) * random.unit();
            cities.names.push(format!("city {}", cities.names.len()));
            cities.positions.extend(Position::new(north_at, east_at));
            cities.people.push(people);
        }
    }
    let n = cities.names.len();
    cities.rtt = vec![f32::NAN; n * n];
    for a in 0..n {
        for b in 0..a {
            let straight = cities.positions[a].rtt_least(cities.positions[b]);
            // Ways are between a tenth and twice as long again as the straight line.
            cities.rtt[a * n + b] = (3.0 + straight * (1.1 + 0.9 * random.unit().powi(2))) as f32;
        }
    }
    cities
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn small() -> WebCounts {
        WebCounts {
            urls: 6000,
            links: 27_000,
            hosts: 200,
            addresses: 60,
            densest: 400,
            external: 0.15,
            locality: 0.85,
            community: 20,
        }
    }

    #[test]
    fn counts_are_met() {
        let counts = small();
        let web = Web::make(&counts, made_cities(1), 1);
        assert_eq!((web.pages(), web.link_count(), web.hosts()), (6000, 27_000, 200));
        assert_eq!((0..200).map(|h| web.pages_of(h)).max(), Some(400));
        let external: u32 = web.host_links.iter().map(|(_, _, links)| links).sum();
        assert_eq!(external, 4050);
        let mut addresses = web.address.clone();
        addresses.sort_unstable();
        addresses.dedup();
        // Addresses are of one city: there are at least as many as cities with hosts, whatever was asked for.
        let mut cities = web.city.clone();
        cities.sort_unstable();
        cities.dedup();
        let most = counts.addresses as usize + cities.len();
        assert!((cities.len()..=most).contains(&addresses.len()), "{} in {}", addresses.len(), cities.len());
        // Everything can be reached from the first pages.
        let mut seen = vec![false; 6000];
        let mut open: Vec<u32> = web.first[..200].to_vec();
        while let Some(page) = open.pop() {
            if !std::mem::replace(&mut seen[page as usize], true) {
                open.extend(web.links(page));
            }
        }
        assert!(seen.iter().all(|seen| *seen));
    }

    #[test]
    fn the_thesis_sizes_come_out() {
        let pages = pages_per_host(10_039, 1_246_129, 78_523);
        assert_eq!(pages.iter().map(|pages| u64::from(*pages)).sum::<u64>(), 1_246_129);
        assert_eq!((pages[0], *pages.iter().min().unwrap() >= 1), (78_523, true));
    }
}
