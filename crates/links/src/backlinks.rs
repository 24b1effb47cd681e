//! Which pages link to a page, and where the archive has them: a link that leads nowhere is mended at its other end.
//!
//! A small graph is read as a whole, and tells every link. In a large one only links with a text that count are looked
//! up, in the same runs that [`Links::anchors`] reads.

use crate::error::Error;
use crate::record::{KeptLink, Record};
use crate::snapshot::Snapshot;
use crate::store::Links;
use farol_base::{PageId, PagePosition};
use std::collections::{HashMap, HashSet};

/// A graph of this size is read as a whole: some tenths of a second.
const WHOLE_BYTES_MAX: u64 = 64 << 20;

/// A link to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InLink {
    /// The page that has it.
    pub page: PageId,
    /// Where the archive has that page, as it was when it first had these links.
    pub at: PagePosition,
    /// What a reader sees; may be empty.
    pub anchor: String,
    /// Its author asks not to count it.
    pub nofollow: bool,
}

/// The links to a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InLinks {
    /// Pages that link to it, as far as they were counted.
    pub pages: u64,
    /// Some of these links, one for each page.
    pub links: Vec<InLink>,
}

/// Finds links to some pages, on any thread, while the store goes on.
pub struct Backlinks {
    targets: HashMap<u64, InLinks>,
    /// `None` where the answer is there already.
    snapshot: Option<Snapshot>,
    limit: usize,
}

impl Links {
    /// Prepares to say who links to these pages: at most `limit` links of each.
    ///
    /// # Errors
    /// Where a run cannot be read or is damaged.
    pub fn backlinks(&self, targets: &[PageId], limit: usize) -> Result<Backlinks, Error> {
        let mut found: HashMap<u64, InLinks> =
            targets.iter().map(|target| (target.0, InLinks::default())).collect();
        if self.counts().bytes <= WHOLE_BYTES_MAX {
            return Ok(Backlinks { targets: found, snapshot: Some(Snapshot::of(self)), limit });
        }
        for (target, links) in &mut found {
            *links = self.links_with_text(*target, limit)?;
        }
        Ok(Backlinks { targets: found, snapshot: None, limit })
    }

    fn links_with_text(&self, target: u64, limit: usize) -> Result<InLinks, Error> {
        let mut texts: Vec<(u64, String)> = Vec::new();
        let mut seen = HashSet::new();
        let mut note = |source: u64, text: &[u8]| {
            if seen.insert(source) && texts.len() < limit {
                texts.push((source, String::from_utf8_lossy(text).into_owned()));
            }
        };
        self.active.find(target, &mut |record, source, link| {
            if self.is_in_active(source, record) {
                note(source, link.anchor);
            }
            true
        });
        for run in self.runs.iter().rev() {
            run.find(target, &mut |text| {
                if self.sources.is_current(text.source, text.stamp) {
                    note(text.source, text.text);
                }
                true
            })?;
        }
        let mut links = Vec::with_capacity(texts.len());
        for (source, anchor) in texts {
            if let Some(body) = self.newest_body(source)?
                && let Some(record) = Record::read(&body)
            {
                links.push(InLink { page: record.page, at: record.at, anchor, nofollow: false });
            }
        }
        Ok(InLinks { pages: seen.len() as u64, links })
    }
}

impl Backlinks {
    /// Says who links to each of the pages.
    ///
    /// # Errors
    /// Where segments cannot be read.
    pub fn find(self) -> Result<HashMap<PageId, InLinks>, Error> {
        let Backlinks { mut targets, snapshot, limit } = self;
        if let Some(snapshot) = snapshot {
            snapshot.each(&mut |record| {
                let mut linked = HashSet::new();
                for link in record.links().filter(|link| link.target != record.page.0) {
                    if let Some(found) = targets.get_mut(&link.target) {
                        take(found, record, &link, limit, linked.insert(link.target));
                    }
                }
                Ok(())
            })?;
        }
        Ok(targets.into_iter().map(|(target, links)| (PageId(target), links)).collect())
    }
}

/// Notes a link; of several on one page the first that has a text is shown.
fn take(found: &mut InLinks, record: &Record<'_>, link: &KeptLink<'_>, limit: usize, is_first: bool) {
    let anchor = || String::from_utf8_lossy(link.anchor).into_owned();
    if !is_first {
        let last = found.links.last_mut().filter(|last| last.page == record.page && last.anchor.is_empty());
        if let Some(last) = last {
            last.anchor = anchor();
        }
        return;
    }
    found.pages += 1;
    if found.links.len() < limit {
        let (page, at) = (record.page, record.at);
        found.links.push(InLink { page, at, anchor: anchor(), nofollow: link.nofollow });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LinksOptions, OutLink};
    use farol_base::HostHash;
    use farol_base::disk::Mem;
    use std::sync::Arc;

    fn id(page: u64) -> PageId {
        PageId::of(&format!("http://h/{page}"))
    }

    fn link(target: u64, anchor: &str, nofollow: bool) -> OutLink {
        OutLink { target: id(target), target_host: HostHash::of("http://h"), anchor: anchor.into(), nofollow }
    }

    fn put(links: &mut Links, page: u64, out: &[OutLink]) {
        let at = PagePosition { file: 0, offset: page * 10 };
        links.put(id(page), HostHash::of("http://h"), out, at).unwrap();
    }

    /// Pages that link to a target, as they are found in a small graph and in a large one.
    fn found(links: &Links, target: u64) -> [Vec<(u64, String)>; 2] {
        let short = |found: InLinks| {
            assert_eq!(found.pages, found.links.len() as u64);
            let mut short: Vec<(u64, String)> =
                found.links.into_iter().map(|link| (link.at.offset / 10, link.anchor)).collect();
            short.sort();
            short
        };
        let whole = links.backlinks(&[id(target)], 100).unwrap().find().unwrap();
        [short(whole.into_values().next().unwrap()), short(links.links_with_text(id(target).0, 100).unwrap())]
    }

    fn named(want: &[(u64, &str)]) -> Vec<(u64, String)> {
        want.iter().map(|(page, anchor)| (*page, anchor.to_string())).collect()
    }

    #[test]
    fn whoever_links_is_found_and_whoever_no_longer_does_is_not() {
        // Small segments, so that there are several runs.
        let options = LinksOptions { segment_bytes: 300, ..LinksOptions::default() };
        let mut links = Links::open(Arc::new(Mem::new()), options).unwrap();
        put(&mut links, 1, &[link(9, "nine", false), link(9, "nine again", false), link(8, "eight", false)]);
        put(&mut links, 2, &[link(9, "", false), link(9, "after a picture", false)]);
        put(&mut links, 3, &[link(9, "not counted", true)]);
        put(&mut links, 9, &[link(9, "itself", false)]);
        (10..60).for_each(|page| {
            put(&mut links, page, &[link(7, "seven", false), link(page + 1, "next", false)])
        });
        let all = named(&[(1, "nine"), (2, "after a picture"), (3, "not counted")]);
        // The newest text first.
        let counted = named(&[(1, "nine again"), (2, "after a picture")]);
        assert_eq!(found(&links, 9), [all, counted]);
        assert_eq!(found(&links, 6), [vec![], vec![]]);
        for found in found(&links, 7) {
            assert_eq!(found.len(), 50);
        }
        put(&mut links, 1, &[link(8, "eight", false)]);
        links.remove(id(2)).unwrap();
        assert_eq!(found(&links, 9), [named(&[(3, "not counted")]), vec![]]);
        assert_eq!(found(&links, 8), [named(&[(1, "eight")]), named(&[(1, "eight")])]);
    }

    #[test]
    fn as_many_links_are_given_as_were_asked_for_and_all_are_counted() {
        let mut links = Links::open(Arc::new(Mem::new()), LinksOptions::default()).unwrap();
        (10..40).for_each(|page| put(&mut links, page, &[link(9, "nine", false)]));
        let found = links.backlinks(&[id(9), id(8)], 3).unwrap().find().unwrap();
        assert_eq!((found[&id(9)].pages, found[&id(9)].links.len()), (30, 3));
        assert_eq!(found[&id(8)], InLinks::default());
        assert_eq!(links.links_with_text(id(9).0, 3).unwrap().links.len(), 3);
    }
}
