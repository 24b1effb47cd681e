//! Texts shown to people, in three locales, one file each.
//!
//! A text that one locale lacks does not compile, because [`Texts`] has a field for each. Placeholders such as
//! `{count}` are filled in by [`fill`]; a test checks that all locales use the same ones.

mod en;
mod es;
pub(crate) mod format;
mod pt;
mod texts;

pub(crate) use texts::Texts;

use axum::extract::{FromRequestParts, Query};
use axum::http::header::ACCEPT_LANGUAGE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use farol_base::Language;
use std::convert::Infallible;

/// A locale of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locale {
    English,
    Portuguese,
    Spanish,
}

impl Locale {
    pub const ALL: [Locale; 3] = [Locale::Portuguese, Locale::Spanish, Locale::English];

    pub fn code(self) -> &'static str {
        match self {
            Locale::English => "en",
            Locale::Portuguese => "pt",
            Locale::Spanish => "es",
        }
    }

    /// Its own name for itself.
    pub fn name(self) -> &'static str {
        match self {
            Locale::English => "English",
            Locale::Portuguese => "Português",
            Locale::Spanish => "Español",
        }
    }

    pub fn language(self) -> Language {
        match self {
            Locale::English => Language::ENGLISH,
            Locale::Portuguese => Language::PORTUGUESE,
            Locale::Spanish => Language::SPANISH,
        }
    }

    pub fn texts(self) -> &'static Texts {
        match self {
            Locale::English => &en::TEXTS,
            Locale::Portuguese => &pt::TEXTS,
            Locale::Spanish => &es::TEXTS,
        }
    }

    fn of(language: Language) -> Option<Locale> {
        Locale::ALL.into_iter().find(|locale| locale.language() == language)
    }

    /// The locale that an `Accept-Language` header likes best among ours; English where it likes none.
    ///
    /// Reads the first 32 entries: browsers send a handful.
    fn accepted(header: &str) -> Locale {
        let entries = header.split(',').take(32).filter_map(|entry| {
            let (tag, weight) = entry.split_once(';').unwrap_or((entry, "q=1"));
            let weight: f32 = weight.trim().strip_prefix("q=")?.trim().parse().ok()?;
            let locale = Locale::of(Language::parse(tag)?)?;
            (weight > 0.0).then_some((locale, weight))
        });
        // Of equals the first one named wins.
        let best = entries.reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map_or(Locale::English, |(locale, _)| locale)
    }
}

/// The locale of the person who asks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor {
    pub locale: Locale,
    /// It was chosen by `?hl=` and so must stay in links.
    pub chosen: bool,
}

impl Visitor {
    pub fn of(uri: &Uri, headers: &HeaderMap) -> Visitor {
        let params = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(params)| params);
        let hl = params.unwrap_or_default().into_iter().find(|(key, _)| key == "hl").map(|(_, value)| value);
        if let Some(locale) = hl.and_then(|hl| Locale::of(Language::parse(&hl)?)) {
            return Visitor { locale, chosen: true };
        }
        let header = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or("");
        Visitor { locale: Locale::accepted(header), chosen: false }
    }

    pub fn texts(&self) -> &'static Texts {
        self.locale.texts()
    }

    /// The value of `hl` for links: the locale where it was chosen, else nothing.
    pub fn hl(&self) -> &'static str {
        if self.chosen { self.locale.code() } else { "" }
    }
}

impl<S: Sync> FromRequestParts<S> for Visitor {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Visitor, Infallible> {
        Ok(Visitor::of(&parts.uri, &parts.headers))
    }
}

/// The text for one of something, or for another number of them.
pub(crate) fn counted(count: u64, one: &'static str, several: &'static str) -> &'static str {
    if count == 1 { one } else { several }
}

/// Puts values in the place of `{name}`s. One pass: a value that looks like a placeholder is left alone.
pub(crate) fn fill(template: &str, values: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some(open) = rest.find('{') {
        let Some(close) = rest[open..].find('}') else { break };
        let name = &rest[open + 1..open + close];
        text.push_str(&rest[..open]);
        match values.iter().find(|(key, _)| *key == name) {
            Some((_, value)) => text.push_str(value),
            None => text.push_str(&rest[open..=open + close]),
        }
        rest = &rest[open + close + 1..];
    }
    text + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_liked_locale_is_chosen() {
        let check = |header: &str, want: Locale| assert_eq!(Locale::accepted(header), want, "{header}");
        check("pt-BR,pt;q=0.9,en;q=0.8", Locale::Portuguese);
        check("en;q=0.5, es-419;q=0.7", Locale::Spanish);
        check("de, fr;q=0.9", Locale::English);
        check("pt;q=0, es;q=0.1", Locale::Spanish);
        check("", Locale::English);
        check(";;;q=,,pt;q=nan,*", Locale::English);
    }

    #[test]
    fn a_choice_beats_the_browser() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_LANGUAGE, "en".parse().unwrap());
        let visitor = Visitor::of(&"/?q=x&hl=pt-PT".parse().unwrap(), &headers);
        assert_eq!((visitor.locale, visitor.hl()), (Locale::Portuguese, "pt"));
        let visitor = Visitor::of(&"/?hl=xx".parse().unwrap(), &headers);
        assert_eq!((visitor.locale, visitor.hl()), (Locale::English, ""));
    }

    #[test]
    fn filling_is_one_pass() {
        assert_eq!(fill("{a} of {b}{", &[("a", "{b}"), ("b", "2")]), "{b} of 2{");
        assert_eq!(fill("{unknown}", &[]), "{unknown}");
    }

    #[test]
    fn every_locale_says_everything_with_the_same_placeholders() {
        let placeholders = |text: &str| {
            let mut names: Vec<String> =
                text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap().to_string()).collect();
            names.sort();
            names
        };
        let english = Locale::English.texts().all();
        for locale in [Locale::Portuguese, Locale::Spanish] {
            let mut same = 0;
            for ((key, ours), (_, theirs)) in locale.texts().all().into_iter().zip(&english) {
                assert!(!ours.trim().is_empty() && !theirs.trim().is_empty(), "{key} is empty");
                assert_eq!(placeholders(ours), placeholders(theirs), "{key} in {locale:?}");
                same += usize::from(ours == *theirs);
            }
            // "URL", "robots.txt" and a few more are the same word everywhere; whole files are not.
            assert!(same < english.len() / 8, "{same} texts of {locale:?} are English");
        }
    }
}
