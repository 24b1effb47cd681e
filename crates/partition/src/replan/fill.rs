//! Round-trip times from every agent to every address, each from the best source there is.
//!
//! | source | when |
//! |---|---|
//! | [`Source::Measured`] | the agent's own connections, seven samples or more [Exposto08 §4.4] |
//! | [`Source::Few`] | the same with fewer samples; used, and marked |
//! | [`Source::Route`] | the shortest way over segments of traceroutes that somebody else made [Exposto08 §4.5] |
//! | [`Source::Coordinates`] | network coordinates, where two agents or more measured the address |
//! | [`Source::Distance`] | both places are known |
//! | [`Source::Unknown`] | else |
//!
//! An agent's times are not believed at all where many of them contradict physics or what others measured: see
//! [`Filled::disbelieved`].

use super::atlas::{Atlas, RttTold};
use crate::rtt::{Coordinates, PROBES, Routes};
use crate::{Agent, Position};
use farol_base::{Random, Seeded};
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;

/// Where a round-trip time comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Measured,
    Few,
    Route,
    Coordinates,
    Distance,
    #[default]
    Unknown,
}

/// Samples that coordinates are fitted to; more are drawn from.
const FITTED_MAX: usize = 100_000;
const FIT_ROUNDS: usize = 40;
/// Addresses that must be comparable before an agent's times are judged.
const JUDGED_MIN: usize = 8;
/// Share of an agent's comparable times that may be impossible. On the Internet a few pairs in a hundred are nearer to
/// each other than any way over a third allows.
const IMPOSSIBLE_MAX: f64 = 0.3;

/// Times of a space.
#[derive(Clone, Debug, Default)]
pub struct Filled {
    /// Milliseconds, address by address; not a number where unknown. Empty where nothing is known.
    pub rtt: Vec<f32>,
    pub sources: Vec<Source>,
    /// Pairs by source.
    pub counts: BTreeMap<Source, u64>,
    /// Agents whose times were left out, by their numbers among today's.
    pub disbelieved: Vec<u32>,
}

/// Puts together what is known. `routes` comes with the addresses of agents that traceroutes were made from.
pub fn fill(
    atlas: &Atlas,
    agents: &[Agent],
    addresses: &[(IpAddr, Option<Position>)],
    routes: Option<(&mut Routes, &BTreeMap<String, IpAddr>)>,
    seed: u64,
) -> Filled {
    let k = agents.len();
    let number: Vec<Option<usize>> =
        atlas.agents().iter().map(|name| agents.iter().position(|agent| agent.name == *name)).collect();
    let disbelieved = disbelieved(atlas, agents, addresses, &number);
    let trusted =
        |told: &&RttTold| number[told.agent as usize].is_some_and(|j| !disbelieved.contains(&(j as u32)));
    let mut filled = Filled {
        rtt: vec![f32::NAN; addresses.len() * k],
        sources: vec![Source::Unknown; addresses.len() * k],
        counts: BTreeMap::new(),
        disbelieved: disbelieved.clone(),
    };
    let mut put = |at: usize, millis: f64, source: Source| {
        if millis.is_finite() && millis > 0.0 && source < filled.sources[at] {
            (filled.rtt[at], filled.sources[at]) = (millis as f32, source);
        }
    };
    for (s, (address, _)) in addresses.iter().enumerate() {
        for told in atlas.rtt(*address).iter().filter(trusted) {
            let Some(j) = number[told.agent as usize] else { continue };
            let source =
                if usize::from(told.median.samples) >= PROBES { Source::Measured } else { Source::Few };
            put(s * k + j, f64::from(told.median.micros) / 1000.0, source);
        }
    }
    if let Some((routes, sources)) = routes {
        for (j, agent) in agents.iter().enumerate() {
            let Some(from) = sources.get(&agent.name) else { continue };
            let times = routes.from(*from);
            for (s, (address, _)) in addresses.iter().enumerate() {
                put(s * k + j, times.get(address).copied().unwrap_or(f64::NAN), Source::Route);
            }
        }
    }
    for (s, j, millis) in by_coordinates(atlas, addresses, &number, &trusted, k, seed) {
        put(s as usize * k + j as usize, millis, Source::Coordinates);
    }
    for (s, (_, there)) in addresses.iter().enumerate() {
        for (j, agent) in agents.iter().enumerate() {
            if let (Some(there), Some(here)) = (there, agent.position) {
                put(s * k + j, there.rtt_guess(here), Source::Distance);
            }
        }
    }
    for source in &filled.sources {
        *filled.counts.entry(*source).or_default() += 1;
    }
    if filled.sources.iter().all(|source| *source == Source::Unknown) {
        filled.rtt.clear();
    }
    filled
}

/// Agents whose times cannot be: many are faster than light, or the same to the microsecond for all, or contradict the
/// others. Two agents and an address make a triangle; the agents contradict each other where two sides together are
/// shorter than half of the third: half, because triangles on the Internet are not exact. Whoever is contradicted most
/// goes first, and with him his contradictions of the others. Of two agents alone nobody knows which is wrong.
fn disbelieved(
    atlas: &Atlas,
    agents: &[Agent],
    addresses: &[(IpAddr, Option<Position>)],
    number: &[Option<usize>],
) -> Vec<u32> {
    let k = agents.len();
    let mut between = vec![f64::NAN; k * k];
    for (a, b, median) in atlas.peers() {
        if let (Some(a), Some(b)) = (number[a as usize], number[b as usize]) {
            between[a * k + b] = f64::from(median.micros) / 1000.0;
            between[b * k + a] = between[a * k + b];
        }
    }
    let mut seen = vec![Seen::default(); k];
    // Triangles that can be compared, and those that cannot be, for each two agents.
    let mut triangles = vec![(0usize, 0usize); k * k];
    for (address, place) in addresses {
        let all: Vec<(usize, f64)> = atlas
            .rtt(*address)
            .iter()
            .filter_map(|told| Some((number[told.agent as usize]?, f64::from(told.median.micros) / 1000.0)))
            .collect();
        for (a, near) in &all {
            seen[*a].note(*near, place.zip(agents[*a].position));
            for (b, far) in all.iter().filter(|(b, _)| b != a) {
                let way = between[a * k + b];
                if way.is_finite() {
                    let cannot_be =
                        near + far < way / 2.0 || near + way < far / 2.0 || far + way < near / 2.0;
                    let (compared, wrong) = &mut triangles[a * k + b];
                    (*compared, *wrong) = (*compared + 1, *wrong + usize::from(cannot_be));
                }
            }
        }
    }
    let mut bad: Vec<usize> = (0..k).filter(|a| seen[*a].cannot_be()).collect();
    loop {
        let share = |a: usize| {
            let others = || (0..k).filter(|b| !bad.contains(b)).map(|b| triangles[a * k + b]);
            let (compared, wrong) = others().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            let judges = others().filter(|(compared, _)| *compared > 0).count();
            (judges >= 2 && compared >= JUDGED_MIN).then(|| wrong as f64 / compared as f64)
        };
        let shares = (0..k).filter(|a| !bad.contains(a)).filter_map(|a| Some((share(a)?, a)));
        let worst = shares.filter(|(share, _)| *share > IMPOSSIBLE_MAX).max_by(|a, b| a.0.total_cmp(&b.0));
        let Some((_, worst)) = worst else { break };
        bad.push(worst);
    }
    bad.sort_unstable();
    bad.into_iter().map(|a| a as u32).collect()
}

/// What the times of one agent look like by themselves.
#[derive(Clone, Copy, Default)]
struct Seen {
    told: usize,
    first: Option<f64>,
    same: usize,
    placed: usize,
    too_fast: usize,
}

impl Seen {
    fn note(&mut self, millis: f64, places: Option<(Position, Position)>) {
        self.told += 1;
        self.same += usize::from(*self.first.get_or_insert(millis) == millis);
        if let Some((there, here)) = places {
            self.placed += 1;
            // Places are off by some kilometres.
            self.too_fast += usize::from(millis < 0.8 * there.rtt_least(here));
        }
    }

    fn cannot_be(&self) -> bool {
        let same = self.told >= JUDGED_MIN && self.same == self.told;
        let fast = self.placed >= JUDGED_MIN && self.too_fast as f64 > IMPOSSIBLE_MAX * self.placed as f64;
        same || fast
    }
}

/// Times from all agents to addresses that two agents or more measured.
fn by_coordinates(
    atlas: &Atlas,
    addresses: &[(IpAddr, Option<Position>)],
    number: &[Option<usize>],
    trusted: &dyn Fn(&&RttTold) -> bool,
    k: usize,
    seed: u64,
) -> Vec<(u32, u32, f64)> {
    let mut samples: Vec<(u32, u32, f64)> = Vec::new();
    let mut machines: HashMap<u32, u32> = HashMap::new();
    for (s, (address, _)) in addresses.iter().enumerate() {
        let told: Vec<&RttTold> = atlas.rtt(*address).iter().filter(trusted).collect();
        if told.len() < 2 {
            continue;
        }
        let machine = (k + machines.len()) as u32;
        machines.insert(s as u32, machine);
        for told in told {
            if let Some(j) = number[told.agent as usize] {
                samples.push((j as u32, machine, f64::from(told.median.micros) / 1000.0));
            }
        }
    }
    for (a, b, median) in atlas.peers() {
        if let (Some(a), Some(b)) = (number[a as usize], number[b as usize]) {
            samples.push((a as u32, b as u32, f64::from(median.micros) / 1000.0));
        }
    }
    if machines.is_empty() {
        return Vec::new();
    }
    let mut random = Seeded::new(seed);
    while samples.len() > FITTED_MAX {
        let at = random.below(samples.len() as u64) as usize;
        samples.swap_remove(at);
    }
    let fitted = Coordinates::fit(k + machines.len(), &samples, FIT_ROUNDS, seed);
    let mut times: Vec<(u32, u32, f64)> = machines
        .iter()
        .flat_map(|(s, machine)| (0..k as u32).map(move |j| (*s, j, *machine)))
        .filter_map(|(s, j, machine)| Some((s, j, fitted.rtt(j as usize, machine as usize)?)))
        .collect();
    times.sort_by_key(|(s, j, _)| (*s, *j));
    times
}
