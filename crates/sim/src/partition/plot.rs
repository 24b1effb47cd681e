//! Curves over the number of agents as an SVG, one panel per quantity.

use std::fmt::Write;

/// A panel: a title, and lines of points.
pub struct TrendPanel {
    pub title: String,
    pub lines: Vec<(String, Vec<(f64, f64)>)>,
}

const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 220.0;
const MARGIN: f64 = 56.0;
const COLOURS: [&str; 7] = ["#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#ff7f0e", "#17becf"];

/// Draws the panels side by side, two in a row.
pub fn svg(panels: &[TrendPanel]) -> String {
    let rows = panels.len().div_ceil(2);
    let (width, height) = (2.0 * (WIDTH + MARGIN) + MARGIN, rows as f64 * (HEIGHT + 2.0 * MARGIN) + MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (n, panel) in panels.iter().enumerate() {
        let left = MARGIN + (n % 2) as f64 * (WIDTH + MARGIN);
        draw(&mut out, panel, left, MARGIN + (n / 2) as f64 * (HEIGHT + 2.0 * MARGIN));
    }
    out.push_str("</svg>\n");
    out
}

fn draw(out: &mut String, panel: &TrendPanel, left: f64, top: f64) {
    let points = || panel.lines.iter().flat_map(|(_, points)| points);
    let most = points().map(|point| point.1).fold(0.0, f64::max).max(1e-9);
    let right = points().map(|point| point.0).fold(1.0, f64::max);
    let x = |k: f64| left + WIDTH * k / right;
    let y = |value: f64| top + HEIGHT * (1.0 - value / most);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<text x=\"{left:.0}\" y=\"{:.0}\" font-weight=\"bold\">{}</text>",
        top - 8.0,
        panel.title
    );
    let _ = writeln!(
        out,
        "<rect x=\"{left:.0}\" y=\"{top:.0}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#999\"/>"
    );
    for n in 0..=4 {
        let value = most * f64::from(n) / 4.0;
        let said = if most < 10.0 { format!("{value:.2}") } else { format!("{value:.0}") };
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"end\">{said}</text>",
            left - 4.0,
            y(value) + 4.0
        );
        let at = right * f64::from(n) / 4.0;
        let _ = writeln!(
            out,
            "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{at:.0}</text>",
            x(at),
            top + HEIGHT + 14.0
        );
    }
    for (n, (name, points)) in panel.lines.iter().enumerate() {
        let colour = COLOURS[n % COLOURS.len()];
        let line: Vec<String> =
            points.iter().map(|(k, value)| format!("{:.1},{:.1}", x(*k), y(*value))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\" fill=\"{colour}\">{name}</text>",
            line.join(" "),
            left + 10.0 + 160.0 * (n % 2) as f64,
            top + HEIGHT + 30.0 + 13.0 * (n / 2) as f64
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_and_named() {
        let panel = |title: &str| TrendPanel {
            title: title.to_string(),
            lines: vec![
                ("hash".to_string(), vec![(2.0, 1.0), (30.0, 0.5)]),
                ("ours".to_string(), vec![(2.0, 0.1)]),
            ],
        };
        let drawing = svg(&[panel("a"), panel("b"), panel("c")]);
        assert_eq!((drawing.matches("<polyline").count(), drawing.matches(">hash<").count()), (6, 3));
        assert!(drawing.starts_with("<svg") && drawing.ends_with("</svg>\n") && !drawing.contains("NaN"));
    }
}
