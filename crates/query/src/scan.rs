//! Cuts a line into signs, names, values and phrases; knows characters, not meanings.
//!
//! A quotation mark opens a phrase wherever a word could start or goes on into one (`a"b c"`); at the end of a word
//! it is an inch mark and goes (`19" monitor`). A minus sign counts at the start of a word, and only once: `--help`
//! is a word. INVARIANT: each step moves on by at least one character, and the texts given hold no quotation marks.

/// A piece of the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Piece<'a> {
    /// A single minus sign stands before it.
    pub negative: bool,
    /// Letters before the first colon, as typed; only where something that can be a name stands there.
    pub name: Option<&'a str>,
    pub value: Value<'a>,
}

/// What stands after the sign and the name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// A run without spaces. `whole` is the run with its name and colon.
    Word { value: &'a str, whole: &'a str },
    /// Between quotation marks, spaces collapsed.
    Phrase(String),
}

/// Reads a line piece by piece.
pub(crate) struct Scanner<'a> {
    rest: &'a str,
    /// A quotation mark had no partner.
    pub unclosed_quote: bool,
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(line: &'a str) -> Scanner<'a> {
        Scanner { rest: line, unclosed_quote: false }
    }

    fn starts_with(&self, is: fn(char) -> bool) -> bool {
        self.rest.starts_with(is)
    }

    /// Takes a minus sign that has a word right after it.
    fn sign(&mut self) -> bool {
        let Some(first) = self.rest.chars().next().filter(|c| is_minus(*c)) else { return false };
        let after = &self.rest[first.len_utf8()..];
        let counts = !after.is_empty() && !after.starts_with(|c| is_space(c) || is_minus(c));
        if counts {
            self.rest = after;
        }
        counts
    }

    /// Reads a word, or a name with its value.
    fn word(&mut self, negative: bool) -> Piece<'a> {
        let whole = self.run();
        let (name, value) = split_name(whole);
        if name.is_some() && value.is_empty() && self.starts_with(is_quote) {
            if let Some(text) = self.phrase() {
                return Piece { negative, name, value: Value::Phrase(text) };
            }
            // The name stays behind without a value, and what follows is read by itself.
        } else {
            self.skip_inch_marks();
        }
        Piece { negative, name, value: Value::Word { value, whole } }
    }

    /// Reads the phrase that starts here. Where it is not closed, only its quotation mark is taken away.
    fn phrase(&mut self) -> Option<String> {
        let open = self.rest.chars().next().filter(|c| is_quote(*c))?;
        let inside = &self.rest[open.len_utf8()..];
        let Some(end) = inside.find(closes(open)) else {
            self.unclosed_quote = true;
            self.rest = inside;
            return None;
        };
        self.rest = &inside[end..];
        self.rest = &self.rest[self.rest.chars().next().map_or(0, char::len_utf8)..];
        let apart = |c: char| is_space(c) || is_quote(c);
        let words: Vec<&str> = inside[..end].split(apart).filter(|word| !word.is_empty()).collect();
        Some(words.join(" "))
    }

    /// Reads up to the next space or quotation mark.
    fn run(&mut self) -> &'a str {
        let end = self.rest.find(|c| is_space(c) || is_quote(c)).unwrap_or(self.rest.len());
        let (run, rest) = self.rest.split_at(end);
        self.rest = rest;
        run
    }

    /// Drops quotation marks that end a word.
    fn skip_inch_marks(&mut self) {
        let after = self.rest.trim_start_matches(is_quote);
        if after.is_empty() || after.starts_with(is_space) {
            self.rest = after;
        }
    }
}

impl<'a> Iterator for Scanner<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        loop {
            self.rest = self.rest.trim_start_matches(is_space);
            if self.rest.is_empty() {
                return None;
            }
            let negative = self.sign();
            if !self.starts_with(is_quote) {
                return Some(self.word(negative));
            }
            if let Some(text) = self.phrase() {
                return Some(Piece { negative, name: None, value: Value::Phrase(text) });
            }
            // The sign still counts for the word that follows, unless that has a sign of its own or is not there.
            self.rest = self.rest.trim_start_matches(is_quote);
            if !self.rest.is_empty() && !self.starts_with(is_space) && !self.starts_with(is_minus) {
                return Some(self.word(negative));
            }
        }
    }
}

/// Splits `name:value`; the full-width colon counts.
fn split_name(run: &str) -> (Option<&str>, &str) {
    let Some(at) = run.find([':', '：']) else { return (None, run) };
    let name = &run[..at];
    let value = &run[at + run[at..].chars().next().map_or(0, char::len_utf8)..];
    let is_name = !name.is_empty() && name.len() <= 16 && name.bytes().all(|b| b.is_ascii_alphabetic());
    if is_name && !value.starts_with("//") { (Some(name), value) } else { (None, run) }
}

/// Whether a text has something to look for, and is not made of punctuation alone.
pub(crate) fn has_substance(text: &str) -> bool {
    let is_mark = |c: char| c.is_ascii_punctuation() || is_space(c) || is_quote(c) || is_minus(c);
    !text
        .chars()
        .all(|c| is_mark(c) || matches!(c, '—' | '…' | '·' | '•' | '¿' | '¡' | '‘' | '’' | '、' | '。'))
}

/// Spaces, control characters, and characters that cannot be seen and join nothing.
/// The zero-width joiners stay: Persian and the scripts of India need them.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c, '\u{200B}' | '\u{200E}' | '\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}' | '\u{2066}'..='\u{2069}' | '\u{FEFF}')
}

fn is_quote(c: char) -> bool {
    matches!(c, '"' | '“' | '”' | '„' | '‟' | '＂' | '«' | '»')
}

/// What ends a phrase: the partner of angle quotes, any of the others for any of the others.
fn closes(open: char) -> fn(char) -> bool {
    match open {
        '«' => |c| c == '»',
        '»' => |c| c == '«',
        _ => |c| is_quote(c) && !matches!(c, '«' | '»'),
    }
}

fn is_minus(c: char) -> bool {
    matches!(c, '-' | '−' | '–' | '－')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, want: &[&str]) {
        let mut scanner = Scanner::new(line);
        let mut got: Vec<String> = scanner
            .by_ref()
            .map(|piece| {
                let sign = if piece.negative { "-" } else { "" };
                match (piece.name, piece.value) {
                    (Some(name), Value::Word { value, .. }) => format!("{sign}<{name}>{value}"),
                    (Some(name), Value::Phrase(text)) => format!("{sign}<{name}>[{text}]"),
                    (None, Value::Word { whole, .. }) => format!("{sign}{whole}"),
                    (None, Value::Phrase(text)) => format!("{sign}[{text}]"),
                }
            })
            .collect();
        if scanner.unclosed_quote {
            got.push("unclosed".to_string());
        }
        assert_eq!(got, want, "{line}");
    }

    #[test]
    fn pieces_of_a_line() {
        check("a  b", &["a", "b"]);
        check("a\u{3000}b\u{200B}c\u{0}d", &["a", "b", "c", "d"]);
        check(r#""a  b" -c -"d e""#, &["[a b]", "-c", "-[d e]"]);
        check("“a b” „c“ «d \"e\"»", &["[a b]", "[c]", "[d e]"]);
        check("site:x -LANG：pt", &["<site>x", "-<LANG>pt"]);
        check(r#"intitle:"a b"c"#, &["<intitle>[a b]", "c"]);
        check("C++ std::vec a:b http://h:80/", &["C++", "<std>:vec", "<a>b", "http://h:80/"]);
        check("--help – - −5", &["--help", "–", "-", "-5"]);
    }

    #[test]
    fn quotes_that_open_nothing() {
        check(r#"19" monitor"#, &["19", "monitor"]);
        check(r#"a"b c""#, &["a", "[b c]"]);
        check(r#""a b"#, &["a", "b", "unclosed"]);
        check(r#"-"a b"#, &["-a", "b", "unclosed"]);
        check(r#"-"-a"#, &["-a", "unclosed"]);
        check(r#"site:"a b"#, &["<site>", "a", "b", "unclosed"]);
        check(r#"""#, &["unclosed"]);
        check(r#"''"#, &["''"]);
    }
}
