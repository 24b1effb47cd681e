//! Clients and servers on loopback.

mod calls;
mod garbage;
mod gathers;
mod limits;
mod node;
mod secure;
