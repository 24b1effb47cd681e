//! Has the pages of an agreement leave that were received under it, where that was wanted. What this engine has visited itself
//! since stays.

use super::partner_desk::{PartnerDesk, ToldAgreement};
use crate::archive::replay::is_damage;
use crate::fabric::Table;
use anyhow::{Context, Result};
use farol_base::PagePosition;
use farol_federation::agreement::{AgreementId, OnEnd, TakenState};
use farol_federation::packet::{Body, Gone, GoneReason, HeaderStart, PacketKind, ReadBody};
use farol_store::pages::{ArchiveReader, Archived};

/// Pages that leave in one go.
const PAGES_PER_TURN: usize = 500;

fn key(id: AgreementId) -> String {
    format!("purge {id}")
}

/// Remembers that pages are to leave when the agreement is over.
pub fn order(desk: &PartnerDesk, id: AgreementId) -> Result<()> {
    desk.tables.put(&[(Table::Agreements, &key(id), b"ordered")])
}

/// Has the pages leave of agreements that are over.
pub fn carry_out(desk: &PartnerDesk, archive: &ArchiveReader) -> Result<()> {
    let told = desk.told();
    let over = told.agreements.values().filter(|known| {
        matches!(known.side, super::partner_desk::Side::Taken(TakenState::Ended | TakenState::Ending(_)))
    });
    for known in over {
        let id = known.terms.id;
        let row = desk.tables.get(Table::Agreements, &key(id))?;
        let is_ordered = row.as_deref() == Some(b"ordered");
        if is_ordered || row.is_none() && known.terms.on_end == OnEnd::Purge {
            let left = purge(desk, archive, known)?;
            desk.tables.put(&[(Table::Agreements, &key(id), b"done")])?;
            tracing::info!(agreement = %id, pages = left, "received pages have left");
        }
    }
    Ok(())
}

fn purge(desk: &PartnerDesk, archive: &ArchiveReader, known: &ToldAgreement) -> Result<u64> {
    let id = known.terms.id.to_string();
    let (mut left, mut gone) = (0, Vec::new());
    let mut flush = |gone: &mut Vec<Gone>| -> Result<()> {
        let body = Body { gone: std::mem::take(gone), ..Body::default() };
        left += desk.intake.take(known, &start(known), ReadBody { body, unreadable: 0 }, desk.me())?.gone;
        Ok(())
    };
    for entry in archive.scan(PagePosition::default()) {
        let archived = match entry {
            Ok((_, _, archived)) => archived,
            Err(error) if is_damage(&error) => continue,
            Err(error) => return Err(error).context("the archive cannot be read"),
        };
        if matches!(archived, Archived::Conversion(_)) && archived.noted("federation-agreement") == Some(&*id)
        {
            let (url, at) = (archived.url().clone(), archived.fetched());
            gone.push(Gone { url, at, reason: GoneReason::Withdrawn });
        }
        if gone.len() >= PAGES_PER_TURN {
            flush(&mut gone)?;
        }
    }
    flush(&mut gone)?;
    Ok(left)
}

/// Who says so: the provider, as far as versions are concerned.
fn start(known: &ToldAgreement) -> HeaderStart {
    let terms = &known.terms;
    HeaderStart {
        sender: terms.provider,
        receiver: terms.consumer,
        agreement: terms.id,
        revision: terms.revision,
        sequence: 0,
        before: [0; 32],
        made: farol_base::Timestamp::EPOCH,
        position: PagePosition::default(),
        view: terms.view.digest(),
        analysis: 0,
        grade: terms.grade,
        kind: PacketKind::Changes,
    }
}
