//! What the operator orders of single pages: to fetch them again, to remove them, to put them back.
//!
//! A removal is a line in the operator's table, and the archive stays as it is: while the line stands, whatever the
//! archive has of the page, or gets of it, reaches neither the index nor the link graph. Taking it back, what the
//! archive has counts again.

use super::change::deletion_of;
use super::followers::{FollowerSet, Followers};
use super::interpret::Interpreter;
use super::not_asked::NotAsked;
use super::replay;
use crate::page_set::PageSet;
use crate::progress::counted;
use anyhow::Result;
use farol_base::{CanonicalUrl, Host, PagePosition, Timestamp};
use farol_frontier::trap::NamedBy;
use farol_store::pages::ArchiveReader;
use farol_store::urls::{Found, Record, Walk};

/// Pages of one order that are put back at once from their archived copies; others come back when they are fetched
/// again. 1,000 × about 1 ms = 1 s in which nothing else is written.
const RESTORED_MAX: usize = 1_000;

/// Addresses of which one order has something noted at a time: 65,536 × some 200 bytes = 13 MB.
const NOTED_MAX: usize = 65_536;

/// Something to be done with pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PageOrder {
    /// Fetch them again as soon as their host may be asked.
    Refetch(PageSet),
    /// Have them found and fetched no more.
    Remove(PageSet),
    /// Take a removal back.
    Restore(PageSet),
}

/// What came of an order: a sentence on what was done, or on why it was not.
pub type OrderReply = Result<String, String>;

impl Followers {
    /// Does what was ordered of pages. The archive ends at `archive.end()`.
    ///
    /// # Errors
    /// Where something could not be written; what makes no sense is a reply.
    pub fn order_pages(
        &mut self,
        order: &PageOrder,
        now: Timestamp,
        archive: &ArchiveReader,
        interpreter: &Interpreter,
    ) -> Result<OrderReply> {
        let reply = match order {
            PageOrder::Refetch(pages) => self.refetch(pages, now)?,
            PageOrder::Remove(pages) => self.remove_pages(pages, archive.end())?,
            PageOrder::Restore(pages) => self.restore_pages(pages, now, archive, interpreter)?,
        };
        self.flush(archive.end())?;
        Ok(reply)
    }

    fn refetch(&mut self, pages: &PageSet, now: Timestamp) -> Result<OrderReply> {
        let PageSet::One(url) = pages else {
            let known: Vec<CanonicalUrl> =
                self.known_pages(pages, NOTED_MAX)?.into_iter().map(|(url, _)| url).collect();
            if known.is_empty() {
                return Ok(Err(format!(
                    "no page is known that begins with {}",
                    pages.to_string().trim_end_matches('*')
                )));
            }
            self.make_due(&known, now)?;
            return Ok(Ok(format!(
                "{} under {pages} {} fetched again as the host has its turns.",
                counted(known.len() as u64, "page"),
                if known.len() == 1 { "is" } else { "are" },
            )));
        };
        // What is not in memory is read: robots.txt of a host that is not being visited.
        let rule = self.hosts.robots_verdict(url)?.filter(|verdict| !verdict.is_allowed());
        match self.not_asked(url)? {
            Some(NotAsked::Removed) => {
                return Ok(Err(format!("{url} was removed; put it back first, with `farol restore`")));
            }
            Some(NotAsked::OutOfScope) => {
                return Ok(Err(format!("{url} is outside this crawl; name it as a seed to have it fetched")));
            }
            Some(NotAsked::Excluded) => {
                return Ok(Err(format!(
                    "crawl.patterns leaves {url} out; change the patterns to have it fetched"
                )));
            }
            Some(NotAsked::Robots | NotAsked::Trap) => {}
            None if rule.is_none() => {
                self.make_due(std::slice::from_ref(url), now)?;
                return Ok(Ok(format!("{url} is fetched again as soon as its host may be asked.")));
            }
            None => {}
        }
        Ok(Err(format!("the robots.txt of {} forbids {url}; `farol explain` shows the rule", url.host())))
    }

    fn remove_pages(&mut self, pages: &PageSet, end: PagePosition) -> Result<OrderReply> {
        self.operator.remove_pages(pages, end)?;
        for (url, _) in self.known_pages(pages, usize::MAX)? {
            self.linker.remove(url.id())?;
        }
        if self.indexing {
            self.fabric.changes.send(deletion_of(pages.clone()))?;
        }
        Ok(Ok(format!(
            "{pages} is removed: it is no longer found, and not fetched again until it is put back."
        )))
    }

    fn restore_pages(
        &mut self,
        pages: &PageSet,
        now: Timestamp,
        archive: &ArchiveReader,
        interpreter: &Interpreter,
    ) -> Result<OrderReply> {
        if !self.operator.restore_pages(pages)? {
            let by = match pages {
                PageSet::One(url) => self.operator.removal_of(url),
                PageSet::Under(_) => None,
            };
            return Ok(Err(match by {
                Some(by) => format!("{pages} was removed with {by}; put that back"),
                None => format!("{pages} was not removed; `farol remove --list` tells what was"),
            }));
        }
        let known = self.known_pages(pages, NOTED_MAX)?;
        let wanted = FollowerSet { links: true, index: true, ..FollowerSet::NONE };
        let copies = known.iter().filter_map(|(_, record)| record.position).take(RESTORED_MAX);
        for position in copies.collect::<Vec<_>>() {
            // A copy that cannot be read is fetched again like the others.
            if let Ok(archived) = archive.read(position) {
                replay::apply(self, interpreter, &archived, position, wanted)?;
            }
        }
        let urls: Vec<CanonicalUrl> = known.into_iter().map(|(url, _)| url).collect();
        self.make_due(&urls, now)?;
        Ok(Ok(format!("{pages} is put back: it can be found as it was, and is fetched again soon.")))
    }

    /// Has pages visited again as soon as may be; those not known yet become known.
    fn make_due(&mut self, urls: &[CanonicalUrl], now: Timestamp) -> Result<()> {
        let mut found = Vec::with_capacity(urls.len());
        for url in urls {
            // The operator's word counts more than what a trap looks like.
            self.shapes.named(url, NamedBy::Outside);
            let depth = self.urls.get(url)?.map_or(0, |record| record.depth);
            found.push(Found { url: url.clone(), depth, hint: Some(now) });
        }
        Ok(self.urls.found(&found)?)
    }

    /// Pages of a set that are known, at most so many.
    fn known_pages(&mut self, pages: &PageSet, limit: usize) -> Result<Vec<(CanonicalUrl, Record)>> {
        if let PageSet::One(url) = pages {
            return Ok(self.urls.get(url)?.map(|record| (url.clone(), record)).into_iter().collect());
        }
        self.urls.compact_all()?;
        let (on, mut known) = (pages.host(), Vec::new());
        self.urls.walk(Walk::All, &mut |host: &Host, path, record| {
            if *host == on
                && known.len() < limit
                && let Ok(url) = host.url(path)
                && pages.contains(&url)
            {
                known.push((url, record.clone()));
            }
        })?;
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Opened;
    use crate::archive::replay::tests::{crawled, exchange, opened, url};
    use crate::fabric::Change;
    use crate::folder::Folder;
    use farol_store::urls::State;
    use std::time::Duration;

    const NOW: Timestamp = Timestamp::from_secs(1_700_000_500);

    fn order(opened: &mut Opened, order: PageOrder) -> OrderReply {
        let archive = opened.archive.reader();
        opened.followers.order_pages(&order, NOW, &archive, &opened.interpreter).unwrap()
    }

    fn set(text: &str) -> PageSet {
        PageSet::read(text).unwrap()
    }

    /// What the index is told next, positions left out.
    fn told(opened: &Opened) -> Vec<String> {
        let mut told = Vec::new();
        while let Some(delivery) = opened.followers.fabric.changes.receive(Duration::ZERO) {
            match delivery.change {
                Change::Put(document) => told.push(format!("put {}", document.url)),
                Change::Delete(url) => told.push(format!("delete {url}")),
                Change::DeleteUnder(prefix) => told.push(format!("delete {prefix}*")),
                Change::DeleteHost(host) => told.push(format!("delete {host}")),
                Change::Upto(_) | Change::Links { .. } | Change::LinksGone(_) => {}
            }
        }
        told
    }

    fn links_of(opened: &Opened, target: &str) -> usize {
        opened.followers.linker.sync().unwrap();
        let target = url(target).id();
        opened.links.lock().backlinks(&[target], 10).unwrap().find().unwrap()[&target].links.len()
    }

    #[test]
    fn a_removed_page_is_out_whatever_comes_of_it_until_it_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        crawled(&folder);
        let page = url("http://a.org/");
        for removed in ["http://a.org/", "http://a.org/*"] {
            let mut opened = opened(&folder);
            assert_eq!(links_of(&opened, "http://a.org/more"), 1);
            order(&mut opened, PageOrder::Remove(set(removed))).unwrap();
            assert_eq!(told(&opened), [format!("delete {removed}")]);
            assert_eq!(links_of(&opened, "http://a.org/more"), 0);
            assert_eq!(opened.followers.not_asked(&page).unwrap(), Some(NotAsked::Removed));
            // A visit that was under way is archived, and changes nothing.
            let again = exchange("http://a.org/", "<title>New</title><a href=/more>More</a>");
            let encoded = farol_store::pages::encode(&again, &mut farol_base::Seeded::new(7), 1);
            let position = opened.archive.append(&[encoded]).unwrap()[0];
            let Opened { followers, interpreter, .. } = &mut opened;
            replay::apply(followers, interpreter, &again.into(), position, FollowerSet::ALL).unwrap();
            assert_eq!((told(&opened), links_of(&opened, "http://a.org/more")), (vec![], 0));
            opened.followers.flush(opened.archive.end()).unwrap();
            drop(opened);
            let mut opened = self::opened(&folder);
            let error = order(&mut opened, PageOrder::Refetch(set("http://a.org/"))).unwrap_err();
            assert!(error.contains("farol restore"), "{error}");
            order(&mut opened, PageOrder::Restore(set(removed))).unwrap();
            assert_eq!(told(&opened), ["put http://a.org/"]);
            assert_eq!(links_of(&opened, "http://a.org/more"), 1);
            assert_eq!(opened.followers.not_asked(&page).unwrap(), None);
            let error = order(&mut opened, PageOrder::Restore(set(removed))).unwrap_err();
            assert!(error.contains("was not removed"), "{error}");
        }
    }

    #[test]
    fn a_page_that_was_removed_stays_out_when_everything_is_built_anew() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        crawled(&folder);
        order(&mut opened(&folder), PageOrder::Remove(set("http://a.org/"))).unwrap();
        std::fs::remove_dir_all(folder.links()).unwrap();
        std::fs::remove_dir_all(folder.urls()).unwrap();
        let opened = opened(&folder);
        assert_eq!(links_of(&opened, "http://a.org/more"), 0);
        assert_eq!(links_of(&opened, "http://b.org/more"), 1);
        // It is known, so that it can be put back.
        assert_eq!(
            opened.followers.urls.get(&url("http://a.org/")).unwrap().unwrap().state,
            State::Collected
        );
    }

    #[test]
    fn what_may_be_fetched_is_due_at_once_and_the_rest_is_told_why_not() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        crawled(&folder);
        let mut opened = opened(&folder);
        let due = |opened: &Opened| opened.followers.urls.get(&url("http://a.org/")).unwrap().unwrap().due;
        assert!(due(&opened) > NOW);
        order(&mut opened, PageOrder::Refetch(set("http://a.org/"))).unwrap();
        opened.followers.urls.compact_all().unwrap();
        assert_eq!(due(&opened), NOW);
        order(&mut opened, PageOrder::Refetch(set("http://a.org/new"))).unwrap();
        assert!(opened.followers.urls.get(&url("http://a.org/new")).unwrap().is_some());
        let all = order(&mut opened, PageOrder::Refetch(set("http://a.org/*"))).unwrap();
        assert!(all.starts_with("3 pages"), "{all}");
        for (pages, want) in [
            ("http://a.org/x/1", "robots.txt"),
            ("http://c.org/", "outside this crawl"),
            ("http://a.org/nothing/*", "no page is known"),
        ] {
            let error = order(&mut opened, PageOrder::Refetch(set(pages))).unwrap_err();
            assert!(error.contains(want), "{pages}: {error}");
        }
    }
}
