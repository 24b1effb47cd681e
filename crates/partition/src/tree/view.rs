//! Tables as each member sees them, and the way of a URL from member to member [Exposto08 §3.4.2].

use super::member::Member;
use crate::table::{Route, Router, RoutingTable};
use crate::{Error, Owner};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A member's own table, made of that of all nodes: its siblings by name, everything farther away by the ancestor's child
/// it is in. `lines` has the ancestors of each node that the table names, nearest first.
///
/// # Errors
/// Where the table names a node whose line is unknown, or that is not in the member's tree.
pub fn table_of(
    member: &Member,
    all: &RoutingTable,
    lines: &BTreeMap<String, Vec<String>>,
) -> Result<RoutingTable, Error> {
    let mut names: Vec<String> = Vec::new();
    let mut to: Vec<Owner> = Vec::new();
    for node in &all.destinations {
        let line = lines.get(node).ok_or_else(|| Error::NoEntity(node.clone()))?;
        let path: Vec<&String> = std::iter::once(node).chain(line).collect();
        // The entity right below the nearest common ancestor.
        let seen = member.ascendants().into_iter().find_map(|(_, children)| {
            path.iter().find(|entity| children.contains(entity)).map(|entity| entity.to_string())
        });
        let seen = if *node == *member.name() {
            node.clone()
        } else {
            seen.ok_or_else(|| Error::NoEntity(node.clone()))?
        };
        let at = names.iter().position(|name| *name == seen).unwrap_or_else(|| {
            names.push(seen);
            names.len() - 1
        });
        to.push(at as Owner);
    }
    all.condense(&to, names)
}

/// Where a URL goes next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It is at home.
    Here,
    /// To one of these nodes.
    To(Vec<String>),
    /// Nobody knows whose it is.
    Hold,
}

/// One step of a URL's way.
pub fn next(
    member: &Member,
    table: &RoutingTable,
    router: &Router,
    host: &str,
    address: Option<IpAddr>,
) -> Next {
    let Route::To(owner) = router.route_host(host, address) else { return Next::Hold };
    let Some(entity) = table.destinations.get(owner as usize) else { return Next::Hold };
    if entity == member.name() {
        return Next::Here;
    }
    let nodes = member.answering(entity);
    if nodes.is_empty() { Next::Hold } else { Next::To(nodes) }
}
