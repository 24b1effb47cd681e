//! What the dictionaries of a segment say about words, remembered: where a word's pages stand, and how many are alive.
//!
//! Scores go by pages that are alive alone. Deleted ones stay in a segment until it is merged, and replicas of a shard
//! merge at different times: with them, two replicas of the same pages would score them differently. A dictionary
//! counts them, so those that a word has are taken off when it is first asked for, and after each commit those that
//! were deleted since; a segment without deleted pages costs nothing.
//!
//! INVARIANT: at most [`KNOWN_MAX`] words of a segment are remembered: 4,096 × about 150 bytes = 0.6 MB.

use crate::error::Error;
use farol_base::sync::RwLock;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use tantivy::postings::TermInfo;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, InvertedIndexReader, SegmentReader, TERMINATED, Term};

/// Words remembered, those that the segment lacks too.
const KNOWN_MAX: usize = 4_096;

/// The words of a segment as one commit sees them.
#[derive(Clone, Default)]
pub(crate) struct SegmentTerms {
    known: Arc<RwLock<KnownTerms>>,
    /// So many of [`KnownTerms::deleted`] are deleted in this commit.
    deleted: usize,
}

/// What all commits that have the segment know of it.
#[derive(Default)]
struct KnownTerms {
    /// Deleted pages in the order of commits; those of one commit in their own order.
    deleted: Arc<Vec<DocId>>,
    /// By number of the field.
    fields: Vec<HashMap<Box<str>, KnownTerm>>,
    count: usize,
}

#[derive(Clone)]
struct KnownTerm {
    /// None where the segment lacks the word.
    info: Option<TermInfo>,
    /// Pages with the word among the first [`KnownTerm::upto`] deleted ones.
    dead: u32,
    upto: usize,
}

impl SegmentTerms {
    /// The words of a segment; what an earlier commit knows of it goes on to count. Answers the pages that were deleted
    /// since, too. `before` is of the commit just before.
    pub(crate) fn new(segment: &SegmentReader, before: Option<&SegmentTerms>) -> (SegmentTerms, Vec<DocId>) {
        let mut terms = before.cloned().unwrap_or_default();
        if segment.num_deleted_docs() as usize == terms.deleted {
            return (terms, Vec::new());
        }
        let mut known = terms.known.write();
        let mut was_alive = vec![true; segment.max_doc() as usize];
        known.deleted.iter().for_each(|doc| was_alive[*doc as usize] = false);
        let since: Vec<DocId> = (0..segment.max_doc())
            .filter(|doc| was_alive[*doc as usize] && segment.is_deleted(*doc))
            .collect();
        Arc::make_mut(&mut known.deleted).extend(&since);
        let deleted = known.deleted.len();
        drop(known);
        terms.deleted = deleted;
        (terms, since)
    }

    /// Where the pages of a word stand; none where the segment lacks it.
    pub(crate) fn find(
        &self,
        segment: &SegmentReader,
        field: Field,
        text: &str,
    ) -> Result<Option<TermInfo>, Error> {
        let known = self.known.read().get(field, text).map(|known| known.info.clone());
        match known {
            Some(info) => Ok(info),
            None => Ok(self.learn(segment, field, text)?.info),
        }
    }

    /// How many pages that are alive have a word.
    pub(crate) fn pages(&self, segment: &SegmentReader, field: Field, text: &str) -> Result<u64, Error> {
        let known = self.known.read().get(field, text).filter(|known| known.upto == self.deleted).cloned();
        let known = match known {
            Some(known) => known,
            None => self.learn(segment, field, text)?,
        };
        Ok(known.info.map_or(0, |info| u64::from(info.doc_freq.saturating_sub(known.dead))))
    }

    /// The same for a word that need not be remembered.
    pub(crate) fn pages_of(&self, index: &InvertedIndexReader, info: &TermInfo) -> Result<u64, Error> {
        let dead = self.dead(index, info, 0)?;
        Ok(u64::from(info.doc_freq.saturating_sub(dead)))
    }

    /// Looks a word up, and remembers it.
    fn learn(&self, segment: &SegmentReader, field: Field, text: &str) -> Result<KnownTerm, Error> {
        let index = segment.inverted_index(field).map_err(Error::engine("open a segment"))?;
        let before = self.known.read().get(field, text).cloned();
        let mut learnt = match before {
            Some(known) => known,
            None => {
                let info = index.get_term_info(&Term::from_field_text(field, text));
                let info = info.map_err(|error| Error::engine("count the pages of a word")(error))?;
                KnownTerm { info, dead: 0, upto: 0 }
            }
        };
        if learnt.upto > self.deleted {
            // A later commit has counted on.
            (learnt.dead, learnt.upto) = (0, 0);
        }
        if let Some(info) = &learnt.info {
            learnt.dead += self.dead(&index, info, learnt.upto)?;
        }
        learnt.upto = self.deleted;
        self.known.write().set(field, text, learnt.clone());
        Ok(learnt)
    }

    /// How many of the deleted pages have a word, those of earlier commits aside.
    fn dead(&self, index: &InvertedIndexReader, info: &TermInfo, from: usize) -> Result<u32, Error> {
        if from >= self.deleted {
            return Ok(0);
        }
        let all = self.known.read().deleted.clone();
        let mut deleted = Cow::Borrowed(&all[from..self.deleted]);
        if !deleted.is_sorted() {
            deleted.to_mut().sort_unstable(); // Those of several commits.
        }
        let postings = index.read_postings_from_terminfo(info, IndexRecordOption::Basic);
        let mut postings = postings.map_err(Error::engine("count the pages of a word"))?;
        let (mut rest, mut dead) = (&deleted[..], 0);
        while let Some(first) = rest.first() {
            let doc = if postings.doc() < *first { postings.seek(*first) } else { postings.doc() };
            if doc == TERMINATED {
                break;
            }
            dead += u32::from(doc == *first);
            rest = &rest[rest.partition_point(|deleted| *deleted < doc.max(*first + 1))..];
        }
        Ok(dead)
    }
}

impl KnownTerms {
    fn get(&self, field: Field, text: &str) -> Option<&KnownTerm> {
        self.fields.get(field.field_id() as usize)?.get(text)
    }

    fn set(&mut self, field: Field, text: &str, known: KnownTerm) {
        if self.count >= KNOWN_MAX {
            self.fields.clear();
            self.count = 0;
        }
        let number = field.field_id() as usize;
        if self.fields.len() <= number {
            self.fields.resize_with(number + 1, HashMap::new);
        }
        self.count += usize::from(self.fields[number].insert(text.into(), known).is_none());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::searcher::View;
    use crate::statistics::Statistics;
    use crate::testing::{TestShard, page};
    use farol_base::random::{Random, Seeded};
    use farol_base::{Document, PagePosition};

    const WORDS: [&str; 8] = ["lighthouse", "keeper", "storm", "lamp", "ferry", "rope", "tide", "bell"];

    fn made(random: &mut Seeded, number: u64) -> Document {
        let words: Vec<&str> =
            (0..3 + random.below(12)).map(|_| WORDS[random.below(1 + number % 8) as usize]).collect();
        let anchors = if number.is_multiple_of(3) { "the ferry".to_string() } else { String::new() };
        Document { anchors, ..page(&format!("http://h/{number}"), words[0], &words.join(" ")) }
    }

    #[test]
    fn counts_go_on_from_commit_to_commit_and_are_those_of_the_pages_that_are_left() {
        let mut random = Seeded::new(11);
        let mut pages: Vec<Document> = (0..300).map(|number| made(&mut random, number)).collect();
        let mut shard = TestShard::new(&pages[..100]);
        for chunk in pages[100..].chunks(67) {
            chunk.iter().for_each(|page| shard.shard.put(page).unwrap());
            shard.shard.commit(PagePosition::default()).unwrap();
        }
        for round in 0..12 {
            for _ in 0..random.below(25) {
                let at = random.below(pages.len() as u64) as usize;
                match random.below(2) {
                    0 => shard.shard.delete(&pages.swap_remove(at).url),
                    _ => {
                        let text = made(&mut random, round).body;
                        pages[at].body = text;
                        shard.shard.put(&pages[at]).unwrap();
                    }
                }
            }
            let before = shard.searcher().shared.view();
            let counts = |view: &View| WORDS.map(|word| view.pages(view.fields.words, word).unwrap());
            let counted = counts(&before);
            shard.shard.commit(PagePosition::default()).unwrap();
            let view = shard.searcher().shared.view();
            // The same pages in one segment.
            let fresh = TestShard::new(&pages);
            let fresh = fresh.searcher().shared.view();
            assert_eq!(view.sizes.documents, pages.len() as u64);
            assert_eq!(
                (view.sizes.tokens, &view.sizes.languages),
                (fresh.sizes.tokens, &fresh.sizes.languages)
            );
            let fields = view.fields;
            for field in [fields.words, fields.stems, fields.title, fields.anchors] {
                for word in WORDS.iter().chain(&["nowhere"]) {
                    let [now, wanted] = [&view, &fresh].map(|view| {
                        (view.pages(field, word).unwrap(), view.beginning(field, &word[..2]).unwrap())
                    });
                    assert_eq!(now.0, wanted.0, "round {round}, {word} in field {field:?}");
                    let sorted = |mut words: Vec<(String, u64)>| {
                        words.sort();
                        words
                    };
                    assert_eq!(sorted(now.1), sorted(wanted.1), "round {round}, {word}");
                }
            }
            assert_eq!(counts(&before), counted, "who still sees the commit before counts as it did");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let shard = TestShard::new(&[page("http://a/", "one", "two")]);
        let view = shard.searcher().shared.view();
        let segment = view.segment(0);
        for number in 0..3 * KNOWN_MAX {
            assert_eq!(
                segment.terms.pages(segment.reader, view.fields.words, &number.to_string()).unwrap(),
                0
            );
        }
        assert!(segment.terms.known.read().count <= KNOWN_MAX);
        assert_eq!(segment.terms.pages(segment.reader, view.fields.words, "two").unwrap(), 1);
    }
}
