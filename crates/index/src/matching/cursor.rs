//! Postings cursors: iterate over the pages of a segment that match a clause.
//!
//! A clause is the union of what may stand for it: its form and its stems, each in several fields, and the same word
//! written together or apart. INVARIANT: pages come in growing order, and an open cursor is on its first page.

use crate::error::Error;
use crate::plan::{Clause, ClauseKind};
use crate::rank::fields::{Bm25, SPELLING_SHARE, STEM_SHARE, TextField};
use crate::searcher::SegmentView;
use tantivy::postings::{Postings, SegmentPostings, TermInfo};
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocId, DocSet, TERMINATED};

/// The pages of one clause, one after the other.
pub(crate) struct Cursor {
    /// By field; those of a field stand together.
    parts: Vec<CursorPart>,
    /// Of each part; none until it is opened. All in one piece of memory: each is larger than allocators like.
    postings: Vec<Option<PartPostings>>,
    doc: DocId,
}

struct CursorPart {
    field: TextField,
    stands_as: StandsAs,
    /// What it counts beside the word that was typed, where it stands in its stead.
    weight: f32,
    /// Its pages are pages of the cursor; the others only add to the score of pages that come up anyway.
    drives: bool,
    /// Where its postings are; none where they are opened already.
    term: Option<(Field, TermInfo)>,
}

/// What a part is of the clause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StandsAs {
    Form,
    Stem,
    /// The same written otherwise, or a synonym.
    Instead,
}

#[allow(clippy::large_enum_variant, reason = "most of them are the large ones")]
enum PartPostings {
    Term(SegmentPostings),
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
    /// Opens a clause in a segment; none where no page of it can have the clause. Before the first page is scored,
    /// [`Cursor::open_rest`] is called.
    pub(crate) fn open(segment: SegmentView<'_>, clause: &Clause) -> Result<Option<Cursor>, Error> {
        let mut found = FoundParts::default();
        for place in places(clause) {
            found.look_in(segment, &clause.kind, place, 1.0)?;
            for spelling in &clause.spellings {
                found.look_in(segment, spelling, place, SPELLING_SHARE)?;
            }
        }
        let FoundParts { parts, phrases } = found;
        if !parts.iter().any(|part| part.drives) {
            return Ok(None);
        }
        let mut cursor = Cursor { postings: Vec::with_capacity(parts.len()), parts, doc: TERMINATED };
        let mut phrases = phrases.into_iter();
        for part in &mut cursor.parts {
            let postings = match part.term.take_if(|_| part.drives) {
                Some((field, term)) => Some(open_term(segment, field, &term)?),
                None if part.term.is_none() => {
                    phrases.next().map(|phrase| PartPostings::Phrase(Box::new(phrase)))
                }
                None => None,
            };
            cursor.postings.push(postings);
        }
        cursor.update_doc();
        Ok((cursor.doc != TERMINATED).then_some(cursor))
    }

    /// Opens what only adds to scores.
    pub(crate) fn open_rest(&mut self, segment: SegmentView<'_>) -> Result<(), Error> {
        for (part, postings) in self.parts.iter_mut().zip(&mut self.postings) {
            if let Some((field, term)) = part.term.take() {
                *postings = Some(open_term(segment, field, &term)?);
            }
        }
        Ok(())
    }

    /// Whether any page of a segment may have the clause, by its dictionaries alone.
    pub(crate) fn can_open(segment: SegmentView<'_>, clause: &Clause) -> Result<bool, Error> {
        for place in places(clause).into_iter().filter(|place| place.drives) {
            for kind in std::iter::once(&clause.kind).chain(&clause.spellings) {
                if can_open_in(segment, kind, place)? {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The current page; `TERMINATED` after the last.
    pub(crate) fn doc(&self) -> DocId {
        self.doc
    }

    /// Goes to the next page.
    pub(crate) fn advance(&mut self) -> DocId {
        let doc = self.doc;
        for postings in self.driving().filter(|postings| postings.doc() == doc) {
            postings.advance();
        }
        self.update_doc()
    }

    /// Goes to the first page at or after `target`; stays where it is already beyond.
    pub(crate) fn seek(&mut self, target: DocId) -> DocId {
        if self.doc >= target {
            return self.doc;
        }
        for postings in self.driving() {
            postings.seek(target);
        }
        self.update_doc()
    }

    /// How often the current page has the clause, each time weighed by its field; other forms of a word count less.
    pub(crate) fn frequency(&mut self, bm25: &Bm25<'_>) -> f32 {
        debug_assert!(self.parts.iter().all(|part| part.term.is_none()), "scored before all was open");
        let doc = self.doc;
        let mut sum = 0.0;
        let mut at = 0;
        while at < self.parts.len() {
            let field = self.parts[at].field;
            let (mut form, mut stems, mut instead) = (0, 0, 0.0f32);
            while let Some(part) = self.parts.get(at).filter(|part| part.field == field) {
                at += 1;
                if let Some(postings) = &mut self.postings[at - 1]
                    && postings.seek(doc) == doc
                {
                    let frequency = postings.frequency();
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
    pub(crate) fn cost(&mut self) -> u64 {
        self.driving().map(|postings| postings.cost()).sum()
    }

    /// The current page is the least of all postings (a union).
    fn update_doc(&mut self) -> DocId {
        self.doc = self.driving().map(|postings| postings.doc()).min().unwrap_or(TERMINATED);
        self.doc
    }

    fn driving(&mut self) -> impl Iterator<Item = &mut PartPostings> {
        let parts = self.parts.iter().zip(&mut self.postings);
        parts.filter(|(part, _)| part.drives).filter_map(|(_, postings)| postings.as_mut())
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

/// Opens the pages of a word with how often each has it.
fn open_term(segment: SegmentView<'_>, field: Field, term: &TermInfo) -> Result<PartPostings, Error> {
    segment.open_at(field, term, IndexRecordOption::WithFreqs).map(PartPostings::Term)
}

/// The parts of a cursor that a segment has.
#[derive(Default)]
struct FoundParts {
    parts: Vec<CursorPart>,
    /// Those of the parts without a term, in their order.
    phrases: Vec<PhraseCursor>,
}

impl FoundParts {
    /// Looks a word or a phrase up in one field; with a weight below 1 it stands in the stead of what was typed.
    fn look_in(
        &mut self,
        segment: SegmentView<'_>,
        kind: &ClauseKind,
        place: Place,
        weight: f32,
    ) -> Result<(), Error> {
        match kind {
            ClauseKind::AnyOf(kinds) => {
                for (kind, share) in kinds {
                    self.look_in(segment, kind, place, weight * share)?;
                }
            }
            ClauseKind::Word { form, stems } => {
                let term = segment.find(place.forms, form)?;
                self.add(place, StandsAs::Form, weight, term.map(|term| (place.forms, term)));
                for stem in place.stems.iter().flat_map(|_| stems) {
                    if let Some(field) = place.stems {
                        let term = segment.find(field, stem)?;
                        self.add(place, StandsAs::Stem, weight, term.map(|term| (field, term)));
                    }
                }
            }
            // Phrases of titles and addresses are phrases of `words`.
            ClauseKind::Phrase { .. } if !place.drives => {}
            ClauseKind::Phrase { parts: tokens } => {
                let mut open_parts = Vec::new();
                for (offset, form) in tokens {
                    let option = IndexRecordOption::WithFreqsAndPositions;
                    let Some(postings) = segment.open(place.forms, form, option)? else { return Ok(()) };
                    open_parts.push(PhrasePart { offset: *offset, postings, positions: vec![] });
                }
                if let Some(phrase) = PhraseCursor::new(open_parts) {
                    self.phrases.push(phrase);
                    self.push(place, StandsAs::Form, weight, None);
                }
            }
        }
        Ok(())
    }

    fn add(&mut self, place: Place, stands_as: StandsAs, weight: f32, term: Option<(Field, TermInfo)>) {
        if term.is_some() {
            self.push(place, stands_as, weight, term);
        }
    }

    fn push(&mut self, place: Place, stands_as: StandsAs, weight: f32, term: Option<(Field, TermInfo)>) {
        let stands_as = if weight < 1.0 { StandsAs::Instead } else { stands_as };
        self.parts.push(CursorPart { field: place.field, stands_as, weight, drives: place.drives, term });
    }
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

/// Whether a segment has what a word or a phrase needs in one field.
fn can_open_in(segment: SegmentView<'_>, kind: &ClauseKind, place: Place) -> Result<bool, Error> {
    match kind {
        ClauseKind::AnyOf(kinds) => {
            for (kind, _) in kinds {
                if can_open_in(segment, kind, place)? {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        ClauseKind::Word { form, stems } => {
            if segment.has(place.forms, form)? {
                return Ok(true);
            }
            for stem in stems {
                if let Some(field) = place.stems
                    && segment.has(field, stem)?
                {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        ClauseKind::Phrase { parts } => {
            for (_, form) in parts {
                if !segment.has(place.forms, form)? {
                    return Ok(false);
                }
            }
            Ok(true)
        }
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
