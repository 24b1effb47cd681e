//! What is known of replicas: calls under way, smoothed times, who is passed over and for how long.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use farol_base::{Random, Seeded};

use super::quantile::Quantile;
use super::{ReplicaNo, ShardNo};

/// The least time before a call is hedged, however fast a shard is.
const HEDGE_LEAST: Duration = Duration::from_millis(20);
/// The time before a call is hedged while little is known of its shard.
const HEDGE_UNKNOWN: Duration = Duration::from_millis(100);
/// Calls before a shard's quantile is believed.
const QUANTILE_LEAST: u32 = 20;
/// One hedge per so many calls: 5 %.
const CALLS_PER_HEDGE: u32 = 20;
/// Hedges that can be saved up in quiet times.
const HEDGES_SAVED: u32 = 10;
/// How long a replica that failed is passed over at first, and at most.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(8);
/// How long one that said it was busy is.
const PAUSE_BUSY: Duration = Duration::from_millis(100);
/// Calls in a row without an answer after which a replica counts as failed: one may have been a hard question.
const SILENT_MAX: u32 = 3;
/// A replica that is so far behind the best of its shard is asked last.
const LAG_MAX: Duration = Duration::from_secs(30);
/// Weight of a new sample in the smoothed time.
const SMOOTHING: f64 = 0.2;
/// A smoothed time without new samples halves in this time, so that a replica that was slow is tried again.
const FORGET: Duration = Duration::from_secs(10);
/// Times below this are all the same, seconds.
const TIME_LEAST: f64 = 100e-6;

/// What came of a call that has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The connection broke, or the node tried and failed: it is passed over.
    Broken,
    /// No answer in time; the third in a row counts as broken.
    Silent,
    /// The node has too much to do: passed over for a moment.
    Busy,
    /// The node will not answer this; nothing follows for other questions.
    Refused,
}

/// A replica as it stands, for people who look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReplicaView {
    /// Calls that were made and have not ended.
    pub under_way: u32,
    /// How much longer it is passed over; zero once its pause is over and it has not answered yet.
    pub passed_over: Option<Duration>,
}

/// Everything that outlives a question: one per front, shared by all its questions.
#[derive(Debug)]
pub struct ReplicaBook {
    shards: BTreeMap<ShardNo, ShardBook>,
    replicas: BTreeMap<ReplicaNo, Standing>,
    random: Seeded,
    /// Twentieths of a hedge.
    savings: u32,
    asks: u64,
    hedges: u64,
}

#[derive(Debug, Default)]
struct ShardBook {
    replicas: Vec<ShardReplica>,
    times: Quantile,
}

/// A replica as one of its shards knows it.
#[derive(Clone, Debug)]
struct ShardReplica {
    replica: ReplicaNo,
    smoothed: f64,
    sampled: Option<Instant>,
    lag: Duration,
}

/// A replica whatever the shard.
#[derive(Debug, Default)]
struct Standing {
    under_way: u32,
    silent: u32,
    answered: Option<Instant>,
    health: Health,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Health {
    #[default]
    Well,
    PassedOver {
        until: Instant,
        pause: Duration,
    },
    /// One call finds out whether it is well again.
    Probed {
        pause: Duration,
    },
}

/// How soon a replica is asked; less is sooner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Class {
    Fresh,
    Lagging,
    /// Its pause is over and nobody is finding out.
    Due,
    PassedOver,
}

/// A replica that was picked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub replica: ReplicaNo,
    /// Whether this call finds out if it is well again.
    pub probe: bool,
}

impl ReplicaBook {
    /// A book that knows nobody yet.
    pub fn new(seed: u64) -> ReplicaBook {
        ReplicaBook {
            shards: BTreeMap::new(),
            replicas: BTreeMap::new(),
            random: Seeded::new(seed),
            savings: 0,
            asks: 0,
            hedges: 0,
        }
    }

    /// Takes a new map of shards and their replicas; what is known of those that stay is kept.
    pub fn install(&mut self, map: impl IntoIterator<Item = (ShardNo, Vec<ReplicaNo>)>) {
        let mut old = std::mem::take(&mut self.shards);
        for (shard, replicas) in map {
            let ShardBook { replicas: known, times } = old.remove(&shard).unwrap_or_default();
            let unknown =
                |replica| ShardReplica { replica, smoothed: 0.0, sampled: None, lag: Duration::ZERO };
            let replicas = replicas
                .into_iter()
                .map(|replica| {
                    let found = known.iter().find(|known| known.replica == replica);
                    found.cloned().unwrap_or_else(|| unknown(replica))
                })
                .collect();
            self.shards.insert(shard, ShardBook { replicas, times });
        }
        let named: Vec<ReplicaNo> =
            self.shards.values().flat_map(|shard| shard.replicas.iter().map(|known| known.replica)).collect();
        self.replicas.retain(|replica, _| named.contains(replica));
        for replica in named {
            self.replicas.entry(replica).or_default();
        }
    }

    /// Notes how far a replica is behind what was written for its shard.
    pub fn lags(&mut self, shard: ShardNo, replica: ReplicaNo, lag: Duration) {
        if let Some(known) = self.known(shard, replica) {
            known.lag = lag;
        }
    }

    /// All shards of the map.
    pub fn shards(&self) -> impl Iterator<Item = ShardNo> {
        self.shards.keys().copied()
    }

    /// How a replica stands.
    pub fn view(&self, replica: ReplicaNo, now: Instant) -> Option<ReplicaView> {
        let standing = self.replicas.get(&replica)?;
        let passed_over = match standing.health {
            Health::Well => None,
            Health::PassedOver { until, .. } => Some(until.saturating_duration_since(now)),
            Health::Probed { .. } => Some(Duration::ZERO),
        };
        Some(ReplicaView { under_way: standing.under_way, passed_over })
    }

    /// First asks so far, and hedges.
    pub fn asks_and_hedges(&self) -> (u64, u64) {
        (self.asks, self.hedges)
    }

    /// Picks whom a question asks first. One whose pause is over goes before all others: nobody would ask it
    /// otherwise.
    pub(super) fn first(
        &mut self,
        shard: ShardNo,
        prefer: Option<ReplicaNo>,
        now: Instant,
    ) -> Option<Chosen> {
        let mut classes = self.classes(shard, &[], now);
        let preferred =
            |(replica, class): &(ReplicaNo, Class)| Some(*replica) == prefer && *class < Class::Due;
        if let Some((replica, _)) = classes.iter().find(|known| preferred(known)) {
            return Some(Chosen { replica: *replica, probe: false });
        }
        if let Some((replica, _)) = classes.iter().find(|(_, class)| *class == Class::Due) {
            return Some(self.probe(*replica));
        }
        self.pick(shard, &mut classes, now)
    }

    /// Picks another replica besides those that were tried; one that is passed over only as a last resort.
    pub(super) fn another(
        &mut self,
        shard: ShardNo,
        tried: &[ReplicaNo],
        last_resort: bool,
        now: Instant,
    ) -> Option<Chosen> {
        let mut classes = self.classes(shard, tried, now);
        classes.retain(|(_, class)| last_resort || *class < Class::Due);
        self.pick(shard, &mut classes, now)
    }

    /// Picks a healthy replica for a hedge, and pays for it; `None` also where there were too many.
    pub(super) fn hedge(&mut self, shard: ShardNo, tried: &[ReplicaNo], now: Instant) -> Option<Chosen> {
        if self.savings < CALLS_PER_HEDGE {
            return None;
        }
        let chosen = self.another(shard, tried, false, now)?;
        self.savings -= CALLS_PER_HEDGE;
        self.hedges += 1;
        Some(chosen)
    }

    /// After how long a call to a shard is hedged.
    pub(super) fn hedge_delay(&self, shard: ShardNo) -> Duration {
        let times = self.shards.get(&shard).and_then(|shard| shard.times.at(95, QUANTILE_LEAST));
        times.unwrap_or(HEDGE_UNKNOWN).max(HEDGE_LEAST)
    }

    /// Whether a replica has answered nothing since then.
    pub(super) fn silent_since(&self, replica: ReplicaNo, then: Instant) -> bool {
        self.replicas.get(&replica).is_none_or(|standing| standing.answered.is_none_or(|at| at <= then))
    }

    /// Counts a first ask, which pays a twentieth of a hedge.
    pub(super) fn count_ask(&mut self) {
        self.asks += 1;
        self.savings = (self.savings + 1).min(HEDGES_SAVED * CALLS_PER_HEDGE);
    }

    /// A call was made.
    pub(super) fn asked(&mut self, replica: ReplicaNo) {
        if let Some(standing) = self.replicas.get_mut(&replica) {
            standing.under_way += 1;
        }
    }

    /// A call was answered after `time`: the replica is well.
    pub(super) fn answered(&mut self, shard: ShardNo, replica: ReplicaNo, time: Duration, now: Instant) {
        let Some(standing) = self.ended(replica) else { return };
        standing.silent = 0;
        standing.answered = Some(now);
        let recovered = std::mem::take(&mut standing.health) != Health::Well;
        if recovered {
            // What it took before it failed says nothing of what it takes now.
            let everywhere = self.shards.values_mut().flat_map(|shard| shard.replicas.iter_mut());
            everywhere.filter(|known| known.replica == replica).for_each(ShardReplica::forget);
        }
        self.timed(shard, time);
        if let Some(known) = self.known(shard, replica) {
            let time = time.as_secs_f64();
            known.smoothed = match known.sampled {
                Some(_) => known.smoothed_at(now) * (1.0 - SMOOTHING) + time * SMOOTHING,
                None => time,
            };
            known.sampled = Some(now);
        }
    }

    /// A call was cancelled after `waited`, because another that was started later has answered, or the time was
    /// over. Its time would have been longer still.
    pub(super) fn overtaken(
        &mut self,
        shard: ShardNo,
        replica: ReplicaNo,
        waited: Duration,
        probe: bool,
        now: Instant,
    ) {
        self.failed(shard, replica, Failure::Silent, waited, probe, now);
    }

    /// A call was cancelled and nothing follows from it.
    pub(super) fn released(&mut self, replica: ReplicaNo, probe: bool, now: Instant) {
        let Some(standing) = self.ended(replica) else { return };
        if let (true, Health::Probed { pause }) = (probe, standing.health) {
            standing.health = Health::PassedOver { until: now, pause };
        }
    }

    /// A call failed after `waited`.
    pub(super) fn failed(
        &mut self,
        shard: ShardNo,
        replica: ReplicaNo,
        failure: Failure,
        waited: Duration,
        probe: bool,
        now: Instant,
    ) {
        let Some(standing) = self.ended(replica) else { return };
        match failure {
            Failure::Broken => standing.pass_over(probe, now),
            Failure::Silent => {
                standing.silent += 1;
                if probe || standing.silent >= SILENT_MAX {
                    standing.pass_over(probe, now);
                }
            }
            Failure::Busy => standing.pause_briefly(probe, now),
            Failure::Refused => {
                standing.silent = 0;
                standing.health = Health::Well;
            }
        }
        if failure == Failure::Silent {
            self.timed(shard, waited);
            if let Some(known) = self.known(shard, replica) {
                known.smoothed = known.smoothed_at(now).max(waited.as_secs_f64());
                known.sampled = Some(now);
            }
        }
    }

    fn ended(&mut self, replica: ReplicaNo) -> Option<&mut Standing> {
        let standing = self.replicas.get_mut(&replica)?;
        standing.under_way = standing.under_way.saturating_sub(1);
        Some(standing)
    }

    fn timed(&mut self, shard: ShardNo, time: Duration) {
        if let Some(shard) = self.shards.get_mut(&shard) {
            shard.times.add(time);
        }
    }

    fn known(&mut self, shard: ShardNo, replica: ReplicaNo) -> Option<&mut ShardReplica> {
        self.shards.get_mut(&shard)?.replicas.iter_mut().find(|known| known.replica == replica)
    }

    fn classes(&self, shard: ShardNo, tried: &[ReplicaNo], now: Instant) -> Vec<(ReplicaNo, Class)> {
        let Some(shard) = self.shards.get(&shard) else { return Vec::new() };
        let least_lag = shard.replicas.iter().map(|known| known.lag).min().unwrap_or_default();
        let class = |known: &ShardReplica| match self.replicas.get(&known.replica).map(|known| known.health) {
            Some(Health::PassedOver { until, .. }) if until <= now => Class::Due,
            Some(Health::PassedOver { .. } | Health::Probed { .. }) => Class::PassedOver,
            _ if known.lag >= least_lag + LAG_MAX => Class::Lagging,
            _ => Class::Fresh,
        };
        let untried = shard.replicas.iter().filter(|known| !tried.contains(&known.replica));
        untried.map(|known| (known.replica, class(known))).collect()
    }

    /// The better of two random replicas of the best class there is.
    fn pick(
        &mut self,
        shard: ShardNo,
        classes: &mut Vec<(ReplicaNo, Class)>,
        now: Instant,
    ) -> Option<Chosen> {
        let best = classes.iter().map(|(_, class)| *class).min()?;
        classes.retain(|(_, class)| *class == best);
        let one = self.random.below(classes.len() as u64) as usize;
        let (one, _) = classes.swap_remove(one);
        let replica = match classes.get(self.random.below(classes.len() as u64) as usize) {
            Some((two, _)) if self.cost(shard, *two, now) < self.cost(shard, one, now) => *two,
            _ => one,
        };
        if best == Class::Due { Some(self.probe(replica)) } else { Some(Chosen { replica, probe: false }) }
    }

    /// How long a call would take, more or less.
    fn cost(&self, shard: ShardNo, replica: ReplicaNo, now: Instant) -> f64 {
        let under_way = self.replicas.get(&replica).map_or(0, |standing| standing.under_way);
        let known =
            self.shards.get(&shard).and_then(|shard| shard.replicas.iter().find(|k| k.replica == replica));
        let time = known.map_or(0.0, |known| known.smoothed_at(now));
        f64::from(under_way + 1) * time.max(TIME_LEAST)
    }

    fn probe(&mut self, replica: ReplicaNo) -> Chosen {
        if let Some(standing) = self.replicas.get_mut(&replica)
            && let Health::PassedOver { pause, .. } = standing.health
        {
            standing.health = Health::Probed { pause };
        }
        Chosen { replica, probe: true }
    }
}

impl ShardReplica {
    fn forget(&mut self) {
        (self.smoothed, self.sampled) = (0.0, None);
    }

    /// The smoothed time in seconds, faded by the time without samples.
    fn smoothed_at(&self, now: Instant) -> f64 {
        let unseen = self.sampled.map_or(Duration::ZERO, |sampled| now.saturating_duration_since(sampled));
        self.smoothed * (-unseen.as_secs_f64() / FORGET.as_secs_f64()).exp2()
    }
}

impl Standing {
    /// Begins a pause. Only a probe makes it longer: calls that were made together fail together.
    fn pass_over(&mut self, probe: bool, now: Instant) {
        self.silent = 0;
        let pause = match self.health {
            Health::Well => PAUSE_FIRST,
            Health::Probed { pause } if probe => (pause * 2).min(PAUSE_MAX),
            _ => return,
        };
        self.health = Health::PassedOver { until: now + pause, pause };
    }

    /// A busy node is alive: it is left alone for a moment, and a pause that it had grows no longer.
    fn pause_briefly(&mut self, probe: bool, now: Instant) {
        let pause = match self.health {
            // A probe that fails doubles it.
            Health::Well => PAUSE_FIRST / 2,
            Health::Probed { pause } if probe => pause,
            _ => return,
        };
        self.health = Health::PassedOver { until: now + PAUSE_BUSY, pause };
    }
}
