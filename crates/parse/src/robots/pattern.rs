//! A rule's path with its wildcards, and how paths are spelt so that they can be compared octet by octet.
//!
//! Both sides are brought to one spelling (RFC 9309 §2.2.2): escapes of unreserved characters are undone, all
//! other escapes are written in upper case, and whatever may not stand in a URI is escaped. In a path, `*` and
//! `$` are escaped too (§2.2.3): in a pattern they are wildcards, and `%2A` and `%24` mean the characters.

use std::borrow::Cow;
use std::fmt;

/// Work that counts for a piece of a pattern, besides its own octets and those that are searched for it.
const WORK_PER_PIECE: usize = 24;

/// What a rule says about paths: pieces between `*`, perhaps bound to the end by `$`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern<'a> {
    /// In normal spelling; each `*` is a wildcard.
    pub text: &'a str,
    /// It ends with `$`: nothing may follow.
    pub to_the_end: bool,
}

/// Whether a pattern matches, as far as the work allowed to find out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matched {
    Yes,
    No,
    TooMuchWork,
}

/// What may still be spent on a path.
#[derive(Debug)]
pub struct Work {
    left: usize,
}

impl Work {
    pub fn new(left: usize) -> Work {
        Work { left }
    }

    /// Looks for a piece; answers where it ends.
    fn find(&mut self, path: &[u8], piece: &[u8]) -> Result<Option<usize>, TooMuch> {
        let found = memchr::memmem::find(path, piece).map(|at| at + piece.len());
        let looked_at = found.unwrap_or(path.len());
        self.left = self.left.checked_sub(WORK_PER_PIECE + piece.len() + looked_at).ok_or(TooMuch)?;
        Ok(found)
    }
}

/// No work is left.
struct TooMuch;

/// Reads a rule's value as pattern text and whether it is bound to the end; an empty one matches nothing and is no
/// pattern.
pub fn read(value: &[u8]) -> Option<(String, bool)> {
    let (value, to_the_end) = match value {
        [start @ .., b'$'] => (start, true),
        _ => (value, false),
    };
    let text = normal(value, |b| b == b'*');
    (!text.is_empty()).then_some((text, to_the_end))
}

impl Pattern<'_> {
    /// Whether it matches a path in normal spelling. Each piece is looked for once, after the one before: taking
    /// the leftmost place never costs a match, so the time is linear in pattern and path.
    pub fn matches(&self, path: &str, work: &mut Work) -> Matched {
        match self.try_match(path.as_bytes(), work) {
            Ok(true) => Matched::Yes,
            Ok(false) => Matched::No,
            Err(TooMuch) => Matched::TooMuchWork,
        }
    }

    fn try_match(&self, path: &[u8], work: &mut Work) -> Result<bool, TooMuch> {
        let mut pieces = self.text.split('*').map(str::as_bytes);
        let first = pieces.next().unwrap_or_default();
        let Some(mut rest) = path.strip_prefix(first) else { return Ok(false) };
        let Some(last) = pieces.next_back() else {
            return Ok(!self.to_the_end || rest.is_empty());
        };
        for piece in pieces {
            match work.find(rest, piece)? {
                Some(end) => rest = &rest[end..],
                None => return Ok(false),
            }
        }
        if self.to_the_end { Ok(rest.ends_with(last)) } else { Ok(work.find(rest, last)?.is_some()) }
    }
}

impl fmt::Display for Pattern<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text)?;
        f.write_str(if self.to_the_end { "$" } else { "" })
    }
}

/// A path in normal spelling.
pub fn normal_path(path: &str) -> Cow<'_, str> {
    let plain = |b: u8| is_unreserved(b) || matches!(b, b'/' | b'?' | b'=' | b'&');
    if path.bytes().all(plain) { Cow::Borrowed(path) } else { Cow::Owned(normal(path.as_bytes(), |_| false)) }
}

fn normal(text: &[u8], is_wildcard: impl Fn(u8) -> bool) -> String {
    let mut normal = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(&byte) = text.get(at) {
        match escaped(&text[at..]) {
            Some(byte) if is_unreserved(byte) => {
                normal.push(char::from(byte));
                at += 3;
            }
            Some(byte) => {
                push_escaped(&mut normal, byte);
                at += 3;
            }
            None => {
                if is_unreserved(byte)
                    || is_wildcard(byte)
                    || (is_reserved(byte) && !matches!(byte, b'*' | b'$'))
                {
                    normal.push(char::from(byte));
                } else {
                    push_escaped(&mut normal, byte);
                }
                at += 1;
            }
        }
    }
    normal
}

/// The byte that an escape at the start of the text stands for.
fn escaped(text: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = text else { return None };
    let digit = |b: &u8| char::from(*b).to_digit(16);
    Some((digit(high)? * 16 + digit(low)?) as u8)
}

fn push_escaped(text: &mut String, byte: u8) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    text.push('%');
    text.push(char::from(HEX[usize::from(byte >> 4)]));
    text.push(char::from(HEX[usize::from(byte & 15)]));
}

/// RFC 3986 §2.3.
fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// RFC 3986 §2.2, and the lone percent sign, which stays as it is.
fn is_reserved(byte: u8) -> bool {
    b":/?#[]@!$&'()*+,;=%".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(pattern: &str, path: &str, want: bool) {
        assert_eq!(is_match(pattern, path), want, "{pattern} on {path}");
    }

    fn is_match(pattern: &str, path: &str) -> bool {
        read(pattern.as_bytes()).is_some_and(|(text, to_the_end)| {
            let pattern = Pattern { text: &text, to_the_end };
            pattern.matches(&normal_path(path), &mut Work::new(usize::MAX)) == Matched::Yes
        })
    }

    #[test]
    fn wildcards() {
        check("/fish", "/fish.html", true);
        check("/fish", "/Fish", false);
        check("/fish", "/catfish", false);
        check("/fish*", "/fish", true);
        check("/fish/", "/fish", false);
        check("/*.php", "/a/b.php?c", true);
        check("/*.php$", "/a/b.php?c", false);
        check("/*.php$", "/a.php.php", true);
        check("/fish*.php", "/fishheads/catfish.php?x", true);
        check("/fish*.php", "/Fish.PHP", false);
        check("*", "/", true);
        check("/***a***", "/bba", true);
        check("/a*b*c$", "/abcbc", true);
        check("/a*b*c$", "/abcb", false);
        check("/a*aa$", "/aa", false); // The piece may not be used twice.
        check("/a*aa$", "/aaa", true);
        check("$", "/", false);
        check("", "/", false);
        check("/$", "/", true);
        check("/$", "/a", false);
        check("/a$b", "/a$bc", true); // Not at the end, it is a character.
        check("fish", "/fish", false); // A rule starts at the root.
    }

    #[test]
    fn spelling_does_not_matter() {
        check("/foo/bar/ツ", "/foo/bar/%E3%83%84", true);
        check("/foo/bar/%e3%83%84", "/foo/bar/%E3%83%84", true);
        check("/foo/bar/%62%61%7A", "/foo/bar/baz", true);
        check("/foo/bar/baz", "/foo/bar/%62%61%7A", true);
        check("/a%2Fb", "/a/b", false); // An escaped slash is no slash.
        check("/a%2fb", "/a%2Fb", true);
        check("/a b", "/a%20b", true);
        check("/file-with-a-%2A.html", "/file-with-a-*.html", true);
        check("/file-with-a-%2A.html", "/file-with-a-x.html", false);
        check("/foo-%24", "/foo-$", true);
        check("/100%", "/100%", true);
        check("/100%z", "/100%zz", true);
    }

    /// Tries every place for every wildcard.
    fn naive(pattern: &[u8], path: &[u8]) -> bool {
        match pattern {
            [] => true,
            [b'$'] => path.is_empty(),
            [b'*', rest @ ..] => (0..=path.len()).any(|at| naive(rest, &path[at..])),
            [first, rest @ ..] => path.first() == Some(first) && naive(rest, &path[1..]),
        }
    }

    proptest! {
        #[test]
        fn it_matches_what_trying_everything_matches(pattern in "[ab*]{1,9}\\$?", path in "[ab]{0,12}") {
            prop_assert_eq!(is_match(&pattern, &path), naive(pattern.as_bytes(), path.as_bytes()));
        }

        #[test]
        fn normal_spelling_is_a_fixed_point(text in ".{0,40}") {
            let once = normal_path(&text).into_owned();
            prop_assert!(once.is_ascii());
            prop_assert_eq!(&normal_path(&once), &once);
        }
    }
}
