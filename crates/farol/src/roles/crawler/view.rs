//! What the crawler lets others see of itself.

use crate::fabric::{Fabric, Table};
use anyhow::Result;
use farol_base::sync::Mutex;
use farol_front::State;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

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
    pub fn read(fabric: &dyn Fabric, collected: u64) -> Result<Totals> {
        let bytes = fabric.get(Table::Marks, KEY)?;
        let mut totals: Totals =
            bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()).unwrap_or_default();
        totals.pages = totals.pages.max(collected);
        Ok(totals)
    }

    pub fn write(&self, fabric: &dyn Fabric) -> Result<()> {
        fabric.put(&[(Table::Marks, KEY, &serde_json::to_vec(self)?)])
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

/// The crawler at one moment.
#[derive(Clone, Debug, Default)]
pub struct View {
    pub state: State,
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
    /// How fresh the index is believed to be.
    pub freshness: Option<farol_front::Freshness>,
}

impl View {
    /// Says that there is no room on the disk.
    pub fn set_full(view: &Mutex<View>, message: &str) {
        let mut view = view.lock();
        view.state = State::DiskFull;
        view.message = message.to_string();
    }
}
