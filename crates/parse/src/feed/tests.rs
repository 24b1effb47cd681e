//! Feeds as people write them, one `check` per kind.

use super::*;
use proptest::prelude::*;

fn base() -> CanonicalUrl {
    CanonicalUrl::parse("http://h/dir/feed.xml").unwrap()
}

/// Entries as `url|title|date`.
#[track_caller]
fn check(feed: &str, want: &[&str]) {
    let entries = parse(feed.as_bytes(), &base()).expect("it is a feed");
    let got: Vec<String> = entries
        .iter()
        .map(|e| format!("{}|{}|{}", e.url, e.title, e.updated.map(|at| at.to_string()).unwrap_or_default()))
        .collect();
    assert_eq!(got, want, "{feed}");
}

#[test]
fn rss() {
    check(
        r#"<?xml version="1.0"?><rss version="2.0" xmlns:atom="http://www.w3.org/2005/Atom"><channel>
           <title>All</title><link>http://h/</link><atom:link href="http://h/feed.xml" rel="self"/>
           <image><link>http://h/</link></image>
           <item><title>A &amp; B</title><link> http://h/a?x=1&amp;y=2 </link><pubDate>Mon, 06 May 2024 07:08:09 GMT</pubDate></item>
           <item><title><![CDATA[<b>Bold</b> &amp; more]]></title><link><![CDATA[http://h/b?x&y]]></link></item>
           <item><guid>http://h/c</guid></item>
           <item><guid isPermaLink="false">http://h/no</guid></item>
           <item><guid>tag:h,2024:d</guid><title>no address</title></item>
           <item><description><p>x</p><link>http://h/inner</link></description><link>../e</link></item>
           </channel></rss>"#,
        &[
            "http://h/a?x=1&y=2|A & B|2024-05-06T07:08:09Z",
            "http://h/b?x&y|Bold & more|",
            "http://h/c||",
            "http://h/e||",
        ],
    );
    check(r#"<rss version="0.91"><channel><item><link>/a</link></item></channel></rss>"#, &["http://h/a||"]);
    check("<rss><channel></channel></rss>", &[]);
}

#[test]
fn rdf() {
    check(
        r#"<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns="http://purl.org/rss/1.0/">
           <channel rdf:about="http://h/"><link>http://h/</link></channel>
           <item rdf:about="http://h/a"><title>A</title><dc:date>2024-05-06T07:08:09+02:00</dc:date></item>
           <item rdf:about="http://h/x"><link>http://h/b</link></item></rdf:RDF>"#,
        &["http://h/a|A|2024-05-06T05:08:09Z", "http://h/b||"],
    );
    let foaf = br#"<rdf:RDF><foaf:Person><foaf:name>X</foaf:name></foaf:Person></rdf:RDF>"#;
    assert_eq!(parse(foaf, &base()), None);
}

#[test]
fn atom() {
    check(
        r#"<feed xmlns="http://www.w3.org/2005/Atom" xml:base="http://g/x/"><title>All</title><link href="http://g/"/>
           <entry><title type="html">A &lt;i&gt;b&lt;/i&gt; &amp;amp; c</title><link rel="self" href="s"/>
           <link rel="alternate" href="a"/><id>urn:uuid:1</id><updated>2024-05-06T07:08:09Z</updated>
           <published>2023-01-01T00:00:00Z</published></entry>
           <entry xml:base="/y/"><link href="b"/><published>2023-01-01</published></entry>
           <entry><id>http://g/c</id></entry>
           <entry><link rel="enclosure" href="x.mp3"/></entry>
           </feed>"#,
        &["http://g/x/a|A b & c|2024-05-06T07:08:09Z", "http://g/y/b||2023-01-01T00:00:00Z", "http://g/c||"],
    );
}

#[test]
fn broken_feeds_give_what_was_read() {
    check(
        "<rss><channel><item><link>/a</link></item><item><link>/b</link></rss>",
        &["http://h/a||", "http://h/b||"],
    );
    check(
        "<rss><channel><item><link>/a</link><item><link>/b</link></item>",
        &["http://h/a||", "http://h/b||"],
    );
    check("<rss><channel><item><link>/a</link></item><item <<<", &["http://h/a||"]);
    check(
        "<rss><item><title>a & b &nbsp; &eacute; &bogus; &#233;</title><link>/a</link></item>",
        &["http://h/a|a & b é &bogus; é|"],
    );
    check(
        "<rss><item><description>1 < 2<br></description></b><link>/a</link></item></rss>",
        &["http://h/a||"],
    );
}

#[test]
fn what_is_no_feed() {
    for text in [
        "",
        "text",
        "<html><item><link>/a</link></item></html>",
        "<urlset></urlset>",
        "{\"a\": 1}",
        "<",
        "\u{0}",
    ] {
        assert_eq!(parse(text.as_bytes(), &base()), None, "{text}");
    }
}

#[test]
fn other_encodings() {
    let latin = b"<?xml version=\"1.0\" encoding=\"ISO-8859-1\"?><rss><item><title>\xE9t\xE9</title><link>/a</link></item></rss>";
    assert_eq!(parse(latin, &base()).unwrap()[0].title, "été");
    let wide: Vec<u8> = "\u{feff}<rss><item><title>é</title><link>/a</link></item></rss>"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    assert_eq!(parse(&wide, &base()).unwrap()[0].title, "é");
}

#[test]
fn entity_bombs_do_not_grow() {
    let mut bomb = String::from("<!DOCTYPE rss [<!ENTITY a \"aaaaaaaaaa\">");
    for n in 1..30 {
        bomb.push_str(&format!("<!ENTITY a{n} \"&a{m};&a{m};&a{m};&a{m};&a{m};&a{m};\">", m = n - 1));
    }
    bomb.push_str("]><rss><channel><item><title>&a29;</title><link>/a</link></item></channel></rss>");
    check(&bomb, &["http://h/a|&a29;|"]);
}

#[test]
fn size_is_bounded() {
    let long = format!(
        "<rss><item><title>{}</title><link>/{}</link></item></rss>",
        "word ".repeat(100_000),
        "x".repeat(100_000)
    );
    assert_eq!(parse(long.as_bytes(), &base()), Some(vec![])); // The address is too long to be one.
    let long = format!("<rss><item><title>{}</title><link>/x</link></item></rss>", "word ".repeat(100_000));
    assert!(parse(long.as_bytes(), &base()).unwrap()[0].title.len() <= TITLE_BYTES_MAX);
    let many = format!("<rss>{}", "<item><link>/a</link></item>".repeat(ENTRIES_MAX + 10));
    assert_eq!(parse(many.as_bytes(), &base()).unwrap().len(), ENTRIES_MAX);
    let deep = format!("<rss><item>{}", "<a>".repeat(200_000));
    assert_eq!(parse(deep.as_bytes(), &base()), Some(vec![]));
}

proptest! {
    #[test]
    fn no_text_breaks_it(text in "(<rss>|<feed>|<item>|</item>|<entry a='b'>|<link>|</link>|<link href='a'/>|<!\\[CDATA\\[|\\]\\]>|&#?[a-z0-9]{0,4};?|<!--|-->|<title>|[ab/<>&\"é]){0,30}") {
        let _ = parse(text.as_bytes(), &base());
    }

    #[test]
    fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&[b"<rss><item>".as_slice(), &bytes].concat(), &base());
    }
}
