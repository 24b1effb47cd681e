//! Who is in charge of what, and until when: assignments and leases (decision D-18).
//!
//! An agent may only crawl while it has a lease, which it must renew; a lease is given only to those who know the newest
//! assignment. An agent whose lease has run out is taken for dead, or cut off, which is the same: it does not crawl. Its
//! things get another owner and their tokens a new generation. When every other member has said that it knows the
//! assignment, or has no lease any more, the assignment is *settled*: no old token can be used by anybody.

use super::holder::Key;
use farol_base::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Owners of things, as of a version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    pub version: u64,
    pub members: BTreeSet<String>,
    pub owners: BTreeMap<Key, String>,
    /// The generation of each thing's token: the version that revoked older tokens. The owner under that very version
    /// makes the token, once it is settled.
    pub generations: BTreeMap<Key, u64>,
}

impl Assignment {
    pub fn generation(&self, key: Key) -> u64 {
        self.generations.get(&key).copied().unwrap_or(0)
    }

    /// Whether the token is to be made under this very version, because the thing is new or somebody has died.
    pub fn makes_anew(&self, key: Key) -> bool {
        self.generations.get(&key) == Some(&self.version)
    }
}

/// The right to crawl for a while, under one assignment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub version: u64,
    pub until: Timestamp,
}

/// What is known of a member.
#[derive(Clone, Debug)]
struct Known {
    /// The last lease ends here.
    until: Timestamp,
    version: u64,
}

/// The partitioner's side.
#[derive(Clone, Debug)]
pub struct Coordinator {
    lease: Duration,
    current: Assignment,
    members: BTreeMap<String, Known>,
    /// Former members whose last lease has not run out yet.
    leaving: BTreeMap<String, Timestamp>,
    /// Things whose owner has not said yet that it has made the token. With each version they get a new generation, so
    /// that a token is only ever made under one version, by one owner.
    unmade: BTreeSet<Key>,
}

impl Coordinator {
    /// Leases last so long; agents should renew them three times as often.
    pub fn new(lease: Duration) -> Coordinator {
        Coordinator {
            lease,
            current: Assignment::default(),
            members: BTreeMap::new(),
            leaving: BTreeMap::new(),
            unmade: BTreeSet::new(),
        }
    }

    pub fn current(&self) -> &Assignment {
        &self.current
    }

    /// Takes a member in, and gives it what `owner` says.
    pub fn join(&mut self, name: &str, now: Timestamp, owner: impl Fn(Key, &BTreeSet<String>) -> String) {
        self.members.insert(name.to_string(), Known { until: now + self.lease, version: 0 });
        self.reassign(false, owner);
    }

    /// A member wants to go: it gets nothing more, and hands over what it has. It stays a member until it
    /// [has left](Coordinator::left).
    pub fn retire(&mut self, name: &str, owner: impl Fn(Key, &BTreeSet<String>) -> String) {
        let name = name.to_string();
        let without = |key: Key, members: &BTreeSet<String>| {
            let others: BTreeSet<String> =
                members.iter().filter(|member| **member != name).cloned().collect();
            owner(key, if others.is_empty() { members } else { &others })
        };
        self.reassign(false, without);
    }

    /// A member that was retired has handed everything over. Somebody who did not know yet may have sent it something
    /// since, so that tokens are made anew as after a death.
    pub fn left(&mut self, name: &str, owner: impl Fn(Key, &BTreeSet<String>) -> String) {
        if let Some(known) = self.members.remove(name) {
            self.leaving.insert(name.to_string(), known.until);
            self.reassign(true, owner);
        }
    }

    /// New things are known; they get an owner, and their tokens are made by it.
    pub fn discover(
        &mut self,
        keys: impl IntoIterator<Item = Key>,
        owner: impl Fn(Key, &BTreeSet<String>) -> String,
    ) {
        if self.members.is_empty() {
            return;
        }
        let members: BTreeSet<String> = self.members.keys().cloned().collect();
        let mut is_new = false;
        for key in keys {
            if !self.current.owners.contains_key(&key) {
                self.unmade.insert(key);
                self.current.owners.insert(key, owner(key, &members));
                is_new = true;
            }
        }
        if is_new {
            self.advance();
        }
    }

    /// A member renews its lease, says which assignment it knows, and up to which version it has made its tokens.
    ///
    /// # Errors
    /// Where it does not know the newest assignment, it is to be sent that and gets no lease. A stranger gets neither: it
    /// must join.
    pub fn renew(
        &mut self,
        name: &str,
        version: u64,
        made: u64,
        now: Timestamp,
    ) -> Result<Lease, Option<&Assignment>> {
        let Some(known) = self.members.get_mut(name) else { return Err(None) };
        known.version = known.version.max(version);
        if made == self.current.version {
            let owners = &self.current.owners;
            self.unmade.retain(|key| owners.get(key).is_none_or(|owner| owner != name));
        }
        if version < self.current.version {
            return Err(Some(&self.current));
        }
        known.until = known.until.max(now + self.lease);
        Ok(Lease { version, until: now + self.lease })
    }

    /// Drops members whose lease has run out, and assigns anew what they had; answers who they were.
    pub fn tick(&mut self, now: Timestamp, owner: impl Fn(Key, &BTreeSet<String>) -> String) -> Vec<String> {
        let dead: BTreeSet<String> = self
            .members
            .iter()
            .filter(|(_, known)| known.until <= now)
            .map(|(name, _)| name.clone())
            .collect();
        if !dead.is_empty() {
            self.members.retain(|name, _| !dead.contains(name));
            self.reassign(true, owner);
        }
        self.leaving.retain(|_, until| *until > now);
        dead.into_iter().collect()
    }

    /// The version that everybody alive knows, if it is the newest.
    pub fn settled(&self, now: Timestamp) -> Option<u64> {
        let version = self.current.version;
        let knows = |known: &Known| known.version >= version || known.until <= now;
        let gone = self.leaving.values().all(|until| *until <= now);
        (gone && self.members.values().all(knows)).then_some(version)
    }

    /// Gives everything its owner. After a death nobody can tell where tokens are: some were on their way to the dead or
    /// from them. All are made anew.
    fn reassign(&mut self, after_death: bool, owner: impl Fn(Key, &BTreeSet<String>) -> String) {
        let members: BTreeSet<String> = self.members.keys().cloned().collect();
        for (key, current) in &mut self.current.owners {
            if after_death {
                self.unmade.insert(*key);
            }
            if !members.is_empty() {
                *current = owner(*key, &members);
            }
        }
        self.advance();
    }

    fn advance(&mut self) {
        self.current.version += 1;
        self.current.members = self.members.keys().cloned().collect();
        for key in &self.unmade {
            self.current.generations.insert(*key, self.current.version);
        }
    }
}
