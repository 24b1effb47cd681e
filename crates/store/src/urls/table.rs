//! The known URLs as compact tables in memory.
//!
//! A URL is cut in three: `https://example.org` · `/guide/` · `intro?v=2`. Hosts and folders are kept once each
//! and numbered; a URL is the number of its folder, the place of its last part, and what is known of it. Three
//! hash tables hold only numbers, 5 bytes a slot, and look the texts up to compare them.
//!
//! Sum: an unvisited URL takes 16 bytes here, 6 to 12 in the hash table, 8 to 16 in its host's queue, 1 to 2 plus its
//! last part of text, and a share of its folder; a visited one 80 bytes more.
//!
//! Limits: 2^32 − 1 URLs, folders and hosts each; 4 GiB of text.

use super::agenda::{Agenda, HostNumber};
use super::texts::Texts;
use super::{Counts, Drawn, DrawnUrl, HostCounts, Record, State, Visit};
use crate::Error;
use farol_base::fingerprint::hash64;
use farol_base::{CanonicalUrl, ContentHash, Host, PagePosition, Timestamp};
use hashbrown::HashTable;
use std::time::Duration;

pub(super) type UrlNumber = u32;
type FolderNumber = u32;

/// Stands for "no visit yet".
const UNVISITED: u32 = u32::MAX;

/// Stands for "no such URL" and "no such folder"; no number reaches it.
const NOWHERE: u32 = u32::MAX;

/// URLs that [`Table::news`] looks at together.
pub(super) const KNOWN_MAX: usize = 64;

/// All known URLs, and the agenda over them.
#[derive(Debug, Default)]
pub(super) struct Table {
    texts: Texts,
    hosts: Vec<HostRow>,
    host_index: HashTable<HostNumber>,
    folders: Vec<FolderRow>,
    folder_index: HashTable<FolderNumber>,
    slots: Slots,
    url_index: HashTable<UrlNumber>,
    agenda: Agenda,
    counts: Counts,
    /// Host of the last lookup: links come in runs of one host.
    last_host: Option<HostNumber>,
}

#[derive(Debug)]
struct HostRow {
    text: u32,
    counts: HostCounts,
    forgotten: bool,
}

#[derive(Debug)]
struct FolderRow {
    text: u32,
    host: HostNumber,
}

/// The URLs by number, and what decides whether an entry of the agenda is stale.
#[derive(Debug, Default)]
pub(super) struct Slots {
    urls: Vec<Slot>,
    visits: Vec<Visits>,
}

#[derive(Debug)]
struct Slot {
    folder: FolderNumber,
    leaf: u32,
    /// Place in `visits`, or [`UNVISITED`].
    visits: u32,
    depth: u16,
    standing: Standing,
    /// Some more bits of the hash, to tell most URLs apart without looking up their texts.
    check: u8,
}

/// Whether a URL can be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    Here,
    /// Drawn, and neither visited nor released since.
    Out,
    /// Not known any more; only its number is still taken.
    Forgotten,
}

/// What a URL has once it was visited: 80 bytes.
#[derive(Debug)]
struct Visits {
    content_hash: ContentHash,
    last_visit: Timestamp,
    last_change: Timestamp,
    due: Timestamp,
    position: Option<PagePosition>,
    download_millis: u32,
    count: u32,
    state: State,
    failures: u8,
}

impl Slots {
    pub fn is_fresh_at(&self, url: UrlNumber, depth: u16) -> bool {
        let slot = &self.urls[url as usize];
        slot.visits == UNVISITED && slot.depth == depth && slot.standing == Standing::Here
    }

    pub fn is_due_at(&self, url: UrlNumber, due: u64) -> bool {
        let slot = &self.urls[url as usize];
        let visits = self.visits.get(slot.visits as usize);
        visits.is_some_and(|visits| visits.due.as_millis() == due) && slot.standing == Standing::Here
    }
}

/// What finding a URL told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Learnt {
    New,
    /// Known, but not as near to a seed.
    Nearer,
    Nothing,
}

impl Table {
    /// Learns a URL.
    pub fn learn(&mut self, host: &str, path: &str, depth: u16) -> Result<(UrlNumber, Learnt), Error> {
        let host = self.learn_host(host)?;
        let (folder, leaf) = split(path);
        let folder = self.learn_folder(host, folder)?;
        if let Some(url) = self.find_url(folder, leaf) {
            let slot = &mut self.slots.urls[url as usize];
            if depth >= slot.depth {
                return Ok((url, Learnt::Nothing));
            }
            slot.depth = depth;
            if slot.visits == UNVISITED && slot.standing == Standing::Here {
                self.agenda.raise_fresh(host, depth, url);
            }
            return Ok((url, Learnt::Nearer));
        }
        let url = number(self.slots.urls.len(), "URLs")?;
        let text = self.push_text(leaf)?;
        let hash = url_hash(folder, leaf.as_bytes());
        self.slots.urls.push(Slot {
            folder,
            leaf: text,
            visits: UNVISITED,
            depth,
            standing: Standing::Here,
            check: check_of(hash),
        });
        let (texts, urls) = (&self.texts, &self.slots.urls);
        self.url_index.insert_unique(hash, url, |url| {
            let slot = &urls[*url as usize];
            url_hash(slot.folder, texts.bytes(slot.leaf))
        });
        self.hosts[host as usize].counts.known += 1;
        self.counts.known += 1;
        self.counts.waiting += 1;
        self.agenda.add_fresh(host, depth, url);
        Ok((url, Learnt::New))
    }

    /// Says of each of up to [`KNOWN_MAX`] URLs whether finding it at this depth would tell something.
    ///
    /// Most links lead to what is known, and each lookup waits three times for memory that is in no cache: for the hash table,
    /// the slot and the text. Going through many URLs one step at a time lets these waits overlap, which makes the
    /// check about twice as fast as [`Table::learn`] one by one.
    pub fn news(&self, urls: &[(&str, &str, u16)]) -> u64 {
        let urls = &urls[..urls.len().min(KNOWN_MAX)];
        let mut steps = [(0, 0, 0); KNOWN_MAX];
        let mut last_host = ("", None);
        for ((host, path, _), step) in urls.iter().zip(&mut steps) {
            if last_host.0 != *host {
                last_host = (host, self.find_host(host));
            }
            let (folder, leaf) = split(path);
            let folder = last_host.1.and_then(|host| self.find_folder(host, folder)).unwrap_or(NOWHERE);
            *step = (folder, url_hash(folder, leaf.as_bytes()), NOWHERE);
        }
        for (folder, hash, url) in &mut steps[..urls.len()] {
            let same = |url: &UrlNumber| {
                let slot = &self.slots.urls[*url as usize];
                slot.folder == *folder && slot.check == check_of(*hash)
            };
            *url = self.url_index.find(*hash, same).copied().unwrap_or(NOWHERE);
        }
        let mut news = 0;
        for (i, ((_, path, depth), (_, _, url))) in urls.iter().zip(&steps).enumerate() {
            let is_known = self.slots.urls.get(*url as usize).is_some_and(|slot| {
                *depth >= slot.depth && self.texts.bytes(slot.leaf) == split(path).1.as_bytes()
            });
            news |= u64::from(!is_known) << i;
        }
        news
    }

    /// Makes a visited URL due earlier where the hint is newer than its last visit, and says whether it did.
    pub fn hint(&mut self, url: UrlNumber, hint: Timestamp) -> bool {
        if !self.record(url).is_moved_by(hint) {
            return false;
        }
        let slot = &self.slots.urls[url as usize];
        let host = self.folders[slot.folder as usize].host;
        self.slots.visits[slot.visits as usize].due = hint;
        self.agenda.add_due(host, hint.as_millis(), url, &self.slots);
        true
    }

    /// Takes in a visit to a URL that is known.
    pub fn visit(&mut self, url: UrlNumber, visit: &Visit) -> Result<(), Error> {
        let mut record = self.record(url);
        record.visit(visit);
        self.set(url, &record)
    }

    /// Replaces all that is known of a URL; it is not out any more.
    pub fn set(&mut self, url: UrlNumber, record: &Record) -> Result<(), Error> {
        let before = self.record(url).state;
        let slot = &mut self.slots.urls[url as usize];
        let host = self.folders[slot.folder as usize].host;
        let visits = Visits {
            content_hash: record.content_hash,
            last_visit: record.last_visit,
            last_change: record.last_change,
            due: record.due,
            position: record.position,
            download_millis: u32::try_from(record.download.as_millis()).unwrap_or(u32::MAX),
            count: record.visits,
            state: record.state,
            failures: record.failures,
        };
        if slot.visits == UNVISITED {
            slot.visits = number(self.slots.visits.len(), "visited URLs")?;
            self.slots.visits.push(visits);
            self.counts.waiting -= 1;
            self.agenda.count_visited(host);
            if slot.standing == Standing::Here {
                self.agenda.drop_fresh(host);
            }
        } else {
            self.slots.visits[slot.visits as usize] = visits;
        }
        slot.standing = Standing::Here;
        self.hosts[host as usize].counts.moved(before, record.state);
        let collected = |state: State| u64::from(state == State::Collected);
        self.counts.collected = self.counts.collected + collected(record.state) - collected(before);
        self.agenda.add_due(host, record.due.as_millis(), url, &self.slots);
        Ok(())
    }

    pub fn draw(&mut self, host: &Host, limit: usize, now: Timestamp) -> Drawn {
        let Some(number) = self.find_host(host.as_str()) else { return Drawn::default() };
        self.agenda.hold(number);
        let mut drawn = Drawn::default();
        while drawn.urls.len() < limit
            && let Some(url) = self.agenda.take(number, now.as_millis(), &self.slots)
        {
            self.slots.urls[url as usize].standing = Standing::Out;
            let slot = &self.slots.urls[url as usize];
            let folder = &self.folders[slot.folder as usize];
            let text = [host.as_str(), self.texts.get(folder.text), self.texts.get(slot.leaf)].concat();
            match CanonicalUrl::from_stored(&text) {
                Ok(url) => {
                    let revisit = slot.visits != UNVISITED;
                    drawn.urls.push(DrawnUrl { url, depth: slot.depth, revisit });
                }
                // Written by a Farol with other rules of spelling: it stays out, its new spelling gets found.
                Err(error) => tracing::warn!(url = text, %error, "a known URL is not canonical"),
            }
        }
        let next = self.agenda.next_due(number, &self.slots);
        drawn.next_due = next.map(|due| Timestamp::from_millis(due).max(now));
        drawn
    }

    pub fn release(&mut self, url: &CanonicalUrl) {
        let Some(number) = self.number_of(url) else { return };
        let slot = &mut self.slots.urls[number as usize];
        if slot.standing != Standing::Out {
            return;
        }
        slot.standing = Standing::Here;
        let (host, depth) = (self.folders[slot.folder as usize].host, slot.depth);
        match self.slots.visits.get(slot.visits as usize).map(|visits| visits.due.as_millis()) {
            None => self.agenda.add_fresh(host, depth, number),
            Some(due) => self.agenda.add_due(host, due, number, &self.slots),
        }
    }

    pub fn hosts_due(&mut self, now: Timestamp, limit: usize) -> Vec<Host> {
        let mut due = Vec::new();
        while due.len() < limit
            && let Some(host) = self.agenda.take_host(now.as_millis(), &self.slots)
        {
            // A host that cannot be read any more stays held, and so out of the way.
            due.extend(self.host(host));
        }
        due
    }

    pub fn let_go(&mut self, host: &Host) {
        if let Some(host) = self.find_host(host.as_str()) {
            self.agenda.let_go(host, &self.slots);
        }
    }

    pub fn next_host_due(&mut self) -> Option<Timestamp> {
        self.agenda.next_host_due(&self.slots).map(Timestamp::from_millis)
    }

    /// Forgets a host by looking at every folder and URL once; their memory comes back at the next opening.
    pub fn forget_host(&mut self, host: &str) -> u64 {
        let Some(host) = self.find_host(host) else { return 0 };
        let mut count = 0;
        for (url, slot) in self.slots.urls.iter_mut().enumerate() {
            if self.folders[slot.folder as usize].host != host || slot.standing == Standing::Forgotten {
                continue;
            }
            slot.standing = Standing::Forgotten;
            count += 1;
            let hash = url_hash(slot.folder, self.texts.bytes(slot.leaf));
            if let Ok(entry) = self.url_index.find_entry(hash, |other| *other as usize == url) {
                entry.remove();
            }
            self.counts.waiting -= u64::from(slot.visits == UNVISITED);
        }
        for (number, folder) in self.folders.iter().enumerate().filter(|(_, folder)| folder.host == host) {
            let hash = folder_hash(host, self.texts.bytes(folder.text));
            if let Ok(entry) = self.folder_index.find_entry(hash, |other| *other as usize == number) {
                entry.remove();
            }
        }
        let row = &mut self.hosts[host as usize];
        row.forgotten = true;
        self.counts.known -= count;
        self.counts.collected -= row.counts.collected;
        self.counts.hosts -= 1;
        let hash = hash64(self.texts.bytes(row.text));
        if let Ok(entry) = self.host_index.find_entry(hash, |other| *other == host) {
            entry.remove();
        }
        self.last_host = None;
        self.agenda.forget(host);
        count
    }

    /// The number of a URL that is known.
    pub fn number_of(&self, url: &CanonicalUrl) -> Option<UrlNumber> {
        let (folder, leaf) = split(url.path_and_query());
        let host = self.find_host(url.host_str())?;
        self.find_url(self.find_folder(host, folder)?, leaf)
    }

    pub fn host_counts(&self, host: &str) -> Option<HostCounts> {
        self.find_host(host).map(|host| self.hosts[host as usize].counts)
    }

    pub fn hosts(&self, first: usize, count: usize, filter: &str) -> Vec<(Host, HostCounts)> {
        let live = (0..self.hosts.len()).filter(|host| !self.hosts[*host].forgotten);
        let matching = live.filter(|host| self.texts.get(self.hosts[*host].text).contains(filter));
        let page = matching.skip(first).take(count);
        page.filter_map(|host| Some((self.host(host as HostNumber)?, self.hosts[host].counts))).collect()
    }

    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Every known URL as (host, folder, last part, number), hosts in the order in which they were met, URLs of
    /// a host in the order in which they were found.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str, &str, UrlNumber)> {
        let live = |url: &UrlNumber| self.slots.urls[*url as usize].standing != Standing::Forgotten;
        let host_of = |url: UrlNumber| self.folders[self.slots.urls[url as usize].folder as usize].host;
        let mut order: Vec<UrlNumber> = (0..self.slots.urls.len() as UrlNumber).filter(live).collect();
        order.sort_unstable_by_key(|url| (host_of(*url), *url));
        order.into_iter().map(|url| {
            let slot = &self.slots.urls[url as usize];
            let folder = &self.folders[slot.folder as usize];
            let host = self.hosts[folder.host as usize].text;
            (self.texts.get(host), self.texts.get(folder.text), self.texts.get(slot.leaf), url)
        })
    }

    /// What is known of a URL by number.
    pub fn record(&self, url: UrlNumber) -> Record {
        let slot = &self.slots.urls[url as usize];
        let depth = slot.depth;
        let Some(visits) = self.slots.visits.get(slot.visits as usize) else {
            return Record { depth, ..Record::default() };
        };
        Record {
            state: visits.state,
            visits: visits.count,
            last_visit: visits.last_visit,
            last_change: visits.last_change,
            content_hash: visits.content_hash,
            position: visits.position,
            download: Duration::from_millis(u64::from(visits.download_millis)),
            due: visits.due,
            failures: visits.failures,
            depth,
        }
    }

    fn learn_host(&mut self, text: &str) -> Result<HostNumber, Error> {
        if let Some(host) = self.last_host
            && self.texts.bytes(self.hosts[host as usize].text) == text.as_bytes()
        {
            return Ok(host);
        }
        let host = match self.find_host(text) {
            Some(host) => host,
            None => self.add_host(text)?,
        };
        self.last_host = Some(host);
        Ok(host)
    }

    fn add_host(&mut self, text: &str) -> Result<HostNumber, Error> {
        let host = number(self.hosts.len(), "hosts")?;
        let name = self.push_text(text)?;
        self.hosts.push(HostRow { text: name, counts: HostCounts::default(), forgotten: false });
        let (texts, hosts) = (&self.texts, &self.hosts);
        self.host_index.insert_unique(hash64(text.as_bytes()), host, |host| {
            hash64(texts.bytes(hosts[*host as usize].text))
        });
        self.agenda.push_host();
        self.counts.hosts += 1;
        Ok(host)
    }

    fn learn_folder(&mut self, host: HostNumber, text: &str) -> Result<FolderNumber, Error> {
        if let Some(folder) = self.find_folder(host, text) {
            return Ok(folder);
        }
        let folder = number(self.folders.len(), "folders")?;
        let name = self.push_text(text)?;
        self.folders.push(FolderRow { text: name, host });
        let (texts, folders) = (&self.texts, &self.folders);
        self.folder_index.insert_unique(folder_hash(host, text.as_bytes()), folder, |folder| {
            let row = &folders[*folder as usize];
            folder_hash(row.host, texts.bytes(row.text))
        });
        Ok(folder)
    }

    fn push_text(&mut self, text: &str) -> Result<u32, Error> {
        self.texts.push(text).ok_or(Error::Full { limit: 1 << 32, what: "bytes of URL text" })
    }

    fn find_host(&self, text: &str) -> Option<HostNumber> {
        let same = |host: &HostNumber| self.texts.bytes(self.hosts[*host as usize].text) == text.as_bytes();
        self.host_index.find(hash64(text.as_bytes()), same).copied()
    }

    fn find_folder(&self, host: HostNumber, text: &str) -> Option<FolderNumber> {
        let same = |folder: &FolderNumber| {
            let row = &self.folders[*folder as usize];
            row.host == host && self.texts.bytes(row.text) == text.as_bytes()
        };
        self.folder_index.find(folder_hash(host, text.as_bytes()), same).copied()
    }

    fn find_url(&self, folder: FolderNumber, leaf: &str) -> Option<UrlNumber> {
        let same = |url: &UrlNumber| {
            let slot = &self.slots.urls[*url as usize];
            slot.folder == folder && self.texts.bytes(slot.leaf) == leaf.as_bytes()
        };
        self.url_index.find(url_hash(folder, leaf.as_bytes()), same).copied()
    }

    fn host(&self, host: HostNumber) -> Option<Host> {
        Host::parse(self.texts.get(self.hosts[host as usize].text)).ok()
    }
}

/// Cuts path and query after the last slash of the path.
fn split(path: &str) -> (&str, &str) {
    let path_bytes = path.find('?').unwrap_or(path.len());
    let folder_bytes = path[..path_bytes].rfind('/').map_or(0, |at| at + 1);
    path.split_at(folder_bytes)
}

fn number(count: usize, what: &'static str) -> Result<u32, Error> {
    let limit = u32::MAX - 1;
    u32::try_from(count).ok().filter(|n| *n < limit).ok_or(Error::Full { limit: u64::from(limit), what })
}

fn folder_hash(host: HostNumber, text: &[u8]) -> u64 {
    spread(hash64(text), host)
}

fn url_hash(folder: FolderNumber, leaf: &[u8]) -> u64 {
    spread(hash64(leaf), folder)
}

fn check_of(hash: u64) -> u8 {
    // The hash table itself uses the lowest bits for the place and the top seven for its tag.
    (hash >> 48) as u8
}

/// Mixes a parent's number into a hash, so that `index.html` differs from folder to folder.
fn spread(hash: u64, parent: u32) -> u64 {
    farol_base::random::mix(hash ^ u64::from(parent).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_cut_after_their_last_folder() {
        let check = |path: &str, want: (&str, &str)| assert_eq!(split(path), want);
        check("/", ("/", ""));
        check("/a", ("/", "a"));
        check("/a/b/c?d=/e/f", ("/a/b/", "c?d=/e/f"));
        check("/a/?x", ("/a/", "?x"));
    }

    #[test]
    fn the_sizes_in_the_header_are_true() {
        assert_eq!(size_of::<Slot>(), 16);
        assert_eq!(size_of::<Visits>(), 80);
    }

    #[test]
    fn the_same_leaf_in_two_folders_is_two_urls() {
        let mut table = Table::default();
        for (host, path, new) in [
            ("http://a", "/x/i", Learnt::New),
            ("http://a", "/y/i", Learnt::New),
            ("http://b", "/x/i", Learnt::New),
            ("http://a", "/x/i", Learnt::Nothing),
        ] {
            assert_eq!(table.learn(host, path, 3).unwrap().1, new, "{host}{path}");
        }
        assert_eq!(table.learn("http://a", "/x/i", 2).unwrap().1, Learnt::Nearer);
        assert_eq!((table.forget_host("http://a"), table.forget_host("http://a")), (2, 0));
        assert_eq!(table.learn("http://a", "/x/i", 3).unwrap().1, Learnt::New);
        assert_eq!((table.counts().known, table.counts().hosts), (2, 2));
    }
}
