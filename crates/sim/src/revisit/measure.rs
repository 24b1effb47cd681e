//! Measures how fresh a timetable keeps the pages of a server.
//!
//! Changes are not drawn: given the instants of the visits, the expected fresh time of a page between two visits is
//! `(1 − e^(−λT))/λ`, exactly. Only the visits themselves are simulated, so the noise of a run is that of the phases.
//!
//! All pages that change start stale. A run goes to the horizon, or until a number of visits is used up; then the
//! second half of what was seen stands for the rest, and its batches say how certain that is.

use farol_frontier::revisit::allocate::Page;
use farol_frontier::revisit::select::Timetable;

/// Fresh time of a server's pages, in bins from 0 to the horizon.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Weighted share of fresh pages among those that change, by bin, times their weight.
    pub bins: Vec<f64>,
    /// Weight of pages that change.
    pub weight: f64,
    /// Sum over pages in the steady state, and its variance.
    pub steady: f64,
    pub variance: f64,
    pub visits: u64,
    /// Least time between two visits.
    pub gap_least: f64,
    /// Whether the run ended before the horizon.
    pub cut: bool,
}

/// How long to look.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    pub horizon: f64,
    pub bins: usize,
    pub visits_max: u64,
}

/// Weighted fresh time in equal bins.
pub struct Bins {
    pub sums: Vec<f64>,
    pub width: f64,
}

impl Bins {
    pub fn new(count: usize, horizon: f64) -> Bins {
        Bins { sums: vec![0.0; count], width: horizon / count as f64 }
    }

    /// A copy taken at `last`, looked at until `until`.
    pub fn add(&mut self, page: &Page, last: f64, until: f64) {
        let (rate, weight) = (page.change.rate(), f64::from(page.weight));
        let end = until.min(self.width * self.sums.len() as f64);
        let mut from = last;
        let mut fresh = 1.0;
        while from < end {
            let bin = ((from / self.width) as usize).min(self.sums.len() - 1);
            let to = if bin + 1 == self.sums.len() { end } else { end.min(self.width * (bin + 1) as f64) };
            if to <= from {
                // A border that rounding put here already.
                from = self.width * (bin + 1) as f64 * (1.0 + 1e-15);
                continue;
            }
            let lost = -(-rate * (to - from)).exp_m1();
            self.sums[bin] += weight * fresh * lost / rate;
            fresh *= 1.0 - lost;
            // Nothing is left of it.
            if fresh < 1e-12 {
                return;
            }
            from = to;
        }
    }
}

impl Bins {
    /// A copy that was true from `from` until `until`.
    pub fn add_plain(&mut self, from: f64, until: f64) {
        let end = until.min(self.width * self.sums.len() as f64);
        let first = (from / self.width) as usize;
        let last = ((end / self.width) as usize).min(self.sums.len() - 1);
        for bin in first..=last {
            let (begins, ends) = (self.width * bin as f64, self.width * (bin + 1) as f64);
            self.sums[bin] += (end.min(ends) - from.max(begins)).max(0.0);
        }
    }
}

/// Bins of a run that is cut.
const BINS_CUT: usize = 32;

/// Runs a timetable that makes about `rate` visits a second over the pages of its server.
pub fn measure(pages: &[Page], table: &mut impl Timetable, rate: f64, window: &Window) -> Measured {
    let weight =
        pages.iter().filter(|page| page.change.rate() > 0.0).map(|page| f64::from(page.weight)).sum();
    let span = window.horizon.min(window.visits_max as f64 / rate);
    let cut = span < window.horizon;
    let mut bins = Bins::new(if cut { BINS_CUT } else { window.bins }, span);
    let mut last = vec![f64::NAN; pages.len()];
    let (mut visits, mut gap_least, mut before) = (0u64, f64::INFINITY, f64::NEG_INFINITY);
    while let Some(visit) = table.next()
        && visit.at < span
    {
        visits += 1;
        gap_least = gap_least.min(visit.at - before);
        before = visit.at;
        let page = visit.page as usize;
        if !last[page].is_nan() {
            bins.add(&pages[page], last[page], visit.at);
        }
        last[page] = visit.at;
    }
    for (page, last) in pages.iter().zip(&last) {
        if !last.is_nan() {
            bins.add(page, *last, span);
        }
    }
    let seen: Vec<f64> = bins.sums.iter().map(|sum| sum / bins.width).collect();
    let tail = &seen[seen.len() / 2..];
    let steady = tail.iter().sum::<f64>() / tail.len() as f64;
    let spread: f64 = tail.iter().map(|share| (share - steady) * (share - steady)).sum();
    let variance = spread / (tail.len() - 1).max(1) as f64 / tail.len() as f64;
    let bins = if cut { stretch(&seen, span, steady, window) } else { seen };
    Measured { bins, weight, steady, variance, visits, gap_least, cut }
}

/// Continues a curve that ends at `span` as it ended, in the bins of the window.
fn stretch(seen: &[f64], span: f64, steady: f64, window: &Window) -> Vec<f64> {
    let (wide, narrow) = (window.horizon / window.bins as f64, span / seen.len() as f64);
    let mut bins: Vec<f64> = Vec::with_capacity(window.bins);
    for bin in 0..window.bins {
        let (from, to) = (wide * bin as f64, wide * (bin + 1) as f64);
        let mut sum = steady * (to - from.max(span)).max(0.0);
        for (k, share) in seen.iter().enumerate().filter(|_| from < span) {
            let overlap = to.min(narrow * (k + 1) as f64) - from.max(narrow * k as f64);
            sum += share * overlap.max(0.0);
        }
        bins.push(sum / wide);
    }
    bins
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::revisit::{select::Drawn, theorems};
    use farol_base::Seeded;
    use farol_frontier::revisit::select::Merge;
    use farol_frontier::revisit::{Change, Spaced};

    fn page(rate: f64) -> Page {
        Page { change: Change::known(rate).unwrap(), weight: 1.0 }
    }

    fn window(horizon: f64) -> Window {
        Window { horizon, bins: 40, visits_max: u64::MAX }
    }

    #[test]
    fn equal_intervals_reach_the_bound() {
        for (rate, frequency) in [(1.0, 0.5), (0.1, 1.0), (3.0, 0.2)] {
            let pages = [page(rate)];
            let mut table = Spaced::new(Merge::with_phases(&[frequency], &[0.0]), frequency, 0.0);
            let measured = measure(&pages, &mut table, frequency, &window(10_000.0));
            let bound = pages[0].change.freshness(frequency);
            assert!((measured.steady - bound).abs() < 1e-3, "{} instead of {bound}", measured.steady);
        }
    }

    #[test]
    fn random_is_as_fresh_as_theorem_5_4_says() {
        let frequencies = [0.3, 0.05, 0.5, 0.15];
        for rates in [[0.2, 0.2, 0.2, 0.2], [1.0, 0.1, 0.5, 3.0]] {
            let pages = rates.map(page);
            let mut table = Spaced::new(Drawn::new(&frequencies, Seeded::new(9)), 1.0, 0.5);
            let measured = measure(&pages, &mut table, 1.0, &window(2_000_000.0));
            let want: f64 = (0..4).map(|i| theorems::random(rates[i], frequencies[i], 1.0)).sum();
            assert!((measured.steady / want - 1.0).abs() < 0.002, "{} instead of {want}", measured.steady);
        }
    }

    #[test]
    fn merge_is_not_less_fresh_than_theorem_5_7_says() {
        // A page class at a time: the others weigh nothing.
        let frequencies = [0.3, 0.05, 0.4, 0.15, 0.1];
        for class in 0..5 {
            for rate in [0.02, 0.1, 0.5, 2.0] {
                let mut pages = [page(rate); 5];
                (0..5).filter(|i| *i != class).for_each(|i| pages[i].weight = 0.0);
                let runs = 300;
                let mut sum = 0.0;
                for seed in 0..runs {
                    let merge = Merge::new(&frequencies, &mut Seeded::new(seed));
                    let mut table = Spaced::new(merge, 1.0, 0.0);
                    sum += measure(&pages, &mut table, 1.0, &window(3_000.0)).steady / runs as f64;
                }
                let least = theorems::merge(rate, frequencies[class], 1.0);
                assert!(sum >= least * 0.999, "{sum} below {least}: class {class}, rate {rate}");
                assert!(sum <= pages[class].change.freshness(frequencies[class]) * 1.003);
            }
        }
    }

    #[test]
    fn a_cut_run_goes_on_as_it_ended() {
        let pages = [page(0.5), page(0.1)];
        let run = |visits_max| {
            let table = Merge::with_phases(&[0.5, 0.5], &[0.9, 0.4]);
            measure(
                &pages,
                &mut Spaced::new(table, 1.0, 0.0),
                1.0,
                &Window { visits_max, ..window(50_000.0) },
            )
        };
        let (whole, cut) = (run(u64::MAX), run(2_000));
        assert!(cut.cut && !whole.cut && cut.visits == 2_000);
        let mean = |measured: &Measured| measured.bins.iter().sum::<f64>() / measured.bins.len() as f64;
        assert!((mean(&whole) - mean(&cut)).abs() < 1e-3, "{} and {}", mean(&whole), mean(&cut));
    }
}
