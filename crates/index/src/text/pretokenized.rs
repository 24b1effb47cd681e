//! Pretokenized field values: tantivy is handed tokens, not text.
//!
//! Tantivy would tokenize each text once for every field, and knows nothing of a page's language. So texts are
//! tokenized here, once, and the value of a text field is a list of tokens: a digit, its *weight*, then each token
//! behind a byte that gives its position increment: one ([`NEXT_POSITION`]) or zero ([`SAME_POSITION`]). The list is
//! repeated as many times as the weight says, which is BM25F's weighting by repetition: a word of a title with
//! weight 4 counts like four words of the body, in frequency and in length.
//!
//! INVARIANT: a value without a readable weight gives no tokens and no panic.

use super::spans::Spans;
use super::{Analyser, Role, Tokens};
use farol_base::Language;
use std::collections::HashMap;
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

/// Position increment 1: stands before a token that is the next word. No token contains it: words are letters, digits,
/// marks and a few signs, and a stem begins with [`super::stem::STEM_MARK`], which is another one.
const NEXT_POSITION: char = '\u{2}';

/// Position increment 0: stands before a token at the position of the one before it: a stem, a part of an identifier,
/// a pair of characters.
const SAME_POSITION: char = '\u{3}';

/// Position gap between two repetitions of a text, so that no phrase crosses them.
const REPEAT_GAP: usize = 2;

/// Tokenizes texts for tantivy.
#[derive(Default)]
pub(crate) struct Pretokenizer {
    /// One analyser per language met. Each caches the tokens of some words: at most 22 × 0.7 MiB = 16 MiB.
    analysers: HashMap<Option<Language>, Analyser>,
    tokens: Tokens,
}

/// The values of a text for the fields that want it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Pretokenized {
    /// Its words.
    pub forms: String,
    /// Their stems, one position apart each: positions of stems are not indexed.
    pub stems: String,
    /// Words, each with its stem at the same position.
    pub both: String,
}

impl Pretokenizer {
    /// Tokenizes a text. `both` is made only where it is wanted.
    pub(crate) fn read(
        &mut self,
        language: Option<Language>,
        weight: u8,
        text: &str,
        both: bool,
    ) -> Pretokenized {
        let analyser = self.analysers.entry(language).or_insert_with(|| Analyser::caching(language));
        let weight = char::from(b'0' + weight.clamp(1, 9));
        let mut tokenized = Pretokenized::default();
        // Words and stems take about as many bytes as the text.
        tokenized.forms.reserve(text.len() + text.len() / 8 + 2);
        tokenized.stems.reserve(text.len() + 2);
        for value in [&mut tokenized.forms, &mut tokenized.stems, &mut tokenized.both] {
            value.push(weight);
        }
        let (mut position, mut next) = (0, 0);
        for span in Spans::new(text) {
            self.tokens.clear();
            position = analyser.read(text, span, position, &mut self.tokens);
            for token in self.tokens.as_slice() {
                let step = if token.position < next { SAME_POSITION } else { NEXT_POSITION };
                next = token.position + 1;
                tokenized.forms.push(step);
                tokenized.forms.push_str(&token.text);
                let stem =
                    Some(token.stem.as_str()).filter(|stem| token.role == Role::Whole && !stem.is_empty());
                if let Some(stem) = stem {
                    tokenized.stems.push(NEXT_POSITION);
                    tokenized.stems.push_str(stem);
                }
                if both {
                    tokenized.both.push(step);
                    tokenized.both.push_str(&token.text);
                    if let Some(stem) = stem {
                        tokenized.both.push(SAME_POSITION);
                        tokenized.both.push_str(stem);
                    }
                }
            }
        }
        tokenized
    }
}

/// Reads pretokenized values for tantivy.
#[derive(Clone)]
pub(crate) struct PretokenizedTokenizer;

impl Tokenizer for PretokenizedTokenizer {
    type TokenStream<'a> = PretokenizedStream<'a>;

    fn token_stream<'a>(&'a mut self, value: &'a str) -> PretokenizedStream<'a> {
        let weight = value.bytes().next().filter(u8::is_ascii_digit).map_or(0, |digit| digit - b'0');
        let tokens = value.get(1..).unwrap_or_default();
        PretokenizedStream {
            tokens,
            rest: if weight == 0 { "" } else { tokens },
            repeats_left: weight,
            next: 0,
            token: Token::default(),
        }
    }
}

/// The tokens of one value.
pub(crate) struct PretokenizedStream<'a> {
    tokens: &'a str,
    /// What is left of this repetition.
    rest: &'a str,
    repeats_left: u8,
    /// The position of the next word.
    next: usize,
    token: Token,
}

impl TokenStream for PretokenizedStream<'_> {
    fn advance(&mut self) -> bool {
        if self.rest.is_empty() {
            self.repeats_left = self.repeats_left.saturating_sub(1);
            if self.repeats_left == 0 || self.tokens.is_empty() {
                return false;
            }
            self.rest = self.tokens;
            self.next += REPEAT_GAP;
        }
        let mut chars = self.rest.chars();
        self.next += usize::from(chars.next() == Some(NEXT_POSITION));
        let rest = chars.as_str();
        let end = rest
            .bytes()
            .position(|b| b == NEXT_POSITION as u8 || b == SAME_POSITION as u8)
            .unwrap_or(rest.len());
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
        let mut tokenizer = PretokenizedTokenizer;
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
        let tokenized = Pretokenizer::default().read(Language::parse(code), weight, text, true);
        assert_eq!(
            [shown(&tokenized.forms), shown(&tokenized.stems), shown(&tokenized.both)],
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
        assert_eq!(Pretokenizer::default().read(None, 1, "a", false).both, "1");
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
                position += REPEAT_GAP as u32;
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
            let tokenized = Pretokenizer::default().read(language, weight, &text, true);
            prop_assert_eq!(handed_out(&tokenized.forms), read_anew(None, weight, &text, true, false));
            prop_assert_eq!(handed_out(&tokenized.both), read_anew(language, weight, &text, true, true));
            // Positions of stems are not indexed.
            let texts = |tokens: Vec<(String, usize)>| tokens.into_iter().map(|(text, _)| text).collect::<Vec<_>>();
            prop_assert_eq!(texts(handed_out(&tokenized.stems)), texts(read_anew(language, weight, &text, false, true)));
        }
    }
}
