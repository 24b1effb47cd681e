//! The searchable shard: schema, analysis, ranking, snippets, suggestions.
//!
//! The life of a page here: [`Shard::put`] hands its texts to the analysis of its language (`text`), which
//! writes each word twice, as written and as its stem; a page known under the same URL is replaced.
//! [`Shard::commit`] makes it durable and visible, together with the mark up to which stored pages have
//! been taken in. A question then finds it: `plan` turns words into clauses, `matching` walks their postings
//! and scores by BM25F over weighted fields, `rank` rescores the best candidates (proximity of the words,
//! title, links) and collapses duplicates and hosts, `snippet` cuts the passage that shows why.
//! Its words join the `vocabulary` that `spell` and `suggest` draw on. A page that is deleted stops being
//! found at the next commit and leaves the disk when its segment is merged.
//!
//! INVARIANT: one [`Shard`] writes, any number of [`Searcher`]s read, and neither waits for the other.
//! INVARIANT: ranks of links are asked for at query time through [`Ranks`]; they change without re-indexing.
//! This crate does not read the text of a question (`farol_query` does) and knows nothing of the Web.
//!
//! ```
//! # use farol_base::{CanonicalUrl, ContentHash, Document, Language, PagePosition, Timestamp};
//! # use farol_base::query::{Field, Query, Request, Term};
//! use farol_index::{NoRanks, Shard, ShardOptions};
//! # let dir = tempfile::tempdir().unwrap();
//! # let page = Document {
//! #     url: CanonicalUrl::parse("https://example.org/").unwrap(),
//! #     title: "Lighthouses".into(), headings: String::new(), body: "They shine.".into(),
//! #     description: String::new(), anchors: String::new(), rest: String::new(), language: Some(Language::ENGLISH),
//! #     file_type: "html".into(), fetched: Timestamp::EPOCH, dated: None,
//! #     content_hash: ContentHash::default(), simhash: 0, position: PagePosition::default(),
//! #     shown: Default::default(), source: None,
//! # };
//! let mut shard = Shard::open(dir.path(), ShardOptions::default())?;
//! shard.put(&page)?;
//! shard.commit(PagePosition { file: 0, offset: 1 })?;
//! # let word = Term { text: "lighthouse".into(), field: Field::Any, phrase: false };
//! # let query = Query { wanted: vec![word], ..Query::default() };
//! let answer = shard.searcher().search(&Request { query, first: 0, count: 10, languages: Default::default() }, &NoRanks)?;
//! assert_eq!(answer.hits[0].url, page.url);
//! # Ok::<(), farol_index::Error>(())
//! ```
//!
//! To see it at work: `examples/put_and_search.rs` indexes three pages and asks for them.

#![warn(missing_docs)]

mod columns;
mod compounds;
mod error;
mod filter;
mod language_counts;
mod limits;
mod matching;
mod near_languages;
mod parts;
mod patience;
mod pins;
mod plan;
mod rank;
mod schema;
mod searcher;
mod shard;
mod snippet;
mod spell;
mod statistics;
mod stored;
mod suggest;
mod synonyms;
mod terms;
mod text;
mod vocabulary;

#[cfg(test)]
mod shard_tests;
#[cfg(test)]
mod testing;

pub use error::Error;
pub use farol_query::parts::HITS_MAX;
pub use parts::{Question, ShardedSearch};
pub use patience::{ENDLESS, Patience};
pub use pins::Pins;
pub use rank::{NoRanks, Ranks};
pub use searcher::{SearchRules, Searcher};
pub use shard::{Mark, Shard, ShardOptions};
pub use suggest::Completed;
pub use synonyms::{RuleError, Synonyms};
pub use text::fold::{one_case, without_accents};
pub use text::words::{ANALYSIS, WordCutter};
