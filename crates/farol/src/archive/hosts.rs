//! What is remembered of hosts: their robots.txt, and what keeps us polite across restarts.
//!
//! Kept in memory for hosts that are being visited, in the fabric's tables for all. Writes are gathered and
//! made every few seconds; what a crash takes is read again from the archive.
//!
//! Memory is bounded whatever servers send: rules by [`RulesCache`], robots.txt files that wait to be written by
//! [`UNWRITTEN_BYTES_MAX`]. Rules that had to go are read again from the table when their host has its turn.

use super::position::{read_position, write_position};
use super::rules_cache::RulesCache;
use crate::fabric::{Table, Tables};
use anyhow::Result;
use farol_base::status::RecentVisit;
use farol_base::{CanonicalUrl, Host, Language, PagePosition, Timestamp};
use farol_frontier::{HostMemory, ROBOTS_VALID};
use farol_parse::robots::{Robots, Verdict};
use farol_partition::Position;
use farol_partition::rtt::Samples;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// A host's name is asked again after this where it is.
const LOCATION_VALID: Duration = Duration::from_secs(30 * 24 * 3600);
/// Visits of a host that the dashboard shows.
const RECENT_MAX: usize = 10;

/// A host's row in the table.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostRow {
    pub robots_status: u16,
    pub robots_fetched_ms: u64,
    pub crawl_delay_ms: Option<u64>,
    pub not_before_ms: u64,
    pub failures: u32,
    /// Until then its server asked us to wait.
    pub asked_to_wait_ms: u64,
    pub bytes_fetched: u64,
    pub errors: HashMap<String, u64>,
    /// Where it was last connected to.
    pub address: Option<IpAddr>,
    /// Where its name says that it is, in ten-thousandths of a degree north and east; and when that was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub location: Option<(i32, i32)>,
    #[serde(skip_serializing_if = "is_zero")]
    pub location_asked_ms: u64,
    /// Pages by the language that they were in when they were last fetched; those that were met first.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub languages: BTreeMap<String, u32>,
    /// Times of connections to that address: when (milliseconds), and microseconds; oldest first.
    pub connects: Vec<(u64, u32)>,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// Languages that are counted of a host.
const LANGUAGES_MAX: usize = 8;

/// Times of connections that are kept of a host; seven are enough for a median.
const CONNECTS_MAX: usize = 15;

impl HostRow {
    /// Round-trip times to the host, as far as its connections tell.
    pub fn round_trips(&self) -> Samples {
        self.connects.iter().map(|(at, micros)| (Timestamp::from_millis(*at), *micros)).collect()
    }

    /// Where its name says that it is.
    pub fn position(&self) -> Option<Position> {
        let (north, east) = self.location?;
        Position::new(f64::from(north) / 10_000.0, f64::from(east) / 10_000.0)
    }

    /// The language of more than half of its pages.
    pub fn language(&self) -> Option<[u8; 2]> {
        let all: u64 = self.languages.values().map(|pages| u64::from(*pages)).sum();
        let (code, most) = self.languages.iter().max_by_key(|(_, pages)| **pages)?;
        code.as_bytes().try_into().ok().filter(|_| 2 * u64::from(*most) > all)
    }

    /// Whether its robots.txt is one that forbids everything because it could not be had.
    pub fn robots_refuses(&self) -> bool {
        self.robots_status >= 500
    }

    /// Takes in what another agent remembered of the host: whatever is later, and of sums the greater. Doing it twice, or
    /// in another order, changes nothing. Answers whether the other's robots.txt is the later one.
    pub fn merge(&mut self, other: HostRow) -> bool {
        let is_later = other.robots_fetched_ms > self.robots_fetched_ms;
        if is_later {
            self.robots_status = other.robots_status;
            self.robots_fetched_ms = other.robots_fetched_ms;
            self.crawl_delay_ms = other.crawl_delay_ms;
        }
        self.failures = match self.not_before_ms.cmp(&other.not_before_ms) {
            std::cmp::Ordering::Less => other.failures,
            std::cmp::Ordering::Equal => self.failures.max(other.failures),
            std::cmp::Ordering::Greater => self.failures,
        };
        self.not_before_ms = self.not_before_ms.max(other.not_before_ms);
        self.asked_to_wait_ms = self.asked_to_wait_ms.max(other.asked_to_wait_ms);
        self.bytes_fetched = self.bytes_fetched.max(other.bytes_fetched);
        for (error, count) in other.errors {
            let known = self.errors.entry(error).or_default();
            *known = count.max(*known);
        }
        // Times from another place say nothing of this one, but they are better than none until it has its own.
        let last = |connects: &[(u64, u32)]| connects.last().copied();
        if last(&other.connects) > last(&self.connects) {
            (self.address, self.connects) = (other.address, other.connects);
            self.connects.truncate(CONNECTS_MAX);
        }
        is_later
    }

    fn robots_valid_until(&self) -> Option<Timestamp> {
        (self.robots_fetched_ms > 0).then(|| Timestamp::from_millis(self.robots_fetched_ms) + ROBOTS_VALID)
    }

    /// What the frontier should know of it.
    pub fn memory(&self, pages_known: u64) -> HostMemory {
        HostMemory {
            robots_valid_until: self.robots_valid_until(),
            crawl_delay: self.crawl_delay_ms.map(Duration::from_millis),
            not_before: Timestamp::from_millis(self.not_before_ms),
            failures: self.failures,
            pages_known,
        }
    }
}

/// Files that wait to be written are written at once when they take more than this: 32 of the largest.
const UNWRITTEN_BYTES_MAX: usize = 16 << 20;

/// A host that is being visited.
struct LoadedHost {
    row: HostRow,
    recent: VecDeque<RecentVisit>,
    /// It is not being visited, and goes when its row is written.
    leaves: bool,
}

/// The table of hosts, with those that are being visited in memory.
pub struct Hosts {
    tables: Arc<dyn Tables>,
    agent: String,
    loaded: HashMap<Host, LoadedHost>,
    rules: RulesCache,
    /// Hosts whose row has changed since the last write, with robots.txt where that is new.
    changed: HashMap<Host, Option<Vec<u8>>>,
    /// Bytes of robots.txt files among what has changed.
    unwritten_bytes: usize,
    watermark: PagePosition,
}

/// Among the marks: how far hosts have taken the archive in.
pub(super) const MARK: &str = "hosts";

impl Hosts {
    pub fn open(tables: Arc<dyn Tables>, agent: &str) -> Result<Hosts> {
        let watermark = match tables.get(Table::Marks, MARK)? {
            Some(bytes) => read_position(&bytes),
            None => PagePosition::default(),
        };
        Ok(Hosts {
            tables,
            agent: agent.to_string(),
            loaded: HashMap::new(),
            rules: RulesCache::default(),
            changed: HashMap::new(),
            unwritten_bytes: 0,
            watermark,
        })
    }

    /// How far the archive has been taken in.
    pub fn watermark(&self) -> PagePosition {
        self.watermark
    }

    /// Brings a host into memory and says what is remembered of it.
    pub fn enter(&mut self, host: &Host, pages_known: u64) -> Result<HostMemory> {
        let loaded = self.load(host)?;
        loaded.leaves = false;
        Ok(loaded.row.memory(pages_known))
    }

    /// Lets a host out of memory; its row stays in the table.
    pub fn leave(&mut self, host: &Host) {
        self.rules.remove(host);
        if self.changed.contains_key(host) {
            if let Some(loaded) = self.loaded.get_mut(host) {
                loaded.leaves = true;
            }
        } else {
            self.loaded.remove(host);
        }
    }

    /// Takes in what another agent remembered of a host, with the robots.txt as it was sent.
    pub fn take_over(&mut self, host: &Host, row: HostRow, robots: Option<Vec<u8>>) -> Result<()> {
        if self.load(host)?.row.merge(row) {
            self.rules.remove(host);
            self.unchanged(host);
            let body = robots.unwrap_or_default();
            self.unwritten_bytes += body.len();
            self.changed.insert(host.clone(), Some(body));
        } else {
            self.changed.entry(host.clone()).or_default();
        }
        if self.unwritten_bytes > UNWRITTEN_BYTES_MAX { self.write_files() } else { Ok(()) }
    }

    /// Forgets a host altogether.
    pub fn forget(&mut self, host: &Host) -> Result<()> {
        self.loaded.remove(host);
        self.rules.remove(host);
        self.unchanged(host);
        self.tables.put(&[(Table::Hosts, host.as_str(), b""), (Table::Robots, host.as_str(), b"")])
    }

    /// The rules of a host that is in memory. Where they had to go, they are read again: some milliseconds for the
    /// largest file.
    pub fn robots(&mut self, host: &Host) -> Result<Option<Arc<Robots>>> {
        let Some(loaded) = self.loaded.get(host) else { return Ok(None) };
        if loaded.row.robots_valid_until().is_none() {
            return Ok(None);
        }
        if let Some(rules) = self.rules.get(host) {
            return Ok(Some(rules));
        }
        let mut rules = Robots::parse(&self.robots_text(host)?.unwrap_or_default(), &self.agent);
        rules.take_sitemaps();
        let rules = Arc::new(rules);
        self.rules.put(host, rules.clone());
        Ok(Some(rules))
    }

    /// What a host's robots.txt, as last read, says of a page, in memory or not; `None` where it was not read.
    pub fn robots_verdict(&self, url: &CanonicalUrl) -> Result<Option<Verdict>> {
        let host = url.host();
        if self.row(&host).is_none_or(|row| row.robots_fetched_ms == 0) {
            return Ok(None);
        }
        let rules = Robots::parse(&self.robots_text(&host)?.unwrap_or_default(), &self.agent);
        Ok(Some(rules.verdict(url.path_and_query())))
    }

    /// Memory that rules take.
    pub fn rules_bytes(&self) -> usize {
        self.rules.bytes()
    }

    /// Takes in a robots.txt as a server sent it, and its rules; answers the sitemaps that it names.
    pub fn set_robots(
        &mut self,
        host: &Host,
        status: u16,
        body: &[u8],
        mut rules: Robots,
        fetched: Timestamp,
    ) -> Result<Box<[String]>> {
        let sitemaps = rules.take_sitemaps();
        let row = &mut self.load(host)?.row;
        row.robots_status = status;
        row.robots_fetched_ms = fetched.as_millis();
        row.crawl_delay_ms = rules.crawl_delay().map(|delay| delay.as_millis() as u64);
        row.failures = 0;
        self.rules.put(host, Arc::new(rules));
        self.unchanged(host);
        let body: &[u8] = if (200..300).contains(&status) { body } else { b"" };
        self.unwritten_bytes += body.len();
        self.changed.insert(host.clone(), Some(body.to_vec()));
        if self.unwritten_bytes > UNWRITTEN_BYTES_MAX {
            self.write_files()?;
        }
        Ok(sitemaps)
    }

    /// Notes a visit for the dashboard and the host's sums.
    pub fn visited(&mut self, host: &Host, recent: RecentVisit, error: Option<&str>) {
        let Some(loaded) = self.loaded.get_mut(host) else { return };
        loaded.row.bytes_fetched += recent.bytes;
        loaded.recent.truncate(RECENT_MAX - 1);
        loaded.recent.push_front(recent);
        if let Some(error) = error {
            *loaded.row.errors.entry(error.to_string()).or_default() += 1;
            self.changed.entry(host.clone()).or_default();
        }
    }

    /// Notes the language of one of a host's pages.
    pub fn spoke(&mut self, host: &Host, language: Language) {
        let Some(loaded) = self.loaded.get_mut(host) else { return };
        let languages = &mut loaded.row.languages;
        if languages.len() < LANGUAGES_MAX || languages.contains_key(language.code()) {
            let pages = languages.entry(language.code().to_string()).or_default();
            *pages = pages.saturating_add(1);
            self.changed.entry(host.clone()).or_default();
        }
    }

    /// Notes how long a connection to a host took. A host that has moved is measured anew.
    pub fn connected(&mut self, host: &Host, address: IpAddr, took: Duration, at: Timestamp) -> Result<()> {
        // A new host's first connection, for robots.txt, comes before the host itself.
        let row = &mut self.load(host)?.row;
        if row.address != Some(address) {
            row.address = Some(address);
            row.connects.clear();
        }
        let micros = u32::try_from(took.as_micros()).unwrap_or(u32::MAX);
        row.connects.push((at.as_millis(), micros));
        if row.connects.len() > CONNECTS_MAX {
            row.connects.remove(0);
        }
        self.changed.entry(host.clone()).or_default();
        Ok(())
    }

    /// Whether a host's name is to be asked where it is; from now on it was.
    pub fn asks_location(&mut self, host: &Host, now: Timestamp) -> Result<bool> {
        let row = &mut self.load(host)?.row;
        let asked = Timestamp::from_millis(row.location_asked_ms);
        let is_due = row.location_asked_ms == 0 || now.since(asked) >= LOCATION_VALID;
        if is_due {
            row.location_asked_ms = now.as_millis();
            self.changed.entry(host.clone()).or_default();
        }
        Ok(is_due)
    }

    /// Remembers where a host's name says that it is.
    pub fn stands_at(&mut self, host: &Host, position: Position) -> Result<()> {
        let fixed = |degrees: f64| (degrees * 10_000.0).round() as i32;
        let row = &mut self.load(host)?.row;
        row.location = Some((fixed(position.latitude()), fixed(position.longitude())));
        self.changed.entry(host.clone()).or_default();
        Ok(())
    }

    /// Remembers where a host is that was never connected to: whoever plans who asks it has to know.
    pub fn located(&mut self, host: &Host, address: IpAddr) -> Result<()> {
        let row = &mut self.load(host)?.row;
        if row.connects.is_empty() && row.address != Some(address) {
            row.address = Some(address);
            self.changed.entry(host.clone()).or_default();
        }
        Ok(())
    }

    /// Remembers when a host may be asked again and how often it failed, for the next run.
    pub fn remember(&mut self, host: &Host, memory: &HostMemory) {
        let Some(loaded) = self.loaded.get_mut(host) else { return };
        let not_before = memory.not_before.as_millis();
        if loaded.row.not_before_ms != not_before || loaded.row.failures != memory.failures {
            loaded.row.not_before_ms = not_before;
            loaded.row.failures = memory.failures;
            self.changed.entry(host.clone()).or_default();
        }
    }

    /// Notes that a host that has changed hands rests until this instant (milliseconds).
    pub fn rest_until(&mut self, host: &Host, until_ms: u64) -> Result<()> {
        let loaded = self.load(host)?;
        loaded.row.not_before_ms = until_ms.max(loaded.row.not_before_ms);
        self.changed.entry(host.clone()).or_default();
        Ok(())
    }

    /// Notes that a server asked us to wait.
    pub fn asked_to_wait(&mut self, host: &Host, until: Timestamp) -> Result<()> {
        self.load(host)?.row.asked_to_wait_ms = until.as_millis();
        self.changed.entry(host.clone()).or_default();
        Ok(())
    }

    /// Forgets how often a host failed and how long it was put off because of that: it may be asked from this instant on,
    /// or from that to which its server asked us to wait. Its robots.txt is asked for again where that kept us out.
    pub fn wake(&mut self, host: &Host, from: Timestamp, forget_rules: bool) -> Result<()> {
        let row = &mut self.load(host)?.row;
        row.not_before_ms = row.not_before_ms.min(from.as_millis().max(row.asked_to_wait_ms));
        row.failures = 0;
        if forget_rules {
            row.robots_fetched_ms = 0;
        }
        self.changed.entry(host.clone()).or_default();
        Ok(())
    }

    /// What is remembered of every host, as it was last written.
    pub fn stored_rows(&self) -> Result<Vec<(Host, HostRow)>> {
        let rows = self.tables.scan(Table::Hosts)?.into_iter();
        let read = |(host, row): (String, Vec<u8>)| {
            Some((Host::parse(&host).ok()?, serde_json::from_slice(&row).ok()?))
        };
        Ok(rows.filter_map(read).collect())
    }

    /// The line of a host's robots.txt that refuses a page, with its number from 1; `None` where none does.
    pub fn robots_line(&self, url: &CanonicalUrl) -> Result<Option<(usize, String)>> {
        let text = self.robots_text(&url.host())?.unwrap_or_default();
        Ok(farol_parse::robots::refusing_line(&text, &self.agent, url.path_and_query()))
    }

    /// Whether the robots.txt of a list's host, as last read, names the list.
    pub fn names_list(&self, url: &CanonicalUrl) -> Result<bool> {
        let host = url.host();
        let Some(text) = self.robots_text(&host)? else { return Ok(false) };
        let Ok(robots) = host.url("/robots.txt") else { return Ok(false) };
        let rules = Robots::parse(&text, &self.agent);
        Ok(rules.sitemaps().iter().any(|list| robots.join(list).is_ok_and(|list| list == *url)))
    }

    /// What a host in memory asks for between two requests.
    pub fn crawl_delay(&self, host: &Host) -> Option<Duration> {
        self.loaded.get(host)?.row.crawl_delay_ms.map(Duration::from_millis)
    }

    pub fn row(&self, host: &Host) -> Option<HostRow> {
        match self.loaded.get(host) {
            Some(loaded) => Some(loaded.row.clone()),
            None => self.stored(host).ok().flatten(),
        }
    }

    pub fn recent(&self, host: &Host) -> Vec<RecentVisit> {
        self.loaded.get(host).map(|loaded| loaded.recent.iter().cloned().collect()).unwrap_or_default()
    }

    /// robots.txt as it was sent.
    pub fn robots_text(&self, host: &Host) -> Result<Option<Vec<u8>>> {
        match self.changed.get(host) {
            Some(Some(body)) => Ok(Some(body.clone())),
            _ => self.tables.get(Table::Robots, host.as_str()),
        }
    }

    /// Writes what has changed, as of this position of the archive.
    pub fn write(&mut self, upto: PagePosition) -> Result<()> {
        if self.changed.is_empty() && self.watermark == upto {
            return Ok(());
        }
        let mark = write_position(upto);
        let rows: Vec<(&Host, Vec<u8>)> = self
            .changed
            .keys()
            .filter_map(|host| Some((host, serde_json::to_vec(&self.loaded.get(host)?.row).ok()?)))
            .collect();
        let mut entries: Vec<(Table, &str, &[u8])> =
            rows.iter().map(|(host, row)| (Table::Hosts, host.as_str(), &row[..])).collect();
        for (host, robots) in &self.changed {
            if let Some(body) = robots {
                entries.push((Table::Robots, host.as_str(), body));
            }
        }
        // The watermark speaks for the rest, so it comes last.
        entries.push((Table::Marks, MARK, &mark));
        self.tables.put(&entries)?;
        for host in std::mem::take(&mut self.changed).into_keys() {
            if self.loaded.get(&host).is_some_and(|loaded| loaded.leaves) {
                self.loaded.remove(&host);
                self.rules.remove(&host);
            }
        }
        self.unwritten_bytes = 0;
        self.watermark = upto;
        Ok(())
    }

    /// Writes the files alone. A row that a crash then takes is an older one, so robots.txt is asked for again sooner.
    fn write_files(&mut self) -> Result<()> {
        let files = self.changed.iter().filter_map(|(host, body)| Some((host, body.as_deref()?)));
        let entries: Vec<_> = files.map(|(host, body)| (Table::Robots, host.as_str(), body)).collect();
        self.tables.put(&entries)?;
        self.changed.values_mut().for_each(|body| *body = None);
        self.unwritten_bytes = 0;
        Ok(())
    }

    /// Drops what waits to be written of a host.
    fn unchanged(&mut self, host: &Host) {
        if let Some(Some(body)) = self.changed.remove(host) {
            self.unwritten_bytes -= body.len();
        }
    }

    fn load(&mut self, host: &Host) -> Result<&mut LoadedHost> {
        let row = match self.loaded.contains_key(host) {
            true => HostRow::default(),
            false => self.stored(host)?.unwrap_or_default(),
        };
        let new = || LoadedHost { row, recent: VecDeque::new(), leaves: true };
        Ok(self.loaded.entry(host.clone()).or_insert_with(new))
    }

    fn stored(&self, host: &Host) -> Result<Option<HostRow>> {
        let row = self.tables.get(Table::Hosts, host.as_str())?;
        // A row that cannot be read is no row: robots.txt is then asked for again.
        Ok(row.and_then(|row| serde_json::from_slice(&row).ok()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::rules_cache::RULES_MEMORY_MAX;
    use crate::fabric::LocalTables;

    #[test]
    fn rules_and_pauses_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let host = Host::parse("http://h/").unwrap();
        let upto = PagePosition { file: 1, offset: 77 };
        let fetched = Timestamp::from_secs(1_700_000_000);
        {
            let tables = Arc::new(LocalTables::open(&dir.path().join("t")).unwrap());
            let mut hosts = Hosts::open(tables, "farol").unwrap();
            hosts.enter(&host, 0).unwrap();
            let file = b"User-agent: *\nDisallow: /x\nCrawl-delay: 3";
            hosts.set_robots(&host, 200, file, Robots::parse(file, "farol"), fetched).unwrap();
            hosts.remember(
                &host,
                &HostMemory { not_before: Timestamp::from_secs(9), failures: 2, ..Default::default() },
            );
            hosts.write(upto).unwrap();
        }
        let tables = Arc::new(LocalTables::open(&dir.path().join("t")).unwrap());
        let mut hosts = Hosts::open(tables, "farol").unwrap();
        assert_eq!(hosts.watermark(), upto);
        let memory = hosts.enter(&host, 5).unwrap();
        assert_eq!(memory.robots_valid_until, Some(fetched + ROBOTS_VALID));
        assert_eq!(memory.crawl_delay, Some(Duration::from_secs(3)));
        assert_eq!((memory.not_before, memory.failures, memory.pages_known), (Timestamp::from_secs(9), 2, 5));
        assert!(!hosts.robots(&host).unwrap().unwrap().verdict("/x/y").is_allowed());
        hosts.forget(&host).unwrap();
        assert_eq!(hosts.enter(&host, 0).unwrap().robots_valid_until, None);
    }

    #[test]
    fn a_host_speaks_the_language_of_most_of_its_pages() {
        let dir = tempfile::tempdir().unwrap();
        let tables = Arc::new(LocalTables::open(&dir.path().join("t")).unwrap());
        let host = Host::parse("http://h/").unwrap();
        let mut hosts = Hosts::open(tables.clone(), "farol").unwrap();
        hosts.enter(&host, 0).unwrap();
        for language in ["gl", "pt", "gl", "es", "gl"] {
            hosts.spoke(&host, Language::parse(language).unwrap());
        }
        hosts.write(PagePosition { file: 0, offset: 1 }).unwrap();
        let row = Hosts::open(tables, "farol").unwrap().row(&host).unwrap();
        assert_eq!(row.language(), Some(*b"gl"));
        assert_eq!(HostRow::default().language(), None);
    }

    #[test]
    fn connections_are_measured_and_a_host_that_moves_is_measured_anew() {
        let dir = tempfile::tempdir().unwrap();
        let tables = Arc::new(LocalTables::open(&dir.path().join("t")).unwrap());
        let host = Host::parse("http://h/").unwrap();
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let at = Timestamp::from_secs(1_700_000_000);
        let mut hosts = Hosts::open(tables.clone(), "farol").unwrap();
        hosts.enter(&host, 0).unwrap();
        (0..3).for_each(|_| hosts.connected(&host, address(1), Duration::from_millis(500), at).unwrap());
        (0..40).for_each(|_| hosts.connected(&host, address(2), Duration::from_millis(20), at).unwrap());
        hosts.write(PagePosition { file: 0, offset: 1 }).unwrap();
        let row = Hosts::open(tables, "farol").unwrap().row(&host).unwrap();
        assert_eq!((row.address, row.connects.len()), (Some(address(2)), CONNECTS_MAX));
        assert_eq!(row.round_trips().median(at, Duration::from_secs(60)), Some((20.0, true)));
    }

    #[test]
    fn two_hundred_hosts_with_hostile_rules_stay_within_the_budget_and_are_obeyed() {
        let dir = tempfile::tempdir().unwrap();
        let tables = Arc::new(LocalTables::open(&dir.path().join("t")).unwrap());
        let mut hosts = Hosts::open(tables, "farol").unwrap();
        let rules = (0..25_000).map(|i| format!("Disallow: /{i:08}\n")).collect::<String>();
        let file = format!("User-agent: *\n{rules}").into_bytes();
        let parsed = Robots::parse(&file, "farol");
        let host = |i: usize| Host::parse(&format!("http://h{i}.test/")).unwrap();
        for i in 0..200 {
            hosts.enter(&host(i), 0).unwrap();
            hosts.set_robots(&host(i), 200, &file, parsed.clone(), Timestamp::from_secs(1)).unwrap();
            assert!(hosts.rules_bytes() <= RULES_MEMORY_MAX);
            let waiting = hosts.changed.values().flatten().map(Vec::len).sum::<usize>();
            assert_eq!(hosts.unwritten_bytes, waiting);
            assert!(waiting <= UNWRITTEN_BYTES_MAX);
        }
        // The first ones had to go, and are read again.
        for i in [0, 1, 199] {
            assert!(!hosts.robots(&host(i)).unwrap().unwrap().verdict("/00000007/x").is_allowed());
            assert!(hosts.robots(&host(i)).unwrap().unwrap().verdict("/x").is_allowed());
        }
        (0..200).for_each(|i| hosts.leave(&host(i)));
        hosts.write(PagePosition { file: 0, offset: 1 }).unwrap();
        assert_eq!((hosts.loaded.len(), hosts.rules_bytes()), (0, 0), "who has left is forgotten");
    }
}
