//! Reads feeds: RSS 0.9x and 2.0, RSS 1.0 (RDF) and Atom, for the pages that they announce.
//!
//! Never fails: of a broken feed the entries before the break are read. INVARIANT: at most [`ENTRIES_MAX`]
//! entries from at most [`FEED_BYTES_MAX`] bytes, in time linear in them.
//! Does not keep the entries' text: the pages themselves are fetched.

pub(crate) mod xml;

use crate::charset;
use farol_base::url::BaseUrl;
use farol_base::{CanonicalUrl, Timestamp};
use xml::{Attributes, TextBuffer, XmlNode};

/// How much of a feed is read.
pub const FEED_BYTES_MAX: usize = 50 << 20;

/// How many entries are kept: 50,000 × at most 2.5 KiB (URL and title) = 125 MiB, and some KiB in practice.
pub const ENTRIES_MAX: usize = 50_000;

/// Longest title that is kept.
pub const TITLE_BYTES_MAX: usize = 512;

/// A page that a feed announces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedEntry {
    /// Its address.
    pub url: CanonicalUrl,
    /// Without markup, spaces collapsed; may be empty.
    pub title: String,
    /// When it was changed or, where that is not said, published.
    pub updated: Option<Timestamp>,
}

/// Reads a feed that was found at `base`. Answers `None` where the bytes are no feed.
///
/// ```
/// use farol_base::CanonicalUrl;
/// let rss = b"<rss><channel><item><link>/a</link><title>One &amp; only</title></item></channel></rss>";
/// let base = CanonicalUrl::parse("http://h/feed.xml").unwrap();
/// let entries = farol_parse::feed::parse(rss, &base).unwrap();
/// assert_eq!((entries[0].url.as_str(), entries[0].title.as_str()), ("http://h/a", "One & only"));
/// assert!(farol_parse::feed::parse(b"<html></html>", &base).is_none());
/// ```
pub fn parse(bytes: &[u8], base: &CanonicalUrl) -> Option<Vec<FeedEntry>> {
    let bytes = &bytes[..bytes.len().min(FEED_BYTES_MAX)];
    let decoded = charset::decode(None, bytes, None);
    parse_text(&decoded.text, base)
}

/// The same, of text that was decoded already.
pub(crate) fn parse_text(text: &str, base: &CanonicalUrl) -> Option<Vec<FeedEntry>> {
    let mut reading = FeedReader::new(base);
    // A break is no reason to forget what came before it.
    let _ = xml::walk(text, |node| {
        reading.take(node);
        !reading.is_over()
    });
    reading.finish()
}

/// What the root element says.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FeedKind {
    Unknown,
    Rss,
    /// RDF is RSS 1.0 only where it has a channel or an item.
    Rdf {
        is_rss: bool,
    },
    Atom,
    NoFeed,
}

/// An entry whose end has not come.
#[derive(Default)]
struct OpenItem {
    depth: usize,
    base: Option<BaseUrl>,
    /// The page's address, and how sure it is: an alternate link, a permanent id, anything.
    link: Option<(Rank, String)>,
    title: String,
    updated: Option<Timestamp>,
    published: Option<Timestamp>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Id,
    OtherLink,
    Link,
}

struct FeedReader {
    kind: FeedKind,
    depth: usize,
    base: BaseUrl,
    open: Option<OpenItem>,
    text: TextBuffer,
    /// The present child of an entry is an id that is no address.
    opaque_id: bool,
    entries: Vec<FeedEntry>,
}

impl FeedReader {
    fn new(base: &CanonicalUrl) -> FeedReader {
        FeedReader {
            kind: FeedKind::Unknown,
            depth: 0,
            base: base.to_base(),
            open: None,
            text: TextBuffer::default(),
            opaque_id: false,
            entries: Vec::new(),
        }
    }

    fn is_over(&self) -> bool {
        self.kind == FeedKind::NoFeed || self.entries.len() >= ENTRIES_MAX
    }

    fn take(&mut self, node: XmlNode<'_>) {
        match node {
            XmlNode::Start(name, attributes) => {
                self.depth += 1;
                self.start(name, &attributes);
            }
            XmlNode::Text(text) => {
                if self.open.is_some() {
                    self.text.push(text);
                }
            }
            XmlNode::End(name) => {
                self.end(name);
                self.depth = self.depth.saturating_sub(1);
            }
        }
    }

    fn start(&mut self, name: &str, attributes: &Attributes<'_>) {
        if self.kind == FeedKind::Unknown {
            self.kind = match name {
                "rss" | "channel" => FeedKind::Rss,
                "RDF" => FeedKind::Rdf { is_rss: false },
                "feed" => FeedKind::Atom,
                _ => FeedKind::NoFeed,
            };
            if let Some(base) = attributes.get("base") {
                self.base.rebase(&base);
            }
            return;
        }
        if let FeedKind::Rdf { is_rss } = &mut self.kind {
            *is_rss |= matches!(name, "channel" | "item");
        }
        let is_entry = name == if self.kind == FeedKind::Atom { "entry" } else { "item" };
        if is_entry {
            // An entry inside an entry: the outer one was not closed.
            self.close();
            let mut open = OpenItem { depth: self.depth, ..OpenItem::default() };
            if let Some(base) = attributes.get("base") {
                let mut own = self.base.clone();
                own.rebase(&base);
                open.base = Some(own);
            }
            if let Some(about) = attributes.get("about") {
                open.link = Some((Rank::Id, about));
            }
            self.open = Some(open);
        } else if self.at_child() {
            self.child(name, attributes);
        }
    }

    /// Whether the present element is a child of an entry.
    fn at_child(&self) -> bool {
        self.open.as_ref().is_some_and(|open| self.depth == open.depth + 1)
    }

    fn child(&mut self, name: &str, attributes: &Attributes<'_>) {
        self.text.clear();
        self.opaque_id = false;
        match name {
            // Only an id that says so is an address; RSS's default is that it is one, if it looks like it.
            "guid" => {
                self.opaque_id = attributes.get("isPermaLink").is_some_and(|value| value.trim() == "false")
            }
            "link" => {
                if let (Some(open), Some(href)) = (&mut self.open, attributes.get("href")) {
                    let rank = match attributes.get("rel").as_deref() {
                        None | Some("alternate" | "") => Rank::Link,
                        Some("self" | "edit" | "enclosure" | "replies" | "via" | "related") => return,
                        Some(_) => Rank::OtherLink,
                    };
                    open.offer(rank, &href);
                }
            }
            _ => {}
        }
    }

    fn end(&mut self, name: &str) {
        let Some(open) = &mut self.open else { return };
        if matches!(name, "item" | "entry") {
            self.depth = open.depth;
            self.close();
            return;
        }
        if self.depth != open.depth + 1 {
            return;
        }
        let text = self.text.text();
        let text = text.trim();
        match name {
            "link" => open.offer(Rank::Link, text),
            "guid" | "id" if !self.opaque_id => open.offer(Rank::Id, text),
            "title" if open.title.is_empty() => open.title = plain(text),
            "updated" | "modified" => open.updated = Timestamp::parse(text).or(open.updated),
            "pubDate" | "published" | "date" | "issued" | "created" => {
                open.published = Timestamp::parse(text).or(open.published);
            }
            _ => {}
        }
        self.text.clear();
    }

    fn close(&mut self) {
        let Some(open) = self.open.take() else { return };
        let base = open.base.as_ref().unwrap_or(&self.base);
        let Some((rank, link)) = open.link else { return };
        // An id is a name that may look like a relative reference; only a whole URL is taken for one.
        let url = if rank == Rank::Id { CanonicalUrl::parse(&link) } else { base.join(&link) };
        if let Ok(url) = url {
            self.entries.push(FeedEntry { url, title: open.title, updated: open.updated.or(open.published) });
        }
    }

    fn finish(mut self) -> Option<Vec<FeedEntry>> {
        self.close();
        match self.kind {
            FeedKind::Rss | FeedKind::Rdf { is_rss: true } | FeedKind::Atom => Some(self.entries),
            FeedKind::Unknown | FeedKind::Rdf { is_rss: false } | FeedKind::NoFeed => None,
        }
    }
}

impl OpenItem {
    fn offer(&mut self, rank: Rank, link: &str) {
        let link = link.trim();
        let better = self.link.as_ref().is_none_or(|(known, _)| rank > *known);
        if better && !link.is_empty() {
            self.link = Some((rank, link.to_string()));
        }
    }
}

/// Title text without markup: feeds put HTML in it, escaped once more.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some(open) = rest.find('<') {
        plain.push_str(&rest[..open]);
        let tag = &rest[open..];
        let is_tag = tag[1..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
        match tag.find('>').filter(|_| is_tag) {
            Some(close) => rest = &tag[close + 1..],
            None => {
                plain.push('<');
                rest = &tag[1..];
            }
        }
    }
    plain.push_str(rest);
    let decoded = crate::html::entities::decode(&plain, crate::html::entities::Place::Text);
    let mut line = String::new();
    for word in decoded.split_whitespace() {
        if line.len() + word.len() >= TITLE_BYTES_MAX {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    line
}

#[cfg(test)]
mod tests;
