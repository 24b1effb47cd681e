//! What pages and files say.

use super::*;

#[tokio::test]
async fn results_have_pages() {
    let site = Site::new(Settings { rate_per_minute: 0, ..Settings::default() });
    let first = site.get("/search?q=old+light&hl=pt").await;
    first
        .is(200)
        .says("rel=\"next\" href=\"/search?q=old+light&amp;page=2&amp;hl=pt-BR\"")
        .lacks("rel=\"prev\"");
    first
        .says("1.204 páginas · 3,4 ms")
        .says("aria-current=\"page\">1<")
        .says("<ol class=\"hits\" start=\"1\">");
    let second = site.get("/search?q=old+light&page=2").await;
    second.says("rel=\"prev\" href=\"/search?q=old+light\"").says("rel=\"next\"").says("start=\"11\"");
    let last = site.get("/search?q=old+light&page=3").await;
    last.says("rel=\"prev\"").lacks("rel=\"next\"").says("aria-current=\"page\">3<");
    site.get("/search?q=old+light&page=9")
        .await
        .is(200)
        .says("No more results")
        .says("href=\"/search?q=old+light\"");
    // Pages too deep are the deepest one.
    site.get("/search?q=a&page=99999999999999999999").await.is(200);
}

#[tokio::test]
async fn a_hit_tells_what_is_known() {
    let site = Site::new(Settings::default());
    let page = site.get("/search?q=farol").await;
    page.says("<a href=\"https://faroles.example.org/historia/torre-de-hercules\" rel=\"noreferrer noopener nofollow\">");
    page.says("<mark>faro</mark>").says("<time datetime=\"2026-03-14T15:09:26Z\">14 Mar 2026</time>");
    page.says("/copy?url=https%3A%2F%2Ffaroles.example.org").says("q=farol+site%3Afaroles.example.org");
    page.says("More from faroles.example.org")
        .says("12 similar pages left out")
        .says("1 similar page left out");
    page.says(">https://example.org/</a>"); // A page without a title.
}

#[tokio::test]
async fn clicks_are_counted_only_where_the_operator_says_so() {
    let click = || Ask::new(Method::POST, "/clicked?url=https%3A%2F%2Fexample.org%2F");
    let site = Site::new(Settings::default());
    site.get("/search?q=farol").await.lacks("ping=");
    site.get("/about").await.lacks("which results are opened");
    click().send(&site).await.is(204);
    assert!(site.fake.clicks.lock().is_empty());

    let site = Site::new(Settings { clicks: true, ..Settings::default() });
    site.get("/search?q=farol").await.says("ping=\"/clicked?url=https%3A%2F%2Ffaroles.example.org");
    site.get("/about").await.says("which results are opened");
    click().send(&site).await.is(204);
    Ask::new(Method::POST, "/clicked?url=nonsense").send(&site).await.is(400);
    site.get("/clicked?url=https%3A%2F%2Fexample.org%2F").await.is(405);
    let clicks: Vec<String> = site.fake.clicks.lock().iter().map(ToString::to_string).collect();
    assert_eq!(clicks, ["https://example.org/"]);
}

#[tokio::test]
async fn help_is_concrete() {
    let site = Site::new(Settings::default());
    let page = site.get("/search?q=nothing+%22two+words%22+lang:pt").await;
    page.is(200)
        .says("Nothing was found for")
        .says("Look everywhere, without filters:")
        .says("Look for the words one by one:");
    page.says("/search?q=nothing+two+words");
    site.get("/search?q=mispelt").await.says("Did you mean").says("misspelt &lt;b&gt;words");
    site.get("/search?q=a+before:soon&hl=es").await.says("“before:soon” no es una fecha");
    site.get("/search?q=-a").await.is(200).says("only things to leave out");
    assert_eq!(site.get("/search?q=+&hl=es").await.is(303).header("location"), "/?hl=es");
}

#[tokio::test]
async fn pages_speak_the_visitors_language() {
    let site = Site::new(Settings::default());
    let check = async |language: &str, path: &str, lang: &str, word: &str| {
        let got = Ask::get(path).with("accept-language", language).send(&site).await;
        got.says(&format!("<html lang=\"{lang}\">")).says(word);
    };
    check("pt-BR,en;q=0.5", "/", "pt-BR", "páginas para pesquisar").await;
    check("es", "/about", "es", "Sobre el robot").await;
    check("fr", "/", "fr", "pages où chercher").await;
    check("pt-PT", "/about", "pt-PT", "Quem o explora").await;
    check("gl", "/", "gl", "páxinas onde buscar").await;
    check("ca", "/", "ca", "pàgines on cercar").await;
    check("de", "/", "en", "pages to search in").await;
    check("pt", "/?hl=en", "en", "href=\"/about?hl=en\"").await;
    check("es", "/nowhere", "es", "No encontrado").await;
    check("en", "/search?q=a&page=2&hl=pt", "pt-BR", "/search?q=a&amp;page=2&amp;hl=es").await;
}

#[tokio::test]
async fn the_about_page_says_how_to_keep_us_out() {
    let settings = Settings {
        operator: "Ana".into(),
        contact: "ana@example.org".into(),
        user_agent: "LanternBot/1.0 (+https://x.test)".into(),
        ..Settings::default()
    };
    let page = Site::new(settings).get("/about").await;
    page.says("User-agent: LanternBot\nDisallow: /")
        .says("LanternBot/1.0 (+https://x.test)")
        .says("mailto:ana@example.org");
}

#[tokio::test]
async fn browsers_can_add_the_engine() {
    let site = Site::new(Settings { name: "A & B <engine> with a long name".into(), ..Settings::default() });
    let got = site.get("/opensearch.xml").await;
    got.says("<ShortName>A &amp; B &lt;engine&gt; w</ShortName>");
    got.says("template=\"http://search.example.org/search?q={searchTerms}\"");
    let got = Ask::get("/opensearch.xml").with("host", "a\"b").send(&site).await;
    got.says("http://localhost/search");
    let suggestions = site.get("/suggest?q=far").await;
    assert_eq!(suggestions.header("content-type"), "application/x-suggestions+json");
    assert_eq!(suggestions.json()[0], "far");
    assert_eq!(suggestions.json()[1].as_array().map(Vec::len), Some(8));
    assert_eq!(site.get("/suggest").await.json(), serde_json::json!(["", []]));
    site.get("/").await.says("type=\"application/opensearchdescription+xml\"");
}

#[tokio::test]
async fn files_are_cached_and_crawlers_kept_out() {
    let site = Site::new(Settings::default());
    let style = site.get("/assets/style.css").await;
    assert_eq!(style.is(200).header("content-type"), "text/css; charset=utf-8");
    let again = Ask::get("/assets/style.css").with("if-none-match", style.header("etag")).send(&site).await;
    assert!(again.is(304).body.is_empty());
    let page = site.get("/").await;
    let path = page.body.split("rel=\"stylesheet\" href=\"").nth(1).unwrap().split('"').next().unwrap();
    site.get(path).await.is(200);
    for path in ["/search", "/copy", "/admin"] {
        site.get("/robots.txt").await.says(&format!("Disallow: {path}\n"));
    }
    site.get("/favicon.ico").await.is(200).says("<svg");
}

#[tokio::test]
async fn the_dashboard_draws_without_scripts() {
    let site = Site::new(Settings::default());
    let page = Ask::get("/admin?hl=en").admin().send(&site).await;
    page.is(200).says("<noscript><meta http-equiv=\"refresh\"").says("data-live=\"/admin/live?hl=en\"");
    assert_eq!(page.body.matches("<svg viewBox=\"0 0 480 150\" role=\"img\"").count(), 8);
    page.says("182,733").says("Crawling").says("/admin/hosts?state=waiting").says("&lt;i&gt;odd&lt;/i&gt;");
    let live = Ask::get("/admin/live").admin().send(&site).await;
    live.is(200).says("182,733").lacks("<html");
    let hosts = Ask::get("/admin/hosts?filter=site1&state=waiting").admin().send(&site).await;
    hosts.is(200).says("/admin/host?host=https%3A%2F%2Fsite1.example.org").lacks("site2.example.org");
    let second = Ask::get("/admin/hosts?page=2").admin().send(&site).await;
    second.says("rel=\"prev\" href=\"/admin/hosts?page=1\"").says("page=3").says("132 hosts");
    let host = Ask::get("/admin/host?host=https://www.example.org&path=/private/x").admin().send(&site).await;
    host.is(200).says("Refused").says("Disallow: /private/").says("192.0.2.7").says("timeout");
    Ask::get("/admin/host?host=https://unknown.test").admin().send(&site).await.is(404);
}

#[tokio::test]
async fn the_cache_is_shown_where_there_is_one() {
    let with = Site::new(Settings::default());
    let without = Site::over(Fake { no_cache: true, ..Fake::default() }, Settings::default());
    let get = async |site: &Site, path: &str| Ask::get(path).admin().send(site).await;
    let page = get(&with, "/admin?hl=en").await;
    page.says("<dt>Answers from the cache</dt><dd>58.3%</dd>").says("5,120 answers").says("ponte rio</a>");
    page.says("Hot questions").lacks("<script>document.title");
    get(&with, "/admin/live?hl=pt").await.says("Respostas do cache");
    get(&with, "/admin/live?hl=es").await.says("Respuestas desde la caché");
    let cache = get(&with, "/api/v1/status").await.json()["cache"].clone();
    assert_eq!(
        (&cache["hits"], &cache["hot"][0]["name"]),
        (&serde_json::json!(12_031), &serde_json::json!("ponte rio"))
    );
    get(&with, "/metrics")
        .await
        .says("farol_cache_hits_total 12031\n")
        .says("farol_cache_bytes_max 67108864\n");
    get(&without, "/admin?hl=en")
        .await
        .says("<dt>Answers from the cache</dt><dd>–</dd>")
        .lacks("Hot questions");
    assert_eq!(get(&without, "/api/v1/status").await.json().get("cache"), Some(&serde_json::Value::Null));
    get(&without, "/metrics").await.is(200).lacks("farol_cache");
}

#[tokio::test]
async fn freshness_is_shown_where_it_is_known() {
    let known = Site::new(Settings::default());
    let unknown = Site::over(Fake { freshness_unknown: true, ..Fake::default() }, Settings::default());
    let get = async |site: &Site, path: &str| Ask::get(path).admin().send(site).await;
    let tile = |name: &str, value: &str| format!("<dt>{name}</dt><dd>{value}</dd>");

    let page = get(&known, "/admin?hl=en").await;
    page.says(&tile("Estimated freshness", "87.3%")).says("over 168,240 pages");
    page.says(&tile("Mean age", "3 h 10 min")).says("aria-label=\"Estimated freshness of the index\"");
    get(&known, "/admin/live?hl=pt").await.says(&tile("Atualidade estimada", "87,3%"));
    get(&known, "/admin/live?hl=es").await.says(&tile("Frescura estimada", "87,3\u{a0}%"));
    let host = get(&known, "/admin/host?host=https://www.example.org&hl=en").await;
    host.says(&tile("Estimated freshness", "64.5%")).says(&tile("Mean age", "1 d 2 h"));
    get(&known, "/admin/hosts?filter=site100.")
        .await
        .says("<td class=\"number\" data-label=\"Estimated freshness\">75%</td>");
    let want = serde_json::json!({ "pages": 168_240, "fresh": 0.8731, "age_seconds": 11_400.0 });
    assert_eq!(get(&known, "/api/v1/status").await.json()["freshness"], want);
    let host = get(&known, "/api/v1/host?host=https://www.example.org").await.json();
    assert_eq!(host["freshness"]["fresh"], 0.645);
    get(&known, "/metrics").await.says("farol_freshness_ratio 0.8731\n").says("farol_age_seconds 11400\n");

    for path in ["/admin?hl=en", "/admin/host?host=https://www.example.org&hl=en"] {
        let page = get(&unknown, path).await;
        page.is(200).says(&tile("Estimated freshness", "–")).says(&tile("Mean age", "–"));
        page.lacks("aria-label=\"Estimated freshness of the index\"");
    }
    get(&unknown, "/admin/hosts?filter=site100.")
        .await
        .says("<td class=\"number\" data-label=\"Estimated freshness\">–</td>");
    for path in ["/api/v1/status", "/api/v1/host?host=https://www.example.org"] {
        assert_eq!(get(&unknown, path).await.json().get("freshness"), Some(&serde_json::Value::Null));
    }
    get(&unknown, "/metrics").await.is(200).lacks("farol_freshness").lacks("farol_age");
}

#[tokio::test]
async fn one_of_something_is_not_several() {
    let one = Fake { few: true, ..Fake::default() };
    let site = Site::over(one, Settings::default());
    let check = async |path: &str, text: &str| {
        Ask::get(path).admin().send(&site).await.is(200).says(text);
    };
    check("/?hl=en", ">1 page to search in<").await;
    check("/?hl=pt", ">1 página para pesquisar<").await;
    check("/?hl=es", ">1 página donde buscar<").await;
    check("/admin?hl=en", ">over 1 page<").await;
    check("/admin?hl=en", ">1 answer in ").await;
    check("/admin?hl=pt", ">1 URL conhecida<").await;
    check("/admin?hl=es", ">1 URL conocida<").await;
    check("/admin/hosts?hl=en&filter=site100.", ">1 host<").await;
}

#[tokio::test]
async fn every_page_has_one_heading_of_the_first_order() {
    let site = Site::new(Settings::default());
    let paths = [
        "/",
        "/search?q=farol",
        "/search?q=nothing",
        "/copy?url=https://a.example.org/x",
        "/about",
        "/nowhere",
        "/search?q=farol&page=0",
        "/admin",
        "/admin/hosts",
        "/admin/host?host=https://www.example.org",
        "/admin/login",
        "/admin/remove?host=https://www.example.org",
    ];
    for path in paths {
        let got = Ask::get(path).admin().send(&site).await;
        assert_eq!(got.body.matches("<h1").count(), 1, "{path}: {}", got.body);
    }
}

#[tokio::test]
async fn help_promises_only_kinds_of_files_that_are_read() {
    let site = Site::new(Settings::default());
    for hl in ["en", "pt", "es"] {
        site.get(&format!("/?hl={hl}")).await.says("filetype:txt").lacks("pdf");
        site.get(&format!("/search?q=a+filetype:a-b&hl={hl}")).await.says(" txt").lacks("pdf");
    }
}

#[tokio::test]
async fn a_page_that_is_not_there_offers_to_search() {
    let site = Site::new(Settings::default());
    let page = site.get("/docs/install-guide.html?hl=en").await;
    page.is(404).says("rel=\"stylesheet\"").says("Not found").says("<form class=\"search\"");
    page.says("value=\"docs install guide\"").says("href=\"/?hl=en\"");
    page.says("href=\"/docs/install-guide.html?hl=pt-BR\"");
    site.get("//elsewhere.test/x").await.is(404).lacks("href=\"//");
    site.get("/%3Cscript%3Ealert(1)%3C/script%3E").await.is(404).lacks("<script>alert");
    site.get("/search?q=a&page=0&hl=pt").await.is(400).says("<form class=\"search\"");
}

/// Every series is declared, once, and is of its kind.
pub(super) fn check_metrics(text: &str) {
    let mut declared = std::collections::HashMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(
                declared.insert(name.to_string(), kind.to_string()).is_none(),
                "{name} is declared twice"
            );
        } else if !line.starts_with("# HELP ") {
            let (series, value) = line.rsplit_once(' ').unwrap();
            value.parse::<f64>().unwrap_or_else(|_| panic!("{line}"));
            let name = series.split('{').next().unwrap();
            let family = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let family =
                family.filter(|family| declared.get(*family).is_some_and(|kind| kind == "histogram"));
            let kind =
                declared.get(family.unwrap_or(name)).unwrap_or_else(|| panic!("{name} is not declared"));
            assert_eq!(kind == "counter", name.ends_with("_total"), "{name}");
            assert_eq!(series.contains('{'), series.ends_with('}'), "{line}");
        }
    }
}

#[tokio::test]
async fn metrics_parse() {
    let site = Site::new(Settings::default());
    site.get("/search?q=a").await.is(200);
    let got = Ask::get("/metrics").admin().send(&site).await;
    assert_eq!(got.is(200).header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    check_metrics(&got.body);
    got.says("farol_http_requests_total{route=\"/search\",status=\"200\"} 1\n");
    got.says("farol_http_request_seconds_count{route=\"/search\"} 1\n");
    got.says("# TYPE farol_query_seconds histogram\n").says("farol_query_seconds_bucket{le=\"0.005\"} 98\n");
    got.says("farol_query_seconds_bucket{le=\"+Inf\"} 100\n").says("farol_query_seconds_count 100\n");
    got.says("farol_pages_fetched_total 182733\n").says("farol_state{state=\"crawling\"} 1\n");
}

#[tokio::test]
async fn a_question_goes_on_in_the_trace_that_its_sender_names() {
    let site = Site::new(Settings::default());
    let sent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    Ask::get("/search?q=a").with("traceparent", sent).send(&site).await.is(200);
    let step = site.fake.trace.lock().take().unwrap();
    assert_eq!(step.id(), "4bf92f3577b34da6a3ce929d0e0e4736");
    assert_ne!(step.to_string(), sent, "it is a step of its own");
    // Nobody names one, or what is none: each question has its own.
    Ask::get("/search?q=a").send(&site).await.is(200);
    let first = site.fake.trace.lock().take().unwrap();
    Ask::get("/search?q=a").with("traceparent", "nonsense").send(&site).await.is(200);
    assert_ne!(site.fake.trace.lock().take().unwrap().id(), first.id());
}
