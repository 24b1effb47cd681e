//! Lines as people type them, and lines that nobody should.

use super::*;
use proptest::prelude::*;

/// The query in its canonical text, then the codes of the complaints in brackets.
#[track_caller]
fn check(line: &str, want: &str) {
    let reading = read(line);
    let mut got = write(&reading.query);
    for complaint in &reading.complaints {
        got.push_str(&format!(" [{}]", complaint.code()));
        let sentence = complaint.to_string();
        assert!(sentence.contains(&complaint.subject()), "{sentence}");
    }
    assert_eq!(got.trim_start(), want, "{line}");
    assert_eq!(read(&write(&reading.query)).query, reading.query, "{line}");
}

#[test]
fn words_and_phrases() {
    check("ponte  rio", "ponte rio");
    check("Ponte Rio–Niterói", "Ponte Rio–Niterói");
    check(r#""ponte rio" -mar -"a b""#, r#""ponte rio" -mar -"a b""#);
    check("“ponte rio”　«a b»", r#""ponte rio" "a b""#);
    check("C++ c# .net AT&T", "C++ c# .net AT&T");
    check("😀 ! - … ?", "😀");
    check("git --amend", "git --amend");
    check("", "");
    check("  \u{FEFF} ", "");
    check(r#""""#, "");
    check("buffalo buffalo", "buffalo buffalo");
}

#[test]
fn filters() {
    check("x site:https://Example.org/", "x site:example.org");
    check("x site:*.example.org/docs -SITE:a.example.org", "x site:example.org/docs -site:a.example.org");
    check("site:a.org site:b.org site:a.org", "site:a.org site:b.org");
    check(
        "intitle:ponte intitle:\"a b\" -inurl:c inurl:“d/e”",
        r#"intitle:ponte intitle:"a b" inurl:"d/e" -inurl:c"#,
    );
    check("x lang:pt-BR lang:inglês -language:es", "x lang:pt lang:en -lang:es");
    check("x filetype:PDF ext:.htm -ext:txt", "x filetype:pdf filetype:html -filetype:txt");
    check("x site：example.org", "x site:example.org");
    check("x after:2023 before:2024-05 after:2022", "x after:2023-01-01 before:2024-05-01");
    check("x -before:2023 -after:2024-05-06", "x after:2023-01-01 before:2024-05-06");
    check(r#"lang:"pt" x"#, "x lang:pt");
}

#[test]
fn bad_syntax_is_read_as_words() {
    check(r#"a "b c"#, "a b c [unclosed_quote]");
    check(r#"-"b c"#, "c -b [unclosed_quote]");
    check(r#"19" monitor"#, "19 monitor");
    check("x before:yesterday", "x before:yesterday [bad_date]");
    check("x after:06/05/2024", "x after:06/05/2024 [bad_date]");
    check("x lang:klingonese", "x lang:klingonese [bad_language]");
    check(r#"x lang:"old norse""#, r#"x "old norse" [bad_language]"#);
    check("x site:a..b", "x site:a..b [bad_site]");
    check("x filetype:a/b", "x filetype:a/b [bad_file_type]");
    check("x site: example.org", "x site: example.org [empty_filter]");
    check("x intitle:!", "x intitle:! [empty_filter]");
    check(r#"x site:"b c"#, "x site: b c [empty_filter] [unclosed_quote]");
    check("-a -site:b", "-a -site:b [only_exclusions]");
    check("-a", "-a [only_exclusions]");
    check("-a lang:pt", "-a lang:pt");
}

#[test]
fn only_what_looks_like_a_filter_is_complained_about() {
    check("allintitle:x", "allintitle:x [unknown_filter]");
    check("stie:example.org", "stie:example.org [unknown_filter]");
    check("fletype:pdf", "fletype:pdf [unknown_filter]");
    check("sitee:a", "sitee:a [unknown_filter]");
    check("a:b std::vec note:this 10:30 re:x", "a:b std::vec note:this 10:30 re:x");
    check("ratio 3:4 host:", "ratio 3:4 host:");
}

#[test]
fn operators_of_other_engines_are_words() {
    check("nasa OR esa", "nasa OR esa [operator_word]");
    check("nasa AND \"a b\"", "nasa AND \"a b\" [operator_word]");
    check("nasa or esa", "nasa or esa");
    check("Portland OR", "Portland OR"); // A place, not an operator.
    check("OR gate", "OR gate");
}

#[test]
fn an_address_alone_is_a_place_to_look_in() {
    check("https://example.org", "site:example.org [address_as_site]");
    check("HTTP://Example.org/a/b?c=d#e", r#"inurl:"c=d" site:example.org/a/b [address_as_site]"#);
    check("http://example.org/ !", "site:example.org [address_as_site]");
    check("fetch http://example.org/a failed", "fetch http://example.org/a failed");
    check("x -http://example.org/a", "x -site:example.org/a");
    check("http://", "http://");
    check("example.org", "example.org");
}

#[test]
fn long_lines_are_cut_between_words() {
    let many = (0..40).map(|i| format!("w{i}")).collect::<Vec<_>>().join(" ");
    let reading = read(&many);
    assert_eq!(reading.query.wanted.len(), QUERY_TERMS_MAX);
    assert_eq!(reading.complaints, [Complaint::TooLong { kept: QUERY_TERMS_MAX }]);

    let reading = read(&format!("{} {}", "a".repeat(1500), "ü".repeat(1000)));
    assert_eq!((reading.query.wanted.len(), reading.complaints.len()), (1, 1));
    let reading = read(&"ü".repeat(3000));
    assert_eq!(reading.query.wanted[0].text.len(), QUERY_BYTES_MAX);
    assert_eq!(read(&format!("a{}", " ".repeat(5000))).complaints, []);
    // A complaint quotes only as much as fits a line.
    assert!(read(&format!("site:..{}", "a".repeat(2000))).complaints.iter().all(|c| c.subject().len() < 100));
    // Growth counts: escapes make a site longer than it was typed.
    let reading = read(&format!("{} site:h/{}", "x".repeat(300), "ü".repeat(300)));
    assert_eq!(reading.complaints, [Complaint::TooLong { kept: 1 }]);
}

/// Pieces that mean something, so that random lines are more than noise.
fn line() -> impl Strategy<Value = String> {
    let marks = prop::sample::select(vec![
        "\"",
        "“",
        "»",
        "«",
        "-",
        "−",
        "--",
        " ",
        " ",
        "　",
        ":",
        "：",
        "site:",
        "intitle:",
        "inurl:",
        "lang:",
        "ext:",
        "before:",
        "-after:",
        "2024",
        "-05",
        "pt",
        "a",
        "b",
        "ü",
        "http://",
        "https://h/",
        "/c?d=1",
        ".",
        "*.",
        "'",
        "+",
        "OR",
        "[::1]",
        "%2e",
        "|",
        ";sid=",
        "\u{200B}",
        "\0",
        "T07:00:00Z",
        "@",
        "#",
    ]);
    prop_oneof![
        4 => prop::collection::vec(marks, 0..24).prop_map(|parts| parts.concat()),
        1 => ".{0,80}",
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_was_read_can_be_written_and_read_again(line in line()) {
        let query = read(&line).query;
        let text = write(&query);
        let again = read(&text);
        prop_assert_eq!(&again.query, &query, "{}", &text);
        prop_assert_eq!(write(&again.query), text);
    }

    #[test]
    fn so_can_sites_of_any_shape(site in r#"-?site:(https?:)?[a-z.:/\\*%;?#\[\]@0-9]{0,16}"#) {
        let query = read(&site).query;
        prop_assert_eq!(read(&write(&query)).query, query, "{}", site);
    }

    #[test]
    fn limits_hold(parts in prop::collection::vec(line(), 0..60)) {
        let reading = read(&parts.join(" "));
        let filters = &reading.query.filters;
        let terms = reading.query.wanted.len() + reading.query.unwanted.len() + filters.sites.len() + filters.not_sites.len()
            + filters.languages.len() + filters.file_types.len();
        prop_assert!(terms <= QUERY_TERMS_MAX);
        prop_assert!(write(&reading.query).len() <= QUERY_BYTES_MAX);
        prop_assert!(reading.complaints.len() <= COMPLAINTS_MAX);
        prop_assert_eq!(read(&write(&reading.query)).query, reading.query);
    }
}
