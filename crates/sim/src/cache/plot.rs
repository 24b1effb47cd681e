//! The hottest node's load over time as an SVG: one line per run.

use super::report::CacheReport;
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 360.0;
const MARGIN: f64 = 48.0;
const COLOURS: [&str; 8] =
    ["#0b6e4f", "#c1121f", "#1d4e89", "#f79d1e", "#6a4c93", "#7a7a7a", "#d95f9b", "#3aa6b9"];
/// Highest load drawn, in means.
const MOST: f64 = 3.0;

/// Draws all runs of a report.
pub fn draw(report: &CacheReport) -> String {
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {}\" font-family=\"sans-serif\" font-size=\"12\">\n",
        HEIGHT + 18.0 * report.runs.len() as f64
    );
    let all = report.runs.iter().flat_map(|(_, outcome)| outcome.minutes.iter().map(|minute| minute.at));
    let (first, last) = all.fold((f64::INFINITY, 0.0f64), |(low, high), at| (low.min(at), high.max(at)));
    let x = |at: f64| MARGIN + (at - first) / (last - first).max(1.0) * (WIDTH - 2.0 * MARGIN);
    let y = |load: f64| HEIGHT - MARGIN - (load.min(MOST) - 1.0) / (MOST - 1.0) * (HEIGHT - 2.0 * MARGIN);
    for tick in [1.0, 1.1, 1.25, 1.5, 2.0, 2.5, 3.0] {
        let at = y(tick);
        // Writing into a string cannot fail.
        let _ = writeln!(
            svg,
            "<path d=\"M{MARGIN} {at:.1}H{:.1}\" stroke=\"#ddd\"/><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
            WIDTH - MARGIN,
            MARGIN - 6.0,
            at + 4.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"16\" text-anchor=\"middle\">hottest node's load over the mean, minute by minute</text>\
         <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">hours</text>",
        WIDTH / 2.0,
        WIDTH / 2.0,
        HEIGHT - 8.0
    );
    for hour in 0..=((last - first).max(0.0) / 3600.0) as u32 {
        let at = x(first + f64::from(hour) * 3600.0);
        let _ = writeln!(
            svg,
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{hour}</text>",
            HEIGHT - MARGIN + 16.0
        );
    }
    for (number, (table, outcome)) in report.runs.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points: Vec<String> = outcome
            .minutes
            .iter()
            .map(|minute| format!("{:.1},{:.1}", x(minute.at), y(minute.hottest())))
            .collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.2\" points=\"{}\"/>\
             <text x=\"{MARGIN}\" y=\"{:.1}\" fill=\"{colour}\">{} ({table})</text>",
            points.join(" "),
            HEIGHT + 14.0 + 18.0 * number as f64,
            outcome.name
        );
    }
    svg.push_str("</svg>\n");
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::strategy::StrategyKind;
    use crate::cache::stream::{Stream, StreamConfig};
    use crate::cache::world::{Plan, run};

    #[test]
    fn every_run_has_a_line() {
        let stream = || {
            Stream::new(StreamConfig { rate: 50.0, ..StreamConfig::default() })
                .take_while(|asked| asked.at < 600.0)
        };
        let mut report = CacheReport::default();
        for kind in [StrategyKind::Plain, StrategyKind::Ours] {
            report.runs.push(("test".to_string(), run(Plan::new(kind, 5, 100), stream())));
        }
        let svg = draw(&report);
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert!(svg.contains(">CH (test)<") && svg.ends_with("</svg>\n") && !svg.contains("NaN"));
        let json: serde_json::Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(json[1]["strategy"], "ours");
    }
}
