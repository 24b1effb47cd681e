//! Finds the encoding of a page and decodes it.
//!
//! The order: byte order mark, `Content-Type`, the page's own declaration, valid UTF-8, and only then a
//! guess from the bytes (chardetng, on at most [`GUESS_BYTES`]: it reads about 30 MB/s). A declaration that
//! the bytes plainly contradict is not followed.
//!
//! Never fails: bytes without meaning become U+FFFD.

pub mod declared;
mod more;

use chardetng::{EncodingDetector, Iso2022JpDetection, Utf8Detection};
use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE, WINDOWS_1252, X_USER_DEFINED};
use std::borrow::Cow;

/// Bytes on which an encoding is guessed, from the first that is not ASCII: 2 ms at most.
pub const GUESS_BYTES: usize = 64 << 10;

/// An encoding that can be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Charset {
    /// One of the WHATWG Encoding standard.
    Standard(&'static Encoding),
    /// IBM code page 855, Cyrillic.
    Ibm855,
    /// Johab, Korean.
    Johab,
    /// UTF-32, little-endian.
    Utf32Le,
    /// UTF-32, big-endian.
    Utf32Be,
}

impl Charset {
    /// Finds an encoding by any of the names that pages use for it.
    pub fn for_label(label: &[u8]) -> Option<Charset> {
        if let Some(encoding) = Encoding::for_label_no_replacement(label) {
            return Some(Charset::Standard(encoding));
        }
        let label = std::str::from_utf8(label).ok()?.trim().to_ascii_lowercase().replace('_', "-");
        let same = match label.as_str() {
            "ibm855" | "cp855" | "855" | "csibm855" => return Some(Charset::Ibm855),
            "johab" | "cp1361" | "ms1361" | "x-johab" => return Some(Charset::Johab),
            "utf-32" | "utf-32le" | "ucs-4" => return Some(Charset::Utf32Le),
            "utf-32be" => return Some(Charset::Utf32Be),
            "maccyrillic" | "mac-cyrillic" => "x-mac-cyrillic",
            "cp932" => "shift_jis",
            "cp936" => "gbk",
            "cp949" | "uhc" => "euc-kr",
            "cp950" => "big5",
            "tis620" => "tis-620",
            "latin-1" => "latin1",
            _ => return None,
        };
        Encoding::for_label(same.as_bytes()).map(Charset::Standard)
    }

    /// The WHATWG name of the encoding, where it has one.
    pub fn name(self) -> &'static str {
        match self {
            Charset::Standard(encoding) => encoding.name(),
            Charset::Ibm855 => "IBM855",
            Charset::Johab => "Johab",
            Charset::Utf32Le => "UTF-32LE",
            Charset::Utf32Be => "UTF-32BE",
        }
    }

    /// What a declaration that was read as ASCII can mean (HTML standard, §13.2.3.2): not UTF-16 or UTF-32.
    fn of_ascii_superset(self) -> Charset {
        match self {
            Charset::Standard(e) if e == UTF_16LE || e == UTF_16BE => Charset::Standard(UTF_8),
            Charset::Standard(e) if e == X_USER_DEFINED => Charset::Standard(WINDOWS_1252),
            Charset::Utf32Le | Charset::Utf32Be => Charset::Standard(UTF_8),
            other => other,
        }
    }

    fn is_utf8(self) -> bool {
        self == Charset::Standard(UTF_8)
    }

    fn is_single_byte(self) -> bool {
        match self {
            Charset::Standard(encoding) => encoding.is_single_byte(),
            Charset::Ibm855 => true,
            Charset::Johab | Charset::Utf32Le | Charset::Utf32Be => false,
        }
    }

    /// Decodes, and says whether some bytes had no meaning. A byte order mark is not part of the text.
    fn decode(self, body: &[u8]) -> (Cow<'_, str>, bool) {
        match self {
            Charset::Standard(encoding) => encoding.decode_with_bom_removal(body),
            Charset::Ibm855 => (Cow::Owned(more::decode_ibm855(body)), false),
            Charset::Johab => with_errors(more::decode_johab(body)),
            Charset::Utf32Le => with_errors(more::decode_utf32(body, false)),
            Charset::Utf32Be => with_errors(more::decode_utf32(body, true)),
        }
    }
}

fn with_errors(text: String) -> (Cow<'static, str>, bool) {
    let errors = text.contains(char::REPLACEMENT_CHARACTER);
    (Cow::Owned(text), errors)
}

/// A decoded page.
#[derive(Clone, Debug)]
pub struct Decoded<'b> {
    /// The text.
    pub text: Cow<'b, str>,
    /// The encoding that was used.
    pub charset: Charset,
    /// The page declares another charset, which its bytes contradict.
    pub declaration_wrong: bool,
    /// Some bytes had no meaning; they are U+FFFD in the text.
    pub unreadable: bool,
}

/// Finds the encoding of a page, as [`decode`] does, without keeping the text.
pub fn find(content_type: Option<&str>, body: &[u8], tld: Option<&str>) -> Charset {
    decode(content_type, body, tld).charset
}

/// Finds the encoding of a page and decodes it. `tld` (`"jp"`) is a hint for guessing.
pub fn decode<'b>(content_type: Option<&str>, body: &'b [u8], tld: Option<&str>) -> Decoded<'b> {
    if let Some(charset) = by_mark(body).or_else(|| by_zeros(body)) {
        return decode_as(charset, body, false);
    }
    let declared = content_type.and_then(declared::in_content_type).or_else(|| declared::in_markup(body));
    if let Ok(text) = simdutf8::basic::from_utf8(body) {
        return decode_valid_utf8(text, declared);
    }
    match declared {
        Some(charset) if charset.is_utf8() => {
            let guess = if is_mostly_utf8(body) { charset } else { guess(body, tld) };
            decode_as(guess, body, guess != charset)
        }
        Some(charset) => {
            let decoded = decode_as(charset, body, false);
            if decoded.unreadable && is_mostly_noise(&decoded.text) {
                decode_as(guess(body, tld), body, true)
            } else {
                decoded
            }
        }
        None if is_mostly_utf8(body) => decode_as(Charset::Standard(UTF_8), body, false),
        None => decode_as(guess(body, tld), body, false),
    }
}

fn decode_as(charset: Charset, body: &[u8], declaration_wrong: bool) -> Decoded<'_> {
    let (text, unreadable) = charset.decode(body);
    Decoded { text, charset, declaration_wrong, unreadable }
}

/// Text in another encoding is almost never valid UTF-8 by chance, so a declared single-byte encoding is a
/// server's default and wrong. ISO-2022-JP and the other double-byte encodings can look like it.
fn decode_valid_utf8(text: &str, declared: Option<Charset>) -> Decoded<'_> {
    let utf8 = Charset::Standard(UTF_8);
    let charset = match declared {
        Some(charset) if charset.is_utf8() => utf8,
        Some(charset) if text.is_ascii() && charset.is_single_byte() => charset,
        Some(charset) if charset.is_single_byte() => utf8,
        Some(charset) => return decode_as(charset, text.as_bytes(), false),
        None if looks_like_iso_2022_jp(text) => Charset::Standard(encoding_rs::ISO_2022_JP),
        None => utf8,
    };
    if charset.name() == "ISO-2022-JP" {
        return decode_as(charset, text.as_bytes(), false);
    }
    let declaration_wrong = declared.is_some_and(|declared| declared != charset);
    Decoded { text: Cow::Borrowed(text), charset, declaration_wrong, unreadable: false }
}

/// ISO-2022-JP is ASCII with escape sequences that ordinary text never has.
fn looks_like_iso_2022_jp(text: &str) -> bool {
    let bytes = text.as_bytes();
    memchr::memchr(0x1B, bytes).is_some()
        && text.is_ascii()
        && [b"\x1B$B", b"\x1B$@"].iter().any(|escape| memchr::memmem::find(bytes, *escape).is_some())
}

fn by_mark(body: &[u8]) -> Option<Charset> {
    if body.starts_with(b"\xFF\xFE\0\0") {
        return Some(Charset::Utf32Le);
    }
    if body.starts_with(b"\0\0\xFE\xFF") {
        return Some(Charset::Utf32Be);
    }
    Encoding::for_bom(body).map(|(encoding, _)| Charset::Standard(encoding))
}

/// Two ASCII characters with the zeros that UTF-16 and UTF-32 put around them.
fn by_zeros(body: &[u8]) -> Option<Charset> {
    match body.get(..8)? {
        [1..=255, 0, 0, 0, 1..=255, 0, 0, 0] => Some(Charset::Utf32Le),
        [0, 0, 0, 1..=255, 0, 0, 0, 1..=255] => Some(Charset::Utf32Be),
        [1..=255, 0, 1..=255, 0, 1..=255, 0, 1..=255, 0] => Some(Charset::Standard(UTF_16LE)),
        [0, 1..=255, 0, 1..=255, 0, 1..=255, 0, 1..=255] => Some(Charset::Standard(UTF_16BE)),
        _ => None,
    }
}

/// Whether a body that is not quite valid UTF-8 is UTF-8 with a few accidents: a cut at the end, a comment
/// in another encoding, a broken title.
fn is_mostly_utf8(body: &[u8]) -> bool {
    let (mut good, mut bad) = (0usize, 0usize);
    for chunk in body.utf8_chunks() {
        good += chunk.valid().bytes().filter(|b| *b >= 0xC0).count();
        bad += usize::from(!chunk.invalid().is_empty());
    }
    good > bad
}

/// Whether more than a tenth of what is not ASCII could not be read.
fn is_mostly_noise(text: &str) -> bool {
    let beyond_ascii = text.chars().filter(|c| !c.is_ascii()).count();
    let unreadable = text.matches(char::REPLACEMENT_CHARACTER).count();
    unreadable * 10 > beyond_ascii
}

fn guess(body: &[u8], tld: Option<&str>) -> Charset {
    let first = body.iter().position(|b| !b.is_ascii()).unwrap_or(0);
    let end = body.len().min(first + GUESS_BYTES);
    let mut detector = EncodingDetector::new(Iso2022JpDetection::Allow);
    detector.feed(&body[first..end], end == body.len());
    let guess = detector.guess(tld.map(str::as_bytes), Utf8Detection::Deny);
    if guess.is_single_byte() && more::looks_like_johab(&body[first..end]) {
        return Charset::Johab;
    }
    Charset::Standard(narrowest(guess, &body[first..end]))
}

/// Of two encodings in which the bytes mean the same, names the older and narrower one: it is what authors
/// of undeclared text mostly had.
fn narrowest(guess: &'static Encoding, sample: &[u8]) -> &'static Encoding {
    let narrower = match guess.name() {
        "KOI8-U" => encoding_rs::KOI8_R,
        "windows-1250" => encoding_rs::ISO_8859_2,
        "windows-1253" => encoding_rs::ISO_8859_7,
        _ => return guess,
    };
    let same = narrower.decode_without_bom_handling(sample).0 == guess.decode_without_bom_handling(sample).0;
    if same { narrower } else { guess }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(header: &str, body: &[u8], want: &str, text: &str) {
        let header = (!header.is_empty()).then(|| format!("text/html; charset={header}"));
        let decoded = decode(header.as_deref(), body, None);
        assert_eq!((decoded.charset.name(), &*decoded.text), (want, text), "{header:?}");
    }

    #[test]
    fn from_the_surest_sign_to_the_weakest() {
        check("koi8-r", b"\xEF\xBB\xBFol\xC3\xA1", "UTF-8", "olá"); // A mark beats the header.
        check("", b"\xFF\xFEo\0l\0\xE1\0", "UTF-16LE", "olá");
        check("", b"\xFE\xFF\0o\0l\0\xE1", "UTF-16BE", "olá");
        check("", b"\xFF\xFE\0\0o\0\0\0\xE1\0\0\0", "UTF-32LE", "oá");
        check("", b"<\0p\0>\0o\0l\0\xE1\0", "UTF-16LE", "<p>olá");
        check("", b"\0\0\0<\0\0\0p\0\0\0>", "UTF-32BE", "<p>");
        check("iso-8859-1", b"ol\xE1", "windows-1252", "olá");
        check("koi8-r", b"<meta charset=utf-8>\xEF", "KOI8-R", "<meta charset=utf-8>О"); // The header beats the page.
        check("", b"<meta charset=koi8-r>\xEF", "KOI8-R", "<meta charset=koi8-r>О");
        check("", "olá".as_bytes(), "UTF-8", "olá");
        check("", b"plain", "UTF-8", "plain");
    }

    #[test]
    fn a_declaration_that_cannot_be_is_not_followed() {
        check("iso-8859-1", "ação".as_bytes(), "UTF-8", "ação"); // A server's default over a UTF-8 page.
        check("utf-8", b"cora\xE7\xE3o, n\xE3o", "windows-1252", "coração, não");
        let decoded = decode(Some("text/html; charset=utf-8"), b"cora\xE7\xE3o", None);
        assert!(decoded.declaration_wrong);
        // One accident in a UTF-8 page does not make it another encoding.
        check("utf-8", b"\xC3\xA7\xC3\xA3 \xE7", "UTF-8", "çã \u{FFFD}");
        check("", b"\xC3\xA7\xC3\xA3 \xC3", "UTF-8", "çã \u{FFFD}");
    }

    #[test]
    fn undeclared_text_is_guessed() {
        let (bytes, _, _) = encoding_rs::SHIFT_JIS.encode("これは日本語の文章です。文字コードを当てます。");
        check("", &bytes, "Shift_JIS", "これは日本語の文章です。文字コードを当てます。");
        let (bytes, _, _) = encoding_rs::WINDOWS_1251.encode("Съешь же ещё этих мягких французских булок");
        check("", &bytes, "windows-1251", "Съешь же ещё этих мягких французских булок");
        check("", b"\x1B$B$3$l\x1B(B", "ISO-2022-JP", "これ");
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(header in "[a-z0-9-]{0,8}", body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let decoded = decode(Some(&format!("text/html; charset={header}")), &body, Some("pt"));
            prop_assert!(decoded.text.len() <= 3 * body.len() + 3);
        }

        #[test]
        fn valid_utf8_comes_back_as_it_is(text in "[a-zé日я ]{0,80}") {
            let decoded = decode(None, text.as_bytes(), None);
            prop_assert_eq!(&*decoded.text, text.as_str());
        }
    }
}
