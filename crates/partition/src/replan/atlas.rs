//! Everything that agents told: bounded, the same whatever order it came in, and kept across leaders.
//!
//! Of each host the accounts of the last two agents that crawled it are kept, because the newer one has only begun to
//! count; of each address the round-trip times of the last eight agents. The later account of one agent replaces its
//! earlier one, so that two memories of the same crawl can be merged in any order.
//!
//! INVARIANT: nothing that agents tell makes it larger than [`Bounds`] say.
//! INVARIANT: an agent tells only of hosts that it owns by the table in force or by the one before.
//! Does not plan; see [`super::Replanner`].

use super::bounds::Bounds;
use super::in_force::InForce;
use super::report::{Exchanged, HostFacts, Reason, Receipt, Report, RttMedian};
use crate::table::host_key;
use crate::{Error, Position};
use farol_base::Timestamp;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Accounts of a host that are kept.
const TOLD_MAX: usize = 2;
/// Agents whose round-trip times to an address are kept.
const RTT_MAX: usize = 8;
/// Tables whose exchanges are counted.
const VERSIONS_MAX: usize = 8;

/// What one agent told of a host.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Number of the agent in [`Memory::agents`].
    pub agent: u16,
    pub at: Timestamp,
    pub address: IpAddr,
    pub pages: u64,
    pub position: Option<Position>,
    pub language: Option<[u8; 2]>,
    /// In rising order of fingerprints.
    pub links: Vec<(u64, u32)>,
}

/// A host that somebody told of; the newest account first.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownHost {
    pub name: String,
    pub told: Vec<Told>,
}

/// The round-trip time of an agent to an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RttTold {
    pub agent: u16,
    pub at: Timestamp,
    pub median: RttMedian,
}

/// All of an atlas as plain data, for whoever stores it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    pub agents: Vec<String>,
    /// The number of each agent's last report.
    pub numbers: Vec<u64>,
    pub hosts: Vec<KnownHost>,
    pub rtt: Vec<(IpAddr, Vec<RttTold>)>,
    /// Agents, lesser number first, and the time between them.
    pub peers: Vec<(u16, u16, RttTold)>,
    /// Version, agent, what it exchanged.
    pub exchanged: Vec<(u64, u16, Exchanged)>,
    pub refused: Vec<(String, Reason, u64)>,
}

/// What is told within one minute.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    since: Timestamp,
    hosts: u32,
}

/// The planner's knowledge.
#[derive(Clone, Debug, Default)]
pub struct Atlas {
    pub bounds: Bounds,
    agents: Vec<String>,
    numbers: Vec<u64>,
    rates: Vec<Rate>,
    /// Hosts whose newest account is by each agent.
    held: Vec<usize>,
    hosts: BTreeMap<u64, KnownHost>,
    links: usize,
    rtt: BTreeMap<IpAddr, Vec<RttTold>>,
    peers: BTreeMap<(u16, u16), RttTold>,
    exchanged: BTreeMap<(u64, u16), Exchanged>,
    refused: BTreeMap<(String, Reason), u64>,
}

/// Tables by which an agent may have gone, newest first, ready for look-ups.
#[derive(Clone, Debug, Default)]
pub struct Owners {
    tables: Vec<InForce>,
}

impl Owners {
    /// Takes a newer table; the one before stays good for reports that are under way.
    pub fn install(&mut self, table: &InForce) {
        if self.tables.first().is_none_or(|newest| newest.version() < table.version()) {
            self.tables.insert(0, table.clone());
            self.tables.truncate(2);
        }
    }

    fn knows(&self, version: u64) -> bool {
        // Before the first table there is none to go by, and whoever comes new does not know it yet.
        version == 0 || self.tables.iter().any(|table| table.version() == version)
    }

    /// Whether a host is an agent's. Before the first table everybody's hosts are its own.
    fn are(&self, agent: &str, host: &str, address: IpAddr) -> bool {
        let is_its = |table: &InForce| table.owner(host, Some(address)).is_none_or(|owner| owner == agent);
        self.tables.is_empty() || self.tables.iter().any(is_its)
    }
}

impl Atlas {
    pub fn new(bounds: Bounds) -> Atlas {
        Atlas { bounds, ..Atlas::default() }
    }

    /// Takes a report in, as far as it can be believed. `members` are the agents there are.
    pub fn take(&mut self, now: Timestamp, report: &Report, members: &[String], owners: &Owners) -> Receipt {
        let mut receipt = Receipt::default();
        match self.admit(now, report, members, owners) {
            Err(reason) => receipt.refuse(reason),
            Ok(agent) => {
                self.numbers[agent as usize] = report.number;
                for facts in &report.hosts {
                    match self.take_host(now, agent, facts, members.len(), owners) {
                        Ok(()) => receipt.taken += 1,
                        Err(reason) => receipt.refuse(reason),
                    }
                }
                self.take_peers(now, agent, report, members, &mut receipt);
                self.take_exchanged(agent, report, &mut receipt);
            }
        }
        for (reason, count) in &receipt.refused {
            // What strangers are called is not remembered: they could invent names for ever.
            let who = if *reason == Reason::UnknownAgent { "" } else { report.agent.as_str() };
            *self.refused.entry((who.to_string(), *reason)).or_default() += count;
        }
        receipt
    }

    fn admit(
        &mut self,
        now: Timestamp,
        report: &Report,
        members: &[String],
        owners: &Owners,
    ) -> Result<u16, Reason> {
        if !members.contains(&report.agent) {
            return Err(Reason::UnknownAgent);
        }
        let agent = self.number_of(&report.agent).ok_or(Reason::Full)?;
        let links: usize = report.hosts.iter().map(|host| host.links.len()).sum();
        if report.hosts.len() > self.bounds.report_hosts_max
            || links > self.bounds.report_links_max
            || report.peers.len() > self.bounds.agents_max
        {
            return Err(Reason::TooLarge);
        }
        if report.number <= self.numbers[agent as usize] {
            return Err(Reason::Doubled);
        }
        if !owners.knows(report.version) {
            return Err(Reason::WrongVersion);
        }
        let rate = &mut self.rates[agent as usize];
        if now.since(rate.since) >= Duration::from_secs(60) || now < rate.since {
            *rate = Rate { since: now, hosts: 0 };
        }
        let told = rate.hosts.saturating_add(report.hosts.len().max(1) as u32);
        if told > self.bounds.hosts_per_minute_max {
            return Err(Reason::Flood);
        }
        rate.hosts = told;
        Ok(agent)
    }

    /// The number of an agent, a new one where it has none; `None` where there are too many.
    fn number_of(&mut self, name: &str) -> Option<u16> {
        if let Some(at) = self.agents.iter().position(|known| known == name) {
            return Some(at as u16);
        }
        if self.agents.len() >= self.bounds.agents_max {
            return None;
        }
        self.agents.push(name.to_string());
        self.numbers.push(0);
        self.rates.push(Rate::default());
        self.held.push(0);
        Some(self.agents.len() as u16 - 1)
    }

    fn take_host(
        &mut self,
        now: Timestamp,
        agent: u16,
        facts: &HostFacts,
        members: usize,
        owners: &Owners,
    ) -> Result<(), Reason> {
        let address = facts.address.to_canonical();
        if !is_host(&facts.host, self.bounds.name_bytes_max)
            || !is_unicast(address)
            || facts.pages > self.bounds.pages_max
        {
            return Err(Reason::Malformed);
        }
        if !owners.are(&self.agents[agent as usize], &facts.host, address) {
            return Err(Reason::NotYours);
        }
        let key = host_key(&facts.host);
        if let Some(known) = self.hosts.get(&key) {
            if known.name != facts.host {
                // Two names of one fingerprint: the first stays.
                return Err(Reason::Malformed);
            }
            // A host moves to another address when its owner says so. Otherwise anybody could pull hosts to an address
            // of its own.
            let newest = &known.told[0];
            let fresh = now.since(newest.at) < self.bounds.claim_after;
            let keeps = || owners.are(&self.agents[newest.agent as usize], &facts.host, newest.address);
            let is_still_theirs = || {
                !owners.are(&self.agents[agent as usize], &facts.host, newest.address)
                    || owners.tables.is_empty()
            };
            if newest.agent != agent && newest.address != address && fresh && keeps() && is_still_theirs() {
                return Err(Reason::NotYours);
            }
        } else {
            let share =
                (self.bounds.hosts_max as f64 * self.bounds.share_max / members.max(1) as f64) as usize;
            if self.hosts.len() >= self.bounds.hosts_max || self.held[agent as usize] >= share {
                return Err(Reason::Full);
            }
        }
        let told = Told {
            agent,
            at: now,
            address,
            pages: facts.pages,
            position: facts.position,
            language: facts.language,
            links: self.strongest(&facts.links),
        };
        if let Some(median) = facts.rtt
            && median.micros > 0
            && Duration::from_micros(u64::from(median.micros)) < self.bounds.rtt_max
        {
            let known = self.rtt.entry(address).or_default();
            join_rtt(known, RttTold { agent, at: now, median });
        }
        self.join(key, &facts.host, told);
        Ok(())
    }

    /// The links that count most, in order of fingerprints, as far as there is room.
    fn strongest(&self, links: &[(u64, u32)]) -> Vec<(u64, u32)> {
        let mut kept: BTreeMap<u64, u32> = BTreeMap::new();
        for (to, count) in links.iter().filter(|(_, count)| *count > 0) {
            let sum = kept.entry(*to).or_default();
            *sum = sum.saturating_add(*count);
        }
        let room = self.bounds.links_max.saturating_sub(self.links).min(self.bounds.links_of_host_max);
        let mut kept: Vec<(u64, u32)> = kept.into_iter().collect();
        if kept.len() > room {
            kept.sort_unstable_by_key(|(to, count)| (std::cmp::Reverse(*count), *to));
            kept.truncate(room);
            kept.sort_unstable();
        }
        kept
    }

    fn join(&mut self, key: u64, name: &str, told: Told) {
        let known =
            self.hosts.entry(key).or_insert_with(|| KnownHost { name: name.to_string(), told: Vec::new() });
        if let Some(newest) = known.told.first() {
            self.held[newest.agent as usize] -= 1;
        }
        self.links -= known.told.iter().map(|told| told.links.len()).sum::<usize>();
        match known.told.iter_mut().find(|before| before.agent == told.agent) {
            Some(before) if before.at > told.at => {}
            Some(before) => *before = told,
            None => known.told.push(told),
        }
        let names = &self.agents;
        known.told.sort_by(|a, b| {
            b.at.cmp(&a.at).then_with(|| names[a.agent as usize].cmp(&names[b.agent as usize]))
        });
        known.told.truncate(TOLD_MAX);
        self.links += known.told.iter().map(|told| told.links.len()).sum::<usize>();
        self.held[known.told[0].agent as usize] += 1;
    }

    fn take_peers(
        &mut self,
        now: Timestamp,
        agent: u16,
        report: &Report,
        members: &[String],
        receipt: &mut Receipt,
    ) {
        for (name, median) in &report.peers {
            let possible = median.micros > 0
                && Duration::from_micros(u64::from(median.micros)) < self.bounds.rtt_max
                && members.contains(name)
                && *name != report.agent;
            let other = if possible { self.number_of(name) } else { None };
            let Some(other) = other else {
                receipt.refuse(Reason::Malformed);
                continue;
            };
            let ends = (agent.min(other), agent.max(other));
            let told = RttTold { agent, at: now, median: *median };
            let known = self.peers.entry(ends).or_insert(told);
            // Of two that measured the same way the longer time counts: nobody gets nearer by saying so.
            let is_own = known.agent == agent;
            if is_own || median.micros > known.median.micros {
                *known = told;
            }
        }
    }

    fn take_exchanged(&mut self, agent: u16, report: &Report, receipt: &mut Receipt) {
        let Exchanged { links, forwarded } = report.exchanged;
        if forwarded > links {
            receipt.refuse(Reason::Malformed);
            return;
        }
        if links == 0 {
            return;
        }
        self.exchanged.insert((report.version, agent), report.exchanged);
        let versions: Vec<u64> = self.exchanged.keys().map(|(version, _)| *version).collect();
        let mut newest = versions;
        newest.dedup();
        if newest.len() > VERSIONS_MAX {
            let oldest = newest[newest.len() - VERSIONS_MAX];
            self.exchanged.retain(|(version, _), _| *version >= oldest);
        }
    }

    /// What all agents exchanged under a table.
    pub fn exchanged(&self, version: u64) -> Exchanged {
        self.exchanged_within(version..version.saturating_add(1))
    }

    /// The same under several tables together.
    pub fn exchanged_within(&self, versions: std::ops::Range<u64>) -> Exchanged {
        let of = self.exchanged.iter().filter(|((version, _), _)| versions.contains(version));
        of.fold(Exchanged::default(), |sum, (_, one)| Exchanged {
            links: sum.links.saturating_add(one.links),
            forwarded: sum.forwarded.saturating_add(one.forwarded),
        })
    }

    /// Forgets what is too old.
    pub fn forget(&mut self, now: Timestamp) {
        let remembered = self.bounds.remembered;
        let is_old = |at: Timestamp| now.since(at) > remembered;
        for known in self.hosts.values_mut() {
            known.told.retain(|told| !is_old(told.at));
        }
        self.hosts.retain(|_, known| !known.told.is_empty());
        for known in self.rtt.values_mut() {
            known.retain(|told| !is_old(told.at));
        }
        self.rtt.retain(|_, known| !known.is_empty());
        self.peers.retain(|_, told| !is_old(told.at));
        self.count();
    }

    /// Keeps only some hosts.
    pub(super) fn retain(&mut self, keep: impl Fn(&str, IpAddr) -> bool) {
        self.hosts.retain(|_, known| keep(&known.name, known.told[0].address));
        self.count();
    }

    fn count(&mut self) {
        self.held = vec![0; self.agents.len()];
        self.links = 0;
        for known in self.hosts.values() {
            self.held[known.told[0].agent as usize] += 1;
            self.links += known.told.iter().map(|told| told.links.len()).sum::<usize>();
        }
    }

    /// Adds another memory of the same crawl; the later account of each agent counts.
    pub fn merge(&mut self, other: &Atlas) {
        let numbers: Vec<Option<u16>> = other.agents.iter().map(|name| self.number_of(name)).collect();
        let map = |agent: u16| numbers[agent as usize];
        for (theirs, mine) in numbers.iter().enumerate() {
            if let Some(mine) = mine {
                let number = &mut self.numbers[*mine as usize];
                *number = (*number).max(other.numbers[theirs]);
            }
        }
        for (key, known) in &other.hosts {
            let is_new = !self.hosts.contains_key(key);
            if is_new && self.hosts.len() >= self.bounds.hosts_max {
                continue;
            }
            for told in &known.told {
                if let Some(agent) = map(told.agent) {
                    let links = self.strongest(&told.links);
                    self.join(*key, &known.name, Told { agent, links, ..told.clone() });
                }
            }
        }
        for (address, all) in &other.rtt {
            for told in all {
                if let Some(agent) = map(told.agent) {
                    join_rtt(self.rtt.entry(*address).or_default(), RttTold { agent, ..*told });
                }
            }
        }
        for ((a, b), told) in &other.peers {
            if let (Some(a), Some(b), Some(agent)) = (map(*a), map(*b), map(told.agent)) {
                let told = RttTold { agent, ..*told };
                let known = self.peers.entry((a.min(b), a.max(b))).or_insert(told);
                if (told.at, told.median.micros) > (known.at, known.median.micros) {
                    *known = told;
                }
            }
        }
        for ((version, agent), one) in &other.exchanged {
            if let Some(agent) = map(*agent) {
                let known = self.exchanged.entry((*version, agent)).or_default();
                if one.links > known.links {
                    *known = *one;
                }
            }
        }
        for (what, count) in &other.refused {
            let known = self.refused.entry(what.clone()).or_default();
            *known = (*known).max(*count);
        }
    }

    /// All of it as plain data.
    pub fn memory(&self) -> Memory {
        Memory {
            agents: self.agents.clone(),
            numbers: self.numbers.clone(),
            hosts: self.hosts.values().cloned().collect(),
            rtt: self.rtt.iter().map(|(address, told)| (*address, told.clone())).collect(),
            peers: self.peers.iter().map(|((a, b), told)| (*a, *b, *told)).collect(),
            exchanged: self
                .exchanged
                .iter()
                .map(|((version, agent), one)| (*version, *agent, *one))
                .collect(),
            refused: self.refused.iter().map(|((who, why), count)| (who.clone(), *why, *count)).collect(),
        }
    }

    /// Takes up a memory that was stored.
    ///
    /// # Errors
    /// Where it is not one that [`Atlas::memory`] made, or larger than the bounds.
    pub fn restore(bounds: Bounds, memory: Memory) -> Result<Atlas, Error> {
        let damaged = |what| Err(Error::Memory(what));
        let count = memory.agents.len();
        if count > bounds.agents_max || memory.numbers.len() != count {
            return damaged("it has not one number for each agent");
        }
        if memory.hosts.len() > bounds.hosts_max || memory.rtt.len() > 2 * bounds.hosts_max {
            return damaged("it has more hosts than may be");
        }
        let known = |agent: u16| (agent as usize) < count;
        let mut atlas = Atlas::new(bounds);
        for host in memory.hosts {
            let in_order = host.told.is_sorted_by(|a, b| a.at >= b.at)
                && host.told.iter().all(|told| known(told.agent) && told.links.is_sorted());
            if !in_order || host.told.is_empty() || host.told.len() > TOLD_MAX {
                return damaged("an account of a host is not in order");
            }
            atlas.hosts.insert(host_key(&host.name), host);
        }
        for (address, told) in memory.rtt {
            if told.len() > RTT_MAX || !told.iter().all(|told| known(told.agent)) {
                return damaged("a round-trip time is by an agent that is not named");
            }
            atlas.rtt.insert(address, told);
        }
        for (a, b, told) in memory.peers {
            if !(known(a) && known(b) && known(told.agent)) {
                return damaged("a round-trip time is by an agent that is not named");
            }
            atlas.peers.insert((a, b), told);
        }
        for (version, agent, one) in memory.exchanged {
            if !known(agent) {
                return damaged("an exchange is by an agent that is not named");
            }
            atlas.exchanged.insert((version, agent), one);
        }
        atlas.refused = memory.refused.into_iter().map(|(who, why, count)| ((who, why), count)).collect();
        atlas.rates = vec![Rate::default(); count];
        (atlas.agents, atlas.numbers) = (memory.agents, memory.numbers);
        atlas.count();
        Ok(atlas)
    }

    pub fn hosts(&self) -> impl ExactSizeIterator<Item = (u64, &KnownHost)> {
        self.hosts.iter().map(|(key, known)| (*key, known))
    }

    pub fn pages(&self) -> u64 {
        self.hosts.values().map(|known| known.told[0].pages).sum()
    }

    /// Links between hosts that are kept.
    pub fn links(&self) -> usize {
        self.links
    }

    /// Whether an agent has ever told anything that could be taken in.
    pub fn has_heard(&self, agent: &str) -> bool {
        self.number(agent) > 0
    }

    /// The number of an agent's last report.
    pub fn number(&self, agent: &str) -> u64 {
        let at = self.agents.iter().position(|known| known == agent);
        at.map_or(0, |at| self.numbers[at])
    }

    pub fn agents(&self) -> &[String] {
        &self.agents
    }

    /// Round-trip times that agents told of an address.
    pub fn rtt(&self, address: IpAddr) -> &[RttTold] {
        self.rtt.get(&address).map_or(&[], Vec::as_slice)
    }

    /// Round-trip times between agents.
    pub fn peers(&self) -> impl Iterator<Item = (u16, u16, RttMedian)> + '_ {
        self.peers.iter().map(|((a, b), told)| (*a, *b, told.median))
    }

    /// What was refused: who told it, why, how often.
    pub fn refused(&self) -> impl Iterator<Item = (&str, Reason, u64)> {
        self.refused.iter().map(|((who, why), count)| (who.as_str(), *why, *count))
    }

    /// Counts what a plan found out about an agent.
    pub(super) fn refuse(&mut self, agent: &str, reason: Reason) {
        *self.refused.entry((agent.to_string(), reason)).or_default() += 1;
    }
}

/// Keeps the newest of each agent, and the newest agents.
fn join_rtt(known: &mut Vec<RttTold>, told: RttTold) {
    match known.iter_mut().find(|before| before.agent == told.agent) {
        Some(before) if before.at > told.at => {}
        Some(before) => *before = told,
        None => known.push(told),
    }
    known.sort_by_key(|told| (std::cmp::Reverse(told.at), told.agent));
    known.truncate(RTT_MAX);
}

/// Whether this can be the text of a host: scheme, name, perhaps a port.
fn is_host(text: &str, bytes_max: usize) -> bool {
    let name = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    text.len() <= bytes_max
        && name.is_some_and(|name| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\".contains(&byte))
        })
}

/// Whether a server can have this address.
fn is_unicast(address: IpAddr) -> bool {
    !address.is_unspecified()
        && !address.is_multicast()
        && !matches!(address, IpAddr::V4(four) if four.is_broadcast())
}

#[cfg(test)]
#[path = "atlas_tests.rs"]
mod tests;
