//! How a page of the [`Atlas`](super::atlas::Atlas) is spelled: a formula from host and label to a URL's text.
//!
//! A host has one style: news sites put the date into the path, shops the article's number, old ones everything into a
//! query. Folders are few words per level, shared by many pages; file names are slugs with the label, which keeps pages
//! apart.
//!
//! INVARIANT: two places never have one text. A host's name holds its number, through a bijection, in four syllables;
//! within a host's one style the label stands between marks that no word has in it.
//! All texts are canonical as they are: [`CanonicalUrl`] only confirms it.

use super::atlas::{Place, Shuffle};
use farol_base::CanonicalUrl;
use farol_base::random::mix;
use farol_base::url::BaseUrl;

/// Syllables per host name, six bits each: 16.7 million hosts.
const SYLLABLES: u32 = 4;
const HOSTS_MAX: u64 = 1 << (6 * SYLLABLES);
const CONSONANTS: &[u8; 16] = b"bcdfgjklmnprstvz";
const VOWELS: &[u8; 4] = b"aeio";

const DOMAINS: &[&str] = &[
    ".com", ".com", ".com", ".com", ".com", ".com", ".org", ".org", ".net", ".de", ".co.uk", ".com.br",
    ".fr", ".pt", ".info", ".edu",
];

const WORDS: &str = "\
    about account album archive article artist author baby beach blog book brand business camera career \
    catalog category center chapter city classic club code collection college comment community company \
    contact content country course daily data default design detail digital doc download edition energy \
    english entry event family feature film finance food forum free gallery game garden general global green \
    group guide health help history home hotel house image index item journal kids language law library life \
    list local magazine main market media member mobile model modern music news node office online order \
    page paper park people photo player policy post press price product profile program project public \
    question radio read report research review road school science section series service shop show site \
    social software special sport story student study summer support system team tech thread topic travel \
    user video water weather weekly wiki winter woman world year";

/// Spells places as URLs.
#[derive(Debug)]
pub struct Speller {
    seed: u64,
    names: Shuffle,
    words: Vec<&'static str>,
    base: BaseUrl,
    text: String,
}

/// How a host writes its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Style {
    /// `/shop/garden/green-house-1234.html`
    Slug,
    /// `/wiki/1234`
    Number,
    /// `/2009/03/summer-music-1234/`
    Dated,
    /// `/thread/1234/free-radio`
    NumberFirst,
    /// `/forum/topic.php?id=1234&cat=sport`
    Query,
}

impl Speller {
    pub fn new(seed: u64) -> Speller {
        Speller {
            seed: mix(seed ^ 0x5EE1),
            names: Shuffle::new(HOSTS_MAX),
            words: WORDS.split_whitespace().collect(),
            base: CanonicalUrl::parse("http://base/").expect("a constant URL is valid").to_base(),
            text: String::new(),
        }
    }

    /// The URL of a page.
    ///
    /// # Panics
    /// Beyond 16.7 million hosts.
    pub fn url(&mut self, place: Place) -> CanonicalUrl {
        self.text.clear();
        self.write_host(place.host);
        self.write_path(place);
        // An absolute reference: the base has no part in it, but reading plain ones that way is quick.
        self.base.join(&self.text).expect("a spelled URL is a URL")
    }

    /// Writes scheme and host name.
    fn write_host(&mut self, number: u64) {
        assert!(number < HOSTS_MAX, "names are made for 16.7 million hosts");
        let (host, text) = (mix(self.seed ^ mix(number)), &mut self.text);
        text.push_str(if host >> 8 & 7 < 5 { "https://" } else { "http://" });
        text.push_str(match host >> 12 & 15 {
            0..=7 => "www.",
            8 => "blog.",
            9 => "en.",
            10 => "shop.",
            _ => "",
        });
        let mut name = self.names.apply(number, self.seed);
        for _ in 0..SYLLABLES {
            text.push(char::from(CONSONANTS[(name & 15) as usize]));
            text.push(char::from(VOWELS[(name >> 4 & 3) as usize]));
            name >>= 6;
        }
        text.push_str(DOMAINS[(host >> 16) as usize % DOMAINS.len()]);
    }

    fn write_path(&mut self, place: Place) {
        let host = mix(self.seed ^ mix(place.host));
        let page = mix(host ^ mix(place.label));
        let style = style_of(host);
        let (path, mut bits) = (&mut self.text, page);
        let mut draw = |count: u64| {
            let drawn = bits % count;
            bits /= count;
            drawn
        };
        // Folders: 4 to 11 on the first level, 8 below each of them, some on the second level have a third.
        let first = draw(4 + host % 8);
        let second = draw(8);
        let words = &self.words[..];
        let word =
            |path: &mut String, key: u64| path.push_str(words[(mix(key) % words.len() as u64) as usize]);
        let folder = mix(host ^ first);
        match style {
            Style::Dated => {
                let (year, month) = (2000 + first, 1 + draw(12));
                path.push('/');
                push_number(path, year, 10);
                path.push_str(if month < 10 { "/0" } else { "/" });
                push_number(path, month, 10);
            }
            _ => {
                path.push('/');
                word(path, folder);
                let deep = if style == Style::Query { 3 } else { 6 };
                if style != Style::Number && draw(8) < deep {
                    path.push('/');
                    word(path, folder ^ (second + 1) << 8);
                }
            }
        }
        path.push('/');
        let slugs = 2 + draw(4);
        let slug = |path: &mut String| {
            for i in 0..slugs {
                if i > 0 {
                    path.push('-');
                }
                word(path, page ^ i);
            }
        };
        let base = if host & 1 << 20 == 0 { 10 } else { 36 };
        match style {
            Style::Slug => {
                slug(path);
                path.push('-');
                push_number(path, place.label, base);
                path.push_str(if host & 1 << 21 == 0 { ".html" } else { "" });
            }
            Style::Number => push_number(path, place.label, base),
            Style::Dated => {
                slug(path);
                path.push('-');
                push_number(path, place.label, base);
                path.push('/');
            }
            Style::NumberFirst => {
                push_number(path, place.label, base);
                path.push('/');
                slug(path);
            }
            Style::Query => {
                word(path, host ^ 5);
                path.push_str(".php?id=");
                push_number(path, place.label, 10);
                path.push_str("&cat=");
                word(path, host ^ 7 ^ draw(16));
                if draw(2) == 0 {
                    path.push_str("&view=");
                    word(path, host ^ 11 ^ draw(4));
                }
            }
        }
    }
}

fn style_of(host: u64) -> Style {
    match host >> 40 & 31 {
        0..=13 => Style::Slug,
        14..=16 => Style::Number,
        17..=22 => Style::Dated,
        23..=27 => Style::NumberFirst,
        _ => Style::Query,
    }
}

fn push_number(text: &mut String, mut number: u64, base: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        digits[at] = b"0123456789abcdefghijklmnopqrstuvwxyz"[(number % base) as usize];
        number /= base;
        if number == 0 {
            break;
        }
    }
    text.extend(digits[at..].iter().map(|digit| char::from(*digit)));
}

#[cfg(test)]
mod tests {
    use super::super::atlas::Atlas;
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn texts_are_distinct_canonical_and_of_the_usual_size() {
        let (atlas, mut speller) = (Atlas::new(3, 20_000), Speller::new(3));
        let (mut texts, mut bytes, mut queries) = (HashSet::new(), 0, 0);
        for number in 0..200_000 {
            let url = speller.url(atlas.place(number));
            bytes += url.as_str().len();
            queries += usize::from(url.query().is_some());
            assert_eq!(CanonicalUrl::parse(url.as_str()).as_ref(), Ok(&url));
            assert!(texts.insert(url), "{number} is a double");
        }
        let mean = bytes as f64 / 200_000.0;
        let queries = queries as f64 / 200_000.0;
        // A list of real URLs of many origins has 61 bytes and 10 % queries; crawls see more of the deep pages.
        assert!((58.0..70.0).contains(&mean), "{mean}");
        assert!((0.10..0.20).contains(&queries), "{queries}");
    }
}
