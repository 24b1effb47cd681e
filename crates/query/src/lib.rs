//! Query language: what stands between a line of text and the index that answers it.
//!
//! The life of a question: somebody types `"ponte rio" história -facebook lang:pt`. [`read`](fn@read) turns
//! the line into a [`Query`](farol_base::query::Query) and a list of [`Complaint`]s; it never fails, because
//! whatever is not understood is read as words. The query goes to the shards of the index, or its only one, whose
//! parts [`parts`] puts together: order, copies and hosts ([`thin`]), spelling ([`spell`]). Which replica of a
//! shard is asked is [`scatter`]'s business. [`write`](fn@write) spells a query in its one canonical way, for links
//! and for people; what the cache knows a question by, in any order
//! and case of its words, is its key (`farol_cache::key`).
//!
//! | typed | meaning |
//! |---|---|
//! | `ponte rio` | pages with these words, anywhere |
//! | `"ponte rio"` | the words side by side; `“ ”`, `„ “`, `« »` and full-width quotes do too |
//! | `-rio`, `-"ponte rio"` | pages without it |
//! | `intitle:ponte`, `intitle:"ponte rio"` | in the title |
//! | `inurl:ponte`, `inurl:"a/b"` | in the address |
//! | `site:example.org`, `site:example.org/docs` | this host, its subdomains, pages below this path; several: any of them |
//! | `lang:pt`, `lang:pt-BR`, `lang:portuguese` | pages in this language; several: any of them |
//! | `filetype:txt`, `ext:txt` | files of this kind; several: any of them |
//! | `after:2023`, `before:2024-05`, `before:2024-05-06` | dated from that day on, before that day; several: all of them |
//! | `-site:`, `-intitle:`, `-lang:`, … | the opposite of each of these |
//! | `https://example.org/a?b`, alone | that page and those below it |
//!
//! `OR`, `AND` and `NOT` are words: every word is looked for, and the index relaxes this by itself when few pages
//! have all of them. Names of filters are read in any case, and the full-width colon and space count as plain ones.
//!
//! INVARIANT: `read(&write(&query)).query == query` for every query that came from `read`.
//! This crate does no I/O, reads no clock, and knows nothing about stems, accents or stop words: words stay as typed.

#![warn(missing_docs)]

mod complaint;
mod dates;
mod languages;
pub mod parts;
mod read;
mod scan;
pub mod scatter;
mod sites;
pub mod spell;
pub mod thin;
mod write;

pub use complaint::Complaint;
pub use read::{ParsedQuery, QUERY_BYTES_MAX, QUERY_TERMS_MAX, read};
pub use write::write;
