//! What a check found, and how it is printed.

use crate::Served;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Something that a crawler should not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Offence {
    /// A host was asked while it was still answering.
    HostOverlap,
    /// An address was asked while it was still answering.
    AddressOverlap,
    /// A host was asked again before its delay was over.
    HostTooSoon,
    /// An address was asked again before its delay was over.
    AddressTooSoon,
    /// A host was asked before the time that its Retry-After named.
    RetryAfterIgnored,
    /// A path was asked for that robots.txt forbids.
    Forbidden,
    /// A host was asked for something before its robots.txt had answered.
    BeforeRobots,
    /// A robots.txt was used for too long.
    StaleRobots,
    /// A URL was asked for again without need or condition.
    DoubleFetch,
    /// A page that can be reached was not asked for.
    NeverFetched,
    /// A page of an endless place was asked for.
    TrapPage,
}

impl Offence {
    pub const ALL: [Offence; 11] = [
        Offence::HostOverlap,
        Offence::AddressOverlap,
        Offence::HostTooSoon,
        Offence::AddressTooSoon,
        Offence::RetryAfterIgnored,
        Offence::Forbidden,
        Offence::BeforeRobots,
        Offence::StaleRobots,
        Offence::DoubleFetch,
        Offence::NeverFetched,
        Offence::TrapPage,
    ];

    fn name(self) -> &'static str {
        match self {
            Offence::HostOverlap => "two requests at once to a host",
            Offence::AddressOverlap => "two requests at once to an address",
            Offence::HostTooSoon => "too soon after the last request to a host",
            Offence::AddressTooSoon => "too soon after the last request to an address",
            Offence::RetryAfterIgnored => "earlier than Retry-After",
            Offence::Forbidden => "forbidden by robots.txt",
            Offence::BeforeRobots => "before robots.txt",
            Offence::StaleRobots => "by a robots.txt that is too old",
            Offence::DoubleFetch => "fetched twice",
            Offence::NeverFetched => "never fetched though reachable",
            Offence::TrapPage => "pages of endless places",
        }
    }
}

/// How often an offence was seen, with a few examples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    pub count: u64,
    /// So many are forgiven.
    pub allowed: u64,
    /// The first few, each with its time and URL.
    pub examples: Vec<String>,
}

/// Examples kept per offence: 11 × 5 × at most 16 KB.
const EXAMPLES_MAX: usize = 5;

/// What a check found. Prints as a table.
#[derive(Clone, Debug)]
pub struct Report {
    pub requests: u64,
    pub hosts: u64,
    pub bytes: u64,
    /// From the first request to the end of the last answer.
    pub took: Duration,
    pub served: BTreeMap<Served, u64>,
    pub statuses: BTreeMap<u16, u64>,
    /// Pages that a perfect crawl asks for.
    pub reachable: u64,
    /// Those of them that were asked for.
    pub reached: u64,
    findings: BTreeMap<Offence, Finding>,
}

impl Report {
    pub(super) fn new(doubles_max: u64, traps_max: Option<u64>) -> Report {
        let finding = |offence| {
            let allowed = match offence {
                Offence::DoubleFetch => doubles_max,
                Offence::TrapPage => traps_max.unwrap_or(u64::MAX),
                _ => 0,
            };
            (offence, Finding { allowed, ..Finding::default() })
        };
        Report {
            requests: 0,
            hosts: 0,
            bytes: 0,
            took: Duration::ZERO,
            served: BTreeMap::new(),
            statuses: BTreeMap::new(),
            reachable: 0,
            reached: 0,
            findings: Offence::ALL.into_iter().map(finding).collect(),
        }
    }

    pub(super) fn add(&mut self, offence: Offence, example: impl FnOnce() -> String) {
        let finding = self.findings.entry(offence).or_default();
        finding.count += 1;
        if finding.examples.len() < EXAMPLES_MAX {
            finding.examples.push(example());
        }
    }

    /// How often an offence was seen.
    pub fn count(&self, offence: Offence) -> u64 {
        self.findings.get(&offence).map_or(0, |finding| finding.count)
    }

    /// What was found, offence by offence.
    pub fn findings(&self) -> &BTreeMap<Offence, Finding> {
        &self.findings
    }

    /// Whether nothing was found that is not forgiven.
    pub fn is_clean(&self) -> bool {
        self.findings.values().all(|finding| finding.count <= finding.allowed)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secs = self.took.as_secs_f64();
        let rate = self.requests as f64 / secs.max(1e-6);
        writeln!(
            f,
            "{} requests to {} hosts in {secs:.1} s ({rate:.0}/s), {} bytes",
            self.requests, self.hosts, self.bytes
        )?;
        let list = |f: &mut fmt::Formatter<'_>, name: &str, items: &mut dyn Iterator<Item = String>| {
            writeln!(f, "{name:<10}{}", items.collect::<Vec<_>>().join(", "))
        };
        list(
            f,
            "served",
            &mut self.served.iter().map(|(what, n)| format!("{n} {}", format!("{what:?}").to_lowercase())),
        )?;
        list(f, "status", &mut self.statuses.iter().map(|(status, n)| format!("{n} × {status}")))?;
        writeln!(f, "{} of {} reachable pages were asked for", self.reached, self.reachable)?;
        writeln!(f)?;
        writeln!(f, "{:<48}{:>10}{:>10}", "offence", "count", "allowed")?;
        for (offence, finding) in &self.findings {
            let allowed = match finding.allowed {
                u64::MAX => "any".to_string(),
                allowed => allowed.to_string(),
            };
            let mark = if finding.count > finding.allowed { "  !" } else { "" };
            writeln!(f, "{:<48}{:>10}{:>10}{mark}", offence.name(), finding.count, allowed)?;
        }
        for (offence, finding) in self.findings.iter().filter(|(_, finding)| finding.count > finding.allowed)
        {
            writeln!(f, "\n{}:", offence.name())?;
            for example in &finding.examples {
                writeln!(f, "  {example}")?;
            }
        }
        writeln!(f)?;
        write!(f, "{}", if self.is_clean() { "clean" } else { "NOT CLEAN" })
    }
}
