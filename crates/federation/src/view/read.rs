//! Reads the text form of a view.
//!
//! ```text
//! view  = conj { "or" conj }          conj = unary { ("and" | "minus") unary }
//! unary = "not" unary | "(" view ")" | "all" | "none" | atom | "." name
//! atom  = kind ":" value [ "~" radius ] [ "#" signature ]
//! ```
//!
//! A value is a JSON string, or what goes on to the next space, parenthesis or quotation mark. `a minus b` is `a and not b`.
//! What cannot be read is refused with the character where that shows, and what would have been right there.

use super::atom::{self, Part};
use super::{Expr, Limits};
use crate::error::{Error, Expected};

/// A place in a text that is being read.
pub(crate) struct Cursor<'a> {
    pub text: &'a str,
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub fn blanks(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    pub fn take(&mut self, token: &str) -> bool {
        let is_there = self.rest().starts_with(token);
        self.at += if is_there { token.len() } else { 0 };
        is_there
    }

    pub fn refuse<T>(&self, at: usize, expected: impl Into<String>) -> Result<T, Error> {
        let rest = &self.text[at..];
        let end = rest.find(|c: char| c.is_whitespace() || matches!(c, '(' | ')'));
        let word = match end {
            Some(0) => rest.chars().take(1).collect::<String>(),
            end => rest[..end.unwrap_or(rest.len())].chars().take(40).collect(),
        };
        let found = if rest.is_empty() { "the end".to_string() } else { format!("{word:?}") };
        let expected = Expected(expected.into());
        Err(Error::Syntax { text: self.text.to_string(), at, expected, found })
    }

    /// Reads a JSON string that begins here.
    pub fn string(&mut self) -> Result<String, Error> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let at = self.at;
            let Some(c) = self.rest().chars().next() else {
                return self.refuse(start, "a string that ends with a quotation mark");
            };
            self.at += c.len_utf8();
            match c {
                '"' => return Ok(out),
                '\\' => match self.escape() {
                    Some(c) => out.push(c),
                    None => return self.refuse(at, "one of JSON's escapes such as \\\" or \\u00e9"),
                },
                c if (c as u32) < 0x20 => return self.refuse(at, "an escape such as \\n in a string"),
                c => out.push(c),
            }
        }
    }

    fn escape(&mut self) -> Option<char> {
        let c = self.rest().chars().next()?;
        self.at += c.len_utf8();
        Some(match c {
            '"' | '\\' | '/' => c,
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'u' => {
                let unit = self.unit()?;
                if !(0xD800..0xDC00).contains(&unit) {
                    return char::from_u32(unit);
                }
                // The first half of a character beyond 16 bits.
                let low = if self.take("\\u") { self.unit()? } else { return None };
                (0xDC00..0xE000).contains(&low).then_some(())?;
                char::from_u32(0x10000 + ((unit - 0xD800) << 10) + (low - 0xDC00))?
            }
            _ => return None,
        })
    }

    fn unit(&mut self) -> Option<u32> {
        let digits = self.rest().get(..4).filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        self.at += 4;
        u32::from_str_radix(digits, 16).ok()
    }
}

struct TextReader<'a> {
    cursor: Cursor<'a>,
    limits: Limits,
    atoms: usize,
}

pub(crate) fn read(text: &str, limits: &Limits) -> Result<Expr, Error> {
    if text.len() > limits.bytes {
        return Err(Error::TooLong { bytes: text.len(), max: limits.bytes });
    }
    let mut reader = TextReader { cursor: Cursor { text, at: 0 }, limits: *limits, atoms: 0 };
    let expr = reader.view(0)?;
    reader.cursor.blanks();
    match reader.cursor.rest() {
        "" => Ok(expr),
        _ => reader.cursor.refuse(reader.cursor.at, "and, or, minus or the end"),
    }
}

impl TextReader<'_> {
    /// Takes a whole word, if it is this one.
    fn word(&mut self, word: &str) -> bool {
        self.cursor.blanks();
        let rest = self.cursor.rest();
        let ends = |rest: &str| {
            rest.chars()
                .next()
                .is_none_or(|c| c.is_whitespace() || c.is_control() || matches!(c, '(' | ')' | '"'))
        };
        rest.strip_prefix(word).is_some_and(ends) && self.cursor.take(word)
    }

    fn view(&mut self, depth: usize) -> Result<Expr, Error> {
        let mut parts = vec![self.conjunction(depth)?];
        while self.word("or") {
            parts.push(self.conjunction(depth)?);
        }
        Ok(Expr::any(parts))
    }

    fn conjunction(&mut self, depth: usize) -> Result<Expr, Error> {
        let mut parts = vec![self.unary(depth)?];
        loop {
            if self.word("and") {
                parts.push(self.unary(depth)?);
            } else if self.word("minus") {
                parts.push(self.unary(depth)?.not());
            } else {
                return Ok(Expr::every(parts));
            }
        }
    }

    fn unary(&mut self, depth: usize) -> Result<Expr, Error> {
        let max = 2 * self.limits.depth;
        if depth > max {
            return Err(Error::TooDeep { depth, max });
        }
        if self.word("not") {
            return Ok(self.unary(depth + 1)?.not());
        }
        if self.word("all") {
            return Ok(Expr::All);
        }
        if self.word("none") {
            return Ok(Expr::None);
        }
        self.cursor.blanks();
        if self.cursor.take("(") {
            let inner = self.view(depth + 1)?;
            self.cursor.blanks();
            return match self.cursor.take(")") {
                true => Ok(inner),
                false => self.cursor.refuse(self.cursor.at, "and, or, minus or )"),
            };
        }
        self.atom()
    }

    fn atom(&mut self) -> Result<Expr, Error> {
        let start = self.cursor.at;
        let is_end = |c: char| c.is_whitespace() || c.is_control() || matches!(c, '(' | ')' | '"');
        let rest = self.cursor.rest();
        let word = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        const CONDITION: &str = "a condition such as .pt, host:www.example.org or lang:pt";
        if word.is_empty() || matches!(word, "and" | "or" | "minus") {
            return self.cursor.refuse(start, CONDITION);
        }
        self.atoms += 1;
        if self.atoms > self.limits.atoms {
            return Err(Error::TooManyAtoms { atoms: self.atoms, max: self.limits.atoms });
        }
        if word.starts_with('.') && word.len() > 1 {
            self.cursor.at += word.len();
            return self.made(start, "domain", (start, word.to_string()), None, None);
        }
        let Some((kind, _)) = word.split_once(':') else {
            return self.cursor.refuse(start, CONDITION);
        };
        self.cursor.at += kind.len() + 1;
        let value_at = self.cursor.at;
        let value = match self.cursor.rest().starts_with('"') {
            true => self.cursor.string()?,
            false => String::new(),
        };
        let rest = self.cursor.rest();
        let tail_at = self.cursor.at;
        let tail = &rest[..rest.find(is_end).unwrap_or(rest.len())];
        self.cursor.at += tail.len();
        if self.cursor.rest().starts_with('"') {
            return self.cursor.refuse(self.cursor.at, "a space, or the whole value in quotation marks");
        }
        // Where a condition has no radius, `~` and `#` are characters of its value.
        let (before, after) = match tail.rfind('~').filter(|_| atom::has_radius(kind)) {
            Some(at) => (&tail[..at], Some((tail_at + at + 1, &tail[at + 1..]))),
            None => (tail, None),
        };
        let quoted = value_at < tail_at;
        if quoted && !before.is_empty() {
            return self.cursor.refuse(tail_at, "a space, or a radius after ~ where the condition has one");
        }
        let value = if quoted { value } else { before.to_string() };
        let (radius, signature) = match after {
            None => (None, None),
            Some((at, text)) => match text.split_once('#') {
                None => (Some((at, text)), None),
                Some((radius, signature)) => (Some((at, radius)), Some((at + radius.len() + 1, signature))),
            },
        };
        self.made(start, kind, (value_at, value), radius, signature)
    }

    fn made(
        &mut self,
        start: usize,
        kind: &str,
        (value_at, value): (usize, String),
        radius: Option<(usize, &str)>,
        signature: Option<(usize, &str)>,
    ) -> Result<Expr, Error> {
        let made = atom::make(kind, &value, radius.map(|(_, text)| text), signature.map(|(_, text)| text));
        made.or_else(|(part, expected)| {
            let at = match part {
                Part::Kind => start,
                Part::Value => value_at,
                Part::Radius => radius.map_or(self.cursor.at, |(at, _)| at),
                Part::Signature => signature.map_or(self.cursor.at, |(at, _)| at),
            };
            self.cursor.refuse(at, expected)
        })
    }
}
