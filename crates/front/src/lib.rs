//! What people see: search page, JSON API, OpenSearch, admin.

mod engine;
mod settings;
mod status;

pub use engine::{Command, Engine, StoredCopy, Trouble};
pub use settings::Settings;
pub use status::{
    CrawlStatus, DiskStatus, History, HostDetail, HostList, HostRow, IndexStatus, QueryStatus, RobotsTry,
    Sample, State, Status, Visit,
};

use axum::Router;
use axum::routing::get;
use std::sync::Arc;

/// Most calls to the engine at one time.
pub const CALLS_MAX: usize = 64;

/// Builds the pages and the API over an engine.
pub fn router(engine: Arc<dyn Engine>, settings: Settings) -> Router {
    let name = settings.name;
    Router::new().route("/healthz", get(|| async { "ok\n" })).route(
        "/",
        get(move || async move { format!("{name}: {} pages\n", engine.status().index.documents) }),
    )
}
