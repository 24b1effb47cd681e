//! Any bytes as a page.
//!
//! Contract: reading never fails; both ways of reading, for the index and for the links alone, find the same
//! links.

use farol_base::CanonicalUrl;
use farol_parse::{PageInput, Parsed, Wants, page};

pub fn check(bytes: &[u8]) {
    let url = CanonicalUrl::parse("http://h/a/b").expect("a constant URL");
    let read = |wants| {
        let (content_type, robots_tags, agent) = (Some("text/html"), &[][..], "farol");
        page(&PageInput { url: &url, content_type, body: bytes, robots_tags, agent, wants })
    };
    let (all, links) = (read(Wants::Everything), read(Wants::LinksOnly));
    let urls = |parsed: &Parsed| parsed.links.iter().map(|link| link.url.clone()).collect::<Vec<_>>();
    assert_eq!(urls(&all), urls(&links));
}
