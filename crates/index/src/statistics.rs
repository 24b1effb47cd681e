//! What planning and scoring go by: how large the index is, and how many pages have a word.
//!
//! Shards of one process that are the whole index, mostly one, count for themselves ([`Summed`]). One of several is told
//! what all of them have ([`Told`]), so that it plans and scores as the one index would; before, each has counted what the question may look
//! up ([`Counting`]).
//!
//! INVARIANT: all shards plan the same from the same figures. What a plan of the sums looks up, every shard has counted:
//! no shard has more pages of a word than all together, so that what is looked up for rare words alone is looked up by
//! every shard.

use crate::error::Error;
use crate::rank::fields::MeanLengths;
use crate::searcher::View;
use farol_base::Language;
use farol_query::parts::{Beginning, Counts, Figures, Sizes, WordCount};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::HashMap;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::schema::Field;
use tantivy::{DocId, SegmentReader, Term};

/// Words of a segment's dictionary that are looked at for a beginning: some 5 ms.
const BEGINNING_SCANNED_MAX: usize = 50_000;

/// Words of a beginning that a shard tells, those on most pages first.
const BEGINNING_TOLD_MAX: usize = 512;

/// Most pages have no anchor text; a page with this much, in tokens, has no more than usual.
const ANCHORS_MEAN_MIN: f32 = 20.0;

/// How large the index is, and how many pages have a word.
pub(crate) trait Statistics {
    fn sizes(&self) -> &Sizes;

    /// Pages that have a word in a field.
    fn pages(&self, field: Field, text: &str) -> Result<u64, Error>;

    /// Words that begin so, with their pages, in no special order.
    fn beginning(&self, field: Field, text: &str) -> Result<Vec<(String, u64)>, Error>;

    /// The languages of the pages, most pages first.
    fn languages(&self) -> &[(Language, u64)] {
        &self.sizes().languages
    }
}

/// Usual lengths of fields.
pub(crate) fn means(sizes: &Sizes) -> MeanLengths {
    let [words, title, anchors] =
        sizes.tokens.map(|tokens| (tokens as f32 / sizes.documents.max(1) as f32).max(1.0));
    MeanLengths { words, title, anchors: anchors.max(ANCHORS_MEAN_MIN) }
}

/// Words in the fields of a segment whose lengths count: of pages that are alive, and as exact as their lengths are
/// kept, so that replicas that merged at different times agree. `before` is what was counted before the pages in
/// `deleted` were.
pub(crate) fn tokens(
    segment: &SegmentReader,
    lengths: &[FieldNormReader; 3],
    before: Option<[u64; 3]>,
    deleted: &[DocId],
) -> [u64; 3] {
    std::array::from_fn(|field| {
        let length = |doc: DocId| u64::from(lengths[field].fieldnorm(doc));
        match before {
            Some(before) => before[field] - deleted.iter().map(|doc| length(*doc)).sum::<u64>(),
            None => segment.doc_ids_alive().map(length).sum(),
        }
    })
}

impl Statistics for View {
    fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    fn pages(&self, field: Field, text: &str) -> Result<u64, Error> {
        self.segments().map(|segment| segment.terms.pages(segment.reader, field, text)).sum()
    }

    fn beginning(&self, field: Field, text: &str) -> Result<Vec<(String, u64)>, Error> {
        let mut pages_of: HashMap<String, u64> = HashMap::new();
        for segment in self.searcher.segment_readers() {
            let index = segment.inverted_index(field).map_err(Error::engine("open a segment"))?;
            let range = index.terms().range().ge(text);
            let mut stream = range.into_stream().map_err(Error::engine("list its words"))?;
            let mut scanned = 0;
            while scanned < BEGINNING_SCANNED_MAX
                && let Some((word, info)) = stream.next()
                && word.starts_with(text.as_bytes())
            {
                scanned += 1;
                if let Ok(word) = std::str::from_utf8(word) {
                    *pages_of.entry(word.to_string()).or_default() += u64::from(info.doc_freq);
                }
            }
        }
        let mut words: Vec<(String, u64)> = pages_of.into_iter().collect();
        if self.searcher.segment_readers().iter().all(|segment| !segment.has_deletes()) {
            return Ok(words);
        }
        // Deleted pages are taken off of those that can matter: taking them off of all would read all their pages.
        keep_most(&mut words);
        for (word, pages) in &mut words {
            *pages = 0;
            for segment in self.segments() {
                let index = segment.reader.inverted_index(field).map_err(Error::engine("open a segment"))?;
                let info = index.get_term_info(&Term::from_field_text(field, word));
                let info = info.map_err(|error| Error::engine("count the pages of a word")(error))?;
                if let Some(info) = info {
                    *pages += segment.terms.pages_of(&index, &info)?;
                }
            }
        }
        words.retain(|(_, pages)| *pages > 0);
        Ok(words)
    }
}

/// Leaves the words of a beginning that can matter.
fn keep_most(words: &mut Vec<(String, u64)>) {
    words.sort_unstable_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    words.truncate(BEGINNING_TOLD_MAX);
}

/// Shards of one process that are the whole index together.
pub(crate) struct Summed<'a> {
    pub views: &'a [&'a View],
    /// Of all of them.
    pub sizes: &'a Sizes,
}

impl Statistics for Summed<'_> {
    fn sizes(&self) -> &Sizes {
        self.sizes
    }

    fn pages(&self, field: Field, text: &str) -> Result<u64, Error> {
        self.views.iter().map(|view| view.pages(field, text)).sum()
    }

    fn beginning(&self, field: Field, text: &str) -> Result<Vec<(String, u64)>, Error> {
        let mut pages_of: HashMap<String, u64> = HashMap::new();
        for view in self.views {
            for (word, pages) in view.beginning(field, text)? {
                *pages_of.entry(word).or_default() += pages;
            }
        }
        Ok(pages_of.into_iter().collect())
    }
}

/// Counts the pages of one shard for all of them: planning with it looks up what a plan of the sums will.
pub(crate) struct Counting<'a> {
    view: &'a View,
    /// Of all shards.
    sizes: &'a Sizes,
    words: RefCell<HashMap<(u32, String), u64>>,
    beginnings: RefCell<Vec<Beginning>>,
}

impl<'a> Counting<'a> {
    pub(crate) fn new(view: &'a View, sizes: &'a Sizes) -> Counting<'a> {
        Counting { view, sizes, words: RefCell::default(), beginnings: RefCell::default() }
    }

    /// Everything that was looked up.
    pub(crate) fn counts(self) -> Counts {
        let words = self.words.into_inner().into_iter();
        let words = words.map(|((field, text), pages)| WordCount { field, text, pages });
        let mut beginnings = self.beginnings.into_inner();
        for Beginning { words, .. } in &mut beginnings {
            keep_most(words);
        }
        Counts::new(words.collect(), beginnings)
    }
}

impl Statistics for Counting<'_> {
    fn sizes(&self) -> &Sizes {
        self.sizes
    }

    fn pages(&self, field: Field, text: &str) -> Result<u64, Error> {
        let key = (field.field_id(), text.to_string());
        if let Some(pages) = self.words.borrow().get(&key) {
            return Ok(*pages);
        }
        let pages = self.view.pages(field, text)?;
        self.words.borrow_mut().insert(key, pages);
        Ok(pages)
    }

    fn beginning(&self, field: Field, text: &str) -> Result<Vec<(String, u64)>, Error> {
        let (field_id, mut beginnings) = (field.field_id(), self.beginnings.borrow_mut());
        if let Some(known) = beginnings.iter().find(|known| known.field == field_id && known.text == text) {
            return Ok(known.words.clone());
        }
        let words = self.view.beginning(field, text)?;
        beginnings.push(Beginning { field: field_id, text: text.to_string(), words: words.clone() });
        Ok(words)
    }
}

/// What all shards have together, as it came with the question.
pub(crate) struct Told<'a>(pub &'a Figures);

impl Statistics for Told<'_> {
    fn sizes(&self) -> &Sizes {
        &self.0.sizes
    }

    fn pages(&self, field: Field, text: &str) -> Result<u64, Error> {
        Ok(self.0.counts.pages(field.field_id(), text))
    }

    fn beginning(&self, field: Field, text: &str) -> Result<Vec<(String, u64)>, Error> {
        Ok(self.0.counts.beginning(field.field_id(), text).to_vec())
    }
}
