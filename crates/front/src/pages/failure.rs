//! What people see when something could not be done.

use super::{Frame, PageKind, PagePath, mark, search_box};
use crate::failure::{Failure, FailureKind};
use crate::shared::Shared;
use crate::text::{Texts, Visitor};
use axum::http::Uri;
use axum::response::Response;
use maud::html;

pub(crate) fn show(shared: &Shared, visitor: &Visitor, uri: &Uri, failure: &Failure) -> Response {
    let (title, text) = words(failure.kind, visitor.texts());
    let missing = failure.kind == FailureKind::NotFound;
    let top = if missing {
        html! {}
    } else {
        search_box(visitor, "", false)
    };
    // Two slashes would begin the name of another host.
    let path = Some(uri.path()).filter(|path| missing && !path.starts_with("//"));
    let here = PagePath { path: path.unwrap_or("/"), params: Vec::new() };
    let frame = Frame { shared, visitor, title, top, here, kind: PageKind::Text };
    let mut page = frame.page(html! {
        section.failure {
            (mark())
            h1 { (title) }
            p { (text) }
            @if !failure.detail.is_empty() { p.detail dir="auto" lang="en" { (failure.detail) } }
            @if missing { (search_box(visitor, &words_of(uri.path()), true)) }
            p { a href=(frame.link("/", [])) { (visitor.texts().back_home) } }
        }
    });
    *page.status_mut() = failure.kind.status();
    page
}

/// The words of a path, for whoever followed a link that leads nowhere: `/docs/install-guide.html` is about an install
/// guide. What is escaped in it is no word that anybody typed.
fn words_of(path: &str) -> String {
    let ending = path.rsplit_once('.').filter(|(_, ending)| ending.len() <= 5 && !ending.contains('/'));
    let path = ending.map_or(path, |(before, _)| before);
    let parts = path.split(|c: char| !c.is_ascii_alphanumeric() && c != '%');
    let words: Vec<&str> = parts.filter(|word| !word.is_empty() && !word.contains('%')).collect();
    words.join(" ")
}

/// Title and explanation of each kind.
pub(crate) fn words(kind: FailureKind, texts: &Texts) -> (&'static str, &'static str) {
    match kind {
        FailureKind::NotFound => (texts.not_found, texts.not_found_text),
        FailureKind::Invalid => (texts.invalid, texts.invalid_text),
        FailureKind::TokenNeeded => (texts.token_needed, texts.token_needed_text),
        FailureKind::Forbidden => (texts.forbidden, texts.forbidden_text),
        FailureKind::WrongMethod => (texts.wrong_method, texts.wrong_method_text),
        FailureKind::WrongMedia => (texts.wrong_media, texts.wrong_media_text),
        FailureKind::TooLarge => (texts.too_large, texts.too_large_text),
        FailureKind::TooLong => (texts.too_long, texts.too_long_text),
        FailureKind::TooMany => (texts.too_many, texts.too_many_text),
        FailureKind::Misdirected => (texts.misdirected, texts.misdirected_text),
        FailureKind::Internal => (texts.internal, texts.internal_text),
        FailureKind::Busy => (texts.busy, texts.busy_text),
        FailureKind::Unavailable => (texts.unavailable, texts.unavailable_text),
    }
}
