//! Encodings that pages really declare although the WHATWG standard left them out: IBM855 (Cyrillic DOS),
//! Johab (Korean) and UTF-32.

/// Code page 855 from 0x80 on.
const IBM855: &str = concat!(
    "ђЂѓЃёЁєЄѕЅіІїЇјЈљЉњЊћЋќЌўЎџЏюЮъЪ",
    "аАбБцЦдДеЕфФгГ«»░▒▓│┤хХиИ╣║╗╝йЙ┐",
    "└┴┬├─┼кК╚╔╩╦╠═╬¤лЛмМнНоОп┘┌█▄Пя▀",
    "ЯрРсСтТуУжЖвВьЬ№\u{AD}ыЫзЗшШэЭщЩчЧ§■\u{A0}",
);

pub fn decode_ibm855(body: &[u8]) -> String {
    let high: Vec<char> = IBM855.chars().collect();
    body.iter().map(|&b| if b < 0x80 { b as char } else { high[usize::from(b) - 0x80] }).collect()
}

/// Decodes UTF-32; a unit that is no character becomes U+FFFD.
pub fn decode_utf32(body: &[u8], big_endian: bool) -> String {
    let body = body.strip_prefix(if big_endian { b"\0\0\xFE\xFF" } else { b"\xFF\xFE\0\0" }).unwrap_or(body);
    let unit = |four: &[u8]| {
        let four = <[u8; 4]>::try_from(four).unwrap_or([0xFF; 4]);
        let unit = if big_endian { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) };
        char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER)
    };
    body.chunks(4).map(unit).collect()
}

/// Decodes Johab (KS X 1001:1992 annex 3): a Hangul syllable is a set bit and three letters of five bits each;
/// symbols and hanja follow the rows of KS X 1001.
pub fn decode_johab(body: &[u8]) -> String {
    let mut text = String::with_capacity(body.len());
    let mut bytes = body.iter().copied().peekable();
    while let Some(first) = bytes.next() {
        if first < 0x80 {
            text.push(first as char);
            continue;
        }
        let Some(second) = bytes.next_if(|&b| is_johab_second(b)) else {
            text.push(char::REPLACEMENT_CHARACTER);
            continue;
        };
        let syllable = johab_syllable(u16::from_be_bytes([first, second]));
        let char = syllable.or_else(|| johab_symbol(first, second));
        text.push(char.unwrap_or(char::REPLACEMENT_CHARACTER));
    }
    text
}

/// Whether undeclared bytes are Johab: nearly all pairs that are not symbols are syllables, and there are
/// enough of them. Other alphabets put their letters where Johab has no syllables.
pub fn looks_like_johab(body: &[u8]) -> bool {
    let (mut syllables, mut strays) = (0usize, 0usize);
    let mut bytes = body.iter().copied().peekable();
    while let Some(first) = bytes.next() {
        if first < 0x80 {
            continue;
        }
        match bytes.next_if(|&b| is_johab_second(b)) {
            Some(second) if johab_syllable(u16::from_be_bytes([first, second])).is_some() => syllables += 1,
            Some(_) if (0xD9..=0xDE).contains(&first) => {}
            _ => strays += 1,
        }
    }
    syllables >= 16 && strays * 50 <= syllables
}

fn is_johab_second(byte: u8) -> bool {
    matches!(byte, 0x31..=0x7E | 0x81..=0xFE)
}

/// Symbols and hanja: two rows of KS X 1001, 94 characters each, share a first byte.
fn johab_symbol(first: u8, second: u8) -> Option<char> {
    let row = match first {
        0xD9..=0xDE => (first - 0xD9) * 2 + 1,
        0xE0..=0xF9 => (first - 0xE0) * 2 + 42,
        _ => return None,
    };
    let column = match second {
        0x31..=0x7E => second - 0x31,
        0x91..=0xFE => second - 0x43,
        _ => return None,
    };
    let euc_kr = [0xA0 + row + column / 94, 0xA1 + column % 94];
    encoding_rs::EUC_KR.decode_without_bom_handling(&euc_kr).0.chars().next()
}

fn johab_syllable(code: u16) -> Option<char> {
    let field = |shift: u16| u32::from(code >> shift & 31);
    // Leading consonants take 2 to 20, vowels 3 to 29 with gaps of two, final consonants 1 to 29 with a gap at 18.
    let lead = field(10).checked_sub(2).filter(|lead| *lead < 19)?;
    let vowel = match field(5) {
        v @ 3..=7 => v - 3,
        v @ 10..=15 => v - 5,
        v @ 18..=23 => v - 7,
        v @ 26..=29 => v - 9,
        _ => return None,
    };
    let tail = match field(0) {
        t @ 1..=17 => t - 1,
        t @ 19..=29 => t - 2,
        _ => return None,
    };
    char::from_u32(0xAC00 + (lead * 21 + vowel) * 28 + tail)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole() {
        assert_eq!(IBM855.chars().count(), 128);
        // "Привет" by the published code page.
        assert_eq!(decode_ibm855(b"\xDD\xE1\xB7\xEB\xA8\xE5!"), "Привет!");
    }

    #[test]
    fn utf32_reads_both_byte_orders() {
        assert_eq!(decode_utf32(b"\xFF\xFE\0\0a\0\0\0\x01\xF6\x01\0", false), "a\u{1F601}");
        assert_eq!(decode_utf32(b"\0\0\0a\0\0\xD8\0\0", true), "a\u{FFFD}\u{FFFD}"); // A surrogate, then a torn unit.
    }

    #[test]
    fn johab_syllables_are_computed() {
        assert_eq!(decode_johab(b"\xD0\x65\x8B\x69 \x88\x61"), "한글 가");
        assert_eq!(decode_johab(b"\xE0\x31\xF9\xFE"), "伽詰"); // The first and the last hanja.
        assert_eq!(decode_johab(b"\xFF\x31\x80"), "\u{FFFD}\u{FFFD}");
        assert!(looks_like_johab(&b"\xD0\x65\x8B\x69 ".repeat(10)));
        let (russian, _, _) =
            encoding_rs::KOI8_R.encode("съешь же ещё этих мягких французских булок, да выпей чаю");
        assert!(!looks_like_johab(&russian));
    }
}
