//! The worked examples of the specification of views, numbered as there; some were computed by a sketch of another hand, some
//! on paper.

use crate::view::context::{ANALYSIS, Signature};
use crate::view::geo::Place;
use crate::view::{Answer, Candidate, Facts, View, atom};
use Answer::{No, Unknown, Yes};
use farol_base::{CanonicalUrl, Language};

/// Names of places and signatures are put in as they stand in the table.
fn view(text: &str) -> View {
    let (recife, joao_pessoa, natal) = ("-8.0476,-34.8770", "-7.1195,-34.8450", "-5.7945,-35.2110");
    let signature =
        |stems: std::ops::Range<u32>| atom::write_signature(ANALYSIS, &Signature::of(stems).unwrap());
    let (a, b, c) = (signature(0..40), signature(20..60), signature(100..140));
    let words: Vec<String> = text
        .replace("Recife", &format!("geo:{recife}"))
        .replace("JP", &format!("geo:{joao_pessoa}"))
        .replace("Natal", &format!("geo:{natal}"))
        .split(' ')
        .map(|word| match word.strip_prefix("like:").and_then(|rest| rest.split_once('~')) {
            Some((name, radius)) => {
                let signature = match name {
                    "a" => &a,
                    "b" => &b,
                    _ => &c,
                };
                format!("like:http://{name}/~{radius}#{signature}")
            }
            None => word.to_string(),
        })
        .collect();
    View::parse(&words.join(" ")).unwrap_or_else(|error| panic!("{}", error.pointed()))
}

#[track_caller]
fn contains(number: u32, v: &str, w: &str, want: Answer) {
    let (v, w) = (view(v), view(w));
    let (answer, witness) = v.contains(&w).unwrap();
    assert_eq!(answer, want, "example {number}");
    assert_eq!(witness.is_some(), want == No, "example {number}: a no has a witness");
    if let Some(witness) = witness {
        assert_eq!(
            (v.has(witness.facts()), w.has(witness.facts())),
            (No, Yes),
            "example {number}: {witness}"
        );
    }
}

#[track_caller]
fn meets(number: u32, v: &str, w: &str, want: Answer) {
    let (v, w) = (view(v), view(w));
    for (v, w) in [(&v, &w), (&w, &v)] {
        let (answer, witness) = v.intersects(w).unwrap();
        assert_eq!(answer, want, "example {number}");
        assert_eq!(witness.is_some(), want == Yes, "example {number}: a yes has a witness");
        if let Some(witness) = witness {
            assert_eq!(
                (v.has(witness.facts()), w.has(witness.facts())),
                (Yes, Yes),
                "example {number}: {witness}"
            );
        }
    }
}

#[test]
fn examples_1_to_12_of_names() {
    contains(1, ".br", ".ufpe.br", Yes);
    contains(2, ".ufpe.br", ".br", No);
    meets(3, ".cesar.org.br", ".ufpe.br", No);
    contains(4, ".br minus .ufpe.br", ".cin.ufpe.br", No);
    meets(5, ".br minus .ufpe.br", ".ufpe.br", No);
    contains(6, "(.br minus .ufpe.br) or .ufpe.br", ".br", Yes);
    contains(7, "host:ufpe.br", "domain:ufpe.br", No);
    meets(8, "domain:fpe.br", "domain:ufpe.br", No);
    contains(9, "host:www.ufpe.br", "prefix:www.ufpe.br/docs/", Yes);
    meets(10, "prefix:www.ufpe.br/doc", "prefix:www.ufpe.br/docs", No);
    contains(11, "prefix:www.ufpe.br/docs", "page:https://www.ufpe.br/docs/a.html?x=1", Yes);
    meets(12, "host:www.ufpe.br", "page:http://www.ufpe.br:8080/", No);
}

#[test]
fn examples_13_to_18_of_addresses() {
    contains(13, "ip:150.161.0.0/16", "net:150.161.2.9~1", Yes);
    meets(14, "net:150.161.2.9~1", "net:150.161.3.9~1", No);
    contains(15, "net:150.161.2.9~4", "ip:2001:db8::/32", Yes);
    contains(16, "ip:10.0.0.0/25 or ip:10.0.0.128/25", "ip:10.0.0.0/24", Yes);
    contains(17, "ip:10.0.0.0/25 or ip:10.0.0.192/26", "ip:10.0.0.0/24", No);
    meets(18, "net:2001:db8:1:2::9~1", "net:2001:db8:1:3::9~1", No);
}

#[test]
fn examples_19_to_22_of_discs() {
    meets(19, "Recife~200", "Natal~50", No);
    meets(19, "Recife~200", "Natal~54", Yes);
    contains(20, "Recife~200", "JP~90", Yes);
    contains(20, "Recife~200", "JP~100", No);
    contains(21, "Recife~60 or JP~60", "geo:-7.6,-34.86~20", Yes);
    contains(21, "Recife~60 or JP~60", "geo:-7.6,-34.86~50", No);
    meets(22, "JP~90 minus Recife~200", "all", No);
}

#[test]
fn examples_23_to_28_of_what_a_page_says() {
    contains(23, "lang:pt or not lang:pt", "all", Yes);
    meets(24, ".br and lang:pt", ".br and lang:es", No);
    contains(25, ".br and not lang:en", ".br and lang:und", Yes);
    contains(26, "type:text/*", "type:text/html", Yes);
    meets(27, "dated:2020..2021", "dated:2021..", No);
    contains(28, "dated:..2021 or dated:2021..", "all", No);
}

#[test]
fn examples_29_to_37_of_links_likeness_and_titles() {
    contains(29, "linked:http://a/~3", "linked:http://a/~2", Yes);
    contains(29, "linked:http://a/~3", "page:http://a/", Yes);
    contains(30, "linked:http://a/~2", "linked:http://a/~3", No);
    meets(31, "like:a~40", "like:c~50", No);
    contains(32, "like:a~90", "like:b~20", Yes);
    contains(32, "like:a~90", "like:b~30", Unknown);
    meets(33, "like:a~40", "like:b~40", Yes);
    meets(34, "like:a~30", "like:b~37", Unknown);
    contains(35, ".br and like:a~40", ".ufpe.br", No);
    meets(36, ".br and Recife~200", ".ufpe.br", Yes);
    meets(37, "title:\"praia\"", "not title:\"praia\"", No);
}

#[test]
fn examples_38_to_40_of_pages() {
    let page = |url: &str| Facts::of(&CanonicalUrl::parse(url).unwrap());
    let check = |number: u32, text: &str, page: Facts, want: Answer| {
        assert_eq!(view(text).has(&page), want, "example {number}");
    };
    check(38, ".br and lang:pt", page("http://x.br/"), Unknown);
    check(38, ".br and lang:pt", page("http://x.br/").language(Some(Language::SPANISH)), No);
    check(38, ".br and lang:pt", page("http://x.com/"), No);
    check(39, ".ufpe.br or Recife~200", page("http://www.ufpe.br/"), Yes);
    check(40, "not ip:10.0.0.0/8", page("http://x.br/"), Unknown);
    let at = page("http://x.br/").place(Place::at(-8.0, -34.9).unwrap());
    check(39, ".ufpe.br or Recife~200", at, Yes);
}

#[test]
fn examples_41_to_43_of_differences_core_and_hull() {
    let left = view(".br").difference(&view(".ufpe.br and lang:pt")).unwrap();
    assert_eq!(left, view("(.br minus .ufpe.br) or (.ufpe.br and not lang:pt)"), "example 41");
    assert_eq!(view(".ufpe.br").difference(&view(".br")).unwrap(), View::none(), "example 42");
    let both = view(".br and lang:pt");
    assert_eq!(both.core().unwrap(), View::none(), "example 43");
    assert_eq!(both.hull().unwrap(), view(".br"), "example 43");
}

#[track_caller]
fn covers(number: u32, whole: &str, candidates: &[(&str, f64)], want: &[usize], residual: &str) {
    let candidates: Vec<Candidate> =
        candidates.iter().map(|(text, cost)| Candidate { view: view(text), cost: *cost }).collect();
    let cover = view(whole).cover(&candidates, &|_| 1.0).unwrap();
    assert_eq!(cover.chosen, want, "example {number}");
    assert_eq!(cover.residual, view(residual), "example {number}");
    assert_eq!(cover.whole, Answer::of(residual == "none"), "example {number}");
}

#[test]
fn examples_44_to_47_of_covers() {
    let (a, b, c) = (".br minus .ufpe.br", ".ufpe.br", ".cin.ufpe.br");
    let (d, e) = (".br and lang:pt", ".br and not lang:pt");
    covers(44, ".br", &[(a, 1.0), (b, 1.0), (c, 1.0), (d, 1.0)], &[0, 1], "none");
    covers(45, ".br", &[(b, 1.0), (d, 1.0), (e, 1.0)], &[1, 2], "none");
    covers(46, ".br", &[(b, 1.0), (".hpg.com.br", 1.0)], &[0, 1], ".br minus .ufpe.br minus .hpg.com.br");
    let f = ".ufpe.br minus .cin.ufpe.br";
    covers(47, ".ufpe.br and lang:pt", &[(c, 1.0), (f, 1.0), (".br", 1.0)], &[2], "none");
    covers(47, ".ufpe.br and lang:pt", &[(c, 1.0), (f, 1.0), (".br", 3.0)], &[0, 1], "none");
}

#[test]
fn example_48_of_a_digest() {
    let hex: String = view(".cin.ufpe.br").digest().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "b264825bb421d632027fe4bfaa74f96d58b1c78e4482e773b6622180474ce498");
}
