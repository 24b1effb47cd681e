//! The URL store in the plainest words: maps and full scans, nothing durable.
//!
//! It is the judge: every other store must answer as this one does. Small simulations can use it as it is.

use super::{
    Counts, Drawn, Export, Found, HostCounts, KnownUrl, Record, Source, State, UrlStore, Visit, Walk,
};
use crate::Error;
use farol_base::Scheduled;
use farol_base::{CanonicalUrl, Host, PagePosition, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

/// A URL store made of maps.
#[derive(Clone, Debug, Default)]
pub struct Naive {
    urls: BTreeMap<CanonicalUrl, NaiveEntry>,
    /// In the order in which they were met.
    hosts: Vec<Host>,
    leased: BTreeSet<Host>,
    watermark: PagePosition,
    numbers: BTreeMap<Source, u64>,
    born: u64,
}

#[derive(Clone, Debug, Default)]
struct NaiveEntry {
    record: Record,
    born: u64,
    in_flight: bool,
}

impl Naive {
    /// A store that knows nothing.
    pub fn new() -> Naive {
        Naive::default()
    }

    /// Releases every host and every drawn URL, as opening again does.
    #[cfg(test)]
    pub fn reopen(&mut self) {
        self.leased.clear();
        self.urls.values_mut().for_each(|entry| entry.in_flight = false);
    }

    /// The known URLs, in the order of their texts.
    pub fn urls(&self) -> impl Iterator<Item = &CanonicalUrl> {
        self.urls.keys()
    }

    fn learn(&mut self, url: &CanonicalUrl, depth: u16) -> &mut NaiveEntry {
        if !self.urls.contains_key(url) {
            if !self.hosts.contains(&url.host()) {
                self.hosts.push(url.host());
            }
            self.born += 1;
            let record = Record { depth, ..Record::default() };
            self.urls.insert(url.clone(), NaiveEntry { record, born: self.born, in_flight: false });
        }
        self.urls.entry(url.clone()).or_default()
    }

    /// Instants at which the URLs of a host that are not in flight can be drawn.
    fn dues(&self, host: &Host) -> impl Iterator<Item = Timestamp> {
        self.urls
            .iter()
            .filter(|(url, entry)| url.host() == *host && !entry.in_flight)
            .map(|(_, entry)| due(entry))
    }
}

fn due(entry: &NaiveEntry) -> Timestamp {
    if entry.record.visits == 0 { Timestamp::EPOCH } else { entry.record.due }
}

impl UrlStore for Naive {
    fn found(&mut self, found: &[Found]) -> Result<(), Error> {
        for found in found {
            let record = &mut self.learn(&found.url, found.depth).record;
            record.depth = record.depth.min(found.depth);
            if let Some(hint) = found.hint
                && record.is_moved_by(hint)
            {
                record.due = hint;
            }
        }
        Ok(())
    }

    fn visited(&mut self, url: &CanonicalUrl, visit: &Visit) -> Result<(), Error> {
        let entry = self.learn(url, 0);
        entry.in_flight = false;
        entry.record.visit(visit);
        Ok(())
    }

    fn draw(&mut self, host: &Host, limit: usize, now: Timestamp) -> Result<Drawn, Error> {
        if !self.hosts.contains(host) {
            return Ok(Drawn::default());
        }
        self.leased.insert(host.clone());
        let mut ready: Vec<_> = self.urls.iter_mut().filter(|(url, _)| url.host() == *host).collect();
        ready.retain(|(_, entry)| !entry.in_flight && due(entry) <= now && due(entry) != Timestamp::NEVER);
        ready.sort_by_key(|(_, entry)| {
            let new = entry.record.visits == 0;
            (
                !new,
                if new { 0 } else { entry.record.due.as_millis() },
                entry.record.depth * u16::from(new),
                entry.born,
            )
        });
        let mut drawn = Drawn::default();
        for (url, entry) in ready.into_iter().take(limit) {
            entry.in_flight = true;
            let (depth, revisit) = (entry.record.depth, entry.record.visits > 0);
            drawn.urls.push(Scheduled { url: url.clone(), depth, revisit });
        }
        drawn.next_due = self.dues(host).min().filter(|due| *due != Timestamp::NEVER).map(|due| due.max(now));
        Ok(drawn)
    }

    fn release(&mut self, urls: &[CanonicalUrl]) -> Result<(), Error> {
        for url in urls {
            if let Some(entry) = self.urls.get_mut(url) {
                entry.in_flight = false;
            }
        }
        Ok(())
    }

    fn hosts_due_but(
        &mut self,
        now: Timestamp,
        limit: usize,
        until: &mut dyn FnMut(&Host) -> Option<Timestamp>,
    ) -> Result<Vec<Host>, Error> {
        let is_due = |host: &&Host| {
            !self.leased.contains(*host)
                && self.dues(host).any(|due| due <= now && due != Timestamp::NEVER)
                && until(host).is_none_or(|until| until <= now)
        };
        let due: Vec<Host> = self.hosts.iter().filter(is_due).take(limit).cloned().collect();
        self.leased.extend(due.iter().cloned());
        Ok(due)
    }

    fn release_host_until(&mut self, host: &Host, _: Timestamp) {
        self.leased.remove(host);
    }

    fn next_host_due(&mut self) -> Option<Timestamp> {
        let free = self.hosts.iter().filter(|host| !self.leased.contains(*host));
        free.flat_map(|host| self.dues(host)).min().filter(|due| *due != Timestamp::NEVER)
    }

    fn get(&self, url: &CanonicalUrl) -> Result<Option<Record>, Error> {
        Ok(self.urls.get(url).map(|entry| entry.record.clone()))
    }

    fn knows(&self, url: &CanonicalUrl) -> bool {
        self.urls.contains_key(url)
    }

    fn delete_host(&mut self, host: &Host) -> Result<u64, Error> {
        let before = self.urls.len();
        self.urls.retain(|url, _| url.host() != *host);
        self.hosts.retain(|known| known != host);
        self.leased.remove(host);
        Ok((before - self.urls.len()) as u64)
    }

    fn forget(&mut self, hosts: &[Host]) -> Result<(), Error> {
        hosts.iter().try_for_each(|host| self.delete_host(host).map(drop))
    }

    fn export(&mut self, hosts: &[Host]) -> Result<Box<dyn Export>, Error> {
        let wanted = self.urls.iter().filter(|(url, _)| hosts.contains(&url.host()));
        let mut urls: Vec<KnownUrl> =
            wanted.map(|(url, entry)| KnownUrl { url: url.clone(), record: entry.record.clone() }).collect();
        let order = |known: &KnownUrl| (known.url.host_hash(), known.url.clone());
        urls.sort_by_cached_key(order);
        Ok(Box::new(NaiveExport(urls)))
    }

    fn import(&mut self, urls: &[KnownUrl]) -> Result<(), Error> {
        for KnownUrl { url, record } in urls {
            self.learn(url, record.depth).record.merge(&record.handed_over());
        }
        Ok(())
    }

    fn note(&mut self, source: Source, number: u64) -> Result<(), Error> {
        let known = self.numbers.entry(source).or_insert(number);
        *known = number.max(*known);
        Ok(())
    }

    fn numbers(&self) -> BTreeMap<Source, u64> {
        self.numbers.clone()
    }

    fn host_counts(&self, host: &Host) -> Option<HostCounts> {
        let mut counts = self.hosts.contains(host).then(HostCounts::default)?;
        for (_, entry) in self.urls.iter().filter(|(url, _)| url.host() == *host) {
            counts.known += 1;
            counts.moved(State::Known, entry.record.state);
        }
        Some(counts)
    }

    fn hosts(&self, first: usize, count: usize, filter: &str) -> Vec<(Host, HostCounts)> {
        let matching = self.hosts.iter().filter(|host| host.as_str().contains(filter));
        let counted = matching.map(|host| (host.clone(), self.host_counts(host).unwrap_or_default()));
        counted.skip(first).take(count).collect()
    }

    fn counts(&self) -> Counts {
        let of = |state: State| self.urls.values().filter(|entry| entry.record.state == state).count() as u64;
        Counts {
            hosts: self.hosts.len() as u64,
            known: self.urls.len() as u64,
            collected: of(State::Collected),
            waiting: of(State::Known),
            unmerged: 0,
            bytes_on_disk: 0,
        }
    }

    fn walk(&self, which: Walk, take: &mut dyn FnMut(&Host, &str, &Record)) -> Result<(), Error> {
        for (url, NaiveEntry { record, .. }) in &self.urls {
            if which.goes_to(record.state) {
                take(&url.host(), &url.as_str()[url.host_str().len()..], record);
            }
        }
        Ok(())
    }

    fn compact_all(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn watermark(&self) -> PagePosition {
        self.watermark
    }

    fn mark(&mut self, upto: PagePosition) -> Result<(), Error> {
        self.watermark = upto;
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// The URLs of an export, copied.
struct NaiveExport(Vec<KnownUrl>);

impl Export for NaiveExport {
    fn walk(
        self: Box<Self>,
        take: &mut dyn FnMut(&Host, &str, &Record) -> ControlFlow<()>,
    ) -> Result<(), Error> {
        for KnownUrl { url, record } in &self.0 {
            if take(&url.host(), url.path_and_query(), record).is_break() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::urls::{Memo, VisitOutcome};
    use farol_base::ContentHash;
    use std::time::Duration;

    fn url(text: &str) -> CanonicalUrl {
        CanonicalUrl::parse(text).unwrap()
    }

    fn found(text: &str, depth: u16) -> Found {
        Found { url: url(text), depth, hint: None }
    }

    fn page(at: u64, due: u64) -> Visit {
        Visit {
            at: Timestamp::from_secs(at),
            outcome: VisitOutcome::Page,
            content_hash: ContentHash(7),
            changed: true,
            position: None,
            download: Duration::from_millis(5),
            due: Timestamp::from_secs(due),
            memo: Memo::default(),
        }
    }

    fn draw(store: &mut Naive, host: &str, limit: usize, now: u64) -> (Vec<String>, Option<u64>) {
        let drawn = store.draw(&Host::parse(host).unwrap(), limit, Timestamp::from_secs(now)).unwrap();
        let texts = drawn.urls.iter().map(|drawn| drawn.url.path_and_query().to_string()).collect();
        (texts, drawn.next_due.map(Timestamp::as_secs))
    }

    #[test]
    fn new_urls_come_in_breadth_then_due_ones() {
        let mut store = Naive::new();
        let links =
            [found("http://h/c", 2), found("http://h/a", 1), found("http://h/b", 1), found("http://g/", 0)];
        store.found(&links).unwrap();
        store.found(&[found("http://h/c", 3)]).unwrap();
        assert_eq!(store.counts().known, 4);
        store.visited(&url("http://h/old"), &page(1, 50)).unwrap();
        assert_eq!(draw(&mut store, "http://h/", 2, 60), (vec!["/a".into(), "/b".into()], Some(60)));
        assert_eq!(draw(&mut store, "http://h/", 9, 60), (vec!["/c".into(), "/old".into()], None));
        store.release(&[url("http://h/a")]).unwrap();
        assert_eq!(draw(&mut store, "http://h/", 9, 60), (vec!["/a".into()], None));
    }

    #[test]
    fn held_hosts_do_not_come_up() {
        let mut store = Naive::new();
        store.found(&[found("http://h/", 0), found("http://g/", 0)]).unwrap();
        let now = Timestamp::from_secs(1);
        assert_eq!(store.next_host_due(), Some(Timestamp::EPOCH));
        assert_eq!(store.hosts_due(now, 1).unwrap().len(), 1);
        assert_eq!(store.hosts_due(now, 9).unwrap().len(), 1);
        assert_eq!((store.hosts_due(now, 9).unwrap().len(), store.next_host_due()), (0, None));
        store.release_host(&Host::parse("http://g/").unwrap());
        assert_eq!(store.hosts_due(now, 9).unwrap(), [Host::parse("http://g/").unwrap()]);
    }

    #[test]
    fn a_hint_makes_a_visited_page_due() {
        let mut store = Naive::new();
        store.visited(&url("http://h/"), &page(10, 1000)).unwrap();
        let hint = Some(Timestamp::from_secs(20));
        store.found(&[Found { url: url("http://h/"), depth: 0, hint }]).unwrap();
        assert_eq!(draw(&mut store, "http://h/", 9, 15), (vec![], Some(20)));
        assert_eq!(draw(&mut store, "http://h/", 9, 20), (vec!["/".into()], None));
    }
}
