//! The way into a cluster: a connection to its tables, and whether this program fits to it.

use super::Refusal;
use crate::config::Config;
use crate::wire::WIRE;
use anyhow::Result;
use farol_cluster::record::{ClusterRecord, read};
use farol_cluster::{Key, NodeId, NodeRecord, version};
use farol_fabric::Fabric;
use farol_fabric::nats::{Nats, NatsOptions, Servers};
use std::path::PathBuf;
use std::sync::Arc;

/// A connection to the tables and logs of a cluster.
pub struct Door {
    pub fabric: Arc<Nats>,
    /// The cluster's name.
    pub name: String,
}

impl Door {
    /// Connects; a refusal says what to mend, and nothing was written.
    pub fn connect(config: &Config) -> Result<Door> {
        let options = options(config)?;
        let fabric = Nats::connect(&options).map_err(Refusal::of)?;
        Ok(Door { fabric: Arc::new(fabric), name: config.cluster.name.clone() })
    }

    /// What the cluster is; `None` where there is none of that name yet.
    pub fn cluster(&self) -> Result<Option<ClusterRecord>> {
        let key = Key::Cluster.to_string();
        let Some((value, _)) = self.fabric.get(&key)? else { return Ok(None) };
        Ok(Some(read(&key, &value)?))
    }

    /// The cluster, where this program can be a member of it.
    pub fn enter(&self) -> Result<ClusterRecord> {
        let cluster = self.cluster().map_err(Refusal::of)?;
        let Some(cluster) = cluster else {
            return Err(Refusal::of(format!(
                "there is no cluster {:?} on these NATS servers; make it with `farol cluster init`, name another with \
                 --cluster, or, where it was there and the servers have lost it, `farol cluster repair`",
                self.name
            )));
        };
        for node in self.nodes().map_err(Refusal::of)?.iter().filter(|node| !node.state.is_gone()) {
            version::check(WIRE, &node.name, &node.program, node.wire).map_err(Refusal::of)?;
        }
        version::check_logs(WIRE, cluster.wire).map_err(Refusal::of)?;
        Ok(cluster)
    }

    /// The nodes as they last told of themselves.
    pub fn nodes(&self) -> Result<Vec<NodeRecord>> {
        let records = self.fabric.list("node.")?;
        Ok(records.iter().filter_map(|(key, value, _)| read(key, value).ok()).collect())
    }

    /// The node that an operator calls so: by its name, its number or its id.
    pub fn find(&self, called: &str) -> Result<NodeRecord> {
        let nodes = self.nodes()?;
        let is_called = |node: &&NodeRecord| {
            node.name == called
                || NodeId::parse(called) == Some(node.id)
                || node.no.is_some_and(|no| no.to_string() == called)
        };
        // One that has gone gives way to one of the same name that is there.
        let mut found: Vec<&NodeRecord> = nodes.iter().filter(is_called).collect();
        found.sort_by_key(|node| node.state.is_gone());
        match found.as_slice() {
            [] => {
                anyhow::bail!("no node is called {called:?}; `farol cluster status` lists {}", names(&nodes))
            }
            [one, two, ..] if !two.state.is_gone() => {
                anyhow::bail!("{called:?} is the name of {} and {}: name one by its id", one.id, two.id)
            }
            [one, ..] => Ok((*one).clone()),
        }
    }
}

fn names(nodes: &[NodeRecord]) -> String {
    let mut names: Vec<&str> =
        nodes.iter().filter(|node| !node.state.is_gone()).map(|node| &*node.name).collect();
    names.sort_unstable();
    if names.is_empty() { "none".to_string() } else { names.join(", ") }
}

/// How to connect, from the settings.
pub fn options(config: &Config) -> Result<NatsOptions> {
    let cluster = &config.cluster;
    let servers = Servers::parse(&cluster.join).map_err(Refusal::of)?;
    let mut options = NatsOptions::new(&cluster.name, &cluster.join);
    let file = |path: &str| (!path.is_empty()).then(|| PathBuf::from(path));
    options.credentials = file(&cluster.credentials);
    // The certificates are for the calls of nodes first: servers that speak plainly are let.
    if servers.addresses.iter().any(|address| address.starts_with("tls://")) {
        options.tls_ca = file(&cluster.tls_ca);
        options.tls_cert = file(&cluster.tls_cert);
        options.tls_key = file(&cluster.tls_key);
    }
    options.log_bytes_max = cluster.log_max.get();
    options.copies = match cluster.copies {
        0 if servers.addresses.len() >= 3 => 3,
        0 => 1,
        copies => copies,
    };
    Ok(options)
}
