//! The two written forms: what is read, how it is spelled, and where a wrong text is pointed at.

use crate::Error;
use crate::view::{Limits, View};

#[track_caller]
fn check(text: &str, canonical: &str, json: &str) {
    let view = View::parse(text).unwrap_or_else(|error| panic!("{}", error.pointed()));
    assert_eq!(view.as_str(), canonical);
    assert_eq!(view.to_json(), json);
    assert_eq!(View::parse(canonical).unwrap(), view, "the canonical text is a fixed point");
    assert_eq!(View::from_json(json).unwrap(), view);
    // A foreign reader finds the JSON well formed too.
    serde_json::from_str::<serde_json::Value>(json).unwrap();
}

#[test]
fn each_condition_has_one_spelling() {
    check(".PT", "domain:pt", r#"{"domain":"pt"}"#);
    check("domain:.Bücher.example", "domain:xn--bcher-kva.example", r#"{"domain":"xn--bcher-kva.example"}"#);
    check("host:WWW.a.org:443", "host:www.a.org", r#"{"host":"www.a.org"}"#);
    check("host:[::1]:8080", "host:[::1]:8080", r#"{"host":"[::1]:8080"}"#);
    check("prefix:https://a.org/x/../docs/", "prefix:a.org/docs", r#"{"prefix":"a.org/docs"}"#);
    check("prefix:a.org/", "host:a.org", r#"{"host":"a.org"}"#);
    check("prefix:a.org/a//", "prefix:a.org/a//", r#"{"prefix":"a.org/a//"}"#);
    check(
        r#"page:"https://a.org/x(1)#top""#,
        r#"page:"http://a.org/x(1)""#,
        r#"{"page":"http://a.org/x(1)"}"#,
    );
    check("page:http://a.org/~me", "page:http://a.org/~me", r#"{"page":"http://a.org/~me"}"#);
    check("ip:150.161.7.7/16", "ip:150.161.0.0/16", r#"{"ip":"150.161.0.0/16"}"#);
    check("ip:::ffff:10.0.0.0/104", "ip:10.0.0.0/8", r#"{"ip":"10.0.0.0/8"}"#);
    check("ip:2001:db8::1", "ip:2001:db8::1/128", r#"{"ip":"2001:db8::1/128"}"#);
    check("net:150.161.2.9~2", "ip:150.161.0.0/16", r#"{"ip":"150.161.0.0/16"}"#);
    check("net:::1~4", "all", "true");
    check(
        "country:PT or country:none",
        "country:none or country:pt",
        r#"{"or":[{"country":"none"},{"country":"pt"}]}"#,
    );
    check("geo:-8.04761,0~0.50", "geo:-8.0476,0.0000~0.5km", r#"{"geo":["-8.0476,0.0000","0.5km"]}"#);
    check("geo:1,2~20km", "geo:1.0000,2.0000~20km", r#"{"geo":["1.0000,2.0000","20km"]}"#);
    check("lang:pt-BR", "lang:pt", r#"{"lang":"pt"}"#);
    check("type:Text/HTML", "type:text/html", r#"{"type":"text/html"}"#);
    check("dated:2020-01-01..2022-05", "dated:2020..2022-05", r#"{"dated":"2020..2022-05"}"#);
    check("dated:..", "dated:..", r#"{"dated":".."}"#);
    check("dated:none", "dated:none", r#"{"dated":"none"}"#);
    check("title:Práia", "title:\"praia\"", r#"{"title":"praia"}"#);
    check(
        "linked:https://a.org/~me/~2",
        "linked:http://a.org/~me/~2",
        r#"{"linked":["http://a.org/~me/",2]}"#,
    );
    check("linked:http://a.org/~0", "page:http://a.org/", r#"{"page":"http://a.org/"}"#);
    check(
        "like:http://a/~40#AQAAAAEAAAAC",
        "like:http://a/~40#AQAAAAEAAAAC",
        r#"{"like":["http://a/",40,"AQAAAAEAAAAC"]}"#,
    );
}

#[test]
fn expressions_have_one_spelling() {
    check(
        "not (.a and not .b)",
        "domain:b or not domain:a",
        r#"{"or":[{"domain":"b"},{"not":{"domain":"a"}}]}"#,
    );
    check(".b or .a or .b", "domain:a or domain:b", r#"{"or":[{"domain":"a"},{"domain":"b"}]}"#);
    check(
        ".c and (.b or .a)",
        "(domain:a or domain:b) and domain:c",
        r#"{"and":[{"or":[{"domain":"a"},{"domain":"b"}]},{"domain":"c"}]}"#,
    );
    check(
        ".a and .b or .c",
        "domain:a and domain:b or domain:c",
        r#"{"or":[{"and":[{"domain":"a"},{"domain":"b"}]},{"domain":"c"}]}"#,
    );
    check(
        ".a minus .b minus .c",
        "domain:a and not domain:b and not domain:c",
        r#"{"and":[{"domain":"a"},{"not":{"domain":"b"}},{"not":{"domain":"c"}}]}"#,
    );
    check("not not ( all )", "all", "true");
    check(".a and none", "none", "false");
    let spaced = View::from_json(" { \"and\" : [ { \"domain\" : \"\\u0062r\" } , true ] } ").unwrap();
    assert_eq!(spaced, View::parse(".br").unwrap());
}

#[track_caller]
fn refused(text: &str, at: usize, wants: &str) {
    let read = if text.starts_with('{') { View::from_json(text) } else { View::parse(text) };
    let error = read.expect_err(text);
    let Error::Syntax { at: found, .. } = &error else { panic!("{error}") };
    assert_eq!(*found, at, "{}", error.pointed());
    assert!(error.to_string().contains(wants), "{error}");
}

#[test]
fn a_wrong_text_is_pointed_at() {
    refused("", 0, "a condition such as .pt");
    refused(".br and", 7, "found the end");
    refused(".br .pt", 4, "and, or, minus or the end, found \".pt\"");
    refused("(.br or .pt", 11, "and, or, minus or )");
    refused(".br)", 3, "the end");
    refused("or .br", 0, "a condition");
    refused(".br and lnag:pt", 8, "lang:");
    refused("lang:portuguese", 5, "two letters");
    refused("host:a/b", 5, "a host");
    refused("domain:a.org:80", 7, "a domain");
    refused("ip:10.0.0.0/33", 3, "an address block");
    refused("net:10.0.0.1", 12, "a radius, as in net:");
    refused("net:10.0.0.1~5", 13, "from 0 to 4");
    refused("geo:1,2~far", 8, "kilometres");
    refused("geo:91,2~1", 4, "latitude");
    refused("dated:2021-02-30..", 6, "from and before");
    refused("dated:2022..2021", 6, "an end after the beginning");
    refused("title:\"duas praias\"", 6, "one word");
    refused("title:\"praia", 6, "a quotation mark");
    refused("title:\"a\\q\"", 8, "JSON's escapes");
    refused("page:ftp://a/", 5, "its scheme is ftp");
    refused("type:html", 5, "a media type");
    refused("like:http://a/~101", 15, "from 0 to 100");
    refused("like:http://a/~10#!", 18, "a signature");
    refused("{\"domain\":\"br\"", 14, "one member");
    refused("{\"and\":{}}", 7, "a list");
    refused("{\"domain\":[\"br\",1]}", 16, "no radius");
    refused("{\"foo\":\"br\"}", 1, "domain:");
}

#[test]
fn what_is_too_large_is_refused_with_the_limit() {
    let long = format!(".{}", "a".repeat(9000));
    assert_eq!(View::parse(&long), Err(Error::TooLong { bytes: 9001, max: 8192 }));
    let many: Vec<String> = (0..257).map(|i| format!(".a{i}")).collect();
    assert_eq!(View::parse(&many.join(" or ")), Err(Error::TooManyAtoms { atoms: 257, max: 256 }));
    assert!(View::parse_within(&many.join(" or "), &Limits::own_file()).is_ok());
    // What is short as typed may be long as it is spelled.
    let short = (0..250).map(|i| format!(".{}{i}", "b".repeat(20))).collect::<Vec<_>>().join(" or ");
    assert!(short.len() < 8192 && matches!(View::parse(&short), Err(Error::TooLong { max: 8192, .. })));
    let deep = (0..40).fold(".a".to_string(), |inner, i| {
        if i % 2 == 0 { format!("(.x{i} and {inner})") } else { format!("(.x{i} or {inner})") }
    });
    assert!(matches!(View::parse(&deep), Err(Error::TooDeep { max: 32, .. })));
    assert!(matches!(View::parse(&"(".repeat(5000)), Err(Error::TooDeep { max: 64, .. })));
    assert!(matches!(View::from_json(&"{\"not\":".repeat(2000)), Err(Error::TooDeep { max: 64, .. })));
    // Every choice of one out of three, eight times over, in 6,561 boxes.
    let product: Vec<String> = (0..8).map(|i| format!("(title:a{i} or title:b{i} or title:c{i})")).collect();
    let view = View::parse(&product.join(" and ")).unwrap();
    assert_eq!(view.contains(&View::all()).unwrap_err(), Error::TooManyBoxes { max: 1024 });
}
