//! Figures 5.4 to 5.23 of \[Exposto08\] beside ours.
//!
//! A reduction is that of the means over all numbers of robots: 1 − mean(A) / mean(B), as in the thesis. Two
//! kinds of rows stand together: what the partition brings by itself, and what the politeness formula brings.

use super::crawl::{Crew, Params, Politeness, crawl};
use super::model::{Flow, Model};
use super::plot::{TrendPanel, svg};
use super::strategies::{Strategy, Weights, assign, assign_again};
use super::web::Web;
use super::{PartitionArgs, said};
use crate::Error;
use farol_partition::{Space, Unit};
use std::collections::BTreeMap;

/// A quantity by number of robots.
type Points = Vec<(f64, f64)>;

/// Curves by strategy, unit and quantity.
#[derive(Default)]
struct Curves(BTreeMap<String, Points>);

impl Curves {
    fn add(&mut self, name: &str, k: usize, value: f64) {
        self.0.entry(name.to_string()).or_default().push((k as f64, value));
    }

    fn mean(&self, name: &str) -> f64 {
        let curve = self.0.get(name).map_or(&[][..], |curve| curve);
        curve.iter().map(|point| point.1).sum::<f64>() / curve.len() as f64
    }

    /// How much less `a` is than `b`, in the mean over all numbers of robots.
    fn reduction(&self, a: &str, b: &str) -> String {
        let reduction = 100.0 * (1.0 - self.mean(a) / self.mean(b));
        if reduction.is_finite() { format!("{:.1} %", -reduction) } else { "–".to_string() }
    }

    fn line(&self, name: &str, shown: &str) -> (String, Points) {
        (shown.to_string(), self.0.get(name).cloned().unwrap_or_default())
    }
}

pub fn run(args: &PartitionArgs) -> Result<(), Error> {
    let (web, ks, weights) = (args.web()?, args.robots()?, args.weights());
    println!(
        "Space: {} URLs, {} links ({} between hosts), {} hosts, {} addresses; densest host {} pages; locality {}, seed {}. \
         Preference of links to distances {}:{}, slack {} %.\n",
        web.pages(),
        web.link_count(),
        web.host_links.iter().map(|(_, _, links)| u64::from(*links)).sum::<u64>(),
        web.hosts(),
        addresses(&web),
        (0..web.hosts()).map(|h| web.pages_of(h)).max().unwrap_or(0),
        args.counts.locality,
        args.seed,
        weights.links,
        weights.distance,
        100.0 * weights.slack,
    );
    let mut curves = Curves::default();
    for k in &ks {
        one(&web, *k, &weights, &mut curves)?;
        tracing::info!(robots = k, "done");
    }
    println!("{}", reductions(&curves));
    println!("{}", by_k(&curves, &ks));
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&curves.0).unwrap_or_default();
        std::fs::write(path, text).map_err(Error::file("write", path))?;
    }
    if let Some(path) = &args.plot {
        std::fs::write(path, svg(&panels(&curves))).map_err(Error::file("write", path))?;
    }
    Ok(())
}

fn addresses(web: &Web) -> usize {
    let mut all = web.address.clone();
    all.sort_unstable();
    all.dedup();
    all.len()
}

const HOSTS: [Strategy; 5] =
    [Strategy::Hash, Strategy::Consistent, Strategy::LinksRtt, Strategy::LinksGeo, Strategy::Flat];

/// Everything about one number of robots.
fn one(web: &Web, k: usize, weights: &Weights, curves: &mut Curves) -> Result<(), Error> {
    let robots = web.robots(k + 1, weights.seed);
    let hosts: Vec<u32> = (0..web.hosts() as u32).collect();
    let model = Model::default();
    let space = web.space(&robots[..k], model.connections);
    let more = web.space(&robots, model.connections);
    let rtt = |a: usize, b: usize| web.rtt(robots[a] as usize, robots[b] as usize);
    for strategy in HOSTS {
        let part = assign(&space, strategy, weights).map_err(said)?;
        let name = strategy.name();
        algebra(&space, &part, name, k, curves, &model, rtt);
        let again = assign_again(&more, &part, strategy, weights).map_err(said)?;
        let moves = Flow::of_moves(&more, &part, &again);
        curves.add(&format!("{name}/relocation"), k, model.exchange(&moves, rtt));
        curves.add(&format!("{name}/moved"), k, moves.moved() as f64 / web.pages() as f64);
        let crew = Crew { robots: &robots[..k], owner: &part, server: &hosts };
        let politeness: &[Politeness] = match strategy {
            Strategy::Hash | Strategy::LinksRtt => &[
                Politeness::Constant(15.0),
                Politeness::Constant(4.45),
                Politeness::Tenfold,
                Politeness::Adjustable,
            ],
            Strategy::LinksGeo => &[Politeness::Constant(15.0), Politeness::Adjustable],
            _ => &[],
        };
        simulate(web, &crew, politeness, name, k, curves);
    }
    // Addresses as units: all hosts of one together, and politeness towards it.
    let (units, map) = space.by(Unit::Address);
    for strategy in [Strategy::Hash, Strategy::LinksRtt] {
        let part = assign(&units, strategy, weights).map_err(said)?;
        let name = format!("{}, addresses", strategy.name());
        algebra(&units, &part, &name, k, curves, &model, rtt);
        let owner: Vec<u32> = map.iter().map(|unit| part[*unit as usize]).collect();
        let crew = Crew { robots: &robots[..k], owner: &owner, server: &map };
        simulate(web, &crew, &[Politeness::Constant(15.0)], &name, k, curves);
    }
    let alone = web.space(&robots[..1], model.connections);
    let (central, _) = model.download(&alone, &vec![0; web.hosts()]);
    curves.add("central/download", k, central);
    Ok(())
}

fn algebra(
    space: &Space,
    part: &[u32],
    name: &str,
    k: usize,
    curves: &mut Curves,
    model: &Model,
    rtt: impl Fn(usize, usize) -> f64,
) {
    let (download, densest) = model.download(space, part);
    curves.add(&format!("{name}/download"), k, download);
    curves.add(&format!("{name}/download bound"), k, download.max(densest));
    curves.add(&format!("{name}/exchange time"), k, model.exchange(&Flow::of_links(space, part), rtt));
    let measure = space.measure(part);
    curves.add(&format!("{name}/cut"), k, measure.exchange());
    curves.add(&format!("{name}/overload"), k, measure.overload);
    curves.add(&format!("{name}/rtt"), k, measure.rtt_mean);
}

fn simulate(
    web: &Web,
    crew: &Crew<'_>,
    politeness: &[Politeness],
    name: &str,
    k: usize,
    curves: &mut Curves,
) {
    for politeness in politeness {
        let outcome = crawl(web, crew, *politeness, &Params::default());
        curves.add(&format!("{name}/days, {}", politeness.name()), k, outcome.secs / 86_400.0);
        curves.add(&format!("{name}/rest, {}", politeness.name()), k, outcome.rest);
        // The share does not depend on the rule; it is noted once.
        if *politeness == Politeness::Constant(15.0) {
            curves.add(&format!("{name}/exchange"), k, outcome.exchange());
            let once = outcome.exchanged_once as f64 / outcome.pages.max(1) as f64;
            curves.add(&format!("{name}/exchange once"), k, once);
        }
    }
}

fn reductions(curves: &Curves) -> String {
    let (hash, ours, geo) = ("hash of host", "links + RTT", "links + geo");
    let row = |what: &str, thesis: &str, a: String, b: String| {
        format!("| {what} | {thesis} | {} |\n", curves.reduction(&a, &b))
    };
    let mut out = "| change of the mean over all k | thesis | ours |\n|---|---:|---:|\n".to_string();
    let time = |who: &str, rule: &str| format!("{who}/days, {rule}");
    let of = |who: &str, what: &str| format!("{who}/{what}");
    for (what, thesis, a, b) in [
        (
            "H5 URL exchanges (share of forwarded): graph / hash",
            "-76 %",
            of(ours, "exchange"),
            of(hash, "exchange"),
        ),
        (
            "H6 total time, 15 s on both sides: graph / hash",
            "-0.03 %",
            time(ours, "15 s"),
            time(hash, "15 s"),
        ),
        (
            "**H3 total time, adjustable on both sides: graph / hash**",
            "-6 %",
            time(ours, "adjustable"),
            time(hash, "adjustable"),
        ),
        ("**H4 total time, 10× on both sides: graph / hash**", "-14 %", time(ours, "10×"), time(hash, "10×")),
        (
            "formula alone: hash with adjustable / hash with 15 s",
            "",
            time(hash, "adjustable"),
            time(hash, "15 s"),
        ),
        (
            "formula alone: hash with adjustable / hash with 4.45 s",
            "",
            time(hash, "adjustable"),
            time(hash, "4.45 s"),
        ),
        ("H1 graph with adjustable / hash with 15 s", "-91 %", time(ours, "adjustable"), time(hash, "15 s")),
        (
            "H2 graph with adjustable / hash with 4.45 s",
            "-69 %",
            time(ours, "adjustable"),
            time(hash, "4.45 s"),
        ),
        ("total time, 4.45 s on both sides: graph / hash", "", time(ours, "4.45 s"), time(hash, "4.45 s")),
        ("H9 RTT / geo, adjustable", "-57 %", time(ours, "adjustable"), time(geo, "adjustable")),
        ("Fig. 5.14 RTT / geo, 15 s", "0 %", time(ours, "15 s"), time(geo, "15 s")),
        ("Fig. 5.15 exchanges: RTT / geo", "-2.3 %", of(ours, "exchange"), of(geo, "exchange")),
        (
            "Fig. 5.16 total time, 15 s: hosts / addresses",
            "-22 %",
            time(ours, "15 s"),
            time("links + RTT, addresses", "15 s"),
        ),
        (
            "Fig. 5.17 exchanges: hosts / addresses",
            "~0",
            of(ours, "exchange"),
            of("links + RTT, addresses", "exchange"),
        ),
        ("H7 download time, algebraic: graph / hash", "-33 %", of(ours, "download"), of(hash, "download")),
        (
            "the same, not below the densest server's own time",
            "",
            of(ours, "download bound"),
            of(hash, "download bound"),
        ),
        ("Fig. 5.4 download time: hash / central", "-82 %", of(hash, "download"), of("central", "download")),
        ("Fig. 5.4 download time: graph / central", "-88 %", of(ours, "download"), of("central", "download")),
        (
            "Fig. 5.5 download time: hosts / addresses",
            "-8 %",
            of(ours, "download"),
            of("links + RTT, addresses", "download"),
        ),
        (
            "H7 exchange time, algebraic: graph / hash",
            "-50 %",
            of(ours, "exchange time"),
            of(hash, "exchange time"),
        ),
        (
            "H7 relocation time: graph, incremental / hash",
            "-35 %",
            of(ours, "relocation"),
            of(hash, "relocation"),
        ),
        (
            "relocation time: consistent hash / hash",
            "",
            of("consistent hash", "relocation"),
            of(hash, "relocation"),
        ),
        ("Fig. 5.10 exchange time: RTT / geo", "-13 %", of(ours, "exchange time"), of(geo, "exchange time")),
        ("mean RTT per page: graph / hash", "", of(ours, "rtt"), of(hash, "rtt")),
        (
            "cut: multilevel / the thesis' flat method",
            "",
            of(ours, "cut"),
            of("flat KL/FM, links + RTT", "cut"),
        ),
    ] {
        out.push_str(&row(what, thesis, a, b));
    }
    out
}

fn by_k(curves: &Curves, ks: &[usize]) -> String {
    let mut out = String::from("| quantity |");
    ks.iter().for_each(|k| out.push_str(&format!(" {k} |")));
    out.push_str("\n|---|");
    ks.iter().for_each(|_| out.push_str("---:|"));
    out.push('\n');
    for (name, curve) in &curves.0 {
        out.push_str(&format!("| {name} |"));
        curve.iter().for_each(|(_, value)| {
            let digits = if *value >= 1000.0 {
                0
            } else if *value >= 10.0 {
                1
            } else {
                4
            };
            out.push_str(&format!(" {value:.digits$} |"));
        });
        out.push('\n');
    }
    out
}

fn panels(curves: &Curves) -> Vec<TrendPanel> {
    let (hash, ours, geo) = ("hash of host", "links + RTT", "links + geo");
    let panel = |title: &str, what: &str, who: &[&str]| TrendPanel {
        title: title.to_string(),
        lines: who.iter().map(|who| curves.line(&format!("{who}/{what}"), who)).collect(),
    };
    vec![
        panel("Share of URLs sent to another robot", "exchange", &[hash, ours, geo]),
        panel("Days, adjustable politeness", "days, adjustable", &[hash, ours, geo]),
        panel("Days, 10× politeness", "days, 10×", &[hash, ours]),
        panel("Download time, s (algebraic)", "download", &[hash, ours, geo]),
        panel("Exchange time, s (algebraic)", "exchange time", &[hash, ours, geo]),
        panel("Relocation time, s (algebraic)", "relocation", &[hash, "consistent hash", ours]),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::web::{WebCounts, made_cities};
    use super::*;

    #[test]
    fn on_a_small_space_the_graph_beats_the_hash_where_it_should() {
        let counts = WebCounts {
            urls: 9000,
            links: 40_000,
            hosts: 400,
            addresses: 120,
            densest: 500,
            external: 0.15,
            locality: 0.85,
            community: 20,
        };
        let web = Web::make(&counts, made_cities(1), 1);
        let weights = Weights { links: 4.0, distance: 1.0, slack: 0.05, seed: 1 };
        let mut curves = Curves::default();
        for k in [3, 6] {
            one(&web, k, &weights, &mut curves).unwrap();
        }
        let of = |who: &str, what: &str| curves.mean(&format!("{who}/{what}"));
        let (hash, ours) = ("hash of host", "links + RTT");
        assert!(of(ours, "exchange") < 0.4 * of(hash, "exchange"));
        assert!(of(ours, "exchange time") < of(hash, "exchange time"));
        assert!(of(ours, "relocation") < of(hash, "relocation"));
        assert!(of(ours, "rtt") < of(hash, "rtt"));
        assert!(of(ours, "overload") <= 1.051, "{}", of(ours, "overload"));
        // With a constant rest the densest host sets the pace, whoever owns it.
        let (a, b) = (of(ours, "days, 15 s"), of(hash, "days, 15 s"));
        assert!((a / b - 1.0).abs() < 0.02, "{a} {b}");
        let table = reductions(&curves);
        assert!(table.contains("| -76 % | -") && !table.contains('–'), "{table}");
        assert_eq!(by_k(&curves, &[3, 6]).lines().count(), curves.0.len() + 2);
        assert!(svg(&panels(&curves)).matches("<polyline").count() >= 15);
    }
}
