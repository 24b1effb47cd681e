//! Any bytes as a page: both ways of reading find the same links.
#![no_main]

use farol_base::CanonicalUrl;
use farol_parse::{PageInput, Wants, page};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let url = CanonicalUrl::parse("http://h/a/b").unwrap();
    let read = |wants| {
        page(&PageInput { url: &url, content_type: Some("text/html"), body: bytes, robots_tags: &[], agent: "farol", wants })
    };
    let (all, links) = (read(Wants::Everything), read(Wants::LinksOnly));
    let urls = |parsed: &farol_parse::Parsed| parsed.links.iter().map(|link| link.url.clone()).collect::<Vec<_>>();
    assert_eq!(urls(&all), urls(&links));
});
