//! Clicks on results, kept across restarts: the front notes them, the crawler plans by them.

use crate::fabric::{Table, Tables};
use anyhow::Result;
use farol_base::sync::Mutex;
use farol_base::{PageId, Timestamp};
use farol_frontier::revisit::clicks::{Clicks, Count};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Clicks are written at most this often; a crash may lose those since.
const WRITE_EVERY: Duration = Duration::from_secs(10);

/// The clicks of this engine.
pub struct ClickCounts {
    tables: Arc<dyn Tables>,
    inner: Mutex<ClicksInMemory>,
}

struct ClicksInMemory {
    clicks: Clicks,
    unwritten: HashMap<PageId, Count>,
    written: Instant,
}

impl ClickCounts {
    pub fn open(tables: Arc<dyn Tables>, now: Timestamp) -> Result<ClickCounts> {
        let (mut clicks, mut old) = (Clicks::default(), Vec::new());
        for (key, value) in tables.scan(Table::Clicks)? {
            // An entry that cannot be read is a few clicks less.
            match (u64::from_str_radix(&key, 16), read(&value)) {
                (Ok(page), Some(count)) if !count.is_faded(now) => clicks.recall(PageId(page), count),
                _ => old.push(key),
            }
        }
        let old: Vec<(Table, &str, &[u8])> =
            old.iter().map(|key| (Table::Clicks, key.as_str(), &b""[..])).collect();
        // Where they cannot be removed now (a full disk, say), they are next time.
        if !old.is_empty()
            && let Err(error) = tables.put(&old)
        {
            tracing::debug!(error = %format!("{error:#}"), "clicks that have faded stay for now");
        }
        let inner = ClicksInMemory { clicks, unwritten: HashMap::new(), written: Instant::now() };
        Ok(ClickCounts { tables, inner: Mutex::new(inner) })
    }

    /// Somebody opened a page from the results.
    pub fn note(&self, page: PageId, now: Timestamp) -> Result<()> {
        let mut inner = self.inner.lock();
        let count = inner.clicks.note(page, now);
        inner.unwritten.insert(page, count);
        if inner.written.elapsed() < WRITE_EVERY {
            return Ok(());
        }
        inner.written = Instant::now();
        let unwritten = std::mem::take(&mut inner.unwritten);
        drop(inner);
        self.write(unwritten)
    }

    /// How many times as much a page counts as one that nobody opens.
    pub fn factor(&self, page: PageId, now: Timestamp) -> f64 {
        self.inner.lock().clicks.factor(page, now)
    }

    /// Writes what is not written yet.
    pub fn flush(&self) -> Result<()> {
        let unwritten = std::mem::take(&mut self.inner.lock().unwritten);
        self.write(unwritten)
    }

    fn write(&self, counts: HashMap<PageId, Count>) -> Result<()> {
        if counts.is_empty() {
            return Ok(());
        }
        let texts: Vec<(String, [u8; 12])> =
            counts.iter().map(|(page, count)| (format!("{:016x}", page.0), bytes(*count))).collect();
        let entries: Vec<(Table, &str, &[u8])> =
            texts.iter().map(|(key, value)| (Table::Clicks, key.as_str(), &value[..])).collect();
        self.tables.put(&entries)
    }
}

fn bytes(count: Count) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&count.clicks.to_le_bytes());
    bytes[4..].copy_from_slice(&count.at.as_millis().to_le_bytes());
    bytes
}

fn read(bytes: &[u8]) -> Option<Count> {
    let (clicks, at) = bytes.split_at_checked(4)?;
    let clicks = f32::from_le_bytes(clicks.try_into().ok()?);
    let at = Timestamp::from_millis(u64::from_le_bytes(at.try_into().ok()?));
    (clicks.is_finite() && clicks >= 0.0).then_some(Count { clicks, at })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::LocalTables;

    #[test]
    fn clicks_survive_a_restart_and_nonsense_does_no_harm() {
        let folder = tempfile::tempdir().unwrap();
        let (page, now) = (PageId(7), Timestamp::from_secs(1_000));
        {
            let tables: Arc<dyn Tables> = Arc::new(LocalTables::open(&folder.path().join("t")).unwrap());
            tables
                .put(&[(Table::Clicks, "zz", b"1"), (Table::Clicks, "0000000000000008", &[0xff; 12])])
                .unwrap();
            let counts = ClickCounts::open(tables.clone(), now).unwrap();
            assert_eq!(tables.scan(Table::Clicks).unwrap().len(), 0);
            (0..3).for_each(|_| counts.note(page, now).unwrap());
            counts.flush().unwrap();
        }
        let tables: Arc<dyn Tables> = Arc::new(LocalTables::open(&folder.path().join("t")).unwrap());
        let counts = ClickCounts::open(tables, now).unwrap();
        assert_eq!(counts.factor(page, now), 2.0);
        assert_eq!(counts.factor(PageId(9), now), 1.0);
    }
}
