//! Postings cursors: iterate over the pages of a segment that match a clause.
//!
//! INVARIANT: pages come in growing order, and an open cursor is on its first page.

use crate::error::Error;
use crate::plan::{Clause, ClauseKind};
use crate::rank::fields::{REST_SHARE, STEM_SHARE};
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, SegmentReader, TERMINATED, Term};

/// The pages of one clause, one after the other.
pub(crate) enum Cursor {
    Word(Box<WordCursor>),
    Phrase(PhraseCursor),
    AnyOf(UnionCursor),
}

impl Cursor {
    /// Opens a clause in a segment; none where no page of it can have the clause.
    pub(crate) fn open(segment: &SegmentReader, clause: &Clause) -> Result<Option<Cursor>, Error> {
        let fields = clause.fields;
        let main = Cursor::open_in(segment, &clause.kind, fields.forms, fields.stems)?;
        let Some(rest) = fields.rest else { return Ok(main) };
        let rest = Cursor::open_in(segment, &clause.kind, rest, Some(rest))?;
        Ok(match (main, rest) {
            (main, None) => main,
            (main, Some(rest)) => {
                let both = main.map(|main| (main, 1.0)).into_iter().chain([(rest, REST_SHARE)]);
                UnionCursor::new(both.collect()).map(Cursor::AnyOf)
            }
        })
    }

    /// Opens what is looked for in one field of words and one of stems.
    fn open_in(
        segment: &SegmentReader,
        kind: &ClauseKind,
        forms_field: Field,
        stems_field: Option<Field>,
    ) -> Result<Option<Cursor>, Error> {
        match kind {
            ClauseKind::AnyOf(kinds) => {
                let mut cursors = Vec::new();
                for (kind, weight) in kinds {
                    let cursor = Cursor::open_in(segment, kind, forms_field, stems_field)?;
                    cursors.extend(cursor.map(|cursor| (cursor, *weight)));
                }
                Ok(UnionCursor::new(cursors).map(Cursor::AnyOf))
            }
            ClauseKind::Word { form, stems } => {
                let forms = open(segment, forms_field, form, IndexRecordOption::WithFreqs)?;
                let mut others = Vec::new();
                if let Some(field) = stems_field {
                    for stem in stems {
                        others.extend(open(segment, field, stem, IndexRecordOption::WithFreqs)?);
                    }
                }
                Ok(WordCursor::new(forms, others).map(|word| Cursor::Word(Box::new(word))))
            }
            ClauseKind::Phrase { parts } => {
                let mut open_parts = Vec::new();
                for (offset, form) in parts {
                    let option = IndexRecordOption::WithFreqsAndPositions;
                    match open(segment, forms_field, form, option)? {
                        Some(postings) => {
                            open_parts.push(PhrasePart { offset: *offset, postings, positions: vec![] })
                        }
                        None => return Ok(None),
                    }
                }
                Ok(PhraseCursor::new(open_parts).map(Cursor::Phrase))
            }
        }
    }

    /// The current page; `TERMINATED` after the last.
    pub(crate) fn doc(&self) -> DocId {
        match self {
            Cursor::Word(word) => word.doc,
            Cursor::Phrase(phrase) => phrase.doc,
            Cursor::AnyOf(union) => union.doc,
        }
    }

    /// Goes to the next page.
    pub(crate) fn advance(&mut self) -> DocId {
        match self {
            Cursor::Word(word) => word.advance(),
            Cursor::Phrase(phrase) => phrase.advance(),
            Cursor::AnyOf(union) => union.advance(),
        }
    }

    /// Goes to the first page at or after `target`; stays where it is already beyond.
    pub(crate) fn seek(&mut self, target: DocId) -> DocId {
        match self {
            Cursor::Word(word) => word.seek(target),
            Cursor::Phrase(phrase) => phrase.seek(target),
            Cursor::AnyOf(union) => union.seek(target),
        }
    }

    /// How often the current page has the clause; other forms of a word count less.
    pub(crate) fn frequency(&self) -> f32 {
        match self {
            Cursor::Word(word) => word.frequency(),
            Cursor::Phrase(phrase) => phrase.frequency as f32,
            Cursor::AnyOf(union) => union.frequency(),
        }
    }

    /// Pages to iterate over, at most.
    pub(crate) fn cost(&self) -> u64 {
        match self {
            Cursor::Word(word) => {
                word.forms.iter().chain(&word.stems).map(|postings| u64::from(postings.doc_freq())).sum()
            }
            Cursor::Phrase(phrase) => {
                phrase.parts.first().map_or(0, |part| u64::from(part.postings.doc_freq()))
            }
            Cursor::AnyOf(union) => union.cursors.iter().map(|(cursor, _)| cursor.cost()).sum(),
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

/// A word as written, or as a stem of any language.
pub(crate) struct WordCursor {
    forms: Option<SegmentPostings>,
    stems: Vec<SegmentPostings>,
    doc: DocId,
}

impl WordCursor {
    fn new(forms: Option<SegmentPostings>, stems: Vec<SegmentPostings>) -> Option<WordCursor> {
        let mut cursor = WordCursor { forms, stems, doc: TERMINATED };
        cursor.update_doc();
        (cursor.doc != TERMINATED).then_some(cursor)
    }

    /// The current page is the least of all postings (a union).
    fn update_doc(&mut self) -> DocId {
        self.doc = self.forms.iter().chain(&self.stems).map(|p| p.doc()).min().unwrap_or(TERMINATED);
        self.doc
    }

    fn advance(&mut self) -> DocId {
        for postings in self.forms.iter_mut().chain(&mut self.stems) {
            if postings.doc() == self.doc {
                postings.advance();
            }
        }
        self.update_doc()
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
        self.update_doc()
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

/// Any of several cursors, each with its weight: other words for one, or a clause in the main text of a page or, for
/// less, in what stands around it.
pub(crate) struct UnionCursor {
    cursors: Vec<(Cursor, f32)>,
    doc: DocId,
}

impl UnionCursor {
    fn new(cursors: Vec<(Cursor, f32)>) -> Option<UnionCursor> {
        let mut union = UnionCursor { cursors, doc: TERMINATED };
        union.update_doc();
        (union.doc != TERMINATED).then_some(union)
    }

    fn update_doc(&mut self) -> DocId {
        self.doc = self.cursors.iter().map(|(cursor, _)| cursor.doc()).min().unwrap_or(TERMINATED);
        self.doc
    }

    fn advance(&mut self) -> DocId {
        for (cursor, _) in &mut self.cursors {
            if cursor.doc() == self.doc && self.doc != TERMINATED {
                cursor.advance();
            }
        }
        self.update_doc()
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc < target {
            for (cursor, _) in &mut self.cursors {
                cursor.seek(target);
            }
            self.update_doc();
        }
        self.doc
    }

    fn frequency(&self) -> f32 {
        let here = self.cursors.iter().filter(|(cursor, _)| cursor.doc() == self.doc);
        here.map(|(cursor, weight)| weight * cursor.frequency()).sum()
    }
}

struct PhrasePart {
    offset: u32,
    postings: SegmentPostings,
    positions: Vec<u32>,
}

/// Tokens at fixed distances from each other.
pub(crate) struct PhraseCursor {
    /// The rarest part first.
    parts: Vec<PhrasePart>,
    doc: DocId,
    frequency: u32,
}

impl PhraseCursor {
    fn new(mut parts: Vec<PhrasePart>) -> Option<PhraseCursor> {
        parts.sort_by_key(|part| part.postings.doc_freq());
        let doc = parts.first()?.postings.doc();
        let mut cursor = PhraseCursor { parts, doc, frequency: 0 };
        cursor.seek_match();
        (cursor.doc != TERMINATED).then_some(cursor)
    }

    fn advance(&mut self) -> DocId {
        if self.doc != TERMINATED {
            self.doc = self.parts[0].postings.advance();
            self.seek_match();
        }
        self.doc
    }

    fn seek(&mut self, target: DocId) -> DocId {
        if self.doc < target {
            self.doc = self.parts[0].postings.seek(target);
            self.seek_match();
        }
        self.doc
    }

    /// Goes on from the lead's page to the first one with the whole phrase (an intersection).
    fn seek_match(&mut self) {
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

    /// How often the page with all parts has them at their offsets.
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
