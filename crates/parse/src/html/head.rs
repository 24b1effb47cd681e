//! What a page says about itself: title, description, language, robots rules, canonical address, feeds, dates.

use super::dates::{Dates, Source};
use super::directives::Directives;
use super::entities::{self, Place};
use super::links::Links;
use super::scanner::Scanner;
use crate::text::whitespace;
use farol_base::{CanonicalUrl, Language};
use std::borrow::Cow;

/// Bytes of a title that are kept.
pub const TITLE_BYTES_MAX: usize = 1000;
/// Bytes of a description that are kept.
pub const DESCRIPTION_BYTES_MAX: usize = 2000;
/// Feeds of one page that are kept.
pub const FEEDS_MAX: usize = 20;
/// Longest attribute that is read here.
const VALUE_BYTES_MAX: usize = 16 << 10;

/// What was read so far.
#[derive(Debug, Default)]
pub struct Head {
    pub title: String,
    og_title: String,
    pub description: String,
    og_description: String,
    pub language: Option<Language>,
    pub directives: Directives,
    pub canonical: Option<CanonicalUrl>,
    pub feeds: Vec<CanonicalUrl>,
    pub refresh: Option<CanonicalUrl>,
    pub dates: Dates,
    /// `<body>` was seen: a canonical address after it is not the author's.
    pub body_started: bool,
}

impl Head {
    /// Starts a page with the rules of its headers.
    pub fn new(directives: Directives) -> Head {
        Head { directives, ..Head::default() }
    }

    /// Takes in the content of `<title>`; the first that says anything counts.
    pub fn title(&mut self, raw: &str) {
        if self.title.is_empty() {
            let raw = whitespace::cut(raw, VALUE_BYTES_MAX);
            self.title = whitespace::line(&entities::decode(raw, Place::Text), TITLE_BYTES_MAX);
        }
    }

    /// Takes in `<html lang>` (or `xml:lang`).
    pub fn html(&mut self, scanner: &Scanner<'_>) {
        let tag = scanner.attr("lang").or_else(|| scanner.attr("xml:lang"));
        self.language = self.language.or(tag.and_then(Language::parse));
    }

    /// Takes in a `<meta>`. `agent` is our product token.
    pub fn meta(&mut self, scanner: &Scanner<'_>, links: &Links<'_>, agent: &str) {
        let Some(content) = value(scanner, "content") else { return };
        if let Some(equiv) = scanner.attr("http-equiv") {
            match equiv.trim() {
                e if e.eq_ignore_ascii_case("refresh") => self.refresh(&content, links),
                e if e.eq_ignore_ascii_case("content-language") && !content.contains(',') => {
                    self.language = self.language.or(Language::parse(&content));
                }
                _ => {}
            }
        }
        for attr in ["name", "property", "itemprop"] {
            if let Some(name) = scanner.attr(attr) {
                self.statement(name.trim(), &content, agent);
            }
        }
    }

    fn statement(&mut self, name: &str, content: &str, agent: &str) {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        if is("robots") || is(agent) {
            self.directives.read_meta(content);
        } else if is("description") && self.description.is_empty() {
            self.description = whitespace::line(content, DESCRIPTION_BYTES_MAX);
        } else if (is("og:description") || is("twitter:description")) && self.og_description.is_empty() {
            self.og_description = whitespace::line(content, DESCRIPTION_BYTES_MAX);
        } else if (is("og:title") || is("twitter:title")) && self.og_title.is_empty() {
            self.og_title = whitespace::line(content, TITLE_BYTES_MAX);
        } else if (is("language") || is("dc.language") || is("og:locale")) && self.language.is_none() {
            self.language = Language::parse(content);
        } else {
            self.dates.add_meta(name, content);
        }
    }

    /// Reads `5; url=/there`, in its many spellings.
    fn refresh(&mut self, content: &str, links: &Links<'_>) {
        let delay_end = content.find(|c: char| !c.is_ascii_digit() && c != '.' && !c.is_whitespace());
        let rest = content[delay_end.unwrap_or(content.len())..].trim_start_matches([';', ',']).trim_start();
        let rest = match rest.get(..3) {
            Some(url) if url.eq_ignore_ascii_case("url") => match rest[3..].trim_start().strip_prefix('=') {
                Some(target) => target.trim_start(),
                None => rest,
            },
            _ => rest,
        };
        let target = match rest.chars().next() {
            Some(quote @ ('"' | '\'')) => rest[1..].split(quote).next().unwrap_or(""),
            _ => rest,
        };
        if self.refresh.is_none() && !target.is_empty() {
            self.refresh = links.resolve_decoded(target).filter(|url| url != links.page());
        }
    }

    /// Takes in a `<link>`: canonical address, feeds, pages next to this one.
    pub fn link(&mut self, scanner: &Scanner<'_>, links: &mut Links<'_>) {
        let (Some(href), Some(rel)) = (scanner.attr("href"), scanner.attr("rel")) else { return };
        let has = |word: &str| has_word(rel, word);
        if has("canonical") && self.canonical.is_none() && !self.body_started {
            self.canonical = links.resolve(href);
        }
        if has("alternate") && !has("stylesheet") {
            let media = scanner.attr("type").unwrap_or("").trim();
            let is_feed = ["application/rss+xml", "application/atom+xml", "application/rdf+xml"]
                .iter()
                .any(|feed| media.eq_ignore_ascii_case(feed));
            if is_feed {
                if self.feeds.len() < FEEDS_MAX
                    && let Some(feed) = links.resolve(href)
                    && !self.feeds.contains(&feed)
                {
                    self.feeds.push(feed);
                }
            } else if scanner.attr("hreflang").is_some()
                || media.is_empty()
                || media.eq_ignore_ascii_case("text/html")
            {
                links.add(href, is_nofollow(rel));
            }
        } else if has("next") || has("prev") || has("previous") {
            links.add(href, is_nofollow(rel));
        }
    }

    /// Takes in a `<time datetime>`.
    pub fn time(&mut self, scanner: &Scanner<'_>) {
        let Some(date) = scanner.attr("datetime") else { return };
        let source = match scanner.attr("itemprop") {
            Some("dateModified") => Source::Modified,
            Some("datePublished") => Source::Published,
            _ if scanner.attr("pubdate").is_some() => Source::Published,
            _ => Source::Mentioned,
        };
        self.dates.add(source, date);
    }

    /// Falls back on what social networks are told.
    pub fn finish(&mut self) {
        if self.title.is_empty() {
            self.title = std::mem::take(&mut self.og_title);
        }
        if self.description.is_empty() {
            self.description = std::mem::take(&mut self.og_description);
        }
    }
}

/// Whether the author asks not to count a link with this `rel`.
pub fn is_nofollow(rel: &str) -> bool {
    ["nofollow", "ugc", "sponsored"].iter().any(|word| has_word(rel, word))
}

fn has_word(rel: &str, word: &str) -> bool {
    rel.split([' ', '\t', '\n', '\r', '\x0C', ',']).any(|part| part.eq_ignore_ascii_case(word))
}

fn value<'a>(scanner: &Scanner<'a>, name: &str) -> Option<Cow<'a, str>> {
    let raw = scanner.attr(name)?;
    Some(entities::decode(whitespace::cut(raw, VALUE_BYTES_MAX), Place::Attribute))
}
