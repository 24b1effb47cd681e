//! Language boost: among pages that answer equally well, those in the asker's languages come first.
//!
//! A preference, never a filter: a page in another language that answers clearly better stays ahead.

use crate::error::Error;
use crate::plan::Plan;
use tantivy::postings::SegmentPostings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, SegmentReader, Term};

/// How much a page gains that is written in the language the asker likes best; in the next one half as much, and so
/// on. Enough between near ties, too little to hide a half-translated page that fits better.
const WEIGHT: f32 = 0.03;

/// How well the asker likes the language of a page: its place in their list, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LanguagePlace(u8);

impl LanguagePlace {
    /// A language that was not named, or none.
    const NOWHERE: LanguagePlace = LanguagePlace(u8::MAX);

    /// The factor of a page: 1 where its language is another, or unknown.
    pub(crate) fn factor(self) -> f32 {
        if self == LanguagePlace::NOWHERE { 1.0 } else { 1.0 + WEIGHT * 0.5f32.powi(i32::from(self.0)) }
    }
}

/// The pages of one segment in the asker's languages, asked for in growing order of pages.
pub(crate) struct LanguagePages(Vec<(LanguagePlace, SegmentPostings)>);

impl LanguagePages {
    pub(crate) fn new(segment: &SegmentReader, plan: &Plan) -> Result<LanguagePages, Error> {
        let mut pages = Vec::new();
        if let Ok(field) = segment.schema().get_field("language") {
            let index = segment.inverted_index(field).map_err(Error::engine("open a segment"))?;
            for (place, language) in (0..).zip(plan.languages.iter()) {
                let term = Term::from_field_text(field, language.code());
                let postings = index
                    .read_postings(&term, IndexRecordOption::Basic)
                    .map_err(Error::engine("read the languages of pages"))?;
                pages.extend(postings.map(|postings| (LanguagePlace(place), postings)));
            }
        }
        Ok(LanguagePages(pages))
    }

    /// The place of a page's language.
    pub(crate) fn place(&mut self, doc: DocId) -> LanguagePlace {
        for (place, pages) in &mut self.0 {
            if pages.doc() < doc {
                pages.seek(doc);
            }
            if pages.doc() == doc {
                return *place;
            }
        }
        LanguagePlace::NOWHERE
    }
}

#[cfg(test)]
mod tests {
    use crate::NoRanks;
    use crate::testing::{TestShard, page_in, paths, query};
    use farol_base::query::{Filters, Request};
    use farol_base::{Document, Language, Languages};

    #[test]
    fn the_askers_languages_decide_between_equals() {
        let pages = [
            page_in("tr", "http://a/tr", "mod_rewrite", "mod_rewrite apache"),
            page_in("en", "http://b/en", "mod_rewrite", "mod_rewrite apache"),
            page_in("gl", "http://c/gl", "mod_rewrite", "mod_rewrite apache"),
        ];
        // Not copies of each other.
        let pages = pages.map(|page| Document { content_hash: Default::default(), ..page });
        let shard = TestShard::new(&pages);
        for codes in [["tr", "en", "gl"], ["gl", "tr", "en"], ["en", "gl", "tr"]] {
            let request = Request {
                query: query("apache", Filters::default()),
                first: 0,
                count: 3,
                languages: codes.iter().filter_map(|code| Language::parse(code)).collect::<Languages>(),
            };
            let answer = shard.searcher().search(&request, &NoRanks).unwrap();
            assert_eq!(paths(&answer), codes.map(|code| format!("/{code}")));
        }
    }
}
