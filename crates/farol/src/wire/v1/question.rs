//! Twins of a question and of what is shown of a page.

use super::super::WireError;
use super::super::values::{
    WireOrigin, WirePosition, language, position, read_language, read_position, read_url,
};
use farol_base::query::{Field, Filters, Fragment, Hit, Query, Request, Term};
use farol_base::{Language, Origin, Timestamp};
use serde::{Deserialize, Serialize};

/// Twin of [`Field`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireField {
    Any,
    Title,
    Url,
}

/// Twin of [`Term`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireTerm {
    pub text: String,
    pub field: WireField,
    pub phrase: bool,
}

/// Twin of [`Filters`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireFilters {
    pub sites: Vec<String>,
    pub not_sites: Vec<String>,
    pub languages: Vec<String>,
    pub not_languages: Vec<String>,
    pub file_types: Vec<String>,
    pub not_file_types: Vec<String>,
    pub after: Option<u64>,
    pub before: Option<u64>,
}

/// Twin of [`Query`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireQuery {
    pub wanted: Vec<WireTerm>,
    pub unwanted: Vec<WireTerm>,
    pub filters: WireFilters,
    pub as_written: bool,
}

/// Twin of [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireRequest {
    pub query: WireQuery,
    pub first: u32,
    pub count: u32,
    pub languages: Vec<String>,
}

/// Twin of [`Fragment`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireFragment {
    pub text: String,
    pub hit: bool,
}

/// Twin of a [`Hit`], without what the broker knows of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireHit {
    pub url: String,
    pub title: Vec<WireFragment>,
    pub snippet: Vec<WireFragment>,
    pub language: Option<String>,
    pub dated: Option<u64>,
    pub fetched: u64,
    pub position: WirePosition,
    pub source: Option<WireOrigin>,
    pub content: u64,
    pub simhash: u64,
}

impl From<&Term> for WireTerm {
    fn from(term: &Term) -> WireTerm {
        let field = match term.field {
            Field::Any => WireField::Any,
            Field::Title => WireField::Title,
            Field::Url => WireField::Url,
        };
        WireTerm { text: term.text.clone(), field, phrase: term.phrase }
    }
}

impl From<WireTerm> for Term {
    fn from(wire: WireTerm) -> Term {
        let field = match wire.field {
            WireField::Any => Field::Any,
            WireField::Title => Field::Title,
            WireField::Url => Field::Url,
        };
        Term { text: wire.text, field, phrase: wire.phrase }
    }
}

fn codes(languages: &[Language]) -> Vec<String> {
    languages.iter().copied().map(language).collect()
}

fn read_codes(codes: &[String]) -> Result<Vec<Language>, WireError> {
    codes.iter().map(|code| read_language(code)).collect()
}

impl From<&Query> for WireQuery {
    fn from(query: &Query) -> WireQuery {
        let filters = &query.filters;
        WireQuery {
            wanted: query.wanted.iter().map(WireTerm::from).collect(),
            unwanted: query.unwanted.iter().map(WireTerm::from).collect(),
            filters: WireFilters {
                sites: filters.sites.clone(),
                not_sites: filters.not_sites.clone(),
                languages: codes(&filters.languages),
                not_languages: codes(&filters.not_languages),
                file_types: filters.file_types.clone(),
                not_file_types: filters.not_file_types.clone(),
                after: filters.after.map(Timestamp::as_millis),
                before: filters.before.map(Timestamp::as_millis),
            },
            as_written: query.as_written,
        }
    }
}

impl TryFrom<WireQuery> for Query {
    type Error = WireError;

    fn try_from(wire: WireQuery) -> Result<Query, WireError> {
        let filters = wire.filters;
        Ok(Query {
            wanted: wire.wanted.into_iter().map(Term::from).collect(),
            unwanted: wire.unwanted.into_iter().map(Term::from).collect(),
            filters: Filters {
                languages: read_codes(&filters.languages)?,
                not_languages: read_codes(&filters.not_languages)?,
                sites: filters.sites,
                not_sites: filters.not_sites,
                file_types: filters.file_types,
                not_file_types: filters.not_file_types,
                after: filters.after.map(Timestamp::from_millis),
                before: filters.before.map(Timestamp::from_millis),
            },
            as_written: wire.as_written,
        })
    }
}

impl From<&Request> for WireRequest {
    fn from(request: &Request) -> WireRequest {
        let number = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
        WireRequest {
            query: WireQuery::from(&request.query),
            first: number(request.first),
            count: number(request.count),
            languages: request.languages.iter().map(language).collect(),
        }
    }
}

impl TryFrom<WireRequest> for Request {
    type Error = WireError;

    fn try_from(wire: WireRequest) -> Result<Request, WireError> {
        Ok(Request {
            query: Query::try_from(wire.query)?,
            first: wire.first as usize,
            count: wire.count as usize,
            languages: read_codes(&wire.languages)?.into_iter().collect(),
        })
    }
}

fn fragments(fragments: &[Fragment]) -> Vec<WireFragment> {
    let twin = |fragment: &Fragment| WireFragment { text: fragment.text.clone(), hit: fragment.hit };
    fragments.iter().map(twin).collect()
}

fn read_fragments(fragments: Vec<WireFragment>) -> Vec<Fragment> {
    fragments.into_iter().map(|wire| Fragment { text: wire.text, hit: wire.hit }).collect()
}

impl From<&Hit> for WireHit {
    fn from(hit: &Hit) -> WireHit {
        WireHit {
            url: hit.url.to_string(),
            title: fragments(&hit.title),
            snippet: fragments(&hit.snippet),
            language: hit.language.map(language),
            dated: hit.dated.map(Timestamp::as_millis),
            fetched: hit.fetched.as_millis(),
            position: position(hit.position),
            source: hit.source.as_ref().map(WireOrigin::from),
            content: hit.content,
            simhash: hit.simhash,
        }
    }
}

impl TryFrom<WireHit> for Hit {
    type Error = WireError;

    /// The hit as its shard shows it; what its place in the answer says of it is for the broker to fill in.
    fn try_from(wire: WireHit) -> Result<Hit, WireError> {
        Ok(Hit {
            url: read_url(&wire.url)?,
            title: read_fragments(wire.title),
            snippet: read_fragments(wire.snippet),
            language: wire.language.as_deref().map(read_language).transpose()?,
            dated: wire.dated.map(Timestamp::from_millis),
            fetched: Timestamp::from_millis(wire.fetched),
            score: 0.0,
            duplicates: 0,
            more_from_host: false,
            pinned: false,
            position: read_position(wire.position),
            strict: false,
            source: wire.source.map(Origin::from),
            content: wire.content,
            simhash: wire.simhash,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_version_is_frozen() {
        let term = |text: &str, field, phrase| WireTerm { text: text.into(), field, phrase };
        let request = WireRequest {
            query: WireQuery {
                wanted: vec![term("a", WireField::Any, false), term("b", WireField::Title, true)],
                unwanted: vec![term("c", WireField::Url, false)],
                filters: WireFilters {
                    sites: vec!["s".into()],
                    not_sites: vec!["n".into()],
                    languages: vec!["pt".into()],
                    not_languages: vec!["en".into()],
                    file_types: vec!["f".into()],
                    not_file_types: vec!["g".into()],
                    after: Some(300),
                    before: None,
                },
                as_written: true,
            },
            first: 10,
            count: 20,
            languages: vec!["es".into()],
        };
        let golden =
            b"\x02\x01a\x00\x00\x01b\x01\x01\x01\x01c\x02\x00\x01\x01s\x01\x01n\x01\x02pt\x01\x02en\x01\x01f\
            \x01\x01g\x01\xac\x02\x00\x01\x0a\x14\x01\x02es";
        assert_eq!(postcard::to_stdvec(&request).unwrap(), golden);
        assert_eq!(postcard::from_bytes::<WireRequest>(golden).unwrap(), request);

        let hit = WireHit {
            url: "u".into(),
            title: vec![WireFragment { text: "t".into(), hit: true }],
            snippet: vec![WireFragment { text: "s".into(), hit: false }],
            language: Some("pt".into()),
            dated: None,
            fetched: 1,
            position: (2, 3),
            source: Some(WireOrigin { engine: [b'k'; 32], name: "n".into(), site: "s".into(), copy: true }),
            content: 300,
            simhash: 4,
        };
        let golden =
            b"\x01u\x01\x01t\x01\x01\x01s\x00\x01\x02pt\x00\x01\x02\x03\x01kkkkkkkkkkkkkkkkkkkkkkkkkkkkkkkk\
            \x01n\x01s\x01\xac\x02\x04";
        assert_eq!(postcard::to_stdvec(&hit).unwrap(), golden);
        assert_eq!(postcard::from_bytes::<WireHit>(golden).unwrap(), hit);
    }

    #[test]
    fn a_question_arrives_as_it_was_put() {
        let line = "ponte \"rio douro\" -barco intitle:casa inurl:a site:example.org -site:b.test lang:pt -lang:en \
            filetype:pdf after:2020 before:2024";
        let languages = [Language::PORTUGUESE, Language::ENGLISH].into_iter().collect();
        let request = Request { query: farol_query::read(line).query, first: 20, count: 10, languages };
        assert!(!request.query.filters.sites.is_empty() && request.query.filters.before.is_some());
        let bytes = postcard::to_stdvec(&WireRequest::from(&request)).unwrap();
        let read: WireRequest = postcard::from_bytes(&bytes).unwrap();
        assert_eq!(Request::try_from(read).unwrap(), request);
        let wrong = WireRequest { languages: vec!["klingon".into()], ..WireRequest::from(&request) };
        assert!(Request::try_from(wrong).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = postcard::from_bytes::<WireRequest>(&bytes).map(Request::try_from);
            let _ = postcard::from_bytes::<WireHit>(&bytes).map(Hit::try_from);
        }
    }
}
