//! A page that another agent explains: between what people are shown and what travels.

use crate::wire::WireError;
use crate::wire::v1::page::{WirePage, WirePlan};
use crate::wire::values::{language, read_language, read_url};
use farol_base::Timestamp;
use farol_base::status::ScopeReason;
use farol_front::{
    LinkedFrom, PageDetail, PageLink, PageVerdict, PageVisit, RevisitPlan, RobotsTry, VerdictKind,
};
use std::time::Duration;

fn millis(at: Option<Timestamp>) -> Option<u64> {
    at.map(Timestamp::as_millis)
}

fn instant(at: Option<u64>) -> Option<Timestamp> {
    at.map(Timestamp::from_millis)
}

fn whole(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A page as it travels.
pub fn write(page: PageDetail) -> WirePage {
    let links = page.linked_from.links.into_iter();
    let plan = page.plan;
    WirePage {
        url: page.url.to_string(),
        verdict: (page.verdict.kind.code().to_string(), page.verdict.detail),
        state: page.state.map(String::from),
        is_seed: page.is_seed,
        depth: page.depth,
        removed_by: page.removed_by,
        out_of_scope: page.out_of_scope.map(|why| why.written()),
        robots: page.robots.map(|robots| (robots.allowed, robots.rule)),
        host_state: page.host_state,
        host_wakes: millis(page.host_wakes),
        host_failures: page.host_failures,
        moved_to: page.moved_to.map(|url| url.to_string()),
        is_indexed: page.is_indexed,
        title: page.title,
        language: page.language.map(language),
        twins: page.twins.iter().map(ToString::to_string).collect(),
        similar: page.similar.iter().map(ToString::to_string).collect(),
        linked_from: (
            page.linked_from.pages,
            links.map(|link| (link.url.to_string(), link.text, link.nofollow)).collect(),
        ),
        log: page
            .log
            .into_iter()
            .map(|visit| (visit.at.as_millis(), visit.status, visit.outcome, visit.bytes))
            .collect(),
        log_is_whole: page.log_is_whole,
        visits: page.visits,
        failures: page.failures,
        last_visit: millis(page.last_visit),
        last_change: millis(page.last_change),
        due: millis(page.due),
        plan: WirePlan {
            changes: plan.changes,
            changes_per_day: plan.changes_per_day,
            weight: plan.weight,
            fresh: plan.fresh,
            worth: whole(plan.worth),
            price: whole(plan.price),
            host_is_full: plan.host_is_full,
            interval: whole(plan.interval),
        },
    }
}

/// What a page's visits say, in words that pages know.
const STATES: [&str; 7] = ["known", "collected", "redirect", "gone", "refused", "out of scope", "failed"];

/// The page. Refused where a word or an address in it means nothing here.
pub fn read(wire: WirePage) -> Result<PageDetail, WireError> {
    let urls = |texts: Vec<String>| texts.iter().map(|text| read_url(text)).collect::<Result<_, _>>();
    let kind = VerdictKind::ALL.iter().find(|kind| kind.code() == wire.verdict.0);
    let kind = kind.ok_or_else(|| WireError::Damaged(format!("{:?} is no verdict", wire.verdict.0)))?;
    let (pages, links) = wire.linked_from;
    let links = links
        .into_iter()
        .map(|(url, text, nofollow)| Ok::<_, WireError>(PageLink { url: read_url(&url)?, text, nofollow }));
    let millis = Duration::from_millis;
    Ok(PageDetail {
        url: read_url(&wire.url)?,
        verdict: PageVerdict { kind: *kind, detail: wire.verdict.1 },
        state: wire.state.and_then(|state| STATES.into_iter().find(|known| *known == state)),
        is_seed: wire.is_seed,
        depth: wire.depth,
        removed_by: wire.removed_by,
        out_of_scope: wire.out_of_scope.as_deref().map(ScopeReason::read),
        robots: wire.robots.map(|(allowed, rule)| RobotsTry { allowed, rule }),
        host_state: wire.host_state,
        host_wakes: instant(wire.host_wakes),
        host_failures: wire.host_failures,
        moved_to: wire.moved_to.as_deref().map(read_url).transpose()?,
        is_indexed: wire.is_indexed,
        title: wire.title,
        language: wire.language.as_deref().map(read_language).transpose()?,
        twins: urls(wire.twins)?,
        similar: urls(wire.similar)?,
        linked_from: LinkedFrom { pages, links: links.collect::<Result<_, _>>()? },
        log: wire
            .log
            .into_iter()
            .map(|(at, status, outcome, bytes)| PageVisit {
                at: Timestamp::from_millis(at),
                status,
                outcome,
                bytes,
            })
            .collect(),
        log_is_whole: wire.log_is_whole,
        visits: wire.visits,
        failures: wire.failures,
        last_visit: instant(wire.last_visit),
        last_change: instant(wire.last_change),
        due: instant(wire.due),
        plan: RevisitPlan {
            changes: wire.plan.changes,
            changes_per_day: wire.plan.changes_per_day,
            weight: wire.plan.weight,
            fresh: wire.plan.fresh,
            worth: millis(wire.plan.worth),
            price: millis(wire.plan.price),
            host_is_full: wire.plan.host_is_full,
            interval: millis(wire.plan.interval),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> WirePage {
        WirePage {
            url: "http://a/x".into(),
            verdict: ("found".into(), "d".into()),
            state: Some("gone".into()),
            is_seed: true,
            depth: Some(2),
            removed_by: None,
            out_of_scope: None,
            robots: Some((true, Some("r".into()))),
            host_state: None,
            host_wakes: Some(5),
            host_failures: 3,
            moved_to: None,
            is_indexed: true,
            title: "t".into(),
            language: Some("en".into()),
            twins: vec![],
            similar: vec![],
            linked_from: (2, vec![("http://b/".into(), "l".into(), true)]),
            log: vec![(7, Some(200), "o".into(), 4)],
            log_is_whole: true,
            visits: 6,
            failures: 0,
            last_visit: Some(9),
            last_change: None,
            due: None,
            plan: WirePlan::default(),
        }
    }

    #[test]
    fn a_page_is_read_as_it_was_written() {
        let there = read(page()).unwrap();
        assert_eq!(write(there), page());
        assert!(read(WirePage { verdict: ("strange".into(), String::new()), ..page() }).is_err());
        assert!(read(WirePage { url: "nonsense".into(), ..page() }).is_err());
    }
}
