//! Pages that show no language have that of the pages around them, in whatever order they came.

use crate::fixture::{Data, files};
use crate::site::{Site, SiteReply};

const PROSE: [&str; 6] = [
    "O faroleiro acendia a luz todas as noites, antes que os barcos voltassem ao porto com o peixe da manhã.",
    "As ondas batiam contra as pedras do cais enquanto os pescadores contavam histórias de outros tempos.",
    "Na aldeia ninguém se lembrava de um inverno tão longo nem de uma primavera que demorasse tanto a chegar.",
    "A velha biblioteca guardava os mapas que os navegadores tinham desenhado durante as suas viagens.",
    "Quando o vento mudava de direção, as gaivotas procuravam abrigo debaixo do telhado da capela.",
    "Os filhos do ferreiro aprendiam o ofício do pai, mas sonhavam com terras que nunca tinham visto.",
];

/// A site that leads to a page of code first, and then to pages of prose beside it.
fn site() -> Site {
    Site::start(|_, path| match path {
        "/robots.txt" => SiteReply::missing(),
        "/docs/" => SiteReply::html(format!(
            "<title>Índice do manual</title><p>{}</p><a href=/docs/code>0</a>{}",
            PROSE[5],
            (0..5).map(|n| format!(" <a href=/docs/{n}>{n}</a>")).collect::<String>()
        )),
        "/docs/code" => {
            SiteReply::html("<title>x0</title><pre>zqx = fn(q1) { w7 += 0x1f; }</pre>".to_string())
        }
        path => {
            let number: usize = path.trim_start_matches("/docs/").parse().unwrap_or(0);
            SiteReply::html(format!("<title>Capítulo {number}</title><p>{}</p>", PROSE[number % 5]))
        }
    })
}

#[test]
fn a_page_without_a_language_is_found_in_that_of_its_neighbours_after_a_crawl_and_after_an_import() {
    let site = site();
    let found = |data: &Data, filter: &str| {
        let answer = data.run(&["search", &format!("zqx {filter}"), "--json"]);
        let answer: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap();
        answer["hits"].as_array().unwrap().len()
    };
    let crawled = Data::new();
    let mut arguments = vec!["crawl".to_string(), "--index".into(), "http://docs.test/docs/".into()];
    arguments.extend(site.flags(&["docs.test"]));
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    crawled.run_well(&arguments);
    let imported = Data::new();
    for file in files(&crawled.path().join("pages"), ".warc.gz") {
        imported.run_well(&["import", file.to_str().unwrap()]);
    }
    for data in [&crawled, &imported] {
        let pages = data.run_well(&["export", "pages"]);
        let code = pages.lines().find(|line| line.contains("/docs/code")).unwrap();
        let code: serde_json::Value = serde_json::from_str(code).unwrap();
        assert!(code["language"].is_null(), "it shows none of its own: {code}");
        assert_eq!(
            (found(data, ""), found(data, "lang:pt"), found(data, "lang:es"), found(data, "-lang:pt")),
            (1, 1, 0, 0)
        );
    }
    // And so after the index is built anew.
    std::fs::remove_dir_all(crawled.path().join("index")).unwrap();
    assert_eq!(found(&crawled, "lang:pt"), 1);
}
