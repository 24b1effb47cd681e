//! One key for all spellings of a question, and never one for two questions.
//!
//! The index reads words in any case and in any order (proximity has no direction); it looks unquoted words up by
//! their stems, where accents count, and quoted ones and words of addresses without their accents. The key does the
//! same, with the analyser handed in. Filters are sets, so they are sorted. What is left out, first and last hit,
//! and the asker's languages are part of the key, because they change the answer.
//!
//! INVARIANT: the key's text can be read in one way only: every piece has its length in front.

use farol_base::fingerprint::{hash64, keyed64};
use farol_base::query::{Field, Request, Term};
use std::fmt::Write;

/// Up to so many words the order does not matter: beyond, the index looks at the first ones only.
const UNORDERED_MAX: usize = 16;

/// How the index reads letters.
pub trait Analysis {
    /// One case.
    fn lower(&self, text: &str) -> String;
    /// One case and no accents.
    fn fold(&self, text: &str) -> String;
}

/// Plain lower case, accents kept: what may be done without knowing the index.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl Analysis for Plain {
    fn lower(&self, text: &str) -> String {
        text.to_lowercase()
    }

    fn fold(&self, text: &str) -> String {
        text.to_lowercase()
    }
}

/// A question's name in the cache.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct QueryKey {
    text: Box<str>,
    hash: u64,
}

impl QueryKey {
    /// The key of a question. `seed` comes with the ring: who does not know it cannot choose questions whose hashes fall
    /// together.
    pub fn of(request: &Request, analysis: &dyn Analysis, seed: u64) -> QueryKey {
        let mut text = String::with_capacity(64);
        // Writing to a string cannot fail.
        let _ = write!(text, "{},{}", request.first, request.count);
        part(&mut text, 'h', request.languages.iter().map(|language| language.code().to_string()).collect());
        part(&mut text, 'w', wanted(&request.query.wanted, analysis));
        let unwanted = request.query.unwanted.iter().map(|term| spell(term, &term.text, analysis)).collect();
        part(&mut text, 'u', set(unwanted));
        part(&mut text, 'v', request.query.as_written.then(String::new).into_iter().collect());
        let filters = &request.query.filters;
        let codes = |list: &[farol_base::Language]| {
            set(list.iter().map(|language| language.code().to_string()).collect())
        };
        for (mark, values) in [
            ('s', set(filters.sites.clone())),
            ('S', set(filters.not_sites.clone())),
            ('l', codes(&filters.languages)),
            ('L', codes(&filters.not_languages)),
            ('f', set(filters.file_types.clone())),
            ('F', set(filters.not_file_types.clone())),
            ('a', filters.after.map(|at| at.as_millis().to_string()).into_iter().collect()),
            ('b', filters.before.map(|at| at.as_millis().to_string()).into_iter().collect()),
        ] {
            part(&mut text, mark, values);
        }
        QueryKey { hash: keyed64(text.as_bytes(), seed), text: text.into() }
    }

    /// A key as it was sent: its text, and the seed of the ring.
    pub fn of_sent(text: &str, seed: u64) -> QueryKey {
        QueryKey { hash: keyed64(text.as_bytes(), seed), text: text.into() }
    }

    /// A key from a text that is one already, such as a line of a query log.
    pub fn of_text(text: &str) -> QueryKey {
        QueryKey { hash: hash64(text.as_bytes()), text: text.into() }
    }

    /// The key's point on the ring.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}

/// The wanted words and phrases; sorted where there are so few that their order does not matter.
fn wanted(terms: &[Term], analysis: &dyn Analysis) -> Vec<String> {
    let mut pieces = Vec::new();
    for term in terms {
        if term.phrase {
            pieces.push(spell(term, &term.text, analysis));
        } else {
            pieces.extend(term.text.split_whitespace().map(|word| spell(term, word, analysis)));
        }
    }
    if pieces.len() <= UNORDERED_MAX {
        // Words that stand twice count twice: no duplicates are dropped.
        pieces.sort_unstable();
    }
    pieces
}

fn spell(term: &Term, text: &str, analysis: &dyn Analysis) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let field = match term.field {
        Field::Any => 'a',
        Field::Title => 't',
        Field::Url => 'u',
    };
    // Stems are looked up for unquoted words outside of addresses, and stems know accents.
    let text = match term.phrase || term.field == Field::Url {
        true => analysis.fold(&text),
        false => analysis.lower(&text),
    };
    format!("{field}{}{text}", if term.phrase { 'p' } else { 'w' })
}

fn set(mut values: Vec<String>) -> Vec<String> {
    values.sort_unstable();
    values.dedup();
    values
}

fn part(text: &mut String, mark: char, values: Vec<String>) {
    for value in values {
        let _ = write!(text, "\n{mark}{}:{value}", value.len());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::query::{Filters, Query};
    use farol_base::{Language, Timestamp};
    use proptest::prelude::*;

    fn word(text: &str) -> Term {
        Term { text: text.to_string(), field: Field::Any, phrase: false }
    }

    fn ask(wanted: Vec<Term>, filters: Filters) -> QueryKey {
        let query = Query { wanted, filters, ..Query::default() };
        QueryKey::of(&Request { query, first: 0, count: 10, languages: Default::default() }, &Plain, 0)
    }

    fn words(text: &str) -> QueryKey {
        ask(text.split(' ').map(word).collect(), Filters::default())
    }

    #[test]
    fn the_same_question_has_one_key() {
        assert_eq!(words("Ponte Rio"), words("rio PONTE"));
        assert_eq!(ask(vec![word("ponte rio")], Filters::default()), words("ponte rio"));
        let sites = |sites: &[&str]| Filters {
            sites: sites.iter().map(|s| s.to_string()).collect(),
            ..Filters::default()
        };
        assert_eq!(
            ask(vec![word("a")], sites(&["x.org", "y.org"])),
            ask(vec![word("a")], sites(&["y.org", "x.org", "y.org"]))
        );
        let phrase = |text: &str| ask(vec![Term { phrase: true, ..word(text) }], Filters::default());
        assert_eq!(phrase("Ponte  Rio"), phrase("ponte rio"));
    }

    #[test]
    fn different_questions_have_different_keys() {
        let base = Request {
            query: Query { wanted: vec![word("a")], ..Query::default() },
            first: 0,
            count: 10,
            languages: Default::default(),
        };
        let mut others = vec![words("b"), words("a a"), words("é"), words("e")];
        let mut with = |change: &dyn Fn(&mut Request)| {
            let mut request = base.clone();
            change(&mut request);
            others.push(QueryKey::of(&request, &Plain, 0));
        };
        with(&|request| request.first = 10);
        with(&|request| request.count = 20);
        with(&|request| request.languages = Language::ENGLISH.into());
        with(&|request| request.query.as_written = true);
        with(&|request| request.query.wanted[0].phrase = true);
        with(&|request| request.query.wanted[0].field = Field::Title);
        with(&|request| request.query.wanted[0].field = Field::Url);
        with(&|request| request.query.unwanted.push(word("b")));
        with(&|request| request.query.filters.sites.push("a".into()));
        with(&|request| request.query.filters.not_sites.push("a".into()));
        with(&|request| request.query.filters.file_types.push("a".into()));
        with(&|request| request.query.filters.languages.push(Language::ENGLISH));
        with(&|request| request.query.filters.not_languages.push(Language::ENGLISH));
        with(&|request| request.query.filters.after = Some(Timestamp::from_secs(9)));
        with(&|request| request.query.filters.before = Some(Timestamp::from_secs(9)));
        others.push(QueryKey::of(&base, &Plain, 0));
        let distinct: std::collections::HashSet<_> = others.iter().map(QueryKey::text).collect();
        assert_eq!(distinct.len(), others.len(), "{others:?}");
    }

    #[test]
    fn who_does_not_know_the_seed_cannot_gather_keys_on_one_node() {
        use crate::ring::{NodeId, Ring};
        // Forged for the first of eight nodes under a seed that is not the ring's: they spread like any others.
        let ring = Ring::equal(8);
        let owner = |text: &str, seed: u64| ring.owner(QueryKey::of_sent(text, seed).hash());
        let forged: Vec<String> =
            (0..80_000).map(|i| format!("w{i}")).filter(|text| owner(text, 1) == Some(NodeId(0))).collect();
        let hit = forged.iter().filter(|text| owner(text, 0x5EED) == Some(NodeId(0))).count();
        let share = hit as f64 / forged.len() as f64;
        assert!(forged.len() > 9_000 && (0.11..0.14).contains(&share), "{share} of {}", forged.len());
    }

    #[test]
    fn hashes_of_keys_are_frozen() {
        // Nodes and fronts of different programs must reckon alike.
        let hash = |text: &str, seed: u64| QueryKey::of_sent(text, seed).hash();
        assert_eq!(
            [hash("", 0), hash("0,10\nw5:awrio", 0), hash("0,10\nw5:awrio", 7)],
            [3_244_421_341_483_603_138, 14_050_306_156_733_848_795, 573_661_560_205_406_695]
        );
    }

    #[test]
    fn beyond_sixteen_words_order_counts() {
        let many: Vec<String> = (0..17).map(|i| format!("w{i}")).collect();
        let back: Vec<String> = many.iter().rev().cloned().collect();
        assert_ne!(words(&many.join(" ")), words(&back.join(" ")));
        assert_eq!(words(&many[..16].join(" ")), words(&back[1..].join(" ")));
    }

    proptest! {
        /// No choice of words, not even with line breaks and digits, reads as another choice.
        #[test]
        fn keys_are_unambiguous(a in proptest::collection::vec("[a-c0-9:\n]{1,4}", 1..5), b in proptest::collection::vec("[a-c0-9:\n]{1,4}", 1..5)) {
            let key = |words: &[String]| ask(words.iter().map(|text| Term { phrase: true, ..word(text) }).collect(), Filters::default());
            let normal = |words: &[String]| {
                let mut words: Vec<String> = words.iter().map(|w| w.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
                words.sort();
                words
            };
            prop_assert_eq!(key(&a) == key(&b), normal(&a) == normal(&b));
        }
    }
}
