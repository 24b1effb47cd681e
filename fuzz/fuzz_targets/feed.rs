//! Any bytes as a feed.
#![no_main]

use farol_base::CanonicalUrl;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let base = CanonicalUrl::parse("http://h/feed").unwrap();
    let _ = farol_parse::feed::parse(bytes, &base);
});
