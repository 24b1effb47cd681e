//! Synonyms: other words for what is asked, from a file that the operator writes.
//!
//! A line is a group of words or phrases that mean the same, separated by commas, each found by the others:
//! `vhost, virtual host`. With an arrow it goes one way: who asks for the left finds the right too, but not the other
//! way round: `ml => machine learning`. Case and accents do not matter. Lines that begin with `#` and empty lines are
//! skipped.
//!
//! A synonym weighs less than the word itself; see [`crate::plan`].

use crate::text::fold;
use crate::text::spans::Spans;
use std::collections::HashMap;

/// Words of one phrase.
const WORDS_MAX: usize = 8;

/// Words and phrases of one line.
const GROUP_MAX: usize = 32;

/// A line of a file that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {problem}")]
pub struct RuleError {
    /// Its number, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

/// Other words for words, both folded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Synonyms {
    others: HashMap<String, Vec<String>>,
}

impl Synonyms {
    /// Reads a file of synonyms.
    ///
    /// ```
    /// use farol_index::Synonyms;
    /// assert!(Synonyms::parse("# groups\nvhost, virtual host\nml => machine learning\n").is_ok());
    /// let error = Synonyms::parse("vhost\n").unwrap_err();
    /// assert_eq!(error.to_string(), "line 1: \"vhost\" has no synonym; write two or more, separated by commas");
    /// ```
    pub fn parse(text: &str) -> Result<Synonyms, RuleError> {
        let mut synonyms = Synonyms::default();
        for (line, text) in lines(text) {
            let error = |problem: String| RuleError { line, problem };
            if let Some((from, to)) = text.split_once("=>") {
                let (from, to) = (group(from).map_err(error)?, group(to).map_err(error)?);
                for left in &from {
                    for right in &to {
                        synonyms.add(left, right);
                    }
                }
            } else {
                let all = group(text).map_err(error)?;
                if all.len() < 2 {
                    let problem = format!("{text:?} has no synonym; write two or more, separated by commas");
                    return Err(error(problem));
                }
                for left in &all {
                    for right in &all {
                        synonyms.add(left, right);
                    }
                }
            }
        }
        Ok(synonyms)
    }

    fn add(&mut self, from: &str, to: &str) {
        let others = self.others.entry(from.to_string()).or_default();
        if from != to && !others.iter().any(|known| known == to) {
            others.push(to.to_string());
        }
    }

    /// For each of some folded words that follow each other, what may stand in its place. Where several words have
    /// one synonym, a page that has it has each of them.
    pub(crate) fn of_words(&self, words: &[String]) -> Vec<Vec<&str>> {
        let mut found: Vec<Vec<&str>> = vec![Vec::new(); words.len()];
        if self.others.is_empty() {
            return found;
        }
        for start in 0..words.len() {
            for end in start + 1..=words.len().min(start + WORDS_MAX) {
                let others = self.others.get(&words[start..end].join(" ")).into_iter().flatten();
                for other in others {
                    for word in found[start..end].iter_mut().filter(|word| !word.contains(&&**other)) {
                        word.push(other);
                    }
                }
            }
        }
        found
    }
}

/// The lines of a file that say something, with their numbers.
pub(crate) fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let lines = text.trim_start_matches('\u{FEFF}').lines().enumerate();
    lines
        .map(|(at, line)| (at + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

/// The folded words and phrases of a list, separated by commas.
pub(crate) fn group(list: &str) -> Result<Vec<String>, String> {
    let mut group = Vec::new();
    for text in list.split(',') {
        let words = folded_words(text);
        match words.len() {
            0 => return Err(format!("{:?} has no word between its commas or beside its arrow", list.trim())),
            1..=WORDS_MAX => group.push(words.join(" ")),
            _ => return Err(format!("{:?} has more than {WORDS_MAX} words", text.trim())),
        }
    }
    if group.len() > GROUP_MAX {
        return Err(format!("it has more than {GROUP_MAX} words and phrases; make two lines of it"));
    }
    Ok(group)
}

/// The words of a text as the index compares them.
pub(crate) fn folded_words(text: &str) -> Vec<String> {
    Spans::new(text).map(|span| fold::folded(&text[span.start..span.end])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page, query};
    use crate::{NoRanks, SearchRules};
    use farol_base::query::Request;

    #[test]
    fn a_wrong_line_is_named_by_its_number() {
        let check = |text: &str, want: &str| {
            assert_eq!(Synonyms::parse(text).unwrap_err().to_string(), want, "{text:?}");
        };
        check(
            "a, b\n\n# x\nalone",
            "line 4: \"alone\" has no synonym; write two or more, separated by commas",
        );
        check("a, , b", "line 1: \"a, , b\" has no word between its commas or beside its arrow");
        check("=> b", "line 1: \"\" has no word between its commas or beside its arrow");
        check("a b c d e f g h i, j", "line 1: \"a b c d e f g h i\" has more than 8 words");
    }

    #[test]
    fn synonyms_are_found_and_weigh_less_than_the_word() {
        let shard = TestShard::new(&[
            page("http://a/vhost", "Servers", "a vhost answers for its name here and there"),
            page("http://b/virtual-host", "Servers", "a virtual host answers for its name here"),
            page("http://c/ml", "Learning", "all about ml and its uses"),
            page("http://d/machine", "Learning", "all about machine learning and uses"),
        ]);
        let synonyms = Synonyms::parse("VHost, virtual host\nml => machine learning").unwrap();
        let rules = SearchRules { synonyms, ..SearchRules::default() };
        let check = |words: &str, want: &[&str]| {
            let query = query(words, Default::default());
            let request = Request { query, first: 0, count: 10, languages: Default::default() };
            let answer = shard.searcher().search_by(&request, &rules, &NoRanks).unwrap();
            assert_eq!(crate::testing::paths(&answer), want, "{words}");
        };
        check("vhost", &["/vhost", "/virtual-host"]);
        check("virtual host", &["/virtual-host", "/vhost"]);
        check("ml", &["/ml", "/machine"]);
        check("\"vhost\"", &["/vhost"]); // What is quoted is meant.
        assert_eq!(shard.paths("vhost"), ["/vhost"]);
        let one_way = shard.searcher().search_by(
            &Request {
                query: query("machine learning", Default::default()),
                first: 0,
                count: 1,
                languages: Default::default(),
            },
            &rules,
            &NoRanks,
        );
        assert_eq!(crate::testing::paths(&one_way.unwrap()), ["/machine"]);
    }
}
