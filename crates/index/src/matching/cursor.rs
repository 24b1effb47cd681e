//! Postings cursors: iterate over the pages of a segment that match a clause.
//!
//! A clause is the union of what may stand for it: its form and its stems, each in several fields, and the same word
//! written together or apart. INVARIANT: pages come in growing order, and an open cursor is on its first page.

use crate::error::Error;
use crate::plan::{Clause, ClauseKind};
use crate::rank::fields::{Bm25, SPELLING_SHARE, STEM_SHARE, TextField};
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, SegmentReader, TERMINATED, Term};

/// The pages of one clause, one after the other.
pub(crate) struct Cursor {
    /// By field; those of a field stand together.
    parts: Vec<CursorPart>,
    doc: DocId,
}

struct CursorPart {
    field: TextField,
    stands_as: StandsAs,
    /// What it counts beside the word that was typed, where it stands in its stead.
    weight: f32,
    /// Its pages are pages of the cursor; the others only add to the score of pages that come up anyway.
    drives: bool,
    postings: PartPostings,
}

/// What a part is of the clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StandsAs {
    Form,
    Stem,
    /// The same written otherwise, or a synonym.
    Instead,
}

enum PartPostings {
    Term(Box<SegmentPostings>),
    Phrase(Box<PhraseCursor>),
}

/// A field in which a clause is looked for.
#[derive(Clone, Copy)]
struct Place {
    field: TextField,
    forms: Field,
    stems: Option<Field>,
    drives: bool,
}

impl Cursor {
    /// Opens a clause in a segment; none where no page of it can have the clause.
    pub(crate) fn open(segment: &SegmentReader, clause: &Clause) -> Result<Option<Cursor>, Error> {
        let mut parts = Vec::new();
        for place in places(clause) {
            open_in(segment, &clause.kind, place, 1.0, &mut parts)?;
            for spelling in &clause.spellings {
                open_in(segment, spelling, place, SPELLING_SHARE, &mut parts)?;
            }
        }
        let mut cursor = Cursor { parts, doc: TERMINATED };
        cursor.update_doc();
        Ok((cursor.doc != TERMINATED).then_some(cursor))
    }

    /// The current page; `TERMINATED` after the last.
    pub(crate) fn doc(&self) -> DocId {
        self.doc
    }

    /// Goes to the next page.
    pub(crate) fn advance(&mut self) -> DocId {
        for part in self.parts.iter_mut().filter(|part| part.drives) {
            if part.postings.doc() == self.doc {
                part.postings.advance();
            }
        }
        self.update_doc()
    }

    /// Goes to the first page at or after `target`; stays where it is already beyond.
    pub(crate) fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        for part in self.parts.iter_mut().filter(|part| part.drives) {
            part.postings.seek(target);
        }
        self.update_doc()
    }

    /// How often the current page has the clause, each time weighed by its field; other forms of a word count less.
    pub(crate) fn frequency(&mut self, bm25: &Bm25) -> f32 {
        let doc = self.doc;
        let mut sum = 0.0;
        let mut at = 0;
        while at < self.parts.len() {
            let field = self.parts[at].field;
            let (mut form, mut stems, mut instead) = (0, 0, 0.0f32);
            while let Some(part) = self.parts.get_mut(at).filter(|part| part.field == field) {
                at += 1;
                if part.postings.seek(doc) == doc {
                    let frequency = part.postings.frequency();
                    match part.stands_as {
                        StandsAs::Form => form += frequency,
                        StandsAs::Stem => stems += frequency,
                        StandsAs::Instead => instead = instead.max(part.weight * frequency as f32),
                    }
                }
            }
            // A page's stems include the stems of its exact forms.
            let all = stems.max(form);
            if all > 0 || instead > 0.0 {
                let own = (1.0 - STEM_SHARE) * form as f32 + STEM_SHARE * all as f32;
                sum += own.max(instead) * bm25.factor(field, doc);
            }
        }
        sum
    }

    /// Pages to iterate over, at most.
    pub(crate) fn cost(&self) -> u64 {
        self.parts.iter().filter(|part| part.drives).map(|part| part.postings.cost()).sum()
    }

    /// The current page is the least of all postings (a union).
    fn update_doc(&mut self) -> DocId {
        let driving = self.parts.iter().filter(|part| part.drives);
        self.doc = driving.map(|part| part.postings.doc()).min().unwrap_or(TERMINATED);
        self.doc
    }
}

/// The fields of a clause. Title and address are in `words` already and only weigh more by their own.
fn places(clause: &Clause) -> Vec<Place> {
    let fields = clause.fields;
    let place = |field, forms, stems, drives| Place { field, forms, stems, drives };
    let mut places = vec![place(TextField::Words, fields.forms, fields.stems, true)];
    if let Some(all) = fields.everywhere {
        places.push(place(TextField::Title, all.title, Some(all.title), false));
        places.push(place(TextField::Anchors, all.anchors, Some(all.anchors), true));
        places.push(place(TextField::Url, all.url, None, false));
    }
    places.extend(fields.rest.map(|rest| place(TextField::Rest, rest, Some(rest), true)));
    places
}

/// Opens a word or a phrase in one field; with a weight below 1 it stands in the stead of what was typed.
fn open_in(
    segment: &SegmentReader,
    kind: &ClauseKind,
    place: Place,
    weight: f32,
    parts: &mut Vec<CursorPart>,
) -> Result<(), Error> {
    let mut add = |stands_as, postings| {
        let stands_as = if weight < 1.0 { StandsAs::Instead } else { stands_as };
        parts.push(CursorPart { field: place.field, stands_as, weight, drives: place.drives, postings });
    };
    match kind {
        ClauseKind::AnyOf(kinds) => {
            for (kind, share) in kinds {
                open_in(segment, kind, place, weight * share, parts)?;
            }
        }
        ClauseKind::Word { form, stems } => {
            let option = IndexRecordOption::WithFreqs;
            if let Some(postings) = open(segment, place.forms, form, option)? {
                add(StandsAs::Form, PartPostings::Term(Box::new(postings)));
            }
            for stem in place.stems.iter().flat_map(|_| stems) {
                if let Some(field) = place.stems
                    && let Some(postings) = open(segment, field, stem, option)?
                {
                    add(StandsAs::Stem, PartPostings::Term(Box::new(postings)));
                }
            }
        }
        // Phrases of titles and addresses are phrases of `words`.
        ClauseKind::Phrase { .. } if !place.drives => {}
        ClauseKind::Phrase { parts: tokens } => {
            let mut open_parts = Vec::new();
            for (offset, form) in tokens {
                let option = IndexRecordOption::WithFreqsAndPositions;
                let Some(postings) = open(segment, place.forms, form, option)? else { return Ok(()) };
                open_parts.push(PhrasePart { offset: *offset, postings, positions: vec![] });
            }
            if let Some(phrase) = PhraseCursor::new(open_parts) {
                add(StandsAs::Form, PartPostings::Phrase(Box::new(phrase)));
            }
        }
    }
    Ok(())
}

impl PartPostings {
    fn doc(&self) -> DocId {
        match self {
            PartPostings::Term(term) => term.doc(),
            PartPostings::Phrase(phrase) => phrase.doc,
        }
    }

    fn advance(&mut self) -> DocId {
        match self {
            PartPostings::Term(term) => term.advance(),
            PartPostings::Phrase(phrase) => phrase.advance(),
        }
    }

    /// Stays where it is already beyond.
    fn seek(&mut self, target: DocId) -> DocId {
        match self {
            PartPostings::Term(term) if term.doc() >= target => term.doc(),
            PartPostings::Term(term) => term.seek(target),
            PartPostings::Phrase(phrase) => phrase.seek(target),
        }
    }

    fn frequency(&self) -> u32 {
        match self {
            PartPostings::Term(term) => term.term_freq(),
            PartPostings::Phrase(phrase) => phrase.frequency,
        }
    }

    fn cost(&self) -> u64 {
        match self {
            PartPostings::Term(term) => u64::from(term.doc_freq()),
            PartPostings::Phrase(phrase) => {
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
