//! Runs the long form of the agents' test: several agents on one made-up Web, of which one is killed, one joins, one is
//! drained, one freezes, the leader dies, one dies for good, one loses its disk, and many tables follow each other; and keeps
//! what was seen.
//!
//! The test itself is `crates/farol/tests/it/agents_long.rs`; this says how large, and writes the table down.

use crate::debian_docs::machine;
use crate::run;

const USAGE: &str = "cargo xtask agents [OPTIONS]

  --hosts N     hosts of the made-up Web [default: 2000]
  --pages N     its pages [default: 60000]
  --delay MS    least time between two requests to a host [default: 500]
  --tables N    tables that follow each other at the end [default: 20]
  --minutes N   longest time for a part of the run [default: 60]
  --write       write docs/results/agents.md

cargo xtask agents plan [OPTIONS]

  what planning who crawls what saves, by the locality of links, in crawls of real agents

  --hosts N     hosts of the made-up Web [default: 200]
  --pages N     its pages [default: 8000]
  --agents N    agents [default: 4]
  --delay MS    least time between two requests to a host [default: 300]
  --minutes N   longest time for one crawl [default: 20]
  --write       write docs/results/agents-partition.md";

/// One kind of run: its flags with the variables that they set, the test, and where the table goes.
struct Kind {
    name: &'static str,
    settings: Vec<(&'static str, &'static str, String)>,
    test: &'static str,
    variable: &'static str,
    table: &'static str,
    report: &'static str,
    title: &'static str,
}

fn dying() -> Kind {
    Kind {
        name: "agents",
        settings: vec![
            ("--hosts", "FAROL_AGENTS_HOSTS", "2000".to_string()),
            ("--pages", "FAROL_AGENTS_PAGES", "60000".to_string()),
            ("--delay", "FAROL_AGENTS_DELAY_MS", "500".to_string()),
            ("--tables", "FAROL_AGENTS_TABLES", "20".to_string()),
            ("--minutes", "FAROL_AGENTS_MINUTES", "60".to_string()),
        ],
        test: "agents_long::agents_that_die_join_leave_and_freeze",
        variable: "FAROL_AGENTS_TABLE",
        table: "target/agents-table.md",
        report: "docs/results/agents.md",
        title: "Several agents on one Web",
    }
}

fn planning() -> Kind {
    Kind {
        name: "agents plan",
        settings: vec![
            ("--hosts", "FAROL_PLAN_HOSTS", "200".to_string()),
            ("--pages", "FAROL_PLAN_PAGES", "8000".to_string()),
            ("--agents", "FAROL_PLAN_AGENTS", "4".to_string()),
            ("--delay", "FAROL_PLAN_DELAY_MS", "300".to_string()),
            ("--minutes", "FAROL_PLAN_MINUTES", "20".to_string()),
        ],
        test: "cluster_plan::links_between_agents_by_locality",
        variable: "FAROL_PLAN_TABLE",
        table: "target/agents-partition-table.md",
        report: "docs/results/agents-partition.md",
        title: "Who crawls what, planned while agents crawl",
    }
}

pub fn run(arguments: &[&str]) -> Result<(), String> {
    let (mut kind, arguments) = match arguments.split_first() {
        Some((&"plan", rest)) => (planning(), rest),
        _ => (dying(), arguments),
    };
    let (mut rest, mut writes) = (arguments.iter(), false);
    while let Some(&name) = rest.next() {
        if name == "--write" {
            writes = true;
            continue;
        }
        let setting = kind.settings.iter_mut().find(|(flag, ..)| *flag == name).ok_or(USAGE)?;
        let value = rest.next().ok_or(format!("{name} needs a value\n\n{USAGE}"))?;
        value.parse::<u64>().map_err(|_| format!("{name} {value} is no number"))?;
        setting.2 = value.to_string();
    }
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let table = here.join(kind.table);
    let mut words: Vec<String> =
        kind.settings.iter().map(|(_, variable, value)| format!("{variable}={value}")).collect();
    words.push(format!("{}={}", kind.variable, table.display()));
    let test = ["cargo", "test", "-p", "farol", "--test", "it", kind.test, "--", "--ignored", "--nocapture"];
    words.extend(test.map(String::from));
    let ran = run::step("agents", "env", &words.iter().map(String::as_str).collect::<Vec<_>>());
    if writes {
        let rows = std::fs::read_to_string(&table).map_err(|error| format!("there is no table: {error}"))?;
        let command: Vec<String> =
            kind.settings.iter().map(|(flag, _, value)| format!("{flag} {value}")).collect();
        let page = format!(
            "# {}\n\nMachine: {}. Command: `cargo xtask {} {} --write`.\n\n{rows}",
            kind.title,
            machine::describe(),
            kind.name,
            command.join(" ")
        );
        std::fs::write(kind.report, page)
            .map_err(|error| format!("cannot write {}: {error}", kind.report))?;
    }
    ran
}
