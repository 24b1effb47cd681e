//! Any text as a URL, alone and as a reference on a page whose URL is its first line.
//!
//! Contract: what is read is a fixed point, so that equal texts mean equal pages; it can be put together
//! again from its host and its path; it is no longer than the limit; a base that a page sets never makes a
//! reference anything else.

use farol_base::CanonicalUrl;
use farol_base::url::URL_BYTES_MAX;

pub fn check(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(url) = CanonicalUrl::parse(text) {
        is_canonical(&url);
    }
    let (first, rest) = text.split_once('\n').unwrap_or(("http://h/a/b?c", text));
    let Ok(page) = CanonicalUrl::parse(first) else { return };
    if let Ok(url) = page.join(rest) {
        is_canonical(&url);
    }
    let (base, reference) = rest.split_once('\n').unwrap_or((rest, "x"));
    let mut rebased = page.to_base();
    rebased.rebase(base);
    if let Ok(url) = rebased.join(reference) {
        is_canonical(&url);
    }
}

fn is_canonical(url: &CanonicalUrl) {
    assert_eq!(CanonicalUrl::parse(url.as_str()).as_ref(), Ok(url));
    assert_eq!(CanonicalUrl::from_stored(url.as_str()).as_ref(), Ok(url));
    assert_eq!(url.host().url(url.path_and_query()).as_ref(), Ok(url));
    assert!(url.as_str().len() <= URL_BYTES_MAX && url.path_and_query().starts_with('/'));
}
