//! Whether a page is in a view, as far as its facts are known: Kleene's logic of three values.
//!
//! A fact that is not known *yet* leaves a condition open; `lang:und` and `dated:none` are facts like others.

use super::atom::{Atom, number, page_key, range};
use super::codes::Code;
use super::context::Signature;
use super::geo::Place;
use super::names::Key;
use super::text::folded_words;
use super::{Answer, Expr, View};
use farol_base::{CanonicalUrl, Language, Timestamp};
use std::net::IpAddr;

/// What is known of a page; `None` is not known yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    name: Option<Key>,
    address: Option<u128>,
    country: Option<Code>,
    place: Option<Place>,
    language: Option<Code>,
    media: Option<Key>,
    dated: Option<Option<u64>>,
    title: Option<Vec<String>>,
    hops: Vec<(Key, Option<u32>)>,
    signature: Option<Signature>,
    /// From references that are not listed no path leads here.
    hops_are_whole: bool,
}

impl Facts {
    /// What a URL says by itself.
    pub fn of(url: &CanonicalUrl) -> Facts {
        Facts { name: Some(page_key(url)), ..Facts::default() }
    }

    /// The server's address.
    pub fn address(mut self, address: IpAddr) -> Facts {
        self.address = Some(number(address));
        self
    }

    /// The country that the server stands in, in two small letters; none where the table was asked and has none.
    pub fn country(mut self, country: Option<[u8; 2]>) -> Facts {
        self.country = Some(country);
        self
    }

    /// Where the server stands.
    pub fn place(mut self, place: Place) -> Facts {
        self.place = Some(place);
        self
    }

    /// The language that was recognised, if any was.
    pub fn language(mut self, language: Option<Language>) -> Facts {
        let code = language.and_then(|language| language.code().as_bytes().try_into().ok());
        self.language = Some(code);
        self
    }

    /// The media type as the server says it, parameters or not; what is no media type stays unknown.
    pub fn media_type(mut self, media: &str) -> Facts {
        let media = media.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.media = media.split_once('/').map(|(major, minor)| Key::of([major, minor]));
        self
    }

    /// When the page says it was last changed, if it does.
    pub fn dated(mut self, dated: Option<Timestamp>) -> Facts {
        self.dated = Some(dated.map(Timestamp::as_millis));
        self
    }

    /// Its title.
    pub fn title(mut self, title: &str) -> Facts {
        self.title = Some(folded_words(title));
        self
    }

    /// The shortest path of links from a reference; none where none leads here. To itself it is always 0.
    pub fn hops(mut self, reference: &CanonicalUrl, hops: Option<u32>) -> Facts {
        self.hops.push((page_key(reference), hops));
        self
    }

    pub(crate) fn name(&self) -> Option<&Key> {
        self.name.as_ref()
    }

    pub(crate) fn address_number(&self) -> Option<u128> {
        self.address
    }

    /// What it is about.
    pub fn signature(mut self, signature: Signature) -> Facts {
        self.signature = Some(signature);
        self
    }
}

/// A possible page that proves an answer, with all its facts.
#[derive(Clone, Debug, PartialEq)]
pub struct Witness {
    /// Its name, as `page:` would say it.
    pub page: String,
    facts: Facts,
    /// The facts that matter, in words.
    told: Vec<String>,
}

impl Witness {
    /// A page of which nothing but the name matters: without language, date and place in the table of countries.
    pub(crate) fn named(key: Key) -> Witness {
        Witness {
            page: super::atom::written_page(&key),
            facts: Facts {
                name: Some(key),
                address: Some(number(IpAddr::from([192, 0, 2, 1]))),
                country: Some(None),
                place: Some(Place { lat: 0, lon: 0 }),
                language: Some(None),
                media: Some(Key::of(["text", "html"])),
                dated: Some(None),
                title: Some(Vec::new()),
                hops: Vec::new(),
                signature: Some(Signature::default()),
                hops_are_whole: true,
            },
            told: Vec::new(),
        }
    }

    /// Its facts.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    pub(crate) fn set_address(&mut self, address: u128) {
        let shown = IpAddr::V6(std::net::Ipv6Addr::from(address)).to_canonical();
        self.told.push(format!("address {shown}"));
        self.facts.address = Some(address);
    }

    pub(crate) fn set_country(&mut self, code: Code) {
        self.told.push(format!("country {}", letters(code)));
        self.facts.country = Some(code);
    }

    pub(crate) fn set_language(&mut self, code: Code) {
        self.told.push(format!("language {}", letters(code)));
        self.facts.language = Some(code);
    }

    pub(crate) fn set_place(&mut self, place: Place) {
        self.told.push(format!("at {},{}", f64::from(place.lat) / 1e4, f64::from(place.lon) / 1e4));
        self.facts.place = Some(place);
    }

    pub(crate) fn set_type(&mut self, key: Key) {
        self.told.push(format!("type {}", key.tokens().collect::<Vec<_>>().join("/")));
        self.facts.media = Some(key);
    }

    pub(crate) fn set_dated(&mut self, dated: Option<u64>) {
        self.told.push(dated.map_or("undated".to_string(), |millis| {
            let (year, month, day) = Timestamp::from_millis(millis).date();
            format!("dated {year:04}-{month:02}-{day:02}")
        }));
        self.facts.dated = Some(dated);
    }

    pub(crate) fn set_title(&mut self, words: Vec<String>) {
        self.told.push(format!("title {:?}", words.join(" ")));
        self.facts.title = Some(words);
    }

    pub(crate) fn set_hops(&mut self, reference: Key, hops: Option<u32>) {
        if self.facts.name.as_ref() != Some(&reference) {
            let way = hops.map_or("no path of links".to_string(), |hops| format!("{hops} links"));
            self.told.push(format!("{way} from {}", super::atom::written_page(&reference)));
        }
        self.facts.hops.push((reference, hops));
    }

    pub(crate) fn set_signature(&mut self, signature: Signature) {
        self.told.push(format!("about {} stems", signature.stems().count()));
        self.facts.signature = Some(signature);
    }
}

fn letters(code: Code) -> String {
    code.map_or("unknown".to_string(), |code| String::from_utf8_lossy(&code).into())
}

impl std::fmt::Display for Witness {
    /// Its name and the facts that matter: `http://x.br/ (language es)`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.page)?;
        if self.told.is_empty() { Ok(()) } else { write!(f, " ({})", self.told.join(", ")) }
    }
}

impl View {
    /// Whether the page is in the view, as far as its facts tell.
    ///
    /// ```
    /// use farol_base::CanonicalUrl;
    /// use farol_federation::{Answer, Facts, View};
    /// let view = View::parse(".br and lang:pt").unwrap();
    /// let url = CanonicalUrl::parse("http://x.br/").unwrap();
    /// assert_eq!(view.has(&Facts::of(&url)), Answer::Unknown);
    /// assert_eq!(view.has(&Facts::of(&CanonicalUrl::parse("http://x.com/").unwrap())), Answer::No);
    /// ```
    pub fn has(&self, page: &Facts) -> Answer {
        has(self.expr(), page)
    }

    /// The condition for which a page is not in the view, as text; `None` where it may be in it.
    pub fn failing(&self, page: &Facts) -> Option<String> {
        if self.has(page) != Answer::No {
            return None;
        }
        let mut expr = self.expr();
        // Of several that must hold the first that does not is the reason.
        while let Expr::And(parts) = expr {
            expr = parts.iter().find(|part| has(part, page) == Answer::No)?;
        }
        Some(super::write::text_of(expr))
    }
}

fn has(expr: &Expr, page: &Facts) -> Answer {
    match expr {
        Expr::All => Answer::Yes,
        Expr::None => Answer::No,
        Expr::Is(atom, true) => holds(atom, page),
        Expr::Is(atom, false) => holds(atom, page).not(),
        Expr::And(parts) => {
            let mut answer = Answer::Yes;
            for part in parts.iter() {
                answer = answer.and(has(part, page));
                if answer == Answer::No {
                    break;
                }
            }
            answer
        }
        Expr::Or(parts) => {
            let mut answer = Answer::No;
            for part in parts.iter() {
                answer = answer.or(has(part, page));
                if answer == Answer::Yes {
                    break;
                }
            }
            answer
        }
    }
}

pub(crate) fn holds(atom: &Atom, page: &Facts) -> Answer {
    fn known<T>(fact: &Option<T>, test: impl FnOnce(&T) -> bool) -> Answer {
        fact.as_ref().map_or(Answer::Unknown, |fact| Answer::of(test(fact)))
    }
    match atom {
        Atom::Name(key) => known(&page.name, |name| key.covers(name)),
        Atom::Block { first, bits } => known(&page.address, |address| range(*first, *bits).has(*address)),
        Atom::Country(code) => known(&page.country, |country| country == code),
        Atom::Within(disc) => known(&page.place, |place| disc.has(*place)),
        Atom::Language(code) => known(&page.language, |language| language == code),
        Atom::Type(key) => known(&page.media, |media| key.covers(media)),
        Atom::Undated => known(&page.dated, Option::is_none),
        Atom::Dated(from, before) => known(&page.dated, |dated| {
            dated.is_some_and(|at| at >= *from && before.is_none_or(|before| at < before))
        }),
        Atom::Title(word) => known(&page.title, |words| words.contains(word)),
        Atom::Linked(reference, _) if page.name.as_ref() == Some(reference) => Answer::Yes,
        Atom::Linked(reference, most) => {
            let hops = page.hops.iter().find(|(key, _)| key == reference).map(|(_, hops)| *hops);
            let hops = hops.or(page.hops_are_whole.then_some(None));
            known(&hops, |hops| hops.is_some_and(|hops| hops <= *most))
        }
        Atom::Like(like) => match (like.readable(), &page.signature) {
            (Some(reference), Some(signature)) => Answer::of(reference.distance(signature) <= like.distance),
            _ => Answer::Unknown,
        },
    }
}
