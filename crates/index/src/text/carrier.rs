//! Hands tantivy a page's texts with what it needs to read them: language and weight.
//!
//! Tantivy chooses an analyser by field, but our analysis depends on the page. So each value of a text field
//! starts with a head of three bytes, `pt4`: two letters of language (`--` where unknown) and the weight as
//! one digit. The text is then read that many times over, which is BM25F's weighting by repetition: a word
//! of a title with weight 4 counts like four words of the body, in frequency and in length.
//!
//! INVARIANT: a value without a readable head gives no tokens and no panic.

use super::spans::Spans;
use super::{Analyser, Role, Tokens};
use farol_base::Language;
use std::collections::HashMap;
use tantivy::tokenizer::{Token, TokenStream, Tokenizer};

const HEAD_BYTES: usize = 3;

/// Positions left free between two readings of a text, so that no phrase crosses them.
const READING_GAP: u32 = 2;

/// Builds the value of a text field.
pub(crate) fn carry(language: Option<Language>, weight: u8, text: &str) -> String {
    let mut value = String::with_capacity(HEAD_BYTES + text.len());
    value.push_str(language.as_ref().map_or("--", Language::code));
    value.push(char::from(b'0' + weight.clamp(1, 9)));
    value.push_str(text);
    value
}

/// Which tokens of a text a field keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// Words as they are.
    Forms,
    /// Their stems.
    Stems,
    /// Both, at the same positions.
    Both,
}

/// Tantivy's view of our analysis.
#[derive(Clone)]
pub(crate) struct CarrierTokenizer {
    keep: Keep,
    /// One analyser per language met.
    analysers: HashMap<Option<Language>, Analyser>,
    tokens: Tokens,
}

impl CarrierTokenizer {
    pub(crate) fn new(keep: Keep) -> CarrierTokenizer {
        CarrierTokenizer { keep, analysers: HashMap::new(), tokens: Tokens::default() }
    }
}

impl Tokenizer for CarrierTokenizer {
    type TokenStream<'a> = CarrierStream<'a>;

    fn token_stream<'a>(&'a mut self, value: &'a str) -> CarrierStream<'a> {
        let (language, weight, text) = match (value.get(..2), value.get(2..3), value.get(HEAD_BYTES..)) {
            (Some(code), Some(weight), Some(text)) => {
                (Language::parse(code), weight.parse().unwrap_or(0), text)
            }
            _ => (None, 0, ""),
        };
        self.tokens.clear();
        // Stems cost most of the work; who keeps forms alone does without.
        let language = language.filter(|_| self.keep != Keep::Forms);
        CarrierStream {
            keep: self.keep,
            analyser: self.analysers.entry(language).or_insert_with(|| Analyser::new(language)),
            tokens: &mut self.tokens,
            text,
            spans: Spans::new(if weight == 0 { "" } else { text }),
            readings_left: weight,
            position: 0,
            next: 0,
            stem_next: false,
            token: Token::default(),
        }
    }
}

/// The tokens of one value.
pub(crate) struct CarrierStream<'a> {
    keep: Keep,
    analyser: &'a mut Analyser,
    tokens: &'a mut Tokens,
    text: &'a str,
    spans: Spans<'a>,
    readings_left: u32,
    position: u32,
    /// The token of `tokens` to hand out next.
    next: usize,
    /// Its form has been handed out, its stem has not.
    stem_next: bool,
    token: Token,
}

impl CarrierStream<'_> {
    /// Reads the next span; false where the last reading is over.
    fn refill(&mut self) -> bool {
        loop {
            self.tokens.clear();
            self.next = 0;
            if let Some(span) = self.spans.next() {
                self.position = self.analyser.read(self.text, span, self.position, self.tokens);
                return true;
            }
            self.readings_left = self.readings_left.saturating_sub(1);
            if self.readings_left == 0 {
                return false;
            }
            self.spans = Spans::new(self.text);
            self.position += READING_GAP;
        }
    }
}

impl TokenStream for CarrierStream<'_> {
    fn advance(&mut self) -> bool {
        loop {
            let Some(token) = self.tokens.as_slice().get(self.next) else {
                if !self.refill() {
                    return false;
                }
                continue;
            };
            let has_stem = self.keep != Keep::Forms && token.role == Role::Whole && !token.stem.is_empty();
            let stem = match (self.keep, self.stem_next) {
                (Keep::Forms, _) => false,
                (Keep::Stems, _) | (Keep::Both, true) => true,
                (Keep::Both, false) => false,
            };
            let give = !stem || has_stem;
            if give {
                self.token.text.clear();
                self.token.text.push_str(if stem { &token.stem } else { &token.text });
                self.token.offset_from = token.start;
                self.token.offset_to = token.end;
                self.token.position = token.position as usize;
            }
            if self.keep == Keep::Both && !stem {
                self.stem_next = true;
            } else {
                self.stem_next = false;
                self.next += 1;
            }
            if give {
                return true;
            }
        }
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

    #[track_caller]
    fn check(keep: Keep, value: &str, want: &str) {
        let mut tokenizer = CarrierTokenizer::new(keep);
        let mut stream = tokenizer.token_stream(value);
        let mut shown = Vec::new();
        while stream.advance() {
            shown.push(format!("{}@{}", stream.token().text.replace('\u{1}', "~"), stream.token().position));
        }
        assert_eq!(shown.join(" "), want, "{value:?}");
    }

    #[test]
    fn a_value_is_read_as_its_head_says() {
        check(Keep::Forms, "en1the cats", "the@0 cats@1");
        check(Keep::Stems, "en1the cats", "~encat@1");
        check(Keep::Both, "en1the cats", "the@0 cats@1 ~encat@1");
        check(Keep::Both, "--1the cats", "the@0 cats@1");
        check(Keep::Forms, "en2a b", "a@0 b@1 a@4 b@5"); // Read twice, with a gap.
        check(Keep::Both, "en1", "");
    }

    #[test]
    fn a_damaged_head_gives_nothing() {
        for value in ["", "e", "en", "éa1x", "enxabc", "en0abc"] {
            check(Keep::Both, value, "");
        }
        assert_eq!(carry(Some(Language::ENGLISH), 42, "x"), "en9x");
        assert_eq!(carry(None, 0, "x"), "--1x");
    }
}
