//! BM25F: how much a word in a text says about a page, over fields of different weight and length.
//!
//! The frequencies of a word in all fields add up, each times its field's weight and divided by how long that field
//! is beside the usual, *before* they saturate: a word in title and body counts once as a strong word rather than
//! twice \[Robertson04\]. A long title is held against a page as a title, a long body as a body, and much anchor text,
//! which only says that a page is well known, hardly at all.

use tantivy::DocId;
use tantivy::fieldnorm::FieldNormReader;

/// A text of a page that has its own weight and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextField {
    /// Title, headings, description, main text and address, as one text.
    Words,
    /// The title once more.
    Title,
    /// What pages that link here say.
    Anchors,
    /// The words of the address once more.
    Url,
    /// What stands around the main text: menus, lists of links.
    Rest,
}

/// How a field counts.
struct FieldWeight {
    /// What one word counts in a field of usual length.
    weight: f32,
    /// How much of that depends on the field's length: 0 not at all, 1 altogether.
    b: f32,
}

impl TextField {
    /// Measured with `examples/evaluate`, title and words; the others are judgement, as judged collections lack them.
    fn counts(self) -> FieldWeight {
        let (weight, b) = match self {
            TextField::Words => (1.0, 0.8),
            TextField::Title => (0.5, 0.4),
            TextField::Anchors => (2.0, 0.2),
            TextField::Url => (1.0, 0.0),
            TextField::Rest => (0.05, 0.0),
        };
        FieldWeight { weight, b }
    }
}

/// How much of a word's frequency its other forms can give: a page with another form of the word counts
/// this much of one with the form that was asked for.
pub(crate) const STEM_SHARE: f32 = 0.9;

/// The same for a word written together or apart where the question has it the other way.
pub(crate) const SPELLING_SHARE: f32 = 0.8;

/// Where texts are about as short as this, in words, their lengths say little: extracts of pages are as long as somebody
/// cut them. Whole pages have ten times as many, and then it hardly plays a part.
const FEW_WORDS: f32 = 50.0;

/// How slowly repetition saturates.
pub(crate) const K1: f32 = 1.2;

/// How rare a word is: `ln(1 + (N − n + ½) / (n + ½))`, never negative.
pub(crate) fn idf(pages: u64, documents: u64) -> f32 {
    let pages = pages.min(documents) as f32;
    (1.0 + (documents as f32 - pages + 0.5) / (pages + 0.5)).ln()
}

/// Usual lengths of the fields that are measured, in tokens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MeanLengths {
    pub words: f32,
    pub title: f32,
    pub anchors: f32,
}

/// What a word counts in main texts, titles and anchors of each length, the same for all segments:
/// `weight / (1 − b' + b' length / mean)` with `b' = b mean / (mean + FEW_WORDS)`, for each of tantivy's 256 classes of length.
pub(crate) struct LengthFactors([[f32; 256]; 3]);

impl LengthFactors {
    pub(crate) fn new(means: MeanLengths) -> LengthFactors {
        let factors = |name: TextField, mean: f32| {
            let FieldWeight { weight, b } = name.counts();
            let b = b * mean / (mean + FEW_WORDS);
            std::array::from_fn(|class| {
                let length = FieldNormReader::id_to_fieldnorm(class as u8) as f32;
                weight / (1.0 - b + b * length / mean).max(0.05)
            })
        };
        LengthFactors([
            factors(TextField::Words, means.words),
            factors(TextField::Title, means.title),
            factors(TextField::Anchors, means.anchors),
        ])
    }
}

/// The parts of BM25F that depend on the lengths of the fields of a segment's pages.
#[derive(Clone, Copy)]
pub(crate) struct Bm25<'a> {
    factors: &'a LengthFactors,
    lengths: &'a [FieldNormReader; 3],
}

impl<'a> Bm25<'a> {
    pub(crate) fn new(factors: &'a LengthFactors, lengths: &'a [FieldNormReader; 3]) -> Bm25<'a> {
        Bm25 { factors, lengths }
    }

    fn measured(&self, field: usize, doc: DocId) -> f32 {
        self.factors.0[field][usize::from(self.lengths[field].fieldnorm_id(doc))]
    }

    /// What one occurrence in a field of a page counts.
    pub(crate) fn factor(&self, field: TextField, doc: DocId) -> f32 {
        match field {
            TextField::Words => self.measured(0, doc),
            TextField::Title => self.measured(1, doc),
            TextField::Anchors => self.measured(2, doc),
            TextField::Url | TextField::Rest => field.counts().weight,
        }
    }

    /// Between 0 and `K1 + 1`, of the sum of occurrences times their factors.
    pub(crate) fn saturate(&self, frequency: f32) -> f32 {
        frequency * (K1 + 1.0) / (frequency + K1)
    }

    /// `K1` times how long the page is beside the usual.
    pub(crate) fn length(&self, doc: DocId) -> f32 {
        K1 / self.measured(0, doc)
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
                ..page("http://c/heading", "Ships", &format!("lighthouse {filler} y"))
            },
        ]);
        assert_eq!(shard.paths("lighthouse"), ["/title", "/heading", "/body"]);
    }

    #[test]
    fn being_well_known_is_not_held_against_a_page() {
        let body = "the lighthouse stands on the cape and shines over the sea every night";
        let known = Document {
            anchors: "the lighthouse\nlighthouse of the cape\nour trip to the cape\nthe old tower".into(),
            ..page("http://a/known", "Cape", body)
        };
        let shard = TestShard::new(&[known, page("http://b/unknown", "Cape", &format!("{body}."))]);
        assert_eq!(shard.paths("shines"), ["/known", "/unknown"]);
        assert_eq!(shard.paths("lighthouse"), ["/known", "/unknown"]);
        assert_eq!(shard.paths("tower"), ["/known"]); // A page is found by what others call it.
        assert_eq!(shard.paths("\"old tower\""), ["/known"]);
        assert!(shard.paths("\"cape the\"").is_empty()); // No phrase crosses from one anchor to the next.
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
