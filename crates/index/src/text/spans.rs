//! Where words begin and end in a text.
//!
//! A text is cut into [`Span`]s: runs of letters and digits (identifiers keep their underscores, `C++` and
//! `C#` their signs), and runs of scripts that are written without spaces ([`Script::Dense`]), which the
//! analyser reads in overlapping pairs.
//!
//! INVARIANT: spans come in order, do not overlap, and lie on character boundaries.
//! Does not change any letter; see [`super::fold`].

use icu_normalizer::properties::CanonicalCombiningClassMapBorrowed;

/// Characters of one dense run; a longer run is cut, which costs the one pair at each cut.
const DENSE_CHARS_MAX: usize = 1024;

/// Bytes of one word run; a longer one (base64, say) is cut into several.
const WORD_BYTES_MAX: usize = 256;

/// How the letters of a run make words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    /// Words stand between spaces.
    Spaced,
    /// Words follow each other without spaces: Han, Kana, Hangul, Thai, Lao, Khmer, Burmese.
    Dense,
}

/// A run of one script in a text, as byte offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub start: usize,
    pub end: usize,
    pub script: Script,
}

/// Cuts a text into spans, one after the other.
pub(crate) struct Spans<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Spans<'a> {
    pub(crate) fn new(text: &'a str) -> Spans<'a> {
        Spans { text, at: 0 }
    }
}

impl Iterator for Spans<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        loop {
            // Most of a text is ASCII.
            let bytes = self.text.as_bytes();
            let skipped = bytes[self.at..].iter().position(|b| ASCII[usize::from(*b)] != Some(Class::Other));
            self.at += skipped?;
            if ASCII[usize::from(bytes[self.at])] == Some(Class::Word) {
                return Some(self.word());
            }
            let c = self.text[self.at..].chars().next()?;
            match class(c) {
                Class::Word => return Some(self.word()),
                Class::Dense => return Some(self.dense()),
                Class::Joint if c == '_' && self.underscores_lead_to_a_word() => return Some(self.word()),
                _ => self.at += c.len_utf8(),
            }
        }
    }
}

impl Spans<'_> {
    fn word(&mut self) -> Span {
        let start = self.at;
        let mut end = run(self.text, start, WORD_BYTES_MAX);
        self.at = end;
        let next = self.text.as_bytes().get(end).copied().unwrap_or(b' ');
        if end - start < WORD_BYTES_MAX && (!next.is_ascii() || matches!(next, b'\'' | b'+' | b'#')) {
            // An apostrophe: "don't" is one word, "farol's" is "farol", "l'eau" is two words.
            let mut rest = self.text[end..].chars();
            if let Some(mark @ ('\'' | '\u{2019}' | '\u{02BC}')) = rest.next()
                && rest.next().is_some_and(char::is_alphabetic)
            {
                let tail_start = end + mark.len_utf8();
                let tail_end = run(self.text, tail_start, 8);
                let tail = &self.text[tail_start..tail_end];
                if tail.eq_ignore_ascii_case("s") {
                    self.at = tail_end;
                } else if ["t", "re", "ll", "ve", "d", "m"].iter().any(|t| tail.eq_ignore_ascii_case(t)) {
                    end = tail_end;
                    self.at = end;
                }
            } else if let Some(signs) = trailing_signs(&self.text[end..]) {
                end += signs;
                self.at = end;
            }
        }
        Span { start, end, script: Script::Spaced }
    }

    fn dense(&mut self) -> Span {
        let start = self.at;
        let run = self.text[start..].chars().take(DENSE_CHARS_MAX);
        let run = run.take_while(|c| matches!(class(*c), Class::Dense | Class::Mark));
        self.at += run.map(char::len_utf8).sum::<usize>();
        Span { start, end: self.at, script: Script::Dense }
    }

    fn underscores_lead_to_a_word(&self) -> bool {
        let bytes = &self.text.as_bytes()[self.at..];
        let lead = bytes.iter().take(8).take_while(|b| **b == b'_').count();
        self.text[self.at + lead..].chars().next().is_some_and(|c| class(c) == Class::Word)
    }
}

/// Length of the signs in `C++`, `C#` and their like; they count only where nothing like a word follows.
fn trailing_signs(rest: &str) -> Option<usize> {
    let signs = if rest.starts_with("++") {
        2
    } else if rest.starts_with('#') {
        1
    } else {
        return None;
    };
    let open = rest[signs..].chars().next().is_none_or(|c| !c.is_alphanumeric() && c != '+' && c != '#');
    open.then_some(signs)
}

/// End of the run of words that starts at `start`, joints and marks included.
fn run(text: &str, start: usize, bytes_max: usize) -> usize {
    let bytes = text.as_bytes();
    let mut end = start;
    loop {
        let room = bytes_max.saturating_sub(end - start);
        let ascii = bytes[end..].iter().take(room);
        end +=
            ascii.take_while(|b| matches!(ASCII[usize::from(**b)], Some(Class::Word | Class::Joint))).count();
        let Some(c) = text[end..].chars().next().filter(|c| !c.is_ascii() && end - start < bytes_max) else {
            return end;
        };
        if !matches!(class(c), Class::Word | Class::Mark | Class::Joint) {
            return end;
        }
        end += c.len_utf8();
    }
}

/// Classes of ASCII; `None` for the first bytes of other characters.
static ASCII: [Option<Class>; 256] = {
    let mut classes = [None; 256];
    let mut byte = 0;
    while byte < 128 {
        classes[byte] = Some(match byte as u8 {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => Class::Word,
            b'_' => Class::Joint,
            _ => Class::Other,
        });
        byte += 1;
    }
    classes
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Word,
    Dense,
    /// Belongs to the character before it.
    Mark,
    /// Keeps a word together: underscore, soft hyphen, zero-width joiners.
    Joint,
    Other,
}

fn class(c: char) -> Class {
    if c.is_ascii() {
        return match c {
            'a'..='z' | 'A'..='Z' | '0'..='9' => Class::Word,
            '_' => Class::Joint,
            _ => Class::Other,
        };
    }
    match c {
        // The letters of most European languages, without × and ÷.
        'À'..='Ö' | 'Ø'..='ö' | 'ø'..='ſ' => Class::Word,
        '\u{AD}' | '\u{200C}' | '\u{200D}' | '\u{2060}' => Class::Joint,
        c if is_mark(c) => Class::Mark,
        '\u{E00}'..='\u{EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17DD}' => dense_if_letter(c),
        '\u{1100}'..='\u{11FF}' | '\u{2E80}'..='\u{2FDF}' | '\u{3005}'..='\u{3007}' => Class::Dense,
        '\u{3041}'..='\u{30FA}' | '\u{30FC}'..='\u{318F}' | '\u{31F0}'..='\u{31FF}' => Class::Dense,
        '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{AC00}'..='\u{D7A3}' => Class::Dense,
        '\u{F900}'..='\u{FAFF}' | '\u{FF66}'..='\u{FF9F}' | '\u{20000}'..='\u{323AF}' => Class::Dense,
        c if c.is_alphanumeric() => Class::Word,
        _ => Class::Other,
    }
}

fn dense_if_letter(c: char) -> Class {
    if c.is_alphabetic() {
        Class::Dense
    } else if c.is_numeric() {
        Class::Word
    } else {
        Class::Other
    }
}

/// Whether a character only changes the one before it: accents, vowel signs of Thai, viramas.
pub(crate) fn is_mark(c: char) -> bool {
    !c.is_ascii()
        && (matches!(c, '\u{E31}' | '\u{E34}'..='\u{E3A}' | '\u{E47}'..='\u{E4E}')
            || CanonicalCombiningClassMapBorrowed::new().get_u8(c) != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, want: &[&str]) {
        let spans: Vec<&str> = Spans::new(text).map(|span| &text[span.start..span.end]).collect();
        assert_eq!(spans, want, "{text}");
    }

    #[test]
    fn words_of_spaced_scripts() {
        check("Olá, mundo!", &["Olá", "mundo"]);
        check("UTF-8 and std::vec", &["UTF", "8", "and", "std", "vec"]);
        check("fn_name __init__ ____", &["fn_name", "__init__"]);
        check("C++, C# and F#; A+B c#m", &["C++", "C#", "and", "F#", "A", "B", "c", "m"]);
        check("Ελληνικά по-русски", &["Ελληνικά", "по", "русски"]);
        check("3.14 1,000", &["3", "14", "1", "000"]);
        check("हिन्दी", &["हिन्दी"]); // The virama stays inside the word.
        check("co\u{AD}operate", &["co\u{AD}operate"]);
    }

    #[test]
    fn apostrophes() {
        check("don't we'll", &["don't", "we'll"]);
        check("farol's l’eau d'Itália", &["farol", "l", "eau", "d", "Itália"]);
        check("rock 'n' roll", &["rock", "n", "roll"]);
    }

    #[test]
    fn scripts_without_spaces_are_one_run() {
        check("東京タワーへ行く。Tokyo", &["東京タワーへ行く", "Tokyo"]);
        check("서울 시청", &["서울", "시청"]);
        check("ภาษาไทย abc", &["ภาษาไทย", "abc"]);
        check("iPhone用ケース", &["iPhone", "用ケース"]);
    }

    /// The same, character by character.
    mod naive {
        use super::super::{Class, Script, Span, WORD_BYTES_MAX, class, trailing_signs};

        pub fn spans(text: &str) -> Vec<Span> {
            let (mut spans, mut at) = (Vec::new(), 0);
            while let Some(c) = text[at..].chars().next() {
                let after = text[at..].trim_start_matches('_');
                let underscores = text.len() - at - after.len();
                let leads = underscores <= 8 && after.starts_with(|c| class(c) == Class::Word);
                match class(c) {
                    Class::Word => {}
                    Class::Joint if c == '_' && leads => {}
                    Class::Dense => {
                        let run = |c: &char| matches!(class(*c), Class::Dense | Class::Mark);
                        let bytes =
                            text[at..].chars().take(1024).take_while(run).map(char::len_utf8).sum::<usize>();
                        spans.push(Span { start: at, end: at + bytes, script: Script::Dense });
                        at += bytes;
                        continue;
                    }
                    _ => {
                        at += c.len_utf8();
                        continue;
                    }
                }
                let start = at;
                let mut end = run(text, start, WORD_BYTES_MAX);
                at = end;
                if end - start < WORD_BYTES_MAX {
                    let mut rest = text[end..].chars();
                    let mark = rest.next().filter(|c| matches!(c, '\'' | '\u{2019}' | '\u{02BC}'));
                    if let Some(mark) = mark.filter(|_| rest.next().is_some_and(char::is_alphabetic)) {
                        let tail_end = run(text, end + mark.len_utf8(), 8);
                        match text[end + mark.len_utf8()..tail_end].to_ascii_lowercase().as_str() {
                            "s" => at = tail_end,
                            "t" | "re" | "ll" | "ve" | "d" | "m" => (end, at) = (tail_end, tail_end),
                            _ => {}
                        }
                    } else if let Some(signs) = trailing_signs(&text[end..]) {
                        (end, at) = (end + signs, end + signs);
                    }
                }
                spans.push(Span { start, end, script: Script::Spaced });
            }
            spans
        }

        fn run(text: &str, start: usize, bytes_max: usize) -> usize {
            let mut end = start;
            for c in text[start..].chars() {
                if end - start >= bytes_max || !matches!(class(c), Class::Word | Class::Mark | Class::Joint) {
                    break;
                }
                end += c.len_utf8();
            }
            end
        }
    }

    #[test]
    fn letters_by_the_table_are_letters_by_unicode() {
        for c in ('\u{C0}'..='\u{17F}').filter(|c| !matches!(c, '×' | '÷')) {
            assert!(c.is_alphanumeric() && !is_mark(c) && class(c) == Class::Word, "{c}");
        }
        assert_eq!(
            (class('×'), class('÷'), class('¿'), class('ª')),
            (Class::Other, Class::Other, Class::Other, Class::Word)
        );
    }

    proptest! {
        #[test]
        fn the_quick_way_finds_the_same(
            text in "([a-cA-C0-9 _'+#.,-]|é|ß|\\u{301}|\\u{2019}|\\u{AD}|東|ไ|\\u{E31}|×|\\PC){0,80}",
            long in "[a-zé_]{0,300}",
        ) {
            let text = format!("{text}{long}'s {long}+{text}");
            prop_assert_eq!(Spans::new(&text).collect::<Vec<_>>(), naive::spans(&text));
        }

        #[test]
        fn spans_are_ordered_and_on_boundaries(text in ".{0,300}") {
            let mut last = 0;
            for span in Spans::new(&text) {
                prop_assert!(span.start >= last && span.end > span.start && span.end <= text.len());
                prop_assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end));
                last = span.end;
            }
        }
    }
}
