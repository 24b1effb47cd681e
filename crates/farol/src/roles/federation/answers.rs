//! What other engines are answered at the door.
//!
//! Everybody may read the card. Everything else comes in a signed envelope, or with one in a header that names the request.

use super::keeper::PartnerEvent;
use super::partner_desk::{LETTER_HEADER, PartnerDesk, ToldAgreements};
use super::{fill, receive, serve};
use crate::federation::door::{Asked, Reply};
use crate::federation::letters;
use data_encoding::BASE64;
use farol_base::{Clock, SystemClock};
use farol_federation::agreement::{AgreementId, EngineId};
use farol_federation::message::{Card, Envelope, MessageError, heard};
use hyper::{Method, StatusCode};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Answers one request.
pub async fn answer(desk: Arc<PartnerDesk>, asked: Asked) -> Reply {
    let parts: Vec<&str> = asked.path.split('/').collect();
    match (asked.method.as_str(), parts.as_slice()) {
        ("GET", ["card"]) => Reply::text(StatusCode::OK, card(&desk)),
        ("POST", ["message"]) => message(&desk, asked).await,
        (_, ["packets", agreement]) => {
            let agreement = agreement.to_string();
            packets(desk, asked, &agreement, None).await
        }
        (_, ["packets", agreement, sequence]) => {
            let (agreement, sequence) = (agreement.to_string(), sequence.to_string());
            packets(desk, asked, &agreement, Some(&sequence)).await
        }
        (_, ["card" | "message"]) => {
            Reply::text(StatusCode::METHOD_NOT_ALLOWED, "GET the card, POST messages")
        }
        _ => Reply::text(StatusCode::NOT_FOUND, "there are card, message and packets here"),
    }
}

/// Our card, sealed; it is for everybody.
pub fn card(desk: &PartnerDesk) -> String {
    desk.seal(desk.me(), "card", desk.card.clone().into_bytes()).to_json()
}

fn unread(desk: &PartnerDesk, error: &MessageError) -> Reply {
    desk.refuse("letter_unreadable");
    Reply::text(StatusCode::BAD_REQUEST, error.to_string())
}

/// Opens the letter that comes with a request; who wrote it, or why it is refused.
fn open(desk: &PartnerDesk, envelope: &Envelope, end: Option<EngineId>) -> Result<(), Reply> {
    letters::open(desk.me(), envelope, end, SystemClock.now(), &desk.seen).map_err(|why| {
        desk.refuse(why.code());
        let status = match why {
            letters::LetterRefused::TooMany => StatusCode::TOO_MANY_REQUESTS,
            letters::LetterRefused::Again => StatusCode::CONFLICT,
            _ => StatusCode::UNAUTHORIZED,
        };
        Reply::text(status, why.to_string())
    })
}

async fn message(desk: &Arc<PartnerDesk>, asked: Asked) -> Reply {
    let envelope = match Envelope::from_json(&asked.body) {
        Ok(envelope) => envelope,
        Err(error) => return unread(desk, &error),
    };
    if let Err(reply) = open(desk, &envelope, asked.end) {
        return reply;
    }
    let from = envelope.from;
    let (done, told) = oneshot::channel();
    let event = match envelope.kind.as_str() {
        "hello" => match Card::from_json(&envelope.payload) {
            Ok(card) => PartnerEvent::Hello(from, card, done),
            Err(error) => return unread(desk, &error),
        },
        _ if !desk.told().partners.contains_key(&from) => {
            desk.refuse("letter_of_unknown");
            return Reply::text(
                StatusCode::FORBIDDEN,
                "this engine does not know you; send it your card as hello",
            );
        }
        "agreement" => match heard(&envelope.payload) {
            Ok((id, message)) => PartnerEvent::Heard(from, id, message, done),
            Err(error) => return unread(desk, &error),
        },
        fill::KIND => return asked_to_fill(desk, from, &envelope.payload),
        other => {
            desk.refuse("letter_of_other_type");
            let text = format!("letters of type {other:?} are not understood here; an upgrade may help");
            return Reply::text(StatusCode::BAD_REQUEST, text);
        }
    };
    if !desk.tell(event) {
        return Reply::text(StatusCode::SERVICE_UNAVAILABLE, "the engine is stopping; try again later");
    }
    match told.await {
        Ok(Ok(())) => Reply::text(StatusCode::OK, "{}"),
        Ok(Err(why)) => {
            desk.refuse("letter_of_too_many");
            Reply::text(StatusCode::FORBIDDEN, why)
        }
        Err(_) => Reply::text(StatusCode::SERVICE_UNAVAILABLE, "it could not be written; try again later"),
    }
}

fn asked_to_fill(desk: &Arc<PartnerDesk>, from: EngineId, payload: &[u8]) -> Reply {
    let Some((id, round)) = fill::FillLetter::read(payload) else {
        desk.refuse("letter_unreadable");
        return Reply::text(
            StatusCode::BAD_REQUEST,
            "a question for all pages names an agreement and a round",
        );
    };
    let told = desk.told();
    let is_theirs = told
        .agreements
        .get(&id)
        .is_some_and(|agreement| agreement.terms.consumer == from && agreement.side.sends());
    if !is_theirs {
        return no_agreement(desk);
    }
    desk.tell(PartnerEvent::Alive(from));
    desk.fills.lock().insert(id, round);
    Reply::text(StatusCode::OK, "{}")
}

fn no_agreement(desk: &PartnerDesk) -> Reply {
    desk.refuse("no_agreement");
    Reply::text(StatusCode::FORBIDDEN, "there is no agreement in force with you by which this could be asked")
}

async fn packets(desk: Arc<PartnerDesk>, asked: Asked, agreement: &str, sequence: Option<&str>) -> Reply {
    let (Ok(id), Some(Ok(number))) =
        (agreement.parse::<AgreementId>(), sequence.map_or(Some(Ok(0)), |text| Some(text.parse::<u64>())))
    else {
        return Reply::text(StatusCode::NOT_FOUND, "packets are at packets/AGREEMENT/SEQUENCE");
    };
    let from = match allowed(&desk, &asked) {
        Ok(from) => from,
        Err(reply) => return reply,
    };
    let told: Arc<ToldAgreements> = desk.told();
    let Some(known) = told.agreements.get(&id).filter(|known| {
        known.terms.partner_of(desk.me()) == from && (known.side.sends() || known.side.takes())
    }) else {
        return no_agreement(&desk);
    };
    desk.tell(PartnerEvent::Alive(from));
    let known = known.clone();
    let work = tokio::task::spawn_blocking(move || match (&asked.method, number, known.side.takes()) {
        (&Method::PUT, 1.., true) => receive::put(&desk, &known, number, &asked),
        (&Method::HEAD, 1.., true) => receive::head(&desk, &known, number),
        (&Method::GET, 0, false) => serve::list(&desk, &known, &asked.query),
        (&Method::GET, 1.., false) => serve::get(&desk, &known, number, &asked.headers),
        _ => Reply::text(StatusCode::METHOD_NOT_ALLOWED, "the provider PUTs packets, the consumer GETs them"),
    });
    match work.await {
        Ok(reply) => reply,
        Err(error) => {
            tracing::error!(%error, "a request of another engine broke off");
            Reply::text(StatusCode::INTERNAL_SERVER_ERROR, "it broke off; try again later")
        }
    }
}

/// Who makes a request, by the letter in its header.
fn allowed(desk: &PartnerDesk, asked: &Asked) -> Result<EngineId, Reply> {
    let unsigned = || {
        desk.refuse("request_unsigned");
        Reply::text(StatusCode::UNAUTHORIZED, format!("the header {LETTER_HEADER} has no envelope in base64"))
    };
    let header = asked.headers.get(LETTER_HEADER).ok_or_else(unsigned)?;
    let json = BASE64.decode(header.as_bytes()).map_err(|_| unsigned())?;
    let envelope = Envelope::from_json(&json).map_err(|_| unsigned())?;
    if envelope.kind != format!("{} {}", asked.method, asked.path) {
        desk.refuse("request_other");
        return Err(Reply::text(StatusCode::UNAUTHORIZED, "the envelope allows another request"));
    }
    open(desk, &envelope, asked.end)?;
    Ok(envelope.from)
}
