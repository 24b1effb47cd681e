//! Carries out what the holder of rights wants done: words to other agents, hosts that go to them with all that is known, and
//! hosts to be looked up.
//!
//! INVARIANT: a host is forgotten here only once its receiver has told that it has everything, and unless something of it
//! has come back meanwhile.

use super::agent::AgentWork;
use super::core::Core;
use crate::exchange::packer::{Luggage, Packed, Packing};
use crate::wire::freight::NOTES_MAX;
use crate::wire::parcel::ParcelId;
use anyhow::Result;
use farol_base::Host;
use farol_cluster::{Epoch, NodeNo};
use farol_fetch::FetchError;
use farol_partition::hold::{Destination, Move, Note, NoteBody};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Hosts of one export.
const HOSTS_MAX: usize = 200;
/// Hosts that are looked up at a time.
const LOCATED_MAX: usize = 64;
/// A host whose address nobody could tell is looked up again after this.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// A host on its way to another agent.
struct Leaving {
    to: NodeNo,
    attempt: u64,
    /// The last batch that has something of it, once it is in the outbox.
    last: Option<u64>,
    blobs: Vec<String>,
}

/// What is being handed over.
#[derive(Default)]
pub struct Handing {
    leaving: HashMap<Host, Leaving>,
    attempts: u64,
    /// Hosts to look up, and those that are being.
    to_locate: VecDeque<(Host, Option<IpAddr>)>,
    locating: usize,
    later: VecDeque<(Instant, Host)>,
    /// Addresses that are free for their new owners, which hear of it once they have what is known of the hosts there.
    frees: Vec<(NodeNo, Note)>,
}

impl Handing {
    /// Something of the host has come back, so that it is not forgotten.
    pub fn cancel(&mut self, host: &Host) {
        self.leaving.remove(host);
    }

    pub fn is_leaving(&self, host: &Host) -> bool {
        self.leaving.contains_key(host)
    }

    pub fn leaving(&self) -> usize {
        self.leaving.len()
    }

    /// The last attempt to send hosts.
    pub fn attempts(&self) -> u64 {
        self.attempts
    }

    /// Whether all that was sent up to an attempt is with others.
    pub fn has_handed(&self, upto: u64) -> bool {
        self.leaving.values().all(|leaving| leaving.attempt & u64::from(u32::MAX) > upto)
    }

    /// Addresses that were freed with an epoch, each with whom it is for; those of epochs before are settled or never will be.
    pub fn freed_with(&mut self, epoch: Epoch) -> Vec<(NodeNo, Note)> {
        let of_now = self.frees.extract_if(.., |(_, note)| note.epoch == epoch).collect();
        self.frees.retain(|(_, note)| note.epoch > epoch);
        of_now
    }

    /// Hosts that were for one that is gone are here again.
    pub fn give_up(&mut self, gone: NodeNo) {
        self.leaving.retain(|_, leaving| leaving.to != gone);
    }
}

/// What goes to one agent, in order.
enum ForAgent {
    Notes(Vec<Note>),
    Hosts(Vec<Host>),
}

impl Core {
    /// Does what the holder of rights wants done.
    pub fn carry_out(&mut self) -> Result<()> {
        let Some(agent) = &mut self.agent else { return Ok(()) };
        let mut all: BTreeMap<NodeNo, Vec<ForAgent>> = BTreeMap::new();
        for next in agent.sources.rights.moves() {
            match next {
                // Who hears of a free address asks the hosts there at once: before it knows what was visited, it would visit it
                // again.
                Move::Tell { to, note } if matches!(note.body, NoteBody::Free { .. }) => {
                    agent.handing.frees.push((to, note));
                }
                Move::Tell { to, note } => {
                    let items = all.entry(to).or_default();
                    match items.last_mut() {
                        Some(ForAgent::Notes(notes)) if notes.len() < NOTES_MAX => notes.push(note),
                        _ => items.push(ForAgent::Notes(vec![note])),
                    }
                }
                Move::Luggage { host, to } => {
                    let Ok(host) = Host::parse(&host) else { continue };
                    let items = all.entry(to).or_default();
                    match items.last_mut() {
                        Some(ForAgent::Hosts(hosts)) if hosts.len() < HOSTS_MAX => hosts.push(host),
                        _ => items.push(ForAgent::Hosts(vec![host])),
                    }
                }
                Move::Resolve { host, hint } => {
                    if let Ok(host) = Host::parse(&host) {
                        agent.handing.to_locate.push_back((host, hint));
                    }
                }
            }
        }
        for (to, items) in all {
            for item in items {
                match item {
                    ForAgent::Notes(notes) => self.pack_notes(to, notes),
                    ForAgent::Hosts(hosts) => self.pack_hosts(to, hosts)?,
                }
            }
        }
        self.locate_next();
        Ok(())
    }

    pub(super) fn pack_notes(&self, to: NodeNo, notes: Vec<Note>) {
        if let Some(AgentWork { sources, packer, .. }) = &self.agent {
            let incarnation = sources.rights.me().incarnation;
            packer.pack(to, sources.rights.epoch().0, Packing::Notes { incarnation, notes });
        }
    }

    /// Sends all that is known of hosts to another agent. Nobody asks them here any more.
    fn pack_hosts(&mut self, to: NodeNo, hosts: Vec<Host>) -> Result<()> {
        for host in &hosts {
            self.send_off(host)?;
        }
        let watermark = self.followers.hosts.watermark();
        self.followers.hosts.write(watermark)?;
        let was_asked = |host: &Host| {
            let row = self.followers.hosts.row(host);
            row.is_some_and(|row| {
                row.robots_fetched_ms > 0 || !row.connects.is_empty() || row.bytes_fetched > 0
            })
        };
        let is_visited = hosts.iter().any(was_asked);
        let export = self.followers.urls.export(&hosts)?;
        let Some(AgentWork { sources, packer, handing, .. }) = &mut self.agent else { return Ok(()) };
        handing.attempts += 1;
        let me = sources.rights.me();
        let attempt = me.incarnation << 32 | handing.attempts;
        let epoch = sources.rights.epoch().0;
        for host in &hosts {
            let leaving = Leaving { to, attempt, last: None, blobs: Vec::new() };
            handing.leaving.insert(host.clone(), leaving);
        }
        let parcel = ParcelId { epoch, attempt, from: me.no.0 };
        let backup = if is_visited { sources.gate.want() } else { 0 };
        packer.pack(to, epoch, Packing::Luggage(Luggage { hosts, export, parcel, backup }));
        Ok(())
    }

    /// Hosts are in the outbox.
    pub fn packed(&mut self, packed: Packed) -> Result<()> {
        let Packed { to, hosts, attempt, last, blobs } = packed;
        let Some(agent) = &mut self.agent else { return Ok(()) };
        let is_same = |leaving: &&mut Leaving| (leaving.to, leaving.attempt) == (to, attempt);
        let mut again = Vec::new();
        let mut blobs = Some(blobs);
        for host in hosts {
            let Some(leaving) = agent.handing.leaving.get_mut(&host).filter(is_same) else { continue };
            match last {
                Some(last) => {
                    leaving.last = Some(last);
                    leaving.blobs = blobs.take().unwrap_or_default();
                }
                None => again.push(host),
            }
        }
        if again.is_empty() { Ok(()) } else { self.pack_hosts(to, again) }
    }

    /// Forgets hosts that their receivers have.
    pub fn forget_handed(&mut self) -> Result<()> {
        let Some(AgentWork { sources, handing, sweep, .. }) = &mut self.agent else { return Ok(()) };
        sources.desk.leaving.store(handing.leaving.len() as u64, Ordering::Relaxed);
        if handing.leaving.is_empty() {
            return Ok(());
        }
        let (mut over, mut blobs) = (Vec::new(), Vec::new());
        {
            let boxes = sources.desk.outboxes.lock();
            handing.leaving.retain(|host, leaving| {
                let is_there = leaving.last.is_some_and(|last| boxes.has_taken(leaving.to, last));
                if is_there {
                    blobs.append(&mut leaving.blobs);
                    over.push(host.clone());
                }
                !is_there
            });
        }
        // A host that is asked here again keeps what it has.
        over.retain(|host| matches!(sources.rights.route(host.as_str()).0, Destination::To(_)));
        sweep.forgot(over.len());
        if let Some(place) = &sources.blobs {
            for blob in blobs {
                if let Err(error) = place.delete(&blob) {
                    tracing::debug!(%error, "a blob of a parcel stays");
                }
            }
        }
        if over.is_empty() { Ok(()) } else { self.followers.forget_hosts(&over) }
    }

    /// A host that came up here is another agent's: it goes there, or its home is asked.
    pub fn find_its_agent(&mut self, host: &Host, address: Option<IpAddr>) -> Result<()> {
        let Some(agent) = &self.agent else { return Ok(()) };
        if agent.handing.is_leaving(host) {
            return Ok(());
        }
        match agent.sources.rights.route(host.as_str()) {
            // Granted before, and found here all the same: as where the archive was read again.
            (Destination::To(to), true) => self.pack_hosts(to, vec![host.clone()]),
            _ => {
                agent.sources.rights.sweep(host, address);
                self.carry_out()
            }
        }
    }

    fn locate_next(&mut self) {
        while let Some(agent) = self.agent.as_mut().filter(|agent| agent.handing.locating < LOCATED_MAX) {
            let handing = &mut agent.handing;
            if handing.later.front().is_some_and(|(at, _)| *at <= Instant::now())
                && let Some((_, host)) = handing.later.pop_front()
            {
                handing.to_locate.push_back((host, None));
            }
            let Some((host, hint)) = handing.to_locate.pop_front() else { return };
            handing.locating += 1;
            self.locate(host, hint);
        }
    }

    /// A host was looked up for whoever answers for it.
    pub fn located(
        &mut self,
        host: &Host,
        hint: Option<IpAddr>,
        answer: Result<Vec<IpAddr>, FetchError>,
    ) -> Result<()> {
        let Some(agent) = &mut self.agent else { return Ok(()) };
        agent.handing.locating = agent.handing.locating.saturating_sub(1);
        let rights = &agent.sources.rights;
        match answer.ok().and_then(|addresses| addresses.into_iter().min()).or(hint) {
            Some(address) => rights.place(host, address),
            None => {
                rights.keep(host);
                if rights.is_open(host) {
                    agent.handing.later.push_back((Instant::now() + LOOK_AGAIN, host.clone()));
                }
            }
        }
        self.carry_out()
    }

    /// Hosts of which everything has come for good: they rest as their giver would have had them rest, and whoever is to ask
    /// them is found.
    pub fn take_whole_hosts(&mut self) -> Result<()> {
        for whole in self.followers.whole_hosts()? {
            let Some(agent) = &self.agent else { return Ok(()) };
            agent.sources.desk.counters.hosts_received.fetch_add(1, Ordering::Relaxed);
            self.followers.hosts.rest_until(&whole.host, whole.ask_from.as_millis())?;
            self.come_again(&whole.host)?;
            let address = self.followers.hosts.row(&whole.host).and_then(|row| row.address);
            self.find_its_agent(&whole.host, address)?;
        }
        Ok(())
    }
}
