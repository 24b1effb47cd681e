//! What pages that link to a page call it, as it is indexed with the page.

use farol_base::PageId;
use farol_links::{Error, Links};

/// Anchor text of one page that is indexed.
const ANCHOR_BYTES_MAX: usize = 4096;
/// Anchor texts that say where a link stands, not what it leads to.
const NAVIGATION: &[&str] = &[
    "next",
    "prev",
    "previous",
    "up",
    "home",
    "top",
    "back",
    "contents",
    "here",
    "more",
    "click here",
    "read more",
    "siguiente",
    "anterior",
    "subir",
    "inicio",
    "arriba",
    "volver",
    "aquí",
    "más",
    "leer más",
    "próximo",
    "próxima",
    "seguinte",
    "acima",
    "início",
    "voltar",
    "topo",
    "aqui",
    "mais",
    "leia mais",
];
/// The anchor texts of a page, the most frequent first, one per line.
pub fn anchor_text(links: &Links, page: PageId) -> Result<String, Error> {
    let mut text = String::new();
    for (anchor, count) in links.anchors(page)? {
        if NAVIGATION.contains(&anchor.to_lowercase().as_str()) {
            continue;
        }
        // What many pages call it says more than what one does, but not as many times more.
        for _ in 0..=count.max(1).ilog2().min(3) {
            if text.len() + anchor.len() > ANCHOR_BYTES_MAX {
                return Ok(text);
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&anchor);
        }
    }
    Ok(text)
}
