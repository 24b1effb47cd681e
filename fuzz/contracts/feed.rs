//! Any bytes as a feed.
//!
//! Contract: reading never fails, and reading again gives the same.

use farol_base::CanonicalUrl;

pub fn check(bytes: &[u8]) {
    let base = CanonicalUrl::parse("http://h/feed").expect("a constant URL");
    let urls = || farol_parse::feed::parse(bytes, &base).map(|entries| entries.len());
    assert_eq!(urls(), urls());
}
