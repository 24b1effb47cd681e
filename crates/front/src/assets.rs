//! Files that do not change while the process runs: styles, scripts, the mark, and what robots and browsers ask for.

use crate::client;
use crate::shared::Shared;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{StatusCode, request::Parts};
use axum::response::{IntoResponse, Response};
use farol_base::fingerprint::hash64;
use std::sync::Arc;

const STYLE: &str = include_str!("../assets/style.css");
const SUGGEST: &str = include_str!("../assets/suggest.js");
const ADMIN: &str = include_str!("../assets/admin.js");

/// The lighthouse, alone.
pub(crate) const MARK: &str = include_str!("../assets/mark.svg");

const ROBOTS: &str = "# People are welcome to search; crawlers are asked to crawl the originals instead.\n\
    User-agent: *\nDisallow: /search\nDisallow: /copy\nDisallow: /suggest\nDisallow: /admin\nDisallow: /api/\n\
    Disallow: /metrics\n";

pub(crate) async fn style(headers: HeaderMap) -> Response {
    file("text/css; charset=utf-8", STYLE, &headers)
}

pub(crate) async fn suggest_script(headers: HeaderMap) -> Response {
    file("text/javascript; charset=utf-8", SUGGEST, &headers)
}

pub(crate) async fn admin_script(headers: HeaderMap) -> Response {
    file("text/javascript; charset=utf-8", ADMIN, &headers)
}

pub(crate) async fn favicon(headers: HeaderMap) -> Response {
    file("image/svg+xml", MARK, &headers)
}

pub(crate) async fn robots(headers: HeaderMap) -> Response {
    file("text/plain; charset=utf-8", ROBOTS, &headers)
}

/// The path of a file with its fingerprint, so that a new version is a new address.
pub(crate) fn versioned(path: &str) -> String {
    let text = match path {
        "/assets/style.css" => STYLE,
        "/assets/suggest.js" => SUGGEST,
        "/assets/admin.js" => ADMIN,
        _ => MARK,
    };
    format!("{path}?v={:016x}", hash64(text.as_bytes()))
}

fn file(media_type: &'static str, text: &'static str, headers: &HeaderMap) -> Response {
    let tag = format!("\"{:016x}\"", hash64(text.as_bytes()));
    let cached = [(CACHE_CONTROL, "public, max-age=86400".to_string()), (ETAG, tag.clone())];
    let asked = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
    if asked.is_some_and(|asked| asked.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)) {
        return (StatusCode::NOT_MODIFIED, cached).into_response();
    }
    (cached, [(CONTENT_TYPE, media_type)], text).into_response()
}

/// Tells a browser how to search here (OpenSearch 1.1).
pub(crate) async fn opensearch(State(shared): State<Arc<Shared>>, parts: Parts) -> Response {
    let base = base_url(&shared, &parts);
    // The standard allows 16 characters in a short name.
    let name: String = shared.settings.name.chars().take(16).collect();
    let text = maud::html! {
        (maud::PreEscaped(r#"<?xml version="1.0" encoding="UTF-8"?>"#))
        OpenSearchDescription xmlns="http://a9.com/-/spec/opensearch/1.1/" {
            ShortName { (name) }
            Description { (shared.settings.name) }
            InputEncoding { "UTF-8" }
            Image height="64" width="64" type="image/svg+xml" { (base) "/favicon.svg" }
            Url type="text/html" method="get" template={ (base) "/search?q={searchTerms}" } {}
            Url type="application/x-suggestions+json" method="get" template={ (base) "/suggest?q={searchTerms}" } {}
            Url type="application/opensearchdescription+xml" rel="self" template={ (base) "/opensearch.xml" } {}
        }
    };
    ([(CONTENT_TYPE, "application/opensearchdescription+xml; charset=utf-8")], text.into_string())
        .into_response()
}

/// Where people reach us: as configured, else by the name that this client used.
fn base_url(shared: &Shared, parts: &Parts) -> String {
    if let Some(url) = &shared.settings.public_url {
        return url.trim_end_matches('/').to_string();
    }
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | ':' | '[' | ']');
    let authority = client::authority(&parts.uri, &parts.headers)
        .filter(|name| name.len() <= 255 && name.chars().all(plain));
    format!("http://{}", authority.unwrap_or("localhost"))
}
