//! The walk through the URL store after a new table, and once it is settled: hosts that this agent has no business with find
//! their way. And what the node tells of it: which table it has released, and whether it may leave.

use super::agent::AgentWork;
use super::core::Core;
use anyhow::Result;
use farol_cluster::Epoch;
use farol_partition::hold::Destination;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Hosts of the URL store that are looked at in one turn.
const SWEPT: usize = 1_000;
/// An epoch is released this long after it was heard of, though hosts that were lost with it are not with their agents yet.
/// Until then their new agents do not ask what is known of them to be visited.
const HAND_OVER_MAX: Duration = Duration::from_secs(20);
/// Batches of an agent that is gone, sorted in one go.
const ORPHANS_MAX: usize = 16;
/// How often those are looked for.
const ORPHANS_EVERY: Duration = Duration::from_secs(1);

/// How far the walk has come.
#[derive(Debug)]
pub struct Sweep {
    /// The epoch that it is for, and whether that is settled.
    of: (Epoch, bool),
    begun: Instant,
    /// The next host, in the order of the URL store.
    at: usize,
    is_done: bool,
    /// Whatever was packed up to here must be with others before the epoch is released.
    awaited: Option<u64>,
    orphans_sorted: Instant,
}

impl Default for Sweep {
    fn default() -> Sweep {
        let now = Instant::now();
        Sweep { of: (Epoch(0), false), begun: now, at: 0, is_done: true, awaited: None, orphans_sorted: now }
    }
}

impl Sweep {
    /// Hosts were forgotten: those behind them have their places now.
    pub fn forgot(&mut self, hosts: usize) {
        self.at = self.at.saturating_sub(hosts);
    }

    /// Goes through everything once more.
    fn again(&mut self) {
        (self.at, self.is_done, self.awaited) = (0, false, None);
    }
}

impl Core {
    /// Goes through some hosts, and tells how far things have come.
    pub fn sweep(&mut self) -> Result<()> {
        let Some(AgentWork { sources, sweep, .. }) = &mut self.agent else { return Ok(()) };
        let of = (sources.rights.epoch(), sources.rights.is_settled());
        if of.0 == Epoch(0) {
            return Ok(());
        }
        if of != sweep.of {
            let begun = if of.0 == sweep.of.0 { sweep.begun } else { Instant::now() };
            (sweep.of, sweep.begun) = (of, begun);
            sweep.again();
            if sources.rights.is_leaving() {
                // Hosts that were met a moment ago are not listed yet; elsewhere they go when they come up.
                self.followers.urls.compact_all()?;
            }
        }
        self.sweep_some()?;
        self.sort_orphans()?;
        self.tell();
        Ok(())
    }

    fn sweep_some(&mut self) -> Result<()> {
        let Some(AgentWork { sweep, .. }) = &self.agent else { return Ok(()) };
        if sweep.is_done {
            return Ok(());
        }
        let hosts = self.followers.urls.hosts(sweep.at, SWEPT, "");
        let count = hosts.len();
        let found: Vec<(farol_base::Host, Option<IpAddr>)> = hosts
            .into_iter()
            .map(|(host, _)| {
                let known = self.frontier.host(&host).and_then(|view| view.address);
                let address = known.or_else(|| self.followers.hosts.row(&host)?.address);
                (host, address)
            })
            .collect();
        let Some(AgentWork { sources, sweep, handing, .. }) = &mut self.agent else { return Ok(()) };
        sweep.at += count;
        sweep.is_done = count == 0;
        let mut strays = Vec::new();
        for (host, address) in found {
            sources.rights.sweep(&host, address);
            let is_granted = matches!(sources.rights.route(host.as_str()), (Destination::To(_), true));
            if is_granted && !handing.is_leaving(&host) {
                strays.push((host, address));
            }
        }
        self.carry_out()?;
        for (host, address) in strays {
            self.find_its_agent(&host, address)?;
        }
        Ok(())
    }

    /// Sorts what agents were to get that are gone, and has their hosts find another agent.
    fn sort_orphans(&mut self) -> Result<()> {
        let Some(AgentWork { sources, sweep, handing, .. }) = &mut self.agent else { return Ok(()) };
        if sweep.orphans_sorted.elapsed() < ORPHANS_EVERY {
            return Ok(());
        }
        let receivers = sources.desk.outboxes.lock().receivers();
        // As long as the table gives them something it would come to them again.
        let is_gone = |no: &farol_cluster::NodeNo| !sources.rights.is_member(*no) && (sources.is_gone)(*no);
        let Some((of, (upto, bodies))) = receivers.into_iter().filter(is_gone).find_map(|no| {
            let orphans = sources.desk.outboxes.lock().orphans(no, ORPHANS_MAX);
            orphans.ok().flatten().map(|orphans| (no, orphans))
        }) else {
            sweep.orphans_sorted = Instant::now();
            return Ok(());
        };
        handing.give_up(of);
        sweep.again();
        let desk = sources.desk.clone();
        for body in bodies {
            self.followers.take_urls(of, body)?;
        }
        self.followers.settle(self.archive.end())?;
        desk.outboxes.lock().taken(of, upto)
    }

    fn tell(&mut self) {
        let Some(agent) = &mut self.agent else { return };
        let AgentWork { sources, sweep, handing, .. } = agent;
        let rights = &sources.rights;
        if sweep.is_done && sweep.awaited.is_none() && rights.asked() == 0 {
            sweep.awaited = Some(handing.attempts());
        }
        let is_handed = sweep.awaited.is_some_and(|upto| handing.has_handed(upto));
        let mut frees = Vec::new();
        if is_handed || sweep.begun.elapsed() >= HAND_OVER_MAX {
            let released = rights.released().0;
            sources.desk.released.store(released, Ordering::SeqCst);
            frees = handing.freed_with(sweep.of.0);
        }
        for (to, note) in frees {
            self.pack_notes(to, vec![note]);
        }
        let Some(agent) = &self.agent else { return };
        let is_open = self.followers.exchange.as_ref().is_some_and(|exchange| exchange.is_open());
        // Who leaves takes nothing along that is another's.
        let keeps = || {
            !is_handed
                || is_open
                || handing_is_open(agent)
                || !agent.sources.rights.is_empty_handed()
                || agent.sources.desk.outboxes.lock().waiting() > 0
                || !self.followers.urls.hosts(0, 1, "").is_empty()
        };
        let is_busy = agent.sources.rights.is_leaving() && keeps();
        agent.sources.desk.is_busy.store(is_busy, Ordering::SeqCst);
    }
}

fn handing_is_open(agent: &AgentWork) -> bool {
    !agent.has_read_all() || agent.handing.leaving() > 0
}
