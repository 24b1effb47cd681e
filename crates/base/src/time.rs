//! Instants, who tells them, and how they are written.
//!
//! Only [`SystemClock`] reads the machine's clock. Everything else is handed a [`Timestamp`].

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// An instant: milliseconds since 1970-01-01T00:00:00Z, leap seconds not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Timestamp = Timestamp(0);
    /// Later than anything that happens.
    pub const NEVER: Timestamp = Timestamp(u64::MAX);

    pub const fn from_millis(millis: u64) -> Timestamp {
        Timestamp(millis)
    }

    pub const fn from_secs(secs: u64) -> Timestamp {
        Timestamp(secs.saturating_mul(1000))
    }

    pub const fn as_millis(self) -> u64 {
        self.0
    }

    pub const fn as_secs(self) -> u64 {
        self.0 / 1000
    }

    /// Time since an earlier instant; zero where it is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// The instant at midnight UTC of a day in the proleptic Gregorian calendar.
    ///
    /// Answers `None` for days that do not exist and for those before 1970.
    pub fn from_date(year: i64, month: u32, day: u32) -> Option<Timestamp> {
        if !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) || year > 9999 {
            return None;
        }
        let days = days_from_civil(year, month, day);
        u64::try_from(days).ok().map(|days| Timestamp(days * 86_400_000))
    }

    /// Year, month and day in UTC.
    pub fn date(self) -> (i64, u32, u32) {
        civil_from_days((self.0 / 86_400_000) as i64)
    }

    /// Reads an instant as the Web writes it: ISO 8601 / RFC 3339 / W3C datetime (`2024`, `2024-05`,
    /// `2024-05-06`, `2024-05-06T07:08:09.5+02:00`) and RFC 9110 / RFC 2822 (`Mon, 06 May 2024 07:08:09 GMT`).
    ///
    /// ```
    /// use farol_base::Timestamp;
    /// let noon = Timestamp::parse("2024-05-06T12:00:00Z").unwrap();
    /// assert_eq!(Timestamp::parse("Mon, 06 May 2024 14:00:00 +0200"), Some(noon));
    /// assert_eq!(noon.to_string(), "2024-05-06T12:00:00Z");
    /// ```
    pub fn parse(text: &str) -> Option<Timestamp> {
        let text = text.trim();
        if text.len() > 64 || !text.is_ascii() {
            return None;
        }
        parse_iso(text).or_else(|| parse_mail(text))
    }
}

impl std::ops::Add<Duration> for Timestamp {
    type Output = Timestamp;
    fn add(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

impl std::ops::Sub<Duration> for Timestamp {
    type Output = Timestamp;
    fn sub(self, duration: Duration) -> Timestamp {
        Timestamp(self.0.saturating_sub(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}

/// Writes `2024-05-06T07:08:09Z`, whole seconds, as WARC and RFC 3339 want it.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.date();
        let secs = self.as_secs() % 86_400;
        write!(f, "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", secs / 3600, secs / 60 % 60, secs % 60)
    }
}

/// Tells the time.
pub trait Clock: Send + Sync {
    fn now(&self) -> Timestamp;
}

/// The machine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }
}

/// A clock that stands still until it is told to go on.
#[derive(Debug, Default)]
pub struct ManualClock(AtomicU64);

impl ManualClock {
    pub fn at(now: Timestamp) -> ManualClock {
        ManualClock(AtomicU64::new(now.0))
    }

    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX), Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// Reads the ISO 8601 forms; what is left out counts as its smallest value, a missing zone as UTC.
fn parse_iso(text: &str) -> Option<Timestamp> {
    let (date, clock) = match text.find(['T', 't', ' ']) {
        Some(at) => (&text[..at], Some(&text[at + 1..])),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4)?;
    let month = parts.next().map_or(Some(1), |part| digits(part, 2))?;
    let day = parts.next().map_or(Some(1), |part| digits(part, 2))?;
    if parts.next().is_some() {
        return None;
    }
    let midnight = Timestamp::from_date(i64::from(year), month, day)?;
    match clock {
        Some(clock) => {
            let at = clock.find(['Z', 'z', '+', '-']).unwrap_or(clock.len());
            shift(midnight, clock[..at].trim(), clock[at..].trim())
        }
        None => Some(midnight),
    }
}

/// Reads `Mon, 06 May 2024 07:08:09 GMT`, with or without the weekday, seconds and zone.
fn parse_mail(text: &str) -> Option<Timestamp> {
    const MONTHS: [&str; 12] =
        ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
    let text = text.split_once(',').map_or(text, |(_, rest)| rest);
    let mut words = text.split([' ', '-']).filter(|word| !word.is_empty());
    let day: u32 = words.next()?.parse().ok()?;
    let name = words.next()?.get(..3)?.to_ascii_lowercase();
    let month = MONTHS.iter().position(|month| *month == name)? as u32 + 1;
    let year: i64 = words.next()?.parse().ok()?;
    // RFC 2822 §4.3: two-digit years are 1950 to 2049.
    let year = if year < 50 {
        year + 2000
    } else if year < 100 {
        year + 1900
    } else {
        year
    };
    let midnight = Timestamp::from_date(year, month, day)?;
    let clock = words.next().unwrap_or("00:00");
    let zone = text.rsplit(' ').next().unwrap_or("");
    shift(midnight, clock, if zone.starts_with(['+', '-']) { zone } else { "" })
}

/// Adds `hh:mm[:ss[.fraction]]` and takes the zone (`Z`, `+02:00`, `-0330`, nothing) away.
fn shift(midnight: Timestamp, clock: &str, zone: &str) -> Option<Timestamp> {
    let mut parts = clock.split(':');
    let hours = digits(parts.next()?, 2)?;
    let minutes = digits(parts.next()?, 2)?;
    let seconds = parts.next().map_or(Some(0), |part| digits(part.split('.').next()?, 2))?;
    if hours > 24 || minutes > 59 || seconds > 60 {
        return None;
    }
    let local = midnight.0 + u64::from(hours * 3600 + minutes * 60 + seconds) * 1000;
    let zone_digits: String = zone.chars().filter(char::is_ascii_digit).collect();
    if zone_digits.is_empty() {
        return Some(Timestamp(local));
    }
    let east = !zone.starts_with('-');
    let hours: u64 = zone_digits.get(..2)?.parse().ok()?;
    let minutes: u64 = zone_digits.get(2..4).unwrap_or("0").parse().ok()?;
    if hours > 23 || minutes > 59 {
        return None;
    }
    let offset = (hours * 3600 + minutes * 60) * 1000;
    Some(Timestamp(if east { local.saturating_sub(offset) } else { local + offset }))
}

fn digits(text: &str, count: usize) -> Option<u32> {
    (text.len() == count && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970-01-01, counted in 400-year eras that start on 1 March.
fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * month_from_march + 2) / 5 + 1) as u32;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 } as u32;
    (era * 400 + year_of_era + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(text: &str, want: &str) {
        assert_eq!(Timestamp::parse(text).map(|at| at.to_string()).as_deref(), Some(want), "{text}");
    }

    #[test]
    fn dates_as_the_web_writes_them() {
        check("2024", "2024-01-01T00:00:00Z");
        check("2024-02", "2024-02-01T00:00:00Z");
        check("2024-02-29", "2024-02-29T00:00:00Z");
        check("2024-05-06T07:08:09.123Z", "2024-05-06T07:08:09Z");
        check("2024-05-06 07:08", "2024-05-06T07:08:00Z");
        check("2024-05-06T07:08:09-03:30", "2024-05-06T10:38:09Z");
        check("Sun, 06 Nov 1994 08:49:37 GMT", "1994-11-06T08:49:37Z");
        check("Sunday, 06-Nov-94 08:49:37 GMT", "1994-11-06T08:49:37Z");
        check("6 Nov 1994 08:49 +0100", "1994-11-06T07:49:00Z");
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in
            ["", "yesterday", "2023-02-29", "2024-13-01", "2024-05-06T99:00:00Z", "1969-01-01", "٢٠٢٤"]
        {
            assert_eq!(Timestamp::parse(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_date_survives_writing_and_reading(secs in 0u64..253_402_300_799) {
            let at = Timestamp::from_secs(secs);
            prop_assert_eq!(Timestamp::parse(&at.to_string()), Some(at));
        }

        #[test]
        fn no_text_breaks_it(text in ".{0,70}") {
            let _ = Timestamp::parse(&text);
        }
    }
}
