//! What the operator has said, kept across restarts, and questions put to the running crawl.

use super::core::Core;
use super::hosts::{Note, Recent, read_position, write_position};
use crate::fabric::{Fabric, Table};
use anyhow::Result;
use farol_base::{CanonicalUrl, Clock, Host, PagePosition, SystemClock};
use farol_frontier::HostView;
use farol_frontier::revisit::planner::Reason;
use farol_store::urls::{HostCounts, Record};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

/// Something the core is told.
pub enum Order {
    Pause,
    Resume,
    AddSeed(CanonicalUrl),
    RemoveHost(Host),
    Ask(Question),
}

/// Something the core is asked; it answers on the channel.
pub enum Question {
    Hosts {
        filter: String,
        state: Option<String>,
        first: usize,
        count: usize,
        reply: SyncSender<(usize, Vec<HostLine>)>,
    },
    Host {
        host: Host,
        reply: SyncSender<Option<HostAnswer>>,
    },
    /// Why a page is visited when it is.
    Page {
        url: CanonicalUrl,
        reply: SyncSender<Option<PageAnswer>>,
    },
}

/// A host in a list.
pub struct HostLine {
    pub host: Host,
    pub counts: HostCounts,
    pub view: Option<HostView>,
    pub errors: u64,
    pub freshness: Option<farol_front::Freshness>,
}

/// What is known of a page, and why it is visited when it is.
pub struct PageAnswer {
    pub record: Record,
    pub reason: Reason,
}

/// All about one host.
pub struct HostAnswer {
    pub line: HostLine,
    pub note: Note,
    pub recent: Vec<Recent>,
    pub robots: Vec<u8>,
}

/// Hosts looked at for one list; beyond that the filter must be narrower.
const HOSTS_LISTED_MAX: usize = 10_000;

impl Question {
    pub fn answer(self, core: &Core) {
        match self {
            Question::Hosts { filter, state, first, count, reply } => {
                let matching = core.keep.urls.hosts(0, HOSTS_LISTED_MAX, &filter);
                let lines = matching.into_iter().map(|(host, counts)| line(core, host, counts));
                let lines: Vec<HostLine> =
                    lines.filter(|line| state.as_deref().is_none_or(|state| line.state() == state)).collect();
                let total = lines.len();
                let page = lines.into_iter().skip(first).take(count).collect();
                // Whoever asked may have gone meanwhile.
                let _ = reply.send((total, page));
            }
            Question::Host { host, reply } => {
                let answer = core.keep.urls.host_counts(&host).map(|counts| HostAnswer {
                    note: core.keep.hosts.note(&host).unwrap_or_default(),
                    recent: core.keep.hosts.recent(&host),
                    robots: core.keep.hosts.robots_text(&host).unwrap_or_default(),
                    line: line(core, host, counts),
                });
                let _ = reply.send(answer);
            }
            Question::Page { url, reply } => {
                // A store that cannot be read says so elsewhere.
                let record = core.keep.urls.get(&url).ok().flatten();
                let now = SystemClock.now();
                let answer = record.map(|record| PageAnswer {
                    reason: core.keep.revisits.explain(&url, &record, now),
                    record,
                });
                let _ = reply.send(answer);
            }
        }
    }
}

impl HostLine {
    /// One word for what the host is doing.
    pub fn state(&self) -> String {
        match &self.view {
            Some(view) => view.state.name().to_string(),
            None if self.counts.known
                > self.counts.collected + self.counts.gone + self.counts.refused + self.counts.failed =>
            {
                "waiting".to_string()
            }
            None => "done".to_string(),
        }
    }
}

fn line(core: &Core, host: Host, counts: HostCounts) -> HostLine {
    let view = core.frontier.host(&host);
    let errors = core.keep.hosts.note(&host).map_or(0, |note| note.errors.values().sum());
    let freshness = core.keep.revisits.host_freshness(&host, SystemClock.now());
    HostLine { host, counts, view, errors, freshness }
}

/// The operator's standing orders.
pub struct Orders {
    fabric: Arc<dyn Fabric>,
    paused: bool,
    seeds: Vec<CanonicalUrl>,
    removed: HashMap<Host, PagePosition>,
}

const PAUSED: &str = "paused";
const SEED: &str = "seed ";
const REMOVED: &str = "removed ";

impl Orders {
    pub fn open(fabric: Arc<dyn Fabric>) -> Result<Orders> {
        let mut orders =
            Orders { fabric: fabric.clone(), paused: false, seeds: Vec::new(), removed: HashMap::new() };
        for (key, value) in fabric.scan(Table::Orders)? {
            if key == PAUSED {
                orders.paused = true;
            } else if let Some(url) = key.strip_prefix(SEED) {
                orders.seeds.extend(CanonicalUrl::parse(url).ok());
            } else if let Some(host) = key.strip_prefix(REMOVED)
                && let Ok(host) = Host::parse(host)
            {
                orders.removed.insert(host, read_position(&value));
            }
        }
        Ok(orders)
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
        self.fabric.put(&[(Table::Orders, PAUSED, if paused { b"yes" } else { b"" })])
    }

    /// Remembers a seed; one on a removed host lets the host back in.
    pub fn add_seed(&mut self, url: &CanonicalUrl) -> Result<()> {
        let lifted = self.removed.contains_key(&url.host());
        if self.seeds.contains(url) && !lifted {
            return Ok(());
        }
        let seed = format!("{SEED}{url}");
        self.fabric.put(&[(Table::Orders, &seed, b"yes")])?;
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
        let mut entries: Vec<(Table, &str, &[u8])> = vec![(Table::Orders, &key, &mark)];
        entries.extend(gone.iter().map(|seed| (Table::Orders, seed.as_str(), &b""[..])));
        self.fabric.put(&entries)?;
        self.seeds.retain(|seed| seed.host() != *host);
        self.removed.insert(host.clone(), end);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Local;

    #[test]
    fn orders_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Orders::open(Arc::new(Local::open(&dir.path().join("t")).unwrap())).unwrap();
        let (a, b) = (CanonicalUrl::parse("http://a/").unwrap(), CanonicalUrl::parse("http://b/").unwrap());
        let end = PagePosition { file: 2, offset: 9 };
        {
            let mut orders = open();
            orders.set_paused(true).unwrap();
            orders.add_seed(&a).unwrap();
            orders.add_seed(&b).unwrap();
            orders.remove_host(&b.host(), end).unwrap();
        }
        let mut orders = open();
        assert!(orders.paused());
        assert_eq!(orders.seeds(), [a]);
        assert_eq!(orders.removed().get(&b.host()), Some(&end));
        orders.set_paused(false).unwrap();
        drop(orders);
        assert!(!open().paused());
    }
}
