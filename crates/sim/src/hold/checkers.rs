//! What must hold at every instant: one asker per host and per address, tables that never fall, few hops, patient heirs.

use crate::cluster::checkers::{Violation, broken};
use crate::cluster::kv::Kv;
use farol_cluster::record::read;
use farol_cluster::{Epoch, Key, RouteRecord, Write};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A request that a process has written and still waits for.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    pub node: usize,
    pub generation: u64,
    pub host: usize,
    pub address: IpAddr,
}

/// Looks at requests and at what the leader writes.
#[derive(Debug, Default)]
pub struct HoldChecker {
    open: BTreeMap<u64, OpenRequest>,
    next: u64,
    newest: (Epoch, u64),
    /// Grants that were used, of each host in each epoch.
    grants: BTreeMap<(Epoch, String), u32>,
    pub requests: u64,
    pub moves: u64,
    last: BTreeMap<usize, usize>,
}

impl HoldChecker {
    /// A request is written; `asks` says which processes are not frozen.
    pub fn begin(&mut self, request: OpenRequest, asks: impl Fn(usize) -> bool) -> Result<u64, Violation> {
        let others = self.open.values().filter(|other| {
            (other.node, other.generation) != (request.node, request.generation) && asks(other.node)
        });
        for other in others {
            let what = match (other.host == request.host, other.address == request.address) {
                (true, _) => "host",
                (false, true) => "address",
                _ => continue,
            };
            return broken(
                "one asker",
                format!(
                    "nodes {} and {} ask one {what}: host {} at {}, and host {} at {}",
                    other.node, request.node, other.host, other.address, request.host, request.address
                ),
            );
        }
        self.requests += 1;
        if self.last.insert(request.host, request.node).is_some_and(|node| node != request.node) {
            self.moves += 1;
        }
        self.next += 1;
        self.open.insert(self.next, request);
        Ok(self.next)
    }

    pub fn end(&mut self, number: u64) {
        self.open.remove(&number);
    }

    /// A process has ended, and its connections with it.
    pub fn ended(&mut self, node: usize) {
        self.open.retain(|_, request| request.node != node);
    }

    /// Once more than twice where its address went to another, whom the operator has given a host there.
    pub fn granted(&mut self, epoch: Epoch, host: String, has_filters: bool) -> Result<(), Violation> {
        let count = self.grants.entry((epoch, host)).or_insert(0);
        *count += 1;
        match *count > 2 + u32::from(has_filters) {
            true => broken("hops", format!("a host was granted {count} times in epoch {epoch}")),
            false => Ok(()),
        }
    }

    /// A write of the leader's has happened.
    pub fn applied(&mut self, write: &Write) -> Result<(), Violation> {
        let Some(value) = write.value.as_deref().filter(|_| Key::parse(&write.key) == Some(Key::Route))
        else {
            return Ok(());
        };
        let Ok(route) = read::<RouteRecord>(&write.key, value) else {
            return broken("fenced", "the table cannot be read");
        };
        let next = (route.epoch(), route.term);
        if next.0 < self.newest.0 || next.1 < self.newest.1 {
            return broken("fenced", format!("epoch and term {next:?} after {:?}", self.newest));
        }
        self.newest = next;
        Ok(())
    }
}

/// The newest table.
pub fn newest_route(kv: &Kv) -> Option<RouteRecord> {
    let key = Key::Route.to_string();
    read(&key, kv.newest(&key)?.value.as_deref()?).ok()
}
