//! Lists of addresses as sites have them: packed ones that are called something else, and plain text.

use crate::fixture::Data;
use crate::site::{Site, SiteReply};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

fn packed(text: &str) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::default());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

fn sitemap(urls: &[&str]) -> String {
    let entries: String =
        urls.iter().map(|url| format!("<url><loc>http://lists.test{url}</loc></url>")).collect();
    format!(
        "<?xml version='1.0'?><urlset xmlns='http://www.sitemaps.org/schemas/sitemap/0.9'>{entries}</urlset>"
    )
}

/// A site whose pages are named in lists alone.
fn site() -> Site {
    let robots =
        "User-agent: *\nSitemap: /sitemap.xml.gz\nSitemap: http://lists.test/urls.txt\nSitemap: /packed\n";
    Site::start(move |_, path| match path {
        "/robots.txt" => SiteReply::bytes("text/plain", robots.as_bytes()),
        // As servers send them that do not know the ending, or take it for a page.
        "/sitemap.xml.gz" => SiteReply::bytes("text/html", &packed(&sitemap(&["/docs/packed", "/blog/1"]))),
        "/packed" => SiteReply::bytes("application/octet-stream", &packed(&sitemap(&["/docs/nameless"]))),
        "/urls.txt" => SiteReply::bytes(
            "text/plain",
            b"http://lists.test/docs/plain\r\nhttp://lists.test/blog/2\r\nhttp://elsewhere.test/\r\n",
        ),
        _ => SiteReply::html(format!("<title>{path}</title><p>Words of a page, as they are at {path}.")),
    })
}

/// The pages that a crawl asks for.
fn crawled(site: &Site, more: &[&str]) -> Vec<String> {
    let (data, before) = (Data::new(), site.asked());
    let mut arguments = vec!["crawl".to_string(), "http://lists.test/".into()];
    arguments.extend(site.flags(&["lists.test", "elsewhere.test"]));
    arguments.extend(more.iter().map(|text| text.to_string()));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    data.run_well(&arguments);
    let pages = site.asked().into_iter().filter(|(page, count)| before.get(page) != Some(count));
    let mut pages: Vec<String> =
        pages.map(|(page, _)| page.trim_start_matches("lists.test").to_string()).collect();
    pages.sort();
    pages
}

#[test]
fn packed_and_plain_lists_are_read_whatever_they_are_called_and_served_as() {
    let site = site();
    let lists = ["/packed", "/robots.txt", "/sitemap.xml.gz", "/urls.txt"];
    let mut all = ["/", "/blog/1", "/blog/2", "/docs/nameless", "/docs/packed", "/docs/plain"].to_vec();
    all.extend(lists);
    all.sort();
    assert_eq!(crawled(&site, &[]), all);
    // Where a crawl keeps to some pages, it still reads the lists that name them.
    let mut some = ["/", "/docs/nameless", "/docs/packed", "/docs/plain"].to_vec();
    some.extend(lists);
    some.sort();
    assert_eq!(crawled(&site, &["--include", "/docs/"]), some);
    // What is left out by name stays out.
    some.retain(|page| *page != "/urls.txt" && *page != "/docs/plain");
    assert_eq!(crawled(&site, &["--include", "/docs/", "--exclude", "/urls.txt"]), some);
}
