//! `farol search`: results in the terminal.

use super::{Place, ask};
use crate::progress::counted;
use anyhow::Result;
use serde_json::Value;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct Search {
    /// What to look for; site:, lang: and so on work as on the search page; quote -words: 'a -b'
    #[arg(required = true, value_name = "WORDS")]
    words: Vec<String>,
    #[command(flatten)]
    place: Place,
    /// As JSON
    #[arg(long)]
    json: bool,
    /// How many results
    #[arg(short = 'n', long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=100))]
    count: u16,
    /// How many results to pass over first
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u16).range(0..=1000))]
    first: u16,
}

pub fn run(args: &Search) -> Result<ExitCode> {
    let words = args.words.join(" ");
    let path = format!("/api/v1/search?q={}&first={}&count={}", ask::escaped(&words), args.first, args.count);
    let answer = ask::ask(&args.place, &path, ask::Wants::Everything)?;
    let mut out = std::io::stdout().lock();
    if args.json {
        writeln!(out, "{}", serde_json::to_string_pretty(&answer)?)?;
    } else {
        let colours = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
        out.write_all(page(&answer, args.first, colours).as_bytes())?;
    }
    let found = answer.get("hits").and_then(Value::as_array).is_some_and(|hits| !hits.is_empty());
    Ok(if found { ExitCode::SUCCESS } else { ExitCode::from(super::NOTHING_FOUND) })
}

struct Style {
    title: &'static str,
    url: &'static str,
    hit: &'static str,
    faint: &'static str,
    off: &'static str,
}

const COLOURED: Style =
    Style { title: "\x1b[1;36m", url: "\x1b[32m", hit: "\x1b[1m", faint: "\x1b[2m", off: "\x1b[0m" };
const PLAIN: Style = Style { title: "", url: "", hit: "", faint: "", off: "" };

fn page(answer: &Value, first: u16, colours: bool) -> String {
    let style = if colours { COLOURED } else { PLAIN };
    let mut out = String::new();
    let text =
        |value: &Value, key: &str| value.get(key).and_then(Value::as_str).map(clean).unwrap_or_default();
    let hits = answer.get("hits").and_then(Value::as_array).cloned().unwrap_or_default();
    for complaint in answer.get("complaints").and_then(Value::as_array).into_iter().flatten() {
        let message = complaint.as_str().map(clean).unwrap_or_else(|| text(complaint, "message"));
        out.push_str(&format!("{}{message}{}\n", style.faint, style.off));
    }
    for (i, hit) in hits.iter().enumerate() {
        let number = usize::from(first) + i + 1;
        let title = fragments(hit.get("title_fragments"), style.title, style.title, &style);
        out.push_str(&format!("{number:>3}. {}{title}{}\n", style.title, style.off));
        out.push_str(&format!("     {}{}{}\n", style.url, text(hit, "url"), style.off));
        let snippet = fragments(hit.get("snippet_fragments"), style.hit, "", &style);
        if !snippet.is_empty() {
            out.push_str(&format!("     {snippet}\n"));
        }
        out.push('\n');
    }
    let total = answer.get("total").and_then(Value::as_u64).unwrap_or(0);
    out.push_str(&format!("{}{} found{}\n", style.faint, counted(total, "page"), style.off));
    if answer.get("generation").and_then(Value::as_u64) == Some(0) {
        out.push_str("Nothing is indexed yet: `farol up` and `farol serve` index what was crawled.\n");
    }
    if let Some(suggestion) = answer.get("suggestion").and_then(Value::as_str) {
        out.push_str(&format!("Did you mean: {}\n", clean(suggestion)));
    }
    out
}

/// Pieces of text, the words asked for in another style.
fn fragments(value: Option<&Value>, on: &str, base: &str, style: &Style) -> String {
    match value {
        Some(Value::Array(parts)) => parts
            .iter()
            .map(|part| {
                let text = clean(part.get("text").and_then(Value::as_str).unwrap_or(""));
                match part.get("hit").and_then(Value::as_bool) {
                    Some(true) => format!("{on}{text}{}{base}", style.off),
                    _ => text,
                }
            })
            .collect(),
        Some(Value::String(text)) => clean(text),
        _ => String::new(),
    }
}

/// Pages come from strangers: control characters could rewrite the terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_results_reads_well_and_harms_no_terminal() {
        let answer = serde_json::json!({
            "total": 1234, "suggestion": "lighthouse",
            "hits": [{"url": "http://h/x", "title_fragments": [{"text": "A \u{1b}[31mlight", "hit": true}],
                      "snippet_fragments": [{"text": "the ", "hit": false}, {"text": "light", "hit": true}]}]
        });
        let plain = page(&answer, 10, false);
        assert_eq!(
            plain,
            " 11. A  [31mlight\n     http://h/x\n     the light\n\n1,234 pages found\nDid you mean: lighthouse\n"
        );
        assert!(page(&answer, 0, true).contains("\x1b[1mlight\x1b[0m"));
        let empty = serde_json::json!({ "total": 0, "generation": 0, "hits": [] });
        assert!(page(&empty, 0, false).starts_with("0 pages found\nNothing is indexed yet: `farol up`"));
    }
}
