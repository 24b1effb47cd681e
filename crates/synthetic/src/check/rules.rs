//! The rules of a polite crawl as small state machines, each fed with the requests in the order of their arrival.

use super::report::Offence;
use crate::{Entry, Rules, Served};
use std::time::Duration;

/// What is wrong with a request's moment, whoever's turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistimed {
    Overlap,
    TooSoon,
    RetryAfter,
}

impl Mistimed {
    pub fn of_host(self) -> Offence {
        match self {
            Mistimed::Overlap => Offence::HostOverlap,
            Mistimed::TooSoon => Offence::HostTooSoon,
            Mistimed::RetryAfter => Offence::RetryAfterIgnored,
        }
    }

    /// Retry-After is a host's word, not its address's.
    pub fn of_address(self) -> Option<Offence> {
        match self {
            Mistimed::Overlap => Some(Offence::AddressOverlap),
            Mistimed::TooSoon => Some(Offence::AddressTooSoon),
            Mistimed::RetryAfter => None,
        }
    }
}

/// One request at a time, each after its delay: for a host or for an address.
#[derive(Debug, Default)]
pub struct Turn {
    last_start_us: Option<u64>,
    /// Until when the server was busy for sure.
    busy_until_us: u64,
    closed_until_us: u64,
}

impl Turn {
    pub fn take(
        &mut self,
        entry: &Entry,
        delay: Duration,
        slack: Duration,
    ) -> impl Iterator<Item = Mistimed> {
        let slack_us = slack.as_micros() as u64;
        let overlap = entry.start_us < self.busy_until_us;
        let too_soon = !delay.is_zero()
            && self
                .last_start_us
                .is_some_and(|last| entry.start_us + slack_us < last + delay.as_micros() as u64);
        let retry_after = entry.start_us + slack_us < self.closed_until_us;
        self.last_start_us = Some(entry.start_us);
        // A client that leaves early may be gone for a while before the server notices.
        let busy_until = if entry.cut { entry.end_us.saturating_sub(slack_us) } else { entry.end_us };
        self.busy_until_us = self.busy_until_us.max(busy_until);
        if let Some(secs) = entry.retry_after_secs {
            self.closed_until_us = self.closed_until_us.max(entry.end_us + u64::from(secs) * 1_000_000);
        }
        [(overlap, Mistimed::Overlap), (too_soon, Mistimed::TooSoon), (retry_after, Mistimed::RetryAfter)]
            .into_iter()
            .filter_map(|(is, what)| is.then_some(what))
    }
}

/// robots.txt first, not too old, and obeyed.
#[derive(Debug)]
pub struct Robots {
    rules: Rules,
    /// When the rules were last learnt.
    known_at_us: Option<u64>,
}

impl Robots {
    pub fn new(rules: Rules) -> Robots {
        Robots { rules, known_at_us: None }
    }

    /// The host's Crawl-delay, once it was read.
    pub fn crawl_delay(&self) -> Duration {
        if self.known_at_us.is_some() { self.rules.crawl_delay.unwrap_or_default() } else { Duration::ZERO }
    }

    pub fn take(&mut self, entry: &Entry, age_max: Duration) -> Option<Offence> {
        if entry.served == Served::Robots {
            // RFC 9309 §2.3.1.4: after a server error nothing may be assumed.
            if matches!(entry.status, 200..=428 | 430..=499) {
                self.known_at_us = Some(entry.end_us);
            }
            return None;
        }
        match self.known_at_us {
            None => Some(Offence::BeforeRobots),
            Some(at) if entry.start_us > at + age_max.as_micros() as u64 => Some(Offence::StaleRobots),
            Some(_) if !self.rules.allows(&entry.path) => Some(Offence::Forbidden),
            Some(_) => None,
        }
    }
}

/// The last request for a URL, as far as it decides on the next one.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    start_us: u64,
    /// It failed in a way that a crawler may try again.
    failed: bool,
}

impl Asked {
    pub fn of(entry: &Entry) -> Asked {
        let failed = entry.cut
            || entry.status == 0
            || entry.status == 429
            || entry.status >= 500
            || matches!(entry.served, Served::Broken | Served::Huge);
        Asked { start_us: entry.start_us, failed }
    }

    /// Whether asking for the same URL again by this request is a waste.
    pub fn forbids(self, again: &Entry, revisit_min: Duration) -> bool {
        let due = again.start_us >= self.start_us + revisit_min.as_micros() as u64;
        !(self.failed || again.conditional || due)
    }
}
