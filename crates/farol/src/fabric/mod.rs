//! What carries messages and shared tables between roles.
//!
//! Roles never call each other. A crawler gives documents to the fabric, an indexer takes them; tables hold
//! what must survive and be seen by others. [`Local`] does both inside one process with a bounded queue and a
//! file; a cluster puts a message system behind the same trait.

mod local;

pub use local::Local;

use anyhow::Result;
use farol_base::{CanonicalUrl, Document, Host, PagePosition};
use std::time::Duration;

/// What an indexer is told, in the order in which it happened.
#[derive(Debug)]
pub enum Change {
    /// The page is now this; replaces what was known under its URL.
    Put(Box<Document>),
    /// The page is gone, or asked not to be indexed.
    Delete(CanonicalUrl),
    /// All pages of the host go.
    DeleteHost(Host),
    /// Everything up to this position of the archive has been said.
    Upto(PagePosition),
}

/// A named table of small values; see [`Fabric::put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// What is remembered of each host.
    Hosts,
    /// robots.txt of each host, as it was sent.
    Robots,
    /// What the operator has said: seeds, pause, removed hosts.
    Orders,
    /// How often people opened each page from the results.
    Clicks,
    /// How far each reader of the archive has come.
    Marks,
}

/// The seam between roles.
pub trait Fabric: Send + Sync {
    /// Hands a change to the indexers; waits while their queue is full.
    fn send(&self, change: Change) -> Result<()>;

    /// Takes the next change; `None` when none came in time.
    fn receive(&self, wait: Duration) -> Option<Change>;

    /// Writes some entries of tables, all or none; an empty value removes its key. Survives a crash when it
    /// returns.
    fn put(&self, entries: &[(Table, &str, &[u8])]) -> Result<()>;

    /// Reads one entry.
    fn get(&self, table: Table, key: &str) -> Result<Option<Vec<u8>>>;

    /// Reads a whole table in the order of its keys.
    fn scan(&self, table: Table) -> Result<Vec<(String, Vec<u8>)>>;
}
