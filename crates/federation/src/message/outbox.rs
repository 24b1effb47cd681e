//! Letters that wait to be delivered, and when each engine is tried again.
//!
//! A letter that says anew what an earlier one said takes its place, so that who is away for a week finds no heap. The
//! letters of one engine go out in their order; after a failure that engine rests, twice as long each time.
//!
//! INVARIANT: at most [`LETTERS_MAX`] letters wait for one engine.

use crate::agreement::EngineId;
use crate::message::Rest;
use farol_base::{Random, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// Letters that wait for one engine. 256 × half a megabyte at the very worst, a kilobyte each as a rule.
pub const LETTERS_MAX: usize = 256;
/// Letters that go out in one go.
pub const LETTERS_PER_TURN: usize = 16;
/// A letter that is to be sealed and sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// To whom.
    pub to: EngineId,
    /// What it says anew: a later letter about the same takes its place.
    pub about: String,
    /// The type of its envelope.
    pub kind: String,
    /// What it says.
    pub payload: Vec<u8>,
}

/// How an engine could be reached.
#[derive(Clone, Debug, Default)]
struct Line {
    under_way: bool,
    rest: Rest,
}

/// Letters that wait, by the number under which each is kept.
#[derive(Debug, Default)]
pub struct Outbox {
    letters: BTreeMap<u64, Letter>,
    lines: BTreeMap<EngineId, Line>,
    last: u64,
}

/// What came of putting a letter in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Put {
    /// The letter's number.
    pub number: u64,
    /// Letters that it makes superfluous.
    pub replaced: Vec<u64>,
}

impl Outbox {
    /// Takes up a letter of an earlier run.
    pub fn take_up(&mut self, number: u64, letter: Letter) {
        self.last = self.last.max(number);
        self.letters.insert(number, letter);
    }

    /// Puts a letter in.
    pub fn put(&mut self, letter: Letter) -> Put {
        let same = |(_, other): &(&u64, &Letter)| other.to == letter.to && other.about == letter.about;
        let mut replaced: Vec<u64> = self.letters.iter().filter(same).map(|(number, _)| *number).collect();
        let waiting: Vec<u64> = self
            .letters
            .iter()
            .filter(|(_, other)| other.to == letter.to)
            .map(|(number, _)| *number)
            .collect();
        if replaced.is_empty() && waiting.len() >= LETTERS_MAX {
            replaced.extend(waiting.first());
        }
        replaced.iter().for_each(|number| drop(self.letters.remove(number)));
        self.last += 1;
        self.letters.insert(self.last, letter);
        Put { number: self.last, replaced }
    }

    /// Letters to be sent now, of one engine, in their order; it counts as being called from now on.
    pub fn next(&mut self, now: Timestamp) -> Option<(EngineId, Vec<(u64, Letter)>)> {
        let is_free =
            |to: &EngineId| self.lines.get(to).is_none_or(|line| !line.under_way && line.rest.is_over(now));
        let to = self.letters.values().map(|letter| letter.to).find(is_free)?;
        self.lines.entry(to).or_default().under_way = true;
        let of = self.letters.iter().filter(|(_, letter)| letter.to == to).take(LETTERS_PER_TURN);
        Some((to, of.map(|(number, letter)| (*number, letter.clone())).collect()))
    }

    /// These letters were delivered or are of no use; after that a failure came, or none. Answers how long the engine rests.
    pub fn done(
        &mut self,
        now: Timestamp,
        to: EngineId,
        numbers: &[u64],
        failed: bool,
        random: &mut dyn Random,
    ) -> Duration {
        numbers.iter().for_each(|number| drop(self.letters.remove(number)));
        let line = self.lines.entry(to).or_default();
        line.under_way = false;
        if !failed {
            *line = Line::default();
            return Duration::ZERO;
        }
        line.rest.failed(now, random)
    }

    /// The engine was heard of: it need not rest any longer.
    pub fn heard(&mut self, from: EngineId) {
        if let Some(line) = self.lines.get_mut(&from) {
            line.rest = Rest::default();
        }
    }

    /// Drops all that waits for an engine; answers their numbers.
    pub fn forget(&mut self, engine: EngineId) -> Vec<u64> {
        let of: Vec<u64> = self
            .letters
            .iter()
            .filter(|(_, letter)| letter.to == engine)
            .map(|(number, _)| *number)
            .collect();
        of.iter().for_each(|number| drop(self.letters.remove(number)));
        of
    }

    /// How many letters wait for an engine.
    pub fn waiting(&self, engine: EngineId) -> usize {
        self.letters.values().filter(|letter| letter.to == engine).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::REST;
    use farol_base::Seeded;

    fn letter(to: u8, about: &str) -> Letter {
        Letter { to: EngineId([to; 32]), about: about.into(), kind: "agreement".into(), payload: Vec::new() }
    }

    #[test]
    fn letters_go_out_in_order_and_rest_after_failures() {
        let (mut outbox, random) = (Outbox::default(), &mut Seeded::new(1));
        let mut now = Timestamp::from_secs(1000);
        for about in ["a", "b", "c"] {
            outbox.put(letter(1, about));
        }
        assert_eq!(outbox.put(letter(1, "a")), Put { number: 4, replaced: vec![1] });
        outbox.put(letter(2, "a"));
        let (to, letters) = outbox.next(now).unwrap();
        let abouts: Vec<&str> = letters.iter().map(|(_, letter)| letter.about.as_str()).collect();
        assert_eq!((to, abouts), (EngineId([1; 32]), vec!["b", "c", "a"]));
        assert_eq!(
            outbox.next(now).unwrap().0,
            EngineId([2; 32]),
            "one that is called does not hold others up"
        );
        assert_eq!(outbox.next(now), None);
        let mut rests = Vec::new();
        for _ in 0..15 {
            rests.push(outbox.done(now, to, &[], true, random));
            assert_eq!(outbox.next(now), None, "it rests");
            now = now + REST.1;
            assert_eq!(outbox.next(now).unwrap().1.len(), 3);
        }
        assert!(rests[0] <= REST.0 && rests[14] <= REST.1 && rests[14] >= REST.1 / 2, "{rests:?}");
        outbox.done(now, to, &[2], true, random);
        outbox.heard(to);
        assert_eq!(outbox.next(now).unwrap().1.len(), 2, "who was heard of is tried at once");
        outbox.done(now, to, &[3, 4], false, random);
        assert_eq!((outbox.waiting(to), outbox.next(now)), (0, None));
    }

    #[test]
    fn a_heap_of_letters_is_bounded_and_survives() {
        let mut outbox = Outbox::default();
        for about in 0..LETTERS_MAX {
            assert_eq!(outbox.put(letter(1, &about.to_string())).replaced, Vec::<u64>::new());
        }
        assert_eq!(outbox.put(letter(1, "more")).replaced, [1]);
        assert_eq!(outbox.waiting(EngineId([1; 32])), LETTERS_MAX);
        assert_eq!(outbox.forget(EngineId([1; 32])).len(), LETTERS_MAX);
        let mut again = Outbox::default();
        again.take_up(7, letter(1, "a"));
        assert_eq!(again.put(letter(1, "b")).number, 8);
    }
}
