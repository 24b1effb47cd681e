//! Words shown to people, in three tongues, one file each.
//!
//! A text that one tongue lacks does not compile, because [`Texts`] has a field for each. Placeholders such as
//! `{count}` are filled in by [`fill`]; a test checks that all tongues use the same ones.

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

/// A tongue in which the pages speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tongue {
    English,
    Portuguese,
    Spanish,
}

impl Tongue {
    pub const ALL: [Tongue; 3] = [Tongue::Portuguese, Tongue::Spanish, Tongue::English];

    pub fn code(self) -> &'static str {
        match self {
            Tongue::English => "en",
            Tongue::Portuguese => "pt",
            Tongue::Spanish => "es",
        }
    }

    /// Its own name for itself.
    pub fn name(self) -> &'static str {
        match self {
            Tongue::English => "English",
            Tongue::Portuguese => "Português",
            Tongue::Spanish => "Español",
        }
    }

    pub fn language(self) -> Language {
        match self {
            Tongue::English => Language::ENGLISH,
            Tongue::Portuguese => Language::PORTUGUESE,
            Tongue::Spanish => Language::SPANISH,
        }
    }

    pub fn texts(self) -> &'static Texts {
        match self {
            Tongue::English => &en::TEXTS,
            Tongue::Portuguese => &pt::TEXTS,
            Tongue::Spanish => &es::TEXTS,
        }
    }

    fn of(language: Language) -> Option<Tongue> {
        Tongue::ALL.into_iter().find(|tongue| tongue.language() == language)
    }

    /// The tongue that an `Accept-Language` header likes best among ours; English where it likes none.
    ///
    /// Reads the first 32 entries: browsers send a handful.
    fn accepted(header: &str) -> Tongue {
        let entries = header.split(',').take(32).filter_map(|entry| {
            let (tag, weight) = entry.split_once(';').unwrap_or((entry, "q=1"));
            let weight: f32 = weight.trim().strip_prefix("q=")?.trim().parse().ok()?;
            let tongue = Tongue::of(Language::parse(tag)?)?;
            (weight > 0.0).then_some((tongue, weight))
        });
        // Of equals the first one named wins.
        let best = entries.reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map_or(Tongue::English, |(tongue, _)| tongue)
    }
}

/// The tongue of whoever reads the response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader {
    pub tongue: Tongue,
    /// It was chosen by `?hl=` and so must stay in links.
    pub chosen: bool,
}

impl Reader {
    pub fn of(uri: &Uri, headers: &HeaderMap) -> Reader {
        let params = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(params)| params);
        let hl = params.unwrap_or_default().into_iter().find(|(key, _)| key == "hl").map(|(_, value)| value);
        if let Some(tongue) = hl.and_then(|hl| Tongue::of(Language::parse(&hl)?)) {
            return Reader { tongue, chosen: true };
        }
        let header = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or("");
        Reader { tongue: Tongue::accepted(header), chosen: false }
    }

    pub fn texts(&self) -> &'static Texts {
        self.tongue.texts()
    }

    /// The value of `hl` for links: the tongue where it was chosen, else nothing.
    pub fn hl(&self) -> &'static str {
        if self.chosen { self.tongue.code() } else { "" }
    }
}

impl<S: Sync> FromRequestParts<S> for Reader {
    type Rejection = Infallible;
    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Reader, Infallible> {
        Ok(Reader::of(&parts.uri, &parts.headers))
    }
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
    fn the_best_liked_tongue_is_chosen() {
        let check = |header: &str, want: Tongue| assert_eq!(Tongue::accepted(header), want, "{header}");
        check("pt-BR,pt;q=0.9,en;q=0.8", Tongue::Portuguese);
        check("en;q=0.5, es-419;q=0.7", Tongue::Spanish);
        check("de, fr;q=0.9", Tongue::English);
        check("pt;q=0, es;q=0.1", Tongue::Spanish);
        check("", Tongue::English);
        check(";;;q=,,pt;q=nan,*", Tongue::English);
    }

    #[test]
    fn a_choice_beats_the_browser() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_LANGUAGE, "en".parse().unwrap());
        let reader = Reader::of(&"/?q=x&hl=pt-PT".parse().unwrap(), &headers);
        assert_eq!((reader.tongue, reader.hl()), (Tongue::Portuguese, "pt"));
        let reader = Reader::of(&"/?hl=xx".parse().unwrap(), &headers);
        assert_eq!((reader.tongue, reader.hl()), (Tongue::English, ""));
    }

    #[test]
    fn filling_is_one_pass() {
        assert_eq!(fill("{a} of {b}{", &[("a", "{b}"), ("b", "2")]), "{b} of 2{");
        assert_eq!(fill("{unknown}", &[]), "{unknown}");
    }

    #[test]
    fn every_tongue_says_everything_with_the_same_placeholders() {
        let placeholders = |text: &str| {
            let mut names: Vec<String> =
                text.split('{').skip(1).map(|rest| rest.split('}').next().unwrap().to_string()).collect();
            names.sort();
            names
        };
        let english = Tongue::English.texts().all();
        for tongue in [Tongue::Portuguese, Tongue::Spanish] {
            let mut same = 0;
            for ((key, ours), (_, theirs)) in tongue.texts().all().into_iter().zip(&english) {
                assert!(!ours.trim().is_empty() && !theirs.trim().is_empty(), "{key} is empty");
                assert_eq!(placeholders(ours), placeholders(theirs), "{key} in {tongue:?}");
                same += usize::from(ours == *theirs);
            }
            // "URL", "robots.txt" and a few more are the same word everywhere; whole files are not.
            assert!(same < english.len() / 8, "{same} texts of {tongue:?} are English");
        }
    }
}
