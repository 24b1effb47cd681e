//! Reads robots.txt as RFC 9309 says, and where it is silent as Google's published parser does.
//!
//! A file becomes the rules of the one group that concerns us: [`Robots::parse`] is told our product token and
//! keeps nothing else. [`Robots::verdict`] then judges paths. INVARIANT: the longest matching rule decides,
//! Allow wins a tie, and `/robots.txt` itself is always allowed.
//!
//! Where both leave a choice:
//! - A percent-encoded letter and the letter are the same (RFC 9309 §2.2.2); Google's parser compares them as
//!   they are written, because its callers escape their URLs in one way. So do ours, in another one.
//! - Lines that are neither rule nor User-agent (Sitemap, Crawl-delay, unknown ones) do not end a group, as in
//!   Google's parser. A Crawl-delay counts for the agents named right before it and its group's rules.
//!
//! What a file may cost is bounded: `rules` has the limits, and says how what lies beyond them is read.
//!
//! Never fails: whatever the bytes are, the lines that can be read count. Does not decide what a missing
//! file, or one that cannot be had, means.

mod line;
mod lines;
mod pattern;
mod rules;

use lines::{Line, Lines};
use rules::{Decision, Rules, RulesBuilder};
use std::time::Duration;

pub use line::refusing_line;
pub use rules::{RULES_BYTES_MAX, WILD_RULES_MAX, WILDCARDS_MAX, WORK_MAX};

/// How much of a file is read (RFC 9309 §2.5).
pub const ROBOTS_BYTES_MAX: usize = 500 << 10;

/// How many sitemaps of one file are kept.
pub const SITEMAPS_MAX: usize = 1_000;

/// A longer Crawl-delay counts as this: one day.
pub const CRAWL_DELAY_MAX: Duration = Duration::from_secs(24 * 3600);

/// What a site's robots.txt says to us.
///
/// ```
/// use farol_parse::robots::{Robots, Verdict};
/// let robots = Robots::parse(b"User-agent: *\nDisallow: /private\nCrawl-delay: 1.5", "farol");
/// assert_eq!(robots.verdict("/public"), Verdict::Allowed { rule: None });
/// assert_eq!(robots.verdict("/private/x"), Verdict::Refused { rule: "Disallow: /private".into() });
/// assert_eq!(robots.crawl_delay().unwrap().as_millis(), 1500);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Robots {
    rules: Rules,
    crawl_delay: Option<Duration>,
    sitemaps: Box<[String]>,
}

/// Whether a path may be fetched, and which rule says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// `rule` is `None` where nothing is said about the path.
    Allowed {
        /// The rule that decided, in normal spelling.
        rule: Option<String>,
    },
    /// The path is refused.
    Refused {
        /// The rule that decided, in normal spelling; in brackets, why the file could not be judged in full.
        rule: String,
    },
}

impl Verdict {
    /// Whether the path may be fetched.
    pub fn is_allowed(&self) -> bool {
        matches!(self, Verdict::Allowed { .. })
    }
}

impl Robots {
    /// Reads a file for a crawler that calls itself `agent`: a product token (`farol`), or a whole User-Agent
    /// header, of which the token in front counts.
    pub fn parse(bytes: &[u8], agent: &str) -> Robots {
        let mut reading = RulesReader::new(agent);
        for line in Lines::new(within_limit(bytes)) {
            reading.take(line);
        }
        reading.finish()
    }

    /// Judges a path with its query, as it stands in a URL: `/a/b?c=d`.
    ///
    /// Costs at most some 1.3 ms, whatever rules there are; see [`WORK_MAX`].
    pub fn verdict(&self, path_and_query: &str) -> Verdict {
        if is_robots_txt(path_and_query) {
            return Verdict::Allowed { rule: None };
        }
        match self.rules.decide(&pattern::normal_path(path_and_query)) {
            Decision::Silent => Verdict::Allowed { rule: None },
            Decision::Allow(rule) => Verdict::Allowed { rule: Some(rule) },
            Decision::Refuse(rule) => Verdict::Refused { rule },
        }
    }

    /// Memory that it takes, besides its sitemaps: at most [`RULES_BYTES_MAX`] and the struct itself.
    pub fn bytes(&self) -> usize {
        size_of::<Robots>() + self.rules.bytes()
    }

    /// The pause between two requests that the site asks for.
    pub fn crawl_delay(&self) -> Option<Duration> {
        self.crawl_delay
    }

    /// The sitemaps that the file names, whichever group they stand in; as written, so possibly no URLs.
    pub fn sitemaps(&self) -> &[String] {
        &self.sitemaps
    }

    /// Takes the sitemaps out, which are needed once.
    pub fn take_sitemaps(&mut self) -> Box<[String]> {
        std::mem::take(&mut self.sitemaps)
    }
}

/// The lines that lie wholly within the limit: half a rule would say more than the whole one.
fn within_limit(bytes: &[u8]) -> &[u8] {
    match bytes.get(..ROBOTS_BYTES_MAX) {
        Some(start) if bytes.len() > ROBOTS_BYTES_MAX => {
            &start[..memchr::memrchr2(b'\n', b'\r', start).unwrap_or(start.len())]
        }
        _ => bytes,
    }
}

fn is_robots_txt(path_and_query: &str) -> bool {
    path_and_query.split('?').next() == Some("/robots.txt")
}

/// What the groups that concern one kind of agent say.
#[derive(Debug, Default)]
struct Group {
    seen: bool,
    /// The rules at hand belong to it.
    open: bool,
    /// So does a Crawl-delay.
    delay_open: bool,
    rules: RulesBuilder,
    crawl_delay: Option<Duration>,
}

/// The state between two lines.
struct RulesReader {
    agent: Vec<u8>,
    ours: Group,
    everybodys: Group,
    /// A rule was seen since the last User-agent line, so that the next one starts a group.
    in_rules: bool,
    /// A rule or a Crawl-delay was seen since: an agent named later does not share that delay.
    in_delays: bool,
    sitemaps: Vec<String>,
}

impl RulesReader {
    fn new(agent: &str) -> RulesReader {
        RulesReader {
            agent: product_token(agent.as_bytes()).to_ascii_lowercase(),
            ours: Group::default(),
            everybodys: Group::default(),
            in_rules: false,
            in_delays: false,
            sitemaps: Vec::new(),
        }
    }

    fn take(&mut self, line: Line<'_>) {
        match line {
            Line::UserAgent(name) => self.user_agent(name),
            Line::Allow(value) => self.rule(true, value),
            Line::Disallow(value) => self.rule(false, value),
            Line::CrawlDelay(value) => self.crawl_delay(value),
            Line::Sitemap(value) => {
                if self.sitemaps.len() < SITEMAPS_MAX && !value.is_empty() {
                    self.sitemaps.push(String::from_utf8_lossy(value).into_owned());
                }
            }
        }
    }

    fn user_agent(&mut self, name: &[u8]) {
        let starts_group = std::mem::take(&mut self.in_rules);
        let starts_delays = std::mem::take(&mut self.in_delays);
        for group in [&mut self.ours, &mut self.everybodys] {
            group.open &= !starts_group;
            group.delay_open &= !starts_delays;
        }
        // "* something" means everybody too; "*bot" means nobody.
        let group = if matches!(name, [b'*'] | [b'*', b' ' | b'\t', ..]) {
            &mut self.everybodys
        } else if !self.agent.is_empty() && product_token(name).eq_ignore_ascii_case(&self.agent) {
            &mut self.ours
        } else {
            return;
        };
        group.seen = true;
        group.open = true;
        group.delay_open = true;
    }

    fn rule(&mut self, allow: bool, value: &[u8]) {
        self.in_rules = true;
        self.in_delays = true;
        for group in [&mut self.ours, &mut self.everybodys] {
            if group.open {
                group.rules.add(allow, value);
            }
        }
    }

    fn crawl_delay(&mut self, value: &[u8]) {
        let secs = std::str::from_utf8(value).ok().and_then(|text| text.parse::<f64>().ok());
        let delay = secs
            .filter(|secs| *secs >= 0.0)
            .map(|secs| Duration::try_from_secs_f64(secs).unwrap_or(CRAWL_DELAY_MAX).min(CRAWL_DELAY_MAX));
        self.in_delays = true;
        for group in [&mut self.ours, &mut self.everybodys] {
            if group.delay_open {
                // The longest, where a site says it twice.
                group.crawl_delay = group.crawl_delay.max(delay);
            }
        }
    }

    fn finish(self) -> Robots {
        // RFC 9309 §2.2.1: the rules for everybody count only where no group names us.
        let group = if self.ours.seen { self.ours } else { self.everybodys };
        Robots { rules: group.rules.finish(), crawl_delay: group.crawl_delay, sitemaps: self.sitemaps.into() }
    }
}

/// The leading letters, `-` and `_` of an agent's name: `FooBot` of `FooBot/1.2 (+http://…)`.
fn product_token(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|b| !b.is_ascii_alphabetic() && !matches!(b, b'-' | b'_'));
    &name[..end.unwrap_or(name.len())]
}

#[cfg(test)]
mod tests;
