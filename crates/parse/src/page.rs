//! Reads one fetched page: the road from bytes to [`Parsed`].
//!
//! Decides what to do by [`Kind`]; the work itself is done by the modules it calls.

use crate::html::{self, directives::Directives};
use crate::{Kind, charset, fingerprint, kind, language, text};
use farol_base::{CanonicalUrl, ContentHash, Language, Link, Timestamp};

/// Bytes of a body that are read; what follows is left out, with a [`Complaint::BodyCut`].
///
/// Decoding may triple a single-byte encoding (three bytes for `€`), so a page takes at most 3 × 16 MiB
/// of decoded text, plus [`TEXT_BYTES_MAX`](crate::TEXT_BYTES_MAX) of laid-out text, plus the links.
pub const BODY_BYTES_MAX: usize = 16 << 20;

/// A main text below this size may be the same on many pages: a notice, a footer.
const DISTINCT_BYTES_MIN: usize = 250;

/// A fetched page, with what its server said about it.
#[derive(Clone, Copy, Debug)]
pub struct PageInput<'a> {
    /// Where it was found, after redirects.
    pub url: &'a CanonicalUrl,
    /// The `Content-Type` header.
    pub content_type: Option<&'a str>,
    /// The body, content encodings (gzip, …) already undone.
    pub body: &'a [u8],
    /// Values of all `X-Robots-Tag` headers.
    pub robots_tags: &'a [&'a str],
    /// Our product token: robots rules addressed to it count, rules for other agents do not.
    pub agent: &'a str,
    /// How much is wanted.
    pub wants: Wants,
}

/// How much of a page is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wants {
    /// Links and what the head says; no headings, text, language or similarity fingerprint. The content hash of HTML is
    /// then that of all its words, so that pages which differ in their addresses alone are seen to be the same. The
    /// links are exactly those of [`Wants::Everything`].
    LinksOnly,
    /// All of it.
    Everything,
}

/// What was read from a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Parsed {
    /// `<title>`, or `og:title`, or the first heading where these are missing; of plain text, its first line if short.
    pub title: String,
    /// Text of h1 to h6, one per line.
    pub headings: String,
    /// Main text, boilerplate removed, paragraphs separated by `\n`.
    pub body: String,
    /// What else a reader sees of an HTML page: navigation, lists of links, edges; one block per line.
    pub rest: String,
    /// The author's summary: `meta description` or `og:description`.
    pub description: String,
    /// From the text where it is long enough to tell, else what the page claims.
    pub language: Option<Language>,
    /// Each address once, in the order of first mention: `a`, `area`, `iframe`, `frame`, and `<link>` to next,
    /// previous and translated pages.
    pub links: Vec<Link>,
    /// `rel=canonical`: the address that the author wants this page to be known by.
    pub canonical: Option<CanonicalUrl>,
    /// RSS and Atom feeds that the page offers.
    pub feeds: Vec<CanonicalUrl>,
    /// Where `meta refresh` leads, if elsewhere.
    pub refresh: Option<CanonicalUrl>,
    /// The page asks not to be indexed.
    pub noindex: bool,
    /// The page asks that its links are not followed.
    pub nofollow: bool,
    /// The page asks that no copy of it is shown.
    pub noarchive: bool,
    /// The page asks that no text of it is shown in results.
    pub nosnippet: bool,
    /// From this instant on the page counts as `noindex` (`unavailable_after`).
    pub unavailable_after: Option<Timestamp>,
    /// When the page says it was last changed or published.
    pub dated: Option<Timestamp>,
    /// Of the main text, of a short one with all else that is seen, so that it tells pages apart; where text was
    /// not wanted, of all words; of the bytes where there are none.
    pub content_hash: ContentHash,
    /// Similarity fingerprint of the same text; 0 where there is none.
    pub simhash: u64,
    /// Name of the encoding that was used to decode the page; empty where there was no text to decode.
    pub charset: &'static str,
    /// Kind of file for `filetype:`: `html`, `txt`, `xml`, `pdf`, …
    pub file_type: String,
    /// What the bytes are.
    pub kind: Kind,
    /// What was odd about the page, each complaint at most once.
    pub complaints: Vec<Complaint>,
}

/// Something odd about a page that was read nevertheless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Complaint {
    /// The body is longer than [`BODY_BYTES_MAX`]; the rest was not read.
    BodyCut,
    /// The bytes are not what the declared charset says; another one was used.
    CharsetWrong,
    /// Some bytes have no meaning in the page's charset.
    UnreadableBytes,
    /// More links than [`LINKS_MAX`](crate::LINKS_MAX); the rest was left out.
    LinksCut,
    /// More text than [`TEXT_BYTES_MAX`](crate::TEXT_BYTES_MAX); the rest was left out.
    TextCut,
    /// Elements are nested deeper than [`DEPTH_MAX`](crate::DEPTH_MAX); deeper ones were read as if flat.
    DeepNesting,
    /// The page ends inside a tag or comment.
    Unfinished,
}

/// Reads a page. Never fails: what was odd is told in [`Parsed::complaints`].
///
/// ```
/// use farol_base::CanonicalUrl;
/// use farol_parse::{PageInput, Wants, page};
/// let parsed = page(&PageInput {
///     url: &CanonicalUrl::parse("http://h/dir/").unwrap(),
///     content_type: Some("text/html; charset=utf-8"),
///     body: b"<title>Ol&aacute;</title><a href='../x?a=1&amp;b=2'>Um <b>elo</b></a>",
///     robots_tags: &[],
///     agent: "farol",
///     wants: Wants::Everything,
/// });
/// assert_eq!(parsed.title, "Olá");
/// assert_eq!(parsed.links[0].url.as_str(), "http://h/x?a=1&b=2");
/// assert_eq!(parsed.links[0].anchor, "Um elo");
/// ```
pub fn page(input: &PageInput<'_>) -> Parsed {
    page_of_kind(input, kind::sniff(input.content_type, input.body))
}

/// Reads a page whose kind is known.
pub(crate) fn page_of_kind(input: &PageInput<'_>, kind: Kind) -> Parsed {
    let mut complaints = Vec::new();
    let body = match input.body.get(..BODY_BYTES_MAX) {
        Some(start) if input.body.len() > BODY_BYTES_MAX => {
            complaints.push(Complaint::BodyCut);
            start
        }
        _ => input.body,
    };
    let mut directives = Directives::default();
    for value in input.robots_tags {
        directives.read_header(value, input.agent);
    }
    let mut parsed = Parsed {
        title: String::new(),
        headings: String::new(),
        body: String::new(),
        rest: String::new(),
        description: String::new(),
        language: None,
        links: Vec::new(),
        canonical: None,
        feeds: Vec::new(),
        refresh: None,
        noindex: false,
        nofollow: false,
        noarchive: false,
        nosnippet: false,
        unavailable_after: None,
        dated: None,
        content_hash: ContentHash::default(),
        simhash: 0,
        charset: "",
        file_type: kind::file_type(input.content_type, input.url, kind).to_string(),
        kind,
        complaints,
    };
    let (mut claimed_language, mut words) = (None, None);
    match kind {
        Kind::Html => {
            let decoded = decode(input, body, &mut parsed);
            let read = html::read(&decoded, input.url, input.agent, input.wants, directives);
            directives = read.head.directives;
            claimed_language = read.head.language;
            parsed.title = read.head.title;
            parsed.description = read.head.description;
            parsed.canonical = read.head.canonical;
            parsed.feeds = read.head.feeds;
            parsed.refresh = read.head.refresh;
            parsed.dated = read.head.dates.best();
            parsed.links = read.links;
            parsed.headings = read.text.headings;
            if parsed.title.is_empty() {
                let first = parsed.headings.lines().next().unwrap_or_default();
                parsed.title = text::whitespace::cut(first, html::head::TITLE_BYTES_MAX).to_string();
            }
            parsed.body = read.text.body;
            parsed.rest = read.text.rest;
            words = read.words;
            parsed.complaints.extend(read.complaints);
        }
        Kind::PlainText => {
            let decoded = decode(input, body, &mut parsed);
            if input.wants == Wants::Everything {
                let plain = text::plain::lay_out(&decoded);
                parsed.title = plain.title;
                parsed.body = plain.body;
                parsed.complaints.extend(plain.cut.then_some(Complaint::TextCut));
            }
        }
        // Feeds and sitemaps have their own readers; other XML has no text that people would look for.
        Kind::Xml => parsed.charset = charset::find(input.content_type, body, tld(input.url)).name(),
        Kind::Other => {}
    }
    if parsed.body.is_empty() {
        parsed.content_hash = words.unwrap_or_else(|| ContentHash::of(body));
    } else {
        let short = parsed.body.len() < DISTINCT_BYTES_MIN;
        let all = short.then(|| [parsed.body.as_str(), &parsed.rest].join("\n"));
        let distinct = all.as_deref().unwrap_or(&parsed.body);
        parsed.content_hash = ContentHash::of(distinct.as_bytes());
        parsed.simhash = fingerprint::simhash(distinct);
        parsed.language = language::of_text(&parsed.body);
    }
    parsed.language = parsed.language.or(claimed_language);
    parsed.noindex = directives.noindex;
    parsed.nofollow = directives.nofollow;
    parsed.noarchive = directives.noarchive;
    parsed.nosnippet = directives.nosnippet;
    parsed.unavailable_after = directives.unavailable_after;
    if parsed.nofollow {
        parsed.links.iter_mut().for_each(|link| link.nofollow = true);
    }
    parsed
}

fn decode<'b>(input: &PageInput<'_>, body: &'b [u8], parsed: &mut Parsed) -> std::borrow::Cow<'b, str> {
    let decoded = charset::decode(input.content_type, body, tld(input.url));
    parsed.charset = decoded.charset.name();
    parsed.complaints.extend(decoded.declaration_wrong.then_some(Complaint::CharsetWrong));
    parsed.complaints.extend(decoded.unreadable.then_some(Complaint::UnreadableBytes));
    decoded.text
}

/// The last label of the host name, a hint for guessing an undeclared charset.
fn tld(url: &CanonicalUrl) -> Option<&str> {
    let authority = url.host_str().rsplit('/').next()?;
    let name = authority.split(':').next()?;
    let (_, tld) = name.rsplit_once('.')?;
    (!tld.is_empty() && tld.bytes().all(|b| b.is_ascii_lowercase())).then_some(tld)
}

#[cfg(test)]
mod tests;
