//! Reads sitemaps: the XML protocol (sitemaps.org), a text file of one URL per line, and feeds used as one.
//!
//! Never fails: of a broken file the entries before the break are read, and [`SitemapComplaint`]s say what was wrong.
//! INVARIANT: at most [`ENTRIES_MAX`] entries from at most [`SITEMAP_BYTES_MAX`] bytes, in time linear in them.
//! Does not check that a sitemap speaks of its own host only; the crawler has a scope for that.

use crate::feed::xml::{self, TextBuffer, XmlNode};
use crate::{charset, feed};
use farol_base::url::BaseUrl;
use farol_base::{CanonicalUrl, Timestamp};

/// How much of a sitemap is read: the protocol's own limit, 50 MiB unpacked.
pub const SITEMAP_BYTES_MAX: usize = 50 << 20;

/// How many entries are kept: the protocol's own limit. 50,000 × at most 2 KiB = 100 MiB, about 5 MiB in practice.
pub const ENTRIES_MAX: usize = 50_000;

/// A page, or another sitemap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SitemapEntry {
    /// Its address.
    pub loc: CanonicalUrl,
    /// When it was last changed, where that is said.
    pub lastmod: Option<Timestamp>,
}

/// What a sitemap lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sitemap {
    /// Other sitemaps.
    Index(Vec<SitemapEntry>),
    /// Pages.
    Urls(Vec<SitemapEntry>),
}

impl Sitemap {
    /// Whether it lists nothing.
    pub fn is_empty(&self) -> bool {
        let (Sitemap::Index(entries) | Sitemap::Urls(entries)) = self;
        entries.is_empty()
    }

    /// Its entries, whatever they lead to.
    pub fn into_entries(self) -> Vec<SitemapEntry> {
        let (Sitemap::Index(entries) | Sitemap::Urls(entries)) = self;
        entries
    }
}

/// What was wrong with a sitemap; each kind at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SitemapComplaint {
    /// It is longer than [`SITEMAP_BYTES_MAX`]; the rest was not read.
    Cut,
    /// It has more than [`ENTRIES_MAX`] entries; the rest was left out.
    TooMany,
    /// It is no sitemap at all.
    NotASitemap,
    /// The XML could not be read beyond this byte of the decoded text.
    Malformed {
        /// The byte.
        offset: u64,
        /// What the XML reader said.
        why: String,
    },
    /// This many entries are no addresses of pages, the first of them this.
    BadLocations {
        /// How many.
        count: usize,
        /// The first of them, as written.
        first: String,
    },
    /// Some bytes have no meaning in the file's charset.
    UnreadableBytes,
}

/// Reads a sitemap that was found at `base`, unpacked.
///
/// ```
/// use farol_base::CanonicalUrl;
/// use farol_parse::sitemap::{Sitemap, parse};
/// let base = CanonicalUrl::parse("http://h/sitemap.xml").unwrap();
/// let xml = b"<urlset><url><loc>http://h/a?b=1&amp;c=2</loc><lastmod>2024-05-06</lastmod></url></urlset>";
/// let (Sitemap::Urls(urls), complaints) = parse(xml, &base) else { panic!() };
/// assert_eq!(urls[0].loc.as_str(), "http://h/a?b=1&c=2");
/// assert!(complaints.is_empty());
/// ```
pub fn parse(bytes: &[u8], base: &CanonicalUrl) -> (Sitemap, Vec<SitemapComplaint>) {
    let mut complaints = Vec::new();
    if bytes.len() > SITEMAP_BYTES_MAX {
        complaints.push(SitemapComplaint::Cut);
    }
    let decoded = charset::decode(None, &bytes[..bytes.len().min(SITEMAP_BYTES_MAX)], None);
    if decoded.unreadable {
        complaints.push(SitemapComplaint::UnreadableBytes);
    }
    let mut list = List::new(base);
    let is_xml = decoded.text.trim_start().starts_with('<');
    let index =
        if is_xml { read_xml(&decoded.text, &mut list) } else { read_lines(&decoded.text, &mut list) };
    complaints.append(&mut list.complaints);
    if list.bad > 0 {
        complaints.push(SitemapComplaint::BadLocations { count: list.bad, first: list.first_bad });
    }
    let entries = list.entries;
    (if index { Sitemap::Index(entries) } else { Sitemap::Urls(entries) }, complaints)
}

/// The entries as they are read, and what is wrong with them.
struct List<'a> {
    base: &'a CanonicalUrl,
    resolver: BaseUrl,
    entries: Vec<SitemapEntry>,
    bad: usize,
    first_bad: String,
    complaints: Vec<SitemapComplaint>,
}

impl<'a> List<'a> {
    fn new(base: &'a CanonicalUrl) -> List<'a> {
        let resolver = base.to_base();
        List { base, resolver, entries: Vec::new(), bad: 0, first_bad: String::new(), complaints: Vec::new() }
    }

    fn push(&mut self, loc: &str, lastmod: Option<Timestamp>) {
        match self.resolver.join(loc) {
            Ok(loc) if !self.is_full() => self.entries.push(SitemapEntry { loc, lastmod }),
            Ok(_) => {}
            Err(_) => {
                if self.bad == 0 {
                    self.first_bad = loc.chars().take(200).collect();
                }
                self.bad += 1;
            }
        }
    }

    fn is_full(&self) -> bool {
        self.entries.len() >= ENTRIES_MAX
    }
}

/// Reads the text form. Answers that it is no index.
fn read_lines(text: &str, list: &mut List<'_>) -> bool {
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if list.is_full() {
            list.complaints.push(SitemapComplaint::TooMany);
            break;
        }
        // Anything is a relative reference; a list of pages has whole addresses.
        if line.starts_with("http") {
            list.push(line, None);
        } else {
            list.bad += 1;
        }
    }
    if list.entries.is_empty() {
        list.bad = 0;
        list.complaints.push(SitemapComplaint::NotASitemap);
    }
    false
}

/// Reads the XML form, or a feed. Answers whether it is an index.
fn read_xml(text: &str, list: &mut List<'_>) -> bool {
    let mut reading =
        SitemapReader { index: None, depth: 0, open: None, text: TextBuffer::default(), feed: false, list };
    let walked = xml::walk(text, |node| reading.take(node));
    reading.close();
    let (index, is_feed) = (reading.index, reading.feed);
    if is_feed && let Some(entries) = feed::parse_text(text, list.base) {
        list.entries = entries.into_iter().map(|e| SitemapEntry { loc: e.url, lastmod: e.updated }).collect();
        return false;
    }
    if index.is_none() {
        list.complaints.push(SitemapComplaint::NotASitemap);
    } else if let Err(broken) = walked {
        list.complaints.push(SitemapComplaint::Malformed { offset: broken.offset, why: broken.why });
    }
    index == Some(true)
}

/// An entry whose end has not come.
struct OpenEntry {
    depth: usize,
    loc: String,
    lastmod: Option<Timestamp>,
}

struct SitemapReader<'l, 'a> {
    /// What the root element says; `None` before it, or where it is something else.
    index: Option<bool>,
    depth: usize,
    open: Option<OpenEntry>,
    text: TextBuffer,
    feed: bool,
    list: &'l mut List<'a>,
}

impl SitemapReader<'_, '_> {
    /// Takes a node; answers whether to go on.
    fn take(&mut self, node: XmlNode<'_>) -> bool {
        match node {
            XmlNode::Start(name, _) => {
                self.depth += 1;
                return self.start(name);
            }
            XmlNode::Text(text) => {
                if self.at_child() {
                    self.text.push(text);
                }
            }
            XmlNode::End(name) => {
                self.end(name);
                self.depth = self.depth.saturating_sub(1);
            }
        }
        true
    }

    fn start(&mut self, name: &str) -> bool {
        if self.depth == 1 && self.index.is_none() {
            self.index = match name {
                "urlset" => Some(false),
                "sitemapindex" => Some(true),
                _ => None,
            };
            self.feed = matches!(name, "rss" | "RDF" | "feed");
            return self.index.is_some();
        }
        if matches!(name, "url" | "sitemap") {
            self.close();
            if self.list.is_full() {
                self.list.complaints.push(SitemapComplaint::TooMany);
                return false;
            }
            self.open = Some(OpenEntry { depth: self.depth, loc: String::new(), lastmod: None });
        } else if self.at_child() {
            self.text.clear();
        }
        true
    }

    /// Whether the present element is a child of an entry: an image's own `loc` lies deeper.
    fn at_child(&self) -> bool {
        self.open.as_ref().is_some_and(|open| self.depth == open.depth + 1)
    }

    fn end(&mut self, name: &str) {
        let at_child = self.at_child();
        let Some(open) = &mut self.open else { return };
        match name {
            "url" | "sitemap" => {
                self.depth = open.depth;
                self.close();
            }
            "loc" if at_child => open.loc = self.text.text().trim().to_string(),
            "lastmod" if at_child => open.lastmod = Timestamp::parse(&self.text.text()),
            _ => {}
        }
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take()
            && !open.loc.is_empty()
        {
            self.list.push(&open.loc, open.lastmod);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn base() -> CanonicalUrl {
        CanonicalUrl::parse("http://h/sitemap.xml").unwrap()
    }

    /// Entries as `url|date`, and the complaints.
    #[track_caller]
    fn check(text: &str, index: bool, want: &[&str], complaints: &[SitemapComplaint]) {
        let (sitemap, got_complaints) = parse(text.as_bytes(), &base());
        let (is_index, entries) = match sitemap {
            Sitemap::Index(entries) => (true, entries),
            Sitemap::Urls(entries) => (false, entries),
        };
        let date = |e: &SitemapEntry| e.lastmod.map(|at| at.to_string()).unwrap_or_default();
        let got: Vec<String> = entries.iter().map(|e| format!("{}|{}", e.loc, date(e))).collect();
        assert_eq!((is_index, got), (index, want.iter().map(|s| s.to_string()).collect()), "{text}");
        assert_eq!(got_complaints, complaints, "{text}");
    }

    #[test]
    fn lists_of_pages() {
        check(
            r#"<?xml version="1.0" encoding="UTF-8"?>
               <urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:image="i">
               <url><loc> http://h/a?x=1&amp;y=2 </loc><lastmod>2024-05-06T07:08:09+02:00</lastmod><priority>1</priority></url>
               <url><image:image><image:loc>http://h/i.png</image:loc></image:image><loc><![CDATA[http://h/b?x&y]]></loc></url>
               <url><lastmod>yesterday</lastmod><loc>http://h/c</loc></url>
               <url></url><url><loc/></url>
               </urlset>"#,
            false,
            &["http://h/a?x=1&y=2|2024-05-06T05:08:09Z", "http://h/b?x&y|", "http://h/c|"],
            &[],
        );
        check("<s:urlset><s:url><s:loc>http://h/a</s:loc></s:url></s:urlset>", false, &["http://h/a|"], &[]);
        check("<urlset/>", false, &[], &[]);
    }

    #[test]
    fn indexes() {
        check(
            "<sitemapindex><sitemap><loc>http://h/1.xml.gz</loc><lastmod>2024</lastmod></sitemap></sitemapindex>",
            true,
            &["http://h/1.xml.gz|2024-01-01T00:00:00Z"],
            &[],
        );
    }

    #[test]
    fn plain_text() {
        check("http://h/a\r\n\n  https://g/b  \n# no\n", false, &["http://h/a|", "https://g/b|"], &[]);
        check("\u{feff}http://h/a", false, &["http://h/a|"], &[]);
        check(
            "some words\nhttp://h/a",
            false,
            &["http://h/a|"],
            &[SitemapComplaint::BadLocations { count: 1, first: String::new() }],
        );
    }

    #[test]
    fn feeds() {
        check(
            "<rss><channel><item><link>/a</link><pubDate>06 May 2024 07:08 GMT</pubDate></item></channel></rss>",
            false,
            &["http://h/a|2024-05-06T07:08:00Z"],
            &[],
        );
        check("<feed><entry><link href='b'/></entry></feed>", false, &["http://h/b|"], &[]);
    }

    #[test]
    fn what_is_no_sitemap() {
        for text in [
            "",
            "hello",
            "<html><body><url><loc>http://h/a</loc></url></html>",
            "<",
            "{}",
            "<rdf:RDF></rdf:RDF>",
        ] {
            check(text, false, &[], &[SitemapComplaint::NotASitemap]);
        }
    }

    #[test]
    fn broken_files_give_what_was_read() {
        let bad = |count, first: &str| SitemapComplaint::BadLocations { count, first: first.into() };
        check("<urlset><url><loc>http://h/a</loc>", false, &["http://h/a|"], &[]);
        check("<urlset><url><loc>http://h/a</loc><url><loc>http://h/b</url>", false, &["http://h/a|"], &[]);
        check("<urlset><url><loc>http://h/a?x&y=1</loc></url>", false, &["http://h/a?x&y=1|"], &[]);
        check(
            "<urlset><url><loc>ftp://h/</loc></url><url><loc>mailto:a</loc></url><url><loc>/b</loc></url></urlset>",
            false,
            &["http://h/b|"],
            &[bad(2, "ftp://h/")],
        );
        let (sitemap, complaints) = parse(b"<urlset><url><loc>http://h/a</loc></url><url <!-- ", &base());
        assert!(matches!(sitemap, Sitemap::Urls(urls) if urls.len() == 1));
        assert!(matches!(complaints[..], [SitemapComplaint::Malformed { .. }]), "{complaints:?}");
    }

    #[test]
    fn size_is_bounded() {
        let many = format!("<urlset>{}", "<url><loc>http://h/a</loc></url>".repeat(ENTRIES_MAX + 1));
        let (sitemap, complaints) = parse(many.as_bytes(), &base());
        assert!(matches!(sitemap, Sitemap::Urls(urls) if urls.len() == ENTRIES_MAX));
        assert_eq!(complaints, [SitemapComplaint::TooMany]);
        let (sitemap, complaints) = parse("http://h/a\n".repeat(ENTRIES_MAX + 1).as_bytes(), &base());
        assert!(matches!(sitemap, Sitemap::Urls(urls) if urls.len() == ENTRIES_MAX));
        assert_eq!(complaints, [SitemapComplaint::TooMany]);
        let exactly = format!("<urlset>{}</urlset>", "<url><loc>http://h/a</loc></url>".repeat(ENTRIES_MAX));
        assert_eq!(parse(exactly.as_bytes(), &base()).1, []);
        let deep = format!("<urlset>{}", "<url>".repeat(300_000));
        assert_eq!(parse(deep.as_bytes(), &base()).0, Sitemap::Urls(vec![]));
    }

    #[test]
    fn entity_bombs_do_not_grow() {
        let bomb = r#"<!DOCTYPE u [<!ENTITY a "http://h/"><!ENTITY b "&a;&a;&a;&a;">]><urlset><url><loc>&b;x</loc></url></urlset>"#;
        check(bomb, false, &["http://h/&b;x|"], &[]);
        let outside = r#"<!DOCTYPE u [<!ENTITY f SYSTEM "file:///etc/passwd">]><urlset><url><loc>http://h/&f;</loc></url></urlset>"#;
        check(outside, false, &["http://h/&f;|"], &[]);
    }

    proptest! {
        #[test]
        fn no_text_breaks_it(text in "(<urlset>|<sitemapindex>|<url>|</url>|<loc>|</loc>|<lastmod>|<sitemap>|<!\\[CDATA\\[|\\]\\]>|&#?[a-z0-9]{0,4};?|<!--|-->|http://h/|[ab/<>&\"é\n]){0,30}") {
            let _ = parse(text.as_bytes(), &base());
        }

        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes, &base());
            let _ = parse(&[b"<urlset><url>".as_slice(), &bytes].concat(), &base());
        }
    }
}
