//! A question and its answer, as they travel between front, cache and index.
//!
//! The text of a question is read by `farol_query`; the index answers a [`Query`] with an [`Answer`].

use crate::{CanonicalUrl, Language, Languages, Origin, PagePosition, Timestamp};
use std::time::Duration;

/// Where a term must occur.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// Anywhere: title, headings, body, anchor texts, URL words.
    #[default]
    Any,
    /// In the title (`intitle:`).
    Title,
    /// In the URL (`inurl:`).
    Url,
}

/// One thing that a page must (or must not) contain. The text is as typed; the index analyses it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Term {
    pub text: String,
    pub field: Field,
    /// The words must stand next to each other in this order.
    pub phrase: bool,
}

/// Conditions that do not score.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filters {
    /// `site:` — hostnames (with their subdomains), optionally followed by a path prefix; any of them.
    pub sites: Vec<String>,
    /// `-site:`
    pub not_sites: Vec<String>,
    /// `lang:` — any of them.
    pub languages: Vec<Language>,
    /// `-lang:`
    pub not_languages: Vec<Language>,
    /// `filetype:` — any of them.
    pub file_types: Vec<String>,
    /// `-filetype:`
    pub not_file_types: Vec<String>,
    /// `after:` — dated at or after this instant.
    pub after: Option<Timestamp>,
    /// `before:` — dated before this instant.
    pub before: Option<Timestamp>,
}

impl Filters {
    /// Whether nothing is filtered.
    pub fn is_empty(&self) -> bool {
        *self == Filters::default()
    }
}

/// A question that has been understood.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Query {
    pub wanted: Vec<Term>,
    pub unwanted: Vec<Term>,
    pub filters: Filters,
    /// The words are looked for as they are written, even where no page has them.
    pub as_written: bool,
}

impl Query {
    /// Whether there is nothing to look for: no wanted term and no filter.
    pub fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.filters.is_empty()
    }
}

/// A question with the part of its answer that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    pub query: Query,
    /// Rank of the first hit wanted, from 0.
    pub first: usize,
    /// How many hits are wanted.
    pub count: usize,
    /// The asker's languages: a hint for analysing the words and for choosing between equals, never a filter.
    pub languages: Languages,
}

/// A piece of a snippet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    pub text: String,
    /// It is one of the words asked for.
    pub hit: bool,
}

/// One page of an answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Hit {
    pub url: CanonicalUrl,
    pub title: Vec<Fragment>,
    pub snippet: Vec<Fragment>,
    pub language: Option<Language>,
    pub dated: Option<Timestamp>,
    pub fetched: Timestamp,
    pub score: f32,
    /// Pages with the same or nearly the same text that were left out.
    pub duplicates: u32,
    /// Whether more pages of this hit's host follow further down, behind those of other hosts.
    pub more_from_host: bool,
    /// The operator set it on top.
    pub pinned: bool,
    /// Where the stored copy is.
    pub position: PagePosition,
    /// It has every word of the question.
    pub strict: bool,
    /// Who fetched it, where that was not this engine.
    pub source: Option<Origin>,
    /// Fingerprint of its text: equal means the same text; 0 where it has none.
    pub content: u64,
    /// Similarity fingerprint of its text; 0 where it has none.
    pub simhash: u64,
}

/// An answer.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub hits: Vec<Hit>,
    /// How many hits can be reached: pages that match, less duplicates, and at most as many as can be asked for.
    pub total: usize,
    /// Whether more hits follow the ones in `hits`.
    pub more: bool,
    /// The question spelt as the indexed vocabulary would spell it, where that finds more.
    pub suggestion: Option<Query>,
    /// The question that was answered instead, because no page, or hardly any, has some of the words as they were
    /// written.
    pub corrected: Option<Query>,
    /// The state of the index that answered; a later state has a greater number.
    pub generation: u64,
    /// How many parts of the index there are and how many of them answered; `None` where there is but one.
    pub shards: Option<ShardsAnswered>,
    pub took: Duration,
    /// Engines of others that were asked and did not answer in time, by what they call themselves.
    pub missing: Vec<String>,
    /// How long ago it was made; zero for one made now. Pages that came or went since may be missing or shown.
    pub age: Duration,
}

/// How whole an answer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardsAnswered {
    pub total: u32,
    pub answered: u32,
}

impl ShardsAnswered {
    /// Whether some pages could not be looked for.
    pub fn is_partial(self) -> bool {
        self.answered < self.total
    }
}
