//! A page on its way from the Web to the index.

use crate::{CanonicalUrl, ContentHash, Language, Timestamp};

/// Where a record starts in a data folder's sequence of WARC files.
///
/// Positions grow in the order in which records were written, so "everything up to here" is one value:
/// the URL store, the link graph and the index each remember the position that they have taken in, and
/// read on from there after a crash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PagePosition {
    /// Number of the WARC file, from 0.
    pub file: u32,
    /// Byte in that file at which the record's gzip member starts.
    pub offset: u64,
}

/// A page that is to be visited.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scheduled {
    pub url: CanonicalUrl,
    /// Links from the nearest seed.
    pub depth: u16,
    /// It was visited before.
    pub revisit: bool,
}

/// Why the body of an answer is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Truncated {
    /// It is longer than the limit.
    Length,
    /// It took too long, or came too slowly.
    Time,
    /// The connection broke, or the bytes stopped making sense.
    Disconnect,
}

impl Truncated {
    /// The word for it in WARC's `WARC-Truncated`.
    pub fn as_str(self) -> &'static str {
        match self {
            Truncated::Length => "length",
            Truncated::Time => "time",
            Truncated::Disconnect => "disconnect",
        }
    }

    /// Reads that word; `unspecified` and anything new count as a disconnect.
    pub fn parse(text: &str) -> Truncated {
        match text.trim() {
            "length" => Truncated::Length,
            "time" => Truncated::Time,
            _ => Truncated::Disconnect,
        }
    }
}

/// A link found on a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Where it leads.
    pub url: CanonicalUrl,
    /// The text that a reader sees, spaces collapsed; empty for links without one (`<link>`, images).
    pub anchor: String,
    /// The author asks not to count it (`rel=nofollow`, `ugc`, `sponsored`, or the page's robots rules).
    pub nofollow: bool,
}

/// What the index takes of a page: its text in fields, and what is known about it.
#[derive(Clone, Debug)]
pub struct Document {
    /// The page's own address: the canonical URL that it was fetched under (after redirects).
    pub url: CanonicalUrl,
    pub title: String,
    /// Text of h1 to h6, one per line.
    pub headings: String,
    /// Main text, boilerplate removed, paragraphs separated by `\n`.
    pub body: String,
    /// What else a reader of the page sees (navigation, lists of links), one block per line.
    pub rest: String,
    /// The author's `meta description`; empty where there is none.
    pub description: String,
    /// Anchor texts of pages that link here, one per line; filled in by whoever knows the link graph.
    pub anchors: String,
    pub language: Option<Language>,
    /// Kind of file for `filetype:`, in lower case: `html`, `txt`, `xml`, `pdf`, …
    pub file_type: String,
    /// When this copy was fetched.
    pub fetched: Timestamp,
    /// When the page says it was last changed or published.
    pub dated: Option<Timestamp>,
    /// Fingerprint of the main text: equal means exact duplicate.
    pub content_hash: ContentHash,
    /// Similarity fingerprint of the main text: few differing bits means near duplicate.
    pub simhash: u64,
    /// Where the fetched bytes are kept.
    pub position: PagePosition,
    /// What of its text readers may be shown.
    pub shown: Shown,
    /// Who fetched it, where that was not this engine.
    pub source: Option<Origin>,
}

/// What of a page's text may be shown to readers beside its title.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// The passage that answers best.
    #[default]
    Passage,
    /// Nothing: its author says so.
    Nothing,
    /// This opening text alone. What is indexed are bare words, which nobody could read.
    Lead(String),
}

/// An engine that fetched a page for others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its public key.
    pub engine: [u8; 32],
    /// What it calls itself; empty where it says nothing.
    pub name: String,
    /// Where people search there, `https://search.example.org/`; empty where it does not say.
    pub site: String,
    /// Whether it shows its stored copy of the page to whoever asks.
    pub copy: bool,
}

impl Origin {
    /// Reads a name as engines write it: behind it may stand, in angle brackets, where people search there.
    ///
    /// ```
    /// let origin = farol_base::Origin::named([1; 32], "CIn <https://busca.cin.example.br/>", true);
    /// assert_eq!((origin.name.as_str(), origin.site.as_str()), ("CIn", "https://busca.cin.example.br/"));
    /// assert_eq!(farol_base::Origin::named([1; 32], "<javascript:x>", true).site, "");
    /// ```
    pub fn named(engine: [u8; 32], name: &str, copy: bool) -> Origin {
        let (name, site) = match name.trim().strip_suffix('>').and_then(|name| name.rsplit_once('<')) {
            Some((name, site)) => {
                (name, CanonicalUrl::parse(site).map_or(String::new(), |url| url.as_str().to_string()))
            }
            None => (name, String::new()),
        };
        let name = name.trim().chars().filter(|c| !c.is_control()).collect();
        Origin { engine, name, copy: copy && !site.is_empty(), site }
    }

    /// What to call it: its name, or the beginning of its key.
    pub fn label(&self) -> String {
        if !self.name.is_empty() {
            return self.name.clone();
        }
        self.engine[..4].iter().fold("engine ".to_string(), |text, byte| format!("{text}{byte:02x}"))
    }
}
