//! BM25F: how much a word in a text says about a page, over fields of different weight.
//!
//! The weights are given by repetition when a page is indexed (see `text/pretokenized.rs`): the frequencies
//! of a word in all fields add up, each times its weight, *before* they saturate, so a word in title and body
//! counts once as a strong word rather than twice \[Robertson04\].

use crate::error::Error;
use crate::searcher::View;
use tantivy::fieldnorm::FieldNormReader;
use tantivy::{DocId, SegmentReader};

/// Weights of the fields, 1 to 9; changing one changes the format of the index.
pub(crate) const TITLE: u8 = 3;
pub(crate) const HEADINGS: u8 = 2;
pub(crate) const ANCHORS: u8 = 2;
pub(crate) const URL: u8 = 2;
pub(crate) const DESCRIPTION: u8 = 1;
pub(crate) const BODY: u8 = 1;

/// How much of a word's frequency its other forms can give: a page with another form of the word counts
/// this much of one with the form that was asked for.
pub(crate) const STEM_SHARE: f32 = 0.9;

/// What a word around the main text (in a menu, a list of links) counts of one in it.
pub(crate) const REST_SHARE: f32 = 0.05;

/// How slowly repetition saturates.
pub(crate) const K1: f32 = 1.6;

/// How much a long page is held against it.
pub(crate) const B: f32 = 0.75;

/// How rare a word is: `ln(1 + (N − n + ½) / (n + ½))`, never negative.
pub(crate) fn idf(pages: u64, slots: u64) -> f32 {
    let pages = pages.min(slots) as f32;
    (1.0 + (slots as f32 - pages + 0.5) / (pages + 0.5)).ln()
}

/// The parts of BM25 that depend on a page's length.
pub(crate) struct Bm25 {
    norms: FieldNormReader,
    /// `K1 (1 − B + B length / mean)` for each of tantivy's 256 classes of length.
    lengths: [f32; 256],
}

impl Bm25 {
    pub(crate) fn new(view: &View, segment: &SegmentReader) -> Result<Bm25, Error> {
        let norms = segment
            .get_fieldnorms_reader(view.fields.words)
            .map_err(Error::engine("read the lengths of pages"))?;
        let lengths = std::array::from_fn(|class| {
            let length = FieldNormReader::id_to_fieldnorm(class as u8) as f32;
            K1 * (1.0 - B + B * length / view.words_mean)
        });
        Ok(Bm25 { norms, lengths })
    }

    /// Between 0 and `K1 + 1`: 1 for a word that occurs once on a page of mean length.
    pub(crate) fn saturate(&self, frequency: f32, doc: DocId) -> f32 {
        frequency * (K1 + 1.0) / (frequency + self.length(doc))
    }

    /// The part of the page's length in the formula.
    pub(crate) fn length(&self, doc: DocId) -> f32 {
        self.lengths[usize::from(self.norms.fieldnorm_id(doc))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page};
    use farol_base::Document;

    #[test]
    fn rare_words_weigh_more() {
        assert!(idf(1, 100) > idf(10, 100));
        assert!(idf(100, 100) > 0.0);
        assert!(idf(200, 100) > 0.0); // A count that is off does no harm.
    }

    #[test]
    fn a_title_outweighs_a_body() {
        let filler = "lots of other text that stands on this page about the sea and ships";
        let shard = TestShard::new(&[
            page("http://a/body", "Ships", &format!("lighthouse {filler}")),
            page("http://b/title", "Lighthouse", &format!("ships {filler} x")),
            Document {
                headings: "Lighthouse".into(),
                ..page("http://c/heading", "Ships", &format!("ships {filler} y"))
            },
        ]);
        assert_eq!(shard.paths("lighthouse"), ["/title", "/heading", "/body"]);
    }

    #[test]
    fn the_form_asked_for_outranks_others() {
        let shard = TestShard::new(&[
            page("http://a/plural", "Ports", "about lighthouses here"),
            page("http://b/singular", "Ports", "about lighthouse here!"),
        ]);
        assert_eq!(shard.paths("lighthouse"), ["/singular", "/plural"]);
        assert_eq!(shard.paths("lighthouses"), ["/plural", "/singular"]);
    }
}
