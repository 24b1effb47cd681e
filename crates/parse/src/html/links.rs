//! Collects the links of a page: each address once, with the first text that a reader sees for it.
//!
//! `a` and `area`, `iframe` and `frame`, and `<link>` where it leads to another page (`next`, `prev`,
//! `alternate` in another language). Forms are not links. Only http and https count; links to the page
//! itself (`#top`) do not.

use super::entities::{self, Place};
use crate::text::whitespace;
use farol_base::fingerprint::hash64;
use farol_base::url::BaseUrl;
use farol_base::{CanonicalUrl, Link};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Links of one page that are kept. 10,000 × (a URL of 100 bytes + an anchor of 30) ≈ 1.3 MB; at the very
/// most 10,000 × (2,048 + 200) ≈ 22 MB.
pub const LINKS_MAX: usize = 10_000;
/// References of one page that are read at all, repeated ones included.
pub const REFERENCES_MAX: usize = 100_000;
/// Bytes of a link's text that are kept.
pub const ANCHOR_BYTES_MAX: usize = 200;
/// Longest reference that is read: four times what a URL may have in its canonical spelling.
const REFERENCE_BYTES_MAX: usize = 4 * farol_base::url::URL_BYTES_MAX;

/// The links found so far.
pub struct Links<'a> {
    page: &'a CanonicalUrl,
    base: BaseUrl,
    based: bool,
    found: Vec<Link>,
    /// Links by the fingerprint of their address.
    by_url: ByHash,
    /// Links by the fingerprint of the reference as written: most repetitions need no URL to be parsed.
    by_reference: ByHash,
    references: usize,
    /// The link whose text is passing by.
    open: Option<usize>,
    /// Text of the open link.
    anchor: String,
    anchor_space: bool,
    /// Text of images in the open link, for links without other text.
    alt: String,
    cut: bool,
}

/// A map from fingerprints, which need no further hashing.
///
/// Colliding fingerprints made on purpose cost at most [`LINKS_MAX`] steps per link of that one page.
type ByHash = HashMap<u64, u32, BuildHasherDefault<Fingerprinted>>;

#[derive(Default)]
struct Fingerprinted(u64);

impl Hasher for Fingerprinted {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = hash64(bytes);
    }
    fn write_u64(&mut self, fingerprint: u64) {
        self.0 = fingerprint;
    }
}

/// Stands in [`Links::by_reference`] for a reference that leads nowhere.
const NOWHERE: u32 = u32::MAX;

impl<'a> Links<'a> {
    pub fn new(page: &'a CanonicalUrl) -> Links<'a> {
        Links {
            page,
            base: page.to_base(),
            based: false,
            found: Vec::new(),
            by_url: ByHash::default(),
            by_reference: ByHash::default(),
            references: 0,
            open: None,
            anchor: String::new(),
            anchor_space: false,
            alt: String::new(),
            cut: false,
        }
    }

    /// Reads `<base href>`; only the first one counts.
    pub fn rebase(&mut self, raw: &str) {
        if !self.based && raw.len() <= REFERENCE_BYTES_MAX {
            self.based = true;
            self.base.rebase(trimmed(&entities::decode(raw, Place::Attribute)));
            self.by_reference.clear();
        }
    }

    /// Resolves a reference that is not a link to follow by itself (canonical, feed, refresh).
    pub fn resolve(&self, raw: &str) -> Option<CanonicalUrl> {
        if raw.len() > REFERENCE_BYTES_MAX {
            return None;
        }
        self.resolve_decoded(&entities::decode(raw, Place::Attribute))
    }

    /// Resolves a reference whose entities are decoded already.
    pub fn resolve_decoded(&self, reference: &str) -> Option<CanonicalUrl> {
        self.base.join(trimmed(reference)).ok()
    }

    /// The page that the links are on.
    pub fn page(&self) -> &CanonicalUrl {
        self.page
    }

    /// Takes in a link without text of its own.
    pub fn add(&mut self, raw: &str, nofollow: bool) {
        self.find(raw, nofollow);
    }

    /// Takes in a link whose text is known.
    pub fn add_with_text(&mut self, raw: &str, nofollow: bool, text: &str) {
        if let Some(link) = self.find(raw, nofollow) {
            self.name(link, whitespace::line(&entities::decode(text, Place::Attribute), ANCHOR_BYTES_MAX));
        }
    }

    /// Starts a link whose text follows; ends the one before it.
    pub fn open(&mut self, raw: Option<&str>, nofollow: bool) {
        self.close();
        self.open = raw.and_then(|raw| self.find(raw, nofollow));
    }

    /// Whether the text that passes by belongs to a link that still needs it.
    pub fn wants_text(&self) -> bool {
        self.open.is_some() && self.anchor.len() < ANCHOR_BYTES_MAX
    }

    /// Takes in text; to be called where [`Links::wants_text`].
    pub fn text(&mut self, raw: &str) {
        // What is beyond the limit is not even decoded; entities shrink at most 32-fold.
        let raw = whitespace::cut(raw, 32 * ANCHOR_BYTES_MAX);
        let text = entities::decode(raw, Place::Text);
        self.anchor_space = whitespace::push(&mut self.anchor, 0, &text, self.anchor_space);
    }

    /// Notes that a block starts or ends: words on either side are different words.
    pub fn space(&mut self) {
        self.anchor_space = true;
    }

    /// Takes in an image's alternative text.
    pub fn image(&mut self, raw_alt: Option<&str>) {
        if self.open.is_some() && self.alt.is_empty() {
            let alt = entities::decode(raw_alt.unwrap_or(""), Place::Attribute);
            self.alt = whitespace::line(&alt, ANCHOR_BYTES_MAX);
        }
    }

    /// Ends the open link, if any.
    pub fn close(&mut self) {
        let Some(link) = self.open.take() else { return };
        if self.anchor.is_empty() {
            std::mem::swap(&mut self.anchor, &mut self.alt);
        }
        if self.found[link].anchor.is_empty() && !self.anchor.is_empty() {
            let len = whitespace::cut(&self.anchor, ANCHOR_BYTES_MAX).trim_end().len();
            self.found[link].anchor = self.anchor[..len].to_string();
        }
        self.anchor.clear();
        self.alt.clear();
        self.anchor_space = false;
    }

    /// All links, and whether some were left out.
    pub fn finish(mut self) -> (Vec<Link>, bool) {
        self.close();
        (self.found, self.cut)
    }

    fn name(&mut self, link: usize, text: String) {
        if self.found[link].anchor.is_empty() {
            self.found[link].anchor = text;
        }
    }

    /// Finds or makes the link for a reference.
    fn find(&mut self, raw: &str, nofollow: bool) -> Option<usize> {
        if !may_lead_elsewhere(raw) {
            return None;
        }
        if self.references == REFERENCES_MAX || self.found.len() == LINKS_MAX {
            self.cut = true;
            return None;
        }
        self.references += 1;
        let reference = hash64(raw.as_bytes());
        let link = match self.by_reference.get(&reference) {
            Some(&link) => link,
            None => {
                let link = self.find_by_url(raw);
                self.by_reference.insert(reference, link);
                link
            }
        };
        let known = self.found.get_mut(link as usize)?;
        // A link counts if any of its mentions does.
        known.nofollow &= nofollow;
        Some(link as usize)
    }

    fn find_by_url(&mut self, raw: &str) -> u32 {
        let Some(url) = self.resolve(raw) else { return NOWHERE };
        if url == *self.page {
            return NOWHERE;
        }
        let index = self.found.len() as u32;
        match *self.by_url.entry(hash64(url.as_str().as_bytes())).or_insert(index) {
            known if known == index => {
                self.found.push(Link { url, anchor: String::new(), nofollow: true });
                index
            }
            known => known,
        }
    }
}

/// Takes the white space off that people leave around references.
fn trimmed(reference: &str) -> &str {
    reference.trim_matches(|c: char| c <= ' ')
}

/// Sorts out the usual references that lead to no other page, before any work is spent on them.
fn may_lead_elsewhere(raw: &str) -> bool {
    let raw = trimmed(raw);
    let has_scheme =
        |scheme: &str| raw.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    match raw.as_bytes().first() {
        None | Some(b'#') => false,
        Some(b'j' | b'J') => !has_scheme("javascript:"),
        Some(b'm' | b'M') => !has_scheme("mailto:"),
        Some(b't' | b'T') => !has_scheme("tel:"),
        Some(b'd' | b'D') => !has_scheme("data:"),
        Some(b'a' | b'A') => !has_scheme("about:"),
        Some(_) => raw.len() <= REFERENCE_BYTES_MAX,
    }
}
