//! Sets of page names: hosts, domains, paths and single pages, as a signed trie.
//!
//! A key is a path of tokens from the top label of a host name downwards: `br`, `ufpe`, `www`, then the port, the segments
//! of the path, and for a single page its path and query. The deepest mark on a key's path decides whether it belongs to
//! the set. Sets of media types are the same with two tokens.
//!
//! INVARIANT: no mark repeats the sign above it, so the set is empty exactly when no `+` is left: below any node there are
//! more names than marks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Ends each token, so that a key begins with another exactly when it lies below it. No canonical URL has it.
const END: char = '\u{1}';

/// The path of tokens to a node.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key with these tokens.
    pub fn of<'a>(tokens: impl IntoIterator<Item = &'a str>) -> Key {
        let mut text = String::new();
        for token in tokens {
            text.push_str(token);
            text.push(END);
        }
        Key(text.into())
    }

    /// Its tokens, the topmost first.
    pub fn tokens(&self) -> impl Iterator<Item = &str> {
        self.0.split_terminator(END)
    }

    /// Whether the other key is this one or lies below it.
    pub fn covers(&self, other: &Key) -> bool {
        other.0.starts_with(&*self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.tokens()).finish()
    }
}

/// A set of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    /// Whether a name without any mark on its path belongs to it.
    rest: bool,
    marks: BTreeMap<Key, bool>,
}

impl Names {
    /// Every name, or none.
    pub fn all_or_none(all: bool) -> Names {
        Names { rest: all, marks: BTreeMap::new() }
    }

    /// The names at and below a key.
    pub fn below(key: Key) -> Names {
        Names { rest: false, marks: BTreeMap::from([(key, true)]) }
    }

    /// The names at and below any of these keys.
    pub fn below_any(keys: impl IntoIterator<Item = Key>) -> Names {
        let mut names = Names { rest: false, marks: keys.into_iter().map(|key| (key, true)).collect() };
        names.prune();
        names
    }

    /// Whether it restricts nothing.
    pub fn is_all(&self) -> bool {
        self.rest && self.marks.is_empty()
    }

    /// Whether no name belongs to it.
    pub fn is_empty(&self) -> bool {
        !self.rest && self.marks.is_empty()
    }

    /// Whether the key's node belongs to it.
    pub fn has(&self, key: &Key) -> bool {
        if self.marks.is_empty() {
            return self.rest;
        }
        let text = &*key.0;
        let mut sign = self.rest;
        for (at, _) in text.match_indices(END) {
            if let Some(&mark) = self.marks.get(&text[..=at]) {
                sign = mark;
            }
        }
        sign
    }

    /// Every name that is not in it.
    pub fn complement(&self) -> Names {
        Names { rest: !self.rest, marks: self.marks.iter().map(|(key, sign)| (key.clone(), !sign)).collect() }
    }

    /// The names in both.
    pub fn and(&self, other: &Names) -> Names {
        if self.is_all() {
            return other.clone();
        }
        if other.is_all() {
            return self.clone();
        }
        let keys = self.marks.keys().chain(other.marks.keys());
        let marks = keys.map(|key| (key.clone(), self.has(key) && other.has(key))).collect();
        let mut both = Names { rest: self.rest && other.rest, marks };
        both.prune();
        both
    }

    /// The names in either.
    pub fn or(&self, other: &Names) -> Names {
        self.complement().and(&other.complement()).complement()
    }

    /// Drops marks that equal the one above. Keys below a key follow it at once, so a stack of the open ones suffices.
    fn prune(&mut self) {
        let mut open: Vec<(Key, bool)> = Vec::new();
        let rest = self.rest;
        self.marks.retain(|key, sign| {
            while open.last().is_some_and(|(above, _)| !above.covers(key)) {
                open.pop();
            }
            let above = open.last().map_or(rest, |(_, sign)| *sign);
            if *sign != above {
                open.push((key.clone(), *sign));
            }
            *sign != above
        });
    }

    /// Its marks with the number of marks above each, from the top: what a text of it is written from.
    pub fn outline(&self) -> Outline {
        let mut open: Vec<&Key> = Vec::new();
        let mut nodes = Vec::new();
        for key in self.marks.keys() {
            while open.last().is_some_and(|above| !above.covers(key)) {
                open.pop();
            }
            nodes.push((open.len(), key.clone()));
            open.push(key);
        }
        Outline { all: self.rest, nodes }
    }

    /// The keys whose nodes belong to it though what is above does not; none where the rest belongs to it.
    pub fn plus_keys(&self) -> impl Iterator<Item = &Key> {
        self.marks.iter().filter(|(_, sign)| **sign).map(|(key, _)| key)
    }

    /// Whether what has no mark on its path belongs to it.
    pub fn has_rest(&self) -> bool {
        self.rest
    }
}

impl std::borrow::Borrow<str> for Key {
    fn borrow(&self) -> &str {
        &self.0
    }
}

/// The marks of a set in order of their keys; each takes away from, or gives back to, the one that it lies below.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outline {
    /// What holds for names without a mark.
    pub all: bool,
    /// Depth among the marks, and the key.
    pub nodes: Vec<(usize, Key)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key(text: &str) -> Key {
        Key::of(text.split('/').filter(|token| !token.is_empty()))
    }

    /// All keys of a tiny world, with a token that no set mentions.
    fn world() -> Vec<Key> {
        let tokens = ["a", "b", "ab", "other"];
        let mut keys = vec![];
        for x in tokens {
            keys.push(key(x));
            for y in tokens {
                keys.push(key(&format!("{x}/{y}")));
                for z in tokens {
                    keys.push(key(&format!("{x}/{y}/{z}")));
                }
            }
        }
        keys
    }

    fn a_set() -> impl Strategy<Value = Names> {
        let key = proptest::collection::vec(0..3usize, 1..4)
            .prop_map(|path| Key::of(path.into_iter().map(|i| ["a", "b", "ab"][i])));
        proptest::collection::vec((key, any::<bool>(), any::<bool>()), 0..6).prop_map(|steps| {
            steps.into_iter().fold(Names::all_or_none(false), |set, (key, add, flip)| {
                let one = Names::below(key);
                let set = if add { set.or(&one) } else { set.and(&one.complement()) };
                if flip { set.complement() } else { set }
            })
        })
    }

    proptest! {
        #[test]
        fn sets_of_names_are_what_their_members_say(a in a_set(), b in a_set()) {
            for key in world() {
                prop_assert_eq!(a.and(&b).has(&key), a.has(&key) && b.has(&key));
                prop_assert_eq!(a.or(&b).has(&key), a.has(&key) || b.has(&key));
                prop_assert_eq!(a.complement().has(&key), !a.has(&key));
            }
            // Names that nobody mentions exist below every node, so emptiness shows in a world with one such token.
            prop_assert_eq!(a.is_empty(), world().iter().all(|key| !a.has(key)));
        }
    }

    #[test]
    fn a_mark_that_says_nothing_new_is_dropped() {
        let set = Names::below(key("br")).or(&Names::below(key("br/ufpe")));
        assert_eq!(set, Names::below(key("br")));
        let both = Names::below(key("br")).and(&Names::below(key("br/ufpe")).complement());
        assert_eq!(both.or(&Names::below(key("br/ufpe"))), Names::below(key("br")));
        assert!(!Names::below(key("a")).has(&key("ab")), "whole tokens only");
    }
}
