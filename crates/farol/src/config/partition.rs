//! Settings of who crawls what, where several agents crawl.

use super::section::{self, Explained, Section, section};
use super::values::Span;
use anyhow::{Result, anyhow, bail, ensure};
use farol_partition::replan::{Rule, Scope};
use serde::{Deserialize, Serialize};

/// What becomes of hosts at addresses that no table names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum UnknownKind {
    /// A consistent hash of the address says who asks them.
    Hash,
    /// They wait for the next table.
    Hold,
}

section! {
    /// Which agent of a cluster crawls which hosts: how they are planned, and what you order.
    Partition {
        /// Time between two reports of an agent to the planner.
        report_every: Span = Span::secs(600),
        /// Least time between two plans, unless agents come or go or you order one.
        plan_gap: Span = Span::secs(600),
        /// Time after which there is a plan in any case.
        plan_every: Span = Span::days(1),
        /// Growth of the crawl, in per cent of pages or hosts, that makes a plan due.
        growth: usize = 20,
        /// How much it matters that few links lead to another agent.
        links: f64 = 4.0,
        /// How much it matters that agents are near their servers.
        round_trips: f64 = 1.0,
        /// What you order, whatever is measured; the first rule that fits counts: `.br -> node-1`, `ip:193.136.0.0/15 ->
        /// lisbon`, `country:pt -> lisbon`, `lang:gl -> vigo`. Agents are called by their names. A rule for an agent that
        /// is not there waits. Countries need `crawl.places`; languages hold for servers most of whose pages are in them.
        rules: Vec<String> = Vec::new(),
        /// Ask the DNS once a month where each server says that it is (LOC records, RFC 1876); most do not say.
        locations: bool = true,
        /// What becomes of hosts at addresses that no table names: `hash` shares them out at once by a hash of the address,
        /// `hold` lets them wait until the next table names them. Until there is a first table all go by hash.
        unknown: UnknownKind = UnknownKind::Hash,
        /// A file of traceroutes from where agents stand, as `traceroute -n` writes them, each behind a line `from ADDRESS`
        /// with the address of an agent's node; for the nodes that may lead. They fill in round trips that no agent measured.
        traces: String = String::new(),
    }
}

impl Partition {
    /// Checks what types alone cannot.
    pub fn check(&self) -> Result<()> {
        if self.report_every.get().is_zero() {
            bail!("partition.report_every is 0; choose 10m, or 1s at least");
        }
        if !(1..=1000).contains(&self.growth) {
            bail!("partition.growth is {}, choose 1 to 1000 per cent; 20 is usual", self.growth);
        }
        for (name, value) in [("links", self.links), ("round_trips", self.round_trips)] {
            ensure!(
                (0.0..=1000.0).contains(&value),
                "partition.{name} is {value}, choose 0 to 1000; 0 leaves it out"
            );
        }
        self.rules().map(drop)
    }

    /// The operator's rules; agents by name.
    pub fn rules(&self) -> Result<Vec<Rule>> {
        self.rules
            .iter()
            .map(|text| rule(text).map_err(|why| anyhow!("partition.rules: {text:?} {why}")))
            .collect()
    }
}

fn rule(text: &str) -> Result<Rule, String> {
    let (scope, to) =
        text.split_once("->").ok_or("names no agent; write it as in \".br -> node-1\"".to_string())?;
    let (scope, to) = (scope.trim(), to.trim());
    if to.is_empty() || to.contains(char::is_whitespace) {
        return Err("names no agent behind \"->\"; write its name, as in \".br -> node-1\"".to_string());
    }
    let two = |code: &str, what: &str| {
        let code: Option<[u8; 2]> = code.as_bytes().try_into().ok();
        let code = code.filter(|code| code.iter().all(u8::is_ascii_alphabetic));
        code.ok_or(format!("has no {what}; write two letters, such as pt"))
    };
    let scope = if let Some(code) = scope.strip_prefix("country:") {
        Scope::Country(two(code, "country")?.map(|byte| byte.to_ascii_uppercase()))
    } else if let Some(code) = scope.strip_prefix("lang:") {
        Scope::Language(two(code, "language")?.map(|byte| byte.to_ascii_lowercase()))
    } else if let Some(block) = scope.strip_prefix("ip:") {
        let wrong = || format!("has no block of addresses: {block:?}; write one such as 193.136.0.0/15");
        Scope::Block(block.parse().map_err(|_| wrong())?)
    } else {
        let domain = scope.trim_start_matches('.');
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        if !domain.split('.').all(is_label) {
            return Err(format!(
                "names no hosts: {scope:?}; write a domain (.br), ip:BLOCK, country:CC or lang:CC before \"->\""
            ));
        }
        Scope::Domain(domain.to_ascii_lowercase())
    };
    Ok(Rule { scope, to: to.to_string() })
}

#[cfg(test)]
mod tests {
    use super::super::Config;
    use super::*;

    #[test]
    fn rules_are_read_and_a_wrong_one_is_told_in_a_sentence() {
        let read = |text: &str| rule(text).unwrap();
        assert_eq!(read(".BR -> node-1"), Rule { scope: Scope::Domain("br".into()), to: "node-1".into() });
        assert_eq!(read("www.a.pt->x").scope, Scope::Domain("www.a.pt".into()));
        assert_eq!(read("country:pt -> x").scope, Scope::Country(*b"PT"));
        assert_eq!(read("lang:GL -> x").scope, Scope::Language(*b"gl"));
        assert_eq!(read("ip:10.0.0.0/8 -> x").scope, Scope::Block("10.0.0.0/8".parse().unwrap()));
        let refused = |toml: &str, want: &str| {
            let error = format!("{:#}", Config::parse(&format!("[partition]\n{toml}")).expect_err(toml));
            assert!(error.contains(want), "{toml:?} gave: {error}");
        };
        refused("rules = ['.br node-1']", "names no agent");
        refused("rules = ['.br -> ']", "write its name");
        refused("rules = ['country:prt -> a']", "two letters");
        refused("rules = ['ip:10.0.0.0/99 -> a']", "193.136.0.0/15");
        refused("rules = ['a/b -> a']", "names no hosts");
        refused("growth = 0", "20 is usual");
        refused("links = -1.0", "0 leaves it out");
        refused("report_every = '0s'", "10m");
        refused("unknown = 'wait'", "hold");
        assert_eq!(
            Config::parse("[partition]\nunknown = 'hold'").unwrap().partition.unknown,
            UnknownKind::Hold
        );
        Config::parse("[partition]\nrules = ['.br -> node-1']\nplan_gap = '2s'").unwrap();
    }
}
