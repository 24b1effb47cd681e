//! WARC files of any origin: old ones, false ones, and the same one again.

use crate::fixture::{Data, Farol};
use crate::site::{Site, SiteReply};
use farol_base::{Clock, SystemClock};

/// A response as some other archiver wrote it.
fn record(url: &str, date: &str, fields: &str, status: &str, body: &str) -> String {
    let block = format!("HTTP/1.1 {status}\r\nContent-Type: text/html\r\n\r\n{body}");
    format!(
        "WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: {url}\r\nWARC-Date: {date}\r\n{fields}\
         Content-Length: {}\r\n\r\n{block}\r\n\r\n",
        block.len()
    )
}

fn page(date: &str, title: &str) -> String {
    record("http://a.test/", date, "", "200 OK", &format!("<title>{title}</title><p>Some words."))
}

/// Imports a file with these records; what it says on standard error.
#[track_caller]
fn import(data: &Data, records: &[String]) -> String {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), records.concat()).unwrap();
    let output = data.run(&["import", file.path().to_str().unwrap()]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

fn titles(data: &Data) -> Vec<String> {
    let pages = data.run_well(&["export", "pages"]);
    let title =
        |line| serde_json::from_str::<serde_json::Value>(line).unwrap()["title"].as_str().map(String::from);
    pages.lines().filter_map(title).collect()
}

#[test]
fn an_older_record_never_replaces_a_newer_page_in_whatever_order_they_come() {
    let newest = page("2026-05-06T07:08:09Z", "Of 2026");
    let (older, oldest) = (page("2019-05-06T07:08:09Z", "Of 2019"), page("nonsense", "Of no date"));
    let gone = record("http://a.test/", "2001-05-06T07:08:09Z", "", "404 Not Found", "");
    for order in [[&newest, &older, &gone, &oldest], [&oldest, &gone, &older, &newest]] {
        let all: Vec<String> = order.into_iter().cloned().collect();
        let (one_file, many_files) = (Data::new(), Data::new());
        import(&one_file, &all);
        all.iter().for_each(|record| drop(import(&many_files, std::slice::from_ref(record))));
        for data in [&one_file, &many_files] {
            assert_eq!(titles(data), ["Of 2026"]);
            // The index built anew from the archive says the same; so does everything after the same files again.
            std::fs::remove_dir_all(data.path().join("index")).unwrap();
            data.run_well(&["search", "words"]);
            assert_eq!(titles(data), ["Of 2026"]);
            let archived = data.run_well(&["export", "visits"]);
            import(data, &all);
            assert_eq!(data.run_well(&["export", "visits"]), archived, "nothing is stored twice");
            assert_eq!(titles(data), ["Of 2026"]);
        }
    }
    // What is newer does replace, and delete.
    let data = Data::new();
    import(&data, &[older, newest]);
    let gone = record("http://a.test/", "2026-06-06T07:08:09Z", "", "404 Not Found", "");
    import(&data, &[gone]);
    assert!(titles(&data).is_empty());
}

#[test]
fn dates_to_come_count_as_now_and_rules_are_heard_from_the_site_itself() {
    let site = Site::start(|_, path| match path {
        "/robots.txt" => SiteReply {
            status: 200,
            headers: vec!["Content-Type: text/plain".to_string()],
            body: "User-agent: *\nDisallow: /private\n".to_string(),
        },
        _ => SiteReply::html(format!("<title>Now</title>{path} <a href=/private/1>p</a> <a href=/ok>o</a>")),
    });
    let data = Data::new();
    data.configure(
        "[crawl]\nrevisit = 'interval'\nrevisit_first = '1s'\nrevisit_min = '1s'\nrevisit_max = '1s'\n",
    );
    let robots =
        |date: &str| record("http://site.test/robots.txt", date, "", "200 OK", "User-agent: *\nAllow: /\n");
    let ahead = "2999-01-01T00:00:00Z";
    import(
        &data,
        &[
            robots(ahead),
            robots(&SystemClock.now().to_string()),
            record("http://site.test/ok", ahead, "", "200 OK", "<title>Of 2999</title> text"),
        ],
    );
    let visits = data.run_well(&["export", "visits"]);
    assert!(!visits.contains("2999") && visits.lines().count() == 1, "{visits}");
    // In a crawl, the page is fetched for what it is, after its site was asked for its rules.
    let mut arguments = site.flags(&["site.test"]);
    arguments.push("http://site.test/".to_string());
    let mut farol = Farol::start(&data, "up", &arguments);
    farol.wait_for("the page as it is", |_| site.asked().contains_key("site.test/ok"));
    farol.interrupt();
    let asked = site.asked();
    assert!(
        asked.contains_key("site.test/robots.txt") && !asked.contains_key("site.test/private/1"),
        "{asked:?}"
    );
}

#[test]
fn a_record_that_is_not_what_was_digested_is_left_out_and_nothing_else() {
    let digested = |url: &str, digest: &str| {
        let fields = format!("WARC-Payload-Digest: {digest}\r\n");
        record(url, "2026-05-06T07:08:09Z", &fields, "200 OK", "<title>Some page</title>text")
    };
    let data = Data::new();
    let said = import(
        &data,
        &[
            digested("http://a.test/right", "sha1:VQKGFBCMJNQAQCVAJJU7XLRUMSZZAP3Q"),
            digested("http://a.test/wrong", "sha1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"),
            digested("http://a.test/unknown", "crc32:00000000"),
        ],
    );
    assert_eq!(said.trim(), "farol: left out 1 damaged record; -v names them");
    let urls = data.run_well(&["export", "urls"]);
    let mut urls: Vec<&str> = urls.lines().collect();
    urls.sort_unstable();
    assert_eq!(urls, ["http://a.test/right", "http://a.test/unknown"]);
}
