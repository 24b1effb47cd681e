//! What a cycle brought, in memory: URLs by host, and after sorting each host's paths in order.
//!
//! Step 3 of \[Henrique11\], which both [`super::mercator`] and [`super::central`] begin with.
//! Sorting goes by host first and compares eight bytes of the path before it looks at texts, which is
//! several times as fast as sorting whole URLs.

use super::facts::Facts;
use farol_base::CanonicalUrl;
use farol_base::fingerprint::hash64;
use farol_store::urls::Visit;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

const NO_VISIT: u32 = u32::MAX;

/// A batch that grows beyond this is to be merged before more is added: with 24 bytes per URL beside its path, and
/// twice while sorting, 256 MiB of paths need some 800 MiB.
pub const BATCH_BYTES_MAX: usize = 256 << 20;

/// URLs that wait for a merge.
#[derive(Debug, Default)]
pub struct Batch {
    numbers: HashMap<Box<str>, u32, BuildHasherDefault<TextHasher>>,
    paths: Vec<u8>,
    items: Vec<Item>,
    visits: Vec<Facts>,
}

#[derive(Clone, Copy, Debug)]
struct Item {
    /// First bytes of the path after its slash, to compare by.
    head: u64,
    host: u32,
    at: u32,
    len: u32,
    visit: u32,
}

/// A host's part of a sorted batch.
#[derive(Debug)]
pub struct HostPart<'a> {
    pub host: &'a str,
    items: &'a [Item],
    batch: &'a Sorted,
}

/// One URL of a batch, with all its visits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchUrl<'a> {
    /// Path and query.
    pub path: &'a [u8],
    pub facts: Option<Facts>,
}

/// A batch in the order of hosts and paths.
#[derive(Debug)]
pub struct Sorted {
    hosts: Vec<Box<str>>,
    /// Where each host's items start, and after the last one where they end.
    starts: Vec<u32>,
    items: Vec<Item>,
    paths: Vec<u8>,
    visits: Vec<Facts>,
}

impl Batch {
    /// Takes in a URL that was found, or visited.
    pub fn push(&mut self, url: &CanonicalUrl, visit: Option<&Visit>) {
        let host = url.host_str();
        let number = match self.numbers.get(host) {
            Some(number) => *number,
            None => {
                let number = self.numbers.len() as u32;
                self.numbers.insert(host.into(), number);
                number
            }
        };
        let path = url.path_and_query().as_bytes();
        let mut head = [0; 8];
        let tail = &path[1..path.len().min(9)];
        head[..tail.len()].copy_from_slice(tail);
        let visit = visit.map_or(NO_VISIT, |visit| {
            self.visits.push(Facts::of(visit));
            self.visits.len() as u32 - 1
        });
        let (at, len) = (self.paths.len() as u32, path.len() as u32);
        self.items.push(Item { head: u64::from_be_bytes(head), host: number, at, len, visit });
        self.paths.extend_from_slice(path);
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub fn is_full(&self) -> bool {
        self.paths.len() >= BATCH_BYTES_MAX
    }

    /// Hands everything over in order, and is empty.
    pub fn sort(&mut self) -> Sorted {
        let batch = std::mem::take(self);
        let mut hosts: Vec<(Box<str>, u32)> = batch.numbers.into_iter().collect();
        hosts.sort_unstable();
        let mut ranks = vec![0u32; hosts.len()];
        for (rank, (_, number)) in hosts.iter().enumerate() {
            ranks[*number as usize] = rank as u32;
        }
        // A counting sort by host, then each host's items by path.
        let mut starts = vec![0u32; hosts.len() + 1];
        for item in &batch.items {
            starts[ranks[item.host as usize] as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        let mut next = starts.clone();
        let mut items = batch.items.clone();
        for item in &batch.items {
            let slot = &mut next[ranks[item.host as usize] as usize];
            items[*slot as usize] = *item;
            *slot += 1;
        }
        drop(batch.items);
        let path = |item: &Item| &batch.paths[item.at as usize..(item.at + item.len) as usize];
        for part in starts.windows(2) {
            let part = &mut items[part[0] as usize..part[1] as usize];
            part.sort_unstable_by(|a, b| {
                let by_path = || path(a).cmp(path(b)).then(a.at.cmp(&b.at));
                a.head.cmp(&b.head).then_with(by_path)
            });
        }
        let hosts = hosts.into_iter().map(|(host, _)| host).collect();
        Sorted { hosts, starts, items, paths: batch.paths, visits: batch.visits }
    }
}

impl Sorted {
    /// The hosts, in order.
    pub fn hosts(&self) -> impl Iterator<Item = HostPart<'_>> {
        self.hosts.iter().zip(self.starts.windows(2)).map(|(host, part)| HostPart {
            host,
            items: &self.items[part[0] as usize..part[1] as usize],
            batch: self,
        })
    }
}

impl<'a> HostPart<'a> {
    /// The host's URLs, in order, each once.
    pub fn urls(&self) -> impl Iterator<Item = BatchUrl<'a>> + use<'a> {
        let (mut rest, batch) = (self.items, self.batch);
        let path = move |item: &Item| &batch.paths[item.at as usize..(item.at + item.len) as usize];
        std::iter::from_fn(move || {
            let first = path(rest.first()?);
            let same = rest.iter().take_while(|item| path(item) == first).count();
            let (group, others) = rest.split_at(same);
            rest = others;
            let visits = group.iter().filter(|item| item.visit != NO_VISIT);
            let facts = visits.map(|item| batch.visits[item.visit as usize]).reduce(Facts::then);
            Some(BatchUrl { path: first, facts })
        })
    }
}

/// XXH3 for texts; a map's default hash takes three times as long.
#[derive(Clone, Copy, Debug, Default)]
struct TextHasher(u64);

impl Hasher for TextHasher {
    fn write(&mut self, bytes: &[u8]) {
        // A text is followed by one byte that ends it, which adds nothing.
        if bytes.len() > 1 {
            self.0 = hash64(bytes);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_paths_come_in_order_once() {
        let mut batch = Batch::default();
        let mut load = super::super::load::Load::generated(super::super::load::LoadConfig {
            collected: 0,
            new: 1,
            repeats: 0,
            seed: 1,
        });
        let visit = load.visit();
        let texts = [
            "http://b/x",
            "http://a.b/long/path/two",
            "http://a/",
            "http://a.b/long/path/one",
            "http://b/x",
            "http://b/",
        ];
        for text in texts {
            batch.push(&CanonicalUrl::parse(text).unwrap(), None);
        }
        batch.push(&CanonicalUrl::parse("http://a.b/long/path/one").unwrap(), Some(&visit));
        let sorted = batch.sort();
        assert!(batch.is_empty());
        let mut lines = Vec::new();
        for part in sorted.hosts() {
            for url in part.urls() {
                let path = String::from_utf8(url.path.to_vec()).unwrap();
                lines.push(format!("{}{path} {}", part.host, url.facts.is_some()));
            }
        }
        let want = [
            "http://a/ false",
            "http://a.b/long/path/one true",
            "http://a.b/long/path/two false",
            "http://b/ false",
            "http://b/x false",
        ];
        assert_eq!(lines, want);
    }
}
