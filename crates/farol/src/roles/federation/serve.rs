//! Lets a consumer fetch its packets, where that was agreed: `GET packets/AGREEMENT?after=N` lists those behind N and acknowledges
//! the others, `GET packets/AGREEMENT/SEQUENCE` gives one, or a `Range` of it.

use super::files;
use super::partner_desk::{PartnerDesk, ToldAgreement};
use super::ship::Shipped;
use crate::federation::door::Reply;
use bytes::Bytes;
use hyper::header::{CONTENT_RANGE, RANGE};
use hyper::{HeaderMap, StatusCode};

pub fn list(desk: &PartnerDesk, known: &ToldAgreement, query: &str) -> Reply {
    let after = query.split('&').find_map(|pair| pair.strip_prefix("after=")?.parse::<u64>().ok());
    let Some(after) = after else {
        return Reply::text(
            StatusCode::BAD_REQUEST,
            "say what you have: packets/AGREEMENT?after=SEQUENCE, 0 for nothing",
        );
    };
    let id = known.terms.id;
    desk.ship(Shipped::Acknowledged(id, after));
    match files::numbers(&desk.folder, id) {
        Ok(numbers) => {
            let numbers: Vec<u64> = numbers.into_iter().filter(|number| *number > after).collect();
            Reply::text(StatusCode::OK, format!("{numbers:?}"))
        }
        Err(_) => {
            Reply::text(StatusCode::SERVICE_UNAVAILABLE, "packets cannot be read here; try again later")
        }
    }
}

pub fn get(desk: &PartnerDesk, known: &ToldAgreement, sequence: u64, headers: &HeaderMap) -> Reply {
    let Ok(packet) = files::read(&desk.folder, known.terms.id, sequence) else {
        return Reply::text(StatusCode::NOT_FOUND, "this packet is not here; list them again");
    };
    let packet = Bytes::from(packet);
    let Some(range) = headers.get(RANGE) else { return whole(packet) };
    let total = packet.len();
    let read = |text: &str| {
        let (from, to) = text.strip_prefix("bytes=")?.split_once('-')?;
        let from: usize = from.parse().ok()?;
        let to = if to.is_empty() { total } else { to.parse::<usize>().ok()?.saturating_add(1).min(total) };
        (from < to).then_some((from, to))
    };
    match range.to_str().ok().and_then(read) {
        Some((from, to)) => {
            Reply { status: StatusCode::PARTIAL_CONTENT, body: packet.slice(from..to), headers: Vec::new() }
                .with(CONTENT_RANGE, format!("bytes {from}-{}/{total}", to - 1))
        }
        None => Reply::text(StatusCode::RANGE_NOT_SATISFIABLE, format!("the packet has {total} bytes")),
    }
}

fn whole(body: Bytes) -> Reply {
    Reply { status: StatusCode::OK, body, headers: Vec::new() }
}
