//! Holds nginx's log of a crawl against the walk and against the rules.
//!
//! The rules: the whole walk was fetched; robots.txt came first; nothing forbidden was asked, nothing twice; on
//! one host and on one address a request never began before the one before it had ended and the pause was over.

use super::crawl::DELAY_MS;
use super::log::Seen;
use super::packages::{SITES, Site};
use super::walk::Walk;
use std::collections::{BTreeMap, BTreeSet};

/// nginx takes its time from the last turn of its loop and cuts it to milliseconds, at both ends.
const SLACK_MS: u64 = 3;

/// The verdict over a crawl.
#[derive(Default)]
pub struct Verdict {
    /// Pages of the walk that were not fetched.
    pub missing: Vec<String>,
    /// What was asked beyond the walk's pages, as `404 text/html`, with an example.
    pub beyond: BTreeMap<String, (usize, String)>,
    /// Rules, each with what broke it.
    pub rules: Vec<(&'static str, Vec<String>)>,
    /// Amounts: what, how many, how many are needed.
    pub amounts: Vec<(&'static str, usize, usize)>,
    /// Requests in the log, and pages among them.
    pub requests: usize,
    pub pages: usize,
    /// From the first request to the end of the last answer.
    pub seconds: f64,
    /// Shortest pause on any host, in milliseconds, and on the host that asks for a longer one.
    pub shortest_ms: BTreeMap<String, i64>,
}

impl Verdict {
    pub fn require(&mut self, what: &'static str, count: usize, least: usize) {
        self.amounts.push((what, count, least));
    }

    pub fn holds(&self) -> bool {
        self.missing.is_empty()
            && self.rules.iter().all(|(_, broken)| broken.is_empty())
            && self.amounts.iter().all(|(_, count, least)| count >= least)
    }
}

pub fn judge(walk: &Walk, requests: &[Seen]) -> Verdict {
    let pages: BTreeSet<String> = requests.iter().filter(|seen| seen.is_page()).map(Seen::url).collect();
    let mut verdict = Verdict {
        missing: walk.pages.difference(&pages).cloned().collect(),
        requests: requests.len(),
        pages: pages.len(),
        ..Verdict::default()
    };
    for seen in requests.iter().filter(|seen| !walk.pages.contains(&seen.url())) {
        let kind = format!("{} {}", seen.status, seen.media_type).trim().to_string();
        verdict.beyond.entry(kind).or_insert((0, seen.url())).0 += 1;
    }
    let first = requests.iter().map(|seen| seen.start_ms).min().unwrap_or(0);
    let last = requests.iter().map(|seen| seen.end_ms).max().unwrap_or(0);
    verdict.seconds = (last - first) as f64 / 1000.0;

    let by_host = grouped(requests, |seen| seen.host.clone());
    let by_address = grouped(requests, |seen| seen.address.clone());
    let pause_of = |host: &str| site(host).map_or(DELAY_MS, |site| site.robots.delay_ms.max(DELAY_MS));
    let (mut overlaps, mut early) = (Vec::new(), Vec::new());
    for (host, seen) in &by_host {
        let shortest = pauses(seen, pause_of(host), &mut overlaps, &mut early);
        verdict.shortest_ms.insert(host.clone(), shortest);
    }
    let (mut address_overlaps, mut address_early) = (Vec::new(), Vec::new());
    for seen in by_address.values() {
        pauses(seen, DELAY_MS, &mut address_overlaps, &mut address_early);
    }
    verdict.rules = vec![
        ("never two requests at once to a host", overlaps),
        ("never two requests at once to an address", address_overlaps),
        ("the pause between two requests to a host", early),
        ("the pause between two requests to an address", address_early),
        ("nothing that robots.txt forbids", forbidden(requests)),
        ("robots.txt before anything else", robots_first(&by_host)),
        ("no URL asked twice", twice(requests)),
        ("GET requests by an agent that says its name", nameless(requests)),
    ];
    verdict
}

fn site(host: &str) -> Option<&'static Site> {
    SITES.iter().find(|site| site.host() == host)
}

/// Requests by a key, in the order in which they began.
fn grouped(requests: &[Seen], key: impl Fn(&Seen) -> String) -> BTreeMap<String, Vec<&Seen>> {
    let mut groups: BTreeMap<String, Vec<&Seen>> = BTreeMap::new();
    for seen in requests {
        groups.entry(key(seen)).or_default().push(seen);
    }
    for group in groups.values_mut() {
        group.sort_by_key(|seen| (seen.start_ms, seen.end_ms));
    }
    groups
}

/// Writes down what came too soon and answers with the shortest pause, negative where two requests overlap.
fn pauses(seen: &[&Seen], pause_ms: u64, overlaps: &mut Vec<String>, early: &mut Vec<String>) -> i64 {
    let mut shortest = i64::MAX;
    let mut end_ms = None;
    for seen in seen {
        if let Some(end_ms) = end_ms {
            let pause = seen.start_ms as i64 - end_ms as i64;
            shortest = shortest.min(pause);
            if pause < -(SLACK_MS as i64) {
                overlaps.push(format!("{} began {} ms before the end of another", seen.url(), -pause));
            } else if pause + (SLACK_MS as i64) < pause_ms as i64 {
                early.push(format!("{} after {pause} ms instead of {pause_ms} ms", seen.url()));
            }
        }
        end_ms = end_ms.max(Some(seen.end_ms));
    }
    shortest
}

fn forbidden(requests: &[Seen]) -> Vec<String> {
    let refused = |seen: &&Seen| site(&seen.host).is_none_or(|site| site.refuses(&seen.path));
    requests.iter().filter(refused).map(Seen::url).collect()
}

fn robots_first(by_host: &BTreeMap<String, Vec<&Seen>>) -> Vec<String> {
    let firsts = by_host.values().filter_map(|seen| seen.first());
    firsts.filter(|seen| seen.path != "/robots.txt").map(|seen| seen.url()).collect()
}

fn twice(requests: &[Seen]) -> Vec<String> {
    let mut known = BTreeSet::new();
    requests.iter().map(Seen::url).filter(|url| !known.insert(url.clone())).collect()
}

fn nameless(requests: &[Seen]) -> Vec<String> {
    let bad = |seen: &&Seen| seen.method != "GET" || !seen.agent.to_ascii_lowercase().contains("farol");
    requests
        .iter()
        .filter(bad)
        .map(|seen| format!("{} {} by {:?}", seen.method, seen.url(), seen.agent))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests as `host path start end`, all of them good answers.
    fn requests(lines: &str) -> Vec<Seen> {
        let read = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let label = fields[0];
            Seen {
                start_ms: fields[2].parse().unwrap(),
                end_ms: fields[3].parse().unwrap(),
                address: SITES.iter().find(|site| site.label == label).unwrap().address(),
                host: format!("{label}.docs.test"),
                status: 200,
                method: "GET".to_string(),
                media_type: "text/html".to_string(),
                path: fields[1].to_string(),
                agent: "farol/1".to_string(),
            }
        };
        lines.split(';').map(read).collect()
    }

    fn check(lines: &str, broken: &[&str]) {
        let walk = Walk { pages: BTreeSet::new(), others: BTreeMap::new(), seconds: None };
        let verdict = judge(&walk, &requests(lines));
        let found: Vec<&str> =
            verdict.rules.iter().filter(|(_, broken)| !broken.is_empty()).map(|(rule, _)| *rule).collect();
        assert_eq!(found, broken, "{lines}");
        assert_eq!(verdict.holds(), broken.is_empty());
    }

    #[test]
    fn rules() {
        check("apache /robots.txt 0 5; apache /a 15 20; apache /b 30 31", &[]);
        check("apache /robots.txt 0 5; apache /a 12 20; apache /b 27 31", &[]);
        check("apache /a 0 5; apache /robots.txt 15 20", &["robots.txt before anything else"]);
        check("apache /robots.txt 0 5; apache /ko/a 15 20", &["nothing that robots.txt forbids"]);
        check("apache /robots.txt 0 5; apache /a 15 20; apache /a 30 31", &["no URL asked twice"]);
        // The log is in the order of ends; beginnings count.
        check(
            "apache /robots.txt 0 5; apache /b 60 61; apache /a 50 90",
            &["never two requests at once to a host", "never two requests at once to an address"],
        );
        check(
            "apache /robots.txt 0 5; apache /a 11 20",
            &["the pause between two requests to a host", "the pause between two requests to an address"],
        );
        // This host's own rules ask for 50 ms.
        check("sqlite /robots.txt 0 5; sqlite /a 40 41", &["the pause between two requests to a host"]);
        // Two hosts on one address.
        check(
            "reference-pt /robots.txt 0 5; reference-es /robots.txt 2 3",
            &["the pause between two requests to an address"],
        );
    }

    #[test]
    fn a_page_of_the_walk_that_was_not_fetched_is_missing() {
        let url = |path: &str| format!("http://apache.docs.test{path}");
        let pages = BTreeSet::from([url("/a"), url("/b")]);
        let walk = Walk { pages, others: BTreeMap::new(), seconds: None };
        let verdict = judge(&walk, &requests("apache /robots.txt 0 5; apache /a 15 20"));
        assert_eq!(verdict.missing, [url("/b")]);
        assert_eq!(verdict.beyond["200 text/html"].0, 1);
        assert!(!verdict.holds());
    }
}
