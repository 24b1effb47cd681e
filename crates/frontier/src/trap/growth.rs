//! Parts of a site that grow as fast as they are read: generated mazes.
//!
//! However large a real part of a site is, reading it comes upon pages without anything new (leaves), upon the same page
//! by several ways, and upon pages that the rest of the site links to. A maze shows nothing of this: each of its pages
//! brings several addresses that nobody has named before and nobody will name again. What is measured is the
//! reproduction of a part, as of an epidemic: how many new pages *of the part* a page of it brings.
//!
//! A part that looks like that for long is not cut off: every n-th of its pages is still read, few enough for a maze to
//! die out (each page brings less than one that is read), and enough to see that a large tree has leaves after all.
//! Pages that another part, a sitemap or a person names are read in any case.
//!
//! A part is what lies below the first one or two path segments, or has one path with the same query parameters. Where
//! those are too many, the others are one part together.

use farol_base::CanonicalUrl;
use farol_base::fingerprint::hash64;

/// Most parts named after their first segment; the others are one together.
const FIRST_MAX: usize = 16;
/// Most parts of such a part named after their second segment; the others are one together.
const SECOND_MAX: usize = 8;
/// Most parts with a name. With those of others, 40 + 17 + 1 of 48 bytes: 2.7 KiB per host at worst.
const NAMED_MAX: usize = 40;

/// Pages over which growth is averaged; then older ones count half.
const WINDOW: u32 = 256;

/// Pages of a part that are enough to see it end somewhere.
const SETTLED_MIN: u32 = 8;

/// The fingerprint of a host's pages as a whole.
const WHOLE: u64 = 1;

/// Who named an address that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NamedBy {
    /// A page of the same part of its host.
    OwnPart,
    /// A page of another part of its host.
    OtherPart,
    /// Another host, a list of addresses, or a person.
    Outside,
}

/// What a page brought when it was read first, by its own host's addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageGrowth {
    /// Addresses of the page's own part that were not known.
    pub fresh: u32,
    /// Addresses of its own part that were known, but for those above it in the tree of paths.
    pub repeats: u32,
    /// Addresses of its host that were not known.
    pub fresh_on_host: u32,
    /// Addresses of its host that were known, but for those above it.
    pub repeats_on_host: u32,
}

impl PageGrowth {
    /// Counts a link of a page. What stands above the page in the tree of paths says nothing: mazes name it, too.
    pub fn count(&mut self, page: &CanonicalUrl, to: &CanonicalUrl, named: NamedBy, is_known: bool) {
        let rest = page.path().strip_prefix(to.path()).filter(|_| to.query().is_none());
        let is_above = |rest: &str| rest.is_empty() || rest.starts_with('/') || to.path().ends_with('/');
        if named == NamedBy::Outside || rest.is_some_and(is_above) {
            return;
        }
        let is_own = u32::from(named == NamedBy::OwnPart);
        let (own, on_host) = match is_known {
            true => (&mut self.repeats, &mut self.repeats_on_host),
            false => (&mut self.fresh, &mut self.fresh_on_host),
        };
        *own += is_own;
        *on_host += 1;
    }
}

/// When a part is a maze.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrowthRules {
    /// Pages of a part that are read before it is judged. A tree of directories, or articles that name others at random, may
    /// look like a maze for some hundred pages. Default: 512.
    pub pages_min: u32,
    /// New pages that a page brings on average, at least. A chain of pages brings one each. Default: 2.
    pub fresh_min: u32,
    /// Of this many pages at most one may bring nothing new. Default: 16.
    pub leaf_share: u32,
    /// Of this many links into the part at most one may be to a page that is known. Default: 5.
    pub repeat_share: u32,
    /// Of this many pages of the part at most one may be named from elsewhere. Default: 8.
    pub vouched_share: u32,
}

impl Default for GrowthRules {
    fn default() -> GrowthRules {
        GrowthRules { pages_min: 512, fresh_min: 2, leaf_share: 16, repeat_share: 5, vouched_share: 8 }
    }
}

/// What is known of one part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SitePart {
    fingerprint: u64,
    /// The part that it is a part of.
    above: u64,
    /// Pages read in all.
    read: u32,
    /// Addresses let in, and those of them that were named from elsewhere.
    known: u32,
    vouched: u32,
    /// Pages of the window, and what they brought.
    pages: u32,
    leaves: u32,
    fresh: u32,
    repeats: u32,
    fresh_on_host: u32,
}

impl SitePart {
    fn grew(&mut self, growth: PageGrowth) {
        self.read = self.read.saturating_add(1);
        self.pages += 1;
        self.leaves += u32::from(growth.fresh_on_host == 0);
        self.fresh = self.fresh.saturating_add(growth.fresh);
        self.repeats = self.repeats.saturating_add(growth.repeats);
        self.fresh_on_host = self.fresh_on_host.saturating_add(growth.fresh_on_host);
        if self.pages >= WINDOW {
            self.pages /= 2;
            self.leaves /= 2;
            self.fresh /= 2;
            self.repeats /= 2;
            self.fresh_on_host /= 2;
        }
    }

    fn is_maze(&self, rules: &GrowthRules) -> bool {
        let times = |count: u32, share: u32| u64::from(count) * u64::from(share);
        self.read >= rules.pages_min
            && self.is_leafless(rules)
            && u64::from(self.fresh) >= times(self.pages, rules.fresh_min)
            && times(self.repeats, rules.repeat_share) <= u64::from(self.fresh) + u64::from(self.repeats)
            && times(self.vouched, rules.vouched_share) <= u64::from(self.known)
    }

    fn is_leafless(&self, rules: &GrowthRules) -> bool {
        u64::from(self.leaves) * u64::from(rules.leaf_share) <= u64::from(self.pages)
    }

    /// Whether enough of its pages were read to say that they do not bring more and more.
    fn is_settled(&self, rules: &GrowthRules) -> bool {
        let brings_more = u64::from(self.fresh_on_host) >= u64::from(self.pages) * u64::from(rules.fresh_min);
        self.read >= SETTLED_MIN && !(self.is_leafless(rules) && brings_more)
    }

    /// Of how many pages one is still read: each of those brings a quarter of one on average.
    fn sample(&self) -> u64 {
        u64::from(self.fresh.div_ceil(self.pages.max(1))).max(1) * 4
    }
}

/// The parts of a host.
#[derive(Clone, Debug, Default)]
pub(super) struct SiteParts {
    parts: Vec<SitePart>,
}

impl SiteParts {
    /// An address was let in, which somebody named.
    pub fn admitted(&mut self, url: &CanonicalUrl, named: NamedBy) {
        let at = self.enter(url);
        for (at, vouched) in
            [(Some(at), named >= NamedBy::OtherPart), (self.find(WHOLE), named == NamedBy::Outside)]
        {
            if let Some(part) = at.and_then(|at| self.parts.get_mut(at)) {
                part.known = part.known.saturating_add(1);
                part.vouched = part.vouched.saturating_add(u32::from(vouched));
            }
        }
    }

    /// A page was read for the first time.
    pub fn grew(&mut self, page: &CanonicalUrl, growth: PageGrowth) {
        let at = self.enter(page);
        self.parts[at].grew(growth);
        if let Some(whole) = self.find(WHOLE) {
            let PageGrowth { fresh_on_host: fresh, repeats_on_host: repeats, .. } = growth;
            self.parts[whole].grew(PageGrowth { fresh, repeats, ..growth });
        }
    }

    /// The part that an address belongs to, for comparing two of one host.
    pub fn part_of(&self, url: &CanonicalUrl) -> u64 {
        self.place(url).0
    }

    /// Whether a page is one too many of those that nobody but their own kind has named.
    pub fn is_too_many(&self, url: &CanonicalUrl, named: NamedBy, rules: &GrowthRules) -> bool {
        let part = |fingerprint| self.find(fingerprint).map(|at| &self.parts[at]);
        let maze = match named {
            NamedBy::Outside => None,
            NamedBy::OtherPart => self.whole_maze(rules),
            NamedBy::OwnPart => {
                part(self.part_of(url)).filter(|part| part.is_maze(rules)).or_else(|| self.whole_maze(rules))
            }
        };
        maze.is_some_and(|maze| !hash64(url.as_str().as_bytes()).is_multiple_of(maze.sample()))
    }

    /// The host as a whole, where it is a maze whose parts name each other. A host with a part that is none, or that is one
    /// by itself, is judged by its parts alone.
    fn whole_maze(&self, rules: &GrowthRules) -> Option<&SitePart> {
        let whole = &self.parts[self.find(WHOLE)?];
        let mut parts = self.parts.iter().filter(|part| part.fingerprint != WHOLE);
        (whole.is_maze(rules) && !parts.any(|part| part.is_settled(rules) || part.is_maze(rules)))
            .then_some(whole)
    }

    fn find(&self, fingerprint: u64) -> Option<usize> {
        self.parts.iter().position(|part| part.fingerprint == fingerprint)
    }

    /// The place of a part in the table, made where it is new.
    fn enter(&mut self, url: &CanonicalUrl) -> usize {
        if self.parts.is_empty() {
            self.parts.push(SitePart { fingerprint: WHOLE, ..SitePart::default() });
        }
        let (first, above) = self.first(url);
        // The part above is there before its parts are, so that these can be counted.
        let outer = self.find_or_add(first, above);
        let (fingerprint, above) = self.place(url);
        if fingerprint == first { outer } else { self.find_or_add(fingerprint, above) }
    }

    fn find_or_add(&mut self, fingerprint: u64, above: u64) -> usize {
        self.find(fingerprint).unwrap_or_else(|| {
            self.parts.push(SitePart { fingerprint, above, ..SitePart::default() });
            self.parts.len() - 1
        })
    }

    /// Fingerprints of the part that a URL belongs to, and of the one above it.
    fn place(&self, url: &CanonicalUrl) -> (u64, u64) {
        let (first, above) = self.first(url);
        let mut segments = url.path().split('/').skip(2);
        match (segments.next(), segments.next()) {
            (Some(second), Some(_)) if url.query().is_none() => {
                (self.named(first, &mask(second), SECOND_MAX), first)
            }
            _ => (first, above),
        }
    }

    fn first(&self, url: &CanonicalUrl) -> (u64, u64) {
        if let Some(query) = url.query() {
            let names = query.split('&').map(|parameter| parameter.split('=').next().unwrap_or_default());
            let path: Vec<String> = url.path().split('/').map(mask).collect();
            let text = path.into_iter().chain(names.map(String::from)).collect::<Vec<_>>().join("?");
            return (self.named(WHOLE, &text, FIRST_MAX), WHOLE);
        }
        let mut segments = url.path().split('/').skip(1);
        let name = match (segments.next(), segments.next()) {
            (Some(first), Some(_)) => mask(first) + "/",
            // Pages at the top: those with a number for their name are apart from the rest.
            (Some(page), None) if mask(page) == "#" => "#".to_string(),
            _ => String::new(),
        };
        (self.named(WHOLE, &name, FIRST_MAX), WHOLE)
    }

    /// The fingerprint of a part's part with this name; where there is no room for it, that of all the others.
    fn named(&self, above: u64, name: &str, max: usize) -> u64 {
        let of = |name: &str| hash64(&[&above.to_le_bytes(), name.as_bytes()].concat());
        let fingerprint = of(name);
        if self.find(fingerprint).is_some() {
            return fingerprint;
        }
        let siblings = self.parts.iter().filter(|part| part.above == above).count();
        if siblings < max && self.parts.len() < NAMED_MAX { fingerprint } else { of("*") }
    }
}

/// A path segment with numbers left out.
fn mask(segment: &str) -> String {
    let is_number = !segment.is_empty() && segment.bytes().all(|b| b.is_ascii_digit());
    if is_number { "#".to_string() } else { segment.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::random::mix;
    use std::collections::{HashSet, VecDeque};

    fn url(path: &str) -> CanonicalUrl {
        CanonicalUrl::parse(&format!("http://h{path}")).unwrap()
    }

    /// Reads a site breadth first from its home page as far as it is let, and answers how many of its pages under `/x` were
    /// read. `links` says what a page links to.
    fn read(rules: &GrowthRules, most: usize, links: impl Fn(&str) -> Vec<String>) -> usize {
        let mut parts = SiteParts::default();
        let (mut queue, mut known) = (VecDeque::from(["/".to_string()]), HashSet::from(["/".to_string()]));
        let mut vouched_for = HashSet::new();
        let named = |is_vouched| if is_vouched { NamedBy::OtherPart } else { NamedBy::OwnPart };
        let mut count = 0;
        while let Some(page) = queue.pop_front().filter(|_| count < most) {
            let from = url(&page);
            if parts.is_too_many(&from, named(vouched_for.contains(&page)), rules) {
                continue;
            }
            count += usize::from(page.starts_with("/x"));
            let mut growth = PageGrowth::default();
            for to in links(&page).into_iter().collect::<HashSet<_>>() {
                let link = url(&to);
                let inside = parts.part_of(&from) == parts.part_of(&link);
                if known.contains(&to) {
                    growth.repeats += u32::from(inside);
                    growth.repeats_on_host += 1;
                    continue;
                }
                growth.fresh += u32::from(inside);
                growth.fresh_on_host += 1;
                if !inside {
                    vouched_for.insert(to.clone());
                }
                if parts.is_too_many(&link, named(!inside), rules) {
                    continue;
                }
                parts.admitted(&link, named(!inside));
                known.insert(to.clone());
                queue.push_back(to);
            }
            parts.grew(&from, growth);
        }
        count
    }

    fn letters(number: u64) -> String {
        (0..8).map(|at| char::from(b'a' + (mix(number ^ at << 40) % 26) as u8)).collect()
    }

    fn number(page: &str) -> u64 {
        page.rsplit('/').find_map(|segment| segment.parse().ok()).unwrap_or(0)
    }

    /// What a page of a maze links to.
    type Links<'a> = dyn Fn(&str) -> Vec<String> + 'a;

    const MOST: usize = 20_000;

    #[test]
    fn a_maze_dies_out_however_its_addresses_look() {
        let rules = GrowthRules::default();
        for links in [3u64, 5, 10, 30] {
            let numbers = |page: &str| {
                let from = mix(number(page) + 7);
                (0..links).map(|n| format!("/x/{}", mix(from ^ n) % 1_000_000_000)).collect()
            };
            let words = |page: &str| {
                let from = hash64(page.as_bytes());
                (0..links).map(|n| format!("/x/{}/{}", letters(from ^ n), letters(!from ^ n))).collect()
            };
            let deep = |page: &str| {
                let base = if page == "/" { "/x" } else { page };
                (0..links).map(|n| format!("{base}/{}", letters(n))).collect()
            };
            let tops = |page: &str| {
                let from = hash64(page.as_bytes());
                (0..links).map(|n| format!("/x{}", letters(from ^ n))).collect()
            };
            let queries = |page: &str| {
                let from = hash64(page.as_bytes());
                (0..links).map(|n| format!("/x.php?to={}", letters(from ^ n))).collect()
            };
            // Ten words for the first segment, so that the parts name each other.
            let across = |page: &str| {
                let from = hash64(page.as_bytes());
                (0..links).map(|n| format!("/x{}/{}", mix(from ^ n) % 10, letters(from ^ n))).collect()
            };
            let mazes: [&Links<'_>; 6] = [&numbers, &words, &deep, &tops, &queries, &across];
            for (nth, maze) in mazes.into_iter().enumerate() {
                let pages = read(&rules, MOST, maze);
                assert!((500..1_500).contains(&pages), "maze {nth} of {links} links: {pages} pages");
            }
        }
    }

    #[test]
    fn a_maze_that_names_the_page_before_and_the_menu_dies_out_too() {
        let maze = |page: &str| {
            let from = hash64(page.as_bytes());
            let more = (0..10).map(|n| format!("/x/{}", letters(from ^ n)));
            more.chain(["/", "/about", "/x/start"].map(String::from)).collect()
        };
        let pages = read(&GrowthRules::default(), MOST, maze);
        assert!(pages < 1_500, "{pages} pages");
    }

    #[test]
    fn real_sites_are_read_whole() {
        const PAGES: u64 = 5_000;
        let rules = GrowthRules::default();
        // Each article names the one before, the one after, and some others; nothing else leads to them.
        let related = |page: &str| -> Vec<String> {
            let at = number(page);
            let others = (0..4).map(|n| mix(at ^ n << 32) % PAGES);
            others
                .chain([at + 1, at.saturating_sub(1)])
                .filter(|n| *n < PAGES)
                .map(|n| format!("/x/{n}"))
                .collect()
        };
        assert_eq!(read(&rules, MOST, related), PAGES as usize);
        // A list of ten a page, and articles that name nothing at all, or the next one.
        for next in [0, 1] {
            let listed = |page: &str| -> Vec<String> {
                let at = number(page);
                match page.starts_with("/x/") {
                    true => (0..next).map(|_| format!("/x/{}", at + 1)).filter(|_| at + 1 < PAGES).collect(),
                    false => {
                        let articles = (at * 10..at * 10 + 10).map(|n| format!("/x/{n}"));
                        let more = (at + 1 < PAGES / 10).then(|| format!("/list/{}", at + 1));
                        articles.chain(more).collect()
                    }
                }
            };
            assert_eq!(read(&rules, MOST, listed), PAGES as usize);
        }
        // A chain that only goes forward.
        let chain = |page: &str| {
            let next = if page == "/" { 0 } else { number(page) + 1 };
            (next < PAGES).then(|| format!("/x/{next}")).into_iter().collect()
        };
        assert_eq!(read(&rules, MOST, chain), PAGES as usize);
        // Directories of directories of files, named only by what is above them.
        let tree = |page: &str| -> Vec<String> {
            let base = if page == "/" { "/x/" } else { page };
            match base.matches('/').count() {
                _ if !base.ends_with('/') => Vec::new(),
                2 | 3 => (0..20).map(|n| format!("{base}{}/", letters(n))).collect(),
                _ => (0..12).map(|n| format!("{base}{}", letters(n))).collect(),
            }
        };
        assert_eq!(read(&rules, MOST, tree), 20 + 400 + 4_800);
        // Discussions with pages of their own, named by a list that is long itself.
        let threads = |page: &str| -> Vec<String> {
            let at = number(page);
            match page.split_once("/x/") {
                Some((_, thread)) => {
                    let thread = thread.split(['?', '/']).next().unwrap_or_default();
                    (1..6).map(|n| format!("/x/{thread}?page={n}")).collect()
                }
                None => {
                    let threads = (at * 20..at * 20 + 20).map(|n| format!("/x/{n}"));
                    threads.chain((at < 40).then(|| format!("/board/{}", at + 1))).collect()
                }
            }
        };
        assert_eq!(read(&rules, MOST, threads), 41 * 20 * 6);
    }

    #[test]
    fn a_site_goes_on_being_read_beside_its_maze() {
        // Each article has a door to the maze; the list leads to all articles.
        let links = |page: &str| -> Vec<String> {
            if let Some(article) = page.strip_prefix("/x/") {
                return vec!["/".to_string(), format!("/maze/{}", letters(hash64(article.as_bytes())))];
            }
            let from = hash64(page.as_bytes());
            match page.starts_with("/maze/") {
                true => (0..10).map(|n| format!("/maze/{}", letters(from ^ n))).collect(),
                false => (0..5)
                    .map(|n| format!("/x/{}", number(page) * 5 + n))
                    .chain((number(page) < 400).then(|| format!("/list/{}", number(page) + 1)))
                    .chain(["/maze/start".to_string()])
                    .collect(),
            }
        };
        assert_eq!(read(&GrowthRules::default(), MOST, links), 401 * 5);
    }

    #[test]
    fn links_up_and_out_count_for_nothing() {
        let mut growth = PageGrowth::default();
        let page = url("/a/b/c");
        for above in ["/", "/a", "/a/", "/a/b/", "/a/b/c"] {
            growth.count(&page, &url(above), NamedBy::OwnPart, true);
        }
        growth.count(&page, &url("/z"), NamedBy::Outside, false);
        assert_eq!(growth, PageGrowth::default());
        growth.count(&page, &url("/a/b?x=1"), NamedBy::OwnPart, true);
        growth.count(&page, &url("/a/b/c/d"), NamedBy::OwnPart, false);
        growth.count(&page, &url("/ab"), NamedBy::OtherPart, false);
        growth.count(&page, &url("/b"), NamedBy::OtherPart, true);
        assert_eq!(growth, PageGrowth { fresh: 1, repeats: 1, fresh_on_host: 2, repeats_on_host: 2 });
    }

    #[test]
    fn memory_is_bounded() {
        let mut parts = SiteParts::default();
        for n in 0..20_000u64 {
            let path = format!("/{}/{}/{}", letters(n % 300), letters(n), letters(n + 1));
            parts.admitted(&url(&path), NamedBy::OwnPart);
            parts.grew(&url(&path), PageGrowth { fresh: 1, ..PageGrowth::default() });
            parts.grew(&url(&format!("/{}?{}=1", letters(n), letters(n))), PageGrowth::default());
        }
        assert!(parts.parts.len() <= NAMED_MAX + FIRST_MAX + 2, "{}", parts.parts.len());
    }
}
