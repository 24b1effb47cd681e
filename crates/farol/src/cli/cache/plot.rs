//! A log in three pictures: frequency by rank, hit rate by entries, queries over time.

use super::Findings;
use std::fmt::Write;

const WIDTH: f64 = 420.0;
const HEIGHT: f64 = 280.0;
const MARGIN: f64 = 46.0;
/// Points of a line at most.
const POINTS_MAX: usize = 600;

/// A picture: points by line, both axes by power of ten where said.
struct Panel<'a> {
    title: &'a str,
    x: (&'a str, bool),
    y_log: bool,
    lines: Vec<Curve<'a>>,
}

/// Name, colour and points.
type Curve<'a> = (&'a str, &'a str, Vec<(f64, f64)>);

/// Draws what was found.
pub fn draw(found: &Findings) -> String {
    let ranks = thin(
        found.counts.iter().enumerate().map(|(i, count)| ((i + 1) as f64, *count as f64)).collect(),
        true,
    );
    let rate = |ours: bool| -> Vec<(f64, f64)> {
        found
            .rates
            .iter()
            .map(|(entries, lru, tiny)| (*entries as f64, 100.0 * if ours { *tiny } else { *lru }))
            .collect()
    };
    let minutes = thin(
        found.minutes.iter().enumerate().map(|(i, count)| (i as f64 / 60.0, *count as f64)).collect(),
        false,
    );
    let panels = [
        Panel {
            title: "how often, by rank",
            x: ("rank", true),
            y_log: true,
            lines: vec![("queries", "#1d4e89", ranks)],
        },
        Panel {
            title: "hit rate, %",
            x: ("entries", true),
            y_log: false,
            lines: vec![("LRU", "#7a7a7a", rate(false)), ("ours", "#0b6e4f", rate(true))],
        },
        Panel {
            title: "queries per minute",
            x: ("hours", false),
            y_log: false,
            lines: vec![("", "#c1121f", minutes)],
        },
    ];
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n",
        WIDTH * panels.len() as f64
    );
    for (number, panel) in panels.iter().enumerate() {
        // Writing into a string cannot fail.
        let _ = writeln!(svg, "<g transform=\"translate({} 0)\">", WIDTH * number as f64);
        panel.draw(&mut svg);
        svg.push_str("</g>\n");
    }
    svg.push_str("</svg>\n");
    svg
}

/// Fewer points: by equal steps, or by growing ones where the axis is by powers.
fn thin(points: Vec<(f64, f64)>, growing: bool) -> Vec<(f64, f64)> {
    if points.len() <= POINTS_MAX {
        return points;
    }
    let (mut kept, mut next) = (Vec::new(), 0.0);
    let step = points.len() as f64 / POINTS_MAX as f64;
    for (i, point) in points.iter().enumerate() {
        if i as f64 >= next {
            kept.push(*point);
            next = if growing { (i as f64 * 1.02).max(i as f64 + 1.0) } else { next + step };
        }
    }
    kept
}

impl Panel<'_> {
    fn draw(&self, svg: &mut String) {
        let points = || self.lines.iter().flat_map(|(_, _, points)| points.iter());
        let scale = |value: f64, log: bool| if log { value.max(1e-9).log10() } else { value };
        let most_x = points().map(|(x, _)| *x).fold(1.0, f64::max);
        let most_y = points().map(|(_, y)| *y).fold(1.0, f64::max);
        let least_x = points().map(|(x, _)| *x).fold(most_x, f64::min);
        let low = scale(if self.x.1 { least_x.max(1.0) } else { 0.0 }, self.x.1);
        let wide = (scale(most_x, self.x.1) - low).max(1e-9);
        let high = scale(most_y, self.y_log).max(1e-9);
        let x = |value: f64| MARGIN + (scale(value, self.x.1) - low) / wide * (WIDTH - 2.0 * MARGIN);
        let y =
            |value: f64| HEIGHT - MARGIN - scale(value, self.y_log).max(0.0) / high * (HEIGHT - 2.0 * MARGIN);
        let _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"18\" text-anchor=\"middle\">{}</text><text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\
             <path d=\"M{MARGIN} {MARGIN}V{}H{}\" fill=\"none\" stroke=\"#888\"/>",
            WIDTH / 2.0,
            self.title,
            WIDTH / 2.0,
            HEIGHT - 10.0,
            self.x.0,
            HEIGHT - MARGIN,
            WIDTH - MARGIN
        );
        for (value, at) in [(most_y, y(most_y)), (if self.y_log { 1.0 } else { 0.0 }, HEIGHT - MARGIN)] {
            let _ = writeln!(
                svg,
                "<text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{value:.0}</text>",
                MARGIN - 5.0,
                at + 4.0
            );
        }
        let first = if self.x.1 { least_x.max(1.0) } else { 0.0 };
        for value in [first, most_x] {
            let _ = writeln!(
                svg,
                "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{value:.0}</text>",
                x(value),
                HEIGHT - MARGIN + 15.0
            );
        }
        for (number, (name, colour, points)) in self.lines.iter().enumerate() {
            let line: Vec<String> =
                points.iter().map(|(px, py)| format!("{:.1},{:.1}", x(*px), y(*py))).collect();
            let _ = writeln!(
                svg,
                "<polyline fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.3\" points=\"{}\"/>\
                 <text x=\"{}\" y=\"{}\" fill=\"{colour}\">{name}</text>",
                line.join(" "),
                MARGIN + 8.0,
                MARGIN + 14.0 * (number as f64 + 1.0)
            );
        }
    }
}
