//! Stems by language: what `casas` and `casa`, `running` and `runs` have in common.
//!
//! The algorithms are Snowball's. A stem is marked with its language, so that the stem of one language never
//! meets a word of another; see `docs/decisions/analysis.md`.
//!
//! INVARIANT: function words have no stem; they are found by their own form alone.

use super::fold::fold;
use super::stop;
use farol_base::Language;
use frostem::Algorithm;
use std::borrow::Cow;

/// First character of every stem, so that a stem can share a field with words.
pub(crate) const STEM_MARK: char = '\u{1}';

/// Words longer than this have no stem: they are no words of a language.
const WORD_BYTES_MAX: usize = 48;

/// The languages that have a stemmer, by their code.
const ALGORITHMS: &[(&str, Algorithm)] = &[
    ("ar", Algorithm::Arabic),
    ("ca", Algorithm::Catalan),
    ("da", Algorithm::Danish),
    ("de", Algorithm::German),
    ("el", Algorithm::Greek),
    ("en", Algorithm::English),
    ("es", Algorithm::Spanish),
    ("eu", Algorithm::Basque),
    ("fi", Algorithm::Finnish),
    ("fr", Algorithm::French),
    ("hu", Algorithm::Hungarian),
    ("it", Algorithm::Italian),
    ("nb", Algorithm::Norwegian),
    ("nl", Algorithm::Dutch),
    ("no", Algorithm::Norwegian),
    ("pt", Algorithm::Portuguese),
    ("ro", Algorithm::Romanian),
    ("ru", Algorithm::Russian),
    ("sv", Algorithm::Swedish),
    ("ta", Algorithm::Tamil),
    ("tr", Algorithm::Turkish),
];

/// Endings that people type without their accents, by language; the longest comes first. Without the accent the
/// algorithms do not know them as endings.
const BARE_ENDINGS: &[(&str, &str, &str)] = &[
    ("pt", "encias", "ências"),
    ("pt", "ancias", "âncias"),
    ("pt", "encia", "ência"),
    ("pt", "ancia", "ância"),
    ("pt", "aveis", "áveis"),
    ("pt", "iveis", "íveis"),
    ("pt", "logico", "lógico"),
    ("pt", "logica", "lógica"),
    ("pt", "ario", "ário"),
    ("pt", "aria", "ária"),
    ("pt", "orio", "ório"),
    ("pt", "oria", "ória"),
    ("pt", "avel", "ável"),
    ("pt", "ivel", "ível"),
    ("pt", "coes", "ções"),
    ("pt", "cao", "ção"),
    ("pt", "oes", "ões"),
    ("pt", "aes", "ães"),
    ("pt", "ois", "óis"),
    ("pt", "ao", "ão"),
    ("es", "logia", "logía"),
    ("es", "logias", "logías"),
    ("es", "cion", "ción"),
    ("es", "sion", "sión"),
];

/// Stems the words of one language.
#[derive(Clone)]
pub(crate) struct Stemmer {
    language: Language,
    algorithm: frostem::Stemmer,
}

impl Stemmer {
    /// The stemmer of a language, where there is one.
    pub(crate) fn new(language: Language) -> Option<Stemmer> {
        let (_, algorithm) = ALGORITHMS.iter().find(|(code, _)| *code == language.code())?;
        let algorithm = frostem::Stemmer::new(*algorithm);
        Some(Stemmer { language, algorithm })
    }

    /// The stem of a word by itself; see [`Stemmer::stem`].
    pub(crate) fn stem_once(&self, lowered: &str) -> String {
        let mut stem = String::new();
        self.stem(lowered, &mut stem);
        stem
    }

    /// The stem of the word that was meant where an ending was typed without its accent.
    pub(crate) fn stem_of_bare(&self, lowered: &str) -> Option<String> {
        let code = self.language.code();
        let (_, bare, accented) = BARE_ENDINGS
            .iter()
            .find(|(language, bare, _)| *language == code && lowered.ends_with(bare) && lowered.is_ascii())?;
        let root = &lowered[..lowered.len() - bare.len()];
        Some(self.stem_once(&format!("{root}{accented}")))
    }

    /// Appends the marked, folded stem of a lower-cased word; nothing where the word has none.
    pub(crate) fn stem(&self, lowered: &str, stem: &mut String) {
        if (2..=WORD_BYTES_MAX).contains(&lowered.len())
            && lowered.chars().all(char::is_alphabetic)
            && !stop::is_stop_word(self.language, lowered)
        {
            stem.push(STEM_MARK);
            stem.push_str(self.language.code());
            match self.language == Language::PORTUGUESE {
                true => fold(&self.algorithm.stem(&new_spelling(lowered)), stem),
                false => fold(&self.algorithm.stem(lowered), stem),
            }
        }
    }
}

/// A Portuguese word without the mute consonants that Portugal wrote until 2009 and Brazil never did: `transacções` is
/// `transações`, `projecto` is `projeto`. Those that are spoken (`pacto`) are lost as well, in pages and questions alike.
fn new_spelling(lowered: &str) -> Cow<'_, str> {
    if !["cç", "pç", "ct"].iter().any(|old| lowered.contains(old)) || lowered.chars().count() < 5 {
        return Cow::Borrowed(lowered);
    }
    Cow::Owned(lowered.replace("cç", "ç").replace("pç", "ç").replace("ct", "t"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, words: &[&str]) {
        let stemmer = Stemmer::new(Language::parse(code).unwrap()).unwrap();
        let stems: Vec<String> = words.iter().map(|word| stemmer.stem_once(word)).collect();
        assert!(stems[0].starts_with(&format!("{STEM_MARK}{code}")), "{stems:?}");
        assert!(stems.iter().all(|stem| *stem == stems[0]), "{words:?} gave {stems:?}");
    }

    #[test]
    fn forms_of_a_word_share_a_stem() {
        check("pt", &["casa", "casas"]);
        check("pt", &["instalação", "instalações", "instalar"]);
        check("pt", &["transação", "transacção"]);
        check("pt", &["transações", "transacções"]);
        check("pt", &["projeto", "projectos"]);
        check("es", &["canción", "canciones"]);
        check("en", &["connect", "connected", "connection", "connections"]);
        check("fr", &["continu", "continue", "continuer"]);
        check("de", &["häuser", "hauser"]);
        check("it", &["gatto", "gatti"]);
        check("ru", &["книга", "книги", "книгу"]);
        check("nl", &["boek", "boeken"]);
        check("sv", &["flicka", "flickor"]);
        check("tr", &["kitap", "kitaplar"]);
        check("el", &["γατα", "γατες"]);
    }

    #[test]
    fn endings_may_lack_their_accents() {
        let check = |code: &str, bare: &str, accented: &str| {
            let stemmer = Stemmer::new(Language::parse(code).unwrap()).unwrap();
            assert_eq!(stemmer.stem_of_bare(bare), Some(stemmer.stem_once(accented)), "{bare}");
        };
        check("pt", "instalacao", "instalações");
        check("pt", "paes", "pães");
        check("pt", "disponiveis", "disponíveis");
        check("es", "cancion", "canciones");
        assert_eq!(Stemmer::new(Language::ENGLISH).unwrap().stem_of_bare("cao"), None);
    }

    #[test]
    fn what_is_no_content_word_has_no_stem() {
        let english = Stemmer::new(Language::ENGLISH).unwrap();
        for word in ["the", "x86", "2024", "a", &"a".repeat(60)] {
            assert_eq!(english.stem_once(word), "", "{word}");
        }
        assert!(Stemmer::new(Language::parse("zh").unwrap()).is_none());
    }
}
