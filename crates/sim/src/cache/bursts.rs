//! Tables 6.2 to 6.12 of \[Gomez14\]: how well bursts are found, against the off-line reference, on made
//! series or real ones.
//!
//! A month of minutes: permanent queries with a daily course, and bursts that rise from little, about doubling each
//! minute at first, stop, often rise again, and fade; counts are drawn by Poisson's law around that.

use super::CacheArgs;
use super::burst::{offline, quality};
use super::report::{head, row};
use crate::input::read_text;
use farol_base::{Random, Seeded};
use farol_cache::burst::online::{Rules, Series};
use farol_cache::log::first_maximum;
use farol_cache::trace::read_time;
use std::collections::{HashMap, HashSet};

const MINUTES: usize = 31 * 1440;
const PERMANENT: usize = 300;
const BURSTS: usize = 925;
const FLOOR: f64 = 100.0;

/// A query's counts by minute.
pub struct Counts {
    pub minutes: Vec<f64>,
}

/// A month of queries; the first are permanent.
pub fn month(seed: u64, permanent: usize, bursts: usize, minutes: usize) -> Vec<Counts> {
    let mut random = Seeded::new(seed ^ 0xB0057);
    (0..permanent + bursts)
        .map(|number| {
            let is_burst = number >= permanent;
            // Permanent queries: from 50 to some 1,500 a minute, as Tables 4.1 and 6.3 have them.
            let base = if is_burst {
                20.0 * random.unit().powi(2)
            } else {
                50.0 * 30f64.powf(random.unit().powi(2))
            };
            let daily = 0.2 + 0.3 * random.unit();
            let mut rate: Vec<f64> = (0..minutes)
                .map(|minute| base * (1.0 - daily * (std::f64::consts::TAU * minute as f64 / 1440.0).cos()))
                .collect();
            if is_burst {
                add_burst(&mut rate, &mut random);
            }
            Counts { minutes: rate.into_iter().map(|mean| poisson(mean, &mut random)).collect() }
        })
        .collect()
}

/// Rises to a first maximum, rests, rises again to its peak, fades.
fn add_burst(rate: &mut [f64], random: &mut Seeded) {
    let begins = (random.unit() * rate.len() as f64 * 0.9) as usize;
    let first_rise = 4.0 + 14.0 * random.unit();
    let second_rise = 5.0 + 60.0 * random.unit();
    let peak = 130.0 * 15f64.powf(random.unit());
    let first = peak * (0.4 + 0.4 * random.unit());
    let fades = 30.0 + 200.0 * random.unit();
    for (since, mean) in rate.iter_mut().skip(begins).enumerate().map(|(since, mean)| (since as f64, mean)) {
        *mean += if since < first_rise {
            first * (since / first_rise).powi(2)
        } else if since < first_rise + 5.0 {
            // The first interest is over; the news goes on.
            first * (1.0 - 0.3 * (since - first_rise) / 5.0)
        } else if since < first_rise + 5.0 + second_rise {
            first * 0.7 + (peak - first * 0.7) * (since - first_rise - 5.0) / second_rise
        } else {
            peak * (-(since - first_rise - 5.0 - second_rise) / fades).exp()
        };
    }
}

/// A draw by Poisson's law: by products for small means, by the normal law for large ones.
fn poisson(mean: f64, random: &mut Seeded) -> f64 {
    if mean <= 0.0 {
        return 0.0;
    }
    if mean < 30.0 {
        let (limit, mut product, mut count) = ((-mean).exp(), 1.0, -1.0);
        while product > limit {
            product *= random.unit();
            count += 1.0;
        }
        return count;
    }
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    let normal = radius * (std::f64::consts::TAU * random.unit()).cos();
    (mean + mean.sqrt() * normal).round().max(0.0)
}

/// The first minute at which a series is declared a burst on-line.
pub fn declared(counts: &[f64], rules: &Rules) -> Option<usize> {
    let mut series = Series::default();
    for (minute, count) in counts.iter().enumerate() {
        let count = *count as u32;
        if count >= rules.floor && series.fires(count, rules) {
            return Some(minute);
        }
        series.push(count, rules.window);
    }
    None
}

/// What is compared for one setting.
struct Judged {
    quality: quality::Quality,
    found: usize,
    /// Mean minutes from declaration to first maximum: on-line, off-line.
    leads: (f64, f64),
}

fn judge(
    all: &[Counts],
    reference: &HashMap<u64, usize>,
    weights: &HashMap<u64, f64>,
    rules: &Rules,
) -> Judged {
    let online: HashMap<u64, usize> = all
        .iter()
        .enumerate()
        .filter_map(|(number, counts)| declared(&counts.minutes, rules).map(|minute| (number as u64, minute)))
        .collect();
    let found: HashSet<u64> = online.keys().copied().collect();
    let truth: HashSet<u64> = reference.keys().copied().collect();
    let (mut sums, mut count) = ((0.0, 0.0), 0.0);
    for (number, minute) in &online {
        let Some(late) = reference.get(number) else { continue };
        // Of the same episode: the first maximum after whoever was first.
        let Some(first) = first_maximum(&all[*number as usize].minutes, (*minute).min(*late)) else {
            continue;
        };
        if late.abs_diff(*minute) > 120 {
            continue;
        }
        sums.0 += first as f64 - *minute as f64;
        sums.1 += first as f64 - *late as f64;
        count += 1.0;
    }
    let leads = if count > 0.0 { (sums.0 / count, sums.1 / count) } else { (0.0, 0.0) };
    Judged { quality: quality::compare(&found, &truth, weights), found: found.len(), leads }
}

/// Prints tables 6.2 and 6.5 to 6.12, and the detector's verdict on real series.
pub fn tables(args: &CacheArgs) -> Result<(), crate::Error> {
    if !args.series.is_empty() {
        return real(args);
    }
    let all = month(args.seed, PERMANENT, BURSTS, MINUTES);
    let weights: HashMap<u64, f64> =
        all.iter().enumerate().map(|(number, counts)| (number as u64, counts.minutes.iter().sum())).collect();
    head(
        "Table 6.2: queries that the off-line method flags (thesis: 925, 921, 919 in January 2012)",
        &["window", "flagged", "of these permanent queries"],
    );
    let mut reference = HashMap::new();
    for window in [5usize, 10, 15] {
        let flagged: HashMap<u64, usize> = all
            .iter()
            .enumerate()
            .filter_map(|(number, counts)| {
                offline::burst_points(&counts.minutes, window, FLOOR)
                    .first()
                    .map(|minute| (number as u64, *minute))
            })
            .collect();
        let permanent = flagged.keys().filter(|number| **number < PERMANENT as u64).count();
        row(&[window.to_string(), flagged.len().to_string(), permanent.to_string()]);
        if window == 5 {
            reference = flagged;
        }
    }
    println!();
    const RS: [f64; 7] = [0.10, 0.15, 0.20, 0.25, 0.30, 0.35, 0.40];
    const THESIS: [(f64, &str); 7] = [
        (0.5, "909 .98/.99 … 776 .84/.52"),
        (1.0, "909 .98/.99 … 774 .84/.51"),
        (1.5, "903 .97/.99 … 758 .82/.47"),
        (2.0, "877 .95/.98 … 723 .78/.45"),
        (2.5, "823 .89/.97 … 674 .73/.42"),
        (3.0, "739 .80/.95 … 606 .65/.41"),
        (3.5, "668 .72/.94 … 536 .58/.38"),
    ];
    let mut columns: Vec<String> = vec!["x \\ r".to_string()];
    columns.extend(RS.iter().map(|r| format!("{r:.2}")));
    columns.push("thesis: r 0.10 … 0.40".to_string());
    head(
        "Tables 6.5, 6.9 to 6.11: declared on-line; precision / recall / recall by frequency",
        &columns.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    let mut leads = Vec::new();
    for (x, thesis) in THESIS {
        let mut line = vec![format!("{x:.1}")];
        for r in RS {
            let rules = Rules { deviations: x, variation_min: r, ..Rules::default() };
            let judged = judge(&all, &reference, &weights, &rules);
            let quality = judged.quality;
            line.push(format!(
                "{}; {:.2} / {:.2} / {:.2}",
                judged.found, quality.precision, quality.recall, quality.weighted_recall
            ));
            if (r == 0.10 || r == 0.20) && x <= 2.0 {
                leads.push((x, r, judged.leads));
            }
        }
        line.push(thesis.to_string());
        row(&line);
    }
    println!();
    head(
        "Lead before the first maximum, minutes (thesis §6.7: 3.7 on-line, 3.2 off-line)",
        &["x", "r", "on-line", "off-line"],
    );
    for (x, r, (online, offline)) in leads {
        row(&[format!("{x:.1}"), format!("{r:.2}"), format!("{online:.1}"), format!("{offline:.1}")]);
    }
    println!();
    Ok(())
}

/// Runs the detectors on real series of counts.
fn real(args: &CacheArgs) -> Result<(), crate::Error> {
    head(
        "Bursts in real series",
        &["series", "points", "on-line: bursts (first at)", "off-line: burst points (first at)"],
    );
    for path in &args.series {
        let text = read_text(path)?;
        let counts = series_of(&text);
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if counts.is_empty() {
            return Err(crate::Error::Input(format!("{} holds no lines `timestamp,value`", path.display())));
        }
        let mean = counts.iter().map(|(_, count)| count).sum::<f64>() / counts.len() as f64;
        // What counts as much depends on the series here: three times its mean.
        let rules =
            Rules { floor: (3.0 * mean).max(5.0) as u32, release: mean.max(1.0) as u32, ..Rules::default() };
        let (mut series, mut bursts, mut until) = (Series::default(), Vec::new(), false);
        for (at, count) in &counts {
            let count = *count as u32;
            if until {
                until = count >= rules.release;
            } else if series.fires(count, &rules) {
                until = true;
                bursts.push(at.clone());
            }
            series.push(count, rules.window);
        }
        let values: Vec<f64> = counts.iter().map(|(_, count)| *count).collect();
        let points = offline::burst_points(&values, 5, f64::from(rules.floor));
        let first = |at: Option<&String>| at.cloned().unwrap_or_else(|| "–".to_string());
        row(&[
            name,
            counts.len().to_string(),
            format!("{} ({})", bursts.len(), first(bursts.first())),
            format!("{} ({})", points.len(), first(points.first().map(|at| &counts[*at].0))),
        ]);
    }
    println!();
    Ok(())
}

/// Times and counts of a series; a header and lines that are none are passed over.
pub fn series_of(text: &str) -> Vec<(String, f64)> {
    text.lines()
        .filter_map(|line| {
            let (at, value) = line.split_once(',')?;
            read_time(at)?;
            let value: f64 = value.trim().parse().ok()?;
            (value.is_finite() && value >= 0.0).then(|| (at.to_string(), value))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_are_found_early_and_permanent_queries_are_not_taken_for_bursts() {
        let all = month(1, 20, 40, 4 * 1440);
        let rules = Rules { deviations: 1.0, variation_min: 0.2, ..Rules::default() };
        let found: Vec<bool> = all.iter().map(|counts| declared(&counts.minutes, &rules).is_some()).collect();
        assert!(found[..20].iter().filter(|found| **found).count() <= 1, "{found:?}");
        assert!(found[20..].iter().filter(|found| **found).count() >= 34, "{found:?}");
    }

    #[test]
    fn draws_have_their_mean() {
        let mut random = Seeded::new(4);
        for mean in [0.0, 0.5, 12.0, 400.0] {
            let sum: f64 = (0..4000).map(|_| poisson(mean, &mut random)).sum();
            assert!((sum / 4000.0 - mean).abs() <= 0.06 * mean + 0.02, "{mean}: {}", sum / 4000.0);
        }
    }

    #[test]
    fn series_are_read() {
        let text =
            "timestamp,value\n2015-02-26 21:42:53,104\nx,5\n2015-02-26 21:47:53,NaN\n2015-02-26 21:52:53,9\n";
        assert_eq!(series_of(text).iter().map(|(_, value)| *value).collect::<Vec<_>>(), [104.0, 9.0]);
    }
}
