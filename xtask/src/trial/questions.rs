//! The questions, each with the pages that answer it, and where Farol puts these.
//!
//! `questions.tsv` holds a line per question: set, language, kind, words, and one to three pages as `label/path`.

use super::sites;
use crate::debian_docs::ask::{self, Hit};
use crate::debian_docs::log;
use std::net::SocketAddr;

const FILE: &str = include_str!("questions.tsv");

/// Kinds of questions, as the file names them.
pub const KINDS: &[&str] = &["keyword", "misspelt", "sentence", "navigational", "identifier"];

/// Languages of questions.
pub const LANGUAGES: &[&str] = &["pt", "es", "en"];

/// Results asked for: a page of them.
const COUNT: usize = 10;

/// A question with its right pages.
#[derive(Debug)]
pub struct Question {
    pub set: &'static str,
    /// Language of the question and of the search page.
    pub language: &'static str,
    pub kind: &'static str,
    pub words: &'static str,
    /// Right pages, as URLs; one is enough.
    pub pages: Vec<String>,
}

/// Where the right page stands.
pub struct Placed<'a> {
    pub question: &'a Question,
    /// The best first.
    pub results: Vec<Hit>,
    /// Place of the first right page, from 1.
    pub rank: Option<usize>,
    pub milliseconds: f64,
}

pub fn read() -> Result<Vec<Question>, String> {
    FILE.lines().map(|line| question(line).ok_or(format!("not a question: {line}"))).collect()
}

fn question(line: &'static str) -> Option<Question> {
    let fields: Vec<&str> = line.split('\t').collect();
    let &[set, language, kind, words, pages] = &fields[..] else {
        return None;
    };
    let pages: Option<Vec<String>> = pages.split(' ').map(|page| url(set, page)).collect();
    Some(Question { set, language, kind, words, pages: pages? })
}

/// The URL of `label/path` on a site that the set asks about.
fn url(set: &str, page: &str) -> Option<String> {
    let (label, path) = page.split_once('/')?;
    let site = sites::of_set(set).iter().find(|site| site.label == label)?;
    Some(format!("http://{}/{path}", site.host()))
}

impl Question {
    /// The place of the first right page among results, from 1.
    fn place<'a>(&self, mut urls: impl Iterator<Item = &'a str>) -> Option<usize> {
        let right: Vec<String> = self.pages.iter().map(|url| spelling(url)).collect();
        urls.position(|url| right.contains(&spelling(url))).map(|place| place + 1)
    }
}

/// One spelling of a URL: a folder and its front page are the same page.
fn spelling(url: &str) -> String {
    let plain = log::spelling(url);
    plain.strip_suffix("/index.html").map_or(plain.clone(), |folder| format!("{folder}/"))
}

pub fn ask_all<'a>(address: SocketAddr, questions: &[&'a Question]) -> Result<Vec<Placed<'a>>, String> {
    let ask = |question: &&'a Question| {
        let (results, milliseconds) = ask::search(address, question.words, question.language, COUNT)?;
        let rank = question.place(results.iter().map(|hit| hit.url.as_str()));
        Ok(Placed { question, results, rank, milliseconds })
    };
    questions.iter().map(ask).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_set_is_large_and_mixed() {
        let questions = read().unwrap();
        for set in ["a", "b", "c"] {
            let count = |wanted: &dyn Fn(&Question) -> bool| {
                questions.iter().filter(|question| question.set == set && wanted(question)).count()
            };
            assert!(count(&|_| true) >= 64, "{set}");
            for language in LANGUAGES {
                assert!(count(&|question| question.language == *language) >= 12, "{set} {language}");
            }
            for (kind, least) in KINDS.iter().zip([20, 10, 12, 8, 6]) {
                assert!(count(&|question| question.kind == *kind) >= least, "{set} {kind}");
            }
        }
    }

    #[test]
    fn questions_are_asked_once_and_have_one_to_three_pages() {
        let questions = read().unwrap();
        for (at, question) in questions.iter().enumerate() {
            assert!(["a", "b", "c"].contains(&question.set), "{question:?}");
            assert!(LANGUAGES.contains(&question.language), "{question:?}");
            assert!(KINDS.contains(&question.kind), "{question:?}");
            assert!((1..=3).contains(&question.pages.len()), "{question:?}");
            assert!(questions[..at].iter().all(|other| other.words != question.words), "{question:?}");
        }
    }

    #[test]
    fn the_first_right_page_counts() {
        let question = question("a\ten\tkeyword\tx\tmkdocs/a/index.html mkdocs/b%2D.html").unwrap();
        let check =
            |urls: &[&str], place| assert_eq!(question.place(urls.iter().copied()), place, "{urls:?}");
        check(&["http://mkdocs.docs.test/c", "http://mkdocs.docs.test/a/"], Some(2));
        check(&["http://mkdocs.docs.test/b-.html", "http://mkdocs.docs.test/a/index.html"], Some(1));
        check(&["http://rust.docs.test/a/", "http://mkdocs.docs.test/a"], None);
    }

    #[test]
    fn a_line_of_another_shape_is_no_question() {
        assert!(question("a\ten\tkeyword\twords").is_none());
        assert!(question("a\ten\tkeyword\twords\tnowhere/a.html").is_none());
    }
}
