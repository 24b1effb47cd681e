//! What each host has to give, and which hosts have something now.
//!
//! Every host has two heaps: URLs never visited, by depth and age, and visited ones, by due instant. Entries go
//! stale when a URL is visited, found at a lower depth or given another instant; they are not searched for but
//! dropped when they reach the top. Hosts that nobody holds stand in a queue (`ready`) if they have something
//! now, or in a heap (`later`) by the instant at which they will.
//!
//! INVARIANT: a host that is not held and has an unvisited URL is in `ready`; one that only has URLs that will
//! be due is in `ready` or in `later` at the earliest of their instants.

use super::table::{Slots, UrlNumber};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

pub(super) type HostNumber = u32;

/// Milliseconds that stand for "not again".
const NEVER: u64 = u64::MAX;

/// All hosts' queues.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    hosts: Vec<Queue>,
    ready: VecDeque<HostNumber>,
    later: BinaryHeap<Reverse<(u64, HostNumber)>>,
}

#[derive(Debug)]
struct Queue {
    /// (depth, URL), packed by [`fresh_entry`].
    fresh: BinaryHeap<Reverse<u64>>,
    /// Entries of `fresh` that are not stale.
    fresh_count: u32,
    /// (due in milliseconds, URL).
    due: BinaryHeap<Reverse<(u64, UrlNumber)>>,
    /// URLs of this host that were visited.
    visited_count: u32,
    /// Instant at which it stands in `later`; [`NEVER`] where it does not.
    later: u64,
    held: bool,
    queued: bool,
    forgotten: bool,
}

fn fresh_entry(depth: u16, url: UrlNumber) -> Reverse<u64> {
    Reverse(u64::from(depth) << 32 | u64::from(url))
}

impl Agenda {
    /// Makes room for the next host.
    pub fn push_host(&mut self) {
        self.hosts.push(Queue {
            fresh: BinaryHeap::new(),
            fresh_count: 0,
            due: BinaryHeap::new(),
            visited_count: 0,
            later: NEVER,
            held: false,
            queued: false,
            forgotten: false,
        });
    }

    /// An unvisited URL is there to be drawn: newly found, or released.
    pub fn add_fresh(&mut self, host: HostNumber, depth: u16, url: UrlNumber) {
        let queue = &mut self.hosts[host as usize];
        queue.fresh.push(fresh_entry(depth, url));
        queue.fresh_count += 1;
        self.enqueue(host);
    }

    /// An unvisited URL that is here was found at a lower depth.
    pub fn raise_fresh(&mut self, host: HostNumber, depth: u16, url: UrlNumber) {
        // The entry at the old depth is stale now, so the count stays.
        self.hosts[host as usize].fresh.push(fresh_entry(depth, url));
    }

    /// An unvisited URL was visited without having been drawn.
    pub fn drop_fresh(&mut self, host: HostNumber) {
        self.hosts[host as usize].fresh_count -= 1;
    }

    /// Counts a URL's first visit.
    pub fn count_visited(&mut self, host: HostNumber) {
        self.hosts[host as usize].visited_count += 1;
    }

    /// A visited URL waits for its instant.
    pub fn add_due(&mut self, host: HostNumber, due: u64, url: UrlNumber, slots: &Slots) {
        if due == NEVER {
            return;
        }
        let queue = &mut self.hosts[host as usize];
        queue.due.push(Reverse((due, url)));
        // Stale entries far in the future would pile up; with this at most every second entry is one.
        if queue.due.len() > 2 * queue.visited_count as usize + 64 {
            let mut valid = std::mem::take(&mut queue.due).into_vec();
            valid.retain(|Reverse((due, url))| slots.is_due_at(*url, *due));
            valid.sort_unstable();
            valid.dedup();
            queue.due = valid.into();
        }
        self.refresh(host, slots);
    }

    /// Takes the next URL that may be visited now.
    pub fn take(&mut self, host: HostNumber, now: u64, slots: &Slots) -> Option<UrlNumber> {
        let queue = &mut self.hosts[host as usize];
        while queue.fresh_count > 0
            && let Some(Reverse(entry)) = queue.fresh.pop()
        {
            let (depth, url) = ((entry >> 32) as u16, entry as UrlNumber);
            if slots.is_fresh_at(url, depth) {
                queue.fresh_count -= 1;
                return Some(url);
            }
        }
        // All that is left is stale.
        queue.fresh.clear();
        let due = queue.next_due(slots)?;
        if due > now {
            return None;
        }
        queue.due.pop().map(|Reverse((_, url))| url)
    }

    /// When the host can be drawn from next; 0 = has URLs never visited.
    pub fn next_due(&mut self, host: HostNumber, slots: &Slots) -> Option<u64> {
        self.hosts[host as usize].next(slots)
    }

    /// Nobody else may have this host now.
    pub fn hold(&mut self, host: HostNumber) {
        self.hosts[host as usize].held = true;
    }

    /// The host is free again.
    pub fn let_go(&mut self, host: HostNumber, slots: &Slots) {
        self.hosts[host as usize].held = false;
        self.refresh(host, slots);
    }

    /// The host is gone for good; its number is not used again.
    pub fn forget(&mut self, host: HostNumber) {
        let queue = &mut self.hosts[host as usize];
        (queue.fresh, queue.due) = (BinaryHeap::new(), BinaryHeap::new());
        (queue.fresh_count, queue.forgotten) = (0, true);
    }

    /// Holds and gives the free host that has waited longest for having something now.
    pub fn take_host(&mut self, now: u64, slots: &Slots) -> Option<HostNumber> {
        while let Some(Reverse((due, host))) = self.later.peek().copied()
            && due <= now
        {
            self.later.pop();
            let queue = &mut self.hosts[host as usize];
            if queue.later == due {
                queue.later = NEVER;
                self.enqueue(host);
            }
        }
        while let Some(host) = self.ready.pop_front() {
            let queue = &mut self.hosts[host as usize];
            queue.queued = false;
            if queue.held || queue.forgotten {
                continue;
            }
            if queue.next(slots).is_some_and(|due| due <= now) {
                queue.held = true;
                return Some(host);
            }
            self.refresh(host, slots);
        }
        None
    }

    /// When [`Agenda::take_host`] may next have an answer; 0 = now.
    pub fn next_host_due(&mut self, slots: &Slots) -> Option<u64> {
        while let Some(host) = self.ready.front().copied() {
            let queue = &mut self.hosts[host as usize];
            if !queue.held && !queue.forgotten && queue.next(slots).is_some() {
                return Some(0);
            }
            queue.queued = false;
            self.ready.pop_front();
        }
        while let Some(Reverse((due, host))) = self.later.peek().copied() {
            let queue = &mut self.hosts[host as usize];
            let valid = queue.later == due && !queue.held && !queue.forgotten;
            if valid && queue.next(slots) == Some(due) {
                return Some(due);
            }
            self.later.pop();
            if queue.later == due {
                queue.later = NEVER;
                self.refresh(host, slots);
            }
        }
        None
    }

    fn enqueue(&mut self, host: HostNumber) {
        let queue = &mut self.hosts[host as usize];
        if !queue.queued && !queue.held && !queue.forgotten {
            queue.queued = true;
            self.ready.push_back(host);
        }
    }

    /// Puts a free host where it belongs: `ready`, `later` or nowhere.
    fn refresh(&mut self, host: HostNumber, slots: &Slots) {
        let queue = &mut self.hosts[host as usize];
        if queue.held || queue.forgotten || queue.queued {
            return;
        }
        match queue.next(slots) {
            Some(0) => self.enqueue(host),
            Some(due) if due != queue.later => {
                queue.later = due;
                self.later.push(Reverse((due, host)));
                // As with URLs: entries of hosts that moved forward must not pile up.
                if self.later.len() > 2 * self.hosts.len() + 64 {
                    let hosts = &self.hosts;
                    self.later.retain(|Reverse((due, host))| hosts[*host as usize].later == *due);
                }
            }
            _ => {}
        }
    }
}

impl Queue {
    fn next(&mut self, slots: &Slots) -> Option<u64> {
        if self.fresh_count > 0 { Some(0) } else { self.next_due(slots) }
    }

    /// The earliest due instant; drops stale entries that stood before it.
    fn next_due(&mut self, slots: &Slots) -> Option<u64> {
        while let Some(Reverse((due, url))) = self.due.peek() {
            if slots.is_due_at(*url, *due) {
                return Some(*due);
            }
            self.due.pop();
        }
        None
    }
}
