//! Exact matches: of the pages that are called just what was asked for, the best comes first.
//!
//! A page is called by its title, or the part of it before the name of the site; where it is the front page of a site or a
//! book, by the name of that; by its address (the host of a home page, the last part of any other path); and by the anchor
//! texts that most links to it have. Each name is indexed as a hash of its letters and digits, so case, accents, spaces and
//! hyphens play no part: `mod_rewrite.html` is called `mod rewrite`. Titles are also known without their function words.

use crate::error::Error;
use crate::matching::{DocPlace, PlannedSegment};
use crate::plan::Plan;
use crate::text::fold::folded;
use crate::text::stop;
use farol_base::CanonicalUrl;
use farol_base::fingerprint::hash64;
use std::collections::HashMap;
use tantivy::schema::IndexRecordOption;
use tantivy::{DocSet, TERMINATED, Term};

/// Kinds of names, as bits, so that a page may be called the same in several ways. The greater number says more: what a
/// page calls itself counts more than what others do.
const TITLE: u8 = 16;
const SITE: u8 = 8;
const ADDRESS: u8 = 4;
const ANCHOR: u8 = 2;
/// Its title or its site's name, but for function words.
const BARE: u8 = 1;

/// Words that a name must have beside function words, where those do not count: `Vitamin A` is not `vitamin`.
const BARE_WORDS_MIN: usize = 2;

/// Bytes of a longer name are not compared: it is a sentence.
const NAME_BYTES_MAX: usize = 120;

/// Anchor texts of a page that are its names; they come with the most frequent first.
const ANCHORS_MAX: usize = 3;

/// Pages of one name that are looked at.
const PAGES_MAX: usize = 1_000;

/// What stands between a page's own title and the name of its site.
const SEPARATORS: &[&str] = &[" - ", " – ", " — ", " | ", " · ", " :: ", " « ", " » ", " • "];

/// Labels below a country's domain that are no names: `co` of `example.co.uk`.
const SECOND_LEVEL: &[&str] = &["ac", "co", "com", "edu", "gob", "gov", "net", "nom", "org"];

/// The hashes of everything that a page is called.
pub(crate) fn of_page(title: &str, url: &CanonicalUrl, anchors: &str) -> Vec<u64> {
    let mut names = Vec::new();
    let mut add = |kind: u8, text: &str| {
        if let Some(hash) = hash_of(kind, &letters(text))
            && !names.contains(&hash)
        {
            names.push(hash);
        }
    };
    let (own, site) = parts(title);
    let is_front = is_front(url);
    // A page that is called `?` or nothing would be called by its site's name alone.
    let whole = Some(title).filter(|_| own.iter().all(|part| !letters(part).is_empty()));
    for part in whole.into_iter().chain(own) {
        add(TITLE, part);
        add(TITLE, without_number(part));
        add(BARE, &bare(without_number(part)));
    }
    if let Some(site) = site.filter(|_| is_front) {
        add(SITE, site);
        add(BARE, &bare(site));
    }
    for part in address_names(url) {
        add(ADDRESS, &part);
    }
    let mut before = "";
    for anchor in
        anchors.lines().filter(|anchor| std::mem::replace(&mut before, anchor) != *anchor).take(ANCHORS_MAX)
    {
        add(ANCHOR, anchor);
        add(ANCHOR, without_number(anchor));
    }
    names
}

/// A title without the number that a book gives it: `8.7. Printers` and `XII) Printers` are called `Printers`.
fn without_number(title: &str) -> &str {
    let title = title.trim();
    let Some((number, rest)) = title.split_once(char::is_whitespace) else { return title };
    let bare = number.trim_end_matches(['.', ')', ':']);
    let counts = |letters: &str| !bare.is_empty() && bare.chars().all(|c| letters.contains(c));
    // A numeral in letters may be a word (`I`, `MIX`), unless it ends like a number.
    let is_number = counts("0123456789.-") || (bare.len() < number.len() && counts("IVXLCDM"));
    if is_number { rest.trim_start() } else { title }
}

/// Pages that are called what was asked for, by kinds of names.
pub(crate) fn find(segments: &[PlannedSegment<'_>], plan: &Plan) -> Result<HashMap<DocPlace, u8>, Error> {
    let mut found = HashMap::new();
    let Some(name) = &plan.name else { return Ok(found) };
    let named = [TITLE, SITE, ADDRESS, ANCHOR].map(|kind| (kind, &name.whole));
    let hashes = named.into_iter().chain([(BARE, &name.bare)]);
    let terms: Vec<(u8, Term)> = hashes
        .filter_map(|(kind, name)| Some((kind, Term::from_field_u64(plan.fields.name, hash_of(kind, name)?))))
        .collect();
    for planned in segments {
        let index = planned.segment.reader.inverted_index(plan.fields.name);
        let index = index.map_err(Error::engine("open a segment"))?;
        for (kind, term) in &terms {
            let postings = index.read_postings(term, IndexRecordOption::Basic);
            let Some(mut postings) = postings.map_err(Error::engine("look a name up"))? else { continue };
            while postings.doc() != TERMINATED && found.len() < PAGES_MAX {
                if planned.filter.allows(postings.doc()) {
                    *found.entry(planned.at(postings.doc())).or_insert(0) |= kind;
                }
                postings.advance();
            }
        }
    }
    Ok(found)
}

/// Letters and digits of a name, in one case and without accents.
pub(crate) fn letters(text: &str) -> String {
    folded(text).chars().filter(|c| c.is_alphanumeric() || matches!(c, '+' | '#')).collect()
}

fn hash_of(kind: u8, letters: &str) -> Option<u64> {
    (letters.len() > 1 && letters.len() <= NAME_BYTES_MAX).then(|| {
        let mut bytes = vec![kind];
        bytes.extend(letters.as_bytes());
        hash64(&bytes)
    })
}

/// A question as a name, as pages may have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Name {
    whole: String,
    /// Without function words; empty where too little is left.
    bare: String,
}

impl Name {
    /// None where there is no letter or digit.
    pub(crate) fn of(text: &str) -> Option<Name> {
        let whole = letters(text);
        (!whole.is_empty()).then(|| Name { whole, bare: letters(&bare(text)) })
    }
}

/// A name without its function words, of whatever language; empty where too little is left.
fn bare(text: &str) -> String {
    let is_letter = |c: char| c.is_alphanumeric() || matches!(c, '+' | '#');
    let words = text.split(|c: char| !is_letter(c)).filter(|word| !word.is_empty());
    let words: Vec<String> =
        words.map(str::to_lowercase).filter(|word| !stop::is_stop_word_anywhere(word)).collect();
    if words.len() < BARE_WORDS_MIN { String::new() } else { words.join(" ") }
}

/// The parts of a title but the last, and the last, which is the site's name: `re` and `Regular expressions`, and
/// `The documentation`, of `re — Regular expressions — The documentation`.
fn parts(title: &str) -> (Vec<&str>, Option<&str>) {
    let mut parts = vec![title];
    for separator in SEPARATORS {
        parts = parts.into_iter().flat_map(|part| part.split(separator)).collect();
    }
    let site = parts.pop().filter(|_| !parts.is_empty());
    (parts, site)
}

/// Whether a page is the first of a folder.
fn is_front(url: &CanonicalUrl) -> bool {
    let last = url.path().rsplit('/').next().unwrap_or_default();
    let stem = last.split('.').next().unwrap_or_default();
    stem.is_empty() || is_index(stem)
}

/// What an address is called: `python` and `python.org` for a home page, `mod_rewrite` for `…/mod_rewrite.html`.
fn address_names(url: &CanonicalUrl) -> Vec<String> {
    let host = url.host();
    let path = url.path().trim_end_matches('/');
    let last = path.rsplit('/').next().unwrap_or_default();
    let stem = last.split('.').next().unwrap_or_default();
    if stem.is_empty() || (path.matches('/').count() == 1 && is_index(stem)) {
        let name = host.name().strip_prefix("www.").unwrap_or(host.name());
        let mut labels: Vec<&str> = name.split('.').collect();
        let mut names = vec![name.to_string()];
        if labels.len() > 1 {
            let country = labels.pop().is_some_and(|label| label.len() == 2);
            if country && labels.len() > 1 && labels.last().is_some_and(|label| SECOND_LEVEL.contains(label))
            {
                labels.pop();
            }
            names.push(labels.join("."));
        }
        return names;
    }
    // Folders are called by their own names; numbers are no names.
    let folder = path.rsplit('/').nth(1).unwrap_or_default();
    let own = if is_index(stem) { folder } else { stem };
    if own.chars().filter(|c| c.is_alphabetic()).count() > 1 { vec![own.to_string()] } else { Vec::new() }
}

fn is_index(stem: &str) -> bool {
    ["index", "default", "home"].contains(&stem)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page};
    use farol_base::Document;

    #[test]
    fn a_chapters_number_is_no_part_of_its_name() {
        for (title, want) in [
            ("8.7. Printers", "Printers"),
            ("XXXII. Olhos de ressaca", "Olhos de ressaca"),
            ("3) Why", "Why"),
            ("I am", "I am"),
            ("MIX tapes", "MIX tapes"),
            ("2001", "2001"),
        ] {
            assert_eq!(without_number(title), want);
        }
    }

    #[test]
    fn addresses_have_names() {
        let check = |url: &str, want: &[&str]| {
            assert_eq!(address_names(&CanonicalUrl::parse(url).unwrap()), want, "{url}");
        };
        check("https://www.python.org/", &["python.org", "python"]);
        check("https://docs.python.org/index.html", &["docs.python.org", "docs.python"]);
        check("https://www.example.co.uk/", &["example.co.uk", "example"]);
        check("https://a.org/docs/mod_rewrite.html", &["mod_rewrite"]);
        check("https://a.org/docs/install/", &["install"]);
        check("https://a.org/docs/install/index.html", &["install"]);
        check("https://a.org/2024/11/", &[]);
        check("http://localhost/", &["localhost"]);
    }

    #[test]
    fn titles_have_parts_before_the_name_of_the_site() {
        let check = |title: &str, own: &[&str], site| assert_eq!(parts(title), (own.to_vec(), site));
        check("re — Regular expressions — Docs", &["re", "Regular expressions"], Some("Docs"));
        check("VirtualHost - Apache", &["VirtualHost"], Some("Apache"));
        check("Write-ahead logging", &[], None);
    }

    #[test]
    fn function_words_are_no_part_of_a_longer_name() {
        let much = "o guia de conceitos do programa, com conceitos e guia";
        let shard = TestShard::new(&[
            page("http://a/about", "Sobre o guia", much),
            page("http://a/guide", "Tutorial e guia de conceitos do Programa", "por onde começar"),
            page("http://b/a", "Vitamin A", "what it does"),
            page("http://b/vitamins", "On vitamins", "vitamin vitamin vitamin"),
        ]);
        assert_eq!(shard.paths("tutorial guia conceitos programa")[0], "/guide");
        assert_eq!(shard.paths("o tutorial e o guia de conceitos programa")[0], "/guide");
        assert_eq!(shard.paths("vitamin")[0], "/vitamins", "one word is no name without the other");
    }

    #[test]
    fn a_front_page_is_called_by_its_books_name() {
        let much = "the reference of the language, a reference for who knows the language";
        let shard = TestShard::new(&[
            page("http://a/reference/unions.html", "Unions - The Language Reference", much),
            page("http://a/reference/index.html", "Introduction - The Language Reference", "welcome"),
            page("http://a/reference/question.html", "? - The Language Reference", much),
        ]);
        assert_eq!(shard.paths("the language reference")[0], "/reference/index.html");
        assert_eq!(shard.paths("language reference")[0], "/reference/index.html");
    }

    #[test]
    fn a_page_that_is_called_what_was_asked_for_comes_first() {
        let much = "rewrite engine rewrite engine rewrite engine of the server";
        let shard = TestShard::new(&[
            page("http://a/guide", "Guide to the rewrite engine", much),
            page("http://b/title", "Rewrite Engine | The Server", "what it does"),
            page("http://c/docs/rewrite_engine.html", "Documentation", "engine to rewrite"),
            Document {
                anchors: "the rewrite engine\nRewrite-Engine\nhere".into(),
                ..page("http://d/anchor", "Documentation", "addresses are changed")
            },
        ]);
        let found = shard.paths("rewrite engine");
        assert_eq!((found[0].as_str(), found.len()), ("/title", 4));
        assert_eq!(shard.paths("RewriteEngine")[0], "/title");
        assert_eq!(shard.paths("rewrite engine -what")[0], "/docs/rewrite_engine.html"); // Filters stay in force.
    }

    #[test]
    fn a_home_page_is_found_by_its_host() {
        let shard = TestShard::new(&[
            page("http://a.example/about", "About lanterns", "lanterns lanterns of the lanterns site"),
            page("http://www.lanterns.example/", "Welcome", "to our house"),
        ]);
        assert_eq!(shard.paths("lanterns")[0], "/");
        assert_eq!(shard.paths("lanterns.example")[0], "/");
    }
}
