//! The part of a sender's archive that a batch covers, and what a receiver does with it.
//!
//! A receiver that has taken in everything up to `prev` (or further) may take a batch; what it has already, it passes
//! over; where it lacks something in between, it asks the sender to send again. So nothing depends on a log keeping its
//! promises.

use farol_base::PagePosition;

/// The part of a sender's archive that a batch covers.
///
/// A stretch with many changes goes in several batches, the *pieces*, of which the last moves the position. They are
/// numbered, because one that got lost would otherwise not be missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Number of the node that sends.
    pub from: u16,
    /// What was sent before ends here.
    pub prev: PagePosition,
    /// Everything up to here is sent with this batch; `prev` itself where more of the same stretch follows.
    pub upto: PagePosition,
    /// Which pieces belong together: a stretch that is sent again is cut anew.
    pub cut: u32,
    /// Number of this piece, from 0.
    pub piece: u16,
}

/// How far a receiver has come with one sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// Everything up to here was taken in.
    pub position: PagePosition,
    /// Of the stretch behind it, so many pieces of this cut.
    pub cut: u32,
    pub pieces: u16,
}

/// What a receiver does with a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Take it in; so far it has then come.
    Take(Reached),
    /// It has come before.
    Known,
    /// Something before it is missing.
    Gap,
}

impl Stretch {
    /// What a receiver does that has come so far.
    pub fn fits(&self, at: Reached) -> Fit {
        let (prev, upto) = (self.prev, self.upto);
        let taken = if upto > prev {
            Reached { position: upto, cut: 0, pieces: 0 }
        } else {
            Reached { position: prev, cut: self.cut, pieces: self.piece.saturating_add(1) }
        };
        if prev > at.position {
            Fit::Gap
        } else if prev < at.position {
            match (upto > at.position, self.piece) {
                (false, _) => Fit::Known,
                // A whole stretch that reaches further; what it repeats changes nothing.
                (true, 0) => Fit::Take(taken),
                (true, _) => Fit::Gap,
            }
        } else if self.cut == at.cut && self.piece < at.pieces {
            Fit::Known
        } else if self.piece == 0 || (self.cut == at.cut && self.piece == at.pieces) {
            Fit::Take(taken)
        } else {
            Fit::Gap
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(offset: u64) -> Reached {
        Reached { position: PagePosition { file: 0, offset }, ..Reached::default() }
    }

    fn stretch(prev: u64, upto: u64, cut: u32, piece: u16) -> Stretch {
        Stretch { from: 1, prev: at(prev).position, upto: at(upto).position, cut, piece }
    }

    #[test]
    fn a_batch_is_taken_once_and_a_missing_one_is_noticed() {
        let check = |prev, upto, known, want| {
            assert_eq!(stretch(prev, upto, 1, 0).fits(at(known)), want, "{prev}..{upto} at {known}");
        };
        check(0, 5, 0, Fit::Take(at(5)));
        check(5, 9, 5, Fit::Take(at(9)));
        check(5, 9, 9, Fit::Known);
        check(0, 9, 5, Fit::Take(at(9))); // Sent again from further back.
        check(9, 12, 5, Fit::Gap);
    }

    #[test]
    fn a_piece_that_got_lost_is_missed() {
        let after = |pieces| Reached { cut: 7, pieces, ..at(5) };
        assert_eq!(stretch(5, 5, 7, 0).fits(at(5)), Fit::Take(after(1)));
        assert_eq!(stretch(5, 5, 7, 1).fits(after(1)), Fit::Take(after(2)));
        assert_eq!(stretch(5, 9, 7, 2).fits(after(2)), Fit::Take(at(9)));
        assert_eq!(stretch(5, 9, 7, 2).fits(after(1)), Fit::Gap);
        assert_eq!(stretch(5, 9, 7, 1).fits(at(5)), Fit::Gap);
        assert_eq!(stretch(5, 5, 7, 0).fits(after(2)), Fit::Known);
        assert_eq!(stretch(5, 5, 7, 0).fits(at(9)), Fit::Known);
        // Cut anew, it begins anew.
        assert_eq!(stretch(5, 5, 8, 0).fits(after(2)), Fit::Take(Reached { cut: 8, pieces: 1, ..at(5) }));
        assert_eq!(stretch(5, 9, 8, 2).fits(after(2)), Fit::Gap);
        assert_eq!(stretch(0, 9, 8, 2).fits(at(5)), Fit::Gap);
    }
}
