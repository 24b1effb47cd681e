//! `/api/v1/federation`: partners and agreements, and the levers for them.

use super::commands::{Body, Done, DoneWire};
use crate::admin::access::Admin;
use crate::admin::federation::{carry_out, of};
use crate::failure::Failure;
use crate::shared::Shared;
use crate::{FederationAgreement, FederationFlow, FederationOrder, FederationPartner, FederationProposal};
use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

#[derive(Serialize)]
pub(crate) struct FederationWire {
    id: String,
    name: String,
    address: String,
    view: String,
    card: String,
    partners: Vec<FederationPartnerWire>,
    agreements: Vec<FederationAgreementWire>,
    refused: Vec<RefusedWire>,
}

#[derive(Serialize)]
struct FederationPartnerWire {
    id: String,
    name: String,
    address: String,
    view: String,
    contact: String,
    confirmed: bool,
    heard_seconds: Option<f64>,
    letters: u64,
    trouble: String,
}

#[derive(Serialize)]
struct FederationAgreementWire {
    id: String,
    partner: String,
    partner_name: String,
    provider: bool,
    kind: String,
    view: String,
    in_force: String,
    revision: u32,
    state: String,
    undecided: bool,
    grade: String,
    delivery: String,
    lease_seconds: f64,
    sent: FlowWire,
    received: FlowWire,
    waiting: FlowWire,
    waiting_seconds: Option<f64>,
    lag_seconds: Option<f64>,
    refused: Vec<RefusedWire>,
    trouble: String,
}

#[derive(Serialize)]
struct FlowWire {
    packets: u64,
    pages: u64,
    gone: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct RefusedWire {
    reason: String,
    count: u64,
}

pub(crate) async fn federation(
    _: Admin,
    State(shared): State<Arc<Shared>>,
) -> Result<Json<FederationWire>, Failure> {
    let status = of(&shared).await?;
    Ok(Json(FederationWire {
        id: status.id,
        name: status.name,
        address: status.address,
        view: status.view,
        card: status.card,
        partners: status.partners.into_iter().map(partner).collect(),
        agreements: status.agreements.into_iter().map(agreement).collect(),
        refused: refused(status.refused),
    }))
}

fn partner(partner: FederationPartner) -> FederationPartnerWire {
    FederationPartnerWire {
        id: partner.id,
        name: partner.name,
        address: partner.address,
        view: partner.view,
        contact: partner.contact,
        confirmed: partner.is_confirmed,
        heard_seconds: partner.heard.as_ref().map(Duration::as_secs_f64),
        letters: partner.letters,
        trouble: partner.trouble,
    }
}

fn agreement(agreement: FederationAgreement) -> FederationAgreementWire {
    FederationAgreementWire {
        id: agreement.id,
        partner: agreement.partner,
        partner_name: agreement.partner_name,
        provider: agreement.is_provider,
        kind: agreement.kind,
        view: agreement.view,
        in_force: agreement.in_force,
        revision: agreement.revision,
        state: agreement.state,
        undecided: agreement.is_undecided,
        grade: agreement.grade,
        delivery: agreement.delivery,
        lease_seconds: agreement.lease.as_secs_f64(),
        sent: flow(agreement.sent),
        received: flow(agreement.received),
        waiting: flow(agreement.waiting),
        waiting_seconds: agreement.waiting_since.as_ref().map(Duration::as_secs_f64),
        lag_seconds: agreement.lag.as_ref().map(Duration::as_secs_f64),
        refused: refused(agreement.refused),
        trouble: agreement.trouble,
    }
}

fn flow(flow: FederationFlow) -> FlowWire {
    FlowWire { packets: flow.packets, pages: flow.pages, gone: flow.gone, bytes: flow.bytes }
}

fn refused(refused: Vec<(String, u64)>) -> Vec<RefusedWire> {
    refused.into_iter().map(|(reason, count)| RefusedWire { reason, count }).collect()
}

/// An order as programs give it: what to do, and what that needs.
#[derive(Deserialize)]
#[serde(tag = "order", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum OrderWire {
    Join {
        address: String,
        #[serde(default)]
        key: String,
    },
    Forget {
        partner: String,
    },
    Propose {
        partner: String,
        view: String,
        #[serde(default)]
        kind: String,
        #[serde(default)]
        provider: bool,
        #[serde(default)]
        grade: String,
        #[serde(default)]
        delivery: String,
        #[serde(default)]
        forward: u8,
        #[serde(default)]
        purge: bool,
    },
    Accept {
        agreement: String,
    },
    Refuse {
        agreement: String,
    },
    Amend {
        agreement: String,
        view: String,
    },
    End {
        agreement: String,
        #[serde(default)]
        purge: bool,
    },
}

impl OrderWire {
    fn read(self) -> FederationOrder {
        match self {
            OrderWire::Join { address, key } => FederationOrder::Join { address, key },
            OrderWire::Forget { partner } => FederationOrder::Forget { partner },
            OrderWire::Propose { partner, view, kind, provider, grade, delivery, forward, purge } => {
                FederationOrder::Propose(Box::new(FederationProposal {
                    partner,
                    view,
                    kind,
                    as_provider: provider,
                    grade,
                    delivery,
                    forward,
                    purge,
                }))
            }
            OrderWire::Accept { agreement } => FederationOrder::Accept { agreement },
            OrderWire::Refuse { agreement } => FederationOrder::Refuse { agreement },
            OrderWire::Amend { agreement, view } => FederationOrder::Amend { agreement, view },
            OrderWire::End { agreement, purge } => FederationOrder::End { agreement, purge },
        }
    }
}

pub(crate) async fn order(_: Admin, State(shared): State<Arc<Shared>>, Body(body): Body<OrderWire>) -> Done {
    Ok(Json(DoneWire { done: carry_out(&shared, body.read()).await?? }))
}
