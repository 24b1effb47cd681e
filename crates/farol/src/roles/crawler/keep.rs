//! Writes down what visits brought: URLs, links, documents, robots rules.
//!
//! The archive is the log. What stands here is applied after it, in its order, both live and when the log is
//! read again after a crash; applying something twice changes nothing.

use super::hosts::Hosts;
use super::linker::Linker;
use super::reading::{Meaning, Reading};
use super::revisit::{Facts, Revisits};
use super::scope::Scope;
use crate::fabric::{Change, Fabric};
use crate::roles::clicks::ClickBook;
use anyhow::Result;
use farol_base::fingerprint::hash64;
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, ContentHash, Document, Host, PageId, PagePosition, Timestamp};
use farol_frontier::trap::{HostShape, TrapRules, TrapVerdict};
use farol_links::OutLink;
use farol_store::urls::{Found, Record, UrlStore, Visit, VisitOutcome};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// Targets of redirects whose hops are counted at once: 100,000 × 24 bytes = 2.4 MB.
const HOPS_KEPT_MAX: usize = 100_000;

/// Everything that is written besides the archive.
pub struct Keep {
    pub urls: Box<dyn UrlStore>,
    pub linker: Linker,
    pub clicks: Arc<ClickBook>,
    pub hosts: Hosts,
    pub fabric: Arc<dyn Fabric>,
    pub scope: Scope,
    pub traps: TrapRules,
    pub shapes: Shapes,
    pub revisits: Revisits,
    pub depth_max: u16,
    pub redirects_max: u8,
    /// How many redirects in a row led to a page that is still to be visited.
    pub hops: HashMap<PageId, u8>,
    /// Whether somebody takes documents in.
    pub indexing: bool,
    /// While damaged parts of the URL store are built anew: only hosts with these hashes.
    pub only: Option<Vec<std::ops::RangeInclusive<u64>>>,
    /// Called about once a second while the disk is full.
    pub on_full_disk: Box<dyn Fn(&str) + Send>,
    /// The time, as far as judging links is concerned; set by whoever writes.
    pub now: Timestamp,
}

/// What the sites look like, to tell endless ones; learnt anew after a restart.
#[derive(Default)]
pub struct Shapes {
    hosts: HashMap<Host, HostShape>,
    /// Texts seen so far, by a part of their fingerprint.
    texts: HashSet<u64>,
}

/// Hosts whose shape is remembered at once: 20,000 × about 1.5 KiB = 30 MB at worst.
const SHAPES_MAX: usize = 20_000;
/// Texts remembered at once: 1,000,000 × about 16 bytes = 16 MB.
const TEXTS_MAX: usize = 1_000_000;

impl Shapes {
    /// The shape of a host; of one that is not remembered only the number of pages is known.
    fn of(&mut self, host: &Host, pages_known: impl FnOnce() -> u64) -> &mut HostShape {
        if self.hosts.len() >= SHAPES_MAX && !self.hosts.contains_key(host) {
            self.hosts.clear();
        }
        self.hosts.entry(host.clone()).or_insert_with(|| HostShape::new(pages_known()))
    }

    /// Whether a page with this text was seen before.
    fn is_repeated(&mut self, hash: ContentHash) -> bool {
        if self.texts.len() >= TEXTS_MAX {
            self.texts.clear();
        }
        !self.texts.insert(hash.0 as u64)
    }
}

/// A visit as the archive tells it.
pub struct Kept<'a> {
    pub url: &'a CanonicalUrl,
    pub status: u16,
    pub fetched: Timestamp,
    pub download: Duration,
    pub position: PagePosition,
    /// The body, for a robots.txt.
    pub robots: Option<&'a [u8]>,
}

/// Which readers of the archive still want a record; all of them while crawling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct For {
    pub urls: bool,
    pub links: bool,
    pub hosts: bool,
    pub index: bool,
}

impl For {
    pub const ALL: For = For { urls: true, links: true, hosts: true, index: true };
}

impl Keep {
    /// Takes one archived answer in.
    pub fn apply(&mut self, kept: &Kept<'_>, mut reading: Reading, wanted: For) -> Result<()> {
        if matches!(reading.meaning, Meaning::Robots) {
            return self.apply_robots(kept, wanted);
        }
        if self.scope.is_removed(&kept.url.host()) {
            return Ok(());
        }
        if wanted.links {
            self.apply_links(kept, &mut reading)?;
        }
        if wanted.urls {
            let before = self.urls.get(kept.url)?;
            let hops = self.hops.remove(&kept.url.id()).unwrap_or(0);
            match &reading.meaning {
                Meaning::Redirect(_) if hops >= self.redirects_max => {}
                Meaning::Redirect(to) => {
                    if self.hops.len() < HOPS_KEPT_MAX {
                        self.hops.insert(to.id(), hops + 1);
                    }
                    self.find(reading.found)?;
                }
                _ => {
                    self.find(reading.found)?;
                }
            }
            if let Meaning::Page(page) = &reading.meaning {
                let repeated = self.shapes.is_repeated(page.content_hash);
                let (urls, host) = (&self.urls, kept.url.host());
                let known = || urls.host_counts(&host).map_or(0, |counts| counts.known);
                self.shapes.of(&host, known).fetched(kept.url, repeated);
            }
            if self.wants(kept.url) {
                let visit = self.visit_of(kept, &reading.meaning, before.as_ref());
                self.urls.visited(kept.url, &visit)?;
            }
        }
        match change_of(kept.url, kept.position, reading.meaning) {
            Some(change) if wanted.index && self.indexing => self.fabric.send(change),
            _ => Ok(()),
        }
    }

    /// Notes addresses to visit: those in scope that do not look like a trap.
    pub fn find(&mut self, mut found: Vec<Found>) -> Result<()> {
        let mut judged = super::scope::Judged::default();
        found.retain(|found| {
            (self.depth_max == 0 || found.depth <= self.depth_max)
                && self.scope.contains_too(&found.url, &mut judged)
        });
        if self.only.is_some() {
            found.retain(|found| self.wants(&found.url));
        }
        // Only what is new can lead into a trap; what is known has passed before.
        let mut fine = Vec::with_capacity(found.len());
        for one in found {
            if self.urls.knows(&one.url) || self.admits(&one.url) {
                fine.push(one);
            }
        }
        Ok(self.urls.found(&fine)?)
    }

    /// Whether the URL store is to note anything of this URL.
    fn wants(&self, url: &CanonicalUrl) -> bool {
        self.only.as_ref().is_none_or(|ranges| {
            let hash = hash64(url.host_str().as_bytes());
            ranges.iter().any(|range| range.contains(&hash))
        })
    }

    fn admits(&mut self, url: &CanonicalUrl) -> bool {
        let host = url.host();
        let urls = &self.urls;
        let shape = self.shapes.of(&host, || urls.host_counts(&host).map_or(0, |counts| counts.known));
        let fine = matches!(self.traps.verdict(self.now, url, shape), TrapVerdict::Fine);
        if fine {
            shape.pages_known += 1;
            shape.admitted(url);
        }
        fine
    }

    /// Records a page that was not asked for because robots.txt forbids it.
    pub fn refused(&mut self, url: &CanonicalUrl, now: Timestamp, again: Timestamp) -> Result<()> {
        let known = self.urls.get(url)?;
        let visit = self.missed(url, now, known.as_ref(), VisitOutcome::Refused);
        self.urls.visited(url, &Visit { due: again, ..visit })?;
        if self.indexing && known.is_some_and(|record| record.position.is_some()) {
            self.fabric.send(Change::Delete(url.clone()))?;
        }
        Ok(())
    }

    /// Records a page that could not be had, however often it was tried.
    pub fn failed(&mut self, url: &CanonicalUrl, now: Timestamp) -> Result<()> {
        let before = self.urls.get(url)?;
        let visit = self.missed(url, now, before.as_ref(), VisitOutcome::Failed);
        Ok(self.urls.visited(url, &visit)?)
    }

    /// Forgets a host and its pages.
    pub fn remove_host(&mut self, host: &Host) -> Result<u64> {
        self.scope.remove_host(host.clone());
        let forgotten = self.urls.delete_host(host)?;
        self.revisits.forget(host);
        self.hosts.forget(host)?;
        if self.indexing {
            self.fabric.send(Change::DeleteHost(host.clone()))?;
        }
        Ok(forgotten)
    }

    /// Makes what was applied survive a crash, as of this position of the archive.
    pub fn flush(&mut self, upto: PagePosition) -> Result<()> {
        self.urls.mark(upto)?;
        self.patiently(|keep| Ok(keep.urls.flush()?))?;
        self.linker.upto(upto)?;
        if self.indexing {
            self.fabric.send(Change::Upto(upto))?;
        }
        Ok(())
    }

    /// Does something that needs room on the disk, as often as it takes: nothing that was fetched is lost.
    fn patiently(&mut self, mut work: impl FnMut(&mut Keep) -> Result<()>) -> Result<()> {
        loop {
            match work(self) {
                Err(error) if is_disk_full(&error) => {
                    (self.on_full_disk)(&format!(
                        "no room on the disk: {error:#}; make room and crawling goes on"
                    ));
                    std::thread::sleep(Duration::from_secs(1));
                }
                result => return result,
            }
        }
    }

    fn apply_robots(&mut self, kept: &Kept<'_>, wanted: For) -> Result<()> {
        let Some(body) = kept.robots else { return Ok(()) };
        let host = kept.url.host();
        if !wanted.hosts && !wanted.urls {
            return Ok(());
        }
        let robots = self.hosts.set_robots(&host, kept.status, body, kept.fetched)?;
        if wanted.urls {
            let maps = robots.sitemaps().iter().filter_map(|map| kept.url.join(map).ok());
            let found = maps.map(|url| Found { url, depth: 0, hint: None }).collect();
            self.find(found)?;
        }
        Ok(())
    }

    fn apply_links(&mut self, kept: &Kept<'_>, reading: &mut Reading) -> Result<()> {
        match &reading.meaning {
            Meaning::Page(_) => {
                let out: Vec<OutLink> = std::mem::take(&mut reading.links)
                    .into_iter()
                    .map(|link| OutLink {
                        target: link.url.id(),
                        target_host: link.url.host_hash(),
                        anchor: link.anchor,
                        nofollow: link.nofollow,
                    })
                    .collect();
                let host = kept.url.host_hash();
                self.linker.put(kept.url.id(), host, out, kept.position)
            }
            Meaning::Gone | Meaning::Redirect(_) => self.linker.remove(kept.url.id()),
            Meaning::NotModified | Meaning::List | Meaning::Robots => Ok(()),
        }
    }

    fn visit_of(&mut self, kept: &Kept<'_>, meaning: &Meaning, before: Option<&Record>) -> Visit {
        let (outcome, hash) = match meaning {
            Meaning::Page(page) => (VisitOutcome::Page, page.content_hash),
            Meaning::List | Meaning::Robots => (VisitOutcome::Page, ContentHash::default()),
            Meaning::NotModified => {
                (VisitOutcome::Unchanged, before.map_or(ContentHash::default(), |record| record.content_hash))
            }
            Meaning::Redirect(_) => (VisitOutcome::Redirect, ContentHash::default()),
            Meaning::Gone => (VisitOutcome::Gone, ContentHash::default()),
        };
        let changed = match before {
            Some(record) => outcome != VisitOutcome::Unchanged && record.content_hash != hash,
            None => true,
        };
        let (memo, due) = self.revisits.visited(&Facts {
            url: kept.url,
            now: kept.fetched,
            before,
            outcome,
            changed,
            // A list has no text to compare.
            is_page: hash != ContentHash::default(),
            modified: match meaning {
                Meaning::Page(page) => page.modified,
                _ => None,
            },
            delay: self.hosts.crawl_delay(&kept.url.host()),
            rank: self.linker.ranks().page(kept.url.id()),
            clicks: self.clicks.factor(kept.url.id(), kept.fetched),
        });
        Visit {
            content_hash: hash,
            changed,
            // An unchanged page is kept where its last full copy is.
            position: (outcome != VisitOutcome::Unchanged).then_some(kept.position),
            download: kept.download,
            due,
            memo,
            ..blank(kept.fetched, outcome)
        }
    }

    /// A visit that brought nothing: when to try again, and what to remember.
    fn missed(
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
            delay: None,
            rank: 0.0,
            clicks: 1.0,
        };
        let (memo, due) = self.revisits.visited(&facts);
        Visit { due, memo, ..blank(now, outcome) }
    }
}

/// What an answer means for the index; an unchanged page is no news.
pub fn change_of(url: &CanonicalUrl, position: PagePosition, meaning: Meaning) -> Option<Change> {
    match meaning {
        Meaning::Page(page) => Some(match page.document {
            Some(document) => Change::Put(Box::new(Document { position, ..document })),
            None => Change::Delete(url.clone()),
        }),
        Meaning::Gone | Meaning::Redirect(_) => Some(Change::Delete(url.clone())),
        Meaning::NotModified | Meaning::List | Meaning::Robots => None,
    }
}

/// Whether room on the disk would help.
pub fn is_disk_full(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|io| {
        matches!(io.kind(), std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded)
    })
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

/// A poisoned lock means that a thread died while it held the links, or what is told of them; what is on disk is still
/// right.
pub fn lock<T>(links: &Mutex<T>) -> MutexGuard<'_, T> {
    links.lock()
}
