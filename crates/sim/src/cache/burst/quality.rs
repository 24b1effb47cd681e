//! How good a detector is: precision, recall, recall by frequency, and how early [Gomez14 §6.5].

use std::collections::{HashMap, HashSet};

/// One detector's verdicts beside a reference's.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Quality {
    /// Found by both.
    pub both: usize,
    /// Found by the reference alone.
    pub missed: usize,
    /// Found by the detector alone.
    pub extra: usize,
    pub precision: f64,
    pub recall: f64,
    /// Recall where each query counts as often as it is asked.
    pub weighted_recall: f64,
}

/// Compares found queries with a reference's; weights are the queries' frequencies.
pub fn compare(found: &HashSet<u64>, reference: &HashSet<u64>, weights: &HashMap<u64, f64>) -> Quality {
    let both = found.intersection(reference).count();
    let weight =
        |of: &mut dyn Iterator<Item = &u64>| -> f64 { of.filter_map(|query| weights.get(query)).sum() };
    let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 1.0 };
    Quality {
        both,
        missed: reference.len() - both,
        extra: found.len() - both,
        precision: share(both as f64, found.len() as f64),
        recall: share(both as f64, reference.len() as f64),
        weighted_recall: share(weight(&mut found.intersection(reference)), weight(&mut reference.iter())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_counted() {
        let set = |numbers: &[u64]| numbers.iter().copied().collect::<HashSet<u64>>();
        let weights = HashMap::from([(1, 10.0), (2, 30.0), (3, 60.0), (4, 5.0)]);
        let quality = compare(&set(&[1, 3, 4]), &set(&[1, 2, 3]), &weights);
        assert_eq!((quality.both, quality.missed, quality.extra), (2, 1, 1));
        assert!((quality.precision - 2.0 / 3.0).abs() < 1e-9 && (quality.recall - 2.0 / 3.0).abs() < 1e-9);
        assert!((quality.weighted_recall - 0.7).abs() < 1e-9);
        let nothing = compare(&set(&[]), &set(&[]), &weights);
        assert_eq!((nothing.precision, nothing.recall, nothing.weighted_recall), (1.0, 1.0, 1.0));
    }
}
