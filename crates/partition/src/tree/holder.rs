//! Who may crawl what, on the agent's side: tokens, hand-overs, leases (decisions D-18 to D-20).
//!
//! Each thing that has an owner (a host, or an address with all its hosts) has one *token*. Only whoever holds the token,
//! is named by the newest assignment he knows, and has a lease, may crawl it. A token changes hands in a *handover*,
//! with the pending URLs and the visit history of the thing. Handovers are sent until they are acknowledged; a token counts
//! its hops, so that a handover that comes twice is recognised. When a holder dies the coordinator revokes the token by
//! raising its *generation*, and once nobody alive can hold the old one any more the new owner makes it anew.

use super::coordinator::{Assignment, Lease};
use farol_base::Timestamp;
use std::collections::BTreeMap;

/// Names a thing that has one owner: the fingerprint of a host or of an address.
pub type Key = u64;

/// The right to crawl something, unless it is revoked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token {
    pub generation: u64,
    pub hops: u64,
}

/// What goes with a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandoverState {
    /// URLs that wait to be visited.
    pub pending: Vec<String>,
    /// URLs that were visited, and when last.
    pub history: BTreeMap<String, Timestamp>,
}

impl HandoverState {
    fn add(&mut self, other: HandoverState) {
        for (url, visited) in other.history {
            let known = self.history.entry(url).or_insert(visited);
            *known = visited.max(*known);
        }
        for url in other.pending {
            if !self.pending.contains(&url) {
                self.pending.push(url);
            }
        }
        // What was visited need not be visited again as new.
        self.pending.retain(|url| !self.history.contains_key(url));
    }

    pub fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.history.is_empty()
    }
}

/// HandoverState on its way, with a token or without.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    pub from: String,
    pub to: String,
    pub key: Key,
    pub token: Option<Token>,
    pub state: HandoverState,
    /// To be told by in the acknowledgement.
    pub number: u64,
}

/// An agent's rights and duties.
#[derive(Clone, Debug)]
pub struct Holder {
    me: String,
    assignment: Assignment,
    lease: Option<Lease>,
    tokens: BTreeMap<Key, Token>,
    /// The latest token of each thing that was ever here.
    seen: BTreeMap<Key, Token>,
    state: BTreeMap<Key, HandoverState>,
    outbox: BTreeMap<u64, Handover>,
    next_number: u64,
    made: u64,
}

impl Holder {
    pub fn new(me: &str) -> Holder {
        Holder {
            me: me.to_string(),
            assignment: Assignment::default(),
            lease: None,
            tokens: BTreeMap::new(),
            seen: BTreeMap::new(),
            state: BTreeMap::new(),
            outbox: BTreeMap::new(),
            next_number: 1,
            made: 0,
        }
    }

    pub fn version(&self) -> u64 {
        self.assignment.version
    }

    /// The last version under which tokens were made here.
    pub fn made(&self) -> u64 {
        self.made
    }

    /// Takes a newer assignment: revoked tokens are dropped, what belongs to others now is packed. Older ones are ignored.
    pub fn assign(&mut self, assignment: Assignment) {
        if assignment.version <= self.assignment.version {
            return;
        }
        self.assignment = assignment;
        let keys: Vec<Key> = self.tokens.keys().chain(self.state.keys()).copied().collect();
        keys.into_iter().for_each(|key| self.settle(key));
        // Handovers to those who are gone never arrive: their state is sent to whoever is in charge now.
        let undeliverable = |handover: &&Handover| !self.assignment.members.contains(&handover.to);
        let lost: Vec<u64> =
            self.outbox.values().filter(undeliverable).map(|handover| handover.number).collect();
        for number in lost {
            if let Some(handover) = self.outbox.remove(&number) {
                // The token in it is revoked: a member's death raises the generation of what it had or was sent.
                self.state.entry(handover.key).or_default().add(handover.state);
                self.settle(handover.key);
            }
        }
    }

    /// Takes a lease; only one that was given for the assignment known here counts.
    pub fn take_lease(&mut self, lease: Lease) {
        if lease.version == self.assignment.version {
            self.lease = Some(lease);
        }
    }

    /// The coordinator says that everybody who may crawl knows this version: tokens that it revoked may be made anew by
    /// their owners.
    pub fn settled(&mut self, version: u64) {
        // Under any other version somebody else may be in charge.
        if version != self.assignment.version {
            return;
        }
        self.made = version;
        let mine = self.assignment.owners.iter().filter(|(_, owner)| **owner == self.me);
        let mine: Vec<Key> = mine.map(|(key, _)| *key).collect();
        for key in mine {
            let generation = self.assignment.generation(key);
            // A token of this generation that was seen here exists already, here or elsewhere.
            let exists = self.seen.get(&key).is_some_and(|seen| seen.generation >= generation);
            if self.assignment.makes_anew(key) && !exists {
                let token = Token { generation, hops: 0 };
                self.tokens.insert(key, token);
                self.seen.insert(key, token);
            }
        }
    }

    /// Whether this agent may crawl something now.
    pub fn may_crawl(&self, key: Key, now: Timestamp) -> bool {
        let owner = self.assignment.owners.get(&key) == Some(&self.me);
        let leased = self.lease.as_ref().is_some_and(|lease| now < lease.until);
        owner && leased && self.tokens.get(&key).is_some_and(|token| self.is_valid(key, *token))
    }

    fn is_valid(&self, key: Key, token: Token) -> bool {
        token.generation >= self.assignment.generation(key)
    }

    /// A URL found here, whoever it belongs to: it is kept, or sent to its owner.
    pub fn found(&mut self, key: Key, url: String) {
        let state = HandoverState { pending: vec![url], ..HandoverState::default() };
        self.state.entry(key).or_default().add(state);
        self.settle(key);
    }

    /// A page was visited.
    ///
    /// Answers false, and notes nothing, where that was not allowed.
    pub fn visited(&mut self, key: Key, url: &str, now: Timestamp) -> bool {
        if !self.may_crawl(key, now) {
            return false;
        }
        let history = BTreeMap::from([(url.to_string(), now)]);
        self.state.entry(key).or_default().add(HandoverState { pending: Vec::new(), history });
        true
    }

    /// The next URL of a thing that waits.
    pub fn next(&self, key: Key) -> Option<&str> {
        self.state.get(&key)?.pending.first().map(String::as_str)
    }

    pub fn state(&self, key: Key) -> Option<&HandoverState> {
        self.state.get(&key)
    }

    /// Handovers that were not acknowledged yet; sent again and again.
    pub fn handovers(&self) -> impl Iterator<Item = &Handover> {
        self.outbox.values()
    }

    /// Whether everything was handed over, so that this agent may leave.
    pub fn is_empty_handed(&self) -> bool {
        self.tokens.is_empty() && self.outbox.is_empty() && self.state.values().all(HandoverState::is_empty)
    }

    /// A handover arrived; it is to be acknowledged to its sender.
    pub fn receive(&mut self, handover: Handover) {
        // HandoverState may come twice: adding it again changes nothing.
        self.state.entry(handover.key).or_default().add(handover.state);
        if let Some(token) = handover.token {
            let is_new = self.seen.get(&handover.key).is_none_or(|seen| token > *seen);
            if is_new && self.is_valid(handover.key, token) {
                self.seen.insert(handover.key, token);
                self.tokens.insert(handover.key, token);
            }
        }
        self.settle(handover.key);
    }

    /// A handover was taken.
    pub fn acknowledged(&mut self, number: u64) {
        self.outbox.remove(&number);
    }

    /// Drops a revoked token; packs what belongs to somebody else.
    fn settle(&mut self, key: Key) {
        if let Some(token) = self.tokens.get(&key)
            && !self.is_valid(key, *token)
        {
            self.tokens.remove(&key);
        }
        let owner = match self.assignment.owners.get(&key) {
            // Nobody's: it waits for the next assignment.
            None => return,
            Some(owner) if *owner == self.me => return,
            Some(owner) => owner.clone(),
        };
        let token = self.tokens.remove(&key).map(|token| Token { hops: token.hops + 1, ..token });
        let state = self.state.remove(&key).unwrap_or_default();
        if token.is_none() && state.is_empty() {
            return;
        }
        if let Some(token) = token {
            self.seen.insert(key, token);
        }
        let number = self.next_number;
        self.next_number += 1;
        self.outbox.insert(number, Handover { from: self.me.clone(), to: owner, key, token, state, number });
    }
}
