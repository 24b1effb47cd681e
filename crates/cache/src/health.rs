//! What one front knows of a node's health, by its own calls: nobody waits for a heartbeat.
//!
//! Who refuses is in *quarantine* for a second, doubling to eight; then one question goes there as a probe, and all others
//! pass the node over until it is answered. A late answer alone is no sign of death; three in a row are. Who says that it
//! is busy is alive. A node whose 95th percentile is five times that of the others is *slow*: it leaves the sets of hot
//! queries, and of its own range it is sent one query in ten, until it recovers.
//!
//! INVARIANT: whatever happens, a node that answers again is used again within nine seconds.

use farol_base::Timestamp;
use std::time::Duration;

/// Rules of health.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HealthRules {
    pub quarantine: Duration,
    pub quarantine_max: Duration,
    /// So many late answers in a row count as a refusal.
    pub late_max: u32,
    /// Slow: the 95th percentile over that of the others.
    pub slow_factor: f64,
    /// Who answers faster than this is not slow, whatever the others do.
    pub slow_min: Duration,
    /// A node is waited for at most so long …
    pub deadline_max: Duration,
    /// … or so many times its 99th percentile, if that is less.
    pub deadline_factor: u32,
}

impl Default for HealthRules {
    fn default() -> HealthRules {
        HealthRules {
            quarantine: Duration::from_secs(1),
            quarantine_max: Duration::from_secs(8),
            late_max: 3,
            slow_factor: 5.0,
            slow_min: Duration::from_millis(5),
            deadline_max: Duration::from_millis(40),
            deadline_factor: 3,
        }
    }
}

/// Why a node did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No connection, or a broken one.
    Refused,
    /// Not within the deadline.
    Late,
    /// It said so.
    Busy,
}

/// Below this a percentile says nothing.
const ANSWERS_MIN: u32 = 50;
/// After so many answers all counts are halved.
const ANSWERS_MAX: u32 = 2_000;
/// The least deadline: a percentile of a quiet moment is no promise.
const DEADLINE_MIN: Duration = Duration::from_millis(5);
/// Two buckets for each doubling, from 16 µs on.
const BUCKETS: usize = 44;
const FIRST_MICROS: f64 = 16.0;

/// A node's health.
#[derive(Clone, Debug)]
pub struct Health {
    until: Option<Timestamp>,
    quarantine: Duration,
    refusing_since: Option<Timestamp>,
    /// A probe is under way, and is given up at this time.
    probe_until: Option<Timestamp>,
    late: u32,
    times: [u32; BUCKETS],
    answers: u32,
    pub(crate) is_slow: bool,
}

impl Default for Health {
    fn default() -> Health {
        Health {
            until: None,
            quarantine: Duration::ZERO,
            refusing_since: None,
            probe_until: None,
            late: 0,
            times: [0; BUCKETS],
            answers: 0,
            is_slow: false,
        }
    }
}

impl Health {
    /// Whether a question may go there now.
    pub fn is_open(&self, now: Timestamp) -> bool {
        match self.until {
            None => true,
            Some(until) => now >= until && self.probe_until.is_none_or(|until| now >= until),
        }
    }

    /// A question goes there; out of quarantine it is the probe.
    pub fn asked(&mut self, now: Timestamp, rules: &HealthRules) {
        if self.until.is_some() {
            self.probe_until = Some(now + rules.quarantine);
        }
    }

    pub fn answered(&mut self, took: Duration) {
        (self.until, self.probe_until, self.refusing_since) = (None, None, None);
        (self.quarantine, self.late) = (Duration::ZERO, 0);
        if self.answers >= ANSWERS_MAX {
            self.times.iter_mut().for_each(|count| *count /= 2);
            self.answers = self.times.iter().sum();
        }
        self.times[bucket(took)] += 1;
        self.answers += 1;
    }

    pub fn failed(&mut self, why: Failure, now: Timestamp, rules: &HealthRules) {
        match why {
            Failure::Busy => {
                // Alive: what it refuses is the load.
                (self.until, self.probe_until, self.refusing_since, self.late) = (None, None, None, 0);
                return;
            }
            Failure::Late => {
                self.late = self.late.saturating_add(1);
                if self.late < rules.late_max && self.until.is_none() {
                    return;
                }
            }
            Failure::Refused => {}
        }
        // Several questions were on their way when it went: one quarantine for all.
        if self.until.is_some_and(|until| until > now) {
            return;
        }
        // Who is late may be slow, or far; that it is dead is for its beats to say.
        if why == Failure::Refused {
            self.refusing_since = self.refusing_since.or(Some(now));
        }
        self.quarantine = (self.quarantine * 2).clamp(rules.quarantine, rules.quarantine_max);
        (self.until, self.probe_until) = (Some(now + self.quarantine), None);
    }

    /// Since when it refuses.
    pub fn refusing_since(&self) -> Option<Timestamp> {
        self.refusing_since
    }

    /// The time within which so many per cent of its answers came; `None` where there are too few.
    pub fn percentile(&self, percent: u32) -> Option<Duration> {
        if self.answers < ANSWERS_MIN {
            return None;
        }
        let wanted = u64::from(self.answers) * u64::from(percent) / 100;
        let mut seen = 0u64;
        let at = self.times.iter().position(|count| {
            seen += u64::from(*count);
            seen > wanted
        });
        Some(upper(at.unwrap_or(BUCKETS - 1)))
    }

    /// How long an answer is waited for.
    pub fn deadline(&self, rules: &HealthRules) -> Duration {
        let usual = self.percentile(99).map_or(rules.deadline_max, |p99| p99 * rules.deadline_factor);
        usual.max(DEADLINE_MIN).min(rules.deadline_max)
    }
}

fn bucket(took: Duration) -> usize {
    let micros = took.as_micros() as f64 / FIRST_MICROS;
    ((2.0 * micros.max(1.0).log2()) as usize).min(BUCKETS - 1)
}

/// The end of a bucket.
fn upper(bucket: usize) -> Duration {
    Duration::from_micros((FIRST_MICROS * ((bucket + 1) as f64 / 2.0).exp2()) as u64)
}

/// Says of each node whether it is slow beside the others.
pub fn judge_slow<'a>(nodes: impl Iterator<Item = &'a mut Health>, rules: &HealthRules) {
    let mut nodes: Vec<(&mut Health, Option<Duration>)> = nodes
        .map(|health| {
            let p95 = health.percentile(95);
            (health, p95)
        })
        .collect();
    let mut known: Vec<Duration> = nodes.iter().filter_map(|(_, p95)| *p95).collect();
    known.sort_unstable();
    for (health, p95) in &mut nodes {
        let Some(own) = *p95 else { continue };
        // The median of the others: those below it by place, itself left out.
        let at = known.partition_point(|other| *other < own);
        let others = known.len() - 1;
        let median = (others > 0).then(|| {
            let middle = others / 2;
            known[if at <= middle { middle + 1 } else { middle }]
        });
        health.is_slow =
            own >= rules.slow_min && median.is_some_and(|median| own > median.mul_f64(rules.slow_factor));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: HealthRules = HealthRules {
        quarantine: Duration::from_secs(1),
        quarantine_max: Duration::from_secs(8),
        late_max: 3,
        slow_factor: 5.0,
        slow_min: Duration::from_millis(5),
        deadline_max: Duration::from_millis(40),
        deadline_factor: 3,
    };

    fn at(millis: u64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn a_node_that_refuses_rests_and_is_tried_by_one_at_a_time() {
        let mut health = Health::default();
        let (mut rests, mut now) = (Vec::new(), 0);
        for _ in 0..6 {
            health.failed(Failure::Refused, at(now), &RULES);
            // Others that were on their way change nothing.
            health.failed(Failure::Refused, at(now + 1), &RULES);
            let begun = now;
            while !health.is_open(at(now)) {
                now += 100;
            }
            rests.push((now - begun) / 1000);
            health.asked(at(now), &RULES);
            assert!(!health.is_open(at(now + 10)), "one probe at a time");
        }
        assert_eq!(rests, [1, 2, 4, 8, 8, 8]);
        assert_eq!(health.refusing_since(), Some(at(0)));
        health.answered(Duration::from_millis(1));
        assert!(health.is_open(at(now)) && health.refusing_since().is_none());
        health.failed(Failure::Refused, at(now), &RULES);
        assert!(health.is_open(at(now + 1000)), "it begins with a second again");
        // A probe of which nothing is ever heard does not close the node for ever.
        health.asked(at(now + 1000), &RULES);
        assert!(!health.is_open(at(now + 1999)) && health.is_open(at(now + 2000)));
    }

    #[test]
    fn late_is_not_dead_until_three_in_a_row_and_busy_is_alive() {
        let mut health = Health::default();
        let late = |health: &mut Health| health.failed(Failure::Late, at(0), &RULES);
        late(&mut health);
        late(&mut health);
        health.answered(Duration::from_millis(1));
        late(&mut health);
        late(&mut health);
        health.failed(Failure::Busy, at(0), &RULES);
        late(&mut health);
        late(&mut health);
        assert!(health.is_open(at(0)));
        late(&mut health);
        assert!(!health.is_open(at(0)) && health.refusing_since().is_none());
    }

    #[test]
    fn deadlines_follow_the_percentile_up_to_a_limit() {
        let mut health = Health::default();
        assert_eq!(health.deadline(&RULES), Duration::from_millis(40), "nothing is known yet");
        (0..1000).for_each(|_| health.answered(Duration::from_millis(3)));
        let deadline = health.deadline(&RULES);
        assert!(deadline >= Duration::from_millis(9) && deadline < Duration::from_millis(14), "{deadline:?}");
        (0..1000).for_each(|_| health.answered(Duration::from_micros(50)));
        (0..9000).for_each(|_| health.answered(Duration::from_micros(50)));
        assert_eq!(health.deadline(&RULES), DEADLINE_MIN);
        (0..5000).for_each(|_| health.answered(Duration::from_secs(1)));
        assert_eq!(health.deadline(&RULES), Duration::from_millis(40));
    }

    #[test]
    fn who_is_five_times_as_slow_as_the_others_is_slow_until_it_recovers() {
        let mut nodes: Vec<Health> = vec![Health::default(); 5];
        for (number, node) in nodes.iter_mut().enumerate() {
            let millis = if number == 3 { 30 } else { 2 };
            (0..200).for_each(|_| node.answered(Duration::from_millis(millis)));
        }
        let slow = |nodes: &mut Vec<Health>| {
            judge_slow(nodes.iter_mut(), &RULES);
            nodes.iter().map(|node| node.is_slow).collect::<Vec<_>>()
        };
        assert_eq!(slow(&mut nodes), [false, false, false, true, false]);
        (0..8000).for_each(|_| nodes[3].answered(Duration::from_millis(2)));
        assert_eq!(slow(&mut nodes), [false; 5]);
        // All are slow alike, or there is nobody to compare with: nobody is.
        let mut one = vec![Health::default()];
        (0..200).for_each(|_| one[0].answered(Duration::from_secs(1)));
        assert_eq!(slow(&mut one), [false]);
    }
}
