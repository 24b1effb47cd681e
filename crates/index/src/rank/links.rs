//! What links say about a page, as a bounded factor.
//!
//! Ranks come from outside at query time, in `0..=1`. However high they are, they never outweigh a text score
//! that is 1.4 times better.

use crate::error::Error;
use crate::searcher::SegmentView;
use farol_base::HostHash;
use std::collections::HashMap;
use tantivy::columnar::Column;
use tantivy::{DocId, SegmentReader};

/// How much the best-linked page gains over an unknown one. No more, because within a site links say what leads on, such
/// as its contents, rather than what answers.
const PAGE: f32 = 0.2;

/// How much the pages of the best-linked host gain.
const HOST: f32 = 0.2;

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

/// The factor of a page: 1 where nothing is known, `1 + PAGE + HOST` at most.
pub(crate) fn prior(page: f32, host: f32) -> f32 {
    // A rank that is not a number counts as unknown.
    let known = |rank: f32| if rank.is_nan() { 0.0 } else { rank.clamp(0.0, 1.0) };
    1.0 + PAGE * known(page) + HOST * known(host)
}

/// The hosts of a segment by their ordinals, read once when the segment is first seen: tantivy decompresses a block
/// for every name otherwise. About 60 bytes for each host of each segment.
#[derive(Default)]
pub(crate) struct SegmentHosts {
    /// Name and hash.
    by_ordinal: Vec<(Box<str>, HostHash)>,
    /// Of each page.
    ordinals: Option<Column<u64>>,
}

impl SegmentHosts {
    pub(crate) fn read(segment: &SegmentReader) -> Result<SegmentHosts, Error> {
        let column = segment.fast_fields().str("host").map_err(Error::engine("read the hosts of pages"))?;
        let mut hosts = SegmentHosts::default();
        if let Some(column) = column {
            let mut stream = column.dictionary().stream().map_err(Error::engine("list its hosts"))?;
            while stream.advance() {
                let name = String::from_utf8_lossy(stream.key());
                hosts.by_ordinal.push((name.as_ref().into(), HostHash::of(&name)));
            }
            hosts.ordinals = Some(column.ords().clone());
        }
        Ok(hosts)
    }
}

/// Hosts of the pages of a segment, with ranks asked for once per host.
pub(crate) struct HostRanks<'a> {
    hosts: &'a SegmentHosts,
    by_ordinal: HashMap<u64, f32>,
}

impl<'a> HostRanks<'a> {
    pub(crate) fn new(segment: SegmentView<'a>) -> HostRanks<'a> {
        HostRanks { hosts: segment.hosts, by_ordinal: HashMap::new() }
    }

    /// Hash and rank of a page's host; zeros where it has none.
    pub(crate) fn host(&mut self, doc: DocId, ranks: &dyn Ranks) -> (HostHash, f32) {
        let Some(ordinal) = self.hosts.ordinals.as_ref().and_then(|ordinals| ordinals.first(doc)) else {
            return (HostHash::default(), 0.0);
        };
        let Some((name, hash)) = self.hosts.by_ordinal.get(ordinal as usize) else {
            return (HostHash::default(), 0.0);
        };
        (*hash, *self.by_ordinal.entry(ordinal).or_insert_with(|| ranks.host(name)))
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
        let check = |page: f32, host: f32, want: f32| {
            assert!((prior(page, host) - want).abs() < 1e-6, "{page} {host}")
        };
        check(0.0, 0.0, 1.0);
        check(1.0, 1.0, 1.4);
        check(9.0, f32::INFINITY, 1.4);
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
            let request = Request {
                query: query(words, Default::default()),
                first: 0,
                count: 10,
                languages: Default::default(),
            };
            let answer = shard.searcher().search(&request, &ranks).unwrap();
            assert_eq!(paths(&answer), ["/2", "/3", "/1"]);
        }
    }
}
