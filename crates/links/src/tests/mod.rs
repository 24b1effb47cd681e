//! The store as a whole: against a naive map, and with its files cut, damaged and missing.

mod crash;
mod faults;
mod model;
mod ranks;

use crate::{Links, LinksOptions, OutLink};
use farol_base::disk::{Disk, File};
use farol_base::{HostHash, PageId, PagePosition};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// Pages of the small Web that the tests play with; page p lives on host p % 3.
const PAGES: u64 = 9;

/// Segments of a few records, so that a short test seals, merges and compacts.
fn small() -> LinksOptions {
    LinksOptions { segment_bytes: 600, merge_bytes_max: 6000, dirty_max: 1000 }
}

fn open(dir: &Path) -> Links {
    Links::open(folder(dir), small()).unwrap()
}

fn folder(dir: &Path) -> Arc<dyn Disk> {
    Arc::new(File::at(dir).unwrap())
}

/// Spread over all ids, as hashes are.
fn id(page: u64) -> PageId {
    PageId(page.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

fn host(page: u64) -> HostHash {
    HostHash(1000 + page % 3)
}

fn at(number: u64) -> PagePosition {
    PagePosition { file: (number / 10) as u32, offset: number % 10 }
}

fn link(target: u64, anchor: &str) -> OutLink {
    OutLink { target: id(target), target_host: host(target), anchor: anchor.to_string(), nofollow: false }
}

/// What the store should hold: each page's links.
#[derive(Clone, Debug, Default, PartialEq)]
struct Naive {
    pages: BTreeMap<u64, Vec<OutLink>>,
}

/// Everything that can be asked of a store of the small Web.
#[derive(Debug, PartialEq)]
struct View {
    pages: BTreeMap<PageId, Vec<OutLink>>,
    counts: (u64, u64),
    anchors: Vec<Vec<(String, u32)>>,
    host_links: Vec<(HostHash, HostHash, u64)>,
}

impl Naive {
    fn anchors(&self, target: u64) -> Vec<(String, u32)> {
        let mut votes: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
        for (page, links) in &self.pages {
            let counted =
                links.iter().filter(|l| l.target == id(target) && !l.nofollow && !l.anchor.is_empty());
            for link in counted.filter(|_| *page != target) {
                let (others, own) = votes.entry(&link.anchor).or_default();
                *if host(*page) == host(target) { own } else { others } += 1;
            }
        }
        let weigh = |(others, own): (u32, u32)| others + if own > 0 { 1 + own.ilog2() } else { 0 };
        let mut anchors: Vec<(String, u32)> =
            votes.into_iter().map(|(text, v)| (text.to_string(), weigh(v))).collect();
        anchors.sort_by_key(|(_, weight)| std::cmp::Reverse(*weight)); // Stable: texts stay in order.
        anchors
    }

    fn view(&self) -> View {
        let mut hosts: BTreeMap<(HostHash, HostHash), u64> = BTreeMap::new();
        for (page, links) in &self.pages {
            for link in links.iter().filter(|link| !link.nofollow && link.target_host != host(*page)) {
                *hosts.entry((host(*page), link.target_host)).or_default() += 1;
            }
        }
        View {
            pages: self.pages.iter().map(|(page, links)| (id(*page), links.clone())).collect(),
            counts: (self.pages.len() as u64, self.pages.values().map(|links| links.len() as u64).sum()),
            anchors: (0..PAGES).map(|target| self.anchors(target)).collect(),
            host_links: hosts.into_iter().map(|((from, to), count)| (from, to, count)).collect(),
        }
    }
}

fn view(links: &Links) -> View {
    let mut pages = BTreeMap::new();
    let mut take = |record: &crate::record::Record<'_>| {
        let links = record.links().map(|link| OutLink {
            target: PageId(link.target),
            target_host: link.target_host,
            anchor: String::from_utf8(link.anchor.to_vec()).unwrap(),
            nofollow: link.nofollow,
        });
        pages.insert(record.page, links.collect());
        Ok(())
    };
    crate::snapshot::Snapshot::of(links).each(&mut take).unwrap();
    View {
        pages,
        counts: (links.counts().pages, links.counts().links),
        anchors: (0..PAGES).map(|target| links.anchors(id(target)).unwrap()).collect(),
        host_links: links.host_links().unwrap().collect(),
    }
}
