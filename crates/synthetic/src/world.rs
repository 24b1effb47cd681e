//! The world by formula: hosts, pages, their kinds and their sizes, from nothing but the configuration.
//!
//! INVARIANT: no method keeps or changes anything; the same question has the same answer for ever.
//! Host 0 is the largest, and its front page leads to all others.

use super::config::WebConfig;
use super::words::{LANGUAGES, Lexicon};
use crate::Error;
use farol_base::random::mix;
use farol_base::{Language, Timestamp};
use std::sync::Arc;
use std::time::Duration;

/// A page of the world: its host's number and its own number there. Number 0 is the front page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Page {
    pub host: u32,
    pub number: u64,
}

/// What a page is, for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Plain,
    /// Repeats `original`, a plain page of the same host.
    Duplicate {
        original: Page,
        likeness: Likeness,
    },
    /// A plain page with one link more, into an endless place.
    Door(Door),
    Redirect(Redirect),
    /// 404, or 410 where it is gone for good.
    Missing {
        gone: bool,
    },
    Failing(Failure),
    /// Comes late; in many small pieces where it dribbles.
    Slow {
        dribbles: bool,
    },
    Broken(Breakage),
    /// 64 MiB; as a small gzip body where it is a bomb.
    Huge {
        bomb: bool,
    },
}

/// How a duplicate resembles its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Likeness {
    /// The same bytes.
    Exact,
    /// The same text, and a `rel=canonical` that says so.
    Canonical,
    /// The same text but for a sentence, with links of its own.
    Near,
}

/// Which endless place a page leads into; see `trap.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Door {
    Calendar,
    Maze,
    Deep,
}

/// Where a redirect leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    To(Page),
    /// Through so many addresses in between.
    Chain {
        hops: u8,
        to: Page,
    },
    /// To two addresses that redirect to each other.
    Loop,
}

/// How a page fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// 500, always.
    Error,
    /// 503 with Retry-After, always.
    Unavailable,
    /// 503 with Retry-After in every other ten seconds.
    ByTurns,
    /// 429 with Retry-After, always.
    TooMany,
}

/// How an answer breaks the rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakage {
    /// The connection ends in the middle of the body.
    CutShort,
    /// More bytes than Content-Length says.
    LengthTooShort,
    /// A chunk size that is no number.
    BadChunk,
    /// The last chunk never comes.
    CutChunks,
    /// Says gzip, is not.
    FalseGzip,
    /// gzip that stops in the middle, with the right Content-Length.
    CutGzip,
    /// A Content-Encoding that nobody knows.
    UnknownCoding,
    /// Bytes that are not HTTP.
    Noise,
    /// The connection ends without a byte.
    Silence,
    /// A megabyte of headers.
    HeadFlood,
    /// A charset in the header that the bytes are not in.
    BadText,
}

impl Breakage {
    pub const ALL: [Breakage; 11] = [
        Breakage::CutShort,
        Breakage::LengthTooShort,
        Breakage::BadChunk,
        Breakage::CutChunks,
        Breakage::FalseGzip,
        Breakage::CutGzip,
        Breakage::UnknownCoding,
        Breakage::Noise,
        Breakage::Silence,
        Breakage::HeadFlood,
        Breakage::BadText,
    ];
}

/// A synthetic Web. Cheap to clone: what it shares are the words.
#[derive(Clone, Debug)]
pub struct World {
    config: Arc<WebConfig>,
    lexicon: Arc<Lexicon>,
    spread: Spread,
}

impl World {
    /// Makes the world of a configuration.
    ///
    /// # Errors
    /// [`Error::Config`] where its numbers make no sense.
    pub fn new(config: WebConfig) -> Result<World, Error> {
        config.check()?;
        let lexicon = Arc::new(Lexicon::new(config.seed));
        let spread = Spread::new(config.hosts, config.pages.max(u64::from(config.hosts)), config.skew);
        Ok(World { config: Arc::new(config), lexicon, spread })
    }

    pub fn config(&self) -> &WebConfig {
        &self.config
    }

    pub(super) fn lexicon(&self) -> &Lexicon {
        &self.lexicon
    }

    pub fn hosts(&self) -> u32 {
        self.config.hosts
    }

    /// Number of pages on all hosts, traps not counted.
    pub fn pages(&self) -> u64 {
        self.spread.first(self.config.hosts)
    }

    /// Number of pages of a host, its front page included; 0 for hosts that do not exist.
    pub fn pages_of(&self, host: u32) -> u64 {
        if host >= self.config.hosts { 0 } else { self.spread.pages_of(host) }
    }

    /// A number from 0 to [`World::pages`] (excluded) that is the page's own.
    pub fn ordinal(&self, page: Page) -> u64 {
        self.spread.first(page.host) + page.number
    }

    /// The page whose [`World::ordinal`] this is.
    pub fn page_at(&self, ordinal: u64) -> Page {
        let host = self.spread.owner(ordinal.min(self.pages() - 1));
        Page { host, number: ordinal.min(self.pages() - 1) - self.spread.first(host) }
    }

    /// All pages.
    pub fn all_pages(&self) -> impl Iterator<Item = Page> + '_ {
        (0..self.config.hosts)
            .flat_map(|host| (0..self.pages_of(host)).map(move |number| Page { host, number }))
    }

    /// What this page is.
    pub fn kind(&self, page: Page) -> Kind {
        if page.number == 0 {
            return Kind::Plain;
        }
        let key = self.key(page);
        let config = &*self.config;
        let place = unit(draw(key, Draw::Kind));
        let variant = draw(key, Draw::Variant);
        let mut edge = 0.0;
        let mut within = |share: f64| {
            edge += share;
            place < edge
        };
        if within(config.redirects) {
            return Kind::Redirect(self.redirect(page, variant));
        }
        if within(config.missing) {
            return Kind::Missing { gone: variant.is_multiple_of(4) };
        }
        if within(config.failing) {
            let ways = [Failure::Error, Failure::Unavailable, Failure::ByTurns, Failure::TooMany];
            return Kind::Failing(ways[variant as usize % ways.len()]);
        }
        if within(config.slow) {
            return Kind::Slow { dribbles: variant.is_multiple_of(2) };
        }
        if within(config.broken) {
            return Kind::Broken(Breakage::ALL[variant as usize % Breakage::ALL.len()]);
        }
        if within(config.huge) {
            return Kind::Huge { bomb: variant.is_multiple_of(2) };
        }
        if within(config.duplicates) {
            let likeness = [Likeness::Exact, Likeness::Canonical, Likeness::Near][variant as usize % 3];
            return Kind::Duplicate { original: self.original(page, key), likeness };
        }
        if within(config.traps) {
            return Kind::Door([Door::Calendar, Door::Maze, Door::Deep][variant as usize % 3]);
        }
        Kind::Plain
    }

    /// Language of a page's text, as its number in [`LANGUAGES`]: mostly its host's.
    pub(super) fn language_index(&self, page: Page) -> usize {
        let own = draw(self.key(page), Draw::Language);
        let source = if page.number != 0 && own.is_multiple_of(16) {
            own >> 8
        } else {
            draw(self.host_key(page.host), Draw::Language) >> 8
        };
        [0, 0, 1, 1, 2][source as usize % 5]
    }

    /// Language of a page's text.
    pub fn language(&self, page: Page) -> Language {
        LANGUAGES[self.language_index(page)]
    }

    /// Size that a page aims at, log-normal around the configured mean.
    pub fn target_bytes(&self, page: Page) -> usize {
        const SIGMA: f64 = 0.6;
        let key = self.key(page);
        let (u, v) = (unit(draw(key, Draw::Size)).max(1e-12), unit(draw(key, Draw::Size2)));
        // Box and Muller: two uniform numbers make a normal one.
        let normal = (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos();
        let factor = (SIGMA * normal - SIGMA * SIGMA / 2.0).exp().clamp(0.05, 12.0);
        (f64::from(self.config.mean_page_bytes) * factor) as usize
    }

    /// Our time since the start that has passed when the world's clock shows `at`.
    pub fn elapsed(&self, at: Timestamp) -> Duration {
        let world = at.since(self.config.start).as_secs_f64();
        Duration::from_secs_f64((world / self.config.clock_speedup.max(1e-9)).min(1e12))
    }

    /// What the world's clock shows when so much of our time has passed since the start.
    pub fn clock(&self, elapsed: Duration) -> Timestamp {
        self.config.start
            + Duration::from_secs_f64((elapsed.as_secs_f64() * self.config.clock_speedup).min(1e12))
    }

    /// A host chosen by a number in `[0, 1)`, in proportion to its pages.
    pub(super) fn host_at(&self, place: f64) -> u32 {
        self.spread.host_at(place)
    }

    pub(super) fn host_key(&self, host: u32) -> u64 {
        mix(self.config.seed ^ mix(u64::from(host) + 1))
    }

    pub(super) fn key(&self, page: Page) -> u64 {
        mix(self.host_key(page.host) ^ mix(page.number.wrapping_add(0x5EED)))
    }

    fn redirect(&self, page: Page, variant: u64) -> Redirect {
        let choice = variant >> 16;
        let local = || {
            let number = choice % self.pages_of(page.host);
            Page { host: page.host, number: if number == page.number { 0 } else { number } }
        };
        let abroad = || Page { host: self.host_at(unit(mix(choice))), number: 0 };
        match variant % 10 {
            0 => Redirect::Loop,
            1 => Redirect::Chain { hops: 1 + (choice >> 20) as u8 % 8, to: local() },
            2 | 3 => Redirect::To(abroad()),
            _ => Redirect::To(local()),
        }
    }

    /// A plain page of the same host with a lower number.
    fn original(&self, page: Page, key: u64) -> Page {
        for attempt in 0..4 {
            let number = mix(draw(key, Draw::Original) + attempt) % page.number;
            let candidate = Page { number, ..page };
            let place = unit(draw(self.key(candidate), Draw::Kind));
            let trouble = self.config.redirects
                + self.config.missing
                + self.config.failing
                + self.config.slow
                + self.config.broken
                + self.config.huge
                + self.config.duplicates
                + self.config.traps;
            if number == 0 || place >= trouble {
                return candidate;
            }
        }
        Page { number: 0, ..page }
    }
}

/// What a random number is drawn for: one key gives independent numbers for each.
#[derive(Clone, Copy)]
pub(super) enum Draw {
    Kind = 1,
    Variant,
    Original,
    Language,
    Size,
    Size2,
    Links,
    Path,
    Title,
    Text,
    Rate,
    Birth,
    Change,
    Marks,
    Robots,
    CrawlDelay,
    RobotsFailing,
    Sitemap,
    Feed,
    Validators,
}

pub(super) fn draw(key: u64, what: Draw) -> u64 {
    mix(key.wrapping_add((what as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)))
}

/// The number in `[0, 1)` that these bits stand for.
pub(super) fn unit(bits: u64) -> f64 {
    (bits >> 11) as f64 / (1u64 << 53) as f64
}

/// Spreads pages over hosts by a power law, without a table.
///
/// Each host has one page; the other pages are shared out so that the hosts before host h have
/// floor(extra × ((h + 1)^e − 1) / ((H + 1)^e − 1)) of them, with e = 1 − skew. The sums are exact by construction.
#[derive(Clone, Copy, Debug)]
struct Spread {
    hosts: u32,
    extra: u64,
    exponent: f64,
    span: f64,
}

impl Spread {
    fn new(hosts: u32, pages: u64, skew: f64) -> Spread {
        let exponent = 1.0 - skew;
        let span = (f64::from(hosts) + 1.0).powf(exponent) - 1.0;
        Spread { hosts, extra: pages - u64::from(hosts), exponent, span }
    }

    fn extra_before(&self, host: u32) -> u64 {
        if host >= self.hosts {
            return self.extra;
        }
        let share = ((f64::from(host) + 1.0).powf(self.exponent) - 1.0) / self.span;
        ((self.extra as f64 * share) as u64).min(self.extra)
    }

    /// Ordinal of the host's front page.
    fn first(&self, host: u32) -> u64 {
        u64::from(host) + self.extra_before(host)
    }

    fn pages_of(&self, host: u32) -> u64 {
        1 + self.extra_before(host + 1).saturating_sub(self.extra_before(host))
    }

    fn owner(&self, ordinal: u64) -> u32 {
        let (mut low, mut high) = (0, self.hosts);
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.first(middle) <= ordinal { low = middle } else { high = middle }
        }
        low
    }

    fn host_at(&self, place: f64) -> u32 {
        let host = (place * self.span + 1.0).powf(1.0 / self.exponent) - 1.0;
        (host as u32).min(self.hosts - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn world(change: impl FnOnce(&mut WebConfig)) -> World {
        let mut config = WebConfig { hosts: 200, pages: 20_000, ..WebConfig::default() };
        change(&mut config);
        World::new(config).unwrap()
    }

    #[test]
    fn pages_add_up_and_follow_a_power_law() {
        for (hosts, pages) in [(1, 1), (1, 500), (7, 7), (200, 20_000), (1000, 100_000), (100_000, 150_000)] {
            let world = world(|c| (c.hosts, c.pages) = (hosts, pages));
            let sum: u64 = (0..hosts).map(|host| world.pages_of(host)).sum();
            assert_eq!((sum, world.pages()), (pages, pages));
            assert!((0..hosts).all(|host| world.pages_of(host) >= 1));
            assert!(world.pages_of(0) >= world.pages_of(hosts - 1));
        }
        let world = world(|_| {});
        assert!(world.pages_of(0) > 10 * world.pages_of(199), "{}", world.pages_of(0));
        assert_eq!(world.pages_of(200), 0);
    }

    #[test]
    fn every_page_has_its_ordinal() {
        let world = world(|c| (c.hosts, c.pages) = (50, 3000));
        for (ordinal, page) in world.all_pages().enumerate() {
            assert_eq!(world.ordinal(page), ordinal as u64);
            assert_eq!(world.page_at(ordinal as u64), page);
        }
    }

    #[test]
    fn shares_are_respected() {
        let world = world(|c| {
            (c.redirects, c.missing, c.failing, c.slow) = (0.10, 0.08, 0.06, 0.05);
            (c.broken, c.huge, c.duplicates, c.traps) = (0.07, 0.04, 0.20, 0.03);
        });
        let mut seen = [0u32; 9];
        for page in world.all_pages() {
            let place = match world.kind(page) {
                Kind::Redirect(_) => 0,
                Kind::Missing { .. } => 1,
                Kind::Failing(_) => 2,
                Kind::Slow { .. } => 3,
                Kind::Broken(_) => 4,
                Kind::Huge { .. } => 5,
                Kind::Duplicate { .. } => 6,
                Kind::Door(_) => 7,
                Kind::Plain => 8,
            };
            seen[place] += 1;
        }
        let wanted = [0.10, 0.08, 0.06, 0.05, 0.07, 0.04, 0.20, 0.03, 0.37];
        for (seen, wanted) in seen.iter().zip(wanted) {
            let share = f64::from(*seen) / 20_000.0;
            assert!((share - wanted).abs() < 0.01, "{share} instead of {wanted}");
        }
    }

    #[test]
    fn duplicates_repeat_plain_pages_of_lower_number() {
        let world = world(|c| c.duplicates = 0.5);
        for page in world.all_pages() {
            if let Kind::Duplicate { original, .. } = world.kind(page) {
                assert_eq!(world.kind(original), Kind::Plain);
                assert!(original.number < page.number && original.host == page.host);
            }
        }
    }

    #[test]
    fn the_clock_runs_as_fast_as_told() {
        let world = world(|c| c.clock_speedup = 3600.0);
        let later = world.clock(Duration::from_secs(24));
        assert_eq!(later.since(world.config().start), Duration::from_secs(86_400));
        assert_eq!(world.elapsed(later), Duration::from_secs(24));
    }

    #[test]
    fn hosts_are_chosen_in_proportion_to_their_pages() {
        let world = world(|_| {});
        let hits = (0..10_000).filter(|i| world.host_at(f64::from(*i) / 10_000.0) == 0).count();
        let share = world.pages_of(0) as f64 / world.pages() as f64;
        assert!((hits as f64 / 10_000.0 - share).abs() < 0.01);
    }
}
