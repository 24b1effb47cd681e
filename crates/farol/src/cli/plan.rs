//! `farol plan`: how many machines a target takes, from measured unit costs.

use super::input::read_text;
use crate::config::ByteSize;
use crate::plan::{Bottleneck, ClusterPlan, CostTable, PlanTarget, RolePlan, plan};
use anyhow::{Result, bail};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
#[command(after_help = HELP)]
pub struct SizingArgs {
    /// Pages that can be found, such as 50M or 1e10
    #[arg(long, value_name = "N", value_parser = amount)]
    pages: f64,
    /// Questions per second at the busiest hour
    #[arg(long, value_name = "Q", value_parser = amount)]
    queries: f64,
    /// Copies of each part of the index
    #[arg(long, value_name = "D", default_value_t = 2)]
    replicas: u32,
    /// Mean size of a page as it is fetched
    #[arg(long, value_name = "SIZE", default_value = "20KiB")]
    page_bytes: ByteSize,
    /// Days between two visits of a page, in the mean
    #[arg(long, value_name = "DAYS", default_value_t = 30.0)]
    revisit: f64,
    /// Cores of a machine
    #[arg(long, value_name = "N", default_value_t = 16)]
    cores: u32,
    /// Memory of a machine
    #[arg(long, value_name = "SIZE", default_value = "64GiB")]
    memory: ByteSize,
    /// Disk of a machine
    #[arg(long, value_name = "SIZE", default_value = "4TiB")]
    disk: ByteSize,
    /// Unit costs that you measured, in the form of docs/results/unit-costs.tsv [default: ours]
    #[arg(long, value_name = "FILE")]
    costs: Option<PathBuf>,
    /// As JSON
    #[arg(long)]
    json: bool,
}

const HELP: &str = "Examples:
  farol plan --pages 50M --queries 20
  farol plan --pages 1e10 --queries 2000 --cores 64 --memory 512GiB --disk 30TiB

Where the figures come from: docs/results/unit-costs.md. What was never measured is named below the plan.";

pub fn run(args: &SizingArgs) -> Result<ExitCode> {
    let table = match &args.costs {
        Some(path) => CostTable::read(&read_text(path)?),
        None => CostTable::ours(),
    };
    let table = table.map_err(anyhow::Error::msg)?;
    let planned = match plan(args.target(), &table.costs) {
        Ok(planned) => planned,
        Err(why) => bail!("{why}"),
    };
    let text = match args.json {
        true => format!("{}\n", serde_json::to_string_pretty(&as_json(&planned, &table))?),
        false => explained(&planned, &table),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

impl SizingArgs {
    fn target(&self) -> PlanTarget {
        PlanTarget {
            pages: self.pages,
            queries: self.queries,
            replicas: self.replicas.into(),
            page_bytes: self.page_bytes.get() as f64,
            revisit_days: self.revisit,
            cores: self.cores.into(),
            memory_bytes: self.memory.get() as f64,
            disk_bytes: self.disk.get() as f64,
        }
    }
}

/// Reads `50M`, `1e10`, `10_000_000_000` or `2000`.
fn amount(text: &str) -> Result<f64, String> {
    let wrong = || format!("{text:?} is no number; write one such as 2000, 50M, 10G or 1e10");
    let plain = text.trim().replace(['_', ','], "");
    let units = [('k', 1e3), ('K', 1e3), ('M', 1e6), ('G', 1e9), ('B', 1e9), ('T', 1e12)];
    let unit = units.iter().find(|(letter, _)| plain.ends_with(*letter));
    let number = unit.map_or(&*plain, |(letter, _)| plain.trim_end_matches(*letter));
    let value: f64 = number.parse().map_err(|_| wrong())?;
    let value = value * unit.map_or(1.0, |(_, times)| *times);
    (value.is_finite() && value >= 0.0).then_some(value).ok_or_else(wrong)
}

fn as_json(plan: &ClusterPlan, table: &CostTable) -> Value {
    let role = |role: &RolePlan| {
        json!({
            "role": role.role, "machines": role.machines, "cores_busy": role.cores,
            "memory_bytes": role.memory_bytes, "disk_bytes": role.disk_bytes,
            "network_bytes_per_second": role.network, "fills_first": role.fills_first,
        })
    };
    let bottleneck = |it: &Bottleneck| {
        json!({
            "what": it.what, "needs": it.needs, "bears": it.bears, "unit": it.unit,
            "headroom": if it.headroom().is_finite() { json!(it.headroom()) } else { Value::Null },
            "then": it.then,
        })
    };
    json!({
        "pages": plan.target.pages, "queries_per_second": plan.target.queries,
        "replicas": plan.target.replicas, "page_bytes": plan.target.page_bytes,
        "revisit_days": plan.target.revisit_days,
        "machine": {
            "cores": plan.target.cores, "memory_bytes": plan.target.memory_bytes, "disk_bytes": plan.target.disk_bytes,
        },
        "fetches_per_second": plan.fetches_per_second,
        "urls_known": plan.urls_known,
        "shards": plan.shards, "pages_per_shard": plan.pages_per_shard,
        "archive_bytes_per_day": plan.archive_bytes_per_day,
        "roles": plan.roles.iter().map(role).collect::<Vec<_>>(),
        "machines": plan.machines(), "disk_bytes": plan.disk_bytes(),
        "network_bytes_per_second": plan.network(),
        "bottlenecks": plan.bottlenecks.iter().map(bottleneck).collect::<Vec<_>>(),
        "not_measured": of_kind(table, "assumed"), "limits_by_design": of_kind(table, "design"),
    })
}

fn of_kind(table: &CostTable, kind: &str) -> Vec<String> {
    table.sources.iter().filter(|source| source.kind == kind).map(|source| source.name.clone()).collect()
}

fn explained(plan: &ClusterPlan, table: &CostTable) -> String {
    let target = &plan.target;
    let mut out = format!(
        "{} pages of {}, each visited every {} days; {} questions/s; {} replicas\n\
         machines of {} cores, {} of memory, {} of disk\n\n\
         {} fetches/s, {} URLs known, {} shards of {} pages\n\n",
        short(target.pages),
        bytes(target.page_bytes),
        short(target.revisit_days),
        short(target.queries),
        target.replicas,
        target.cores,
        bytes(target.memory_bytes),
        bytes(target.disk_bytes),
        short(plan.fetches_per_second),
        short(plan.urls_known),
        short(plan.shards),
        short(plan.pages_per_shard),
    );
    let mut line = |cells: [&str; 7]| {
        let [role, machines, cores, memory, disk, network, fills] = cells;
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{role:<14} {machines:>8} {cores:>10} {memory:>10} {disk:>10} {network:>11}  {fills}"
        );
    };
    line(["role", "machines", "cores busy", "memory", "disk", "network", "fills first"]);
    for role in &plan.roles {
        line([
            role.role,
            &short(role.machines),
            &short(role.cores),
            &bytes(role.memory_bytes),
            &bytes(role.disk_bytes),
            &format!("{}/s", bytes(role.network)),
            role.fills_first,
        ]);
    }
    let (disk, network) = (bytes(plan.disk_bytes()), format!("{}/s", bytes(plan.network())));
    line(["in all", &short(plan.machines()), "", "", &disk, &network, ""]);
    let _ = writeln!(
        out,
        "\nThe archive keeps every version: up to {} more a day where every page changes.",
        bytes(plan.archive_bytes_per_day)
    );
    bottlenecks(&mut out, plan);
    for (kind, name) in [("Assumed, never measured", "assumed"), ("Limits chosen in the design", "design")] {
        let names = of_kind(table, name);
        if !names.is_empty() {
            let _ = writeln!(out, "{kind}: {}", names.join(", "));
        }
    }
    out
}

fn bottlenecks(out: &mut String, plan: &ClusterPlan) {
    let _ = writeln!(out, "\nWhat more machines do not help with, the tightest first:");
    for it in &plan.bottlenecks {
        let amount = |value: f64| match it.unit {
            "B" => bytes(value),
            "B/s" => format!("{}/s", bytes(value)),
            unit => format!("{} {unit}", short(value)),
        };
        let headroom = match it.headroom() {
            factor if factor < 1.0 => format!("{:.0} % too little", (1.0 - factor) * 100.0),
            factor if factor < 1e4 => format!("{}× the target", short(factor)),
            _ => "ample".to_string(),
        };
        let _ = writeln!(
            out,
            "  {:<56} {:>10} of {:>10}  {headroom}",
            it.what,
            amount(it.needs),
            amount(it.bears)
        );
    }
    if let Some(next) = plan.bottlenecks.first() {
        let words = match next.headroom() < 1.0 {
            true => "It does not fit as it stands, and first of all not",
            false => "The next bottleneck is",
        };
        let _ = writeln!(out, "{words} {}: {}.\n", next.what, next.then);
    }
}

/// Three digits that count, with a letter for thousands and more: `1.2M`.
fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        ..1e4 => (value, ""),
        1e4..1e6 => (value / 1e3, "k"),
        1e6..1e9 => (value / 1e6, "M"),
        1e9..1e12 => (value / 1e9, "G"),
        _ => (value / 1e12, "T"),
    };
    let places = match scaled {
        value if value == value.round() || value >= 100.0 => 0,
        value if value >= 10.0 => 1,
        value if value >= 0.1 => 2,
        _ => 4,
    };
    format!("{scaled:.places$}{unit}")
}

fn bytes(value: f64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut scaled = value;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < units.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    format!("{} {}", short(scaled), units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;

    fn planned(flags: &[&str]) -> (ClusterPlan, CostTable) {
        let cli = Cli::parse_from(["farol", "plan"].iter().chain(flags));
        let Command::Plan(args) = cli.command else { panic!() };
        let table = CostTable::ours().unwrap();
        (plan(args.target(), &table.costs).unwrap(), table)
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        let read = |text: &str| amount(text).ok();
        assert_eq!([read("2000"), read("50M"), read("1e10")], [Some(2000.0), Some(5e7), Some(1e10)]);
        assert_eq!([read("10_000"), read("1.5k"), read("10G")], [Some(1e4), Some(1500.0), Some(1e10)]);
        for wrong in ["", "many", "-5", "1e999", "NaN", "5 sheep", "M"] {
            assert_eq!(read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn amounts_are_written_short() {
        let write = [0.0, 0.004, 7.0, 61.42, 12_345.0, 1.5e9, 2.2e13].map(short);
        assert_eq!(write, ["0", "0.0040", "7", "61.4", "12.3k", "1.50G", "22T"]);
        assert_eq!([500.0, 20_480.0, 4.4e12].map(bytes), ["500 B", "20.5 kB", "4.40 TB"]);
    }

    #[test]
    fn the_plan_is_told_to_people_and_to_programs() {
        let (plan, table) = planned(&["--pages", "10000000000", "--queries", "2000"]);
        let text = explained(&plan, &table);
        for part in ["10G pages", "2000 questions/s", "crawl", "nats-server", "in all", "fills first"] {
            assert!(text.contains(part), "{part:?} is not in\n{text}");
        }
        let first = &plan.bottlenecks[0];
        assert!(plan.bottlenecks.iter().all(|other| first.headroom() <= other.headroom()), "{text}");
        let sentence = format!("It does not fit as it stands, and first of all not {}: ", first.what);
        assert!(text.contains(&sentence) && text.contains("memory of the one machine that ranks"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 240), "{text}");
        let value = as_json(&plan, &table);
        assert_eq!(value["pages"], 1e10);
        assert_eq!(value["roles"].as_array().map(Vec::len), Some(5));
        assert_eq!(value["bottlenecks"][0]["what"], plan.bottlenecks[0].what);
        assert!(value["machines"].as_f64().unwrap() > 100.0);
    }

    #[test]
    fn a_target_of_one_machines_size_says_so() {
        let (plan, table) = planned(&["--pages", "1M", "--queries", "5", "--replicas", "1"]);
        assert!(plan.machines() <= 8.0, "{}", plan.machines());
        assert!(explained(&plan, &table).contains("The next bottleneck is "));
    }
}
