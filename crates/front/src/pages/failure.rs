//! What people see when something could not be done.

use super::{Frame, Here, Kind, mark, search_box};
use crate::failure::{Failure, Kind as What};
use crate::shared::Shared;
use crate::text::{Reader, Texts};
use axum::response::Response;
use maud::html;

pub(crate) fn show(shared: &Shared, reader: &Reader, failure: &Failure) -> Response {
    let (title, text) = words(failure.kind, reader.texts());
    let top = search_box(reader, "", false);
    let here = Here { path: "/", params: Vec::new() };
    let frame = Frame { shared, reader, title, top, here, kind: Kind::Text };
    let mut page = frame.page(html! {
        section.failure {
            (mark())
            h1 { (title) }
            p { (text) }
            @if !failure.detail.is_empty() { p.detail dir="auto" lang="en" { (failure.detail) } }
            p { a href=(frame.link("/", [])) { (reader.texts().back_home) } }
        }
    });
    *page.status_mut() = failure.kind.status();
    page
}

/// Title and explanation of each kind.
pub(crate) fn words(kind: What, texts: &Texts) -> (&'static str, &'static str) {
    match kind {
        What::NotFound => (texts.not_found, texts.not_found_text),
        What::Invalid => (texts.invalid, texts.invalid_text),
        What::TokenNeeded => (texts.token_needed, texts.token_needed_text),
        What::Forbidden => (texts.forbidden, texts.forbidden_text),
        What::WrongMethod => (texts.wrong_method, texts.wrong_method_text),
        What::WrongMedia => (texts.wrong_media, texts.wrong_media_text),
        What::TooLarge => (texts.too_large, texts.too_large_text),
        What::TooLong => (texts.too_long, texts.too_long_text),
        What::TooMany => (texts.too_many, texts.too_many_text),
        What::Internal => (texts.internal, texts.internal_text),
        What::Busy => (texts.busy, texts.busy_text),
        What::Unavailable => (texts.unavailable, texts.unavailable_text),
    }
}
