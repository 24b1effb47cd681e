//! Hands tantivy a page's texts already read: their tokens, one behind the other.
//!
//! Tantivy would read each text once for every field, and knows nothing of a page's language. So texts are read here, once,
//! and the value of a text field is a list of tokens: a digit, its *weight*, then each token behind a byte that says whether it stands
//! one word further than the token before ([`FURTHER`]) or at the same place ([`BESIDE`]). The list is handed out as many times over
//! as the weight says, which is BM25F's weighting by repetition: a word of a title with weight 4 counts like four words of
//! the body, in frequency and in length.
//!
//! INVARIANT: a value without a readable weight gives no tokens and no panic.

use super::spans::Spans;
use super::{Analyser, Role, Tokens};
use farol_base::Language;
use std::collections::HashMap;
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

/// Stands before a token that is the next word. No token has it in it: words are letters, digits, marks and a few signs, and a
/// stem begins with [`super::stem::STEM_MARK`], which is another one.
const FURTHER: char = '\u{2}';

/// Stands before a token at the place of the one before it: a stem, a part of an identifier, a pair of characters.
const BESIDE: char = '\u{3}';

/// Positions left free between two readings of a text, so that no phrase crosses them.
const READING_GAP: usize = 2;

/// Reads texts for tantivy.
#[derive(Default)]
pub(crate) struct Carrier {
    /// One analyser per language met. Each remembers some words: at most 22 × 0.7 MiB = 16 MiB.
    analysers: HashMap<Option<Language>, Analyser>,
    tokens: Tokens,
}

/// The values of a text for the fields that want it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried {
    /// Its words.
    pub forms: String,
    /// Their stems, one word apart each: nobody asks where they stand.
    pub stems: String,
    /// Words, each with its stem beside it.
    pub both: String,
}

impl Carrier {
    /// Reads a text. `both` is made only where it is wanted.
    pub(crate) fn read(&mut self, language: Option<Language>, weight: u8, text: &str, both: bool) -> Carried {
        let analyser = self.analysers.entry(language).or_insert_with(|| Analyser::remembering(language));
        let weight = char::from(b'0' + weight.clamp(1, 9));
        let mut carried = Carried::default();
        // Words and stems take about as much room as the text.
        carried.forms.reserve(text.len() + text.len() / 8 + 2);
        carried.stems.reserve(text.len() + 2);
        for value in [&mut carried.forms, &mut carried.stems, &mut carried.both] {
            value.push(weight);
        }
        let (mut position, mut next) = (0, 0);
        for span in Spans::new(text) {
            self.tokens.clear();
            position = analyser.read(text, span, position, &mut self.tokens);
            for token in self.tokens.as_slice() {
                let step = if token.position < next { BESIDE } else { FURTHER };
                next = token.position + 1;
                carried.forms.push(step);
                carried.forms.push_str(&token.text);
                let stem =
                    Some(token.stem.as_str()).filter(|stem| token.role == Role::Whole && !stem.is_empty());
                if let Some(stem) = stem {
                    carried.stems.push(FURTHER);
                    carried.stems.push_str(stem);
                }
                if both {
                    carried.both.push(step);
                    carried.both.push_str(&token.text);
                    if let Some(stem) = stem {
                        carried.both.push(BESIDE);
                        carried.both.push_str(stem);
                    }
                }
            }
        }
        carried
    }
}

/// Tantivy's view of what was read.
#[derive(Clone)]
pub(crate) struct CarrierTokenizer;

impl Tokenizer for CarrierTokenizer {
    type TokenStream<'a> = CarrierStream<'a>;

    fn token_stream<'a>(&'a mut self, value: &'a str) -> CarrierStream<'a> {
        let weight = value.bytes().next().filter(u8::is_ascii_digit).map_or(0, |digit| digit - b'0');
        let tokens = value.get(1..).unwrap_or_default();
        CarrierStream {
            tokens,
            rest: if weight == 0 { "" } else { tokens },
            readings_left: weight,
            next: 0,
            token: Token::default(),
        }
    }
}

/// The tokens of one value.
pub(crate) struct CarrierStream<'a> {
    tokens: &'a str,
    /// What has not been handed out in this reading.
    rest: &'a str,
    readings_left: u8,
    /// Where the next word stands.
    next: usize,
    token: Token,
}

impl TokenStream for CarrierStream<'_> {
    fn advance(&mut self) -> bool {
        if self.rest.is_empty() {
            self.readings_left = self.readings_left.saturating_sub(1);
            if self.readings_left == 0 || self.tokens.is_empty() {
                return false;
            }
            self.rest = self.tokens;
            self.next += READING_GAP;
        }
        let mut chars = self.rest.chars();
        self.next += usize::from(chars.next() == Some(FURTHER));
        let rest = chars.as_str();
        let end = rest.bytes().position(|b| b == FURTHER as u8 || b == BESIDE as u8).unwrap_or(rest.len());
        self.token.text.clear();
        self.token.text.push_str(&rest[..end]);
        self.token.position = self.next.saturating_sub(1);
        self.rest = &rest[end..];
        true
    }

    fn token(&self) -> &Token {
        &self.token
    }

    fn token_mut(&mut self) -> &mut Token {
        &mut self.token
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn handed_out(value: &str) -> Vec<(String, usize)> {
        let mut tokenizer = CarrierTokenizer;
        let mut stream = tokenizer.token_stream(value);
        let mut tokens = Vec::new();
        while stream.advance() {
            tokens.push((stream.token().text.clone(), stream.token().position));
        }
        tokens
    }

    fn shown(value: &str) -> String {
        let tokens = handed_out(value).into_iter();
        tokens
            .map(|(text, position)| format!("{}@{position}", text.replace('\u{1}', "~")))
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[track_caller]
    fn check(code: &str, weight: u8, text: &str, forms: &str, stems: &str, both: &str) {
        let carried = Carrier::default().read(Language::parse(code), weight, text, true);
        assert_eq!(
            [shown(&carried.forms), shown(&carried.stems), shown(&carried.both)],
            [forms, stems, both],
            "{text}"
        );
    }

    #[test]
    fn a_text_is_read_once_and_handed_out_by_its_weight() {
        check("en", 1, "the cats", "the@0 cats@1", "~encat@0", "the@0 cats@1 ~encat@1");
        check("--", 1, "the cats", "the@0 cats@1", "", "the@0 cats@1");
        check("--", 2, "a b", "a@0 b@1 a@4 b@5", "", "a@0 b@1 a@4 b@5"); // Read twice, with a gap.
        check("en", 1, "", "", "", "");
        check(
            "en",
            42,
            "x",
            &["x@0", "x@3", "x@6", "x@9", "x@12", "x@15", "x@18", "x@21", "x@24"].join(" "),
            "",
            &["x@0", "x@3", "x@6", "x@9", "x@12", "x@15", "x@18", "x@21", "x@24"].join(" "),
        );
        assert_eq!(Carrier::default().read(None, 1, "a", false).both, "1");
    }

    #[test]
    fn a_damaged_value_gives_nothing() {
        for value in ["", "1", "0\u{2}a", "x\u{2}a", "é\u{2}a", "9"] {
            assert_eq!(shown(value), "", "{value:?}");
        }
    }

    /// What tantivy was handed when it still had each text read for every field.
    fn read_anew(
        language: Option<Language>,
        weight: u8,
        text: &str,
        forms: bool,
        stems: bool,
    ) -> Vec<(String, usize)> {
        let mut handed = Vec::new();
        let mut position = 0;
        for reading in 0..weight {
            if reading > 0 {
                position += READING_GAP as u32;
            }
            for span in Spans::new(text) {
                let mut tokens = Tokens::default();
                position = Analyser::new(language).read(text, span, position, &mut tokens);
                for token in tokens.as_slice() {
                    if forms {
                        handed.push((token.text.clone(), token.position as usize));
                    }
                    if stems && token.role == Role::Whole && !token.stem.is_empty() {
                        handed.push((token.stem.clone(), token.position as usize));
                    }
                }
            }
        }
        handed
    }

    proptest! {
        #[test]
        fn it_is_the_same_as_reading_for_every_field(
            text in "([a-cA-C ]|ing |_|\\+|#|'|é|ß|東|京|ไ|\\u{E31}|\\u{AD}|\\PC){0,60}",
            code in "en|pt|ja|zz",
            weight in 1u8..4,
        ) {
            let language = Language::parse(&code);
            let carried = Carrier::default().read(language, weight, &text, true);
            prop_assert_eq!(handed_out(&carried.forms), read_anew(None, weight, &text, true, false));
            prop_assert_eq!(handed_out(&carried.both), read_anew(language, weight, &text, true, true));
            // Positions of stems are not indexed.
            let texts = |tokens: Vec<(String, usize)>| tokens.into_iter().map(|(text, _)| text).collect::<Vec<_>>();
            prop_assert_eq!(texts(handed_out(&carried.stems)), texts(read_anew(language, weight, &text, false, true)));
        }
    }
}
