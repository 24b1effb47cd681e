//! Sites whose robots.txt is meant to hurt.

use crate::fixture::{Data, Farol, PATIENCE};
use crate::site::{Site, SiteReply};
use std::fmt::Write;
use std::time::Instant;

fn robots(body: String) -> SiteReply {
    SiteReply { status: 200, headers: vec!["Content-Type: text/plain".to_string()], body }
}

fn links(count: usize, href: impl Fn(usize) -> String) -> String {
    let mut page = "<title>links</title>".to_string();
    (0..count).for_each(|i| write!(page, "<a href=\"{}\">x</a> ", href(i)).unwrap());
    page
}

#[test]
fn rules_that_take_long_to_judge_do_not_hold_other_hosts_up() {
    // Rules that nearly match long paths, and others with more wildcards than anybody needs.
    let mut rules = "User-agent: *\nAllow: /$\n".to_string();
    for i in 0..1_000 {
        writeln!(rules, "Disallow: /*{}b*{i}", "a".repeat(200)).unwrap();
    }
    (0..200).for_each(|i| writeln!(rules, "Disallow: /{}{i}", "*a".repeat(600)).unwrap());
    let site = Site::start(move |host, path| match (host, path) {
        ("evil.test", "/robots.txt") => robots(rules.clone()),
        ("evil.test", "/") => SiteReply::html(links(5_000, |i| format!("/{}{i}", "a".repeat(900)))),
        (_, "/robots.txt") => SiteReply::missing(),
        ("good.test", "/") => SiteReply::html(links(200, |i| format!("/page{i}"))),
        (_, path) => SiteReply::html(format!("<title>{path}</title>words of {path}")),
    });
    let data = Data::new();
    let mut flags = site.flags(&["evil.test", "good.test"]);
    flags.extend(["http://evil.test/".to_string(), "http://good.test/".to_string()]);
    let mut farol = Farol::start(&data, "up", &flags);
    let begun = Instant::now();
    farol.wait_for("the good host's pages", |_| {
        site.asked().keys().filter(|url| url.starts_with("good.test/page")).count() == 200
    });
    assert!(begun.elapsed() < PATIENCE / 2);
    // What cannot be judged is not asked for.
    let asked = site.asked();
    assert_eq!(asked.keys().filter(|url| url.starts_with("evil.test/a")).count(), 0, "{asked:?}");
    assert!(farol.get("/metrics").body.contains("\nfarol_robots_bytes "));
    farol.interrupt();
}

#[test]
fn a_hundred_hosts_with_huge_robots_txt_are_crawled_in_bounded_memory_and_obeyed() {
    let mut rules = "User-agent: *\nDisallow: /no\n".to_string();
    (0..40_000).for_each(|i| writeln!(rules, "allow:/{i:x}").unwrap());
    assert!(rules.len() < 500 << 10);
    let hosts = 100;
    let site = Site::start(move |host, path| match (host, path) {
        ("seed.test", "/robots.txt") => SiteReply::missing(),
        ("seed.test", "/") => SiteReply::html(links(hosts, |i| format!("http://h{i}.evil.test/"))),
        (_, "/robots.txt") => robots(rules.clone()),
        (_, "/") => SiteReply::html(format!(
            "<title>{host}</title>words of {host} <a href=/yes>y</a> <a href=/no>n</a>"
        )),
        (_, path) => SiteReply::html(format!("<title>{host}{path}</title>more words of {host}{path}")),
    });
    let data = Data::new();
    let mut flags = site.flags(&["seed.test", "*.evil.test"]);
    flags.extend(["--scope", "web", "http://seed.test/"].map(String::from));
    let mut farol = Farol::start(&data, "up", &flags);
    farol.wait_for("a page of each host", |_| {
        site.asked().keys().filter(|url| url.ends_with(".evil.test/yes")).count() == hosts
    });
    let asked = site.asked();
    assert_eq!(asked.keys().filter(|url| url.ends_with("/no")).count(), 0);
    let metrics = farol.get("/metrics").body;
    let gauge = metrics.lines().find_map(|line| line.strip_prefix("farol_robots_bytes ")).unwrap();
    let bytes: u64 = gauge.parse().unwrap();
    assert!(bytes <= 64 << 20, "{bytes} bytes of rules");
    farol.interrupt();
}
