//! Which pages a perfect crawler finds: the truth that a crawl is compared with.
//!
//! Walks by formula from the seeds along links, redirects and sitemaps, obeying robots rules. Where crawlers may
//! differ in good faith (links marked nofollow, redirects of more than five hops, feeds, pages that fail), the walk
//! asks for less, so that "never fetched" is always a reproach.

use super::robots::Rules;
use super::world::{Kind, Page, Redirect, World};
use std::collections::HashMap;

/// Where a walk starts and how far it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Walk {
    pub seeds: Vec<Page>,
    pub scope: Scope,
    /// Take in the pages that sitemaps name.
    pub sitemaps: bool,
}

/// How far a walk goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Scope {
    /// Everywhere.
    #[default]
    World,
    /// The hosts of the seeds.
    SeedHosts,
}

impl Default for Walk {
    fn default() -> Walk {
        Walk { seeds: vec![Page { host: 0, number: 0 }], scope: Scope::World, sitemaps: true }
    }
}

/// Redirects that a crawler must follow one after another.
const HOPS_MAX: u32 = 5;

/// A set of pages: one bit per page of the world, so 100 million pages take 12.5 MB.
#[derive(Clone, Debug)]
pub struct Reachable {
    bits: Vec<u64>,
    count: u64,
}

impl Reachable {
    fn new(pages: u64) -> Reachable {
        Reachable { bits: vec![0; pages.div_ceil(64) as usize], count: 0 }
    }

    fn insert(&mut self, ordinal: u64) -> bool {
        let (word, bit) = ((ordinal / 64) as usize, 1 << (ordinal % 64));
        let new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        self.count += u64::from(new);
        new
    }

    /// How many pages are in it.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether the page of this [`World::ordinal`] is in it.
    pub fn contains(&self, ordinal: u64) -> bool {
        self.bits.get((ordinal / 64) as usize).is_some_and(|word| word & 1 << (ordinal % 64) != 0)
    }

    /// The ordinals of the pages in it.
    pub fn ordinals(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.bits.len() as u64 * 64).filter(|ordinal| self.contains(*ordinal))
    }
}

impl World {
    /// The pages that a crawl should ask for: allowed by robots rules and reached by the walk.
    ///
    /// Pages that turn out to be missing, failing or broken are among them. Takes about 10 µs per page of 50 links.
    pub fn reachable(&self, walk: &Walk) -> Reachable {
        let mut walker = Walker {
            world: self,
            walk,
            found: Reachable::new(self.pages()),
            queue: Vec::new(),
            rules: HashMap::new(),
            path: Vec::new(),
        };
        for seed in &walk.seeds {
            walker.find(*seed);
        }
        let mut links = Vec::new();
        while let Some(page) = walker.queue.pop() {
            if let Kind::Redirect(_) = self.kind(page) {
                walker.follow(page);
                continue;
            }
            if self.marks(self.shown(page)).nofollow {
                continue;
            }
            self.links_into(page, &mut links);
            for link in links.iter().filter(|link| !link.nofollow) {
                walker.find(link.to);
            }
        }
        walker.found
    }
}

struct Walker<'a> {
    world: &'a World,
    walk: &'a Walk,
    found: Reachable,
    queue: Vec<Page>,
    rules: HashMap<u32, Rules>,
    path: Vec<u8>,
}

impl Walker<'_> {
    fn find(&mut self, page: Page) {
        // The set first: most links lead to pages that are known.
        if self.found.contains(self.world.ordinal(page)) || !self.may_ask(page) {
            return;
        }
        self.found.insert(self.world.ordinal(page));
        self.queue.push(page);
    }

    fn may_ask(&mut self, page: Page) -> bool {
        if page.number >= self.world.pages_of(page.host) {
            return false;
        }
        if self.walk.scope == Scope::SeedHosts && self.walk.seeds.iter().all(|seed| seed.host != page.host) {
            return false;
        }
        let new_host = !self.rules.contains_key(&page.host);
        let rules = self.rules.entry(page.host).or_insert_with(|| self.world.rules(page.host));
        self.path.clear();
        self.world.push_path(&mut self.path, page);
        let allowed = rules.lines.is_empty() || rules.allows(std::str::from_utf8(&self.path).unwrap_or("/"));
        if new_host && self.walk.sitemaps && rules.sitemap && rules.allows("/sitemap.xml") {
            self.read_sitemap(page.host);
        }
        allowed
    }

    fn read_sitemap(&mut self, host: u32) {
        for number in 0..self.world.pages_of(host) {
            let page = Page { host, number };
            if self.world.is_listed(page) {
                self.find(page);
            }
        }
    }

    /// Goes through redirects one after another, as many as every crawler must.
    fn follow(&mut self, from: Page) {
        let mut page = from;
        let mut hops = 0;
        while let Kind::Redirect(redirect) = self.world.kind(page) {
            let (more, to) = match redirect {
                Redirect::To(to) => (1, to),
                Redirect::Chain { hops, to } => (u32::from(hops) + 1, to),
                Redirect::Loop => return,
            };
            hops += more;
            if hops > HOPS_MAX || !self.may_ask(to) {
                return;
            }
            let new = self.found.insert(self.world.ordinal(to));
            if new && !matches!(self.world.kind(to), Kind::Redirect(_)) {
                self.queue.push(to);
            }
            page = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WebConfig;

    #[test]
    fn a_tame_web_is_reached_whole() {
        let world = World::new(WebConfig { hosts: 80, pages: 3000, ..WebConfig::tame() }).unwrap();
        let found = world.reachable(&Walk::default());
        assert_eq!(found.count(), world.pages());
        assert_eq!(found.ordinals().count() as u64, world.pages());
        let host =
            Walk { seeds: vec![Page { host: 7, number: 3 }], scope: Scope::SeedHosts, sitemaps: false };
        assert_eq!(world.reachable(&host).count(), world.pages_of(7));
    }

    #[test]
    fn rules_and_trouble_are_in_the_way() {
        let world =
            World::new(WebConfig { hosts: 200, pages: 4000, robots: 1.0, ..WebConfig::default() }).unwrap();
        let found = world.reachable(&Walk::default());
        assert!(found.count() < world.pages() && found.count() > world.pages() / 2, "{}", found.count());
        for page in world.all_pages() {
            let allowed = world.rules(page.host).allows(&world.path(page));
            assert!(allowed || !found.contains(world.ordinal(page)), "{}", world.url(page));
        }
    }

    /// A slow walk over what the pages really say, as a judge of the fast one.
    #[test]
    fn the_walk_agrees_with_reading_the_pages() {
        let config = WebConfig {
            hosts: 30,
            pages: 300,
            redirects: 0.1,
            traps: 0.02,
            sitemaps: 0.0,
            mean_links: 6.0,
            mean_page_bytes: 2000,
            noindex: 0.1,
            ..WebConfig::default()
        };
        let world = World::new(config).unwrap();
        let start = world.config().start;
        let mut queue = vec![(world.url(Page { host: 0, number: 0 }), 0)];
        let mut asked = std::collections::HashSet::new();
        while let Some((url, hops)) = queue.pop() {
            let (name, path) =
                url["http://".len()..].split_once('/').map(|(n, p)| (n, format!("/{p}"))).unwrap();
            let rules = world.rules(world.host_number(name).unwrap());
            if path.starts_with("/calendar") || path.starts_with("/maze") || path.starts_with("/deep") {
                continue;
            }
            if !rules.allows(&path) || hops > 5 || !asked.insert(url.clone()) {
                continue;
            }
            let answer = world.page(&url, start);
            let absolute =
                |to: &str| if to.starts_with('/') { format!("http://{name}{to}") } else { to.to_string() };
            if let Some(location) = &answer.location {
                queue.push((absolute(location), hops + 1));
            }
            let readable =
                answer.status == 200 && matches!(world.locate(0, "/"), super::super::Place::Page(_));
            let html = String::from_utf8_lossy(&answer.body).into_owned();
            if !readable || html.contains(", nofollow\">") {
                continue;
            }
            for link in html.split("<a href=\"").skip(1).filter(|link| !link.starts_with("um/")) {
                let (to, rest) = link.split_once('"').unwrap();
                if !rest.starts_with(" rel=\"nofollow\"") {
                    queue.push((absolute(to), 0));
                }
            }
        }
        let found = world.reachable(&Walk::default());
        let mut missed = 0;
        for page in world.all_pages() {
            let read = asked.contains(&world.url(page));
            let walked = found.contains(world.ordinal(page));
            assert!(read || !walked, "{} is not reachable", world.url(page));
            missed += usize::from(read && !walked);
        }
        // Only chains of redirects, which the fast walk cuts a little earlier, may differ.
        assert!(missed <= 3, "{missed} pages were missed");
    }
}
