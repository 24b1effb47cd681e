//! What people see, in a real browser against the real binary.

use crate::fixture::{Data, Farol, Web};
use crate::webdriver::Browser;
use farol_synthetic::WebConfig;

/// An engine with pages to look at, some of them with titles that try to run a script.
fn engine() -> (Data, Web, Farol) {
    let web = Web::start(WebConfig { hosts: 15, pages: 300, hostile: 0.5, ..WebConfig::tame() });
    let data = Data::new();
    let mut farol = Farol::up(&data, &web, &["--delay", "0"]);
    farol.wait_until_idle();
    (data, web, farol)
}

#[test]
fn search_next_page_suggestion_admin_and_a_hostile_title() {
    let (_data, _web, mut farol) = engine();
    let home = format!("http://{}", farol.address());
    let browser = Browser::start(1200, 900);

    // Search, as a person would: type and press Enter.
    browser.open(&home);
    assert_eq!(browser.title(), "Farol");
    browser.write("input[name=q]", "site:web.test\u{E007}");
    browser.wait("results", |browser| browser.count("article.hit") > 0);
    assert!(browser.url().contains("/search?q=site"), "{}", browser.url());
    let first = browser.text("main");

    // The next page shows other results.
    browser.click("a[rel=next]");
    browser.wait("the second page", |browser| browser.url().contains("page=2"));
    assert_ne!(browser.text("main"), first);

    // A word of the made-up Web, taken from a page, is suggested as it is typed.
    let hits = farol.json("/api/v1/search?q=site:web.test&count=5");
    let snippet = hits["hits"][0]["snippet"].as_str().unwrap_or_default().to_string();
    let word: String = snippet
        .split(|c: char| !c.is_alphabetic())
        .max_by_key(|word| word.chars().count())
        .unwrap()
        .to_lowercase();
    let start: String = word.chars().take(4).collect();
    browser.open(&home);
    browser.write("input[name=q]", &start);
    browser.wait("suggestions", |browser| browser.count("[role=option]") > 0);
    let suggested = browser.text("[role=option]").to_lowercase();
    assert!(!suggested.is_empty());

    // Titles that try to run a script are shown as text.
    let pages = farol.json("/api/v1/search?q=script&count=10");
    assert!(pages["total"].as_u64() > Some(0), "the made-up Web has hostile titles: {pages:#}");
    browser.open(&format!("{home}/search?q=script"));
    browser.wait("results", |browser| browser.text("main").to_lowercase().contains("script"));
    assert!(!browser.has_dialog());
    assert_eq!(browser.count("main script"), 0);
    assert_eq!(browser.run("return document.querySelectorAll('[onerror],[onload],[onclick]').length"), 0);
    let url = pages["hits"][0]["url"].as_str().unwrap();
    browser.open(&format!("{home}/copy?url={}", url.replace(':', "%3A").replace('/', "%2F")));
    assert!(!browser.has_dialog());
    assert_eq!(browser.count("iframe[sandbox]"), 1);

    // The dashboard shows the crawl and can stop it.
    browser.open(&format!("{home}/admin"));
    browser.wait("the door", |browser| browser.count("input[type=password]") == 1);
    browser.open(&format!("{home}/admin/enter?key={}", farol.key()));
    browser.wait("charts", |browser| browser.count("svg") > 0);
    assert!(browser.text("main").contains("300"), "{}", browser.text("main"));
    browser.click("form[action*=pause] button");
    farol.wait_for("the pause", |status| status["state"] == "paused");
    browser.open(&format!("{home}/admin"));
    browser.wait("the way back", |browser| browser.count("form[action*=resume] button") > 0);
    browser.click("form[action*=resume] button");
    farol.wait_for("the crawl to go on", |status| status["state"] != "paused");
    farol.interrupt();
}

#[test]
fn a_phone_sees_everything_without_scrolling_sideways() {
    let (_data, _web, mut farol) = engine();
    let home = format!("http://{}", farol.address());
    let browser = Browser::start(390, 800);
    browser.open(&format!("{home}/admin/login"));
    let too_wide = "return document.documentElement.scrollWidth > document.documentElement.clientWidth";
    assert_eq!(browser.run(too_wide), false, "the door is too wide");
    browser.open(&format!("{home}/admin/enter?key={}", farol.key()));
    let hits = farol.json("/api/v1/search?q=site:web.test&count=1");
    let url = hits["hits"][0]["url"].as_str().unwrap().replace(':', "%3A").replace('/', "%2F");
    let host = url.split("%2F").nth(2).unwrap();
    let paths = [
        "/".to_string(),
        "/search?q=site%3Aweb.test".into(),
        "/search?q=nothingatall".into(),
        "/search?q=before%3Asoon+lang%3Axx+%22open".into(),
        format!("/copy?url={url}"),
        "/about".into(),
        "/no/such/page".into(),
        "/admin".into(),
        "/admin/hosts".into(),
        format!("/admin/host?host=http%3A%2F%2F{host}"),
        "/admin/page".into(),
        format!("/admin/page?url={url}"),
        format!("/admin/page?url={url}%2Fnowhere%2F{}", "far-away-".repeat(20)),
        "/admin/broken".into(),
    ];
    for dark in [false, true] {
        if dark {
            browser.prefer_dark();
        }
        for path in &paths {
            browser.open(&format!("{home}{path}"));
            let overflow = browser
                .run("return document.documentElement.scrollWidth - document.documentElement.clientWidth");
            assert!(overflow.as_i64() <= Some(0), "{path} is {overflow} pixels too wide");
            // Both colours of the page as a whole, as lightness from 0 to 255.
            let colours = browser.run(
                "const light = colour => { const [r, g, b] = colour.match(/[0-9.]+/g).map(Number); \
                 return 0.3 * r + 0.59 * g + 0.11 * b; }; \
                 const style = getComputedStyle(document.body); \
                 const behind = style.backgroundColor.endsWith(', 0)') \
                   ? getComputedStyle(document.documentElement).backgroundColor : style.backgroundColor; \
                 return [light(style.color), light(behind)]",
            );
            let [ink, paper] = [0, 1].map(|at| colours[at].as_f64().unwrap());
            assert!((paper - ink).abs() > 120.0 && (paper < ink) == dark, "{path} in dark {dark}: {colours}");
        }
    }
    farol.interrupt();
}
