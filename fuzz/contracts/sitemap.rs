//! Any bytes as a sitemap: XML, text, an index, gzip.
//!
//! Contract: reading never fails, and what it takes from the file is within the limits of the protocol.

use farol_base::CanonicalUrl;
use farol_parse::sitemap::{ENTRIES_MAX, Sitemap, parse};

pub fn check(bytes: &[u8]) {
    let base = CanonicalUrl::parse("http://h/sitemap.xml").expect("a constant URL");
    let (Sitemap::Index(entries) | Sitemap::Urls(entries), complaints) = parse(bytes, &base);
    assert!(entries.len() <= ENTRIES_MAX && complaints.len() <= 8);
}
