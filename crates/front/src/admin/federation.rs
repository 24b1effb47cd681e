//! `/admin/federation`: partners and agreements, a page for each agreement, and the levers for it.
//!
//! Where nothing is shared there is no such page.

use crate::failure::Failure;
use crate::shared::Shared;
use crate::{EngineError, FederationOrder, FederationStatus};

/// What is shared, or the sentence that nothing is.
pub(crate) async fn of(shared: &Shared) -> Result<FederationStatus, Failure> {
    let status = shared.ask(|engine| engine.federation()).await?;
    status.ok_or_else(|| {
        Failure::not_found(
            "this engine shares nothing: set enabled = true under [federation] and start it again",
        )
    })
}

/// Has an order carried out and gives the engine's sentence about it.
pub(crate) async fn carry_out(
    shared: &Shared,
    order: FederationOrder,
) -> Result<Result<String, EngineError>, Failure> {
    tracing::info!(?order, "an operator's order about what is shared");
    shared.ask(move |engine| engine.federation_order(order)).await
}
