//! Calls between nodes: hyper's HTTP/2 with postcard bodies, deadlines, cancelling, back-pressure, mutual TLS.
//!
//! The life of a call: a front asks for the verb `search` of a [`Peer`] with what is left of its time.
//! [`Client`] picks the peer's connection, or makes one, and posts the request to `/v1/search` with the headers
//! `farol-ms` (time left, a duration: clocks are never compared), `traceparent` and `farol-node`. The server
//! ([`serve`]) admits it ([`Limits`]), or says at once that it is busy; a [`Handler`] answers. Where the caller
//! goes away or the time is over, the handler's future is dropped and its [`Stop`] flag set, which work on
//! blocking threads looks at. [`gather`](fn@gather) asks many shards at once with the policy of
//! [`farol_query::scatter`].
//!
//! Every verb must be idempotent: a call may be made twice, by hedging or by trying another replica.
//!
//! INVARIANTS: nothing is served beyond loopback without mutual TLS; a server has a bounded number of calls in
//! work and waiting; every wait has an end.

#![warn(missing_docs)]

mod admission;
pub mod certs;
mod client;
mod connection;
mod error;
mod gather;

mod handler;
mod limits;
pub mod metrics;
mod server;
mod tls;
mod wire;

pub use client::{CallerHandle, Client, ClientSettings, Peer};
pub use error::{CallError, RpcError, ServeError, TlsError};

pub use gather::{Answer, Gathered, Missing, gather};
pub use handler::{BoxFuture, CallContext, Caller, Handler, Stop};
pub use limits::Limits;
pub use server::{Here, Server, serve};
pub use tls::TlsSettings;
pub use wire::{BODY_BYTES_MAX, decode, encode};
