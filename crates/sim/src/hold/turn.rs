//! What a node does as an agent in one turn: hears the table, sends and reads, backs up, buries, asks.

use super::checkers::{OpenRequest, newest_route};
use super::crawler::HoldCrawler;
use super::web::PageNo;
use super::world::{HoldEvent, HoldWorld, describe};
use super::{HoldAblation, chaos};
use crate::cluster::checkers::{Violation, broken};
use farol_base::random::{Random, mix};
use farol_cluster::record::{NodeRecord, read, write};
use farol_cluster::route::{BackupRecord, RouteStep, UndertakeRecord};
use farol_cluster::{ArchivePosition, Key, NodeId, NodeNo, Phase, Revision, Write};
use farol_partition::hold::{AgentId, EpochOwners, NamedOwners, Ticket, Verdict};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Backups are made this often, and before luggage leaves.
const BACK_UP: u64 = 20_000;
/// A host is asked again after this.
const POLITE: u64 = 4_000;

impl HoldWorld {
    /// Everything a crawler does in one turn.
    pub(super) fn hold(&mut self, node: usize) -> Result<(), Violation> {
        let at = self.now;
        let (is_reached, ablation) = (self.is_reached(node), self.ablation);
        let place = &mut self.nodes[node];
        let now = place.clock.now(at);
        let Some(process) = &mut place.process else { return Ok(()) };
        let names = || self.web.hosts.iter().map(|host| host.name.clone()).collect();
        let is_member = matches!(process.member.phase(), Phase::Up | Phase::Draining);
        if let Some(no) = process.member.no().filter(|_| is_member) {
            let me = AgentId { no, incarnation: process.member.incarnation() };
            if process.crawler.as_ref().is_none_or(|crawler| crawler.holder.me() != me) {
                // Whatever a former incarnation had under way is closed.
                self.checker.ended(node);
                process.open.clear();
                process.crawler = Some(HoldCrawler::new(me, ablation, names()));
            }
        }
        let Some(crawler) = &mut process.crawler else { return Ok(()) };
        crawler.tick(at);
        crawler.holder.lease(process.member.active_until());
        if let Some(route) = process.member.route() {
            for file in crawler.holder.lacks(route) {
                if let Some(table) = self.files.get(&file.name).filter(|_| is_reached) {
                    crawler.holder.learn(&file, table);
                }
            }
            if crawler.holder.hear(route, now) {
                crawler.meet(route);
            }
        }
        crawler.sweep(&mut place.disk);
        crawler.holder.tick(now);
        crawler.carry_out(&mut place.disk);
        self.close_overdue(node)?;
        if is_reached {
            self.back_up(node);
            self.exchange(node)?;
            self.bury_others(node);
        }
        self.ask(node)
    }

    /// Connections end with the lease, and ten seconds after their host was lost.
    pub(super) fn close_overdue(&mut self, node: usize) -> Result<(), Violation> {
        let place = &mut self.nodes[node];
        let now = place.clock.now(self.now);
        let Some(process) = &mut place.process else { return Ok(()) };
        let Some(crawler) = &mut process.crawler else { return Ok(()) };
        crawler.holder.lease(process.member.active_until());
        for ticket in crawler.holder.overdue(now) {
            if let Some(request) = process.open.remove(&ticket) {
                self.checker.end(request);
            }
            crawler.under_way.remove(&ticket);
            crawler.holder.end(ticket, now);
        }
        crawler.carry_out(&mut place.disk);
        Ok(())
    }

    /// Sends what is due, learns what others have, and reads its own log.
    fn exchange(&mut self, node: usize) -> Result<(), Violation> {
        let (lost, twice) = (self.lost, self.lost / 2);
        let mut dropped = None;
        for (to, message) in self.nodes[node].disk.due(self.now) {
            // A log that refuses one refuses what follows.
            if dropped == Some(to) || self.chance(lost) {
                dropped = Some(to);
                continue;
            }
            let copies = 1 + usize::from(self.chance(twice));
            let log = self.logs.entry(to).or_default();
            log.extend(std::iter::repeat_n(message, copies));
        }
        let key = |id: NodeId| Key::Node(id).to_string();
        let as_of = self.now.saturating_sub(self.random.below(3_000));
        let (mut told, mut gone) = (Vec::new(), BTreeSet::new());
        for other in &self.nodes {
            let version = self.kv.get(&key(other.id), as_of).and_then(|version| version.value.as_deref());
            let Some(record) = version.and_then(|value| read::<NodeRecord>("node", value).ok()) else {
                continue;
            };
            gone.extend(record.no.filter(|_| record.state.is_gone()));
            told.extend(record.no.map(|no| (no, record.report.expects)));
        }
        let many = self.between(0, 40) as usize;
        let place = &mut self.nodes[node];
        let now = place.clock.now(self.now);
        let Some(crawler) = place.process.as_mut().and_then(|process| process.crawler.as_mut()) else {
            return Ok(());
        };
        let me = crawler.holder.me().no;
        for (no, expects) in told {
            if let Some(next) = expects.get("parcels").and_then(|numbers| numbers.get(&me)) {
                crawler.told(&mut place.disk, no, *next);
            }
        }
        crawler.give_up(&mut place.disk, &gone);
        // Who has decided to leave takes nothing any more.
        if !self.nodes[node].is_active(self.now) {
            return Ok(());
        }
        let place = &mut self.nodes[node];
        let Some(crawler) = place.process.as_mut().and_then(|process| process.crawler.as_mut()) else {
            return Ok(());
        };
        let log = self.logs.get(&me).map(|log| &log[..]).unwrap_or_default();
        for (epoch, host) in crawler.read(&mut place.disk, log, many, now) {
            let table = crawler.heard.as_ref().and_then(|route| route.newest.table.as_ref());
            let table = table.and_then(|file| self.files.get(&file.name));
            let has_filters = table.is_some_and(|table| !table.filters.is_empty());
            self.checker.granted(epoch, host, has_filters)?;
        }
        Ok(())
    }

    /// A log loses what its receiver has not read yet.
    pub fn lose_log(&mut self, node: usize, count: usize) {
        let read = self.nodes[node].disk.read;
        if let Some(log) = self.nodes[node].member.no.and_then(|no| self.logs.get_mut(&no)) {
            log.truncate(log.len().saturating_sub(count).max(read));
        }
    }

    /// Now and then everything is copied to shared storage.
    fn back_up(&mut self, node: usize) {
        let place = &mut self.nodes[node];
        let is_due = self.now >= place.backed_up + BACK_UP
            || (place.disk.has_new_luggage() && self.ablation != Some(HoldAblation::Backup));
        let Some(no) = place.member.no.filter(|_| is_due) else { return };
        place.backed_up = self.now;
        self.backups.insert(no, place.disk.clone());
        let key = Key::Backup(no).to_string();
        let record = BackupRecord {
            v: 1,
            no,
            number: self.now,
            manifest: format!("urls/{no}/{}", self.now),
            before: None,
            archive: ArchivePosition::default(),
            expects: Default::default(),
        };
        let expected = self.kv.newest(&key).map_or(Revision::NONE, |version| Revision(version.revision));
        self.kv.apply(&Write { key, value: Some(write(&record)), expected }, self.now);
    }

    /// Whoever is named an undertaker brings the backup to the heirs.
    fn bury_others(&mut self, node: usize) {
        let Some(route) = newest_route(&self.kv) else { return };
        let sends_rights = self.ablation == Some(HoldAblation::Undertaker);
        for bequest in route.bequests {
            let key = Key::Undertake(bequest.no).to_string();
            let Some(version) = self.kv.newest(&key) else { continue };
            let Ok(named) = read::<UndertakeRecord>(&key, version.value.as_deref().unwrap_or_default())
            else {
                continue;
            };
            let expected = Revision(version.revision);
            let place = &mut self.nodes[node];
            let Some(crawler) = place.process.as_mut().and_then(|process| process.crawler.as_mut()) else {
                return;
            };
            let me = crawler.holder.me();
            let is_mine = (named.by, named.by_incarnation) == (me.no, me.incarnation) && !named.done;
            let is_due = is_mine && crawler.holder.epoch() >= route.newest.epoch;
            let Some(backup) = self.backups.get(&bequest.no).filter(|_| is_due) else { continue };
            let log = self.logs.get(&bequest.no).map(|log| &log[..]).unwrap_or_default();
            let dead = (bequest.no, bequest.incarnation);
            if crawler.undertake(&mut place.disk, dead, backup, log, sends_rights) {
                let value = Some(write(&UndertakeRecord { done: true, ..named }));
                self.kv.apply(&Write { key, value, expected }, self.now);
                self.note(|| format!("node {node} has brought what {} had", dead.0));
            }
        }
    }

    /// Asks servers for what is due.
    fn ask(&mut self, node: usize) -> Result<(), Violation> {
        let at = self.now;
        self.resolve(node);
        let due: Vec<(usize, PageNo)> = {
            let place = &self.nodes[node];
            let Some(crawler) = place.process.as_ref().and_then(|process| process.crawler.as_ref()) else {
                return Ok(());
            };
            let is_busy = |host: &usize| crawler.under_way.values().any(|(other, _)| other == host);
            let is_due = |host: &usize| crawler.next.get(host).is_none_or(|next| at >= *next);
            let hosts = place.disk.hosts.iter().filter(|(host, _)| is_due(host) && !is_busy(host));
            hosts.filter_map(|(host, store)| Some((*host, next_page(&store.pages, at)?))).collect()
        };
        for (host, page) in due {
            self.ask_one(node, host, page)?;
        }
        Ok(())
    }

    /// Answers of DNS, for hosts that wait for an address and for those that were granted.
    fn resolve(&mut self, node: usize) {
        let at = self.now;
        let fails = self.chance(150);
        let place = &mut self.nodes[node];
        let Some(crawler) = place.process.as_mut().and_then(|process| process.crawler.as_mut()) else {
            return;
        };
        let due: Vec<usize> =
            crawler.resolving.iter().filter(|(_, (when, _))| at >= *when).map(|(host, _)| *host).collect();
        for host in due {
            let hint = crawler.resolving.remove(&host).and_then(|(_, hint)| hint);
            let found = self.web.resolve(host, place.id.0, at);
            let name = crawler.name(host).to_string();
            crawler.holder.place(&name, if fails { hint.unwrap_or(found) } else { found });
        }
        let granted: Vec<usize> = place.disk.hosts.keys().copied().collect();
        for host in granted {
            let name = crawler.name(host).to_string();
            let is_due = crawler.look.get(&host).is_none_or(|when| at >= *when);
            if is_due && crawler.holder.pinned(&name).is_some() {
                crawler.look.insert(host, at + 10_000);
                let found = self.web.resolve(host, place.id.0, at);
                crawler.holder.resolved(&name, &[found]);
            }
        }
        crawler.carry_out(&mut place.disk);
    }

    fn ask_one(&mut self, node: usize, host: usize, page: PageNo) -> Result<(), Violation> {
        let at = self.now;
        let is_slow = self.chance(60);
        let lasts = if is_slow { self.between(3_000, 25_000) } else { self.between(100, 2_500) };
        let place = &mut self.nodes[node];
        let now = place.clock.now(at);
        let generation = place.generation;
        let Some(process) = &mut place.process else { return Ok(()) };
        let Some(crawler) = &mut process.crawler else { return Ok(()) };
        let name = crawler.name(host).to_string();
        let mut address =
            crawler.holder.pinned(&name).unwrap_or_else(|| self.web.resolve(host, place.id.0, at));
        let mut verdict = crawler.holder.begin(&name, address, now);
        if let Err(Verdict::At(pinned)) = verdict {
            address = pinned;
            verdict = crawler.holder.begin(&name, address, now);
        }
        crawler.next.insert(host, at + 400);
        let ticket = match verdict {
            Ok(ticket) => ticket,
            Err(Verdict::Place) => {
                crawler.holder.place(&name, address);
                crawler.carry_out(&mut place.disk);
                return Ok(());
            }
            Err(_) => return Ok(()),
        };
        crawler.under_way.insert(ticket, (host, page));
        // Once trouble is over there is a crawl to finish.
        crawler.next.insert(host, at + if at < chaos::HEALED { POLITE } else { POLITE / 8 });
        let is_new = place.disk.hosts.get(&host).is_some_and(|store| store.pages.get(&page) == Some(&false));
        if let Some(store) = place.disk.hosts.get_mut(&host) {
            store.address = Some(address);
        }
        let nodes = &self.nodes;
        let is_awake = |other: usize| nodes[other].paused_until < at || nodes[other].paused_until == 0;
        let number = self
            .checker
            .begin(OpenRequest { node, generation, host, address }, is_awake)
            .inspect_err(|_| {
                self.log.push_back(describe(nodes, host));
            })?;
        if let Some(process) = &mut self.nodes[node].process {
            process.open.insert(ticket, number);
        }
        self.check_filter(node, host, address).inspect_err(|_| {
            self.log.push_back(describe(&self.nodes, host));
        })?;
        if is_new {
            self.check_patience(node, host, page, address)?;
        }
        self.schedule(at + lasts, HoldEvent::Answer { node, generation, ticket, request: number });
        Ok(())
    }

    /// A host that the operator has given to somebody is asked by nobody else, but where two such hosts may share an address.
    fn check_filter(&self, node: usize, host: usize, address: std::net::IpAddr) -> Result<(), Violation> {
        let process = self.nodes[node].process.as_ref();
        let Some(crawler) = process.and_then(|process| process.crawler.as_ref()) else { return Ok(()) };
        let Some(route) = &crawler.heard else { return Ok(()) };
        let owners = self.owners(&route.newest, route.seed);
        let me = crawler.holder.me();
        let Some(other) = owners.filtered(crawler.name(host)).filter(|other| *other != me) else {
            return Ok(());
        };
        let mut others = (0..self.web.hosts.len()).filter(|other| self.web.may_be_at(*other, address));
        if others.any(|other| owners.filtered(crawler.name(other)) == Some(me)) {
            return Ok(());
        }
        broken(
            "filtered",
            format!("node {node} asks host {host} at {address}, which is {other:?}'s by the operator's word"),
        )
    }

    fn owners(&self, step: &RouteStep, seed: u64) -> EpochOwners {
        let file = step.table.as_ref().and_then(|file| self.files.get(&file.name));
        EpochOwners::new(step, seed, file.map(|table| Arc::new(NamedOwners::new(table))))
    }

    /// What a dead agent's backup knows as visited is not visited as new before that has arrived.
    fn check_patience(
        &mut self,
        node: usize,
        host: usize,
        page: PageNo,
        address: std::net::IpAddr,
    ) -> Result<(), Violation> {
        for (no, backup) in &self.backups {
            let Some(store) = backup.hosts.get(&host) else { continue };
            let knew = store.address == Some(address) && store.pages.get(&page) == Some(&true);
            if knew && self.awaits(node, *no, host, address) {
                return broken(
                    "patient",
                    format!(
                        "node {node} visits page {page} of host {host} as new at {address}, which the backup of {no} has as visited"
                    ),
                );
            }
        }
        Ok(())
    }

    /// Whether a node knows that what a dead agent had at an address is on its way.
    fn awaits(&self, node: usize, dead: NodeNo, host: usize, address: std::net::IpAddr) -> bool {
        let process = self.nodes[node].process.as_ref();
        let Some(crawler) = process.and_then(|process| process.crawler.as_ref()) else { return false };
        let Some(route) = &crawler.heard else { return false };
        let had = |step: &RouteStep| {
            let owners = self.owners(step, route.seed);
            let owner = owners.filtered(crawler.name(host)).or_else(|| owners.of_address(address));
            owner.is_some_and(|owner| owner.no == dead)
        };
        // 90 s by a clock that may be a tenth too fast.
        let is_young = |since: &u64| self.now < since + 81_000;
        let mut bequests = route.bequests.iter().filter(|bequest| {
            let since = crawler.awaited.get(&(bequest.no, bequest.incarnation));
            bequest.no == dead && since.is_some_and(is_young)
        });
        bequests.any(|bequest| bequest.steps.iter().any(had))
    }

    /// An answer has come: what was found goes to whoever it belongs to.
    pub(super) fn fetched(&mut self, node: usize, ticket: Ticket, request: u64) -> Result<(), Violation> {
        let at = self.now;
        self.checker.end(request);
        let place = &mut self.nodes[node];
        let now = place.clock.now(at);
        let Some(process) = &mut place.process else { return Ok(()) };
        let Some(crawler) = &mut process.crawler else { return Ok(()) };
        if process.open.get(&ticket) != Some(&request) {
            return Ok(());
        }
        process.open.remove(&ticket);
        let Some((host, page)) = crawler.under_way.remove(&ticket) else { return Ok(()) };
        crawler.holder.end(ticket, now);
        let store = place.disk.hosts.entry(host).or_default();
        if store.pages.insert(page, true) != Some(true) {
            self.refetched += u64::from(self.web.visited(page));
            let urls: Vec<(usize, PageNo)> =
                self.web.links[page].iter().map(|link| (self.web.pages[*link], *link)).collect();
            crawler.found(&mut place.disk, &urls);
        }
        crawler.carry_out(&mut place.disk);
        Ok(())
    }
}

/// A page that was never visited, or one again.
fn next_page(pages: &BTreeMap<PageNo, bool>, at: u64) -> Option<PageNo> {
    let new = pages.iter().find(|(_, visited)| !**visited).map(|(page, _)| *page);
    new.or_else(|| pages.keys().nth((mix(at) % pages.len().max(1) as u64) as usize).copied())
}
