//! How many probes of a destination are enough [Exposto08 §4.4].

use farol_partition::rtt::median;

/// Mean error of the median of the first `t` samples against that of all, over destinations with at least 30 (the
/// small-sample rule of §2.7); `None` where no destination has so many.
pub fn median_error(destinations: &[Vec<f64>], t: usize) -> Option<f64> {
    let errors: Vec<f64> = destinations
        .iter()
        .filter(|samples| samples.len() >= 30 && t >= 1)
        .filter_map(|samples| {
            let (all, some) = (median(samples)?, median(&samples[..t.min(samples.len())])?);
            (all > 0.0).then(|| (all - some).abs() / all)
        })
        .collect();
    (!errors.is_empty()).then(|| errors.iter().sum::<f64>() / errors.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steady_times_have_no_error_and_few_have_none_to_tell() {
        let steady = vec![vec![5.0; 40], vec![7.0; 30], vec![1.0; 3]];
        assert_eq!(median_error(&steady, 7), Some(0.0));
        assert_eq!(median_error(&steady[2..], 7), None);
    }
}
