//! Names the language of a text.
//!
//! By whatlang's trigrams on a bounded sample; an answer counts only where it is sure of itself, so short
//! and mixed texts have no language here and the page's own claim is used.

use farol_base::Language;
use whatlang::Lang;

/// Bytes of a text on which its language is told. More changes few answers and costs time.
pub const SAMPLE_BYTES: usize = 1200;
/// Texts with fewer letters say too little. The writing systems that serve one language need less.
const BYTES_MIN: usize = 40;

/// The language of a text, if it is sure.
pub fn of_text(text: &str) -> Option<Language> {
    let sample = sample(text);
    if sample.len() < BYTES_MIN {
        return None;
    }
    let info = whatlang::detect(sample)?;
    if info.is_reliable() { Language::parse(two_letters(info.lang())) } else { None }
}

/// A stretch from the middle, where the text is least likely to be headings and names.
fn sample(text: &str) -> &str {
    if text.len() <= SAMPLE_BYTES {
        return text;
    }
    let start = text.ceil_char_boundary((text.len() - SAMPLE_BYTES) / 2);
    let end = text.floor_char_boundary(start + SAMPLE_BYTES);
    &text[start..end]
}

/// ISO 639-1 for whatlang's ISO 639-3.
#[rustfmt::skip]
fn two_letters(lang: Lang) -> &'static str {
    match lang {
        Lang::Epo => "eo", Lang::Eng => "en", Lang::Rus => "ru", Lang::Cmn => "zh", Lang::Spa => "es",
        Lang::Por => "pt", Lang::Ita => "it", Lang::Ben => "bn", Lang::Fra => "fr", Lang::Deu => "de",
        Lang::Ukr => "uk", Lang::Kat => "ka", Lang::Ara => "ar", Lang::Hin => "hi", Lang::Jpn => "ja",
        Lang::Heb => "he", Lang::Yid => "yi", Lang::Pol => "pl", Lang::Amh => "am", Lang::Jav => "jv",
        Lang::Kor => "ko", Lang::Nob => "no", Lang::Dan => "da", Lang::Swe => "sv", Lang::Fin => "fi",
        Lang::Tur => "tr", Lang::Nld => "nl", Lang::Hun => "hu", Lang::Ces => "cs", Lang::Ell => "el",
        Lang::Bul => "bg", Lang::Bel => "be", Lang::Mar => "mr", Lang::Kan => "kn", Lang::Ron => "ro",
        Lang::Slv => "sl", Lang::Hrv => "hr", Lang::Srp => "sr", Lang::Mkd => "mk", Lang::Lit => "lt",
        Lang::Lav => "lv", Lang::Est => "et", Lang::Tam => "ta", Lang::Vie => "vi", Lang::Urd => "ur",
        Lang::Tha => "th", Lang::Guj => "gu", Lang::Uzb => "uz", Lang::Pan => "pa", Lang::Aze => "az",
        Lang::Ind => "id", Lang::Tel => "te", Lang::Pes => "fa", Lang::Mal => "ml", Lang::Ori => "or",
        Lang::Mya => "my", Lang::Nep => "ne", Lang::Sin => "si", Lang::Khm => "km", Lang::Tuk => "tk",
        Lang::Aka => "ak", Lang::Zul => "zu", Lang::Sna => "sn", Lang::Afr => "af", Lang::Lat => "la",
        Lang::Slk => "sk", Lang::Cat => "ca", Lang::Tgl => "tl", Lang::Hye => "hy", Lang::Cym => "cy",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[track_caller]
    fn check(text: &str, want: &str) {
        assert_eq!(of_text(text).map_or(String::new(), |l| l.to_string()), want, "{text}");
    }

    #[test]
    fn languages_of_sentences() {
        check(
            "A pesquisa na Web precisa de máquinas que visitem as páginas muitas vezes, e isso custa caro.",
            "pt",
        );
        check(
            "La búsqueda en la Web necesita máquinas que visiten las páginas muchas veces, y eso cuesta caro.",
            "es",
        );
        check(
            "Searching the Web needs machines that visit the pages many times over, and that is expensive.",
            "en",
        );
        check(
            "Die Suche im Netz braucht Maschinen, die die Seiten viele Male besuchen, und das ist teuer.",
            "de",
        );
        check(
            "La recherche sur le Web demande des machines qui visitent les pages bien des fois, et cela coûte cher.",
            "fr",
        );
        check("検索エンジンはウェブページを何度も訪れる機械を必要とし、それには費用がかかります。", "ja");
        check("Поиск в сети требует машин, которые много раз посещают страницы, и это стоит дорого.", "ru");
    }

    #[test]
    fn too_little_says_nothing() {
        check("", "");
        check("ok", "");
        check("1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20", "");
    }

    #[test]
    fn every_language_known_has_two_letters() {
        for lang in Lang::all() {
            assert!(Language::parse(two_letters(*lang)).is_some(), "{lang:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "\\PC{0,2000}") {
            let _ = of_text(&text);
        }
    }
}
