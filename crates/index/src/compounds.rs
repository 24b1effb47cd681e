//! Words written together or apart: `VirtualHost` and `virtual host`, `write-ahead` and `writeahead`.
//!
//! Compounds with a hyphen are indexed as one word too (see [`crate::text`]) and identifiers in their parts; the rest
//! is done when a question is asked, from the words that the index knows. Parts of `VirtualHost` are not indexed: who
//! asks for `java` does not want every page about `JavaScript`.
//!
//! INVARIANT: what is added finds more pages and takes none away. Quoted words are left as they are.

use crate::error::Error;
use crate::plan::{Clause, ClauseKind, Plan, Planner};

/// Neighbouring words that are also tried as one.
const JOINED_MAX: usize = 3;

/// Letters of the shorter part of a word that is tried as two.
const PART_CHARS_MIN: usize = 3;

/// A word that one page in so many has is not tried as two: it is how people write it.
const COMMON_SHARE: u64 = 50;

/// Pages of a word that may always have another spelling.
const RARE_PAGES: u64 = 20;

/// Ways of cutting a word in two that are followed.
const CUTS_MAX: usize = 2;

impl Planner<'_> {
    /// Adds to a typed word how else it may be written.
    pub(crate) fn spell(&self, typed: &str, clause: &mut Clause) -> Result<(), Error> {
        match &clause.kind {
            // `write-ahead` is read as a phrase.
            ClauseKind::Phrase { parts } => {
                let joined: String = parts.iter().map(|(_, form)| form.as_str()).collect();
                if parts.len() <= JOINED_MAX {
                    clause.spellings.extend(self.known_word(&joined)?);
                }
            }
            ClauseKind::Word { form, .. } => {
                let parts = match identifier_parts(form).or_else(|| hump_parts(typed, form)) {
                    Some(parts) => vec![parts],
                    None if clause.pages <= RARE_PAGES.max(self.documents / COMMON_SHARE) => {
                        self.cuts(form)?
                    }
                    None => Vec::new(),
                };
                let phrase = |parts: Vec<String>| ClauseKind::Phrase { parts: (0..).zip(parts).collect() };
                clause.spellings.extend(parts.into_iter().map(phrase));
            }
            ClauseKind::AnyOf(_) => {}
        }
        if clause.pages == 0 && !clause.spellings.is_empty() {
            (clause.pages, clause.idf) = self.rarity(&clause.spellings[0], clause.fields)?;
        }
        Ok(())
    }

    /// Tries neighbouring words as one word.
    pub(crate) fn join_neighbours(&self, plan: &mut Plan) -> Result<(), Error> {
        let forms: Vec<Option<String>> =
            plan.typed.iter().map(|typed| typed.word.as_ref().map(|word| word.form.clone())).collect();
        for first in 0..forms.len() {
            for count in 2..=JOINED_MAX.min(forms.len() - first) {
                let Some(words) =
                    forms[first..first + count].iter().map(Option::as_deref).collect::<Option<Vec<&str>>>()
                else {
                    break;
                };
                let Some(joined) = self.known_word(&words.concat())? else { continue };
                for clause in plan.clauses.iter_mut().chain(&mut plan.loose) {
                    let of_these = clause.kind.form().is_some_and(|form| words.contains(&form));
                    if of_these && clause.fields.everywhere.is_some() && !clause.spellings.contains(&joined) {
                        clause.spellings.push(joined.clone());
                    }
                }
            }
        }
        Ok(())
    }

    /// A word with its stems, where any page has it.
    fn known_word(&self, form: &str) -> Result<Option<ClauseKind>, Error> {
        let clause = self.word(form.to_string(), form, self.fields(Default::default()))?;
        Ok((clause.pages > 0).then_some(clause.kind))
    }

    /// The likeliest ways to cut a word into two that pages have.
    fn cuts(&self, form: &str) -> Result<Vec<Vec<String>>, Error> {
        let mut cuts = Vec::new();
        let chars = form.chars().count();
        if chars < 2 * PART_CHARS_MIN || !form.chars().all(char::is_alphabetic) {
            return Ok(Vec::new());
        }
        for (at, _) in form.char_indices().skip(PART_CHARS_MIN).take(chars + 1 - 2 * PART_CHARS_MIN) {
            let (first, second) = form.split_at(at);
            let words = self.fields(Default::default()).forms;
            let pages = self.pages(words, first)?.min(self.pages(words, second)?);
            if pages > 0 {
                cuts.push((pages, vec![first.to_string(), second.to_string()]));
            }
        }
        cuts.sort_by_key(|(pages, _)| std::cmp::Reverse(*pages));
        Ok(cuts.into_iter().take(CUTS_MAX).map(|(_, parts)| parts).collect())
    }
}

/// `mod` and `rewrite` of `mod_rewrite`.
fn identifier_parts(form: &str) -> Option<Vec<String>> {
    let parts: Vec<String> = form.split('_').filter(|part| !part.is_empty()).map(str::to_string).collect();
    (parts.len() > 1).then_some(parts)
}

/// `virtual` and `host` of `VirtualHost`; none where a part is a single letter, as in `iPhone`.
fn hump_parts(typed: &str, form: &str) -> Option<Vec<String>> {
    if typed.len() != form.len() || !typed.is_ascii() {
        return None;
    }
    let bytes = typed.as_bytes();
    let mut parts = Vec::new();
    let mut start = 0;
    for at in 1..bytes.len() {
        let upper = bytes[at].is_ascii_uppercase();
        let after_lower = bytes[at - 1].is_ascii_lowercase();
        let before_lower = bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase);
        if upper && (after_lower || (bytes[at - 1].is_ascii_uppercase() && before_lower)) {
            parts.push(form[start..at].to_string());
            start = at;
        }
    }
    parts.push(form[start..].to_string());
    (parts.len() > 1 && parts.iter().all(|part| part.len() > 1)).then_some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page, query};
    use farol_base::query::{Filters, Query};

    #[test]
    fn humps_are_parts() {
        let check = |typed: &str, want: &[&str]| {
            let parts = hump_parts(typed, &typed.to_lowercase()).unwrap_or_default();
            assert_eq!(parts, want, "{typed}");
        };
        check("VirtualHost", &["virtual", "host"]);
        check("HTTPServer", &["http", "server"]);
        check("MediaTrackSettings", &["media", "track", "settings"]);
        check("iPhone", &[]);
        check("README", &[]);
        check("virtualhost", &[]);
    }

    /// Every way of writing finds every other.
    #[track_caller]
    fn all_meet(texts: &[&str], questions: &[&str]) {
        let filler =
            page("http://other/", "Other", "the host of the evening speaks of the time ahead in mod style");
        let pages = texts.iter().enumerate();
        let pages = pages.map(|(at, text)| {
            page(&format!("http://h{at}/{at}"), "Page", &format!("about the {text} of it"))
        });
        let shard = TestShard::new(&pages.chain([filler]).collect::<Vec<_>>());
        for question in questions {
            let found = shard.paths(question);
            let first = &found[..texts.len().min(found.len())];
            for (at, text) in texts.iter().enumerate() {
                assert!(first.contains(&format!("/{at}")), "{question} finds {found:?}, not {text}");
            }
        }
    }

    #[test]
    fn words_written_together_or_apart_meet() {
        all_meet(
            &["VirtualHost", "virtual host"],
            &["VirtualHost", "virtualhost", "virtual host", "virtual-host"],
        );
        all_meet(
            &["mod_rewrite", "mod rewrite"],
            &["mod_rewrite", "mod rewrite", "modrewrite", "mod-rewrite"],
        );
        all_meet(
            &["write-ahead", "write ahead", "writeahead"],
            &["write-ahead", "write ahead", "writeahead", "WriteAhead"],
        );
        all_meet(&["e-mail", "email"], &["e-mail", "email"]);
    }

    #[test]
    fn a_phrase_is_what_was_quoted() {
        let shard = TestShard::new(&[
            page("http://a/apart", "Page", "the write ahead log"),
            page("http://b/tied", "Page", "the write-ahead log"),
            page("http://c/together", "Page", "the writeahead log"),
        ]);
        let mut found = shard.paths("\"write ahead log\"");
        found.sort();
        assert_eq!(found, ["/apart", "/tied"]);
        assert_eq!(shard.paths("\"writeahead log\""), ["/together"]);
    }

    #[test]
    fn parts_of_a_name_are_not_words_of_their_own() {
        let shard = TestShard::new(&[page("http://a/", "Page", "JavaScript in the page")]);
        let java = Query { as_written: true, ..query("java", Filters::default()) };
        assert!(shard.ask_query(java).hits.is_empty());
    }

    #[test]
    fn what_is_written_otherwise_is_marked() {
        let shard =
            TestShard::new(&[page("http://a/", "Page", "The VirtualHost directive and write-ahead logs")]);
        let marked = |question: &str| {
            let answer = shard.ask(question);
            let hits = answer.hits[0].snippet.iter().filter(|fragment| fragment.hit);
            hits.map(|fragment| fragment.text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(marked("virtual host"), ["VirtualHost"]);
        assert_eq!(marked("writeahead"), ["write-ahead"]);
        assert_eq!(marked("write ahead"), ["write-ahead"]);
    }
}
