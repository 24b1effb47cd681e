//! The reference detector of \[Vlachos04\] as in [Gomez14 §6.4]: needs the whole history.
//!
//! A minute is a burst point when the moving average up to it exceeds the mean of all moving averages by two of their
//! deviations.

/// Deviations above the mean.
const DEVIATIONS: f64 = 2.0;

/// The minutes at which a series bursts; those below `floor` do not count. Windows shorter than the series only.
pub fn burst_points(series: &[f64], window: usize, floor: f64) -> Vec<usize> {
    let averages = moving_average(series, window);
    if averages.is_empty() {
        return Vec::new();
    }
    let mean = averages.iter().sum::<f64>() / averages.len() as f64;
    let variance = averages.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / averages.len() as f64;
    let threshold = mean + DEVIATIONS * variance.sqrt();
    let first = series.len() - averages.len();
    averages
        .iter()
        .enumerate()
        .filter(|(i, value)| **value > threshold && series[first + i] > floor)
        .map(|(i, _)| first + i)
        .collect()
}

/// Means of `window` values in a row; the first one ends at value `window - 1`.
pub fn moving_average(series: &[f64], window: usize) -> Vec<f64> {
    if window == 0 || series.len() < window {
        return Vec::new();
    }
    let mut sum: f64 = series[..window].iter().sum();
    let mut averages = vec![sum / window as f64];
    for i in window..series.len() {
        sum += series[i] - series[i - window];
        averages.push(sum / window as f64);
    }
    averages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn averages_move() {
        assert_eq!(moving_average(&[1.0, 2.0, 3.0, 6.0], 2), [1.5, 2.5, 4.5]);
        assert!(moving_average(&[1.0], 2).is_empty() && moving_average(&[1.0], 0).is_empty());
    }

    #[test]
    fn a_bump_is_found_and_an_even_series_is_not() {
        let mut series = vec![20.0; 1000];
        assert!(burst_points(&series, 5, 0.0).is_empty());
        for (i, value) in series.iter_mut().enumerate().skip(500).take(30) {
            *value = 20.0 + 400.0 * (1.0 - (i as f64 - 515.0).abs() / 15.0);
        }
        let points = burst_points(&series, 5, 100.0);
        assert!(!points.is_empty() && points.iter().all(|at| (500..535).contains(at)), "{points:?}");
        // Below the floor nothing counts.
        assert!(burst_points(&series, 5, 1000.0).is_empty());
    }
}
