//! The way of a URL down the tree, with nothing but what a member knows [Exposto08 §3.4.2].
//!
//! Each group's partitioner makes a table of its direct children. A member holds the tables of its own ancestors, and
//! asks them from the top: the first child that is not in its own line is where the URL goes, to one of the nodes that
//! answer for it. As every member asks the same tables in the same order, all of them send a URL the same way, also one
//! that no table names: at each level the hash is taken among that group's children.
//!
//! INVARIANT: with the same tables a URL is at home after at most as many hops as there are levels.

use super::member::Member;
use crate::RoutingTable;
use crate::table::{Route, Router};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The tables of a member's ancestors, by the ancestor's name.
#[derive(Clone, Debug, Default)]
pub struct LevelTables {
    levels: BTreeMap<String, (Vec<String>, Router)>,
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

impl LevelTables {
    /// Takes the table of a group; answers whether it is newer than the one before.
    pub fn install(&mut self, group: &str, table: &RoutingTable) -> bool {
        match self.levels.get_mut(group) {
            Some((names, router)) => {
                let is_newer = router.replace(table);
                if is_newer {
                    names.clone_from(&table.destinations);
                }
                is_newer
            }
            None => {
                let known = (table.destinations.clone(), Router::new(table));
                self.levels.insert(group.to_string(), known);
                true
            }
        }
    }

    /// Forgets the tables of groups that a member is not in any more.
    pub fn keep_line_of(&mut self, member: &Member) {
        let line = member.line();
        self.levels.retain(|group, _| line.contains(group));
    }

    /// Version of each group's table.
    pub fn versions(&self) -> impl Iterator<Item = (&str, u64)> {
        self.levels.iter().map(|(group, (_, router))| (group.as_str(), router.version()))
    }

    /// One step of a URL's way.
    pub fn next(&self, member: &Member, host: &str, address: Option<IpAddr>) -> Next {
        let line = member.line();
        for group in line.iter().skip(1).rev() {
            let Some((names, router)) = self.levels.get(group) else { return Next::Hold };
            let Route::To(owner) = router.route_host(host, address) else { return Next::Hold };
            let Some(child) = names.get(owner as usize) else { return Next::Hold };
            if child == member.name() {
                return Next::Here;
            }
            if !line.contains(child) {
                let nodes = member.answering(child);
                return if nodes.is_empty() { Next::Hold } else { Next::To(nodes) };
            }
        }
        // A node that is in no group is alone, and everything is its own.
        if line.len() == 1 { Next::Here } else { Next::Hold }
    }
}
