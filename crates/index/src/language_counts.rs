//! How many pages of each language there are. Pages that were replaced or deleted do not count.

use crate::error::Error;
use farol_base::Language;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use tantivy::schema::{Field, IndexRecordOption};
use tantivy::{DocSet, SegmentReader, TERMINATED};

/// The languages of one segment, counted when it is first seen and again when pages of it were deleted.
#[derive(Debug)]
pub(crate) struct SegmentLanguages {
    /// Pages deleted when it was counted.
    deleted: u32,
    pages: Vec<(Language, u64)>,
}

impl SegmentLanguages {
    /// Counts a segment; one counted before is taken where nothing was deleted since.
    pub(crate) fn count(
        segment: &SegmentReader,
        field: Field,
        before: Option<Arc<SegmentLanguages>>,
    ) -> Result<Arc<SegmentLanguages>, Error> {
        let deleted = segment.num_deleted_docs();
        if let Some(before) = before.filter(|before| before.deleted == deleted) {
            return Ok(before);
        }
        let index = segment.inverted_index(field).map_err(Error::engine("open a segment"))?;
        let mut stream = index.terms().stream().map_err(Error::engine("list its languages"))?;
        let mut pages = Vec::new();
        while let Some((code, info)) = stream.next() {
            let Some(language) = std::str::from_utf8(code).ok().and_then(Language::parse) else { continue };
            let count = match segment.alive_bitset() {
                None => u64::from(info.doc_freq),
                Some(alive) => {
                    let mut postings = index
                        .read_postings_from_terminfo(info, IndexRecordOption::Basic)
                        .map_err(Error::engine("count the pages of a language"))?;
                    let mut count = 0;
                    while postings.doc() != TERMINATED {
                        count += u64::from(alive.is_alive(postings.doc()));
                        postings.advance();
                    }
                    count
                }
            };
            pages.push((language, count));
        }
        Ok(Arc::new(SegmentLanguages { deleted, pages }))
    }
}

/// The sums over all segments, most pages first.
pub(crate) fn sums(segments: &[Arc<SegmentLanguages>]) -> Vec<(Language, u64)> {
    let mut sums: HashMap<Language, u64> = HashMap::new();
    for (language, pages) in segments.iter().flat_map(|segment| &segment.pages) {
        *sums.entry(*language).or_default() += pages;
    }
    let mut sums: Vec<(Language, u64)> = sums.into_iter().filter(|(_, pages)| *pages > 0).collect();
    sums.sort_by_key(|(language, pages)| (Reverse(*pages), *language));
    sums
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestShard, page, page_in};
    use farol_base::{Language, PagePosition};

    #[test]
    fn pages_that_were_replaced_or_deleted_are_not_counted() {
        let mut shard = TestShard::new(&[
            page("http://a/1", "one", "first"),
            page("http://a/2", "two", "second"),
            page("http://a/3", "three", "third"),
            page_in("pt", "http://a/4", "quatro", "quarto"),
        ]);
        let counts = |shard: &TestShard| shard.searcher().languages();
        let (en, pt) = (Language::ENGLISH, Language::PORTUGUESE);
        assert_eq!(counts(&shard), [(en, 3), (pt, 1)]);
        shard.shard.put(&page_in("pt", "http://a/1", "um", "primeiro")).unwrap();
        shard.shard.delete(&page("http://a/2", "", "").url);
        shard.shard.commit(PagePosition::default()).unwrap();
        assert_eq!(counts(&shard), [(pt, 2), (en, 1)]);
        shard.shard.delete(&page("http://a/3", "", "").url);
        shard.shard.commit(PagePosition::default()).unwrap();
        assert_eq!(counts(&shard), [(pt, 2)]);
    }
}
