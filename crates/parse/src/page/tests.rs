//! Whole pages: what is read from them, and that nothing breaks the reader.

use super::*;
use crate::html::links::{ANCHOR_BYTES_MAX, LINKS_MAX};
use proptest::prelude::*;
use std::time::{Duration, Instant};

fn read_as(body: &[u8], content_type: Option<&str>, robots_tags: &[&str], wants: Wants) -> Parsed {
    let url = CanonicalUrl::parse("http://h/dir/page?q=1").unwrap();
    page(&PageInput { url: &url, content_type, body, robots_tags, agent: "farol", wants })
}

fn read(body: &str) -> Parsed {
    read_as(body.as_bytes(), Some("text/html; charset=utf-8"), &[], Wants::Everything)
}

/// Links as `address anchor`, with a minus before those not to be followed.
#[track_caller]
fn check_links(body: &str, want: &[&str]) {
    let parsed = read(body);
    let shown: Vec<String> = parsed
        .links
        .iter()
        .map(|link| {
            let mark = if link.nofollow { "-" } else { "" };
            format!("{mark}{} {}", link.url, link.anchor).trim_end().to_string()
        })
        .collect();
    assert_eq!(shown, want, "{body}");
    let fast = read_as(body.as_bytes(), Some("text/html; charset=utf-8"), &[], Wants::LinksOnly);
    assert_eq!(fast.links, parsed.links, "{body}");
}

#[test]
fn links_of_all_kinds() {
    check_links("<a href=x>One  <b>two</b>\nthree</a>", &["http://h/dir/x One two three"]);
    check_links(
        "<a href=' /x \n'>a</a><A HREF=\"/y?a=1&amp;b=2\">b",
        &["http://h/x a", "http://h/y?a=1&b=2 b"],
    );
    check_links("<a href=x>a<a href=y>b</a>", &["http://h/dir/x a", "http://h/dir/y b"]); // An `a` ends an `a`.
    check_links("<a href=x><img src=i alt='The  logo'></a>", &["http://h/dir/x The logo"]);
    check_links("<a href=x><img alt=logo>text</a>", &["http://h/dir/x text"]);
    check_links("<a href=x><div>a</div><div>b</div></a>", &["http://h/dir/x a b"]);
    check_links("<map><area href=x alt='Left &amp; up'></map>", &["http://h/dir/x Left & up"]);
    check_links("<iframe src=x></iframe><frame src=y>", &["http://h/dir/x", "http://h/dir/y"]);
    check_links("<link rel=next href=x><link rel='prev' href=y>", &["http://h/dir/x", "http://h/dir/y"]);
    check_links("<link rel=alternate hreflang=pt href=x>", &["http://h/dir/x"]);
    check_links("<link rel=stylesheet href=x><link rel='alternate stylesheet' href=y>", &[]);
    check_links("<form action=x><input type=submit></form>", &[]);
    check_links("<!-- <a href=x> --><script>'<a href=y>'</script><a href=z>", &["http://h/dir/z"]);
    check_links("<template><a href=x>a</a></template>", &["http://h/dir/x a"]);
}

#[test]
fn links_that_lead_nowhere() {
    check_links("<a href='#top'>a</a><a href=''>b</a><a>c</a><a name=x>d</a>", &[]);
    check_links("<a href='JavaScript:void(0)'>a</a><a href=mailto:a@b>b</a><a href='tel:1'>c</a>", &[]);
    check_links("<a href=ftp://h/x>a</a><a href=data:,x>b</a><a href='http://'>c</a>", &[]);
    check_links("<a href='?q=1'>itself</a><a href='page?q=1#x'>too</a>", &[]);
}

#[test]
fn each_address_once() {
    check_links("<a href=x></a><a href=x>a</a><a href=./x#y>b</a>", &["http://h/dir/x a"]);
    check_links(
        "<a rel='nofollow' href=x>a</a><a href=y rel='x UGC'>b</a>",
        &["-http://h/dir/x a", "-http://h/dir/y b"],
    );
    check_links("<a rel=nofollow href=x>a</a><a href=x>b</a>", &["http://h/dir/x a"]); // One mention counts.
    check_links(
        "<a rel=sponsored href=x>a</a><meta name=robots content=nofollow><a href=y>b",
        &["-http://h/dir/x a", "-http://h/dir/y b"],
    );
}

#[test]
fn the_base_of_links() {
    check_links("<base href=/other/><base href=/no/><a href=x>a", &["http://h/other/x a"]);
    check_links("<base href=//g/><a href=x>a", &["http://g/x a"]);
    check_links("<base href='mailto:x'><a href=x>a", &["http://h/dir/x a"]);
}

#[test]
fn the_head_is_read() {
    let parsed = read(
        "<html lang=pt-BR><head><title> A\n&eacute; B</title><title>no</title>\
         <meta name=Description content='Sobre &quot;isto&quot;'><meta property=og:description content=no>\
         <link rel=canonical href=/c?utm_source=x><link rel=alternate type=application/rss+xml href=/feed>\
         <meta property=article:published_time content=2024-05-06T07:08:09Z></head>\
         <body><svg><title>icon</title></svg><link rel=canonical href=/late>",
    );
    assert_eq!((parsed.title.as_str(), parsed.description.as_str()), ("A é B", "Sobre \"isto\""));
    assert_eq!(parsed.canonical.unwrap().as_str(), "http://h/c");
    assert_eq!(parsed.feeds[0].as_str(), "http://h/feed");
    assert_eq!(parsed.language, Some(Language::PORTUGUESE));
    assert_eq!(parsed.dated.unwrap().to_string(), "2024-05-06T07:08:09Z");
    assert_eq!(parsed.links, []);
    let social = read("<meta property=og:title content=T><meta property=og:description content=D>");
    assert_eq!((social.title.as_str(), social.description.as_str()), ("T", "D"));
    let json = read("<script type='application/ld+json'>{\"datePublished\":\"2020-01-02\"}</script>");
    assert_eq!(json.dated.unwrap().to_string(), "2020-01-02T00:00:00Z");
}

#[test]
fn refreshes_in_their_spellings() {
    let check = |content: &str, want: &str| {
        let parsed = read(&format!("<meta http-equiv=Refresh content=\"{content}\">"));
        assert_eq!(parsed.refresh.map_or(String::new(), |url| url.to_string()), want, "{content}");
    };
    check("0; url=/x", "http://h/x");
    check("0;URL='/x'", "http://h/x");
    check("5,/x", "http://h/x");
    check(" 3.5 ; Url = y?a=1&amp;b=2", "http://h/dir/y?a=1&b=2");
    check("30", "");
    check("0; url=", "");
    check("0; url=?q=1", ""); // The page itself, every so often.
    check("0; url=javascript:x", "");
}

#[test]
fn robots_rules_of_page_and_headers() {
    let check = |body: &str, tags: &[&str], want: (bool, bool)| {
        let parsed = read_as(body.as_bytes(), Some("text/html"), tags, Wants::LinksOnly);
        assert_eq!((parsed.noindex, parsed.nofollow), want, "{body} {tags:?}");
    };
    check("<meta name=robots content='noindex,nofollow'>", &[], (true, true));
    check("<meta name=ROBOTS content=None>", &[], (true, true));
    check("<meta name=Farol content=noindex>", &[], (true, false));
    check("<meta name=otherbot content=noindex>", &[], (false, false));
    check("", &["otherbot: noindex", "nofollow"], (false, true));
    check("<meta name=robots content=nofollow>", &["farol: noindex"], (true, true));
    let pdf = read_as(b"%PDF-1.4", Some("application/pdf"), &["noindex"], Wants::Everything);
    assert!(pdf.noindex && pdf.kind == Kind::Other && pdf.file_type == "pdf" && pdf.body.is_empty());
}

#[test]
fn a_page_without_a_title_is_called_by_its_first_heading() {
    assert_eq!(read("<div><h2>Guia</h2><p>texto<h2>Outra</h2></div>").title, "Guia");
    assert_eq!(read("<title>T</title><h1>Guia</h1>").title, "T");
    assert_eq!(read("<p>texto").title, "");
}

#[test]
fn text_without_markup() {
    let parsed =
        read_as("Título\n\n  uma   linha\noutra".as_bytes(), Some("text/plain"), &[], Wants::Everything);
    assert_eq!((parsed.title.as_str(), parsed.body.as_str()), ("Título", "Título\numa linha\noutra"));
    assert_eq!((parsed.kind, parsed.file_type.as_str()), (Kind::PlainText, "txt"));
}

#[test]
fn fingerprints_follow_the_text_and_not_the_markup() {
    let text =
        "Every page has one text, and this one is long enough to be taken for the main text of a page.";
    let one = read(&format!("<title>a</title><p>{text}"));
    let two = read(&format!("<!-- x --><title>b</title><div class=y><p>  {text}</p></div>"));
    assert_eq!((one.content_hash, one.simhash), (two.content_hash, two.simhash));
    assert_ne!(one.content_hash, read("<p>other").content_hash);
    // Where the text is a notice that many pages have, what stands around it tells them apart.
    let notice = |menu: &str| read(&format!("<nav>{menu}</nav><p>{text}</p>"));
    assert_ne!(notice("Lists of ships").content_hash, notice("Tides and moorings").content_hash);
    assert_ne!(notice("Lists of ships").simhash, notice("Tides and moorings").simhash);
    let fast = |body: &str| read_as(body.as_bytes(), None, &[], Wants::LinksOnly).content_hash;
    assert_ne!(fast("<p>a"), fast("<p>b"));
    assert_ne!(fast("<p>a b"), fast("<p>b a"));
    let trap = |token: u32| {
        let links = (0..9).map(|i| format!("<a href='/s?token={token}{i}'>x</a>")).collect::<String>();
        fast(&format!("<title>Session</title><script>t={token}</script><p>the same text always</p>{links}"))
    };
    assert_eq!(trap(1), trap(2)); // Only addresses and scripts differ.
    assert_ne!(fast("<img src=a>"), fast("<img src=b>")); // Without words, the bytes.
}

/// Reads a hostile page both ways. Twenty seconds is far more than a linear reader needs for a megabyte,
/// unoptimised and on a busy machine, and far less than a quadratic one.
#[track_caller]
fn survives(body: &[u8]) -> Parsed {
    let start = Instant::now();
    let fast = read_as(body, Some("text/html"), &[], Wants::LinksOnly);
    let parsed = read_as(body, Some("text/html"), &[], Wants::Everything);
    assert!(start.elapsed() < Duration::from_secs(20), "took {:?}", start.elapsed());
    assert_eq!(fast.links, parsed.links);
    parsed
}

#[test]
fn a_megabyte_of_anything() {
    const MEGABYTE: usize = 1 << 20;
    let of = |text: &str| text.repeat(MEGABYTE / text.len());
    assert!(survives(of("<").as_bytes()).complaints.is_empty());
    survives(of("<a href='").as_bytes());
    survives(of("<a href=x").as_bytes());
    survives(of("<!--").as_bytes());
    survives(of("</").as_bytes());
    survives(of("</div>").as_bytes());
    survives(of("&").as_bytes());
    survives(of("&#").as_bytes());
    survives(of("&#xD800;").as_bytes());
    survives(of("\0").as_bytes());
    survives(of("<a\0href=\0>").as_bytes());
    survives(of("<p><br>").as_bytes());
    survives(of("<script><!--<script>").as_bytes());
    survives(of("<title>").as_bytes());
    survives(of("<meta name=date content=2024><time datetime=2024>").as_bytes());
    survives(&[0xFF; MEGABYTE]);
    let big = survives(format!("<a href='{}' title='{}'>x</a>", of("y"), of("z")).as_bytes());
    assert_eq!(big.links, []); // A megabyte is no address.
}

#[test]
fn nesting_is_linear_and_told() {
    // Tree builders take seconds for 63 KB of this; see html5ever's issue 788.
    let parsed = survives("<ul><li>".repeat(1 << 16).as_bytes());
    assert!(parsed.complaints.contains(&Complaint::DeepNesting));
    survives("<div><table><tr><td>".repeat(1 << 14).as_bytes());
    let closed = format!("{}deep{}", "<div>".repeat(10_000), "</div>".repeat(10_000));
    assert_eq!(survives(closed.as_bytes()).body, "deep");
    survives(format!("<li><ul>{}{}", "<div>".repeat(190), "<li></p></li>".repeat(20_000)).as_bytes());
}

#[test]
fn links_and_anchors_are_bounded() {
    let many: String = (0..LINKS_MAX + 10).map(|i| format!("<a href={i}>{i}</a>")).collect();
    let parsed = survives(many.as_bytes());
    assert_eq!(parsed.links.len(), LINKS_MAX);
    assert_eq!(parsed.complaints, [Complaint::LinksCut]);
    let long = survives(format!("<a href=x>{}</a>", "é".repeat(100_000)).as_bytes());
    assert_eq!(long.links[0].anchor.len(), ANCHOR_BYTES_MAX);
}

#[test]
fn bodies_are_bounded() {
    let mut body = vec![b' '; BODY_BYTES_MAX];
    body.extend_from_slice(b"<a href=x>");
    let parsed = read_as(&body, Some("text/html"), &[], Wants::LinksOnly);
    assert_eq!((parsed.links.len(), parsed.complaints), (0, vec![Complaint::BodyCut]));
    let unfinished = read("text <a href='x");
    assert_eq!(unfinished.complaints, [Complaint::Unfinished]);
}

proptest! {
    #[test]
    fn no_bytes_break_it(body in proptest::collection::vec(any::<u8>(), 0..400), html in any::<bool>()) {
        let content_type = if html { Some("text/html") } else { None };
        read_as(&body, content_type, &["noindex, x: y"], Wants::Everything);
    }

    #[test]
    fn the_fast_way_finds_the_same_links(
        parts in proptest::collection::vec(proptest::sample::select(&[
            "<a href=/1>", "<a href='2?a=1&amp;b'>", "</a>", "text ", "<p>", "</p>", "<img alt=i>", "<base href=/b/>",
            "<td>", "<script>", "</script>", "<!--", "-->", "<area href=3 alt=x>", "<a rel=nofollow href=1>", "<", "&lt;",
            "<meta name=robots content=nofollow>", "<iframe src=4></iframe>", "<title>", "</title>", "<a href=\"",
        ][..]), 0..30)
    ) {
        let body = parts.concat();
        let fast = read_as(body.as_bytes(), Some("text/html"), &[], Wants::LinksOnly);
        let full = read_as(body.as_bytes(), Some("text/html"), &[], Wants::Everything);
        prop_assert_eq!(fast.links, full.links);
        prop_assert_eq!(fast.title, full.title);
        prop_assert_eq!(fast.complaints, full.complaints);
    }
}
