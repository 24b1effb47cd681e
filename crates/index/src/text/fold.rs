//! One spelling for a word: lower case, plain width, no accents.
//!
//! Accents are folded where readers leave them out when they type (Latin, Greek, Russian ё, the points of
//! Arabic and Hebrew) and kept where they make another letter (й, が, vowel signs of Indic scripts).
//! Does not find words; see [`super::spans`].

use icu_normalizer::ComposingNormalizerBorrowed;
use icu_normalizer::properties::{
    CanonicalCombiningClassMapBorrowed, CanonicalDecompositionBorrowed, Decomposed,
};
use std::borrow::Cow;

/// Longest token in bytes; longer words are cut here, when indexed and when asked for.
pub(crate) const TOKEN_BYTES_MAX: usize = 64;

/// Appends the word in lower case and normal form, accents kept: what stemmers read.
pub(crate) fn lower(word: &str, out: &mut String) {
    if word.is_ascii() {
        let start = out.len();
        word.split('\'').for_each(|part| out.push_str(part));
        out[start..].make_ascii_lowercase();
        return;
    }
    let normaliser = ComposingNormalizerBorrowed::new_nfkc();
    let start = out.len();
    let mut dropped = false;
    for c in normaliser.normalize(word).chars() {
        match is_joiner(c) {
            true => dropped = true,
            false => out.extend(c.to_lowercase()),
        }
    }
    // Marks that met because what stood between them is gone may want another order.
    if dropped && let Cow::Owned(normal) = normaliser.normalize(&out[start..]) {
        out.truncate(start);
        out.push_str(&normal);
    }
}

/// Apostrophes and characters that are not seen.
fn is_joiner(c: char) -> bool {
    matches!(c, '\'' | '\u{2019}' | '\u{02BC}' | '\u{AD}' | '\u{200C}' | '\u{200D}' | '\u{2060}')
}

/// Appends the lower-cased word without its accents, cut at [`TOKEN_BYTES_MAX`].
///
/// What is folded already stays as it is: folding is idempotent.
pub(crate) fn fold(lowered: &str, out: &mut String) {
    let start = out.len();
    if lowered.is_ascii() {
        out.push_str(&lowered[..lowered.len().min(TOKEN_BYTES_MAX)]);
        return;
    }
    let mut joined = false;
    for c in lowered.chars() {
        let before = out.len();
        fold_char(c, out);
        joined |= out.len() == before || matches!(c, 'أ' | 'إ' | 'آ');
        if out.len() - start >= TOKEN_BYTES_MAX {
            break;
        }
    }
    let mut end = out.len().min(start + TOKEN_BYTES_MAX);
    while !out.is_char_boundary(end) {
        end -= 1;
    }
    out.truncate(end);
    // Characters that met because a mark between them is gone may want another order or be one letter, which may have
    // a mark to lose in its turn. This ends, as each round drops a mark.
    if joined && let Cow::Owned(normal) = ComposingNormalizerBorrowed::new_nfkc().normalize(&out[start..]) {
        out.truncate(start);
        fold(&normal, out);
    }
}

/// A whole text in one case, otherwise as it is: texts that agree in this are read alike, word by word.
pub fn one_case(text: &str) -> String {
    text.chars().flat_map(char::to_lowercase).collect()
}

/// A whole text in one case and without accents: texts that agree in this are read alike where stems do not count,
/// in quoted words and in addresses.
pub fn without_accents(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    one_case(text).chars().for_each(|c| fold_char(c, &mut out));
    out
}

/// Folds a text in one go.
pub(crate) fn folded(text: &str) -> String {
    let (mut lowered, mut out) = (String::new(), String::new());
    lower(text, &mut lowered);
    fold(&lowered, &mut out);
    out
}

fn fold_char(c: char, out: &mut String) {
    match c {
        '\0'..='\u{7F}' => out.push(c),
        'ß' => out.push_str("ss"),
        'æ' => out.push_str("ae"),
        'œ' => out.push_str("oe"),
        'þ' => out.push_str("th"),
        'ø' => out.push('o'),
        'ł' => out.push('l'),
        'đ' | 'ð' => out.push('d'),
        'ħ' => out.push('h'),
        'ı' => out.push('i'),
        'ŧ' => out.push('t'),
        'ς' => out.push('σ'),
        'ё' => out.push('е'),
        'ـ' => {} // Tatweel only stretches an Arabic word.
        'أ' | 'إ' | 'آ' => out.push('ا'),
        // Latin and Greek with their accents.
        '\u{80}'..='\u{3FF}' | '\u{1E00}'..='\u{1FFF}' => fold_accented(c, out),
        c if is_point(c) => {}
        c => out.push(c),
    }
}

/// Follows the decomposition to the bare letter: ế is ê is e.
fn fold_accented(c: char, out: &mut String) {
    let decompositions = CanonicalDecompositionBorrowed::new();
    let mut letter = c;
    // Unicode nests canonical decompositions at most four deep.
    for _ in 0..4 {
        match decompositions.decompose(letter) {
            Decomposed::Expansion(base, _) => letter = base,
            Decomposed::Singleton(base) => letter = base,
            Decomposed::Default => break,
        }
    }
    if ('\u{300}'..='\u{36F}').contains(&letter) {
        return;
    }
    // The bare letter may have a spelling of its own: ǽ is æ is ae.
    if letter == c { out.push(c) } else { fold_char(letter, out) }
}

/// Points that readers leave out: those of Hebrew and Arabic (combining classes 10 to 35).
fn is_point(c: char) -> bool {
    (10..=35).contains(&CanonicalCombiningClassMapBorrowed::new().get_u8(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(word: &str, want: &str) {
        assert_eq!(folded(word), want, "{word}");
    }

    #[test]
    fn accents_go_where_people_leave_them_out() {
        check("Ação", "acao");
        check("AC\u{327}A\u{303}O", "acao"); // The same word, decomposed.
        check("Straße", "strasse");
        check("Łódź", "lodz");
        check("Ǽ ǿ", "ae o");
        check("œuvre", "oeuvre");
        check("tiếng", "tieng");
        check("Ελληνικός", "ελληνικοσ");
        check("ΟΔΟΣ", "οδοσ");
        check("Ёлка", "елка");
        check("İstanbul", "istanbul");
        check("مُحَمَّد", "محمد");
        check("שָׁלוֹם", "שלום");
        check("ＦＡＲＯＬ", "farol"); // Full width.
        check("ﾃｽﾄ", "テスト"); // Half width.
        check("don't", "dont");
    }

    #[test]
    fn accents_stay_where_they_make_another_letter() {
        check("Йод", "йод");
        check("が", "が");
        check("हिन्दी", "हिन्दी");
        check("ไทย", "ไทย");
        check("한글", "한글");
    }

    #[test]
    fn what_meets_when_a_mark_is_dropped_is_normalised() {
        check("\u{A8E0}\u{FE71}\u{A3C}", "\u{A3C}\u{A8E0}"); // A tatweel stood between two marks.
        check("ا\u{640}\u{653}", "ا"); // Between a letter and its mark, …
        check("أ\u{653}", "ا"); // … where another mark was first, …
        check("\u{1100}\u{301}\u{1161}", "가"); // … and between the parts of a syllable.
    }

    #[test]
    fn long_words_are_cut() {
        assert_eq!(folded(&"a".repeat(100)).len(), TOKEN_BYTES_MAX);
        assert_eq!(folded(&"я".repeat(100)).len(), TOKEN_BYTES_MAX);
        assert_eq!(folded(&"漢".repeat(100)).len(), 63);
    }

    proptest! {
        #[test]
        fn folding_twice_changes_nothing(word in "\\PC{0,20}") {
            let once = folded(&word);
            prop_assert!(once.len() <= TOKEN_BYTES_MAX);
            prop_assert_eq!(folded(&once), once);
        }
    }
}
