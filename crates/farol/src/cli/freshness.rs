//! `farol freshness`: how fresh the index is, and why a page is visited when it is.

use super::{Place, ask};
use crate::progress::{counted, span};
use anyhow::{Result, bail};
use farol_base::CanonicalUrl;
use serde_json::Value;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct FreshnessArgs {
    #[command(flatten)]
    place: Place,
    /// Say why this page is visited when it is
    #[arg(long, value_name = "URL")]
    explain: Option<String>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &FreshnessArgs) -> Result<ExitCode> {
    let answer = match &args.explain {
        None => ask::ask(&args.place, "/api/v1/status", ask::Wants::Now)?["freshness"].clone(),
        Some(text) => {
            let url = match CanonicalUrl::parse(text) {
                Ok(url) => url,
                Err(error) => {
                    bail!("{text:?} cannot be looked up: {error}; give a whole address, with https://")
                }
            };
            ask::ask(
                &args.place,
                &format!("/api/v1/page?url={}", ask::escaped(url.as_str())),
                ask::Wants::Now,
            )?
        }
    };
    if answer.is_null() {
        bail!("how fresh the index is, is only known while `farol up` crawls and has fetched pages");
    }
    let text = match (args.json, &args.explain) {
        (true, _) => format!("{}\n", serde_json::to_string_pretty(&answer)?),
        (false, None) => whole(&answer),
        (false, Some(_)) => explained(&answer),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn whole(freshness: &Value) -> String {
    let float = |name: &str| freshness[name].as_f64().unwrap_or(0.0);
    format!(
        "{:.1} % of {} are believed to be as they are on the Web; copies that are not are so since {} in the mean over all.\n",
        100.0 * float("fresh"),
        counted(freshness["pages"].as_u64().unwrap_or(0), "page"),
        span(float("age_seconds"))
    )
}

fn explained(page: &Value) -> String {
    let float = |name: &str| page[name].as_f64().unwrap_or(0.0);
    let text = |name: &str| page[name].as_str().map(str::to_string);
    let mut out = format!("{}\n", text("url").unwrap_or_default());
    let mut line = |said: String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {said}");
    };
    let Some(last) = text("last_visit") else {
        line("It was not visited yet; it comes up when its host has a turn.".to_string());
        return out;
    };
    line(format!(
        "Visited {}, last at {last}; {:.0} of the visits saw a change.",
        counted(page["visits"].as_u64().unwrap_or(0), "time"),
        float("changes")
    ));
    // Nobody is ever sure that a page does not change at all.
    let every = span(86_400.0 / float("changes_per_day").max(f64::MIN_POSITIVE));
    line(format!(
        "It is believed to change every {every}; the copy is still right with a probability of {:.0} %.",
        100.0 * float("fresh")
    ));
    let whose =
        if page["host_is_full"] == true { "its host bears no more visits" } else { "the same for all hosts" };
    line(format!(
        "A visit now would bring {} of freshness (weight {:.1}); a visit must bring {} ({whose}).",
        span(float("worth_seconds")),
        float("weight"),
        span(float("price_seconds"))
    ));
    match text("next_visit") {
        Some(next) => line(format!(
            "At that price it is visited every {}; next at {next}.",
            span(float("interval_seconds"))
        )),
        None => line("It is not visited again.".to_string()),
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_page_is_explained_in_sentences() {
        let page = json!({
            "url": "http://h/a", "visits": 7, "last_visit": "2026-01-01T00:00:00Z", "last_change": null,
            "next_visit": "2026-01-03T00:00:00Z", "changes": 2.0, "changes_per_day": 0.5, "weight": 1.5, "fresh": 0.934,
            "worth_seconds": 60.0, "price_seconds": 7200.0, "host_is_full": true, "interval_seconds": 172800.0,
        });
        let said = explained(&page);
        for part in ["Visited 7 times", "2 of the visits", "93 %", "bears no more", "next at 2026-01-03"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let new = explained(&json!({ "url": "http://h/a", "visits": 0, "last_visit": null }));
        assert!(new.contains("not visited yet"), "{new}");
        let all = whole(&json!({ "pages": 1200, "fresh": 0.876, "age_seconds": 30.0 }));
        assert!(all.starts_with("87.6 % of 1,200 pages"), "{all}");
    }
}
