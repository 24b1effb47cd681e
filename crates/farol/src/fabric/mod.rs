//! The fabric: what carries changes and shared tables between roles.
//!
//! It is two seams. [`bus`] has the queue on which a crawler tells indexers what changed; [`tables`] has the named
//! tables that hold what must survive a restart or be seen by other roles. [`local`] does both inside one process, with
//! a bounded queue and a file; a cluster puts a message system behind the same two traits.

pub mod bus;
mod local;
pub mod tables;

pub use bus::{Change, ChangeQueue, Delivery};
pub use local::{LocalQueue, LocalTables};
pub use tables::{Table, Tables};

use anyhow::Result;
use std::path::Path;
use std::sync::Arc;

/// The two seams between roles.
#[derive(Clone)]
pub struct Fabric {
    pub changes: Arc<dyn ChangeQueue>,
    pub tables: Arc<dyn Tables>,
}

impl Fabric {
    /// A fabric of one process, with its tables in this file.
    pub fn local(path: &Path) -> Result<Fabric> {
        Ok(Fabric { changes: Arc::new(LocalQueue::new()), tables: Arc::new(LocalTables::open(path)?) })
    }
}
