//! What people see: the search page, the stored copies, the dashboard and the JSON API.
//!
//! The life of a request. It passes the `middleware`, which knows the visitor's address
//! (`client`) and locale (`text`), refuses what is too long or too much (`limit`), and gives the rest a
//! deadline. The table of `routes` finds the handler: a page for people (`pages`), a page for the operator (`admin`,
//! whose door is `admin::access`), or an answer for programs (`api`). A handler that needs to know
//! something asks the [`Engine`] behind the product, off the async threads and bounded (`shared`). On the
//! way out a failure is rendered as a page or as JSON (`failure`), every response gets its security headers
//! (`headers`), and the request is counted (`request_metrics`) for `/metrics`.
//!
//! INVARIANT: no text that came from the Web, from a visitor or from the engine reaches a page unescaped; the
//! one exception, a stored copy, is served into a sandbox without scripts, forms or network.
//! INVARIANT: everything works without JavaScript; scripts only add suggestions, shortcuts and live charts.
//! Does not crawl, index or rank. The binary opens the socket, [`serve`] answers on it within limits.

#![warn(missing_docs)]

mod cluster;
mod engine;
mod federation;
mod histogram;
mod page_detail;
mod ring;
mod settings;
mod status;

pub mod fake;

mod admin;
mod api;
mod assets;
mod chart;
mod client;
mod failure;
mod headers;
mod limit;
mod metrics;
mod middleware;
mod pages;
mod params;
mod question;
mod request_metrics;
mod routes;
mod server;
mod shared;
mod text;
mod trace;
mod world;

pub use api::cluster::cluster_json;
pub use api::ring::ring_json;
pub use cluster::{
    ClusterAgent, ClusterLeader, ClusterLog, ClusterNode, ClusterOrder, ClusterPlan, ClusterReplica,
    ClusterRoute, ClusterShard, ClusterStatus, ClusterSummary, ClusterWarning, FabricServer, LastPlan,
    NodeState, PlanCell, PlanEpoch, PlanGain, PlanOutcome, ReplicaState, ShardState,
};
pub use engine::{Command, Engine, EngineError, StoredCopy};
pub use federation::{
    FederationAgreement, FederationFlow, FederationOrder, FederationPartner, FederationProposal,
    FederationStatus,
};
pub use histogram::Histogram;
pub use metrics::metrics_text;
pub use page_detail::{
    BrokenList, BrokenPage, LinkedFrom, PageDetail, PageLink, PageVerdict, PageVisit, RevisitPlan,
    VerdictKind,
};
pub use ring::{RingBurst, RingChange, RingHot, RingMember, RingStatus};
pub use server::{CONNECTIONS_MAX, CONNECTIONS_PER_ADDRESS_MAX, serve};
pub use settings::Settings;
pub use status::{
    CacheStatus, CrawlStatus, DiskStatus, EngineState, Freshness, History, HostDetail, HostList, HostRow,
    IndexStatus, QueryStatus, RecentVisit, RobotsTry, Sample, SeedReport, SeedState, SeedSummary, Status,
};
pub use text::seeds::{seed_moved, seed_sentence};

use axum::Router;
use std::sync::Arc;

/// Most calls to the engine at one time; further ones wait for their turn, up to [`Settings::deadline`].
///
/// 64 calls × 2 MiB of thread stack = 128 MiB of address space at worst, of which few pages are touched.
pub const CALLS_MAX: usize = 64;

/// Shortest admin token. Sixteen characters cannot be guessed over a network: a thousand tries a second for a year are
/// 2^35, and sixteen letters drawn at random have 2^75.
pub const TOKEN_BYTES_MIN: usize = 16;

/// The pages and the API over an engine.
fn build(engine: Arc<dyn Engine>, settings: Settings) -> (Router, Arc<shared::Shared>) {
    let routes = routes::build();
    let shared = Arc::new(shared::Shared::new(engine, settings, routes.list));
    let layer = axum::middleware::from_fn_with_state(shared.clone(), middleware::handle);
    (routes.router.layer(layer).with_state(shared.clone()), shared)
}

#[cfg(test)]
mod tests;
