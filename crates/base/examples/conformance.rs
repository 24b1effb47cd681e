//! Runs other people's test cases for URLs, international host names and public suffixes.
//!
//! ```text
//! cargo run -p farol-base --example conformance -- --urls urltestdata.json --idna IdnaTestV2.txt --suffixes test_psl.txt
//! ```
//!
//! The files are those of the Web Platform Tests, of Unicode's UTS 46 and of the public suffix list. Only cases that
//! can concern a crawler count: http and https. What the canonical spelling changes on purpose (fragments, session
//! ids, …) is changed in the expectation too, by reading the expected URL the same way.

use farol_base::{CanonicalUrl, Host};
use serde_json::Value;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut wrong = 0;
    for pair in arguments.chunks(2) {
        let [kind, path] = pair else { panic!("each flag needs a file") };
        let text =
            std::fs::read_to_string(path).unwrap_or_else(|error| panic!("cannot read {path}: {error}"));
        let (name, cases) = match kind.as_str() {
            "--urls" => ("URL", urls(&text)),
            "--idna" => ("IDNA", idna(&text)),
            "--suffixes" => ("public suffix", suffixes(&text)),
            other => panic!("unknown flag {other}"),
        };
        let bad: Vec<&String> = cases.iter().filter_map(|case| case.as_ref().err()).collect();
        println!("{name}: {} of {} cases right", cases.len() - bad.len(), cases.len());
        bad.iter().take(20).for_each(|case| println!("  {case}"));
        wrong += bad.len();
    }
    std::process::exit(i32::from(wrong > 0));
}

type Case = Result<(), String>;

fn urls(text: &str) -> Vec<Case> {
    let json: Value = serde_json::from_str(text).expect("a list of cases");
    json.as_array().expect("a list of cases").iter().filter_map(url_case).collect()
}

fn url_case(case: &Value) -> Option<Case> {
    let input = case.get("input")?.as_str()?;
    let got = match case.get("base").and_then(Value::as_str) {
        Some(base) => CanonicalUrl::parse(base).ok()?.join(input),
        None => CanonicalUrl::parse(input),
    };
    if case.get("failure").and_then(Value::as_bool) == Some(true) {
        return Some(if got.is_err() { Ok(()) } else { Err(format!("{input:?} should fail, got {got:?}")) });
    }
    let href = case.get("href")?.as_str()?;
    let want = CanonicalUrl::parse(href);
    // Other schemes are refused on both sides.
    Some(match (&got, &want) {
        (Ok(got), Ok(want)) if got == want => Ok(()),
        (Err(_), Err(_)) => Ok(()),
        _ => Err(format!("{input:?} gave {got:?} instead of {want:?}")),
    })
}

/// Lines of `source; toUnicode; status; toAsciiN; status; …`, where an empty field repeats the one before.
fn idna(text: &str) -> Vec<Case> {
    text.lines()
        .map(|line| line.split('#').next().unwrap_or("").trim())
        .filter(|line| !line.is_empty())
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(';').map(str::trim).collect();
            let source = unescape(fields.first()?)?;
            // A host cannot be empty or hold what ends a host in a URL.
            if source.is_empty()
                || source.contains(['/', '?', '#', '@', ':', '[', '\\', '%', ' ', '<', '>', '^', '|', '"'])
            {
                return None;
            }
            let or = |field: &str, otherwise: &str| {
                if field.is_empty() { otherwise.to_string() } else { field.to_string() }
            };
            let unicode = unescape(&or(fields.get(1)?, &source))?;
            let unicode_status = or(fields.get(2)?, "[]");
            let ascii = unescape(&or(fields.get(3)?, &unicode))?;
            let status = or(fields.get(4)?, &unicode_status);
            // The URL standard checks neither hyphens (V2, V3) nor lengths (A4) nor the STD3 rules (U1).
            let relevant = status
                .trim_matches(['[', ']'])
                .split(',')
                .map(str::trim)
                .any(|code| !code.is_empty() && !matches!(code, "V2" | "V3" | "A4_1" | "A4_2" | "U1"));
            let got = Host::parse(&format!("http://{source}/"));
            // A name that looks like an IPv4 address is one by the URL standard; names of dots alone are refused by ours.
            let last = ascii.trim_end_matches('.').rsplit('.').next().unwrap_or("");
            if last.is_empty() || last.bytes().all(|b| b.is_ascii_digit()) || last.starts_with("0x") {
                return None;
            }
            Some(match (relevant, got) {
                (true, Err(_)) => Ok(()),
                (true, Ok(got)) => Err(format!("{source:?} should be refused ({status}), got {got}")),
                (false, Ok(got)) if got.name() == ascii.trim_end_matches('.') => Ok(()),
                (false, got) => Err(format!("{source:?} gave {got:?} instead of {ascii:?}")),
            })
        })
        .collect()
}

/// Reads `\uXXXX` and `\x{XXXX}`; lone surrogates cannot stand in a Rust string and their cases are passed over.
fn unescape(text: &str) -> Option<String> {
    if text == "\"\"" {
        return Some(String::new());
    }
    let mut plain = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        plain.push_str(&rest[..at]);
        let (digits, after) = match rest[at..].strip_prefix("\\x{") {
            Some(tail) => tail.split_once('}')?,
            None => (rest.get(at + 2..at + 6)?, rest.get(at + 6..)?),
        };
        plain.push(char::from_u32(u32::from_str_radix(digits, 16).ok()?)?);
        rest = after;
    }
    plain.push_str(rest);
    Some(plain)
}

/// Lines of `checkPublicSuffix('www.example.com', 'example.com');`.
fn suffixes(text: &str) -> Vec<Case> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("checkPublicSuffix("))
        .filter_map(|line| {
            let mut fields =
                line.split(',').map(|field| field.trim().trim_end_matches([')', ';']).trim_matches('\''));
            let (name, want) = (fields.next()?, fields.next()?);
            let host = Host::parse(&format!("http://{name}/")).ok()?;
            // What has no registrable domain stands for itself.
            let want = if want == "null" {
                host.name().to_string()
            } else {
                Host::parse(&format!("http://{want}/")).ok()?.name().to_string()
            };
            let got = host.registrable_domain();
            Some(if got == want { Ok(()) } else { Err(format!("{name} gave {got} instead of {want}")) })
        })
        .collect()
}
