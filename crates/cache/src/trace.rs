//! Real streams: query logs and cache traces.
//!
//! A query log is text, one query per line: `time<TAB>query`, `user<TAB>time<TAB>query` (Excite's), or a query alone. Times
//! are Unix seconds, dates as the Web writes them, or `yymmddhhmmss`. A cache trace has lines `time,object,size`.
//! Lines that fit nothing are counted, not fatal.

use farol_base::Timestamp;
use std::collections::HashMap;

/// A request of a trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Seconds; 0 where the log has no times.
    pub at: f64,
    /// Number of the query or object.
    pub query: u64,
    pub bytes: u32,
}

/// A trace in memory.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub lines: Vec<Line>,
    /// Texts by number; empty for cache traces.
    pub texts: Vec<String>,
    /// Lines that could not be read.
    pub skipped: usize,
    pub timed: bool,
}

/// Bytes of an answer where the trace does not say: a page of ten hits.
const ANSWER_BYTES: u32 = 4096;

impl Trace {
    /// Reads a log or a trace, whichever it looks like. Queries differ by letters and digits only: case, spaces and
    /// other characters do not count [Gomez14 §1.7].
    pub fn read(text: &str) -> Trace {
        let first =
            text.lines().find(|line| !line.starts_with('#') && !line.trim().is_empty()).unwrap_or_default();
        let is_cache_trace = cache_line(first).is_some();
        let mut trace = Trace { timed: true, ..Trace::default() };
        let mut numbers: HashMap<String, u64> = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#') && !line.trim().is_empty()) {
            if is_cache_trace {
                match cache_line(line) {
                    Some(line) => trace.lines.push(line),
                    None => trace.skipped += 1,
                }
                continue;
            }
            let (at, count, query) = log_line(line);
            let query = normal(query);
            if query.is_empty() {
                trace.skipped += 1;
                continue;
            }
            trace.timed &= at.is_some();
            let next = numbers.len() as u64;
            let number = *numbers.entry(query.clone()).or_insert_with(|| {
                trace.texts.push(query);
                next
            });
            for _ in 0..count {
                trace.lines.push(Line { at: at.unwrap_or(0.0), query: number, bytes: ANSWER_BYTES });
            }
        }
        if trace.timed && !is_cache_trace {
            trace.lines.sort_by(|a, b| a.at.total_cmp(&b.at));
        }
        trace.timed &= !trace.lines.is_empty();
        trace
    }
}

/// `time,object,size`.
fn cache_line(line: &str) -> Option<Line> {
    let mut parts = line.split(',');
    let at: f64 = parts.next()?.trim().parse().ok()?;
    let query: u64 = parts.next()?.trim().parse().ok()?;
    let bytes: u32 = parts.next()?.trim().parse().ok()?;
    (at.is_finite() && parts.next().is_none()).then_some(Line { at, query, bytes })
}

/// Time, how often, and the query.
fn log_line(line: &str) -> (Option<f64>, u32, &str) {
    let fields: Vec<&str> = line.split('\t').collect();
    match fields.as_slice() {
        [query] => (None, 1, query),
        [time, query] => (read_time(time), 1, query),
        [user, time, query] if read_time(time).is_some() || user.len() > 8 => (read_time(time), 1, query),
        // Date, query, …, popularity: a table of counts by day.
        [date, query, .., count] if read_time(date).is_some() => {
            (read_time(date), count.trim().parse().unwrap_or(1).clamp(1, 1_000_000), query)
        }
        [.., query] => (None, 1, query),
        [] => (None, 1, ""),
    }
}

/// Seconds since 1970 from the forms that logs use.
pub fn read_time(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if digits && text.len() == 12 {
        // yymmddhhmmss, as in Excite's log of 1997.
        let two = |at: usize| text[at..at + 2].parse::<u64>().ok();
        let (year, month, day) = (two(0)? as i64, two(2)? as u32, two(4)? as u32);
        let midnight = Timestamp::from_date(if year < 70 { 2000 + year } else { 1900 + year }, month, day)?;
        return Some((midnight.as_secs() + two(6)? * 3600 + two(8)? * 60 + two(10)?) as f64);
    }
    if digits {
        return text.parse().ok();
    }
    if let Ok(seconds) = text.parse::<f64>() {
        return (seconds.is_finite() && seconds >= 0.0).then_some(seconds);
    }
    Timestamp::parse(text).map(|at| at.as_millis() as f64 / 1000.0)
}

/// Letters, digits and single spaces, in lower case.
pub fn normal(query: &str) -> String {
    let plain: String = query
        .chars()
        .map(|c| if c.is_alphanumeric() { c } else { ' ' })
        .flat_map(char::to_lowercase)
        .collect();
    plain.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_read_in_their_forms() {
        let excite = Trace::read(
            "2A9EABFB35F5B954\t970916105432\t+md foods +proteins\nBED\t970916001949\tMD Foods, proteins\n",
        );
        assert_eq!((excite.lines.len(), excite.texts.len(), excite.timed), (2, 1, true));
        assert_eq!(excite.texts[0], "md foods proteins");
        assert!(excite.lines[0].at < excite.lines[1].at, "in the order of time");
        let bare = Trace::read("Ponte Rio\nponte rio\n\n???\n");
        assert_eq!((bare.lines.len(), bare.texts.len(), bare.timed, bare.skipped), (2, 1, false, 1));
        let counted = Trace::read("2020-01-02\tsars virus\tTrue\tUnited States\t3\n");
        assert_eq!(counted.lines.len(), 3);
        let cache = Trace::read("#time,object,size\n0,13053225291711363978,737\n1,5,248\nwrong\n");
        assert_eq!((cache.lines.len(), cache.skipped), (2, 1));
        assert_eq!(cache.lines[1], Line { at: 1.0, query: 5, bytes: 248 });
        assert!(Trace::read("").lines.is_empty());
    }

    #[test]
    fn times_are_read() {
        assert_eq!(read_time("970916105432"), read_time("1997-09-16T10:54:32Z"));
        assert_eq!(read_time("1500000000"), Some(1.5e9));
        assert_eq!(read_time("12.5"), Some(12.5));
        assert_eq!((read_time("soon"), read_time(""), read_time("NaN")), (None, None, None));
    }
}
