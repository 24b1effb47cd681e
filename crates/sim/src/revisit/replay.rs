//! The table of a replayed history: rules that learn, on pages that change as they did.

use super::history::History;
use super::intervals::{Intervals, Peer};
use super::learning::Learning;
use super::planned::PlannedCrawler;
use super::world::{Crawler, Replay, crawl};
use super::{RevisitArgs, row};
use std::fmt::Write;

const DAY: f64 = 86_400.0;

/// Mean days between two visits of a page that the channel allows.
const BUDGETS: [f64; 3] = [60.0, 14.0, 3.0];

pub fn report(history: &History, args: &RevisitArgs) -> String {
    let repository = history.repository(args.repository.delay);
    let pages = history.changes.len();
    let changes: usize = history.changes.iter().map(Vec::len).sum();
    let mut out = format!(
        "History: {pages} pages on {} servers, {changes} changes in {:.1} years, replayed as they happened.\n\n\
         | one visit per page in | {} |\n|---|{}\n",
        repository.delays.len(),
        history.lasts / 365.25 / DAY,
        BUDGETS.map(|days| format!("{days} days")).join(" | "),
        "---:|".repeat(BUDGETS.len()),
    );
    type Make = fn(&super::Repository, f64) -> Box<dyn Crawler>;
    let rules: [(&str, Make); 6] = [
        ("the planner of `farol`, from nothing", |repository, channel| {
            Box::new(PlannedCrawler::new(repository, channel))
        }),
        ("PUNCTUAL, from nothing", |repository, channel| {
            Box::new(Learning::from_nothing(repository, channel))
        }),
        ("PUNCTUAL, mean rates known beforehand", |repository, channel| {
            Box::new(Learning::knowing(repository, channel))
        }),
        ("Nutch's rule", |repository, channel| {
            Box::new(Intervals::new(Peer::Nutch, repository, channel, |_| false))
        }),
        ("StormCrawler's rule", |repository, channel| {
            Box::new(Intervals::new(Peer::StormCrawler, repository, channel, |_| false))
        }),
        ("every page in turn", |repository, channel| {
            Box::new(Intervals::new(Peer::RoundRobin, repository, channel, |_| false))
        }),
    ];
    let mut used = String::new();
    for (name, make) in rules {
        let mut cells = vec![name.to_string()];
        let mut visits_used = vec![format!("visits of {name}")];
        for days in BUDGETS {
            let channel = pages as f64 / (days * DAY);
            let mut crawler = make(&repository, channel);
            let (fresh, visits) = crawl(&mut Replay(history), &mut crawler, history.lasts, 12);
            cells.push(format!("{:.4}", fresh.sums.iter().sum::<f64>() / history.lasts / pages as f64));
            visits_used.push(visits.to_string());
        }
        row(&mut out, &cells);
        let _ = writeln!(used, "| {} |", visits_used.join(" | "));
    }
    out + &used
}
