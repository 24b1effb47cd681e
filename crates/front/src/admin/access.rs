//! The door to everything that is not for everybody.
//!
//! Who may pass:
//! 1. whoever sends the admin token as `Authorization: Bearer`;
//! 2. whoever logged in with it (a cookie names the session);
//! 3. whoever sits at this machine: the peer is a loopback address, no header says that a proxy passed the
//!    request on, the name used for us can only mean this machine (DNS rebinding), and the settings name no public
//!    address and no trusted proxy. Behind a proxy every visitor's peer is a loopback address, so there the token
//!    is needed.
//!
//! A wrong token costs its sender one of ten tries a minute.

use super::session::is_same;
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
    Loopback,
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

    /// Checks that a form is ours and that levers may be pulled at all.
    pub fn check(&self, shared: &Shared, form: &Params) -> Result<(), Failure> {
        if !is_same(&self.form_token, form.text("token")) {
            return Err(Failure::new(
                FailureKind::Forbidden,
                "the form is too old or not ours; reload the page and try again",
            ));
        }
        may_change(shared)
    }
}

/// Refuses changes where the settings say that this front only shows.
pub(crate) fn may_change(shared: &Shared) -> Result<(), Failure> {
    match shared.settings.admin_read_only {
        true => Err(Failure::new(FailureKind::Forbidden, "this engine is read-only")),
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
            AccessBy::Token | AccessBy::Loopback => shared.sessions.form_token(),
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
    if is_at_this_machine(shared, parts) {
        return Ok(AccessBy::Loopback);
    }
    Err(Failure::new(FailureKind::TokenNeeded, ""))
}

/// Compares a token with the configured one; wrong ones are counted per client.
pub(crate) fn check_token(shared: &Shared, parts: &Parts, token: &str) -> Result<(), Failure> {
    let client = client::address(&parts.extensions, &parts.headers, &shared.settings);
    let now = shared.now();
    if !shared.wrong_tokens.has(client, 1.0, now) {
        return Err(Failure {
            retry_after_secs: Some(60),
            ..Failure::new(FailureKind::TooMany, "too many wrong tokens")
        });
    }
    let right = shared.settings.admin_token.as_deref().unwrap_or("");
    if is_same(right, token) {
        return Ok(());
    }
    let _ = shared.wrong_tokens.take(client, 1.0, now);
    tracing::warn!(%client, "a wrong admin token was sent");
    Err(Failure::new(FailureKind::TokenNeeded, "the token is wrong"))
}

fn is_at_this_machine(shared: &Shared, parts: &Parts) -> bool {
    let settings = &shared.settings;
    let proxied = settings.trust_forwarded
        || settings.public_url.is_some()
            && !settings.public_authority().is_some_and(client::is_loopback_name);
    !proxied
        && client::peer(&parts.extensions).is_some_and(|peer| peer.is_loopback())
        && !client::is_forwarded(&parts.headers)
        && client::authority(parts).is_some_and(client::is_loopback_name)
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
    is_us(client::authority(parts)) || is_us(shared.settings.public_authority())
}
