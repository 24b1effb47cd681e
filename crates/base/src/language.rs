//! Languages by their ISO 639-1 code.

use std::fmt;

/// A language, as its two-letter ISO 639-1 code (`pt`, `es`, `en`, …).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Language([u8; 2]);

impl Language {
    pub const ENGLISH: Language = Language(*b"en");
    pub const PORTUGUESE: Language = Language(*b"pt");
    pub const SPANISH: Language = Language(*b"es");

    /// Reads a code or a BCP 47 tag, of which only the primary subtag counts: `pt-BR` is `pt`.
    ///
    /// ```
    /// use farol_base::Language;
    /// assert_eq!(Language::parse("pt-BR"), Some(Language::PORTUGUESE));
    /// assert_eq!(Language::parse("portuguese"), None);
    /// ```
    pub fn parse(tag: &str) -> Option<Language> {
        let primary = tag.trim().split(['-', '_']).next()?.as_bytes();
        match primary {
            [a, b] if a.is_ascii_alphabetic() && b.is_ascii_alphabetic() => {
                Some(Language([a.to_ascii_lowercase(), b.to_ascii_lowercase()]))
            }
            _ => None,
        }
    }

    /// The code as text.
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or("??")
    }
}

/// The languages that somebody reads, best liked first, at most [`Languages::MAX`] of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Languages([Option<Language>; Languages::MAX]);

impl Languages {
    /// Browsers name two or three.
    pub const MAX: usize = 4;

    /// The best liked one.
    pub fn first(&self) -> Option<Language> {
        self.0[0]
    }

    /// All of them, best liked first.
    pub fn iter(&self) -> impl Iterator<Item = Language> + use<> {
        self.0.into_iter().flatten()
    }
}

impl From<Language> for Languages {
    fn from(language: Language) -> Languages {
        [language].into_iter().collect()
    }
}

/// Keeps the first ones, each once.
impl FromIterator<Language> for Languages {
    fn from_iter<I: IntoIterator<Item = Language>>(languages: I) -> Languages {
        let mut list = Languages::default();
        let mut room = 0;
        for language in languages {
            if room < Languages::MAX && !list.0.contains(&Some(language)) {
                list.0[room] = Some(language);
                room += 1;
            }
        }
        list
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl fmt::Debug for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}
