//! Numbers, sizes, spans and dates as each locale writes them.

use super::Locale;
use farol_base::Timestamp;
use std::time::Duration;

/// `12,345` in English, `12.345` in most others; with thin spaces in French, with spaces from five digits on in
/// Portugal.
pub(crate) fn number(value: u64, locale: Locale) -> String {
    let digits = value.to_string();
    let mark = match locale {
        Locale::English => ',',
        Locale::French => '\u{202f}',
        Locale::Portuguese if digits.len() < 5 => return digits,
        Locale::Portuguese => '\u{a0}',
        Locale::Brazilian | Locale::Galician | Locale::Spanish | Locale::Catalan => '.',
    };
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(mark);
        }
        text.push(digit);
    }
    text
}

/// A rate or a fraction with at most three digits that count: `0.12`, `4.2`, `57.9`, `123`.
pub(crate) fn decimal(value: f64, locale: Locale) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    if value.abs() >= 100.0 {
        return number(value.abs().round() as u64, locale);
    }
    let text = if value.abs() >= 10.0 { format!("{value:.1}") } else { format!("{value:.2}") };
    let text = text.trim_end_matches('0').trim_end_matches('.');
    if locale == Locale::English { text.to_string() } else { text.replace('.', ",") }
}

/// A share from 0 to 1 as `87.3%`; some set the sign apart.
pub(crate) fn percent(share: f64, locale: Locale) -> String {
    let apart = match locale {
        Locale::Galician | Locale::Spanish | Locale::Catalan => "\u{a0}",
        Locale::French => "\u{202f}",
        Locale::English | Locale::Brazilian | Locale::Portuguese => "",
    };
    format!("{}{apart}%", decimal(share * 100.0, locale))
}

/// `1.5 GB`, in powers of 1000 as disks are sold; French says octets.
pub(crate) fn bytes(value: u64, locale: Locale) -> String {
    const UNITS: [&str; 6] = ["kB", "MB", "GB", "TB", "PB", "EB"];
    let unit_of =
        |unit: &str| if locale == Locale::French { unit.replace('B', "o") } else { unit.to_string() };
    if value < 1000 {
        return format!("{value} {}", unit_of("B"));
    }
    let mut scaled = value as f64 / 1000.0;
    let mut unit = 0;
    while scaled >= 999.5 && unit + 1 < UNITS.len() {
        scaled /= 1000.0;
        unit += 1;
    }
    format!("{} {}", decimal(scaled, locale), unit_of(UNITS[unit]))
}

/// `3.4 ms`, `12 ms`, `3.4 s`, `5 min`, `2 h 10 min`, `3 d 4 h`.
pub(crate) fn span(value: Duration, locale: Locale) -> String {
    let secs = value.as_secs();
    match secs {
        0 if value < Duration::from_millis(10) => {
            format!("{} ms", decimal(value.as_secs_f64() * 1e3, locale))
        }
        0 => format!("{} ms", value.as_millis()),
        1..60 => format!("{} s", decimal((value.as_secs_f64() * 10.0).round() / 10.0, locale)),
        60..3600 => pair(secs / 60, "min", secs % 60, "s"),
        3600..86_400 => pair(secs / 3600, "h", secs / 60 % 60, "min"),
        _ => {
            let days = if locale == Locale::French { "j" } else { "d" };
            pair(secs / 86_400, days, secs / 3600 % 24, "h")
        }
    }
}

fn pair(major: u64, major_unit: &str, minor: u64, minor_unit: &str) -> String {
    match minor {
        0 => format!("{major} {major_unit}"),
        _ => format!("{major} {major_unit} {minor} {minor_unit}"),
    }
}

/// `6 May 2024`, `6 de mai. de 2024`, `6 may 2024`.
pub(crate) fn date(at: Timestamp, locale: Locale) -> String {
    let (year, month, day) = at.date();
    let name = locale.texts().months.split(' ').nth(month as usize - 1).unwrap_or("");
    match locale {
        Locale::Brazilian | Locale::Portuguese | Locale::Galician => format!("{day} de {name} de {year}"),
        _ => format!("{day} {name} {year}"),
    }
}

/// Date and time of day, in UTC.
pub(crate) fn moment(at: Timestamp, locale: Locale) -> String {
    format!("{}, {} UTC", date(at, locale), time_of_day(at))
}

/// Date and time of day to the second, in UTC.
pub(crate) fn instant(at: Timestamp, locale: Locale) -> String {
    format!("{}, {}:{:02} UTC", date(at, locale), time_of_day(at), at.as_secs() % 60)
}

/// `07:08`, in UTC.
pub(crate) fn time_of_day(at: Timestamp) -> String {
    let secs = at.as_secs() % 86_400;
    format!("{:02}:{:02}", secs / 3600, secs / 60 % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_sizes() {
        use Locale::{Brazilian as Pt, English as En};
        let check = |got: String, want: &str| assert_eq!(got, want);
        check(number(0, En), "0");
        check(number(999, En), "999");
        check(number(1_234_567, En), "1,234,567");
        check(number(1_234_567, Pt), "1.234.567");
        check(number(1_234_567, Locale::French), "1\u{202f}234\u{202f}567");
        check(number(1_234, Locale::Portuguese), "1234");
        check(number(12_345, Locale::Portuguese), "12\u{a0}345");
        check(decimal(0.125, Pt), "0,12");
        check(decimal(12.34, En), "12.3");
        check(decimal(1234.5, En), "1,235");
        check(decimal(f64::NAN, En), "0");
        check(decimal(50.0, En), "50");
        check(percent(0.8731, En), "87.3%");
        check(percent(0.8731, Pt), "87,3%");
        check(percent(1.0, Locale::Spanish), "100\u{a0}%");
        check(percent(0.5, Locale::French), "50\u{202f}%");
        check(percent(f64::NAN, En), "0%");
        check(bytes(999, En), "999 B");
        check(bytes(1_500_000, Pt), "1,5 MB");
        check(bytes(999_999, En), "1 MB");
        check(bytes(1_500_000, Locale::French), "1,5 Mo");
        check(bytes(999, Locale::French), "999 o");
        check(bytes(u64::MAX, En), "18.4 EB");
    }

    #[test]
    fn spans_and_dates() {
        let check = |millis: u64, want: &str| {
            assert_eq!(span(Duration::from_millis(millis), Locale::English), want);
        };
        check(0, "0 ms");
        check(12, "12 ms");
        check(2000, "2 s");
        check(3400, "3.4 s");
        check(65_000, "1 min 5 s");
        check(7_800_000, "2 h 10 min");
        check(86_400_000, "1 d");
        let at = Timestamp::parse("2024-05-06T07:08:09Z").unwrap();
        assert_eq!(date(at, Locale::English), "6 May 2024");
        assert_eq!(date(at, Locale::Brazilian), "6 de mai. de 2024");
        assert_eq!(date(at, Locale::Galician), "6 de maio de 2024");
        assert_eq!(date(at, Locale::French), "6 mai 2024");
        assert_eq!(moment(at, Locale::Spanish), "6 may 2024, 07:08 UTC");
        assert_eq!(instant(at, Locale::English), "6 May 2024, 07:08:09 UTC");
        assert!(!date(Timestamp::NEVER, Locale::English).is_empty());
    }
}
