//! Calls of an operator's commands to the nodes of a cluster.

use super::identity;
use super::node::read_tls;
use super::serving::peer;
use crate::config::Config;
use anyhow::{Context, Result};
use farol_cluster::{NodeId, NodeRecord};
use farol_rpc::{CallerHandle, Client, ClientSettings, Peer};
use std::path::Path;

/// Calls nodes from a command.
pub struct Calls {
    caller: CallerHandle,
    _runtime: tokio::runtime::Runtime,
}

impl Calls {
    /// Calls under the name of the node in this folder where the cluster has certificates, and without a name otherwise.
    pub fn new(config: &Config, folder: &Path) -> Result<Calls> {
        let tls = match config.cluster.tls_cert.is_empty() {
            true => None,
            false => read_tls(config, identity::read_or_draw(folder)?)?,
        };
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("calls")
            .enable_all()
            .build()
            .context("cannot start threads")?;
        let node = tls.is_none().then(|| NodeId(0).to_string());
        let client =
            Client::new(ClientSettings { node, tls, ..ClientSettings::default() }, runtime.handle().clone());
        Ok(Calls { caller: client.blocking(), _runtime: runtime })
    }

    pub fn caller(&self) -> &CallerHandle {
        &self.caller
    }

    /// How a node is called.
    pub fn peer(&self, node: &NodeRecord) -> Result<Peer> {
        peer(node).with_context(|| format!("{} speaks another version of the wire", node.name))
    }
}
