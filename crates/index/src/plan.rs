//! Query planning: from a question to the clauses that answer it.
//!
//! Every wanted word becomes a [`Clause`]: its folded form, or its stem in any language that is likely: the
//! asker's own and those of most pages. What one typed word breaks into several tokens (`std::vec`, `UTF-8`,
//! a run of Chinese) becomes a phrase, because its parts belong together; so does what was quoted. A word that ends
//! with `*` becomes all words that begin so; a word with synonyms becomes itself or, for less, any of them.
//!
//! INVARIANT: a plan has at most [`CLAUSES_MAX`] clauses of at most [`PHRASE_TOKENS_MAX`] tokens, whatever is asked.
//! Does not touch postings; see [`crate::matching`].

use crate::error::Error;
use crate::limits::cut;
use crate::rank::fields::{LengthFactors, MeanLengths, idf};
use crate::rank::names::Name;
use crate::schema::Fields;
use crate::statistics::{self, Statistics};
use crate::synonyms::{Synonyms, folded_words};
use crate::text::spans::{Script, Spans};
use crate::text::stem::Stemmer;
use crate::text::{Analyser, Role, Tokens, fold, stop};
use farol_base::query::{self, Filters, Query};
use farol_base::{Language, Languages};
use farol_query::spell::is_rare;
pub(crate) use farol_query::spell::{TypedTerm, TypedWord};
use std::cell::OnceCell;
use tantivy::schema::Field;

/// Words and phrases that are looked for; further ones are ignored.
pub(crate) const CLAUSES_MAX: usize = 64;

/// Tokens of a phrase that are compared; the rest of a longer one is ignored.
pub(crate) const PHRASE_TOKENS_MAX: usize = 16;

/// Bytes of a typed term that are read.
const TERM_BYTES_MAX: usize = 1024;

/// Languages whose stems are tried for a word: each costs a dictionary lookup per segment, about 1 µs.
const LANGUAGES_MAX: usize = 12;

/// Words that a beginning (`word*`) stands for, those on most pages first.
const BEGINNING_WORDS_MAX: usize = 64;

/// Letters of a beginning at least.
const BEGINNING_CHARS_MIN: usize = 2;

/// What a synonym weighs beside the word itself.
const SYNONYM: f32 = 0.5;

/// What a function word weighs beside other words as rare as it is. Measured with `examples/evaluate`: 0, 0.1, 0.3 and 1.
const FUNCTION_WORD: f32 = 0.1;

/// A language is tried when at least one page in this many is written in it.
const LANGUAGE_SHARE: u64 = 200;

/// One thing to look for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Clause {
    pub kind: ClauseKind,
    /// The fields where it must occur.
    pub fields: ClauseFields,
    /// How rare it is, see [`idf`].
    pub idf: f32,
    /// How often it was asked for.
    pub count: f32,
    /// It is no function word: a page that lacks it lacks a word of the question.
    pub required: bool,
    /// No page without it is shown: it was quoted, or wanted in one field.
    pub must: bool,
    /// Pages that contain it, about.
    pub pages: u64,
    /// The same written together or apart, where pages have that; counts a little less.
    pub spellings: Vec<ClauseKind>,
}

/// A word in its forms, tokens at fixed distances, or any of several of these.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum ClauseKind {
    Word {
        form: String,
        stems: Vec<String>,
    },
    Phrase {
        parts: Vec<(u32, String)>,
    },
    /// Each with its weight; the first is what was typed, where that can be found.
    AnyOf(Vec<(ClauseKind, f32)>),
}

impl ClauseKind {
    /// The form of the word that was typed.
    pub(crate) fn form(&self) -> Option<&str> {
        match self {
            ClauseKind::Word { form, .. } => Some(form),
            ClauseKind::Phrase { .. } => None,
            ClauseKind::AnyOf(kinds) => kinds.first().and_then(|(kind, _)| kind.form()),
        }
    }
}

/// The fields in which a clause is matched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClauseFields {
    pub forms: Field,
    pub stems: Option<Field>,
    /// Where it may stand instead, for less: around the main text. Holds words and stems.
    pub rest: Option<Field>,
    /// All texts of a page, so that frequency and length count.
    pub everywhere: Option<Fields>,
}

/// A question, analysed.
pub(crate) struct Plan {
    pub clauses: Vec<Clause>,
    /// The clauses with phrases that were not quoted broken up, for when too few pages match `clauses`.
    pub loose: Vec<Clause>,
    pub unwanted: Vec<Clause>,
    pub filters: Filters,
    pub typed: Vec<TypedTerm>,
    /// The asker's languages.
    pub languages: Languages,
    /// The whole question as a name, where it is nothing but words; see [`crate::rank::names`].
    pub name: Option<Name>,
    /// Pages by which rarity is measured, see [`idf`].
    pub documents: u64,
    /// Usual lengths of fields.
    means: MeanLengths,
    length_factors: OnceCell<Box<LengthFactors>>,
    /// Where to look.
    pub fields: Fields,
}

impl Plan {
    pub(crate) fn new(
        statistics: &dyn Statistics,
        fields: Fields,
        query: &Query,
        asker: Languages,
        synonyms: &Synonyms,
    ) -> Result<Plan, Error> {
        let planner = Planner::new(statistics, fields, asker);
        let mut plan = Plan {
            clauses: Vec::new(),
            loose: Vec::new(),
            unwanted: Vec::new(),
            filters: query.filters.clone(),
            typed: Vec::new(),
            languages: asker,
            name: name_of(query),
            documents: planner.documents,
            means: statistics::means(statistics.sizes()),
            length_factors: OnceCell::new(),
            fields,
        };
        let typed: Vec<query::Term> =
            query.wanted.iter().take(CLAUSES_MAX).flat_map(chunks).take(CLAUSES_MAX).collect();
        let mut others = synonyms_of(&typed, synonyms).into_iter();
        for term in typed {
            planner.add_wanted(term, &others.next().unwrap_or_default(), &mut plan)?;
        }
        planner.join_neighbours(&mut plan)?;
        for term in query.unwanted.iter().take(CLAUSES_MAX) {
            // A word of a menu, which stands on every page of a site, makes none of them unwanted.
            let clause = planner.clause(term, true)?;
            plan.unwanted.extend(clause.map(|mut clause| {
                clause.fields.rest = None;
                clause
            }));
        }
        for clauses in [&mut plan.clauses, &mut plan.loose] {
            clauses.truncate(CLAUSES_MAX);
            weigh_function_words(clauses);
        }
        Ok(plan)
    }

    /// What a word counts in fields of each length.
    pub(crate) fn length_factors(&self) -> &LengthFactors {
        self.length_factors.get_or_init(|| Box::new(LengthFactors::new(self.means)))
    }

    /// Whether there is nothing to look for.
    pub(crate) fn is_empty(&self) -> bool {
        self.clauses.is_empty() && (!self.typed.is_empty() || self.filters.is_empty())
    }

    /// Whether any word is so rare that it may be a slip.
    pub(crate) fn may_be_misspelt(&self, documents: u64) -> bool {
        self.words().any(|word| is_rare(word.pages, documents))
    }

    fn words(&self) -> impl Iterator<Item = &TypedWord> {
        self.typed.iter().filter_map(|typed| typed.word.as_ref())
    }
}

pub(crate) struct Planner<'a> {
    statistics: &'a dyn Statistics,
    fields: Fields,
    stemmers: Vec<Stemmer>,
    /// Languages whose function words are taken as such.
    spoken: Vec<Language>,
    pub documents: u64,
}

impl<'a> Planner<'a> {
    fn new(statistics: &'a dyn Statistics, fields: Fields, asker: Languages) -> Planner<'a> {
        let documents = statistics.sizes().documents;
        let common = statistics.languages().iter();
        let common = common.filter(|(_, pages)| pages.saturating_mul(LANGUAGE_SHARE) >= documents);
        let common = common.map(|(language, _)| *language);
        let common = common.filter(|language| !asker.iter().any(|known| known == *language));
        let languages: Vec<Language> = asker.iter().chain(common).collect();
        Planner {
            statistics,
            fields,
            stemmers: languages
                .iter()
                .filter_map(|language| Stemmer::new(*language))
                .take(LANGUAGES_MAX)
                .collect(),
            spoken: languages.into_iter().take(asker.iter().count() + 1).collect(),
            documents,
        }
    }

    /// Adds a wanted term, a word or a phrase, to the strict and to the loose clauses.
    fn add_wanted(&self, term: query::Term, synonyms: &[&str], plan: &mut Plan) -> Result<(), Error> {
        let mut word = None;
        if let Some(mut clause) = self.clause(&term, term.phrase)? {
            if term.field == query::Field::Any && !term.phrase {
                self.spell(&term.text, &mut clause)?;
            }
            clause.must = term.phrase || term.field != query::Field::Any;
            if let ClauseKind::Word { form, .. } = &clause.kind
                && term.field == query::Field::Any
                && !term.phrase
                && form.chars().all(char::is_alphabetic)
            {
                let as_typed =
                    self.pages(clause.fields.forms, form)?.max(self.pages_around(clause.fields, form)?);
                let has_forms = as_typed < clause.pages;
                word = Some(TypedWord { form: form.clone(), pages: clause.pages, has_forms });
            }
            match &clause.kind {
                // Where too few pages have what was typed together, its parts may be apart.
                ClauseKind::Phrase { .. } if !term.phrase => {
                    for (_, form, lowered) in self.tokens(&term.text) {
                        let part = self.word(form, &lowered, self.fields(term.field))?;
                        let part = Clause { must: clause.must, ..part };
                        add(&mut plan.loose, self.or_synonyms(part, synonyms)?);
                    }
                }
                _ => add(&mut plan.loose, self.or_synonyms(clause.clone(), synonyms)?),
            }
            add(&mut plan.clauses, self.or_synonyms(clause, synonyms)?);
        }
        plan.typed.push(TypedTerm { term, word });
        Ok(())
    }

    /// A clause that other words can stand for.
    fn or_synonyms(&self, clause: Clause, synonyms: &[&str]) -> Result<Clause, Error> {
        let mut kinds = vec![(clause.kind.clone(), 1.0)];
        let mut pages = clause.pages;
        for text in synonyms {
            let term = query::Term { text: text.to_string(), field: query::Field::Any, phrase: false };
            if let Some(other) = self.clause(&term, false)? {
                pages = pages.max(other.pages);
                kinds.push((other.kind, SYNONYM));
            }
        }
        if kinds.len() == 1 {
            return Ok(clause);
        }
        // As rare as the commonest of them: a rare synonym is no reason to rank a page first.
        let idf = clause.idf.min(idf(pages, self.documents));
        Ok(Clause { kind: ClauseKind::AnyOf(kinds), idf, pages, ..clause })
    }

    /// The words that begin as a typed one does, those on most pages first.
    fn beginning(&self, form: &str, fields: ClauseFields) -> Result<Option<Clause>, Error> {
        let mut words = self.statistics.beginning(fields.forms, form)?;
        words.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        words.truncate(BEGINNING_WORDS_MAX);
        let pages = words.iter().map(|(_, pages)| pages).sum::<u64>().min(self.documents);
        let kinds = words.into_iter().map(|(form, _)| (ClauseKind::Word { form, stems: vec![] }, 1.0));
        let kinds: Vec<_> = kinds.collect();
        let clause = Clause {
            kind: ClauseKind::AnyOf(kinds),
            fields,
            idf: idf(pages, self.documents),
            count: 1.0,
            required: true,
            must: false,
            pages,
            spellings: vec![],
        };
        Ok((pages > 0).then_some(clause))
    }

    /// The clause of a term; none where it has no letter or digit.
    fn clause(&self, term: &query::Term, exact: bool) -> Result<Option<Clause>, Error> {
        let fields = self.fields(term.field);
        let mut tokens = self.tokens(&term.text);
        tokens.truncate(PHRASE_TOKENS_MAX);
        match tokens.len() {
            0 => Ok(None),
            1 => {
                let (_, form, lowered) = tokens.remove(0);
                if !term.phrase
                    && term.text.ends_with('*')
                    && form.chars().count() >= BEGINNING_CHARS_MIN
                    && let Some(clause) = self.beginning(&form, fields)?
                {
                    return Ok(Some(clause));
                }
                self.word(form, if exact && term.phrase { "" } else { &lowered }, fields).map(Some)
            }
            _ => {
                let base = tokens[0].0;
                let mut pages = u64::MAX;
                let mut sum = 0.0;
                for (_, form, _) in &tokens {
                    let here = self.pages(fields.forms, form)?;
                    let around = self.pages_around(fields, form)?;
                    pages = pages.min(here.max(around));
                    sum += idf(if here > 0 { here } else { around }, self.documents);
                }
                let parts = tokens.into_iter().map(|(at, form, _)| (at - base, form)).collect();
                let kind = ClauseKind::Phrase { parts };
                Ok(Some(Clause {
                    kind,
                    fields,
                    idf: sum,
                    count: 1.0,
                    required: true,
                    must: false,
                    pages,
                    spellings: vec![],
                }))
            }
        }
    }

    pub(crate) fn word(&self, form: String, lowered: &str, fields: ClauseFields) -> Result<Clause, Error> {
        let mut stems: Vec<String> = Vec::new();
        if let Some(field) = fields.stems {
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
                let (pages, around) = (self.pages(field, &stem)?, self.pages_around(fields, &stem)?);
                if pages > 0 || around > 0 {
                    present.push((stem, pages, around));
                }
            }
            // Each page has one language, so the pages of different stems are different pages.
            let (stemmed, stemmed_around) =
                present.iter().fold((0, 0), |sums, (_, pages, around)| (sums.0 + pages, sums.1 + around));
            let main = self.pages(fields.forms, &form)?.max(stemmed).min(self.documents);
            let around = self.pages_around(fields, &form)?.max(stemmed_around).min(self.documents);
            let stems = present.into_iter().map(|(stem, ..)| stem).collect();
            let required = !self.spoken.iter().any(|language| stop::is_stop_word(*language, lowered));
            let kind = ClauseKind::Word { form, stems };
            // How much a word tells is told by main texts: a menu has its words on every page of a site.
            let idf = idf(if main > 0 { main } else { around }, self.documents);
            let pages = main.max(around);
            return Ok(Clause {
                kind,
                fields,
                idf,
                count: 1.0,
                required,
                must: false,
                pages,
                spellings: vec![],
            });
        }
        let pages = self.pages(fields.forms, &form)?;
        let kind = ClauseKind::Word { form, stems };
        let idf = idf(pages, self.documents);
        Ok(Clause { kind, fields, idf, count: 1.0, required: true, must: false, pages, spellings: vec![] })
    }

    pub(crate) fn pages(&self, field: Field, text: &str) -> Result<u64, Error> {
        self.statistics.pages(field, text)
    }

    /// About how many pages have all parts of a phrase, or a word, and how much that says.
    pub(crate) fn rarity(&self, kind: &ClauseKind, fields: ClauseFields) -> Result<(u64, f32), Error> {
        let mut pages = self.documents;
        match kind {
            ClauseKind::Word { form, .. } => pages = self.pages(fields.forms, form)?,
            ClauseKind::Phrase { parts } => {
                for (_, form) in parts {
                    pages = pages.min(self.pages(fields.forms, form)?);
                }
            }
            ClauseKind::AnyOf(kinds) => {
                pages = 0;
                for (kind, _) in kinds {
                    pages = pages.max(self.rarity(kind, fields)?.0);
                }
            }
        }
        Ok((pages, idf(pages, self.documents)))
    }

    /// Pages that have a word or stem around their main text.
    fn pages_around(&self, fields: ClauseFields, text: &str) -> Result<u64, Error> {
        fields.rest.map_or(Ok(0), |field| self.pages(field, text))
    }

    pub(crate) fn fields(&self, field: query::Field) -> ClauseFields {
        let fields = self.fields;
        match field {
            query::Field::Any => {
                let (stems, rest) = (Some(fields.stems), Some(fields.rest));
                ClauseFields { forms: fields.words, stems, rest, everywhere: Some(fields) }
            }
            query::Field::Title => {
                ClauseFields { forms: fields.title, stems: Some(fields.title), rest: None, everywhere: None }
            }
            query::Field::Url => {
                ClauseFields { forms: fields.url, stems: None, rest: None, everywhere: None }
            }
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

/// Lets pages lack the function words of a question, and in whole sentences the verbs of asking. Neither says much,
/// however rare it is: most pages of an index in several languages lack "cómo".
fn weigh_function_words(clauses: &mut [Clause]) {
    let is_asking =
        |clause: &Clause| !clause.must && clause.kind.form().is_some_and(stop::is_asking) && clause.required;
    let is_sentence = clauses.iter().any(|clause| !clause.required);
    if is_sentence && clauses.iter().any(|clause| clause.required && !is_asking(clause)) {
        clauses.iter_mut().filter(|clause| is_asking(clause)).for_each(|clause| clause.required = false);
    }
    // "The who" has nothing but function words, so all of them count.
    match clauses.iter().all(|clause| !clause.required) {
        true => clauses.iter_mut().for_each(|clause| clause.required = true),
        false => {
            let others = clauses.iter_mut().filter(|clause| !clause.required);
            others.for_each(|clause| clause.idf *= FUNCTION_WORD);
        }
    }
}

/// The words of a wanted term, each by itself; a phrase stays whole.
fn chunks(term: &query::Term) -> Vec<query::Term> {
    if term.phrase {
        return vec![term.clone()];
    }
    let words = cut(&term.text, TERM_BYTES_MAX).split_whitespace();
    words.map(|word| query::Term { text: word.to_string(), ..term.clone() }).collect()
}

/// The synonyms of each typed term; only plain words that follow each other have any.
fn synonyms_of<'s>(typed: &[query::Term], synonyms: &'s Synonyms) -> Vec<Vec<&'s str>> {
    let plain = |term: &query::Term| !term.phrase && term.field == query::Field::Any;
    let mut found = Vec::with_capacity(typed.len());
    for run in typed.chunk_by(|a, b| plain(a) == plain(b)) {
        match plain(&run[0]) {
            true => {
                let words: Vec<String> = run.iter().map(|term| folded_words(&term.text).join(" ")).collect();
                found.extend(synonyms.of_words(&words));
            }
            false => found.resize(found.len() + run.len(), Vec::new()),
        }
    }
    found
}

/// A question that is nothing but words, or one phrase, as a name.
fn name_of(query: &Query) -> Option<Name> {
    let plain = query.wanted.iter().all(|term| term.field == query::Field::Any);
    let words: Vec<&str> = query.wanted.iter().map(|term| cut(&term.text, TERM_BYTES_MAX)).collect();
    Name::of(&words.join(" ")).filter(|_| plain)
}

/// Adds a clause, or counts it once more where it is there already.
fn add(clauses: &mut Vec<Clause>, clause: Clause) {
    match clauses.iter_mut().find(|known| known.kind == clause.kind && known.fields == clause.fields) {
        Some(known) => known.count += 1.0,
        None => clauses.push(clause),
    }
}
