//! `farol explain`: why a page is found or not, who links to it, and when it is visited.

use super::{Place, ask};
use crate::progress::{counted, grouped, size, span};
use crate::seed::read_seed;
use anyhow::{Result, anyhow};
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct ExplainArgs {
    /// Address of the page
    #[arg(value_name = "URL")]
    url: String,
    #[command(flatten)]
    place: Place,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let url = read_seed(&args.url)
        .map_err(|error| anyhow!(error.replace("cannot be a seed", "cannot be looked up")))?;
    let path = format!("/api/v1/page?url={}", ask::escaped(url.as_str()));
    let page = ask::ask(&args.place, &path, ask::Wants::Everything)?;
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&page)?),
        false => explained(&page, &args.url),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(if page["indexed"] == true { ExitCode::SUCCESS } else { ExitCode::from(super::NOTHING_FOUND) })
}

fn explained(page: &Value, typed: &str) -> String {
    let text = |path: &str| page.pointer(path).and_then(Value::as_str).map(clean);
    let number = |path: &str| page.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let list = |path: &str| page.pointer(path).and_then(Value::as_array).cloned().unwrap_or_default();
    let url = text("/url").unwrap_or_default();
    let mut out = format!("{}\n", text("/verdict/message").unwrap_or_default());
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:<12} {value}");
    };
    line("page", if url == typed { url } else { format!("{url} (as it is known here)") });
    for other in list("/similar") {
        line("known is", other.as_str().map(clean).unwrap_or_default());
    }
    if let Some(title) = text("/title").filter(|title| !title.is_empty()) {
        let language = text("/language").map_or(String::new(), |language| format!(" ({language})"));
        line("title", format!("{title}{language}"));
    }
    if let Some(to) = text("/moved_to") {
        line("leads to", to);
    }
    for twin in list("/same_text") {
        line("same text", twin.as_str().map(clean).unwrap_or_default());
    }
    line(
        "robots.txt",
        match (page.pointer("/robots/allowed").and_then(Value::as_bool), text("/robots/rule")) {
            (None, _) => "not read yet".to_string(),
            (Some(true), None) => "allows it".to_string(),
            (Some(true), Some(rule)) => format!("allows it ({rule})"),
            (Some(false), rule) => format!("forbids it ({})", rule.unwrap_or_default()),
        },
    );
    if let Some(why) = text("/out_of_scope") {
        line("scope", format!("outside: {why}"));
    }
    if text("/state").is_some() {
        let seed = if page["is_seed"] == true { ", a seed".to_string() } else { String::new() };
        line("found", format!("{} from a seed{seed}", counted(number("/depth"), "link")));
        line("visits", visits(page));
    }
    if let Some(state) = text("/host/state") {
        let wakes = text("/host/wakes").map_or(String::new(), |at| format!(" until {at}"));
        line("host", format!("{state}{wakes}"));
    }
    for visit in list("/log") {
        let of = |name: &str| visit[name].as_str().map(clean).unwrap_or_default();
        let status = visit["status"].as_u64().map_or("–".to_string(), |status| status.to_string());
        let bytes = size(visit["bytes"].as_u64().unwrap_or(0));
        line("visited", format!("{}  {status:>3}  {bytes:>9}  {}", of("at"), of("outcome")));
    }
    if page["log_is_whole"] == false {
        line("", "more in the archive: `farol export visits` lists all".to_string());
    }
    let (links, pages) = (list("/linked_from/links"), number("/linked_from/pages"));
    for link in &links {
        let anchor = link["text"].as_str().map(clean).filter(|anchor| !anchor.is_empty());
        let anchor = anchor.map_or(String::new(), |anchor| format!("  \"{anchor}\""));
        line("linked from", format!("{}{anchor}", link["url"].as_str().map(clean).unwrap_or_default()));
    }
    let more = pages.saturating_sub(links.len() as u64);
    if more > 0 {
        line("", format!("and {}", counted(more, "more page")));
    }
    out
}

/// How often a page was visited, and when it is next, in a sentence.
fn visits(page: &Value) -> String {
    let text = |name: &str| page[name].as_str().map(clean);
    let Some(last) = text("last_visit") else { return "none yet".to_string() };
    let failures = page["failures"].as_u64().filter(|failures| *failures > 0);
    let failed = failures.map_or(String::new(), |count| format!(", {count} failed in a row"));
    let next = match text("next_visit") {
        Some(next) => {
            let every = page["interval_seconds"].as_f64().filter(|secs| *secs > 0.0);
            let every = every.map_or(String::new(), |secs| format!(" (every {})", span(secs)));
            format!("next {next}{every}")
        }
        None => "not again".to_string(),
    };
    format!("{}, last {last}{failed}; {next}", grouped(page["visits"].as_u64().unwrap_or(0)))
}

/// Pages come from strangers: control characters could rewrite the terminal.
fn clean(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_is_explained_in_lines_that_harm_no_terminal() {
        let page = json!({
            "url": "http://h/a", "verdict": {"code": "found", "message": "It can be found."}, "state": "collected",
            "title": "A \u{1b}[31mtitle", "language": "en", "is_seed": true, "depth": 0, "indexed": true,
            "robots": {"allowed": false, "rule": "Disallow: /a"}, "visits": 7, "failures": 2, "log_is_whole": false,
            "last_visit": "2026-01-01T00:00:00Z", "next_visit": "2026-01-03T00:00:00Z", "interval_seconds": 7200.0,
            "log": [{"at": "2026-01-01T00:00:00Z", "status": 200, "outcome": "a page", "bytes": 2048}],
            "linked_from": {"pages": 9, "links": [{"url": "http://h/b", "text": "the page"}]},
            "same_text": ["http://h/c"],
        });
        let said = explained(&page, "h/a");
        for part in [
            "It can be found.\npage         http://h/a (as it is known here)\n",
            "title        A  [31mtitle (en)\n",
            "robots.txt   forbids it (Disallow: /a)\n",
            "found        0 links from a seed, a seed\n",
            "7, last 2026-01-01T00:00:00Z, 2 failed in a row; next 2026-01-03T00:00:00Z (every 2",
            "200",
            "more in the archive",
            "linked from  http://h/b  \"the page\"\n             and 8 more pages\n",
            "same text    http://h/c\n",
        ] {
            assert!(said.contains(part), "{part:?}: {said}");
        }
        let unknown = explained(
            &json!({ "url": "http://h/a", "robots": null, "similar": ["https://h/a"] }),
            "http://h/a",
        );
        assert!(
            unknown.contains("not read yet") && unknown.contains("known is     https://h/a"),
            "{unknown}"
        );
    }
}
