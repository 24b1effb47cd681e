//! Pages to and from the form `radix-1`: words with their weights and places, and a text put together from them.
//!
//! Places run through the words of the host's name (without `www` and the suffix), the title, and the text. A word counts
//! 5 in the host's name, 10 in the title and 1 in the text; `#suffix#` terms count 10. A word with diacritics stands twice,
//! with and without \[derived from the two pages in Fernandes01, appendix A\].

use super::xml::{POSITIONS_MAX, RadixPacket, RadixPage, RadixWord, WORDS_MAX};
use super::{Body, Gone, GoneReason, PageEntry, Texts};
use crate::agreement::EngineId;
use crate::view::text::folded_words;
use farol_base::fingerprint::hash64;
use farol_base::{CanonicalUrl, ContentHash, Host, Link, Timestamp};
use std::collections::HashMap;

/// Bytes of opening text that are written.
const PARAGRAPH_BYTES_MAX: usize = 300;
const IN_HOST: u32 = 5;
const IN_TITLE: u32 = 10;
const IN_TEXT: u32 = 1;
const SUFFIX: u32 = 10;

/// What of a `radix-1` packet is for us.
#[derive(Clone, Debug, PartialEq)]
pub struct FromRadix {
    /// Its pages and what is gone.
    pub body: Body,
    /// Pages that were left out because their address is none.
    pub unreadable: usize,
}

impl RadixPacket {
    /// The packet as pages from `origin`. What has no date was fetched, or went, `now`.
    pub fn to_body(&self, origin: EngineId, name: &str, now: Timestamp) -> FromRadix {
        let pages: Vec<PageEntry> = self.pages.iter().filter_map(|page| page.to_entry(origin, now)).collect();
        let urls = self.urls.iter().filter_map(|url| CanonicalUrl::parse(url).ok());
        let gone: Vec<Gone> = urls.map(|url| Gone { url, at: now, reason: GoneReason::Gone }).collect();
        let unreadable = self.pages.len() - pages.len() + self.urls.len() - gone.len();
        let body = Body { engines: vec![(origin, name.to_string())], pages, gone, ..Body::default() };
        FromRadix { body, unreadable }
    }

    /// Pages for strangers.
    pub fn of(webview: &str, body: &Body) -> RadixPacket {
        RadixPacket {
            webview: webview.to_string(),
            pages: body.pages.iter().map(RadixPage::of).collect(),
            urls: body.gone.iter().map(|gone| gone.url.as_str().to_string()).collect(),
        }
    }
}

impl RadixPage {
    fn to_entry(&self, origin: EngineId, now: Timestamp) -> Option<PageEntry> {
        let url = CanonicalUrl::parse(&self.address).ok()?;
        let body = self.text(&url);
        let links = self.links.iter().filter_map(|link| CanonicalUrl::parse(link).ok());
        let links = links.map(|url| Link { url, anchor: String::new(), nofollow: false }).collect();
        let whole = [self.title.as_str(), "\n", &body].concat();
        Some(PageEntry {
            origin,
            via: Vec::new(),
            fetched: self.visited.map_or(now, Timestamp::from_millis),
            dated: self.modified.map(Timestamp::from_millis),
            language: None,
            flags: Default::default(),
            hops: 0,
            size: self.size,
            content_hash: ContentHash(u128::from(hash64(whole.as_bytes()))),
            simhash: 0,
            file_type: "html".to_string(),
            media_type: None,
            address: None,
            texts: Texts {
                title: self.title.clone(),
                description: self.paragraph.clone(),
                body,
                ..Texts::default()
            },
            links,
            url,
        })
    }

    /// The words in order, without those of host and title at the beginning.
    fn text(&self, url: &CanonicalUrl) -> String {
        let mut at: HashMap<u32, &str> = HashMap::new();
        for word in self.words.iter().filter(|word| !word.name.starts_with('#')) {
            for place in &word.positions {
                let there = at.entry(*place).or_insert(&word.name);
                // Of a word with diacritics and the same without, the first is what the page says.
                if there.is_ascii() && !word.name.is_ascii() {
                    *there = &word.name;
                }
            }
        }
        let mut places: Vec<(u32, &str)> = at.into_iter().collect();
        places.sort_unstable();
        let mut words = places.iter().map(|(_, word)| *word).peekable();
        let title: Vec<String> = words_of(&self.title).collect();
        for known in host_words(&url.host()).into_iter().chain(title) {
            words.next_if(|word| word.to_lowercase() == known);
        }
        words.collect::<Vec<_>>().join(" ")
    }

    /// A page for strangers. Of a page that has words only, its words.
    pub fn of(page: &PageEntry) -> RadixPage {
        let texts = &page.texts;
        let mut counts: HashMap<String, RadixWord> = HashMap::new();
        let mut place = 0;
        let mut add = |word: &str, weight: u32, place: u32| {
            let entry = counts.entry(word.to_string()).or_default();
            entry.occurrency = entry.occurrency.saturating_add(weight);
            entry.positions.push(place);
        };
        let host = page.url.host();
        let rest =
            [&texts.headings, &texts.body, &texts.rest].map(|text| words_of(text)).into_iter().flatten();
        let all = (host_words(&host).into_iter().map(|word| (word, IN_HOST)))
            .chain(words_of(&texts.title).map(|word| (word, IN_TITLE)))
            .chain(rest.map(|word| (word, IN_TEXT)));
        // With their spellings without diacritics no more than is read.
        for (word, weight) in all.take(POSITIONS_MAX / 2) {
            place += 1;
            add(&word, weight, place);
            if !word.is_ascii() {
                let plain = folded_words(&word).concat();
                if plain != word && !plain.is_empty() {
                    add(&plain, weight, place);
                }
            }
        }
        for suffix in suffixes(&host) {
            counts
                .insert(suffix, RadixWord { occurrency: SUFFIX, positions: vec![1], ..RadixWord::default() });
        }
        let mut words: Vec<RadixWord> =
            counts.into_iter().map(|(name, word)| RadixWord { name, ..word }).collect();
        words.sort_by(|a, b| b.occurrency.cmp(&a.occurrency).then_with(|| a.name.cmp(&b.name)));
        words.truncate(WORDS_MAX);
        let opening =
            [&texts.lead, &texts.description, &texts.body].into_iter().find(|text| !text.is_empty());
        let opening = opening.map_or("", String::as_str);
        let opening = &opening[..opening.floor_char_boundary(PARAGRAPH_BYTES_MAX)];
        RadixPage {
            address: page.url.as_str().to_string(),
            visited: Some(page.fetched.as_millis()),
            modified: page.dated.map(Timestamp::as_millis),
            size: page.size,
            title: texts.title.clone(),
            // What is not to be shown does not travel where nobody would know.
            paragraph: if page.flags.nosnippet { String::new() } else { opening.to_string() },
            words,
            links: page.links.iter().map(|link| link.url.as_str().to_string()).collect(),
        }
    }
}

/// Words in lower case.
fn words_of(text: &str) -> impl Iterator<Item = String> + '_ {
    let words = text.split(|c: char| !c.is_alphanumeric());
    words.filter(|word| !word.is_empty()).map(str::to_lowercase)
}

/// Labels of a host's name that say something: neither `www` nor the suffix.
fn host_words(host: &Host) -> Vec<String> {
    let name = host.name();
    let registrable = host.registrable_domain();
    let suffix = registrable.split_once('.').map_or("", |(_, suffix)| suffix);
    let said = name.strip_suffix(suffix).unwrap_or(name);
    said.split('.').filter(|label| !label.is_empty() && *label != "www").map(str::to_lowercase).collect()
}

/// `#br#`, `#ufpe.br#`, …, the whole name.
fn suffixes(host: &Host) -> impl Iterator<Item = String> + '_ {
    let name = host.name();
    let parents = name.rmatch_indices('.').map(move |(at, _)| &name[at + 1..]);
    parents.chain([name]).map(|suffix| format!("#{suffix}#"))
}
