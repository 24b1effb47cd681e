//! Days of `before:` and `after:`.
//!
//! A year, month or day stands for its first instant in UTC. A full instant (`2024-05-06T07:08:09Z`) is read too,
//! because that is how a query with one is written. Dates of which nobody can tell day from month are refused.

use farol_base::Timestamp;

/// Reads `2024`, `2024-05`, `2024-05-06` (slashes do too) or an instant.
pub(crate) fn read_date(value: &str) -> Option<Timestamp> {
    let dashed = value.replace('/', "-");
    let bytes = dashed.as_bytes();
    let has_shape = bytes.len() >= 4
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && (matches!(bytes.len(), 4 | 7 | 10) || bytes.get(10) == Some(&b'T'));
    let at = has_shape.then(|| Timestamp::parse(&dashed))??;
    // A zone can push an instant past the last year that can be written.
    (at.date().0 <= 9999).then_some(at)
}

/// Writes what [`read_date`] reads: a day where it is midnight, else an instant, whole seconds.
pub(crate) fn write_date(at: Timestamp) -> String {
    let text = at.to_string();
    match text.strip_suffix("T00:00:00Z") {
        Some(day) => day.to_string(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, want: Option<&str>) {
        assert_eq!(read_date(value).map(write_date).as_deref(), want, "{value}");
    }

    #[test]
    fn years_months_days_and_instants() {
        check("2024", Some("2024-01-01"));
        check("2024-05", Some("2024-05-01"));
        check("2024-05-06", Some("2024-05-06"));
        check("2024/05/06", Some("2024-05-06"));
        check("2024-05-06T07:08:09Z", Some("2024-05-06T07:08:09Z"));
        check("2024-05-06T02:00:00+02:00", Some("2024-05-06"));
    }

    #[test]
    fn what_is_no_date() {
        for value in ["", "24", "2024-13", "2023-02-29", "06/05/2024", "2024-5-6", "yesterday", "20240506"] {
            check(value, None);
        }
        check("9999-12-31T23:00:00-12:00", None); // Would be written with five digits.
        check("1969", None); // Before the first instant that base can hold.
    }
}
