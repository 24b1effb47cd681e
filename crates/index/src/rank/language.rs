//! Language boost: among pages that answer equally well, those in the asker's languages come first.
//!
//! A preference, never a filter: a page in another language that answers clearly better stays ahead.

use crate::error::Error;
use crate::plan::Plan;
use crate::searcher::SegmentView;
use tantivy::postings::SegmentPostings;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet};

/// How much a page gains that is written in the language the asker likes best; in the next one half as much, and so
/// on. Enough between near ties, too little to hide a half-translated page that fits better.
const TEXT: f32 = 0.03;

/// The same for a page whose address names that language.
const ADDRESS: f32 = 0.02;

/// Codes of languages that are as often other words of an address, or parts of names.
const OTHER_WORDS: &[&str] = &["id", "is", "my", "no", "or", "so"];

/// A place in the asker's list of languages.
type ListPlace = u8;

/// A language that was not named, or none.
const NOWHERE: ListPlace = ListPlace::MAX;

/// How well the asker likes the language of a page, best first: places in their list of languages, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct LanguagePlace {
    text: ListPlace,
    /// Of the language that the address names. Sites keep pages that nobody has translated yet beside those that are:
    /// the copies read the same, but each is meant for other readers.
    address: ListPlace,
}

impl LanguagePlace {
    /// Both places as one number; the less, the better.
    pub(crate) fn packed(self) -> u16 {
        u16::from_be_bytes([self.text, self.address])
    }

    /// The factor of a page: 1 where its language is another, or unknown.
    pub(crate) fn factor(self) -> f32 {
        let gain =
            |weight: f32, place| if place == NOWHERE { 0.0 } else { weight * 0.5f32.powi(i32::from(place)) };
        1.0 + gain(TEXT, self.text) + gain(ADDRESS, self.address)
    }
}

/// The pages of one segment in the asker's languages, asked for in growing order of pages.
pub(crate) struct LanguagePages(Vec<PagesOfLanguage>);

struct PagesOfLanguage {
    texts: Option<SegmentPostings>,
    addresses: Option<SegmentPostings>,
}

impl LanguagePages {
    pub(crate) fn new(segment: SegmentView<'_>, plan: &Plan) -> Result<LanguagePages, Error> {
        let mut pages = Vec::new();
        for language in plan.languages.iter() {
            let code = language.code();
            let addresses = match OTHER_WORDS.contains(&code) {
                true => None,
                false => segment.open(plan.fields.url, code, IndexRecordOption::Basic)?,
            };
            let texts = segment.open(plan.fields.language, code, IndexRecordOption::Basic)?;
            pages.push(PagesOfLanguage { texts, addresses });
        }
        Ok(LanguagePages(pages))
    }

    /// The places of a page's languages.
    pub(crate) fn place(&mut self, doc: DocId) -> LanguagePlace {
        let mut found = LanguagePlace { text: NOWHERE, address: NOWHERE };
        for (place, pages) in (0..NOWHERE).zip(&mut self.0) {
            if has(&mut pages.texts, doc) {
                found.text = found.text.min(place);
            }
            if has(&mut pages.addresses, doc) {
                found.address = found.address.min(place);
            }
        }
        found
    }
}

fn has(pages: &mut Option<SegmentPostings>, doc: DocId) -> bool {
    let Some(pages) = pages else { return false };
    if pages.doc() < doc {
        pages.seek(doc);
    }
    pages.doc() == doc
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

    #[test]
    fn of_untranslated_copies_the_one_in_the_askers_part_of_the_site_is_shown() {
        let copy = |url| page_in("en", url, "Wrappers", "which hosts may connect is decided by wrappers");
        let copies = ["http://a/en-US/w", "http://a/pt-BR/w", "http://a/guide-de/w"].map(copy);
        let shard = TestShard::new(&copies);
        for (codes, want) in
            [(["pt", "en"], "/pt-BR/w"), (["en", "pt"], "/en-US/w"), (["de", "en"], "/guide-de/w")]
        {
            let languages = codes.iter().filter_map(|code| Language::parse(code)).collect::<Languages>();
            let request =
                Request { query: query("wrappers", Filters::default()), first: 0, count: 3, languages };
            assert_eq!(paths(&shard.searcher().search(&request, &NoRanks).unwrap()), [want]);
        }
    }
}
