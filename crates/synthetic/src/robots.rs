//! What the robots.txt of each host says, and what follows from it.
//!
//! The judge of the rules here is written apart from the crawler's: the checker must not share its mistakes.

use super::place::SECTIONS;
use super::world::{Draw, World, draw, unit};
use farol_base::random::mix;
use std::time::Duration;

/// A host's rules for all robots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// 200, or 404 where the host has no robots.txt.
    pub status: u16,
    /// robots.txt redirects to `/robots-moved.txt`, which has the rules.
    pub moved: bool,
    /// Lines in the order of the file: whether the pattern is allowed, and the pattern.
    pub lines: Vec<(bool, String)>,
    pub crawl_delay: Option<Duration>,
    /// Names `/sitemap.xml`.
    pub sitemap: bool,
    /// robots.txt answers 503 so long after the start.
    pub fails_for: Duration,
}

impl World {
    /// The rules of a host.
    pub fn rules(&self, host: u32) -> Rules {
        let config = self.config();
        let key = self.host_key(host);
        let has = |what: Draw, share: f64| unit(draw(key, what)) < share;
        let ruled = has(Draw::Robots, config.robots);
        let delayed = has(Draw::CrawlDelay, config.crawl_delays);
        let failing = has(Draw::RobotsFailing, config.robots_failing);
        let variant = mix(draw(key, Draw::Robots));
        let sitemap = self.has_sitemap(host);
        Rules {
            // Half of those who have nothing to say have no file.
            status: if ruled || delayed || sitemap || variant.is_multiple_of(2) { 200 } else { 404 },
            moved: variant.is_multiple_of(16),
            lines: if ruled { rule_lines(host, variant >> 8) } else { Vec::new() },
            crawl_delay: delayed.then(|| Duration::from_millis(u64::from(config.crawl_delay_millis))),
            sitemap,
            fails_for: if failing {
                Duration::from_millis(u64::from(config.robots_failing_millis))
            } else {
                Duration::ZERO
            },
        }
    }

    pub(super) fn has_sitemap(&self, host: u32) -> bool {
        unit(draw(self.host_key(host), Draw::Sitemap)) < self.config().sitemaps
    }

    pub(super) fn has_feed(&self, host: u32) -> bool {
        unit(draw(self.host_key(host), Draw::Feed)) < self.config().feeds
    }
}

fn rule_lines(host: u32, variant: u64) -> Vec<(bool, String)> {
    let section = |shift: u64| SECTIONS[(variant >> shift) as usize % SECTIONS.len()];
    match variant % 20 {
        // One in twenty wants no robots at all. The first host never does: a crawl starts there.
        0 if host != 0 => vec![(false, "/".to_string())],
        0..=7 => vec![(false, format!("/{}/", section(8)))],
        8..=11 => vec![(false, format!("/{}/", section(8))), (false, format!("/{}/", section(16)))],
        // A longer Allow inside a Disallow.
        12..=15 => vec![(false, format!("/{}", section(8))), (true, format!("/{}/*1", section(8)))],
        // Patterns: any address with a 7 behind a hyphen or an id, and those that end in "3.html".
        _ => vec![
            (false, "/*-7".to_string()),
            (false, "/*?id=7".to_string()),
            (false, "/*3.html$".to_string()),
        ],
    }
}

impl Rules {
    /// Whether a robot may ask for this path and query (RFC 9309 §2.2.2: the longest match decides, Allow wins ties).
    pub fn allows(&self, path: &str) -> bool {
        if path == "/robots.txt" {
            return true;
        }
        let best = self.lines.iter().filter(|(_, pattern)| matches(pattern, path));
        best.max_by_key(|(allow, pattern)| (pattern.len(), *allow)).is_none_or(|(allow, _)| *allow)
    }

    /// The text of the file.
    pub fn text(&self, host_name: &str) -> String {
        let mut text =
            String::from("# Rules of a host that does not exist.\nUser-agent: badbot\nDisallow: /\n\n");
        text.push_str("User-agent: *\n");
        for (allow, pattern) in &self.lines {
            text.push_str(if *allow { "Allow: " } else { "Disallow: " });
            text.push_str(pattern);
            text.push('\n');
        }
        if self.lines.is_empty() {
            text.push_str("Disallow:\n");
        }
        if let Some(delay) = self.crawl_delay {
            text.push_str(&format!("Crawl-delay: {}\n", delay.as_secs_f64()));
        }
        if self.sitemap {
            text.push_str(&format!("\nSitemap: http://{host_name}/sitemap.xml\n"));
        }
        text
    }
}

/// Whether a pattern with `*` and a final `$` matches the start of a path.
///
/// Each star takes as little as it can; with only the end to anchor, that is enough. Time: path × stars.
fn matches(pattern: &str, path: &str) -> bool {
    let (pattern, anchored) = match pattern.strip_suffix('$') {
        Some(pattern) => (pattern, true),
        None => (pattern, false),
    };
    let mut pieces = pattern.split('*');
    let Some(mut rest) = path.strip_prefix(pieces.next().unwrap_or("")) else { return false };
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return !anchored || rest.is_empty();
    }
    while let Some(piece) = pieces.next() {
        if pieces.peek().is_none() && anchored {
            return rest.ends_with(piece);
        }
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WebConfig;

    #[test]
    fn patterns_match_as_rfc_9309_says() {
        let check =
            |pattern: &str, path: &str, want| assert_eq!(matches(pattern, path), want, "{pattern} {path}");
        check("/", "/x", true);
        check("/news/", "/news/1", true);
        check("/news/", "/newspaper", false);
        check("/*3.html$", "/a/b-13.html", true);
        check("/*3.html$", "/a/b-13.html?x", false);
        check("/*?id=7", "/news/item?id=70", true);
        check("/*-7", "/a/b-c-7.html", true);
        check("/*-7", "/a/b-c-8.html", false);
        check("/a$", "/a", true);
        check("/a$", "/ab", false);
        check("/a*$", "/abc", true);
        check("/*a*b", "/xaxb", true);
        check("/*a*b", "/xbxa", false);
    }

    #[test]
    fn the_longest_match_decides() {
        let lines = vec![(false, "/docs".to_string()), (true, "/docs/*1".to_string())];
        let rules = Rules { lines, ..Rules::default() };
        assert!(!rules.allows("/docs/2"));
        assert!(rules.allows("/docs/21"));
        assert!(rules.allows("/news/2"));
        let closed = Rules { lines: vec![(false, "/".to_string())], ..Rules::default() };
        assert!(closed.allows("/robots.txt") && !closed.allows("/"));
    }

    #[test]
    fn hosts_have_rules_in_the_shares_asked_for() {
        let config = WebConfig {
            hosts: 2000,
            pages: 2000,
            robots: 0.4,
            crawl_delays: 0.2,
            robots_failing: 0.1,
            sitemaps: 0.3,
            ..WebConfig::default()
        };
        let world = World::new(config).unwrap();
        let rules: Vec<Rules> = (0..2000).map(|host| world.rules(host)).collect();
        let share = |yes: fn(&Rules) -> bool| rules.iter().filter(|r| yes(r)).count() as f64 / 2000.0;
        for (share, want) in [
            (share(|r| !r.lines.is_empty()), 0.4),
            (share(|r| r.crawl_delay.is_some()), 0.2),
            (share(|r| !r.fails_for.is_zero()), 0.1),
            (share(|r| r.sitemap), 0.3),
        ] {
            assert!((share - want).abs() < 0.04, "{share} instead of {want}");
        }
        assert!(share(|r| r.status == 404) > 0.05 && share(|r| r.moved) > 0.02);
        assert!(share(|r| !r.allows("/")) > 0.005);
        assert!(world.rules(0).allows("/"));
    }

    #[test]
    fn the_file_says_what_the_rules_are() {
        let rules = Rules {
            status: 200,
            lines: vec![(false, "/docs/".to_string())],
            crawl_delay: Some(Duration::from_millis(1500)),
            sitemap: true,
            ..Rules::default()
        };
        let text = rules.text("h.web.test");
        for line in ["Disallow: /docs/", "Crawl-delay: 1.5", "Sitemap: http://h.web.test/sitemap.xml"] {
            assert!(text.lines().any(|l| l == line), "{line} is missing in {text}");
        }
    }
}
