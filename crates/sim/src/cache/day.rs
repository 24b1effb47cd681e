//! A whole day after five of thirty nodes fail at once [Gomez14 §5.8.2], over several seeds: other queries, other victims.
//!
//! A part of the traffic (`--traffic`) on as much slower nodes takes less time; chance within a minute is greater then, so
//! efficiency is read over as many more minutes. Hits are not the same: they depend on entries, not on their share.

use super::CacheArgs;
use super::balancers::Setting;
use super::report::{CacheReport, head, row};
use super::service::{Costs, LOOKUPS, WORK};
use super::strategy::{StrategyKind, Tuning};
use super::stream::StreamConfig;
use super::tables::{Wanted, course, make, spread, victims};
use super::world::{Change, Plan, ServiceOutcome};
use farol_cache::balance::{RangeOf, Rid};
use farol_cache::replace::Policy;

const NODES: u16 = 30;

/// A strategy with RID's open points.
#[derive(Clone, Copy)]
struct Contender {
    kind: StrategyKind,
    /// `L_threshold`, and over whose range load is even; for those that balance by RID.
    rid: Option<(f64, RangeOf)>,
}

impl Contender {
    fn name(&self) -> String {
        let range = |range| if range == RangeOf::Donor { "donor" } else { "receiver" };
        match self.rid {
            Some((threshold, of)) => format!("{}, {threshold:.2}, {}", self.kind.name(), range(of)),
            None => self.kind.name(),
        }
    }

    fn wanted(&self, args: &CacheArgs, policy: Policy, seed: u64, fails: bool) -> Wanted {
        let part = args.setting.share();
        let costs = Costs::default();
        let node_rate = LOOKUPS * part;
        let costs = Costs {
            node_rate: node_rate * WORK,
            pace: costs.pace * part,
            // The index is not what is looked at: it bears any misses.
            index_rate: 10.0 * costs.index_rate * part,
            front_rate: costs.front_rate * part,
            sample: costs.sample / part,
            ..costs
        };
        let mut tuning = Tuning { node_rate, ..Tuning::default() };
        if let Some((threshold, range)) = self.rid {
            (tuning.balancer, tuning.range) = (Box::new(Rid { threshold }), range);
        }
        let rate = StreamConfig::default().rate * part;
        let hours = 3_600.0 * args.hours.max(0.1);
        let (warm_up, seconds) = course(args, rate, hours / 2.0, hours);
        let changes =
            if fails { vec![(warm_up + 33.0, Change::Fail(victims(seed, 5, NODES)))] } else { Vec::new() };
        let plan = Plan {
            policy,
            warm_up,
            changes,
            costs,
            tuning,
            seed,
            ..Plan::new(self.kind, NODES, args.entries)
        };
        let stream = StreamConfig { seed, rate, ..StreamConfig::default() };
        Wanted { label: self.name(), plan, stream, log: args.log.clone(), seconds }
    }
}

/// Thirty nodes, five failures, a day.
pub fn table(args: &CacheArgs, policy: Policy, report: &mut CacheReport) {
    let simple = |kind| Contender { kind, rid: None };
    let rid = |threshold, of| Contender { kind: StrategyKind::DB, rid: Some((threshold, of)) };
    let contenders = [
        simple(StrategyKind::Plain),
        simple(StrategyKind::Virtual),
        simple(StrategyKind::BOUNDED),
        simple(StrategyKind::TwoChoices),
        rid(0.02, RangeOf::Donor),
        rid(0.04, RangeOf::Donor),
        rid(0.08, RangeOf::Donor),
        rid(0.02, RangeOf::Receiver),
        rid(0.04, RangeOf::Receiver),
        rid(0.08, RangeOf::Receiver),
        simple(StrategyKind::Ours),
    ];
    let Setting { traffic, .. } = args.setting;
    let (from, to) =
        course(args, StreamConfig::default().rate * args.setting.share(), 0.0, 3_600.0 * args.hours);
    head(
        &format!(
            "{:.1} hours after 5 of 30 nodes fail: {} seeds, {traffic} of the traffic, {} entries each; mean ± deviation (least–most)",
            (to - from) / 3_600.0,
            args.seeds,
            args.entries
        ),
        &[
            "strategy",
            "mean, ms, without failures",
            "with",
            "worse by, %",
            "hits, %, without",
            "with",
            "efficiency, %, without",
            "with",
            "work per query",
            "given up, %",
            "control messages a second, KB",
        ],
    );
    for contender in contenders.into_iter().filter(|contender| args.wants(&contender.name())) {
        let seeds = args.seed..args.seed + args.seeds.max(1);
        let runs =
            seeds.flat_map(|seed| [false, true].map(|fails| contender.wanted(args, policy, seed, fails)));
        let runs: Vec<ServiceOutcome> =
            make(runs.collect(), args.threads).into_iter().map(|(_, outcome)| outcome).collect();
        let minutes = (1.0 / args.setting.share()).round() as usize;
        let of = |fails: usize, value: &dyn Fn(&ServiceOutcome) -> f64| -> Vec<f64> {
            runs.iter().skip(fails).step_by(2).map(value).collect()
        };
        let both = |value: &dyn Fn(&ServiceOutcome) -> f64| [0, 1].map(|fails| spread(&of(fails, value)));
        let mean = |outcome: &ServiceOutcome| outcome.times.mean();
        let worse: Vec<f64> = of(0, &mean)
            .iter()
            .zip(of(1, &mean))
            .map(|(without, with)| 100.0 * (with / without - 1.0))
            .collect();
        let [time, time_with] = both(&mean);
        let [hits, hits_with] = both(&|outcome| 100.0 * outcome.hit_rate());
        let [level, level_with] = both(&|outcome| 100.0 * outcome.efficiency_over(minutes));
        let work = spread(&of(1, &ServiceOutcome::work_per_query));
        let given_up =
            spread(&of(1, &|outcome| 100.0 * outcome.given_up as f64 / outcome.asked.max(1) as f64));
        let mean_of = |value: &dyn Fn(&ServiceOutcome) -> f64| {
            let all = of(1, value);
            all.iter().sum::<f64>() / all.len().max(1) as f64
        };
        let control = format!(
            "{:.1}, {:.2}",
            mean_of(&|outcome| outcome.control_per_second().0),
            mean_of(&|outcome| outcome.control_per_second().1 / 1e3)
        );
        let cells =
            [time, time_with, spread(&worse), hits, hits_with, level, level_with, work, given_up, control];
        row(&[&[contender.name()][..], &cells].concat());
        report.runs.extend(runs.into_iter().map(|outcome| ("day".to_string(), outcome)));
    }
    println!();
}
