//! Freshness over time as an SVG, after [Souza10 Fig. 5.8]: one panel per channel, one line per rule.

use std::fmt::Write;

/// A line of a panel.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    /// How many years its values cover.
    pub years: f64,
    /// By bin, from 0 to the end.
    pub values: Vec<f64>,
}

/// A panel.
#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    pub bound: f64,
    pub lines: Vec<Line>,
}

const WIDTH: f64 = 360.0;
const HEIGHT: f64 = 260.0;
const MARGIN: f64 = 44.0;
const COLOURS: [&str; 8] =
    ["#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#8c564b", "#ff7f0e", "#17becf", "#7f7f7f"];

/// How the k-th line is drawn: once the colours are used up, they come again, dashed.
fn stroke(k: usize) -> String {
    let dashes = if k < COLOURS.len() { "" } else { " stroke-dasharray=\"5 2\"" };
    format!("stroke=\"{}\"{dashes}", COLOURS[k % COLOURS.len()])
}

/// Draws the panels side by side. Years go from 0 to `years`.
pub fn svg(panels: &[Panel], years: f64) -> String {
    let width = panels.len() as f64 * (WIDTH + MARGIN) + MARGIN;
    let names: Vec<&str> =
        panels.first().map_or(vec![], |panel| panel.lines.iter().map(|line| &*line.name).collect());
    let height = HEIGHT + 2.0 * MARGIN + 18.0 * (names.len().div_ceil(3)) as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (k, panel) in panels.iter().enumerate() {
        let left = MARGIN + k as f64 * (WIDTH + MARGIN);
        draw(&mut out, panel, left, years);
    }
    for (k, name) in names.iter().enumerate() {
        let (x, y) = (MARGIN + (k % 3) as f64 * 260.0, HEIGHT + 2.0 * MARGIN + 18.0 * (k / 3) as f64);
        let stroke = stroke(k);
        let _ = writeln!(
            out,
            "<line x1=\"{x:.0}\" y1=\"{y:.0}\" x2=\"{:.0}\" y2=\"{y:.0}\" {stroke} stroke-width=\"2\"/>\
             <text x=\"{:.0}\" y=\"{:.0}\">{name}</text>",
            x + 24.0,
            x + 30.0,
            y + 4.0
        );
    }
    out + "</svg>\n"
}

fn draw(out: &mut String, panel: &Panel, left: f64, years: f64) {
    let top = MARGIN / 2.0 + 8.0;
    let most = panel.lines.iter().flat_map(|line| &line.values).fold(panel.bound, |a, b| a.max(*b)) * 1.05;
    let y = |value: f64| top + HEIGHT * (1.0 - value / most);
    let _ =
        writeln!(out, "<text x=\"{left:.0}\" y=\"{:.0}\" font-size=\"13\">{}</text>", top - 8.0, panel.title);
    let _ = writeln!(
        out,
        "<rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"none\" stroke=\"#999\"/>"
    );
    for k in 0..=4 {
        let value = most * f64::from(k) / 4.0;
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value:.2}</text>",
            left - 4.0,
            y(value) + 4.0
        );
    }
    for year in 0..=years as u32 {
        let x = left + WIDTH * f64::from(year) / years;
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{year}</text>",
            top + HEIGHT + 14.0
        );
    }
    let (bound, right) = (y(panel.bound), left + WIDTH);
    let _ = writeln!(
        out,
        "<line x1=\"{left:.1}\" y1=\"{bound:.1}\" x2=\"{right:.1}\" y2=\"{bound:.1}\" stroke=\"black\" stroke-dasharray=\"4 3\"/>"
    );
    for (k, line) in panel.lines.iter().enumerate() {
        let stroke = stroke(k);
        let step = WIDTH * line.years / years / line.values.len() as f64;
        let points = line.values.iter().enumerate();
        let points: Vec<String> = points
            .map(|(k, value)| format!("{:.1},{:.1}", left + step * (k as f64 + 0.5), y(*value)))
            .collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" {stroke} stroke-width=\"1.5\"/>",
            points.join(" ")
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_drawn_and_named() {
        let line = |name: &str| Line { name: name.to_string(), years: 6.0, values: vec![0.1, 0.3, 0.4] };
        let panel =
            Panel { title: "1 %".to_string(), bound: 0.45, lines: vec![line("MERGE"), line("RANDOM")] };
        let drawing = svg(&[panel.clone(), panel], 6.0);
        assert_eq!(drawing.matches("<polyline").count(), 4);
        assert_eq!(drawing.matches(">MERGE<").count(), 1);
        assert!(drawing.starts_with("<svg") && drawing.ends_with("</svg>\n") && !drawing.contains("NaN"));
    }
}
