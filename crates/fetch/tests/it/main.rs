//! The fetcher against servers of this process, on loopback: good ones, hostile ones, secure ones, and a name
//! server.

mod dns;
mod hostile;
mod plain;
mod secure;
mod server;
