//! What an engine shares with engines of other owners, as the pages and the API ask for it.

use farol_front::{EngineError, FederationOrder, FederationStatus};
use std::sync::Arc;

/// Looks at what is shared, and changes it.
#[derive(Clone)]
pub struct FederationFace {
    pub status: Arc<dyn Fn() -> FederationStatus + Send + Sync>,
    pub order: Arc<dyn Fn(FederationOrder) -> Result<String, EngineError> + Send + Sync>,
    /// Numbers in Prometheus' text format.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
}
