//! What links say about a page, as a bounded factor.
//!
//! Ranks come from outside at query time, in `0..=1`. However high they are, they never outweigh a text score
//! that is [`MAX`] times better.

use crate::error::Error;
use tantivy::columnar::StrColumn;
use tantivy::{DocId, SegmentReader};

/// How much the best-linked page gains over an unknown one.
const PAGE: f32 = 0.5;

/// How much the pages of the best-linked host gain.
const HOST: f32 = 0.2;

/// The greatest factor that links can give.
pub(crate) const MAX: f32 = 1.0 + PAGE + HOST;

/// Link ranks, known outside the index: `0.0` for unknown to `1.0` for the best.
pub trait Ranks: Send + Sync {
    /// Rank of a page.
    fn page(&self, page: farol_base::PageId) -> f32;
    /// Rank of a host, named as [`farol_base::Host::as_str`] writes it.
    fn host(&self, host: &str) -> f32;
}

/// Nothing is known about links.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoRanks;

impl Ranks for NoRanks {
    fn page(&self, _: farol_base::PageId) -> f32 {
        0.0
    }

    fn host(&self, _: &str) -> f32 {
        0.0
    }
}

/// The factor of a page: 1 where nothing is known, [`MAX`] at most.
pub(crate) fn prior(page: f32, host: f32) -> f32 {
    // A rank that is not a number counts as unknown: `max` answers the other one.
    (1.0 + PAGE * page.max(0.0).min(1.0) + HOST * host.max(0.0).min(1.0)).clamp(1.0, MAX)
}

/// Hosts of the pages of a segment, with ranks asked for once per host.
pub(crate) struct HostRanks {
    column: Option<StrColumn>,
    known: std::collections::HashMap<u64, (String, f32)>,
}

impl HostRanks {
    pub(crate) fn new(segment: &SegmentReader) -> Result<HostRanks, Error> {
        let column = segment.fast_fields().str("host").map_err(Error::engine("read the hosts of pages"))?;
        Ok(HostRanks { column, known: Default::default() })
    }

    /// Name and rank of a page's host.
    pub(crate) fn host(&mut self, doc: DocId, ranks: &dyn Ranks) -> (&str, f32) {
        let Some(column) = &self.column else { return ("", 0.0) };
        let Some(ordinal) = column.ords().first(doc) else { return ("", 0.0) };
        let (name, rank) = self.known.entry(ordinal).or_insert_with(|| {
            let mut name = String::new();
            // A name that cannot be read is a host of its own without rank.
            let read = column.ord_to_str(ordinal, &mut name).unwrap_or(false);
            let rank = if read { ranks.host(&name) } else { 0.0 };
            (name, rank)
        });
        (name, *rank)
    }

    pub(crate) fn rank(&mut self, doc: DocId, ranks: &dyn Ranks) -> f32 {
        self.host(doc, ranks).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page, paths, query};
    use farol_base::query::Request;
    use farol_base::{CanonicalUrl, PageId};

    #[test]
    fn the_factor_is_bounded() {
        let check = |page: f32, host: f32, want: f32| assert_eq!(prior(page, host), want);
        check(0.0, 0.0, 1.0);
        check(1.0, 1.0, MAX);
        check(9.0, f32::INFINITY, MAX);
        check(f32::NAN, -3.0, 1.0);
    }

    struct Favourite(PageId);

    impl Ranks for Favourite {
        fn page(&self, page: PageId) -> f32 {
            if page == self.0 { 1.0 } else { 0.1 }
        }

        fn host(&self, host: &str) -> f32 {
            if host == "http://c" { 0.9 } else { 0.0 }
        }
    }

    #[test]
    fn links_decide_between_equal_texts() {
        let shard = TestShard::new(&[
            page("http://a/1", "Ports", "one lighthouse"),
            page("http://b/2", "Ports", "two lighthouse"),
            page("http://c/3", "Ports", "three lighthouse"),
        ]);
        let ranks = Favourite(CanonicalUrl::parse("http://b/2").unwrap().id());
        for words in ["lighthouse", "lighthouse ports"] {
            let request =
                Request { query: query(words, Default::default()), first: 0, count: 10, language: None };
            let answer = shard.searcher().search(&request, &ranks).unwrap();
            assert_eq!(paths(&answer), ["/2", "/3", "/1"]);
        }
    }
}
