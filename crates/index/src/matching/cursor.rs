//! Walks the pages of a segment that have a unit.
//!
//! INVARIANT: pages come in growing order, and a cursor that is open stands on its first page.

use crate::error::Error;
use crate::plan::{Unit, What};
use crate::rank::fields::STEM_SHARE;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, SegmentReader, TERMINATED, Term};

/// The pages of one unit, one after the other.
pub(crate) enum Cursor {
    Word(Box<WordCursor>),
    Phrase(PhraseCursor),
}

impl Cursor {
    /// Opens a unit in a segment; none where no page of it can have the unit.
    pub(crate) fn open(segment: &SegmentReader, unit: &Unit) -> Result<Option<Cursor>, Error> {
        match &unit.what {
            What::Word { form, stems } => {
                let forms = open(segment, unit.place.forms, form, IndexRecordOption::WithFreqs)?;
                let mut others = Vec::new();
                if let Some(field) = unit.place.stems {
                    for stem in stems {
                        others.extend(open(segment, field, stem, IndexRecordOption::WithFreqs)?);
                    }
                }
                Ok(WordCursor::new(forms, others).map(|word| Cursor::Word(Box::new(word))))
            }
            What::Phrase { parts } => {
                let mut open_parts = Vec::new();
                for (offset, form) in parts {
                    let option = IndexRecordOption::WithFreqsAndPositions;
                    match open(segment, unit.place.forms, form, option)? {
                        Some(postings) => {
                            open_parts.push(Part { offset: *offset, postings, positions: vec![] })
                        }
                        None => return Ok(None),
                    }
                }
                Ok(PhraseCursor::new(open_parts).map(Cursor::Phrase))
            }
        }
    }

    /// The page it stands on; `TERMINATED` after the last.
    pub(crate) fn doc(&self) -> DocId {
        match self {
            Cursor::Word(word) => word.doc,
            Cursor::Phrase(phrase) => phrase.doc,
        }
    }

    pub(crate) fn advance(&mut self) -> DocId {
        match self {
            Cursor::Word(word) => word.advance(),
            Cursor::Phrase(phrase) => phrase.advance(),
        }
    }

    /// Goes to the first page at or after `target`; stays where it is already beyond.
    pub(crate) fn seek(&mut self, target: DocId) -> DocId {
        match self {
            Cursor::Word(word) => word.seek(target),
            Cursor::Phrase(phrase) => phrase.seek(target),
        }
    }

    /// How often the page it stands on has the unit; other forms of a word count less.
    pub(crate) fn frequency(&self) -> f32 {
        match self {
            Cursor::Word(word) => word.frequency(),
            Cursor::Phrase(phrase) => phrase.frequency as f32,
        }
    }

    /// Pages to walk through, at most.
    pub(crate) fn cost(&self) -> u64 {
        match self {
            Cursor::Word(word) => {
                word.forms.iter().chain(&word.stems).map(|postings| u64::from(postings.doc_freq())).sum()
            }
            Cursor::Phrase(phrase) => {
                phrase.parts.first().map_or(0, |part| u64::from(part.postings.doc_freq()))
            }
        }
    }
}

/// Opens the postings of a term.
pub(crate) fn open(
    segment: &SegmentReader,
    field: Field,
    text: &str,
    option: IndexRecordOption,
) -> Result<Option<SegmentPostings>, Error> {
    let index = segment.inverted_index(field).map_err(Error::engine("open a segment"))?;
    let term = Term::from_field_text(field, text);
    index.read_postings(&term, option).map_err(Error::engine("read the pages of a word"))
}

/// A word as it stands, or as a stem of any language.
pub(crate) struct WordCursor {
    forms: Option<SegmentPostings>,
    stems: Vec<SegmentPostings>,
    doc: DocId,
}

impl WordCursor {
    fn new(forms: Option<SegmentPostings>, stems: Vec<SegmentPostings>) -> Option<WordCursor> {
        let mut cursor = WordCursor { forms, stems, doc: TERMINATED };
        cursor.settle();
        (cursor.doc != TERMINATED).then_some(cursor)
    }

    fn settle(&mut self) -> DocId {
        self.doc = self.forms.iter().chain(&self.stems).map(|p| p.doc()).min().unwrap_or(TERMINATED);
        self.doc
    }

    fn advance(&mut self) -> DocId {
        for postings in self.forms.iter_mut().chain(&mut self.stems) {
            if postings.doc() == self.doc {
                postings.advance();
            }
        }
        self.settle()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        for postings in self.forms.iter_mut().chain(&mut self.stems) {
            if postings.doc() < target {
                postings.seek(target);
            }
        }
        self.settle()
    }

    fn frequency(&self) -> f32 {
        let here = |postings: &SegmentPostings| {
            if postings.doc() == self.doc { postings.term_freq() } else { 0 }
        };
        let exact = self.forms.as_ref().map_or(0, here);
        // A page's stems include the stems of its exact forms.
        let all = self.stems.iter().map(here).sum::<u32>().max(exact);
        (1.0 - STEM_SHARE) * exact as f32 + STEM_SHARE * all as f32
    }
}

struct Part {
    offset: u32,
    postings: SegmentPostings,
    positions: Vec<u32>,
}

/// Tokens at fixed distances from each other.
pub(crate) struct PhraseCursor {
    /// The rarest part first.
    parts: Vec<Part>,
    doc: DocId,
    frequency: u32,
}

impl PhraseCursor {
    fn new(mut parts: Vec<Part>) -> Option<PhraseCursor> {
        parts.sort_by_key(|part| part.postings.doc_freq());
        let doc = parts.first()?.postings.doc();
        let mut cursor = PhraseCursor { parts, doc, frequency: 0 };
        cursor.settle();
        (cursor.doc != TERMINATED).then_some(cursor)
    }

    fn advance(&mut self) -> DocId {
        if self.doc != TERMINATED {
            self.doc = self.parts[0].postings.advance();
            self.settle();
        }
        self.doc
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc < target {
            self.doc = self.parts[0].postings.seek(target);
            self.settle();
        }
        self.doc
    }

    /// Goes on from the lead's page to the first one with the whole phrase.
    fn settle(&mut self) {
        'pages: while self.doc != TERMINATED {
            for at in 1..self.parts.len() {
                let postings = &mut self.parts[at].postings;
                let found = if postings.doc() < self.doc { postings.seek(self.doc) } else { postings.doc() };
                if found != self.doc {
                    self.doc =
                        if found == TERMINATED { TERMINATED } else { self.parts[0].postings.seek(found) };
                    continue 'pages;
                }
            }
            self.frequency = self.count();
            if self.frequency > 0 {
                return;
            }
            self.doc = self.parts[0].postings.advance();
        }
    }

    /// How often the parts stand in their order on the page where all of them are.
    fn count(&mut self) -> u32 {
        for part in &mut self.parts {
            part.postings.positions(&mut part.positions);
        }
        let (lead, others) = match self.parts.split_first() {
            Some(split) => split,
            None => return 0,
        };
        let starts = lead.positions.iter().filter_map(|position| position.checked_sub(lead.offset));
        let whole = starts.filter(|start| {
            others.iter().all(|part| part.positions.binary_search(&(start + part.offset)).is_ok())
        });
        whole.count() as u32
    }
}
