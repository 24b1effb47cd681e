//! What came of each seed, and where seeds were moved to.
//!
//! A seed that redirects stands for the page that its redirects lead to: what comes of that page comes of the seed. Two
//! things can be wrong, its host (no address, no robots.txt) and its page (no such page, nothing to follow); what is
//! wrong with the host is said first, and forgotten when the host answers.
//!
//! Kept in the fabric's tables, so that a crawl that has ended can still be asked. Where seeds were moved to is written at
//! once, because it says how far the crawl goes; the rest every few seconds.

use crate::fabric::{Table, Tables};
use anyhow::Result;
use farol_base::status::{SeedReport, SeedState, SeedSummary};
use farol_base::{CanonicalUrl, Host, PageId, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Places that a seed was moved to which are remembered; redirects that change all the time do not fill the table.
const MOVES_MAX: usize = 16;
/// Seeds that are told of one by one.
const REPORTS_MAX: usize = 100;
/// Longest detail that is kept: rules and certificates can be long.
const DETAIL_CHARS_MAX: usize = 200;

/// What was found out, and when.
#[derive(Clone, Debug, Default, PartialEq)]
struct Finding {
    state: SeedState,
    detail: String,
    at: Option<Timestamp>,
}

struct Seed {
    url: CanonicalUrl,
    /// Where redirects led, the newest last.
    moves: Vec<CanonicalUrl>,
    of_page: Finding,
    of_host: Option<Finding>,
    /// Until then its server asked us to wait.
    asked_to_wait: Timestamp,
}

impl Seed {
    fn new(url: CanonicalUrl) -> Seed {
        Seed {
            url,
            moves: Vec::new(),
            of_page: Finding::default(),
            of_host: None,
            asked_to_wait: Timestamp::EPOCH,
        }
    }

    /// The page that it stands for.
    fn page(&self) -> &CanonicalUrl {
        self.moves.last().unwrap_or(&self.url)
    }

    fn finding(&self) -> &Finding {
        self.of_host.as_ref().unwrap_or(&self.of_page)
    }

    fn report(&self) -> SeedReport {
        let finding = self.finding();
        SeedReport {
            url: self.url.clone(),
            leads_to: self.moves.last().cloned(),
            state: finding.state,
            detail: finding.detail.clone(),
            at: finding.at,
        }
    }
}

/// A seed in the table.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct SeedRow {
    moves: Vec<String>,
    state: String,
    detail: String,
    at_ms: u64,
    /// It is the host that is in this state, not the page.
    of_host: bool,
    wait_until_ms: u64,
}

/// All seeds with what came of them.
pub struct Seeds {
    tables: Arc<dyn Tables>,
    seeds: Vec<Seed>,
    /// Seeds by their own page and by all those that they were moved to.
    by_page: HashMap<PageId, Vec<usize>>,
    /// Seeds by the host of the page that they stand for, and of those on the way there.
    by_host: HashMap<Host, Vec<usize>>,
    unwritten: BTreeSet<usize>,
    has_news: bool,
}

impl Seeds {
    /// Opens the table of these seeds.
    pub fn open(tables: Arc<dyn Tables>, named: &[CanonicalUrl]) -> Result<Seeds> {
        let mut seeds = Seeds {
            tables,
            seeds: Vec::new(),
            by_page: HashMap::new(),
            by_host: HashMap::new(),
            unwritten: BTreeSet::new(),
            has_news: true,
        };
        for url in named {
            seeds.add(url)?;
        }
        Ok(seeds)
    }

    /// Adds a seed, with what the table says of it.
    pub fn add(&mut self, url: &CanonicalUrl) -> Result<()> {
        if self.seeds_of(url).any(|at| self.seeds[at].url == *url) {
            return Ok(());
        }
        let bytes = self.tables.get(Table::Seeds, url.as_str())?;
        // A row that cannot be read is no row: the seed is visited again, and tells.
        let row: Option<SeedRow> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let mut seed = Seed::new(url.clone());
        if let Some(row) = row {
            let finding = Finding {
                state: SeedState::from_code(&row.state).unwrap_or_default(),
                detail: row.detail,
                at: (row.at_ms > 0).then(|| Timestamp::from_millis(row.at_ms)),
            };
            match row.of_host {
                true => seed.of_host = Some(finding),
                false => seed.of_page = finding,
            }
            seed.moves = row.moves.iter().filter_map(|to| CanonicalUrl::parse(to).ok()).collect();
            seed.asked_to_wait = Timestamp::from_millis(row.wait_until_ms);
        }
        let at = self.seeds.len();
        let pages: Vec<CanonicalUrl> = std::iter::once(url).chain(&seed.moves).cloned().collect();
        self.seeds.push(seed);
        pages.iter().for_each(|page| self.stands_for(at, page));
        self.has_news = true;
        Ok(())
    }

    /// Forgets the seeds of a host.
    pub fn remove_host(&mut self, host: &Host) -> Result<()> {
        let gone: Vec<&Seed> = self.seeds.iter().filter(|seed| seed.url.host() == *host).collect();
        let entries: Vec<(Table, &str, &[u8])> =
            gone.iter().map(|seed| (Table::Seeds, seed.url.as_str(), &b""[..])).collect();
        self.tables.put(&entries)?;
        self.write()?;
        let left: Vec<CanonicalUrl> =
            self.seeds.iter().filter(|seed| seed.url.host() != *host).map(|seed| seed.url.clone()).collect();
        *self = Seeds::open(self.tables.clone(), &left)?;
        Ok(())
    }

    /// Every page that a seed was moved to.
    pub fn moves(&self) -> impl Iterator<Item = &CanonicalUrl> {
        self.seeds.iter().flat_map(|seed| &seed.moves)
    }

    /// Whether a page is a seed, or one that a seed was moved to.
    pub fn has(&self, page: &CanonicalUrl) -> bool {
        self.by_page.contains_key(&page.id())
    }

    /// Notes that a page which a seed stands for has moved; it is for the caller to widen the scope. Survives a crash
    /// once this returns.
    pub fn moved(&mut self, from: &CanonicalUrl, to: &CanonicalUrl, at: Timestamp) -> Result<()> {
        for seed in self.seeds_of(from).collect::<Vec<_>>() {
            let is_home = self.seeds[seed].url == *to;
            let moves = &mut self.seeds[seed].moves;
            // The newest is last, because it is the one that counts.
            moves.retain(|known| known != to);
            if moves.len() >= MOVES_MAX {
                moves.remove(0);
            }
            if !is_home {
                moves.push(to.clone());
            }
            self.stands_for(seed, to);
            self.found(seed, Finding { state: SeedState::Waiting, detail: String::new(), at: Some(at) });
        }
        self.write()
    }

    /// Notes what came of a page, where a seed stands for it.
    pub fn page(&mut self, page: &CanonicalUrl, state: SeedState, detail: &str, at: Timestamp) {
        for seed in self.seeds_of(page).collect::<Vec<_>>() {
            // What is on the way says nothing of where it leads.
            if self.seeds[seed].page() == page {
                self.found(seed, Finding { state, detail: shortened(detail), at: Some(at) });
            }
        }
    }

    /// Notes what is wrong with a host, and how long it asked us to wait.
    pub fn host(&mut self, host: &Host, state: SeedState, detail: &str, at: Timestamp, wait: Timestamp) {
        for seed in self.by_host.get(host).cloned().unwrap_or_default() {
            let stands_there = self.seeds[seed].page().host() == *host;
            if stands_there {
                let finding = Finding { state, detail: shortened(detail), at: Some(at) };
                let before = &self.seeds[seed].of_host;
                let is_news = before.as_ref().is_none_or(|before| before.state != state);
                self.has_news |= is_news || before.as_ref().is_some_and(|b| b.detail != finding.detail);
                self.seeds[seed].of_host = Some(finding);
                self.seeds[seed].asked_to_wait = wait;
                self.unwritten.insert(seed);
            }
        }
    }

    /// Notes that a host answers, and, where `page` is a page of it that came, that its seeds are no dead ends.
    pub fn answers(&mut self, host: &Host, page: Option<&CanonicalUrl>) {
        let Some(seeds) = self.by_host.get(host) else { return };
        for at in seeds {
            let seed = &mut self.seeds[*at];
            let leads_on = page.is_some_and(|page| *page != *seed.page()) && seed.page().host() == *host;
            let is_more = leads_on && seed.of_page.state.is_dead_end();
            if is_more {
                seed.of_page.state = SeedState::Fine;
            }
            if is_more || seed.of_host.take().is_some() {
                self.has_news = true;
                self.unwritten.insert(*at);
            }
        }
    }

    /// Whether a seed is in trouble: the page that it stands for, and until when its server asked us to wait. From now on
    /// it waits to be visited.
    pub fn wake(&mut self, url: &CanonicalUrl) -> Option<(CanonicalUrl, SeedState, Timestamp)> {
        let at = self.seeds_of(url).find(|at| self.seeds[*at].url == *url)?;
        let state = self.seeds[at].finding().state;
        if !state.is_trouble() {
            return None;
        }
        let seed = &mut self.seeds[at];
        seed.of_host = None;
        seed.of_page = Finding::default();
        self.has_news = true;
        self.unwritten.insert(at);
        let seed = &self.seeds[at];
        Some((seed.page().clone(), state, seed.asked_to_wait))
    }

    /// Whether a seed stands for this page and nothing is known of it.
    pub fn is_waiting(&self, page: &CanonicalUrl) -> bool {
        self.seeds_of(page).any(|at| self.seeds[at].finding().state == SeedState::Waiting)
    }

    /// All seeds, where something has changed since this was last asked.
    pub fn news(&mut self) -> Option<SeedSummary> {
        std::mem::take(&mut self.has_news).then(|| self.summary())
    }

    /// All seeds, those with trouble first.
    pub fn summary(&self) -> SeedSummary {
        let of = |state: SeedState| move |seed: &&Seed| seed.finding().state == state;
        let troubled = self.seeds.iter().filter(|seed| seed.finding().state.is_trouble());
        let others = self.seeds.iter().filter(|seed| !seed.finding().state.is_trouble());
        SeedSummary {
            total: self.seeds.len() as u64,
            fine: self.seeds.iter().filter(of(SeedState::Fine)).count() as u64,
            waiting: self.seeds.iter().filter(of(SeedState::Waiting)).count() as u64,
            reports: troubled.chain(others).take(REPORTS_MAX).map(Seed::report).collect(),
        }
    }

    /// Writes what has changed.
    pub fn write(&mut self) -> Result<()> {
        let rows: Vec<(String, Vec<u8>)> = std::mem::take(&mut self.unwritten)
            .into_iter()
            .map(|at| {
                let seed = &self.seeds[at];
                let finding = seed.finding();
                let row = SeedRow {
                    moves: seed.moves.iter().map(ToString::to_string).collect(),
                    state: finding.state.code().to_string(),
                    detail: finding.detail.clone(),
                    at_ms: finding.at.map_or(0, Timestamp::as_millis),
                    of_host: seed.of_host.is_some(),
                    wait_until_ms: seed.asked_to_wait.as_millis(),
                };
                Ok((seed.url.to_string(), serde_json::to_vec(&row)?))
            })
            .collect::<Result<_>>()?;
        let entries: Vec<(Table, &str, &[u8])> =
            rows.iter().map(|(url, row)| (Table::Seeds, url.as_str(), &row[..])).collect();
        if entries.is_empty() { Ok(()) } else { self.tables.put(&entries) }
    }

    fn seeds_of(&self, page: &CanonicalUrl) -> impl Iterator<Item = usize> + use<> {
        self.by_page.get(&page.id()).cloned().unwrap_or_default().into_iter()
    }

    fn stands_for(&mut self, seed: usize, page: &CanonicalUrl) {
        let seeds = self.by_page.entry(page.id()).or_default();
        if !seeds.contains(&seed) {
            seeds.push(seed);
        }
        let seeds = self.by_host.entry(page.host()).or_default();
        if !seeds.contains(&seed) {
            seeds.push(seed);
        }
    }

    fn found(&mut self, seed: usize, finding: Finding) {
        let known = &mut self.seeds[seed];
        let is_news = known.of_host.is_some()
            || (known.of_page.state, &known.of_page.detail) != (finding.state, &finding.detail);
        known.of_host = None;
        known.of_page = finding;
        self.has_news |= is_news;
        self.unwritten.insert(seed);
    }
}

fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().filter(|c| !c.is_control()).take(DETAIL_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::LocalTables;

    fn url(text: &str) -> CanonicalUrl {
        CanonicalUrl::parse(text).unwrap()
    }

    fn opened(dir: &tempfile::TempDir, seeds: &[&str]) -> Seeds {
        let tables = Arc::new(LocalTables::open(&dir.path().join("t")).unwrap());
        let seeds: Vec<CanonicalUrl> = seeds.iter().map(|seed| url(seed)).collect();
        Seeds::open(tables, &seeds).unwrap()
    }

    fn told(seeds: &Seeds) -> Vec<(String, SeedState, String)> {
        let told = |report: SeedReport| (report.url.to_string(), report.state, report.detail);
        seeds.summary().reports.into_iter().map(told).collect()
    }

    const AT: Timestamp = Timestamp::from_secs(100);

    #[test]
    fn a_seed_is_what_its_redirects_lead_to_across_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b, c) = (url("http://a.org/"), url("https://a.org/"), url("https://www.a.org/home"));
        {
            let mut seeds = opened(&dir, &["http://a.org/"]);
            assert!(!seeds.has(&b));
            seeds.moved(&a, &b, AT).unwrap();
            seeds.moved(&b, &c, AT).unwrap();
            // What is on the way is not what counts.
            seeds.page(&b, SeedState::NotFound, "404", AT);
            seeds.page(&c, SeedState::NoIndex, "", AT);
            seeds.write().unwrap();
        }
        let mut seeds = opened(&dir, &["http://a.org/"]);
        assert!([&a, &b, &c].into_iter().all(|page| seeds.has(page)));
        assert_eq!(seeds.moves().collect::<Vec<_>>(), [&b, &c]);
        let report = seeds.summary().reports.remove(0);
        assert_eq!(
            (report.leads_to, report.state, report.at),
            (Some(c.clone()), SeedState::NoIndex, Some(AT))
        );
        // Redirects that go round in circles end at the newest, and the table does not fill up.
        for n in 0..100 {
            seeds.moved(&c, &url(&format!("http://r{n}.org/")), AT).unwrap();
            seeds.moved(&url(&format!("http://r{n}.org/")), &c, AT).unwrap();
        }
        assert!(seeds.moves().count() <= MOVES_MAX);
        assert_eq!(seeds.summary().reports[0].leads_to, Some(c));
    }

    #[test]
    fn trouble_of_the_host_is_said_until_it_answers() {
        let dir = tempfile::tempdir().unwrap();
        let mut seeds = opened(&dir, &["http://a.org/", "http://b.org/"]);
        let (a, host) = (url("http://a.org/"), url("http://a.org/").host());
        seeds.page(&a, SeedState::NoLinks, "", AT);
        seeds.host(&host, SeedState::NoSuchName, "NXDOMAIN\nmore", AT, Timestamp::EPOCH);
        assert_eq!(told(&seeds)[0], ("http://a.org/".into(), SeedState::NoSuchName, "NXDOMAIN".into()));
        assert_eq!(seeds.summary().troubled(), 1);
        seeds.answers(&host, None);
        assert_eq!(told(&seeds)[0].1, SeedState::NoLinks);
        seeds.answers(&host, Some(&a));
        assert_eq!(told(&seeds)[0].1, SeedState::NoLinks, "the seed itself leads nowhere");
        seeds.answers(&host, Some(&url("http://a.org/x")));
        assert_eq!(seeds.summary().troubled(), 0, "other pages come by another way");
    }

    #[test]
    fn a_seed_in_trouble_can_be_woken_and_a_removed_one_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let mut seeds = opened(&dir, &["http://a.org/", "http://b.org/"]);
        let a = url("http://a.org/");
        assert_eq!(seeds.wake(&a), None);
        seeds.host(&a.host(), SeedState::Busy, "503", AT, Timestamp::from_secs(200));
        assert_eq!(seeds.wake(&a), Some((a.clone(), SeedState::Busy, Timestamp::from_secs(200))));
        assert_eq!(told(&seeds)[0].1, SeedState::Waiting);
        seeds.remove_host(&a.host()).unwrap();
        assert_eq!(told(&seeds).len(), 1);
        assert!(!seeds.has(&a));
    }
}
