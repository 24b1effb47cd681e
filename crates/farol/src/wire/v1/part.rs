//! Bodies of the verbs by which shards answer a question together, and twins of what they hold.

use super::super::WireError;
use super::super::values::{language, read_language};
use super::node::ShardHead;
use super::question::{WireQuery, WireTerm};
use farol_base::query::Term;
use farol_base::{HostHash, PageId};
use farol_query::parts::{
    Asking, Beginning, CANDIDATES_MAX, Cand, Counts, Figures, Part, PartSpelling, Respelt, Sizes, WordCount,
};
use farol_query::spell::{Spellings, SpeltWord, TypedTerm, TypedWord};
use serde::{Deserialize, Serialize};

/// Asks how many pages a shard has of each word that the question may need; the answer is [`WireCounts`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountRequest {
    pub head: ShardHead,
    pub query: WireQuery,
    /// Languages of the asker.
    pub languages: Vec<String>,
    /// Of all shards together, so that all look up the same words.
    pub sizes: WireSizes,
    /// The operator's file of synonyms.
    pub synonyms: String,
}

/// Asks for a shard's part of the answer, which is a [`WirePart`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchRequest {
    pub head: ShardHead,
    pub query: WireQuery,
    pub languages: Vec<String>,
    pub asking: WireAsking,
    /// Of all shards together.
    pub figures: WireFigures,
    pub synonyms: String,
    /// Pages that the operator set on top of this question, in their order.
    pub pins: Vec<u64>,
}

/// Asks for titles and snippets; the answer is a `Vec<Option<WireHit>>`, one for each page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShowRequest {
    pub head: ShardHead,
    pub query: WireQuery,
    pub languages: Vec<String>,
    /// By which the part was made that named the pages.
    pub figures: WireFigures,
    pub synonyms: String,
    pub pages: Vec<u64>,
}

/// Twin of [`Asking`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireAsking {
    Typed,
    Corrected,
    AsTyped,
}

/// Pages that a part may have besides those that are ranked by their words: they are called what was asked for.
const NAMED_MAX: usize = 1_000;

/// Twin of [`Sizes`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireSizes {
    /// Pages alive, as [`WireSizes::documents`]: nodes of before counted deleted ones too, and go by this number.
    pub slots: u64,
    pub documents: u64,
    pub tokens: [u64; 3],
    pub languages: Vec<(String, u64)>,
    pub generation: u64,
}

/// A beginning in a field, and the words that begin so, with their pages.
pub type WireBeginning = (u32, String, Vec<(String, u64)>);

/// Twin of [`Counts`]: words, then beginnings with their words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireCounts {
    pub words: Vec<(u32, String, u64)>,
    pub beginnings: Vec<WireBeginning>,
}

/// Twin of [`Figures`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireFigures {
    pub sizes: WireSizes,
    pub counts: WireCounts,
    pub shards: u32,
}

/// Twin of [`Part`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WirePart {
    pub generation: u64,
    pub typed: Vec<(WireTerm, Option<WireTypedWord>)>,
    pub spelling: WireSpelling,
    pub searched: bool,
    pub listing: bool,
    pub by_name: bool,
    pub words: u32,
    pub strict: u64,
    pub cands: Vec<WireCand>,
    pub pinned: Vec<(u32, u64)>,
}

/// Twin of [`TypedWord`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WireTypedWord {
    pub form: String,
    pub pages: u64,
    pub has_forms: bool,
}

/// Twin of [`PartSpelling`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireSpelling {
    Right,
    Near {
        documents: u64,
        /// Form, as it is shown, pages.
        words: Vec<(String, String, u32)>,
        phrases: Vec<String>,
        begins: bool,
    },
    Decided {
        corrected: Option<Vec<WireTerm>>,
        suggested: Option<Vec<WireTerm>>,
    },
}

/// Twin of [`Cand`]. Hashes have eight bytes: as numbers of varying length they would mostly have ten.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct WireCand {
    #[serde(with = "postcard::fixint::le")]
    pub page: u64,
    #[serde(with = "postcard::fixint::le")]
    pub host: u64,
    #[serde(with = "postcard::fixint::le")]
    pub content: u64,
    #[serde(with = "postcard::fixint::le")]
    pub simhash: u64,
    pub strict: bool,
    pub named: u8,
    pub text: f32,
    pub linked: f32,
    pub near: f32,
    pub tie: u64,
    pub language: u16,
    pub link_rank: f32,
    pub address: u32,
}

impl From<Asking> for WireAsking {
    fn from(asking: Asking) -> WireAsking {
        match asking {
            Asking::Typed => WireAsking::Typed,
            Asking::Corrected => WireAsking::Corrected,
            Asking::AsTyped => WireAsking::AsTyped,
        }
    }
}

impl From<WireAsking> for Asking {
    fn from(wire: WireAsking) -> Asking {
        match wire {
            WireAsking::Typed => Asking::Typed,
            WireAsking::Corrected => Asking::Corrected,
            WireAsking::AsTyped => Asking::AsTyped,
        }
    }
}

impl From<&Sizes> for WireSizes {
    fn from(sizes: &Sizes) -> WireSizes {
        WireSizes {
            slots: sizes.documents,
            documents: sizes.documents,
            tokens: sizes.tokens,
            languages: sizes.languages.iter().map(|(code, pages)| (language(*code), *pages)).collect(),
            generation: sizes.generation,
        }
    }
}

impl TryFrom<WireSizes> for Sizes {
    type Error = WireError;

    fn try_from(wire: WireSizes) -> Result<Sizes, WireError> {
        let language = |(code, pages): (String, u64)| Ok((read_language(&code)?, bounded(pages)));
        Ok(Sizes {
            // Sums of these must not overflow, whatever a node says of itself.
            documents: bounded(wire.documents),
            tokens: wire.tokens.map(bounded),
            languages: wire.languages.into_iter().map(language).collect::<Result<_, WireError>>()?,
            generation: wire.generation,
        })
    }
}

/// No more than can be summed of all that fits a body: a million times a million pages, or words.
fn bounded(count: u64) -> u64 {
    count.min(1 << 40)
}

impl From<&Counts> for WireCounts {
    fn from(counts: &Counts) -> WireCounts {
        let beginnings = counts.beginnings().iter();
        WireCounts {
            words: counts.words().iter().map(|word| (word.field, word.text.clone(), word.pages)).collect(),
            beginnings: beginnings
                .map(|known| (known.field, known.text.clone(), known.words.clone()))
                .collect(),
        }
    }
}

impl From<WireCounts> for Counts {
    /// Sorted and summed again: the order of another node is not believed.
    fn from(wire: WireCounts) -> Counts {
        let words = wire.words.into_iter();
        let beginnings = wire.beginnings.into_iter();
        let bound = |(word, pages): (String, u64)| (word, bounded(pages));
        Counts::new(
            words.map(|(field, text, pages)| WordCount { field, text, pages: bounded(pages) }).collect(),
            beginnings
                .map(|(field, text, words)| Beginning {
                    field,
                    text,
                    words: words.into_iter().map(bound).collect(),
                })
                .collect(),
        )
    }
}

impl From<&Figures> for WireFigures {
    fn from(figures: &Figures) -> WireFigures {
        WireFigures {
            sizes: WireSizes::from(&figures.sizes),
            counts: WireCounts::from(&figures.counts),
            shards: u32::try_from(figures.shards).unwrap_or(u32::MAX),
        }
    }
}

impl TryFrom<WireFigures> for Figures {
    type Error = WireError;

    fn try_from(wire: WireFigures) -> Result<Figures, WireError> {
        Ok(Figures {
            sizes: Sizes::try_from(wire.sizes)?,
            counts: Counts::from(wire.counts),
            shards: wire.shards as usize,
        })
    }
}

fn terms(terms: &Option<Vec<Term>>) -> Option<Vec<WireTerm>> {
    terms.as_ref().map(|terms| terms.iter().map(WireTerm::from).collect())
}

fn read_terms(terms: Option<Vec<WireTerm>>) -> Option<Vec<Term>> {
    terms.map(|terms| terms.into_iter().map(Term::from).collect())
}

impl From<&PartSpelling> for WireSpelling {
    fn from(spelling: &PartSpelling) -> WireSpelling {
        match spelling {
            PartSpelling::Right => WireSpelling::Right,
            PartSpelling::Near(near) => WireSpelling::Near {
                documents: near.documents,
                words: (near.words.iter())
                    .map(|word| (word.form.clone(), word.shown.clone(), word.pages))
                    .collect(),
                phrases: near.phrases.clone(),
                begins: near.begins,
            },
            PartSpelling::Decided(decided) => WireSpelling::Decided {
                corrected: terms(&decided.corrected),
                suggested: terms(&decided.suggested),
            },
        }
    }
}

impl From<WireSpelling> for PartSpelling {
    fn from(wire: WireSpelling) -> PartSpelling {
        match wire {
            WireSpelling::Right => PartSpelling::Right,
            WireSpelling::Near { documents, words, phrases, begins } => {
                let word = |(form, shown, pages)| SpeltWord { form, shown, pages };
                let words = words.into_iter().map(word).collect();
                // Summing puts them in order, which is not believed.
                let near = Spellings { documents: bounded(documents), words, phrases, begins };
                PartSpelling::Near(Spellings::sum([near]))
            }
            WireSpelling::Decided { corrected, suggested } => PartSpelling::Decided(Respelt {
                corrected: read_terms(corrected),
                suggested: read_terms(suggested),
            }),
        }
    }
}

impl From<&Cand> for WireCand {
    fn from(cand: &Cand) -> WireCand {
        WireCand {
            page: cand.page.0,
            host: cand.host.0,
            content: cand.content,
            simhash: cand.simhash,
            strict: cand.strict,
            named: cand.named,
            text: cand.text,
            linked: cand.linked,
            near: cand.near,
            tie: cand.tie,
            language: cand.language,
            link_rank: cand.link_rank,
            address: cand.address,
        }
    }
}

impl From<WireCand> for Cand {
    fn from(wire: WireCand) -> Cand {
        // What is no number is the worst there is.
        let score = |score: f32| if score.is_nan() { 0.0 } else { score };
        Cand {
            page: PageId(wire.page),
            host: HostHash(wire.host),
            content: wire.content,
            simhash: wire.simhash,
            strict: wire.strict,
            named: wire.named,
            text: score(wire.text),
            linked: score(wire.linked),
            near: score(wire.near),
            tie: wire.tie,
            language: wire.language,
            link_rank: score(wire.link_rank),
            address: wire.address,
        }
    }
}

impl From<&Part> for WirePart {
    fn from(part: &Part) -> WirePart {
        let typed = |typed: &TypedTerm| {
            let word = typed.word.as_ref().map(|word| WireTypedWord {
                form: word.form.clone(),
                pages: word.pages,
                has_forms: word.has_forms,
            });
            (WireTerm::from(&typed.term), word)
        };
        WirePart {
            generation: part.generation,
            typed: part.typed.iter().map(typed).collect(),
            spelling: WireSpelling::from(&part.spelling),
            searched: part.searched,
            listing: part.listing,
            by_name: part.by_name,
            words: part.words,
            strict: part.strict,
            cands: part.cands.iter().map(WireCand::from).collect(),
            pinned: part.pinned.iter().map(|(place, page)| (*place, page.0)).collect(),
        }
    }
}

impl TryFrom<WirePart> for Part {
    type Error = WireError;

    fn try_from(wire: WirePart) -> Result<Part, WireError> {
        if wire.cands.len() > CANDIDATES_MAX + NAMED_MAX {
            let pages = wire.cands.len();
            return Err(WireError::Damaged(format!("{pages} pages are more than a part may have")));
        }
        let typed = |(term, word): (WireTerm, Option<WireTypedWord>)| TypedTerm {
            term: Term::from(term),
            word: word.map(|WireTypedWord { form, pages, has_forms }| TypedWord { form, pages, has_forms }),
        };
        Ok(Part {
            generation: wire.generation,
            typed: wire.typed.into_iter().map(typed).collect(),
            spelling: PartSpelling::from(wire.spelling),
            searched: wire.searched,
            listing: wire.listing,
            by_name: wire.by_name,
            words: wire.words,
            strict: bounded(wire.strict),
            cands: wire.cands.into_iter().map(Cand::from).collect(),
            pinned: wire.pinned.into_iter().map(|(place, page)| (place, PageId(page))).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::question::{WireField, WireFilters};
    use super::*;
    use farol_base::query::Field;
    use proptest::prelude::*;
    use serde::de::DeserializeOwned;
    use std::fmt::Debug;

    fn frozen<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, golden: &[u8]) {
        assert_eq!(postcard::to_stdvec(value).unwrap(), golden, "{value:?}");
        assert_eq!(&postcard::from_bytes::<T>(golden).unwrap(), value);
    }

    const HEAD: ShardHead = ShardHead { map: 300, shard: 2 };
    const HEAD_BYTES: &[u8] = b"\xac\x02\x02";
    const QUERY_BYTES: &[u8] = b"\x01\x01a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";
    const SIZES_BYTES: &[u8] = b"\x05\x04\x03\x02\x01\x01\x02pt\x04\x09";
    const FIGURES_BYTES: &[u8] =
        b"\x05\x04\x03\x02\x01\x01\x02pt\x04\x09\x01\x01\x01a\x06\x01\x01\x01a\x01\x02ab\x07\x03";

    fn term(text: &str) -> WireTerm {
        WireTerm { text: text.into(), field: WireField::Any, phrase: false }
    }

    fn query() -> WireQuery {
        let filters = WireFilters::default();
        WireQuery { wanted: vec![term("a")], unwanted: vec![], filters, as_written: false }
    }

    fn sizes() -> WireSizes {
        let languages = vec![("pt".into(), 4)];
        WireSizes { slots: 5, documents: 4, tokens: [3, 2, 1], languages, generation: 9 }
    }

    fn figures() -> WireFigures {
        let beginnings = vec![(1, "a".into(), vec![("ab".into(), 7)])];
        let counts = WireCounts { words: vec![(1, "a".into(), 6)], beginnings };
        WireFigures { sizes: sizes(), counts, shards: 3 }
    }

    fn cand(page: u64) -> WireCand {
        WireCand {
            page,
            host: 2,
            content: 3,
            simhash: 4,
            strict: true,
            named: 1,
            text: 1.0,
            linked: 2.0,
            near: 3.0,
            tie: 5,
            language: 6,
            link_rank: 0.5,
            address: 7,
        }
    }

    fn part() -> WirePart {
        let word = WireTypedWord { form: "a".into(), pages: 6, has_forms: true };
        WirePart {
            generation: 1,
            typed: vec![(term("a"), Some(word)), (term("b"), None)],
            spelling: WireSpelling::Near {
                documents: 4,
                words: vec![("ab".into(), "Ab".into(), 7)],
                phrases: vec!["a b".into()],
                begins: true,
            },
            searched: true,
            listing: false,
            by_name: true,
            words: 2,
            strict: 8,
            cands: vec![cand(1)],
            pinned: vec![(0, 5)],
        }
    }

    #[test]
    fn the_first_version_is_frozen() {
        let languages = vec!["pt".to_string()];
        let request = CountRequest {
            head: HEAD,
            query: query(),
            languages: languages.clone(),
            sizes: sizes(),
            synonyms: "s".into(),
        };
        frozen(&request, &[HEAD_BYTES, QUERY_BYTES, b"\x01\x02pt", SIZES_BYTES, b"\x01s"].concat());
        let request = SearchRequest {
            head: HEAD,
            query: query(),
            languages: languages.clone(),
            asking: WireAsking::Corrected,
            figures: figures(),
            synonyms: String::new(),
            pins: vec![1, 300],
        };
        let golden =
            [HEAD_BYTES, QUERY_BYTES, b"\x01\x02pt\x01", FIGURES_BYTES, b"\x00\x02\x01\xac\x02"].concat();
        frozen(&request, &golden);
        let request = ShowRequest {
            head: HEAD,
            query: query(),
            languages,
            figures: figures(),
            synonyms: String::new(),
            pages: vec![300],
        };
        let golden = [HEAD_BYTES, QUERY_BYTES, b"\x01\x02pt", FIGURES_BYTES, b"\x00\x01\xac\x02"].concat();
        frozen(&request, &golden);
        let golden = [
            b"\x01\x02\x01a\x00\x00\x01\x01a\x06\x01\x01b\x00\x00\x00".as_slice(),
            b"\x01\x04\x01\x02ab\x02Ab\x07\x01\x03a b\x01",
            b"\x01\x00\x01\x02\x08\x01",
            b"\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0",
            b"\x01\x01\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\x05\x06\0\0\0\x3f\x07",
            b"\x01\x00\x05",
        ];
        frozen(&part(), &golden.concat());
        let decided = WireSpelling::Decided { corrected: Some(vec![term("c")]), suggested: None };
        frozen(&decided, b"\x02\x01\x01\x01c\x00\x00\x00");
        frozen(&WireSpelling::Right, b"\x00");
        frozen(&[WireAsking::Typed, WireAsking::Corrected, WireAsking::AsTyped], b"\x00\x01\x02");
    }

    #[test]
    fn what_arrives_is_what_was_sent() {
        let inner = Part::try_from(part()).unwrap();
        assert_eq!(inner.typed[0].term.field, Field::Any);
        assert_eq!(WirePart::from(&inner), part());
        let inner = Figures::try_from(figures()).unwrap();
        assert_eq!(inner.counts.pages(1, "a"), 6);
        // Deleted pages, which nodes of before counted among the slots, count nowhere any more.
        let mut alive = figures();
        alive.sizes.slots = alive.sizes.documents;
        assert_eq!(WireFigures::from(&inner), alive);
    }

    #[test]
    fn what_a_node_says_is_bounded_and_put_in_order() {
        let mut wild = part();
        wild.cands[0].near = f32::NAN;
        wild.spelling = WireSpelling::Near {
            documents: u64::MAX,
            words: vec![
                ("b".into(), "b".into(), 1),
                ("a".into(), "a".into(), 1),
                ("b".into(), "b".into(), 1),
            ],
            phrases: vec!["y".into(), "x".into()],
            begins: false,
        };
        let read = Part::try_from(wild.clone()).unwrap();
        assert_eq!(read.cands[0].near, 0.0);
        let PartSpelling::Near(near) = read.spelling else { panic!("{:?}", read.spelling) };
        assert_eq!(
            (near.phrases, near.words.len(), near.words[0].form.as_str()),
            (vec!["x".into(), "y".into()], 2, "a")
        );
        wild.cands = vec![cand(1); CANDIDATES_MAX + NAMED_MAX + 1];
        assert!(Part::try_from(wild).is_err());

        let huge = WireSizes { documents: u64::MAX, tokens: [u64::MAX; 3], ..sizes() };
        let huge = Sizes::try_from(huge).unwrap();
        assert!(Sizes::sum([&huge, &huge]).documents > 0);
        let twice = WireCounts {
            words: vec![(2, "b".into(), 1), (1, "a".into(), 2), (2, "b".into(), 3)],
            ..Default::default()
        };
        assert_eq!(Counts::from(twice).pages(2, "b"), 4);
        assert!(Sizes::try_from(WireSizes { languages: vec![("?".into(), 1)], ..sizes() }).is_err());
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = postcard::from_bytes::<CountRequest>(&bytes);
            let _ = postcard::from_bytes::<SearchRequest>(&bytes).map(|request| Figures::try_from(request.figures));
            let _ = postcard::from_bytes::<ShowRequest>(&bytes);
            let _ = postcard::from_bytes::<WireSizes>(&bytes).map(Sizes::try_from);
            let _ = postcard::from_bytes::<WireCounts>(&bytes).map(Counts::from);
            let _ = postcard::from_bytes::<WirePart>(&bytes).map(Part::try_from);
        }
    }
}
