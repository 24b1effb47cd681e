//! A small plot: seconds per cycle against known URLs, one line per store, the figures of \[Henrique11\]
//! dashed.

use super::report::{Run, THESIS};
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 440.0;
/// Room around the axes: left, right, top, bottom.
const MARGINS: (f64, f64, f64, f64) = (60.0, 150.0, 20.0, 45.0);
const COLOURS: [&str; 8] =
    ["#d62728", "#1f77b4", "#17becf", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#7f7f7f"];

/// A line of the plot: seconds by millions of URLs.
struct Curve {
    name: String,
    colour: &'static str,
    dash: &'static str,
    points: Vec<(f64, f64)>,
}

struct Axes {
    x_max: f64,
    y: (f64, f64),
}

impl Axes {
    fn x(&self, millions: f64) -> f64 {
        MARGINS.0 + millions / self.x_max * (WIDTH - MARGINS.0 - MARGINS.1)
    }

    /// Seconds on a logarithmic scale.
    fn y(&self, seconds: f64) -> f64 {
        let share = (seconds.max(self.y.0) / self.y.0).ln() / (self.y.1 / self.y.0).ln();
        HEIGHT - MARGINS.3 - share * (HEIGHT - MARGINS.2 - MARGINS.3)
    }
}

/// Draws the plot as SVG.
pub fn draw(runs: &[Run]) -> String {
    let line = |run: &Run| -> Vec<(f64, f64)> {
        let points = (1..=run.cycles.len())
            .filter_map(|i| Some((i as f64 * run.millions_per_cycle(), run.seconds_at(i)?)));
        points.collect()
    };
    let mut lines: Vec<Curve> = Vec::new();
    for (run, colour) in runs.iter().zip(COLOURS.iter().cycle()) {
        lines.push(Curve { name: run.name.clone(), colour, dash: "", points: line(run) });
    }
    let x_max = lines.iter().flat_map(|line| &line.points).map(|point| point.0).fold(1.0, f64::max);
    let thesis = |of: fn(&(u64, f64, f64)) -> f64| -> Vec<(f64, f64)> {
        THESIS.iter().map(|row| (row.0 as f64, of(row))).filter(|point| point.0 <= x_max).collect()
    };
    for (name, colour, points) in
        [("thesis: DRUM", "#555", thesis(|row| row.1)), ("thesis: VEUNI", "#aaa", thesis(|row| row.2))]
    {
        lines.push(Curve { name: name.to_string(), colour, dash: "6 4", points });
    }
    let seconds =
        || lines.iter().flat_map(|line| &line.points).map(|point| point.1).filter(|seconds| *seconds > 0.0);
    let decade = |value: f64, up: bool| {
        let exponent = value.log10();
        10f64.powf(if up { exponent.ceil() } else { exponent.floor() })
    };
    let (low, high) =
        (decade(seconds().fold(1.0, f64::min), false), decade(seconds().fold(1.0, f64::max), true));
    let axes = Axes { x_max, y: (low, high.max(low * 10.0)) };
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#fff\"/>\n"
    );
    grid(&mut svg, &axes);
    let mut label_y = MARGINS.2 + 8.0;
    for Curve { name, colour, dash, points } in lines.iter().filter(|line| !line.points.is_empty()) {
        let path: Vec<String> =
            points.iter().map(|(x, y)| format!("{:.1},{:.1}", axes.x(*x), axes.y(*y))).collect();
        let _ = writeln!(
            svg,
            "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" stroke-dasharray=\"{dash}\" points=\"{}\"/>",
            path.join(" ")
        );
        let x = WIDTH - MARGINS.1 + 12.0;
        let _ = writeln!(
            svg,
            "<path d=\"M{x} {label_y}h18\" stroke=\"{colour}\" stroke-width=\"2\" stroke-dasharray=\"{dash}\"/><text \
             x=\"{}\" y=\"{}\">{name}</text>",
            x + 24.0,
            label_y + 4.0
        );
        label_y += 18.0;
    }
    svg.push_str("</svg>\n");
    svg
}

fn grid(svg: &mut String, axes: &Axes) {
    let (left, right) = (MARGINS.0, WIDTH - MARGINS.1);
    let bottom = HEIGHT - MARGINS.3;
    let mut tick = axes.y.0;
    while tick <= axes.y.1 * 1.001 {
        let y = axes.y(tick);
        let _ = writeln!(
            svg,
            "<path d=\"M{left} {y:.1}H{right}\" stroke=\"#ddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{tick}</text>",
            left - 6.0,
            y + 4.0
        );
        tick *= 10.0;
    }
    let step = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
        .into_iter()
        .find(|step| axes.x_max / step <= 8.0);
    let step = step.unwrap_or(axes.x_max);
    for i in 0..=(axes.x_max / step) as u32 {
        let value = f64::from(i) * step;
        let x = axes.x(value);
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {}V{bottom}\" stroke=\"#eee\"/><text x=\"{x:.1}\" y=\"{}\" text-anchor=\"middle\">{value}</text>",
            MARGINS.2,
            bottom + 16.0
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">million URLs known</text><text x=\"14\" y=\"{}\" \
         text-anchor=\"middle\" transform=\"rotate(-90 14 {})\">seconds per cycle (mean of ten)</text>",
        (left + right) / 2.0,
        HEIGHT - 8.0,
        HEIGHT / 2.0,
        HEIGHT / 2.0
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_store_has_a_line() {
        let cycles =
            (1..=60).map(|cycle| super::super::driver::Cycle { cycle, seconds: 0.3, ..Default::default() });
        let run = Run { name: "ours".into(), cycles: cycles.collect(), ..Run::default() };
        let svg = draw(&[run]);
        assert_eq!(svg.matches("<polyline").count(), 3);
        assert!(svg.contains(">ours<") && svg.ends_with("</svg>\n"));
    }
}
