//! Hands the pages of a packet to the crawl, which has the archive, and counts what became of them.

use super::partner_desk::ToldAgreement;
use crate::archive::take_in::{Arrived, TakenIn};
use crate::handles::order::Order;
use anyhow::{Context, Result};
use farol_base::Timestamp;
use farol_federation::agreement::EngineId;
use farol_federation::agreement::pages::Dropped;
use farol_federation::packet::{HeaderStart, ReadBody};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::time::Duration;

/// How long the crawl may take for one packet; it waits for room where the disk is full.
const TAKE_MAX: Duration = Duration::from_secs(50);

/// Takes pages in.
#[derive(Clone)]
pub struct Intake {
    pub orders: Arc<dyn Fn(Order) -> Result<()> + Send + Sync>,
}

/// What came of a packet.
#[derive(Debug, Default)]
pub struct PacketTaken {
    pub pages: u64,
    pub gone: u64,
    /// When the newest page was fetched.
    pub newest: Timestamp,
    /// Pages that were left out, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Of these, pages that should not have been sent.
    pub faults: u64,
}

impl Intake {
    pub fn take(
        &self,
        known: &ToldAgreement,
        start: &HeaderStart,
        read: ReadBody,
        me: EngineId,
    ) -> Result<PacketTaken> {
        let unreadable = read.unreadable as u64;
        let newest = read.body.pages.iter().map(|page| page.fetched).max().unwrap_or_default();
        let taken = match read.body.pages.is_empty() && read.body.gone.is_empty() {
            true => TakenIn::default(),
            false => {
                let (reply, answer) = sync_channel(1);
                let arrived = Arrived {
                    me,
                    from: start.sender,
                    agreement: start.agreement,
                    sequence: start.sequence,
                    view: known.terms.view.or(&known.view),
                    grade: start.grade,
                    analysis: start.analysis,
                    body: read.body,
                };
                (self.orders)(Order::TakeIn(Box::new(arrived), reply))?;
                answer.recv_timeout(TAKE_MAX).context("the crawl does not take pages in")?
            }
        };
        let faults = taken.wrong() + unreadable;
        let mut dropped: BTreeMap<&'static str, u64> =
            taken.dropped.iter().map(|(why, count)| (code(*why), *count)).collect();
        if unreadable > 0 {
            dropped.insert("page_address", unreadable);
        }
        Ok(PacketTaken { pages: taken.pages, gone: taken.gone, newest, dropped, faults })
    }
}

fn code(why: Dropped) -> &'static str {
    match why {
        Dropped::Outside => "page_outside",
        Dropped::Ours => "page_ours",
        Dropped::Via => "page_via",
        Dropped::Future => "page_future",
        Dropped::Old => "page_old",
        Dropped::Removed => "page_removed",
    }
}
