//! The table that agents go by, with whatever they go by where it says nothing.

use crate::RoutingTable;
use crate::table::{Route, Router, Unknown};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

/// Whose a host at an address is, as agents work it out: a place in the list of names that comes with it.
pub type OwnerOf = Arc<dyn Fn(&str, IpAddr) -> Option<u32> + Send + Sync>;

/// A table in force.
#[derive(Clone)]
pub struct InForce {
    table: RoutingTable,
    router: Router,
    /// Where agents share what the table does not name by a hash of their own.
    by_agents: Option<(Vec<String>, OwnerOf)>,
}

impl InForce {
    /// A table whose own hash counts for what it does not name.
    pub fn new(table: RoutingTable) -> InForce {
        InForce { router: Router::new(&table), table, by_agents: None }
    }

    /// A table that agents go by in their own way; `owner` answers with places in `names`.
    pub fn shared(table: RoutingTable, names: Vec<String>, owner: OwnerOf) -> InForce {
        InForce { by_agents: Some((names, owner)), ..InForce::new(table) }
    }

    pub fn table(&self) -> &RoutingTable {
        &self.table
    }

    pub fn version(&self) -> u64 {
        self.table.version
    }

    /// The owner by an entry of the table.
    pub fn named(&self, host: &str, address: Option<IpAddr>) -> Option<&str> {
        let owner = self.router.named(host, address)?;
        self.table.destinations.get(owner as usize).map(String::as_str)
    }

    /// Whether a host waits for another table: a filter gives it to another than its address, or nobody has its address.
    pub fn lacks(&self, host: &str, address: IpAddr) -> bool {
        match self.router.by_domain(host) {
            Some(owner) => self.router.by_address(address) != Some(owner),
            None => self.table.unknown == Unknown::Hold && self.router.named(host, Some(address)).is_none(),
        }
    }

    /// The owner by whatever counts; `None` where nobody has it yet.
    pub fn owner(&self, host: &str, address: Option<IpAddr>) -> Option<&str> {
        if let (Some((names, owner)), Some(address)) = (&self.by_agents, address) {
            return names.get(owner(host, address)? as usize).map(String::as_str);
        }
        match self.router.route_host(host, address) {
            Route::To(owner) => self.table.destinations.get(owner as usize).map(String::as_str),
            Route::Hold => None,
        }
    }
}

impl fmt::Debug for InForce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InForce").field("table", &self.table).finish_non_exhaustive()
    }
}
