//! What reaches an agent from others: URLs, hosts with all that is known of them, and what the operator told the whole
//! crawl.
//!
//! None of it is in the archive. URLs and hosts are noted together with the number of their batch, so that each batch
//! counts once; orders are remembered by their number in the cluster's list.

use super::followers::Followers;
use super::interpret::Interpreter;
use super::page_orders::{OrderReply, PageOrder};
use crate::exchange::Exchange;
use crate::exchange::orders::{CrawlOrder, read_host};
use crate::fabric::Table;
use crate::handover::import::{ParcelBatch, WholeHost};
use crate::page_set::PageSet;
use crate::wire::freight::NoteBatch;
use crate::wire::urls::{UrlBody, WireHost};
use anyhow::Result;
use farol_base::{CanonicalUrl, Host, PagePosition, Timestamp};
use farol_cluster::NodeNo;
use farol_store::pages::ArchiveReader;
use farol_store::urls::{Found, Source};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

/// Among the marks: how many of the cluster's orders were carried out.
const TOLD: &str = "told orders";

/// A batch of another agent.
pub struct Received {
    pub from: NodeNo,
    pub number: u64,
    /// `None` where it could not be read.
    pub freight: Option<Incoming>,
}

/// What a batch brings, read and bounded.
pub enum Incoming {
    Urls(UrlBody),
    Notes(NoteBatch),
    Parcel(ParcelBatch),
}

/// Batches of an agent, in the URL store.
pub fn source(from: NodeNo) -> Source {
    Source(u64::from(from.0))
}

/// What an order of the whole crawl has for the frontier.
#[derive(Debug, Default)]
pub struct Told {
    /// Hosts that come again, with what is remembered of them now.
    pub again: Vec<Host>,
}

impl Followers {
    /// Takes a batch of another agent in; durable with the next [`Followers::settle`]. Words on rights are for whoever holds
    /// them. Answers the hosts of which something came that is more than URLs.
    pub fn receive(&mut self, batch: Received) -> Result<Vec<Host>> {
        let Received { from, number, freight } = batch;
        let hosts = match freight {
            Some(Incoming::Urls(body)) => self.take_urls(from, body).map(|()| Vec::new())?,
            Some(Incoming::Parcel(parcel)) => self.take_parcel((source(from), number), &parcel)?,
            Some(Incoming::Notes(_)) | None => Vec::new(),
        };
        if let Some(exchange) = &mut self.exchange {
            exchange.took(from, number);
        }
        Ok(hosts)
    }

    /// Sorts URLs that another agent has sent, or had.
    pub fn take_urls(&mut self, from: NodeNo, body: UrlBody) -> Result<()> {
        let Some(exchange) = &mut self.exchange else { return Ok(()) };
        let mut found = Vec::new();
        exchange.learned_from_others(&body.learned);
        for wire in body.hosts {
            let refused = &exchange.desk().counters.refused;
            let Ok(host) = Host::parse(&wire.host) else {
                refused.fetch_add(wire.urls.len().max(1) as u64, Ordering::Relaxed);
                continue;
            };
            let urls = read_urls(&host, &wire);
            refused.fetch_add((wire.urls.len() - urls.len()) as u64, Ordering::Relaxed);
            found.extend(urls.into_iter().map(|found| (found, wire.hops)));
        }
        self.take_found(from, found)
    }

    /// Notes, or passes on, what another agent says there is.
    fn take_found(&mut self, from: NodeNo, mut found: Vec<(Found, u8)>) -> Result<()> {
        // What the sender takes to be in scope need not be so here: it may not have heard of the last order yet.
        let mut inside: Vec<Found> = found.iter().map(|(found, _)| found.clone()).collect();
        self.keep_in_scope(&mut inside);
        let mut inside = inside.into_iter().peekable();
        found.retain(|(found, _)| inside.next_if(|inside| inside.url == found.url).is_some());
        let Some(exchange) = &mut self.exchange else { return Ok(()) };
        let own = exchange.sort_received(from, found)?;
        self.note(None, own)?;
        Ok(())
    }

    /// Merges what another agent knows of a host, which came with this number of this sender. What makes no sense is refused,
    /// said and counted.
    pub fn take_parcel(&mut self, from: (Source, u64), batch: &ParcelBatch) -> Result<Vec<Host>> {
        let (Some(exchange), Some(importer)) = (&self.exchange, &mut self.importer) else {
            return Ok(Vec::new());
        };
        let desk = exchange.desk();
        let counters = &desk.counters;
        let (mut hosts, mut unproven) = (Vec::new(), Vec::new());
        let giver = NodeNo(u16::try_from(from.0.0).unwrap_or(u16::MAX));
        let rights = exchange.rights();
        let refuse = |why: &dyn std::fmt::Display| {
            counters.damaged.fetch_add(1, Ordering::Relaxed);
            tracing::warn!("a part of a host from sender {} is left out: {why}", from.0.0);
        };
        let parts = match batch.parts() {
            Ok(parts) => parts,
            Err(error) => {
                refuse(&error);
                return Ok(hosts);
            }
        };
        for part in parts {
            let part = part.and_then(|part| part.host().map(|host| (host, part)));
            let (host, part) = match part {
                Ok(read) => read,
                Err(error) => {
                    refuse(&error);
                    continue;
                }
            };
            // Whoever cannot have had the host cannot say what was visited there, nor what its server wants. Only the first
            // part says where it was asked.
            let is_believed = || {
                let head = part.head.as_ref().and_then(|head| head.address.map(|(address, _)| address));
                let known = self.hosts.row(&host).and_then(|row| row.address);
                let mut addresses = [head, known, rights.pinned(&host)].into_iter();
                addresses.any(|address| rights.may_have_had(giver, &host, address))
            };
            let is_own = giver == NodeNo(0) || giver == rights.me().no;
            if !is_own && !importer.is_expecting(&host, part.parcel) && !is_believed() {
                counters.unproven.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    "agent {giver} brings {host}, which it cannot have had: its URLs count as found"
                );
                let now = self.now;
                let urls = part.urls.into_iter().filter_map(|url| url.read(&host, now));
                let found = urls.map(|known| Found { url: known.url, depth: known.record.depth, hint: None });
                unproven.extend(found.map(|found| (found, 0)));
                continue;
            }
            let taken = importer.take(part, from, self.now, &mut *self.urls, &mut self.hosts)?;
            counters.refused.fetch_add(taken.left_out, Ordering::Relaxed);
            if hosts.last() != Some(&host) {
                hosts.push(host);
            }
        }
        if !unproven.is_empty() {
            self.take_found(giver, unproven)?;
        }
        Ok(hosts)
    }

    /// Hosts of which everything has come, for good, since the last time.
    pub fn whole_hosts(&mut self) -> Result<Vec<WholeHost>> {
        let Some(importer) = &mut self.importer else { return Ok(Vec::new()) };
        let whole = std::mem::take(&mut self.whole);
        let hosts: Vec<Host> = whole.iter().map(|whole| whole.host.clone()).collect();
        if !hosts.is_empty() {
            importer.done(&hosts)?;
        }
        Ok(whole)
    }

    /// Makes durable what was found here and what is for others, and writes down how far that goes.
    pub fn settle(&mut self, upto: PagePosition) -> Result<()> {
        let Some(exchange) = &mut self.exchange else { return self.flush(upto) };
        let done = exchange.settle()?;
        for (from, number) in done.iter().flatten() {
            self.urls.note(source(*from), *number)?;
        }
        if let Some(importer) = &mut self.importer {
            importer.write(&mut self.hosts)?;
        }
        self.flush(upto)?;
        if let Some(importer) = &mut self.importer {
            self.whole.extend(importer.flushed(self.now, self.delay_min));
            exchange_coming(&self.exchange, importer.coming());
        }
        let received = self.received();
        match &mut self.exchange {
            Some(exchange) if done.is_some() => exchange.settled(upto, received, &*self.fabric.tables),
            _ => Ok(()),
        }
    }

    /// The last batch of each agent that the URL store has.
    pub fn received(&self) -> BTreeMap<NodeNo, u64> {
        let agent = |(source, number): (Source, u64)| Some((NodeNo(u16::try_from(source.0).ok()?), number));
        self.urls.numbers().into_iter().filter_map(agent).collect()
    }

    /// Forgets hosts that other agents have with all that is known of them.
    pub fn forget_hosts(&mut self, hosts: &[Host]) -> Result<()> {
        self.urls.forget(hosts)?;
        for host in hosts {
            self.revisits.forget(host);
            self.hosts.forget(host)?;
        }
        Ok(())
    }

    /// Whether the operator took a host out of the crawl.
    pub fn is_host_removed(&self, host: &Host) -> bool {
        self.scope.is_removed(host)
    }

    /// How many of the cluster's orders were carried out here.
    pub fn told(&self) -> Result<u64> {
        let mark = self.fabric.tables.get(Table::Marks, TOLD)?;
        Ok(mark.and_then(|text| std::str::from_utf8(&text).ok()?.parse().ok()).unwrap_or(0))
    }

    /// Carries an order of the whole crawl out; what came of it, for whoever gave it, and for the frontier. Doing it again
    /// changes nothing.
    pub fn carry_out(
        &mut self,
        number: u64,
        order: &CrawlOrder,
        now: Timestamp,
        archive: &ArchiveReader,
        interpreter: &Interpreter,
    ) -> Result<(OrderReply, Told)> {
        let mut told = Told::default();
        let done = || Ok("It is done.".to_string());
        let reply = match order {
            CrawlOrder::Pause => self.set_paused(true).map(|()| done())?,
            CrawlOrder::Resume => self.set_paused(false).map(|()| done())?,
            CrawlOrder::Seeds(seeds) => {
                for seed in seeds.iter().filter_map(|seed| CanonicalUrl::parse(seed).ok()) {
                    self.add_seed(&seed)?;
                    told.again.extend(self.wake_seed(&seed, now)?);
                }
                done()
            }
            CrawlOrder::Moved { from, to } => {
                if let (Ok(from), Ok(to)) = (CanonicalUrl::parse(from), CanonicalUrl::parse(to)) {
                    self.seed_moved_elsewhere(&from, &to, now)?;
                }
                done()
            }
            CrawlOrder::RemoveHost(host) => {
                if let Some(host) = read_host(host) {
                    self.remove_host(&host, archive.end())?;
                }
                done()
            }
            CrawlOrder::RemovePages(pages) => {
                self.order_set(PageOrder::Remove, pages, now, archive, interpreter)?
            }
            CrawlOrder::RestorePages(pages) => {
                self.order_set(PageOrder::Restore, pages, now, archive, interpreter)?
            }
        };
        self.flush(archive.end())?;
        self.fabric.tables.put(&[(Table::Marks, TOLD, number.to_string().as_bytes())])?;
        Ok((reply, told))
    }

    fn order_set(
        &mut self,
        order: fn(PageSet) -> PageOrder,
        pages: &str,
        now: Timestamp,
        archive: &ArchiveReader,
        interpreter: &Interpreter,
    ) -> Result<OrderReply> {
        match PageSet::read(pages) {
            Ok(pages) => self.order_pages(&order(pages), now, archive, interpreter),
            Err(why) => Ok(Err(why)),
        }
    }
}

fn exchange_coming(exchange: &Option<Exchange>, coming: usize) {
    if let Some(exchange) = exchange {
        exchange.desk().coming.store(coming as u64, Ordering::Relaxed);
    }
}

/// The URL of a host and what follows it, in the one way there is to write it.
fn read_url(host: &Host, path: &str) -> Option<CanonicalUrl> {
    let text = format!("{}{path}", host.as_str());
    let url = CanonicalUrl::parse(&text).ok().filter(|url| url.as_str() == text)?;
    (url.host() == *host).then_some(url)
}

/// The URLs of a host as they were sent, without those that are none.
fn read_urls(host: &Host, wire: &WireHost) -> Vec<Found> {
    let read = wire.urls.iter().filter_map(|found| {
        let hint = found.hint.map(Timestamp::from_millis);
        Some(Found { url: read_url(host, &found.path)?, depth: found.depth, hint })
    });
    read.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::urls::WireFound;

    #[test]
    fn what_another_agent_sends_is_not_believed() {
        let paths = ["/x", "/y?z", "x", ".evil.test/", "@b.test/", "/a/../b"];
        let wire = WireHost {
            host: "http://a.test".into(),
            hops: 0,
            urls: paths.map(|path| WireFound { path: path.into(), depth: 1, hint: None }).into(),
        };
        let host = Host::parse(&wire.host).unwrap();
        let urls = read_urls(&host, &wire);
        let texts: Vec<&str> = urls.iter().map(|found| found.url.as_str()).collect();
        assert_eq!(texts, ["http://a.test/x", "http://a.test/y?z"]);
    }
}
