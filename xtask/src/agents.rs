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
  --write       write docs/results/agents.md";

const REPORT: &str = "docs/results/agents.md";
const TABLE: &str = "target/agents-table.md";

pub fn run(arguments: &[&str]) -> Result<(), String> {
    let mut settings = [
        ("--hosts", "FAROL_AGENTS_HOSTS", "2000".to_string()),
        ("--pages", "FAROL_AGENTS_PAGES", "60000".to_string()),
        ("--delay", "FAROL_AGENTS_DELAY_MS", "500".to_string()),
        ("--tables", "FAROL_AGENTS_TABLES", "20".to_string()),
        ("--minutes", "FAROL_AGENTS_MINUTES", "60".to_string()),
    ];
    let (mut rest, mut writes) = (arguments.iter(), false);
    while let Some(&name) = rest.next() {
        if name == "--write" {
            writes = true;
            continue;
        }
        let setting = settings.iter_mut().find(|(flag, ..)| *flag == name).ok_or(USAGE)?;
        let value = rest.next().ok_or(format!("{name} needs a value\n\n{USAGE}"))?;
        value.parse::<u64>().map_err(|_| format!("{name} {value} is no number"))?;
        setting.2 = value.to_string();
    }
    let here = std::env::current_dir().map_err(|error| error.to_string())?;
    let table = here.join(TABLE);
    let mut words: Vec<String> =
        settings.iter().map(|(_, variable, value)| format!("{variable}={value}")).collect();
    words.push(format!("FAROL_AGENTS_TABLE={}", table.display()));
    let test = "agents_long::agents_that_die_join_leave_and_freeze";
    let test = ["cargo", "test", "-p", "farol", "--test", "it", test, "--", "--ignored", "--nocapture"];
    words.extend(test.map(String::from));
    let ran = run::step("agents", "env", &words.iter().map(String::as_str).collect::<Vec<_>>());
    if writes {
        let rows = std::fs::read_to_string(&table).map_err(|error| format!("there is no table: {error}"))?;
        let command: Vec<String> =
            settings.iter().map(|(flag, _, value)| format!("{flag} {value}")).collect();
        let page = format!(
            "# Several agents on one Web\n\nMachine: {}. Command: `cargo xtask agents {} --write`.\n\n{rows}",
            machine::describe(),
            command.join(" ")
        );
        std::fs::write(REPORT, page).map_err(|error| format!("cannot write {REPORT}: {error}"))?;
    }
    ran
}
