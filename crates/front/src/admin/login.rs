//! `/admin/login`: the token, once, for a cookie; `/admin/enter?key=…`: the same by a link.

use super::access::{Admin, COOKIE, check_token, is_same_origin};
use super::page;
use super::session::SESSION_TIME;
use crate::client;
use crate::failure::{Failure, FailureKind};
use crate::pages::{PagePath, mark};
use crate::params::{FormParams, Params, link};
use crate::shared::Shared;
use crate::text::Visitor;
use axum::extract::{FromRequest, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{AppendHeaders, IntoResponse, Redirect, Response};
use maud::html;
use std::sync::Arc;

pub(crate) async fn show(State(shared): State<Arc<Shared>>, visitor: Visitor) -> Response {
    form(&shared, &visitor, "")
}

/// The form instead of a page that needs the token.
pub(crate) fn ask(shared: &Shared, visitor: &Visitor, failure: &Failure) -> Response {
    let mut response = form(shared, visitor, &failure.detail);
    *response.status_mut() = StatusCode::UNAUTHORIZED;
    response
}

pub(crate) async fn enter(
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, body) = request.into_parts();
    if !is_same_origin(&parts, &shared) {
        return Err(Failure::new(FailureKind::Forbidden, "the request comes from another site"));
    }
    let FormParams(form) =
        FormParams::from_request(Request::from_parts(parts.clone(), body), &shared).await?;
    check_token(&shared, &parts, form.text("token"))?;
    let_in(&shared, &visitor)
}

/// The link that the engine shows at its start. The token leaves the address bar at once.
pub(crate) async fn enter_by_link(
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
    request: Request,
) -> Result<Response, Failure> {
    let (parts, _) = request.into_parts();
    check_token(&shared, &parts, params.text("key"))?;
    let_in(&shared, &visitor)
}

fn let_in(shared: &Shared, visitor: &Visitor) -> Result<Response, Failure> {
    let session = shared.sessions.open(shared.now()).ok_or_else(Failure::internal)?;
    let cookie = set_cookie(shared, &session, SESSION_TIME.as_secs());
    Ok((cookie, Redirect::to(&link("/admin", [("hl", visitor.hl())]))).into_response())
}

pub(crate) async fn leave(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    headers: HeaderMap,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    if admin.check(&form).is_ok() {
        shared.sessions.close(client::cookie(&headers, COOKIE).unwrap_or(""));
    }
    Ok((set_cookie(&shared, "", 0), Redirect::to("/")).into_response())
}

fn set_cookie(
    shared: &Shared,
    value: &str,
    secs: u64,
) -> AppendHeaders<[(axum::http::HeaderName, String); 1]> {
    let secure = if shared.settings.public_is_tls() { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={value}; Path=/; Max-Age={secs}; HttpOnly; SameSite=Strict{secure}");
    AppendHeaders([(SET_COOKIE, cookie)])
}

fn form(shared: &Shared, visitor: &Visitor, complaint: &str) -> Response {
    let texts = visitor.texts();
    let here = PagePath { path: "/admin/login", params: Vec::new() };
    let content = html! {
        section.login {
            (mark())
            h1 { (texts.token_needed) }
            p { (texts.token_needed_text) }
            form method="post" action=(link("/admin/login", [("hl", visitor.hl())])) {
                label for="token" { (texts.token) }
                input type="password" id="token" name="token" required autocomplete="current-password" autofocus;
                @if !complaint.is_empty() { p.wrong role="alert" { (texts.token_wrong) } }
                button type="submit" { (texts.enter) }
            }
        }
    };
    page(shared, visitor, None, texts.token_needed, here, content)
}
