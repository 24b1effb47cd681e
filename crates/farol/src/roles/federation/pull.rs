//! Fetches packets from a provider, where that was agreed.

use super::partner_desk::{PartnerDesk, ToldAgreement};
use super::receive;
use bytes::Bytes;
use farol_federation::agreement::{AgreementId, Delivery, Kind};
use hyper::{Method, StatusCode};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// Packets fetched in one go.
const PACKETS_PER_TURN: usize = 64;
const LOOK: Duration = Duration::from_millis(500);

/// Fetches for as long as the runtime lives.
pub fn start(desk: Arc<PartnerDesk>, runtime: &Handle) {
    runtime.spawn(async move {
        let mut next: BTreeMap<AgreementId, (Instant, Duration)> = BTreeMap::new();
        loop {
            tokio::time::sleep(LOOK).await;
            let told = desk.told();
            let pulled = told.agreements.values().filter(|known| {
                known.side.takes()
                    && known.terms.kind == Kind::Index
                    && known.terms.delivery == Delivery::Pull
            });
            for known in pulled {
                let id = known.terms.id;
                let every = receive::pull_every(known.terms.delay_max);
                let (due, rest) = *next.entry(id).or_insert((Instant::now(), every));
                if Instant::now() < due {
                    continue;
                }
                let rest = match pull(&desk, known).await {
                    Ok(()) => every,
                    Err(why) => {
                        tracing::debug!(agreement = %id, "packets cannot be fetched: {why}");
                        desk.flow(id, |flow| flow.trouble = why);
                        (rest * 2).min(Duration::from_secs(3600))
                    }
                };
                next.insert(id, (Instant::now() + rest, rest));
            }
        }
    });
}

async fn pull(desk: &Arc<PartnerDesk>, known: &ToldAgreement) -> Result<(), String> {
    let id = known.terms.id;
    let mark = receive::read_mark(desk, id).map_err(|error| format!("{error:#}"))?;
    let list = get(desk, known, &format!("packets/{id}"), &format!("?after={}", mark.sequence)).await?;
    let numbers: Vec<u64> =
        serde_json::from_slice(&list).map_err(|_| "the list of packets cannot be read".to_string())?;
    for number in numbers.into_iter().filter(|number| *number > mark.sequence).take(PACKETS_PER_TURN) {
        let packet = get(desk, known, &format!("packets/{id}/{number}"), "").await?;
        let (desk, known) = (desk.clone(), known.clone());
        let taken = tokio::task::spawn_blocking(move || {
            let turn = desk.turn(known.terms.id);
            let _turn = turn.lock();
            receive::take(&desk, &known, &packet).map_err(|refusal| {
                desk.flow(known.terms.id, |flow| *flow.refused.entry(refusal.reason).or_default() += 1);
                String::from_utf8_lossy(&refusal.reply.body).into_owned()
            })
        });
        taken.await.map_err(|error| error.to_string())??;
    }
    desk.flow(id, |flow| {
        if !flow.trouble.starts_with("suspended") {
            flow.trouble.clear();
        }
    });
    Ok(())
}

async fn get(desk: &PartnerDesk, known: &ToldAgreement, path: &str, query: &str) -> Result<Bytes, String> {
    let provider = known.terms.provider;
    let told = desk.told();
    let partner = told.partners.get(&provider).ok_or("it is not known where the provider is")?;
    let allowed = [desk.allow(provider, &format!("GET {path}"))];
    let whole = format!("/federation/v1/{path}{query}");
    let called = desk.calls.call(&partner.line(provider), Method::GET, &whole, &allowed, Bytes::new()).await;
    let reply = called.map_err(|error| format!("{error:#}"))?;
    match reply.status {
        StatusCode::OK => Ok(reply.body),
        status => {
            let said: String = String::from_utf8_lossy(&reply.body).chars().take(300).collect();
            Err(format!("it answered {}: {said}", status.as_u16()))
        }
    }
}
