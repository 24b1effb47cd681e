//! Texts as their words in order, for engines that take pages from each other without their texts.
//!
//! INVARIANT: analysing what [`WordCutter::cut`] gives comes to the same tokens at the same positions as analysing the text
//! itself, in any language. Its words are in lower case and stand between single spaces.
//! Does not stem or fold: stems are cut from words with their accents, by whoever indexes.

use super::spans::{Script, Span, Spans};
use super::{Analyser, Tokens, compound_end, fold, is_hyphen};
use std::collections::HashMap;

/// Number of the analysis that cuts and folds words. Engines whose numbers differ cannot use each other's words; it grows
/// with every change of `spans` or `fold` that changes a token.
pub const ANALYSIS: u32 = 1;

/// Words that are remembered with what became of them: 50,000 × some 60 bytes = 3 MB.
const KEPT_MAX: usize = 50_000;

/// Cuts texts into words, and remembers those that it has met.
pub struct WordCutter {
    kept: HashMap<String, String>,
    /// Stems are cut from words as [`fold::lower`] has them, so one language can speak for all where those are compared.
    analyser: Analyser,
    tokens: [Tokens; 2],
}

impl Default for WordCutter {
    fn default() -> WordCutter {
        let tokens = [Tokens::default(), Tokens::default()];
        WordCutter { kept: HashMap::new(), analyser: Analyser::new(None), tokens }
    }
}

impl WordCutter {
    /// The words of a text in order, with single spaces between them.
    pub fn cut(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut spans = Spans::new(text).peekable();
        while let Some(first) = spans.next() {
            let mut last = first;
            // Words that a hyphen ties together stay together: they are also read as one.
            while last.script == Script::Spaced
                && let Some(end) = compound_end(text, last)
                && let Some(next) = spans.next_if(|next| next.end <= end)
            {
                last = next;
            }
            if !out.is_empty() {
                out.push(' ');
            }
            self.push(&text[first.start..last.end], &mut out);
        }
        out
    }

    fn push(&mut self, word: &str, out: &mut String) {
        if let Some(lowered) = self.kept.get(word) {
            out.push_str(lowered);
            return;
        }
        let lowered = lowered(word);
        let lowered = if self.reads_alike(word, &lowered) { lowered } else { word.to_string() };
        out.push_str(&lowered);
        if self.kept.len() >= KEPT_MAX {
            self.kept.clear();
        }
        self.kept.insert(word.to_string(), lowered);
    }

    /// Whether both come to the same tokens, and to the same letters before accents are folded.
    fn reads_alike(&mut self, word: &str, lowered: &str) -> bool {
        if lowered.is_empty() || lowered.contains(char::is_whitespace) {
            return false;
        }
        let [a, b] = &mut self.tokens;
        for (text, tokens) in [(word, &mut *a), (lowered, &mut *b)] {
            tokens.clear();
            let mut position = 0;
            for span in Spans::new(text) {
                position = self.analyser.read(text, span, position, tokens);
            }
        }
        let (a, b) = (a.as_slice(), b.as_slice());
        let spelled = |text: &str| {
            let mut all: Vec<String> = Vec::new();
            for Span { start, end, .. } in Spans::new(text) {
                let mut one = String::new();
                fold::lower(&text[start..end], &mut one);
                all.push(one);
            }
            all
        };
        a.len() == b.len()
            && a.iter().zip(b).all(|(a, b)| (&a.text, a.position, a.role) == (&b.text, b.position, b.role))
            && spelled(word) == spelled(lowered)
    }
}

/// The word in lower case and normal form, its hyphens kept.
fn lowered(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for (number, part) in word.split(is_hyphen).enumerate() {
        if number > 0 {
            out.push('-');
        }
        fold::lower(part, &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::Language;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(WordCutter::default().cut(text), want, "{text}");
    }

    /// Tokens without their offsets.
    fn tokens(text: &str, code: &str) -> Vec<(String, String, u32, super::super::Role)> {
        let tokens = Analyser::new(Language::parse(code)).read_all(text);
        tokens.as_slice().iter().map(|t| (t.text.clone(), t.stem.clone(), t.position, t.role)).collect()
    }

    #[test]
    fn words_keep_what_their_reading_depends_on() {
        check("Olá, Farol!", "olá farol");
        check("A write-ahead log, by-and-by: x-2", "a write-ahead log by-and-by x 2");
        check("C++ and C#; fn_name __init__", "c++ and c# fn_name __init__");
        check("Don't; l'eau; Farol's", "dont l eau farol");
        check("東京都 Tokyo", "東京都 tokyo");
        check("…", "");
        check("Ação no Pós-Graduação", "ação no pós-graduação");
    }

    #[test]
    fn a_long_text_reads_alike_in_every_language() {
        let text = "The Lighthouses' keepers (well-known) wrote: \"İstanbul’un feneri\" — Ελληνικά ΟΔΟΣ, Straße \
            naïve ﬁnd ＦＡＲＯＬ, по-русски; 3.14 x86_64 A+B. ไทยนี้ 한국어 ｶﾞ e\u{301}cole MÜLLER-lüdenscheidt re-re-do \
            aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-b l’État-major";
        let mut cutter = WordCutter::default();
        for code in ["en", "pt", "tr", "el", "de", "fr", "zz"] {
            assert_eq!(tokens(&cutter.cut(text), code), tokens(text, code), "{code}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn what_is_cut_reads_as_the_text_does(
            text in "([a-zA-ZéÉßÇñİıǅ0-9_+#'’\u{2010}\u{2011}. -]{1,9}|\\PC{1,4}|東京|ไทย|ｶﾞ|[\u{300}-\u{36f}\u{ad}\u{200c}]){0,14}",
            code in "en|pt|tr|el|de|zz",
        ) {
            let mut cutter = WordCutter::default();
            let words = cutter.cut(&text);
            prop_assert_eq!(tokens(&words, &code), tokens(&text, &code), "{:?}", words);
            prop_assert_eq!(cutter.cut(&text), words, "the second time");
        }
    }
}
