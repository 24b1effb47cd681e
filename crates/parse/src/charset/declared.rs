//! Reads what a page says about its own encoding: header, XML declaration, `<meta>`.
//!
//! Follows the prescan of the HTML standard (§13.2.3.2), over a longer stretch. Believes nothing; whether
//! the declaration fits the bytes is the caller's question.

use super::Charset;
use crate::html::scanner::{self, RawAttr};

/// How far into a page its declaration is looked for. The standard says 1,024; pages with long comments
/// before their `<meta>` are common enough to look further.
pub const PRESCAN_BYTES: usize = 4096;

/// The charset parameter of a `Content-Type`, if it names one that is known.
pub fn in_content_type(content_type: &str) -> Option<Charset> {
    parameter(content_type.as_bytes())
}

/// The charset that a page's first bytes declare, in an XML declaration or a `<meta>`.
pub fn in_markup(body: &[u8]) -> Option<Charset> {
    let start = &body[..body.len().min(PRESCAN_BYTES)];
    in_xml_declaration(start).or_else(|| in_meta(start)).map(Charset::of_ascii_superset)
}

/// Finds `charset=…` in a `Content-Type` value, quoted or not.
fn parameter(value: &[u8]) -> Option<Charset> {
    let mut rest = value;
    while let Some(at) = find_ignoring_case(rest, b"charset") {
        rest = rest[at + b"charset".len()..].trim_ascii_start();
        if let Some(value) = rest.strip_prefix(b"=") {
            let value = value.trim_ascii_start();
            let label = match value.first() {
                Some(&quote @ (b'"' | b'\'')) => value[1..].split(|b| *b == quote).next(),
                _ => value.split(|b| matches!(b, b';' | b',') || b.is_ascii_whitespace()).next(),
            };
            return label.and_then(Charset::for_label);
        }
    }
    None
}

/// `<?xml version="1.0" encoding="…"?>` at the very start.
fn in_xml_declaration(start: &[u8]) -> Option<Charset> {
    let start = start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start).trim_ascii_start();
    if !start.starts_with(b"<?xml") {
        return None;
    }
    let declaration = &start[..memchr::memchr(b'>', start)?];
    let at = memchr::memmem::find(declaration, b"encoding")?;
    let value =
        declaration[at + b"encoding".len()..].trim_ascii_start().strip_prefix(b"=")?.trim_ascii_start();
    let quote = *value.first().filter(|b| matches!(b, b'"' | b'\''))?;
    value[1..].split(|b| *b == quote).next().and_then(Charset::for_label)
}

/// The first `<meta>` that declares a known charset.
fn in_meta(start: &[u8]) -> Option<Charset> {
    let mut attrs: Vec<RawAttr> = Vec::new();
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'<', start.get(at..)?) {
        at += found;
        let rest = &start[at..];
        if rest.starts_with(b"<!--") {
            at += 2 + memchr::memmem::find(&rest[2..], b"-->")? + 3;
        } else if rest.get(1).is_some_and(u8::is_ascii_alphabetic) {
            let name_end = rest.iter().position(|b| b.is_ascii_whitespace() || matches!(b, b'/' | b'>'))?;
            let is_meta = rest[1..name_end].eq_ignore_ascii_case(b"meta");
            let end = scanner::scan_attrs(start, at + name_end, &mut attrs)?;
            if is_meta && let Some(charset) = declared_by(start, &attrs) {
                return Some(charset);
            }
            at = end.at;
        } else {
            at += 1;
        }
    }
    None
}

fn declared_by(start: &[u8], attrs: &[RawAttr]) -> Option<Charset> {
    let value = |name: &[u8]| {
        let attr = attrs.iter().find(|attr| start[attr.name.clone()].eq_ignore_ascii_case(name))?;
        Some(&start[attr.value.clone()])
    };
    if let Some(charset) = value(b"charset").and_then(Charset::for_label) {
        return Some(charset);
    }
    let is_type = value(b"http-equiv")?.trim_ascii().eq_ignore_ascii_case(b"content-type");
    if is_type { parameter(value(b"content")?) } else { None }
}

fn find_ignoring_case(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|window| window.eq_ignore_ascii_case(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(markup: &str, want: &str) {
        let found = in_markup(markup.as_bytes());
        assert_eq!(found.map_or("", |charset| charset.name()), want, "{markup}");
    }

    #[test]
    fn declarations_in_markup() {
        check("<meta charset=utf-8>", "UTF-8");
        check("<META CHARSET = 'ISO-8859-1' >", "windows-1252"); // The standard's reading of Latin-1.
        check("<meta http-equiv=\"Content-Type\" content=\"text/html; charset=euc-jp\">", "EUC-JP");
        check("<meta content='text/html;charset=\"gb2312\"' http-equiv=content-type>", "GBK");
        check("<meta content='text/html;charset=big5'>", ""); // Without http-equiv it is about something else.
        check("<!-- <meta charset=big5> --><meta charset=koi8-r>", "KOI8-R");
        check("<p title='<meta charset=big5>'><meta charset=koi8-r>", "KOI8-R");
        check("<meta charset=nonsense><meta charset=koi8-r>", "KOI8-R");
        check("<meta charset=utf-16>", "UTF-8"); // It was readable as ASCII, so it cannot be UTF-16.
        check("<?xml version='1.0' encoding=\"ibm855\"?>", "IBM855");
        check("<?xml version=\"1.0\"?><meta charset=utf-8>", "UTF-8");
        check("<metacharset=utf-8>", "");
        check("<meta charset=", "");
        check("<!--", "");
        check(&format!("{}<meta charset=utf-8>", " ".repeat(5000)), "");
    }

    #[test]
    fn declarations_in_headers() {
        let check = |header: &str, want: &str| {
            assert_eq!(in_content_type(header).map_or("", |charset| charset.name()), want, "{header}");
        };
        check("text/html; charset=utf-8", "UTF-8");
        check("text/html;Charset=\"ISO-8859-2\"; x=y", "ISO-8859-2");
        check("text/html; charset = 'sjis'", "Shift_JIS");
        check("text/html; charset", "");
        check("text/html", "");
        check("text/html; charset=none", "");
    }
}
