//! Names and addresses: which URL a page has, and what a URL names.
//!
//! Hosts write their pages' addresses in one of four ways, so that crawlers see more than one shape:
//! `/guia/casa-velha-17.html`, `/guia/17/`, `/guia/item?id=17` and `/guia/defaba`. Besides pages, a host has
//! robots.txt, sitemaps, a feed, the steps of redirects, and endless places.
//!
//! INVARIANT: [`World::locate`] answers exactly the spelling that [`World::push_path`] writes.

use super::trap::Trap;
use super::words::{push_letters, read_letters};
use super::world::{Draw, Page, World, draw};

/// What a URL of a host names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Page(Page),
    /// A step of the redirect chain of this page, with so many steps to come.
    Hop {
        page: Page,
        left: u8,
    },
    /// One of the two addresses that redirect to each other.
    Loop {
        page: Page,
        turn: u8,
    },
    Robots,
    /// Where the robots.txt of some hosts has moved to.
    MovedRobots,
    Sitemap,
    SitemapPart(u64),
    Feed,
    Trap(Trap),
    /// Nothing: 404.
    Nothing,
}

/// First part of the paths of a host's pages; robots rules speak of them.
pub const SECTIONS: [&str; 12] = [
    "news", "guia", "receitas", "arquivo", "blog", "docs", "libros", "shop", "forum", "equipo", "events",
    "viagens",
];

const HOST_WORDS: [&str; 24] = [
    "casa", "farol", "praia", "monte", "river", "stone", "library", "jornal", "ciudad", "puerto", "garden",
    "school", "museu", "radio", "estrela", "cinema", "tienda", "atlas", "poesia", "clima", "futbol", "music",
    "saude", "campo",
];

const SLUG_WORDS: [&str; 32] = [
    "velha", "novo", "grande", "azul", "old", "red", "first", "secret", "viejo", "nuevo", "rojo", "largo",
    "mar", "sol", "vento", "pedra", "boat", "road", "light", "tree", "barco", "cielo", "fuego", "libro",
    "porta", "janela", "summer", "winter", "verano", "outono", "day", "noche",
];

impl World {
    /// Name of a host: `casa0.web.test`.
    pub fn host_name(&self, host: u32) -> String {
        let mut name = Vec::with_capacity(32);
        self.push_host(&mut name, host);
        String::from_utf8(name).unwrap_or_default()
    }

    /// The host of this name, with or without a port, in any case.
    pub fn host_number(&self, name: &str) -> Option<u32> {
        let name = name.rsplit_once(':').map_or(name, |(name, _)| name);
        let label_end = name.len().checked_sub(self.config().domain.len() + 1)?;
        let (label, domain) = name.split_at_checked(label_end)?;
        if !domain.strip_prefix('.')?.eq_ignore_ascii_case(&self.config().domain) {
            return None;
        }
        let digits = label.trim_start_matches(|c: char| !c.is_ascii_digit());
        let host = digits.parse().ok().filter(|host| *host < self.hosts())?;
        let word = HOST_WORDS[self.host_word(host)];
        // The length check refuses a second spelling such as `casa00`.
        (label.len() == word.len() + decimal_digits(u64::from(host))
            && label[..word.len()].eq_ignore_ascii_case(word))
        .then_some(host)
    }

    /// URL of a page.
    pub fn url(&self, page: Page) -> String {
        let mut url = Vec::with_capacity(80);
        self.push_url(&mut url, page);
        String::from_utf8(url).unwrap_or_default()
    }

    /// Path and query of a page: `/guia/casa-velha-17.html`.
    pub fn path(&self, page: Page) -> String {
        let mut path = Vec::with_capacity(48);
        self.push_path(&mut path, page);
        String::from_utf8(path).unwrap_or_default()
    }

    /// What a path and query of a host name.
    pub fn locate(&self, host: u32, path: &str) -> Place {
        match path {
            "/" => return Place::Page(Page { host, number: 0 }),
            "/robots.txt" => return Place::Robots,
            "/robots-moved.txt" => return Place::MovedRobots,
            "/sitemap.xml" => return Place::Sitemap,
            "/feed.xml" => return Place::Feed,
            _ => {}
        }
        if let Some(part) = path.strip_prefix("/sitemap-") {
            let part = part.strip_suffix(".xml.gz").or_else(|| part.strip_suffix(".xml"));
            return part.and_then(|part| part.parse().ok()).map_or(Place::Nothing, Place::SitemapPart);
        }
        if let Some(steps) = path.strip_prefix("/hop/") {
            return self
                .locate_step(host, steps)
                .map_or(Place::Nothing, |(left, page)| Place::Hop { page, left });
        }
        if let Some(steps) = path.strip_prefix("/loop/") {
            return self
                .locate_step(host, steps)
                .map_or(Place::Nothing, |(turn, page)| Place::Loop { page, turn });
        }
        if let Some(trap) = Trap::parse(path) {
            return Place::Trap(trap);
        }
        self.locate_page(host, path).map_or(Place::Nothing, Place::Page)
    }

    pub(super) fn push_host(&self, out: &mut Vec<u8>, host: u32) {
        out.extend_from_slice(HOST_WORDS[self.host_word(host)].as_bytes());
        push_number(out, u64::from(host));
        out.push(b'.');
        out.extend_from_slice(self.config().domain.as_bytes());
    }

    pub(super) fn push_url(&self, out: &mut Vec<u8>, page: Page) {
        out.extend_from_slice(b"http://");
        self.push_host(out, page.host);
        self.push_path(out, page);
    }

    pub(super) fn push_path(&self, out: &mut Vec<u8>, page: Page) {
        out.push(b'/');
        if page.number == 0 {
            return;
        }
        let choice = draw(self.key(page), Draw::Path);
        out.extend_from_slice(SECTIONS[choice as usize % SECTIONS.len()].as_bytes());
        out.push(b'/');
        match self.path_shape(page.host) {
            0 => {
                for shift in [8, 16] {
                    out.extend_from_slice(
                        SLUG_WORDS[(choice >> shift) as usize % SLUG_WORDS.len()].as_bytes(),
                    );
                    out.push(b'-');
                }
                push_number(out, page.number);
                out.extend_from_slice(b".html");
            }
            1 => {
                push_number(out, page.number);
                out.push(b'/');
            }
            2 => {
                out.extend_from_slice(b"item?id=");
                push_number(out, page.number);
            }
            _ => push_letters(out, page.number),
        }
    }

    /// Path of a step in the redirect of a page: `/hop/3/17` or `/loop/0/17`.
    pub(super) fn push_step(&self, out: &mut Vec<u8>, name: &str, page: Page, step: u8) {
        out.push(b'/');
        out.extend_from_slice(name.as_bytes());
        out.push(b'/');
        push_number(out, u64::from(step));
        out.push(b'/');
        push_number(out, page.number);
    }

    fn locate_step(&self, host: u32, steps: &str) -> Option<(u8, Page)> {
        let (step, number) = steps.split_once('/')?;
        let page = Page { host, number: number.parse().ok()? };
        (page.number < self.pages_of(host)).then_some((step.parse().ok()?, page))
    }

    fn locate_page(&self, host: u32, path: &str) -> Option<Page> {
        let number = match self.path_shape(host) {
            0 => path.strip_suffix(".html")?.rsplit_once('-')?.1.parse().ok()?,
            1 => path.strip_suffix('/')?.rsplit_once('/')?.1.parse().ok()?,
            2 => path.rsplit_once("?id=")?.1.parse().ok()?,
            _ => read_letters(path.rsplit_once('/')?.1.as_bytes())?,
        };
        let page = Page { host, number };
        if number == 0 || number >= self.pages_of(host) {
            return None;
        }
        let mut spelling = Vec::with_capacity(64);
        self.push_path(&mut spelling, page);
        (spelling == path.as_bytes()).then_some(page)
    }

    fn host_word(&self, host: u32) -> usize {
        draw(self.host_key(host), Draw::Path) as usize % HOST_WORDS.len()
    }

    fn path_shape(&self, host: u32) -> u64 {
        (draw(self.host_key(host), Draw::Path) >> 32) % 4
    }
}

/// Appends a number in decimal digits.
pub(super) fn push_number(out: &mut Vec<u8>, number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = number;
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[at..]);
}

fn decimal_digits(number: u64) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WebConfig;
    use farol_base::CanonicalUrl;
    use proptest::prelude::*;
    use std::sync::LazyLock;

    fn world() -> World {
        World::new(WebConfig { hosts: 60, pages: 4000, ..WebConfig::default() }).unwrap()
    }

    #[test]
    fn every_page_is_found_by_its_url() {
        let world = world();
        let mut urls = std::collections::HashSet::new();
        for page in world.all_pages() {
            let url = world.url(page);
            // Canonicalisation leaves our URLs alone, so a log can be compared with the world as text.
            assert_eq!(CanonicalUrl::parse(&url).unwrap().as_str(), url);
            assert_eq!(world.locate(page.host, &world.path(page)), Place::Page(page));
            assert!(urls.insert(url));
        }
    }

    #[test]
    fn hosts_are_found_by_their_name_alone() {
        let world = world();
        for host in 0..world.hosts() {
            let name = world.host_name(host);
            assert_eq!(world.host_number(&name), Some(host));
            assert_eq!(world.host_number(&format!("{}:8081", name.to_uppercase())), Some(host));
        }
        for name in [
            "",
            ".",
            "web.test",
            ".web.test",
            "casa.web.test",
            "nope0.web.test",
            "127.0.0.1",
            "é.web.test",
            "¡A a𐀀",
        ] {
            assert_eq!(world.host_number(name), None, "{name}");
        }
        assert_eq!(world.host_number(&world.host_name(3).replace('3', "03")), None);
    }

    #[test]
    fn places_that_are_no_pages() {
        let world = world();
        let page = Page { host: 0, number: 5 };
        let check = |path: &str, want: Place| assert_eq!(world.locate(0, path), want, "{path}");
        check("/", Place::Page(Page { host: 0, number: 0 }));
        check("/robots.txt", Place::Robots);
        check("/sitemap.xml", Place::Sitemap);
        check("/sitemap-3.xml.gz", Place::SitemapPart(3));
        check("/sitemap-x.xml", Place::Nothing);
        check("/feed.xml", Place::Feed);
        check("/hop/2/5", Place::Hop { page, left: 2 });
        check("/loop/1/5", Place::Loop { page, turn: 1 });
        check("/hop/2/999999", Place::Nothing);
        check("/hop/", Place::Nothing);
        check("/news/", Place::Nothing);
        check("/deep/", Place::Trap(Trap::Deep { depth: 0 }));
        check("nonsense", Place::Nothing);
    }

    static WORLD: LazyLock<World> = LazyLock::new(world);

    proptest! {
        #[test]
        fn no_url_breaks_it(name in ".{0,40}", path in "(/[a-z0-9?=.-]{0,12}){0,4}|.{0,40}", host in 0u32..60) {
            let _ = WORLD.host_number(&name);
            let _ = WORLD.locate(host, &path);
        }
    }
}
