//! Any bytes as a sitemap.
#![no_main]

use farol_base::CanonicalUrl;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let base = CanonicalUrl::parse("http://h/sitemap.xml").unwrap();
    let _ = farol_parse::sitemap::parse(bytes, &base);
});
