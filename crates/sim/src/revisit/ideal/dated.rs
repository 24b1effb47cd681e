//! Looks that tell when a page last changed.
//!
//! What is believed then hangs on two numbers: so many changes were dated, and so much time was seen without any. The
//! likelihood is λ^changes · e^(−λ·calm). A look after T either finds T more of calm, or one more change with any calm
//! from 0 to T; so what a look is worth is an integral over calm, on a grid of it.
//!
//! The first visit tells the time since the last change. A page without a date never changes, and is not visited again.

use super::{Pages, Population, SearchEffort, Worth};

/// Least and greatest days of calm on the grid, and the factor between two.
const CALM: (f64, f64) = (1e-2, 3e4);
const APART: f64 = 1.04;

/// Time is counted in so many parts; what is shorter costs none, which favours the learner.
const PARTS: usize = 16;

/// What a page is worth by its calm, for one number of changes and one time left.
#[derive(Clone, Debug)]
struct WorthCurve {
    values: Vec<f64>,
    /// Integral from the least calm on.
    sums: Vec<f64>,
}

struct Grid {
    calm: Vec<f64>,
}

impl Grid {
    fn new() -> Grid {
        let steps = ((CALM.1 / CALM.0).ln() / APART.ln()).ceil() as i32;
        Grid { calm: (0..=steps).map(|step| CALM.0 * APART.powi(step)).collect() }
    }

    fn curve(&self, values: Vec<f64>) -> WorthCurve {
        let mut sums = vec![0.0];
        for k in 1..values.len() {
            let width = self.calm[k] - self.calm[k - 1];
            sums.push(sums[k - 1] + width * (values[k] + values[k - 1]) / 2.0);
        }
        WorthCurve { values, sums }
    }

    /// The integral up to a place.
    fn sum(&self, curve: &WorthCurve, (k, share): (usize, f64)) -> f64 {
        let width = share * (self.calm[k + 1] - self.calm[k]);
        curve.sums[k] + width * (curve.values[k] + curve.at((k, share))) / 2.0
    }

    /// Where on the grid a calm is: the place before, and how far to the next.
    fn place(&self, calm: f64) -> (usize, f64) {
        let k = self.calm.partition_point(|have| *have <= calm).clamp(1, self.calm.len() - 1) - 1;
        (k, ((calm - self.calm[k]) / (self.calm[k + 1] - self.calm[k])).clamp(0.0, 1.0))
    }
}

impl WorthCurve {
    fn at(&self, (k, share): (usize, f64)) -> f64 {
        self.values[k] + share * (self.values[k + 1] - self.values[k])
    }
}

/// What all kinds of pages yield in the end, net of the price of visits then and of looks, by the price of a look.
/// `knowing` is told the rate after the last look.
pub fn learner(
    pages: &Pages,
    worth: Worth,
    days: f64,
    effort: SearchEffort,
    knowing: bool,
) -> impl Fn(f64) -> f64 + use<> {
    let grid = Grid::new();
    let stops: Vec<Stops> =
        pages.kinds.iter().map(|kind| Stops::new(&pages.rates, kind, &worth, &grid, effort)).collect();
    move |look| {
        let one = |stops: &Stops| stops.first(&grid, look, days, effort, knowing);
        stops.iter().map(one).sum()
    }
}

/// What it is worth to stop, to be told, and how many pages there are; by changes, then by calm.
struct Stops {
    stop: Vec<Vec<f64>>,
    told: Vec<Vec<f64>>,
    pages: Vec<Vec<f64>>,
    unvisited: f64,
    all: f64,
}

impl Stops {
    fn new(rates: &[f64], kind: &Population, worth: &Worth, grid: &Grid, effort: SearchEffort) -> Stops {
        let (unvisited, all) = (worth.of(kind), kind.iter().sum());
        let mut stops = Stops { stop: Vec::new(), told: Vec::new(), pages: Vec::new(), unvisited, all };
        for changes in 0..=effort.looks as i32 + 1 {
            let believed = |calm: &f64| -> Vec<f64> {
                let one = |(pages, rate): (&f64, &f64)| match *rate {
                    0.0 => 0.0,
                    rate => pages * rate.powi(changes) * (-rate * calm).exp(),
                };
                kind.iter().zip(rates).map(one).collect()
            };
            let rows: Vec<Vec<f64>> = grid.calm.iter().map(believed).collect();
            stops.stop.push(rows.iter().map(|pages| worth.of(pages)).collect());
            stops.told.push(rows.iter().map(|pages| worth.told(pages)).collect());
            stops.pages.push(rows.iter().map(|pages| pages.iter().sum()).collect());
        }
        stops
    }

    fn first(&self, grid: &Grid, look: f64, days: f64, effort: SearchEffort, knowing: bool) -> f64 {
        let lengths: Vec<f64> = (0..effort.intervals).map(|k| days * 0.5f64.powi(k as i32)).collect();
        let places: Vec<Vec<(usize, f64)>> = lengths
            .iter()
            .map(|length| grid.calm.iter().map(|calm| grid.place(calm + length)).collect())
            .collect();
        let last = if knowing { &self.told } else { &self.stop };
        let last: Vec<WorthCurve> = last.iter().map(|row| grid.curve(row.clone())).collect();
        // By time left, then by changes.
        let mut curves: Vec<Vec<WorthCurve>> = vec![last; PARTS + 1];
        for done in (0..effort.looks).rev() {
            // So many changes can have been dated, and one more.
            let curve = |left: usize, changes: usize| {
                let mut values = self.stop[changes].clone();
                for (k, places) in places.iter().enumerate() {
                    let costs = PARTS >> k;
                    if costs > left {
                        continue;
                    }
                    let (calm, changed) =
                        (&curves[left - costs][changes], &curves[left - costs][changes + 1]);
                    for (at, value) in values.iter_mut().enumerate() {
                        let found = grid.sum(changed, places[at]) - changed.sums[at];
                        let same = calm.at(places[at]);
                        *value = value.max(same + found - look * self.pages[changes][at]);
                    }
                }
                grid.curve(values)
            };
            let by_changes = |left: usize| (0..=done + 1).map(|changes| curve(left, changes)).collect();
            curves = (0..=PARTS).map(by_changes).collect();
        }
        let dated = &curves[PARTS][1];
        let sum = dated.sums.last().copied().unwrap_or(0.0) + CALM.0 * dated.values[0];
        (sum - look * self.all).max(self.unvisited)
    }
}
