//! How often pages of the Web change, as \[Cho00\] saw it on 720,000 pages in 1999.
//!
//! Mean time between changes: 23 % of the pages a day or less, 15 % a week, 16 % a month, 16 % four months, 30 % more. Within
//! a class every magnitude is equally likely. Half of the last class never changes, and nobody is faster than an hour; these
//! two are ours.
//!
//! Pages of a host are alike. Each host has a class of its own, to which half of its pages belong; the others follow the whole.

const DAY: f64 = 86_400.0;

/// Share of pages, and least and greatest mean time between changes; infinite is never.
const CLASSES: [(f64, f64, f64); 6] = [
    (0.23, DAY / 24.0, DAY),
    (0.15, DAY, 7.0 * DAY),
    (0.16, 7.0 * DAY, 30.0 * DAY),
    (0.16, 30.0 * DAY, 120.0 * DAY),
    (0.15, 120.0 * DAY, 1_460.0 * DAY),
    (0.15, f64::INFINITY, f64::INFINITY),
];

/// The class at this place, from 0 to 1, of all pages.
pub fn class(place: f64) -> usize {
    let mut left = place;
    let found = CLASSES.iter().position(|(share, _, _)| {
        left -= share;
        left < 0.0
    });
    found.unwrap_or(CLASSES.len() - 1)
}

/// Mean seconds between two changes at this place, from 0 to 1, of a class; infinite is never.
pub fn between(class: usize, place: f64) -> f64 {
    let (_, least, greatest) = CLASSES[class.min(CLASSES.len() - 1)];
    if least.is_finite() { least * (greatest / least).powf(place) } else { f64::INFINITY }
}

/// Changes per second of all pages in the mean.
pub fn rate_mean() -> f64 {
    let one = |(share, least, greatest): &(f64, f64, f64)| match least.is_finite() {
        true => share * (1.0 / least - 1.0 / greatest) / (greatest / least).ln(),
        false => 0.0,
    };
    CLASSES.iter().map(one).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_have_their_shares_and_rates_their_mean() {
        let steps = 200;
        let places = || (0..steps).map(|k| (k as f64 + 0.5) / steps as f64);
        let daily = places().filter(|place| class(*place) == 0).count();
        assert_eq!((daily, class(0.0), class(1.0)), (46, 0, 5));
        let sum: f64 = places().flat_map(|own| places().map(move |at| 1.0 / between(class(own), at))).sum();
        let mean = sum / f64::from(steps * steps);
        assert!((mean / rate_mean() - 1.0).abs() < 0.01, "{mean} instead of {}", rate_mean());
        assert!((rate_mean() * DAY - 1.74).abs() < 0.01, "{} a day", rate_mean() * DAY);
        assert_eq!(between(5, 0.3), f64::INFINITY);
    }
}
