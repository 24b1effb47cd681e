//! Who links to whom.
//!
//! Pages of a host form a tree under its front page (page p links to 8p + 1 … 8p + 8), and so do front pages, so
//! that everything can be reached where nothing is in the way. The rest of a page's links go to popular pages:
//! inside the host by preference, otherwise mostly to the front page of a host chosen by its size, within the host's
//! community by preference where there are communities: hosts whose numbers leave the same rest.
//! Links never change, whatever the text does.

use super::world::{Draw, Kind, Likeness, Page, World, draw, unit};
use farol_base::{Random, Seeded};

/// A link to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTo {
    pub to: Page,
    /// Marked `rel=nofollow`.
    pub nofollow: bool,
}

/// Children of a page in its host's tree, and of a host in the tree of hosts.
const BRANCHES: u64 = 8;
/// Exponent of the power law of link numbers; out-degrees of real pages have about this one.
const DEGREE_EXPONENT: f64 = 2.5;
/// A page has at most so many times the mean number of links.
const DEGREE_FACTOR_MAX: f64 = 20.0;
/// Share of links to other hosts that lead to a front page.
const FRONT_PAGES: f64 = 0.8;

impl World {
    /// The links of a page, in the order of the page; none where it is not served as a readable page.
    pub fn links(&self, page: Page) -> Vec<LinkTo> {
        let mut links = Vec::new();
        self.links_into(page, &mut links);
        links
    }

    /// As [`World::links`], into a list that is used again.
    pub(super) fn links_into(&self, page: Page, links: &mut Vec<LinkTo>) {
        links.clear();
        match self.kind(page) {
            Kind::Plain | Kind::Door(_) | Kind::Slow { .. } => self.push_links(page, links),
            Kind::Duplicate { original, likeness: Likeness::Exact } => self.push_links(original, links),
            Kind::Duplicate { .. } => self.push_links(page, links),
            Kind::Redirect(_)
            | Kind::Missing { .. }
            | Kind::Failing(_)
            | Kind::Broken(_)
            | Kind::Huge { .. } => {}
        }
    }

    /// How many links at the start of [`World::links`] belong to the site's own navigation.
    pub(super) fn navigation_links(&self, page: Page) -> usize {
        let children = |number: u64, count: u64| count.saturating_sub(number * BRANCHES + 1).min(BRANCHES);
        let own = children(page.number, self.pages_of(page.host)) as usize;
        let hosts = children(u64::from(page.host), u64::from(self.hosts())) as usize;
        own + if page.number == 0 { hosts } else { 1 }
    }

    fn push_links(&self, page: Page, links: &mut Vec<LinkTo>) {
        let config = self.config();
        let own_pages = self.pages_of(page.host);
        let plain = |host, number| LinkTo { to: Page { host, number }, nofollow: false };
        if page.number != 0 {
            links.push(plain(page.host, 0));
        }
        let first = page.number * BRANCHES + 1;
        links.extend((first..(first + BRANCHES).min(own_pages)).map(|number| plain(page.host, number)));
        let local = links.len() as f64;
        if page.number == 0 {
            let first = u64::from(page.host) * BRANCHES + 1;
            let hosts = first..(first + BRANCHES).min(u64::from(self.hosts()));
            links.extend(hosts.map(|host| plain(host as u32, 0)));
        }
        let mut random = Seeded::new(draw(self.key(page), Draw::Links));
        let place = (1.0 - random.unit()).powf(-1.0 / DEGREE_EXPONENT);
        let smallest = config.mean_links * (DEGREE_EXPONENT - 1.0) / DEGREE_EXPONENT;
        let degree = (smallest * place).min(DEGREE_FACTOR_MAX * config.mean_links);
        let rest = degree.round() as usize - links.len().min(degree.round() as usize);
        // The tree's links count too, so that locality is that of the whole page.
        let stay = ((config.locality * degree - local) / rest.max(1) as f64).clamp(0.0, 1.0);
        for _ in 0..rest {
            let bits = random.next_u64();
            let to = if unit(bits) < stay {
                Page { host: page.host, number: popular(random.unit(), own_pages) }
            } else {
                let host = self.host_at(random.unit());
                let host = match config.communities > 1 && random.unit() < config.neighbours {
                    true => self.neighbour(page.host, host),
                    false => host,
                };
                let front = random.unit();
                let inner = (front - FRONT_PAGES) / (1.0 - FRONT_PAGES);
                Page { host, number: if inner < 0.0 { 0 } else { popular(inner, self.pages_of(host)) } }
            };
            // The lowest bits played no part in the choice above.
            let nofollow = (bits & 0x7FF) as f64 / 2048.0 < config.nofollow;
            links.push(LinkTo { to, nofollow });
        }
    }

    /// The host of a host's community that stands beside another one, and so is about as large.
    fn neighbour(&self, of: u32, beside: u32) -> u32 {
        let communities = self.config().communities;
        let host = beside - beside % communities + of % communities;
        if host < self.hosts() { host } else { host - communities }
    }
}

/// A page chosen by a number in `[0, 1)`; low numbers are far more popular.
fn popular(place: f64, pages: u64) -> u64 {
    ((place * place * pages as f64) as u64).min(pages - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WebConfig;

    #[test]
    fn links_stay_in_their_community_as_configured_and_without_communities_nothing_changes() {
        let plain = World::new(WebConfig { hosts: 103, pages: 4000, ..WebConfig::tame() }).unwrap();
        let one = WebConfig { neighbours: 0.0, ..plain.config().clone() };
        let same = World::new(one.clone()).unwrap();
        let page = Page { host: 7, number: 3 };
        assert_eq!(plain.links(page), same.links(page));
        let world = World::new(WebConfig { communities: 10, neighbours: 0.9, ..one }).unwrap();
        let (mut away, mut inside) = (0u32, 0u32);
        for page in world.all_pages().filter(|page| page.number != 0) {
            for to in world.links(page).iter().map(|link| link.to).filter(|to| to.host != page.host) {
                assert!(to.host < 103);
                away += 1;
                inside += u32::from(to.host % 10 == page.host % 10);
            }
        }
        let share = f64::from(inside) / f64::from(away);
        assert!((share - 0.91).abs() < 0.03, "{share}");
    }

    #[test]
    fn degree_locality_and_nofollow_are_as_configured() {
        let config = WebConfig { hosts: 100, pages: 5000, nofollow: 0.1, ..WebConfig::tame() };
        let world = World::new(config).unwrap();
        let (mut total, mut local, mut nofollow, mut most) = (0usize, 0usize, 0usize, 0usize);
        for page in world.all_pages() {
            let links = world.links(page);
            total += links.len();
            most = most.max(links.len());
            local += links.iter().filter(|link| link.to.host == page.host).count();
            nofollow += links.iter().filter(|link| link.nofollow).count();
            assert!(links.iter().all(|link| link.to.number < world.pages_of(link.to.host)));
            assert!(world.navigation_links(page) <= links.len());
        }
        let mean = total as f64 / world.pages() as f64;
        assert!((47.0..53.0).contains(&mean), "{mean} links in the mean");
        assert!(most > 300, "the tail of the power law is missing: {most} at most");
        let share = local as f64 / total as f64;
        assert!((0.77..0.83).contains(&share), "{share} of the links are local");
        let share = nofollow as f64 / total as f64;
        assert!((0.06..0.11).contains(&share), "{share} of the links are nofollow");
    }

    #[test]
    fn the_tree_comes_first() {
        let world = World::new(WebConfig { hosts: 100, pages: 5000, ..WebConfig::tame() }).unwrap();
        let front = world.links(Page { host: 0, number: 0 });
        for i in 1..=8 {
            assert!(front[..16].contains(&LinkTo { to: Page { host: 0, number: i }, nofollow: false }));
            assert!(
                front[..16].contains(&LinkTo { to: Page { host: i as u32, number: 0 }, nofollow: false })
            );
        }
    }

    #[test]
    fn a_web_of_one_page_links_to_itself() {
        let world = World::new(WebConfig { hosts: 1, pages: 1, ..WebConfig::default() }).unwrap();
        let links = world.links(Page { host: 0, number: 0 });
        assert!(!links.is_empty() && links.iter().all(|link| link.to == Page { host: 0, number: 0 }));
    }
}
