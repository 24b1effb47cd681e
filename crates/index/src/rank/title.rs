//! Title boost: a page whose title holds just the words asked for is probably about them. That titles weigh more than
//! other text is BM25F's business, see [`super::fields`].

use crate::error::Error;
use crate::matching::Cursor;
use crate::plan::{Clause, ClauseFields, Plan};
use crate::searcher::SegmentView;
use tantivy::DocId;
use tantivy::fieldnorm::FieldNormReader;

/// How much a page gains whose title holds every word and nothing else.
const NOTHING_ELSE: f32 = 0.1;

/// Tokens that a word of a title takes: its form and its stem.
const TOKENS_PER_WORD: f32 = 2.0;

/// Looks words up in the titles of one segment, asked for in growing order of pages.
pub(crate) struct TitleBoost<'a> {
    cursors: Vec<(Cursor, f32)>,
    weight_all: f32,
    lengths: &'a FieldNormReader,
}

impl<'a> TitleBoost<'a> {
    pub(crate) fn new(segment: SegmentView<'a>, plan: &Plan) -> Result<TitleBoost<'a>, Error> {
        let [_, lengths, _] = &segment.columns.lengths;
        let mut boost = TitleBoost { cursors: Vec::new(), weight_all: 0.0, lengths };
        let title = plan.fields.title;
        for clause in plan.clauses.iter().filter(|clause| clause.fields.everywhere.is_some()) {
            boost.weight_all += clause.idf;
            let fields = ClauseFields { forms: title, stems: Some(title), rest: None, everywhere: None };
            let clause = Clause { fields, ..clause.clone() };
            if let Some(cursor) = Cursor::open(segment, &clause)? {
                boost.cursors.push((cursor, clause.idf));
            }
        }
        Ok(boost)
    }

    /// The factor of a page: 1 where its title holds none of the words.
    pub(crate) fn factor(&mut self, doc: DocId) -> f32 {
        if self.weight_all <= 0.0 {
            return 1.0;
        }
        let (mut held, mut words) = (0.0, 0.0);
        for (cursor, idf) in &mut self.cursors {
            if cursor.seek(doc) == doc {
                held += *idf;
                words += 1.0;
            }
        }
        let tokens = self.lengths.fieldnorm(doc) as f32;
        let share = (TOKENS_PER_WORD * words / tokens.max(1.0)).min(1.0);
        1.0 + NOTHING_ELSE * share * held / self.weight_all
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestShard, page};

    #[test]
    fn a_title_of_just_these_words_beats_one_of_more() {
        let body = "the journal of changes is written ahead of the pages";
        let shard = TestShard::new(&[
            page("http://a/long", "Changes of the journal and other hooks of the library", body),
            page("http://b/just", "Journal changes", body),
            page("http://c/none", "Something else", body),
        ]);
        assert_eq!(shard.paths("journal changes")[0], "/just");
    }
}
