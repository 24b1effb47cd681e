//! What an answer means for the seeds that stand for its page: where they lead, and why one gives nothing.

use super::followers::{ArchivedVisit, Followers};
use super::interpret::{Moved, MovedBy, PageOutcome, StaysOut};
use super::scope::ScopeVerdict;
use crate::exchange::orders::CrawlOrder;
use anyhow::Result;
use farol_base::status::SeedState;
use farol_base::{CanonicalUrl, Host, Timestamp};
use farol_store::urls::{Found, State};

impl Followers {
    /// A page has moved. Where a seed stands for it, the scope widens to where it went: its server says so, or the page
    /// itself to every browser. What a page calls its original is only another name of it, with or without `www.`.
    pub(super) fn seed_moved(
        &mut self,
        visit: &ArchivedVisit<'_>,
        moved: &Moved,
        is_followed: bool,
    ) -> Result<()> {
        let (from, to) = (visit.url, &moved.to.url);
        self.seeds.answers(&from.host(), None);
        if !self.seeds.has(from) {
            return Ok(());
        }
        if !is_followed {
            let count = self.redirects_max().to_string();
            self.seeds.page(from, SeedState::TooManyRedirects, &count, visit.fetched);
            return Ok(());
        }
        let is_same_name = without_www(&from.host()) == without_www(&to.host());
        if moved.by == MovedBy::Canonical && !is_same_name && self.scope.verdict(to) == ScopeVerdict::Outside
        {
            self.seeds.page(from, SeedState::Elsewhere, to.as_str(), visit.fetched);
            return Ok(());
        }
        self.scope.widen(to);
        let is_news = !self.seeds.has(to);
        self.seeds.moved(from, to, visit.fetched)?;
        if let Some(exchange) = self.exchange.as_ref().filter(|_| is_news) {
            // How far the crawl goes is the same for all agents.
            exchange.tell_all(CrawlOrder::Moved { from: from.to_string(), to: to.to_string() });
        }
        let state = match self.scope.verdict(to) {
            ScopeVerdict::Removed => Some((SeedState::Removed, to.host().to_string())),
            ScopeVerdict::Excluded(pattern) => Some((SeedState::Excluded, pattern.to_string())),
            // It was read before, by another way.
            _ if self.urls.get(to)?.is_some_and(|record| record.state == State::Collected) => {
                Some((SeedState::Fine, String::new()))
            }
            _ => None,
        };
        if let Some((state, detail)) = state {
            self.seeds.page(to, state, &detail, visit.fetched);
        }
        Ok(())
    }

    /// Another agent has seen that a seed was moved: the crawl goes there as well.
    pub(super) fn seed_moved_elsewhere(
        &mut self,
        from: &CanonicalUrl,
        to: &CanonicalUrl,
        now: Timestamp,
    ) -> Result<()> {
        if self.seeds.has(from) && !self.seeds.has(to) {
            self.scope.widen(to);
            self.seeds.moved(from, to, now)?;
        }
        Ok(())
    }

    /// A seed was named again. Where it is in trouble it is visited at once, unless its server asked us to wait; answers
    /// the host that has to come again.
    pub fn wake_seed(&mut self, seed: &CanonicalUrl, now: Timestamp) -> Result<Option<Host>> {
        let Some((page, state, wait)) = self.seeds.wake(seed) else { return Ok(None) };
        let host = page.host();
        self.hosts.wake(&host, wait.max(now), state == SeedState::Robots)?;
        let again = [seed.clone(), page].map(|url| Found { url, depth: 0, hint: Some(now) });
        self.find(again.to_vec())?;
        Ok(Some(host))
    }

    /// Tells of seeds that a pattern leaves out: they are not even noted.
    pub(super) fn seeds_left_out(&mut self) {
        let seeds = self.operator().seeds().iter();
        let left_out = seeds.filter_map(|seed| match self.scope.verdict(seed) {
            ScopeVerdict::Excluded(pattern) => Some((seed.clone(), pattern)),
            _ => None,
        });
        let left_out: Vec<_> = left_out.collect();
        for (seed, pattern) in left_out {
            self.seeds.page(&seed, SeedState::Excluded, &pattern.to_string(), self.now);
        }
    }

    /// A page was answered; `followed` of its `links` are in scope.
    pub(super) fn seed_visited(
        &mut self,
        visit: &ArchivedVisit<'_>,
        outcome: &PageOutcome,
        links: usize,
        followed: usize,
    ) {
        let came = match outcome {
            PageOutcome::Page(_) | PageOutcome::List | PageOutcome::NotModified => Some(visit.url),
            PageOutcome::Redirect | PageOutcome::Gone | PageOutcome::Robots(_) => None,
        };
        self.seeds.answers(&visit.url.host(), came);
        if !self.seeds.has(visit.url) {
            return;
        }
        let (state, detail) = match outcome {
            PageOutcome::Page(page) => match &page.document {
                Err(StaysOut::NoIndex) => (SeedState::NoIndex, String::new()),
                _ if followed > 0 => (SeedState::Fine, String::new()),
                Err(StaysOut::NotText(called)) => (SeedState::NotHtml, called.clone()),
                _ if page.nofollow => (SeedState::NoFollow, String::new()),
                _ if links > 0 => (SeedState::LinksOutside, links.to_string()),
                // Texts are read where they are indexed.
                Err(StaysOut::Empty) if self.indexing => (SeedState::Empty, String::new()),
                Ok(document) if self.indexing && document.body.trim().is_empty() => {
                    (SeedState::Empty, String::new())
                }
                _ => (SeedState::NoLinks, String::new()),
            },
            PageOutcome::List => (SeedState::Fine, String::new()),
            // What was found out at the last full visit still holds.
            PageOutcome::NotModified if !self.seeds.is_waiting(visit.url) => return,
            PageOutcome::NotModified => (SeedState::Fine, String::new()),
            PageOutcome::Gone | PageOutcome::Redirect => (state_of(visit.status), visit.status.to_string()),
            PageOutcome::Robots(_) => return,
        };
        self.seeds.page(visit.url, state, &detail, visit.fetched);
    }
}

/// What a status that brings no page means for whoever named it.
pub fn state_of(status: u16) -> SeedState {
    match status {
        401 | 407 => SeedState::SignIn,
        403 | 451 => SeedState::Forbidden,
        404 | 410 => SeedState::NotFound,
        429 | 503 => SeedState::Busy,
        500.. => SeedState::ServerError,
        _ => SeedState::OtherStatus,
    }
}

fn without_www(host: &Host) -> &str {
    host.name().strip_prefix("www.").unwrap_or(host.name())
}
