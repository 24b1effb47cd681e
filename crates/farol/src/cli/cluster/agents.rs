//! `farol cluster agents`: who crawls what, and what agents exchange, read from the cluster's tables.

use super::place::ClusterPlace;
use super::status::{Seen, columns};
use crate::cluster::door::Door;
use crate::progress::{grouped, size};
use anyhow::Result;
use farol_front::{ClusterStatus, cluster_json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct ClusterAgentsArgs {
    #[command(flatten)]
    place: ClusterPlace,
    /// As JSON: `route` and `agents` of /api/v1/cluster
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ClusterAgentsArgs) -> Result<ExitCode> {
    let door = Door::connect(&args.place.settings()?)?;
    door.enter()?;
    let status = Seen::default().look(&door)?;
    let text = match args.json {
        true => {
            let mut all = cluster_json(status);
            let some = serde_json::json!({ "route": all["route"].take(), "agents": all["agents"].take() });
            format!("{}\n", serde_json::to_string_pretty(&some)?)
        }
        false => table(&status),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(ExitCode::SUCCESS)
}

fn table(status: &ClusterStatus) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = match &status.route {
        Some(route) => {
            let settled = if route.is_settled { "settled" } else { "not released by all yet" };
            writeln!(out, "routing table {}, {settled}: {}", route.epoch, route.why)
        }
        None => writeln!(out, "There is no routing table yet: no agent is up, or nobody leads."),
    };
    let head = [
        "AGENT", "PLACE", "HOSTS", "PAGES", "PAGES/S", "URLS OUT", "URLS IN", "OUTBOX", "LEAVING", "EPOCH",
        "RELEASED",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for agent in &status.agents {
        let place = if agent.place.is_empty() { "-" } else { &agent.place };
        rows.push(vec![
            status.name_of(&agent.node).to_string(),
            place.to_string(),
            grouped(agent.hosts),
            grouped(agent.pages),
            format!("{:.1}", agent.pages_minute as f64 / 60.0),
            grouped(agent.urls_sent),
            grouped(agent.urls_received),
            size(agent.outbox),
            grouped(agent.hosts_leaving),
            agent.epoch.to_string(),
            agent.released.to_string(),
        ]);
    }
    columns(&mut out, &rows);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_front::{ClusterAgent, ClusterRoute};

    #[test]
    fn agents_are_listed_with_what_they_exchange() {
        let agent = ClusterAgent {
            node: "a1".into(),
            hosts: 12,
            pages: 3456,
            pages_minute: 90,
            urls_sent: 7,
            epoch: 3,
            released: 2,
            ..ClusterAgent::default()
        };
        let mut status = ClusterStatus { agents: vec![agent], ..ClusterStatus::default() };
        assert!(table(&status).contains("no routing table yet"));
        let why = "agent 2 joined".to_string();
        status.route = Some(ClusterRoute { epoch: 3, is_settled: false, why });
        let text = table(&status);
        assert!(text.starts_with("routing table 3, not released by all yet: agent 2 joined"), "{text}");
        assert!(text.contains("1.5") && text.contains("a1"), "{text}");
    }
}
