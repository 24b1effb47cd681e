//! What an operator decides about answers, through the settings and the binary: synonyms, pages that come first, and how
//! many results of a host stand together.

use crate::fixture::{Data, Farol};
use crate::site::{Site, SiteReply};
use std::time::Duration;

/// Two sites; one of them has five pages about the harbour.
fn sites() -> Site {
    Site::start(|host, path| match (host, path) {
        (_, "/robots.txt") => SiteReply::missing(),
        ("many.test", "/") => SiteReply::html(
            (0..5).map(|n| format!(" <a href=/{n}>{n}</a>")).collect::<String>() + "<title>Many</title>links",
        ),
        ("many.test", path) => {
            SiteReply::html(format!("<title>Harbour {path}</title><p>The harbour, page {path}."))
        }
        ("one.test", "/") => {
            SiteReply::html("<title>Ports</title><p>Ships rest. <a href=/port>the quay</a>".to_string())
        }
        ("one.test", "/port") => SiteReply::html(
            "<title>A haven</title><p>The haven, in other words, and the harbour.".to_string(),
        ),
        _ => SiteReply::missing(),
    })
}

/// The addresses that a search of a folder gives, best first.
fn found(data: &Data, words: &str) -> Vec<String> {
    let answer = data.run(&["search", words, "--json"]);
    let answer: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
    answer["hits"].as_array().unwrap().iter().map(|hit| hit["url"].as_str().unwrap().to_string()).collect()
}

#[test]
fn synonyms_pins_and_hits_per_host_are_as_the_settings_say() {
    let (sites, data) = (sites(), Data::new());
    let rules = tempfile::tempdir().unwrap();
    let [synonyms, pins] = ["synonyms.txt", "pins.txt"].map(|name| rules.path().join(name));
    let settings = |hits: usize| {
        data.configure(&format!(
            "[search]\nsynonyms = '{}'\npins = '{}'\n[serve]\nhits_per_host = {hits}\n",
            synonyms.display(),
            pins.display()
        ));
    };
    let write = |path: &std::path::Path, text: &str| std::fs::write(path, text).unwrap();
    write(&synonyms, "# nothing yet\n");
    write(&pins, "# nothing yet\n");
    settings(2);
    let mut arguments =
        ["crawl", "--index", "http://many.test/", "http://one.test/"].map(String::from).to_vec();
    arguments.extend(sites.flags(&["many.test", "one.test"]));
    data.run_well(&arguments.iter().map(String::as_str).collect::<Vec<_>>());

    let of_many = |urls: &[String]| urls.iter().map(|url| url.contains("//many.test/")).collect::<Vec<_>>();
    // After two pages of a host another one comes; with any number, they stand as they score.
    let two = found(&data, "harbour");
    assert_eq!(two.len(), 6, "{two:?}");
    assert_eq!(of_many(&two)[..3].iter().filter(|many| **many).count(), 2, "{two:?}");
    settings(1);
    assert_eq!(of_many(&found(&data, "harbour"))[..2].iter().filter(|many| **many).count(), 1);
    settings(0);
    assert_eq!(of_many(&found(&data, "harbour"))[..5], [true; 5], "{:?}", found(&data, "harbour"));

    assert!(found(&data, "marina").is_empty());
    write(&synonyms, "marina, harbour\nseaport => haven\n");
    assert_eq!(found(&data, "marina").len(), 6);
    assert_eq!(found(&data, "seaport"), ["http://one.test/port"]);
    write(&pins, "harbour, where to land => http://one.test/\n");
    assert_eq!(found(&data, "harbour")[0], "http://one.test/");
    assert_eq!(found(&data, "where to land")[0], "http://one.test/");

    // An engine that runs reads the files again when they change, and says of a wrong one what is wrong.
    settings(2);
    let mut farol = Farol::start(&data, "serve", &[]);
    let mut first = || farol.json("/api/v1/search?q=harbour")["hits"][0]["url"].as_str().unwrap().to_string();
    assert_eq!(first(), "http://one.test/");
    write(&pins, "harbour => http://many.test/3\n# and no more\n");
    let begun = std::time::Instant::now();
    while first() != "http://many.test/3" {
        assert!(begun.elapsed() < Duration::from_secs(60), "the new pins are not read");
        std::thread::sleep(Duration::from_millis(100));
    }
    farol.interrupt();
    write(&pins, "no arrow\n");
    let wrong = data.run(&["search", "harbour"]);
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(said.contains("pins.txt") && said.contains("1"), "{said}");
}
