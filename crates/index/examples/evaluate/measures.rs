//! Measures of a ranked list, and whether two lists of them differ.

use farol_base::Random;
use farol_base::random::Seeded;
use std::collections::BTreeMap;

/// Hits that nDCG and precision look at.
const JUDGED: usize = 10;

/// Assignments of signs that the randomisation test draws.
const DRAWN: usize = 10_000;

/// What one query was worth, or the mean of several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measures {
    /// nDCG@10, the grades as gains.
    pub ndcg: f64,
    /// Average precision.
    pub precision_mean: f64,
    /// Precision among the first ten.
    pub precision: f64,
    /// Share of the relevant documents in the list.
    pub recall: f64,
}

/// Measures one list against the grades of a query, of which at least one is above 0.
pub fn measure(hits: &[(String, f32)], grades: &BTreeMap<String, u32>) -> Measures {
    let discount = |rank: usize| 1.0 / ((rank + 2) as f64).log2();
    let mut best: Vec<u32> = grades.values().copied().filter(|grade| *grade > 0).collect();
    best.sort_unstable_by(|a, b| b.cmp(a));
    let ideal: f64 =
        best.iter().take(JUDGED).enumerate().map(|(rank, grade)| f64::from(*grade) * discount(rank)).sum();
    let mut measures = Measures::default();
    let mut found = 0.0;
    for (rank, (document, _)) in hits.iter().enumerate() {
        let grade = grades.get(document).copied().unwrap_or(0);
        if grade == 0 {
            continue;
        }
        found += 1.0;
        measures.precision_mean += found / (rank + 1) as f64;
        if rank < JUDGED {
            measures.ndcg += f64::from(grade) * discount(rank);
            measures.precision += 1.0 / JUDGED as f64;
        }
    }
    measures.ndcg /= ideal;
    measures.precision_mean /= best.len() as f64;
    measures.recall = found / best.len() as f64;
    measures
}

/// The mean of each measure.
pub fn mean(list: &[Measures]) -> Measures {
    let count = list.len().max(1) as f64;
    let of = |value: fn(&Measures) -> f64| list.iter().map(value).sum::<f64>() / count;
    Measures {
        ndcg: of(|one| one.ndcg),
        precision_mean: of(|one| one.precision_mean),
        precision: of(|one| one.precision),
        recall: of(|one| one.recall),
    }
}

/// Fisher's randomisation test: how often random signs of the differences give a sum as far from 0 as theirs.
pub fn randomisation_test(differences: &[f64]) -> f64 {
    let observed = differences.iter().sum::<f64>().abs();
    let mut random = Seeded::new(1);
    let mut as_far = 0;
    for _ in 0..DRAWN {
        let mut sum = 0.0;
        for block in differences.chunks(64) {
            let mut signs = random.next_u64();
            for difference in block {
                sum += if signs & 1 == 0 { *difference } else { -difference };
                signs >>= 1;
            }
        }
        as_far += usize::from(sum.abs() >= observed - 1e-12);
    }
    (as_far + 1) as f64 / (DRAWN + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(documents: &[&str]) -> Vec<(String, f32)> {
        documents.iter().map(|document| (document.to_string(), 0.0)).collect()
    }

    #[test]
    fn measures_are_those_of_the_textbook() {
        let grades = BTreeMap::from([("a".to_string(), 3), ("b".to_string(), 1), ("x".to_string(), 0)]);
        let whole = measure(&list(&["a", "b"]), &grades);
        assert_eq!(whole, Measures { ndcg: 1.0, precision_mean: 1.0, precision: 0.2, recall: 1.0 });
        let half = measure(&list(&["x", "b"]), &grades);
        let ndcg = (1.0 / 3f64.log2()) / (3.0 + 1.0 / 3f64.log2());
        assert!((half.ndcg - ndcg).abs() < 1e-9, "{half:?}");
        assert_eq!((half.precision_mean, half.precision, half.recall), (0.25, 0.1, 0.5));
    }

    #[test]
    fn only_a_steady_difference_is_no_chance() {
        assert!(randomisation_test(&[0.1; 40]) < 0.001);
        let noise: Vec<f64> = (0..40).map(|at| if at % 2 == 0 { 0.3 } else { -0.29 }).collect();
        assert!(randomisation_test(&noise) > 0.5);
        assert!(randomisation_test(&[0.0; 5]) > 0.99);
    }
}
