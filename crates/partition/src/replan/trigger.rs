//! When to plan anew [Exposto08 §3.3.2], decision D-12.

use farol_base::Timestamp;
use std::time::Duration;

/// Thresholds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Triggers {
    /// After so long in any case.
    pub every: Duration,
    /// Between two plans lies so much at least, unless agents changed or somebody ordered one.
    pub gap: Duration,
    /// Growth of the number of pages, or of hosts, since the last plan: 0.2 is a fifth.
    pub growth: f64,
    /// Greatest load of an agent over its share.
    pub overload: f64,
}

impl Default for Triggers {
    fn default() -> Triggers {
        Triggers {
            every: Duration::from_secs(24 * 3600),
            gap: Duration::from_secs(600),
            growth: 0.2,
            overload: 1.10,
        }
    }
}

/// Why a plan is made.
#[derive(Clone, Debug, PartialEq)]
pub enum Trigger {
    /// There is no table yet.
    First,
    Ordered,
    /// The operator's rules are not those of the table in force.
    Rules,
    /// Names of agents that came and of agents that went.
    Agents {
        joined: Vec<String>,
        left: Vec<String>,
    },
    /// Pages or hosts since the last plan, whichever grew more: 1.2 is a fifth.
    Grown(f64),
    /// Greatest load of an agent over its share.
    Overload(f64),
    /// Hosts that a filter gives to another than their address has, or that wait until a table names them.
    Waiting(u64),
    Time,
}

impl Trigger {
    /// For people.
    pub fn text(&self) -> String {
        match self {
            Trigger::First => "there is no table yet".to_string(),
            Trigger::Rules => "there are other rules".to_string(),
            Trigger::Ordered => "it was ordered".to_string(),
            Trigger::Agents { joined, left } => match (&joined[..], &left[..]) {
                (joined, []) => format!("joined: {}", joined.join(", ")),
                ([], left) => format!("left: {}", left.join(", ")),
                (joined, left) => format!("joined: {}; left: {}", joined.join(", "), left.join(", ")),
            },
            Trigger::Grown(by) if *by >= 10.0 => "the crawl has grown many times over".to_string(),
            Trigger::Grown(by) => format!("the crawl has grown by {:.0} %", 100.0 * (by - 1.0)),
            Trigger::Overload(by) => format!("an agent has {:.0} % of its share", 100.0 * by),
            Trigger::Waiting(1) => "a host waits for a table that names it".to_string(),
            Trigger::Waiting(hosts) => format!("{hosts} hosts wait for a table that names them"),
            Trigger::Time => "it is time".to_string(),
        }
    }
}

/// What was known when the last plan was made.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LastPlan {
    pub at: Timestamp,
    pub hosts: u64,
    pub pages: u64,
    /// Greatest load over its share that the last plan left: what cannot be mended is no reason to try again.
    pub overload: f64,
}

impl Triggers {
    /// Which of the slow reasons there is, if any; `overload` and `waiting` are asked only where nothing else is due.
    pub(super) fn due(
        &self,
        now: Timestamp,
        last: &LastPlan,
        hosts: u64,
        pages: u64,
        overload: impl FnOnce() -> f64,
        waiting: impl FnOnce() -> u64,
    ) -> Option<Trigger> {
        let since = now.since(last.at);
        if since < self.gap {
            return None;
        }
        let grown = |now: u64, then: u64| now as f64 / then.max(1) as f64;
        let by = grown(hosts, last.hosts).max(grown(pages, last.pages));
        if by >= 1.0 + self.growth && hosts > 0 {
            return Some(Trigger::Grown(by));
        }
        if since >= self.every {
            return Some(Trigger::Time);
        }
        let waiting = waiting();
        if waiting > 0 {
            return Some(Trigger::Waiting(waiting));
        }
        let overload = overload();
        (overload > self.overload && overload > 1.02 * last.overload).then_some(Trigger::Overload(overload))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_is_due_when_something_has_changed_and_not_before() {
        let triggers = Triggers::default();
        let at = Timestamp::from_secs(1_000_000);
        let last = LastPlan { at, hosts: 100, pages: 1000, overload: 1.0 };
        let check = |minutes: u64, hosts, pages, overload: f64| {
            triggers.due(at + Duration::from_secs(60 * minutes), &last, hosts, pages, || overload, || 0)
        };
        assert_eq!(check(9, 900, 9000, 5.0), None);
        assert_eq!(check(10, 100, 1199, 1.1), None);
        assert_eq!(check(10, 100, 1200, 1.0), Some(Trigger::Grown(1.2)));
        assert_eq!(check(10, 130, 1000, 1.0), Some(Trigger::Grown(1.3)));
        assert_eq!(check(10, 100, 1000, 1.2), Some(Trigger::Overload(1.2)));
        assert_eq!(check(24 * 60, 100, 1000, 1.0), Some(Trigger::Time));
        // A load that the last plan could not mend is no reason to plan for ever.
        let stuck = LastPlan { overload: 1.3, ..last };
        let hour = at + Duration::from_secs(3600);
        assert_eq!(triggers.due(hour, &stuck, 100, 1000, || 1.3, || 0), None);
        // Whoever waits for a table gets one.
        assert_eq!(triggers.due(hour, &stuck, 100, 1000, || 1.3, || 2), Some(Trigger::Waiting(2)));
    }
}
