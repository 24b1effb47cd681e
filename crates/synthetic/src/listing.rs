//! Sitemaps and feeds: the lists in which a host names its pages itself.
//!
//! A small host has one sitemap; a larger one has an index of parts, every other part gzipped. Feeds name the
//! pages that changed last, as RSS or as Atom.

use super::place::push_number;
use super::world::{Draw, Kind, Page, World, draw};
use farol_base::Timestamp;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Pages per sitemap file: 500 × about 120 bytes = 60 KB.
pub const SITEMAP_PAGES: u64 = 500;
/// Files per sitemap index, the protocol's own limit: 50,000 × 500 = 25 million pages per host are listed.
const SITEMAP_PARTS_MAX: u64 = 50_000;
/// Pages among which a feed looks for the latest changes.
const FEED_PAGES: u64 = 200;
/// Entries of a feed.
const FEED_ENTRIES: usize = 20;

impl World {
    /// Whether a host's sitemap, if it has one, names this page: all that can be read are named.
    pub fn is_listed(&self, page: Page) -> bool {
        page.number < SITEMAP_PARTS_MAX * SITEMAP_PAGES
            && matches!(
                self.kind(page),
                Kind::Plain | Kind::Duplicate { .. } | Kind::Door(_) | Kind::Slow { .. }
            )
    }

    /// Paths of the sitemap files of a host, the first one included; none where it has no sitemap.
    pub fn sitemap_paths(&self, host: u32) -> Vec<String> {
        if !self.has_sitemap(host) {
            return Vec::new();
        }
        let mut paths = vec!["/sitemap.xml".to_string()];
        paths.extend((0..self.sitemap_parts(host)).map(sitemap_part_path));
        paths
    }

    /// Appends `/sitemap.xml`: the pages themselves, or an index of parts.
    pub(super) fn push_sitemap(&self, out: &mut Vec<u8>, host: u32, at: Timestamp) {
        let parts = self.sitemap_parts(host);
        if parts == 0 {
            return self.push_page_list(out, host, 0..self.pages_of(host), at);
        }
        out.extend_from_slice(XML);
        out.extend_from_slice(b"<sitemapindex xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n");
        for part in 0..parts {
            out.extend_from_slice(b"<sitemap><loc>http://");
            self.push_host(out, host);
            out.extend_from_slice(sitemap_part_path(part).as_bytes());
            out.extend_from_slice(b"</loc></sitemap>\n");
        }
        out.extend_from_slice(b"</sitemapindex>\n");
    }

    /// Appends a part of a sitemap; answers whether it exists.
    pub(super) fn push_sitemap_part(&self, out: &mut Vec<u8>, host: u32, part: u64, at: Timestamp) -> bool {
        if part >= self.sitemap_parts(host) || !self.has_sitemap(host) {
            return false;
        }
        let first = part * SITEMAP_PAGES;
        let pages = first..(first + SITEMAP_PAGES).min(self.pages_of(host));
        if part.is_multiple_of(2) {
            self.push_page_list(out, host, pages, at);
            return true;
        }
        let mut plain = Vec::new();
        self.push_page_list(&mut plain, host, pages, at);
        let mut gzip = GzEncoder::new(out, Compression::fast());
        // Writing into memory does not fail.
        gzip.write_all(&plain).and_then(|()| gzip.finish().map(drop)).is_ok()
    }

    /// Appends the feed of a host.
    pub(super) fn push_feed(&self, out: &mut Vec<u8>, host: u32, at: Timestamp) {
        let numbers = 0..self.pages_of(host).min(FEED_PAGES);
        let mut latest: Vec<(Timestamp, Page)> = numbers
            .map(|number| Page { host, number })
            .filter(|page| self.is_listed(*page))
            .map(|page| (self.version(page, at).since, page))
            .collect();
        latest.sort_by(|a, b| b.cmp(a));
        latest.truncate(FEED_ENTRIES);
        let atom = draw(self.host_key(host), Draw::Feed).is_multiple_of(2);
        out.extend_from_slice(XML);
        if atom {
            out.extend_from_slice(b"<feed xmlns=\"http://www.w3.org/2005/Atom\"><title>");
        } else {
            out.extend_from_slice(b"<rss version=\"2.0\"><channel><title>");
        }
        self.push_host(out, host);
        out.extend_from_slice(b"</title>\n");
        for (since, page) in latest {
            out.extend_from_slice(if atom { b"<entry><title>" } else { b"<item><title>" });
            self.push_title(out, page);
            out.extend_from_slice(b"</title>");
            out.extend_from_slice(if atom { b"<link href=\"" } else { b"<link>" });
            self.push_url(out, page);
            out.extend_from_slice(if atom { b"\"/>" } else { b"</link>" });
            if atom {
                out.extend_from_slice(format!("<updated>{since}</updated></entry>\n").as_bytes());
            } else {
                let date = super::answer::http_date(since);
                out.extend_from_slice(format!("<pubDate>{date}</pubDate></item>\n").as_bytes());
            }
        }
        out.extend_from_slice(if atom { b"</feed>\n" } else { b"</channel></rss>\n" });
    }

    /// Number of parts; 0 where one file is enough.
    fn sitemap_parts(&self, host: u32) -> u64 {
        match self.pages_of(host) {
            pages if pages <= SITEMAP_PAGES => 0,
            pages => pages.div_ceil(SITEMAP_PAGES).min(SITEMAP_PARTS_MAX),
        }
    }

    fn push_page_list(&self, out: &mut Vec<u8>, host: u32, pages: std::ops::Range<u64>, at: Timestamp) {
        out.extend_from_slice(XML);
        out.extend_from_slice(b"<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n");
        for page in pages.map(|number| Page { host, number }).filter(|page| self.is_listed(*page)) {
            out.extend_from_slice(b"<url><loc>");
            self.push_url(out, page);
            out.extend_from_slice(b"</loc><lastmod>");
            out.extend_from_slice(self.version(page, at).since.to_string().as_bytes());
            out.extend_from_slice(b"</lastmod></url>\n");
        }
        out.extend_from_slice(b"</urlset>\n");
    }
}

const XML: &[u8] = b"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";

fn sitemap_part_path(part: u64) -> String {
    let mut path = b"/sitemap-".to_vec();
    push_number(&mut path, part);
    path.extend_from_slice(if part.is_multiple_of(2) { b".xml" } else { b".xml.gz" });
    String::from_utf8(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WebConfig;
    use std::io::Read;

    fn world() -> World {
        let config = WebConfig { hosts: 20, pages: 6000, sitemaps: 1.0, feeds: 1.0, ..WebConfig::default() };
        World::new(config).unwrap()
    }

    #[test]
    fn sitemaps_name_every_readable_page_once() {
        let world = world();
        for host in [0, 19] {
            let mut names = Vec::new();
            for path in world.sitemap_paths(host) {
                let mut body = Vec::new();
                match world.locate(host, &path) {
                    crate::Place::Sitemap => world.push_sitemap(&mut body, host, world.config().start),
                    crate::Place::SitemapPart(part) => {
                        assert!(world.push_sitemap_part(&mut body, host, part, world.config().start));
                    }
                    other => panic!("{path} is {other:?}"),
                }
                let mut text = String::new();
                if path.ends_with(".gz") {
                    flate2::read::GzDecoder::new(&body[..]).read_to_string(&mut text).unwrap();
                } else {
                    text = String::from_utf8(body).unwrap();
                }
                names.extend(
                    text.split("<url><loc>").skip(1).map(|rest| rest.split('<').next().unwrap().to_string()),
                );
            }
            let pages = (0..world.pages_of(host)).map(|number| Page { host, number });
            let want: Vec<String> = pages.filter(|p| world.is_listed(*p)).map(|p| world.url(p)).collect();
            assert_eq!(names, want);
        }
        assert!(world.sitemap_paths(0).len() > 2, "the first host is large enough for an index");
        assert!(!world.push_sitemap_part(&mut Vec::new(), 0, 10_000, world.config().start));
    }

    #[test]
    fn feeds_name_the_latest_changes() {
        let world = world();
        let (mut rss, mut atom) = (0, 0);
        for host in 0..world.hosts() {
            let mut body = Vec::new();
            world.push_feed(&mut body, host, world.config().start);
            let text = String::from_utf8(body).unwrap();
            let entries = text.matches("<item>").count() + text.matches("<entry>").count();
            assert!((1..=FEED_ENTRIES).contains(&entries));
            rss += usize::from(text.contains("<rss"));
            atom += usize::from(text.contains("<feed"));
        }
        assert!(rss > 2 && atom > 2);
    }
}
