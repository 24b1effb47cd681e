//! The followers of the archive: URL store, link graph, hosts' table and index, written after it and in its order.
//!
//! The archive is the log. What stands here is applied after it, in its order, both live and when the log is
//! read again after a crash; applying something twice changes nothing.

use super::change::{change_of, links_of};
use super::confirmed;
use super::crawl_view::CrawlView;
use super::hosts::Hosts;
use super::interpret::{Interpreted, Moved, PageOutcome};
use super::linker::Linker;
use super::places::Places;
use super::revisit::{Facts, Revisits};
use super::scope::{Judged, Scope};
use super::seeds::Seeds;
use super::shapes::Shapes;
use crate::clicks::ClickCounts;
use crate::config::Config;
use crate::disk::{OnFullDisk, until_room};
use crate::exchange::Exchange;
use crate::fabric::{Change, Fabric};
use crate::handles::left::LeftParts;
use crate::handover::import::{ParcelImporter, WholeHost};
use crate::operator::OperatorState;
use anyhow::Result;
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Clock, ContentHash, Host, PageId, PagePosition, SystemClock, Timestamp};
use farol_frontier::trap::{HostShape, NamedBy, PageGrowth, Trap, TrapRules, TrapVerdict};
use farol_links::Links;
use farol_parse::robots::Robots;
use farol_store::pages::{Archive, ArchiveReader};
use farol_store::urls::{Found, Record, State, UrlStore, Visit, VisitOutcome};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Targets of redirects, and of pages that name another address as theirs, whose hops are counted at once: 100,000 × 24 bytes = 2.4 MB.
const HOPS_KEPT_MAX: usize = 100_000;

/// Everything that is written besides the archive.
pub struct Followers {
    pub urls: Box<dyn UrlStore>,
    pub linker: Linker,
    pub hosts: Hosts,
    pub revisits: Revisits,
    pub clicks: Arc<ClickCounts>,
    pub fabric: Fabric,
    /// Takes what is another agent's, in a cluster.
    pub exchange: Option<Exchange>,
    /// What is left to engines of other owners.
    pub left: LeftParts,
    /// Takes hosts in that other agents hand over, and those of which everything has come.
    pub importer: Option<ParcelImporter>,
    pub(super) whole: Vec<WholeHost>,
    /// Least time between two requests to a server.
    pub(super) delay_min: Duration,
    /// Called about once a second while the disk is full; at first nobody waits for room.
    pub on_full_disk: OnFullDisk,
    /// The time, as far as judging links is concerned; set by the caller before it writes.
    pub now: Timestamp,
    /// While damaged parts of the URL store are built anew: only hosts with these hashes.
    pub(super) only: Option<Vec<std::ops::RangeInclusive<u64>>>,
    pub(super) operator: OperatorState,
    pub(super) scope: Scope,
    /// What came of the seeds.
    pub seeds: Seeds,
    pub(super) traps: TrapRules,
    pub(super) shapes: Shapes,
    depth_max: u16,
    redirects_max: u8,
    /// How many redirects, or pages that name another address as theirs, led in a row to a page that is still to be visited.
    hops: HashMap<PageId, u8>,
    /// Whether somebody takes documents in.
    pub(super) indexing: bool,
    /// Whether somebody takes links as well, for a graph that is larger than this process's own.
    pub exports_links: bool,
}

/// A visit as the archive tells it.
pub struct ArchivedVisit<'a> {
    pub url: &'a CanonicalUrl,
    pub status: u16,
    pub fetched: Timestamp,
    pub download: Duration,
    pub position: PagePosition,
    /// The body, for a robots.txt.
    pub robots: Option<&'a [u8]>,
    /// The least time between two requests to its host that was in force, where somebody was there to say.
    pub pace: Option<Duration>,
    /// It was not asked for but received of another engine.
    pub received: bool,
}

/// Which followers of the archive still want a record; all of them while crawling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowerSet {
    pub urls: bool,
    pub links: bool,
    pub hosts: bool,
    pub index: bool,
    /// Other agents, who are sent what is theirs.
    pub exchange: bool,
}

impl FollowerSet {
    pub const ALL: FollowerSet =
        FollowerSet { urls: true, links: true, hosts: true, index: true, exchange: true };
    pub const NONE: FollowerSet =
        FollowerSet { urls: false, links: false, hosts: false, index: false, exchange: false };
}

/// Where servers stand, where agreements with other engines may be about that.
fn shared_places(config: &Config) -> Result<Option<Arc<Places>>> {
    let file = &config.crawl.places;
    match config.federation.enabled && !file.is_empty() {
        true => Ok(Some(Arc::new(Places::read(Path::new(file))?))),
        false => Ok(None),
    }
}

impl Followers {
    /// Opens what is in the fabric's tables, beside a URL store and a link graph that are open. `indexing` says whether
    /// documents are taken from the fabric.
    pub fn open(
        config: &Config,
        urls: Box<dyn UrlStore>,
        links: Arc<Mutex<Links>>,
        fabric: Fabric,
        indexing: bool,
    ) -> Result<Followers> {
        let now = SystemClock.now();
        let operator = OperatorState::open(fabric.tables.clone())?;
        let mut scope = Scope::open(&config.crawl)?;
        operator.removed().keys().for_each(|host| scope.remove_host(host.clone()));
        operator.seeds().iter().for_each(|seed| scope.add_seed(seed));
        let seeds = Seeds::open(fabric.tables.clone(), operator.seeds())?;
        seeds.moves().for_each(|to| scope.widen(to));
        Ok(Followers {
            urls,
            linker: Linker::start(links)?,
            hosts: Hosts::open(fabric.tables.clone(), &config.crawl.agent)?,
            revisits: Revisits::new(config),
            clicks: Arc::new(ClickCounts::open(fabric.tables.clone(), now)?),
            fabric,
            exchange: None,
            left: LeftParts::with_places(shared_places(config)?),
            importer: None,
            whole: Vec::new(),
            delay_min: config.crawl.delay_min.get(),
            on_full_disk: Box::new(|_| false),
            now,
            only: None,
            operator,
            scope,
            seeds,
            traps: TrapRules {
                path_depth_max: config.crawl.path_depth_max,
                pages_per_host_max: config.crawl.pages_per_host_max,
                ..TrapRules::default()
            },
            shapes: Shapes::default(),
            depth_max: config.crawl.max_depth,
            redirects_max: config.crawl.redirects_max,
            hops: HashMap::new(),
            indexing,
            exports_links: false,
        })
    }

    /// Reads what the records of earlier runs say, as when a crawl begins: of revisits, and of what sites look like.
    pub fn recall(&mut self, now: Timestamp) -> Result<()> {
        let mut shapes = Shapes::default();
        self.revisits.recall(&mut *self.urls, now, &mut |host, path, record| {
            if record.content_hash != ContentHash::default()
                && let Ok(url) = host.url(path)
            {
                shapes.recall(&url, record.content_hash);
            }
        })?;
        shapes.count_pages(|host| self.urls.host_counts(host).map_or(0, |counts| counts.known));
        self.shapes = shapes;
        Ok(())
    }

    /// What is remembered of what sites look like.
    pub fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    pub(super) fn redirects_max(&self) -> u8 {
        self.redirects_max
    }

    /// What the operator has said.
    pub fn operator(&self) -> &OperatorState {
        &self.operator
    }

    /// Pauses the crawl, or lets it go on; kept across restarts.
    pub fn set_paused(&mut self, paused: bool) -> Result<()> {
        self.operator.set_paused(paused)
    }

    /// The pages that the crawl is about, where they are told by a view.
    pub fn view(&self) -> Option<Arc<CrawlView>> {
        self.scope.view().cloned()
    }

    /// Where servers stand, where what is shared or the crawl's scope asks for it.
    pub(super) fn places(&self) -> Option<&Places> {
        self.left.places().map(|places| &**places).or_else(|| self.scope.view().map(|view| view.places()))
    }

    /// Takes a seed in: the operator's table remembers it, the scope widens, and the URL store learns it.
    pub fn add_seed(&mut self, seed: &CanonicalUrl) -> Result<()> {
        self.operator.add_seed(seed)?;
        self.scope.add_seed(seed);
        self.seeds.add(seed)?;
        self.find(vec![Found { url: seed.clone(), depth: 0, hint: None }])?;
        Ok(())
    }

    /// Tells the URL store of the seeds of all runs so far, which it may not know when it was built anew.
    pub fn find_seeds(&mut self) -> Result<()> {
        let seeds = self.operator.seeds().iter();
        let found = seeds.map(|seed| Found { url: seed.clone(), depth: 0, hint: None }).collect();
        self.find(found)?;
        self.seeds_left_out();
        Ok(())
    }

    /// Whether an answer of this date is newer than all that is known of its page.
    ///
    /// Visits that brought no answer say nothing of the page: where the last one did not, the archived copy counts.
    pub fn is_news(&self, url: &CanonicalUrl, fetched: Timestamp, archive: &ArchiveReader) -> Result<bool> {
        let Some(record) = self.urls.get(url)?.filter(|record| record.visits > 0) else { return Ok(true) };
        let is_answered = record.failures == 0 && !matches!(record.state, State::Refused | State::OutOfScope);
        let newest = match record.position {
            _ if is_answered => Some(record.last_visit),
            // A copy that cannot be read is none.
            Some(position) => archive.read(position).ok().map(|copy| copy.fetched()),
            None => None,
        };
        Ok(newest.is_none_or(|newest| fetched > newest))
    }

    /// Takes one archived answer in.
    pub fn apply(
        &mut self,
        visit: &ArchivedVisit<'_>,
        mut interpreted: Interpreted,
        wanted: FollowerSet,
    ) -> Result<()> {
        if let PageOutcome::Robots(rules) = interpreted.outcome {
            return self.apply_robots(visit, *rules, wanted);
        }
        if self.scope.is_removed(&visit.url.host()) {
            return Ok(());
        }
        // What is archived of a removed page is known, and seen by nobody.
        let removed = self.operator.removal_of(visit.url).is_some();
        let wanted =
            FollowerSet { links: wanted.links && !removed, index: wanted.index && !removed, ..wanted };
        if wanted.links {
            self.apply_links(visit, &mut interpreted)?;
        }
        if wanted.exchange && !wanted.urls {
            // What is this agent's own is known already, unless hosts have changed hands.
            let moved = interpreted.moved.map(|moved| moved.to);
            self.find(interpreted.found.into_iter().chain(moved).collect())?;
            return Ok(());
        }
        if wanted.urls {
            let before = self.urls.get(visit.url)?;
            let hops = self.hops.remove(&visit.url.id()).unwrap_or(0);
            let links = interpreted.found.len();
            let is_page = matches!(interpreted.outcome, PageOutcome::Page(_));
            let (followed, growth) = self.find_on(is_page.then_some(visit.url), interpreted.found)?;
            let is_followed = hops < self.redirects_max;
            if let Some(moved) = &interpreted.moved {
                self.seed_moved(visit, moved, is_followed)?;
            } else {
                self.seed_visited(visit, &interpreted.outcome, links, followed);
            }
            if let Some(Moved { to, .. }) = interpreted.moved.filter(|_| is_followed) {
                // Beyond the limit all of them begin again, rather than the next ones being counted no more.
                if self.hops.len() >= HOPS_KEPT_MAX {
                    self.hops.clear();
                }
                self.hops.insert(to.url.id(), hops + 1);
                self.find(vec![to])?;
            }
            if let PageOutcome::Page(page) = &interpreted.outcome {
                let urls = &self.urls;
                let known = || urls.host_counts(&visit.url.host()).map_or(0, |counts| counts.known);
                if let Some(language) = page.document.as_ref().ok().and_then(|document| document.language) {
                    self.hosts.spoke(&visit.url.host(), language);
                }
                let said = before.as_ref().map(|record| record.content_hash);
                let said = said.filter(|text| *text != ContentHash::default());
                self.shapes.visited(visit.url, said, page.content_hash, known);
                if said.is_none() {
                    self.shapes.of(&visit.url.host(), known).grew(visit.url, growth);
                    if let Some(words) = page.timeless {
                        self.shapes.day(visit.url, words, known);
                    }
                }
            }
            if self.wants(visit.url) {
                let record = self.visit_of(visit, &interpreted.outcome, before.as_ref());
                self.urls.visited(visit.url, &record)?;
            }
        }
        match change_of(visit.url, visit.position, interpreted.outcome) {
            Some(change) if wanted.index && self.indexing => self.fabric.changes.send(change),
            _ => Ok(()),
        }
    }

    /// Notes addresses to visit: those in scope that do not look like a trap. Answers how many were in scope.
    pub fn find(&mut self, found: Vec<Found>) -> Result<usize> {
        Ok(self.find_on(None, found)?.0)
    }

    /// The same for what was found on a page; says also how its part of the site grew by it.
    fn find_on(&mut self, page: Option<&CanonicalUrl>, mut found: Vec<Found>) -> Result<(usize, PageGrowth)> {
        self.keep_in_scope(&mut found);
        let in_scope = found.len();
        if self.only.is_some() {
            found.retain(|found| self.wants(&found.url));
        }
        if let Some(exchange) = &mut self.exchange {
            exchange.count_between(page, &found);
            found = exchange.sort(found)?;
        }
        Ok((in_scope, self.note(page, found)?))
    }

    /// Notes addresses that are in scope and this agent's, and do not look like a trap.
    pub(super) fn note(&mut self, page: Option<&CanonicalUrl>, found: Vec<Found>) -> Result<PageGrowth> {
        // Only what is new can lead into a trap; what is known has passed before.
        let mut fine = Vec::with_capacity(found.len());
        let (mut counted, mut growth) = (HashSet::new(), PageGrowth::default());
        let from = page.map(|page| (page, page.host(), self.shape(&page.host()).part_of(page)));
        for one in found {
            let is_known = self.urls.knows(&one.url);
            let mut named = NamedBy::Outside;
            if let Some((page, host, part)) = &from
                && page.host_str() == one.url.host_str()
            {
                let is_own = self.shape(host).part_of(&one.url) == *part;
                named = if is_own { NamedBy::OwnPart } else { NamedBy::OtherPart };
                growth.count(page, &one.url, named, is_known);
            }
            let named = self.shapes.named(&one.url, named);
            if is_known || self.admits(&one.url, named, fine.len() as u64, &mut counted) {
                fine.push(one);
            }
        }
        self.urls.found(&fine)?;
        Ok(growth)
    }

    /// Leaves out what is too far from the seeds.
    pub(super) fn keep_in_scope(&self, found: &mut Vec<Found>) {
        let mut judged = Judged::default();
        let depth_max = if self.depth_max == 0 { self.traps.hops_max } else { self.depth_max };
        found.retain(|found| {
            let is_near = found.depth <= depth_max;
            let is_inside = is_near && self.scope.contains_too(&found.url, &mut judged);
            if !is_inside {
                tracing::debug!("left out: {} ({:?})", found.url, self.scope.verdict(&found.url));
            }
            is_inside
        });
    }

    fn shape(&mut self, host: &Host) -> &mut HostShape {
        let urls = &self.urls;
        self.shapes.of(host, || urls.host_counts(host).map_or(0, |counts| counts.known))
    }

    /// Whether the URL store is to note anything of this URL.
    fn wants(&self, url: &CanonicalUrl) -> bool {
        self.only.as_ref().is_none_or(|ranges| {
            let hash = url.host_hash().0;
            ranges.iter().any(|range| range.contains(&hash))
        })
    }

    /// Whether a URL that seems to be new leads into no trap. Some of those are known all the same and were counted
    /// again, so before a host is called full its pages are `counted` anew, once in a batch, of which `admitted` are not
    /// in the URL store yet.
    fn admits(
        &mut self,
        url: &CanonicalUrl,
        named: NamedBy,
        admitted: u64,
        counted: &mut HashSet<Host>,
    ) -> bool {
        let host = url.host();
        let urls = &self.urls;
        let shape = self.shapes.of(&host, || urls.host_counts(&host).map_or(0, |counts| counts.known));
        let mut verdict = self.traps.verdict(self.now, url, named, shape);
        if verdict == TrapVerdict::Refused(Trap::HostFull) && !counted.contains(&host) {
            shape.pages_known = shape.pages_known.min(urls.known_at_most(&host) + admitted);
            verdict = self.traps.verdict(self.now, url, named, shape);
            counted.insert(host);
        }
        match verdict {
            TrapVerdict::Fine => {
                shape.pages_known += 1;
                shape.admitted(url, named);
                true
            }
            TrapVerdict::Refused(trap) => {
                tracing::debug!("left out: {url} ({})", trap.name());
                false
            }
        }
    }

    /// What a URL would be refused for, were it found now.
    pub(super) fn trap(&mut self, url: &CanonicalUrl, now: Timestamp) -> Option<Trap> {
        let named = self.shapes.named(url, NamedBy::OwnPart);
        let urls = &self.urls;
        let host = url.host();
        let shape = self.shapes.of(&host, || urls.host_counts(&host).map_or(0, |counts| counts.known));
        match self.traps.verdict(now, url, named, shape) {
            TrapVerdict::Fine => None,
            TrapVerdict::Refused(trap) => Some(trap),
        }
    }

    /// Records a page that could not be had, however often it was tried.
    pub fn failed(&mut self, url: &CanonicalUrl, now: Timestamp) -> Result<()> {
        let before = self.urls.get(url)?;
        let visit = self.missed(url, now, before.as_ref(), VisitOutcome::Failed);
        Ok(self.urls.visited(url, &visit)?)
    }

    /// Forgets a host and its pages; those before this position of the archive stay out for good.
    pub fn remove_host(&mut self, host: &Host, end: PagePosition) -> Result<u64> {
        self.operator.remove_host(host, end)?;
        self.seeds.remove_host(host)?;
        self.scope.remove_host(host.clone());
        let forgotten = self.urls.delete_host(host)?;
        self.revisits.forget(host);
        self.hosts.forget(host)?;
        if self.indexing {
            self.fabric.changes.send(Change::DeleteHost(host.clone()))?;
        }
        Ok(forgotten)
    }

    /// Makes what was applied survive a crash, as of this position of the archive.
    pub fn flush(&mut self, upto: PagePosition) -> Result<()> {
        self.urls.mark(upto)?;
        until_room("what was found", &*self.on_full_disk, || Ok(self.urls.flush()?))?;
        self.linker.upto(upto)?;
        if self.indexing {
            self.fabric.changes.send(Change::Upto(upto))?;
        }
        Ok(())
    }

    /// Writes what is remembered of hosts, as of the archive's end, which is synced; and how long its files are.
    pub fn confirm(&mut self, archive: &Archive) -> Result<()> {
        if archive.end().file != self.hosts.watermark().file {
            confirmed::note(&*self.fabric.tables, &archive.lengths()?)?;
        }
        self.seeds.write()?;
        self.hosts.write(archive.end())
    }

    fn apply_robots(&mut self, visit: &ArchivedVisit<'_>, rules: Robots, wanted: FollowerSet) -> Result<()> {
        let Some(body) = visit.robots else { return Ok(()) };
        let host = visit.url.host();
        if !wanted.hosts && !wanted.urls && !wanted.exchange {
            return Ok(());
        }
        // Whatever the clock said then: no rules hold longer from now on than those of today.
        let fetched = visit.fetched.min(self.now);
        let sitemaps = self.hosts.set_robots(&host, visit.status, body, rules, fetched)?;
        if wanted.urls || wanted.exchange {
            let maps: Vec<CanonicalUrl> =
                sitemaps.iter().filter_map(|map| visit.url.join(map).ok()).collect();
            maps.iter().for_each(|map| self.scope.add_list(map));
            let found = maps.into_iter().map(|url| Found { url, depth: 0, hint: None }).collect();
            self.find(found)?;
        }
        Ok(())
    }

    fn apply_links(&mut self, visit: &ArchivedVisit<'_>, interpreted: &mut Interpreted) -> Result<()> {
        let Some(change) = links_of(visit.url, visit.position, interpreted) else { return Ok(()) };
        if self.exports_links && self.indexing {
            self.fabric.changes.send(change.clone())?;
        }
        match change {
            Change::Links { page, host, links, at } => self.linker.put(page, host, links, at),
            Change::LinksGone(page) => self.linker.remove(page),
            _ => Ok(()),
        }
    }

    fn visit_of(&mut self, visit: &ArchivedVisit<'_>, page: &PageOutcome, before: Option<&Record>) -> Visit {
        let (outcome, hash) = match page {
            PageOutcome::Page(page) => (VisitOutcome::Page, page.content_hash),
            PageOutcome::List | PageOutcome::Robots(_) => (VisitOutcome::Page, ContentHash::default()),
            PageOutcome::NotModified => {
                (VisitOutcome::Unchanged, before.map_or(ContentHash::default(), |record| record.content_hash))
            }
            PageOutcome::Redirect => (VisitOutcome::Redirect, ContentHash::default()),
            PageOutcome::Gone => (VisitOutcome::Gone, ContentHash::default()),
        };
        let changed = match before {
            Some(record) => outcome != VisitOutcome::Unchanged && record.content_hash != hash,
            None => true,
        };
        let (memo, due) = self.revisits.visited(&Facts {
            url: visit.url,
            now: visit.fetched,
            before,
            outcome,
            changed,
            // A list has no text to compare.
            is_page: hash != ContentHash::default(),
            modified: match page {
                PageOutcome::Page(page) => page.modified,
                _ => None,
            },
            pace: visit.pace.or_else(|| self.hosts.crawl_delay(&visit.url.host())),
            rank: self.linker.ranks().page(visit.url.id()),
            clicks: self.clicks.factor(visit.url.id(), visit.fetched),
        });
        // What others crawl for us is not asked for here where this crawl would not have gone.
        let is_near = || self.scope.contains_too(visit.url, &mut Judged::default());
        let due = if visit.received && !is_near() { Timestamp::NEVER } else { due };
        Visit {
            content_hash: hash,
            changed,
            // An unchanged page is kept where its last full copy is.
            position: (outcome != VisitOutcome::Unchanged).then_some(visit.position),
            download: visit.download,
            due,
            memo,
            ..blank(visit.fetched, outcome)
        }
    }

    /// A visit that brought nothing: when to try again, and what to remember.
    pub(super) fn missed(
        &mut self,
        url: &CanonicalUrl,
        now: Timestamp,
        before: Option<&Record>,
        outcome: VisitOutcome,
    ) -> Visit {
        let facts = Facts {
            url,
            now,
            before,
            outcome,
            changed: false,
            is_page: false,
            modified: None,
            pace: None,
            rank: 0.0,
            clicks: 1.0,
        };
        let (memo, due) = self.revisits.visited(&facts);
        Visit { due, memo, ..blank(now, outcome) }
    }
}

fn blank(at: Timestamp, outcome: VisitOutcome) -> Visit {
    Visit {
        at,
        outcome,
        content_hash: ContentHash::default(),
        changed: false,
        position: None,
        download: Duration::ZERO,
        due: Timestamp::NEVER,
        memo: Default::default(),
    }
}

#[cfg(test)]
#[path = "followers_tests.rs"]
mod tests;
