//! What the operator has said, kept across restarts: seeds, pause, removed hosts and pages.

use crate::archive::position::{read_position, write_position};
use crate::fabric::{Table, Tables};
use crate::page_set::PageSet;
use anyhow::Result;
use farol_base::{CanonicalUrl, Host, PagePosition};
use std::collections::HashMap;
use std::sync::Arc;

/// The operator's standing orders.
pub struct OperatorState {
    tables: Arc<dyn Tables>,
    paused: bool,
    seeds: Vec<CanonicalUrl>,
    removed: HashMap<Host, PagePosition>,
    removed_pages: HashMap<CanonicalUrl, PagePosition>,
    removed_prefixes: Vec<(CanonicalUrl, PagePosition)>,
}

const PAUSED: &str = "paused";
const SEED: &str = "seed ";
const REMOVED: &str = "removed ";
const REMOVED_PAGES: &str = "removed-pages ";

impl OperatorState {
    pub fn open(tables: Arc<dyn Tables>) -> Result<OperatorState> {
        let mut state = OperatorState {
            tables: tables.clone(),
            paused: false,
            seeds: Vec::new(),
            removed: HashMap::new(),
            removed_pages: HashMap::new(),
            removed_prefixes: Vec::new(),
        };
        let orders = tables.scan(Table::Orders)?;
        for (key, value) in &orders {
            if key == PAUSED {
                state.paused = true;
            } else if let Some(url) = key.strip_prefix(SEED) {
                state.seeds.extend(CanonicalUrl::parse(url).ok());
            } else if let Some(pages) = key.strip_prefix(REMOVED_PAGES)
                && let Ok(pages) = PageSet::read(pages)
            {
                state.note_removal(&pages, read_position(value));
            }
        }
        state.removed = removed_in(orders);
        Ok(state)
    }

    pub fn paused(&self) -> bool {
        self.paused
    }

    /// Seeds of all runs so far.
    pub fn seeds(&self) -> &[CanonicalUrl] {
        &self.seeds
    }

    /// Hosts that were taken out, each with the end of the archive at that time.
    pub fn removed(&self) -> &HashMap<Host, PagePosition> {
        &self.removed
    }

    pub fn set_paused(&mut self, paused: bool) -> Result<()> {
        self.paused = paused;
        self.tables.put(&[(Table::Orders, PAUSED, if paused { b"yes" } else { b"" })])
    }

    /// Remembers a seed; one on a removed host lets the host back in.
    pub fn add_seed(&mut self, url: &CanonicalUrl) -> Result<()> {
        let lifted = self.removed.contains_key(&url.host());
        if self.seeds.contains(url) && !lifted {
            return Ok(());
        }
        let seed = format!("{SEED}{url}");
        self.tables.put(&[(Table::Orders, &seed, b"yes")])?;
        if !self.seeds.contains(url) {
            self.seeds.push(url.clone());
        }
        // The position stays in the table: pages archived before the removal stay out.
        Ok(())
    }

    pub fn remove_host(&mut self, host: &Host, end: PagePosition) -> Result<()> {
        let key = format!("{REMOVED}{host}");
        let gone: Vec<String> = self
            .seeds
            .iter()
            .filter(|seed| seed.host() == *host)
            .map(|seed| format!("{SEED}{seed}"))
            .collect();
        let mark = write_position(end);
        let mut entries: Vec<(Table, &str, &[u8])> =
            gone.iter().map(|seed| (Table::Orders, seed.as_str(), &b""[..])).collect();
        // A seed would let the host back in, so the removal comes last.
        entries.push((Table::Orders, &key, &mark));
        self.tables.put(&entries)?;
        self.seeds.retain(|seed| seed.host() != *host);
        self.removed.insert(host.clone(), end);
        Ok(())
    }

    /// What says that this page is removed; `None` where nothing does.
    pub fn removal_of(&self, url: &CanonicalUrl) -> Option<PageSet> {
        if self.removed_pages.contains_key(url) {
            return Some(PageSet::One(url.clone()));
        }
        let prefixes = self.removed_prefixes.iter().map(|(prefix, _)| PageSet::Under(prefix.clone()));
        let mut prefixes = prefixes.filter(|pages| pages.contains(url));
        prefixes.next()
    }

    /// Pages that were removed, each with the end of the archive at that time.
    pub fn removed_pages(&self) -> impl Iterator<Item = (PageSet, PagePosition)> {
        let pages = self.removed_pages.iter().map(|(page, end)| (PageSet::One(page.clone()), *end));
        let prefixes = self.removed_prefixes.iter();
        pages.chain(prefixes.map(|(prefix, end)| (PageSet::Under(prefix.clone()), *end)))
    }

    /// Remembers that pages are removed.
    pub fn remove_pages(&mut self, pages: &PageSet, end: PagePosition) -> Result<()> {
        let (key, mark) = (format!("{REMOVED_PAGES}{pages}"), write_position(end));
        self.tables.put(&[(Table::Orders, &key, &mark)])?;
        self.note_removal(pages, end);
        Ok(())
    }

    /// Takes a removal back, the very one; says whether there was one.
    pub fn restore_pages(&mut self, pages: &PageSet) -> Result<bool> {
        let is_there = self.removed_pages().any(|(removed, _)| removed == *pages);
        self.tables.put(&[(Table::Orders, &format!("{REMOVED_PAGES}{pages}"), b"")])?;
        match pages {
            PageSet::One(page) => drop(self.removed_pages.remove(page)),
            PageSet::Under(prefix) => self.removed_prefixes.retain(|(other, _)| other != prefix),
        }
        Ok(is_there)
    }

    fn note_removal(&mut self, pages: &PageSet, end: PagePosition) {
        match pages {
            PageSet::One(page) => drop(self.removed_pages.insert(page.clone(), end)),
            PageSet::Under(prefix) => {
                self.removed_prefixes.retain(|(other, _)| other != prefix);
                self.removed_prefixes.push((prefix.clone(), end));
            }
        }
    }
}

/// The removed hosts among all orders, each with the end of the archive at that time.
pub fn removed_in(orders: Vec<(String, Vec<u8>)>) -> HashMap<Host, PagePosition> {
    let removed = orders.into_iter().filter_map(|(key, value)| {
        let host = Host::parse(key.strip_prefix(REMOVED)?).ok()?;
        Some((host, read_position(&value)))
    });
    removed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::LocalTables;

    #[test]
    fn what_was_said_survives_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let open =
            || OperatorState::open(Arc::new(LocalTables::open(&dir.path().join("t")).unwrap())).unwrap();
        let (a, b) = (CanonicalUrl::parse("http://a/").unwrap(), CanonicalUrl::parse("http://b/").unwrap());
        let end = PagePosition { file: 2, offset: 9 };
        {
            let mut operator = open();
            operator.set_paused(true).unwrap();
            operator.add_seed(&a).unwrap();
            operator.add_seed(&b).unwrap();
            operator.remove_host(&b.host(), end).unwrap();
        }
        let mut operator = open();
        assert!(operator.paused());
        assert_eq!(operator.seeds(), [a]);
        assert_eq!(operator.removed().get(&b.host()), Some(&end));
        operator.set_paused(false).unwrap();
        drop(operator);
        assert!(!open().paused());
    }

    #[test]
    fn pages_are_removed_and_put_back_each_by_its_own_order() {
        let dir = tempfile::tempdir().unwrap();
        let open =
            || OperatorState::open(Arc::new(LocalTables::open(&dir.path().join("t")).unwrap())).unwrap();
        let url = |text: &str| CanonicalUrl::parse(text).unwrap();
        let set = |text: &str| PageSet::read(text).unwrap();
        let end = PagePosition { file: 2, offset: 9 };
        {
            let mut operator = open();
            for pages in ["http://a/x", "http://a/d/*", "http://a/d/*"] {
                operator.remove_pages(&set(pages), end).unwrap();
            }
            operator.remove_host(&url("http://b/").host(), end).unwrap();
        }
        let mut operator = open();
        assert_eq!(operator.removed_pages().count(), 2);
        assert_eq!(
            (operator.removed().len(), operator.removed_pages().map(|(_, end)| end).max()),
            (1, Some(end))
        );
        for (page, want) in [("http://a/x", true), ("http://a/d/1", true), ("http://a/xy", false)] {
            assert_eq!(operator.removal_of(&url(page)).is_some(), want, "{page}");
        }
        // A page below a removed prefix is put back with the prefix, not by itself.
        assert!(!operator.restore_pages(&set("http://a/d/1")).unwrap());
        assert!(operator.restore_pages(&set("http://a/d/*")).unwrap());
        drop(operator);
        let operator = open();
        assert_eq!(operator.removal_of(&url("http://a/d/1")), None);
        assert_eq!(operator.removal_of(&url("http://a/x")), Some(set("http://a/x")));
    }
}
