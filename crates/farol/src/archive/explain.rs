//! What the crawl knows of one page: the facts behind `farol explain`.

use super::followers::Followers;
use super::hosts::HostRow;
use super::scope::ScopeVerdict;
use crate::page_set::PageSet;
use anyhow::Result;
use farol_base::status::{RecentVisit, ScopeReason};
use farol_base::{CanonicalUrl, Timestamp};
use farol_frontier::revisit::planner::Reason;
use farol_frontier::trap::Trap;
use farol_parse::robots::Verdict;
use farol_store::urls::Record;

/// What the crawl knows of a page.
pub struct PageFacts {
    /// `None` where the page is not known.
    pub record: Option<Record>,
    /// Why it is visited when it is; `None` where it was not visited yet.
    pub reason: Option<Reason>,
    pub is_seed: bool,
    /// The operator's order that removed it.
    pub removed: Option<PageSet>,
    pub host_is_removed: bool,
    /// Why it is no part of this crawl.
    pub out_of_scope: Option<ScopeReason>,
    /// What the host's robots.txt says; `None` where it was not read yet.
    pub robots: Option<Verdict>,
    /// The line of it that forbids the page, with its number.
    pub robots_line: Option<(usize, String)>,
    /// What it would be refused for, were it found now.
    pub trap: Option<Trap>,
    /// What is remembered of its host.
    pub host: HostRow,
    pub paused: bool,
    /// Its visits among the last of its host.
    pub recent: Vec<RecentVisit>,
    /// Known pages whose address is nearly the same, where this one is not known.
    pub similar: Vec<CanonicalUrl>,
}

impl Followers {
    /// What is known of a page. Changes nothing that outlives the process.
    pub fn explain(&mut self, url: &CanonicalUrl, now: Timestamp) -> Result<PageFacts> {
        let host = url.host();
        let record = self.urls.get(url)?;
        let visited = record.as_ref().filter(|record| record.visits > 0);
        let recent = self.hosts.recent(&host).into_iter().filter(|visit| visit.url == *url).collect();
        Ok(PageFacts {
            reason: visited.map(|record| self.revisits.explain(url, record, now)),
            is_seed: self.operator.seeds().contains(url),
            removed: self.operator.removal_of(url),
            host_is_removed: self.scope.is_removed(&host),
            out_of_scope: self.out_of_scope(url),
            robots: self.hosts.robots_verdict(url)?,
            robots_line: self.hosts.robots_line(url)?,
            trap: self.trap(url, now),
            host: self.hosts.row(&host).unwrap_or_default(),
            paused: self.operator.paused(),
            recent,
            similar: if record.is_none() { self.similar(url)? } else { Vec::new() },
            record,
        })
    }

    /// Why a page is no part of this crawl; `None` where it is.
    fn out_of_scope(&self, url: &CanonicalUrl) -> Option<ScopeReason> {
        // As the crawl decides: by the address as well, where it is known.
        let address = self.hosts.row(&url.host()).and_then(|row| row.address);
        match self.scope.verdict_at(url, address) {
            ScopeVerdict::Inside | ScopeVerdict::Removed => None,
            ScopeVerdict::Outside => Some(self.scope.why_outside(url, address)),
            ScopeVerdict::Excluded(pattern) => Some(ScopeReason::Pattern(pattern.to_string())),
            ScopeVerdict::NotIncluded => Some(ScopeReason::NoPattern),
        }
    }

    /// Known addresses that differ from this one in the scheme, in `www.`, or in a slash at the end.
    fn similar(&self, url: &CanonicalUrl) -> Result<Vec<CanonicalUrl>> {
        let text = url.as_str();
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let mut known = Vec::new();
        for scheme in [scheme, if scheme == "https" { "http" } else { "https" }] {
            for www in
                [rest.to_string(), rest.strip_prefix("www.").map_or(format!("www.{rest}"), String::from)]
            {
                let slashed = match www.strip_suffix('/') {
                    Some(without) => without.to_string(),
                    None => format!("{www}/"),
                };
                for rest in [www, slashed] {
                    if let Ok(other) = CanonicalUrl::parse(&format!("{scheme}://{rest}"))
                        && other != *url
                        && !known.contains(&other)
                        && self.urls.get(&other)?.is_some()
                    {
                        known.push(other);
                    }
                }
            }
        }
        Ok(known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::replay::tests::{crawled, opened, url};
    use crate::folder::Folder;
    use farol_store::urls::State;

    #[test]
    fn facts_of_pages_that_are_known_forbidden_elsewhere_and_misspelt() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        crawled(&folder);
        let mut opened = opened(&folder);
        let mut facts =
            |page: &str| opened.followers.explain(&url(page), Timestamp::from_secs(1_700_000_500)).unwrap();
        let seed = facts("http://a.org/");
        assert!(
            seed.is_seed && seed.reason.is_some() && seed.removed.is_none() && seed.out_of_scope.is_none()
        );
        assert_eq!(seed.record.unwrap().state, State::Collected);
        let found = facts("http://a.org/more");
        assert!(!found.is_seed && found.reason.is_none() && found.robots.unwrap().is_allowed());
        let forbidden = facts("http://a.org/x/y");
        assert_eq!(forbidden.robots_line, Some((2, "Disallow: /x".to_string())));
        assert_eq!(forbidden.robots, Some(Verdict::Refused { rule: "Disallow: /x".to_string() }));
        let elsewhere = facts("http://c.org/");
        assert!(elsewhere.out_of_scope.is_some() && elsewhere.record.is_none() && elsewhere.robots.is_none());
        assert_eq!(facts("https://www.a.org/more/").similar, [url("http://a.org/more")]);
        assert_eq!(facts("http://a.org/1/1/1/1/1/1/1/1/1").trap.map(Trap::name), Some("repeats itself"));
    }
}
