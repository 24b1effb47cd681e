//! Decodes character references: `&amp;`, `&#233;`, `&#xE9;`, `&eacute`.
//!
//! As the HTML standard says (§13.2.5.72 ff.), with its table of names and its rule for attributes: in
//! `?a=1&copy=2` the name lacks its semicolon and is followed by `=`, so it is left alone.

use memchr::memchr;
use std::borrow::Cow;
use web_atoms::{C1_REPLACEMENTS, NAMED_ENTITIES};

/// Longest name in the standard's table, semicolon included (`CounterClockwiseContourIntegral;`).
const NAME_BYTES_MAX: usize = 32;
/// Longest name that may lack its semicolon (`frac12`, `Aacute`, …).
const BARE_NAME_BYTES_MAX: usize = 6;

/// Where a reference stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    Text,
    Attribute,
}

/// Decodes all references in a piece of text; borrows where there are none.
pub fn decode(raw: &str, place: Place) -> Cow<'_, str> {
    if memchr(b'&', raw.as_bytes()).is_none() {
        return Cow::Borrowed(raw);
    }
    let mut out = String::with_capacity(raw.len());
    decode_into(&mut out, raw, place);
    Cow::Owned(out)
}

/// Appends the decoded text.
pub fn decode_into(out: &mut String, raw: &str, place: Place) {
    let mut rest = raw;
    while let Some(at) = memchr(b'&', rest.as_bytes()) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        match reference(rest.as_bytes(), place) {
            Some((first, second, len)) => {
                out.push(first);
                out.extend(second);
                rest = &rest[len..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
}

/// The one or two characters that the reference at the start of `text` stands for, and its length.
fn reference(text: &[u8], place: Place) -> Option<(char, Option<char>, usize)> {
    if text.get(1) == Some(&b'#') {
        return number(text).map(|(c, len)| (c, None, len));
    }
    let limit = text.len().min(NAME_BYTES_MAX);
    let run = text.get(1..limit)?.iter().take_while(|b| b.is_ascii_alphanumeric()).count();
    if text.get(run + 1) == Some(&b';')
        && let Some((first, second)) = named(&text[1..run + 2])
    {
        return Some((first, second, run + 2));
    }
    for len in (2..=run.min(BARE_NAME_BYTES_MAX)).rev() {
        if let Some((first, second)) = named(&text[1..=len]) {
            let next = text.get(len + 1).copied().unwrap_or(b' ');
            let left_alone = place == Place::Attribute && (next == b'=' || next.is_ascii_alphanumeric());
            return (!left_alone).then_some((first, second, len + 1));
        }
    }
    None
}

fn named(name: &[u8]) -> Option<(char, Option<char>)> {
    // The few that make up nearly all references.
    match name {
        b"amp;" => return Some(('&', None)),
        b"nbsp;" => return Some(('\u{A0}', None)),
        b"quot;" => return Some(('"', None)),
        b"lt;" => return Some(('<', None)),
        b"gt;" => return Some(('>', None)),
        _ => {}
    }
    let &(first, second) = NAMED_ENTITIES.get(std::str::from_utf8(name).ok()?)?;
    // The table also holds the beginnings of names, as (0, 0).
    let first = char::from_u32(first).filter(|c| *c != '\0')?;
    Some((first, char::from_u32(second).filter(|c| *c != '\0')))
}

/// `&#…` or `&#x…`; code points that are no characters are replaced as browsers do.
fn number(text: &[u8]) -> Option<(char, usize)> {
    let (start, radix) = match text.get(2)? {
        b'x' | b'X' => (3, 16),
        _ => (2, 10),
    };
    let digits = text[start..].iter().take_while(|b| (**b as char).is_digit(radix)).count();
    if digits == 0 {
        return None;
    }
    // Once beyond the last code point it stays there, so a long number cannot wrap around.
    let code = text[start..start + digits].iter().fold(0u32, |code, b| {
        let digit = (*b as char).to_digit(radix).unwrap_or(0);
        code.saturating_mul(radix).saturating_add(digit).min(0x11_0000)
    });
    let end = start + digits;
    let end = if text.get(end) == Some(&b';') { end + 1 } else { end };
    let char = match code {
        0 => None,
        0x80..=0x9F => C1_REPLACEMENTS[code as usize - 0x80].or(char::from_u32(code)),
        _ => char::from_u32(code),
    };
    Some((char.unwrap_or(char::REPLACEMENT_CHARACTER), end))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(raw: &str, text: &str, attribute: &str) {
        assert_eq!(decode(raw, Place::Text), text, "{raw} as text");
        assert_eq!(decode(raw, Place::Attribute), attribute, "{raw} as attribute");
    }

    #[test]
    fn references_become_characters() {
        check("a &amp; b", "a & b", "a & b");
        check("&lt;p&gt;&quot;&nbsp;", "<p>\"\u{A0}", "<p>\"\u{A0}");
        check("&eacute;&Eacute", "éÉ", "éÉ");
        check("&notit;", "¬it;", "&notit;"); // The longest known beginning counts, but not in attributes.
        check("?a=1&copy=2", "?a=1©=2", "?a=1&copy=2");
        check("&copy 2", "© 2", "© 2");
        check("&NotEqualTilde;", "\u{2242}\u{338}", "\u{2242}\u{338}"); // Two characters.
        check("&CounterClockwiseContourIntegral;", "∳", "∳");
        check("&#233;&#xE9;&#XE9", "ééé", "ééé");
        check("&#128;", "€", "€"); // Windows-1252 habits.
        check("&#0;&#xD800;&#99999999999;", "\u{FFFD}\u{FFFD}\u{FFFD}", "\u{FFFD}\u{FFFD}\u{FFFD}"); // Lone surrogates.
        check("&#;&#x;&#", "&#;&#x;&#", "&#;&#x;&#");
        check("&&amp;&", "&&&", "&&&");
        check("&unknown;", "&unknown;", "&unknown;");
        check("&é;", "&é;", "&é;");
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(raw in "(&|#|x|;|[a-z]|[0-9]|é|=){0,60}") {
            let _ = decode(&raw, Place::Text);
            let _ = decode(&raw, Place::Attribute);
        }
    }
}
