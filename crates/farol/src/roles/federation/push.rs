//! Sends packets to a consumer, one after the other, in pieces: what was received of one need not be sent again.

use super::files;
use super::partner_desk::{PartnerDesk, ToldAgreement};
use super::ship::Shipped;
use crate::federation::call::{CallReply, EngineAddress};
use bytes::Bytes;
use farol_federation::agreement::{AgreementId, EngineId};
use hyper::header::{CONTENT_RANGE, HeaderName, RETRY_AFTER};
use hyper::{Method, StatusCode};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;

/// Bytes sent in one request.
pub const PIECE_BYTES: usize = 1 << 20;
/// Says how many bytes of a packet have come.
pub const RECEIVED_HEADER: &str = "farol-received";
/// Says which packet is expected.
pub const EXPECTED_HEADER: &str = "farol-expected";

/// Sends all packets up to this one, in a task of its own.
pub fn start(desk: &Arc<PartnerDesk>, runtime: &Handle, known: &ToldAgreement, upto: u64) {
    let (desk, id, to) = (desk.clone(), known.terms.id, known.terms.consumer);
    runtime.spawn(async move {
        let event = match send_all(&desk, id, to, upto).await {
            Ok(()) => Shipped::Idle(id),
            Err(Trouble::Lost) => Shipped::Lost(id),
            Err(Trouble::Later(wait, why)) => Shipped::Failed(id, wait, why),
            Err(Trouble::Unreachable(why)) => Shipped::Unreachable(id, why),
        };
        desk.ship(event);
    });
}

enum Trouble {
    Later(Option<Duration>, String),
    Unreachable(String),
    Lost,
}

fn later(why: impl Into<String>) -> Trouble {
    Trouble::Later(None, why.into())
}

async fn send_all(desk: &Arc<PartnerDesk>, id: AgreementId, to: EngineId, upto: u64) -> Result<(), Trouble> {
    let numbers = files::numbers(&desk.folder, id).map_err(|error| later(format!("{error:#}")))?;
    for sequence in numbers.into_iter().filter(|number| *number <= upto) {
        let told = desk.told();
        let Some(partner) = told.partners.get(&to) else {
            return Err(later("it is not known where the other engine is"));
        };
        let folder = desk.folder.clone();
        let read = tokio::task::spawn_blocking(move || files::read(&folder, id, sequence)).await;
        let packet: Bytes = match read {
            Ok(Ok(packet)) => packet.into(),
            // It was acknowledged meanwhile, or dropped.
            Ok(Err(_)) => continue,
            Err(error) => return Err(later(error.to_string())),
        };
        send(desk, id, to, &partner.line(to), sequence, packet).await?;
        desk.ship(Shipped::Acknowledged(id, sequence));
    }
    Ok(())
}

async fn send(
    desk: &PartnerDesk,
    id: AgreementId,
    to: EngineId,
    line: &EngineAddress,
    sequence: u64,
    packet: Bytes,
) -> Result<(), Trouble> {
    let mut from = 0;
    if packet.len() > PIECE_BYTES {
        let reply = ask(desk, id, to, line, sequence, Method::HEAD, &[], Bytes::new()).await?;
        from = number(&reply, RECEIVED_HEADER).map_or(0, |received| received as usize).min(packet.len());
        if from == packet.len() {
            from = 0;
        }
    }
    let mut corrections = 0;
    loop {
        let end = (from + PIECE_BYTES).min(packet.len());
        let range = format!("bytes {from}-{}/{}", end - 1, packet.len());
        let headers = [(CONTENT_RANGE, range)];
        let reply = ask(desk, id, to, line, sequence, Method::PUT, &headers, packet.slice(from..end)).await?;
        match reply.status {
            StatusCode::OK => return Ok(()),
            StatusCode::ACCEPTED => from = end,
            StatusCode::RANGE_NOT_SATISFIABLE if corrections < 3 => {
                corrections += 1;
                from = number(&reply, RECEIVED_HEADER).unwrap_or(0) as usize;
                if from >= packet.len() {
                    from = 0;
                }
            }
            StatusCode::CONFLICT => {
                return match number(&reply, EXPECTED_HEADER) {
                    Some(expected) if expected > sequence => Ok(()),
                    Some(expected) if expected < sequence => Err(Trouble::Lost),
                    _ => Err(refused(&reply)),
                };
            }
            _ => return Err(refused(&reply)),
        }
    }
}

fn refused(reply: &CallReply) -> Trouble {
    let said: String = String::from_utf8_lossy(&reply.body).chars().take(300).collect();
    let wait = reply.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    Trouble::Later(wait.map(Duration::from_secs), format!("it answered {}: {said}", reply.status.as_u16()))
}

fn number(reply: &CallReply, name: &str) -> Option<u64> {
    reply.headers.get(name)?.to_str().ok()?.parse().ok()
}

#[allow(clippy::too_many_arguments)]
async fn ask(
    desk: &PartnerDesk,
    id: AgreementId,
    to: EngineId,
    line: &EngineAddress,
    sequence: u64,
    method: Method,
    headers: &[(HeaderName, String)],
    body: Bytes,
) -> Result<CallReply, Trouble> {
    let path = format!("packets/{id}/{sequence}");
    let mut headers = headers.to_vec();
    headers.push(desk.allow(to, &format!("{method} {path}")));
    let called = desk.calls.call(line, method, &format!("/federation/v1/{path}"), &headers, body).await;
    called.map_err(|error| Trouble::Unreachable(format!("{error:#}")))
}
