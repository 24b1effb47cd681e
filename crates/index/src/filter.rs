//! Which pages of a segment may answer at all.
//!
//! INVARIANT: a filter never changes a score.

use crate::error::Error;
use crate::matching::Cursor;
use crate::plan::Plan;
use crate::schema::path_prefixes;
use crate::searcher::{SegmentView, View};
use crate::text::fold::folded;
use farol_base::fingerprint::hash64;
use farol_base::{CanonicalUrl, Language};
use tantivy::columnar::Column;
use tantivy::fastfield::AliveBitSet;
use tantivy::schema::IndexRecordOption;
use tantivy::{BitSet, DocId, DocSet, SegmentReader, TERMINATED, Term};

/// Values of one filter that are read; further ones are ignored.
const VALUES_MAX: usize = 64;

/// The filters of a question, for one segment.
pub(crate) struct SegmentFilter<'a> {
    alive: Option<&'a AliveBitSet>,
    /// A page must be in each of these sets.
    within: Vec<BitSet>,
    /// And in none of these.
    without: Vec<BitSet>,
    dated: Option<DateRange<'a>>,
}

struct DateRange<'a> {
    column: &'a Column<u64>,
    after: u64,
    before: u64,
}

impl<'a> SegmentFilter<'a> {
    /// Pages have their neighbours' language only where the index `is_whole`: a shard does not see all of a folder, and the
    /// answer must not depend on how pages are spread.
    pub(crate) fn new(
        view: &View,
        segment_view: SegmentView<'a>,
        plan: &Plan,
        is_whole: bool,
    ) -> Result<Self, Error> {
        let (filters, segment) = (&plan.filters, segment_view.reader);
        let mut filter =
            SegmentFilter { alive: segment.alive_bitset(), within: vec![], without: vec![], dated: None };
        let sets = PageSets { view, ordinal: segment_view.ordinal, segment, is_whole };
        if !filters.sites.is_empty() {
            filter.within.push(sets.sites(&filters.sites)?);
        }
        if !filters.not_sites.is_empty() {
            filter.without.push(sets.sites(&filters.not_sites)?);
        }
        if !filters.languages.is_empty() {
            filter.within.push(sets.languages(&filters.languages)?);
        }
        if !filters.not_languages.is_empty() {
            filter.without.push(sets.languages(&filters.not_languages)?);
        }
        if !filters.file_types.is_empty() {
            filter.within.push(sets.file_types(&filters.file_types)?);
        }
        if !filters.not_file_types.is_empty() {
            filter.without.push(sets.file_types(&filters.not_file_types)?);
        }
        for clause in &plan.unwanted {
            if let Some(mut cursor) = Cursor::open(segment_view, clause)? {
                let mut set = BitSet::with_max_value(segment.max_doc());
                while cursor.doc() != TERMINATED {
                    set.insert(cursor.doc());
                    cursor.advance();
                }
                filter.without.push(set);
            }
        }
        if filters.after.is_some() || filters.before.is_some() {
            filter.dated = Some(DateRange {
                column: &segment_view.columns.dated,
                after: filters.after.map_or(0, |at| at.as_millis()),
                before: filters.before.map_or(u64::MAX, |at| at.as_millis()),
            });
        }
        Ok(filter)
    }

    /// Whether a page may answer.
    pub(crate) fn allows(&self, doc: DocId) -> bool {
        self.alive.is_none_or(|alive| alive.is_alive(doc))
            && self.within.iter().all(|set| set.contains(doc))
            && !self.without.iter().any(|set| set.contains(doc))
            && self.dated.as_ref().is_none_or(|dates| {
                dates.column.first(doc).is_some_and(|at| dates.after <= at && at < dates.before)
            })
    }
}

struct PageSets<'a> {
    view: &'a View,
    ordinal: u32,
    segment: &'a SegmentReader,
    is_whole: bool,
}

impl PageSets<'_> {
    fn sites(&self, sites: &[String]) -> Result<BitSet, Error> {
        let mut set = self.empty();
        for site in sites.iter().take(VALUES_MAX) {
            let Some((host, path)) = read_site(site) else { continue };
            let host = Term::from_field_text(self.view.fields.site, &host);
            match path {
                None => self.add(&host, None, &mut set)?,
                Some(path) => {
                    let mut under = self.empty();
                    self.add(&Term::from_field_u64(self.view.fields.path, path), None, &mut under)?;
                    self.add(&host, Some(&under), &mut set)?;
                }
            }
        }
        Ok(set)
    }

    fn languages(&self, languages: &[Language]) -> Result<BitSet, Error> {
        let mut set = self.empty();
        for language in languages.iter().take(VALUES_MAX) {
            self.add(&Term::from_field_text(self.view.fields.language, language.code()), None, &mut set)?;
        }
        if self.is_whole {
            for (doc, language) in self.view.near_languages(self.ordinal)? {
                if languages.contains(language) {
                    set.insert(*doc);
                }
            }
        }
        Ok(set)
    }

    fn file_types(&self, file_types: &[String]) -> Result<BitSet, Error> {
        let mut set = self.empty();
        for file_type in file_types.iter().take(VALUES_MAX) {
            let file_type = folded(file_type.trim_start_matches('.'));
            self.add(&Term::from_field_text(self.view.fields.file_type, &file_type), None, &mut set)?;
        }
        Ok(set)
    }

    fn empty(&self) -> BitSet {
        BitSet::with_max_value(self.segment.max_doc())
    }

    /// Adds the pages of a term, or those of them that are in another set.
    fn add(&self, term: &Term, also_in: Option<&BitSet>, set: &mut BitSet) -> Result<(), Error> {
        let index = self.segment.inverted_index(term.field()).map_err(Error::engine("open a segment"))?;
        let postings = index.read_postings(term, IndexRecordOption::Basic);
        if let Some(mut postings) = postings.map_err(Error::engine("read a filter"))? {
            while postings.doc() != TERMINATED {
                if also_in.is_none_or(|other| other.contains(postings.doc())) {
                    set.insert(postings.doc());
                }
                postings.advance();
            }
        }
        Ok(())
    }
}

/// Reads `example.org`, `*.example.org`, `https://example.org/docs/`: a name in the `site` field and the hash
/// of a path prefix.
fn read_site(site: &str) -> Option<(String, Option<u64>)> {
    let site = site.trim();
    let bare = site.split_once("://").map_or(site, |(_, rest)| rest);
    let bare = bare.trim_start_matches("*.").trim_start_matches('.');
    let url = CanonicalUrl::parse(&format!("http://{bare}")).ok()?;
    let path = path_prefixes(url.path()).last().map(|prefix| hash64(prefix.as_bytes()));
    Some((url.host().authority().to_string(), path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page, page_in, paths};
    use farol_base::query::Filters;
    use farol_base::{Document, Timestamp};

    fn shard() -> TestShard {
        let day = |day| Timestamp::from_date(2024, 5, day);
        TestShard::new(&[
            Document { dated: day(1), ..page("http://a.example.org/docs/one", "light one", "first") },
            Document { dated: day(2), ..page_in("pt", "http://example.org/docs/two", "light two", "second") },
            Document { file_type: "pdf".into(), ..page("http://example.org/three", "light three", "third") },
            Document { dated: day(9), ..page("http://other.net:8080/docs/four", "light four", "fourth") },
        ])
    }

    #[track_caller]
    fn check(filters: Filters, want: &[&str]) {
        let shard = shard();
        for words in ["light", ""] {
            let mut found = paths(&shard.ask_filtered(words, filters.clone()));
            found.sort();
            assert_eq!(found, want, "{words:?} {filters:?}");
        }
    }

    fn sites(sites: &[&str]) -> Filters {
        Filters { sites: sites.iter().map(|site| site.to_string()).collect(), ..Filters::default() }
    }

    #[test]
    fn sites_with_subdomains_and_paths() {
        check(sites(&["example.org"]), &["/docs/one", "/docs/two", "/three"]);
        check(sites(&["EXAMPLE.org/docs"]), &["/docs/one", "/docs/two"]);
        check(sites(&["example.org/docs/"]), &["/docs/one", "/docs/two"]);
        check(sites(&["a.example.org", "other.net"]), &["/docs/four", "/docs/one"]);
        check(sites(&["https://*.example.org/docs/one"]), &["/docs/one"]);
        check(sites(&["other.net:8080"]), &["/docs/four"]);
        check(sites(&["org"]), &["/docs/one", "/docs/two", "/three"]);
        check(sites(&["ample.org"]), &[]); // A name, not letters of one.
        check(sites(&["example.org/do"]), &[]); // Whole segments.
        check(sites(&["", "///", "a b"]), &[]);
        let without = Filters { not_sites: vec!["example.org".into()], ..Filters::default() };
        check(without, &["/docs/four"]);
    }

    #[test]
    fn languages_and_kinds_of_file() {
        let pt = Language::parse("pt").unwrap();
        check(Filters { languages: vec![pt], ..Filters::default() }, &["/docs/two"]);
        let not_pt = Filters { not_languages: vec![pt], ..Filters::default() };
        check(not_pt, &["/docs/four", "/docs/one", "/three"]);
        check(Filters { file_types: vec![".PDF".into()], ..Filters::default() }, &["/three"]);
        let not_html = Filters { not_file_types: vec!["html".into()], ..Filters::default() };
        check(not_html, &["/three"]);
    }

    #[test]
    fn dates_are_those_the_page_tells() {
        let day = |day| Timestamp::from_date(2024, 5, day);
        check(Filters { after: day(2), ..Filters::default() }, &["/docs/four", "/docs/two"]);
        check(Filters { before: day(2), ..Filters::default() }, &["/docs/one"]);
        check(Filters { after: day(2), before: day(9), ..Filters::default() }, &["/docs/two"]);
    }

    #[test]
    fn unwanted_words() {
        let shard = shard();
        assert_eq!(shard.ask("light -two").hits.len(), 3);
        assert_eq!(shard.ask("light -\"light two\" -t:three -u:four").hits.len(), 1);
        assert_eq!(shard.ask("-two").hits.len(), 0); // Nothing to look for.
    }
}
