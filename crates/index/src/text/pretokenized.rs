//! Pretokenized field values: tantivy is handed tokens, not text.
//!
//! Tantivy would tokenize each text once for every field, and knows nothing of a page's language. So texts are
//! tokenized here, once, and the value of a text field is a list of tokens, each behind a byte that gives its position
//! increment: one ([`NEXT_POSITION`]) or zero ([`SAME_POSITION`]).
//!
//! INVARIANT: no value, however damaged, gives an empty token or a panic.

use super::spans::Spans;
use super::{Analyser, Tokens};
use farol_base::Language;
use std::collections::HashMap;
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

/// Position increment 1: stands before a token that is the next word. No token contains it: words are letters, digits,
/// marks and a few signs, and a stem begins with [`super::stem::STEM_MARK`], which is another one.
const NEXT_POSITION: char = '\u{2}';

/// Position increment 0: stands before a token at the position of the one before it: a stem, a part of an identifier,
/// two words of a compound as one, a pair of characters.
const SAME_POSITION: char = '\u{3}';

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
    pub(crate) fn read(&mut self, language: Option<Language>, text: &str, both: bool) -> Pretokenized {
        let analyser = self.analysers.entry(language).or_insert_with(|| Analyser::caching(language));
        let mut tokenized = Pretokenized::default();
        // Words and stems take about as many bytes as the text.
        tokenized.forms.reserve(text.len() + text.len() / 8 + 2);
        tokenized.stems.reserve(text.len() + 2);
        let (mut position, mut next) = (0, 0);
        for span in Spans::new(text) {
            self.tokens.clear();
            position = analyser.read(text, span, position, &mut self.tokens);
            for token in self.tokens.as_slice() {
                let step = if token.position < next { SAME_POSITION } else { NEXT_POSITION };
                next = token.position + 1;
                tokenized.forms.push(step);
                tokenized.forms.push_str(&token.text);
                let stem = Some(token.stem.as_str()).filter(|stem| !stem.is_empty());
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
        let rest = if value.starts_with([NEXT_POSITION, SAME_POSITION]) { value } else { "" };
        PretokenizedStream { rest, next: 0, token: Token::default() }
    }
}

/// The tokens of one value.
pub(crate) struct PretokenizedStream<'a> {
    rest: &'a str,
    /// The position of the next word.
    next: usize,
    token: Token,
}

impl TokenStream for PretokenizedStream<'_> {
    fn advance(&mut self) -> bool {
        let mut chars = self.rest.chars();
        let Some(step) = chars.next() else { return false };
        self.next += usize::from(step == NEXT_POSITION);
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
    fn check(code: &str, text: &str, forms: &str, stems: &str, both: &str) {
        let tokenized = Pretokenizer::default().read(Language::parse(code), text, true);
        assert_eq!(
            [shown(&tokenized.forms), shown(&tokenized.stems), shown(&tokenized.both)],
            [forms, stems, both],
            "{text}"
        );
    }

    #[test]
    fn a_text_is_read_once_for_all_fields() {
        check("en", "the cats", "the@0 cats@1", "~encat@0", "the@0 cats@1 ~encat@1");
        check("--", "the cats", "the@0 cats@1", "", "the@0 cats@1");
        check(
            "en",
            "e-mails",
            "e@0 emails@0 mails@1",
            "~enemail@0 ~enmail@1",
            "e@0 emails@0 ~enemail@0 mails@1 ~enmail@1",
        );
        check("en", "", "", "", "");
        assert_eq!(Pretokenizer::default().read(None, "a", false).both, "");
    }

    #[test]
    fn a_damaged_value_gives_nothing() {
        for value in ["", "1", "0\u{2}a", "x\u{2}a", "é\u{2}a"] {
            assert_eq!(shown(value), "", "{value:?}");
        }
    }

    /// What tantivy would be handed if each text were read for every field.
    fn read_anew(language: Option<Language>, text: &str, forms: bool, stems: bool) -> Vec<(String, usize)> {
        let mut handed = Vec::new();
        let mut position = 0;
        for span in Spans::new(text) {
            let mut tokens = Tokens::default();
            position = Analyser::new(language).read(text, span, position, &mut tokens);
            for token in tokens.as_slice() {
                if forms {
                    handed.push((token.text.clone(), token.position as usize));
                }
                if stems && !token.stem.is_empty() {
                    handed.push((token.stem.clone(), token.position as usize));
                }
            }
        }
        handed
    }

    proptest! {
        #[test]
        fn it_is_the_same_as_reading_for_every_field(
            text in "([a-cA-C ]|ing |_|-|\\+|#|'|é|ß|東|京|ไ|\\u{E31}|\\u{AD}|\\PC){0,60}",
            code in "en|pt|ja|zz",
        ) {
            let language = Language::parse(&code);
            let tokenized = Pretokenizer::default().read(language, &text, true);
            prop_assert_eq!(handed_out(&tokenized.forms), read_anew(None, &text, true, false));
            prop_assert_eq!(handed_out(&tokenized.both), read_anew(language, &text, true, true));
            // Positions of stems are not indexed.
            let texts = |tokens: Vec<(String, usize)>| tokens.into_iter().map(|(text, _)| text).collect::<Vec<_>>();
            prop_assert_eq!(texts(handed_out(&tokenized.stems)), texts(read_anew(language, &text, false, true)));
        }
    }
}
