//! Reads whatever a server sent: a page, or a list of addresses in the form of a feed or a sitemap.
//!
//! Decides which of the readers the bytes are for; each of them does its own work.

use crate::feed::{self, FeedEntry};
use crate::page::page_of_kind;
use crate::sitemap::{self, Sitemap};
use crate::{Kind, PageInput, Parsed, kind};

/// How far into a text is looked for lines that are no addresses.
const LIST_BYTES_LOOKED_AT: usize = 16 << 10;

/// What a file turned out to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A page, or a file of which nothing but its hash is known.
    Page(Box<Parsed>),
    /// A feed: addresses to visit rather than text to be found. It may announce nothing.
    Feed(Vec<FeedEntry>),
    /// A sitemap that lists at least one address.
    Sitemap(Sitemap),
}

/// Reads a file. XML is read as a feed, else as a sitemap, else as a page, whatever type its server gives it; so is text
/// that has an address on each line, or whose own address says that it is a sitemap. Never fails, as [`page`](crate::page()) does not.
///
/// ```
/// use farol_base::CanonicalUrl;
/// use farol_parse::{Content, PageInput, Wants, read};
/// let content = read(&PageInput {
///     url: &CanonicalUrl::parse("http://h/sitemap.txt").unwrap(),
///     content_type: Some("text/plain"),
///     body: b"http://h/a\nhttp://h/b\n",
///     robots_tags: &[],
///     agent: "farol",
///     wants: Wants::Everything,
/// });
/// let Content::Sitemap(sitemap) = content else { panic!() };
/// assert_eq!(sitemap.into_entries()[1].loc.as_str(), "http://h/b");
/// ```
pub fn read(input: &PageInput<'_>) -> Content {
    let kind = kind::sniff(input.content_type, input.body);
    let by_bytes = if kind == Kind::Other { kind::sniff(None, input.body) } else { kind };
    let is_list = match by_bytes {
        Kind::Xml => true,
        Kind::PlainText => is_named_sitemap_text(input) || is_list_of_addresses(input.body),
        Kind::Html | Kind::Other => is_named_sitemap_text(input),
    };
    if is_list {
        if let Some(entries) = feed::parse(input.body, input.url) {
            return Content::Feed(entries);
        }
        let (sitemap, _) = sitemap::parse(input.body, input.url);
        if !sitemap.is_empty() {
            return Content::Sitemap(sitemap);
        }
    }
    Content::Page(Box::new(page_of_kind(input, kind)))
}

/// Sitemaps in plain text look like any other text; their address tells them apart.
fn is_named_sitemap_text(input: &PageInput<'_>) -> bool {
    let path = input.url.path().to_ascii_lowercase();
    path.contains("sitemap") && (path.ends_with(".txt") || path.ends_with(".txt.gz"))
}

/// Whether each of the first lines is an address and nothing else, as in a sitemap in plain text.
fn is_list_of_addresses(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    let cut = body.len() > LIST_BYTES_LOOKED_AT;
    let body = &body[..body.len().min(LIST_BYTES_LOOKED_AT)];
    let mut lines: Vec<&[u8]> =
        body.split(|b| *b == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty()).collect();
    if cut {
        lines.pop();
    }
    let is_address = |line: &&[u8]| {
        (line.starts_with(b"http://") || line.starts_with(b"https://"))
            && !line.iter().any(u8::is_ascii_whitespace)
    };
    !lines.is_empty() && lines.iter().all(is_address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Wants, page};
    use farol_base::CanonicalUrl;

    const RSS: &str = "<rss><channel><item><link>/a</link></item></channel></rss>";
    const URLSET: &str = "<urlset><url><loc>http://h/a</loc></url></urlset>";

    /// What a file is, and how many addresses it lists; a page must be what the page's own reader makes of it.
    #[track_caller]
    fn check(url: &str, content_type: &str, body: &str, want: (&str, usize)) {
        let url = CanonicalUrl::parse(url).unwrap();
        let input = PageInput {
            url: &url,
            content_type: Some(content_type),
            body: body.as_bytes(),
            robots_tags: &[],
            agent: "farol",
            wants: Wants::Everything,
        };
        let got = match read(&input) {
            Content::Page(parsed) => {
                assert_eq!(*parsed, page(&input));
                ("page", 0)
            }
            Content::Feed(entries) => ("feed", entries.len()),
            Content::Sitemap(sitemap) => ("sitemap", sitemap.into_entries().len()),
        };
        assert_eq!(got, want, "{url} {content_type} {body}");
    }

    #[test]
    fn xml_is_a_feed_a_sitemap_or_a_page() {
        check("http://h/x", "application/xml", RSS, ("feed", 1));
        check("http://h/x", "application/rss+xml", "<rss><channel></channel></rss>", ("feed", 0));
        check("http://h/x", "text/html", RSS, ("feed", 1));
        check("http://h/x", "application/xml", URLSET, ("sitemap", 1));
        check("http://h/x", "text/plain", URLSET, ("sitemap", 1));
        let index = "<sitemapindex><sitemap><loc>http://h/s</loc></sitemap></sitemapindex>";
        check("http://h/x", "text/xml", index, ("sitemap", 1));
        check("http://h/sitemap.xml", "application/xml", "<urlset></urlset>", ("page", 0));
        check("http://h/x", "application/xml", "<note>no list</note>", ("page", 0));
    }

    #[test]
    fn a_list_is_one_whatever_type_its_server_gives_it() {
        for content_type in
            ["application/gzip", "application/x-gzip", "binary/octet-stream", "image/png", "text/css"]
        {
            check("http://h/sitemap.xml.gz", content_type, URLSET, ("sitemap", 1));
            check("http://h/feed", content_type, RSS, ("feed", 1));
            check("http://h/sitemap.txt.gz", content_type, "http://h/a\n\nhttps://h/b", ("sitemap", 2));
            check("http://h/changelog.gz", content_type, "Words of a changelog", ("page", 0));
        }
    }

    #[test]
    fn text_is_a_sitemap_where_it_is_all_addresses_or_its_own_address_says_so() {
        let list = "http://h/a\nhttp://h/b\n";
        check("http://h/x.txt", "text/plain", list, ("sitemap", 2));
        check("http://h/x.txt", "text/plain", "See http://h/a\nhttp://h/b\n", ("page", 0));
        check("http://h/x.txt", "text/plain", "http://h/a is better\nhttp://h/b\n", ("page", 0));
        check("http://h/sitemap.txt", "text/plain", "# ours\nhttp://h/a", ("sitemap", 1));
        check("http://h/Sitemap-2.TXT", "text/plain", list, ("sitemap", 2));
        check("http://h/sitemaps/a.txt", "text/plain", list, ("sitemap", 2));
        check("http://h/sitemap.txt", "text/plain", "Nothing but words.", ("page", 0));
        check("http://h/sitemap.txt", "text/html", "<title>Lost</title>", ("page", 0));
    }
}
