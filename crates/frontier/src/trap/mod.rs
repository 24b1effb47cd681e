//! Pages that a site makes without end: calendars, mazes, paths that repeat themselves.
//!
//! [`TrapRules::verdict`] looks at a URL and at what was seen on its host so far ([`HostShape`]). A long, deep
//! or repetitive URL is refused on sight. Numbers that keep growing are no trap by themselves (articles are
//! numbered too), so a *pattern*, the URL with its numbers left out, is refused only when many pages
//! of it came and they are the same page again, or speak of a day that is far away. What has pages for days to
//! come is a calendar and no archive: its past is not worth much either; and one whose pages say the same but for numbers
//! and names of months and days has nothing in it. A part of a site that grows as fast as it is read is a maze
//! (`growth.rs`).
//!
//! Does not judge the page's text; whoever parsed it says whether it was a duplicate.

mod date;
mod growth;
mod shape;

pub use growth::{GrowthRules, NamedBy, PageGrowth};
pub use shape::HostShape;

use farol_base::{CanonicalUrl, Timestamp};

/// What is too much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrapRules {
    /// Longest URL. Default: 1,024 bytes.
    pub url_bytes_max: usize,
    /// Most path segments. Default: 24.
    pub path_depth_max: usize,
    /// How often a run of path segments may follow itself (`/a/b/a/b/a/b` is 3). Runs of plain numbers may do so
    /// twice as often, and so may a single segment all over the path. Default: 2.
    pub repeats_max: usize,
    /// Most query parameters. Default: 16.
    pub parameters_max: usize,
    /// Most pages of one host. Default: 1,000,000.
    pub pages_per_host_max: u64,
    /// Pages of one pattern after which a day far ahead is a calendar without end. Default: 32.
    pub ahead_urls_max: u32,
    /// How far ahead is far; and how far back, where a pattern speaks of next year too. Default: 1 year.
    pub ahead_years_max: u16,
    /// Pages of one pattern after which a day far back is one. Archives do reach back: this is the greater number.
    /// Default: 2,000.
    pub back_urls_max: u32,
    /// How far back is far. Default: 60 years.
    pub back_years_max: u16,
    /// Fetched pages of one pattern after which it is refused where at least half were duplicates. Default: 64.
    pub duplicates_among: u32,
    /// Most pages of one path with the same query parameters. Default: 20,000.
    pub query_urls_max: u32,
    /// Pages of one pattern that speaks of time after which it is an empty calendar, where three of four say the same but
    /// for numbers and names of months and days. Default: 32.
    pub empty_days_among: u32,
    /// Most links between a seed and a page: a chain of pages that goes on for longer has no end. Default: 10,000.
    pub hops_max: u16,
    /// When a part of a site is a maze.
    pub growth: GrowthRules,
}

impl Default for TrapRules {
    fn default() -> TrapRules {
        TrapRules {
            url_bytes_max: 1_024,
            path_depth_max: 24,
            repeats_max: 2,
            parameters_max: 16,
            pages_per_host_max: 1_000_000,
            ahead_urls_max: 32,
            ahead_years_max: 1,
            back_urls_max: 2_000,
            back_years_max: 60,
            duplicates_among: 64,
            query_urls_max: 20_000,
            empty_days_among: 32,
            hops_max: 10_000,
            growth: GrowthRules::default(),
        }
    }
}

/// Whether a page is worth a visit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrapVerdict {
    Fine,
    Refused(Trap),
}

/// What a URL was refused for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Trap {
    TooLong,
    TooDeep,
    Repeats,
    TooManyParameters,
    HostFull,
    Calendar,
    Duplicates,
    TooManyAlike,
    Maze,
}

impl Trap {
    /// Whether pages that were found before it was seen are not worth a visit either. The others are limits, which
    /// those pages have passed.
    pub fn reaches_back(self) -> bool {
        matches!(self, Trap::Calendar | Trap::Duplicates | Trap::Maze)
    }

    /// A word for people and for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Trap::TooLong => "too long",
            Trap::TooDeep => "too deep",
            Trap::Repeats => "repeats itself",
            Trap::TooManyParameters => "too many parameters",
            Trap::HostFull => "host is full",
            Trap::Calendar => "calendar without end",
            Trap::Duplicates => "the same page again",
            Trap::TooManyAlike => "too many pages of one query",
            Trap::Maze => "maze without end",
        }
    }
}

impl TrapRules {
    /// Judges a URL by itself, by who named it, and by what its host showed so far. Costs time linear in the URL.
    ///
    /// ```
    /// use farol_base::{CanonicalUrl, Timestamp};
    /// use farol_frontier::trap::{HostShape, NamedBy, Trap, TrapRules, TrapVerdict};
    /// let url = CanonicalUrl::parse("http://h/a/b/a/b/a/b/").unwrap();
    /// let verdict = TrapRules::default().verdict(Timestamp::EPOCH, &url, NamedBy::Outside, &HostShape::default());
    /// assert_eq!(verdict, TrapVerdict::Refused(Trap::Repeats));
    /// ```
    pub fn verdict(
        &self,
        now: Timestamp,
        url: &CanonicalUrl,
        named: NamedBy,
        shape: &HostShape,
    ) -> TrapVerdict {
        match self.judge(now, url, named, shape) {
            Some(trap) => TrapVerdict::Refused(trap),
            None => TrapVerdict::Fine,
        }
    }

    fn judge(&self, now: Timestamp, url: &CanonicalUrl, named: NamedBy, shape: &HostShape) -> Option<Trap> {
        if url.as_str().len() > self.url_bytes_max {
            return Some(Trap::TooLong);
        }
        if shape.pages_known >= self.pages_per_host_max {
            return Some(Trap::HostFull);
        }
        if url.query().is_some_and(|query| query.split('&').count() > self.parameters_max) {
            return Some(Trap::TooManyParameters);
        }
        let segments: Vec<&str> = url.path().split('/').skip(1).collect();
        if segments.len() > self.path_depth_max + 1 {
            return Some(Trap::TooDeep);
        }
        if self.repeats(&segments) {
            return Some(Trap::Repeats);
        }
        let is_maze = || shape.parts.is_too_many(url, named, &self.growth).then_some(Trap::Maze);
        self.judge_pattern(now, url, shape).or_else(is_maze)
    }

    fn judge_pattern(&self, now: Timestamp, url: &CanonicalUrl, shape: &HostShape) -> Option<Trap> {
        let pattern = shape.pattern_of(url)?;
        if pattern.fetched >= self.duplicates_among && pattern.duplicates >= pattern.fetched / 2 {
            return Some(Trap::Duplicates);
        }
        if pattern.days >= self.empty_days_among && pattern.empty_days >= pattern.days - pattern.days / 4 {
            return Some(Trap::Calendar);
        }
        if url.query().is_some() && pattern.urls >= self.query_urls_max {
            return Some(Trap::TooManyAlike);
        }
        if pattern.urls < self.ahead_urls_max.min(self.back_urls_max) {
            return None;
        }
        let year = i64::from(date::year_of(url.path(), url.query())?);
        let this_year = now.date().0;
        let is_calendar = i64::from(pattern.latest_year) > this_year;
        let near = i64::from(self.ahead_years_max);
        let ahead = year > this_year + near || (is_calendar && year < this_year - near);
        let back = year < this_year - i64::from(self.back_years_max);
        let trapped =
            (ahead && pattern.urls >= self.ahead_urls_max) || (back && pattern.urls >= self.back_urls_max);
        trapped.then_some(Trap::Calendar)
    }

    /// Whether some run of segments follows itself too often. At most 24² / 2 comparisons by default.
    fn repeats(&self, segments: &[&str]) -> bool {
        let is_number = |segment: &&str| segment.bytes().all(|b| b.is_ascii_digit()) && !segment.is_empty();
        let allowed = |run: &[&str]| {
            if run.iter().all(is_number) { self.repeats_max * 2 } else { self.repeats_max }
        };
        // The last segment is the page itself; an empty one is the slash at the end.
        for period in 1..=segments.len() / 2 {
            let mut matching = 0;
            for at in period..segments.len() {
                matching = if segments[at] == segments[at - period] { matching + 1 } else { 0 };
                let repeats = matching / period + 1;
                if repeats > allowed(&segments[at + 1 - period..=at]) {
                    return true;
                }
            }
        }
        let often = |segment: &&str| segments.iter().filter(|other| *other == segment).count();
        segments.iter().any(|segment| !is_number(segment) && often(segment) > self.repeats_max * 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn now() -> Timestamp {
        Timestamp::parse("2026-11-15").unwrap()
    }

    fn url(text: &str) -> CanonicalUrl {
        CanonicalUrl::parse(text).unwrap()
    }

    #[track_caller]
    fn check(path: &str, want: Option<Trap>) {
        let url = url(&format!("http://h{path}"));
        let verdict = TrapRules::default().verdict(now(), &url, NamedBy::OwnPart, &HostShape::default());
        assert_eq!(verdict, want.map_or(TrapVerdict::Fine, TrapVerdict::Refused), "{path}");
    }

    #[test]
    fn a_url_that_is_a_trap_on_sight() {
        check("/", None);
        check("/a/b/a/b", None);
        check("/a/b/a/b/a/b", Some(Trap::Repeats));
        check("/x/a/b/c/a/b/c/a/b/c/y", Some(Trap::Repeats));
        check("/a/a/index.html", None);
        check("/a/a/a/index.html", Some(Trap::Repeats));
        check("/bible/1/1/1", None); // RevisitPlanner, chapter, verse.
        check("/1/1/1/1/1", Some(Trap::Repeats));
        check("/a/1/a/2/a/3/a/4/", None);
        check("/a/1/a/2/a/3/a/4/a/5", Some(Trap::Repeats));
        check("/////", Some(Trap::Repeats));
        check(&"/x1/y2".repeat(20), Some(Trap::TooDeep));
        check(&format!("/?{}", "a=b&".repeat(20)), Some(Trap::TooManyParameters));
        check(&format!("/{}", "a".repeat(1100)), Some(Trap::TooLong));
    }

    #[test]
    fn a_full_host_takes_no_more() {
        let rules = TrapRules { pages_per_host_max: 10, ..TrapRules::default() };
        let verdict =
            |known| rules.verdict(now(), &url("http://h/a"), NamedBy::OwnPart, &HostShape::new(known));
        assert_eq!((verdict(9), verdict(10)), (TrapVerdict::Fine, TrapVerdict::Refused(Trap::HostFull)));
    }

    /// Follows "next month", "last month" and the days of each month as far as it is let, breadth first.
    fn days_admitted(write: impl Fn(i64, u32, u32) -> String) -> usize {
        let rules = TrapRules::default();
        let mut shape = HostShape::default();
        let mut months = std::collections::VecDeque::from([(2026, 11)]);
        let mut seen = std::collections::HashSet::new();
        let mut days = 0;
        while let Some((year, month)) = months.pop_front() {
            assert!(days < 20_000, "without end");
            if !seen.insert((year, month)) {
                continue;
            }
            for day in 1..=28 {
                let url = url(&write(year, month, day));
                if rules.verdict(now(), &url, NamedBy::OwnPart, &shape) == TrapVerdict::Fine {
                    shape.admitted(&url, NamedBy::OwnPart);
                    days += 1;
                    let (next, last) = ((year, month + 1), (year, month - 1));
                    months.push_back(if month == 12 { (year + 1, 1) } else { next });
                    months.push_back(if month == 1 { (year - 1, 12) } else { last });
                }
            }
        }
        days
    }

    #[test]
    fn a_calendar_ends() {
        // From 2025 to 2027, in whatever way the days are written.
        assert_eq!(days_admitted(|y, m, d| format!("http://h/calendar/{y:04}/{m:02}/{d:02}")), 36 * 28);
        assert_eq!(days_admitted(|y, m, d| format!("http://h/cal?date={y:04}{m:02}{d:02}")), 36 * 28);
        assert_eq!(days_admitted(|y, m, d| format!("http://h/cal?year={y}&month={m}&d={d}")), 36 * 28);
    }

    #[test]
    fn a_maze_of_queries_ends() {
        let rules = TrapRules { query_urls_max: 100, ..TrapRules::default() };
        let mut shape = HostShape::default();
        let steps = (0..500u64).take_while(|step| {
            let visit = farol_base::random::mix(*step);
            let url = url(&format!("http://h/maze/{step}?visit={visit:x}"));
            shape.admitted(&url, NamedBy::OwnPart);
            rules.verdict(now(), &url, NamedBy::OwnPart, &shape) == TrapVerdict::Fine
        });
        assert_eq!(steps.count(), 99);
        assert_eq!(
            rules.verdict(now(), &url("http://h/maze/1?other=1"), NamedBy::OwnPart, &shape),
            TrapVerdict::Fine
        );
    }

    #[test]
    fn an_archive_of_old_days_is_fine_until_it_is_huge() {
        let rules = TrapRules { back_urls_max: 500, ..TrapRules::default() };
        let mut shape = HostShape::default();
        let days = (1800..1990).flat_map(|year| (1..=12).map(move |month| (year, month)));
        let refused = days.filter(|(year, month)| {
            let url = url(&format!("http://h/news/{year}-{month:02}.html"));
            let fine = rules.verdict(now(), &url, NamedBy::OwnPart, &shape) == TrapVerdict::Fine;
            if fine {
                shape.admitted(&url, NamedBy::OwnPart);
            }
            !fine
        });
        // 500 old ones are taken; of the others, those up to 1965 are refused.
        assert_eq!(refused.count(), 166 * 12 - 500);
    }

    #[test]
    fn numbered_articles_are_no_trap_but_the_same_page_again_is() {
        let rules = TrapRules::default();
        let (mut articles, mut maze) = (HostShape::default(), HostShape::default());
        for id in 0..10_000 {
            let url = url(&format!("http://h/article/{id}"));
            assert_eq!(rules.verdict(now(), &url, NamedBy::OwnPart, &articles), TrapVerdict::Fine);
            articles.admitted(&url, NamedBy::OwnPart);
            articles.fetched(&url, id % 10 == 0);
            maze.admitted(&url, NamedBy::OwnPart);
            maze.fetched(&url, id > 0);
        }
        let next = url("http://h/article/10000");
        assert_eq!(
            rules.verdict(now(), &next, NamedBy::OwnPart, &maze),
            TrapVerdict::Refused(Trap::Duplicates)
        );
        let other = url("http://h/about");
        assert_eq!(rules.verdict(now(), &other, NamedBy::OwnPart, &maze), TrapVerdict::Fine);
    }

    #[test]
    fn empty_days_are_a_calendar_and_a_paper_is_none() {
        let rules = TrapRules::default();
        let (mut empty, mut paper) = (HostShape::default(), HostShape::default());
        for week in 0..40 {
            let url = url(&format!("http://h/events?week={week}"));
            assert!(HostShape::calendar_of(&url).is_some());
            empty.day(&url, week > 0);
            paper.day(&url, week % 4 > 1);
        }
        let next = url("http://h/events?week=40");
        assert_eq!(
            rules.verdict(now(), &next, NamedBy::OwnPart, &empty),
            TrapVerdict::Refused(Trap::Calendar)
        );
        assert_eq!(rules.verdict(now(), &next, NamedBy::OwnPart, &paper), TrapVerdict::Fine);
        assert_eq!(
            rules.verdict(now(), &url("http://h/events/about"), NamedBy::OwnPart, &empty),
            TrapVerdict::Fine
        );
    }

    proptest! {
        #[test]
        fn no_url_breaks_it(paths in proptest::collection::vec("(/[a-c0-9._-]{0,9}){1,30}(\\?[a-e0-9&=-]{0,40})?", 1..80)) {
            let rules = TrapRules { ahead_urls_max: 1, back_urls_max: 1, duplicates_among: 1, ..TrapRules::default() };
            let mut shape = HostShape::default();
            for path in &paths {
                if let Ok(url) = CanonicalUrl::parse(&format!("http://h{path}")) {
                    let _ = rules.verdict(now(), &url, NamedBy::OwnPart, &shape);
                    shape.admitted(&url, NamedBy::OwnPart);
                    shape.fetched(&url, true);
                    shape.grew(&url, PageGrowth { fresh: 3, ..PageGrowth::default() });
                    let _ = rules.verdict(Timestamp::NEVER, &url, NamedBy::OwnPart, &shape);
                }
            }
        }
    }
}
