//! From a question to the terms that answer it.
//!
//! Every wanted word becomes a [`Unit`]: its folded form, or its stem in any language that is likely: the
//! asker's own and those of most pages. What one typed word breaks into several tokens (`std::vec`, `UTF-8`,
//! a run of Chinese) becomes a phrase, because its parts belong together; so does what was quoted.
//!
//! INVARIANT: a plan has at most [`UNITS_MAX`] units of at most [`PHRASE_TOKENS_MAX`] tokens, whatever is asked.
//! Does not touch postings; see [`crate::matching`].

use crate::error::Error;
use crate::rank::fields::idf;
use crate::schema::{Fields, cut};
use crate::searcher::View;
use crate::text::spans::{Script, Spans};
use crate::text::stem::Stemmer;
use crate::text::{Analyser, Role, Tokens, fold, stop};
use farol_base::Language;
use farol_base::query::{self, Filters, Query};
use tantivy::Term;
use tantivy::schema::Field;

/// Words and phrases that are looked for; further ones are ignored.
pub(crate) const UNITS_MAX: usize = 64;

/// Tokens of a phrase that are compared; the rest of a longer one is ignored.
pub(crate) const PHRASE_TOKENS_MAX: usize = 16;

/// Bytes of a typed term that are read.
const TERM_BYTES_MAX: usize = 1024;

/// Languages whose stems are tried for a word: each costs a look into every segment, about 1 µs.
const LANGUAGES_MAX: usize = 12;

/// A language is tried when at least one page in this many is written in it.
const LANGUAGE_SHARE: u64 = 200;

/// One thing to look for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unit {
    pub what: What,
    /// Where it must occur.
    pub place: Place,
    /// How rare it is, see [`idf`].
    pub idf: f32,
    /// How often it was asked for.
    pub count: f32,
    /// A page must contain it, as long as enough pages contain everything.
    pub required: bool,
    /// Pages that contain it, about.
    pub pages: u64,
}

/// A word in its forms, or tokens at fixed distances.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum What {
    Word { form: String, stems: Vec<String> },
    Phrase { parts: Vec<(u32, String)> },
}

/// The fields in which a unit is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub forms: Field,
    pub stems: Option<Field>,
    /// All texts of a page, so that frequency and length count.
    pub everywhere: bool,
}

/// A wanted term as it was typed, for the speller.
#[derive(Clone, Debug)]
pub(crate) struct Typed {
    pub text: String,
    /// Its folded form and how many pages hold it, where it is one plain word.
    pub word: Option<(String, u64)>,
}

/// A question, analysed.
pub(crate) struct Plan {
    pub units: Vec<Unit>,
    /// The units with phrases that were not quoted broken up, for when too few pages match `units`.
    pub loose: Vec<Unit>,
    pub unwanted: Vec<Unit>,
    pub filters: Filters,
    pub typed: Vec<Typed>,
    /// The asker's language.
    pub hint: Option<Language>,
}

impl Plan {
    pub(crate) fn new(view: &View, query: &Query, hint: Option<Language>) -> Result<Plan, Error> {
        let planner = Planner::new(view, hint);
        let mut plan = Plan {
            units: Vec::new(),
            loose: Vec::new(),
            unwanted: Vec::new(),
            filters: query.filters.clone(),
            typed: Vec::new(),
            hint,
        };
        for term in query.wanted.iter().take(UNITS_MAX) {
            planner.add_wanted(term, &mut plan)?;
        }
        for term in query.unwanted.iter().take(UNITS_MAX) {
            plan.unwanted.extend(planner.unit(term, true)?);
        }
        for units in [&mut plan.units, &mut plan.loose] {
            units.truncate(UNITS_MAX);
            // "The who" has nothing but function words, so all of them count.
            if units.iter().all(|unit| !unit.required) {
                units.iter_mut().for_each(|unit| unit.required = true);
            }
        }
        Ok(plan)
    }

    /// Whether there is nothing to look for.
    pub(crate) fn is_empty(&self) -> bool {
        self.units.is_empty() && (!self.typed.is_empty() || self.filters.is_empty())
    }

    /// Whether any word is so rare that it may be a slip.
    pub(crate) fn may_be_misspelt(&self) -> bool {
        self.typed
            .iter()
            .any(|typed| typed.word.as_ref().is_some_and(|(_, pages)| *pages <= crate::spell::RARE_PAGES))
    }
}

struct Planner<'a> {
    view: &'a View,
    fields: Fields,
    stemmers: Vec<Stemmer>,
    /// Languages whose function words are taken as such.
    spoken: Vec<Language>,
    slots: u64,
}

impl<'a> Planner<'a> {
    fn new(view: &'a View, hint: Option<Language>) -> Planner<'a> {
        let common =
            view.languages.iter().filter(|(_, pages)| pages.saturating_mul(LANGUAGE_SHARE) >= view.documents);
        let common = common.map(|(language, _)| *language).filter(|language| Some(*language) != hint);
        let languages: Vec<Language> = hint.into_iter().chain(common).collect();
        let slots = view.searcher.segment_readers().iter().map(|segment| u64::from(segment.max_doc())).sum();
        Planner {
            view,
            fields: view.fields,
            stemmers: languages
                .iter()
                .filter_map(|language| Stemmer::new(*language))
                .take(LANGUAGES_MAX)
                .collect(),
            spoken: languages.into_iter().take(2).collect(),
            slots,
        }
    }

    /// Adds a wanted term to the strict and to the loose units.
    fn add_wanted(&self, term: &query::Term, plan: &mut Plan) -> Result<(), Error> {
        if term.phrase {
            plan.typed.push(Typed { text: format!("\"{}\"", term.text), word: None });
            if let Some(unit) = self.unit(term, true)? {
                add(&mut plan.units, unit.clone());
                add(&mut plan.loose, unit);
            }
            return Ok(());
        }
        for chunk in cut(&term.text, TERM_BYTES_MAX).split_whitespace().take(UNITS_MAX) {
            let mut typed = Typed { text: chunk.to_string(), word: None };
            let chunk = query::Term { text: chunk.to_string(), ..term.clone() };
            if let Some(unit) = self.unit(&chunk, false)? {
                match &unit.what {
                    What::Word { form, .. } => {
                        if term.field == query::Field::Any && form.chars().all(char::is_alphabetic) {
                            typed.word = Some((form.clone(), unit.pages));
                        }
                        add(&mut plan.loose, unit.clone());
                    }
                    What::Phrase { .. } => {
                        for (_, form, lowered) in self.tokens(&chunk.text) {
                            add(&mut plan.loose, self.word(form, &lowered, self.place(term.field))?);
                        }
                    }
                }
                add(&mut plan.units, unit);
            }
            plan.typed.push(typed);
        }
        Ok(())
    }

    /// The unit of a term; none where it has no letter or digit.
    fn unit(&self, term: &query::Term, exact: bool) -> Result<Option<Unit>, Error> {
        let place = self.place(term.field);
        let mut tokens = self.tokens(&term.text);
        tokens.truncate(PHRASE_TOKENS_MAX);
        match tokens.len() {
            0 => Ok(None),
            1 => {
                let (_, form, lowered) = tokens.remove(0);
                self.word(form, if exact && term.phrase { "" } else { &lowered }, place).map(Some)
            }
            _ => {
                let base = tokens[0].0;
                let mut pages = u64::MAX;
                let mut sum = 0.0;
                for (_, form, _) in &tokens {
                    let here = self.pages(place.forms, form)?;
                    pages = pages.min(here);
                    sum += idf(here, self.slots);
                }
                let parts = tokens.into_iter().map(|(at, form, _)| (at - base, form)).collect();
                let what = What::Phrase { parts };
                Ok(Some(Unit { what, place, idf: sum, count: 1.0, required: true, pages }))
            }
        }
    }

    fn word(&self, form: String, lowered: &str, place: Place) -> Result<Unit, Error> {
        let mut stems: Vec<String> = Vec::new();
        if let Some(field) = place.stems {
            for stemmer in &self.stemmers {
                for stem in
                    [Some(stemmer.stem_once(lowered)), stemmer.stem_of_bare(lowered)].into_iter().flatten()
                {
                    if !stem.is_empty() && !stems.contains(&stem) {
                        stems.push(stem);
                    }
                }
            }
            let mut present = Vec::new();
            for stem in stems {
                let pages = self.pages(field, &stem)?;
                if pages > 0 {
                    present.push((stem, pages));
                }
            }
            // Each page has one language, so the pages of different stems are different pages.
            let stemmed = present.iter().map(|(_, pages)| pages).sum::<u64>();
            let pages = self.pages(place.forms, &form)?.max(stemmed).min(self.slots);
            let stems = present.into_iter().map(|(stem, _)| stem).collect();
            let required = !self.spoken.iter().any(|language| stop::is_stop_word(*language, lowered));
            let what = What::Word { form, stems };
            return Ok(Unit { what, place, idf: idf(pages, self.slots), count: 1.0, required, pages });
        }
        let pages = self.pages(place.forms, &form)?;
        let what = What::Word { form, stems };
        Ok(Unit { what, place, idf: idf(pages, self.slots), count: 1.0, required: true, pages })
    }

    fn pages(&self, field: Field, text: &str) -> Result<u64, Error> {
        let term = Term::from_field_text(field, text);
        self.view.searcher.doc_freq(&term).map_err(Error::engine("count the pages of a word"))
    }

    fn place(&self, field: query::Field) -> Place {
        let fields = self.fields;
        match field {
            query::Field::Any => Place { forms: fields.words, stems: Some(fields.stems), everywhere: true },
            query::Field::Title => {
                Place { forms: fields.title, stems: Some(fields.title), everywhere: false }
            }
            query::Field::Url => Place { forms: fields.url, stems: None, everywhere: false },
        }
    }

    /// Positions, folded and lower-cased forms of a typed text, one reading of each word.
    fn tokens(&self, text: &str) -> Vec<(u32, String, String)> {
        let text = cut(text, TERM_BYTES_MAX);
        let mut analyser = Analyser::new(None);
        let mut tokens = Tokens::default();
        let mut position = 0;
        let mut out = Vec::new();
        for span in Spans::new(text) {
            tokens.clear();
            position = analyser.read(text, span, position, &mut tokens);
            let pairs = tokens.as_slice().iter().any(|token| token.role == Role::Pair);
            let role = match (span.script, pairs) {
                (Script::Spaced, _) => Role::Whole,
                (Script::Dense, true) => Role::Pair,
                (Script::Dense, false) => Role::Single,
            };
            for token in tokens.as_slice().iter().filter(|token| token.role == role) {
                let mut lowered = String::new();
                fold::lower(&text[token.start..token.end], &mut lowered);
                out.push((token.position, token.text.clone(), lowered));
            }
        }
        out
    }
}

/// Adds a unit, or counts it once more where it is there already.
fn add(units: &mut Vec<Unit>, unit: Unit) {
    match units.iter_mut().find(|known| known.what == unit.what && known.place == unit.place) {
        Some(known) => known.count += 1.0,
        None => units.push(unit),
    }
}
