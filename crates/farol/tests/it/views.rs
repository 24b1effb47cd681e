//! A crawl whose scope is a view: what belongs to it, when that is found out, and how it is explained.

use crate::fixture::{Data, Farol, Web};
use crate::site::{Site, SiteReply};
use farol_synthetic::WebConfig;

fn page(language: &str, title: &str, text: &str, links: &[&str]) -> SiteReply {
    let links: String = links.iter().map(|to| format!("<a href=\"{to}\">{to}</a> ")).collect();
    SiteReply::html(format!(
        "<html lang={language}><title>{title}</title><p>{}</p>{links}</html>",
        text.repeat(6)
    ))
}

#[track_caller]
fn explained(data: &Data, url: &str, want: &str) {
    let output = data.run(&["explain", url]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains(want), "{url} should be explained by {want:?}: {text}");
}

#[test]
fn a_country_of_the_web_in_its_language_is_crawled_and_nothing_else() {
    const PT: &str = "O mar estava calmo e as gaivotas voavam sobre a praia enquanto o sol descia devagar. ";
    const PORT: &str = "As ruas da aldeia descem até ao porto, onde os barcos esperam pela madrugada. ";
    const EN: &str =
        "The sea was calm and the gulls were flying over the beach while the sun went down slowly. ";
    let site = Site::start_at(2, |host, path| match (host, path) {
        (_, "/robots.txt") => SiteReply::missing(),
        // Outside by its name: a list of sites, which is where the crawl begins.
        ("portal.test", "/") => page(
            "en",
            "Sites",
            EN,
            &[
                "http://www.praia.pt/",
                "http://www.playa.es/",
                "http://longe.pt/",
                "http://www.governo.gov.pt/",
            ],
        ),
        ("www.praia.pt", "/") => page("pt", "Praia", PT, &["/en", "/mapa"]),
        ("www.praia.pt", "/en") => page("en", "Beach", EN, &["/so-daqui"]),
        ("www.praia.pt", "/mapa") => page("pt", "Mapa da praia", PORT, &[]),
        (_, path) => page("pt", path, PT, &[]),
    });
    let data = Data::new();
    let mut flags = site.flags(&["portal.test", "www.praia.pt", "www.playa.es", "www.governo.gov.pt"]);
    flags.extend(["--resolve".to_string(), format!("longe.pt=127.0.0.2:{}", site.port())]);
    let scope = "(.pt minus .gov.pt) and lang:pt and not country:zz";
    let tables = tempfile::tempdir().unwrap();
    let places = tables.path().join("places.csv");
    std::fs::write(&places, "127.0.0.0/8,pt\n127.0.0.2/32,zz\n").unwrap();
    data.configure(&format!("[crawl]\nscope = '{scope}'\nplaces = '{}'\n", places.display()));
    flags.push("http://portal.test/".to_string());
    let mut farol = Farol::start(&data, "up", &flags);
    let status = farol.wait_until_idle();
    let asked = site.asked();
    let mut pages: Vec<&str> =
        asked.keys().map(String::as_str).filter(|url| !url.ends_with("/robots.txt")).collect();
    pages.sort_unstable();
    assert_eq!(pages, ["portal.test/", "www.praia.pt/", "www.praia.pt/en", "www.praia.pt/mapa"]);
    assert!(
        !asked.contains_key("www.playa.es/robots.txt")
            && !asked.contains_key("www.governo.gov.pt/robots.txt")
    );
    assert_eq!(status["index"]["documents"], 2, "{status:#}");
    for (word, pages) in [("gaivotas", 1), ("barcos", 1), ("gulls", 0)] {
        assert_eq!(farol.json(&format!("/api/v1/search?q={word}"))["total"], pages, "{word}");
    }
    explained(&data, "http://www.playa.es/", "crawl.scope wants domain:pt");
    explained(&data, "http://www.governo.gov.pt/", "crawl.scope wants not domain:gov.pt");
    explained(&data, "http://www.praia.pt/en", "crawl.scope wants lang:pt");
    explained(&data, "http://www.praia.pt/en", "of the page is known: lang:en");
    explained(&data, "http://portal.test/", "crawl.scope wants domain:pt");
    explained(&data, "http://www.praia.pt/mapa", "Mapa da praia");
    farol.interrupt();
}

#[test]
fn views_of_names_keep_to_their_hosts_on_the_made_up_web() {
    let web = Web::start(WebConfig { hosts: 4, pages: 120, ..WebConfig::tame() });
    let (domain, name) = (&web.server.world().config().domain, |host| web.server.world().host_name(host));
    let scope = format!(".{domain} minus host:{} minus prefix:{}/x", name(1), name(2));
    let data = Data::new();
    let flags =
        [web.flags()[..2].to_vec(), ["--delay", "0", "--scope", &scope].map(String::from).to_vec()].concat();
    let mut farol = Farol::start(&data, "up", &[flags, vec![web.seed()]].concat());
    let status = farol.wait_until_idle();
    farol.interrupt();
    let entries = web.server.log().entries();
    let hosts: std::collections::BTreeSet<String> = entries.iter().map(|entry| entry.host.clone()).collect();
    assert!(!hosts.contains(&name(1)), "{hosts:?}");
    assert!(hosts.contains(&name(0)) && hosts.len() >= 2, "{hosts:?}");
    assert!(
        status["index"]["documents"].as_u64() > Some(10) && status["index"]["documents"].as_u64() < Some(120)
    );
    let refused = data.run(&["up", "--scope", "domian", &web.seed()]);
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.code() == Some(2) && told.contains("host, domain, prefix or web"), "{told}");
}

#[test]
fn views_are_read_compared_and_covered_on_the_command_line() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let output = crate::fixture::binary().args(["federation", "view"]).args(arguments).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        (format!("{out}{err}"), output.status.code().unwrap())
    };
    let (text, code) = run(&["check", ".pt", ".up.pt and lang:pt"]);
    assert!(code == 0 && text.contains("contains  yes"), "{text}");
    let (text, code) = run(&["check", ".up.pt", ".pt"]);
    assert!(code == 1 && text.contains("no: not http://pt/") && text.contains("left"), "{text}");
    let (text, code) = run(&["check", "{\"and\":[{\"domain\":\"pt\"},{\"lang\":\"pt\"}]}", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((value["hull"].as_str(), value["core"].as_str(), code), (Some("domain:pt"), Some("none"), 0));
    let (text, code) = run(&["check", ".pt and lnag:pt"]);
    assert!(code == 1 && text.contains("at character 9") && text.contains("^"), "{text}");
    let (text, code) = run(&["page", ".pt and lang:pt", "http://a.pt/"]);
    assert!(code == 4 && text.starts_with("unknown"), "{text}");
    let (text, code) = run(&["page", ".pt and lang:pt", "http://a.pt/", "--language", "es"]);
    assert!(code == 1 && text.contains("fails lang:pt"), "{text}");
    let file = dir.path().join("views");
    std::fs::write(&file, "# ours\n.pt minus .up.pt\n2 .up.pt\n9 .pt\n").unwrap();
    let (text, code) = run(&["cover", ".pt", file.to_str().unwrap()]);
    assert!(code == 0 && text.contains("2 hold all of domain:pt, at a cost of 3"), "{text}");
    std::fs::write(&file, ".up.pt\n").unwrap();
    let (text, code) = run(&["cover", ".pt", file.to_str().unwrap()]);
    assert!(code == 1 && text.contains("what is left: domain:pt and not domain:up.pt"), "{text}");
}
