//! Asks the written questions through the JSON API and notes where the first sensible answer stands.

use super::http;
use super::queries::{QUERIES, Query};
use crate::json::Json;
use std::net::SocketAddr;

/// Results asked for.
const COUNT: usize = 5;

/// What came back for one question.
pub struct Answer {
    pub query: &'static Query,
    /// The best first.
    pub results: Vec<Hit>,
    /// Place of the first sensible result, from 1.
    pub rank: Option<usize>,
    pub milliseconds: f64,
}

/// One result.
pub struct Hit {
    pub title: String,
    pub url: String,
    /// The page's language, as Farol sees it.
    pub language: String,
}

pub fn ask_all(address: SocketAddr) -> Result<Vec<Answer>, String> {
    QUERIES.iter().map(|query| ask(address, query)).collect()
}

fn ask(address: SocketAddr, query: &'static Query) -> Result<Answer, String> {
    let (results, milliseconds) = search(address, query.words, query.language, COUNT)?;
    let sensible = results.iter().position(|hit| query.is_answered_by(&hit.title, &hit.url));
    Ok(Answer { query, rank: sensible.map(|place| place + 1), results, milliseconds })
}

/// What the search page in `language` finds, the best first, and how many milliseconds it took.
pub fn search(
    address: SocketAddr,
    words: &str,
    language: &str,
    count: usize,
) -> Result<(Vec<Hit>, f64), String> {
    let words = http::escaped(words);
    let path = format!("/api/v1/search?q={words}&count={count}&hl={language}");
    let json = http::get(address, &path, "")?;
    let field = |hit: &Json, name: &str| hit.get(name).text().to_string();
    let hits = json.get("hits").list().iter().map(|hit| Hit {
        title: field(hit, "title"),
        url: field(hit, "url"),
        language: field(hit, "language"),
    });
    Ok((hits.collect(), json.get("took_ms").number()))
}
