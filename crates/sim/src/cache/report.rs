//! Collects outcomes, and writes them as Markdown and JSON.

use super::world::ServiceOutcome;

/// Everything that was run.
#[derive(Default)]
pub struct CacheReport {
    pub runs: Vec<(String, ServiceOutcome)>,
}

impl CacheReport {
    pub fn json(&self) -> String {
        let runs: Vec<serde_json::Value> = self
            .runs
            .iter()
            .map(|(table, outcome)| {
                let minutes: Vec<_> = outcome
                    .minutes
                    .iter()
                    .map(|minute| {
                        let hit_rate = minute.hits as f64 / minute.asked.max(1) as f64;
                        serde_json::json!({ "at": minute.at, "hottest": minute.hottest(), "hit_rate": hit_rate })
                    })
                    .collect();
                serde_json::json!({
                    "table": table,
                    "strategy": outcome.name,
                    "asked": outcome.asked,
                    "mean_ms": outcome.times.mean(),
                    "q90_ms": outcome.times.quantile(0.9),
                    "hit_rate": outcome.hit_rate(),
                    "efficiency": outcome.efficiency(),
                    "efficiency_capped": outcome.efficiency_capped(),
                    "hottest": outcome.hottest(),
                    "saturated": outcome.saturated,
                    "moved": outcome.moved,
                    "carried": outcome.carried,
                    "inserts": outcome.inserts,
                    "copied": outcome.copied,
                    "skipped": outcome.skipped,
                    "adopted": outcome.adopted,
                    "given_up": outcome.given_up,
                    "hottest_of_all": 1.0 / outcome.efficiency_over(usize::MAX),
                    "control_messages": outcome.control.messages,
                    "control_bytes": outcome.control.bytes,
                    "index_load": outcome.index_load,
                    "front_load": outcome.front_load,
                    "minutes": minutes,
                })
            })
            .collect();
        format!("{:#}\n", serde_json::Value::Array(runs))
    }
}

/// Prints the head of a Markdown table.
pub fn head(title: &str, columns: &[&str]) {
    println!("### {title}\n\n| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len()));
}

/// Prints a row.
pub fn row(cells: &[String]) {
    println!("| {} |", cells.join(" | "));
}

/// A share in per cent.
pub fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}
