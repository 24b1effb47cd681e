//! Any text as a URL: what is read is a fixed point, and so is what it is joined with.
#![no_main]

use farol_base::CanonicalUrl;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(url) = CanonicalUrl::parse(text) {
        assert_eq!(CanonicalUrl::parse(url.as_str()).as_ref(), Ok(&url));
        assert_eq!(url.host().url(url.path_and_query()).as_ref(), Ok(&url));
    }
    let base = CanonicalUrl::parse("http://h/a/b?c").unwrap();
    if let Ok(url) = base.join(text) {
        assert_eq!(CanonicalUrl::parse(url.as_str()).as_ref(), Ok(&url));
    }
});
