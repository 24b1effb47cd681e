//! The crawl as others see it, and the way to talk to it.

use super::order::Order;
use crate::fabric::{Table, Tables};
use anyhow::Result;
use farol_base::status::{EngineState, Freshness, SeedSummary};
use farol_base::sync::Mutex;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sums since the data folder was made.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Totals {
    /// Pages that came with a body worth reading (2xx).
    pub pages: u64,
    pub bytes: u64,
    pub codes: BTreeMap<u16, u64>,
    /// Visits without an answer, by kind.
    pub errors: BTreeMap<String, u64>,
}

const KEY: &str = "totals";

impl Totals {
    /// Reads the sums as last written. A crash takes those of the last seconds; the URL store knows how many pages
    /// there are at least.
    pub fn read(tables: &dyn Tables, collected: u64) -> Result<Totals> {
        let bytes = tables.get(Table::Marks, KEY)?;
        let mut totals: Totals =
            bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        totals.pages = totals.pages.max(collected);
        Ok(totals)
    }

    pub fn write(&self, tables: &dyn Tables) -> Result<()> {
        tables.put(&[(Table::Marks, KEY, &serde_json::to_vec(self)?)])
    }

    /// Answers by class (2xx, 3xx, 4xx, 5xx) and visits without one.
    pub fn by_class(&self) -> [u64; 5] {
        let class = |from: u16| self.codes.range(from..from + 100).map(|(_, count)| count).sum();
        [class(200), class(300), class(400), class(500), self.errors.values().sum()]
    }

    pub fn errors_sum(&self) -> u64 {
        self.errors.values().sum::<u64>() + self.codes.range(500..600).map(|(_, count)| count).sum::<u64>()
    }
}

const OPEN: &str = "crawling";

/// Whether a crawl was begun here and never ended: it was killed, or the power failed.
pub fn is_open(tables: &dyn Tables) -> Result<bool> {
    Ok(tables.get(Table::Marks, OPEN)?.is_some())
}

/// Notes that a crawl begins, or that it has ended as it should.
pub fn set_open(tables: &dyn Tables, is_open: bool) -> Result<()> {
    tables.put(&[(Table::Marks, OPEN, if is_open { b"1" } else { b"" })])
}

/// The crawler at one moment.
#[derive(Clone, Debug, Default)]
pub struct CrawlSnapshot {
    pub state: EngineState,
    /// Why it is in that state, in one sentence; may be empty.
    pub message: String,
    pub totals: Totals,
    pub queue: u64,
    pub urls_known: u64,
    pub hosts_known: u64,
    /// Hosts by state, in the order in which to show them.
    pub hosts: Vec<(String, u64)>,
    pub archive_bytes: u64,
    pub urls_bytes: u64,
    pub links_bytes: u64,
    /// Memory of the hosts' robots.txt rules.
    pub robots_bytes: u64,
    /// Hosts whose shape is remembered, to tell endless ones.
    pub shapes: u64,
    /// Texts that are remembered, to tell copies.
    pub texts: u64,
    /// Visits under way.
    pub visits: u64,
    /// Connections that are open, idle ones included.
    pub connections: u64,
    /// Memory of the bodies that are being read.
    pub body_bytes: u64,
    /// Hosts that were put off because their domain or address had its share of the places, in all.
    pub hosts_sent_away: u64,
    /// How fresh the index is believed to be.
    pub freshness: Option<Freshness>,
    /// The seeds and what came of them.
    pub seeds: Arc<SeedSummary>,
}

/// A way to talk to a running crawl, and to look at it.
#[derive(Clone)]
pub struct CrawlHandle {
    snapshot: Arc<Mutex<CrawlSnapshot>>,
    give: Arc<dyn Fn(Order) -> Result<()> + Send + Sync>,
}

impl CrawlHandle {
    /// `give` hands an order to the crawl's thread; an error means that the crawl has ended.
    pub fn new(
        snapshot: Arc<Mutex<CrawlSnapshot>>,
        give: impl Fn(Order) -> Result<()> + Send + Sync + 'static,
    ) -> CrawlHandle {
        CrawlHandle { snapshot, give: Arc::new(give) }
    }

    /// The crawl at this moment.
    pub fn snapshot(&self) -> CrawlSnapshot {
        self.snapshot.lock().clone()
    }

    /// Gives an order; an error means that the crawl has ended.
    pub fn order(&self, order: Order) -> Result<()> {
        (self.give)(order)
    }
}

/// Says on a snapshot that there is no room on the disk.
pub fn set_full(snapshot: &Mutex<CrawlSnapshot>, message: &str) {
    let mut snapshot = snapshot.lock();
    snapshot.state = EngineState::DiskFull;
    snapshot.message = message.to_string();
}
