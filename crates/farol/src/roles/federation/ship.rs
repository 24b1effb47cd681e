//! The distribution agent: one more follower of the archive. It reads on from its mark, packs what an agreement is about, and
//! keeps the packets until the consumer has acknowledged them.
//!
//! Life of a packet here: pages are gathered in memory; when enough are there, or the oldest has waited long enough, or all of
//! the archive was read, they are written as a file, then the mark moves on with the packet's number, and only then may it be
//! sent ([`super::push`]) or fetched ([`super::serve`]). What is acknowledged is deleted.
//!
//! INVARIANT: a file beyond the mark is never sent: after a crash it is made again. Nothing is dropped without a snapshot of
//! everything coming after it.

use super::gather::{GatherFor, Gathered, PageGatherer};
use super::partner_desk::{PartnerDesk, ToldAgreement};
use super::ship_mark::ShipMark;
use super::{files, purge, push};
use crate::fabric::Table;
use crate::federation::pack::seal;
use crate::operator::OperatorState;
use anyhow::{Context, Result};
use farol_base::{Clock, PagePosition, Seeded, SystemClock, Timestamp};
use farol_federation::agreement::{AgreementId, Delivery, EngineId, Kind};
use farol_federation::message::{REST, Rest};
use farol_federation::packet::{Body, HeaderStart, PAGES_FULL, PacketKind};
use farol_front::FederationFlow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;

/// How often the archive's end is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// An engine that was heard of within this is there again.
const HEARD_LATELY: Duration = Duration::from_secs(2);
/// How often it is seen to pages that are to leave, and to what the operator has removed.
const PURGE_EVERY: Duration = Duration::from_secs(2);
/// Records read in one go, so that what was acknowledged is looked at in between.
const RECORDS_PER_TURN: usize = 200;

/// What reaches the distribution agent.
pub enum Shipped {
    /// A packet was acknowledged, and all before it.
    Acknowledged(AgreementId, u64),
    /// It could not be sent; what to wait at least, and why.
    Failed(AgreementId, Option<Duration>, String),
    /// It could not be reached: it is tried again as soon as it is heard of.
    Unreachable(AgreementId, String),
    /// The consumer expects another packet than any that is kept: it must get everything anew.
    Lost(AgreementId),
    /// All packets that were to be sent now are.
    Idle(AgreementId),
    Stop,
}

/// An agreement under which we send.
struct Shipment {
    mark: ShipMark,
    open: Option<OpenPacket>,
    line: Rest,
    under_way: bool,
    is_unreachable: bool,
    trouble: String,
}

/// A packet that is being filled.
struct OpenPacket {
    body: Body,
    bytes: usize,
    since: Instant,
    upto: PagePosition,
}

/// The thread's own.
pub struct Shipper {
    pub desk: Arc<PartnerDesk>,
    pub runtime: Handle,
    pub gatherer: PageGatherer,
    shipments: BTreeMap<AgreementId, Shipment>,
    random: Seeded,
    /// What the operator has removed, as it was looked at last.
    operator: OperatorState,
    /// When it was last seen to pages that are to leave.
    purged: Instant,
}

impl Shipper {
    pub fn new(desk: Arc<PartnerDesk>, runtime: Handle, gatherer: PageGatherer) -> Result<Shipper> {
        let seed = getrandom::u64().unwrap_or(1);
        let operator = OperatorState::open(desk.tables.clone())?;
        Ok(Shipper {
            desk,
            runtime,
            gatherer,
            shipments: BTreeMap::new(),
            random: Seeded::new(seed),
            operator,
            purged: Instant::now(),
        })
    }

    /// Runs until it is told to stop.
    pub fn run(mut self, events: Receiver<Shipped>) {
        loop {
            match events.recv_timeout(LOOK) {
                Ok(Shipped::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(event) => self.happen(event),
                Err(RecvTimeoutError::Timeout) => {}
            }
            while let Ok(event) = events.try_recv() {
                if matches!(event, Shipped::Stop) {
                    return;
                }
                self.happen(event);
            }
            self.turn();
        }
    }

    fn happen(&mut self, event: Shipped) {
        let (id, done) = match event {
            Shipped::Acknowledged(id, sequence) => (id, self.acknowledged(id, sequence)),
            Shipped::Failed(id, wait, why) => (id, self.failed(id, wait, why, false)),
            Shipped::Unreachable(id, why) => (id, self.failed(id, None, why, true)),
            Shipped::Lost(id) => (id, self.begin_anew(id, "the other engine has lost what it had")),
            Shipped::Idle(id) => {
                if let Some(shipment) = self.shipments.get_mut(&id) {
                    shipment.under_way = false;
                }
                (id, Ok(()))
            }
            Shipped::Stop => return,
        };
        if let Err(error) = done {
            self.complain(id, &error);
        }
    }

    fn failed(
        &mut self,
        id: AgreementId,
        wait: Option<Duration>,
        why: String,
        unreachable: bool,
    ) -> Result<()> {
        let now = SystemClock.now();
        if let Some(shipment) = self.shipments.get_mut(&id) {
            shipment.line.failed(now, &mut self.random);
            shipment.line.at_least(now + wait.unwrap_or_default().min(REST.1));
            (shipment.under_way, shipment.is_unreachable, shipment.trouble) = (false, unreachable, why);
        }
        Ok(())
    }

    fn complain(&mut self, id: AgreementId, error: &anyhow::Error) {
        tracing::warn!(agreement = %id, "packets wait: {error:#}");
        if let Some(shipment) = self.shipments.get_mut(&id) {
            shipment.trouble = format!("{error:#}");
        }
    }

    /// Looks after each agreement once.
    fn turn(&mut self) {
        if self.purged.elapsed() >= PURGE_EVERY {
            self.purged = Instant::now();
            if let Err(error) = purge::carry_out(&self.desk, self.gatherer.archive()) {
                tracing::warn!("received pages that are to leave stay for now: {error:#}");
            }
            match OperatorState::open(self.desk.tables.clone()) {
                Ok(operator) => self.operator = operator,
                Err(error) => tracing::warn!("what was removed cannot be read, and is read later: {error:#}"),
            }
        }
        let told = self.desk.told();
        let sends = |known: &ToldAgreement| known.side.sends() && known.terms.kind == Kind::Index;
        let known: Vec<(AgreementId, ToldAgreement)> = told
            .agreements
            .iter()
            .filter(|(_, known)| sends(known))
            .map(|(id, known)| (*id, known.clone()))
            .collect();
        let over: Vec<AgreementId> = self
            .shipments
            .keys()
            .filter(|id| !known.iter().any(|(other, _)| other == *id))
            .copied()
            .collect();
        for id in over {
            self.shipments.remove(&id);
            files::clear(&self.desk.folder, id);
            self.desk.flow(id, |flow| (flow.waiting, flow.waiting_since) = (FederationFlow::default(), None));
        }
        for (id, known) in known {
            let consumer = known.terms.consumer;
            let heard = told.partners.get(&consumer).and_then(|partner| partner.heard);
            if let Err(error) = self.look_after(id, &known, heard) {
                self.complain(id, &error);
            }
            self.show(id);
        }
    }

    fn look_after(&mut self, id: AgreementId, known: &ToldAgreement, heard: Option<Timestamp>) -> Result<()> {
        if !self.shipments.contains_key(&id) {
            let shipment = self.take_up(id)?;
            self.shipments.insert(id, shipment);
        }
        self.follow_changes(id, known)?;
        self.asked_for_all(id)?;
        let now = SystemClock.now();
        let Some(shipment) = self.shipments.get_mut(&id) else { return Ok(()) };
        if shipment.is_unreachable && heard.is_some_and(|heard| now.since(heard) < HEARD_LATELY) {
            (shipment.line, shipment.is_unreachable) = (Rest::default(), false);
        }
        self.read_on(id, known)?;
        let Some(shipment) = self.shipments.get_mut(&id) else { return Ok(()) };
        let is_time = match known.terms.delivery {
            Delivery::Push => true,
            Delivery::Pull => false,
            Delivery::Window(from, to) => is_within(now, from, to),
        };
        if is_time
            && !shipment.under_way
            && shipment.line.is_over(now)
            && shipment.mark.acknowledged < shipment.mark.sequence
        {
            shipment.under_way = true;
            push::start(&self.desk, &self.runtime, known, shipment.mark.sequence);
        }
        Ok(())
    }

    fn take_up(&self, id: AgreementId) -> Result<Shipment> {
        let row = self.desk.tables.get(Table::Agreements, &key(id))?;
        let mark: ShipMark = match row {
            Some(row) => serde_json::from_slice(&row).context("how far packets have come cannot be read")?,
            None => ShipMark::default(),
        };
        files::open(&self.desk.folder, id)?;
        // What was acknowledged may not have been deleted, and what was not marked is made again.
        files::keep_only(&self.desk.folder, id, mark.acknowledged + 1..=mark.sequence)?;
        Ok(Shipment {
            mark,
            open: None,
            line: Rest::default(),
            under_way: false,
            is_unreachable: false,
            trouble: String::new(),
        })
    }

    /// Where the agreement's pages have changed, or the operator has removed some, the archive is read again.
    fn follow_changes(&mut self, id: AgreementId, known: &ToldAgreement) -> Result<()> {
        let Some(shipment) = self.shipments.get_mut(&id) else { return Ok(()) };
        let mark = &mut shipment.mark;
        let knows = mark.knows_removals(&self.operator);
        // What is open was read by what held before, and is read again.
        let again = mark.follow_terms(&known.terms) | mark.follow_removals(&self.operator);
        if again {
            shipment.open = None;
        }
        if again || !knows {
            return self.write(id);
        }
        Ok(())
    }

    fn write(&self, id: AgreementId) -> Result<()> {
        let Some(shipment) = self.shipments.get(&id) else { return Ok(()) };
        let row = serde_json::to_vec(&shipment.mark)?;
        self.desk.tables.put(&[(Table::Agreements, &key(id), &row)])
    }

    /// The consumer asks for all: what is packed from now on goes as far as the archive does now, and says so.
    fn asked_for_all(&mut self, id: AgreementId) -> Result<()> {
        let Some(round) = self.desk.fills.lock().get(&id).copied() else { return Ok(()) };
        let Some(shipment) = self.shipments.get_mut(&id) else { return Ok(()) };
        if round <= shipment.mark.round {
            return Ok(());
        }
        (shipment.mark.round, shipment.mark.is_whole) = (round, false);
        shipment.line = Rest::default();
        self.write(id)
    }

    fn acknowledged(&mut self, id: AgreementId, sequence: u64) -> Result<()> {
        let Some(shipment) = self.shipments.get_mut(&id) else { return Ok(()) };
        shipment.line = Rest::default();
        shipment.trouble.clear();
        let upto = sequence.min(shipment.mark.sequence);
        if upto <= shipment.mark.acknowledged {
            return Ok(());
        }
        for number in shipment.mark.acknowledged + 1..=upto {
            let Ok(packet) = files::read(&self.desk.folder, id, number) else { continue };
            let Ok(sealed) = farol_federation::packet::Sealed::read(&packet) else { continue };
            let mark = &mut shipment.mark;
            mark.packets += 1;
            mark.pages += sealed.header.pages as u64;
            mark.gone += sealed.header.gone as u64;
            mark.bytes += packet.len() as u64;
        }
        let from = shipment.mark.acknowledged + 1;
        shipment.mark.acknowledged = upto;
        self.write(id)?;
        (from..=upto).for_each(|number| files::remove(&self.desk.folder, id, number));
        Ok(())
    }

    /// Drops what waits; everything is packed again, from the beginning of the archive.
    fn begin_anew(&mut self, id: AgreementId, why: &str) -> Result<()> {
        let Some(shipment) = self.shipments.get_mut(&id) else { return Ok(()) };
        tracing::warn!(agreement = %id, "all pages are sent again: {why}");
        shipment.open = None;
        shipment.under_way = false;
        shipment.mark.begin_anew();
        self.write(id)?;
        files::clear(&self.desk.folder, id);
        files::open(&self.desk.folder, id)
    }

    /// Reads the archive on, and closes packets that are due.
    fn read_on(&mut self, id: AgreementId, known: &ToldAgreement) -> Result<()> {
        let settings = self.desk.config.federation.clone();
        let waiting = files::waiting(&self.desk.folder, id)?;
        if waiting.bytes >= settings.outbox_max.get() {
            // The archive keeps the rest: it is read on once some of this was taken.
            return Ok(());
        }
        let Some(shipment) = self.shipments.get_mut(&id) else { return Ok(()) };
        let again = shipment.mark.again();
        let mut at = shipment.open.as_ref().map_or(shipment.mark.position(), |open| open.upto);
        let asked = GatherFor {
            known,
            told: &self.desk.told(),
            operator: &self.operator,
            is_snapshot: !shipment.mark.is_whole,
            again: again.as_ref().map(|(added, upto)| (added, *upto)),
        };
        let (gathered, is_end) = self.gatherer.read(at, RECORDS_PER_TURN, &asked)?;
        let mut is_full = false;
        for Gathered { next, page, gone, engines } in gathered {
            let Some(shipment) = self.shipments.get_mut(&id) else { return Ok(()) };
            at = next;
            if page.is_none() && gone.is_none() && shipment.open.is_none() {
                // Nothing to send: the mark moves on in memory, and on disk with the next packet.
                shipment.mark.move_to(next);
                continue;
            }
            let open = shipment.open.get_or_insert_with(|| OpenPacket {
                body: Body::default(),
                bytes: 0,
                since: Instant::now(),
                upto: next,
            });
            open.upto = next;
            open.put(page, gone);
            open.name(engines);
            is_full = open.bytes as u64 >= settings.packet_max.get()
                || open.body.pages.len() as u64
                    >= (PAGES_FULL as u64).min(known.terms.quota.pages_day.max(1));
            if is_full {
                self.close(id, known, PacketKind::Changes, at)?;
            }
        }
        let Some(shipment) = self.shipments.get(&id) else { return Ok(()) };
        if is_end && !shipment.mark.is_whole {
            return self.close(id, known, PacketKind::SnapshotEnd, at);
        }
        let is_due = shipment.open.as_ref().is_some_and(|open| open.since.elapsed() >= known.terms.delay_max);
        if is_due && !is_full {
            self.close(id, known, PacketKind::Changes, at)?;
        }
        Ok(())
    }

    /// Writes a packet, then the mark.
    fn close(
        &mut self,
        id: AgreementId,
        known: &ToldAgreement,
        kind: PacketKind,
        upto: PagePosition,
    ) -> Result<()> {
        let me = self.desk.me();
        let Some(shipment) = self.shipments.get_mut(&id) else { return Ok(()) };
        let mut body = shipment.open.take().map(|open| open.body).unwrap_or_default();
        body.engines.retain(|(engine, _)| *engine != me);
        body.engines.insert(0, (me, self.desk.label()));
        let before = digest_of(&shipment.mark.digest);
        let kind = match (kind, shipment.mark.is_whole, before) {
            (PacketKind::Changes, true, Some(_)) => PacketKind::Changes,
            (PacketKind::Changes, ..) => PacketKind::Snapshot,
            (kind, ..) => kind,
        };
        let start = HeaderStart {
            sender: me,
            receiver: known.terms.consumer,
            agreement: id,
            revision: known.terms.revision,
            sequence: shipment.mark.sequence + 1,
            before: before.unwrap_or_default(),
            made: SystemClock.now(),
            position: upto,
            view: known.terms.view.digest(),
            analysis: self.gatherer.analysis(known.terms.grade),
            grade: known.terms.grade,
            kind,
        };
        let counts = body.counts();
        let packet = seal(&self.desk.key, start, &body)?;
        let sequence = shipment.mark.sequence + 1;
        files::write(&self.desk.folder, id, sequence, &packet)?;
        let digest = farol_federation::packet::digest(&packet)
            .context("a packet that was just made cannot be read")?;
        let mark = &mut shipment.mark;
        mark.move_to(upto);
        mark.sequence = sequence;
        mark.digest = data_encoding::HEXLOWER.encode(&digest);
        mark.is_whole |= kind == PacketKind::SnapshotEnd;
        tracing::debug!(agreement = %id, sequence, pages = counts[0], gone = counts[1], "a packet is ready");
        self.write(id)
    }

    /// Says how it stands.
    fn show(&self, id: AgreementId) {
        let Some(shipment) = self.shipments.get(&id) else { return };
        let mark = &shipment.mark;
        let sent =
            FederationFlow { packets: mark.packets, pages: mark.pages, gone: mark.gone, bytes: mark.bytes };
        let waiting = files::waiting(&self.desk.folder, id).unwrap_or_default();
        self.desk.flow(id, |flow| {
            (flow.sent, flow.waiting_since) = (sent, waiting.since);
            flow.waiting = FederationFlow {
                packets: waiting.packets,
                bytes: waiting.bytes,
                ..FederationFlow::default()
            };
            flow.trouble.clone_from(&shipment.trouble);
        });
    }
}

impl OpenPacket {
    /// Names engines that pages came by.
    fn name(&mut self, engines: Vec<(EngineId, String)>) {
        for (engine, name) in engines {
            if self.body.engines.iter().all(|(known, _)| *known != engine) {
                self.body.engines.push((engine, name));
            }
        }
    }

    fn put(
        &mut self,
        page: Option<farol_federation::packet::PageEntry>,
        gone: Option<farol_federation::packet::Gone>,
    ) {
        // Of two versions in one packet the later is enough.
        let url = page.as_ref().map(|page| &page.url).or(gone.as_ref().map(|gone| &gone.url));
        if let Some(url) = url.cloned() {
            self.body.pages.retain(|other| other.url != url);
            self.body.gone.retain(|other| other.url != url);
        }
        if let Some(page) = page {
            let texts = &page.texts;
            let text = texts.title.len() + texts.description.len() + texts.headings.len() + texts.body.len();
            self.bytes += text + texts.rest.len() + 64 * page.links.len() + 256;
            self.body.pages.push(page);
        }
        self.bytes += 64 * usize::from(gone.is_some());
        self.body.gone.extend(gone);
    }
}

fn key(id: AgreementId) -> String {
    format!("out {id}")
}

fn digest_of(hex: &str) -> Option<[u8; 32]> {
    data_encoding::HEXLOWER.decode(hex.as_bytes()).ok()?.try_into().ok()
}

/// Whether an instant lies in a window of the day, which may go over midnight.
fn is_within(now: Timestamp, from: u16, to: u16) -> bool {
    let minute = (now.as_secs() / 60 % 1440) as u16;
    if from <= to { (from..to).contains(&minute) } else { minute >= from || minute < to }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_may_go_over_midnight() {
        let at = |hour: u64, minute: u64| Timestamp::from_secs(86_400 * 3 + hour * 3600 + minute * 60);
        assert!(is_within(at(2, 0), 120, 300) && !is_within(at(5, 0), 120, 300));
        assert!(is_within(at(23, 0), 1320, 300) && is_within(at(4, 59), 1320, 300));
        assert!(!is_within(at(12, 0), 1320, 300));
    }
}
