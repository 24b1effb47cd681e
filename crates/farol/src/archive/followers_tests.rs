//! Tests of the followers: what is news, what is asked for, what is let in.

use super::*;
use crate::archive::not_asked::NotAsked;
use crate::archive::{Opened, replay};
use crate::folder::Folder;
use farol_store::pages::{Exchange, encode};

fn url(text: &str) -> CanonicalUrl {
    CanonicalUrl::parse(text).unwrap()
}

fn opened(dir: &tempfile::TempDir) -> Opened {
    opened_with(dir, &Config::default())
}

fn opened_with(dir: &tempfile::TempDir, config: &Config) -> Opened {
    let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
    let fabric = Fabric::local(&folder.tables()).unwrap();
    crate::archive::open(&folder, config, fabric, false).unwrap()
}

#[test]
fn a_page_out_of_scope_is_not_one_that_robots_txt_forbids() {
    let dir = tempfile::tempdir().unwrap();
    let mut followers = opened(&dir).followers;
    let seed = url("http://a.org/");
    followers.add_seed(&seed).unwrap();
    let rules = b"User-agent: *\nDisallow: /x";
    let parsed = Robots::parse(rules, "farol");
    followers.hosts.set_robots(&seed.host(), 200, rules, parsed, Timestamp::from_secs(1)).unwrap();
    for (text, want) in [
        ("http://a.org/y", None),
        ("http://a.org/x", Some(NotAsked::Robots)),
        ("http://b.org/x", Some(NotAsked::OutOfScope)),
    ] {
        assert_eq!(followers.not_asked(&url(text)).unwrap(), want, "{text}");
    }
    followers.remove_host(&seed.host(), PagePosition::default()).unwrap();
    assert_eq!(followers.not_asked(&url("http://a.org/y")).unwrap(), Some(NotAsked::OutOfScope));
}

/// Archives an answer of this second and takes it in.
fn visit(opened: &mut Opened, address: &str, second: u64, status: u16, body: &'static str) {
    let exchange = Exchange {
        url: url(address),
        fetched: Timestamp::from_secs(second),
        address: None,
        status,
        request_head: Vec::new(),
        response_head: format!("HTTP/1.1 {status} X\r\nContent-Type: text/html\r\n\r\n").into_bytes(),
        body: body.into(),
        truncated: None,
        protocol: "http/1.1".to_string(),
        revisit_of: None,
        metadata: Vec::new(),
    };
    let encoded = encode(&exchange, &mut farol_base::Seeded::new(second), 1);
    let position = opened.archive.append(&[encoded]).unwrap()[0];
    let Opened { followers, interpreter, .. } = opened;
    replay::apply(followers, interpreter, &exchange.into(), position, FollowerSet::ALL).unwrap();
}

#[test]
fn news_is_newer_than_the_last_answer_whatever_came_after() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = opened(&dir);
    #[track_caller]
    fn check(opened: &Opened, second: u64, want: bool) {
        let (page, at) = (url("http://a.org/p"), Timestamp::from_secs(second));
        assert_eq!(opened.followers.is_news(&page, at, &opened.archive.reader()).unwrap(), want, "{second}");
    }
    check(&opened, 0, true); // Nothing is known yet.
    visit(&mut opened, "http://a.org/", 50, 200, "<a href=/p>p</a>");
    check(&opened, 0, true); // Only found.
    visit(&mut opened, "http://a.org/p", 100, 200, "text");
    for (second, want) in [(99, false), (100, false), (101, true)] {
        check(&opened, second, want);
    }
    // No answer at 300: what is known of the page is still of 100.
    opened.followers.failed(&url("http://a.org/p"), Timestamp::from_secs(300)).unwrap();
    for (second, want) in [(100, false), (200, true), (301, true)] {
        check(&opened, second, want);
    }
    let again = Timestamp::from_secs(500);
    let (page, at) = (url("http://a.org/p"), Timestamp::from_secs(400));
    for why in [NotAsked::Robots, NotAsked::OutOfScope] {
        opened.followers.refused(&page, why, at, again).unwrap();
    }
    check(&opened, 100, false);
    check(&opened, 200, true);
    visit(&mut opened, "http://a.org/p", 600, 404, "");
    check(&opened, 600, false);
    check(&opened, 601, true);
}

#[test]
fn rules_from_a_clock_that_ran_ahead_do_not_hold_for_years() {
    let dir = tempfile::tempdir().unwrap();
    let mut opened = opened(&dir);
    visit(&mut opened, "http://a.org/robots.txt", 40_000_000_000, 200, "User-agent: *\nDisallow: /x");
    let host = url("http://a.org/").host();
    let valid_until = opened.followers.hosts.enter(&host, 0).unwrap().robots_valid_until.unwrap();
    assert!(valid_until <= SystemClock.now() + farol_frontier::ROBOTS_VALID);
}

#[test]
fn pages_that_the_seen_cache_forgot_do_not_fill_their_host() {
    let dir = tempfile::tempdir().unwrap();
    let mut config = Config::default();
    config.crawl.pages_per_host_max = 10;
    let found = |numbers: std::ops::Range<u32>| -> Vec<Found> {
        numbers.map(|n| Found { url: url(&format!("http://a.org/{n}")), depth: 1, hint: None }).collect()
    };
    let mut first = opened_with(&dir, &config).followers;
    first.add_seed(&url("http://a.org/0")).unwrap();
    first.find(found(0..6)).unwrap();
    first.urls.compact_all().unwrap();
    first.flush(PagePosition::default()).unwrap();
    drop(first);
    // What the seen cache knew is gone with the process, so these are counted again, twelve pages in all.
    let mut again = opened_with(&dir, &config).followers;
    assert!(!again.urls.knows(&url("http://a.org/1")));
    again.find(found(0..6)).unwrap();
    again.urls.compact_all().unwrap();
    // Of twenty new ones four are let in: the limit holds, for pages that are there.
    again.find(found(100..120)).unwrap();
    again.urls.compact_all().unwrap();
    let host = url("http://a.org/").host();
    assert_eq!(again.urls.host_counts(&host).unwrap().known, 10);
    assert_eq!(again.urls.known_at_most(&host), 10);
    again.find(found(200..220)).unwrap();
    again.urls.compact_all().unwrap();
    assert_eq!(again.urls.host_counts(&host).unwrap().known, 10);
}
