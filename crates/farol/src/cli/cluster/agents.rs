//! `farol cluster agents`: who crawls what, and what agents exchange, read from the cluster's tables.

use super::place::ClusterPlace;
use super::status::{Seen, columns};
use crate::cluster::door::Door;
use crate::progress::{counted, grouped, size};
use anyhow::Result;
use farol_front::{ClusterPlan, ClusterStatus, cluster_json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::ExitCode;

#[derive(clap::Args)]
pub struct ClusterAgentsArgs {
    #[command(flatten)]
    place: ClusterPlace,
    /// As JSON: `route`, `agents` and `plan` of /api/v1/cluster
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
            let mut take = |key: &str| all[key].take();
            let some = serde_json::json!({
                "route": take("route"),
                "agents": take("agents"),
                "plan": take("plan"),
            });
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
        "AGENT", "PLACE", "HOSTS", "PAGES", "LOAD", "PAGES/S", "URLS OUT", "URLS IN", "OUTBOX", "LEAVING",
        "EPOCH", "RELEASED",
    ];
    let mut rows = vec![head.map(String::from).to_vec()];
    for agent in &status.agents {
        let place = if agent.place.is_empty() { "-" } else { &agent.place };
        rows.push(vec![
            status.name_of(&agent.node).to_string(),
            place.to_string(),
            grouped(agent.hosts),
            grouped(agent.pages),
            agent.balance.map_or("-".to_string(), |balance| format!("{:.0} %", 100.0 * balance)),
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
    if let Some(plan) = &status.plan {
        explain(&mut out, status, plan);
    }
    out
}

/// What the planner did last, what came of its tables, and what it did not believe.
fn explain(out: &mut String, status: &ClusterStatus, plan: &ClusterPlan) {
    let percent = |share: f64| format!("{:.1} %", 100.0 * share);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "\nplanner: {}, {} and {} between hosts are known",
        counted(plan.hosts, "host"),
        counted(plan.pages, "page"),
        counted(plan.links, "link")
    );
    if !plan.trouble.is_empty() {
        let _ = writeln!(out, "planner: {}", plan.trouble);
    }
    if let Some(last) = &plan.last {
        let said = if last.is_published { "published" } else { "not published" };
        let gain = &last.gain;
        let _ = writeln!(
            out,
            "last plan, {}: {}; {said}: {}. Links to other agents {} → {}, pages moved {} of {}, largest load {} → {}",
            last.at,
            last.trigger,
            last.why,
            percent(gain.exchange_before),
            percent(gain.exchange_after),
            grouped(gain.pages_moved),
            grouped(gain.pages),
            percent(gain.load_before),
            percent(gain.load_after)
        );
        for (from, to, pages) in last.moves.iter().take(10) {
            let from = from.as_deref().map_or("(gone)", |from| status.name_of(from));
            let _ = writeln!(out, "  {from} → {}: {}", status.name_of(to), counted(*pages, "page"));
        }
    }
    for one in plan.outcomes.iter().rev().take(3) {
        let _ = writeln!(
            out,
            "table {}: links to other agents {} expected, {} measured over {}",
            one.version,
            percent(one.expected.exchange_after),
            one.measured().map_or("nothing".to_string(), percent),
            counted(one.links, "link")
        );
    }
    for (agent, why, count) in &plan.refused {
        let who = if agent.is_empty() { "a stranger" } else { agent };
        let _ = writeln!(out, "not believed of {who}: {why}, {} times", grouped(*count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_front::{ClusterAgent, ClusterRoute, LastPlan, PlanGain, PlanOutcome};

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
        let gain = PlanGain { exchange_before: 0.75, exchange_after: 0.2, ..PlanGain::default() };
        status.plan = Some(ClusterPlan {
            last: Some(LastPlan {
                trigger: "it was ordered".into(),
                why: "nothing would change".into(),
                gain,
                moves: vec![(None, "a1".into(), 7)],
                ..LastPlan::default()
            }),
            outcomes: vec![PlanOutcome {
                links: 100,
                forwarded: 21,
                expected: gain,
                ..PlanOutcome::default()
            }],
            refused: vec![("b".into(), "it is malformed".into(), 3)],
            ..ClusterPlan::default()
        });
        status.agents[0].balance = Some(1.04);
        let text = table(&status);
        for want in [
            "104 %",
            "not published: nothing would change",
            "75.0 % → 20.0 %",
            "(gone) → a1: 7 pages",
            "20.0 % expected, 21.0 % measured over 100 links",
            "not believed of b: it is malformed, 3 times",
        ] {
            assert!(text.contains(want), "{want}: {text}");
        }
    }
}
