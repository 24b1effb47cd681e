//! Pages that are not asked for: robots.txt forbids them, or they do not belong to the crawl.

use super::followers::Followers;
use super::scope::ScopeVerdict;
use crate::fabric::Change;
use anyhow::Result;
use farol_base::status::SeedState;
use farol_base::{CanonicalUrl, ContentHash, Timestamp};
use farol_frontier::trap::Trap;
use farol_parse::robots::Verdict;
use farol_store::urls::{Visit, VisitOutcome};
use std::net::IpAddr;

/// Why a page is not asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAsked {
    /// robots.txt forbids it.
    Robots,
    /// It no longer belongs to this crawl: the settings changed, or its host was taken out.
    OutOfScope,
    /// A pattern of the settings leaves it out.
    Excluded,
    /// The operator has removed it.
    Removed,
    /// It belongs to a trap that was seen after the page was found.
    Trap,
}

impl NotAsked {
    /// Its name among the kinds of visits without an answer.
    pub fn code(self) -> &'static str {
        match self {
            NotAsked::Robots => "refused_by_robots",
            NotAsked::OutOfScope => "out_of_scope",
            NotAsked::Excluded => "excluded",
            NotAsked::Removed => "removed",
            NotAsked::Trap => "trap",
        }
    }
}

impl Followers {
    /// Why a page must not be asked for; `None` where it may be.
    pub fn not_asked(&mut self, url: &CanonicalUrl) -> Result<Option<NotAsked>> {
        self.not_asked_at(url, None)
    }

    /// The same where the address of its server is known.
    pub fn not_asked_at(&mut self, url: &CanonicalUrl, address: Option<IpAddr>) -> Result<Option<NotAsked>> {
        let mut verdict = self.scope.verdict_at(url, address);
        // Since the start nobody may have read the robots.txt that names it.
        if verdict == ScopeVerdict::NotIncluded && self.hosts.names_list(url)? {
            self.scope.add_list(url);
            verdict = self.scope.verdict_at(url, address);
        }
        match verdict {
            ScopeVerdict::Inside => {}
            ScopeVerdict::Outside | ScopeVerdict::Removed => return Ok(Some(NotAsked::OutOfScope)),
            ScopeVerdict::Excluded(_) | ScopeVerdict::NotIncluded => return Ok(Some(NotAsked::Excluded)),
        }
        if self.operator.removal_of(url).is_some() {
            return Ok(Some(NotAsked::Removed));
        }
        let rules = self.hosts.robots(&url.host())?;
        let refused = rules.is_some_and(|rules| !rules.verdict(url.path_and_query()).is_allowed());
        Ok(refused.then_some(NotAsked::Robots))
    }

    /// Whether a page that was never read belongs to a trap which was seen after the page was found. Seeds belong to none.
    pub fn is_trapped(&mut self, url: &CanonicalUrl, now: Timestamp) -> Result<bool> {
        if self.seeds.has(url) || !self.trap(url, now).is_some_and(Trap::reaches_back) {
            return Ok(false);
        }
        Ok(self.urls.get(url)?.is_none_or(|record| record.position.is_none()))
    }

    /// Records that a page was not asked for. It leaves the index, and is thought of again later.
    pub fn refused(
        &mut self,
        url: &CanonicalUrl,
        why: NotAsked,
        now: Timestamp,
        again: Timestamp,
    ) -> Result<()> {
        let known = self.urls.get(url)?;
        let outcome = match why {
            NotAsked::Robots => VisitOutcome::Refused,
            NotAsked::OutOfScope | NotAsked::Excluded | NotAsked::Removed | NotAsked::Trap => {
                VisitOutcome::OutOfScope
            }
        };
        let visit = self.missed(url, now, known.as_ref(), outcome);
        self.urls.visited(url, &Visit { due: again, ..visit })?;
        if self.indexing && known.is_some_and(|record| record.position.is_some()) {
            self.fabric.changes.send(Change::Delete(url.clone()))?;
        }
        Ok(())
    }

    /// A page was passed over, as it is left to another engine. What is known of it stays, and so does its place in the index.
    pub fn left_alone(&mut self, url: &CanonicalUrl, again: Timestamp) -> Result<()> {
        let known = self.urls.get(url)?.unwrap_or_default();
        let visit = Visit {
            at: known.last_visit,
            outcome: VisitOutcome::Failed,
            content_hash: ContentHash::default(),
            changed: false,
            position: None,
            download: known.download,
            due: again,
            memo: known.memo,
        };
        Ok(self.urls.visited(url, &visit)?)
    }

    /// A page was not asked for: where a seed stands for it, whoever named that is told.
    pub fn seed_not_asked(&mut self, url: &CanonicalUrl, why: NotAsked, at: Timestamp) -> Result<()> {
        if !self.seeds.has(url) {
            return Ok(());
        }
        let (state, detail) = match (why, self.scope.verdict(url)) {
            (NotAsked::Robots, _) => {
                let verdict =
                    self.hosts.robots(&url.host())?.map(|rules| rules.verdict(url.path_and_query()));
                let rule = match verdict {
                    Some(Verdict::Refused { rule }) => rule,
                    _ => String::new(),
                };
                (SeedState::Robots, rule)
            }
            (_, ScopeVerdict::Excluded(pattern)) => (SeedState::Excluded, pattern.to_string()),
            (_, _) => (SeedState::Removed, url.host().to_string()),
        };
        self.seeds.page(url, state, &detail, at);
        Ok(())
    }
}
