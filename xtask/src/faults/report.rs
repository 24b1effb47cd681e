//! Writes the rows down as Markdown.

use super::Options;
use super::bench::Row;
use super::figures::Figures;
use super::lab::{FRONTS, INDEX_NODES, REPLICAS, SHARDS};
use super::scenarios::SCENARIOS;
use crate::debian_docs::machine;
use std::fmt::Write as _;

/// What was run, by the scenario's name.
pub type Done = Vec<(&'static str, Result<Vec<Row>, String>)>;

pub fn write(options: &Options, command: &str, pages: u64, load_before: &str, done: &Done) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail.
    let _ = writeln!(
        text,
        "# What people notice while parts of a cluster fail\n\n\
         Real processes on one machine, each on its own loopback address: 3 nats-servers, {INDEX_NODES} index nodes with \
         {SHARDS} shards × {REPLICAS} replicas, {FRONTS} fronts, a crawler, a made-up Web of {pages} indexed pages. {:.0} \
         questions a second, each a new one, result cache off. A question's time counts from the instant at which it was \
         due, so that no stall hides. \"Dropped\": a front refused or broke the connection, and the other one was asked, \
         as a load balancer does. A second is late if a question that fell due in it took longer than 1 s. \"Whole again\": \
         from the restart until each replica of each shard answers and holds every page.\n\n\
         All processes, the Web and whoever asks share the machine, so read times as ratios of \"before\".\n\n\
         - Date: {}\n- Machine: {}; load before the run {load_before}\n- Command: `{command}`\n",
        options.per_second,
        machine::today(),
        machine::describe(),
    );
    for scenario in SCENARIOS {
        let Some((_, result)) = done.iter().find(|(name, _)| *name == scenario.name) else { continue };
        let _ = writeln!(text, "## {}\n\n{} Bound: {}.\n", scenario.name, scenario.what, scenario.bound);
        match result {
            Ok(rows) => table(&mut text, rows),
            Err(error) => drop(writeln!(text, "**Broken off**: {error}\n")),
        }
    }
    let missing: Vec<&str> = SCENARIOS
        .iter()
        .map(|scenario| scenario.name)
        .filter(|name| done.iter().all(|(ran, _)| ran != name))
        .collect();
    let _ = writeln!(text, "## Not run\n");
    let _ =
        writeln!(text, "{}.", if missing.is_empty() { "Nothing".to_string() } else { missing.join(", ") });
    text
}

const HEAD: &str = "| fault | | sent | failed | in part | dropped | p50 ms | p99 | p99.9 | longest | late s | whole again | verdict |\n\
                    |---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---|";

fn table(text: &mut String, rows: &[Row]) {
    let _ = writeln!(text, "{HEAD}");
    for row in rows {
        let _ = writeln!(text, "{}", lines(row));
    }
    let _ = writeln!(text);
    for row in rows {
        for note in row.broken.iter().map(|broken| format!("**broken**: {broken}")).chain(row.notes.clone()) {
            let _ = writeln!(text, "- {}: {note}", row.fault);
        }
    }
    let _ = writeln!(text);
}

/// A row as two lines: before the fault, and from the fault until all was whole.
pub fn lines(row: &Row) -> String {
    let whole = row.recovery.map_or("never".to_string(), |seconds| format!("{seconds:.0} s"));
    let verdict = if row.broken.is_empty() { "holds" } else { "**broken**" };
    format!(
        "| {} | before | {} | | |\n| | during | {} | {whole} | {verdict} |",
        row.fault,
        cells(&row.outside),
        cells(&row.inside)
    )
}

fn cells(figures: &Figures) -> String {
    let Figures { sent, failed, partial, moved, p50, p99, p999, longest, late_seconds } = figures;
    format!(
        "{sent} | {failed} | {partial} | {moved} | {p50:.0} | {p99:.0} | {p999:.0} | {longest:.0} | {late_seconds}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_bound_is_seen() {
        let inside = Figures { sent: 9, failed: 1, p99: 12.4, ..Figures::default() };
        let (fault, outside) = ("index-1".to_string(), Figures::default());
        let row = Row {
            fault,
            inside,
            outside,
            recovery: None,
            notes: vec![],
            broken: vec!["1 failed".to_string()],
        };
        let mut text = String::new();
        table(&mut text, &[row]);
        assert!(
            text.contains("| | during | 9 | 1 | 0 | 0 | 0 | 12 | 0 | 0 | 0 | never | **broken** |"),
            "{text}"
        );
        assert!(text.contains("- index-1: **broken**: 1 failed"), "{text}");
        let columns = |line: &str| line.matches('|').count();
        let (head, body) = (text.lines().next().unwrap_or_default(), text.lines().nth(2).unwrap_or_default());
        assert_eq!(columns(head), columns(body));
    }
}
