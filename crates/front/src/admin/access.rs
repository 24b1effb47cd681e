//! The door to everything that is not for everybody.
//!
//! Who may pass:
//! 1. whoever sends the admin token as `Authorization: Bearer`;
//! 2. whoever logged in with it, by the form or by the link with the token in it (a cookie names the session).
//!
//! Where a request comes from opens nothing: behind a proxy every visitor's peer is a loopback address, and a plain
//! `proxy_pass` says nothing of the visitor. Whoever sits at the machine reads the token in the data folder.
//!
//! A wrong token costs its sender one of ten tries a minute. The right one always passes, so that nobody can lock the
//! operator out; what keeps guessers out is its length ([`crate::TOKEN_BYTES_MIN`]).

use super::session::is_same;
use crate::Command;
use crate::client;
use crate::failure::{Failure, FailureKind};
use crate::params::Params;
use crate::shared::Shared;
use axum::extract::FromRequestParts;
use axum::http::header::ORIGIN;
use axum::http::request::Parts;
use axum::http::{Method, Uri};
use maud::{Markup, html};
use std::sync::Arc;

/// Name of the cookie that names the session.
pub(crate) const COOKIE: &str = "farol_session";

/// Proof that the asker may see the admin pages; for requests that change something, also that they came from
/// our own pages or from a program.
pub(crate) struct Admin {
    how: AccessBy,
    form_token: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AccessBy {
    Token,
    Session,
}

impl Admin {
    /// Whether there is a session to leave.
    pub fn has_session(&self) -> bool {
        self.how == AccessBy::Session
    }

    /// The hidden field that shows that a form is ours.
    pub fn field(&self) -> Markup {
        html! { input type="hidden" name="token" value=(self.form_token); }
    }

    /// Checks that a form is ours.
    pub fn check(&self, form: &Params) -> Result<(), Failure> {
        match is_same(&self.form_token, form.text("token")) {
            true => Ok(()),
            false => Err(Failure::new(
                FailureKind::Forbidden,
                "the form is too old or not ours; reload the page and try again",
            )),
        }
    }
}

/// Refuses what only a crawler does where none runs.
pub(crate) fn may_change(shared: &Shared, command: &Command) -> Result<(), Failure> {
    let needs_crawler = match command {
        Command::Pause | Command::Resume | Command::AddSeed(_) | Command::RemoveHost(_) => true,
        Command::Refetch(_) | Command::RemovePages(_) | Command::RestorePages(_) => false,
    };
    match needs_crawler && shared.settings.admin_read_only {
        true => Err(Failure::new(FailureKind::Forbidden, "this engine is read-only: no crawler runs in it")),
        false => Ok(()),
    }
}

impl FromRequestParts<Arc<Shared>> for Admin {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, shared: &Arc<Shared>) -> Result<Admin, Failure> {
        let how = enter(shared, parts)?;
        if parts.method != Method::GET && parts.method != Method::HEAD && !is_same_origin(parts, shared) {
            return Err(Failure::new(FailureKind::Forbidden, "the request comes from another site"));
        }
        let session = client::cookie(&parts.headers, COOKIE).unwrap_or("");
        let form_token = match how {
            AccessBy::Session => shared.sessions.find(session, shared.now()).unwrap_or_default(),
            AccessBy::Token => shared.sessions.form_token(),
        };
        Ok(Admin { how, form_token })
    }
}

fn enter(shared: &Shared, parts: &Parts) -> Result<AccessBy, Failure> {
    if let Some(token) = client::bearer(&parts.headers) {
        return check_token(shared, parts, token).map(|()| AccessBy::Token);
    }
    let session = client::cookie(&parts.headers, COOKIE);
    if session.is_some_and(|id| shared.sessions.find(id, shared.now()).is_some()) {
        return Ok(AccessBy::Session);
    }
    Err(Failure::new(FailureKind::TokenNeeded, ""))
}

/// Compares a token with the configured one; wrong ones are counted per client.
pub(crate) fn check_token(shared: &Shared, parts: &Parts, token: &str) -> Result<(), Failure> {
    let right = shared.settings.admin_token.as_deref().unwrap_or("");
    if is_same(right, token) {
        return Ok(());
    }
    let client = client::address(&parts.extensions, &parts.headers, &shared.settings);
    if shared.wrong_tokens.take(client, 1.0, shared.now()).is_err() {
        return Err(Failure {
            retry_after_secs: Some(60),
            ..Failure::new(FailureKind::TooMany, "too many wrong tokens")
        });
    }
    tracing::warn!(%client, "a wrong admin token was sent");
    Err(Failure::new(FailureKind::TokenNeeded, "the token is wrong"))
}

/// Whether a request that changes something was made by one of our pages, or by a program that is no browser.
///
/// Browsers say so in `Sec-Fetch-Site`, which no page can forge; older ones, and new ones without TLS, send
/// `Origin`.
pub(crate) fn is_same_origin(parts: &Parts, shared: &Shared) -> bool {
    if let Some(site) = parts.headers.get("sec-fetch-site") {
        return matches!(site.as_bytes(), b"same-origin" | b"none");
    }
    let Some(origin) = parts.headers.get(ORIGIN) else { return true };
    let Some(origin) = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok()) else {
        return false;
    };
    let Some(origin) = origin.authority().map(|authority| authority.as_str()) else { return false };
    let is_us = |name: Option<&str>| name.is_some_and(|name| name.eq_ignore_ascii_case(origin));
    is_us(client::authority(&parts.uri, &parts.headers)) || is_us(shared.settings.public_authority())
}
