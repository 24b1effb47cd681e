//! A small Web of real pages for people to try: books in Portuguese, Spanish and English, a host for each.
//!
//! The texts lie beside this crate in `texts/`, with `works.json` saying whose they are and where they are from; all
//! are in the public domain. A file holds chapters, each with its title after `# `, then paragraphs. Every chapter is a
//! page with links to the one before, the one after, its book, its author, and to the same chapter in another language
//! where there is one.
//!
//! INVARIANT: pure, as [`crate::World`] is: the same pages at the same addresses, always.

use super::answer::{Answer, Ask, HTML, Served, TEXT};
use super::server::Site;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// All hosts are below it.
pub const DOMAIN: &str = "library.test";

const WORKS: &str = include_str!("../texts/works.json");
const TEXTS: [(&str, &str); 6] = [
    ("alice", include_str!("../texts/alice.txt")),
    ("dom-casmurro", include_str!("../texts/dom-casmurro.txt")),
    ("king-james", include_str!("../texts/king-james.txt")),
    ("persuasion", include_str!("../texts/persuasion.txt")),
    ("reina-valera", include_str!("../texts/reina-valera.txt")),
    ("trafalgar", include_str!("../texts/trafalgar.txt")),
];

/// The pages, ready to be served.
#[derive(Debug)]
pub struct Library {
    /// By host and path.
    pages: BTreeMap<(String, String), String>,
}

/// What `works.json` says of a book.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Work {
    /// Of its file, and of its host.
    name: String,
    language: String,
    title: String,
    year: u16,
    author: String,
    lived: String,
    about: String,
    /// The same text in another language, chapter by chapter.
    parallel: Option<String>,
    source: String,
    licence: String,
}

struct Chapter<'a> {
    title: &'a str,
    paragraphs: Vec<&'a str>,
}

/// What stands around a text, in its language.
struct Words {
    next: &'static str,
    previous: &'static str,
    contents: &'static str,
    author: &'static str,
    other: &'static str,
    library: &'static str,
}

impl Library {
    /// Lays out the pages.
    ///
    /// # Errors
    /// Where the list of works or a text is not as it should be; a test reads the ones that are built in.
    pub fn open() -> Result<Library, super::Error> {
        let works: Vec<Work> = serde_json::from_str(WORKS).map_err(super::Error::Library)?;
        let texts: BTreeMap<&str, Vec<Chapter<'_>>> =
            TEXTS.iter().map(|(name, text)| (*name, chapters(text))).collect();
        let mut library = Library { pages: BTreeMap::new() };
        library.home(&works);
        for work in &works {
            let Some(chapters) = texts.get(&*work.name) else {
                return Err(super::Error::Config { what: "works.json names a book without a text" });
            };
            let parallel =
                work.parallel.as_ref().and_then(|name| works.iter().find(|other| other.name == *name));
            library.contents(work, chapters);
            for (at, chapter) in chapters.iter().enumerate() {
                library.chapter(work, parallel, chapters, at, chapter);
            }
        }
        Ok(library)
    }

    /// Where a crawl begins.
    pub fn seed(&self) -> String {
        format!("http://{}/", host("www"))
    }

    /// How many pages there are.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    fn add(&mut self, host_name: &str, path: &str, language: &str, title: &str, body: &str) {
        let page = format!(
            "<!DOCTYPE html>\n<html lang=\"{language}\">\n<head>\n<meta charset=\"utf-8\">\n\
             <title>{}</title>\n</head>\n<body>\n{body}</body>\n</html>\n",
            escaped(title)
        );
        self.pages.insert((host(host_name), path.to_string()), page);
    }

    /// The front page, and a page per author.
    fn home(&mut self, works: &[Work]) {
        let mut body = String::from(
            "<main>\n<h1>A small library</h1>\n<p>Books in Portuguese, Spanish and English that belong to everybody, \
             to try a search engine with.</p>\n<ul>\n",
        );
        for work in works {
            let to = author_path(work);
            // Writing into a string cannot fail.
            let _ = writeln!(
                body,
                "<li lang=\"{}\"><a href=\"http://{}/\">{}</a>, <a href=\"{to}\">{}</a>, {}</li>",
                work.language,
                host(&work.name),
                escaped(&work.title),
                escaped(&work.author),
                work.year
            );
            let about = format!(
                "<main>\n<h1>{}</h1>\n<p>{}</p>\n<p><a href=\"http://{}/\">{}</a> ({}): {}</p>\n</main>\n\
                 <nav><a href=\"/\">{}</a></nav>\n",
                escaped(&work.author),
                escaped(&work.lived),
                host(&work.name),
                escaped(&work.title),
                work.year,
                escaped(&work.about),
                words(&work.language).library
            );
            let title = format!("{} ({})", work.author, work.lived);
            self.add("www", &to, &work.language, &title, &about);
        }
        body.push_str("</ul>\n</main>\n");
        self.add("www", "/", "en", "A small library", &body);
    }

    /// A book's front page: what it is, whose, from where, and its chapters.
    fn contents(&mut self, work: &Work, chapters: &[Chapter<'_>]) {
        let mut body = format!(
            "<main>\n<h1>{}</h1>\n<p><a href=\"http://{}{}\">{}</a> ({}), {}</p>\n<p>{}</p>\n<ol>\n",
            escaped(&work.title),
            host("www"),
            author_path(work),
            escaped(&work.author),
            escaped(&work.lived),
            work.year,
            escaped(&work.about)
        );
        for (at, chapter) in chapters.iter().enumerate() {
            let _ = writeln!(body, "<li><a href=\"{}\">{}</a></li>", path(at), escaped(chapter.title));
        }
        let _ = writeln!(
            body,
            "</ol>\n</main>\n<footer><p lang=\"en\">{}; {}.</p></footer>",
            escaped(&work.source),
            escaped(&work.licence)
        );
        let title = format!("{}, {}", work.title, work.author);
        self.add(&work.name, "/", &work.language, &title, &body);
    }

    fn chapter(
        &mut self,
        work: &Work,
        parallel: Option<&Work>,
        all: &[Chapter<'_>],
        at: usize,
        chapter: &Chapter<'_>,
    ) {
        let words = words(&work.language);
        let mut body = format!("<main>\n<article>\n<h1>{}</h1>\n", escaped(chapter.title));
        for paragraph in &chapter.paragraphs {
            let _ = writeln!(body, "<p>{}</p>", escaped(paragraph));
        }
        body.push_str("</article>\n</main>\n<nav>\n");
        let mut link = |to: &str, rel: &str, text: &str| {
            let rel = if rel.is_empty() { String::new() } else { format!(" rel=\"{rel}\"") };
            let _ = writeln!(body, "<a href=\"{to}\"{rel}>{}</a>", escaped(text));
        };
        if at > 0 {
            link(&path(at - 1), "prev", &format!("{}: {}", words.previous, all[at - 1].title));
        }
        if let Some(next) = all.get(at + 1) {
            link(&path(at + 1), "next", &format!("{}: {}", words.next, next.title));
        }
        link("/", "", &format!("{}: {}", words.contents, work.title));
        link(
            &format!("http://{}{}", host("www"), author_path(work)),
            "author",
            &format!("{}: {}", words.author, work.author),
        );
        if let Some(other) = parallel {
            link(
                &format!("http://{}{}", host(&other.name), path(at)),
                &format!("alternate\" hreflang=\"{}", other.language),
                words.other,
            );
        }
        body.push_str("</nav>\n");
        let title = format!("{} · {}", chapter.title, work.title);
        self.add(&work.name, &path(at), &work.language, &title, &body);
    }
}

impl Site for Library {
    fn answer(&self, ask: &Ask<'_>, _: Duration, answer: &mut Answer) {
        let name = ask.host.rsplit_once(':').map_or(ask.host, |(name, _)| name).to_ascii_lowercase();
        *answer = match self.pages.get(&(name, ask.path.to_string())) {
            Some(page) => Answer::new(200, HTML, page.clone().into_bytes()),
            None => Answer::new(
                404,
                TEXT,
                b"There is no such page in this library.
"
                .to_vec(),
            ),
        };
        if answer.status == 200 {
            answer.served = Served::Page;
        }
    }

    fn domain(&self) -> &str {
        DOMAIN
    }

    fn compresses(&self) -> bool {
        true
    }

    fn about(&self) -> String {
        format!("A library of {} pages. It starts at {}", self.pages(), self.seed())
    }
}

/// Cuts a text into its chapters.
fn chapters(text: &str) -> Vec<Chapter<'_>> {
    let mut chapters: Vec<Chapter<'_>> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match (line.strip_prefix("# "), chapters.last_mut()) {
            (Some(title), _) => chapters.push(Chapter { title, paragraphs: Vec::new() }),
            (None, Some(chapter)) => chapter.paragraphs.push(line),
            (None, None) => {}
        }
    }
    chapters
}

fn host(name: &str) -> String {
    format!("{name}.{DOMAIN}")
}

fn path(chapter: usize) -> String {
    format!("/{}", chapter + 1)
}

/// `/authors/jane-austen`.
fn author_path(work: &Work) -> String {
    let plain = work.author.to_lowercase().replace('é', "e").replace('ó', "o");
    let words: Vec<&str> =
        plain.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()).collect();
    format!("/authors/{}", words.join("-"))
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn words(language: &str) -> Words {
    match language {
        "pt" => Words {
            next: "Seguinte",
            previous: "Anterior",
            contents: "Índice",
            author: "Autor",
            other: "O mesmo capítulo noutra língua",
            library: "A biblioteca",
        },
        "es" => Words {
            next: "Siguiente",
            previous: "Anterior",
            contents: "Índice",
            author: "Autor",
            other: "El mismo capítulo en inglés",
            library: "La biblioteca",
        },
        _ => Words {
            next: "Next",
            previous: "Previous",
            contents: "Contents",
            author: "Author",
            other: "The same chapter in Spanish",
            library: "The library",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn page(library: &Library, url: &str) -> Option<String> {
        let (host, path) = url.strip_prefix("http://")?.split_once('/')?;
        let mut answer = Answer::default();
        let path = format!("/{path}");
        library.answer(&Ask { host, path: &path, ..Ask::default() }, Duration::ZERO, &mut answer);
        (answer.status == 200).then(|| String::from_utf8(answer.body).unwrap())
    }

    #[test]
    fn every_page_is_reached_and_no_link_leads_nowhere() {
        let library = Library::open().unwrap();
        let (mut known, mut open) = (BTreeSet::from([library.seed()]), vec![library.seed()]);
        while let Some(url) = open.pop() {
            let text = page(&library, &url).unwrap_or_else(|| panic!("{url} leads nowhere"));
            for link in text.split("href=\"").skip(1).map(|rest| rest.split('"').next().unwrap()) {
                let root = url.splitn(4, '/').take(3).collect::<Vec<_>>().join("/");
                let to = if link.starts_with('/') { format!("{root}{link}") } else { link.to_string() };
                if known.insert(to.clone()) {
                    open.push(to);
                }
            }
        }
        assert_eq!(known.len(), library.pages());
        assert!(library.pages() > 250, "{}", library.pages());
    }

    #[test]
    fn pages_hold_the_texts_whole_and_escaped() {
        let library = Library::open().unwrap();
        let has =
            |url: &str, text: &str| assert!(page(&library, url).unwrap().contains(text), "{url}: {text}");
        has("http://dom-casmurro.library.test/32", "<title>XXXII. Olhos de ressaca · Dom Casmurro</title>");
        has("http://trafalgar.library.test/1", "Yo nací en Cádiz, y en el famoso barrio de la Viña");
        has("http://alice.library.test/7", "<h1>VII. A Mad Tea-Party</h1>");
        has("http://persuasion.library.test/23", "half agony, half hope");
        has("http://king-james.library.test/38", "A time to be born, and a time to die");
        has("http://reina-valera.library.test/38", "rel=\"alternate\" hreflang=\"en\"");
        has("http://www.library.test/authors/jane-austen", "1775–1817");
        assert_eq!(page(&library, "http://alice.library.test/13"), None);
        assert_eq!(page(&library, "http://nobody.library.test/"), None);
    }

    #[test]
    fn books_in_two_languages_have_the_same_chapters() {
        let works: Vec<Work> = serde_json::from_str(WORKS).unwrap();
        let count =
            |name: &str| TEXTS.iter().find(|(of, _)| *of == name).map(|(_, text)| chapters(text).len());
        for work in &works {
            assert!(count(&work.name).is_some_and(|count| count > 0), "{}", work.name);
            assert!(work.licence.starts_with("public domain") && !work.source.is_empty());
            if let Some(other) = &work.parallel {
                assert_eq!(count(&work.name), count(other));
            }
        }
        assert_eq!(works.len(), TEXTS.len());
    }
}
