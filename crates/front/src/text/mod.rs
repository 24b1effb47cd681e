//! Texts shown to people, one file for each locale.
//!
//! A text that a locale lacks does not compile, because [`Texts`] has a field for each; the locale of Portugal alone takes
//! what is said alike from that of Brazil. Placeholders such as `{count}` are filled in by [`fill`]; a test checks that all
//! locales use the same ones.

mod ca;
mod en;
mod es;
pub(crate) mod format;
mod fr;
mod gl;
mod pt_br;
mod pt_pt;
pub(crate) mod reasons;
pub(crate) mod seeds;
mod texts;

pub(crate) use texts::Texts;

use axum::extract::{FromRequestParts, Query};
use axum::http::header::ACCEPT_LANGUAGE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, Uri};
use farol_base::{Language, Languages};
use std::convert::Infallible;

/// A locale of the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locale {
    Brazilian,
    Portuguese,
    Galician,
    Spanish,
    Catalan,
    French,
    English,
}

impl Locale {
    pub const ALL: [Locale; 7] = [
        Locale::Brazilian,
        Locale::Portuguese,
        Locale::Galician,
        Locale::Spanish,
        Locale::Catalan,
        Locale::French,
        Locale::English,
    ];

    /// Its BCP 47 tag.
    pub fn code(self) -> &'static str {
        match self {
            Locale::Brazilian => "pt-BR",
            Locale::Portuguese => "pt-PT",
            Locale::Galician => "gl",
            Locale::Spanish => "es",
            Locale::Catalan => "ca",
            Locale::French => "fr",
            Locale::English => "en",
        }
    }

    /// Its own name for itself.
    pub fn name(self) -> &'static str {
        match self {
            Locale::Brazilian => "Português (Brasil)",
            Locale::Portuguese => "Português (Portugal)",
            Locale::Galician => "Galego",
            Locale::Spanish => "Español",
            Locale::Catalan => "Català",
            Locale::French => "Français",
            Locale::English => "English",
        }
    }

    pub fn texts(self) -> &'static Texts {
        match self {
            Locale::Brazilian => &pt_br::TEXTS,
            Locale::Portuguese => &pt_pt::TEXTS,
            Locale::Galician => &gl::TEXTS,
            Locale::Spanish => &es::TEXTS,
            Locale::Catalan => &ca::TEXTS,
            Locale::French => &fr::TEXTS,
            Locale::English => &en::TEXTS,
        }
    }

    /// The locale of a tag. Portuguese without a region is that of Brazil, where most of its speakers live; that of
    /// Africa and Asia follows Portugal's norm.
    fn of(tag: &str) -> Option<Locale> {
        let language = Language::parse(tag)?;
        if language == Language::PORTUGUESE {
            let mut regions = tag.trim().split(['-', '_']).skip(1).filter(|part| part.len() == 2);
            let brazilian = regions.next().is_none_or(|region| region.eq_ignore_ascii_case("br"));
            return Some(if brazilian { Locale::Brazilian } else { Locale::Portuguese });
        }
        Locale::ALL.into_iter().find(|locale| locale.code() == language.code())
    }

    /// The locale of the first tag that is one of ours; English where none is.
    fn best(tags: &[&str]) -> Locale {
        let mut locales = tags.iter().filter_map(|tag| Locale::of(tag));
        locales.next().unwrap_or(Locale::English)
    }
}

/// The tags of an `Accept-Language` header, best liked first; of equals the first one named.
///
/// Reads the first 32 entries: browsers send a handful.
fn accepted(header: &str) -> Vec<&str> {
    let entries = header.split(',').take(32).filter_map(|entry| {
        let (tag, weight) = entry.split_once(';').unwrap_or((entry, "q=1"));
        let weight: f32 = weight.trim().strip_prefix("q=")?.trim().parse().ok()?;
        (weight > 0.0).then_some((tag.trim(), weight))
    });
    let mut entries: Vec<(&str, f32)> = entries.collect();
    entries.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    entries.into_iter().map(|(tag, _)| tag).collect()
}

/// The locale of the person who asks, and the languages that they read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visitor {
    pub locale: Locale,
    /// That of a locale that was chosen, then all that the browser names.
    pub languages: Languages,
    /// It was chosen by `?hl=` and so must stay in links.
    pub chosen: bool,
}

impl Visitor {
    pub fn of(uri: &Uri, headers: &HeaderMap) -> Visitor {
        let params = Query::<Vec<(String, String)>>::try_from_uri(uri).map(|Query(params)| params);
        let hl = params.unwrap_or_default().into_iter().find(|(key, _)| key == "hl").map(|(_, value)| value);
        let chosen = hl.and_then(|hl| Locale::of(&hl));
        let header = headers.get(ACCEPT_LANGUAGE).and_then(|value| value.to_str().ok()).unwrap_or("");
        let tags = accepted(header);
        let read = tags.iter().filter_map(|tag| Language::parse(tag));
        Visitor {
            locale: chosen.unwrap_or_else(|| Locale::best(&tags)),
            languages: chosen
                .and_then(|locale| Language::parse(locale.code()))
                .into_iter()
                .chain(read)
                .collect(),
            chosen: chosen.is_some(),
        }
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
        let check =
            |header: &str, want: Locale| assert_eq!(Locale::best(&accepted(header)), want, "{header}");
        check("pt-BR,pt;q=0.9,en;q=0.8", Locale::Brazilian);
        check("pt", Locale::Brazilian);
        check("pt-PT,pt;q=0.9,en;q=0.8", Locale::Portuguese);
        check("pt-Latn-AO", Locale::Portuguese);
        check("gl-ES,es;q=0.5", Locale::Galician);
        check("ca-valencia", Locale::Catalan);
        check("de, fr-CA;q=0.9", Locale::French);
        check("en;q=0.5, es-419;q=0.7", Locale::Spanish);
        check("de, ja;q=0.9", Locale::English);
        check("pt;q=0, es;q=0.1", Locale::Spanish);
        check("", Locale::English);
        check(";;;q=,,pt;q=nan,*", Locale::English);
    }

    #[test]
    fn a_choice_beats_the_browser() {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT_LANGUAGE, "en".parse().unwrap());
        let visitor = Visitor::of(&"/?q=x&hl=pt-PT".parse().unwrap(), &headers);
        assert_eq!((visitor.locale, visitor.hl()), (Locale::Portuguese, "pt-PT"));
        let visitor = Visitor::of(&"/?hl=xx".parse().unwrap(), &headers);
        assert_eq!((visitor.locale, visitor.hl()), (Locale::English, ""));
    }

    #[test]
    fn every_language_that_the_browser_names_counts() {
        let check = |uri: &str, header: &str, want: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_LANGUAGE, header.parse().unwrap());
            let visitor = Visitor::of(&uri.parse().unwrap(), &headers);
            let codes: Vec<String> = visitor.languages.iter().map(|language| language.to_string()).collect();
            assert_eq!(codes.join(" "), want, "{uri} {header}");
        };
        check("/", "de-AT,de;q=0.9,ja;q=0.8,*;q=0.1", "de ja");
        check("/", "en;q=0.3, gl, pt-BR;q=0.8, pt;q=0.7, es;q=0.5", "gl pt es en");
        check("/?hl=es", "de, es;q=0.5", "es de");
        check("/", "", "");
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
        let mut words: Vec<&str> =
            Locale::ALL.iter().map(|locale| locale.texts().search_placeholder).collect();
        words.sort();
        words.dedup();
        assert_eq!(words.len(), Locale::ALL.len());
        for locale in Locale::ALL.into_iter().filter(|locale| *locale != Locale::English) {
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

    #[test]
    fn no_sentence_of_a_locale_is_that_of_another_language() {
        let english = Locale::English.texts().all();
        for locale in Locale::ALL.into_iter().filter(|locale| *locale != Locale::English) {
            for ((key, ours), (_, theirs)) in locale.texts().all().into_iter().zip(&english) {
                let is_sentence =
                    theirs.split(' ').filter(|word| word.chars().all(char::is_alphabetic)).count() > 2;
                assert!(!is_sentence || ours != *theirs, "{key} of {locale:?} is English");
            }
        }
    }

    #[test]
    fn portugal_is_not_addressed_as_brazil_is() {
        let brazilian = [
            "andamento",
            "buscador",
            "buscadores",
            "coleta",
            "coletada",
            "coletado",
            "coletam",
            "coletar",
            "conexão",
            "contato",
            "host",
            "hosts",
            "link",
            "links",
            "registro",
            "senha",
            "site",
            "sites",
            "status",
            "tela",
            "usuário",
            "você",
        ];
        for (key, text) in Locale::Portuguese.texts().all() {
            // Names of filters and of commands are the same for everybody.
            // So are the places of values.
            let mut plain = text.replace("site:", "").replace("`farol status`", "");
            while let (Some(open), Some(close)) = (plain.find('{'), plain.find('}')) {
                plain.replace_range(open..=close.max(open), " ");
            }
            for word in plain.to_lowercase().split(|c: char| !c.is_alphabetic()) {
                assert!(!brazilian.contains(&word), "{key}: {word}: {text}");
            }
        }
    }
}
