//! Keeps the frontier supplied: hosts that are due, their addresses, their pages; and takes back what leaves it.
//!
//! INVARIANT: a host that the frontier has no room for, or that makes way, goes back to the URL store with all of its
//! pages, and comes up again when the frontier says.

use super::core::{Core, Event, HOSTS_PER_TURN, STAY_MAX};
use super::visit::NoAnswer;
use anyhow::Result;
use farol_base::{CanonicalUrl, Clock, Host, Scheduled, SystemClock, Timestamp};
use farol_fetch::FetchError;
use farol_frontier::{Added, HostMemory, Lease, Offered, Outcome, Resolution, Resolved, Task};
use std::net::IpAddr;
use std::time::Duration;

/// A host that is left to another engine is thought of again after this: that long it takes at most until it is crawled when
/// it is taken back.
const LEFT_AGAIN: Duration = Duration::from_secs(2);
/// A page that is left is thought of again after this, where its host is not left as a whole.
const LEFT_PAGE_AGAIN: Duration = Duration::from_secs(60);

impl Core {
    /// Brings hosts that are due into the frontier, as far as there is room: those of crowded domains are passed over.
    pub fn bring_hosts(&mut self) -> Result<()> {
        let now = SystemClock.now();
        // While every connection is in use, more hosts would only wait.
        if self.under_way.len() >= self.config.crawl.concurrency {
            return Ok(());
        }
        let mut room = self.config.crawl.hosts_max.saturating_sub(self.frontier.counts().hosts);
        // Hosts that sleep long make room for those that are due.
        while room < HOSTS_PER_TURN {
            let Some((host, memory, pages)) = self.frontier.retire(now + STAY_MAX) else { break };
            self.give_back(pages)?;
            self.left(&host, &memory, Timestamp::EPOCH);
            room += 1;
        }
        if room == 0 {
            return Ok(());
        }
        let (frontier, sent_away) = (&mut self.frontier, &mut self.sent_away);
        let left = self.followers.left.clone();
        let mut crowded = |host: &Host| {
            if left.has_host(host) {
                return Some(now + LEFT_AGAIN);
            }
            let until = frontier.crowded_until(now, host);
            *sent_away += u64::from(until.is_some());
            until
        };
        let limit = room.min(HOSTS_PER_TURN);
        let mut hosts = self.followers.urls.hosts_due_but(now, limit, &mut crowded)?;
        // Those that sleep until a later page is due have new ones now.
        hosts.extend(self.followers.urls.newly_ready());
        for host in hosts {
            if self.followers.left.has_host(&host) {
                self.followers.urls.release_host_until(&host, now + LEFT_AGAIN);
                continue;
            }
            let known = self.followers.urls.host_counts(&host).map_or(0, |counts| counts.known);
            let memory = self.followers.hosts.enter(&host, known)?;
            let memory = self.rested(memory);
            let until = match self.frontier.add_host(now, &host, memory) {
                Added::New | Added::Known => continue,
                Added::Full => Timestamp::EPOCH,
                Added::Crowded { until } => until,
            };
            self.sent_away += u64::from(until > now);
            self.followers.hosts.leave(&host);
            self.followers.urls.release_host_until(&host, until);
        }
        Ok(())
    }

    /// After a crash nobody knows who was asked last: a host waits its own delay from the start on, unless it is known to
    /// rest longer.
    pub fn rested(&self, memory: HostMemory) -> HostMemory {
        match self.crashed_before {
            Some(start) if memory.not_before <= start => {
                HostMemory { not_before: start + self.frontier.delay_of(&memory), ..memory }
            }
            _ => memory,
        }
    }

    pub fn resolve(&mut self, host: Host) {
        let (sender, visitor) = (self.sender.clone(), self.visitor.clone());
        self.runtime.spawn(async move {
            let answer = visitor.fetcher.addresses(&host).await;
            // The core has ended when nobody listens; then nobody needs the answer.
            let _ = sender.send(Event::Resolved { host, answer });
        });
    }

    pub fn resolved(&mut self, host: &Host, answer: Result<Vec<IpAddr>, FetchError>) -> Result<()> {
        let now = SystemClock.now();
        let Some(answer) = self.rightful(host, answer)? else { return Ok(()) };
        let resolution = match answer {
            Ok(address) => {
                tracing::debug!("{host} is at {address}");
                Resolution::Address(address)
            }
            Err(error) => {
                self.count_error(error.kind());
                let resolution = match &error {
                    FetchError::Guard { .. } | FetchError::Port { .. } => Resolution::Refused,
                    error => Resolution::Failed { transient: error.is_transient() },
                };
                let error = NoAnswer::Fetch(error);
                self.seed_host_fails(host, &error, now);
                if let Ok(url) = host.url("/") {
                    self.note_visit(&url, &Err(error), Duration::ZERO, now);
                }
                resolution
            }
        };
        match self.frontier.resolved(now, host, resolution) {
            Resolved::Taken => Ok(()),
            Resolved::Crowded { until, memory, pages } => {
                self.sent_away += 1;
                self.give_back(pages)?;
                self.left(host, &memory, until);
                Ok(())
            }
        }
    }

    pub fn refill(&mut self, now: Timestamp, host: Host, want: usize) -> Result<()> {
        if let Some(until) = self.frontier.makes_way(now, &host)
            && let Some(view) = self.frontier.host(&host)
        {
            let pages = self.frontier.remove_host(&host);
            self.give_back(pages)?;
            self.left(&host, &view.memory, until);
            return Ok(());
        }
        let drawn = self.followers.urls.draw(&host, want, now)?;
        tracing::debug!("{} pages of {host} are next", drawn.urls.len());
        let next_due = drawn.next_due.filter(|due| due.since(now) < STAY_MAX);
        match self.frontier.offer(now, &host, drawn.urls, next_due) {
            Offered::Taken => {}
            Offered::Left(memory) => self.left(&host, &memory, Timestamp::EPOCH),
            Offered::GivenBack(pages) => {
                self.give_back(pages)?;
                self.followers.urls.release_host(&host);
            }
        }
        Ok(())
    }

    /// The lease, where its page is not left to another engine. A host that is left as a whole leaves the frontier, with all that
    /// waits for it, and its robots.txt is not asked for either.
    pub fn not_left(&mut self, now: Timestamp, lease: Lease) -> Result<Option<Lease>> {
        if self.followers.left.is_empty() {
            return Ok(Some(lease));
        }
        if self.followers.left.has_host(lease.host()) {
            if matches!(lease.task(), Task::MovedRobots(_)) {
                let _finished = self.frontier.done(now, lease, Outcome::Failed { transient: true });
            } else {
                self.put_off(now, lease)?;
            }
            return Ok(None);
        }
        let page = match lease.task() {
            Task::Page(page) => page.url.clone(),
            Task::Robots | Task::MovedRobots(_) => return Ok(Some(lease)),
        };
        if self.followers.left.of_page(&page, Some(lease.address())).is_none() {
            return Ok(Some(lease));
        }
        self.followers.left_alone(&page, now + LEFT_PAGE_AGAIN)?;
        let _finished = self.frontier.done(now, lease, Outcome::NotAsked);
        Ok(None)
    }

    /// A host is no longer in the frontier, and need not come back before this instant.
    pub fn left(&mut self, host: &Host, memory: &HostMemory, until: Timestamp) {
        self.followers.hosts.remember(host, memory);
        self.followers.hosts.leave(host);
        self.followers.urls.release_host_until(host, until);
    }

    /// A host that was there only for another's robots.txt is no longer.
    pub fn guest_left(&mut self, host: &Host, memory: &HostMemory) -> Result<()> {
        self.followers.hosts.enter(host, memory.pages_known)?;
        self.left(host, memory, Timestamp::EPOCH);
        Ok(())
    }

    /// Takes a host out of the frontier, so that it enters again with what is remembered of it now.
    pub fn come_again(&mut self, host: &Host) -> Result<()> {
        let pages = self.frontier.remove_host(host);
        self.give_back(pages)?;
        self.followers.hosts.leave(host);
        self.followers.urls.release_host(host);
        Ok(())
    }

    /// Lets a host that is left alone after failures be asked again at once, but for its usual rest and what its server
    /// asked for.
    pub fn stop_backing_off(&mut self, host: &Host) -> Result<()> {
        let now = SystemClock.now();
        if let Some(view) = self.frontier.host(host) {
            self.followers.hosts.remember(host, &view.memory);
        }
        let Some(row) = self.followers.hosts.row(host).filter(|row| row.failures > 0) else { return Ok(()) };
        let rested = now + self.frontier.delay_of(&row.memory(0));
        self.followers.hosts.wake(host, rested, row.robots_refuses())?;
        self.come_again(host)
    }

    pub fn give_back(&mut self, pages: Vec<Scheduled>) -> Result<()> {
        let urls: Vec<CanonicalUrl> = pages.into_iter().map(|page| page.url).collect();
        Ok(self.followers.urls.release(&urls)?)
    }
}
