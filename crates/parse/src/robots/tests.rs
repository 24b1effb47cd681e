//! What RFC 9309 and Google's published parser and its tests say, as tables.

use super::pattern::{Matched, Pattern, Work};
use super::*;
use proptest::prelude::*;

fn allows(robots: &Robots, path: &str) -> bool {
    robots.verdict(path).is_allowed()
}

#[track_caller]
fn check(file: &str, agent: &str, allowed: &[&str], refused: &[&str]) {
    let robots = Robots::parse(file.as_bytes(), agent);
    for path in allowed {
        assert!(allows(&robots, path), "{agent} {path} in\n{file}");
    }
    for path in refused {
        assert!(!allows(&robots, path), "{agent} {path} in\n{file}");
    }
}

#[test]
fn the_simplest_files() {
    check("", "FooBot", &["/", "/x"], &[]);
    check("user-agent: FooBot\ndisallow: /\n", "FooBot", &["/robots.txt", "/robots.txt?x"], &["/", "/x"]);
    check("user-agent: FooBot\ndisallow: /\n", "", &["/x"], &[]);
    check("foo: FooBot\nbar: /\n", "FooBot", &["/x"], &[]);
    check("user-agent FooBot\ndisallow /\n", "FooBot", &[], &["/x"]);
    check("<!doctype html><title>404: not found</title>\n<p>disallow me: /</p>", "FooBot", &["/x"], &[]);
}

#[test]
fn groups_are_merged_and_rules_outside_ignored() {
    let file = "allow: /foo/bar/\n\nuser-agent: FooBot\ndisallow: /\nallow: /x/\nuser-agent: BarBot\n\
                disallow: /\nallow: /y/\n\n\nallow: /w/\nuser-agent: BazBot\n\nuser-agent: FooBot\n\
                allow: /z/\ndisallow: /\n";
    check(file, "FooBot", &["/x/b", "/z/d"], &["/y/c", "/foo/bar/"]);
    check(file, "BarBot", &["/y/c", "/w/a"], &["/z/d", "/foo/bar/"]);
    check(file, "BazBot", &["/z/d"], &["/foo/bar/"]);
}

#[test]
fn other_lines_do_not_end_a_group() {
    for other in ["Sitemap: https://foo.bar/sitemap", "Invalid-Unknown-Line: unknown", "Crawl-delay: 5"] {
        let file = format!("User-agent: BarBot\n{other}\nUser-agent: *\nDisallow: /\n");
        check(&file, "FooBot", &[], &["/x"]);
        check(&file, "BarBot", &[], &["/x"]);
        let file = format!("User-agent: FooBot\n{other}\nUser-agent: *\nDisallow: /\n");
        check(&file, "FooBot", &[], &["/x"]);
    }
}

#[test]
fn case_matters_in_paths_only() {
    for file in
        ["USER-AGENT: FooBot\nALLOW: /x/\nDISALLOW: /\n", "uSeR-aGeNt: fOObOT\naLLoW: /x/\ndIsAlLoW: /\n"]
    {
        for agent in ["FooBot", "foobot", "FOOBOT"] {
            check(file, agent, &["/x/y"], &["/a/b", "/X/y"]);
        }
    }
}

#[test]
fn an_agent_is_its_product_token() {
    let file = "User-Agent: *\nDisallow: /\nUser-Agent: Foo Bar\nAllow: /x/\nDisallow: /\n";
    check(file, "Foo", &["/x/y"], &["/z"]);
    check("user-agent: FooBot/2.1\ndisallow: /", "FooBot", &[], &["/"]);
    check("user-agent: FooBot\ndisallow: /", "FooBot/0.1 (+https://foo.bar/bot)", &[], &["/"]);
    check("user-agent: FooBot-News\ndisallow: /", "FooBot", &["/"], &[]); // Another product.
    check("user-agent: Foo\ndisallow: /", "FooBot", &["/"], &[]); // No prefix counts.
    check("user-agent: * # all\ndisallow: /", "FooBot", &[], &["/"]);
    check("user-agent: * baz\ndisallow: /", "FooBot", &[], &["/"]);
    check("user-agent: *bot\ndisallow: /", "FooBot", &["/"], &[]);
}

#[test]
fn everybodys_group_counts_only_without_our_own() {
    let file = "user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n";
    check(file, "FooBot", &[], &["/x"]);
    check(file, "BarBot", &["/x"], &[]);
    check("user-agent: FooBot\nallow: /\nuser-agent: BarBot\ndisallow: /\n", "QuxBot", &["/x"], &[]);
    // Our group is there, though it says nothing.
    check("user-agent: *\ndisallow: /\n\nuser-agent: FooBot\ndisallow:\n", "FooBot", &["/x"], &[]);
    check("user-agent: FooBot\ndisallow:\nuser-agent: *\ndisallow: /\n", "FooBot", &["/x"], &[]);
}

#[test]
fn the_longest_rule_decides() {
    let of = |rules: &str| format!("user-agent: FooBot\n{rules}");
    check(&of("disallow: /x/page.html\nallow: /x/\n"), "FooBot", &["/x/"], &["/x/page.html"]);
    check(&of("allow: /x/page.html\ndisallow: /x/\n"), "FooBot", &["/x/page.html"], &["/x/", "/x/p"]);
    check(&of("disallow: \nallow: \n"), "FooBot", &["/x/page.html"], &[]);
    check(&of("disallow: /\nallow: /\n"), "FooBot", &["/x/page.html"], &[]); // A tie.
    check(&of("disallow: /x\nallow: /x/\n"), "FooBot", &["/x/"], &["/x"]);
    check(&of("disallow: /x/page.html\nallow: /x/page.html\n"), "FooBot", &["/x/page.html"], &[]);
    check(&of("allow: /page\ndisallow: /*.html\n"), "FooBot", &["/page"], &["/page.html"]);
    check(&of("allow: /x/page.\ndisallow: /*.html\n"), "FooBot", &["/x/page.html"], &["/x/y.html"]);
    check(&of("allow: /p\ndisallow: /\n"), "FooBot", &["/page"], &["/x"]);
    check(&of("allow: /folder\ndisallow: /folder\n"), "FooBot", &["/folder/page"], &[]);
    check(&of("allow: /page\ndisallow: /*.htm\n"), "FooBot", &[], &["/page.htm"]);
    check(&of("allow: /$\ndisallow: /\n"), "FooBot", &["/"], &["/page.html"]);
}

#[test]
fn special_characters() {
    let of = |rules: &str| format!("user-agent: FooBot\n{rules}");
    check(
        &of("Disallow: /foo/bar/quz\nAllow: /foo/*/qux\n"),
        "FooBot",
        &["/foo/bar/qux", "/foo/bax"],
        &["/foo/bar/quz"],
    );
    check(
        &of("Disallow: /foo/bar$\nAllow: /foo/bar/qux\n"),
        "FooBot",
        &["/foo/bar/qux", "/foo/bar/"],
        &["/foo/bar"],
    );
    check(&of("# Disallow: /\nDisallow: /foo/quz#qux\nAllow: /\n"), "FooBot", &["/foo/bar"], &["/foo/quz"]);
    check(
        &of("Disallow: /\nAllow: /foo/bar?qux=taz&baz=http://foo.bar?tar&par\n"),
        "FooBot",
        &["/foo/bar?qux=taz&baz=http://foo.bar?tar&par"],
        &["/foo/bar"],
    );
    check(
        &of("Disallow: /\nAllow: /foo/bar/ツ\n"),
        "FooBot",
        &["/foo/bar/%E3%83%84"],
        &["/foo/bar/%E3%83%85"],
    );
    check(&of("Disallow: /\nAllow: /foo/bar/%E3%83%84\n"), "FooBot", &["/foo/bar/%E3%83%84"], &["/foo/bar/"]);
    // RFC 9309 §2.2.2; Google's parser says no to the second path.
    check(
        &of("Disallow: /\nAllow: /foo/bar/%62%61%7A\n"),
        "FooBot",
        &["/foo/bar/%62%61%7A", "/foo/bar/baz"],
        &["/foo"],
    );
}

#[test]
fn who_allows_the_index_allows_its_folder() {
    let file = "User-Agent: *\nAllow: /allowed-slash/index.html\nDisallow: /\n";
    check(
        file,
        "foobot",
        &["/allowed-slash/", "/allowed-slash/index.html"],
        &["/allowed-slash/index.htm", "/any"],
    );
    check("user-agent: *\ndisallow: /a/index.html", "foobot", &["/a/"], &["/a/index.html"]);
}

#[test]
fn only_half_a_megabyte_is_read() {
    let mut file = format!("user-agent: FooBot\n{}disallow: /late\n", "# filler\n".repeat(60_000));
    assert!(file.len() > ROBOTS_BYTES_MAX);
    check(&file, "FooBot", &["/late"], &[]);
    file.insert_str(0, "user-agent: FooBot\ndisallow: /early\n");
    check(&file, "FooBot", &["/late"], &["/early"]);
    // The rule at the limit is left out rather than read as "Disallow: /".
    let head = "user-agent: FooBot\ndisallow: /x\n";
    let filler = "#".repeat(ROBOTS_BYTES_MAX - head.len() - "\ndisallow: /".len());
    check(&format!("{head}{filler}\ndisallow: /some/folder\n"), "FooBot", &["/y"], &["/x"]);
    // A line that is too long is cut, not left out.
    let long = format!("user-agent: FooBot\ndisallow: /x/{}/qux\n", "a".repeat(17_000));
    check(&long, "FooBot", &["/fux"], &[&format!("/x/{}/fux", "a".repeat(17_000))]);
}

#[test]
fn delays_and_sitemaps() {
    let delay =
        |file: &str| Robots::parse(file.as_bytes(), "farol").crawl_delay().map(|delay| delay.as_secs_f64());
    assert_eq!(delay("user-agent: *\ncrawl-delay: 10"), Some(10.0));
    assert_eq!(delay("user-agent: *\ncrawl-delay: 0.25\ndisallow: /x"), Some(0.25));
    assert_eq!(delay("user-agent: farol\ncrawl-delay: 3\n\nuser-agent: *\ncrawl-delay: 9"), Some(3.0));
    assert_eq!(delay("user-agent: farol\ndisallow: /x\n\nuser-agent: *\ncrawl-delay: 9"), None); // Ours says nothing.
    assert_eq!(delay("user-agent: msnbot\ncrawl-delay: 9\n\nuser-agent: *\ndisallow: /x"), None);
    assert_eq!(delay("user-agent: *\ncrawl-delay: 1\ncrawl-delay: 4\ncrawl-delay: 2"), Some(4.0));
    assert_eq!(delay("user-agent: *\ncrawl-delay: 1e30"), Some(86_400.0));
    for nonsense in ["", "-1", "NaN", "ten", "1 2", "\u{ff11}"] {
        assert_eq!(delay(&format!("user-agent: *\ncrawl-delay: {nonsense}")), None, "{nonsense}");
    }
    let robots =
        Robots::parse(b"sitemap: http://h/a\nuser-agent: x\ndisallow: /\nSitemap: /b\nsitemap:", "farol");
    assert_eq!(robots.sitemaps(), ["http://h/a", "/b"]);
    assert_eq!(
        Robots::parse("sitemap: /x\n".repeat(5_000).as_bytes(), "farol").sitemaps().len(),
        SITEMAPS_MAX
    );
}

#[test]
fn a_verdict_names_its_rule() {
    let robots =
        Robots::parse(b"user-agent: *\nallow: /a/b$\ndisallow: /A\ndisallow: /a\ndisallow: /a", "farol");
    assert_eq!(robots.verdict("/a/b"), Verdict::Allowed { rule: Some("Allow: /a/b$".into()) });
    assert_eq!(robots.verdict("/a/c"), Verdict::Refused { rule: "Disallow: /a".into() });
    assert_eq!(robots.verdict("/c"), Verdict::Allowed { rule: None });
    let refuse_all = Robots::parse(b"user-agent: *\ndisallow: /", "farol");
    assert_eq!(refuse_all.verdict("/"), Verdict::Refused { rule: "Disallow: /".into() });
    assert_eq!(refuse_all.verdict("/robots.txt"), Verdict::Allowed { rule: None });
    assert_eq!(Robots::default().verdict("/"), Verdict::Allowed { rule: None });
    assert_eq!(robots.rules.len(), 3);
}

#[test]
fn wildcards_do_not_explode() {
    let pattern = format!("/{}b", "a*".repeat(8_000));
    let robots = Robots::parse(format!("user-agent: *\ndisallow: {pattern}").as_bytes(), "farol");
    assert!(allows(&robots, &format!("/{}", "b".repeat(2_000))));
    // Beyond so many wildcards, what follows no longer matters.
    assert!(!allows(&robots, &format!("/{}", "a".repeat(2_000))));
    let many = "disallow: /*a*b*c*d$\n".repeat(20_000);
    let robots = Robots::parse(format!("user-agent: *\n{many}").as_bytes(), "farol");
    assert_eq!(robots.rules.len(), 1);
    assert!(allows(&robots, &format!("/{}", "abc".repeat(600))));
}

proptest! {
    #[test]
    fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..400), path in ".{0,60}") {
        let _ = Robots::parse(&bytes, "farol").verdict(&path);
    }

    #[test]
    fn no_file_breaks_it(
        lines in proptest::collection::vec("(user-agent|allow|disallow|crawl-delay|sitemap):? ?(farol|\\*|[/a*$%2]{0,6}|[0-9.]{1,3})", 0..20),
        path in "/[a%2/]{0,6}",
    ) {
        let robots = Robots::parse(lines.join("\n").as_bytes(), "farol");
        // The judge: every rule in turn, the longest that matches, Allow on a tie.
        let normal = pattern::normal_path(&path);
        let is_match = |pattern: &Pattern<'_>| pattern.matches(&normal, &mut Work::new(usize::MAX)) == Matched::Yes;
        let matching = robots.rules.each().filter(|(pattern, ..)| is_match(pattern));
        let best = matching.max_by_key(|(_, octets, allow)| (*octets, *allow));
        prop_assert_eq!(robots.verdict(&path).is_allowed(), best.is_none_or(|(.., allow)| allow));
    }
}
