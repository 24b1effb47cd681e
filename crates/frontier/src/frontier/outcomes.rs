//! What comes of a lease: how long its host rests, and what becomes of its page.
//!
//! INVARIANT: every outcome of a page that is not [`Outcome::Fetched`] or [`Outcome::NotAsked`] either keeps the
//! page in the queue or hands it back, and a page is kept at most `tries_per_page - 1` times.

use super::{Frontier, bytes_of, facts};
use crate::hosts::{HostId, HostState, Queued};
use crate::lease::{Disposition, Outcome};
use crate::limits::{self, RetryPolicy};
use crate::polite;
use farol_base::Timestamp;
use std::collections::VecDeque;
use std::time::Duration;

impl Frontier {
    pub(super) fn robots_done(&mut self, now: Timestamp, id: HostId, outcome: Outcome) {
        let retry = self.limits.robots_retry;
        let Some(entry) = self.hosts.get_mut(id) else { return };
        match outcome {
            Outcome::Robots { delay, valid_until, .. } => {
                entry.memory.failures = 0;
                entry.memory.crawl_delay = delay.map(|delay| delay.min(limits::CRAWL_DELAY_MAX));
                let facts = facts(entry, self.pages_on_densest, &self.limits);
                let rests = polite::rests(&*self.rule, &facts, self.limits.slow_after);
                // A site that asks for half a day or more would see its robots.txt expire before its page's
                // turn, for ever: there the page follows after the rule's delay, and the long rest comes then.
                let long = rests.host > limits::ROBOTS_VALID / 2;
                let rest = if long { rests.address } else { rests.host };
                let least = now + (rest * 2 + limits::ROBOTS_VALID_MIN).min(limits::ROBOTS_VALID);
                let valid = valid_until.max(least).min(now + limits::ROBOTS_VALID);
                entry.memory.robots_valid_until = Some(valid);
                entry.just_read_robots = true;
                entry.memory.not_before = now + rest;
                self.place(now, id);
            }
            // The holder of the lease had a reason not to ask (a pause, a full disk); that is not the host's fault.
            Outcome::NotAsked => {
                entry.memory.not_before = now + retry.first;
                self.rest(now, id, HostState::Resting);
            }
            Outcome::RobotsUnavailable { retry_after, .. } | Outcome::Throttled { retry_after } => {
                self.back_off(now, id, retry, retry_after);
            }
            Outcome::RobotsMoved { to, memory } => {
                self.rest_politely(now, id);
                self.send_errand(now, id, to, *memory, 1);
            }
            Outcome::Failed { .. } | Outcome::Fetched { .. } => self.back_off(now, id, retry, None),
        }
    }

    pub(super) fn page_done(
        &mut self,
        now: Timestamp,
        id: HostId,
        mut tried: Queued,
        outcome: Outcome,
    ) -> Disposition {
        let retry = self.limits.host_retry;
        tried.tries = tried.tries.saturating_add(1);
        let hopeless = tried.tries >= self.limits.tries_per_page;
        let Some(entry) = self.hosts.get_mut(id) else { return Disposition::GivenBack(tried.page) };
        match outcome {
            Outcome::Fetched { .. } | Outcome::Robots { .. } | Outcome::RobotsMoved { .. } => {
                entry.memory.failures = 0;
                self.rest_politely(now, id);
                Disposition::Finished
            }
            Outcome::NotAsked => {
                entry.memory.not_before = now;
                self.place(now, id);
                Disposition::Finished
            }
            Outcome::Throttled { retry_after } => {
                // At the front: a host that is asked again is asked the same, as a reader would.
                let kept = self.keep_unless(hopeless, id, tried, VecDeque::push_front);
                let asked_for = retry_after.map(|pause| pause.max(limits::THROTTLED_PAUSE_MIN));
                self.back_off(now, id, retry, asked_for);
                kept
            }
            Outcome::Failed { transient: false } => {
                // The page's fault (a broken answer), as far as one can tell; the host only rests.
                entry.memory.failures = entry.memory.failures.saturating_add(1);
                if retry.is_over(entry.memory.failures) {
                    entry.memory.failures -= 1;
                    self.back_off(now, id, retry, None);
                } else {
                    self.rest_politely(now, id);
                }
                Disposition::GaveUp(tried.page)
            }
            Outcome::Failed { transient: true } | Outcome::RobotsUnavailable { .. } => {
                // At the back: perhaps it is this page alone that hangs.
                let kept = self.keep_unless(hopeless, id, tried, VecDeque::push_back);
                self.back_off(now, id, retry, None);
                // The address may be the trouble: resolve again before the next try.
                if let Some(entry) = self.hosts.get_mut(id) {
                    entry.resolved_at = Timestamp::EPOCH;
                }
                kept
            }
        }
    }

    fn keep_unless(
        &mut self,
        hopeless: bool,
        id: HostId,
        tried: Queued,
        keep: fn(&mut VecDeque<Queued>, Queued),
    ) -> Disposition {
        match self.hosts.get_mut(id) {
            Some(entry) if !hopeless => {
                self.queued += 1;
                self.queued_bytes += bytes_of(&tried.page);
                keep(&mut entry.queue, tried);
                Disposition::Requeued
            }
            _ => Disposition::GaveUp(tried.page),
        }
    }

    /// A host was asked for somebody's robots.txt: it rests as after a page, or backs off where it did not answer.
    pub(super) fn messenger_returns(&mut self, now: Timestamp, id: HostId, no_answer: bool) {
        if no_answer {
            self.back_off(now, id, self.limits.host_retry, None);
        } else {
            self.rest_politely(now, id);
        }
    }

    /// Lets a host rest as its delay rule and its own Crawl-delay say.
    fn rest_politely(&mut self, now: Timestamp, id: HostId) {
        let Some(entry) = self.hosts.get_mut(id) else { return };
        let facts = facts(entry, self.pages_on_densest, &self.limits);
        let rest = polite::rests(&*self.rule, &facts, self.limits.slow_after).host;
        // What it learnt while it was being asked (that its robots.txt cannot be had) may bind it longer.
        entry.memory.not_before = entry.memory.not_before.max(now + rest);
        self.place(now, id);
    }

    /// Counts a failure, and lets the host pause or quarantines it. The first pause is the one that the server asked
    /// for; after that it is at least ours, lest a server that says "in a second" each time uses our tries up in
    /// seconds. None is shorter than the usual rest.
    fn back_off(&mut self, now: Timestamp, id: HostId, retry: RetryPolicy, asked_for: Option<Duration>) {
        let Some(entry) = self.hosts.get_mut(id) else { return };
        entry.memory.failures = entry.memory.failures.saturating_add(1);
        let over = retry.is_over(entry.memory.failures);
        let ours = retry.pause(entry.memory.failures);
        let pause = match asked_for.map(|pause| pause.min(limits::RETRY_AFTER_MAX)) {
            Some(asked_for) if entry.memory.failures == 1 => asked_for,
            Some(asked_for) => asked_for.max(ours),
            None => ours,
        };
        let facts = facts(entry, self.pages_on_densest, &self.limits);
        let usual = polite::rests(&*self.rule, &facts, self.limits.slow_after).host;
        entry.memory.not_before = now + pause.max(usual);
        self.rest(now, id, if over { HostState::Unreachable } else { HostState::Resting });
        if over {
            self.fail_errands(now, id);
        }
    }
}
