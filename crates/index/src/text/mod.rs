//! How texts become tokens: cut into spans, folded to one spelling, stemmed by the page's language.
//!
//! The same [`Analyser`] reads pages when they are indexed, questions when they are asked and stored texts
//! when a snippet is cut, so a word that was found is also a word that is highlighted.
//! `docs/decisions/analysis.md` tells why a word is indexed both as it is and as its stem.
//!
//! INVARIANT: a token is never empty and never longer than [`fold::TOKEN_BYTES_MAX`] bytes (stems: 4 more).

pub(crate) mod fold;
pub(crate) mod pretokenized;
pub(crate) mod spans;
pub(crate) mod stem;
pub(crate) mod stop;
mod token_cache;
pub(crate) mod words;

use farol_base::Language;
use spans::{Script, Span, is_mark};
use stem::Stemmer;
use token_cache::TokenCache;

/// What a token is of its span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// A word, whole.
    #[default]
    Whole,
    /// A part of an identifier: `name` of `fn_name`, `c` of `c++`.
    Part,
    /// Two words of a compound as one: `writeahead` of `write-ahead`.
    Joined,
    /// One character of a dense run.
    Single,
    /// Two neighbouring characters of a dense run.
    Pair,
}

/// A token with its offsets and position in the text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Token {
    /// The folded form.
    pub text: String,
    /// The marked stem; empty where there is none.
    pub stem: String,
    pub start: usize,
    pub end: usize,
    /// Counted in words.
    pub position: u32,
    pub role: Role,
}

/// A list of tokens that keeps its memory between spans.
#[derive(Clone, Default)]
pub(crate) struct Tokens {
    list: Vec<Token>,
    used: usize,
}

impl Tokens {
    pub(crate) fn clear(&mut self) {
        self.used = 0;
    }

    pub(crate) fn as_slice(&self) -> &[Token] {
        &self.list[..self.used]
    }

    /// The next free token, empty, with its memory.
    fn next(&mut self, start: usize, end: usize, position: u32, role: Role) -> &mut Token {
        if self.used == self.list.len() {
            self.list.push(Token::default());
        }
        let token = &mut self.list[self.used];
        self.used += 1;
        token.text.clear();
        token.stem.clear();
        (token.start, token.end, token.position, token.role) = (start, end, position, role);
        token
    }

    /// Removes the newest token.
    fn undo(&mut self) {
        self.used -= 1;
    }
}

/// Bytes of two words that are also read as one.
const COMPOUND_BYTES_MAX: usize = 48;

/// Reads texts of one language, or of an unknown one.
#[derive(Clone)]
pub(crate) struct Analyser {
    stemmer: Option<Stemmer>,
    lowered: String,
    /// `None` where only a few words are analysed.
    token_cache: Option<TokenCache>,
}

impl Analyser {
    pub(crate) fn new(language: Option<Language>) -> Analyser {
        Analyser { stemmer: language.and_then(Stemmer::new), lowered: String::new(), token_cache: None }
    }

    /// One for many texts, with a [`TokenCache`].
    pub(crate) fn caching(language: Option<Language>) -> Analyser {
        Analyser { token_cache: Some(TokenCache::default()), ..Analyser::new(language) }
    }

    /// Appends the tokens of one span, the first at `position`; answers the position after the span.
    pub(crate) fn read(&mut self, text: &str, span: Span, position: u32, out: &mut Tokens) -> u32 {
        match span.script {
            Script::Spaced => self.read_word(text, span, position, out),
            Script::Dense => self.read_dense(text, span, position, out),
        }
    }

    /// All tokens of a text.
    #[cfg(test)]
    pub(crate) fn read_all(&mut self, text: &str) -> Tokens {
        let mut out = Tokens::default();
        let mut position = 0;
        for span in spans::Spans::new(text) {
            position = self.read(text, span, position, &mut out);
        }
        out
    }

    fn read_word(&mut self, text: &str, span: Span, position: u32, out: &mut Tokens) -> u32 {
        let next = self.read_plain_word(text, span, position, out);
        if next > position
            && let Some(end) = compound_end(text, span)
        {
            self.read_joined(&text[span.start..end], span.start, position, out);
        }
        next
    }

    /// A compound of two words as one word, at the position of the first.
    fn read_joined(&mut self, compound: &str, start: usize, position: u32, out: &mut Tokens) {
        let joined: String = compound.chars().filter(|c| !is_hyphen(*c)).collect();
        self.lowered.clear();
        fold::lower(&joined, &mut self.lowered);
        let token = out.next(start, start + compound.len(), position, Role::Joined);
        fold::fold(&self.lowered, &mut token.text);
        if token.text.is_empty() {
            out.undo();
        } else if let Some(stemmer) = &self.stemmer {
            stemmer.stem(&self.lowered, &mut token.stem);
        }
    }

    fn read_plain_word(&mut self, text: &str, span: Span, position: u32, out: &mut Tokens) -> u32 {
        let word = &text[span.start..span.end];
        let token = out.next(span.start, span.end, position, Role::Whole);
        let key = self.token_cache.as_ref().map(|_| TokenCache::key(word));
        if let (Some(token_cache), Some(key)) = (&self.token_cache, key)
            && let Some((form, stem)) = token_cache.get(word, key)
        {
            token.text.push_str(form);
            token.stem.push_str(stem);
            return position + 1;
        }
        self.lowered.clear();
        fold::lower(word, &mut self.lowered);
        fold::fold(&self.lowered, &mut token.text);
        if token.text.is_empty() {
            out.undo();
            return position;
        }
        if let Some(stemmer) = &self.stemmer {
            stemmer.stem(&self.lowered, &mut token.stem);
        }
        if !word.bytes().any(|b| matches!(b, b'_' | b'+' | b'#')) {
            if let (Some(token_cache), Some(key)) = (&mut self.token_cache, key) {
                token_cache.insert(word, key, &token.text, &token.stem);
            }
            return position + 1;
        }
        let mut next = position;
        let mut start = span.start;
        for part in word.split(['_', '+', '#']) {
            if !part.is_empty() {
                self.lowered.clear();
                fold::lower(part, &mut self.lowered);
                let token = out.next(start, start + part.len(), next, Role::Part);
                fold::fold(&self.lowered, &mut token.text);
                if token.text.is_empty() {
                    out.undo();
                } else {
                    next += 1;
                }
            }
            start += part.len() + 1;
        }
        next.max(position + 1)
    }

    /// Characters with their marks, alone and in overlapping pairs.
    fn read_dense(&mut self, text: &str, span: Span, position: u32, out: &mut Tokens) -> u32 {
        let run = &text[span.start..span.end];
        let mut next = position;
        let mut before: Option<(usize, usize)> = None;
        let mut at = 0;
        while at < run.len() {
            let start = at;
            let mut chars = run[at..].chars();
            at += chars.next().map_or(1, char::len_utf8);
            at += chars.take_while(|c| is_mark(*c)).map(char::len_utf8).sum::<usize>();
            let pair = before.replace((start, at)).map(|(first, _)| first);
            if let Some(first) = pair {
                self.push_dense(run, first, at, span.start, next - 1, Role::Pair, out);
            }
            if self.push_dense(run, start, at, span.start, next, Role::Single, out) {
                next += 1;
            } else {
                before = None;
            }
        }
        next
    }

    #[allow(clippy::too_many_arguments)] // A slice of a run, where it is, and what it is.
    fn push_dense(
        &mut self,
        run: &str,
        start: usize,
        end: usize,
        offset: usize,
        position: u32,
        role: Role,
        out: &mut Tokens,
    ) -> bool {
        self.lowered.clear();
        fold::lower(&run[start..end], &mut self.lowered);
        let token = out.next(offset + start, offset + end, position, role);
        fold::fold(&self.lowered, &mut token.text);
        if token.text.is_empty() {
            out.undo();
            return false;
        }
        true
    }
}

/// Where the word ends that a hyphen ties to this one, where both are of letters alone: "write-ahead", "e-mail".
fn compound_end(text: &str, span: Span) -> Option<usize> {
    let hyphen = text[span.end..].chars().next().filter(|c| is_hyphen(*c))?;
    let after = span.end + hyphen.len_utf8();
    let next =
        spans::Spans::new(&text[after..text.floor_char_boundary(after + COMPOUND_BYTES_MAX)]).next()?;
    let (first, second) = (&text[span.start..span.end], &text[after..after + next.end]);
    let of_letters = |word: &str| word.chars().all(char::is_alphabetic);
    let fits = next.start == 0
        && next.script == Script::Spaced
        && second.len() > 1
        && first.len() + second.len() <= COMPOUND_BYTES_MAX;
    (fits && of_letters(first) && of_letters(second)).then_some(after + next.end)
}

fn is_hyphen(c: char) -> bool {
    matches!(c, '-' | '\u{2010}' | '\u{2011}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(code: &str, text: &str, want: &str) {
        let tokens = Analyser::new(Language::parse(code)).read_all(text);
        let shown: Vec<String> =
            tokens.as_slice().iter().map(|token| format!("{}@{}", token.text, token.position)).collect();
        assert_eq!(shown.join(" "), want, "{text}");
    }

    #[test]
    fn tokens_and_their_positions() {
        check("pt", "Olá, Farol!", "ola@0 farol@1");
        check("en", "call fn_name now", "call@0 fn_name@1 fn@1 name@2 now@3");
        check("en", "C++ code", "c++@0 c@0 code@1");
        check("en", "__init__", "__init__@0 init@0");
        check("en", "a write-ahead log", "a@0 write@1 writeahead@1 ahead@2 log@3");
        check("en", "x-2 2-x -a a- a--b 10-fold", "x@0 2@1 2@2 x@3 a@4 a@5 a@6 b@7 10@8 fold@9");
        check("ja", "東京都", "東@0 東京@0 京@1 京都@1 都@2");
        check("zh", "水 a", "水@0 a@1");
        check("th", "ไทยนี้", "ไ@0 ไท@0 ท@1 ทย@1 ย@2 ยนี้@2 นี้@3");
    }

    #[test]
    fn stems_belong_to_the_language_of_the_page() {
        let mut english = Analyser::new(Some(Language::ENGLISH));
        let tokens = english.read_all("the lighthouses x86");
        let stems: Vec<&str> = tokens.as_slice().iter().map(|token| token.stem.as_str()).collect();
        assert_eq!(stems, ["", "\u{1}enlighthous", ""]);
        assert!(Analyser::new(None).read_all("lighthouses").as_slice()[0].stem.is_empty());
    }

    proptest! {
        #[test]
        fn caching_changes_nothing(
            words in proptest::collection::vec("[a-cA-CéÉßÇñ'_+#İ東ไ]{1,5}|\\PC{1,4}|[a-z]{60,70}", 1..12),
            order in proptest::collection::vec(any::<prop::sample::Index>(), 0..60),
            code in "en|pt|tr|zz",
        ) {
            let text = order.iter().map(|at| at.get(&words).as_str()).collect::<Vec<_>>().join(" ");
            let language = Language::parse(&code);
            let mut caching = Analyser::caching(language);
            let shown = |tokens: &Tokens| format!("{:?}", tokens.as_slice());
            let want = shown(&Analyser::new(language).read_all(&text));
            for _ in 0..2 {
                prop_assert_eq!(&shown(&caching.read_all(&text)), &want);
            }
        }

        #[test]
        fn tokens_are_never_empty_nor_long(text in ".{0,200}", code in "en|pt|ja|zz") {
            let mut analyser = Analyser::new(Language::parse(&code));
            for token in analyser.read_all(&text).as_slice() {
                prop_assert!(!token.text.is_empty() && token.text.len() <= fold::TOKEN_BYTES_MAX);
                prop_assert!(token.stem.len() <= fold::TOKEN_BYTES_MAX + 4);
                prop_assert!(text.get(token.start..token.end).is_some());
            }
        }
    }
}
