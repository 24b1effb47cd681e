//! Names a language by the address of a page, as sites with translations write it.
//!
//! `/pt-br/`, `/es/` among the folders, `install.fr.html` or `index.html.fr` at the end, `gl.example.org` in front.
//! Weak evidence: for pages whose text and head say nothing.

use farol_base::{CanonicalUrl, Language};

/// Languages that folders and hosts are named by. Codes that are other things as often (`id`, `is`, `my`, `no`, `or`)
/// are not among them unless a region follows.
const CODES: &str = "ar bg bn ca cs cy da de el en eo es et eu fa fi fr ga gl he hi hr hu hy it ja ka ko lt lv mk nb nl \
    nn pl pt ro ru sk sl sq sr sv ta th tr uk ur vi zh";

/// The language that an address names; the last name counts.
pub fn of_address(url: &CanonicalUrl) -> Option<Language> {
    let mut parts = url.path().rsplit('/');
    let file = parts.next().unwrap_or("");
    let in_file = file.rsplit('.').take(3).filter(|part| part.len() < file.len()).find_map(read);
    let host = url.host();
    let label =
        || host.name().split('.').next().filter(|_| host.name().matches('.').count() > 1).and_then(read);
    in_file.or_else(|| parts.find_map(read)).or_else(label)
}

fn read(part: &str) -> Option<Language> {
    let language = Language::parse(part)?;
    match part.split_once(['-', '_']) {
        None => CODES.split(' ').any(|code| code == language.code()).then_some(language),
        Some((_, region)) => {
            let is_region = region.len() == 2 && region.bytes().all(|b| b.is_ascii_alphabetic());
            let is_script = matches!(region, "Hans" | "Hant" | "Latn" | "Cyrl");
            (is_region || is_script).then_some(language)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_languages() {
        let check = |url: &str, want: Option<&str>| {
            let found = of_address(&CanonicalUrl::parse(url).unwrap());
            assert_eq!(found.map(|language| language.to_string()).as_deref(), want, "{url}");
        };
        check("http://h/pt-br/install.html", Some("pt"));
        check("http://h/docs/pt_BR/", Some("pt"));
        check("http://h/help/es/a/b", Some("es"));
        check("http://h/en/book.fr.html", Some("fr"));
        check("http://h/mod/core.html.es", Some("es"));
        check("http://gl.example.org/wiki/Faro", Some("gl"));
        check("http://es.example/", None); // The site's own name.
        check("http://h/id/7", None);
        check("http://h/id-ID/7", Some("id"));
        check("http://h/en-gine/x", None);
        check("http://h/go", None);
        check("http://h/es", None); // A file, not a folder.
    }
}
