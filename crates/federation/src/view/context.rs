//! Signatures: what a page is about in at most 64 numbers, and whether some page is near some and far from others.
//!
//! The distance of two signatures is the share of stems that only one of them has, in hundredths, rounded up: a metric, as
//! rounding up keeps the triangle inequality. No-answers rest on that.

use super::Answer;
use std::collections::BTreeSet;

/// How stems are cut and counted; signatures of another analysis say nothing to us.
pub const ANALYSIS: u8 = 1;

/// Most stems in a signature.
pub const STEMS_MAX: usize = 64;

/// Farthest that two signatures are apart.
pub const DISTANCE_MAX: u8 = 100;

/// The most frequent stems of a page, each as 32 bits of its hash.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Signature(BTreeSet<u32>);

impl Signature {
    /// The signature with these stems; none where there are too many.
    pub fn of(stems: impl IntoIterator<Item = u32>) -> Option<Signature> {
        let stems: BTreeSet<u32> = stems.into_iter().collect();
        (stems.len() <= STEMS_MAX).then_some(Signature(stems))
    }

    /// Its stems, the least first.
    pub fn stems(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// The share of stems that only one of the two has, in hundredths, rounded up.
    pub fn distance(&self, other: &Signature) -> u8 {
        let shared = self.0.intersection(&other.0).count();
        let either = self.0.len() + other.0.len() - shared;
        if either == 0 { 0 } else { ((either - shared) * 100).div_ceil(either) as u8 }
    }

    fn union(&self, other: &Signature) -> Option<Signature> {
        Signature::of(self.0.union(&other.0).copied())
    }

    fn intersection(&self, other: &Signature) -> Signature {
        Signature(self.0.intersection(&other.0).copied().collect())
    }
}

/// A reference and how far from it a page may be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Likeness {
    /// The canonical address of the reference, for people; it names the condition where there is no signature.
    pub reference: String,
    /// The farthest that still counts, at most [`DISTANCE_MAX`].
    pub distance: u8,
    /// The reference's signature as written, first the number of its analysis.
    pub signature: Option<(u8, Signature)>,
}

impl Likeness {
    /// The signature, where it is of our analysis.
    pub fn readable(&self) -> Option<&Signature> {
        self.signature.as_ref().filter(|(analysis, _)| *analysis == ANALYSIS).map(|(_, signature)| signature)
    }

    /// Whether two conditions are about the same reference.
    fn is_of_same(&self, other: &Likeness) -> bool {
        self.signature == other.signature && (self.signature.is_some() || self.reference == other.reference)
    }
}

/// Whether some page is as near as the first list wants and not as near as the second; with a signature for a yes.
pub fn solve(near: &[&Likeness], far: &[&Likeness]) -> (Answer, Option<Signature>) {
    if far.iter().any(|b| b.distance >= DISTANCE_MAX) {
        return (Answer::No, None);
    }
    // A page is never farther than that: such a condition says nothing.
    let near: Vec<&Likeness> = near.iter().copied().filter(|a| a.distance < DISTANCE_MAX).collect();
    let implied = |a: &&Likeness| far.iter().any(|b| a.is_of_same(b) && a.distance <= b.distance);
    if near.iter().any(implied) {
        return (Answer::No, None);
    }
    let apart = |a: &Likeness, b: &Likeness| Some(a.readable()?.distance(b.readable()?));
    for (i, a) in near.iter().enumerate() {
        let too_far = |b: &&Likeness| apart(a, b).is_some_and(|d| d > a.distance + b.distance);
        let within = |b: &&Likeness| apart(a, b).is_some_and(|d| d + a.distance <= b.distance);
        if near[i + 1..].iter().any(too_far) || far.iter().any(within) {
            return (Answer::No, None);
        }
    }
    let all = near.iter().chain(far);
    if all.clone().any(|a| a.readable().is_none()) {
        return (Answer::Unknown, None);
    }
    let fits = |s: &Signature| {
        let distance = |a: &Likeness| a.readable().map_or(DISTANCE_MAX, |reference| s.distance(reference));
        near.iter().all(|a| distance(a) <= a.distance) && far.iter().all(|b| distance(b) > b.distance)
    };
    if near.is_empty() {
        // A stem that no reference has is as far from all as can be, an empty reference included.
        let fresh = (0..).find(|stem| !all.clone().any(|a| a.readable().is_some_and(|s| s.0.contains(stem))));
        return (Answer::Yes, fresh.and_then(|stem| Signature::of([stem])));
    }
    let references: Vec<&Signature> = near.iter().filter_map(|a| a.readable()).collect();
    let pairs = references.iter().flat_map(|a| references.iter().map(move |b| (*a, *b)));
    let made = pairs.flat_map(|(a, b)| [a.union(b), Some(a.intersection(b))]).flatten();
    let witness = references.iter().map(|s| (*s).clone()).chain(made).find(fits);
    (if witness.is_some() { Answer::Yes } else { Answer::Unknown }, witness)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn range(stems: std::ops::Range<u32>) -> Signature {
        Signature::of(stems).unwrap()
    }

    #[test]
    fn distances_are_shares_rounded_up() {
        let (a, b, c) = (range(0..40), range(20..60), range(100..140));
        assert_eq!((a.distance(&b), a.distance(&c), a.distance(&a)), (67, 100, 0));
        let empty = Signature::default();
        assert_eq!((empty.distance(&empty), empty.distance(&a)), (0, 100));
        assert_eq!(Signature::of(0..65), None);
    }

    fn signature() -> impl Strategy<Value = Signature> {
        proptest::collection::btree_set(0..6u32, 0..6).prop_map(Signature)
    }

    fn likenesses() -> impl Strategy<Value = Vec<Likeness>> {
        let one = (signature(), 0..=100u8).prop_map(|(signature, distance)| Likeness {
            reference: String::new(),
            distance,
            signature: Some((ANALYSIS, signature)),
        });
        proptest::collection::vec(one, 0..3)
    }

    proptest! {
        #[test]
        fn rounding_up_keeps_the_triangle_inequality(a in signature(), b in signature(), c in signature()) {
            prop_assert!(a.distance(&c) <= a.distance(&b) + b.distance(&c));
        }

        #[test]
        fn no_signature_of_a_small_world_contradicts_the_solver(near in likenesses(), far in likenesses()) {
            let fits = |s: &Signature| {
                let within = |l: &Likeness| s.distance(l.readable().unwrap()) <= l.distance;
                near.iter().all(within) && !far.iter().any(within)
            };
            // All sets of eight stems: two that no reference has.
            let mut world = (0..256u32).map(|bits| Signature((0..8).filter(|i| bits >> i & 1 == 1).collect()));
            match solve(&near.iter().collect::<Vec<_>>(), &far.iter().collect::<Vec<_>>()) {
                (Answer::No, _) => prop_assert_eq!(world.find(fits), None),
                (Answer::Yes, witness) => prop_assert!(witness.is_some_and(|witness| fits(&witness))),
                (Answer::Unknown, _) => {}
            }
        }
    }
}
