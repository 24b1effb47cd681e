//! What is believed of a page and kept with its record: eight bytes.
//!
//! ```text
//! changes ×5 | log₂ interval, u16 | log₂ time without change, u16 | rate | hope | weight
//! ```
//! The first five are the [`Evidence`]; the last three are what the [`RevisitPlanner`](super::RevisitPlanner) counts the page as, rounded
//! to its own scale, so that a page can be taken out of the sums again exactly as it went in.

use crate::revisit::Change;
use crate::revisit::allocate::Page;
use crate::revisit::estimate::Evidence;

/// What is believed of a page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageBelief {
    pub evidence: Evidence,
    pub entry: Quantised,
}

/// What a page is counted as in the sums, quantised to bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quantised {
    /// Logarithm of the changes per second, four to a doubling; 0 = it never changes.
    pub rate: u8,
    /// Hope, in 255ths.
    pub hope: u8,
    /// Logarithm of the weight, eight to a doubling; 0 = it is not counted.
    pub weight: u8,
}

/// The byte for one change a second, and for a weight of 1.
const ONE_PER_SEC: f64 = 128.0;
const WEIGHT_ONE: f64 = 64.0;

impl Quantised {
    /// Rounds.
    pub fn of(change: Change, weight: f64) -> Quantised {
        let scaled =
            |value: f64, steps: f64, one: f64| (steps * value.log2() + one).round().clamp(1.0, 255.0) as u8;
        let never = change.rate() == 0.0;
        Quantised {
            rate: if never { 0 } else { scaled(change.rate(), 4.0, ONE_PER_SEC) },
            hope: (255.0 * change.hope()).round() as u8,
            weight: if weight > 0.0 { scaled(weight, 8.0, WEIGHT_ONE) } else { 0 },
        }
    }

    pub fn rate(self) -> f64 {
        if self.rate == 0 { 0.0 } else { ((f64::from(self.rate) - ONE_PER_SEC) / 4.0).exp2() }
    }

    pub fn hope(self) -> f64 {
        f64::from(self.hope) / 255.0
    }

    pub fn weight(self) -> f64 {
        if self.weight == 0 { 0.0 } else { ((f64::from(self.weight) - WEIGHT_ONE) / 8.0).exp2() }
    }

    /// The page as the allocation sees it.
    pub fn page(self) -> Page {
        let change = Change::believed(self.rate(), self.hope()).unwrap_or(Change::NEVER);
        Page { change, weight: self.weight() as f32 }
    }
}

impl PageBelief {
    pub fn to_bytes(self) -> [u8; 8] {
        let Evidence { changes, interval, unchanged } = self.evidence;
        let log = |secs: f32| ((f64::from(secs) + 1.0).log2() * 2048.0).round().clamp(0.0, 65535.0) as u16;
        let [a, b] = log(interval).to_le_bytes();
        let [c, d] = log(unchanged).to_le_bytes();
        let Quantised { rate, hope, weight } = self.entry;
        [(changes * 5.0).round().clamp(0.0, 255.0) as u8, a, b, c, d, rate, hope, weight]
    }

    /// Reads what [`PageBelief::to_bytes`] wrote; zeros are a page of which nothing is known.
    pub fn from_bytes([changes, a, b, c, d, rate, hope, weight]: [u8; 8]) -> PageBelief {
        let secs =
            |low: u8, high: u8| ((f64::from(u16::from_le_bytes([low, high])) / 2048.0).exp2() - 1.0) as f32;
        let evidence =
            Evidence { changes: f32::from(changes) / 5.0, interval: secs(a, b), unchanged: secs(c, d) };
        PageBelief { evidence, entry: Quantised { rate, hope, weight } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_memo_comes_back_nearly_as_it_was() {
        let near = |a: f64, b: f64, share: f64| assert!((a - b).abs() <= share * a.abs(), "{a} and {b}");
        for (rate, hope, weight) in [(1e-8, 1.0, 1.0), (3e-4, 0.4, 7.0), (2.0, 0.0, 0.3)] {
            let change = Change::believed(rate, hope).unwrap();
            let evidence = Evidence { changes: 12.4, interval: 90_000.0, unchanged: 3e7 };
            let belief = PageBelief { evidence, entry: Quantised::of(change, weight) };
            let back = PageBelief::from_bytes(belief.to_bytes());
            assert_eq!(back.entry, belief.entry);
            near(back.entry.rate(), rate, 0.1);
            near(back.entry.weight(), weight, 0.05);
            assert!((back.entry.hope() - hope).abs() < 0.003);
            near(f64::from(back.evidence.interval), 90_000.0, 0.001);
            near(f64::from(back.evidence.unchanged), 3e7, 0.001);
            assert_eq!(back.evidence.changes, 12.4);
            // Writing it again changes nothing more.
            assert_eq!(back.to_bytes(), belief.to_bytes());
        }
        let none = PageBelief::from_bytes([0; 8]);
        assert!(none.evidence.is_none() && none.entry.weight() == 0.0 && none.to_bytes() == [0; 8]);
        assert_eq!(Quantised::of(Change::NEVER, 1.0).rate(), 0.0);
    }
}
