//! Any bytes as robots.txt, after a first line that is the path to be judged.
//!
//! Contract: reading never fails; `/robots.txt` is always allowed; a verdict names a rule where it refuses; a
//! file of 64 KiB and a path of the greatest length, made by repeating the bytes, take bounded work
//! (the time limit of the fuzzer is the judge).

use farol_base::url::URL_BYTES_MAX;
use farol_parse::robots::{Robots, Verdict};

/// How large a file is made of a small one: enough for anything quadratic to show.
const REPEATED_BYTES: usize = 64 << 10;

pub fn check(bytes: &[u8]) {
    let line_end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (path, file) = bytes.split_at(line_end);
    let path = String::from_utf8_lossy(path).into_owned();
    judge(&Robots::parse(file, "farol"), &format!("/{path}"));
    // One in sixteen, for it takes as long as all others together.
    if bytes.len() % 16 == 3 && !file.is_empty() {
        let file = file.repeat(REPEATED_BYTES.div_ceil(file.len()));
        let path = format!("/{}", path.repeat(URL_BYTES_MAX / path.len().max(1)));
        judge(&Robots::parse(&file, "farol"), &path);
    }
}

fn judge(robots: &Robots, path: &str) {
    if let Verdict::Refused { rule } = robots.verdict(path) {
        assert!(!rule.is_empty());
    }
    assert!(robots.verdict("/robots.txt").is_allowed());
    assert!(robots.crawl_delay().is_none_or(|delay| delay <= farol_parse::robots::CRAWL_DELAY_MAX));
}
