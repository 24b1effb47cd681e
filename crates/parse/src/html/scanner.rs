//! Cuts HTML into tags and text, in one pass and without copying.
//!
//! Follows the tokenizer of the HTML standard (§13.2.5) where it matters for links and text: which `<` opens
//! a tag, where quoted attributes, comments and raw text (`<script>`, `<title>`, …) end. The tests hold it
//! against html5ever's tokenizer on generated markup.
//!
//! INVARIANT: every byte is looked at a fixed number of times, whatever the input.
//! Does not decode entities (see `entities`) and does not know which elements are open.

use super::tags::Tag;
use memchr::{memchr, memchr2};
use std::ops::Range;

/// Attributes of one tag that are kept; the rest is skipped. Real pages stay below 30.
pub const ATTRS_MAX: usize = 64;

/// A piece of markup. Text and attributes still have their entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    Text(&'a str),
    /// Its attributes are in [`Scanner::attr`] until the next token.
    Start {
        tag: Tag,
        self_closing: bool,
    },
    End(Tag),
    /// The content of an element that holds no markup: `title`, `script`, `style`, `textarea`, …
    Raw(Tag, &'a str),
}

/// Where an attribute stands in the page.
#[derive(Clone, Debug)]
pub struct RawAttr {
    pub name: Range<usize>,
    pub value: Range<usize>,
}

/// Where a tag ends.
#[derive(Clone, Copy, Debug)]
pub struct TagEnd {
    /// The byte after `>`.
    pub at: usize,
    pub self_closing: bool,
}

/// Walks over a page.
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
    attrs: Vec<RawAttr>,
    /// The element whose raw text comes next.
    raw: Option<Tag>,
    /// How many `svg` and `math` elements are open: in them `<script/>` has no content.
    foreign: u32,
    unfinished: bool,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a str) -> Scanner<'a> {
        Scanner { text, at: 0, attrs: Vec::new(), raw: None, foreign: 0, unfinished: false }
    }

    /// The attribute of the start tag that was just returned, entities not decoded; the first of its name
    /// counts. `name` is in lower case.
    pub fn attr(&self, name: &str) -> Option<&'a str> {
        let bytes = self.text.as_bytes();
        let attr =
            self.attrs.iter().find(|attr| bytes[attr.name.clone()].eq_ignore_ascii_case(name.as_bytes()))?;
        Some(&self.text[attr.value.clone()])
    }

    /// All attributes of the current tag.
    pub fn attrs(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let text = self.text;
        self.attrs.iter().map(move |attr| (&text[attr.name.clone()], &text[attr.value.clone()]))
    }

    /// Whether the walk is inside `svg` or `math`.
    pub fn in_foreign(&self) -> bool {
        self.foreign > 0
    }

    /// Whether the page ended inside a tag or comment.
    pub fn unfinished(&self) -> bool {
        self.unfinished
    }

    pub fn next_token(&mut self) -> Option<Token<'a>> {
        if let Some(tag) = self.raw.take() {
            let start = self.at;
            self.at = end_of_raw_text(self.text.as_bytes(), start, tag);
            if self.at > start {
                return Some(Token::Raw(tag, &self.text[start..self.at]));
            }
        }
        let bytes = self.text.as_bytes();
        loop {
            let start = self.at;
            let Some(open) = find_markup(bytes, start) else {
                self.at = bytes.len();
                return (start < bytes.len()).then(|| Token::Text(&self.text[start..]));
            };
            if open > start {
                self.at = open;
                return Some(Token::Text(&self.text[start..open]));
            }
            let token = match bytes[open + 1] {
                b'/' => self.end_tag(open),
                b'!' | b'?' => {
                    self.skip_declaration(open);
                    None
                }
                _ => self.start_tag(open),
            };
            if token.is_some() {
                return token;
            }
        }
    }

    fn start_tag(&mut self, open: usize) -> Option<Token<'a>> {
        let (tag, end) = self.tag(open + 1)?;
        if matches!(tag, Tag::Svg | Tag::Math) && !end.self_closing {
            self.foreign += 1;
        }
        if tag.raw_text_name().is_some() && !(end.self_closing && self.foreign > 0) {
            self.raw = Some(tag);
        }
        Some(Token::Start { tag, self_closing: end.self_closing })
    }

    fn end_tag(&mut self, open: usize) -> Option<Token<'a>> {
        match self.text.as_bytes().get(open + 2) {
            Some(b) if b.is_ascii_alphabetic() => {
                let (tag, _) = self.tag(open + 2)?;
                if matches!(tag, Tag::Svg | Tag::Math) {
                    self.foreign = self.foreign.saturating_sub(1);
                }
                Some(Token::End(tag))
            }
            _ => {
                self.skip_past_bracket(open + 2);
                None
            }
        }
    }

    /// Reads name and attributes. At the end of the page an open tag is dropped, as the standard says.
    fn tag(&mut self, name_start: usize) -> Option<(Tag, TagEnd)> {
        let bytes = self.text.as_bytes();
        let rest = &bytes[name_start..];
        let name_len =
            rest.iter().position(|b| is_space(*b) || matches!(b, b'/' | b'>')).unwrap_or(rest.len());
        let name_end = name_start + name_len;
        let tag = Tag::of(&bytes[name_start..name_end]);
        match scan_attrs(bytes, name_end, &mut self.attrs) {
            Some(end) => {
                self.at = end.at;
                Some((tag, end))
            }
            None => {
                self.at = bytes.len();
                self.unfinished = true;
                None
            }
        }
    }

    /// Skips a comment, doctype, CDATA section or processing instruction.
    fn skip_declaration(&mut self, open: usize) {
        let bytes = self.text.as_bytes();
        if !bytes[open..].starts_with(b"<!--") {
            return self.skip_past_bracket(open + 2);
        }
        // A comment ends at "-->", which may share its hyphens with "<!--", or at "--!>", which may not.
        let mut from = open + 4;
        while let Some(found) = memchr(b'>', &bytes[from..]) {
            let close = from + found;
            let body = &bytes[open + 2..close];
            if body.ends_with(b"--") || (body.len() >= 5 && body.ends_with(b"--!")) {
                self.at = close + 1;
                return;
            }
            from = close + 1;
        }
        self.at = bytes.len();
        self.unfinished = true;
    }

    fn skip_past_bracket(&mut self, from: usize) {
        let bytes = self.text.as_bytes();
        match bytes.get(from..).and_then(|rest| memchr(b'>', rest)) {
            Some(found) => self.at = from + found + 1,
            None => {
                self.at = bytes.len();
                self.unfinished = true;
            }
        }
    }
}

/// Reads the attributes from the end of a tag's name on; `None` where the page ends before the tag does.
///
/// A name ends at white space, `/`, `>` or `=`; quotes mean something only right after `=`.
pub fn scan_attrs(bytes: &[u8], name_end: usize, attrs: &mut Vec<RawAttr>) -> Option<TagEnd> {
    attrs.clear();
    let mut at = name_end;
    loop {
        let mut slash = false;
        while let Some(&b) = bytes.get(at)
            && (is_space(b) || b == b'/')
        {
            slash = b == b'/';
            at += 1;
        }
        if *bytes.get(at)? == b'>' {
            return Some(TagEnd { at: at + 1, self_closing: slash });
        }
        // The first character belongs to the name even if it is '='.
        let name_start = at;
        at += 1;
        while !matches!(bytes.get(at)?, b' ' | b'\t' | b'\n' | b'\r' | b'\x0C' | b'/' | b'>' | b'=') {
            at += 1;
        }
        let name = name_start..at;
        let mut value = at..at;
        let after = skip_space(bytes, at);
        if *bytes.get(after)? == b'=' {
            at = skip_space(bytes, after + 1);
            match *bytes.get(at)? {
                quote @ (b'"' | b'\'') => {
                    let close = at + 1 + memchr(quote, &bytes[at + 1..])?;
                    value = at + 1..close;
                    at = close + 1;
                }
                b'>' => {}
                _ => {
                    let start = at;
                    while !matches!(bytes.get(at)?, b' ' | b'\t' | b'\n' | b'\r' | b'\x0C' | b'>') {
                        at += 1;
                    }
                    value = start..at;
                }
            }
        } else {
            at = after;
        }
        if attrs.len() < ATTRS_MAX {
            attrs.push(RawAttr { name, value });
        }
    }
}

/// The next `<` that opens a tag, a comment or the like; other ones are text.
fn find_markup(bytes: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    loop {
        at += memchr(b'<', bytes.get(at..)?)?;
        match bytes.get(at + 1) {
            Some(b) if b.is_ascii_alphabetic() || matches!(b, b'!' | b'?') => return Some(at),
            Some(b'/') if at + 2 < bytes.len() => return Some(at),
            _ => at += 1,
        }
    }
}

/// Where the raw text of an element ends: at its end tag, or at the end of the page.
fn end_of_raw_text(bytes: &[u8], start: usize, tag: Tag) -> usize {
    let Some(name) = tag.raw_text_name() else { return start };
    match tag {
        Tag::Plaintext => bytes.len(),
        Tag::Script => end_of_script(bytes, start),
        _ => {
            let mut at = start;
            while let Some(found) = memchr(b'<', &bytes[at..]) {
                at += found;
                if bytes.get(at + 1) == Some(&b'/') && names(bytes, at + 2, name) {
                    return at;
                }
                at += 1;
            }
            bytes.len()
        }
    }
}

/// A script may hold `<!-- … <script> … </script> … -->`, whose end tag does not end it (§13.2.5.17 ff.).
fn end_of_script(bytes: &[u8], start: usize) -> usize {
    #[derive(PartialEq)]
    enum ScriptState {
        Script,
        Comment { from: usize },
        ScriptInComment { from: usize },
    }
    let mut state = ScriptState::Script;
    let mut at = start;
    loop {
        let found = match state {
            ScriptState::Script => memchr(b'<', &bytes[at..]),
            _ => memchr2(b'<', b'>', &bytes[at..]),
        };
        let Some(found) = found else { return bytes.len() };
        at += found;
        let closes = bytes.get(at + 1) == Some(&b'/') && names(bytes, at + 2, "script");
        state = match state {
            ScriptState::Script if closes => return at,
            ScriptState::Script if bytes[at..].starts_with(b"<!--") => ScriptState::Comment { from: at + 2 },
            ScriptState::Script => ScriptState::Script,
            ScriptState::Comment { from } | ScriptState::ScriptInComment { from } if bytes[at] == b'>' => {
                if bytes[from..at].ends_with(b"--") {
                    ScriptState::Script
                } else {
                    at += 1;
                    continue;
                }
            }
            ScriptState::Comment { .. } if closes => return at,
            ScriptState::Comment { from } if names(bytes, at + 1, "script") => {
                ScriptState::ScriptInComment { from }
            }
            ScriptState::ScriptInComment { from } if closes => ScriptState::Comment { from },
            other => other,
        };
        at += 1;
    }
}

/// Whether a tag name stands here, followed by what ends a tag name.
fn names(bytes: &[u8], at: usize, name: &str) -> bool {
    let end = at + name.len();
    bytes.get(at..end).is_some_and(|found| found.eq_ignore_ascii_case(name.as_bytes()))
        && bytes.get(end).is_some_and(|b| is_space(*b) || matches!(b, b'/' | b'>'))
}

fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    while bytes.get(at).is_some_and(|b| is_space(*b)) {
        at += 1;
    }
    at
}

/// White space of the HTML standard.
pub fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | b'\x0C')
}

#[cfg(test)]
mod tests;
