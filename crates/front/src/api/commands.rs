//! `POST /api/v1/admin/…`: the levers for programs.
//!
//! The body must be JSON and say so. A form on another site cannot send that without asking first, and nobody
//! answers such questions here, so a page that the operator happens to visit cannot pull a lever.

use crate::Command;
use crate::admin::access::{Admin, may_change};
use crate::admin::commands::{address, carry_out, host, seed};
use crate::failure::Failure;
use crate::params::kind_of;
use crate::shared::Shared;
use axum::Json;
use axum::extract::{FromRequest, Request, State};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

#[derive(Serialize)]
pub(crate) struct DoneWire {
    pub done: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AddressWire {
    url: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemovalWire {
    host: String,
}

/// A JSON body, or a failure that says what is wrong with it.
pub(crate) struct Body<T>(pub T);

impl<T: serde::de::DeserializeOwned, S: Send + Sync> FromRequest<S> for Body<T> {
    type Rejection = Failure;
    async fn from_request(request: Request, state: &S) -> Result<Body<T>, Failure> {
        let read = Json::<T>::from_request(request, state).await;
        read.map(|Json(body)| Body(body))
            .map_err(|rejection| Failure::new(kind_of(rejection.status()), rejection.body_text()))
    }
}

pub(crate) type Done = Result<Json<DoneWire>, Failure>;

pub(crate) async fn pause(_: Admin, State(shared): State<Arc<Shared>>, _: Body<Nothing>) -> Done {
    act(&shared, Command::Pause).await
}

pub(crate) async fn resume(_: Admin, State(shared): State<Arc<Shared>>, _: Body<Nothing>) -> Done {
    act(&shared, Command::Resume).await
}

pub(crate) async fn add_seed(
    _: Admin,
    State(shared): State<Arc<Shared>>,
    Body(body): Body<AddressWire>,
) -> Done {
    act(&shared, seed(body.url.trim())?).await
}

pub(crate) async fn remove_host(
    _: Admin,
    State(shared): State<Arc<Shared>>,
    Body(body): Body<RemovalWire>,
) -> Done {
    act(&shared, Command::RemoveHost(host(body.host.trim())?)).await
}

pub(crate) async fn refetch(
    _: Admin,
    State(shared): State<Arc<Shared>>,
    Body(body): Body<AddressWire>,
) -> Done {
    act(&shared, Command::Refetch(address(body.url.trim())?)).await
}

pub(crate) async fn remove_pages(
    _: Admin,
    State(shared): State<Arc<Shared>>,
    Body(body): Body<AddressWire>,
) -> Done {
    act(&shared, Command::RemovePages(address(body.url.trim())?)).await
}

pub(crate) async fn restore_pages(
    _: Admin,
    State(shared): State<Arc<Shared>>,
    Body(body): Body<AddressWire>,
) -> Done {
    act(&shared, Command::RestorePages(address(body.url.trim())?)).await
}

async fn act(shared: &Shared, command: Command) -> Done {
    may_change(shared, &command)?;
    Ok(Json(DoneWire { done: carry_out(shared, command).await?? }))
}
