//! Computes ranks from a snapshot, from the first record to the table.
//!
//! Three passes over the records would be one too many: the first numbers pages and hosts, the second writes the
//! edges by number and counts links between hosts; every iteration then reads 4 bytes per link.
//! Memory while it runs: 22 bytes per page (ids, ranks, sums, the table over the ids), 12 per pair of linked hosts,
//! and 11 MiB for sorting.

use super::edges::EdgeWriter;
use super::hosts::HostGraph;
use super::ids::{IdSet, Ids, PairCounts};
use super::power::{Budget, Outcome, iterate};
use super::table::{RankTable, Ranks};
use crate::error::Error;
use crate::record::Record;
use crate::snapshot::Snapshot;
use farol_base::disk::Disk;
use std::sync::Arc;

/// A rank computation that is ready to run, on any thread.
pub struct RankJob {
    snapshot: Snapshot,
    previous: Arc<RankTable>,
    disk: Arc<dyn Disk>,
    /// Name of the scratch file.
    scratch: String,
}

/// What a [`RankJob`] came to.
#[derive(Debug)]
pub struct Ranking {
    pub table: RankTable,
    pub report: RankReport,
}

/// How a rank computation went.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankReport {
    /// Pages that link or are linked to.
    pub pages: usize,
    /// Links that were counted.
    pub links: u64,
    pub hosts: usize,
    /// Pairs of hosts with at least one link.
    pub host_pairs: usize,
    /// Passes over the page graph.
    pub iterations: u32,
    /// Change of all page ranks by the last pass.
    pub residual: f64,
    /// Passes over the host graph.
    pub host_iterations: u32,
}

impl RankJob {
    pub(crate) fn new(
        snapshot: Snapshot,
        previous: Arc<RankTable>,
        disk: Arc<dyn Disk>,
        scratch: String,
    ) -> RankJob {
        RankJob { snapshot, previous, disk, scratch }
    }

    /// Runs to the end. Give the table to [`crate::Links::install`].
    ///
    /// # Errors
    /// Where segments cannot be read or the scratch file, 4 bytes per link, cannot be written.
    pub fn run(self, budget: Budget) -> Result<Ranking, Error> {
        let (pages, hosts) = self.number()?;
        let mut edges = EdgeWriter::create(&self.disk, self.scratch.clone())?;
        let mut pairs = PairCounts::default();
        let mut row = Row::default();
        self.snapshot.each(&mut |record| {
            row.fill(record, &pages, &hosts, &mut pairs);
            match pages.find(record.page.0) {
                Some(source) => edges.row(source, &row.same_host, &row.others),
                None => Ok(()),
            }
        })?;
        let (mut edges, pairs) = (edges.finish(pages.len())?, pairs.finish());
        let mut report = RankReport {
            pages: pages.len(),
            links: edges.edges,
            hosts: hosts.len(),
            host_pairs: pairs.len(),
            ..RankReport::default()
        };

        // Hosts first: their graph is let go before the sums of the pages are allocated.
        let start = self.previous.hosts.start_for(&hosts);
        let outcome = iterate(&mut HostGraph::new(hosts.len(), pairs), start, budget)?;
        report.host_iterations = outcome.iterations;
        let hosts = Ranks::new(hosts, outcome.rank);

        let start = self.previous.pages.start_for(&pages);
        let Outcome { rank, iterations, residual } = iterate(&mut edges, start, budget)?;
        (report.iterations, report.residual) = (iterations, residual);
        let pages = Ranks::new(pages, rank);
        Ok(Ranking { table: RankTable { pages, hosts }, report })
    }

    /// Collects every page and host that a record or a counted link names.
    fn number(&self) -> Result<(Ids, Ids), Error> {
        let (mut pages, mut hosts) = (IdSet::default(), IdSet::default());
        self.snapshot.each(&mut |record| {
            pages.push(record.page.0);
            hosts.push(record.host.0);
            for link in record.links().filter(|link| !link.nofollow) {
                pages.push(link.target);
                if link.other_host {
                    hosts.push(link.target_host.0);
                }
            }
            Ok(())
        })?;
        Ok((pages.finish(), hosts.finish()))
    }
}

/// The counted links of one page by number.
#[derive(Default)]
struct Row {
    same_host: Vec<u32>,
    others: Vec<u32>,
}

impl Row {
    fn fill(&mut self, record: &Record<'_>, pages: &Ids, hosts: &Ids, pairs: &mut PairCounts) {
        self.same_host.clear();
        self.others.clear();
        let from = hosts.find(record.host.0);
        for link in record.links().filter(|link| !link.nofollow && link.target != record.page.0) {
            let Some(target) = pages.find(link.target) else { continue };
            if !link.other_host {
                self.same_host.push(target);
                continue;
            }
            self.others.push(target);
            if let Some((from, to)) = from.zip(hosts.find(link.target_host.0)) {
                pairs.push(from, to);
            }
        }
    }
}
