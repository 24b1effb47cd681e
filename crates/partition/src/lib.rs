//! Which agent owns which host.
//!
//! # The life of a host's ownership
//!
//! A host is met in a link. Nobody has measured it yet, so the [routing table](table) answers for the block of
//! addresses it lies in, or else a hash does. Its agent crawls it, and learns how many pages it has, whom it links to,
//! how far away it is ([`rtt`]) and where ([`geo`]). All that becomes a [`Space`]: servers, links between them, agents,
//! and the time from each agent to each server.
//!
//! From time to time the space is split anew. Each [`objective`] says in its own graph what it would like to
//! keep together or near; [`objective::combine`] makes one graph of them; [`split`] cuts it so that every agent gets
//! its share of pages and little is cut. The answer becomes a routing table ([`RoutingPlanner`]): blocks of addresses where all
//! that lies in one belongs to the same agent, exceptions where it does not. Agents look each new URL up in it and send
//! it straight to its owner. When agents are many they form a [`tree`], and each level is split on its own.
//!
//! INVARIANT: a host has one owner at any time, and so has an address (unless a plan is made by [`Unit::Host`]).
//! INVARIANT: this crate does no I/O, reads no clock, and draws random numbers only from seeds it is given.

mod error;
pub mod exported;
pub mod geo;
pub mod graph;
pub mod hold;
pub mod objective;
pub mod replan;
mod routing_plan;
pub mod rtt;
pub mod space;
pub mod split;
pub mod svg;
pub mod table;
pub mod tree;

pub use error::Error;
pub use exported::Exported;
pub use geo::Position;
pub use graph::Graph;
pub use routing_plan::{RoutingPlan, RoutingPlanner};
pub use space::{Agent, Measure, Server, Space, Unit};
pub use table::{Block, Owner, RoutingTable};
