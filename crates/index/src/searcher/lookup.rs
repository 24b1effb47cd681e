//! Looks pages up by what they are rather than by what they say: those of a host, and those with the same text.

use super::{Searcher, decode, not_a_page};
use crate::error::Error;
use crate::schema::{path_prefixes, short_content};
use farol_base::fingerprint::hash64;
use farol_base::{CanonicalUrl, Document, Host, Language};
use farol_query::thin::is_near;
use tantivy::postings::SegmentPostings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocAddress, DocId, DocSet, SegmentReader, TERMINATED, Term};

/// Pages of a folder whose languages are looked at.
const NEIGHBOURS_MAX: usize = 200;

/// With fewer of them that have a language, the folder above is asked.
const NEIGHBOURS_MIN: usize = 5;

/// Folders that are asked, the page's own first, before its host is.
const FOLDERS_MAX: usize = 3;

/// Languages that neighbours are tried for, those of most pages first.
const LANGUAGES_MAX: usize = 16;

/// What the neighbours of a page say about its language.
#[derive(Debug, PartialEq, Eq)]
enum Neighbours {
    /// Nine in ten of them or more have this one.
    Agree(Language),
    Differ,
    TooFew,
}

impl Neighbours {
    fn of(counts: &[(Language, usize)]) -> Neighbours {
        let all: usize = counts.iter().map(|(_, pages)| pages).sum();
        match counts.iter().max_by_key(|(_, pages)| pages) {
            Some((language, pages)) if all >= NEIGHBOURS_MIN => match pages * 10 >= all * 9 {
                true => Neighbours::Agree(*language),
                false => Neighbours::Differ,
            },
            _ => Neighbours::TooFew,
        }
    }
}

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

    /// The language of the pages around an address: of its folder where enough of them are known and agree, or else of
    /// the next folder above, or of its host. For a page that shows no language of its own.
    pub fn language_near(&self, url: &CanonicalUrl) -> Result<Option<Language>, Error> {
        let folder = url.path().rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut folders: Vec<&str> = path_prefixes(folder).collect();
        folders.reverse();
        folders.truncate(FOLDERS_MAX);
        for folder in folders.into_iter().map(Some).chain([None]) {
            match Neighbours::of(&self.languages_in(&url.host(), folder)?) {
                Neighbours::Agree(language) => return Ok(Some(language)),
                Neighbours::Differ => return Ok(None),
                Neighbours::TooFew => {}
            }
        }
        Ok(None)
    }

    /// How many pages of a host, or of a folder on it, have each language, of at most [`NEIGHBOURS_MAX`] of them.
    fn languages_in(&self, host: &Host, folder: Option<&str>) -> Result<Vec<(Language, usize)>, Error> {
        let view = self.shared.view();
        let host = Term::from_field_text(view.fields.host, host.as_str());
        let folder = folder.map(|folder| Term::from_field_u64(view.fields.path, hash64(folder.as_bytes())));
        let languages = view.sizes.languages.iter().take(LANGUAGES_MAX).map(|(language, _)| *language);
        let mut counts: Vec<(Language, usize)> = languages.map(|language| (language, 0)).collect();
        let mut looked_at = 0;
        for segment in view.searcher.segment_readers() {
            let Some(mut of_host) = postings(segment, &host)? else { continue };
            let mut of_folder = None;
            if let Some(folder) = &folder {
                match postings(segment, folder)? {
                    Some(postings) => of_folder = Some(postings),
                    None => continue,
                }
            }
            let mut found: Vec<DocId> = Vec::new();
            while of_host.doc() != TERMINATED && looked_at < NEIGHBOURS_MAX {
                let doc = of_host.doc();
                if of_folder.as_mut().is_none_or(|folder| seek(folder, doc)) && !segment.is_deleted(doc) {
                    found.push(doc);
                    looked_at += 1;
                }
                of_host.advance();
            }
            for (language, pages) in &mut counts {
                let term = Term::from_field_text(view.fields.language, language.code());
                if let Some(mut in_language) = postings(segment, &term)? {
                    *pages += found.iter().filter(|doc| seek(&mut in_language, **doc)).count();
                }
            }
        }
        Ok(counts)
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

fn postings(segment: &SegmentReader, term: &Term) -> Result<Option<SegmentPostings>, Error> {
    let index = segment.inverted_index(term.field()).map_err(Error::engine("open a segment"))?;
    index.read_postings(term, IndexRecordOption::Basic).map_err(Error::engine("read a list of pages"))
}

/// Whether a page is on a list, asked for in growing order.
fn seek(list: &mut SegmentPostings, doc: DocId) -> bool {
    if list.doc() < doc {
        list.seek(doc);
    }
    list.doc() == doc
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page, page_in};

    #[test]
    fn neighbours_have_a_language_where_nine_in_ten_agree() {
        let (pt, en) = (Language::PORTUGUESE, Language::ENGLISH);
        let check = |counts: &[(Language, usize)], want| assert_eq!(Neighbours::of(counts), want);
        check(&[(pt, 9), (en, 1)], Neighbours::Agree(pt));
        check(&[(pt, 8), (en, 1)], Neighbours::Differ);
        check(&[(pt, 4)], Neighbours::TooFew);
        check(&[], Neighbours::TooFew);
    }

    #[test]
    fn the_folder_says_the_language_then_the_one_above_then_the_host() {
        let of = |code: &str, folder: &str| {
            let url = |number| format!("http://a{folder}/{number}");
            (0..5).map(|number| page_in(code, &url(number), "", &url(number))).collect::<Vec<_>>()
        };
        // No page of another host counts, nor one that is gone.
        let others = (0..9).map(|number| page_in("de", &format!("http://b/docs/{number}"), "", "b"));
        let mut pages = [of("pt", "/docs"), of("en", "/code"), of("es", "/docs/gone")].concat();
        pages.extend(others);
        let mut shard = TestShard::new(&pages);
        for number in 0..5 {
            shard.shard.delete(&page(&format!("http://a/docs/gone/{number}"), "", "").url);
        }
        shard.shard.commit("").unwrap();
        let check = |url: &str, want: Option<&str>| {
            let near = shard.searcher().language_near(&CanonicalUrl::parse(url).unwrap()).unwrap();
            assert_eq!(near, want.and_then(Language::parse), "{url}");
        };
        check("http://a/docs/list", Some("pt"));
        check("http://a/docs/gone/list", Some("pt"));
        check("http://a/code/", Some("en"));
        check("http://a/list", None); // The host speaks both.
        check("http://b/any/where", Some("de"));
        check("http://c/docs/list", None);
    }

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
