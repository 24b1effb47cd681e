//! Carries letters: those of one engine one after the other, those of several at the same time.

use super::keeper::{Keeper, PartnerEvent};
use super::partner_desk::PartnerDesk;
use crate::federation::call::EngineAddress;
use farol_base::{Clock, SystemClock};
use farol_federation::agreement::EngineId;
use farol_federation::message::Letter;
use hyper::{Method, StatusCode};
use std::sync::Arc;

/// Sends the letters that are due.
pub fn send_what_is_due(keeper: &mut Keeper) {
    while let Some((to, letters)) = keeper.outbox.next(SystemClock.now()) {
        let Some(partner) = keeper.partners.get(&to) else {
            // Nobody knows where it is; what was to be said to it is of no use.
            let numbers: Vec<u64> = letters.iter().map(|(number, _)| *number).collect();
            keeper.runtime.spawn(drop_all(keeper.desk.clone(), to, numbers));
            continue;
        };
        keeper.runtime.spawn(deliver(keeper.desk.clone(), to, partner.line(to), letters));
    }
}

async fn drop_all(desk: Arc<PartnerDesk>, to: EngineId, delivered: Vec<u64>) {
    desk.tell(PartnerEvent::Posted { to, delivered, trouble: None });
}

async fn deliver(desk: Arc<PartnerDesk>, to: EngineId, line: EngineAddress, letters: Vec<(u64, Letter)>) {
    let mut delivered = Vec::new();
    let mut trouble = None;
    for (number, letter) in letters {
        match deliver_one(&desk, to, &line, &letter).await {
            Ok(()) => delivered.push(number),
            Err(why) => {
                tracing::debug!(to = %to, about = letter.about, "a letter waits: {why}");
                trouble = Some(why);
                break;
            }
        }
    }
    desk.tell(PartnerEvent::Posted { to, delivered, trouble });
}

async fn deliver_one(
    desk: &PartnerDesk,
    to: EngineId,
    line: &EngineAddress,
    letter: &Letter,
) -> Result<(), String> {
    let reply = post(desk, to, line, &letter.kind, letter.payload.clone()).await?;
    if reply.status == StatusCode::FORBIDDEN && letter.kind != "hello" {
        // It does not know us, or not any more: we introduce ourselves, and say it again.
        post(desk, to, line, "hello", desk.card.clone().into_bytes()).await?.done()?;
        return post(desk, to, line, &letter.kind, letter.payload.clone()).await?.done();
    }
    if reply.status == StatusCode::BAD_REQUEST {
        tracing::warn!(to = %to, about = letter.about, "a letter is not understood there: {}", reply.said);
        return Ok(());
    }
    reply.done()
}

/// What came back on a letter.
pub struct Posted {
    pub status: StatusCode,
    pub said: String,
}

impl Posted {
    pub fn done(self) -> Result<(), String> {
        match self.status.is_success() {
            true => Ok(()),
            false => Err(format!("it answered {}: {}", self.status.as_u16(), self.said)),
        }
    }
}

/// Seals one letter and sends it.
pub async fn post(
    desk: &PartnerDesk,
    to: EngineId,
    line: &EngineAddress,
    kind: &str,
    payload: Vec<u8>,
) -> Result<Posted, String> {
    let body = desk.seal(to, kind, payload).to_json();
    let called = desk.calls.call(line, Method::POST, "/federation/v1/message", &[], body.into()).await;
    let reply = called.map_err(|error| format!("{error:#}"))?;
    let said = String::from_utf8_lossy(&reply.body).chars().take(300).collect();
    Ok(Posted { status: reply.status, said })
}
