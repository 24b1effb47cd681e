//! Hosts that want more than their share: of places, of other servers' patience, of our time.

use crate::fixture::{Data, Farol, PATIENCE};
use crate::site::{Asked, Site, SiteReply};
use std::fmt::Write;
use std::time::{Duration, Instant};

fn links(urls: impl Iterator<Item = String>) -> SiteReply {
    let mut page = "<title>links</title>".to_string();
    urls.for_each(|url| write!(page, "<a href=\"{url}\">x</a> ").unwrap());
    SiteReply::html(page)
}

fn page(words: &str) -> SiteReply {
    SiteReply::html(format!("<title>{words}</title>words of {words}"))
}

fn moved(to: &str) -> SiteReply {
    SiteReply { status: 302, headers: vec![format!("Location: {to}")], body: String::new() }
}

fn robots(body: &str) -> SiteReply {
    SiteReply { status: 200, headers: vec!["Content-Type: text/plain".to_string()], body: body.to_string() }
}

/// Flags that lead a crawler to the site: hosts, each with the last number of its address.
fn flags(site: &Site, delay: &str, hosts: &[(&str, u8)], seeds: &[&str]) -> Vec<String> {
    let mut flags: Vec<String> =
        ["--allow-private", "--scope", "web", "--delay", delay].map(String::from).to_vec();
    for (host, last) in hosts {
        flags.extend(["--resolve".to_string(), format!("{host}=127.0.0.{last}:{}", site.port())]);
    }
    flags.extend(seeds.iter().map(|seed| seed.to_string()));
    flags
}

/// The shortest time between two requests that follow one another.
fn least_gap(asked: &[Asked]) -> Duration {
    asked.windows(2).map(|pair| pair[1].at - pair[0].at).min().unwrap_or(Duration::MAX)
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn a_domain_of_thousands_of_names_does_not_keep_others_out() {
    // Each name links to more; all are one machine, which bears ten requests a second: hours of work.
    let names = 3_000;
    let site = Site::start_at(3, move |host, path| match (host, path) {
        (_, "/robots.txt") => SiteReply::missing(),
        ("seed.test", "/") => {
            links((0..names).map(|n| format!("http://n{n}.trap.test/")).chain(["/late".into()]))
        }
        ("seed.test", _) => links((0..12).map(|n| format!("http://good{n}.test/"))),
        (host, _) if host.ends_with("trap.test") => {
            let n: usize = host[1..].split('.').next().unwrap().parse().unwrap();
            links((0..100).map(|k| format!("http://n{}.trap.test/", n * 100 + k)))
        }
        (host, "/") => links((0..3).map(|n| format!("http://{host}/{n}"))),
        (host, path) => page(&format!("{host}{path}")),
    });
    let data = Data::new();
    data.configure("[crawl]\nhosts_max = 160\n");
    let hosts = [("seed.test", 1), ("*.trap.test", 2), ("*.test", 3)];
    let mut farol = Farol::start(&data, "up", &flags(&site, "100ms", &hosts, &["http://seed.test/"]));
    wait_until("every page of the good hosts", || {
        let asked = site.asked_at(3);
        asked.iter().filter(|asked| !asked.url.ends_with("robots.txt")).count() >= 12 * 4
    });
    // 12 hosts with 4 pages and a robots.txt each, at one address, take 6 s by themselves.
    let trapped = site.asked_at(2);
    assert!(trapped.len() < 400, "{} requests to the trap came first", trapped.len());
    assert!(trapped.len() > 10, "it has its share");
    assert!(least_gap(&trapped) >= Duration::from_millis(95), "{:?}", least_gap(&trapped));
    let metrics = farol.get("/metrics").body;
    let sent_away =
        metrics.lines().find_map(|line| line.strip_prefix("farol_hosts_sent_away_total ")).unwrap();
    assert!(sent_away.parse::<u64>().unwrap() > 1_000, "{sent_away} were put off");
    for gauge in [
        "farol_crawl_connections",
        "farol_crawl_visits",
        "farol_crawl_body_bytes",
        "farol_shape_hosts",
        "farol_shape_texts",
    ] {
        assert!(metrics.contains(&format!("\n{gauge} ")), "{metrics}");
    }
    farol.interrupt();
}

#[test]
fn robots_txt_that_leads_to_a_third_party_is_asked_for_at_that_ones_pace() {
    let site = Site::start_at(9, |host, path| match (host, path) {
        ("seed.test", "/") => links((0..6).map(|n| format!("http://evil{n}.test/"))),
        ("seed.test", _) => SiteReply::missing(),
        (host, "/robots.txt") if host.starts_with("evil") => {
            let name = host.split('.').next().unwrap();
            moved(&format!("http://{name}.victim.test/expensive?search={host}"))
        }
        (host, _) if host.ends_with("victim.test") => robots("User-agent: *\nDisallow: /no\n"),
        (_, "/") => links(["/yes", "/no"].map(String::from).into_iter()),
        (host, path) => page(&format!("{host}{path}")),
    });
    let data = Data::new();
    let names: Vec<String> = (0..6).map(|n| format!("evil{n}.test")).collect();
    let mut hosts = vec![("seed.test", 1), ("*.victim.test", 2)];
    hosts.extend(names.iter().enumerate().map(|(n, name)| (name.as_str(), 3 + n as u8)));
    let farol = Farol::start(&data, "up", &flags(&site, "300ms", &hosts, &["http://seed.test/"]));
    wait_until("the pages of all hosts", || {
        (3..9).all(|last| site.asked_at(last).iter().any(|asked| asked.url.ends_with("/yes")))
    });
    let victim = site.asked_at(2);
    assert_eq!(victim.len(), 6, "{victim:?}");
    assert!(least_gap(&victim) >= Duration::from_millis(290), "{:?}", least_gap(&victim));
    // What is said there binds the hosts that point there.
    assert!(site.asked().keys().all(|url| !url.ends_with("/no")));
    farol.interrupt();
}

#[test]
fn a_robots_txt_that_did_not_come_whole_forbids_everything_for_now() {
    // One breaks off before its end, one is longer than anybody must read: that one is read as far as that goes.
    let long = format!("User-agent: *\nDisallow: /0\n{}Disallow: /1\n", "# nothing\n".repeat(60_000));
    let site = Site::start(move |host, path| match (host, path) {
        ("cut.test", "/robots.txt") => SiteReply {
            status: 200,
            headers: vec!["Content-Type: text/plain".into(), "Content-Length: 1000".into()],
            body: "User-agent: *\nAllow: /\n".into(),
        },
        ("long.test", "/robots.txt") => robots(&long),
        (_, "/robots.txt") => SiteReply::missing(),
        (host, "/") => links((0..3).map(|n| format!("http://{host}/{n}"))),
        (host, path) => page(&format!("{host}{path}")),
    });
    let data = Data::new();
    let hosts = [("cut.test", 1), ("long.test", 1), ("whole.test", 1)];
    let seeds = ["http://cut.test/", "http://long.test/", "http://whole.test/"];
    let farol = Farol::start(&data, "up", &flags(&site, "10ms", &hosts, &seeds));
    wait_until("the other hosts", || {
        ["long.test/2", "whole.test/2"].iter().all(|url| site.asked().contains_key(*url))
    });
    let asked = site.asked();
    assert!(asked.contains_key("long.test/1") && !asked.contains_key("long.test/0"), "{asked:?}");
    assert!(asked.contains_key("cut.test/robots.txt"), "{asked:?}");
    assert_eq!(asked.keys().filter(|url| url.starts_with("cut.test")).count(), 1, "{asked:?}");
    farol.interrupt();
}

#[test]
fn servers_that_stall_do_not_hold_the_end_up() {
    let site = Site::start(|_, path| {
        if path != "/robots.txt" {
            std::thread::sleep(PATIENCE);
        }
        SiteReply::missing()
    });
    let data = Data::new();
    let farol =
        Farol::start(&data, "up", &flags(&site, "10ms", &[("stalls.test", 1)], &["http://stalls.test/"]));
    wait_until("a page to be asked for", || site.asked().contains_key("stalls.test/"));
    let begun = Instant::now();
    farol.interrupt();
    assert!(begun.elapsed() < Duration::from_secs(15), "it took {:?}", begun.elapsed());
    // Nothing is lost: the page is asked for again.
    let farol = Farol::start(&data, "up", &flags(&site, "10ms", &[("stalls.test", 1)], &[]));
    wait_until("the page to be asked for again", || site.asked()["stalls.test/"] == 2);
    farol.kill();
}

#[test]
fn pauses_outlive_a_kill() {
    let site = Site::start(|host, path| match path {
        "/robots.txt" => robots("User-agent: *\nCrawl-delay: 2\n"),
        "/" => links((0..50).map(|n| format!("http://{host}/{n}"))),
        path => page(path),
    });
    let data = Data::new();
    let hosts = [("slow.test", 1)];
    for run in 0..3 {
        let asked_before = site.asked_at(1).len();
        let farol = Farol::start(&data, "up", &flags(&site, "100ms", &hosts, &["http://slow.test/"]));
        wait_until("a request", || site.asked_at(1).len() > asked_before + usize::from(run == 0));
        farol.kill();
    }
    let asked = site.asked_at(1);
    assert!(asked.len() >= 4, "{asked:?}");
    assert!(least_gap(&asked) >= Duration::from_millis(1_950), "{:?} of {asked:?}", least_gap(&asked));
}
