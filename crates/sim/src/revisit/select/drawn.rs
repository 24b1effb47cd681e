//! RANDOM: each page is drawn with probability f_i / f_s [Souza10 §5.2].
//!
//! Walker's alias table \[Walker77\], built in O(n) as Vose does \[Vose91\]; a draw costs O(1). Theorem 5.4
//! says exactly how fresh it keeps a page, and Corollary 5.5 that it can lose 23 % against equal intervals.

use farol_base::Random;
use farol_frontier::revisit::select::Select;

/// Pages of one server, drawn at random.
#[derive(Clone, Debug)]
pub struct Drawn<R> {
    random: R,
    /// Of each page that is visited: how much of its cell is its own, and whose the rest is.
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug)]
struct Cell {
    own: f32,
    page: u32,
    alias: u32,
}

impl<R: Random> Drawn<R> {
    pub fn new(frequencies: &[f64], random: R) -> Drawn<R> {
        let visited: Vec<u32> =
            (0..frequencies.len() as u32).filter(|i| frequencies[*i as usize] > 0.0).collect();
        let sum: f64 = visited.iter().map(|page| frequencies[*page as usize]).sum();
        let scale = visited.len() as f64 / sum;
        let mut heights: Vec<f64> = visited.iter().map(|page| frequencies[*page as usize] * scale).collect();
        let mut cells: Vec<Cell> =
            visited.iter().map(|page| Cell { own: 1.0, page: *page, alias: *page }).collect();
        let (mut small, mut large): (Vec<usize>, Vec<usize>) =
            (0..cells.len()).partition(|i| heights[*i] < 1.0);
        while let (Some(low), Some(high)) = (small.pop(), large.last().copied()) {
            cells[low].own = heights[low] as f32;
            cells[low].alias = visited[high];
            heights[high] -= 1.0 - heights[low];
            if heights[high] < 1.0 {
                large.pop();
                small.push(high);
            }
        }
        // Whoever is left is a full cell but for rounding.
        Drawn { random, cells }
    }
}

impl<R: Random> Select for Drawn<R> {
    fn pick(&mut self) -> Option<u32> {
        if self.cells.is_empty() {
            return None;
        }
        let cell = self.cells[self.random.below(self.cells.len() as u64) as usize];
        Some(if (self.random.unit() as f32) < cell.own { cell.page } else { cell.alias })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::Seeded;

    #[test]
    fn pages_are_drawn_as_often_as_they_should() {
        let frequencies = [0.5, 0.0, 3.0, 1.5, 0.01, 5.0];
        let sum: f64 = frequencies.iter().sum();
        let mut drawn = Drawn::new(&frequencies, Seeded::new(5));
        let mut counts = [0u32; 6];
        let draws = 400_000;
        (0..draws).for_each(|_| counts[drawn.pick().unwrap() as usize] += 1);
        for (count, frequency) in counts.iter().zip(frequencies) {
            let p = frequency / sum;
            let deviation = (f64::from(draws) * p * (1.0 - p)).sqrt();
            assert!((f64::from(*count) - f64::from(draws) * p).abs() <= 4.0 * deviation, "{counts:?}");
        }
        assert_eq!(Drawn::new(&[], Seeded::new(1)).pick(), None);
    }
}
