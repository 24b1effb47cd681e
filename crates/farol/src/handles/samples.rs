//! Samples of the recent past, for the dashboard.

use farol_base::sync::Mutex;
use farol_front::{History, Sample};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// Time between two samples.
pub const STEP: Duration = Duration::from_secs(2);
/// Samples kept: 1,024 × 2 s = 34 minutes, 152 KiB.
const SAMPLES_MAX: usize = 1024;

/// The samples taken so far.
#[derive(Clone, Default)]
pub struct Samples(Arc<Mutex<VecDeque<Sample>>>);

impl Samples {
    /// Adds one; the oldest leaves where there are enough.
    pub fn push(&self, sample: Sample) {
        let mut samples = self.0.lock();
        if samples.len() == SAMPLES_MAX {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    pub fn history(&self) -> History {
        let samples = self.0.lock();
        History { step: STEP, samples: samples.iter().copied().collect() }
    }

    pub fn newest(&self) -> Sample {
        let samples = self.0.lock();
        samples.back().copied().unwrap_or_default()
    }
}
