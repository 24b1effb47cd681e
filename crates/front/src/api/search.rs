//! `/api/v1/search`, `/api/v1/suggest`, and suggestions as browsers want them.

use super::instant;
use crate::failure::Failure;
use crate::pages::copy::copy_at;
use crate::params::{Params, link};
use crate::question::{COUNT_MAX, Question, RANK_MAX, SUGGESTIONS_MAX, prefix};
use crate::shared::Shared;
use crate::text::Visitor;
use axum::Json;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use farol_base::query::{Answer, Fragment, Hit};
use serde::Serialize;
use std::sync::Arc;

#[derive(Serialize)]
pub(crate) struct SearchWire {
    query: String,
    first: usize,
    count: usize,
    total: usize,
    more: bool,
    suggestion: Option<String>,
    corrected: Option<String>,
    complaints: Vec<ComplaintWire>,
    generation: u64,
    /// Only where there are several.
    #[serde(skip_serializing_if = "Option::is_none")]
    shards: Option<ShardsWire>,
    /// Engines of others that did not answer in time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<String>,
    took_ms: f64,
    /// How long ago the answer was made, where it was kept.
    age_ms: u64,
    hits: Vec<HitWire>,
}

#[derive(Serialize)]
struct ShardsWire {
    total: u32,
    answered: u32,
}

#[derive(Serialize)]
struct ComplaintWire {
    code: &'static str,
    subject: String,
    message: String,
}

#[derive(Serialize)]
struct HitWire {
    url: String,
    title: String,
    snippet: String,
    /// The same texts in pieces, with the words asked for marked.
    title_fragments: Vec<FragmentWire>,
    snippet_fragments: Vec<FragmentWire>,
    language: Option<String>,
    dated: Option<String>,
    fetched: String,
    score: f32,
    duplicates: u32,
    more_from_host: bool,
    pinned: bool,
    /// Who fetched the page, where that was not this engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    source: Option<SourceWire>,
    stored_copy: String,
}

#[derive(Serialize)]
struct SourceWire {
    engine: String,
    name: String,
    site: Option<String>,
}

#[derive(Serialize)]
struct FragmentWire {
    text: String,
    hit: bool,
}

pub(crate) async fn search(
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Json<SearchWire>, Failure> {
    if params.text("q").is_empty() {
        return Err(Failure::invalid("q: words to look for are needed"));
    }
    let first = params.number("first", 0, 0..=RANK_MAX)?;
    let count = params.number("count", shared.settings.results_per_page, 1..=COUNT_MAX)?;
    let question = Question::read(params.text("q"), first, count, visitor.languages)
        .with_words_as_written(params.text("exact") == "1");
    let answer = if question.is_empty() {
        Answer::default()
    } else {
        let request = question.request.clone();
        shared.ask(move |engine| engine.search(&request)).await??
    };
    Ok(Json(wire(question, answer)))
}

fn wire(question: Question, answer: Answer) -> SearchWire {
    let complaints = question.complaints.iter().map(|complaint| ComplaintWire {
        code: complaint.code(),
        subject: complaint.subject(),
        message: complaint.to_string(),
    });
    SearchWire {
        first: question.request.first,
        count: answer.hits.len(),
        total: answer.total,
        more: answer.more,
        suggestion: answer.suggestion.as_ref().map(farol_query::write),
        corrected: answer.corrected.as_ref().map(farol_query::write),
        complaints: complaints.collect(),
        generation: answer.generation,
        shards: answer.shards.map(|shards| ShardsWire { total: shards.total, answered: shards.answered }),
        missing: answer.missing,
        took_ms: answer.took.as_secs_f64() * 1e3,
        age_ms: u64::try_from(answer.age.as_millis()).unwrap_or(u64::MAX),
        hits: answer.hits.into_iter().map(hit).collect(),
        query: question.text,
    }
}

fn hit(hit: Hit) -> HitWire {
    HitWire {
        stored_copy: stored_copy(&hit),
        title: text(&hit.title),
        snippet: text(&hit.snippet),
        title_fragments: fragments(hit.title),
        snippet_fragments: fragments(hit.snippet),
        language: hit.language.map(|language| language.code().to_string()),
        dated: hit.dated.map(instant),
        fetched: instant(hit.fetched),
        score: if hit.score.is_finite() { hit.score } else { 0.0 },
        duplicates: hit.duplicates,
        more_from_host: hit.more_from_host,
        pinned: hit.pinned,
        source: hit.source.map(|source| SourceWire {
            engine: source.engine.iter().map(|byte| format!("{byte:02x}")).collect(),
            site: Some(source.site).filter(|site| !site.is_empty()),
            name: source.name,
        }),
        url: hit.url.as_str().to_string(),
    }
}

/// Where the copy is: here, or at the engine that fetched the page and shows it.
fn stored_copy(hit: &Hit) -> String {
    let there = hit.source.as_ref().and_then(|source| copy_at(source, &hit.url));
    there.unwrap_or_else(|| link("/copy", [("url", hit.url.as_str())]))
}

fn text(fragments: &[Fragment]) -> String {
    fragments.iter().map(|fragment| &*fragment.text).collect()
}

fn fragments(fragments: Vec<Fragment>) -> Vec<FragmentWire> {
    fragments.into_iter().map(|Fragment { text, hit }| FragmentWire { text, hit }).collect()
}

#[derive(Serialize)]
pub(crate) struct SuggestWire {
    query: String,
    suggestions: Vec<String>,
}

pub(crate) async fn suggest(
    State(shared): State<Arc<Shared>>,
    params: Params,
) -> Result<impl IntoResponse, Failure> {
    let (query, suggestions) = completions(&shared, &params).await?;
    Ok(([(CACHE_CONTROL, "private, max-age=60")], Json(SuggestWire { query, suggestions })))
}

/// `["typed", ["completion", …]]`, as the OpenSearch Suggestions extension says.
pub(crate) async fn opensearch_suggestions(
    State(shared): State<Arc<Shared>>,
    params: Params,
) -> Result<Response, Failure> {
    let body = completions(&shared, &params).await?;
    let body = serde_json::to_string(&body).map_err(|_| Failure::internal())?;
    let headers = [(CONTENT_TYPE, "application/x-suggestions+json"), (CACHE_CONTROL, "private, max-age=60")];
    Ok((headers, body).into_response())
}

async fn completions(shared: &Shared, params: &Params) -> Result<(String, Vec<String>), Failure> {
    let typed = prefix(params.text("q")).to_string();
    if typed.is_empty() {
        return Ok((typed, Vec::new()));
    }
    let asked = typed.clone();
    let mut found = shared.ask(move |engine| engine.suggest(&asked, SUGGESTIONS_MAX)).await?;
    found.truncate(SUGGESTIONS_MAX);
    Ok((typed, found))
}
