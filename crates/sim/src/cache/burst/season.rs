//! Takes the daily or weekly course out of a series [Gomez14 §6.4.1]: an analysis tool, no part of the running system.

/// The mean course of a period, as differences from the mean of all: one value per slot. Empty without a whole period.
pub fn coefficients(series: &[f64], period: usize) -> Vec<f64> {
    if period == 0 || series.len() < period {
        return Vec::new();
    }
    let whole = &series[..series.len() / period * period];
    let all = whole.iter().sum::<f64>() / whole.len() as f64;
    let rounds = (whole.len() / period) as f64;
    (0..period).map(|slot| whole.iter().skip(slot).step_by(period).sum::<f64>() / rounds - all).collect()
}

/// The series without its course; unchanged where it is shorter than a period.
pub fn without_season(series: &[f64], period: usize) -> Vec<f64> {
    let course = coefficients(series, period);
    if course.is_empty() {
        return series.to_vec();
    }
    series.iter().enumerate().map(|(i, value)| value - course[i % period]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purely_daily_course_leaves_nothing_but_its_mean() {
        let series: Vec<f64> = (0..24 * 7).map(|hour| 100.0 + f64::from(hour % 24)).collect();
        assert!(without_season(&series, 24).iter().all(|value| (value - 111.5).abs() < 1e-9));
        assert!(coefficients(&series, 24).iter().sum::<f64>().abs() < 1e-9);
    }

    #[test]
    fn what_is_not_seasonal_stays() {
        let mut series: Vec<f64> = (0..240).map(|hour| f64::from(hour % 24)).collect();
        series[100] += 500.0;
        let left = without_season(&series, 24);
        let most = left.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map(|(i, _)| i);
        assert_eq!(most, Some(100));
        assert_eq!(without_season(&[1.0, 2.0], 24), [1.0, 2.0]);
        assert_eq!(without_season(&[1.0, 2.0], 0), [1.0, 2.0]);
    }
}
