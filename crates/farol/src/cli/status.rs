//! `farol status`: how the engine is doing, in a screen of text.

use super::{Place, ask};
use crate::admin_key;
use crate::folder::Folder;
use crate::progress::{counted, grouped, size, span};
use anyhow::Result;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    place: Place,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &StatusArgs) -> Result<ExitCode> {
    let runs = Folder::open(&args.place.data)?.is_locked();
    let mut status = ask::ask(&args.place, "/api/v1/status", ask::Wants::Now)?;
    if !runs {
        stopped(&mut status);
    }
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&status)?),
        false => table(&status) + &dashboard(&args.place)?,
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

/// What is told of a folder that nobody runs: it was opened for this question alone, and by somebody who neither crawls
/// nor answers, so what such an engine says of itself is left out.
fn stopped(status: &mut Value) {
    if let Some(fields) = status.as_object_mut() {
        fields.insert("state".to_string(), "stopped".into());
        for own in ["queries", "memory_bytes", "uptime_seconds", "cache"] {
            fields.remove(own);
        }
    }
}

/// Where the running engine's dashboard opens; the link has the key, which whoever may read the folder may have.
fn dashboard(place: &Place) -> Result<String> {
    let folder = Folder::open(&place.data)?;
    let Some(address) = folder.listening().filter(|_| folder.is_locked()) else { return Ok(String::new()) };
    let config = place.settings()?;
    let link = admin_key::dashboard(address, &config, &admin_key::read(folder.path(), &config));
    Ok(format!("{:<12} {link}\n", "dashboard"))
}

fn table(status: &Value) -> String {
    let number = |path: &str| status.pointer(path).and_then(Value::as_u64).unwrap_or(0);
    let float = |path: &str| status.pointer(path).and_then(Value::as_f64).unwrap_or(0.0);
    let text = |path: &str| status.pointer(path).and_then(Value::as_str).unwrap_or("").to_string();
    let mut out = String::new();
    let mut line = |name: &str, value: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{name:<12} {value}");
    };
    let state = match (&*text("/state"), text("/message")) {
        ("stopped", message) if message.is_empty() => "stopped; `farol up` goes on".to_string(),
        (state, message) => format!("{} {message}", state.replace('_', " ")).trim_end().to_string(),
    };
    line("state", state);
    line(
        "pages",
        format!(
            "{} fetched, {:.1}/s now, {} waiting, {} known",
            grouped(number("/crawl/pages_fetched")),
            float("/crawl/pages_per_second"),
            grouped(number("/crawl/queue")),
            counted(number("/crawl/urls_known"), "URL")
        ),
    );
    line("seeds", seeds(status.pointer("/seeds")));
    line("hosts", listed(status.pointer("/crawl/hosts")));
    line("answers", listed(status.pointer("/crawl/status_codes")));
    line("errors", listed(status.pointer("/crawl/errors")));
    line(
        "index",
        format!(
            "{}, generation {}",
            counted(number("/index/documents"), "page"),
            grouped(number("/index/generation"))
        ),
    );
    // An engine that does not know yet says nothing.
    if status.pointer("/freshness/fresh").is_some() {
        line(
            "freshness",
            format!(
                "{:.1}% estimated over {}, mean age {}",
                float("/freshness/fresh") * 100.0,
                counted(number("/freshness/pages"), "page"),
                span(float("/freshness/age_seconds"))
            ),
        );
    }
    line("languages", listed(status.pointer("/index/languages")));
    let disk = |name: &str| size(number(&format!("/disk/{name}_bytes")));
    line(
        "disk",
        format!(
            "pages {}, index {}, URLs {}, links {}, {} free",
            disk("archive"),
            disk("index"),
            disk("urls"),
            disk("links"),
            disk("free")
        ),
    );
    if status.pointer("/queries").is_some() {
        line(
            "queries",
            format!(
                "{} answered, p50 {:.1} ms, p99 {:.1} ms",
                grouped(number("/queries/total")),
                float("/queries/p50_ms"),
                float("/queries/p99_ms")
            ),
        );
    }
    if status.pointer("/cluster").is_some() {
        line(
            "cluster",
            format!(
                "{}: {} of {} up, {} of {} answered, {}",
                text("/cluster/name"),
                number("/cluster/nodes_up"),
                counted(number("/cluster/nodes"), "node"),
                number("/cluster/shards_answered"),
                counted(number("/cluster/shards"), "shard"),
                counted(number("/cluster/warnings"), "warning")
            ),
        );
    }
    if status.pointer("/memory_bytes").is_some() {
        line("memory", size(number("/memory_bytes")));
    }
    out
}

/// How many seeds there are, and a line for each that leads elsewhere or needs a look.
fn seeds(value: Option<&Value>) -> String {
    let number = |name: &str| value.and_then(|value| value.get(name)?.as_u64()).unwrap_or(0);
    let mut out = grouped(number("total"));
    for (name, words) in [("fine", "in order"), ("waiting", "not visited yet"), ("troubled", "in trouble")] {
        if number(name) > 0 {
            let _ = write!(out, ", {} {words}", grouped(number(name)));
        }
    }
    let reports = value.and_then(|value| value.get("seeds")?.as_array()).into_iter().flatten();
    for report in reports {
        let text = |name: &str| report.get(name).and_then(Value::as_str).unwrap_or("");
        if !text("leads_to").is_empty() {
            let _ = write!(out, "\n             {} leads to {}", text("url"), text("leads_to"));
        }
        if !matches!(text("state"), "fine" | "waiting") {
            let _ = write!(out, "\n             {}: {}", text("url"), text("text"));
        }
    }
    out
}

/// `[{"name": "200", "count": 3}]` as `200: 3`, without what is zero.
fn listed(value: Option<&Value>) -> String {
    let rows = value.and_then(Value::as_array).cloned().unwrap_or_default();
    let parts: Vec<String> = rows
        .iter()
        .filter_map(|row| Some((row.get("name")?.as_str()?, row.get("count")?.as_u64()?)))
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name}: {}", grouped(count)))
        .collect();
    if parts.is_empty() { "none".to_string() } else { parts.join(", ") }
}
