//! URLs of hosts whose address is not known yet: they wait here until it is, and only then go to their owner.
//!
//! Pure. So the URL store has, as a rule, no host that another agent must be given. What waits is on no disk but where it
//! came from: the archive's mark and the senders' numbers stay behind it, so that after a crash it comes again.
//!
//! INVARIANT: what waits is bounded; beyond that it is not let in, and goes where it can be kept.

use farol_base::{Host, PagePosition};
use farol_cluster::NodeNo;
use farol_store::urls::Found;
use std::collections::{HashMap, VecDeque};

/// URLs that wait: 200,000 × some 150 bytes = 30 MB.
const URLS_MAX: usize = 200_000;
/// Hosts that are looked up at a time.
const ASKED_MAX: usize = 64;

/// Where a URL was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// In the archive, from here on.
    Archive(PagePosition),
    /// In a batch of this agent, with this number.
    Batch(NodeNo, u64),
}

/// What waits for a host's address.
#[derive(Debug, Default)]
pub struct InLobby {
    /// Each with the agents that have passed it on.
    pub found: Vec<(Found, u8)>,
    origins: Vec<Origin>,
}

impl InLobby {
    /// Agents that sent some of it.
    pub fn senders(&self) -> impl Iterator<Item = NodeNo> + '_ {
        self.origins.iter().filter_map(|origin| match origin {
            Origin::Batch(from, _) => Some(*from),
            Origin::Archive(_) => None,
        })
    }
}

#[derive(Debug, Default)]
pub struct Lobby {
    hosts: HashMap<Host, InLobby>,
    to_ask: VecDeque<Host>,
    asked: usize,
    urls: usize,
}

impl Lobby {
    /// Lets a URL in, if there is room.
    pub fn enter(&mut self, found: Found, hops: u8, origin: Origin) -> Result<(), Found> {
        if self.urls >= URLS_MAX {
            return Err(found);
        }
        let host = found.url.host();
        if !self.hosts.contains_key(&host) {
            self.to_ask.push_back(host.clone());
        }
        let waiting = self.hosts.entry(host).or_default();
        let is_same = |other: &&mut (Found, u8)| other.0.url == found.url;
        // A page links to the same place more than once; only neighbours are compared.
        match waiting.found.last_mut().filter(is_same) {
            Some((known, _)) => {
                known.depth = known.depth.min(found.depth);
                known.hint = known.hint.max(found.hint);
            }
            None => {
                waiting.found.push((found, hops));
                self.urls += 1;
            }
        }
        if waiting.origins.last() != Some(&origin) {
            waiting.origins.push(origin);
        }
        Ok(())
    }

    /// The next host to look up. Each is said once, and waits for [`Lobby::leave`].
    pub fn next_to_ask(&mut self) -> Option<Host> {
        if self.asked >= ASKED_MAX {
            return None;
        }
        let host = self.to_ask.pop_front()?;
        self.asked += 1;
        Some(host)
    }

    /// A host that was looked up leaves, with all that waited for it.
    pub fn leave(&mut self, host: &Host) -> InLobby {
        self.asked = self.asked.saturating_sub(1);
        let waiting = self.hosts.remove(host).unwrap_or_default();
        self.urls -= waiting.found.len();
        waiting
    }

    pub fn is_empty(&self) -> bool {
        self.urls == 0
    }

    /// How far the archive may be called done: what waits was found there or behind.
    pub fn archive_upto(&self, end: PagePosition) -> PagePosition {
        let at = self.origins().filter_map(|origin| match origin {
            Origin::Archive(at) => Some(at),
            Origin::Batch(..) => None,
        });
        at.min().map_or(end, |at| at.min(end))
    }

    /// The last batch of an agent that may be called done, of those up to `taken`.
    pub fn batches_upto(&self, from: NodeNo, taken: u64) -> u64 {
        let numbers = self.origins().filter_map(|origin| match origin {
            Origin::Batch(sender, number) if sender == from => Some(number),
            _ => None,
        });
        numbers.min().map_or(taken, |number| taken.min(number.saturating_sub(1)))
    }

    fn origins(&self) -> impl Iterator<Item = Origin> + '_ {
        self.hosts.values().flat_map(|waiting| waiting.origins.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::CanonicalUrl;

    fn found(text: &str) -> Found {
        Found { url: CanonicalUrl::parse(text).unwrap(), depth: 1, hint: None }
    }

    #[test]
    fn marks_stay_behind_what_waits() {
        let mut lobby = Lobby::default();
        let at = |offset| PagePosition { file: 0, offset };
        let (one, two) = (NodeNo(1), NodeNo(2));
        lobby.enter(found("http://a/1"), 0, Origin::Archive(at(5))).unwrap();
        lobby.enter(found("http://a/1"), 0, Origin::Archive(at(5))).unwrap();
        lobby.enter(found("http://a/2"), 1, Origin::Batch(one, 7)).unwrap();
        lobby.enter(found("http://b/2"), 1, Origin::Batch(one, 8)).unwrap();
        assert_eq!(lobby.urls, 3);
        assert_eq!((lobby.archive_upto(at(9)), lobby.archive_upto(at(3))), (at(5), at(3)));
        assert_eq!((lobby.batches_upto(one, 9), lobby.batches_upto(two, 9)), (6, 9));
        let a = lobby.next_to_ask().unwrap();
        assert!(lobby.next_to_ask().is_some() && lobby.next_to_ask().is_none());
        let waiting = lobby.leave(&a);
        assert_eq!((waiting.found.len(), waiting.senders().collect::<Vec<_>>()), (2, vec![one]));
        assert_eq!((lobby.archive_upto(at(9)), lobby.batches_upto(one, 9)), (at(9), 7));
    }
}
