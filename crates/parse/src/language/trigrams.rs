//! Names a language by whatlang's trigrams and alphabets.

use farol_base::Language;
use whatlang::Lang;

/// The language of a text, if whatlang is sure.
pub fn language(text: &str) -> Option<Language> {
    let info = whatlang::detect(text)?;
    if info.is_reliable() { Language::parse(two_letters(info.lang())) } else { None }
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

    #[test]
    fn every_language_known_has_two_letters() {
        for lang in Lang::all() {
            assert!(Language::parse(two_letters(*lang)).is_some(), "{lang:?}");
        }
    }
}
