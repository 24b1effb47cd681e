//! What servers say about changes: Last-Modified and ETag.
//!
//! Signals are believed where they agree with what was seen. Many servers date every answer with the time of the
//! answer, and some never change a date: both are found out by the visit itself.
//!
//! An ETag, like any validator, only says something when the server answers 304: then the page is
//! [`Observed::Unchanged`]. A new ETag on the same text says nothing.

use super::Observed;

/// Dates nearer to the visit than this are the clock of the server, not a change.
const NOW_SECS: f64 = 30.0;

/// What a visit tells, given the Last-Modified of the answer. Instants are seconds of one clock; `before` is the visit
/// before, `None` at the first.
///
/// - The text changed and the date lies between the visits: the last change was then.
/// - The text changed and the date is older than the visit before: the date is not kept up, and is ignored.
/// - The text did not change: that is all that counts, whatever the date.
/// - First visit with a date that is not now: the last change was then.
pub fn last_modified(
    now: f64,
    before: Option<f64>,
    modified: Option<f64>,
    changed: bool,
) -> Option<Observed> {
    let ago = modified.map(|modified| now - modified).filter(|ago| *ago > NOW_SECS && ago.is_finite());
    match (before, ago) {
        (None, ago) => ago.map(Observed::ChangedAgo),
        (Some(_), _) if !changed => Some(Observed::Unchanged),
        (Some(before), Some(ago)) if now - ago > before => Some(Observed::ChangedAgo(ago)),
        (Some(_), _) => Some(Observed::Changed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(before: Option<f64>, modified: Option<f64>, changed: bool, want: Option<Observed>) {
        assert_eq!(last_modified(10_000.0, before, modified, changed), want);
    }

    #[test]
    fn dates_are_believed_where_they_agree_with_the_text() {
        check(None, None, true, None);
        check(None, Some(4_000.0), true, Some(Observed::ChangedAgo(6_000.0)));
        check(None, Some(9_990.0), true, None); // The server's clock.
        check(None, Some(20_000.0), true, None); // The future.
        check(None, Some(f64::NAN), true, None);
        check(Some(2_000.0), Some(4_000.0), true, Some(Observed::ChangedAgo(6_000.0)));
        check(Some(5_000.0), Some(4_000.0), true, Some(Observed::Changed)); // A date that is not kept up.
        check(Some(5_000.0), Some(9_999.0), true, Some(Observed::Changed));
        check(Some(5_000.0), Some(8_000.0), false, Some(Observed::Unchanged)); // A new date on the same text.
        check(Some(5_000.0), None, false, Some(Observed::Unchanged));
    }
}
