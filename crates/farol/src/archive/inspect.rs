//! Answers questions about the crawl, on the thread that writes: the crawl's own, or whichever asks where none crawls.

use super::followers::Followers;
use crate::handles::order::{HostAnswer, HostLine, Inspect, PageAnswer};
use crate::page_set::PageSet;
use anyhow::Result;
use farol_base::{CanonicalUrl, Clock, Host, SystemClock};
use farol_frontier::HostView;
use farol_store::urls::{HostCounts, Record, Walk};

/// Hosts looked at for one list; beyond that the filter must be narrower.
const HOSTS_LISTED_MAX: usize = 10_000;
/// With more than this written since the last compaction, lists of pages are of what was known then.
const COMPACTED_FIRST_MAX: u64 = 200_000;

/// Where a host stands in the frontier.
pub type HostViews<'a> = dyn Fn(&Host) -> Option<HostView> + 'a;

impl Followers {
    /// Answers a question put to the crawl.
    ///
    /// # Errors
    /// Where a store cannot be read; whoever asked then hears nothing.
    pub fn answer(&mut self, inspect: Inspect, views: &HostViews<'_>) -> Result<()> {
        match inspect {
            Inspect::Hosts { filter, state, first, count, reply } => {
                let matching = self.urls.hosts(0, HOSTS_LISTED_MAX, &filter);
                let lines = matching.into_iter().map(|(host, counts)| self.line(host, counts, views));
                let lines: Vec<HostLine> =
                    lines.filter(|line| state.as_deref().is_none_or(|state| line.state() == state)).collect();
                let total = lines.len();
                let page = lines.into_iter().skip(first).take(count).collect();
                // Whoever asked may have gone meanwhile.
                let _ = reply.send((total, page));
            }
            Inspect::Host { host, reply } => {
                let answer = self.urls.host_counts(&host).map(|counts| HostAnswer {
                    row: self.hosts.row(&host).unwrap_or_default(),
                    recent: self.hosts.recent(&host),
                    robots: self.hosts.robots_text(&host).ok().flatten().unwrap_or_default(),
                    line: self.line(host, counts, views),
                });
                let _ = reply.send(answer);
            }
            Inspect::Known { hosts, newest, reply } => {
                if newest && (1..=COMPACTED_FIRST_MAX).contains(&self.urls.counts().unmerged) {
                    self.urls.compact_all()?;
                }
                let known = |host| self.urls.host_counts(host).map(|counts| counts.known);
                let _ = reply.send(hosts.iter().map(known).collect());
            }
            Inspect::Page { url, reply } => {
                let facts = self.explain(&url, SystemClock.now())?;
                let _ = reply.send(PageAnswer { facts, host: views(&url.host()) });
            }
            Inspect::Missing { filter, first, count, reply } => {
                let _ = reply.send(self.missing(&filter, first, count)?);
            }
            Inspect::RemovedPages { reply } => {
                let mut removed: Vec<PageSet> =
                    self.operator().removed_pages().map(|(pages, _)| pages).collect();
                removed.sort_by_key(ToString::to_string);
                let _ = reply.send(removed);
            }
        }
        Ok(())
    }

    /// Pages that were asked for and are not there: how many, and some of them.
    fn missing(
        &mut self,
        filter: &str,
        first: usize,
        count: usize,
    ) -> Result<(usize, Vec<(CanonicalUrl, Record)>)> {
        if self.urls.counts().unmerged <= COMPACTED_FIRST_MAX {
            self.urls.compact_all()?;
        }
        let (mut total, mut page) = (0, Vec::new());
        self.urls.walk(Walk::Missing, &mut |host, path, record| {
            if !host.as_str().contains(filter) {
                return;
            }
            if (first..first.saturating_add(count)).contains(&total)
                && let Ok(url) = host.url(path)
            {
                page.push((url, record.clone()));
            }
            total += 1;
        })?;
        Ok((total, page))
    }

    fn line(&self, host: Host, counts: HostCounts, views: &HostViews<'_>) -> HostLine {
        let view = views(&host);
        let errors = self.hosts.row(&host).map_or(0, |row| row.errors.values().sum());
        let freshness = self.revisits.host_freshness(&host, SystemClock.now());
        HostLine { host, counts, view, errors, freshness }
    }
}

#[cfg(test)]
mod tests {
    use crate::archive::replay::tests::{crawled, opened, url};
    use crate::folder::Folder;
    use farol_base::Timestamp;

    #[test]
    fn pages_that_are_not_there_are_listed_by_host_and_in_parts() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        crawled(&folder);
        let mut followers = opened(&folder).followers;
        let now = Timestamp::from_secs(1_700_000_500);
        for page in ["http://a.org/1", "http://a.org/2", "http://b.org/3"] {
            followers.failed(&url(page), now).unwrap();
        }
        let mut missing = |filter: &str, first, count| {
            let (total, page) = followers.missing(filter, first, count).unwrap();
            (total, page.into_iter().map(|(url, _)| url.to_string()).collect::<Vec<_>>())
        };
        assert_eq!(missing("", 0, 10).0, 3);
        assert_eq!(missing("b.org", 0, 10), (1, vec!["http://b.org/3".to_string()]));
        assert_eq!(missing("a.org", 1, 10).1.len(), 1);
        assert_eq!(missing("c.org", 0, 10), (0, vec![]));
    }
}
