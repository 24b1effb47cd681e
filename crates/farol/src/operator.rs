//! What the operator has said, kept across restarts: seeds, pause, removed hosts.

use crate::archive::position::{read_position, write_position};
use crate::fabric::{Table, Tables};
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
}

const PAUSED: &str = "paused";
const SEED: &str = "seed ";
const REMOVED: &str = "removed ";

impl OperatorState {
    pub fn open(tables: Arc<dyn Tables>) -> Result<OperatorState> {
        let mut state = OperatorState {
            tables: tables.clone(),
            paused: false,
            seeds: Vec::new(),
            removed: HashMap::new(),
        };
        let orders = tables.scan(Table::Orders)?;
        for (key, _) in &orders {
            if key == PAUSED {
                state.paused = true;
            } else if let Some(url) = key.strip_prefix(SEED) {
                state.seeds.extend(CanonicalUrl::parse(url).ok());
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
}
