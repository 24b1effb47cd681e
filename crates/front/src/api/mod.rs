//! Answers for programs, as JSON under `/api/v1/`, described by the OpenAPI document served beside them.
//!
//! The structs that are serialised live in this folder only; the types of the engine stay free to change. A test
//! holds every answer against the document.

pub(crate) mod broken;
pub(crate) mod cluster;
pub(crate) mod commands;
pub(crate) mod federation;
pub(crate) mod hosts;
pub(crate) mod page;
pub(crate) mod plan;
pub(crate) mod ring;
pub(crate) mod search;
pub(crate) mod status;

use crate::Freshness;
use crate::failure::Failure;
use crate::pages;
use crate::text::Locale;
use axum::Json;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use farol_base::Timestamp;
use serde::Serialize;

/// The description of the API.
pub(crate) const OPENAPI: &str = include_str!("../../assets/openapi.json");

pub(crate) async fn openapi() -> Response {
    ([(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "public, max-age=3600")], OPENAPI).into_response()
}

#[derive(Serialize)]
struct ErrorBody<'a> {
    error: ErrorWire<'a>,
}

#[derive(Serialize)]
struct ErrorWire<'a> {
    code: &'a str,
    message: &'a str,
}

/// A failure as programs read it.
pub(crate) fn error(failure: &Failure) -> Response {
    let general = pages::failure::words(failure.kind, Locale::English.texts()).1;
    let message = if failure.detail.is_empty() { general } else { &failure.detail };
    let body = ErrorBody { error: ErrorWire { code: failure.kind.code(), message } };
    (failure.kind.status(), Json(body)).into_response()
}

/// How many of something have a name.
#[derive(Serialize)]
struct Count {
    name: String,
    count: u64,
}

fn counts<N: ToString>(rows: &[(N, u64)]) -> Vec<Count> {
    rows.iter().map(|(name, count)| Count { name: name.to_string(), count: *count }).collect()
}

/// How fresh a set of pages is.
#[derive(Serialize)]
struct FreshnessWire {
    pages: u64,
    fresh: f64,
    age_seconds: f64,
}

fn freshness(of: Freshness) -> FreshnessWire {
    FreshnessWire { pages: of.pages, fresh: finite(of.fresh), age_seconds: of.age.as_secs_f64() }
}

/// An instant as RFC 3339.
fn instant(at: Timestamp) -> String {
    at.to_string()
}

/// What is no number has no place in JSON.
fn finite(value: f64) -> f64 {
    if value.is_finite() { value } else { 0.0 }
}
