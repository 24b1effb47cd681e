//! Tables 5.2 to 5.7 of \[Gomez14\]: the ring algorithms side by side, and RID's thresholds.
//!
//! The thesis leaves most of the setting open; [`Setting`] names each choice, the same for all algorithms, and
//! `docs/decisions/cache.md` says why.

use super::CacheArgs;
use super::report::{CacheReport, head, percent, row};
use super::service::Costs;
use super::strategy::{StrategyKind, Tuning};
use super::stream::Burst;
use super::tables::{Wanted, make, wanted};
use super::world::ServiceOutcome;
use farol_cache::balance::{Balancer, Dem, Direct, Gde, Gradient, OfMean, RangeOf, Reach, Rid, Sid, Spread};
use farol_cache::replace::Policy;
use std::time::Duration;

/// What the thesis does not say of Tables 5.2 and 5.3.
#[derive(Clone, Debug, clap::Args)]
pub struct Setting {
    /// Tables 5.2 and 5.3: `L_threshold` of RID and SID, in points of load.
    #[arg(long, default_value_t = THRESHOLD)]
    pub threshold: f64,
    /// Seconds between two calls of B.
    #[arg(long, default_value_t = 300.0)]
    pub balance_every: f64,
    /// Seconds before a call in which loads are counted; with a share of the traffic so much longer that as many
    /// requests are counted, but never longer than the time between two calls.
    #[arg(long, default_value_t = MEASURED_OVER)]
    pub measured_over: f64,
    /// Queries that burst in a day; 0: interest stays as it is.
    #[arg(long, default_value_t = 30.0)]
    pub news: f64,
    /// How far from the mean load GM's marks are, as a share of it.
    #[arg(long, default_value_t = MARKS)]
    pub marks: f64,
    /// Part of its excess that a heavy node sends away in one call of GM.
    #[arg(long, default_value_t = PORTION)]
    pub portion: f64,
    /// What DEM and GDE do in one call: pair, colour or sweep.
    #[arg(long, default_value = "pair")]
    pub reach: String,
    /// Whose range load is even over: donor or receiver.
    #[arg(long, default_value = "receiver")]
    pub range: String,
    /// Queries lie elsewhere on the ring with another number, as with another hash; the means over several are printed.
    #[arg(long, value_delimiter = ',', default_value = "0")]
    pub places: Vec<u8>,
    /// Share of the logs' traffic: with less of it fewer queries come between two calls.
    #[arg(long, default_value_t = 1.0)]
    pub traffic: f64,
}

/// Gives RID a fifth of DM's movement, as both tables have.
const THRESHOLD: f64 = 0.04;
/// Six heartbeats: as long as a node's last one counts. DM then moves 8.5 % of the ring per call (Table 5.3: 8.58).
const MEASURED_OVER: f64 = 7.2;
/// Chance alone takes the most loaded of 20 readings 11 % above the mean; GM's own line in Table 5.2 is met.
const MARKS: f64 = 0.15;
const PORTION: f64 = 0.5;

impl Setting {
    fn reach(&self) -> Reach {
        match self.reach.as_str() {
            "sweep" => Reach::Sweep,
            "colour" => Reach::Colour,
            _ => Reach::Pair,
        }
    }

    fn balancer(&self, name: &str) -> Option<Box<dyn Balancer>> {
        let threshold = self.threshold;
        let (light_below, heavy_above) = (1.0 - self.marks, 1.0 + self.marks);
        Some(match name {
            "DEM" => Box::new(Dem::new(self.reach())),
            "GDE" => Box::new(Gde::new(self.reach())),
            "GM" => Box::new(Gradient { light_below, heavy_above, portion: self.portion }),
            "RID" => Box::new(Rid { threshold }),
            "SID" => Box::new(Sid { threshold }),
            "DM" => Box::new(Direct),
            "SPREAD" => Box::new(Spread { slack: 0.02 }),
            _ => return None,
        })
    }

    /// Share of the traffic.
    pub(super) fn share(&self) -> f64 {
        self.traffic.clamp(1e-3, 1.0)
    }

    /// Makes a run one of this algorithm, on nodes with this load in the mean.
    fn wanted(&self, mut wanted: Wanted, name: &str, places: u8, load: f64) -> Wanted {
        wanted.stream.rate *= self.share();
        let node_rate = wanted.stream.rate / 20.0 / load;
        // The index is not what is looked at: it bears any misses. Nor are inserts: the tables' loads are lookups.
        wanted.plan.costs =
            Costs { node_rate, insert: 0.0, index_rate: 10.0 * wanted.stream.rate, ..Costs::default() };
        wanted.plan.tuning = Tuning {
            node_rate,
            range: if self.range == "donor" { RangeOf::Donor } else { RangeOf::Receiver },
            balance_every: Duration::from_secs_f64(self.balance_every.max(1.0)),
            measured_over: Duration::from_secs_f64((self.measured_over / self.share()).max(1.0)),
            ..Tuning::default()
        };
        if let Some(balancer) = self.balancer(name) {
            wanted.plan.tuning.balancer = balancer;
        }
        wanted.stream.places = places;
        wanted.stream.seed += u64::from(places);
        if self.news > 0.0 {
            wanted.stream.bursts = Burst::news(wanted.stream.seed, wanted.seconds, self.news);
        }
        wanted.label = name.to_string();
        wanted
    }

    /// Runs the algorithms over all places. `plan` makes a run for an algorithm's name.
    fn contest(
        &self,
        names: &[&str],
        load: f64,
        threads: usize,
        plan: impl Fn(&str) -> Wanted,
    ) -> Vec<(Standing, Vec<ServiceOutcome>)> {
        let runs = names.iter().flat_map(|name| {
            self.places.iter().map(|places| self.wanted(plan(name), name, *places, load)).collect::<Vec<_>>()
        });
        let mut outcomes = make(runs.collect(), threads).into_iter();
        let of_name = |name: &&str| {
            let runs: Vec<ServiceOutcome> =
                outcomes.by_ref().take(self.places.len()).map(|(_, outcome)| outcome).collect();
            (Standing::of(name, &runs), runs)
        };
        names.iter().map(of_name).collect()
    }
}

/// How an algorithm did, in the mean over places.
#[derive(Clone, Debug)]
struct Standing {
    name: String,
    /// Loads of the most and the least loaded node, each over the whole run.
    most: f64,
    least: f64,
    hits: f64,
    /// Shares of the ring that changed owner.
    moved_per_call: f64,
    moved: f64,
    /// Share of calls in which any did.
    moving: f64,
}

impl Standing {
    fn of(name: &str, runs: &[ServiceOutcome]) -> Standing {
        let mean = |value: &dyn Fn(&ServiceOutcome) -> f64| {
            runs.iter().map(value).sum::<f64>() / runs.len().max(1) as f64
        };
        let calls = |outcome: &ServiceOutcome| outcome.calls.max(1) as f64;
        Standing {
            name: name.to_string(),
            most: mean(&|outcome| extremes(outcome).0),
            least: mean(&|outcome| extremes(outcome).1),
            hits: mean(&ServiceOutcome::hit_rate),
            moved_per_call: mean(&|outcome| outcome.moved / calls(outcome)),
            moved: mean(&|outcome| outcome.moved),
            moving: mean(&|outcome| outcome.moving_calls as f64 / calls(outcome)),
        }
    }
}

/// Loads of the most and the least loaded node, each over the whole run.
fn extremes(outcome: &ServiceOutcome) -> (f64, f64) {
    let loads = outcome.node_loads.iter().copied();
    (loads.clone().fold(0.0, f64::max), loads.fold(f64::INFINITY, f64::min))
}

/// Tables 5.2 and 5.3: the ring algorithms, alone and beside D.
pub fn table_5_2(args: &CacheArgs, policy: Policy, report: &mut CacheReport, entries: u64) {
    const THESIS: [(&str, &str, &str); 8] = [
        ("none", "85.9 / 53.1 / 59.6 / –", "85.4 / 72.6 / 40.9 / –"),
        ("DEM", "73.0 / 55.0 / 59.5 / 0.11", "85.0 / 74.1 / 40.8 / 0.10"),
        ("GDE", "72.2 / 55.6 / 59.6 / 0.11", "85.4 / 73.6 / 40.9 / 0.10"),
        ("GM", "66.7 / 58.1 / 59.4 / 2.40", "85.1 / 78.3 / 40.2 / 0.95"),
        ("RID", "63.6 / 61.0 / 59.3 / 4.77", "80.4 / 76.0 / 40.0 / 1.52"),
        ("SID", "65.3 / 59.9 / 59.2 / 11.6", "82.5 / 75.6 / 39.9 / 1.61"),
        ("DM", "64.8 / 59.7 / 56.9 / 23.2", "85.3 / 70.6 / 26.7 / 8.58"),
        ("SPREAD", "", ""),
    ];
    let large = entries >= 1_000_000;
    // Loads of 62 % and 78 % in the mean, as the tables have.
    let (number, load) = if large { ("5.2", 0.62) } else { ("5.3", 0.78) };
    for (none, balanced, beside) in
        [(StrategyKind::Plain, StrategyKind::B, "B alone"), (StrategyKind::D, StrategyKind::DB, "D and B")]
    {
        if !args.wants(beside) {
            continue;
        }
        let setting = &args.setting;
        let plan = |name: &str| {
            let mut run = wanted(args, policy, if name == "none" { none } else { balanced }, 20);
            run.plan.warm_up /= setting.share();
            run.seconds /= setting.share();
            run.plan.entries = entries;
            run
        };
        let standings = setting.contest(&THESIS.map(|(name, _, _)| name), load, args.threads, plan);
        head(
            &format!("Table {number}: 20 nodes × {entries} entries, {beside}, T_load 0.95"),
            &[
                "algorithm",
                "most loaded, %",
                "least loaded, %",
                "hits, %",
                "moved per call, % of the ring",
                "moved in all, rings",
                "calls that moved, %",
                "thesis: most / least / hits / moved",
            ],
        );
        for ((standing, runs), (_, of_large, of_small)) in standings.into_iter().zip(THESIS) {
            row(&[
                standing.name,
                percent(standing.most),
                percent(standing.least),
                format!("{:.2}", 100.0 * standing.hits),
                format!("{:.2}", 100.0 * standing.moved_per_call),
                format!("{:.2}", standing.moved),
                percent(standing.moving),
                if large { of_large } else { of_small }.to_string(),
            ]);
            report.runs.extend(runs.into_iter().map(|outcome| (number.to_string(), outcome)));
        }
        println!();
    }
}

/// Tables 5.4 to 5.7: RID's two thresholds.
pub fn table_5_4(args: &CacheArgs, policy: Policy, report: &mut CacheReport) {
    const THRESHOLDS: [f64; 9] = [0.01, 0.02, 0.04, 0.06, 0.08, 0.10, 0.12, 0.14, 0.16];
    /// Loads in the mean, as Tables 5.6 and 5.7 have.
    const LOAD_5_4: f64 = 0.78;
    const THESIS: [&str; 9] = [
        "31.5 49.3 76.3–79.5; 37.3 37.6 77.5–78.9; 38.2 35.7 77.3–78.7",
        "30.8 50.6 76.1–79.2; 36.3 39.6 77.5–78.6; 36.8 38.5 77.4–78.6",
        "30.2 51.9 76.4–79.8; 32.2 47.9 77.6–78.5; 32.4 47.5 77.6–78.3",
        "29.6 53.0 76.2–80.3; 29.6 53.0 76.9–79.0; 29.9 52.6 77.2–79.0",
        "29.7 52.9 75.5–81.0; 29.7 52.8 76.5–79.8; 29.6 53.0 75.0–80.2",
        "29.7 53.1 73.7–85.6; 29.7 53.0 72.5–82.4; 29.7 53.0 72.5–82.4",
        "29.6 53.1 72.1–84.7; 29.6 53.2 72.1–84.7; 29.6 53.2 72.1–84.7",
        "29.5 53.3 72.6–83.9; 29.9 53.3 72.5–84.3; 29.6 53.3 72.5–84.3",
        "29.4 53.6 70.9–87.9; 29.4 53.6 70.9–87.9; 29.4 53.6 70.9–87.9",
    ];
    // What the thesis leaves open of L_threshold: points of load or a part of the mean, whose range load is even over, and
    // how long loads are measured.
    let setting = &args.setting;
    let readings = [
        (0.90, false, RangeOf::Donor, setting.balance_every),
        (0.95, false, RangeOf::Donor, setting.balance_every),
        (0.99, false, RangeOf::Donor, setting.balance_every),
        (0.95, false, RangeOf::Receiver, setting.measured_over / setting.share()),
        (0.95, true, RangeOf::Receiver, setting.measured_over / setting.share()),
    ];
    let all = THRESHOLDS.iter().flat_map(|threshold| readings.map(|reading| (*threshold, reading)));
    let runs = all.map(|(threshold, (efficiency_min, of_mean, range, over))| {
        let mut run = wanted(args, policy, StrategyKind::DB, 20);
        run.plan.warm_up /= setting.share();
        run.seconds /= setting.share();
        let mut run = setting.wanted(run, "RID", setting.places.first().copied().unwrap_or(0), LOAD_5_4);
        run.plan.costs.sample /= setting.share();
        let tuning = &mut run.plan.tuning;
        (tuning.efficiency_min, tuning.range) = (efficiency_min, range);
        tuning.measured_over = Duration::from_secs_f64(over.clamp(1.0, setting.balance_every.max(1.0)));
        let rid = Box::new(Rid { threshold });
        tuning.balancer = if of_mean { Box::new(OfMean(rid)) } else { rid };
        run
    });
    let runs = make(runs.collect(), args.threads);
    head(
        "Tables 5.4 to 5.7: D+B with RID, 20 nodes; each cell: mean ms, hits %, least–most loaded %, moved per call %",
        &[
            "L_threshold",
            "T_load 0.90, points of load, the donor's range, loads of the whole period",
            "0.95",
            "0.99",
            "0.95, the receiver's range, loads of six heartbeats",
            "… a part of the mean load",
            "thesis (0.90; 0.95; 0.99)",
        ],
    );
    for ((cells, threshold), thesis) in runs.chunks(readings.len()).zip(THRESHOLDS).zip(THESIS) {
        let mut line = vec![format!("{threshold:.2}")];
        for (_, outcome) in cells {
            let (most, least) = extremes(outcome);
            line.push(format!(
                "{:.1}, {}, {}–{}, {:.2}",
                outcome.times.mean(),
                percent(outcome.hit_rate()),
                percent(least),
                percent(most),
                100.0 * outcome.moved / outcome.calls.max(1) as f64
            ));
        }
        line.push(thesis.to_string());
        row(&line);
    }
    report.runs.extend(runs.into_iter().map(|(_, outcome)| ("5.4".to_string(), outcome)));
    println!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::stream::StreamConfig;
    use crate::cache::world::Plan;

    #[derive(clap::Parser)]
    struct Cli {
        #[command(flatten)]
        setting: Setting,
    }

    #[test]
    fn balancers_stand_in_the_order_of_the_thesis() {
        // The order of [Gomez14 Table 5.2]. A fortieth of the traffic has as many requests in
        // a period as six heartbeats of all of it; 30 hours are 360 calls, a fifth of them not measured, as there.
        const HOUR: f64 = 3600.0;
        let setting = Setting {
            traffic: 1.0 / 40.0,
            places: (0..8).collect(),
            ..<Cli as clap::Parser>::parse_from(["sim"]).setting
        };
        let plan = |name: &str| Wanted {
            label: String::new(),
            plan: Plan {
                warm_up: 6.0 * HOUR,
                policy: Policy::Lru,
                ..Plan::new(if name == "none" { StrategyKind::Plain } else { StrategyKind::B }, 20, 500)
            },
            stream: StreamConfig::default(),
            log: None,
            seconds: 30.0 * HOUR,
        };
        let names = ["RID", "SID", "DM", "GM", "DEM", "GDE", "none"];
        let all: Vec<Standing> =
            setting.contest(&names, 0.62, 2, plan).into_iter().map(|(standing, _)| standing).collect();
        let [rid, sid, dm, gm, dem, gde, none] = &all[..] else { panic!("seven") };
        let told = format!("{all:#?}");
        // Most loaded: RID < DM, SID < GM < DEM, GDE < none.
        assert!(rid.most < dm.most.min(sid.most), "{told}");
        assert!(dm.most.max(sid.most) < gm.most && gm.most < dem.most.min(gde.most), "{told}");
        assert!(dem.most.max(gde.most) < 0.85 * none.most, "{told}");
        // DM has the fewest hits and moves most.
        let others = [rid, sid, gm, dem, gde];
        assert!(others.iter().chain([&none]).all(|one| dm.hits < one.hits), "{told}");
        assert!(others.iter().all(|one| dm.moved_per_call > 2.0 * one.moved_per_call), "{told}");
        assert!(others[3..].iter().all(|one| one.moved_per_call < 0.5 * rid.moved_per_call), "{told}");
        assert!(none.moved == 0.0 && others.iter().all(|one| one.hits > none.hits - 0.005), "{told}");
    }
}
