//! Puts words on rights, and hosts with all that is known of them, into the outboxes: on a thread of its own, because large
//! hosts take their time and are paced.
//!
//! INVARIANT: what goes to one agent goes in the order in which it was handed over here. A host with visited pages waits,
//! and all behind it for the same agent, until a backup holds what was found on them.

use super::ExchangeDesk;
use super::gate::BackupGate;
use crate::fabric::Tables;
use crate::handover::export::{Heads, ParcelSink, Sent, hand_out};
use crate::handover::pace::{Pace, Pacer};
use crate::wire::freight::{pack_notes, pack_parcel};
use crate::wire::parcel::ParcelId;
use anyhow::{Context, Result, bail};
use farol_base::Host;
use farol_cluster::NodeNo;
use farol_fabric::blobs::Blobs;
use farol_partition::hold::Note;
use farol_store::urls::Export;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often what waits is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Rest where the outbox has no room.
const REST: Duration = Duration::from_millis(200);

/// Something for another agent.
pub enum Packing {
    Notes { incarnation: u64, notes: Vec<Note> },
    Luggage(Luggage),
}

/// Hosts that go to another agent.
pub struct Luggage {
    pub hosts: Vec<Host>,
    pub export: Box<dyn Export>,
    pub parcel: ParcelId,
    /// The backup that must be there first, by [`BackupGate::want`].
    pub backup: u64,
}

/// Hosts that are in the outbox.
pub struct Packed {
    pub to: NodeNo,
    pub hosts: Vec<Host>,
    pub attempt: u64,
    /// The number of the last batch; `None` where it failed and is to be done again.
    pub last: Option<u64>,
    /// To be removed once the receiver has everything.
    pub blobs: Vec<String>,
}

/// What packing needs.
pub struct PackerSources {
    pub desk: Arc<ExchangeDesk>,
    pub tables: Arc<dyn Tables>,
    pub blobs: Option<Arc<Blobs>>,
    pub gate: Arc<BackupGate>,
    /// Is told what is in the outbox.
    pub packed: Box<dyn Fn(Packed) + Send>,
}

/// The running thread.
pub struct Packer {
    sender: Option<Sender<(NodeNo, u64, Packing)>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Packer {
    pub fn start(sources: PackerSources) -> Result<Packer> {
        let (sender, orders) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let mut work = PackerThread {
            sources,
            stop: stop.clone(),
            pacer: Pacer::new(Pace::default()),
            queues: BTreeMap::new(),
        };
        let thread =
            std::thread::Builder::new().name("packs hosts".to_string()).spawn(move || work.run(&orders))?;
        Ok(Packer { sender: Some(sender), stop, thread: Some(thread) })
    }

    /// Takes something for an agent, under an epoch.
    pub fn pack(&self, to: NodeNo, epoch: u64, packing: Packing) {
        if let Some(sender) = &self.sender {
            // The thread has ended where nobody listens; what it was to do is done anew by the next process.
            let _ = sender.send((to, epoch, packing));
        }
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        drop(self.sender.take());
        if let Some(thread) = self.thread.take() {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}

struct PackerThread {
    sources: PackerSources,
    stop: Arc<AtomicBool>,
    pacer: Pacer,
    queues: BTreeMap<NodeNo, VecDeque<(u64, Packing)>>,
}

impl PackerThread {
    fn run(&mut self, orders: &Receiver<(NodeNo, u64, Packing)>) {
        loop {
            let mut next = match orders.recv_timeout(LOOK_EVERY) {
                Ok(order) => Some(order),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            while let Some((to, epoch, packing)) = next {
                self.queues.entry(to).or_default().push_back((epoch, packing));
                next = orders.try_recv().ok();
            }
            for to in self.queues.keys().copied().collect::<Vec<_>>() {
                self.serve(to);
            }
            self.queues.retain(|_, queue| !queue.is_empty());
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
        }
    }

    fn serve(&mut self, to: NodeNo) {
        while !self.stop.load(Ordering::SeqCst) {
            let Some(queue) = self.queues.get_mut(&to) else { return };
            let is_ready = |(_, packing): &(u64, Packing)| match packing {
                Packing::Notes { .. } => true,
                Packing::Luggage(luggage) => self.sources.gate.has(luggage.backup),
            };
            if !queue.front().is_some_and(is_ready) {
                return;
            }
            let Some((epoch, packing)) = queue.pop_front() else { return };
            let mut sink = OutboxSink { sources: &self.sources, stop: &self.stop, to, epoch, last: 0 };
            match packing {
                Packing::Notes { incarnation, notes } => {
                    let kept = pack_notes(incarnation, &notes).and_then(|packed| sink.keep(&packed));
                    match kept {
                        Ok(()) => {
                            let counters = &self.sources.desk.counters;
                            counters.notes_sent.fetch_add(notes.len() as u64, Ordering::Relaxed);
                        }
                        // What it would have given comes with the next epoch that is settled.
                        Err(error) => {
                            tracing::warn!(error = %format!("{error:#}"), "words for agent {to} are lost")
                        }
                    }
                }
                Packing::Luggage(Luggage { hosts, export, parcel, .. }) => {
                    let heads = Heads { tables: &*self.sources.tables, right: None };
                    let sent = hand_out(export, &hosts, &heads, parcel, &mut self.pacer, &mut sink);
                    let last = sink.last;
                    self.tell(to, hosts, parcel.attempt, last, sent);
                }
            }
        }
    }

    fn tell(&self, to: NodeNo, hosts: Vec<Host>, attempt: u64, last: u64, sent: Result<Sent>) {
        let (last, blobs) = match sent {
            Ok(sent) => {
                self.sources.desk.counters.hosts_sent.fetch_add(sent.hosts, Ordering::Relaxed);
                (Some(last), sent.blobs)
            }
            Err(error) => {
                if !self.stop.load(Ordering::SeqCst) {
                    tracing::warn!(error = %format!("{error:#}"), "hosts for agent {to} could not be packed; they are packed again");
                }
                (None, Vec::new())
            }
        };
        (self.sources.packed)(Packed { to, hosts, attempt, last, blobs });
    }
}

/// The outbox of one agent.
pub struct OutboxSink<'a> {
    sources: &'a PackerSources,
    stop: &'a AtomicBool,
    to: NodeNo,
    epoch: u64,
    last: u64,
}

impl OutboxSink<'_> {
    fn keep(&mut self, packed: &[u8]) -> Result<()> {
        self.last = keep_when_there_is_room(&self.sources.desk, self.to, self.epoch, packed, self.stop)?;
        Ok(())
    }
}

/// Puts a batch into an outbox, waiting for room as long as nobody stops it; its number.
pub fn keep_when_there_is_room(
    desk: &ExchangeDesk,
    to: NodeNo,
    epoch: u64,
    packed: &[u8],
    stop: &AtomicBool,
) -> Result<u64> {
    loop {
        match desk.outboxes.lock().keep(to, epoch, packed) {
            Err(error) if crate::disk::is_full(&error) => {
                if stop.load(Ordering::SeqCst) {
                    bail!("the outbox has no room, and this process ends");
                }
            }
            kept => return kept,
        }
        std::thread::sleep(REST);
    }
}

impl ParcelSink for OutboxSink<'_> {
    fn send(&mut self, batch: Vec<u8>) -> Result<()> {
        self.keep(&pack_parcel(&batch))
    }

    fn takes_blobs(&self) -> bool {
        self.sources.blobs.is_some()
    }

    fn put_blob(&mut self, name: &str, bytes: &[u8]) -> Result<()> {
        let blobs = self.sources.blobs.as_ref().context("there is no place for large hosts")?;
        Ok(blobs.put(name, bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::outboxes::Outboxes;
    use crate::fabric::LocalTables;
    use crate::wire::freight::{Freight, read};
    use farol_base::CanonicalUrl;
    use farol_cluster::Epoch;
    use farol_partition::hold::NoteBody;
    use farol_store::urls::{Found, Naive, UrlStore};
    use std::time::Instant;

    #[test]
    fn what_goes_to_one_agent_keeps_its_order_and_waits_for_the_backup_alone() {
        let dir = tempfile::tempdir().unwrap();
        let outboxes = Outboxes::open(&dir.path().join("outbox"), NodeNo(1), 1 << 20).unwrap();
        let desk = Arc::new(ExchangeDesk::new(outboxes));
        let gate = Arc::new(BackupGate::new(true));
        let (told, packed) = channel();
        let packer = Packer::start(PackerSources {
            desk: desk.clone(),
            tables: Arc::new(LocalTables::open(&dir.path().join("tables")).unwrap()),
            blobs: None,
            gate: gate.clone(),
            packed: Box::new(move |packed| drop(told.send(packed))),
        })
        .unwrap();
        let mut store = Naive::default();
        let url = CanonicalUrl::parse("http://h.test/1").unwrap();
        store.found(&[Found { url: url.clone(), depth: 0, hint: None }]).unwrap();
        let mut luggage = |backup| {
            let parcel = ParcelId { epoch: 1, attempt: 7, from: 1 };
            let hosts = vec![url.host()];
            let export = store.export(&hosts).unwrap();
            Packing::Luggage(Luggage { hosts, export, parcel, backup })
        };
        let notes = || {
            let note = Note { epoch: Epoch(1), body: NoteBody::Free { address: [127, 0, 0, 1].into() } };
            Packing::Notes { incarnation: 4, notes: vec![note] }
        };
        let (slow, quick) = (NodeNo(2), NodeNo(3));
        packer.pack(slow, 1, luggage(gate.want()));
        packer.pack(slow, 1, notes());
        packer.pack(quick, 1, luggage(0));
        let first = packed.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!((first.to, first.attempt, first.last), (quick, 7, Some(1)));
        assert_eq!(desk.outboxes.lock().receivers(), [quick], "the other has to wait, and what is behind it");
        gate.done(gate.begin());
        let second = packed.recv_timeout(Duration::from_secs(60)).unwrap();
        assert_eq!((second.to, second.last, second.hosts), (slow, Some(1), vec![url.host()]));
        let begun = Instant::now();
        while desk.outboxes.lock().waiting() < 3 {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        let batches = desk.outboxes.lock().next_batches(slow, 9, 9).unwrap();
        let freight: Vec<Freight> =
            batches.iter().map(|(_, bytes)| read(bytes).unwrap().1.unwrap()).collect();
        assert!(matches!(&freight[..], [Freight::Parcel(_), Freight::Notes(_)]), "{freight:?}");
    }
}
