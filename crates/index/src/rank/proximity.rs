//! Term proximity: words close together mean more than words far apart.
//!
//! The measure is that of \[Buettcher06\]: walk over all positions of the words in order; where two
//! different words follow each other at distance d, each gains the other's rarity over d². The gains saturate
//! like frequencies do in BM25. Only the forms asked for count: their stems as well gained nothing.

use super::fields::{Bm25, K1};
use crate::error::Error;
use crate::plan::Plan;
use crate::searcher::SegmentView;
use tantivy::postings::{Postings, SegmentPostings};
use tantivy::schema::IndexRecordOption;
use tantivy::{DocId, DocSet};

/// Positions of one word on one page that are read: 16 words × 512 × 8 bytes = 64 KiB.
const POSITIONS_MAX: usize = 512;

/// Words of a question that are measured.
const WORDS_MAX: usize = 16;

/// How much proximity weighs beside BM25. Measured with `examples/evaluate`: 0 loses on CRAN and MED, 1 on NPL.
const WEIGHT: f32 = 0.3;

/// Measures proximity on the pages of one segment, asked for in growing order.
pub(crate) struct Proximity {
    words: Vec<WordPositions>,
    merged: Vec<(u32, usize)>,
}

struct WordPositions {
    postings: SegmentPostings,
    idf: f32,
    positions: Vec<u32>,
}

impl Proximity {
    /// Opens the words of a plan; none where fewer than two can be near each other.
    pub(crate) fn new(segment: SegmentView<'_>, plan: &Plan) -> Result<Option<Proximity>, Error> {
        let mut words = Vec::new();
        for clause in plan.loose.iter().filter(|clause| clause.fields.everywhere.is_some() && clause.required)
        {
            let Some(form) = clause.kind.form() else { continue };
            let postings =
                segment.open(clause.fields.forms, form, IndexRecordOption::WithFreqsAndPositions)?;
            if let Some(postings) = postings
                && words.len() < WORDS_MAX
            {
                words.push(WordPositions { postings, idf: clause.idf, positions: Vec::new() });
            }
        }
        Ok((words.len() > 1).then_some(Proximity { words, merged: Vec::new() }))
    }

    /// What proximity adds to a page's score.
    pub(crate) fn score(&mut self, doc: DocId, bm25: &Bm25<'_>) -> f32 {
        self.merged.clear();
        for (number, word) in self.words.iter_mut().enumerate() {
            if word.postings.doc() < doc {
                word.postings.seek(doc);
            }
            if word.postings.doc() == doc {
                word.postings.positions(&mut word.positions);
                let positions = word.positions.iter().take(POSITIONS_MAX);
                self.merged.extend(positions.map(|position| (*position, number)));
            }
        }
        self.merged.sort_unstable();
        let mut gains = [0f32; WORDS_MAX];
        for pair in self.merged.windows(2) {
            let [(before, one), (after, other)] = [pair[0], pair[1]];
            if one != other && after > before {
                let distance = (after - before) as f32;
                gains[one] += self.words[other].idf / (distance * distance);
                gains[other] += self.words[one].idf / (distance * distance);
            }
        }
        let length = bm25.length(doc);
        let scores = self
            .words
            .iter()
            .zip(gains)
            .map(|(word, gain)| word.idf.min(1.0) * gain * (K1 + 1.0) / (gain + length));
        WEIGHT * scores.sum::<f32>()
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{TestShard, page};

    #[test]
    fn words_close_together_rank_higher() {
        let shard = TestShard::new(&[
            page("http://a/far", "Ports", "harbour lights were seen by many who sailed the old coast"),
            page("http://b/near", "Ports", "many who sailed were seen by lights the old harbour coast"),
            page("http://c/next", "Ports", "many who sailed were seen by the lights of old harbour coast"),
        ]);
        assert_eq!(shard.paths("harbour coast")[2], "/far");
        assert_eq!(shard.paths("lights harbour").len(), 3);
        assert_eq!(shard.paths("lights harbour")[0], "/far"); // "harbour lights" is nearest, in any order.
    }
}
