//! Takes in what visits brought: says what it means for the crawl, and returns the leases.
//!
//! INVARIANT: everything that follows from an answer is written here, after the core has archived it.

use super::core::Core;
use super::seed_trouble;
use super::under_way::Brought;
use super::visit::{Answer, NoAnswer, Visited};
use crate::archive::{ArchivedVisit, FollowerSet, state_of};
use anyhow::Result;
use farol_base::status::{RecentVisit, SeedState};
use farol_base::{CanonicalUrl, Clock, Host, PagePosition, SystemClock, Timestamp};
use farol_frontier::{Disposition, Lease, Outcome, ROBOTS_VALID, Task};
use std::time::Duration;

impl Core {
    pub fn take_in(&mut self, visited: Visited, position: Option<PagePosition>) -> Result<()> {
        let Visited { id, brought, took } = visited;
        let Some(lease) = self.under_way.end(id) else { return Ok(()) };
        let taken = self.take_in_answer(lease, brought, took, position);
        // Only now: whoever gets the host next is to get what came of this visit as well.
        if let Some(rights) = self.rights() {
            rights.end(id);
        }
        taken
    }

    fn take_in_answer(
        &mut self,
        lease: Lease,
        brought: Brought,
        took: Duration,
        position: Option<PagePosition>,
    ) -> Result<()> {
        if matches!(brought, Err(NoAnswer::NoRight)) {
            return self.put_off(SystemClock.now(), lease);
        }
        if let Ok(answer) = &brought
            && let Some(pause) = answer.retry_after
        {
            self.followers.hosts.asked_to_wait(lease.host(), SystemClock.now() + pause)?;
        }
        if let Ok(answer) = &brought
            && let Some((address, connect)) = answer.connected
        {
            self.followers.hosts.connected(lease.host(), address, connect, answer.fetched)?;
            self.ask_location(lease.host())?;
        }
        match lease.task() {
            Task::Robots | Task::MovedRobots(_) => self.take_robots(lease, brought, took, position),
            Task::Page(_) => self.take_page(lease, brought, took, position),
        }
    }

    fn take_robots(
        &mut self,
        lease: Lease,
        brought: Brought,
        took: Duration,
        position: Option<PagePosition>,
    ) -> Result<()> {
        let now = SystemClock.now();
        // A file that was moved is still that of the host that says so.
        let host = match lease.task() {
            Task::MovedRobots(moved) => moved.of.clone(),
            _ => lease.host().clone(),
        };
        let unavailable = |retry_after| Outcome::RobotsUnavailable { retry_after, download: took };
        if let Ok(url) = host.url("/robots.txt") {
            self.note_visit(&url, &brought, took, now);
        }
        let outcome = match (brought, position) {
            (Ok(answer), Some(position)) => {
                self.count(&answer);
                let url = host.url("/robots.txt")?;
                let visit = ArchivedVisit {
                    url: &url,
                    status: answer.status,
                    fetched: answer.fetched,
                    download: took,
                    position,
                    robots: answer.robots.as_deref(),
                    pace: None,
                    received: false,
                };
                self.followers.apply(&visit, answer.interpreted, FollowerSet::ALL)?;
                Outcome::Robots {
                    delay: self.followers.hosts.crawl_delay(&host),
                    valid_until: answer.fetched + ROBOTS_VALID,
                    download: took,
                }
            }
            (Ok(answer), None) => {
                self.count(&answer);
                match answer.moved {
                    Some(to) => {
                        let memory = self.followers.hosts.row(&to.host()).unwrap_or_default().memory(0);
                        Outcome::RobotsMoved { to, memory: Box::new(self.rested(memory)) }
                    }
                    None => {
                        let wait = answer.retry_after.map_or(now, |pause| now + pause);
                        let (state, status) = (SeedState::RobotsUnavailable, answer.status.to_string());
                        self.followers.seeds.host(&host, state, &status, now, wait);
                        unavailable(answer.retry_after)
                    }
                }
            }
            (Err(error), _) => {
                self.count_error(error.kind());
                self.seed_host_fails(&host, &error, now);
                match lease.task() {
                    Task::MovedRobots(_) => Outcome::Failed { transient: error.is_transient() },
                    _ => unavailable(None),
                }
            }
        };
        match self.frontier.done(now, lease, outcome) {
            Disposition::Finished | Disposition::Requeued => Ok(()),
            Disposition::GaveUp(page) | Disposition::GivenBack(page) => {
                Ok(self.followers.urls.release(&[page.url])?)
            }
        }
    }

    fn take_page(
        &mut self,
        lease: Lease,
        brought: Brought,
        took: Duration,
        position: Option<PagePosition>,
    ) -> Result<()> {
        let now = SystemClock.now();
        let Task::Page(page) = lease.task().clone() else { unreachable!("robots.txt goes elsewhere") };
        self.note_visit(&page.url, &brought, took, now);
        let outcome = match &brought {
            Ok(answer) => {
                self.count(answer);
                if position.is_none() {
                    let wait = answer.retry_after.map_or(now, |pause| now + pause);
                    self.seed_page_fails(
                        &page.url,
                        state_of(answer.status),
                        &answer.status.to_string(),
                        now,
                        wait,
                    );
                }
                match position {
                    Some(_) => Outcome::Fetched { download: took, bytes: answer.bytes },
                    None if answer.is_throttled() => Outcome::Throttled { retry_after: answer.retry_after },
                    None => Outcome::Failed { transient: true },
                }
            }
            Err(error) => {
                self.count_error(error.kind());
                if let Some((state, detail)) = seed_trouble::state_of(error) {
                    self.seed_page_fails(&page.url, state, &detail, now, now);
                }
                Outcome::Failed { transient: error.is_transient() }
            }
        };
        let disposition = self.frontier.done(now, lease, outcome);
        match (disposition, brought, position) {
            (_, Ok(answer), Some(position)) => {
                let visit = ArchivedVisit {
                    url: &page.url,
                    status: answer.status,
                    fetched: answer.fetched,
                    download: took,
                    position,
                    robots: None,
                    pace: self.frontier.pace(&page.url.host()),
                    received: false,
                };
                self.followers.apply(&visit, answer.interpreted, FollowerSet::ALL)
            }
            (Disposition::GivenBack(page), _, None) => Ok(self.followers.urls.release(&[page.url])?),
            (Disposition::GaveUp(page), _, None) => self.followers.failed(&page.url, now),
            (Disposition::Finished, _, None) => self.followers.failed(&page.url, now),
            (Disposition::Requeued, _, None) => Ok(()),
            (_, Err(_), Some(_)) => unreachable!("no answer, no position"),
        }
    }

    /// A host cannot be asked: whoever named it as a seed is told.
    pub fn seed_host_fails(&mut self, host: &Host, error: &NoAnswer, now: Timestamp) {
        if let Some((state, detail)) = seed_trouble::state_of(error) {
            self.followers.seeds.host(host, state, &detail, now, now);
        }
    }

    /// A page cannot be had. What a seed's own page lacks is its host's trouble: the next page that comes ends it.
    fn seed_page_fails(
        &mut self,
        page: &CanonicalUrl,
        state: SeedState,
        detail: &str,
        now: Timestamp,
        wait: Timestamp,
    ) {
        if self.followers.seeds.has(page) {
            self.followers.seeds.host(&page.host(), state, detail, now, wait);
        }
    }

    pub fn note_visit(&mut self, url: &CanonicalUrl, brought: &Brought, took: Duration, at: Timestamp) {
        let (status, outcome, bytes, error) = match brought {
            Ok(answer) => (
                Some(answer.status),
                answer.outcome().to_string(),
                answer.bytes,
                answer.is_server_error().then_some("server"),
            ),
            Err(error) => (None, error.to_string(), 0, Some(error.kind())),
        };
        match status {
            Some(status) => {
                tracing::info!("{status} {url} {outcome}, {bytes} bytes in {} ms", took.as_millis())
            }
            None => tracing::info!("no answer from {url}: {outcome}"),
        }
        let recent = RecentVisit { at, url: url.clone(), status, outcome, error, took, bytes };
        self.followers.hosts.visited(&url.host(), recent, error);
    }

    fn count(&mut self, answer: &Answer) {
        *self.totals.codes.entry(answer.status).or_default() += 1;
        self.totals.bytes += answer.bytes;
        if (200..300).contains(&answer.status) && answer.robots.is_none() {
            self.totals.pages += 1;
        }
    }

    pub fn count_error(&mut self, kind: &str) {
        match self.totals.errors.get_mut(kind) {
            Some(count) => *count += 1,
            None => drop(self.totals.errors.insert(kind.to_string(), 1)),
        }
    }
}
