//! Answers questions about the crawl, on the crawl's own thread.

use super::core::Core;
use crate::handles::order::{HostAnswer, HostLine, Inspect, PageAnswer};
use farol_base::{Clock, Host, SystemClock};
use farol_store::urls::HostCounts;

/// Hosts looked at for one list; beyond that the filter must be narrower.
const HOSTS_LISTED_MAX: usize = 10_000;

impl Core {
    /// Answers a question put to the crawl.
    pub fn answer(&self, inspect: Inspect) {
        match inspect {
            Inspect::Hosts { filter, state, first, count, reply } => {
                let matching = self.followers.urls.hosts(0, HOSTS_LISTED_MAX, &filter);
                let lines = matching.into_iter().map(|(host, counts)| line(self, host, counts));
                let lines: Vec<HostLine> =
                    lines.filter(|line| state.as_deref().is_none_or(|state| line.state() == state)).collect();
                let total = lines.len();
                let page = lines.into_iter().skip(first).take(count).collect();
                // Whoever asked may have gone meanwhile.
                let _ = reply.send((total, page));
            }
            Inspect::Host { host, reply } => {
                let answer = self.followers.urls.host_counts(&host).map(|counts| HostAnswer {
                    row: self.followers.hosts.row(&host).unwrap_or_default(),
                    recent: self.followers.hosts.recent(&host),
                    robots: self.followers.hosts.robots_text(&host).ok().flatten().unwrap_or_default(),
                    line: line(self, host, counts),
                });
                let _ = reply.send(answer);
            }
            Inspect::Page { url, reply } => {
                // A store that cannot be read says so elsewhere.
                let record = self.followers.urls.get(&url).ok().flatten();
                let now = SystemClock.now();
                let answer = record.map(|record| PageAnswer {
                    reason: self.followers.revisits.explain(&url, &record, now),
                    record,
                });
                let _ = reply.send(answer);
            }
        }
    }
}

fn line(core: &Core, host: Host, counts: HostCounts) -> HostLine {
    let view = core.frontier.host(&host);
    let errors = core.followers.hosts.row(&host).map_or(0, |row| row.errors.values().sum());
    let freshness = core.followers.revisits.host_freshness(&host, SystemClock.now());
    HostLine { host, counts, view, errors, freshness }
}
