//! Explains single pages: puts together what the crawl, the archive, the link graph and the index know.

use super::LiveEngine;
use crate::archive::explain::PageFacts;
use crate::archive::interpret::{Interpreted, PageOutcome, StaysOut};
use crate::handles::order::{Inspect, PageAnswer};
use farol_base::{CanonicalUrl, PageId, Timestamp};
use farol_front::{
    BrokenList, BrokenPage, EngineError, LinkedFrom, PageDetail, PageLink, PageVerdict, PageVisit,
    RevisitPlan, RobotsTry, VerdictKind,
};
use farol_frontier::HostState;
use farol_parse::robots::Verdict;
use farol_store::pages::Archived;
use farol_store::urls::{Record, State};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Pages shown that link to one, and pages shown with the same text.
const LINKS_MAX: usize = 20;
const TWINS_MAX: usize = 10;
/// Earlier visits of a page are looked for in the archive for so long.
const LOG_TIME_MAX: Duration = Duration::from_millis(1500);
/// Visits shown of a page.
const LOG_MAX: usize = 50;

impl LiveEngine {
    /// What this process knows of a page.
    pub fn explain_page(&self, url: &CanonicalUrl) -> Result<PageDetail, EngineError> {
        let PageAnswer { facts, host } =
            self.ask(|reply| Inspect::Page { url: url.clone(), reply }).ok_or(EngineError::Busy)?;
        let unavailable = |error: String| EngineError::Unavailable(error);
        let document = self.index.document(url).map_err(unavailable)?;
        let twins = match &document {
            Some(document) => self.index.twins(document, TWINS_MAX),
            None => Ok(Vec::new()),
        };
        let record = facts.record.clone().unwrap_or_default();
        // A copy that cannot be read tells nothing.
        let copy = record.position.and_then(|at| self.archive.read(at).ok());
        let copy = copy.map(|copy| (self.interpreter.interpret_archived(&copy, record.depth), copy));
        let (log, log_is_whole) = self.log(url, &record, copy.as_ref().map(|(_, copy)| copy), &facts);
        let mut links = self.linked_from(&[url.id()], LINKS_MAX)?;
        let host_state = host.as_ref().map(|view| view.state);
        let rests = Timestamp::from_millis(facts.host.not_before_ms);
        let visited = record.visits > 0;
        Ok(PageDetail {
            verdict: verdict(&facts, host_state, copy.as_ref(), document.is_some()),
            state: facts.record.as_ref().map(|record| state_name(record.state)),
            is_seed: facts.is_seed,
            depth: facts.record.as_ref().map(|record| record.depth),
            removed_by: facts.removed.as_ref().map(ToString::to_string),
            out_of_scope: facts.out_of_scope,
            robots: facts.robots.map(|verdict| match verdict {
                Verdict::Allowed { rule } => RobotsTry { allowed: true, rule },
                Verdict::Refused { rule } => RobotsTry { allowed: false, rule: Some(rule) },
            }),
            host_state: host_state.map(|state| state.name().to_string()),
            host_wakes: host.and_then(|view| view.wakes).or((rests > Timestamp::EPOCH).then_some(rests)),
            host_failures: facts.host.failures,
            moved_to: copy.and_then(|(interpreted, _)| interpreted.moved).map(|moved| moved.to.url),
            is_indexed: document.is_some(),
            title: document.as_ref().map(|document| document.title.clone()).unwrap_or_default(),
            language: document.and_then(|document| document.language),
            twins: twins.map_err(unavailable)?,
            similar: facts.similar,
            linked_from: links.remove(&url.id()).unwrap_or_default(),
            log,
            log_is_whole,
            visits: record.visits,
            failures: record.failures.into(),
            last_visit: visited.then_some(record.last_visit),
            last_change: (record.last_change > Timestamp::EPOCH).then_some(record.last_change),
            due: (visited && record.due != Timestamp::NEVER).then_some(record.due),
            plan: facts.reason.map(plan).unwrap_or_default(),
            url: url.clone(),
        })
    }

    pub(super) fn broken_pages(
        &self,
        filter: &str,
        first: usize,
        count: usize,
    ) -> Result<BrokenList, EngineError> {
        let filter = filter.to_string();
        let answer = self.ask(|reply| Inspect::Missing { filter, first, count, reply });
        let (total, pages) = answer.ok_or(EngineError::Busy)?;
        let ids: Vec<PageId> = pages.iter().map(|(url, _)| url.id()).collect();
        let mut links = self.linked_from(&ids, LINKS_MAX)?;
        let rows = pages.into_iter().map(|(url, record)| BrokenPage {
            linked_from: links.remove(&url.id()).unwrap_or_default(),
            // Where no answer came last, an earlier one is in the archive.
            status: match record.state {
                State::Gone => record
                    .position
                    .and_then(|at| self.archive.read(at).ok()?.exchange())
                    .map(|copy| copy.status),
                _ => None,
            },
            last_visit: record.last_visit,
            url,
        });
        Ok(BrokenList { total, rows: rows.collect() })
    }

    /// Who links to each of these pages.
    fn linked_from(
        &self,
        targets: &[PageId],
        limit: usize,
    ) -> Result<HashMap<PageId, LinkedFrom>, EngineError> {
        let unavailable = |error: farol_links::Error| {
            EngineError::Unavailable(format!("the link graph cannot be read: {error}"))
        };
        // Held for a moment: what costs the time is done on a snapshot.
        let backlinks = self.links.lock().backlinks(targets, limit).map_err(unavailable)?;
        let found = backlinks.find().map_err(unavailable)?;
        let named = found.into_iter().map(|(target, found)| {
            let links = found.links.into_iter().filter_map(|link| {
                let page = self.archive.read(link.at).ok()?;
                Some(PageLink { url: page.url().clone(), text: link.anchor, nofollow: link.nofollow })
            });
            (target, LinkedFrom { pages: found.pages, links: links.collect() })
        });
        Ok(named.collect())
    }

    /// The visits of a page, newest first, and whether these are all of them.
    ///
    /// The archive is in the order of time, with no index of addresses: it is read from its newest file on, for a while.
    fn log(
        &self,
        url: &CanonicalUrl,
        record: &Record,
        copy: Option<&Archived>,
        facts: &PageFacts,
    ) -> (Vec<PageVisit>, bool) {
        let mut log: Vec<PageVisit> = copy.map(|copy| self.visit_of(copy)).into_iter().collect();
        // What brought no answer is not archived; the last such visits of a host are remembered.
        let unanswered = facts.recent.iter().filter(|visit| visit.status.is_none_or(|status| status >= 500));
        log.extend(unanswered.map(|visit| PageVisit {
            at: visit.at,
            status: visit.status,
            outcome: visit.outcome.clone(),
            bytes: visit.bytes,
        }));
        let is_whole = |log: &[PageVisit]| log.len() >= record.visits as usize;
        let (begun, mut in_time) = (Instant::now(), true);
        let mut file = Some(self.archive.end().file);
        while let Some(number) = file.filter(|_| in_time && !is_whole(&log)) {
            for found in self.archive.scan(farol_base::PagePosition { file: number, offset: 0 }) {
                in_time = begun.elapsed() < LOG_TIME_MAX;
                match found {
                    Ok((at, ..)) if at.file != number || !in_time => break,
                    Ok((_, _, archived)) if archived.url() == url => {
                        let visit = self.visit_of(&archived);
                        if log.iter().all(|known| known.at != visit.at) {
                            log.push(visit);
                        }
                    }
                    _ => {}
                }
            }
            file = number.checked_sub(1);
        }
        log.sort_by_key(|visit| std::cmp::Reverse(visit.at));
        let is_whole = (in_time || is_whole(&log)) && log.len() <= LOG_MAX;
        log.truncate(LOG_MAX);
        (log, is_whole)
    }

    fn visit_of(&self, archived: &Archived) -> PageVisit {
        let outcome = match self.interpreter.interpret_archived(archived, 0).outcome {
            PageOutcome::Page(page) => match page.document {
                Ok(_) => "a page",
                Err(_) => "not for the index",
            },
            PageOutcome::List => "addresses",
            PageOutcome::Redirect => "redirect",
            PageOutcome::NotModified => "unchanged",
            PageOutcome::Gone => "gone",
            PageOutcome::Robots(_) => "robots.txt",
        };
        PageVisit {
            at: archived.fetched(),
            status: archived.exchange_ref().map(|exchange| exchange.status),
            outcome: match archived {
                Archived::Exchange(_) => outcome.to_string(),
                Archived::Conversion(_) => format!("received: {outcome}"),
            },
            bytes: archived.bytes() as u64,
        }
    }
}

/// Why a page is found or not: the first reason that keeps it out, in the order in which they count.
fn verdict(
    facts: &PageFacts,
    host: Option<HostState>,
    copy: Option<&(Interpreted, Archived)>,
    is_indexed: bool,
) -> PageVerdict {
    let because = |kind, detail: String| PageVerdict { kind, detail };
    let plainly = |kind| PageVerdict { kind, detail: String::new() };
    if let Some(order) = &facts.removed {
        return because(VerdictKind::Removed, order.to_string());
    }
    if facts.host_is_removed {
        return plainly(VerdictKind::HostRemoved);
    }
    if is_indexed {
        return plainly(VerdictKind::Found);
    }
    if let Some(why) = &facts.out_of_scope {
        return because(VerdictKind::OutOfScope, why.written());
    }
    if let Some(Verdict::Refused { rule }) = &facts.robots {
        // As compilers write it, which needs no language.
        let line = facts.robots_line.as_ref().map(|(number, line)| format!("robots.txt:{number}: {line}"));
        return because(VerdictKind::Robots, line.unwrap_or_else(|| rule.clone()));
    }
    let Some(record) = &facts.record else {
        return match facts.trap {
            Some(trap) => because(VerdictKind::Trap, trap.name().to_string()),
            None => plainly(VerdictKind::Unknown),
        };
    };
    match record.state {
        State::Known => match host {
            _ if facts.paused => plainly(VerdictKind::Paused),
            Some(HostState::Unreachable | HostState::Refused) => {
                because(VerdictKind::HostFailing, host_trouble(facts))
            }
            _ if facts.host.failures > 0 => because(VerdictKind::HostFailing, host_trouble(facts)),
            _ => plainly(VerdictKind::Waiting),
        },
        State::Failed => because(VerdictKind::NoAnswer, last_error(facts)),
        State::Gone => because(VerdictKind::Gone, told_status(copy.map(|(_, copy)| copy))),
        State::Redirect => {
            let to = copy.and_then(|(interpreted, _)| interpreted.moved.as_ref());
            because(VerdictKind::Redirect, to.map_or(String::new(), |moved| moved.to.url.to_string()))
        }
        State::Refused | State::OutOfScope => match facts.trap.filter(|trap| trap.reaches_back()) {
            Some(trap) => because(VerdictKind::Trap, trap.name().to_string()),
            None => plainly(VerdictKind::AllowedAgain),
        },
        State::Collected => match copy {
            Some((interpreted, copy)) => of_copy(interpreted, copy),
            None => plainly(VerdictKind::NotYet),
        },
    }
}

/// What a page that came says of itself.
fn of_copy(interpreted: &Interpreted, copy: &Archived) -> PageVerdict {
    let (kind, detail) = match &interpreted.outcome {
        PageOutcome::List => (VerdictKind::List, String::new()),
        PageOutcome::Page(page) => match &page.document {
            Ok(_) => (VerdictKind::NotYet, String::new()),
            Err(StaysOut::NoIndex) => (VerdictKind::NoIndex, String::new()),
            Err(StaysOut::Expired) => (VerdictKind::Expired, String::new()),
            Err(StaysOut::Elsewhere(to)) => (VerdictKind::Canonical, to.to_string()),
            Err(StaysOut::NotText(_)) => {
                let kind = copy.exchange_ref().and_then(|copy| copy.header("content-type"));
                (VerdictKind::NotText, kind.unwrap_or_default().into_owned())
            }
            Err(StaysOut::Empty) => (VerdictKind::Empty, String::new()),
            Err(StaysOut::OutsideView(why)) => (VerdictKind::OutOfScope, why.written()),
        },
        _ => (VerdictKind::NotYet, String::new()),
    };
    PageVerdict { kind, detail }
}

/// The status of a page that is gone; other engines tell none.
fn told_status(copy: Option<&Archived>) -> String {
    copy.and_then(Archived::exchange_ref).map_or("404".to_string(), |copy| copy.status.to_string())
}

/// What its host failed with most often, as a label.
fn host_trouble(facts: &PageFacts) -> String {
    let most = facts.host.errors.iter().max_by_key(|(_, count)| **count);
    most.map_or(String::new(), |(label, _)| label.clone())
}

/// What went wrong last, as a label.
fn last_error(facts: &PageFacts) -> String {
    facts.recent.first().and_then(|visit| visit.error).unwrap_or_default().to_string()
}

fn state_name(state: State) -> &'static str {
    match state {
        State::Known => "known",
        State::Collected => "collected",
        State::Redirect => "redirect",
        State::Gone => "gone",
        State::Refused => "refused",
        State::Failed => "failed",
        State::OutOfScope => "out of scope",
    }
}

fn plan(reason: farol_frontier::revisit::planner::Reason) -> RevisitPlan {
    let secs = |secs: f64| Duration::try_from_secs_f64(secs).unwrap_or(Duration::MAX);
    RevisitPlan {
        changes: reason.changes,
        changes_per_day: reason.rate * 86_400.0,
        weight: reason.weight,
        fresh: reason.fresh,
        worth: secs(reason.worth),
        price: secs(reason.price),
        host_is_full: reason.saturated,
        interval: secs(reason.interval),
    }
}
