//! A plan as an SVG drawing: a map of the world where places are known, parts and what they exchange otherwise.

use crate::Space;
use std::fmt::Write;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 540.0;
/// Servers drawn at most; the largest ones.
const DRAWN_MAX: usize = 4000;

/// Draws who owns what.
pub fn draw(space: &Space, part: &[u32]) -> String {
    let placed = space.servers.iter().filter(|server| server.position.is_some()).count();
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {:.0}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        HEIGHT + 60.0
    );
    if 2 * placed >= space.servers.len() && placed > 0 {
        map(&mut out, space, part)
    } else {
        parts(&mut out, space, part)
    }
    legend(&mut out, space, part);
    out.push_str("</svg>\n");
    out
}

/// Colours that neighbours on the wheel can be told apart by.
fn colour(part: usize) -> String {
    // The golden angle never comes near where it was before.
    format!("hsl({:.0} 65% {}%)", (part as f64 * 137.508) % 360.0, 40 + 8 * (part % 3))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn radius(pages: u64) -> f64 {
    1.2 + (pages.max(1) as f64).ln() * 0.55
}

/// The largest servers first, so that small ones stay visible on top of them.
fn largest(space: &Space) -> Vec<usize> {
    let mut order: Vec<usize> = (0..space.servers.len()).collect();
    order.sort_by_key(|s| (std::cmp::Reverse(space.servers[*s].pages), *s));
    order.truncate(DRAWN_MAX);
    order
}

fn dot(out: &mut String, x: f64, y: f64, pages: u64, part: u32, name: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"{:.1}\" fill=\"{}\" fill-opacity=\"0.6\"><title>{} · {pages} pages</title></circle>",
        radius(pages),
        colour(part as usize),
        escaped(name)
    );
}

fn map(out: &mut String, space: &Space, part: &[u32]) {
    let x = |east: f64| (east + 180.0) / 360.0 * WIDTH;
    let y = |north: f64| (90.0 - north) / 180.0 * HEIGHT;
    for n in -5..=6 {
        let at = x(f64::from(n) * 30.0);
        let _ =
            writeln!(out, "<line x1=\"{at:.0}\" y1=\"0\" x2=\"{at:.0}\" y2=\"{HEIGHT}\" stroke=\"#eee\"/>");
    }
    for n in -2..=2 {
        let at = y(f64::from(n) * 30.0);
        let _ =
            writeln!(out, "<line x1=\"0\" y1=\"{at:.0}\" x2=\"{WIDTH}\" y2=\"{at:.0}\" stroke=\"#eee\"/>");
    }
    for s in largest(space) {
        let server = &space.servers[s];
        if let Some(place) = server.position {
            // Servers of one city would hide each other: they stand in a small spiral around it.
            let turn = (s % 97) as f64;
            let (dx, dy) = ((turn * 2.4).cos() * turn.sqrt() * 0.8, (turn * 2.4).sin() * turn.sqrt() * 0.8);
            dot(
                out,
                x(place.longitude()) + dx,
                y(place.latitude()) + dy,
                server.pages,
                part[s],
                &server.name,
            );
        }
    }
    for (j, agent) in space.agents.iter().enumerate() {
        if let Some(place) = agent.position {
            let (x, y) = (x(place.longitude()), y(place.latitude()));
            let _ = writeln!(
                out,
                "<rect x=\"{:.1}\" y=\"{:.1}\" width=\"9\" height=\"9\" fill=\"{}\" stroke=\"black\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                x - 4.5,
                y - 4.5,
                colour(j),
                x + 7.0,
                y + 4.0,
                escaped(&agent.name)
            );
        }
    }
}

/// Parts on a circle, their servers inside, and lines as wide as what they exchange.
fn parts(out: &mut String, space: &Space, part: &[u32]) {
    let k = space.agents.len();
    let centre = |j: usize| {
        let angle = std::f64::consts::TAU * j as f64 / k as f64 - std::f64::consts::FRAC_PI_2;
        let far = if k == 1 { 0.0 } else { 1.0 };
        (WIDTH / 2.0 + far * 330.0 * angle.cos(), HEIGHT / 2.0 + far * 195.0 * angle.sin())
    };
    let mut between = vec![0u64; k * k];
    for (a, b, links) in &space.links {
        let (a, b) = (part[*a as usize] as usize, part[*b as usize] as usize);
        between[a.min(b) * k + a.max(b)] += u64::from(*links);
    }
    let pairs = (0..k).flat_map(|a| (a + 1..k).map(move |b| (a, b)));
    let most = pairs.clone().map(|(a, b)| between[a * k + b]).max().unwrap_or(0).max(1);
    for (a, b) in pairs.filter(|(a, b)| between[a * k + b] > 0) {
        let ((ax, ay), (bx, by)) = (centre(a), centre(b));
        let links = between[a * k + b];
        let _ = writeln!(
            out,
            "<line x1=\"{ax:.0}\" y1=\"{ay:.0}\" x2=\"{bx:.0}\" y2=\"{by:.0}\" stroke=\"#999\" stroke-opacity=\"0.6\" \
             stroke-width=\"{:.1}\"><title>{links} links</title></line>",
            0.5 + 11.0 * links as f64 / most as f64
        );
    }
    let mut placed = vec![0u32; k];
    for s in largest(space) {
        let j = part[s] as usize;
        let turn = f64::from(placed[j]);
        placed[j] += 1;
        let (x, y) = centre(j);
        // A sunflower: equal room for each.
        let far = 2.2 * turn.sqrt();
        let server = &space.servers[s];
        dot(
            out,
            x + far * (turn * 2.399_963).cos(),
            y + far * (turn * 2.399_963).sin(),
            server.pages,
            part[s],
            &server.name,
        );
    }
}

fn legend(out: &mut String, space: &Space, part: &[u32]) {
    let measure = space.measure(part);
    for (j, agent) in space.agents.iter().enumerate().take(24) {
        let (x, y) = (10.0 + 160.0 * (j % 6) as f64, HEIGHT + 12.0 + 14.0 * (j / 6) as f64);
        let _ = writeln!(
            out,
            "<rect x=\"{x:.0}\" y=\"{:.0}\" width=\"9\" height=\"9\" fill=\"{}\"/><text x=\"{:.0}\" y=\"{y:.0}\">{} · {} pages</text>",
            y - 9.0,
            colour(j),
            x + 13.0,
            escaped(&agent.name),
            measure.pages[j]
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Agent, Position, Server};

    #[test]
    fn both_drawings_show_everybody() {
        let server = |n: usize, position| Server {
            name: format!("<h{n}>"),
            pages: n as u64,
            position,
            ..Server::default()
        };
        let mut space = Space {
            servers: (0..5).map(|n| server(n, Position::new(40.0, n as f64))).collect(),
            links: vec![(0, 1, 3), (1, 4, 2)],
            agents: vec![
                Agent { position: Position::new(1.0, 2.0), ..Agent::named("a & b") },
                Agent::named("c"),
            ],
            rtt: vec![],
        };
        for is_map in [true, false] {
            let drawing = draw(&space, &[0, 0, 1, 1, 1]);
            assert_eq!(drawing.matches("<circle").count(), 5);
            assert_eq!(drawing.contains(">a &amp; b</text>"), is_map);
            assert_eq!(drawing.contains("2 links"), !is_map);
            assert!(
                drawing.starts_with("<svg")
                    && drawing.ends_with("</svg>\n")
                    && !drawing.contains("NaN")
                    && !drawing.contains("<h")
            );
            space.servers.iter_mut().for_each(|server| server.position = None);
        }
    }
}
