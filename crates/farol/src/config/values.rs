//! Durations and sizes as people write them: `2s`, `500ms`, `24h`, `64MiB`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::time::Duration;

/// A duration: a number and one of `ms`, `s`, `m`, `h`, `d`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span(Duration);

impl Span {
    pub const fn secs(secs: u64) -> Span {
        Span(Duration::from_secs(secs))
    }

    pub const fn hours(hours: u64) -> Span {
        Span::secs(hours * 3600)
    }

    pub const fn days(days: u64) -> Span {
        Span::hours(days * 24)
    }

    pub const fn get(self) -> Duration {
        self.0
    }
}

impl From<Duration> for Span {
    fn from(duration: Duration) -> Span {
        Span(duration)
    }
}

const SPAN_UNITS: &[(&str, u64)] =
    &[("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl std::str::FromStr for Span {
    type Err = String;

    fn from_str(text: &str) -> Result<Span, String> {
        let millis = with_unit(text, SPAN_UNITS).ok_or_else(|| {
            format!("{text:?} is no duration; write a number and a unit, such as 2s, 500ms or 24h")
        })?;
        Ok(Span(Duration::from_millis(millis)))
    }
}

impl std::fmt::Display for Span {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_with_unit(f, u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX), SPAN_UNITS)
    }
}

/// A number of bytes: a number and one of `B`, `KiB`, `MiB`, `GiB`, `TiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ByteSize(u64);

impl ByteSize {
    pub const fn mib(mib: u64) -> ByteSize {
        ByteSize(mib << 20)
    }

    pub const fn get(self) -> u64 {
        self.0
    }
}

const SIZE_UNITS: &[(&str, u64)] =
    &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];

impl std::str::FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ByteSize, String> {
        with_unit(text, SIZE_UNITS)
            .map(ByteSize)
            .ok_or_else(|| format!("{text:?} is no size; write a number and a unit, such as 64MiB or 1GiB"))
    }
}

impl std::fmt::Display for ByteSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write_with_unit(f, self.0, SIZE_UNITS)
    }
}

/// Reads a number, whole or with a fraction, and its unit.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let text = text.trim();
    if text == "0" {
        return Some(0);
    }
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let number: f64 = text[..split].parse().ok()?;
    let unit = text[split..].trim();
    let (_, size) = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?;
    let value = number * *size as f64;
    (value.is_finite() && (0.0..1e18).contains(&value)).then_some(value as u64)
}

fn write_with_unit(f: &mut std::fmt::Formatter<'_>, value: u64, units: &[(&str, u64)]) -> std::fmt::Result {
    let (name, size) = units
        .iter()
        .rev()
        .find(|(_, size)| value >= *size && value.is_multiple_of(*size))
        .unwrap_or(&units[0]);
    write!(f, "{}{name}", value / size)
}

macro_rules! as_text {
    ($type:ty) => {
        impl Serialize for $type {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $type {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

as_text!(Span);
as_text!(ByteSize);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_units() {
        let span = |text: &str| text.parse::<Span>().map(|span| span.get().as_millis());
        assert_eq!(span("2s"), Ok(2000));
        assert_eq!(span("1.5h"), Ok(5_400_000));
        assert_eq!(span("0"), Ok(0));
        assert!(
            span("2").is_err() && span("-2s").is_err() && span("s").is_err() && span("2 fortnights").is_err()
        );
        assert_eq!("64MiB".parse::<ByteSize>().map(ByteSize::get), Ok(64 << 20));
        assert_eq!(
            (Span::hours(36).to_string(), ByteSize::mib(1024).to_string()),
            ("36h".into(), "1GiB".into())
        );
    }
}
