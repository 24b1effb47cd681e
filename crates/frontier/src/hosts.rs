//! The hosts that are here, each under a small number, and what is known of them.
//!
//! INVARIANT: the counts by state always sum to the number of hosts here.
//! A host that is removed while it is leased stays as a *ghost*, unseen, until its lease returns, so that it
//! cannot be leased a second time meanwhile. Does not decide anything; see [`crate::frontier`].

use crate::addresses::AddressId;
use crate::domains::DomainId;
use crate::lease::MovedRobots;
use crate::timers::TimerId;
use farol_base::{Host, Scheduled, Timestamp};
use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;
use std::time::Duration;

/// What a host keeps across restarts and absences.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// Until when its robots.txt, as last read, may be used; `None` where it was never read.
    pub robots_valid_until: Option<Timestamp>,
    /// The Crawl-delay it asked for.
    pub crawl_delay: Option<Duration>,
    /// It rests until then.
    pub not_before: Timestamp,
    /// Failures in a row.
    pub failures: u32,
    /// Pages known on it, for the density rule.
    pub pages_known: u64,
}

/// Where a host is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HostState {
    /// Waits for its address.
    Resolving,
    /// Stands in its address's line, for robots.txt or a page.
    Waiting,
    /// Is being asked.
    Leased,
    /// Rests after a request, or backs off after a failure.
    Resting,
    /// Waits for pages.
    Refilling,
    /// Has nothing due yet.
    Sleeping,
    /// Was quarantined after too many failures, until a far instant.
    Unreachable,
    /// Was quarantined because the address guard forbids its address.
    Refused,
}

impl HostState {
    /// Every state, in the order of a host's life.
    pub const ALL: [HostState; 8] = [
        HostState::Resolving,
        HostState::Waiting,
        HostState::Leased,
        HostState::Resting,
        HostState::Refilling,
        HostState::Sleeping,
        HostState::Unreachable,
        HostState::Refused,
    ];

    /// A word for people and for metrics.
    pub fn name(self) -> &'static str {
        match self {
            HostState::Resolving => "resolving",
            HostState::Waiting => "waiting",
            HostState::Leased => "leased",
            HostState::Resting => "resting",
            HostState::Refilling => "refilling",
            HostState::Sleeping => "sleeping",
            HostState::Unreachable => "unreachable",
            HostState::Refused => "refused",
        }
    }
}

/// A host as it stands now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostView {
    pub host: Host,
    pub state: HostState,
    pub address: Option<IpAddr>,
    /// Pages queued here; the one being fetched is not among them.
    pub queued: usize,
    /// The rest between two requests that is in force.
    pub delay: Duration,
    /// When it wakes, where it rests, sleeps or was quarantined.
    pub wakes: Option<Timestamp>,
    pub memory: HostMemory,
}

/// How much is here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub hosts: usize,
    /// Different addresses of those hosts, and those that still rest though their hosts have left.
    pub addresses: usize,
    /// Pages queued.
    pub queued: usize,
    /// Leases out, those of removed hosts included.
    pub in_flight: usize,
    by_state: [usize; HostState::ALL.len()],
}

impl Counts {
    /// Hosts in this state.
    pub fn in_state(&self, state: HostState) -> usize {
        self.by_state[state as usize]
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostId(u32);

/// A queued page and how often it has failed.
#[derive(Debug)]
pub struct Queued {
    pub page: Scheduled,
    pub tries: u8,
}

/// A request to make here for the robots.txt of a host, which its server says is here.
#[derive(Debug)]
pub struct Errand {
    pub moved: MovedRobots,
    /// The host that waits for it.
    pub sender: HostId,
    /// The host that waits is of another registrable domain.
    pub foreign: bool,
}

/// What a host whose robots.txt is elsewhere waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AwaitedErrand {
    pub serial: u64,
    /// Until when the whole chain of redirects is waited for.
    pub deadline: Timestamp,
}

#[derive(Debug)]
pub struct HostEntry {
    pub host: Host,
    pub domain: DomainId,
    pub memory: HostMemory,
    /// Since when it is here.
    pub entered: Timestamp,
    /// It is here for errands alone, not for pages of its own.
    pub guest: bool,
    /// Robots.txt files of others, or its own, to be asked for here.
    pub errands: VecDeque<Errand>,
    pub awaited: Option<AwaitedErrand>,
    /// The last lease was for an errand: its own pages come first now.
    pub just_ran_errand: bool,
    /// Somebody has its lease: nothing else may bring it anywhere.
    pub is_out: bool,
    /// It is leased, or may want to be soon.
    pub near: bool,
    pub address: Option<AddressId>,
    pub resolved_at: Timestamp,
    pub queue: VecDeque<Queued>,
    pub last_download: Duration,
    /// The epoch of the host's current queue entry; entries of earlier epochs are stale.
    pub epoch: u64,
    pub alarm: Option<TimerId>,
    /// Its address or refill was asked for and not answered.
    pub asked: bool,
    /// It was added again while its refill was under way: an empty answer may be out of date.
    pub woken: bool,
    /// No page was asked for since its robots.txt was read.
    pub just_read_robots: bool,
    /// It was removed and waits for its lease.
    pub ghost: bool,
    state: HostState,
}

impl HostEntry {
    pub fn state(&self) -> HostState {
        self.state
    }

    pub fn robots_valid(&self, now: Timestamp) -> bool {
        self.memory.robots_valid_until.is_some_and(|until| until > now)
    }
}

/// Slots of hosts and their names.
#[derive(Debug, Default)]
pub struct Hosts {
    ids: HashMap<Host, HostId>,
    slots: Vec<Option<HostEntry>>,
    free: Vec<HostId>,
    here: usize,
    by_state: [usize; HostState::ALL.len()],
}

impl Hosts {
    pub fn len(&self) -> usize {
        self.here
    }

    /// The host's number, ghosts included.
    pub fn find(&self, host: &Host) -> Option<HostId> {
        self.ids.get(host).copied()
    }

    /// The host, ghosts included. A [`HostId`] is only kept by whoever would hear of the host's end.
    pub fn get(&self, id: HostId) -> Option<&HostEntry> {
        self.slots.get(id.0 as usize)?.as_ref()
    }

    pub fn get_mut(&mut self, id: HostId) -> Option<&mut HostEntry> {
        self.slots.get_mut(id.0 as usize)?.as_mut()
    }

    /// Starts a host's life in state [`HostState::Resting`].
    pub fn insert(&mut self, now: Timestamp, host: &Host, domain: DomainId, memory: HostMemory) -> HostId {
        let entry = HostEntry {
            host: host.clone(),
            domain,
            memory,
            entered: now,
            guest: false,
            errands: VecDeque::new(),
            awaited: None,
            just_ran_errand: false,
            is_out: false,
            near: false,
            address: None,
            resolved_at: Timestamp::EPOCH,
            queue: VecDeque::new(),
            last_download: Duration::ZERO,
            epoch: 0,
            alarm: None,
            asked: false,
            woken: false,
            just_read_robots: false,
            ghost: false,
            state: HostState::Resting,
        };
        let id = self.free.pop().unwrap_or(HostId(self.slots.len() as u32));
        if id.0 as usize == self.slots.len() {
            self.slots.push(None);
        }
        self.slots[id.0 as usize] = Some(entry);
        self.ids.insert(host.clone(), id);
        self.here += 1;
        self.by_state[HostState::Resting as usize] += 1;
        id
    }

    pub fn set_state(&mut self, id: HostId, state: HostState) {
        if let Some(entry) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) {
            if !entry.ghost {
                self.by_state[entry.state as usize] -= 1;
                self.by_state[state as usize] += 1;
            }
            entry.state = state;
        }
    }

    /// Makes a host unseen, or seen again.
    pub fn set_ghost(&mut self, id: HostId, ghost: bool) {
        let Some(entry) = self.slots.get_mut(id.0 as usize).and_then(Option::as_mut) else { return };
        if entry.ghost == ghost {
            return;
        }
        entry.ghost = ghost;
        if ghost {
            self.here -= 1;
            self.by_state[entry.state as usize] -= 1;
        } else {
            self.here += 1;
            self.by_state[entry.state as usize] += 1;
        }
    }

    /// Ends a host's life.
    pub fn remove(&mut self, id: HostId) -> Option<HostEntry> {
        self.set_ghost(id, true);
        let entry = self.slots.get_mut(id.0 as usize)?.take()?;
        self.ids.remove(&entry.host);
        self.free.push(id);
        Some(entry)
    }

    /// The hosts here, without ghosts.
    pub fn iter(&self) -> impl Iterator<Item = &HostEntry> {
        self.slots.iter().flatten().filter(|entry| !entry.ghost)
    }

    pub fn counts(&self) -> Counts {
        Counts { hosts: self.here, by_state: self.by_state, ..Counts::default() }
    }
}
