//! The median, and how many probes of a destination make it reliable [Exposto08 §4.4].

/// Probes per destination from which on the median hardly moves [Exposto08 §4.4] (mean error 0.08).
pub const PROBES: usize = 7;

/// The middle value; of an even number of them the mean of the two in the middle. What is not a number is left out.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut values: Vec<f64> = values.iter().copied().filter(|value| !value.is_nan()).collect();
    values.sort_by(f64::total_cmp);
    let n = values.len();
    let at = n.checked_sub(1)? / 2;
    Some(if n % 2 == 1 { values[at] } else { (values[at] + values[at + 1]) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0, 1.0, f64::NAN, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0]), Some(2.5));
        assert_eq!(median(&[f64::NAN]), None);
    }
}
