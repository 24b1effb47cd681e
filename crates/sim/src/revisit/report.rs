//! The tables of the experiment.

use super::allocate::{Allocation, Among, check, polite, proportional, uniform, unpolite};
use super::channel::{Windows, excess_at, watch};
use super::ideal::{self, Answers};
use super::intervals::{Intervals, Peer};
use super::learning::Learning;
use super::measure::Bins;
use super::plot::{Line, Panel};
use super::policies::{Effort, Outcome, Policy, run};
use super::repository::Repository;
use super::theorems;
use super::world::{Chance, Crawler, crawl};
use super::{RevisitArgs, YEAR, row};
use crate::urls::meter::Watch;
use farol_base::Seeded;
use farol_frontier::revisit::allocate::Error;
use std::fmt::Write;
use std::time::Instant;

/// Bins per year of the curves.
const BINS: f64 = 12.0;

/// Rules that learn are watched for so long, and so many visits at most.
const LEARNING_YEARS_MAX: f64 = 2.0;
const LEARNING_VISITS_MAX: f64 = 4e6;

/// The thesis' figures for MERGE and RANDOM, by channel [Souza10 §5.5].
const THESIS: [(f64, f64, f64); 3] = [(0.01, 0.970, 0.812), (0.1, 0.975, 0.875), (0.9, 0.977, 0.886)];

pub fn heading(repository: &Repository, args: &RevisitArgs) -> String {
    let sizes = (0..repository.delays.len()).map(|s| repository.server(s).len());
    let active = repository.pages.iter().filter(|page| page.is_active()).count();
    let kind = if args.input.is_some() { "read from a table" } else { "made, seed and all in `--help`" };
    format!(
        "Repository ({kind}): {} pages on {} servers, the largest {} pages; {active} pages change. Delay {} s.\n",
        repository.pages.len(),
        repository.delays.len(),
        sizes.max().unwrap_or(0),
        args.repository.delay,
    )
}

/// Everything about one channel; appends its tables to `out`.
pub fn channel(
    repository: &Repository,
    share: f64,
    args: &RevisitArgs,
    out: &mut String,
) -> Result<Panel, Error> {
    let servers = repository.servers();
    let channel = share * repository.channel_max();
    let watch = Watch::start();
    let best = polite(&servers, channel)?;
    // CPU time of this thread: others may be using the machine.
    let lap = watch.lap();
    let (took, cpu) = (lap.wall, lap.thread.as_secs_f64());
    let kkt = check(&servers, channel, &best);
    let bound = best.bound(&servers, Among::Changing);
    let unpolite =
        if channel.is_finite() { unpolite(&servers, channel)?.bound(&servers, Among::Changing) } else { 1.0 };
    let saturated = best
        .rates
        .iter()
        .zip(&repository.delays)
        .filter(|(rate, delay)| **rate * **delay > 1.0 - 1e-9)
        .count();
    let _ = writeln!(
        out,
        "### C = {:.4} % ({channel:.2} visits/s)\n\nOPT_POLITE in {:.1} s ({cpu:.1} CPU-seconds, one thread); optimality conditions met to {:.0e}; {saturated} servers \
         saturated.\nPOLITE bound {bound:.4} of the pages that change ({:.4} with those that never do); UNPOLITE bound \
         {unpolite:.4}.\n",
        100.0 * share,
        took.as_secs_f64(),
        kkt.worst(),
        best.bound(&servers, Among::All),
    );
    let mut panel = Panel { title: format!("C = {} %", 100.0 * share), bound, lines: Vec::new() };
    if args.allocate_only {
        return Ok(panel);
    }
    if args.ideal {
        best_learner(repository, share, args, out);
        return Ok(panel);
    }
    let _ = writeln!(
        out,
        "| rule | six years / bound | steady / bound | s.e. | thesis | visits | servers cut | gap/P | s |\n\
         |---|---:|---:|---:|---:|---:|---:|---:|---:|"
    );
    let effort = Effort {
        horizon: args.years * YEAR,
        bins: (args.years * BINS).round().max(4.0) as usize,
        cycles: args.cycles,
        visits: 1e6 * args.visits,
        threads: args.threads,
        seed: args.repository.seed,
    };
    let thesis = THESIS.iter().find(|(channel, _, _)| *channel == share);
    let uniform = uniform(&servers, channel)?;
    let proportional = proportional(&servers, channel)?;
    let rows: [(&str, &Allocation, Policy, Option<f64>); 6] = [
        ("PUNCTUAL (ours)", &best, Policy::Punctual, None),
        ("MERGE", &best, Policy::Merge, thesis.map(|thesis| thesis.1)),
        ("DELAYED", &best, Policy::Delayed, None),
        ("RANDOM", &best, Policy::Random, thesis.map(|thesis| thesis.2)),
        ("uniform, MERGE", &uniform, Policy::Merge, None),
        ("proportional, MERGE", &proportional, Policy::Merge, None),
    ];
    for (name, allocation, policy, thesis) in rows {
        let clock = Instant::now();
        let outcome = run(repository, allocation, policy, &effort);
        line(out, name, &outcome, bound, thesis, clock.elapsed().as_secs_f64());
        panel.lines.push(Line { name: name.to_string(), years: args.years, values: outcome.curve });
    }
    let exact = closed_form(repository, &best);
    let _ =
        writeln!(out, "\nRANDOM by Theorem 5.4: {:.4} of the bound in the steady state.\n", exact / bound);
    learners(repository, share, args, out, &mut panel)?;
    peaks(repository, share, args, out)?;
    Ok(panel)
}

fn line(out: &mut String, name: &str, outcome: &Outcome, bound: f64, thesis: Option<f64>, secs: f64) {
    row(
        out,
        &[
            name.to_string(),
            format!("{:.4}", outcome.mean / bound),
            format!("{:.4}", outcome.steady / bound),
            format!("{:.5}", outcome.error / bound),
            thesis.map_or("".to_string(), |thesis| format!("{thesis:.3}")),
            outcome.visits.to_string(),
            format!("{:.0} %", 100.0 * outcome.cut),
            format!("{:.3}", outcome.gap_least),
            format!("{secs:.0}"),
        ],
    );
}

/// Freshness of RANDOM by Theorem 5.4.
fn closed_form(repository: &Repository, best: &Allocation) -> f64 {
    let (mut fresh, mut weight) = (0.0, 0.0);
    for (s, share) in best.shares.iter().enumerate() {
        for page in repository.server(s).iter().filter(|page| page.change.rate() > 0.0) {
            let frequency = share.frequency(page);
            weight += f64::from(page.weight);
            if frequency > 0.0 {
                fresh +=
                    f64::from(page.weight) * theorems::random(page.change.rate(), frequency, best.rates[s]);
            }
        }
    }
    fresh / weight
}

/// Rules that learn rates from what they see, or share the channel: on a smaller repository of the same kind.
fn learners(
    repository: &Repository,
    share: f64,
    args: &RevisitArgs,
    out: &mut String,
    panel: &mut Panel,
) -> Result<(), Error> {
    let years = args.years.min(LEARNING_YEARS_MAX);
    let some = sample(repository, share, args);
    let channel = share * some.channel_max();
    let servers = some.servers();
    let bound = polite(&servers, channel)?.bound(&servers, Among::Changing);
    let weight: f64 =
        some.pages.iter().filter(|page| page.change.rate() > 0.0).map(|page| f64::from(page.weight)).sum();
    let _ = writeln!(
        out,
        "Rules that learn, {years} years on {} servers with {} pages, {:.1} visits per page and year (bound {bound:.4}):\n\n\
         | rule | all / bound | 7th to 12th month / bound | from the 13th month / bound | visits | s |\n\
         |---|---:|---:|---:|---:|---:|",
        some.delays.len(),
        some.pages.len(),
        channel * YEAR / some.pages.len().max(1) as f64,
    );
    let bins = (years * BINS).round().max(4.0) as usize;
    let interval = |peer| Box::new(Intervals::new(peer, &some, channel, |_| false));
    let nothing = || Box::new(Learning::from_nothing(&some, channel));
    // With the share of pages that say when they changed.
    let crawlers: [(&str, f64, Box<dyn Crawler>); 7] = [
        ("PUNCTUAL, rates known", 0.0, Box::new(Learning::knowing(&some, channel))),
        ("PUNCTUAL, from nothing", 0.0, nothing()),
        ("PUNCTUAL, from nothing, half of the pages dated", 0.5, nothing()),
        ("PUNCTUAL, from nothing, all pages dated", 1.0, nothing()),
        ("Nutch's rule", 0.0, interval(Peer::Nutch)),
        ("StormCrawler's rule", 0.0, interval(Peer::StormCrawler)),
        ("every page in turn", 0.0, interval(Peer::RoundRobin)),
    ];
    for (name, dated, mut crawler) in crawlers {
        let clock = Instant::now();
        let mut world = Chance { pages: &some.pages, dated, random: Seeded::new(args.repository.seed) };
        let (fresh, visits) = crawl(&mut world, &mut crawler, years * YEAR, bins);
        let curve: Vec<f64> = fresh.sums.iter().map(|sum| sum / fresh.width / weight).collect();
        row(
            out,
            &[
                name.to_string(),
                format!("{:.4}", mean(&curve, 0.0, years, &fresh) / bound),
                format!("{:.4}", mean(&curve, 0.5, 1.0, &fresh) / bound),
                format!("{:.4}", mean(&curve, 1.0, years, &fresh) / bound),
                visits.to_string(),
                format!("{:.0}", clock.elapsed().as_secs_f64()),
            ],
        );
        // The sample is not the whole; its curve is shown at the whole's scale.
        let values = curve.iter().map(|value| value / bound * panel.bound).collect();
        panel.lines.push(Line { name: name.to_string(), years, values });
    }
    Ok(())
}

/// The servers on which rules learn: fewer where the channel is busier.
fn sample(repository: &Repository, share: f64, args: &RevisitArgs) -> Repository {
    let visits = share * repository.channel_max() * args.years.min(LEARNING_YEARS_MAX) * YEAR;
    let step = args.sample.max((visits / LEARNING_VISITS_MAX).ceil() as usize);
    if step > 1 { repository.every(step) } else { repository.clone() }
}

/// What the best of all learners could reach, on the servers on which rules learn.
fn best_learner(repository: &Repository, share: f64, args: &RevisitArgs, out: &mut String) {
    let some = sample(repository, share, args);
    let pages = ideal::Pages::of(&some);
    let days = YEAR / 86_400.0;
    let per_day = 86_400.0 * share * some.channel_max() / some.pages.len().max(1) as f64;
    let _ = writeln!(
        out,
        "The ideal learner, told the rates of {} kinds of servers, on {} servers with {} pages, {:.1} visits per page and \
         year; {} looks at a page. Freshness as a ratio to known rates, servers' delays left out of both:\n\n\
         | learns from | for | reached | ceiling | s |\n|---|---:|---:|---:|---:|",
        pages.kinds(),
        some.delays.len(),
        some.pages.len(),
        per_day * days,
        args.looks,
    );
    row(
        out,
        &[
            "nothing".to_string(),
            String::new(),
            format!("{:.4}", pages.blind(per_day)),
            String::new(),
            String::new(),
        ],
    );
    let effort = ideal::SearchEffort { looks: usize::from(args.looks), intervals: 10 };
    for (name, answers) in [("changed or not", Answers::Changed), ("dates", Answers::Dated)] {
        for years in [1.0, 2.0, 4.0] {
            let clock = Instant::now();
            let bound = pages.bound(answers, years * days, years * days * per_day, per_day, effort);
            row(
                out,
                &[
                    name.to_string(),
                    format!("{years} years"),
                    format!("{:.4}", bound.reached),
                    format!("{:.4}", bound.ceiling),
                    format!("{:.0}", clock.elapsed().as_secs_f64()),
                ],
            );
        }
    }
}

/// Mean of a curve between two years.
fn mean(curve: &[f64], from: f64, to: f64, bins: &Bins) -> f64 {
    let at = |year: f64| ((year * YEAR / bins.width).round() as usize).min(curve.len());
    let part = &curve[at(from).min(curve.len().saturating_sub(1))..at(to).max(1)];
    part.iter().sum::<f64>() / part.len().max(1) as f64
}

fn peaks(repository: &Repository, share: f64, args: &RevisitArgs, out: &mut String) -> Result<(), Error> {
    let some = if args.sample > 1 { repository.every((args.sample / 4).max(1)) } else { repository.clone() };
    let best = polite(&some.servers(), share * some.channel_max())?;
    let n = some.delays.len() as f64;
    let windows = Windows { count: 2_000, delays: if share < 0.05 { 20.0 } else { 2.0 }, after: 0.25 * YEAR };
    let _ = writeln!(
        out,
        "\nChannel use in 2,000 windows of {} P, {n:.0} servers. Lemma 5.10 for so many elements: more than {:.0} above the \
         mean in less than 10 % of windows, more than {:.0} in less than 1 of 2,000.\n\n\
         | rule | mean | deviation | peak above mean | windows beyond the 10 % mark |\n|---|---:|---:|---:|---:|",
        windows.delays,
        excess_at(n, 0.1),
        excess_at(n, 1.0 / 2_000.0),
    );
    let rules = [
        ("equal per server (MERGE)", Policy::Merge),
        ("PUNCTUAL", Policy::Punctual),
        ("DELAYED", Policy::Delayed),
    ];
    for (name, policy) in rules {
        let seen = watch(&some, &best, policy, &windows);
        row(
            out,
            &[
                name.to_string(),
                format!("{:.1}", seen.mean),
                format!("{:.1}", seen.deviation),
                format!("{:.1}", seen.peak),
                format!("{:.2} %", 100.0 * seen.beyond),
            ],
        );
    }
    Ok(())
}
