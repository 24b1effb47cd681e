//! Sets of two-letter codes, languages and countries, with one more member for "there is none".

use std::collections::BTreeSet;

/// A code; `None` is the page that was looked at and has none.
pub type Code = Option<[u8; 2]>;

/// All codes that can be written: 26 × 26 pairs of letters, and none.
const CODES: usize = 26 * 26 + 1;

/// A finite set of codes, or everything but one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codes {
    /// Whether the members are those that are *not* listed.
    but: bool,
    listed: BTreeSet<Code>,
}

impl Codes {
    /// Every code.
    pub fn all() -> Codes {
        Codes { but: true, listed: BTreeSet::new() }
    }

    /// One code.
    pub fn one(code: Code) -> Codes {
        Codes { but: false, listed: BTreeSet::from([code]) }
    }

    /// Whether it restricts nothing.
    pub fn is_all(&self) -> bool {
        self.complement().is_empty()
    }

    /// Whether no code belongs to it.
    pub fn is_empty(&self) -> bool {
        if self.but { self.listed.len() >= CODES } else { self.listed.is_empty() }
    }

    /// Whether the code belongs to it.
    pub fn has(&self, code: Code) -> bool {
        self.listed.contains(&code) != self.but
    }

    /// Every code that is not in it.
    pub fn complement(&self) -> Codes {
        Codes { but: !self.but, listed: self.listed.clone() }
    }

    /// The codes in both.
    pub fn and(&self, other: &Codes) -> Codes {
        let (a, b) = (&self.listed, &other.listed);
        let (but, listed) = match (self.but, other.but) {
            (false, false) => (false, a & b),
            (false, true) => (false, a - b),
            (true, false) => (false, b - a),
            (true, true) => (true, a | b),
        };
        Codes { but, listed }
    }

    /// The codes in either.
    pub fn or(&self, other: &Codes) -> Codes {
        self.complement().and(&other.complement()).complement()
    }

    /// The codes that are listed, and whether the set is everything but them.
    pub fn listed(&self) -> (bool, impl Iterator<Item = Code> + '_) {
        (self.but, self.listed.iter().copied())
    }

    /// Some member.
    pub fn any(&self) -> Option<Code> {
        if !self.but {
            return self.listed.first().copied();
        }
        let letters = || b'a'..=b'z';
        let codes = letters().flat_map(|a| letters().map(move |b| Some([a, b])));
        codes.chain([None]).find(|code| self.has(*code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_of_everything_but_all_codes_is_empty() {
        let mut set = Codes::all();
        while let Some(code) = set.any() {
            assert!(set.has(code) && !set.is_empty());
            set = set.and(&Codes::one(code).complement());
        }
        assert!(set.is_empty() && set.complement().is_all());
        assert_eq!(set.listed().1.count(), CODES);
    }

    #[test]
    fn sets_of_codes_are_what_their_members_say() {
        let (pt, es, und) = (Codes::one(Some(*b"pt")), Codes::one(Some(*b"es")), Codes::one(None));
        let sets = [pt.clone(), pt.or(&es), pt.complement(), pt.or(&und).complement(), Codes::all(), und];
        for a in &sets {
            for b in &sets {
                for code in [Some(*b"pt"), Some(*b"es"), Some(*b"fr"), None] {
                    assert_eq!(a.and(b).has(code), a.has(code) && b.has(code));
                    assert_eq!(a.or(b).has(code), a.has(code) || b.has(code));
                }
            }
        }
    }
}
