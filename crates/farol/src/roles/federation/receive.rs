//! Takes packets in: the cheapest checks first, each refusal counted with its reason.
//!
//! A packet comes in pieces into `federation/in/AGREEMENT.part`. It is acknowledged only when its pages are in the archive and
//! that is flushed; one that comes again is acknowledged again.
//!
//! INVARIANT: nothing of a packet is used before its signature, its place in the chain and its length are right; one packet is
//! unpacked at a time.

use super::keeper::PartnerEvent;
use super::partner_desk::{PartnerDesk, ToldAgreement};
use super::push::{EXPECTED_HEADER, RECEIVED_HEADER};
use crate::fabric::Table;
use crate::federation::door::{Asked, Reply};
use crate::federation::pack;
use anyhow::{Context, Result};
use farol_base::{Clock, SystemClock, Timestamp};
use farol_federation::agreement::pages::{SKEW, Used};
use farol_federation::agreement::{AgreementId, Grade, Quota};
use farol_federation::packet::{PACKET_BYTES_MAX, PacketError, PacketKind};
use hyper::StatusCode;
use hyper::header::{CONTENT_RANGE, HeaderName};
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// Of so many pages more than one in a hundred may not be dropped.
const JUDGED_FROM: u64 = 100;

/// How far an agreement has come, on disk.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct ReceiveMark {
    /// The last packet that was taken in.
    pub sequence: u64,
    /// What the next one must say of it.
    digest: String,
    day: u64,
    day_pages: u64,
    day_bytes: u64,
    packets: u64,
    pages: u64,
    gone: u64,
    bytes: u64,
    newest: u64,
    judged: u64,
    dropped: u64,
    /// Nothing is taken in until the operator has looked at it.
    pub is_suspended: bool,
}

impl ReceiveMark {
    /// The operator has looked at what was wrong.
    pub fn take_up_again(&mut self) {
        (self.is_suspended, self.judged, self.dropped) = (false, 0, 0);
    }
}

/// Why a packet is not taken in.
#[derive(Debug)]
pub struct PacketRefusal {
    pub reason: &'static str,
    pub reply: Reply,
}

fn refuse(reason: &'static str, status: StatusCode, text: impl Into<String>) -> PacketRefusal {
    PacketRefusal { reason, reply: Reply::text(status, text) }
}

/// How much of a packet is here.
pub fn head(desk: &PartnerDesk, known: &ToldAgreement, sequence: u64) -> Reply {
    let received = std::fs::metadata(part(desk, known.terms.id, sequence)).map_or(0, |file| file.len());
    Reply::text(StatusCode::OK, "").with(HeaderName::from_static(RECEIVED_HEADER), received)
}

/// Takes a piece of a packet; with the last one, the packet.
pub fn put(desk: &PartnerDesk, known: &ToldAgreement, sequence: u64, asked: &Asked) -> Reply {
    // Of one agreement one request at a time; others wait for their turn here.
    let id = known.terms.id;
    let turn = desk.turn(id);
    let _turn = turn.lock();
    let done = piece(desk, known, sequence, asked).and_then(|packet| match packet {
        Some(packet) => take(desk, known, &packet).map(|()| {
            let _ = std::fs::remove_file(part(desk, id, sequence));
            Reply::text(StatusCode::OK, "{}")
        }),
        None => Ok(Reply::text(StatusCode::ACCEPTED, "{}")),
    });
    done.unwrap_or_else(|refusal| {
        if refusal.reply.status != StatusCode::RANGE_NOT_SATISFIABLE {
            // What was refused is sent from its beginning, if it is sent again.
            let _ = std::fs::remove_file(part(desk, id, sequence));
            count(desk, id, refusal.reason);
        }
        refusal.reply
    })
}

/// Counts a refusal.
fn count(desk: &PartnerDesk, id: AgreementId, reason: &'static str) {
    desk.flow(id, |flow| *flow.refused.entry(reason).or_default() += 1);
}

fn part(desk: &PartnerDesk, id: AgreementId, sequence: u64) -> PathBuf {
    desk.folder.join("in").join(format!("{id}.{sequence}.part"))
}

/// Writes a piece down; the packet, where it is whole.
fn piece(
    desk: &PartnerDesk,
    known: &ToldAgreement,
    sequence: u64,
    asked: &Asked,
) -> Result<Option<Vec<u8>>, PacketRefusal> {
    let id = known.terms.id;
    let mark = read_mark(desk, id).map_err(|error| trouble(&error))?;
    if sequence <= mark.sequence {
        // It came before; that it is acknowledged again is all that its sender needs.
        return Err(PacketRefusal { reason: "packet_replayed", reply: Reply::text(StatusCode::OK, "{}") });
    }
    let range = asked.headers.get(CONTENT_RANGE).and_then(|range| range.to_str().ok());
    let whole = (0, asked.body.len(), asked.body.len());
    let (from, end, total) = match range {
        None => whole,
        Some(range) => read_range(range).ok_or_else(|| {
            refuse("packet_range", StatusCode::BAD_REQUEST, "Content-Range is written bytes FROM-TO/TOTAL")
        })?,
    };
    if total > PACKET_BYTES_MAX {
        let text = format!("a packet has {PACKET_BYTES_MAX} bytes at most");
        return Err(refuse("packet_too_large", StatusCode::PAYLOAD_TOO_LARGE, text));
    }
    if end - from != asked.body.len() || end > total {
        return Err(refuse(
            "packet_range",
            StatusCode::BAD_REQUEST,
            "the body is not as long as Content-Range says",
        ));
    }
    if (from, end) == (0, total) {
        return Ok(Some(asked.body.to_vec()));
    }
    let path = part(desk, id, sequence);
    let there = std::fs::metadata(&path).map_or(0, |file| file.len() as usize);
    if from != there && from != 0 {
        let reply = Reply::text(StatusCode::RANGE_NOT_SATISFIABLE, "another piece is expected")
            .with(HeaderName::from_static(RECEIVED_HEADER), there);
        return Err(PacketRefusal { reason: "packet_range", reply });
    }
    let write = || -> std::io::Result<Option<Vec<u8>>> {
        if let Some(dir) = path.parent() {
            std::fs::create_dir_all(dir)?;
        }
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(from > 0)
            .write(true)
            .truncate(from == 0)
            .open(&path)?;
        file.write_all(&asked.body)?;
        drop(file);
        if end == total { std::fs::read(&path).map(Some) } else { Ok(None) }
    };
    write().map_err(|error| trouble(&error.into()))
}

fn read_range(text: &str) -> Option<(usize, usize, usize)> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (from, last) = range.split_once('-')?;
    let (from, last, total): (usize, usize, usize) =
        (from.parse().ok()?, last.parse().ok()?, total.parse().ok()?);
    (from <= last && last < total).then_some((from, last + 1, total))
}

fn trouble(error: &anyhow::Error) -> PacketRefusal {
    tracing::warn!("a packet cannot be taken in now: {error:#}");
    refuse(
        "not_now",
        StatusCode::SERVICE_UNAVAILABLE,
        "it cannot be taken in at the moment; send it again later",
    )
}

/// Reads how far an agreement has come.
pub fn read_mark(desk: &PartnerDesk, id: AgreementId) -> Result<ReceiveMark> {
    match desk.tables.get(Table::Agreements, &key(id))? {
        Some(row) => serde_json::from_slice(&row).context("how far packets have come cannot be read"),
        None => Ok(ReceiveMark::default()),
    }
}

/// Writes how far an agreement has come.
pub fn write_mark(desk: &PartnerDesk, id: AgreementId, mark: &ReceiveMark) -> Result<()> {
    desk.tables.put(&[(Table::Agreements, &key(id), &serde_json::to_vec(mark)?)])?;
    show(desk, id, mark);
    Ok(())
}

/// Says how it stands.
pub fn show(desk: &PartnerDesk, id: AgreementId, mark: &ReceiveMark) {
    desk.flow(id, |flow| {
        let received = &mut flow.received;
        (received.packets, received.pages) = (mark.packets, mark.pages);
        (received.gone, received.bytes) = (mark.gone, mark.bytes);
        flow.newest = (mark.newest > 0).then(|| Timestamp::from_millis(mark.newest));
        if mark.is_suspended {
            flow.trouble = format!(
                "suspended: {} of {} pages were not what was agreed on; `farol federation accept` takes it up again",
                mark.dropped, mark.judged
            );
        } else if flow.trouble.starts_with("suspended") {
            flow.trouble.clear();
        }
    });
}

fn key(id: AgreementId) -> String {
    format!("in {id}")
}

/// Takes a whole packet in.
pub fn take(desk: &PartnerDesk, known: &ToldAgreement, packet: &[u8]) -> Result<(), PacketRefusal> {
    let (id, terms, now) = (known.terms.id, &known.terms, SystemClock.now());
    let mut mark = read_mark(desk, id).map_err(|error| trouble(&error))?;
    if mark.is_suspended {
        let text = "too many pages were not what was agreed on; ask the owner of this engine";
        return Err(refuse("suspended", StatusCode::FORBIDDEN, text));
    }
    let opened = pack::open(packet).map_err(|error| unreadable(&error))?;
    let start = &opened.header().start;
    if start.agreement != id || start.sender != terms.provider {
        return Err(refuse(
            "packet_other",
            StatusCode::BAD_REQUEST,
            "the packet is of another agreement or engine",
        ));
    }
    if start.receiver != desk.me() {
        return Err(refuse("packet_not_for_us", StatusCode::BAD_REQUEST, "the packet is for another engine"));
    }
    if start.revision > terms.revision {
        return Err(refuse(
            "packet_revision",
            StatusCode::SERVICE_UNAVAILABLE,
            "its terms are not known here yet",
        ));
    }
    if start.grade != terms.grade {
        let text = "the packet has pages in another grade than agreed";
        return Err(refuse("packet_grade", StatusCode::BAD_REQUEST, text));
    }
    if start.grade == Grade::Words && start.analysis != farol_index::ANALYSIS {
        let text = format!(
            "its words were cut by analysis {}, and this Farol has {}: run the same version on both sides, or agree on texts",
            start.analysis,
            farol_index::ANALYSIS
        );
        return Err(refuse("packet_analysis", StatusCode::BAD_REQUEST, text));
    }
    let is_first = start.before == [0; 32] && start.kind != PacketKind::Changes;
    let follows = start.sequence == mark.sequence + 1
        && (mark.sequence == 0 || start.before == digest_of(&mark.digest).unwrap_or_default());
    if start.sequence <= mark.sequence {
        return Err(PacketRefusal { reason: "packet_replayed", reply: Reply::text(StatusCode::OK, "{}") });
    }
    if !follows && !is_first {
        let reply = Reply::text(StatusCode::CONFLICT, format!("{{\"expected\":{}}}", mark.sequence + 1));
        let reply = reply.with(HeaderName::from_static(EXPECTED_HEADER), mark.sequence + 1);
        return Err(PacketRefusal { reason: "packet_gap", reply });
    }
    if start.revision == terms.revision && start.view != terms.view.digest() {
        return Err(refuse(
            "packet_view",
            StatusCode::BAD_REQUEST,
            "the packet is about another view than agreed",
        ));
    }
    let entries = (opened.header().pages + opened.header().gone) as u64;
    let mut used = Used::of(mark.day, mark.day_pages, mark.day_bytes);
    // What was agreed on, and never more than our own settings allow.
    let own = &desk.config.federation;
    let quota = Quota {
        pages_day: terms.quota.pages_day.min(own.pages_per_day),
        bytes_day: terms.quota.bytes_day.min(own.bytes_per_day.get()),
    };
    used.take(now, quota, entries, packet.len() as u64).map_err(|wait| {
        let text = "the day's quota is used up";
        PacketRefusal { reason: "quota", reply: Reply::later(StatusCode::TOO_MANY_REQUESTS, text, wait) }
    })?;
    let read = {
        let _alone = desk.unpacking.lock();
        opened.unpack().map_err(|error| unreadable(&error))?
    };
    let taken = desk.intake.take(known, start, read, desk.me()).map_err(|error| trouble(&error))?;
    let flow_refused = &taken.dropped;
    desk.flow(id, |flow| {
        flow_refused.iter().for_each(|(reason, count)| *flow.refused.entry(reason).or_default() += count);
    });
    (mark.day, mark.day_pages, mark.day_bytes) = used.parts();
    mark.sequence = start.sequence;
    mark.digest = data_encoding::HEXLOWER.encode(&opened.digest());
    mark.packets += 1;
    mark.pages += taken.pages;
    mark.gone += taken.gone;
    mark.bytes += packet.len() as u64;
    mark.newest = mark.newest.max(taken.newest.as_millis()).min((now + SKEW).as_millis());
    mark.judged += entries;
    mark.dropped += taken.faults;
    mark.is_suspended = mark.judged >= JUDGED_FROM && mark.dropped * 100 > mark.judged;
    write_mark(desk, id, &mark).map_err(|error| trouble(&error))?;
    if start.kind == PacketKind::SnapshotEnd {
        desk.tell(PartnerEvent::Filled(id, start.revision));
    }
    Ok(())
}

fn digest_of(hex: &str) -> Option<[u8; 32]> {
    data_encoding::HEXLOWER.decode(hex.as_bytes()).ok()?.try_into().ok()
}

fn unreadable(error: &anyhow::Error) -> PacketRefusal {
    let (reason, status) = match error.downcast_ref::<PacketError>() {
        Some(PacketError::TooLarge { .. }) => ("packet_too_large", StatusCode::PAYLOAD_TOO_LARGE),
        Some(PacketError::Length { .. }) => ("packet_cut", StatusCode::BAD_REQUEST),
        Some(PacketError::Digest) => ("packet_damaged", StatusCode::BAD_REQUEST),
        Some(PacketError::Count { what: "bytes", .. }) => ("packet_bomb", StatusCode::BAD_REQUEST),
        Some(_) => ("packet_unreadable", StatusCode::BAD_REQUEST),
        // Only its signature is told without a kind.
        None => ("packet_forged", StatusCode::BAD_REQUEST),
    };
    refuse(reason, status, error.to_string())
}

/// How long to wait before asking for packets again, where they are fetched.
pub fn pull_every(delay_max: Duration) -> Duration {
    (delay_max / 2).clamp(Duration::from_secs(1), Duration::from_secs(300))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_read_or_refused() {
        assert_eq!(read_range("bytes 0-9/10"), Some((0, 10, 10)));
        assert_eq!(read_range("bytes 5-9/20"), Some((5, 10, 20)));
        for wrong in ["", "bytes 0-10/10", "bytes 5-4/10", "bytes */10", "0-9/10", "bytes 0-9/*"] {
            assert_eq!(read_range(wrong), None, "{wrong}");
        }
    }
}
