//! Asks the written questions through the JSON API and notes where the first sensible answer stands.

use super::http;
use super::queries::{QUERIES, Query};
use std::net::SocketAddr;

/// Results asked for.
const COUNT: usize = 5;

/// What came back for one question.
pub struct Answer {
    pub query: &'static Query,
    /// Titles and URLs, the best first.
    pub results: Vec<(String, String)>,
    /// Place of the first sensible result, from 1.
    pub rank: Option<usize>,
    pub milliseconds: f64,
}

pub fn ask_all(address: SocketAddr) -> Result<Vec<Answer>, String> {
    QUERIES.iter().map(|query| ask(address, query)).collect()
}

fn ask(address: SocketAddr, query: &'static Query) -> Result<Answer, String> {
    let words = http::escaped(query.words);
    let path = format!("/api/v1/search?q={words}&count={COUNT}&hl={}", query.language);
    let json = http::get(address, &path)?;
    let results: Vec<(String, String)> = json
        .get("hits")
        .list()
        .iter()
        .map(|hit| (hit.get("title").text().to_string(), hit.get("url").text().to_string()))
        .collect();
    let sensible = results.iter().position(|(title, url)| query.is_answered_by(title, url));
    Ok(Answer {
        query,
        rank: sensible.map(|place| place + 1),
        results,
        milliseconds: json.get("took_ms").number(),
    })
}
