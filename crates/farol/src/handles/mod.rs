//! Handles: what one role lets the others hold of it.
//!
//! Snapshots and counters to look at, and one channel on which a running crawl takes orders. They are made where the
//! roles are put together, and handed to whom they concern: a role knows handles, never another role.

pub mod cache_node;
pub mod cluster;
pub mod cluster_status;
pub mod crawl;
pub mod dead;
pub mod federation;
pub mod index;
pub mod left;
pub mod order;
pub mod page_wire;
pub mod planner;
pub mod queries;
pub mod ranks;
pub mod replicas;
pub mod ring_status;
pub mod samples;
pub mod sender;
pub mod still;
pub mod tables_copy;
