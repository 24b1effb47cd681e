//! Looks pages up by what they are rather than by what they say: those of a host, and those with the same text.

use super::{Searcher, decode, not_a_page};
use crate::error::Error;
use crate::schema::short_content;
use farol_base::{CanonicalUrl, Document, Host};
use farol_query::thin::is_near;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, DocSet, TERMINATED, Term};

impl Searcher {
    /// The addresses of all pages of a host, in no special order. Reads them all.
    pub fn urls_of(&self, host: &Host) -> Result<Vec<CanonicalUrl>, Error> {
        let view = self.shared.view();
        let term = Term::from_field_text(view.fields.host, host.as_str());
        let mut urls = Vec::new();
        for (ordinal, segment) in view.searcher.segment_readers().iter().enumerate() {
            let hosts = segment.inverted_index(view.fields.host).map_err(Error::engine("open a segment"))?;
            let postings = hosts.read_postings(&term, IndexRecordOption::Basic);
            let Some(mut postings) = postings.map_err(Error::engine("look a host up"))? else { continue };
            while postings.doc() != TERMINATED {
                if !segment.is_deleted(postings.doc()) {
                    let bytes = view.stored(DocAddress::new(ordinal as u32, postings.doc()))?;
                    urls.push(decode(&bytes)?.to_document().ok_or_else(not_a_page)?.url);
                }
                postings.advance();
            }
        }
        Ok(urls)
    }

    /// Other pages with the text of this one, or nearly: those that are shown as one where all of them are found. At
    /// most `limit`. Looks at a column of all pages: some ten milliseconds for a million.
    pub fn twins(&self, page: &Document, limit: usize) -> Result<Vec<CanonicalUrl>, Error> {
        let view = self.shared.view();
        let (content, own) = (short_content(page.content_hash), page.url.id().0);
        let mut twins = Vec::new();
        for (ordinal, segment) in view.searcher.segment_readers().iter().enumerate() {
            let column = |name| segment.fast_fields().u64(name).map_err(Error::engine("read a column"));
            let (contents, simhashes, ids) = (column("content")?, column("simhash")?, column("page")?);
            for doc in segment.doc_ids_alive() {
                let same = content != 0 && contents.first(doc) == Some(content);
                let near = simhashes.first(doc).is_some_and(|simhash| is_near(simhash, page.simhash));
                if twins.len() < limit && (same || near) && ids.first(doc) != Some(own) {
                    let bytes = view.stored(DocAddress::new(ordinal as u32, doc))?;
                    twins.push(decode(&bytes)?.to_document().ok_or_else(not_a_page)?.url);
                }
            }
        }
        Ok(twins)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page};

    #[test]
    fn pages_of_a_host_and_pages_with_the_same_text() {
        let first = page("http://a/1", "One", "the light one");
        let (copy, near) =
            (page("http://b/3", "Three", "light three"), page("http://b/4", "Four", "light four"));
        let mut test = TestShard::new(&[
            first.clone(),
            page("http://a/2", "Two", "the light two"),
            Document { content_hash: first.content_hash, ..copy },
            Document { simhash: first.simhash ^ 0b101, ..near },
            page("http://a/5", "Five", "the light five"),
        ]);
        test.shard.delete(&page("http://a/5", "", "").url);
        test.shard.commit(farol_base::PagePosition::default()).unwrap();
        let searcher = test.shard.searcher();
        let texts = |urls: Vec<farol_base::CanonicalUrl>| {
            let mut texts: Vec<String> = urls.iter().map(ToString::to_string).collect();
            texts.sort();
            texts
        };
        let host = |text| Host::parse(text).unwrap();
        assert_eq!(texts(searcher.urls_of(&host("http://a/")).unwrap()), ["http://a/1", "http://a/2"]);
        assert!(searcher.urls_of(&host("http://c/")).unwrap().is_empty());
        assert_eq!(texts(searcher.twins(&first, 10).unwrap()), ["http://b/3", "http://b/4"]);
        assert_eq!(searcher.twins(&first, 1).unwrap().len(), 1);
    }
}
