//! Nothing hostile gets out, and every response carries its headers.

use super::*;
use crate::fake::HOSTILE_TITLE;
use crate::routes;
use proptest::prelude::*;

/// What a browser would run or load, were it in a page: a tag is everything between `<` and `>`, because both are
/// escaped everywhere else.
#[track_caller]
fn check_tags(page: &str) {
    for tag in page.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap_or_else(|| panic!("a tag does not end: {tag}"));
        let lower = tag.to_ascii_lowercase();
        assert!(!lower.contains(" style=") && !lower.contains("javascript:"), "{tag}");
        assert!(!lower.starts_with("script") || lower.starts_with("script src=\"/assets/"), "{tag}");
        assert!(
            !lower.starts_with("img") && !lower.starts_with("object") && !lower.starts_with("b "),
            "{tag}"
        );
        // Attribute values have their quotes escaped, so outside of them an event handler would show.
        let bare: String = lower.split('"').step_by(2).collect();
        assert!(!bare.split_whitespace().any(|name| name.starts_with("on")), "{tag}");
    }
}

#[tokio::test]
async fn pages_escape_what_the_web_and_visitors_wrote() {
    let site =
        Site::new(Settings { name: "<i>F</i>".into(), operator: "<b>o</b>".into(), ..Settings::default() });
    let hostile = "%3Cscript%3Ealert(1)%3C/script%3E%22%20onfocus=%22alert(1)";
    let paths = [
        format!("/?q={hostile}"),
        format!("/search?q={hostile}&page={hostile}&hl={hostile}"),
        format!("/search?q=nothing+{hostile}+site:a.test+%22two+words%22"),
        format!("/search?q=mispelt+before:{hostile}"),
        format!("/copy?url=https://example.org/{hostile}"),
        format!("/copy?url={hostile}"),
        format!("/{hostile}"),
        "/about".into(),
        "/admin".into(),
        "/admin/live".into(),
        "/admin/login".into(),
        format!("/admin/hosts?filter={hostile}&state={hostile}"),
        format!("/admin/host?host=https://www.example.org&path=/private/{hostile}"),
        format!("/admin/host?host={hostile}"),
        "/admin/page".into(),
        format!("/admin/page?url=https://www.example.org/{hostile}"),
        format!("/admin/page?url=https://www.example.org/private/{hostile}"),
        format!("/admin/page?url={hostile}"),
        format!("/admin/broken?filter={hostile}"),
        "/admin/broken?page=2".into(),
        format!("/admin/remove?host=https://www.example.org/{hostile}"),
    ];
    for path in paths {
        let got = Ask::get(&path).admin().send(&site).await;
        assert!(got.header("content-type").starts_with("text/html"), "{path}");
        check_tags(&got.body);
        got.lacks("<b>o</b>").lacks("<i>F</i>");
    }
    let title =
        HOSTILE_TITLE.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;");
    site.get("/search?q=farol")
        .await
        .says(&title)
        .says("<mark>&lt;b&gt;marked&lt;/b&gt;</mark>")
        .lacks("\u{202E}");
}

#[tokio::test]
async fn every_route_has_the_headers() {
    let site =
        Site::new(Settings { rate_per_minute: 60, admin_token: Some("t".into()), ..Settings::default() });
    for route in routes::build().list {
        let method = if route.method == "get" { Method::GET } else { Method::POST };
        for local in [false, true] {
            let ask = Ask::new(method.clone(), route.path);
            check_headers(&if local { ask.admin() } else { ask }.send(&site).await, route.path);
        }
    }
    check_headers(&site.get("/nowhere").await.is(404).says("Not found").clone_headers(), "/nowhere");
    check_headers(Ask::new(Method::DELETE, "/search").send(&site).await.is(405), "/search");
    check_headers(site.get(&format!("/search?q={}", "a".repeat(9000))).await.is(414), "/search");
}

impl Got {
    fn clone_headers(&self) -> Got {
        Got { status: self.status, headers: self.headers.clone(), body: String::new() }
    }
}

#[track_caller]
fn check_headers(got: &Got, path: &str) {
    let csp = got.header("content-security-policy");
    assert!(csp.contains("default-src 'none'") && csp.contains("base-uri 'none'"), "{path}: {csp}");
    assert!(!csp.contains("script-src 'unsafe") && !csp.contains('*'), "{path}: {csp}");
    assert!(!csp.contains("unsafe-inline") || csp.starts_with("sandbox;"), "{path}: {csp}");
    assert_eq!(got.header("x-content-type-options"), "nosniff", "{path}");
    for name in ["x-frame-options", "referrer-policy", "cross-origin-opener-policy", "permissions-policy"] {
        assert!(!got.header(name).is_empty(), "{path} has no {name}");
    }
    assert_eq!(got.header("cross-origin-resource-policy"), "same-origin", "{path}");
    assert!(got.headers.contains_key("cache-control"), "{path}");
}

#[tokio::test]
async fn a_stored_copy_lives_in_a_sandbox() {
    let site = Site::new(Settings::default());
    let page = site.get("/copy?url=https://example.org/old").await;
    page.is(200)
        .says("<iframe class=\"copy\" sandbox=\"\"")
        .says("/copy/raw?url=https%3A%2F%2Fexample.org%2Fold");
    page.lacks("parent.document");
    assert!(page.header("content-security-policy").contains("frame-src 'self'"));
    let raw = site.get("/copy/raw?url=https://example.org/old").await;
    raw.is(200).says("parent.document");
    assert!(raw.header("content-security-policy").starts_with("sandbox; default-src 'none'"));
    assert!(!raw.header("content-security-policy").contains("allow-"));
    assert_eq!(raw.header("content-type"), "text/html; charset=utf-8");
    assert_eq!(raw.header("x-frame-options"), "SAMEORIGIN");
    assert_eq!(raw.header("x-robots-tag"), "noindex, nofollow, noarchive");
    let plain = site.get("/copy/raw?url=https://example.org/notes.txt").await;
    assert_eq!(plain.header("content-type"), "text/plain; charset=utf-8");
    for (path, status) in [("/missing", 404), ("/noarchive", 403), ("/paper.pdf", 415)] {
        for kind in ["/copy", "/copy/raw"] {
            site.get(&format!("{kind}?url=https://example.org{path}")).await.is(status);
        }
    }
    site.get("/copy?url=javascript:alert(1)").await.is(400);
    site.get("/copy").await.is(400);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_query_string_breaks_a_page(query in "[ -~à-ÿא-ת]{0,60}", page in "[0-9-]{0,22}") {
        let site = Site::new(Settings { rate_per_minute: 0, ..Settings::default() });
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let params = [("q", &*query), ("page", &page), ("first", &page), ("count", &page), ("filter", &query)];
        for path in ["/search", "/api/v1/search", "/suggest", "/admin/hosts"] {
            let path = crate::params::link(path, params);
            let got = runtime.block_on(Ask::get(&path).admin().send(&site));
            prop_assert!(matches!(got.status.as_u16(), 200 | 303 | 400), "{} {}", path, got.status);
            if got.header("content-type").starts_with("text/html") {
                check_tags(&got.body);
            }
        }
    }
}
