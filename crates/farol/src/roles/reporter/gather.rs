//! From the table of hosts, the crawl's counts and the graph of links to reports of bounded size.

use super::ReporterWorker;
use crate::archive::hosts::HostRow;
use crate::fabric::Table;
use crate::handles::order::{Inspect, Order};
use anyhow::{Context, Result};
use farol_base::{Clock, Host, SystemClock, Timestamp};
use farol_partition::replan::{HostFacts, Report, RttMedian};
use farol_partition::rtt::median;
use std::ops::RangeInclusive;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// Hosts that one pass over the links looks at: 250,000 hosts with 40 others each take 240 MB while they are counted.
pub(super) const PASS_HOSTS: u64 = 250_000;
/// Rows of hosts that are read at a time.
const ROWS: usize = 1_000;
/// Hosts and links of one report; a host with more links alone fills one.
const REPORT_HOSTS: usize = 5_000;
const REPORT_LINKS: usize = 200_000;
/// Rest after a full report: 200,000 hosts a minute, half of what the planner takes.
const PACE: Duration = Duration::from_millis(1_500);
/// Links that are told of a host: the planner keeps no more.
const HOST_LINKS_MAX: usize = 4_096;
/// How long the crawl may take to count some hosts.
const COUNT_MAX: Duration = Duration::from_secs(30);
/// Times to connect count for so long.
const WINDOW: Duration = Duration::from_secs(30 * 24 * 3600);

/// Links of hosts to others: from, to, how many; in order.
type HostEdges = Vec<(u64, u64, u32)>;

impl ReporterWorker {
    /// Tells of all hosts of which something is news.
    pub(super) fn gather(&mut self) -> Result<()> {
        let mut report = Report {
            version: self.counted.epoch(),
            exchanged: self.counted.current(),
            peers: self.peers.medians(),
            ..Report::default()
        };
        let mut is_first = true;
        let passes = (self.sources.hosts)().div_ceil(PASS_HOSTS).clamp(1, 1 << 16);
        for pass in 0..passes {
            let range = part(pass, passes);
            let edges = self.edges(range.clone())?;
            let mut after = String::new();
            loop {
                let rows = self.sources.tables.scan_after(Table::Hosts, &after, ROWS)?;
                let Some((last, _)) = rows.last() else { break };
                after.clone_from(last);
                self.rows(rows, &range, &edges, &mut report, is_first)?;
                is_first = false;
                if self.stop.load(std::sync::atomic::Ordering::SeqCst) {
                    return Ok(());
                }
            }
        }
        // Counts and times to other agents are news every time.
        self.upload(report)
    }

    fn edges(&self, range: RangeInclusive<u64>) -> Result<HostEdges> {
        let snapshot = self.sources.links.lock().snapshot_for_hosts();
        let counted = snapshot.of_hosts(range)?;
        Ok(counted
            .map(|(from, to, count)| (from.0, to.0, u32::try_from(count).unwrap_or(u32::MAX)))
            .collect())
    }

    /// Takes some rows into the report, and uploads it where it is full.
    fn rows(
        &mut self,
        rows: Vec<(String, Vec<u8>)>,
        range: &RangeInclusive<u64>,
        edges: &HostEdges,
        report: &mut Report,
        is_first: bool,
    ) -> Result<()> {
        let read = |(text, row): (String, Vec<u8>)| {
            let host = Host::parse(&text).ok().filter(|host| range.contains(&host.hash().0))?;
            let row: HostRow = serde_json::from_slice(&row).ok()?;
            Some((host, row.address?, row))
        };
        let hosts: Vec<_> = rows.into_iter().filter_map(read).collect();
        if hosts.is_empty() {
            return Ok(());
        }
        let now = SystemClock.now();
        let known = self.known(hosts.iter().map(|(host, ..)| host.clone()).collect(), is_first)?;
        for ((host, address, row), pages) in hosts.into_iter().zip(known) {
            // A row outlives its host where that went to another agent.
            let Some(pages) = pages else { continue };
            let links = strongest(of(edges, host.hash().0));
            let rtt = round_trip(&row, now);
            let count: u64 = links.iter().map(|(_, count)| u64::from(*count)).sum();
            let samples = rtt.map_or(0, |told| told.samples);
            if !self.news.is_news(host.hash().0, address, pages, count, samples) {
                continue;
            }
            let told: usize = report.hosts.iter().map(|facts| facts.links.len()).sum();
            if report.hosts.len() >= REPORT_HOSTS || told + links.len() > REPORT_LINKS {
                let full = std::mem::take(report);
                *report = Report { version: full.version, exchanged: full.exchanged, ..Report::default() };
                self.upload(full)?;
                std::thread::sleep(PACE);
            }
            report.hosts.push(HostFacts {
                host: host.to_string(),
                address,
                pages,
                rtt,
                position: row.position(),
                language: row.language(),
                links,
            });
        }
        Ok(())
    }

    fn known(&self, hosts: Vec<Host>, newest: bool) -> Result<Vec<Option<u64>>> {
        let (reply, answer) = sync_channel(1);
        (self.sources.crawl)(Order::Inspect(Inspect::Known { hosts, newest, reply }))?;
        answer.recv_timeout(COUNT_MAX).context("the crawl does not answer")
    }
}

/// One of some equal parts of all fingerprints.
fn part(at: u64, of: u64) -> RangeInclusive<u64> {
    let width = u64::MAX / of;
    let last = if at + 1 == of { u64::MAX } else { width * (at + 1) - 1 };
    width * at..=last
}

fn of(edges: &HostEdges, host: u64) -> &[(u64, u64, u32)] {
    let first = edges.partition_point(|(from, ..)| *from < host);
    let count = edges[first..].partition_point(|(from, ..)| *from == host);
    &edges[first..first + count]
}

fn strongest(edges: &[(u64, u64, u32)]) -> Vec<(u64, u32)> {
    let mut links: Vec<(u64, u32)> = edges.iter().map(|(_, to, count)| (*to, *count)).collect();
    if links.len() > HOST_LINKS_MAX {
        links.sort_unstable_by_key(|(to, count)| (std::cmp::Reverse(*count), *to));
        links.truncate(HOST_LINKS_MAX);
        links.sort_unstable();
    }
    links
}

fn round_trip(row: &HostRow, now: Timestamp) -> Option<RttMedian> {
    let samples = row.round_trips();
    let within = samples.iter().filter(|(at, _)| now.since(*at) <= WINDOW);
    let micros: Vec<f64> = within.map(|(_, micros)| f64::from(micros)).collect();
    let samples = u16::try_from(micros.len()).unwrap_or(u16::MAX);
    Some(RttMedian { micros: median(&micros)? as u32, samples })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_tile_all_fingerprints() {
        for of in [1, 2, 3, 7, 1 << 16] {
            let mut next = Some(0);
            for at in 0..of {
                let range = part(at, of);
                assert_eq!(Some(*range.start()), next);
                next = range.end().checked_add(1);
            }
            assert_eq!(next, None, "{of}");
        }
    }

    #[test]
    fn links_of_a_host_are_found_and_the_strongest_kept() {
        let mut edges: HostEdges = vec![(1, 5, 1), (3, 1, 2), (3, 9, 4), (7, 1, 1)];
        assert_eq!(strongest(of(&edges, 3)), [(1, 2), (9, 4)]);
        assert!(of(&edges, 2).is_empty() && of(&edges, 8).is_empty());
        edges.extend((0..5000).map(|to| (9, to, if to == 4999 { 7 } else { 1 })));
        let links = strongest(of(&edges, 9));
        assert_eq!((links.len(), links.last()), (HOST_LINKS_MAX, Some(&(4999, 7))));
    }

    #[test]
    fn a_time_to_connect_is_the_median_of_a_month() {
        let now = Timestamp::from_secs(1_700_000_000);
        let at = now.as_millis();
        let row = HostRow { connects: vec![(5, 9), (at, 100), (at, 300), (at, 200)], ..HostRow::default() };
        assert_eq!(round_trip(&row, now), Some(RttMedian { micros: 200, samples: 3 }));
        assert_eq!(round_trip(&HostRow::default(), now), None);
    }
}
