//! A process as a node of a cluster: how it gets in, who it is, and the roles that it runs there.
//!
//! The life of a node: [`door`] finds the cluster or refuses before anything is written; [`identity`] says who this is;
//! [`node`] starts membership, replicas, crawl and front, each a role that knows the others through handles alone. What
//! the nodes decide is in `farol_cluster`, what carries it in `farol_fabric` and `farol_rpc`.

pub mod adopt;
mod agents;
pub mod birth;
mod caches;
pub mod calls;
mod crawl_orders;
pub mod door;
pub mod identity;
pub mod metrics;
pub mod node;
pub mod orders;
mod refusal;
pub mod serving;
mod work;

#[cfg(test)]
pub use crate::roles::desk::{Desk, IndexDesk};
pub use refusal::Refusal;
