//! What the query parser noticed and wants to tell the person who typed it.
//!
//! A complaint is advice: the question has been read all the same. English is written here; other languages
//! translate by [`Complaint::code`] and put [`Complaint::subject`] in.

use std::fmt;

/// Something in a question that was not read the way it was perhaps meant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Complaint {
    /// A quotation mark has no partner; the words after it are read one by one.
    UnclosedQuote,
    /// `allintitle:x`: looks like a filter, is none of ours, and was read as a word.
    UnknownFilter(String),
    /// `before:yesterday`: no date, read as a word.
    BadDate {
        /// The filter: `before` or `after`.
        field: &'static str,
        /// What followed the colon.
        value: String,
    },
    /// `lang:klingonese`: no language that we know, read as a word.
    BadLanguage(String),
    /// `site:a/b@c`: no host name, read as a word.
    BadSite(String),
    /// `filetype:a/b`: no kind of file, read as a word.
    BadFileType(String),
    /// `site:` with nothing after the colon, perhaps because of a space; read as a word.
    EmptyFilter(String),
    /// `a OR b`: there is no such operator, it was read as a word.
    OperatorWord(String),
    /// Only things to leave out: there is nothing to look for.
    OnlyExclusions,
    /// A pasted address was read as `site:` with this value.
    AddressAsSite(String),
    /// The question is too long; only some of its terms and filters were read.
    TooLong {
        /// How many terms and filters were read.
        kept: usize,
    },
}

impl Complaint {
    /// A short name that does not change, for translations and for the API.
    pub fn code(&self) -> &'static str {
        match self {
            Complaint::UnclosedQuote => "unclosed_quote",
            Complaint::UnknownFilter(_) => "unknown_filter",
            Complaint::BadDate { .. } => "bad_date",
            Complaint::BadLanguage(_) => "bad_language",
            Complaint::BadSite(_) => "bad_site",
            Complaint::BadFileType(_) => "bad_file_type",
            Complaint::EmptyFilter(_) => "empty_filter",
            Complaint::OperatorWord(_) => "operator_word",
            Complaint::OnlyExclusions => "only_exclusions",
            Complaint::AddressAsSite(_) => "address_as_site",
            Complaint::TooLong { .. } => "too_long",
        }
    }

    /// What it is about, as typed; empty where there is nothing to name. Not escaped for HTML.
    pub fn subject(&self) -> String {
        match self {
            Complaint::UnclosedQuote | Complaint::OnlyExclusions => String::new(),
            Complaint::BadDate { field, value } => format!("{field}:{value}"),
            Complaint::TooLong { kept } => kept.to_string(),
            Complaint::UnknownFilter(text)
            | Complaint::BadLanguage(text)
            | Complaint::BadSite(text)
            | Complaint::BadFileType(text)
            | Complaint::EmptyFilter(text)
            | Complaint::OperatorWord(text)
            | Complaint::AddressAsSite(text) => text.clone(),
        }
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Complaint::UnclosedQuote => {
                f.write_str("a quotation mark is not closed, so the words after it were read one by one")
            }
            Complaint::UnknownFilter(name) => {
                write!(f, "there is no filter called {name}:, so it was read as a word")
            }
            Complaint::BadDate { field, value } => {
                write!(
                    f,
                    "{field}:{value} is not a date such as 2024, 2024-05 or 2024-05-06, so it was read as a word"
                )
            }
            Complaint::BadLanguage(value) => {
                write!(
                    f,
                    "lang:{value} names no known language, so it was read as a word; try a code such as pt"
                )
            }
            Complaint::BadSite(value) => {
                write!(f, "site:{value} names no host such as example.org, so it was read as a word")
            }
            Complaint::BadFileType(value) => {
                write!(f, "filetype:{value} names no kind of file such as txt, so it was read as a word")
            }
            Complaint::EmptyFilter(name) => {
                write!(f, "{name}: has no value, so it was read as a word; leave no space after the colon")
            }
            Complaint::OperatorWord(word) => {
                write!(f, "{word} is not an operator here, so it was read as a word")
            }
            Complaint::OnlyExclusions => {
                f.write_str("there are only things to leave out; add a word to look for")
            }
            Complaint::AddressAsSite(site) => write!(f, "the address was read as site:{site}"),
            Complaint::TooLong { kept } => {
                write!(f, "the question is too long, only its first {kept} words and filters were read")
            }
        }
    }
}
