//! Sites that never end, crawled without an index: a crawl of them ends all the same.

use crate::fixture::{Data, Farol};
use crate::site::{Site, SiteReply};

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
