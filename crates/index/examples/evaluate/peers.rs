//! Other engines, each a command that reads two files and writes a run.

use crate::collection::Collection;
use crate::{Result, Run};
use std::fs;
use std::process::Command;

/// An engine to compare with.
pub struct Peer {
    pub name: String,
    command: String,
}

impl Peer {
    /// Reads `NAME=COMMAND`.
    pub fn parse(text: &str) -> Result<Peer> {
        let (name, command) = text.split_once('=').ok_or("a peer is NAME=COMMAND")?;
        Ok(Peer { name: name.to_string(), command: command.to_string() })
    }

    /// Has the engine answer the queries of a collection.
    pub fn run(&self, collection: &Collection) -> Result<Run> {
        let dir = tempfile::tempdir()?;
        let [documents, queries, run] =
            ["documents.tsv", "queries.tsv", "run"].map(|name| dir.path().join(name));
        let line = |name: &str, text: &str| {
            format!("{name}\t{}\n", text.split_whitespace().collect::<Vec<_>>().join(" "))
        };
        let all = collection.documents.iter();
        let all: String =
            all.map(|(name, page)| line(name, &format!("{} {}", page.title, page.text))).collect();
        fs::write(&documents, all)?;
        let asked: String =
            collection.judged.keys().map(|query| line(query, &collection.queries[query])).collect();
        fs::write(&queries, asked)?;
        let whole = format!("{} \"$0\" \"$1\" \"$2\"", self.command);
        let status =
            Command::new("sh").arg("-c").arg(whole).arg(documents).arg(queries).arg(&run).status()?;
        if !status.success() {
            return Err(format!("{} failed: {status}; try its command alone", self.name).into());
        }
        read_run(&fs::read_to_string(run)?)
    }
}

/// Reads lines of `query Q0 document rank score name`, best first.
fn read_run(text: &str) -> Result<Run> {
    let mut run = Run::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [query, _, document, _, score, ..] = words[..] else {
            return Err(format!("{line:?} is no line of a run: query Q0 document rank score").into());
        };
        run.entry(query.to_string()).or_default().push((document.to_string(), score.parse()?));
    }
    Ok(run)
}
