//! `/copy`: a page as it was when it was fetched, in a frame from which nothing can reach out.
//!
//! The banner is ours; the frame's content comes from `/copy/raw`, which says in its own headers that it is a
//! sandbox: no scripts, no forms, no network, no plug-ins, an origin of its own. So it is harmless even when
//! somebody opens it by itself.

use super::{Frame, PageKind, PagePath, href};
use crate::StoredCopy;
use crate::failure::{Failure, FailureKind};
use crate::headers::{CSP_OF_COPY, CSP_WITH_FRAME};
use crate::params::{Params, link};
use crate::shared::Shared;
use crate::text::{Visitor, fill, format};
use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, X_FRAME_OPTIONS,
};
use axum::response::{IntoResponse, Response};
use farol_base::{CanonicalUrl, Origin};
use maud::html;
use std::sync::Arc;

/// Most of a copy that is shown.
const COPY_BYTES_MAX: usize = 8 * 1024 * 1024;

pub(crate) async fn show(
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let copy = find(&shared, &params).await?;
    let url = copy.url.as_str();
    let fetched = format::moment(copy.fetched, visitor.locale);
    if let Some(source) = &copy.source {
        return Ok(elsewhere(&shared, &visitor, &params, &copy, source));
    }
    let top = html! {
        div.banner {
            h1 { (fill(texts.copy_of, &[("date", &fetched)])) }
            p {
                a.address href=(href(&copy.url)) rel="noreferrer noopener nofollow" dir="ltr" { (url) }
            }
            p.quiet { (texts.copy_note) }
        }
    };
    let here = PagePath { path: "/copy", params: params.without("hl").collect() };
    let frame = Frame {
        shared: &shared,
        visitor: &visitor,
        title: texts.stored_copy,
        top,
        here,
        kind: PageKind::Copy,
    };
    let title = fill(texts.copy_of, &[("date", &fetched)]);
    let mut page = frame.page(html! {
        iframe.copy sandbox="" referrerpolicy="no-referrer" title=(title) src=(link("/copy/raw", [("url", url)])) {}
    });
    page.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(CSP_WITH_FRAME));
    Ok(page)
}

/// Where a copy is that another engine has. It is never fetched from there: whoever took it has to take it down as well.
fn elsewhere(
    shared: &Shared,
    visitor: &Visitor,
    params: &Params,
    copy: &StoredCopy,
    source: &Origin,
) -> Response {
    let texts = visitor.texts();
    let name = source.label();
    let address = copy_at(source, &copy.url);
    let top = html! {
        div.banner {
            h1 { (texts.stored_copy) }
            p { a.address href=(href(&copy.url)) rel="noreferrer noopener nofollow" dir="ltr" { (copy.url.as_str()) } }
            p { (fill(texts.copy_elsewhere, &[("name", &name)])) }
            @if let Some(address) = &address {
                p { a href=(address) rel="noreferrer noopener nofollow" { (fill(texts.copy_at, &[("name", &name)])) } }
            }
        }
    };
    let here = PagePath { path: "/copy", params: params.without("hl").collect() };
    let frame = Frame { shared, visitor, title: texts.stored_copy, top, here, kind: PageKind::Copy };
    frame.page(html! {})
}

/// Where an engine shows its copy of a page, if it does.
pub(crate) fn copy_at(source: &Origin, url: &CanonicalUrl) -> Option<String> {
    let site = source.site.trim_end_matches('/');
    source.copy.then(|| format!("{site}{}", link("/copy", [("url", url.as_str())])))
}

pub(crate) async fn raw(State(shared): State<Arc<Shared>>, params: Params) -> Result<Response, Failure> {
    let mut copy = find(&shared, &params).await?;
    if copy.source.is_some() {
        return Err(Failure::not_found(format!("another engine has the stored copy of {}", copy.url)));
    }
    copy.body.truncate(COPY_BYTES_MAX);
    let shown_as = shown_as(&copy.content_type).ok_or_else(unshowable)?;
    let media_type = match copy.charset.as_deref().filter(|name| is_charset(name)) {
        Some(charset) => format!("{shown_as}; charset={charset}"),
        None => shown_as.to_string(),
    };
    let headers = [
        (CONTENT_TYPE, media_type),
        (CONTENT_SECURITY_POLICY, CSP_OF_COPY.to_string()),
        (X_FRAME_OPTIONS, "SAMEORIGIN".to_string()),
        (HeaderName::from_static("x-robots-tag"), "noindex, nofollow, noarchive".to_string()),
        (CONTENT_DISPOSITION, "inline".to_string()),
    ];
    Ok((headers, copy.body).into_response())
}

async fn find(shared: &Shared, params: &Params) -> Result<StoredCopy, Failure> {
    let url =
        CanonicalUrl::parse(params.text("url")).map_err(|error| Failure::invalid(format!("url: {error}")))?;
    let asked = url.clone();
    match shared.ask(move |engine| engine.stored_copy(&asked)).await?? {
        Some(copy) if !copy.archive => Err(Failure::new(
            FailureKind::Forbidden,
            "the site asks that no copy of this page be shown (noarchive)",
        )),
        Some(StoredCopy { source: Some(source), .. }) if !source.copy => Err(Failure::not_found(format!(
            "{url} was fetched by {}, which shows no copies of it to others; open the page itself",
            source.label()
        ))),
        Some(copy) if copy.source.is_some() => Ok(copy),
        Some(copy) if shown_as(&copy.content_type).is_none() => Err(unshowable()),
        Some(copy) => Ok(copy),
        None => Err(Failure::not_found(format!("there is no stored copy of {url}"))),
    }
}

fn unshowable() -> Failure {
    Failure::new(FailureKind::WrongMedia, "this kind of file cannot be shown as a stored copy")
}

/// What a stored media type is served as. Only what a browser shows without running anything: XML becomes text,
/// because a style sheet or a script could hide in it.
fn shown_as(content_type: &str) -> Option<&'static str> {
    let essence = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    match &*essence {
        "text/html" | "application/xhtml+xml" => Some("text/html"),
        "application/json" | "application/xml" | "application/rss+xml" | "application/atom+xml" => {
            Some("text/plain")
        }
        other if other.starts_with("text/") => Some("text/plain"),
        _ => None,
    }
}

/// Whether a name can stand in a header as a charset.
fn is_charset(name: &str) -> bool {
    (1..=40).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.:+".contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_harmless_kinds_are_shown() {
        let check = |stored: &str, want: Option<&str>| assert_eq!(shown_as(stored), want, "{stored}");
        check("text/html", Some("text/html"));
        check("TEXT/HTML; charset=x", Some("text/html"));
        check("application/xhtml+xml", Some("text/html"));
        check("text/javascript", Some("text/plain"));
        check("image/svg+xml", None);
        check("application/pdf", None);
        check("", None);
    }

    #[test]
    fn a_charset_cannot_smuggle_a_header() {
        assert!(is_charset("windows-1252") && is_charset("utf-8"));
        assert!(!is_charset("utf-8\r\nx: y") && !is_charset("") && !is_charset("a;b"));
    }
}
