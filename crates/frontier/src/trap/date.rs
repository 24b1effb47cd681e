//! The year that a URL speaks of, if it speaks of a day.

/// Finds the year of a date in a URL: `2026/11`, `2026-11-15`, `2026_1` anywhere; `20261115` and `202611` only
/// in a query parameter whose name speaks of time, where a bare `2026` counts too.
///
/// Where several are written the last one counts: an archive of `/1999/` may hold the calendar of 3000.
pub fn year_of(path: &str, query: Option<&str>) -> Option<u16> {
    let in_query = query.and_then(|query| {
        let parameters = query.split('&').filter_map(|parameter| parameter.split_once('='));
        let mut years = parameters.filter_map(|(name, value)| {
            written_year(value).or_else(|| if is_about_time(name) { compact_year(value) } else { None })
        });
        years.next_back()
    });
    in_query.or_else(|| written_year(path))
}

/// Words of addresses that show days, weeks or months.
const TIME_WORDS: [&str; 14] = [
    "agenda",
    "cal",
    "calendar",
    "calendario",
    "calendrier",
    "date",
    "day",
    "event",
    "events",
    "kalender",
    "month",
    "schedule",
    "week",
    "year",
];

/// Whether a URL speaks of time: with a date, or with a word like `calendar` in its path or in a parameter's name.
pub fn speaks_of_time(path: &str, query: Option<&str>) -> bool {
    let names = query
        .into_iter()
        .flat_map(|query| query.split('&'))
        .map(|parameter| parameter.split('=').next().unwrap_or_default());
    let words =
        std::iter::once(path).chain(names).flat_map(|text| text.split(|c: char| !c.is_ascii_alphabetic()));
    let is_time = |word: &str| TIME_WORDS.iter().any(|time| word.eq_ignore_ascii_case(time));
    words.into_iter().any(is_time) || year_of(path, query).is_some()
}

/// The last year that is followed by a separator and a month.
fn written_year(text: &str) -> Option<u16> {
    let bytes = text.as_bytes();
    let mut last = None;
    let mut at = 0;
    while at < bytes.len() {
        let end = digits_end(bytes, at);
        if end - at == 4 && matches!(bytes.get(end), Some(b'-' | b'/' | b'_' | b'.')) {
            let month_end = digits_end(bytes, end + 1);
            let month: Option<u8> = text.get(end + 1..month_end).and_then(|month| month.parse().ok());
            if month_end - end <= 3 && month.is_some_and(|month| (1..=12).contains(&month)) {
                last = text
                    .get(at..end)
                    .and_then(|year| year.parse().ok())
                    .filter(|year| *year >= 1000)
                    .or(last);
            }
        }
        at = end.max(at + 1);
    }
    last
}

/// `2026`, `202611` or `20261115` and nothing else.
fn compact_year(value: &str) -> Option<u16> {
    if !matches!(value.len(), 4 | 6 | 8) || !value.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize, most: u8| {
        value.get(from..from + 2).is_none_or(|part| part.parse().is_ok_and(|n: u8| (1..=most).contains(&n)))
    };
    if part(4, 12) && part(6, 31) { value[..4].parse().ok().filter(|year| *year >= 1000) } else { None }
}

fn is_about_time(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["date", "day", "month", "year", "cal", "time"].iter().any(|word| name.contains(word))
}

fn digits_end(bytes: &[u8], from: usize) -> usize {
    bytes[from..].iter().position(|b| !b.is_ascii_digit()).map_or(bytes.len(), |length| from + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path_and_query: &str, want: Option<u16>) {
        let (path, query) = match path_and_query.split_once('?') {
            Some((path, query)) => (path, Some(query)),
            None => (path_and_query, None),
        };
        assert_eq!(year_of(path, query), want, "{path_and_query}");
    }

    #[test]
    fn years_in_urls() {
        check("/calendar/2031/05/06", Some(2031));
        check("/2024/05/a-post", Some(2024));
        check("/log-2024-12.html", Some(2024));
        check("/cal?date=2031-1-2", Some(2031));
        check("/cal?date=20310102", Some(2031));
        check("/cal?m=1&year=2031", Some(2031));
        check("/cal?month=203112", Some(2031));
        check("/1999/01/cal?d=3000-01", Some(3000));
        check("/1999/01/2000/02", Some(2000));
    }

    #[test]
    fn addresses_that_speak_of_time() {
        let speaks = |text: &str| {
            let (path, query) =
                text.split_once('?').map_or((text, None), |(path, query)| (path, Some(query)));
            speaks_of_time(path, query)
        };
        let about_time = ["/calendar/17", "/Events/?page=3", "/x?week=7", "/log/2024-05", "/cal.php?o=1"];
        assert!(about_time.into_iter().all(speaks));
        let others = ["/post/17", "/medical/17", "/today/3", "/x?id=20260101", "/vertical?local=1", "/"];
        assert!(!others.into_iter().any(speaks));
    }

    #[test]
    fn numbers_that_are_no_dates() {
        check("/article/20310102", None); // Ids look like this.
        check("/article?id=20310102", None);
        check("/2031/13/", None);
        check("/0031/12/", None);
        check("/12031/12/", None);
        check("/2031/123/", None);
        check("/2031", None);
        check("/cal?date=203113", None);
        check("/cal?date=x", None);
        check("/", None);
        check("/9999/", None);
    }
}
