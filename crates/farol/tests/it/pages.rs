//! Single pages: why they are found or not, and fetching them again, removing them, putting them back.

use crate::fixture::{Data, Farol, PATIENCE};
use crate::site::{Site, SiteReply};
use farol_base::{Clock, SystemClock, Timestamp};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A site with a page of every kind.
fn site() -> Site {
    Site::start(|_, path| {
        match path {
        "/robots.txt" => SiteReply {
            status: 200,
            headers: vec!["Content-Type: text/plain".to_string()],
            body: "User-agent: *\nDisallow: /private\n".to_string(),
        },
        "/" => SiteReply::html(
            "<title>Home</title>harbour <a href=/a>a lamp</a> <a href=/gone>old page</a> <a href=/private/x>p</a> \
             <a href=/noindex>n</a> <a href=/copy>c</a> <a href=/moved>m</a> <a href=/lost><img src=i.png></a> \
             <a href=/docs/1>one</a> <a href=/twin>twin</a> <a href=http://elsewhere.test/>e</a>"
                .to_string(),
        ),
        "/a" | "/twin" => SiteReply::html("<title>A lamp</title>the same lamp in the harbour tower".to_string()),
        "/docs/1" => SiteReply::html("<title>One</title>harbour documents".to_string()),
        "/noindex" => SiteReply::html("<meta name=robots content=noindex><title>N</title>harbour".to_string()),
        "/copy" => SiteReply::html("<link rel=canonical href=/a><title>C</title>harbour copy".to_string()),
        "/moved" => SiteReply {
            status: 301,
            headers: vec!["Location: /a".to_string()],
            body: String::new(),
        },
        _ => SiteReply::missing(),
    }
    })
}

/// What is said of a page, and whether it is found.
#[track_caller]
fn explained(data: &Data, url: &str) -> (String, bool) {
    let output = data.run(&["explain", url]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(matches!(output.status.code(), Some(0 | 3)), "{output:?}");
    (text, output.status.success())
}

#[track_caller]
fn check(data: &Data, url: &str, is_found: bool, parts: &[&str]) {
    let (text, found) = explained(data, url);
    assert_eq!(found, is_found, "{url}: {text}");
    for part in parts {
        assert!(text.contains(part), "{url}: {part:?} is missing from\n{text}");
    }
}

fn finds(data: &Data, words: &str) -> usize {
    let answer = String::from_utf8(data.run(&["search", words, "--json"]).stdout).unwrap();
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    answer["hits"].as_array().unwrap().len()
}

#[track_caller]
fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn every_page_is_explained_running_and_stopped_and_broken_links_are_listed() {
    let (site, data) = (site(), Data::new());
    let mut arguments = site.flags(&["site.test"]);
    arguments.push("http://site.test/".to_string());
    let mut farol = Farol::start(&data, "up", &arguments);
    farol.wait_until_idle();
    let all = |data: &Data| {
        check(data, "http://site.test/", true, &["It can be found.", "a seed", "200"]);
        let linked = "linked from  http://site.test/  \"a lamp\"";
        check(
            data,
            "http://site.test/a",
            true,
            &["It can be found.", linked, "same text    http://site.test/twin"],
        );
        let answer = "It is not there: its server answered 404.";
        check(data, "http://site.test/gone", false, &[answer, "http://site.test/  \"old page\"", "visited"]);
        check(data, "http://site.test/private/x", false, &["forbids it", "robots.txt:2: Disallow: /private"]);
        check(data, "http://site.test/noindex", false, &["noindex"]);
        check(data, "http://site.test/copy", false, &["names another address", "http://site.test/a"]);
        check(
            data,
            "http://site.test/moved",
            false,
            &["leads elsewhere", "leads to     http://site.test/a", "301"],
        );
        check(data, "http://site.test/nowhere", false, &["It is not known"]);
        check(data, "https://site.test/a/", false, &["known is     http://site.test/a"]);
        check(data, "HTTP://Site.test:80/x/../a", true, &["http://site.test/a (as it is known here)"]);
        check(data, "http://elsewhere.test/", false, &["outside this crawl"]);
        let broken = data.run_well(&["broken-links"]);
        let mut lines: Vec<&str> = broken.lines().collect();
        lines.sort_unstable();
        let want = [
            "404\thttp://site.test/gone\thttp://site.test/\told page",
            "404\thttp://site.test/lost\thttp://site.test/\t",
        ];
        assert_eq!(lines, want);
        assert_eq!(data.run_well(&["broken-links", "--host", "other"]), "");
        assert_eq!(data.run_well(&["broken-links", "--json"]).lines().count(), 2);
    };
    all(&data);
    let page = farol.get("/admin/page?url=http://site.test/gone").body;
    assert!(page.contains("answered 404") && page.contains("/admin/page/refetch"), "{page}");
    assert!(farol.get("/admin/broken").body.contains("http://site.test/lost"));
    farol.interrupt();
    all(&data);
}

#[test]
fn a_page_is_fetched_again_removed_and_put_back() {
    let (site, data) = (site(), Data::new());
    let mut arguments = site.flags(&["site.test"]);
    arguments.push("http://site.test/".to_string());
    let mut farol = Farol::start(&data, "up", &arguments);
    farol.wait_until_idle();
    let asked = |page: &str| site.asked().get(page).copied().unwrap_or(0);
    assert_eq!(asked("site.test/docs/1"), 1);
    data.run_well(&["refetch", "http://site.test/docs/1"]);
    wait_until("the second visit", || asked("site.test/docs/1") == 2);
    assert_eq!(finds(&data, "documents"), 1);
    data.run_well(&["remove", "http://site.test/docs/1"]);
    wait_until("the page to leave the index", || finds(&data, "documents") == 0);
    check(&data, "http://site.test/docs/1", false, &["The operator has removed it: http://site.test/docs/1"]);
    assert_eq!(farol.get("/copy?url=http://site.test/docs/1").status, 404);
    let refused = data.run(&["refetch", "http://site.test/docs/1"]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("farol restore"));
    farol.interrupt();
    // It stays out when the index is built anew, and comes back from the archive without a visit.
    std::fs::remove_dir_all(data.path().join("index")).unwrap();
    assert_eq!((finds(&data, "documents"), finds(&data, "tower")), (0, 1));
    assert_eq!(data.run_well(&["remove", "--list"]), "http://site.test/docs/1\n");
    data.run_well(&["restore", "http://site.test/docs/1"]);
    assert_eq!((finds(&data, "documents"), asked("site.test/docs/1")), (1, 2));
    check(&data, "http://site.test/docs/1", true, &["It can be found."]);
    // All pages of a folder at once, while nobody crawls; the next crawl asks for none of them.
    data.run_well(&["remove", "http://site.test/d*"]);
    assert_eq!((finds(&data, "documents"), finds(&data, "tower")), (0, 1));
    let mut farol = Farol::start(&data, "up", &site.flags(&["site.test"]));
    farol.wait_for("the engine", |status| status["index"]["documents"].as_u64() > Some(0));
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!((finds(&data, "documents"), asked("site.test/docs/1")), (0, 2));
    let reply = farol.order("restore-pages", &serde_json::json!({ "url": "http://site.test/d*" }));
    assert_eq!(reply.status, 200, "{}", reply.body);
    wait_until("the page to come back", || finds(&data, "documents") == 1);
    wait_until("the third visit", || asked("site.test/docs/1") == 3);
    assert_eq!(farol.order("refetch", &serde_json::json!({ "url": "http://elsewhere.test/" })).status, 400);
    farol.interrupt();
}

#[test]
fn a_page_fetched_again_by_order_does_not_wait_for_its_host_to_be_forgiven() {
    let is_up = Arc::new(AtomicBool::new(false));
    let up = is_up.clone();
    let site = Site::start(move |_, path| match (up.load(Ordering::SeqCst), path) {
        (false, _) => SiteReply::broken_off(),
        (true, "/robots.txt") => SiteReply::missing(),
        (true, _) => SiteReply::html("<title>Home</title>harbour".to_string()),
    });
    let data = Data::new();
    let mut arguments = site.flags(&["site.test"]);
    arguments.push("http://site.test/".to_string());
    let mut farol = Farol::start(&data, "up", &arguments);
    let (path, mut host) = ("/api/v1/page?url=http://site.test/", serde_json::Value::Null);
    // After the first failure it is left alone for two minutes.
    wait_until("the host to be left alone", || {
        host = farol.json(path)["host"].clone();
        let wakes = host["wakes"].as_str().and_then(Timestamp::parse);
        wakes.is_some_and(|at| at > SystemClock.now() + Duration::from_secs(100))
    });
    is_up.store(true, Ordering::SeqCst);
    let asked = || site.asked().values().sum::<u64>();
    let before = asked();
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(asked(), before, "it is left alone: {host}");
    let ordered = Instant::now();
    let said = data.run_well(&["refetch", "http://site.test/"]);
    assert!(said.contains("as soon as its host may be asked"), "{said}");
    wait_until("the visit", || asked() > before);
    assert!(ordered.elapsed() < Duration::from_secs(60), "it would have been asked by then anyway");
    wait_until("the page", || finds(&data, "harbour") == 1);
    check(&data, "http://site.test/", true, &["It can be found."]);
    farol.interrupt();
}
