//! The levers: pause, resume, add a seed, remove a host; fetch a page again, remove it, put it back.

use super::access::{Admin, may_change};
use super::page;
use crate::failure::Failure;
use crate::pages::PagePath;
use crate::params::{FormParams, Params, link};
use crate::shared::Shared;
use crate::text::{Visitor, fill};
use crate::{Command, EngineError};
use axum::extract::State;
use axum::response::Response;
use farol_base::Host;
use maud::html;
use std::sync::Arc;

/// Longest address that is passed on, in bytes; canonical URLs are shorter.
const ADDRESS_BYTES_MAX: usize = 8192;

pub(crate) async fn pause(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    act(&admin, &shared, &visitor, &form, Command::Pause).await
}

pub(crate) async fn resume(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    act(&admin, &shared, &visitor, &form, Command::Resume).await
}

pub(crate) async fn add_seed(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    let command = seed(form.text("url"))?;
    act(&admin, &shared, &visitor, &form, command).await
}

pub(crate) async fn remove_host(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    let command = Command::RemoveHost(host(form.text("host"))?);
    act(&admin, &shared, &visitor, &form, command).await
}

pub(crate) async fn refetch(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    let command = Command::Refetch(address(form.text("url"))?);
    act(&admin, &shared, &visitor, &form, command).await
}

pub(crate) async fn remove_pages(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    let command = Command::RemovePages(address(form.text("url"))?);
    act(&admin, &shared, &visitor, &form, command).await
}

pub(crate) async fn restore_pages(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    FormParams(form): FormParams,
) -> Result<Response, Failure> {
    let command = Command::RestorePages(address(form.text("url"))?);
    act(&admin, &shared, &visitor, &form, command).await
}

/// Asks once more before a host goes.
pub(crate) async fn confirm_removal(
    admin: Admin,
    State(shared): State<Arc<Shared>>,
    visitor: Visitor,
    params: Params,
) -> Result<Response, Failure> {
    let texts = visitor.texts();
    let host = host(params.text("host"))?;
    let here = PagePath { path: "/admin/remove", params: vec![("host", host.as_str())] };
    let content = html! {
        section.confirm {
            h1 { (fill(texts.remove_question, &[("host", host.as_str())])) }
            p { (texts.remove_text) }
            form method="post" action=(link("/admin/remove", [("hl", visitor.hl())])) {
                (admin.field())
                input type="hidden" name="host" value=(host);
                button.danger type="submit" { (texts.remove) }
                a.button href=(link("/admin/host", [("host", host.as_str()), ("hl", visitor.hl())])) { (texts.cancel) }
            }
        }
    };
    Ok(page(&shared, &visitor, Some(&admin), texts.remove, here, content))
}

/// The command to add what somebody typed as a seed.
pub(crate) fn seed(text: &str) -> Result<Command, Failure> {
    address(text).map(Command::AddSeed)
}

/// An address that somebody typed, of a length that makes sense.
pub(crate) fn address(text: &str) -> Result<String, Failure> {
    match text.len() {
        0 => Err(Failure::invalid("url: a URL is needed")),
        1..=ADDRESS_BYTES_MAX => Ok(text.to_string()),
        _ => Err(Failure::invalid("url: it is too long")),
    }
}

/// Reads a host from its name, with or without scheme.
pub(crate) fn host(text: &str) -> Result<Host, Failure> {
    let whole = if text.contains("://") { text.to_string() } else { format!("http://{text}") };
    Host::parse(&whole).map_err(|error| Failure::invalid(format!("host: {error}")))
}

/// Has a command carried out and gives the engine's sentence about it.
pub(crate) async fn carry_out(
    shared: &Shared,
    command: Command,
) -> Result<Result<String, EngineError>, Failure> {
    tracing::info!(?command, "an operator's command");
    shared.ask(move |engine| engine.command(command)).await
}

async fn act(
    admin: &Admin,
    shared: &Shared,
    visitor: &Visitor,
    form: &Params,
    command: Command,
) -> Result<Response, Failure> {
    admin.check(form)?;
    may_change(shared, &command)?;
    let about = match &command {
        Command::Refetch(pages) | Command::RemovePages(pages) | Command::RestorePages(pages) => {
            Some(pages.trim_end_matches('*').to_string())
        }
        _ => None,
    };
    let done = carry_out(shared, command).await??;
    let texts = visitor.texts();
    let content = html! {
        section.done role="status" {
            h1 { (texts.done) }
            p dir="auto" { (done) }
            p {
                @match &about {
                    Some(url) => {
                        a.button href=(link("/admin/page", [("url", &**url), ("hl", visitor.hl())])) { (texts.back_page) }
                    }
                    None => a.button href=(link("/admin", [("hl", visitor.hl())])) { (texts.back_dashboard) },
                }
            }
        }
    };
    let path = if about.is_some() { "/admin/page" } else { "/admin" };
    Ok(page(shared, visitor, Some(admin), texts.done, PagePath { path, ..PagePath::default() }, content))
}
