//! What the operator orders: whose a domain, a block, a country or a language is [Exposto08 §3.2.2].
//!
//! Rules stand above the split. The first rule that fits one of an address's hosts decides for the whole address: an
//! address with all its hosts has one owner, whatever else is wished.

use crate::table::{Block, Filter};
use crate::{Error, Owner};
use std::collections::BTreeSet;
use std::net::IpAddr;

/// What a rule is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A host name and everything below it: `example.org`, `br`.
    Domain(String),
    Block(Block),
    /// ISO 3166 code. Addresses are found by the table of ranges.
    Country([u8; 2]),
    /// ISO 639-1 code. Holds for addresses most of whose pages are in that language.
    Language([u8; 2]),
}

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    pub scope: Scope,
    /// Name of the agent, or of the child of a group.
    pub to: String,
}

/// A host, as rules see it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ruled<'a> {
    pub host: &'a str,
    pub address: IpAddr,
    pub country: Option<[u8; 2]>,
    pub language: Option<[u8; 2]>,
    pub pages: u64,
}

/// Rules with the numbers of their agents. Those for agents that are not there are left out and counted: their hosts go
/// by the split until the agent is back.
#[derive(Clone, Debug, Default)]
pub(super) struct Rules {
    rules: Vec<(Scope, Owner)>,
    pub without_agent: usize,
}

impl Rules {
    pub fn new(rules: &[Rule], destinations: &[String]) -> Rules {
        let mut known = Rules::default();
        for rule in rules {
            match destinations.iter().position(|name| *name == rule.to) {
                Some(at) => known.rules.push((rule.scope.clone(), at as Owner)),
                None => known.without_agent += 1,
            }
        }
        known
    }

    /// Whose an address is by the first rule that fits; `hosts` are all that are at it.
    pub fn owner(&self, hosts: &[Ruled<'_>]) -> Option<Owner> {
        let pages: u64 = hosts.iter().map(|host| host.pages.max(1)).sum();
        let fits = |scope: &Scope| match scope {
            Scope::Language(code) => {
                let own = hosts.iter().filter(|host| host.language == Some(*code));
                2 * own.map(|host| host.pages.max(1)).sum::<u64>() > pages
            }
            Scope::Domain(domain) => hosts.iter().any(|host| is_within(host.host, domain)),
            Scope::Block(block) => hosts.iter().any(|host| block.holds(host.address)),
            Scope::Country(code) => hosts.iter().any(|host| host.country == Some(*code)),
        };
        self.rules.iter().find(|(scope, _)| fits(scope)).map(|(_, owner)| *owner)
    }

    /// Filters of the table: domains and blocks. Countries become blocks, languages say nothing of strangers.
    pub fn filters(&self) -> Vec<(Filter, Owner)> {
        let filter = |(scope, owner): &(Scope, Owner)| match scope {
            Scope::Domain(domain) => Some((Filter::Domain(domain.to_lowercase()), *owner)),
            Scope::Block(block) => Some((Filter::Block(*block), *owner)),
            Scope::Country(_) | Scope::Language(_) => None,
        };
        self.rules.iter().filter_map(filter).collect()
    }

    /// Countries with their owners; the first rule for a country counts.
    pub fn countries(&self) -> Vec<([u8; 2], Owner)> {
        let mut seen = BTreeSet::new();
        let country = |(scope, owner): &(Scope, Owner)| match scope {
            Scope::Country(code) => Some((*code, *owner)),
            _ => None,
        };
        self.rules.iter().filter_map(country).filter(|(code, _)| seen.insert(*code)).collect()
    }
}

/// Says which rule cannot be.
///
/// # Errors
/// Where a domain is empty, or a rule names nobody.
pub fn check_rules(rules: &[Rule]) -> Result<(), Error> {
    for rule in rules {
        let empty = matches!(&rule.scope, Scope::Domain(domain) if domain.is_empty() || domain.contains('/'));
        if empty || rule.to.is_empty() {
            return Err(Error::Rule(format!("{:?} to {:?}", rule.scope, rule.to)));
        }
    }
    Ok(())
}

/// The name of a host's text, without scheme and port.
pub(super) fn name_of(host: &str) -> &str {
    let name = host.split_once("://").map_or(host, |(_, rest)| rest);
    name.rsplit_once(':').map_or(name, |(name, _)| name)
}

fn is_within(host: &str, domain: &str) -> bool {
    let name = name_of(host);
    let Some(at) = name.len().checked_sub(domain.len()) else { return false };
    name.is_char_boundary(at)
        && name[at..].eq_ignore_ascii_case(domain)
        && (at == 0 || name.as_bytes()[at - 1] == b'.')
}
