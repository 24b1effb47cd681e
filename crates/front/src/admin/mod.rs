//! Pages for the operator: what the engine is doing, what it knows of each host, and a few levers.
//!
//! INVARIANT: every handler here but the login page takes an [`access::Admin`], which only comes into being for
//! somebody who may see these pages; and everything that changes something checks its form's token besides, so
//! that no other site can pull the levers through the operator's browser.

pub(crate) mod access;
pub(crate) mod broken;
pub(crate) mod cluster;
pub(crate) mod commands;
pub(crate) mod dashboard;
pub(crate) mod federation;
pub(crate) mod host;
pub(crate) mod hosts;
pub(crate) mod login;
pub(crate) mod page_detail;
pub(crate) mod plan;
pub(crate) mod ring;
pub(crate) mod session;

use crate::pages::{Frame, PageKind, PagePath};
use crate::params::link;
use crate::shared::Shared;
use crate::text::{Texts, Visitor};
use access::Admin;
use axum::http::HeaderValue;
use axum::http::header::{CACHE_CONTROL, REFERRER_POLICY};
use axum::response::Response;
use maud::{Markup, html};

/// Puts content into an admin page.
fn page(
    shared: &Shared,
    visitor: &Visitor,
    admin: Option<&Admin>,
    title: &str,
    here: PagePath<'_>,
    content: Markup,
) -> Response {
    let texts = visitor.texts();
    // A page about one thing is under the list of them.
    let current = match here.path {
        "/admin/host" => "/admin/hosts",
        // Of the cluster, and there only where there are cache nodes.
        "/admin/cluster/drain" | "/admin/ring" => "/admin/cluster",
        path if path.starts_with("/admin/federation/") => "/admin/federation",
        path => path,
    };
    let tab = |path: &str, name: &str| {
        let is_current = (path == current).then_some("page");
        html! { a href=(link(path, [("hl", visitor.hl())])) aria-current=[is_current] { (name) } }
    };
    let top = html! {
        nav.tabs aria-label=(texts.admin) {
            (tab("/admin", texts.dashboard))
            (tab("/admin/hosts", texts.hosts))
            (tab("/admin/page", texts.page))
            (tab("/admin/broken", texts.broken_links))
            @if shared.in_cluster { (tab("/admin/cluster", texts.cluster)) }
            @if shared.in_federation { (tab("/admin/federation", texts.federation)) }
            (tab("/", texts.search))
            @if let Some(admin) = admin.filter(|admin| admin.has_session()) {
                form method="post" action=(link("/admin/logout", [("hl", visitor.hl())])) {
                    (admin.field())
                    button.plain type="submit" { (texts.leave) }
                }
            }
        }
    };
    let frame = Frame { shared, visitor, title, top, here, kind: PageKind::Admin };
    let mut response = frame.page(content);
    // With no referrer at all browsers send `Origin: null` along with our own forms.
    response.headers_mut().insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// Links to the list's page before and after this one.
fn pager(number: usize, has_more: bool, texts: &Texts, to: impl Fn(usize) -> String) -> Markup {
    html! {
        nav.pages aria-label=(texts.pagination) {
            @if number > 1 { a rel="prev" href=(to(number - 1)) { "‹ " (texts.previous) } }
            @if number > 1 || has_more { span.current aria-current="page" { (number) } }
            @if has_more { a rel="next" href=(to(number + 1)) { (texts.next) " ›" } }
        }
    }
}
