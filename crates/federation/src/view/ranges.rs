//! Sets of numbers as sorted disjoint ranges: server addresses, and instants.

/// A set of numbers; its ranges are closed, sorted, and neither touch nor overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranges(Vec<(u128, u128)>);

impl Ranges {
    /// Every number.
    pub fn all() -> Ranges {
        Ranges(vec![(0, u128::MAX)])
    }

    /// No number.
    pub fn none() -> Ranges {
        Ranges(Vec::new())
    }

    /// The numbers from one to the other, both included; none where the last is before the first.
    pub fn between(first: u128, last: u128) -> Ranges {
        Ranges(if first <= last { vec![(first, last)] } else { Vec::new() })
    }

    /// The numbers of any of these ranges, in any order.
    pub fn any_of(mut ranges: Vec<(u128, u128)>) -> Ranges {
        ranges.sort_unstable();
        let mut union: Vec<(u128, u128)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges.into_iter().filter(|(first, last)| first <= last) {
            match union.last_mut() {
                Some(open) if first <= open.1.saturating_add(1) => open.1 = open.1.max(last),
                _ => union.push((first, last)),
            }
        }
        Ranges(union)
    }

    /// Whether it restricts nothing.
    pub fn is_all(&self) -> bool {
        self.0 == [(0, u128::MAX)]
    }

    /// Whether no number belongs to it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether the number belongs to it.
    pub fn has(&self, number: u128) -> bool {
        let after = self.0.partition_point(|(first, _)| *first <= number);
        after > 0 && self.0[after - 1].1 >= number
    }

    /// Its ranges.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (u128, u128)> + '_ {
        self.0.iter().copied()
    }

    /// Every number that is not in it.
    pub fn complement(&self) -> Ranges {
        let mut gaps = Vec::with_capacity(self.0.len() + 1);
        let mut next = Some(0);
        for &(first, last) in &self.0 {
            if let Some(from) = next.filter(|from| *from < first) {
                gaps.push((from, first - 1));
            }
            next = last.checked_add(1);
        }
        gaps.extend(next.map(|from| (from, u128::MAX)));
        Ranges(gaps)
    }

    /// The numbers in both.
    pub fn and(&self, other: &Ranges) -> Ranges {
        let (mut a, mut b) = (self.0.iter().peekable(), other.0.iter().peekable());
        let mut both = Vec::new();
        while let (Some(&&(a_first, a_last)), Some(&&(b_first, b_last))) = (a.peek(), b.peek()) {
            let (first, last) = (a_first.max(b_first), a_last.min(b_last));
            if first <= last {
                both.push((first, last));
            }
            if a_last < b_last {
                a.next()
            } else {
                b.next()
            };
        }
        Ranges(both)
    }

    /// The numbers in either.
    pub fn or(&self, other: &Ranges) -> Ranges {
        self.complement().and(&other.complement()).complement()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    /// Numbers at both ends, where adding one overflows, and between.
    fn number(i: u8) -> u128 {
        if i < 8 { u128::from(i) } else { u128::MAX - u128::from(15 - i) }
    }

    fn a_set() -> impl Strategy<Value = Ranges> {
        proptest::collection::vec((0..16u8, 0..16u8), 0..5).prop_map(|pairs| {
            pairs
                .into_iter()
                .fold(Ranges::none(), |set, (a, b)| set.or(&Ranges::between(number(a), number(b))))
        })
    }

    proptest! {
        #[test]
        fn ranges_are_what_their_members_say(a in a_set(), b in a_set()) {
            let members = |set: &Ranges| (0..16).map(number).filter(|n| set.has(*n)).collect::<BTreeSet<u128>>();
            let (in_a, in_b) = (members(&a), members(&b));
            prop_assert_eq!(members(&a.and(&b)), &in_a & &in_b);
            prop_assert_eq!(members(&a.or(&b)), &in_a | &in_b);
            prop_assert_eq!(members(&a.complement()), (0..16).map(number).filter(|n| !in_a.contains(n)).collect());
            prop_assert_eq!(a.complement().complement(), a.clone());
            prop_assert_eq!(Ranges::any_of(a.iter().chain(b.iter()).collect()), a.or(&b));
            for set in [a.and(&b), a.or(&b), a.complement()] {
                prop_assert!(set.0.windows(2).all(|pair| pair[0].1.checked_add(1).is_some_and(|n| n < pair[1].0)));
            }
        }
    }
}
