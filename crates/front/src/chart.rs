//! Charts as SVG, drawn on the server: lines over time, stacked areas, bars.
//!
//! Shapes carry a class each and no style, because our own Content-Security-Policy forbids inline styles; colours
//! are in `style.css` and follow the light or dark scheme.
//! Limit: at most [`POINTS_MAX`] points per series are drawn, whatever the history's length.

use crate::text::{Locale, format};
use farol_base::Timestamp;
use maud::{Markup, html};
use std::fmt::Write;

/// Newest samples that are looked at.
pub(crate) const SAMPLES_MAX: usize = 1024;
/// Points of a drawn line: more than one per two units of width show nothing new.
const POINTS_MAX: usize = 240;

/// Largest value drawn: a thousand terabytes. Sums and powers of ten stay finite.
const VALUE_MAX: f64 = 1e15;

const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 150.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 8.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 20.0;

/// Values over time.
pub(crate) struct Chart<'a> {
    pub title: &'a str,
    pub series: Vec<Series<'a>>,
    /// The series are parts of a whole, drawn on top of each other.
    pub stacked: bool,
    /// How a value is written.
    pub write: fn(f64, Locale) -> String,
    pub locale: Locale,
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    /// What is said where there is nothing to draw.
    pub empty: &'a str,
}

pub(crate) struct Series<'a> {
    pub name: &'a str,
    /// The colour, `a` to `e`.
    pub class: &'static str,
    /// One value per sample, oldest first.
    pub values: Vec<f64>,
}

impl Chart<'_> {
    pub fn draw(&self) -> Markup {
        let lines: Vec<Vec<f64>> = self.series.iter().map(|series| thin(&series.values)).collect();
        let points = lines.iter().map(Vec::len).min().unwrap_or(0);
        let write = |value: &f64| (self.write)(*value, self.locale);
        let latest = |series: &Series<'_>| series.values.last().map_or("–".to_string(), write);
        html! {
            figure.chart {
                figcaption {
                    span.title { (self.title) }
                    @for series in &self.series {
                        span class={ "key " (series.class) } {
                            i aria-hidden="true" {}
                            @if self.series.len() > 1 { (series.name) " " }
                            b { (latest(series)) }
                        }
                    }
                }
                @if points < 2 { p.quiet { (self.empty) } } @else { (self.plot(&lines, points)) }
            }
        }
    }

    fn plot(&self, lines: &[Vec<f64>], points: usize) -> Markup {
        let layers = if self.stacked { stack(lines, points) } else { lines.to_vec() };
        let top = nice_ceiling(layers.iter().flatten().copied().fold(0.0, f64::max));
        let x = |i: usize| LEFT + (WIDTH - LEFT - RIGHT) * i as f64 / (points - 1) as f64;
        let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (1.0 - (value / top).clamp(0.0, 1.0));
        let path = |values: &[f64]| {
            let mut path = String::with_capacity(values.len() * 12);
            for (i, value) in values.iter().take(points).enumerate() {
                // Writing into a string cannot fail.
                let _ = write!(path, "{}{:.1} {:.1}", if i == 0 { 'M' } else { 'L' }, x(i), y(*value));
            }
            path
        };
        let area = |values: &[f64]| {
            format!("{}L{:.1} {:.1}L{:.1} {:.1}Z", path(values), x(points - 1), y(0.0), x(0), y(0.0))
        };
        let clock = |at: Option<Timestamp>| at.map(format::time_of_day).unwrap_or_default();
        let label = |value: f64| (self.write)(value, self.locale);
        html! {
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label=(self.title) {
                @for step in 0..=2 {
                    @let value = top * f64::from(step) / 2.0;
                    @let at = format!("{:.1}", y(value));
                    line.grid x1=(LEFT) x2=(WIDTH - RIGHT) y1=(at) y2=(at) {}
                    text.label x=(LEFT - 6.0) y=(at) dy="3.5" text-anchor="end" { (label(value)) }
                }
                // Of a stack the highest layer first: each lower one covers its part.
                @for (series, layer) in self.series.iter().zip(&layers).rev() {
                    @if self.stacked || self.series.len() == 1 {
                        path class={ "area " (series.class) @if self.stacked { " band" } } d=(area(layer)) {}
                    }
                    @if !self.stacked { path class={ "line " (series.class) } d=(path(layer)) {} }
                }
                text.label x=(LEFT) y=(HEIGHT - 5.0) { (clock(self.from)) }
                text.label x=(WIDTH - RIGHT) y=(HEIGHT - 5.0) text-anchor="end" { (clock(self.to)) }
            }
        }
    }
}

/// The newest samples, neighbours averaged where there are more than fit; what is no number counts as zero.
fn thin(values: &[f64]) -> Vec<f64> {
    let newest = &values[values.len().saturating_sub(SAMPLES_MAX)..];
    let group = newest.len().div_ceil(POINTS_MAX).max(1);
    let clean = |value: &f64| if value.is_finite() { value.clamp(0.0, VALUE_MAX) } else { 0.0 };
    newest.chunks(group).map(|chunk| chunk.iter().map(clean).sum::<f64>() / chunk.len() as f64).collect()
}

/// Each line on top of the ones before it.
fn stack(lines: &[Vec<f64>], points: usize) -> Vec<Vec<f64>> {
    let mut below = vec![0.0; points];
    let on_top = |line: &Vec<f64>| {
        below.iter_mut().zip(line).for_each(|(sum, value)| *sum += value);
        below.clone()
    };
    lines.iter().map(on_top).collect()
}

/// The least of 1, 2, 4, 5, 8 times a power of ten that is not below the value: half of it is a round number too.
fn nice_ceiling(value: f64) -> f64 {
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 4.0, 5.0, 8.0, 10.0];
    steps.into_iter().map(|step| step * power).find(|end| *end >= value * 0.999_999).unwrap_or(10.0 * power)
}

/// Counts by name, as a table with bars.
pub(crate) fn bars(
    title: &str,
    rows: impl IntoIterator<Item = (Markup, u64, &'static str)>,
    write: fn(u64, Locale) -> String,
    locale: Locale,
    empty: &str,
) -> Markup {
    let rows: Vec<_> = rows.into_iter().collect();
    let most = rows.iter().map(|(_, count, _)| *count).max().unwrap_or(0).max(1);
    html! {
        section.card.bars {
            h2 { (title) }
            @if rows.is_empty() { p.quiet { (empty) } } @else {
                table {
                    tbody {
                        @for (name, count, class) in &rows {
                            @let width = format!("{:.2}", *count as f64 / most as f64 * 100.0);
                            tr {
                                th scope="row" { (name) }
                                td.bar {
                                    svg viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true" {
                                        rect.track width="100" height="8" rx="1" {}
                                        rect class=(class) width=(width) height="8" rx="1" {}
                                    }
                                }
                                td.number { (write(*count, locale)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ceilings_are_round() {
        let check =
            |value: f64, want: f64| assert!((nice_ceiling(value) - want).abs() < want * 1e-9, "{value}");
        check(0.0, 1.0);
        check(7.3, 8.0);
        check(10.0, 10.0);
        check(41.0, 50.0);
        check(0.003, 0.004);
        check(f64::INFINITY, 1.0);
        check(123_456.0, 200_000.0);
    }

    #[test]
    fn a_stack_sums_up() {
        assert_eq!(stack(&[vec![1.0, 2.0], vec![3.0, 4.0]], 2), [vec![1.0, 2.0], vec![4.0, 6.0]]);
    }

    proptest! {
        #[test]
        fn no_values_break_a_chart(values in prop::collection::vec(any::<f64>(), 0..1500), stacked: bool) {
            let series = |class| Series { name: "<n>", class, values: values.clone() };
            let chart = Chart {
                title: "<t>",
                series: vec![series("a"), series("b")],
                stacked,
                write: format::decimal,
                locale: Locale::English,
                from: None,
                to: Some(Timestamp::NEVER),
                empty: "nothing",
            };
            let svg = chart.draw().into_string();
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<t>"));
            prop_assert!(svg.len() < 40_000);
        }
    }
}
