//! Sites that never end, crawled without an index: a crawl of them ends all the same.

use crate::fixture::{Data, Farol};
use crate::site::{Site, SiteReply};
use farol_base::fingerprint::hash64;
use farol_base::random::mix;

/// Crawls `http://evil.test/` to the end and counts the pages that were asked for.
fn pages_crawled(answer: impl Fn(&str) -> SiteReply + Send + Sync + 'static) -> usize {
    let site = Site::start(move |_, path| match path {
        "/robots.txt" => SiteReply::missing(),
        path => answer(path),
    });
    let mut arguments = site.flags(&["evil.test"]);
    arguments.extend(["--max-pages", "4000", "http://evil.test/"].map(String::from));
    Farol::start(&Data::new(), "crawl", &arguments).finish();
    site.asked().len() - 1
}

/// The number of a page, 0 for the first.
fn number(path: &str) -> u64 {
    path.trim_start_matches('/').parse().unwrap_or(0)
}

#[test]
fn an_endless_chain_of_refreshes_ends_as_one_of_redirects_does() {
    let refresh = |path: &str| {
        let n = number(path);
        let next = n + 1;
        SiteReply::html(format!(
            "<meta http-equiv=refresh content='0; url=/{next}'><title>{n}</title>page {n}, with words of its own"
        ))
    };
    // The first page, and `crawl.redirects_max` more.
    assert_eq!(pages_crawled(refresh), 9);
    let canonical = |path: &str| {
        let n = number(path);
        let next = n + 1;
        SiteReply::html(format!("<link rel=canonical href=/{next}><title>{n}</title>page {n}, with words"))
    };
    assert_eq!(pages_crawled(canonical), 9);
}

#[test]
fn a_trap_of_session_ids_is_seen_without_an_index() {
    let session = |path: &str| {
        let from = number(path.split('=').next_back().unwrap_or_default());
        let links: String =
            (1..=10).map(|i| format!("<a href='/s?token={}'>x</a>", (from * 10 + i) % 1_000_003)).collect();
        SiteReply::html(format!("<title>Session</title><p>the same text always</p>{links}"))
    };
    let pages = pages_crawled(session);
    assert!(pages < 2_000, "{pages} pages of the same text");
}

/// Words of a page's own, drawn from what it is called.
fn babble(name: &str) -> String {
    let mut state = hash64(name.as_bytes());
    let mut word = || {
        state = mix(state);
        format!("{}{}", SYLLABLES[(state % 16) as usize], SYLLABLES[(state >> 8) as usize % 16])
    };
    (0..80).map(|_| word() + " ").collect()
}

const SYLLABLES: [&str; 16] =
    ["ba", "ce", "di", "fo", "gu", "la", "me", "ni", "po", "ru", "sa", "te", "vi", "xo", "zu", "que"];

/// A page of a maze: words of its own, and links to ten pages that no other page names.
fn maze_page(path: &str, address: impl Fn(u64) -> String) -> SiteReply {
    let from = hash64(path.as_bytes());
    let links: String = (0..10).map(|n| format!("<a href='{}'>go</a> ", address(mix(from ^ n)))).collect();
    SiteReply::html(format!("<title>{from:x}</title><a href=/>home</a><p>{}</p>{links}", babble(path)))
}

#[test]
fn a_maze_of_pages_with_texts_of_their_own_ends_however_its_addresses_look() {
    let word = |n: u64| babble(&n.to_string()).split(' ').take(2).collect::<Vec<_>>().join("-");
    let numbers = |path: &str| maze_page(path, |n| format!("/maze/{}", n % 1_000_000_007));
    let words = move |path: &str| maze_page(path, |n| format!("/maze/{}/{}", word(n), word(!n)));
    let queries = |path: &str| maze_page(path, |n| format!("/page.php?id={n:x}"));
    let deeper = move |path: &str| {
        let base = path.trim_end_matches('/').to_string();
        maze_page(path, |n| format!("{base}/{}/", word(n)))
    };
    for (name, pages) in [
        ("numbers", pages_crawled(numbers)),
        ("words", pages_crawled(words)),
        ("queries", pages_crawled(queries)),
        ("deeper", pages_crawled(deeper)),
    ] {
        println!("a maze of {name}: {pages} pages");
        assert!((100..1_500).contains(&pages), "{name}: {pages} pages");
    }
}

/// A month or a day on which nothing happens, with those before and after it.
fn empty_day(what: &str, links: &[String]) -> SiteReply {
    let links: String = links.iter().map(|link| format!("<a href='{link}'>other</a> ")).collect();
    SiteReply::html(format!(
        "<title>{what}</title><h1>Events of {what}</h1><p>Nothing is planned.</p>{links}"
    ))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// The month before (-1) or after (1).
fn month_by(year: i64, month: i64, by: i64) -> (i64, i64) {
    let months = year * 12 + month - 1 + by;
    (months.div_euclid(12), months.rem_euclid(12) + 1)
}

#[test]
fn calendars_that_go_on_for_ever_forward_and_back_end() {
    let numbers = |text: &str| -> Vec<i64> {
        text.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse().ok()).collect()
    };
    let title = |year: i64, month: i64| format!("{} {year}", MONTHS[month as usize - 1]);
    let paths = move |path: &str| {
        let found = numbers(path);
        let (year, month) = (*found.first().unwrap_or(&2026), *found.get(1).unwrap_or(&11));
        if let Some(day) = found.get(2) {
            return empty_day(
                &format!("{day} {}", title(year, month)),
                &[format!("/calendar/{year}/{month:02}/")],
            );
        }
        let others = [1, -1].map(|by| month_by(year, month, by));
        let months = others.map(|(year, month)| format!("/calendar/{year}/{month:02}/"));
        let days = (1..=28).map(|day| format!("/calendar/{year}/{month:02}/{day:02}"));
        empty_day(&title(year, month), &months.into_iter().chain(days).collect::<Vec<_>>())
    };
    let queries = move |path: &str| {
        let found = numbers(path);
        let (month, year) = (*found.first().unwrap_or(&11), *found.get(1).unwrap_or(&2026));
        let others = [1, -1].map(|by| month_by(year, month, by));
        empty_day(&title(year, month), &others.map(|(year, month)| format!("/?month={month}&year={year}")))
    };
    // Weeks by their number from today, which no rule on years sees.
    let weeks = |path: &str| {
        let week: i64 = path.split_once("week=").and_then(|(_, week)| week.parse().ok()).unwrap_or(0);
        empty_day(&format!("week {week}"), &[1, -1].map(|by| format!("/events?week={}", week + by)))
    };
    for (name, pages) in [
        ("paths", pages_crawled(paths)),
        ("queries", pages_crawled(queries)),
        ("weeks", pages_crawled(weeks)),
    ] {
        println!("a calendar of {name}: {pages} pages");
        assert!((20..200).contains(&pages), "{name}: {pages} pages");
    }
}
