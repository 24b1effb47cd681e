//! What other crawlers do: an interval per page, multiplied up or down. Under the same channel and politeness.
//!
//! As published with their defaults: Nutch's `AdaptiveFetchSchedule` (×0.8 when changed, ×1.2 when not, 1 minute to 1
//! year, 30 days at first; without its `sync_delta`), StormCrawler's `AdaptiveScheduler` (half-way to the least when
//! changed, ×1.5 when not, 1 hour to 2 weeks, 1 day at first). Neither knows of a channel: where more is due than it
//! carries, servers take turns and each gives the page that is due longest.

use super::repository::Repository;
use super::world::{Crawler, Seen};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const DAY: f64 = 86_400.0;

/// Whose rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Nutch,
    StormCrawler,
    /// Every page in turn: what a crawler without any rule does.
    RoundRobin,
}

impl Peer {
    fn first(self) -> f64 {
        match self {
            Peer::Nutch => 30.0 * DAY,
            Peer::StormCrawler => DAY,
            Peer::RoundRobin => 1.0,
        }
    }

    fn next(self, interval: f64, changed: bool) -> f64 {
        match (self, changed) {
            (Peer::Nutch, true) => (interval * 0.8).max(60.0),
            (Peer::Nutch, false) => (interval * 1.2).min(365.0 * DAY),
            (Peer::StormCrawler, true) => 0.5 * interval + 0.5 * 3_600.0,
            (Peer::StormCrawler, false) => (interval * 1.5).min(14.0 * DAY),
            (Peer::RoundRobin, _) => 1.0,
        }
    }
}

/// A crawler with an interval per page.
pub struct Intervals {
    peer: Peer,
    intervals: Vec<f32>,
    server_of: Vec<u32>,
    delays: Vec<f64>,
    free_at: Vec<f64>,
    /// Pages of each server by when they are due.
    due: Vec<BinaryHeap<Reverse<Key>>>,
    /// Servers by when they can and should be asked.
    servers: BinaryHeap<Reverse<Key>>,
    /// Time between two visits of the channel, and when it is free.
    slot: f64,
    channel_at: f64,
}

/// An instant and what happens then.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Key(f64, u32);

impl Eq for Key {}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0).then(self.1.cmp(&other.1))
    }
}

impl Intervals {
    /// `skip` names pages that are never visited: those known to be always fresh.
    pub fn new(peer: Peer, repository: &Repository, channel: f64, skip: impl Fn(usize) -> bool) -> Intervals {
        let servers = repository.delays.len();
        let mut server_of = Vec::with_capacity(repository.pages.len());
        let mut due = Vec::with_capacity(servers);
        for s in 0..servers {
            let pages = repository.starts[s]..repository.starts[s + 1];
            server_of.extend(pages.clone().map(|_| s as u32));
            due.push(pages.filter(|page| !skip(*page)).map(|page| Reverse(Key(0.0, page as u32))).collect());
        }
        Intervals {
            peer,
            intervals: vec![peer.first() as f32; repository.pages.len()],
            server_of,
            delays: repository.delays.clone(),
            free_at: vec![0.0; servers],
            due,
            servers: (0..servers as u32).map(|s| Reverse(Key(0.0, s))).collect(),
            slot: 1.0 / channel,
            channel_at: 0.0,
        }
    }

    fn seat(&mut self, server: u32) {
        if let Some(Reverse(Key(due, _))) = self.due[server as usize].peek() {
            self.servers.push(Reverse(Key(due.max(self.free_at[server as usize]), server)));
        }
    }
}

impl Crawler for Intervals {
    fn next(&mut self) -> Option<(f64, usize)> {
        loop {
            let Reverse(Key(at, server)) = self.servers.pop()?;
            let Some(Reverse(Key(_, page))) = self.due[server as usize].pop() else { continue };
            let at = at.max(self.channel_at);
            self.channel_at = at + self.slot;
            self.free_at[server as usize] = at + self.delays[server as usize];
            return Some((at, page as usize));
        }
    }

    fn seen(&mut self, page: usize, seen: &Seen) {
        let interval = f64::from(self.intervals[page]);
        let next = if seen.before.is_some() { self.peer.next(interval, seen.changed) } else { interval };
        self.intervals[page] = next as f32;
        let server = self.server_of[page];
        self.due[server as usize].push(Reverse(Key(seen.at + next, page as u32)));
        self.seat(server);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revisit::repository::RepositoryConfig;
    use crate::revisit::world::{Chance, crawl};
    use farol_base::Seeded;

    #[test]
    fn intervals_go_up_and_down_as_published() {
        let nutch = Peer::Nutch;
        assert_eq!((nutch.next(100_000.0, true), nutch.next(100_000.0, false)), (80_000.0, 120_000.0));
        assert_eq!((nutch.next(61.0, true), nutch.next(364.0 * DAY, false)), (60.0, 365.0 * DAY));
        let storm = Peer::StormCrawler;
        assert_eq!((storm.next(7_200.0, true), storm.next(7_200.0, false)), (5_400.0, 10_800.0));
        assert_eq!(storm.next(13.0 * DAY, false), 14.0 * DAY);
    }

    #[test]
    fn the_channel_and_the_delay_are_kept() {
        let config = RepositoryConfig { pages: 3_000, servers: 10, exponent: 0.25, delay: 60.0, seed: 1 };
        let repository = Repository::made(&config);
        let mut crawler = Intervals::new(Peer::StormCrawler, &repository, 0.01, |_| false);
        let mut world = Chance { pages: &repository.pages, dated: 0.0, random: Seeded::new(1) };
        let (_, visits) = crawl(&mut world, &mut crawler, 20.0 * DAY, 4);
        assert!(
            visits as f64 <= 20.0 * DAY * 0.01 + 1.0 && visits as f64 > 20.0 * DAY * 0.01 * 0.9,
            "{visits}"
        );
        let mut last = [f64::NEG_INFINITY; 10];
        let mut crawler = Intervals::new(Peer::Nutch, &repository, 1.0, |_| false);
        for _ in 0..5_000 {
            let (at, page) = crawler.next().unwrap();
            let server = crawler.server_of[page] as usize;
            assert!(at - last[server] >= 60.0 - 1e-6);
            last[server] = at;
            crawler.seen(page, &Seen { at, before: None, changed: false, modified: None });
        }
    }
}
