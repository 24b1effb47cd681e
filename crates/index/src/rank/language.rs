//! Language boost: among pages that answer equally well, those in the asker's language come first.
//!
//! A preference, never a filter: a page in another language that answers clearly better stays ahead.

use crate::error::Error;
use crate::plan::Plan;
use tantivy::postings::SegmentPostings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet, SegmentReader, Term};

/// How much a page gains that is written in the asker's language: enough between near ties, too little to hide a
/// half-translated page that fits better.
const WEIGHT: f32 = 0.03;

/// The pages of one segment in the asker's language, asked for in growing order of pages.
pub(crate) struct LanguageBoost {
    pages: Option<SegmentPostings>,
}

impl LanguageBoost {
    pub(crate) fn new(segment: &SegmentReader, plan: &Plan) -> Result<LanguageBoost, Error> {
        let (Some(language), Ok(field)) = (plan.hint, segment.schema().get_field("language")) else {
            return Ok(LanguageBoost { pages: None });
        };
        let term = Term::from_field_text(field, language.code());
        let index = segment.inverted_index(field).map_err(Error::engine("open a segment"))?;
        let pages = index
            .read_postings(&term, IndexRecordOption::Basic)
            .map_err(Error::engine("read the languages of pages"))?;
        Ok(LanguageBoost { pages })
    }

    /// The factor of a page: 1 where its language is another, or unknown.
    pub(crate) fn factor(&mut self, doc: DocId) -> f32 {
        let Some(pages) = &mut self.pages else { return 1.0 };
        if pages.doc() < doc {
            pages.seek(doc);
        }
        if pages.doc() == doc { 1.0 + WEIGHT } else { 1.0 }
    }
}

#[cfg(test)]
mod tests {
    use crate::NoRanks;
    use crate::testing::{TestShard, page_in, paths, query};
    use farol_base::Language;
    use farol_base::query::{Filters, Request};

    #[test]
    fn the_askers_language_decides_between_equals() {
        let pages = [
            page_in("tr", "http://a/tr", "mod_rewrite", "mod_rewrite apache"),
            page_in("en", "http://b/en", "mod_rewrite", "mod_rewrite apache"),
            page_in("de", "http://c/de", "mod_rewrite", "mod_rewrite apache"),
        ];
        let shard = TestShard::new(&pages);
        for code in ["tr", "en", "de"] {
            let request = Request {
                query: query("apache", Filters::default()),
                first: 0,
                count: 3,
                language: Language::parse(code),
            };
            let answer = shard.searcher().search(&request, &NoRanks).unwrap();
            assert!(paths(&answer)[0].contains(code), "{code}: {:?}", paths(&answer));
        }
    }
}
