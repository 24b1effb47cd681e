//! What reaches an agent from others: URLs of its hosts, and what the operator told the whole crawl.
//!
//! Neither is in the archive. URLs are noted together with the number of their batch, so that each batch counts once;
//! orders are remembered by their number in the cluster's list.

use super::followers::Followers;
use super::interpret::Interpreter;
use super::page_orders::{OrderReply, PageOrder};
use crate::exchange::Exchange;
use crate::exchange::orders::{CrawlOrder, read_host};
use crate::fabric::Table;
use crate::page_set::PageSet;
use crate::wire::urls::{UrlBody, WireHost};
use anyhow::Result;
use farol_base::{CanonicalUrl, Host, PagePosition, Timestamp};
use farol_cluster::NodeNo;
use farol_store::pages::ArchiveReader;
use farol_store::urls::{Found, KnownUrl, Source};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

/// Batches of an agent that is gone, sorted in one go.
const ORPHANS_MAX: usize = 16;
/// Among the marks: how many of the cluster's orders were carried out.
const TOLD: &str = "told orders";

/// A batch of another agent.
#[derive(Debug)]
pub struct Received {
    pub from: NodeNo,
    pub number: u64,
    /// `None` where it could not be read.
    pub body: Option<UrlBody>,
}

/// Batches of URLs from an agent, in the URL store.
fn source(from: NodeNo) -> Source {
    Source(u64::from(from.0))
}

/// What an order of the whole crawl has for the frontier.
#[derive(Debug, Default)]
pub struct Told {
    /// Hosts that come again, with what is remembered of them now.
    pub again: Vec<Host>,
}

impl Followers {
    /// Takes a batch of another agent in; durable with the next [`Followers::settle`].
    pub fn receive(&mut self, batch: Received) -> Result<()> {
        let Received { from, number, body } = batch;
        self.take_body((from, number), body.unwrap_or_default())?;
        if let Some(exchange) = &mut self.exchange {
            exchange.took(from, number);
        }
        Ok(())
    }

    fn take_body(&mut self, batch: (NodeNo, u64), body: UrlBody) -> Result<()> {
        let Some(exchange) = &mut self.exchange else { return Ok(()) };
        let (mut found, mut known) = (Vec::new(), Vec::new());
        exchange.learned_from_others(&body.learned);
        for wire in body.hosts {
            let Ok(host) = Host::parse(&wire.host) else {
                exchange.desk().counters.refused.fetch_add(1, Ordering::Relaxed);
                continue;
            };
            if let Some(address) = wire.address {
                exchange.pin(&host, address);
            }
            let sent = wire.urls.len() + wire.visited.len();
            let urls = read_urls(&host, &wire);
            let mut taken = urls.len();
            found.extend(urls.into_iter().map(|found| (found, wire.hops)));
            for visited in &wire.visited {
                let Some(url) = read_url(&host, &visited.path) else { continue };
                let Some(record) = visited.read() else { continue };
                taken += 1;
                if !exchange.pass_visited(&host, visited, &wire)? {
                    known.push(KnownUrl { url, record });
                }
            }
            if wire.rest > 0 && !wire.visited.is_empty() {
                self.hosts.rest_until(&host, wire.rest)?;
            }
            exchange.desk().counters.refused.fetch_add((sent - taken) as u64, Ordering::Relaxed);
        }
        self.urls.import(&known)?;
        // What the sender takes to be in scope need not be so here: it may not have heard of the last order yet.
        let mut inside: Vec<Found> = found.iter().map(|(found, _)| found.clone()).collect();
        self.keep_in_scope(&mut inside);
        let mut inside = inside.into_iter().peekable();
        found.retain(|(found, _)| inside.next_if(|inside| inside.url == found.url).is_some());
        let urls = &self.urls;
        let Some(exchange) = &mut self.exchange else { return Ok(()) };
        let own = exchange.sort_received(batch, found, &|host| urls.host_counts(host).is_some())?;
        self.note(None, own)?;
        Ok(())
    }

    /// A host of which URLs waited was looked up.
    pub fn located(&mut self, host: &Host, address: Option<IpAddr>) -> Result<()> {
        let Some(exchange) = &mut self.exchange else { return Ok(()) };
        let own = exchange.located(host, address)?;
        self.note(None, own)?;
        Ok(())
    }

    /// Makes durable what was found here and what is for others, and writes down how far that goes.
    pub fn settle(&mut self, upto: PagePosition) -> Result<()> {
        let Some(exchange) = &mut self.exchange else { return self.flush(upto) };
        let done = exchange.settle()?;
        for (from, number) in done.iter().flatten() {
            self.urls.note(source(*from), *number)?;
        }
        self.flush(upto)?;
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

    /// Sends all that is known of hosts to the agents whose they are, and forgets them here. Nobody may be asking them.
    pub fn pass_on(&mut self, hosts: &[(Host, NodeNo, Option<IpAddr>)], upto: PagePosition) -> Result<()> {
        let names: Vec<Host> = hosts.iter().map(|(host, ..)| host.clone()).collect();
        let rests = names.iter().map(|host| self.hosts.row(host).map_or(0, |row| row.not_before_ms));
        let to: HashMap<&Host, (NodeNo, (Option<IpAddr>, u64))> = hosts
            .iter()
            .zip(rests)
            .map(|((host, owner, address), rest)| (host, (*owner, (*address, rest))))
            .collect();
        let export = self.urls.export(&names)?;
        let Some(exchange) = &mut self.exchange else { return Ok(()) };
        let mut failed = None;
        export.walk(&mut |host, path, record| {
            let Some((owner, place)) = to.get(host) else { return ControlFlow::Continue(()) };
            match exchange.pass_on(*owner, host, path, record, *place) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        // On the disk for the others before it is gone here.
        self.settle(upto)?;
        if self.exchange.as_ref().is_some_and(Exchange::has_unkept) {
            return Ok(());
        }
        self.urls.forget(&names)?;
        for host in &names {
            self.revisits.forget(host);
            self.hosts.forget(host)?;
        }
        Ok(())
    }

    /// Sorts some of what agents were to get that are gone; answers whether there was anything.
    pub fn sort_orphans(&mut self, upto: PagePosition) -> Result<bool> {
        let Some(exchange) = &mut self.exchange else { return Ok(false) };
        let Some((of, number, bodies)) = exchange.orphans(ORPHANS_MAX)? else { return Ok(false) };
        let desk = exchange.desk();
        for body in bodies {
            self.take_body((NodeNo(0), 0), body)?;
        }
        self.settle(upto)?;
        desk.outboxes.lock().taken(of, number)?;
        Ok(true)
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
            address: None,
            hops: 0,
            rest: 0,
            urls: paths.map(|path| WireFound { path: path.into(), depth: 1, hint: None }).into(),
            visited: Vec::new(),
        };
        let host = Host::parse(&wire.host).unwrap();
        let urls = read_urls(&host, &wire);
        let texts: Vec<&str> = urls.iter().map(|found| found.url.as_str()).collect();
        assert_eq!(texts, ["http://a.test/x", "http://a.test/y?z"]);
    }
}
