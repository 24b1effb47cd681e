//! Network coordinates: machines placed in a space in which distances are round-trip times.
//!
//! After Vivaldi \[Dabek04\], with a *height* for the way to the first router. Each sample pulls or pushes a
//! machine a little along the line to the other; both sides' confidence says how much. A few samples per machine then predict the times of all pairs. Our own addition to \[Exposto08\].

use farol_base::{Random, Seeded};

/// Dimensions besides the height. More bring little [Dabek04 §5].
const DIMENSIONS: usize = 4;
/// How fast coordinates and confidence move (c_c and c_e of Vivaldi).
const STEP: f64 = 0.25;

/// Where a machine is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Coordinate {
    place: [f64; DIMENSIONS],
    /// Milliseconds that every way to this machine has in common.
    height: f64,
    /// Relative error that is expected, 0 to 1.
    error: f64,
}

impl Default for Coordinate {
    fn default() -> Coordinate {
        Coordinate { place: [0.0; DIMENSIONS], height: 1.0, error: 1.0 }
    }
}

impl Coordinate {
    /// Predicted milliseconds between two machines.
    pub fn rtt(&self, other: &Coordinate) -> f64 {
        let flat = self.place.iter().zip(&other.place).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt();
        flat + self.height + other.height
    }

    pub fn error(&self) -> f64 {
        self.error
    }

    /// Learns from one measurement. What is no time is ignored; so is what is longer than a minute.
    pub fn learn(&mut self, other: &Coordinate, rtt_ms: f64, random: &mut impl Random) {
        if !(rtt_ms.is_finite() && rtt_ms > 0.0 && rtt_ms < 60_000.0) {
            return;
        }
        let predicted = self.rtt(other);
        let trust = self.error / (self.error + other.error).max(f64::MIN_POSITIVE);
        let off = (predicted - rtt_ms).abs() / rtt_ms;
        self.error = (off * STEP * trust + self.error * (1.0 - STEP * trust)).clamp(0.01, 1.0);
        let force = STEP * trust * (rtt_ms - predicted);
        let mut line = [0.0; DIMENSIONS];
        line.iter_mut().zip(self.place.iter().zip(&other.place)).for_each(|(to, (a, b))| *to = a - b);
        let mut length = line.iter().map(|x| x * x).sum::<f64>().sqrt();
        if length < 1e-6 {
            // At the same place any direction is as good.
            line.iter_mut().for_each(|x| *x = random.unit() - 0.5);
            length = line.iter().map(|x| x * x).sum::<f64>().sqrt().max(1e-6);
        }
        let whole = length + self.height + other.height;
        self.place.iter_mut().zip(line).for_each(|(place, x)| *place += force * x / length);
        self.height = (self.height + force * (self.height + other.height) / whole).max(0.1);
    }
}

/// Coordinates of many machines.
#[derive(Clone, Debug)]
pub struct Coordinates {
    pub machines: Vec<Coordinate>,
}

impl Coordinates {
    /// Places machines by samples (from, to, milliseconds), going through them several times in random order.
    /// Samples that name machines that there are not are left out.
    pub fn fit(machines: usize, samples: &[(u32, u32, f64)], rounds: usize, seed: u64) -> Coordinates {
        let mut random = Seeded::new(seed);
        let mut machines = vec![Coordinate::default(); machines];
        for _ in 0..rounds * samples.len() {
            let (a, b, rtt) = samples[random.below(samples.len() as u64) as usize];
            let (a, b) = (a as usize, b as usize);
            if a == b || a.max(b) >= machines.len() {
                continue;
            }
            let (here, there) = (machines[a], machines[b]);
            machines[a].learn(&there, rtt, &mut random);
            machines[b].learn(&here, rtt, &mut random);
        }
        Coordinates { machines }
    }

    /// Predicted milliseconds.
    pub fn rtt(&self, a: usize, b: usize) -> Option<f64> {
        Some(self.machines.get(a)?.rtt(self.machines.get(b)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_pairs_that_were_not_measured_come_out() {
        // 60 machines on a plane, each with a way of its own; a fifth of all pairs is measured.
        let mut random = Seeded::new(5);
        let at: Vec<(f64, f64, f64)> = (0..60)
            .map(|_| (random.unit() * 100.0, random.unit() * 100.0, 1.0 + random.unit() * 8.0))
            .collect();
        let truth = |a: usize, b: usize| {
            ((at[a].0 - at[b].0).powi(2) + (at[a].1 - at[b].1).powi(2)).sqrt() + at[a].2 + at[b].2
        };
        let mut samples = Vec::new();
        for a in 0..60usize {
            for b in (a + 1)..60 {
                if random.below(5) == 0 {
                    samples.push((a as u32, b as u32, truth(a, b)));
                }
            }
        }
        let fitted = Coordinates::fit(60, &samples, 200, 1);
        let mut errors: Vec<f64> = Vec::new();
        for a in 0..60 {
            errors.extend((a + 1..60).map(|b| (fitted.rtt(a, b).unwrap() - truth(a, b)).abs() / truth(a, b)));
        }
        errors.sort_by(f64::total_cmp);
        assert!(errors[errors.len() / 2] < 0.1, "median error {}", errors[errors.len() / 2]);
    }

    #[test]
    fn nonsense_moves_nobody() {
        let mut here = Coordinate::default();
        for rtt in [f64::NAN, -1.0, 0.0, f64::INFINITY, 1e9] {
            here.learn(&Coordinate::default(), rtt, &mut Seeded::new(1));
        }
        assert_eq!(here, Coordinate::default());
        let fitted = Coordinates::fit(2, &[(0, 7, 5.0), (1, 1, 5.0)], 3, 1);
        assert_eq!(fitted.machines[0], Coordinate::default());
        assert_eq!(fitted.rtt(0, 9), None);
        assert!(Coordinates::fit(0, &[], 3, 1).machines.is_empty());
    }
}
