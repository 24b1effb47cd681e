//! One log that a sender feeds, and how far it has come.
//!
//! A lane is *live* while it has been given everything that the crawl has told; otherwise it is *behind*, and is given
//! what the archive holds from its position on. Batches are cut by count and bytes, and say which stretch of the
//! archive they cover ([`Stretch`]), so that a receiver notices what it lacks.

use crate::stretch::Stretch;
use farol_base::PagePosition;

/// Changes in one batch at most.
const CHANGES_MAX: usize = 64;
/// Bytes of text in one batch, about; packed they are a third of that.
const BYTES_MAX: usize = 512 << 10;

/// A batch that is ready for the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Cut<Item> {
    pub stretch: Stretch,
    pub items: Vec<Item>,
}

/// A log and how far it has come.
#[derive(Clone, Debug)]
pub struct Lane<Item> {
    node: u16,
    /// Everything up to here is in the log.
    sent: PagePosition,
    /// Everything up to here was given to the lane; what concerns it waits below.
    given: PagePosition,
    waiting: Vec<Item>,
    bytes: usize,
    is_live: bool,
    cut: u32,
    /// Pieces of the stretch behind `sent` that are in the log.
    pieces: u16,
}

impl<Item> Lane<Item> {
    /// A lane that goes on from where it was. No two that ever send from there may have the same `cut`, which a
    /// random number sees to.
    pub fn new(node: u16, sent: PagePosition, cut: u32) -> Lane<Item> {
        Lane { node, sent, given: sent, waiting: Vec::new(), bytes: 0, is_live: false, cut, pieces: 0 }
    }

    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Everything up to here is in the log.
    pub fn sent(&self) -> PagePosition {
        self.sent
    }

    /// Everything up to here was given.
    pub fn given(&self) -> PagePosition {
        self.given
    }

    /// Whether the log could be told of progress that concerned none of its pages.
    pub fn is_ahead(&self) -> bool {
        self.given > self.sent
    }

    /// It has been given everything there is.
    pub fn set_live(&mut self) {
        self.is_live = true;
    }

    /// A receiver lacks something from here on. Returns whether that changed anything.
    pub fn rewind(&mut self, from: PagePosition) -> bool {
        if from >= self.sent {
            return false;
        }
        *self = Lane::new(self.node, from, self.cut.wrapping_add(1));
        true
    }

    /// Gives it a change of about so many bytes; returns a batch where that makes one.
    pub fn push(&mut self, item: Item, bytes: usize) -> Option<Cut<Item>> {
        self.bytes += bytes;
        self.waiting.push(item);
        (self.waiting.len() >= CHANGES_MAX || self.bytes >= BYTES_MAX).then(|| self.cut(self.sent))
    }

    /// Everything up to here was given. Returns what is to be appended, if anything waits.
    pub fn upto(&mut self, at: PagePosition) -> Option<Cut<Item>> {
        self.given = self.given.max(at);
        (!self.waiting.is_empty()).then(|| self.flush())
    }

    /// As [`Lane::upto`], where more follows at once: nothing is appended yet.
    pub fn passed(&mut self, at: PagePosition) -> Option<Cut<Item>> {
        self.given = self.given.max(at);
        (self.waiting.len() >= CHANGES_MAX / 2).then(|| self.flush())
    }

    /// A batch with everything that waits, which may be nothing, up to what was given.
    pub fn flush(&mut self) -> Cut<Item> {
        self.cut(self.given)
    }

    /// An empty batch that says how far the log goes, so that a receiver misses what it lost at its end; `None` where
    /// what follows soon says so as well. Nothing misses the beat itself: what follows is cut anew.
    pub fn beat(&mut self) -> Option<Cut<Item>> {
        let is_amid = self.pieces > 0 && !self.is_ahead();
        if !self.is_live || is_amid || !self.waiting.is_empty() {
            return None;
        }
        let beat = self.cut(self.given);
        (self.cut, self.pieces) = (self.cut.wrapping_add(u32::from(self.pieces)), 0);
        Some(beat)
    }

    fn cut(&mut self, upto: PagePosition) -> Cut<Item> {
        self.bytes = 0;
        let stretch = Stretch { from: self.node, prev: self.sent, upto, cut: self.cut, piece: self.pieces };
        if upto > self.sent {
            (self.cut, self.pieces) = (self.cut.wrapping_add(1), 0);
        } else {
            self.pieces = self.pieces.saturating_add(1);
        }
        self.sent = upto;
        Cut { stretch, items: std::mem::take(&mut self.waiting) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stretch::{Fit, Reached};
    use proptest::prelude::*;

    fn at(offset: u64) -> PagePosition {
        PagePosition { file: 0, offset }
    }

    /// A receiver that takes what fits, as a replica does.
    #[derive(Default)]
    struct Receiver {
        reached: Reached,
        taken: Vec<u64>,
        lacks: bool,
    }

    impl Receiver {
        fn hear(&mut self, batch: &Cut<u64>) {
            match batch.stretch.fits(self.reached) {
                Fit::Take(reached) => {
                    self.reached = reached;
                    self.taken.extend(&batch.items);
                }
                Fit::Known => {}
                Fit::Gap => self.lacks = true,
            }
        }
    }

    #[test]
    fn what_concerns_nobody_moves_the_position_with_the_next_batch() {
        let mut lane = Lane::new(1, at(0), 0);
        assert_eq!(lane.upto(at(5)), None);
        assert!(lane.is_ahead());
        assert_eq!(lane.push(1, 8), None);
        let batch = lane.upto(at(9)).unwrap();
        assert_eq!(batch.stretch, Stretch { from: 1, prev: at(0), upto: at(9), cut: 0, piece: 0 });
        assert!(!lane.is_ahead() && lane.sent() == at(9));
    }

    #[test]
    fn a_long_stretch_is_cut_and_still_taken_whole() {
        let mut lane = Lane::new(1, at(0), 0);
        let mut receiver = Receiver::default();
        for number in 0..200 {
            lane.push(number, 8).iter().for_each(|batch| receiver.hear(batch));
        }
        lane.upto(at(7)).iter().for_each(|batch| receiver.hear(batch));
        assert_eq!((receiver.taken.len(), receiver.reached.position, receiver.lacks), (200, at(7), false));
    }

    #[test]
    fn a_beat_shows_a_lost_end_and_is_not_missed_itself() {
        let mut lane = Lane::new(1, at(0), 0);
        assert_eq!(lane.beat(), None); // Behind: what follows says it.
        lane.set_live();
        lane.push(1, 8);
        assert_eq!(lane.beat(), None);
        let lost = lane.upto(at(3)).unwrap();
        let mut receiver = Receiver::default();
        let beat = lane.beat().unwrap();
        receiver.hear(&beat);
        assert!(receiver.lacks);
        receiver.lacks = false;
        receiver.hear(&lost);
        receiver.hear(&beat);
        let _lost_beat = lane.beat().unwrap();
        lane.push(2, 8);
        receiver.hear(&lane.upto(at(4)).unwrap());
        assert!(!receiver.lacks);
        assert_eq!((receiver.taken, receiver.reached.position), (vec![1, 2], at(4)));
    }

    proptest! {
        /// Whatever the log loses or doubles, a receiver that asks again ends with everything.
        #[test]
        fn a_lossy_log_costs_delay_and_nothing_else(
            fates in proptest::collection::vec((0usize..4, 1u64..150), 1..30),
            again in proptest::collection::vec(0usize..4, 0..30),
        ) {
            let mut lane = Lane::new(1, at(0), 0);
            let mut receiver = Receiver::default();
            let deliver = |batch: Option<Cut<u64>>, fate: usize, receiver: &mut Receiver| {
                for _ in 0..[1, 0, 2, 1][fate] {
                    batch.iter().for_each(|batch| receiver.hear(batch));
                }
            };
            let end = fates.len() as u64;
            // The position 3 stands for as many changes as the fourth entry says.
            let give = |lane: &mut Lane<u64>, receiver: &mut Receiver, from: u64, fate: &dyn Fn(u64) -> usize| {
                for stretch in from..end {
                    for number in 0..fates[stretch as usize].1 {
                        deliver(lane.push(stretch * 1000 + number, 8), fate(stretch * 7 + number), receiver);
                    }
                    deliver(lane.upto(at(stretch + 1)), fate(stretch), receiver);
                }
                deliver(Some(lane.flush()), fate(end), receiver);
            };
            give(&mut lane, &mut receiver, 0, &|n| fates[n as usize % fates.len()].0);
            let again: Vec<usize> = again.iter().copied().chain([0]).collect();
            for round in 0..2 {
                let from = receiver.reached.position;
                if lane.rewind(from) {
                    let fate = |n: u64| if round == 0 { again[n as usize % again.len()] } else { 0 };
                    give(&mut lane, &mut receiver, from.offset, &fate);
                }
            }
            prop_assert_eq!(receiver.reached.position, at(end));
            let mut taken = receiver.taken;
            taken.sort();
            taken.dedup();
            prop_assert_eq!(taken.len() as u64, fates.iter().map(|(_, count)| *count).sum::<u64>());
        }
    }
}
