//! From bytes to text and links: `cargo run -p farol-parse --example page_to_text`.

use farol_base::{CanonicalUrl, Language};
use farol_parse::{Complaint, PageInput, Wants, page};

/// As pages are: another charset than the header says, tags left open, menus around the text, and no end.
const PAGE: &[u8] = b"<!doctype html><html lang=pt><title>O farol da Barra</title>
<nav><a href='/'>Casa</a> <a href='/sobre'>Sobre</a></nav>
<main><h1>O farol</h1>
<p>O farol da Barra guia os navios que chegam \xe0 ba\xeda de Todos os Santos desde o s\xe9culo dezessete.
<p>Quem sobe a torre v\xea a cidade inteira; a <a href='../mapas/barra?zona=1&amp;z=9#torre'>planta da torre</a> mostra
as escadas, e <a rel=nofollow href='http://outro.example/'>outro s\xedtio</a> conta a hist\xf3ria dos far\xf3is.
</main><footer>Copyright</footer><a href='mailto:x@y'>Correio</a> <a href=";

fn main() {
    let url = CanonicalUrl::parse("http://farol.example/guia/barra").expect("a good URL");
    let parsed = page(&PageInput {
        url: &url,
        content_type: Some("text/html; charset=utf-8"),
        body: PAGE,
        robots_tags: &[],
        agent: "farol",
        wants: Wants::Everything,
    });

    println!("title     {}", parsed.title);
    println!("language  {:?}, charset {}", parsed.language, parsed.charset);
    println!("text      {}", parsed.body.replace('\n', "\n          "));
    for link in &parsed.links {
        println!(
            "link      {} ({}){}",
            link.url,
            link.anchor,
            if link.nofollow { ", not counted" } else { "" }
        );
    }
    println!("odd       {:?}", parsed.complaints);

    // Reading never fails: what was wrong is told beside what was read.
    assert!(parsed.complaints.contains(&Complaint::CharsetWrong));
    assert!(parsed.complaints.contains(&Complaint::Unfinished));
    assert_eq!(parsed.language, Language::parse("pt"));
    assert!(parsed.body.contains("chegam à baía") && !parsed.body.contains("Copyright"));
    let links: Vec<&str> = parsed.links.iter().map(|link| link.url.as_str()).collect();
    assert!(links.contains(&"http://farol.example/mapas/barra?zona=1&z=9"), "resolved, without its fragment");
    assert!(!links.iter().any(|link| link.starts_with("mailto")));
}
