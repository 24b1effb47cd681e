//! What makes a node part of the cache service: its tables, its cache node, its front's way to the ring.

use super::node::Shared;
use crate::config::Config;
use crate::handles::cache_node::{CacheShelf, ShelfName};
use crate::handles::cluster::ClusterView;
use crate::ring::PeerOf;
use crate::ring::choice;
use crate::ring::client::{RingClient, RingClientParts};
use crate::ring::reporter::RingReporter;
use crate::roles::cacheleader::{CacheLeaderParts, RunningCacheLeader};
use crate::roles::cachenode::{CacheNodeParts, RunningCacheNode};
use crate::roles::front::RingCache;
use anyhow::{Context, Result};
use farol_cache::freshness::Expiry;
use farol_cache::node::NodeOptions;
use farol_cache::replace::Policy;
use farol_cluster::NodeNo;
use farol_query::scatter::ReplicaNo;
use std::sync::Arc;

/// On the ring 1000 is usual, in the settings 100.
const CAPACITY_SCALE: u32 = 10;

/// Where cache nodes are reached, by the newest records.
pub fn peer_of(shared: &Shared) -> PeerOf {
    let table = shared.table.clone();
    Arc::new(move |node| table().peers.get(&ReplicaNo(u32::from(node.0))).cloned())
}

/// Starts the cache node of this process; it answers from then on.
pub fn start_node(shared: &Arc<Shared>, no: NodeNo) -> Result<RunningCacheNode> {
    let config = &shared.options.config;
    let copies = choice::failover(&config.cache);
    let name = ShelfName {
        no: no.0,
        incarnation: incarnation(&shared.cluster.view())?,
        capacity: u32::try_from(config.cluster.capacity).unwrap_or(u32::MAX).saturating_mul(CAPACITY_SCALE),
    };
    let shelf = Arc::new(CacheShelf::new(&options(config), name, shared.ring.clone()));
    shared.desk.open_cache(shelf.clone());
    let _ = shared.metrics.shelf.set(shelf.clone());
    let parts = CacheNodeParts {
        shelf,
        fabric: shared.fabric.clone(),
        board: shared.board.clone(),
        peer_of: peer_of(shared),
        caller: shared.client.blocking(),
        copies,
    };
    Ok(RunningCacheNode::start(parts)?)
}

/// A candidate for leading the service.
pub fn start_leader(shared: &Shared) -> Result<RunningCacheLeader> {
    let parts = CacheLeaderParts {
        fabric: shared.fabric.clone(),
        cluster: shared.cluster.clone(),
        rules_told: choice::told(&shared.options.config.cache),
        rules: {
            let cache = shared.options.config.cache.clone();
            Box::new(move || choice::leader_rules(&cache))
        },
    };
    Ok(RunningCacheLeader::start(parts)?)
}

/// A front's way to the ring; its reports go on until the reporter is dropped.
pub fn start_front(shared: &Shared) -> Result<(RingCache, RingReporter)> {
    let view = shared.cluster.view();
    let client = Arc::new(RingClient::new(RingClientParts {
        me: view.me.0,
        incarnation: incarnation(&view)?,
        rules: choice::front_rules(&shared.options.config.cache),
        tables: shared.ring.clone(),
        peer_of: peer_of(shared),
        caller: shared.client.blocking(),
        runtime: shared.runtime.clone(),
    }));
    let reporter = RingReporter::start(shared.fabric.clone(), client.clone())?;
    Ok((RingCache::new(client, shared.runtime.clone()), reporter))
}

fn incarnation(view: &ClusterView) -> Result<u64> {
    let me = view.nodes.get(&view.me).context("the cluster has no record of this node")?;
    Ok(me.incarnation)
}

/// How the cache node is built.
fn options(config: &Config) -> NodeOptions {
    let settings = &config.cache;
    let expiry = Expiry { ttl: settings.ttl.get(), grace: settings.grace.get() };
    NodeOptions {
        copies_share: settings.copies,
        silence_max: 2 * settings.copies_every.get(),
        ..NodeOptions::of_bytes(settings.memory.get(), Policy::default(), expiry)
    }
}

#[cfg(test)]
#[path = "caches_tests.rs"]
mod tests;
