//! Sites that look endless and are not: each of their pages is fetched.

use crate::fixture::{Data, Farol, PATIENCE};
use crate::site::{Site, SiteReply};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// An article of its own; all of them have addresses of one pattern.
fn article(number: usize) -> String {
    let words: String = (0..60).map(|word| format!("w{} ", (number * 31 + word * 17) % 5000)).collect();
    format!("<title>Article {number}</title><p>unique{number}x {words}</p>")
}

fn number_of(path: &str) -> Option<usize> {
    path.strip_prefix("/article/")?.parse().ok()
}

/// How many articles of a host were asked for, and how often the least asked of the first hundred was.
fn articles(site: &Site, host: &str) -> (usize, u64) {
    let asked = site.asked();
    let of_host = asked
        .iter()
        .filter_map(|(page, count)| number_of(page.strip_prefix(host)?).map(|number| (number, *count)));
    let counts: std::collections::BTreeMap<usize, u64> = of_host.collect();
    let least = counts.range(1..=100).map(|(_, count)| *count).min().unwrap_or(0);
    (counts.len(), least)
}

#[track_caller]
fn wait(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn new_numbered_pages_are_fetched_however_often_the_old_ones_were() {
    let count = Arc::new(AtomicUsize::new(100));
    let (shown, served) = (count.clone(), AtomicUsize::new(0));
    let site = Site::start(move |_, path| {
        // Never the same bytes twice, so that each visit brings the page anew; its text stays.
        let nonce = format!("<!-- {} -->", served.fetch_add(1, Ordering::SeqCst));
        let shown = shown.load(Ordering::SeqCst);
        match (path, number_of(path)) {
            ("/", _) => {
                let links = (1..=shown).map(|n| format!("<a href='/article/{n}'>Article {n}</a> "));
                SiteReply::html(format!("{nonce}<title>Home</title>{}", links.collect::<String>()))
            }
            (_, Some(number)) => SiteReply::html(nonce + &article(number)),
            _ => SiteReply::missing(),
        }
    });
    let data = Data::new();
    data.configure(
        "[crawl]\nrevisit = 'interval'\nrevisit_min = '500ms'\nrevisit_first = '500ms'\nrevisit_max = '1s'\n",
    );
    let mut arguments = site.flags(&["site.test"]);
    arguments.push("http://site.test/".to_string());
    let mut farol = Farol::start(&data, "up", &arguments);
    // As many visits as would make half of all pages copies, were a page a copy of itself.
    wait("three visits to each page", || articles(&site, "site.test") >= (100, 3));
    count.store(200, Ordering::SeqCst);
    wait("the second hundred", || articles(&site, "site.test").0 == 200);
    farol.wait_for("the second hundred in the index", |status| {
        status["index"]["documents"].as_u64() >= Some(201)
    });
    farol.interrupt();
    // After a restart, every page is one that was visited before.
    let farol = Farol::start(&data, "up", &arguments);
    let visits = articles(&site, "site.test").1;
    wait("two more visits", || articles(&site, "site.test").1 >= visits + 2);
    count.store(300, Ordering::SeqCst);
    wait("the third hundred", || articles(&site, "site.test").0 == 300);
    farol.interrupt();
}

#[test]
fn a_mirror_that_is_crawled_first_does_not_keep_its_original_out() {
    const PAGES: usize = 300;
    let mirrored = AtomicUsize::new(0);
    // At an address of its own each, or they would wait for one another.
    let site = Site::start_at(2, move |host, path| {
        let number = match number_of(path) {
            Some(number) => number,
            None if path == "/" => 0,
            None => return SiteReply::missing(),
        };
        match host {
            "mirror.test" => drop(mirrored.fetch_add(1, Ordering::SeqCst)),
            // The original is not there before its mirror was read to the end.
            _ => wait("the mirror", || mirrored.load(Ordering::SeqCst) > PAGES),
        }
        // Found one after the other, so that what is new is judged by what came before.
        let next = (3 * number + 1..=3 * number + 3).filter(|next| *next <= PAGES);
        let links: String =
            next.map(|next| format!("<a href='/article/{next}'>Article {next}</a> ")).collect();
        SiteReply::html(article(number) + &links)
    });
    let data = Data::new();
    let mut arguments = site.flags(&["mirror.test"]);
    arguments.extend(["--resolve".to_string(), format!("original.test=127.0.0.2:{}", site.port())]);
    arguments.extend(["http://mirror.test/", "http://original.test/", "--index"].map(String::from));
    Farol::start(&data, "crawl", &arguments).finish();
    for host in ["mirror.test", "original.test"] {
        assert_eq!(articles(&site, host).0, PAGES, "{host}");
    }
    let hits = |query: &str| -> Vec<String> {
        let found: serde_json::Value =
            serde_json::from_str(&data.run_well(&["search", query, "--json"])).unwrap();
        let hits = found["hits"].as_array().unwrap();
        hits.iter().map(|hit| hit["url"].as_str().unwrap().to_string()).collect()
    };
    assert_eq!(hits("unique299x site:original.test"), ["http://original.test/article/299"]);
    assert_eq!(hits("unique299x site:mirror.test"), ["http://mirror.test/article/299"]);
    assert_eq!(hits("unique299x").len(), 1, "one of the copies is shown");
}

#[test]
fn thousands_of_numbered_articles_are_fetched_whole_however_they_are_found() {
    const ARTICLES: usize = 5_000;
    const OTHERS: usize = 2_000;
    let site = Site::start_at(2, |host, path| {
        let list: usize = path.strip_prefix("/page/").and_then(|page| page.parse().ok()).unwrap_or(0);
        let link = |to: usize| format!("<a href='/article/{to}'>Article {to}</a> ");
        let links: String = match (host, number_of(path)) {
            _ if path == "/robots.txt" => return SiteReply::missing(),
            // Lists of ten, each of which names the next; the articles name those beside them.
            ("listed.test", Some(n)) => [n.max(2) - 1, (n + 1).min(ARTICLES)].map(link).concat(),
            ("listed.test", None) if list < ARTICLES / 10 => {
                let articles: String = (list * 10 + 1..=list * 10 + 10).map(link).collect();
                articles + &format!("<a href='/page/{}'>older</a>", list + 1)
            }
            // Nothing but others like it leads to an article.
            ("related.test", n) => {
                let at = n.unwrap_or(0);
                (1..=6)
                    .map(|nth| link((at * 7919 + nth * nth * 104_729) % OTHERS + 1))
                    .chain([link(at % OTHERS + 1)])
                    .collect()
            }
            _ => return SiteReply::missing(),
        };
        let own = number_of(path).map_or(format!("<title>List {list}</title>"), article);
        SiteReply::html(own + &links)
    });
    let data = Data::new();
    let mut arguments = site.flags(&["listed.test"]);
    arguments.extend(["--resolve".to_string(), format!("related.test=127.0.0.2:{}", site.port())]);
    arguments.extend(["http://listed.test/", "http://related.test/"].map(String::from));
    Farol::start(&data, "crawl", &arguments).finish();
    assert_eq!(articles(&site, "listed.test").0, ARTICLES);
    assert_eq!(articles(&site, "related.test").0, OTHERS);
}
