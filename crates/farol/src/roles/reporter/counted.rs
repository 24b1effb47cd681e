//! Links to other hosts and to other agents, epoch by epoch, from counters that only ever grow.

use crate::exchange::ExchangeDesk;
use farol_partition::replan::Exchanged;
use std::sync::atomic::Ordering;

/// Epochs that ended and were not told yet, at most.
const FINISHED_MAX: usize = 4;

/// What was counted under which epoch.
#[derive(Debug, Default)]
pub struct Counted {
    epoch: u64,
    /// The counters when the epoch began, and now.
    begun: Exchanged,
    now: Exchanged,
    finished: Vec<(u64, Exchanged)>,
}

impl Counted {
    /// Looks at the counters under the epoch in force.
    pub fn look(&mut self, desk: &ExchangeDesk, epoch: u64) {
        let counters = &desk.counters;
        let now = Exchanged {
            links: counters.between.load(Ordering::Relaxed),
            forwarded: counters.foreign.load(Ordering::Relaxed),
        };
        self.note(epoch, now);
    }

    fn note(&mut self, epoch: u64, now: Exchanged) {
        if epoch != self.epoch {
            // What was found since the last look counts for the epoch before: a fifth of a second.
            self.now = now;
            let ended = self.current();
            if self.epoch > 0 && ended.links > 0 {
                self.finished.push((self.epoch, ended));
                self.finished.drain(..self.finished.len().saturating_sub(FINISHED_MAX));
            }
            (self.epoch, self.begun) = (epoch, now);
        }
        self.now = now;
    }

    /// Under the epoch of now.
    pub fn current(&self) -> Exchanged {
        let links = self.now.links.saturating_sub(self.begun.links);
        // Some are counted when their host's address is known, an epoch later perhaps.
        Exchanged { links, forwarded: self.now.forwarded.saturating_sub(self.begun.forwarded).min(links) }
    }

    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Epochs that have ended since the last time.
    pub fn finished(&mut self) -> Vec<(u64, Exchanged)> {
        std::mem::take(&mut self.finished)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_epoch_has_its_own_count() {
        let at = |links, forwarded| Exchanged { links, forwarded };
        let mut counted = Counted::default();
        counted.note(0, at(5, 1));
        counted.note(3, at(10, 2));
        assert_eq!(counted.current(), at(0, 0));
        counted.note(3, at(50, 12));
        counted.note(4, at(60, 20));
        assert_eq!(counted.finished(), [(3, at(50, 18))]);
        counted.note(4, at(61, 29));
        assert_eq!((counted.epoch(), counted.current()), (4, at(1, 1)));
        assert_eq!(counted.finished(), []);
    }
}
