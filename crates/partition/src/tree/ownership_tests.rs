//! Random orders of everything that can happen to agents: two never may crawl the same thing at the same time.

use super::*;
use farol_base::{Random, Seeded, Timestamp};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

const KEYS: u64 = 12;
const LEASE: Duration = Duration::from_secs(30);

enum Letter {
    Renew { name: String, version: u64, made: u64 },
    Assign { to: String, assignment: Assignment },
    Leased { to: String, lease: Lease },
    Settled { to: String, version: u64 },
    Handover(Handover),
    Taken { to: String, number: u64 },
}

struct World {
    now: Timestamp,
    coordinator: Coordinator,
    holders: BTreeMap<String, Holder>,
    retiring: BTreeSet<String>,
    letters: Vec<Letter>,
    random: Seeded,
    /// Losses and doubles, in hundredths.
    trouble: u64,
    joined: u32,
    crashed: bool,
    found: BTreeSet<String>,
}

/// Whoever has the highest hash of name and key: moves little, as a real assignment should.
fn owner(key: Key, members: &BTreeSet<String>) -> String {
    let score = |name: &&String| farol_base::fingerprint::hash64(format!("{name} {key}").as_bytes());
    members.iter().max_by_key(score).cloned().unwrap_or_default()
}

impl World {
    fn new(seed: u64, trouble: u64) -> World {
        let mut world = World {
            now: Timestamp::from_secs(1_000),
            coordinator: Coordinator::new(LEASE),
            holders: BTreeMap::new(),
            retiring: BTreeSet::new(),
            letters: Vec::new(),
            random: Seeded::new(seed),
            trouble,
            joined: 0,
            crashed: false,
            found: BTreeSet::new(),
        };
        (0..3).for_each(|_| world.join());
        world.coordinator.discover(0..KEYS, owner);
        world
    }

    fn join(&mut self) {
        let name = format!("agent {}", self.joined);
        self.joined += 1;
        self.holders.insert(name.clone(), Holder::new(&name));
        self.coordinator.join(&name, self.now, owner);
    }

    fn pick(&mut self) -> Option<String> {
        let names: Vec<String> = self.holders.keys().cloned().collect();
        names.get(self.random.below(names.len() as u64) as usize).cloned()
    }

    fn post(&mut self, letter: Letter) {
        self.letters.push(letter);
    }

    /// Everybody does what is due: renews, sends handovers again.
    fn chores(&mut self) {
        for (name, holder) in &self.holders {
            let (version, made) = (holder.version(), holder.made());
            self.letters.push(Letter::Renew { name: name.clone(), version, made });
            self.letters.extend(holder.handovers().cloned().map(Letter::Handover));
        }
        if let Some(version) = self.coordinator.settled(self.now) {
            let names = self.holders.keys().cloned();
            self.letters.extend(names.map(|to| Letter::Settled { to, version }));
        }
        self.coordinator.tick(self.now, owner);
        let done: Vec<String> = self
            .retiring
            .iter()
            .filter(|name| self.holders.get(*name).is_some_and(Holder::is_empty_handed))
            .cloned()
            .collect();
        for name in done {
            self.retiring.remove(&name);
            self.holders.remove(&name);
            self.coordinator.left(&name, owner);
        }
    }

    fn deliver(&mut self, letter: Letter) {
        match letter {
            Letter::Renew { name, version, made } => {
                let answer = match self.coordinator.renew(&name, version, made, self.now) {
                    Ok(lease) => Some(Letter::Leased { to: name, lease }),
                    Err(Some(assignment)) => {
                        Some(Letter::Assign { to: name, assignment: assignment.clone() })
                    }
                    // Taken for dead: it starts anew, under another name.
                    Err(None) => None,
                };
                answer.into_iter().for_each(|letter| self.post(letter));
            }
            Letter::Assign { to, assignment } => {
                if let Some(holder) = self.holders.get_mut(&to) {
                    holder.assign(assignment);
                }
            }
            Letter::Leased { to, lease } => {
                if let Some(holder) = self.holders.get_mut(&to) {
                    holder.take_lease(lease);
                }
            }
            Letter::Settled { to, version } => {
                if let Some(holder) = self.holders.get_mut(&to) {
                    holder.settled(version);
                }
            }
            Letter::Handover(handover) => {
                if let Some(holder) = self.holders.get_mut(&handover.to) {
                    let taken = Letter::Taken { to: handover.from.clone(), number: handover.number };
                    holder.receive(handover);
                    self.post(taken);
                }
            }
            Letter::Taken { to, number } => {
                if let Some(holder) = self.holders.get_mut(&to) {
                    holder.acknowledged(number);
                }
            }
        }
    }

    fn step(&mut self, crashes: bool) {
        match self.random.below(100) {
            0 if crashes && self.holders.len() > 2 => {
                if let Some(name) = self.pick() {
                    self.holders.remove(&name);
                    self.retiring.remove(&name);
                    self.crashed = true;
                }
            }
            1 if self.holders.len() < 6 => self.join(),
            2 if self.holders.len() > 2 && self.retiring.is_empty() => {
                if let Some(name) = self.pick() {
                    self.coordinator.retire(&name, owner);
                    self.retiring.insert(name);
                }
            }
            3..=9 => {
                if !crashes {
                    self.renew_all();
                }
                self.now = self.now + Duration::from_millis(self.random.below(8_000));
            }
            10..=29 => self.chores(),
            30..=39 => {
                let (key, number) = (self.random.below(KEYS), self.random.below(1 << 20));
                if let Some(name) = self.pick()
                    && let Some(holder) = self.holders.get_mut(&name)
                {
                    let url = format!("http://h{key}.test/{number}");
                    holder.found(key, url.clone());
                    self.found.insert(url);
                }
            }
            40..=49 => {
                // Somebody crawls what it may.
                let key = self.random.below(KEYS);
                let now = self.now;
                for holder in self.holders.values_mut() {
                    let next = holder.next(key).map(String::from);
                    if let Some(url) = next {
                        holder.visited(key, &url, now);
                    }
                }
            }
            _ => {
                if self.letters.is_empty() {
                    return;
                }
                let at = self.random.below(self.letters.len() as u64) as usize;
                let letter = self.letters.swap_remove(at);
                match self.random.below(100) {
                    lost if lost < self.trouble => {}
                    twice if twice < 2 * self.trouble => {
                        if let Letter::Handover(handover) = &letter {
                            let again = Letter::Handover(handover.clone());
                            self.post(again);
                        }
                        self.deliver(letter);
                    }
                    _ => self.deliver(letter),
                }
            }
        }
        self.check();
    }

    /// Everybody renews without a loss on the way: no lease of 30 s runs out within the next 8.
    fn renew_all(&mut self) {
        for (name, holder) in &mut self.holders {
            let (mut version, made) = (holder.version(), holder.made());
            if let Err(Some(assignment)) = self.coordinator.renew(name, version, made, self.now) {
                holder.assign(assignment.clone());
                version = holder.version();
            }
            if let Ok(lease) = self.coordinator.renew(name, version, made, self.now) {
                holder.take_lease(lease);
            }
        }
    }

    fn check(&self) {
        for key in 0..KEYS {
            let able: Vec<&String> = self
                .holders
                .iter()
                .filter(|(_, holder)| holder.may_crawl(key, self.now))
                .map(|(name, _)| name)
                .collect();
            assert!(able.len() <= 1, "{able:?} all may crawl {key}");
        }
    }

    /// Nothing goes wrong any more: soon everything has an owner who may crawl it.
    fn calm_down(&mut self) {
        self.trouble = 0;
        for _ in 0..40 {
            self.now = self.now + Duration::from_secs(5);
            // Those who were taken for dead give up.
            let members = self.coordinator.current().members.clone();
            self.crashed |= self.holders.keys().any(|name| !members.contains(name));
            self.holders.retain(|name, _| members.contains(name));
            if self.holders.is_empty() {
                self.join();
            }
            self.chores();
            while !self.letters.is_empty() {
                let letter = self.letters.remove(0);
                self.deliver(letter);
                self.check();
            }
        }
        for key in 0..KEYS {
            let able = self.holders.values().filter(|holder| holder.may_crawl(key, self.now)).count();
            assert_eq!(able, 1, "nobody may crawl {key}, {} agents", self.holders.len());
        }
        assert_eq!(self.holders.values().map(|holder| holder.handovers().count()).sum::<usize>(), 0);
    }

    fn all_known(&self) -> BTreeSet<String> {
        let mut known = BTreeSet::new();
        for holder in self.holders.values() {
            for state in (0..KEYS).filter_map(|key| holder.state(key)) {
                known.extend(state.pending.iter().cloned());
                known.extend(state.history.keys().cloned());
            }
        }
        known
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(30))]
    #[test]
    fn one_owner_at_any_time_whatever_happens(seed in any::<u64>(), trouble in 0u64..30) {
        let mut world = World::new(seed, trouble);
        (0..1500).for_each(|_| world.step(true));
        world.calm_down();
    }

    #[test]
    fn nothing_is_lost_when_nobody_dies(seed in any::<u64>(), trouble in 0u64..20) {
        let mut world = World::new(seed, trouble);
        (0..800).for_each(|_| world.step(false));
        world.calm_down();
        prop_assert!(!world.crashed, "a lease ran out, and what its holder had is gone");
        prop_assert!(!world.found.is_empty());
        prop_assert_eq!(world.all_known(), world.found);
    }
}

#[test]
fn a_host_is_handed_over_with_all_that_is_known_of_it() {
    let mut coordinator = Coordinator::new(LEASE);
    let mut now = Timestamp::from_secs(100);
    let mut first = Holder::new("a");
    coordinator.join("a", now, owner);
    coordinator.discover([7], owner);
    first.assign(coordinator.current().clone());
    first.take_lease(coordinator.renew("a", first.version(), 0, now).unwrap());
    assert!(!first.may_crawl(7, now), "its token is not made yet");
    first.settled(coordinator.settled(now).unwrap());
    coordinator.renew("a", first.version(), first.made(), now).unwrap();
    first.found(7, "u1".to_string());
    first.found(7, "u2".to_string());
    assert!(first.visited(7, "u1", now));
    // Another agent comes, and everything is to be its own.
    let mut second = Holder::new("b");
    coordinator.join("b", now, |_, _| "b".to_string());
    second.assign(coordinator.current().clone());
    second.take_lease(coordinator.renew("b", second.version(), 0, now).unwrap());
    assert!(first.may_crawl(7, now) && !second.may_crawl(7, now), "the first does not know yet");
    first.assign(coordinator.current().clone());
    assert!(!first.may_crawl(7, now) && !second.may_crawl(7, now), "it is on its way");
    let handover = first.handovers().next().unwrap().clone();
    second.receive(handover.clone());
    first.acknowledged(handover.number);
    assert!(second.may_crawl(7, now) && first.is_empty_handed());
    assert_eq!(second.next(7), Some("u2"));
    assert_eq!(second.state(7).unwrap().history.len(), 1);
    // It dies. Until its lease has run out nobody else may.
    now = now + Duration::from_secs(29);
    coordinator.renew("a", first.version(), first.made(), now).unwrap();
    assert!(coordinator.tick(now, owner).is_empty() && second.may_crawl(7, now));
    now = now + Duration::from_secs(2);
    assert_eq!(coordinator.tick(now, owner), ["b"]);
    assert!(!second.may_crawl(7, now));
    assert_eq!(coordinator.settled(now), None);
    first.assign(coordinator.current().clone());
    first.take_lease(coordinator.renew("a", first.version(), first.made(), now).unwrap());
    first.settled(coordinator.settled(now).unwrap());
    assert!(first.may_crawl(7, now));
}
