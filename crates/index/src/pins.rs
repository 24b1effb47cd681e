//! Pinned results: pages that the operator sets on top of the answers to certain questions.
//!
//! A line names questions, separated by commas, and after an arrow the addresses of pages, separated by spaces, in the
//! order in which they are shown: `opening hours, when open => https://example.org/visit`. Case, accents and spaces in a
//! question do not matter, its words and their order do. Lines that begin with `#` and empty lines are skipped.
//!
//! A page is shown once it is in the index. A question with filters or excluded words has no pins.

use crate::synonyms::{RuleError, folded_words, group, lines};
use farol_base::query::{Field, Query};
use farol_base::{CanonicalUrl, PageId};
use std::collections::HashMap;

/// Pages that are pinned to one question.
const PAGES_MAX: usize = 10;

/// Questions with the pages that come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pins {
    pages: HashMap<String, Vec<PageId>>,
}

impl Pins {
    /// Reads a file of pins.
    ///
    /// ```
    /// use farol_index::Pins;
    /// assert!(Pins::parse("opening hours => https://example.org/visit").is_ok());
    /// let error = Pins::parse("\nopening hours https://example.org/visit").unwrap_err();
    /// assert_eq!(error.to_string(), "line 2: there is no arrow; write `question => address`");
    /// ```
    pub fn parse(text: &str) -> Result<Pins, RuleError> {
        let mut pins = Pins::default();
        for (line, text) in lines(text) {
            let error = |problem: String| RuleError { line, problem };
            let Some((questions, addresses)) = text.split_once("=>") else {
                return Err(error("there is no arrow; write `question => address`".to_string()));
            };
            let mut pages = Vec::new();
            for address in addresses.split_whitespace() {
                let url = CanonicalUrl::parse(address);
                let url = url.map_err(|problem| error(format!("{address:?} is no address: {problem}")))?;
                pages.push(url.id());
            }
            if pages.is_empty() || pages.len() > PAGES_MAX {
                return Err(error(format!("name 1 to {PAGES_MAX} addresses after the arrow")));
            }
            for question in group(questions).map_err(error)? {
                pins.pages.entry(question).or_default().extend(&pages);
            }
        }
        Ok(pins)
    }

    /// Pins of one question alone, for whoever was told them with it.
    pub fn of_question(query: &Query, pages: impl Iterator<Item = PageId>) -> Pins {
        let pages: Vec<PageId> = pages.take(PAGES_MAX).collect();
        let pages = if pages.is_empty() { HashMap::new() } else { HashMap::from([(key(query), pages)]) };
        Pins { pages }
    }

    /// The pages that come first for a question.
    pub fn of(&self, query: &Query) -> &[PageId] {
        let plain = query.unwanted.is_empty()
            && query.filters.is_empty()
            && query.wanted.iter().all(|term| term.field == Field::Any);
        if self.pages.is_empty() || !plain {
            return &[];
        }
        self.pages.get(&key(query)).map_or(&[], |pages| pages)
    }
}

/// What a question is known by.
fn key(query: &Query) -> String {
    let words: Vec<String> = query.wanted.iter().flat_map(|term| folded_words(&term.text)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page, paths, query};
    use crate::{NoRanks, SearchRules};
    use farol_base::query::{Answer, Filters, Request};

    #[test]
    fn a_wrong_line_is_named_by_its_number() {
        let check = |text: &str, want: &str| {
            assert!(Pins::parse(text).unwrap_err().to_string().starts_with(want), "{text:?}");
        };
        check("# x\na b", "line 2: there is no arrow");
        check("a => ", "line 1: name 1 to 10 addresses");
        check("a => nowhere", "line 1: \"nowhere\" is no address: ");
        check(" => http://h/", "line 1: \"\" has no word");
    }

    #[test]
    fn pinned_pages_come_first_once_and_only_for_their_question() {
        let mut pages: Vec<_> = (0..15)
            .map(|n| page(&format!("http://h{n}/{n}"), "Opening hours", &format!("opening hours {n}")))
            .collect();
        pages.push(page("http://x/visit", "Visit us", "we are here"));
        let shard = TestShard::new(&pages);
        let pins = "Ópening  HOURS, when => http://x/visit http://h7/7 http://nowhere/";
        let rules = SearchRules { pins: Pins::parse(pins).unwrap(), ..SearchRules::default() };
        let ask = |words: &str, filters: Filters, first: usize| -> Answer {
            let query = query(words, filters);
            let request = Request { query, first, count: 10, languages: Default::default() };
            shard.searcher().search_by(&request, &rules, &NoRanks).unwrap()
        };
        let first = ask("opening hours", Filters::default(), 0);
        assert_eq!(paths(&first)[..2], ["/visit", "/7"]);
        assert_eq!(first.hits.iter().filter(|hit| hit.pinned).count(), 2);
        let second = ask("opening hours", Filters::default(), 10);
        let mut all = [paths(&first), paths(&second)].concat();
        assert_eq!(all.len(), 16);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 16);
        assert_eq!(paths(&ask("when", Filters::default(), 0)), ["/visit", "/7"]); // Though no page has the word.
        assert!(!ask("hours", Filters::default(), 0).hits[0].pinned);
        let site = Filters { sites: vec!["h3".into()], ..Filters::default() };
        assert_eq!(paths(&ask("opening hours", site, 0)), ["/3"]);
    }
}
