//! What a plan and a planner's knowledge look like in the record that people and the next leader read.

use farol_cluster::NodeNo;
use farol_cluster::planned::{KnownRecord, LISTED_MAX, OutcomeRecord, PlanRecord};
use farol_partition::replan::{Decision, Outcome, Replanner, Source, Trigger};

/// Where a round-trip time comes from, in a word.
pub fn source(source: Source) -> &'static str {
    match source {
        Source::Measured => "measured",
        Source::Few => "few samples",
        Source::Route => "route",
        Source::Coordinates => "coordinates",
        Source::Distance => "distance",
        Source::Unknown => "unknown",
    }
}

/// Why a table was proposed, in a sentence.
pub fn sentence(trigger: &Trigger, decision: &Decision) -> String {
    let (gain, why) = match decision {
        Decision::Publish { gain, why, .. } | Decision::Keep { gain, why } => (gain, why),
    };
    let share = |part: f64| format!("{:.1}", 100.0 * part);
    let moved = gain.moved() * 100.0;
    format!(
        "{}, and {}: links to other agents {} % → {} %, pages moved {moved:.1} %, largest load {} % of its share",
        trigger.text(),
        why.text(),
        share(gain.exchange_before),
        share(gain.exchange_after),
        share(gain.overload_after)
    )
}

/// From, to, pages; the largest first.
pub fn moves(decision: &Decision) -> Vec<(Option<NodeNo>, NodeNo, u64)> {
    let Decision::Publish { moves, .. } = decision else { return Vec::new() };
    let number = |name: &String| name.parse().ok().map(NodeNo);
    let mut all: Vec<_> = moves
        .between
        .iter()
        .filter_map(|((from, to), pages)| Some((from.as_ref().and_then(number), number(to)?, *pages)))
        .collect();
    all.sort_by_key(|(.., pages)| std::cmp::Reverse(*pages));
    all.truncate(LISTED_MAX);
    all
}

/// Brings a record up to what the planner knows now.
pub fn describe(record: &mut PlanRecord, planner: &Replanner) {
    let atlas = planner.atlas();
    record.known = KnownRecord {
        hosts: atlas.hosts().len() as u64,
        pages: atlas.pages(),
        links: atlas.links() as u64,
        ..std::mem::take(&mut record.known)
    };
    let loads = planner.loads();
    record.agents.retain(|no, _| loads.iter().any(|(name, _)| *name == no.to_string()));
    for (name, pages) in loads {
        if let Ok(no) = name.parse() {
            record.agents.entry(NodeNo(no)).or_default().pages = pages;
        }
    }
    let refused = atlas.refused().map(|(who, why, count)| (who.to_string(), why.text().to_string(), count));
    record.refused = refused.collect();
    record.refused.sort_by_key(|(.., count)| std::cmp::Reverse(*count));
    record.refused.truncate(LISTED_MAX);
    let outcome = |one: &Outcome| OutcomeRecord {
        version: one.version,
        at: one.at.as_millis(),
        expected: crate::graph::known::gain_record(&one.expected),
        links: one.measured.links,
        forwarded: one.measured.forwarded,
    };
    record.outcomes = planner.outcomes().iter().map(outcome).collect();
    let cell = |cell: &farol_partition::replan::Cell| {
        let whole = |degrees: f64| degrees.floor() as i16;
        let no = cell.agent.parse().ok().map(NodeNo)?;
        Some((no, whole(cell.place.latitude()), whole(cell.place.longitude()), cell.pages))
    };
    record.cells = planner.cells(LISTED_MAX).iter().filter_map(cell).collect();
}
