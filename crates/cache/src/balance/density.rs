//! Where on the circle load lies: requests counted by cells, old ones fading.
//!
//! Fronts route every question, so they can count where the points are at the price of one addition
//! ([`DensityDelta`]); the leader adds up what they counted. Borders are set between cells, so that a node's load is a sum
//! of cells, and no assumption about evenness is made.

use crate::error::Error;

/// Cells: with 80 nodes a node has 400, so a border can be set to a quarter per cent of a node's load.
const BITS: u32 = 15;
const CELLS: usize = 1 << BITS;

/// Requests by cell of the circle.
#[derive(Clone)]
pub struct Density {
    cells: Vec<f32>,
}

impl Default for Density {
    fn default() -> Density {
        Density { cells: vec![0.0; CELLS] }
    }
}

/// What one front counted since its last report. 64 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DensityDelta {
    cells: Vec<u16>,
}

impl Default for DensityDelta {
    fn default() -> DensityDelta {
        DensityDelta { cells: vec![0; CELLS] }
    }
}

impl DensityDelta {
    /// Counts one request.
    pub fn count(&mut self, point: u64) {
        let cell = &mut self.cells[(point >> (64 - BITS)) as usize];
        *cell = cell.saturating_add(1);
    }

    /// Cells that have something, with what they have.
    pub fn counts(&self) -> impl Iterator<Item = (u32, u16)> + '_ {
        self.cells
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(cell, count)| (cell as u32, *count))
    }

    /// From cells and counts as they were sent.
    pub fn from_counts(counts: impl IntoIterator<Item = (u32, u16)>) -> Result<DensityDelta, Error> {
        let mut delta = DensityDelta::default();
        for (cell, count) in counts {
            *delta.cells.get_mut(cell as usize).ok_or(Error::NoCell(cell))? = count;
        }
        Ok(delta)
    }
}

impl Density {
    /// Adds what a front counted.
    pub fn add(&mut self, delta: &DensityDelta) {
        for (cell, count) in self.cells.iter_mut().zip(&delta.cells) {
            *cell += f32::from(*count);
        }
    }

    /// Lets what was counted so far count less.
    pub fn fade(&mut self, keep: f32) {
        self.cells.iter_mut().for_each(|cell| *cell *= keep);
    }

    pub fn total(&self) -> f64 {
        self.cells.iter().map(|cell| f64::from(*cell)).sum()
    }

    /// The load of the range after one point up to and with another; all of it where they are the same.
    pub fn load(&self, after: u64, upto: u64) -> f64 {
        let (first, last) = (cell_after(after), cell_after(upto));
        match first < last {
            true => self.sum(first..last),
            false => self.sum(first..CELLS) + self.sum(0..last),
        }
    }

    fn sum(&self, cells: std::ops::Range<usize>) -> f64 {
        self.cells[cells].iter().map(|cell| f64::from(*cell)).sum()
    }

    /// How far, as a share of the circle, an end point must go so that this much load passes from its one side to the
    /// other: clockwise where positive. The nearest end of a cell.
    pub fn shift(&self, end: u64, amount: f64) -> f64 {
        if amount == 0.0 || !amount.is_finite() {
            return 0.0;
        }
        let start = cell_after(end);
        let (mut at, mut passed, mut steps) = (start, 0.0, 0usize);
        while steps < CELLS {
            let cell = if amount > 0.0 { at % CELLS } else { (at + CELLS - 1) % CELLS };
            let load = f64::from(self.cells[cell]);
            // Stop where the nearer side of the cell is this one.
            if passed + load / 2.0 > amount.abs() {
                break;
            }
            passed += load;
            at = if amount > 0.0 { at + 1 } else { at + CELLS - 1 };
            steps += 1;
        }
        if steps == 0 {
            return 0.0;
        }
        let target = ((at % CELLS) as u64) << (64 - BITS);
        let circle = 18_446_744_073_709_551_616.0;
        match amount > 0.0 {
            true => target.wrapping_sub(1).wrapping_sub(end) as f64 / circle,
            false => -(end.wrapping_sub(target.wrapping_sub(1)) as f64 / circle),
        }
    }
}

/// The first cell that begins after a point, give or take the point's own cell: the one whose border is nearest.
fn cell_after(point: u64) -> usize {
    let half = 1u64 << (63 - BITS);
    (point.checked_add(half).map_or(CELLS as u64, |point| point >> (64 - BITS)) as usize) % CELLS
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::random::mix;

    fn density(points: impl Iterator<Item = u64>) -> Density {
        let (mut density, mut delta) = (Density::default(), DensityDelta::default());
        points.for_each(|point| delta.count(point));
        density.add(&delta);
        density
    }

    #[test]
    fn what_fronts_count_travels_as_cells_and_adds_up() {
        let mut parts = [DensityDelta::default(), DensityDelta::default()];
        (0..100_000u64).for_each(|i| parts[i as usize % 2].count(mix(i)));
        let mut sum = Density::default();
        for part in &parts {
            let sent: Vec<(u32, u16)> = part.counts().collect();
            let read = DensityDelta::from_counts(sent).unwrap();
            assert_eq!(&read, part);
            sum.add(&read);
        }
        let whole = density((0..100_000).map(mix));
        assert_eq!((sum.total(), sum.load(5, u64::MAX / 3)), (whole.total(), whole.load(5, u64::MAX / 3)));
        assert_eq!(DensityDelta::from_counts([(CELLS as u32, 1)]), Err(Error::NoCell(CELLS as u32)));
        let mut full = DensityDelta::default();
        (0..100_000).for_each(|_| full.count(7));
        assert_eq!(full.counts().collect::<Vec<_>>(), [(0, u16::MAX)]);
    }

    #[test]
    fn loads_of_ranges_add_up() {
        let density = density((0..100_000).map(mix));
        let (a, b) = (u64::MAX / 3, u64::MAX / 3 * 2);
        let parts = [density.load(0, a), density.load(a, b), density.load(b, 0)];
        assert!((parts.iter().sum::<f64>() - 100_000.0).abs() < 1.0);
        assert!(parts.iter().all(|part| (part - 33_333.0).abs() < 600.0), "{parts:?}");
        assert!((density.total() - 100_000.0).abs() < 1.0);
    }

    #[test]
    fn an_end_point_goes_as_far_as_load_asks() {
        // All load lies in the second quarter.
        let mut density = density((0..10_000u64).map(|i| (mix(i) >> 2) | (1 << 62)));
        let quarter = 1u64 << 62;
        let shift = density.shift(2 * quarter, -5_000.0);
        assert!((shift + 0.125).abs() < 0.005, "{shift}");
        let shift = density.shift(quarter, 2_500.0);
        assert!((shift - 0.0625).abs() < 0.005, "{shift}");
        assert_eq!(density.shift(quarter, 0.0), 0.0);
        assert_eq!(density.shift(quarter, f64::NAN), 0.0);
        density.fade(0.5);
        assert!((density.total() - 5_000.0).abs() < 1e-3);
    }
}
