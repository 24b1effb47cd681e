//! The spelling of texts in the form `radix-1`: as in a submitted form, `+` for a space and `%XX` for most bytes.
//!
//! The thesis declares UTF-8 and writes ISO-8859-1 \[Fernandes01, appendix A\]. So bytes that are UTF-8 are read as that,
//! and others as windows-1252. Written is ISO-8859-1 where it has all characters and would not be taken for UTF-8, else
//! UTF-8: what was written is read back the same.

use std::fmt::Write as _;

/// The letters of windows-1252 from 0x80 to 0x9F; five bytes have none and stand for themselves.
const WINDOWS_1252: [char; 32] = [
    '€', '\u{81}', '‚', 'ƒ', '„', '…', '†', '‡', 'ˆ', '‰', 'Š', '‹', 'Œ', '\u{8d}', 'Ž', '\u{8f}', '\u{90}',
    '‘', '’', '“', '”', '•', '–', '—', '˜', '™', 'š', '›', 'œ', '\u{9d}', 'ž', 'Ÿ',
];

/// Reads a text. A `%` that no two hexadecimal digits follow stands for itself.
pub fn decode(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut plain = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let digit = |at: usize| bytes.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (bytes[at], digit(at + 1), digit(at + 2)) {
            (b'%', Some(high), Some(low)) => {
                plain.push((high * 16 + low) as u8);
                at += 3;
                continue;
            }
            (b'+', ..) => plain.push(b' '),
            (byte, ..) => plain.push(byte),
        }
        at += 1;
    }
    match String::from_utf8(plain) {
        Ok(text) => text,
        Err(error) => error.into_bytes().into_iter().map(letter).collect(),
    }
}

fn letter(byte: u8) -> char {
    match byte {
        0x80..=0x9F => WINDOWS_1252[usize::from(byte - 0x80)],
        _ => char::from(byte),
    }
}

/// Writes a text.
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 16);
    let latin: Option<Vec<u8>> =
        text.chars().map(|c| u8::try_from(c).ok().filter(|byte| !(0x80..0xA0).contains(byte))).collect();
    let latin = latin.filter(|latin| latin.is_ascii() || std::str::from_utf8(latin).is_err());
    for byte in latin.as_deref().unwrap_or(text.as_bytes()) {
        match byte {
            b' ' => out.push('+'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'*' => {
                out.push(char::from(*byte))
            }
            _ => {
                let _ = write!(out, "%{byte:02X}");
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_are_read_in_either_encoding() {
        let check = |text: &str, want: &str| assert_eq!(decode(text), want, "{text}");
        check("Centro+de+Inform%E1tica", "Centro de Informática");
        check("Centro+de+Inform%C3%A1tica", "Centro de Informática");
        check("%93aspas%94", "“aspas”");
        check("100%+certo", "100% certo");
        check("%", "%");
        check("%zz%4", "%zz%4");
        check("a%2Bb%26c", "a+b&c");
    }

    #[test]
    fn texts_are_written_in_the_shorter_one_where_it_is_not_mistaken() {
        let check = |text: &str, want: &str| assert_eq!(encode(text), want, "{text}");
        check("pós-graduação <a>", "p%F3s-gradua%E7%E3o+%3Ca%3E");
        check("Łódź", "%C5%81%C3%B3d%C5%BA");
        check("Ã©", "%C3%83%C2%A9"); // As ISO-8859-1 it would be read as é.
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_the_same(text in "\\PC{0,20}|[ -ÿ]{0,12}|[\u{80}-\u{bf}À-ÿ]{0,6}") {
            prop_assert_eq!(decode(&encode(&text)), text);
        }
    }
}
