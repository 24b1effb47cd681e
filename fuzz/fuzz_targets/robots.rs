//! Any bytes as robots.txt, asked about a path made of the same bytes.
#![no_main]

use farol_parse::robots::{Robots, Verdict};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let robots = Robots::parse(bytes, "farol");
    let path = format!("/{}", String::from_utf8_lossy(&bytes[..bytes.len().min(200)]));
    let _ = robots.verdict(&path);
    assert!(matches!(robots.verdict("/robots.txt"), Verdict::Allowed { .. }));
});
