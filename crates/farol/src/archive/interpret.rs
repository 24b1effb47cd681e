//! What an answer of a server means for the crawl, the link graph and the index.
//!
//! Works from an archived exchange alone, so that a page read live and the same page read again from the
//! archive after a crash come out the same. Does no I/O.

use super::crawl_view::{CrawlView, VisitFacts};
use super::timeless;
use farol_base::status::ScopeReason;
use farol_base::{CanonicalUrl, ContentHash, Document, Language, Link, PagePosition, Shown, Timestamp};
use farol_frontier::trap::HostShape;
use farol_parse::robots::Robots;
use farol_parse::{Content, Kind, PageInput, Parsed, Wants};
use farol_store::pages::Exchange;
use farol_store::urls::Found;
use std::borrow::Cow;
use std::io::Read;
use std::sync::Arc;

/// A sitemap unpacks to this size at most, as its protocol says.
const SITEMAP_BYTES_MAX: u64 = 50 << 20;

/// That of the first Web page.
const FIRST_YEAR: i64 = 1990;

/// What came of asking for a page.
#[derive(Debug)]
pub enum PageOutcome {
    /// A page, to be indexed or not.
    Page(Box<PageContent>),
    /// A list of addresses: a sitemap or a feed.
    List,
    /// The page is somewhere else.
    Redirect,
    /// The copy that is kept is still right.
    NotModified,
    /// There is no such page, or not for us.
    Gone,
    /// The robots.txt of a host. RFC 9309, section 2.3.1: 2xx is read, 4xx means that everything is allowed.
    Robots(Box<Robots>),
}

/// A page as the index wants it, and whether it may be there.
#[derive(Debug)]
pub struct PageContent {
    /// The page, or why it is not for the index.
    pub document: Result<Document, StaysOut>,
    /// It asks that its links are not followed.
    pub nofollow: bool,
    /// It asks that no copy of it is shown.
    pub noarchive: bool,
    pub content_hash: ContentHash,
    /// The words of a page whose address speaks of time, without numbers and names of months and days.
    pub timeless: Option<u64>,
    /// When the server says that it changed last.
    pub modified: Option<Timestamp>,
}

/// Why a page is not for the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StaysOut {
    /// It asks not to be indexed (`noindex`, `none`).
    NoIndex,
    /// It names another address of its site as the one to be found (`rel=canonical`).
    Elsewhere(CanonicalUrl),
    /// It said until when it may be shown (`unavailable_after`).
    Expired,
    /// It is of a kind that is not read; what its server calls it.
    NotText(String),
    /// It has no text.
    Empty,
    /// It is not in the view that the crawl is about; why.
    OutsideView(ScopeReason),
}

/// How a page is said to be somewhere else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MovedBy {
    /// Its server says so.
    Redirect,
    /// It says so itself, to every browser that opens it.
    Refresh,
    /// It calls another its original.
    Canonical,
}

/// Where a page is instead.
#[derive(Debug)]
pub struct Moved {
    pub to: Found,
    pub by: MovedBy,
}

/// An archived answer, interpreted.
#[derive(Debug)]
pub struct Interpreted {
    pub outcome: PageOutcome,
    /// Links for the graph: what a reader of the page sees.
    pub links: Vec<Link>,
    /// Addresses to visit.
    pub found: Vec<Found>,
    /// Where the page is instead, by its server's word or its own (a redirect, `rel=canonical`, `meta refresh`). Visited
    /// as long as not too many of them follow one another.
    pub moved: Option<Moved>,
}

impl Interpreted {
    pub(super) fn plain(outcome: PageOutcome) -> Interpreted {
        Interpreted { outcome, links: Vec::new(), found: Vec::new(), moved: None }
    }
}

/// Turns archived answers into what follows from them.
#[derive(Clone, Debug)]
pub struct Interpreter {
    /// Our name in robots rules inside pages.
    pub agent: String,
    pub wants: Wants,
    /// The pages that the crawl is about, where they are told by a view.
    pub view: Option<Arc<CrawlView>>,
}

impl Interpreter {
    /// Reads an archived answer; `depth` is how many links lie between a seed and this page.
    pub fn interpret(&self, exchange: &Exchange, depth: u16) -> Interpreted {
        let plain = Interpreted::plain;
        if exchange.url.path_and_query() == "/robots.txt" {
            let is_file = (200..300).contains(&exchange.status);
            let rules = if is_file { Robots::parse(&exchange.body, &self.agent) } else { Robots::default() };
            return plain(PageOutcome::Robots(Box::new(rules)));
        }
        if exchange.revisit_of.is_some() {
            return plain(PageOutcome::NotModified);
        }
        match exchange.status {
            200..=299 => self.read_page(exchange, depth),
            304 => plain(PageOutcome::NotModified),
            301 | 302 | 303 | 307 | 308 => {
                let target = exchange.header("location").and_then(|to| exchange.url.join(&to).ok());
                match target {
                    Some(to) if to != exchange.url => Interpreted {
                        moved: Some(Moved {
                            to: Found { url: to, depth, hint: None },
                            by: MovedBy::Redirect,
                        }),
                        ..plain(PageOutcome::Redirect)
                    },
                    _ => plain(PageOutcome::Gone),
                }
            }
            _ => plain(PageOutcome::Gone),
        }
    }

    fn read_page(&self, exchange: &Exchange, depth: u16) -> Interpreted {
        let content_type = exchange.header("content-type");
        let tags: Vec<_> = exchange.headers("x-robots-tag").collect();
        let tags: Vec<&str> = tags.iter().map(|tag| tag.as_ref()).collect();
        let body = unpacked(&exchange.body);
        // Whether a calendar is an empty one is seen by its text.
        let is_day = HostShape::calendar_of(&exchange.url).is_some();
        let content = farol_parse::read(&PageInput {
            url: &exchange.url,
            content_type: content_type.as_deref(),
            body: &body,
            robots_tags: &tags,
            agent: &self.agent,
            wants: if is_day { Wants::Everything } else { self.wants },
        });
        // What a list names counts as one link away from where the list stands.
        let next = depth.saturating_add(1);
        let list = |found| Interpreted { found, ..Interpreted::plain(PageOutcome::List) };
        match content {
            Content::Page(parsed) => {
                let modified = exchange.header("last-modified").and_then(|text| Timestamp::parse(&text));
                page_of(exchange, *parsed, modified, depth, self.view.as_deref())
            }
            Content::Feed(entries) => list(
                entries
                    .into_iter()
                    .map(|entry| Found { url: entry.url, depth: next, hint: entry.updated })
                    .collect(),
            ),
            Content::Sitemap(sitemap) => list(
                (sitemap.into_entries().into_iter())
                    .map(|entry| Found { url: entry.loc, depth: next, hint: entry.lastmod })
                    .collect(),
            ),
        }
    }
}

fn page_of(
    exchange: &Exchange,
    mut parsed: Parsed,
    modified: Option<Timestamp>,
    depth: u16,
    view: Option<&CrawlView>,
) -> Interpreted {
    let next = depth.saturating_add(1);
    let follow = !parsed.nofollow;
    let mut found: Vec<Found> = Vec::with_capacity(parsed.links.len() + 1);
    if follow {
        let visited = parsed.links.iter().filter(|link| !link.nofollow);
        found.extend(visited.map(|link| Found { url: link.url.clone(), depth: next, hint: None }));
        found.extend(parsed.feeds.drain(..).map(|url| Found { url, depth: next, hint: None }));
    }
    // A page elsewhere that this one calls its original, within the same site: others cannot be spoken for.
    let elsewhere = parsed.canonical.take().filter(|to| {
        *to != exchange.url && to.host().registrable_domain() == exchange.url.host().registrable_domain()
    });
    let refresh = parsed.refresh.take().filter(|to| *to != exchange.url);
    let moved = match (&elsewhere, refresh) {
        (Some(to), _) => Some((to.clone(), MovedBy::Canonical)),
        (None, Some(to)) => Some((to, MovedBy::Refresh)),
        (None, None) => None,
    };
    let moved = moved.map(|(url, by)| Moved { to: Found { url, depth, hint: None }, by });
    let language = parsed.language.or_else(|| {
        let header = exchange.header("content-language").filter(|value| !value.contains(','));
        let declared = header.and_then(|value| Language::parse(&value));
        declared.or_else(|| farol_parse::language::of_address(&exchange.url))
    });
    // Files without a date of their own are served as of 1970.
    let dated = parsed.dated.or(modified.filter(|at| at.date().0 >= FIRST_YEAR));
    let dated = dated.filter(|at| *at <= exchange.fetched);
    let content_type = exchange.header("content-type");
    let told = VisitFacts {
        url: &exchange.url,
        address: exchange.address,
        language,
        content_type: content_type.as_deref(),
        dated,
        title: &parsed.title,
    };
    let outside = view.and_then(|view| view.why_outside(&told));
    // A seed is where the crawl begins, so its links count whatever it is itself; so do those of where it was moved to.
    if outside.is_some() && depth > 0 {
        found.clear();
    }
    let stays_out = if !matches!(parsed.kind, Kind::Html | Kind::PlainText) {
        let called = exchange.header("content-type").unwrap_or_default();
        Some(StaysOut::NotText(called.split(';').next().unwrap_or_default().trim().to_string()))
    } else if parsed.noindex {
        Some(StaysOut::NoIndex)
    } else if parsed.unavailable_after.is_some_and(|end| exchange.fetched >= end) {
        Some(StaysOut::Expired)
    } else if let Some(to) = elsewhere {
        Some(StaysOut::Elsewhere(to))
    } else if parsed.title.is_empty() && parsed.body.is_empty() {
        Some(StaysOut::Empty)
    } else {
        outside.map(StaysOut::OutsideView)
    };
    let (content_hash, noarchive) = (parsed.content_hash, parsed.noarchive);
    let shown = if parsed.nosnippet { Shown::Nothing } else { Shown::Passage };
    let is_day = HostShape::calendar_of(&exchange.url).is_some();
    let timeless = is_day.then(|| timeless::fingerprint([&parsed.title, &parsed.body, &parsed.rest]));
    let links = std::mem::take(&mut parsed.links);
    let document = || Document {
        url: exchange.url.clone(),
        title: parsed.title,
        headings: parsed.headings,
        body: parsed.body,
        rest: parsed.rest,
        description: parsed.description,
        anchors: String::new(),
        language,
        file_type: parsed.file_type,
        fetched: exchange.fetched,
        dated,
        content_hash,
        simhash: parsed.simhash,
        position: PagePosition::default(),
        shown,
        source: None,
    };
    let document = stays_out.map_or_else(|| Ok(document()), Err);
    Interpreted {
        outcome: PageOutcome::Page(Box::new(PageContent {
            document,
            nofollow: !follow,
            noarchive,
            content_hash,
            timeless,
            modified,
        })),
        links,
        found,
        moved,
    }
}

/// Undoes gzip that is part of the file itself, as in `sitemap.xml.gz`.
fn unpacked(body: &[u8]) -> Cow<'_, [u8]> {
    if !body.starts_with(&[0x1f, 0x8b]) {
        return Cow::Borrowed(body);
    }
    let mut plain = Vec::new();
    let _ = flate2::read::MultiGzDecoder::new(body).take(SITEMAP_BYTES_MAX).read_to_end(&mut plain);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exchange(url: &str, status: u16, head: &str, body: &str) -> Exchange {
        Exchange {
            url: CanonicalUrl::parse(url).unwrap(),
            fetched: Timestamp::from_secs(1_700_000_000),
            address: None,
            status,
            request_head: Vec::new(),
            response_head: format!("HTTP/1.1 {status} X\r\n{head}\r\n\r\n").into_bytes(),
            body: body.as_bytes().to_vec().into(),
            truncated: None,
            protocol: "http/1.1".into(),
            revisit_of: None,
            metadata: Vec::new(),
        }
    }

    fn read(url: &str, status: u16, head: &str, body: &str) -> Interpreted {
        let interpreter = Interpreter { agent: "farol".to_string(), wants: Wants::Everything, view: None };
        interpreter.interpret(&exchange(url, status, head, body), 3)
    }

    fn found(interpreted: &Interpreted) -> Vec<(&str, u16)> {
        interpreted.found.iter().map(|found| (found.url.as_str(), found.depth)).collect()
    }

    fn moved(interpreted: &Interpreted) -> Option<(&str, u16)> {
        interpreted.moved.as_ref().map(|moved| (moved.to.url.as_str(), moved.to.depth))
    }

    #[test]
    fn a_page_that_says_where_it_is_instead_has_moved() {
        for body in ["<link rel=canonical href=/b>", "<meta http-equiv=refresh content='0; url=/b'>"] {
            let interpreted = read("http://h/a", 200, "Content-Type: text/html", body);
            assert_eq!(
                (moved(&interpreted), found(&interpreted)),
                (Some(("http://h/b", 3)), vec![]),
                "{body}"
            );
        }
        assert_eq!(
            moved(&read("http://h/a", 200, "Content-Type: text/html", "<link rel=canonical href=/a>")),
            None
        );
    }

    #[test]
    fn a_page_outside_the_view_stays_out_with_its_links_unless_it_is_a_seed() {
        let crawl = crate::config::Crawl { scope: "lang:pt".parse().unwrap(), ..Default::default() };
        let interpreter = Interpreter {
            agent: "farol".to_string(),
            wants: Wants::Everything,
            view: CrawlView::open(&crawl).unwrap(),
        };
        let body = "<html lang=es><title>Hola</title><p>Unas palabras <a href=/x>aqui</a></p></html>";
        for (lang, depth, indexed, links) in [("es", 3, false, 0), ("es", 0, false, 1), ("pt", 3, true, 1)] {
            let body = body.replace("lang=es", &format!("lang={lang}"));
            let page = exchange("http://h/", 200, "Content-Type: text/html", &body);
            let interpreted = interpreter.interpret(&page, depth);
            assert_eq!(interpreted.found.len(), links, "{lang} {depth}");
            let PageOutcome::Page(page) = interpreted.outcome else { panic!() };
            match page.document {
                Ok(_) => assert!(indexed),
                Err(StaysOut::OutsideView(why)) => {
                    assert!(!indexed && why.written().contains("lang:pt"), "{why:?}")
                }
                Err(other) => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_redirect_names_its_target() {
        let interpreted = read("http://h/a", 301, "Location: ../b", "");
        assert!(matches!(interpreted.outcome, PageOutcome::Redirect));
        assert_eq!(moved(&interpreted), Some(("http://h/b", 3)));
        // A redirect to itself, to nowhere or to another scheme leads nowhere.
        for location in ["Location: /a", "Location: mailto:x@y", "X: y"] {
            assert!(matches!(read("http://h/a", 302, location, "").outcome, PageOutcome::Gone), "{location}");
        }
    }

    #[test]
    fn a_page_gives_links_and_a_document() {
        let body = "<title>Hi</title><p>Some words here <a href=/x>next</a> <a rel=nofollow href=/y>ad</a>";
        let head = "Content-Type: text/html\r\nLast-Modified: Sun, 06 Nov 1994 08:49:37 GMT";
        let interpreted = read("http://h/", 200, head, body);
        assert_eq!(found(&interpreted), [("http://h/x", 4)]);
        assert_eq!(interpreted.links.len(), 2);
        let PageOutcome::Page(page) = interpreted.outcome else { panic!("{:?}", interpreted.outcome) };
        let document = page.document.unwrap();
        assert_eq!(document.title, "Hi");
        assert_eq!(document.dated, Timestamp::parse("1994-11-06T08:49:37Z"));
        let head = "Content-Type: text/html\r\nLast-Modified: Thu, 01 Jan 1970 00:00:01 GMT";
        let PageOutcome::Page(page) = read("http://h/", 200, head, body).outcome else { panic!("a page") };
        assert_eq!(page.document.unwrap().dated, None, "there was no Web");
    }

    #[test]
    fn a_page_that_asks_to_stay_out_stays_out() {
        let stays_out = |head: &str, body: &str| {
            let interpreted = read("http://h/", 200, &format!("Content-Type: text/html\r\n{head}"), body);
            matches!(&interpreted.outcome, PageOutcome::Page(page) if page.document.is_err())
        };
        assert!(stays_out("X-Robots-Tag: noindex", "<title>a</title>words"));
        assert!(stays_out("", "<meta name=robots content=noindex><title>a</title>words"));
        assert!(stays_out("", "<link rel=canonical href=/other><title>a</title>words"));
        assert!(stays_out("X-Robots-Tag: unavailable_after: 2020-01-01", "<title>a</title>words"));
        assert!(!stays_out("X-Robots-Tag: unavailable_after: 2999-01-01", "<title>a</title>words"));
        assert!(!stays_out("", "<link rel=canonical href=/><title>a</title>words"));
        // Another site cannot be spoken for.
        assert!(!stays_out("", "<link rel=canonical href=http://victim.org/><title>a</title>words"));
    }

    #[test]
    fn lists_are_addresses_not_pages() {
        let map = "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>\
                   <url><loc>http://h/p</loc><lastmod>2024-05-06</lastmod></url></urlset>";
        let interpreted = read("http://h/sitemap.xml", 200, "Content-Type: application/xml", map);
        assert!(matches!(interpreted.outcome, PageOutcome::List));
        assert_eq!(found(&interpreted), [("http://h/p", 4)]);
        assert_eq!(interpreted.found[0].hint, Timestamp::parse("2024-05-06"));
    }

    #[test]
    fn a_packed_list_is_read_whatever_its_content_type() {
        use std::io::Write;
        let lists =
            [("a.xml.gz", "<urlset><url><loc>http://h/p</loc></url></urlset>"), ("b.txt.gz", "http://h/p\n")];
        for (name, list) in lists {
            let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packer.write_all(list.as_bytes()).unwrap();
            let packed = packer.finish().unwrap();
            for kind in ["application/gzip", "application/x-gzip", "application/octet-stream", "text/plain"] {
                let url = format!("http://h/{name}");
                let head = format!("Content-Type: {kind}");
                let exchange = Exchange { body: packed.clone().into(), ..exchange(&url, 200, &head, "") };
                let interpreter =
                    Interpreter { agent: "farol".to_string(), wants: Wants::Everything, view: None };
                assert_eq!(found(&interpreter.interpret(&exchange, 3)), [("http://h/p", 4)], "{name} {kind}");
            }
        }
    }

    #[test]
    fn other_answers() {
        assert!(matches!(read("http://h/x", 404, "A: b", "").outcome, PageOutcome::Gone));
        assert!(matches!(read("http://h/x", 304, "A: b", "").outcome, PageOutcome::NotModified));
        let refuses = |status| {
            let interpreted = read("http://h/robots.txt", status, "A: b", "User-agent: *\nDisallow: /");
            matches!(interpreted.outcome, PageOutcome::Robots(rules) if !rules.verdict("/").is_allowed())
        };
        assert!(refuses(200));
        assert!(!refuses(404), "a site without robots.txt allows everything");
    }
}
