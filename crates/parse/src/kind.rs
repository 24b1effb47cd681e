//! Tells what kind of file a body is, from its `Content-Type` and its first bytes.
//!
//! The header is believed unless the bytes plainly contradict it: servers often call everything
//! `text/plain` or `text/html`. Only the first [`SNIFF_BYTES`] are looked at.

use farol_base::CanonicalUrl;

/// How far into a body its kind is looked for, as in the WHATWG MIME Sniffing standard.
pub const SNIFF_BYTES: usize = 1445;

/// What can be done with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// HTML or XHTML: text and links.
    Html,
    /// Text as it stands.
    PlainText,
    /// Other XML: perhaps a feed or a sitemap.
    Xml,
    /// No text for us: images, archives, scripts, styles, PDF, …
    Other,
}

/// Tells the kind of a body.
///
/// ```
/// use farol_parse::{Kind, sniff};
/// assert_eq!(sniff(Some("text/html; charset=utf-8"), b"hello"), Kind::Html);
/// assert_eq!(sniff(None, b"<!DOCTYPE html><p>hello"), Kind::Html);
/// assert_eq!(sniff(Some("text/html"), b"%PDF-1.7"), Kind::Other);
/// ```
pub fn sniff(content_type: Option<&str>, body: &[u8]) -> Kind {
    let start = &body[..body.len().min(SNIFF_BYTES)];
    if has_binary_magic(start) {
        return Kind::Other;
    }
    let mime = content_type.map_or("", essence);
    let is = |names: &[&str]| names.iter().any(|name| mime.eq_ignore_ascii_case(name));
    let ends = |end: &str| {
        mime.len() > end.len()
            && mime.get(mime.len() - end.len()..).is_some_and(|tail| tail.eq_ignore_ascii_case(end))
    };
    if is(&["text/html", "application/xhtml+xml"]) {
        // A feed or sitemap sent as HTML is common; an XHTML page is not mistaken for one.
        return if xml_root(start) == Some(Kind::Xml) { Kind::Xml } else { Kind::Html };
    }
    if is(&["text/xml", "application/xml"]) || ends("+xml") && !ends("svg+xml") {
        return xml_root(start).unwrap_or(Kind::Xml);
    }
    if is(&["text/plain"]) {
        return match xml_root(start) {
            Some(Kind::Xml) => Kind::Xml,
            _ if is_binary(start) => Kind::Other,
            _ => Kind::PlainText,
        };
    }
    if is(&["text/markdown", "text/x-rst", "text/csv", "text/tab-separated-values", "text/x-markdown"]) {
        return if is_binary(start) { Kind::Other } else { Kind::PlainText };
    }
    if is(&["", "application/octet-stream", "unknown/unknown", "application/unknown", "*/*"]) {
        return sniff_unlabelled(start);
    }
    Kind::Other
}

/// Names the kind of file for `filetype:`, from the header, else the address, else the kind.
pub fn file_type<'a>(content_type: Option<&str>, url: &'a CanonicalUrl, kind: Kind) -> &'a str {
    match kind {
        Kind::Html => return "html",
        Kind::Xml => return "xml",
        Kind::PlainText | Kind::Other => {}
    }
    let mime = content_type.map_or("", essence);
    let known = MIME_NAMES.iter().find(|(name, _)| mime.eq_ignore_ascii_case(name));
    match (known, extension(url)) {
        (Some((_, name)), _) => name,
        (None, Some(extension)) => extension,
        (None, None) if kind == Kind::PlainText => "txt",
        (None, None) => "other",
    }
}

/// Media types whose short name is not to be guessed from the address.
const MIME_NAMES: &[(&str, &str)] = &[
    ("application/pdf", "pdf"),
    ("application/postscript", "ps"),
    ("application/epub+zip", "epub"),
    ("application/json", "json"),
    ("application/ld+json", "json"),
    ("application/javascript", "js"),
    ("text/javascript", "js"),
    ("text/css", "css"),
    ("text/csv", "csv"),
    ("text/markdown", "md"),
    ("application/msword", "doc"),
    ("application/vnd.ms-excel", "xls"),
    ("application/vnd.ms-powerpoint", "ppt"),
    ("application/vnd.openxmlformats-officedocument.wordprocessingml.document", "docx"),
    ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "xlsx"),
    ("application/vnd.openxmlformats-officedocument.presentationml.presentation", "pptx"),
    ("application/vnd.oasis.opendocument.text", "odt"),
    ("application/vnd.oasis.opendocument.spreadsheet", "ods"),
    ("application/zip", "zip"),
    ("application/gzip", "gz"),
    ("application/x-gzip", "gz"),
    ("application/x-tar", "tar"),
    ("application/rtf", "rtf"),
    ("image/jpeg", "jpg"),
    ("image/png", "png"),
    ("image/gif", "gif"),
    ("image/webp", "webp"),
    ("image/svg+xml", "svg"),
    ("audio/mpeg", "mp3"),
    ("video/mp4", "mp4"),
];

/// The media type without its parameters.
fn essence(content_type: &str) -> &str {
    content_type.split(';').next().unwrap_or("").trim()
}

/// The lower-case extension of the address's last segment: letters and digits, at most 5.
fn extension(url: &CanonicalUrl) -> Option<&str> {
    let (_, extension) = url.path().rsplit('/').next()?.rsplit_once('.')?;
    let plain = extension.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    (plain && (1..=5).contains(&extension.len())).then_some(extension)
}

/// First bytes that give a binary format away.
const MAGIC: &[&[u8]] = &[
    b"%PDF-",
    b"%!PS",
    b"\x89PNG",
    b"GIF87a",
    b"GIF89a",
    b"\xFF\xD8\xFF",
    b"PK\x03\x04",
    b"\x1F\x8B\x08",
    b"BZh",
    b"\x28\xB5\x2F\xFD",
    b"\xFD7zXZ",
    b"Rar!",
    b"7z\xBC\xAF",
    b"\x7FELF",
    b"OggS",
    b"RIFF",
    b"ID3",
    b"\x00\x00\x01\x00",
    b"\xD0\xCF\x11\xE0",
    b"wOFF",
    b"wOF2",
    b"\x00asm",
    b"MZ\x90\x00",
    b"fLaC",
    b"II*\x00",
    b"MM\x00*",
    b"\x00\x00\x00\x18ftyp",
    b"\x00\x00\x00\x20ftyp",
    b"\x1A\x45\xDF\xA3",
];

fn has_binary_magic(start: &[u8]) -> bool {
    MAGIC.iter().any(|magic| start.starts_with(magic))
}

/// Whether there are bytes that no text has, by the MIME Sniffing standard §7.2. Text in UTF-16 or UTF-32
/// is told by its byte order mark.
fn is_binary(start: &[u8]) -> bool {
    if start.starts_with(b"\xFE\xFF") || start.starts_with(b"\xFF\xFE") || start.starts_with(b"\0\0\xFE\xFF")
    {
        return false;
    }
    start.iter().any(|b| matches!(b, 0x00..=0x08 | 0x0B | 0x0E..=0x1A | 0x1C..=0x1F))
}

/// Start tags that HTML pages begin with, by the MIME Sniffing standard §7.1.
const HTML_STARTS: &[&str] = &[
    "<!doctype html",
    "<html",
    "<head",
    "<script",
    "<iframe",
    "<h1",
    "<div",
    "<font",
    "<table",
    "<a",
    "<style",
    "<title",
    "<b",
    "<body",
    "<br",
    "<p",
    "<meta",
    "<link",
    "<center",
    "<span",
    "<ul",
    "<main",
    "<article",
];

fn sniff_unlabelled(start: &[u8]) -> Kind {
    if let Some(kind) = xml_root(start) {
        return kind;
    }
    let text = without_preamble(start);
    if HTML_STARTS.iter().any(|tag| opens_with(text, tag)) || text.starts_with(b"<!--") {
        return Kind::Html;
    }
    if is_binary(start) { Kind::Other } else { Kind::PlainText }
}

/// What an XML file is by its root element, where it announces itself as XML or its root is a known one.
fn xml_root(start: &[u8]) -> Option<Kind> {
    let text = without_preamble(start);
    if ["<rss", "<feed", "<urlset", "<sitemapindex", "<rdf:rdf"].iter().any(|tag| opens_with(text, tag)) {
        return Some(Kind::Xml);
    }
    if !opens_with(text, "<?xml") {
        return None;
    }
    // The root may follow comments, a doctype and style sheets: the first known name decides.
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'<', rest) {
        rest = &rest[at..];
        if opens_with(rest, "<html") || opens_with(rest, "<!doctype html") {
            return Some(Kind::Html);
        }
        if rest.get(1).is_some_and(u8::is_ascii_alphabetic) {
            return Some(Kind::Xml);
        }
        rest = &rest[1..];
    }
    Some(Kind::Xml)
}

/// Skips a UTF-8 byte order mark and white space.
fn without_preamble(start: &[u8]) -> &[u8] {
    start.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(start).trim_ascii_start()
}

/// Whether the text starts with this tag (given in lower case), as a whole word.
fn opens_with(text: &[u8], tag: &str) -> bool {
    text.get(..tag.len()).is_some_and(|head| head.eq_ignore_ascii_case(tag.as_bytes()))
        && text
            .get(tag.len())
            .is_none_or(|b| matches!(b, b' ' | b'>' | b'\t' | b'\n' | b'\r' | b'/' | b'\x0C'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(content_type: &str, body: &[u8], want: Kind) {
        let content_type = (!content_type.is_empty()).then_some(content_type);
        assert_eq!(sniff(content_type, body), want, "{content_type:?} {:?}", body.escape_ascii().to_string());
    }

    #[test]
    fn kinds_by_header_and_bytes() {
        check("text/html", b"", Kind::Html);
        check("TEXT/HTML;charset=x", b"hi", Kind::Html);
        check("text/html", b"<?xml version='1.0'?><rss version='2.0'>", Kind::Xml);
        check("text/html", b"<?xml version='1.0'?><!DOCTYPE html PUBLIC 'x'><html>", Kind::Html);
        check("text/html", b"\x89PNG\r\n", Kind::Other);
        check("application/xml", b"<?xml version='1.0'?>\n<!-- c --><html xmlns='x'>", Kind::Html);
        check("application/xml", b"<urlset>", Kind::Xml);
        check("application/rss+xml", b"", Kind::Xml);
        check("image/svg+xml", b"<svg>", Kind::Other);
        check("text/plain", b"hello", Kind::PlainText);
        check("text/plain", b"he\x00llo", Kind::Other);
        check("text/plain", b"\xFF\xFEh\x00i\x00", Kind::PlainText); // UTF-16 with its mark.
        check("text/plain", b"<html>", Kind::PlainText); // As browsers do: the author wants it shown.
        check("text/css", b"a{}", Kind::Other);
        check("application/json", b"{}", Kind::Other);
        check("application/pdf", b"", Kind::Other);
        check("", b"  <!DOCTYPE HTML>", Kind::Html);
        check("", b"\xEF\xBB\xBF<html>", Kind::Html);
        check("", b"<?xml version='1.0'?><feed>", Kind::Xml);
        check("", b"plain words", Kind::PlainText);
        check("", b"\x7FELF", Kind::Other);
        check("", b"", Kind::PlainText);
        check("application/octet-stream", b"<html>", Kind::Html);
    }

    #[test]
    fn file_types_have_short_names() {
        let check = |content_type: Option<&str>, url: &str, want: &str| {
            let url = CanonicalUrl::parse(url).unwrap();
            let kind = sniff(content_type, b"");
            assert_eq!(file_type(content_type, &url, kind), want, "{content_type:?} {url}");
        };
        check(Some("text/html"), "http://h/x.php", "html");
        check(Some("text/plain"), "http://h/notes", "txt");
        check(Some("text/plain"), "http://h/a.py", "py");
        check(Some("application/pdf; x=y"), "http://h/get?id=3", "pdf");
        check(Some("application/x-odd"), "http://h/a.odd", "odd");
        check(Some("application/x-odd"), "http://h/a.b/c", "other");
        check(Some("application/x-odd"), "http://h/a.%2F", "other");
        check(Some("text/xml"), "http://h/", "xml");
    }
}
