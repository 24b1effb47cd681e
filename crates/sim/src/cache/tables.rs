//! The tables of \[Gomez14\] about whole services, its figures beside ours; those about balancers are in
//! [`super::balancers`].

use super::CacheArgs;
use super::report::{CacheReport, head, percent, row};
use super::service::WORK;
use super::strategy::StrategyKind;
use super::stream::{Burst, Stream, StreamConfig};
use super::world::{Change, Plan, ServiceOutcome, run};
use farol_base::sync::Mutex;
use farol_base::{Random, Seeded};
use farol_cache::replace::Policy;
use std::sync::Arc;

/// One run to make.
pub(super) struct Wanted {
    pub label: String,
    pub plan: Plan,
    pub stream: StreamConfig,
    /// A real log in place of the made stream, at the same rate.
    pub log: Option<Arc<[u64]>>,
    pub seconds: f64,
}

impl Wanted {
    fn run(self) -> ServiceOutcome {
        let Wanted { plan, stream, log, seconds, .. } = self;
        let stream = match log {
            Some(log) => Stream::of_log(stream, log),
            None => Stream::new(stream),
        };
        run(plan, stream.take_while(|asked| asked.at < seconds))
    }
}

/// Makes runs, several at a time, and hands their outcomes back in order.
pub(super) fn make(wanted: Vec<Wanted>, threads: usize) -> Vec<(String, ServiceOutcome)> {
    let count = wanted.len();
    let queue = Mutex::new(wanted.into_iter().enumerate().rev().collect::<Vec<_>>());
    let done: Mutex<Vec<Option<(String, ServiceOutcome)>>> = Mutex::new((0..count).map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, 64) {
            scope.spawn(|| {
                loop {
                    let next = queue.lock().pop();
                    let Some((number, wanted)) = next else { break };
                    let label = wanted.label.clone();
                    let outcome = wanted.run();
                    done.lock()[number] = Some((label, outcome));
                }
            });
        }
    });
    done.into_inner().into_iter().flatten().collect()
}

/// When measuring begins and ends: a log is asked once through, and its first third warms up.
pub(super) fn course(args: &CacheArgs, rate: f64, warm_up: f64, measured: f64) -> (f64, f64) {
    match &args.log {
        Some(log) => (log.len() as f64 / rate / 3.0, log.len() as f64 / rate),
        None => (warm_up, warm_up + measured),
    }
}

/// A run of the usual length.
pub(super) fn wanted(args: &CacheArgs, policy: Policy, kind: StrategyKind, nodes: u16) -> Wanted {
    let stream = StreamConfig { seed: args.seed, ..StreamConfig::default() };
    let millions = |count: f64| count * 1e6 / stream.rate;
    let (warm_up, seconds) = course(args, stream.rate, millions(args.warm_up), millions(args.queries));
    let plan = Plan { policy, warm_up, seed: args.seed, ..Plan::new(kind, nodes, args.entries) };
    Wanted { label: kind.name(), plan, stream, log: args.log.clone(), seconds }
}

pub(super) fn middle(wanted: &Wanted) -> f64 {
    // Between two events of every period, so that nobody is lucky.
    ((wanted.plan.warm_up + wanted.seconds) / 2.0 / 60.0).floor() * 60.0 + 33.0
}

/// Mean and spread of what several seeds gave.
pub(super) fn spread(values: &[f64]) -> String {
    let n = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    format!("{mean:.2} ± {:.2} ({least:.2}–{most:.2})", (squares / n).sqrt())
}

/// So many different nodes.
pub(super) fn victims(seed: u64, count: usize, nodes: u16) -> Vec<u16> {
    let mut random = Seeded::new(seed ^ 0xDEAD);
    let mut all: Vec<u16> = (0..nodes).collect();
    (0..count.min(all.len())).map(|_| all.swap_remove(random.below(all.len() as u64) as usize)).collect()
}

fn cells(outcome: &ServiceOutcome) -> Vec<String> {
    vec![
        format!("{:.1}", outcome.times.mean()),
        format!("{:.1}", outcome.times.quantile(0.9)),
        percent(outcome.hit_rate()),
        percent(outcome.efficiency_capped()),
        percent(outcome.efficiency()),
        format!("{:.3}", outcome.hottest()),
        outcome.saturated.to_string(),
        format!("{:.2}", outcome.work_per_query()),
    ]
}

const COLUMNS: [&str; 8] = [
    "mean, ms",
    "q0.90, ms",
    "hits, %",
    "efficiency, %",
    "… uncapped",
    "hottest / mean",
    "saturated",
    "work per query",
];

/// Table 4.5: distribution of hot queries beside matrix and plain hashing; 20 nodes.
pub fn table_4_5(args: &CacheArgs, policy: Policy, report: &mut CacheReport) {
    let thesis: [(StrategyKind, &str); 10] = [
        (StrategyKind::Plain, "36.0 / 50.0 / 77.1 / 9"),
        (StrategyKind::Matrix(10), "31.4 / 47.4 / 82.2 / 2"),
        (StrategyKind::Matrix(5), "32.1 / 45.3 / 92.7 / 0"),
        (StrategyKind::Matrix(4), "32.6 / 44.7 / 93.2 / 0"),
        (StrategyKind::D, "29.4 / 51.0 / 88.9 / 0"),
        (StrategyKind::Modulo, ""),
        (StrategyKind::Virtual, ""),
        (StrategyKind::BOUNDED, ""),
        (StrategyKind::TwoChoices, ""),
        (StrategyKind::Ours, ""),
    ];
    let chosen: Vec<_> = thesis.into_iter().filter(|(kind, _)| args.wants(&kind.name())).collect();
    let runs = make(chosen.iter().map(|(kind, _)| wanted(args, policy, *kind, 20)).collect(), args.threads);
    let mut columns = vec!["strategy"];
    columns.extend(COLUMNS);
    columns.push("thesis: ms / hits / efficiency / saturated");
    head("Table 4.5: 20 nodes, no failures", &columns);
    for ((label, outcome), (_, thesis)) in runs.into_iter().zip(chosen) {
        let mut line = vec![label];
        line.extend(cells(&outcome));
        line.push(thesis.to_string());
        row(&line);
        report.runs.push(("4.5".to_string(), outcome));
    }
    println!();
}

/// Tables 5.8 to 5.10: 30 nodes, without failures and with five at once.
pub fn table_5_8(args: &CacheArgs, policy: Policy, report: &mut CacheReport) {
    let rows: [(StrategyKind, &str); 16] = [
        (StrategyKind::Plain, "30.3, 51.9, 56.4, 2 / 53.2, 50.1, 56.9, 5"),
        (StrategyKind::Matrix(15), "29.6, 50.1, 72.4, 0 / 44.4, 50.0, 69.2, 4"),
        (StrategyKind::Matrix(10), "30.5, 48.9, 81.6, 0 / 31.9, 47.9, 72.5, 1"),
        (StrategyKind::Matrix(6), "31.6, 47.2, 89.9, 0 / 31.8, 47.2, 80.3, 1"),
        (StrategyKind::Matrix(5), "32.0, 46.6, 92.7, 0 / 32.0, 46.6, 87.3, 0"),
        (StrategyKind::D, "27.9, 53.0, 86.1, 0 / 31.9, 50.9, 72.4, 4"),
        (StrategyKind::DB, "28.3, 52.3, 88.6, 0 / 29.6, 49.1, 86.8, 2"),
        (StrategyKind::DBRF, ""),
        (StrategyKind::PLAIN_F, ""),
        (StrategyKind::Modulo, ""),
        (StrategyKind::Broadcast, ""),
        (StrategyKind::Virtual, ""),
        (StrategyKind::BOUNDED, ""),
        (StrategyKind::Bounded(1.1), ""),
        (StrategyKind::TwoChoices, ""),
        (StrategyKind::Ours, ""),
    ];
    let chosen: Vec<_> = rows.into_iter().filter(|(kind, _)| args.wants(&kind.name())).collect();
    let mut runs = Vec::new();
    for (kind, _) in &chosen {
        runs.push(wanted(args, policy, *kind, 30));
        let mut failing = wanted(args, policy, *kind, 30);
        failing.plan.changes = vec![(middle(&failing), Change::Fail(victims(args.seed, 5, 30)))];
        runs.push(failing);
    }
    let runs = make(runs, args.threads);
    let mut columns = vec!["strategy", "failures"];
    columns.extend(COLUMNS);
    columns.extend([
        "time, worse by",
        "given up, %",
        "index load, %",
        "moved, %",
        "thesis: ms, hits, efficiency, saturated without / with",
    ]);
    head("Tables 5.8 to 5.10: 30 nodes, five fail at once in the middle", &columns);
    for (two, (kind, thesis)) in runs.chunks(2).zip(&chosen) {
        for (number, (_, outcome)) in two.iter().enumerate() {
            let mut line = vec![kind.name(), ["0", "5"][number].to_string()];
            line.extend(cells(outcome));
            let worse = outcome.times.mean() / two[0].1.times.mean() - 1.0;
            line.push(if number == 1 { format!("{:+.1} %", 100.0 * worse) } else { String::new() });
            line.push(format!("{:.2}", 100.0 * outcome.given_up as f64 / outcome.asked.max(1) as f64));
            line.push(percent(outcome.index_load));
            line.push(format!("{:.1}", 100.0 * outcome.moved));
            line.push(if number == 0 { thesis.to_string() } else { String::new() });
            row(&line);
        }
    }
    report.runs.extend(runs.into_iter().map(|(label, outcome)| (format!("5.8 {label}"), outcome)));
    println!();
}

/// More failures, and more nodes.
pub fn failures(args: &CacheArgs, policy: Policy, report: &mut CacheReport) {
    let mut columns = vec!["strategy", "nodes", "failures"];
    columns.extend(COLUMNS);
    head("More failures: 10 of 30 at once (Figure 5.8b), 3 and 3 more (5.10), 10 of 80 (5.11)", &columns);
    for (nodes, first, second) in [(30u16, 10usize, 0usize), (30, 3, 3), (80, 10, 0)] {
        let runs = [
            StrategyKind::Plain,
            StrategyKind::DB,
            StrategyKind::DBRF,
            StrategyKind::TwoChoices,
            StrategyKind::Ours,
        ]
        .into_iter()
        .filter(|kind| args.wants(&kind.name()));
        let runs = runs.map(|kind| {
            let mut wanted = wanted(args, policy, kind, nodes);
            if nodes > 30 {
                let node_rate = 770.0 / f64::from(nodes) / 0.51;
                wanted.plan.costs.node_rate = node_rate * WORK;
                wanted.plan.tuning.node_rate = node_rate;
            }
            let gone = victims(args.seed, first + second, nodes);
            let at = middle(&wanted);
            wanted.plan.changes =
                vec![(at - if second > 0 { 1800.0 } else { 0.0 }, Change::Fail(gone[..first].to_vec()))];
            if second > 0 {
                wanted.plan.changes.push((at + 1800.0, Change::Fail(gone[first..].to_vec())));
            }
            wanted
        });
        for (label, outcome) in make(runs.collect(), args.threads) {
            let failures = if second > 0 { format!("{first} + {second}") } else { first.to_string() };
            let mut line = vec![label, nodes.to_string(), failures];
            line.extend(cells(&outcome));
            row(&line);
            report.runs.push(("failures".to_string(), outcome));
        }
    }
    println!();
}

/// Figure 5.12: nodes join 20 others, and one that failed comes back.
pub fn joins(args: &CacheArgs, policy: Policy, report: &mut CacheReport) {
    let mut columns =
        vec!["strategy", "change", "hits in the last tenth, %", "hottest / mean in the last tenth"];
    columns.extend(COLUMNS);
    head("Joins (Figure 5.12), and a node that fails and comes back (§7.4): 20 nodes", &columns);
    for change in ["5 join", "3 + 3 join", "fails, back after 10 min"] {
        let runs = [StrategyKind::Plain, StrategyKind::DB, StrategyKind::Ours]
            .into_iter()
            .filter(|kind| args.wants(&kind.name()));
        let runs = runs.map(|kind| {
            let mut wanted = wanted(args, policy, kind, 20);
            let at = middle(&wanted);
            wanted.plan.changes = match change {
                "5 join" => (20..25).map(|node| (at, Change::Join(node))).collect(),
                "3 + 3 join" => (20..26)
                    .map(|node| (at + if node < 23 { -1800.0 } else { 1800.0 }, Change::Join(node)))
                    .collect(),
                _ => vec![(at, Change::Fail(vec![7])), (at + 600.0, Change::Join(7))],
            };
            wanted
        });
        for (label, outcome) in make(runs.collect(), args.threads) {
            let last = &outcome.minutes
                [outcome.minutes.len() - (outcome.minutes.len() / 10).max(1).min(outcome.minutes.len())..];
            let hits: u64 = last.iter().map(|minute| minute.hits).sum();
            let asked: u64 = last.iter().map(|minute| minute.asked).sum();
            let hottest =
                last.iter().map(super::world::Minute::hottest).sum::<f64>() / last.len().max(1) as f64;
            let mut line = vec![
                label,
                change.to_string(),
                percent(hits as f64 / asked.max(1) as f64),
                format!("{hottest:.3}"),
            ];
            line.extend(cells(&outcome));
            row(&line);
            report.runs.push(("joins".to_string(), outcome));
        }
    }
    println!();
}

/// Efficiency against the number of nodes (Figure 3.3), and the best k of D (Figure 4.5).
pub fn by_nodes(args: &CacheArgs, policy: Policy, report: &mut CacheReport) {
    head(
        "Efficiency of plain hashing falls with the nodes; one query with share s alone gives 1 / (1 + s (P - 1))",
        &["nodes", "CH, %", "by the formula, %", "D, %", "ours, %"],
    );
    for nodes in [2u16, 5, 10, 20, 40, 80] {
        let runs = [StrategyKind::Plain, StrategyKind::D, StrategyKind::Ours].map(|kind| {
            let mut wanted = wanted(args, policy, kind, nodes);
            let node_rate = 770.0 / f64::from(nodes) / 0.3;
            wanted.plan.costs.node_rate = node_rate * WORK;
            wanted.plan.tuning.node_rate = node_rate;
            wanted
        });
        let runs = make(runs.into(), args.threads);
        let formula = 1.0 / (1.0 + 0.0259 * f64::from(nodes - 1));
        let shares: Vec<String> = runs.iter().map(|(_, outcome)| percent(outcome.efficiency())).collect();
        row(&[nodes.to_string(), shares[0].clone(), percent(formula), shares[1].clone(), shares[2].clone()]);
        report.runs.extend(runs.into_iter().map(|(_, outcome)| (format!("{nodes} nodes"), outcome)));
    }
    println!();
    head(
        "Best k of D (Figure 4.5: best from 20 to 30, about 85 %), 20 nodes",
        &["k", "efficiency uncapped, %", "hits, %"],
    );
    let tops = [0usize, 5, 10, 20, 25, 30, 50, 100];
    let runs = tops.map(|top| {
        let mut wanted =
            wanted(args, policy, if top == 0 { StrategyKind::Plain } else { StrategyKind::D }, 20);
        wanted.plan.tuning.top = top;
        wanted
    });
    for ((_, outcome), top) in make(runs.into(), args.threads).into_iter().zip(tops) {
        row(&[top.to_string(), percent(outcome.efficiency()), percent(outcome.hit_rate())]);
    }
    println!();
}

/// A query that nobody asked before grows to a fifth of the traffic within two minutes.
pub fn flash(args: &CacheArgs, policy: Policy, report: &mut CacheReport) {
    let kinds = [
        StrategyKind::Plain,
        StrategyKind::Virtual,
        StrategyKind::BOUNDED,
        StrategyKind::TwoChoices,
        StrategyKind::DB,
        StrategyKind::DBR,
        StrategyKind::Ours,
    ];
    let kinds: Vec<StrategyKind> = kinds.into_iter().filter(|kind| args.wants(&kind.name())).collect();
    let mut begins = 0.0;
    let runs: Vec<Wanted> = kinds
        .iter()
        .map(|kind| {
            let mut wanted = wanted(args, policy, *kind, 30);
            begins = middle(&wanted);
            wanted.stream.bursts =
                vec![Burst { begins, rises: 120.0, stays: 600.0, fades: 300.0, peak: 0.2, evenly: true }];
            wanted.seconds = wanted.seconds.min(begins + 3600.0);
            wanted
        })
        .collect();
    let runs = make(runs, args.threads);
    head(
        "Flash query: 0 to 20 % of the traffic in two minutes, 30 nodes; hottest node over mean, in beats of ten seconds",
        &[
            "strategy",
            "worst beat in the 1st minute",
            "beat at 60 s",
            "worst in the 2nd minute",
            "worst from 3rd to 12th",
            "at most 1.25 from, s",
            "saturated",
            "given up",
            "mean, ms",
        ],
    );
    for (label, outcome) in runs {
        let between = |from: f64, to: f64| {
            let inside = outcome.beats.iter().filter(|(at, _)| *at > begins + from && *at <= begins + to);
            inside.map(|(_, hottest)| *hottest).fold(0.0, f64::max)
        };
        let late = outcome
            .beats
            .iter()
            .filter(|(at, hottest)| *at > begins && *at <= begins + 900.0 && *hottest > 1.25);
        let calm = late.map(|(at, _)| at - begins).fold(0.0, f64::max);
        row(&[
            label.clone(),
            format!("{:.2}", between(0.0, 60.0)),
            format!("{:.2}", between(50.0, 60.0)),
            format!("{:.2}", between(60.0, 120.0)),
            format!("{:.2}", between(120.0, 720.0)),
            if calm >= 890.0 { "never".to_string() } else { format!("{calm:.0}") },
            outcome.saturated.to_string(),
            outcome.given_up.to_string(),
            format!("{:.1}", outcome.times.mean()),
        ]);
        report.runs.push(("flash".to_string(), outcome));
    }
    println!();
}

/// §6.6: two events with many related queries, shaped like those of May 2011 and February 2012.
pub fn events(args: &CacheArgs, policy: Policy, report: &mut CacheReport) {
    // Several strings of one topic burst together; shares as the thesis' figures suggest, up to some per cent each.
    let event = |begins: f64, strings: usize, peak: f64, rises: f64| -> Vec<Burst> {
        (0..strings)
            .map(|i| Burst {
                begins: begins + 240.0 * i as f64,
                rises: rises * (1.0 + 0.3 * i as f64),
                stays: 300.0,
                fades: 3600.0,
                peak: peak / (1.0 + 0.7 * i as f64),
                evenly: false,
            })
            .collect()
    };
    head(
        "§6.6: bursts inside the service, 20 nodes",
        &[
            "event",
            "mechanisms",
            "mean, ms",
            "efficiency, %",
            "… uncapped",
            "hottest / mean",
            "saturated",
            "declared",
            "thesis: ms / efficiency / saturated",
        ],
    );
    let events = [
        ("like 2 May 2011", 6, 0.03, 900.0, ["30.4 / 87.9 / 6", "29.8 / 89.8 / 0", ""]),
        ("like 11 Feb 2012", 9, 0.012, 1500.0, ["– / 88.7 / 0", "– / 90.3 / 0", ""]),
    ];
    for (name, strings, peak, rises, thesis) in events {
        let runs = [StrategyKind::DB, StrategyKind::DBR, StrategyKind::Ours].map(|kind| {
            let mut wanted = wanted(args, policy, kind, 20);
            wanted.stream.bursts = event(middle(&wanted) - 1800.0, strings, peak, rises);
            wanted
        });
        for ((label, outcome), thesis) in make(runs.into(), args.threads).into_iter().zip(thesis) {
            row(&[
                name.to_string(),
                label,
                format!("{:.1}", outcome.times.mean()),
                percent(outcome.efficiency_capped()),
                percent(outcome.efficiency()),
                format!("{:.3}", outcome.hottest()),
                outcome.saturated.to_string(),
                outcome.bursts.len().to_string(),
                thesis.to_string(),
            ]);
            report.runs.push((name.to_string(), outcome));
        }
    }
    println!();
}
