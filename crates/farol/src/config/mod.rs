//! Everything that can be set, in one TOML file.
//!
//! The structs below are the manual: `farol config --explain` prints their comments, types and defaults. A
//! flag on the command line wins over the file, the file over the default. An unknown key is an error that
//! names the nearest known one.

pub mod cluster;
pub mod federation;
pub mod partition;
pub mod pattern;
pub mod scope;
mod section;
mod values;

pub use cluster::Cluster;
pub use federation::Federation;
pub use partition::Partition;
pub use scope::CrawlScope;
pub use section::{Explained, Section};
pub use values::{ByteSize, Span};

use anyhow::{Context, Result, bail};
use pattern::UrlPattern;
use section::section;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// How far from its seeds a crawl goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum ScopeKind {
    /// The seeds' hosts.
    Host,
    /// The seeds' registered domains with all their subdomains.
    Domain,
    /// URLs that start as a seed does, up to its last slash.
    Prefix,
    /// Everything that is linked to.
    Web,
}

/// Which rule sets the pause between two requests to one server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DelayRuleKind {
    /// Always `delay_min`.
    Constant,
    /// Ten times the last download (Mercator's rule).
    DownloadTime,
    /// Shorter for servers with more pages, from `delay_max` down to 1 s (density rule).
    Density,
}

/// Which rule plans revisits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum RevisitKind {
    /// As many visits for each page as make the whole index freshest.
    Optimal,
    /// An interval per page that shrinks when it changed and grows when it did not.
    Interval,
}

/// What spreads questions over cache nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheRules {
    /// Ours: hot questions on all nodes at once, borders by measured density.
    Ours,
    /// Those of \[Gomez14\].
    Thesis,
    /// None: the ring alone.
    Off,
}

section! {
    /// Who runs this engine, and how it is called.
    Identity {
        /// Name shown on the search page.
        name: String = "Farol".to_string(),
        /// Person or organisation that answers for the crawler; shown on its about page.
        operator: String = String::new(),
        /// Where to write about the crawler: a mail address or a page.
        contact: String = String::new(),
        /// Address under which people reach the search page, such as `https://search.example.org`. The crawler's
        /// user agent points to the about page there.
        public_url: String = String::new(),
    }
}

section! {
    /// What is crawled, and how gently.
    Crawl {
        /// Where to start, besides the seeds named on the command line.
        seeds: Vec<String> = Vec::new(),
        /// How far from the seeds to go: `host`, `domain`, `prefix` or `web`. Or which pages to take, as a view: `.pt`,
        /// `.pt and lang:pt`, `ip:193.136.0.0/15 or country:pt`, or `@FILE` with a view a line. Languages, types, dates and
        /// titles are known after the visit: what then turns out to lie outside is not indexed, and its links are not
        /// followed, but for those of seeds.
        scope: CrawlScope = CrawlScope::Around(ScopeKind::Host),
        /// File that says where servers stand, for `country:` and `geo:` in the scope: `193.136.0.0/15,pt` or
        /// `193.136.0.0,193.137.255.255,pt` a line, with latitude and longitude after that where they are known.
        places: String = String::new(),
        /// Which addresses of the scope to leave out (`-`) and which to keep to (`+`): `-/calendar/`, `-/*.pdf$`,
        /// `+*.example.org/docs/`. A path is the beginning of one, `*` is anything, `$` the end. What is left out is not
        /// fetched and leaves the index; seeds, sitemaps and lists that robots.txt names are read though no `+` pattern fits them.
        patterns: Vec<UrlPattern> = Vec::new(),
        /// Stop fetching new pages after this many; 0 = no limit.
        max_pages: u64 = 0,
        /// Links followed in a row from a seed at most; 0 = no limit.
        max_depth: u16 = 0,
        /// Least time between two requests to one server. A longer Crawl-delay wins. Lower it only for servers
        /// you own.
        delay_min: Span = Span::secs(1),
        /// Longest pause that the density rule gives.
        delay_max: Span = Span::secs(15),
        /// Rule for the pause: `constant`, `download-time` (ten times the last download) or `density`.
        delay_rule: DelayRuleKind = DelayRuleKind::Constant,
        /// Requests under way at once, over all servers; at most half of the files that the process may open, and
        /// of one registrable domain at most a quarter or 16. Pages beyond 256 KiB share 256 MiB of memory.
        concurrency: usize = 256,
        /// Threads that fetch and parse; 0 = one per core.
        threads: usize = 0,
        /// Hosts kept in memory at once, about 4 KiB each; others wait on disk.
        hosts_max: usize = 20_000,
        /// Product token in the user agent, and the name that robots.txt rules address.
        agent: String = "farol".to_string(),
        /// Languages asked for in Accept-Language; empty = none.
        accept_language: String = String::new(),
        /// Time to connect, TLS included.
        connect_timeout: Span = Span::secs(10),
        /// Time until the first byte of an answer.
        first_byte_timeout: Span = Span::secs(20),
        /// Time for a whole answer.
        total_timeout: Span = Span::secs(60),
        /// Longest page kept, decoded; the rest is cut off.
        body_max: ByteSize = ByteSize::mib(10),
        /// Use HTTP/2 where a server offers it.
        http2: bool = true,
        /// Crawl private, link-local and loopback addresses too.
        allow_private: bool = false,
        /// Addresses for host names, as `HOST=ADDR[:PORT]`; `*.test` patterns allowed. For staging sites.
        resolve: Vec<String> = Vec::new(),
        /// DNS servers as `ADDR:PORT`; empty = the system's.
        nameservers: Vec<String> = Vec::new(),
        /// Pages of one host at most; a guard against endless sites.
        pages_per_host_max: u64 = 1_000_000,
        /// Longest path, in segments; a guard against endless sites.
        path_depth_max: usize = 20,
        /// Redirects followed in a row; `meta refresh` and `rel=canonical` count as such.
        redirects_max: u8 = 8,
        /// How revisits are planned: `optimal` shares visits out so that the index is as fresh as it can be, `interval`
        /// halves or lengthens the time between two visits of each page by itself.
        revisit: RevisitKind = RevisitKind::Optimal,
        /// Time between two visits of a page, on average over all pages: sets how many revisits are made.
        revisit_mean: Span = Span::days(7),
        /// Part of what a host bears that is kept for pages never visited, while there are such, from 0 to 0.9.
        discovery: f64 = 0.3,
        /// Shortest time between two visits of a page.
        revisit_min: Span = Span::hours(6),
        /// Time until the first revisit of a new page.
        revisit_first: Span = Span::days(3),
        /// Longest time between two visits of a page.
        revisit_max: Span = Span::days(60),
    }
}

section! {
    /// Fetched pages on disk, as WARC files.
    Archive {
        /// A new file is begun when one has grown to this size.
        file_max: ByteSize = ByteSize::mib(1024),
        /// gzip level, 1 (fast) to 9 (small).
        compression: u32 = 1,
        /// Crawling pauses while less than this is free on the disk.
        disk_reserve: ByteSize = ByteSize::mib(512),
    }
}

section! {
    /// The index.
    Index {
        /// Memory for documents that are being indexed.
        memory: ByteSize = ByteSize::mib(96),
        /// New pages are searchable after at most about this time.
        commit_every: Span = Span::secs(2),
        /// Least time between two computations of the link rank.
        rank_every: Span = Span::secs(60),
    }
}

section! {
    /// How questions are answered.
    Search {
        /// File of synonyms, one group per line, separated by commas: `vhost, virtual host`. With an arrow it goes one
        /// way: `ml => machine learning`. Empty = none. Read again when it changes.
        synonyms: String = String::new(),
        /// File of pages that come first for certain questions: `opening hours, when open => https://example.org/visit`.
        /// Empty = none. Read again when it changes.
        pins: String = String::new(),
    }
}

section! {
    /// The search page and the API.
    Serve {
        /// Address and port to listen on.
        listen: String = "127.0.0.1:8080".to_string(),
        /// Secret that opens the admin pages, 16 characters or more; empty = one is drawn and kept in the data
        /// folder, in `admin.key`.
        admin_token: String = String::new(),
        /// Names under which people reach this engine, besides public_url. Requests for other names are refused, so that
        /// no stranger's name can be pointed here.
        names: Vec<String> = Vec::new(),
        /// Requests that one client may make per minute.
        rate_per_minute: u32 = 600,
        /// Take the client's address from X-Forwarded-For: only behind a proxy of your own.
        trust_forwarded: bool = false,
        /// Results per page.
        results_per_page: usize = 10,
        /// Pages of one host that come before those of other hosts; the rest of them follow when the others are used up.
        /// 0 = no limit, which suits an engine for a handful of sites.
        hits_per_host: usize = 2,
        /// Count which results people open, without saying who, so that pages that are used are kept fresher.
        clicks: bool = false,
    }
}

section! {
    /// Answers kept in memory, so that repeated questions cost the index nothing.
    Cache {
        /// Memory for answers; `0B` = none are kept.
        memory: ByteSize = ByteSize::mib(64),
        /// No answer is given again after this time.
        ttl: Span = Span::secs(600),
        /// An answer may still be given so long after the index or the ranks have changed, and says how old it is. A crawl
        /// changes them every two seconds. A page that was removed is gone after this time at the latest; answers without
        /// any hit are made anew at once.
        grace: Span = Span::secs(60),
        /// Share of a cache node's memory for copies of its neighbour's best answers, which are there when that one fails;
        /// 0 = none are made.
        copies: f64 = 0.05,
        /// Time between two rounds of copies.
        copies_every: Span = Span::secs(300),
        /// How cache nodes share the load: `ours`, `thesis` (hot questions, bursts and borders as the literature has them,
        /// to compare with) or `off` (each question where its hash lies). The same on all nodes of a cluster.
        rules: CacheRules = CacheRules::Ours,
        /// What moves borders between cache nodes: `spread`, `rid`, `sid`, `gm`, `dm`, `dem` or `gde`; empty = `spread` for
        /// our rules and `rid` for the thesis'.
        balancer: String = String::new(),
    }
}

/// The whole file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    pub identity: Identity,
    pub crawl: Crawl,
    pub archive: Archive,
    pub index: Index,
    pub search: Search,
    pub serve: Serve,
    pub cache: Cache,
    pub cluster: Cluster,
    pub partition: Partition,
    pub federation: Federation,
}

impl Config {
    /// Reads a file; names the nearest key where one is unknown.
    pub fn read(path: &Path) -> Result<Config> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read the config file {}", path.display()))?;
        Config::parse(&text).with_context(|| format!("in the config file {}", path.display()))
    }

    pub fn parse(text: &str) -> Result<Config> {
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            anyhow::anyhow!("it is not valid TOML: {}", error.to_string().trim_end())
        })?;
        check_keys(&table)?;
        let config: Config =
            toml::from_str(text).map_err(|error| anyhow::anyhow!("{}", error.to_string().trim_end()))?;
        config.check()?;
        Ok(config)
    }

    /// Checks what types alone cannot.
    pub fn check(&self) -> Result<()> {
        if !(1..=9).contains(&self.archive.compression) {
            bail!("archive.compression is {}, choose 1 (fast) to 9 (small)", self.archive.compression);
        }
        if self.crawl.concurrency == 0 || self.crawl.hosts_max == 0 {
            bail!("crawl.concurrency and crawl.hosts_max must be at least 1");
        }
        if self.crawl.revisit_min.get() > self.crawl.revisit_max.get() {
            bail!("crawl.revisit_min is longer than crawl.revisit_max; swap them");
        }
        if !(0.0..=0.5).contains(&self.cache.copies) {
            bail!("cache.copies is {}, choose a share from 0 to 0.5", self.cache.copies);
        }
        let balancers = farol_cache::balance::NAMES;
        if !self.cache.balancer.is_empty() && !balancers.contains(&self.cache.balancer.as_str()) {
            let (wrong, known) = (&self.cache.balancer, balancers.join(", "));
            bail!("cache.balancer is {wrong:?}; choose one of {known}, or leave it empty");
        }
        if !(0.0..=0.9).contains(&self.crawl.discovery) {
            bail!("crawl.discovery is {}, choose a share from 0 to 0.9", self.crawl.discovery);
        }
        if self.crawl.agent.is_empty()
            || !self.crawl.agent.bytes().all(|b| b.is_ascii_alphabetic() || b == b'-' || b == b'_')
        {
            bail!("crawl.agent is {:?}; RFC 9309 allows letters, '-' and '_' only", self.crawl.agent);
        }
        if self.serve.results_per_page == 0 || self.serve.results_per_page > 100 {
            bail!("serve.results_per_page is {}, choose 1 to 100", self.serve.results_per_page);
        }
        let token = self.serve.admin_token.len();
        if token > 0 && token < farol_front::TOKEN_BYTES_MIN {
            bail!(
                "serve.admin_token has {token} characters and could be guessed; take {} or more",
                farol_front::TOKEN_BYTES_MIN
            );
        }
        self.partition.check()?;
        self.cluster.check()?;
        self.federation.check()
    }

    /// The user agent as servers see it: with the about page where that can be reached, else with the contact.
    pub fn user_agent(&self) -> String {
        let product = format!("{}/{}", self.crawl.agent, env!("CARGO_PKG_VERSION"));
        match (self.identity.public_url.trim_end_matches('/'), self.identity.contact.as_str()) {
            ("", "") => product,
            ("", contact) => format!("{product} (+{contact})"),
            (url, _) => format!("{product} (+{url}/about)"),
        }
    }

    /// Every key with its documentation and default, as a TOML file that could be used as it is.
    pub fn explain() -> String {
        let sections: [(&str, Explained); 10] = [
            ("identity", Identity::explain()),
            ("crawl", Crawl::explain()),
            ("archive", Archive::explain()),
            ("index", Index::explain()),
            ("search", Search::explain()),
            ("serve", Serve::explain()),
            ("cache", Cache::explain()),
            ("cluster", Cluster::explain()),
            ("partition", Partition::explain()),
            ("federation", Federation::explain()),
        ];
        let mut text = String::from("# Farol's settings. Each line shows a key with its default.\n");
        for (name, section) in sections {
            text.push_str(&format!("\n# {}\n[{name}]\n", section.about));
            for key in section.keys {
                text.push('\n');
                for line in key.about {
                    text.push_str(&format!("# {}\n", line.trim()));
                }
                text.push_str(&format!("{} = {}\n", key.name, key.default));
            }
        }
        text
    }
}

fn check_keys(table: &toml::Table) -> Result<()> {
    let sections: [(&str, &[&str]); 10] = [
        ("identity", Identity::KEYS),
        ("crawl", Crawl::KEYS),
        ("archive", Archive::KEYS),
        ("index", Index::KEYS),
        ("search", Search::KEYS),
        ("serve", Serve::KEYS),
        ("cache", Cache::KEYS),
        ("cluster", Cluster::KEYS),
        ("partition", Partition::KEYS),
        ("federation", Federation::KEYS),
    ];
    for (name, value) in table {
        let Some((_, keys)) = sections.iter().find(|(known, _)| known == name) else {
            // A key outside its section is the commonest slip: say where it belongs.
            if let Some((section, _)) = sections.iter().find(|(_, keys)| keys.contains(&name.as_str())) {
                bail!("the key {name:?} belongs under [{section}]");
            }
            let known: Vec<&str> = sections.iter().map(|(known, _)| *known).collect();
            bail!("there is no section {name:?}; did you mean {:?}?", nearest(name, &known));
        };
        let Some(entries) = value.as_table() else {
            bail!("{name:?} is a section: write [{name}] on a line of its own");
        };
        if let Some(key) = entries.keys().find(|key| !keys.contains(&key.as_str())) {
            bail!("there is no key {key:?} in [{name}]; did you mean {:?}?", nearest(key, keys));
        }
    }
    Ok(())
}

fn nearest<'a>(wrong: &str, known: &[&'a str]) -> &'a str {
    known.iter().copied().min_by_key(|key| edits(wrong, key)).unwrap_or("")
}

/// Levenshtein's distance between two short words.
fn edits(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(row[j + 1] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(text: &str, want: &str) {
        let error = format!("{:#}", Config::parse(text).expect_err(text));
        assert!(error.contains(want), "{text:?} gave: {error}");
    }

    #[test]
    fn an_unknown_key_names_the_nearest() {
        refused("[crawl]\ndelay_mim = '2s'", "did you mean \"delay_min\"?");
        refused("[crwal]\n", "did you mean \"crawl\"?");
        refused("listen = '127.0.0.1:1'", "belongs under [serve]");
        refused("crawl = 3", "is a section");
    }

    #[test]
    fn a_wrong_value_says_what_would_be_right() {
        refused("[crawl]\ndelay_min = 'soon'", "2s");
        refused("[archive]\nfile_max = '1 parsec'", "MiB");
        refused("[archive]\ncompression = 12", "1 (fast) to 9 (small)");
        refused("[crawl]\nscope = 'world'", "host");
        refused("[crawl]\nagent = 'Farol 2'", "RFC 9309");
        refused("[crawl]\npatterns = ['/calendar/']", "neither + nor -");
    }

    #[test]
    fn the_explanation_is_a_config_file_with_the_defaults() {
        let read = Config::parse(&Config::explain()).expect("the explanation is valid");
        assert_eq!(format!("{read:?}"), format!("{:?}", Config::default()));
    }

    #[test]
    fn the_user_agent_says_where_to_ask() {
        let agent = |toml: &str| Config::parse(toml).unwrap().user_agent();
        let product = format!("farol/{}", env!("CARGO_PKG_VERSION"));
        assert_eq!(agent(""), product);
        assert_eq!(agent("[identity]\ncontact = 'a@b.org'"), format!("{product} (+a@b.org)"));
        let both = "[identity]\ncontact = 'a@b.org'\npublic_url = 'https://s.org/'";
        assert_eq!(agent(both), format!("{product} (+https://s.org/about)"));
    }

    #[test]
    fn values_are_read() {
        let config =
            Config::parse("[crawl]\ndelay_min = '500ms'\nscope = 'domain'\n[archive]\nfile_max = '64MiB'")
                .unwrap();
        assert_eq!(config.crawl.delay_min.get().as_millis(), 500);
        assert_eq!(config.crawl.scope, ScopeKind::Domain.into());
        assert_eq!(config.archive.file_max.get(), 64 << 20);
    }
}
