//! What a synthetic Web is like: every number that the formulas of [`super::World`] take.
//!
//! The struct is also the command line of `farol-sim web`: the text of a field is the help of its flag.

use crate::Error;
use farol_base::Timestamp;

/// Describes a synthetic Web. Two worlds of equal configuration are equal in every byte.
///
/// "Share" is a number from 0 to 1. The shares of page kinds (redirects to traps) add up to at most 1; what is
/// left are plain pages. The front page of a host is always plain.
#[derive(Clone, Debug, PartialEq, clap::Args)]
pub struct WebConfig {
    /// Seed of everything: another seed is another Web.
    #[arg(long, default_value_t = WebConfig::default().seed)]
    pub seed: u64,
    /// Number of hosts.
    #[arg(long, default_value_t = WebConfig::default().hosts)]
    pub hosts: u32,
    /// Number of pages on all hosts together, traps not counted; at least one per host.
    #[arg(long, default_value_t = WebConfig::default().pages)]
    pub pages: u64,
    /// Exponent of the power law of pages per host, below 1: host number r has about 1/r^skew of the pages.
    #[arg(long, default_value_t = WebConfig::default().skew)]
    pub skew: f64,
    /// Mean size of a page in bytes; sizes are log-normal.
    #[arg(long, default_value_t = WebConfig::default().mean_page_bytes)]
    pub mean_page_bytes: u32,
    /// Mean number of links on a page; numbers follow a power law.
    #[arg(long, default_value_t = WebConfig::default().mean_links)]
    pub mean_links: f64,
    /// Share of links that stay on their host.
    #[arg(long, default_value_t = WebConfig::default().locality)]
    pub locality: f64,
    /// Communities that hosts belong to; 1 for a Web without any.
    #[arg(long, default_value_t = WebConfig::default().communities)]
    pub communities: u32,
    /// Share of links to other hosts that stay in the host's community.
    #[arg(long, default_value_t = WebConfig::default().neighbours)]
    pub neighbours: f64,
    /// Share of links that are marked rel=nofollow.
    #[arg(long, default_value_t = WebConfig::default().nofollow)]
    pub nofollow: f64,
    /// Share of pages that ask not to be indexed.
    #[arg(long, default_value_t = WebConfig::default().noindex)]
    pub noindex: f64,
    /// Share of pages whose title tries to run a script.
    #[arg(long, default_value_t = WebConfig::default().hostile)]
    pub hostile: f64,
    /// Share of pages that redirect: within the host, to another host, in chains, in loops.
    #[arg(long = "share-redirects", default_value_t = WebConfig::default().redirects)]
    pub redirects: f64,
    /// Share of pages that are linked but missing (404, 410).
    #[arg(long = "share-missing", default_value_t = WebConfig::default().missing)]
    pub missing: f64,
    /// Share of pages that answer 500, 503 or 429, some with Retry-After, some only by turns.
    #[arg(long = "share-failing", default_value_t = WebConfig::default().failing)]
    pub failing: f64,
    /// Share of pages that come slowly; see --slow-millis.
    #[arg(long = "share-slow", default_value_t = WebConfig::default().slow)]
    pub slow: f64,
    /// Share of pages that break the rules of HTTP: cut bodies, false lengths, bad chunks, noise.
    #[arg(long = "share-broken", default_value_t = WebConfig::default().broken)]
    pub broken: f64,
    /// Share of pages of 64 MiB, plain or as a gzip bomb.
    #[arg(long = "share-huge", default_value_t = WebConfig::default().huge)]
    pub huge: f64,
    /// Share of pages that repeat another page of their host, exactly or nearly.
    #[arg(long = "share-duplicates", default_value_t = WebConfig::default().duplicates)]
    pub duplicates: f64,
    /// Share of pages that link into an endless calendar, maze or ever deeper path.
    #[arg(long = "share-traps", default_value_t = WebConfig::default().traps)]
    pub traps: f64,
    /// How long a slow page takes, in milliseconds.
    #[arg(long, default_value_t = WebConfig::default().slow_millis)]
    pub slow_millis: u32,
    /// Share of hosts whose robots.txt forbids something; a few of them forbid everything.
    #[arg(long, default_value_t = WebConfig::default().robots)]
    pub robots: f64,
    /// Share of hosts whose robots.txt has a Crawl-delay.
    #[arg(long, default_value_t = WebConfig::default().crawl_delays)]
    pub crawl_delays: f64,
    /// That Crawl-delay, in milliseconds.
    #[arg(long, default_value_t = WebConfig::default().crawl_delay_millis)]
    pub crawl_delay_millis: u32,
    /// Share of hosts whose robots.txt answers 503 at first.
    #[arg(long, default_value_t = WebConfig::default().robots_failing)]
    pub robots_failing: f64,
    /// How long that lasts after the start, in milliseconds.
    #[arg(long, default_value_t = WebConfig::default().robots_failing_millis)]
    pub robots_failing_millis: u32,
    /// Share of hosts with a sitemap.
    #[arg(long, default_value_t = WebConfig::default().sitemaps)]
    pub sitemaps: f64,
    /// Share of hosts with an RSS or Atom feed.
    #[arg(long, default_value_t = WebConfig::default().feeds)]
    pub feeds: f64,
    /// Mean number of changes of a page per day.
    #[arg(long, default_value_t = WebConfig::default().change_rate)]
    pub change_rate: f64,
    /// How the rates of pages lie about that mean.
    #[arg(long, value_enum, default_value_t = WebConfig::default().change_rates)]
    pub change_rates: Rates,
    /// How many times faster than ours the clock of this Web runs.
    #[arg(long, default_value_t = WebConfig::default().clock_speedup)]
    pub clock_speedup: f64,
    /// The instant at which this Web's clock starts.
    #[arg(long, value_parser = parse_instant, default_value = "2026-01-01T00:00:00Z")]
    pub start: Timestamp,
    /// Domain that all hosts are names of.
    #[arg(long, default_value_t = WebConfig::default().domain)]
    pub domain: String,
    /// Compress answers for those who ask; costs far more CPU time than making the page.
    #[arg(long, default_value_t = WebConfig::default().gzip)]
    pub gzip: bool,
}

/// How the change rates of pages lie about their mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Rates {
    /// A power law with exponent 2: nearly all within a factor of two, few a hundred times as fast.
    Power,
    /// As a study of the Web saw it: over four magnitudes, pages of a host alike, one in seven never changes.
    Studied,
}

impl Default for WebConfig {
    fn default() -> WebConfig {
        WebConfig {
            seed: 1,
            hosts: 1000,
            pages: 100_000,
            skew: 0.8,
            mean_page_bytes: 20_000,
            mean_links: 50.0,
            locality: 0.8,
            communities: 1,
            neighbours: 0.85,
            nofollow: 0.03,
            noindex: 0.02,
            hostile: 0.01,
            redirects: 0.03,
            missing: 0.02,
            failing: 0.002,
            slow: 0.002,
            broken: 0.002,
            huge: 0.0002,
            duplicates: 0.05,
            traps: 0.002,
            slow_millis: 2000,
            robots: 0.3,
            crawl_delays: 0.02,
            crawl_delay_millis: 1000,
            robots_failing: 0.01,
            robots_failing_millis: 3000,
            sitemaps: 0.3,
            feeds: 0.2,
            change_rate: 0.1,
            change_rates: Rates::Power,
            clock_speedup: 1.0,
            start: Timestamp::from_secs(1_767_225_600),
            domain: "web.test".to_string(),
            gzip: false,
        }
    }
}

impl WebConfig {
    /// A Web without any trouble, for measuring speed: plain pages, no robots rules, no sitemaps.
    pub fn tame() -> WebConfig {
        WebConfig::default().tamed()
    }

    /// Takes all trouble out of this Web and leaves its size and shape.
    pub fn tamed(self) -> WebConfig {
        WebConfig {
            nofollow: 0.0,
            noindex: 0.0,
            hostile: 0.0,
            redirects: 0.0,
            missing: 0.0,
            failing: 0.0,
            slow: 0.0,
            broken: 0.0,
            huge: 0.0,
            duplicates: 0.0,
            traps: 0.0,
            robots: 0.0,
            crawl_delays: 0.0,
            robots_failing: 0.0,
            sitemaps: 0.0,
            feeds: 0.0,
            change_rate: 0.0,
            ..self
        }
    }

    /// Says what is wrong with the numbers, if anything is.
    pub(super) fn check(&self) -> Result<(), Error> {
        let kinds = [
            self.redirects,
            self.missing,
            self.failing,
            self.slow,
            self.broken,
            self.huge,
            self.duplicates,
            self.traps,
        ];
        let others = [
            self.locality,
            self.neighbours,
            self.nofollow,
            self.noindex,
            self.hostile,
            self.robots,
            self.crawl_delays,
            self.robots_failing,
            self.sitemaps,
            self.feeds,
        ];
        let refuse = |what| Err(Error::Config { what });
        if self.hosts == 0 {
            return refuse("a Web needs at least one host");
        }
        if kinds.iter().chain(&others).any(|share| !(0.0..=1.0).contains(share)) {
            return refuse("a share lies between 0 and 1");
        }
        if self.communities == 0 || self.communities > self.hosts {
            return refuse("there is one community at least, and no more than hosts");
        }
        if kinds.iter().sum::<f64>() > 1.0 {
            return refuse("the shares of page kinds add up to more than 1");
        }
        if !(0.0..=0.95).contains(&self.skew) {
            return refuse("the skew lies between 0 and 0.95");
        }
        if !(0.0..=LINKS_MEAN_MAX).contains(&self.mean_links) || self.mean_page_bytes > PAGE_BYTES_MEAN_MAX {
            return refuse("pages have at most 10,000 links and 10 MB in the mean");
        }
        if !(0.0..=1e6).contains(&self.change_rate) || !(0.0..=1e9).contains(&self.clock_speedup) {
            return refuse("change rate and clock speed-up are numbers from 0 to a million and a billion");
        }
        if self.pages > PAGES_MAX {
            return refuse("a Web has at most 10^12 pages");
        }
        let label = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.';
        if self.domain.is_empty() || self.domain.len() > 200 || !self.domain.bytes().all(label) {
            return refuse("the domain is a host name in lower case, such as web.test");
        }
        Ok(())
    }
}

/// A page has at most 20 times the mean number of links: 200,000 × about 80 bytes = 16 MB.
const LINKS_MEAN_MAX: f64 = 10_000.0;
/// A page has at most 12 times the mean size: 120 MB.
const PAGE_BYTES_MEAN_MAX: u32 = 10_000_000;
/// Far below 2^53, so that the power law's arithmetic in `f64` stays exact enough to number pages.
const PAGES_MAX: u64 = 1_000_000_000_000;

fn parse_instant(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(text).ok_or_else(|| "not an instant such as 2026-01-01T00:00:00Z".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonsense_is_refused_with_a_sentence() {
        let check = |change: fn(&mut WebConfig), want: &str| {
            let mut config = WebConfig::default();
            change(&mut config);
            let said = config.check().unwrap_err().to_string();
            assert!(said.contains(want), "{said}");
        };
        check(|c| c.hosts = 0, "at least one host");
        check(|c| c.redirects = 1.5, "between 0 and 1");
        check(|c| c.slow = f64::NAN, "between 0 and 1");
        check(|c| (c.redirects, c.missing) = (0.6, 0.6), "add up");
        check(|c| c.skew = 1.0, "skew");
        check(|c| c.mean_links = 1e9, "10,000 links");
        check(|c| c.change_rate = -1.0, "change rate");
        check(|c| c.pages = u64::MAX, "10^12");
        check(|c| c.domain = "Web Test".into(), "host name");
        assert!(WebConfig::default().check().is_ok());
        assert!(WebConfig::tame().check().is_ok());
    }
}
