//! Batches for other agents on this agent's disk, and how far each was appended to its log and taken by its receiver.
//!
//! INVARIANT: a batch that was kept stays until its receiver has told that it has it for good. A receiver that makes no
//! progress has what it lacks appended again, so that a log that lost its end costs time and nothing else.

use crate::wire::freight::{Freight, FreightHead, is_urls, unpack_freight, write};
use crate::wire::urls::UrlBody;
use anyhow::{Context, Result};
use farol_cluster::NodeNo;
use farol_fabric::Topic;
use farol_fabric::outbox::{Outbox, OutboxError, OutboxRoom};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A receiver that has not taken what was appended to its log after this time is sent it again.
const PATIENCE: Duration = Duration::from_secs(30);

/// The outboxes of one agent.
pub struct Outboxes {
    folder: PathBuf,
    room: OutboxRoom,
    me: NodeNo,
    boxes: BTreeMap<NodeNo, Slot>,
}

struct Slot {
    /// `None` after a write that failed, until it is opened again.
    outbox: Option<Outbox>,
    /// The next number to append.
    next: u64,
    /// The receiver has everything up to here.
    taken: u64,
    /// When it last told more, or when everything was taken.
    progress: Instant,
}

impl Outboxes {
    /// Opens those that are in the folder.
    pub fn open(folder: &Path, me: NodeNo, bytes_max: u64) -> Result<Outboxes> {
        let mut boxes = Outboxes {
            folder: folder.to_path_buf(),
            room: OutboxRoom::new(bytes_max),
            me,
            boxes: BTreeMap::new(),
        };
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        for entry in std::fs::read_dir(folder)? {
            if let Ok(Topic::Urls(to)) = Topic::parse(&entry?.file_name().to_string_lossy()) {
                boxes.slot(NodeNo(to))?;
            }
        }
        Ok(boxes)
    }

    fn slot(&mut self, to: NodeNo) -> Result<&mut Slot> {
        let path = self.folder.join(Topic::Urls(to.0).to_string());
        let is_open = self.boxes.get(&to).is_some_and(|slot| slot.outbox.is_some());
        if !is_open {
            let outbox = Outbox::open(crate::disk::at(&path)?, self.room.clone())?;
            let first = outbox.first_number();
            let slot = self.boxes.entry(to).or_insert(Slot {
                outbox: None,
                next: first,
                taken: first.saturating_sub(1),
                progress: Instant::now(),
            });
            slot.outbox = Some(outbox);
        }
        self.boxes.get_mut(&to).context("an outbox was opened and is gone")
    }

    /// Keeps a batch of packed freight, and answers its number; when this returns it survives a power cut.
    ///
    /// # Errors
    /// Where there is no room for it, on the disk or in the outbox: whoever sends waits ([`crate::disk::is_full`]).
    pub fn keep(&mut self, to: NodeNo, epoch: u64, packed: &[u8]) -> Result<u64> {
        let mut bytes = postcard::to_stdvec(&epoch)?;
        bytes.extend_from_slice(packed);
        let slot = self.slot(to)?;
        let outbox = slot.outbox.as_mut().context("an outbox was opened and is gone")?;
        match outbox.put(&bytes) {
            Ok(number) => {
                if slot.taken.saturating_add(1) == number {
                    slot.progress = Instant::now();
                }
                Ok(number)
            }
            Err(OutboxError::Full) => Err(std::io::Error::new(
                std::io::ErrorKind::StorageFull,
                "the outbox (cluster.outbox_max) is full until other agents have taken what is in it",
            )
            .into()),
            Err(OutboxError::Disk { source, .. }) => {
                slot.outbox = None;
                Err(anyhow::Error::from(source).context("cannot keep URLs for another agent"))
            }
            Err(error) => {
                slot.outbox = None;
                Err(error.into())
            }
        }
    }

    /// Batches for an agent that are to be appended now, in order, as they travel.
    pub fn next_batches(&self, to: NodeNo, incarnation: u64, max: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        let from = self.me.0;
        let Some(slot) = self.boxes.get(&to) else { return Ok(Vec::new()) };
        let Some(outbox) = &slot.outbox else { return Ok(Vec::new()) };
        let kept = outbox.first_number();
        let batches = outbox.batches(slot.next, max)?;
        let dressed = batches.into_iter().map(|(number, bytes)| {
            let (epoch, packed) = postcard::take_from_bytes::<u64>(&bytes)?;
            Ok((number, write(&FreightHead { from, incarnation, number, kept, epoch }, packed)?))
        });
        dressed.collect()
    }

    /// A batch is in the log.
    pub fn appended(&mut self, to: NodeNo, number: u64) {
        if let Some(slot) = self.boxes.get_mut(&to)
            && slot.next == number
        {
            slot.next = number + 1;
        }
    }

    /// A receiver lacks what comes from this number on.
    pub fn rewind(&mut self, to: NodeNo, number: u64) {
        if let Some(slot) = self.boxes.get_mut(&to) {
            slot.next = slot.next.min(number);
        }
    }

    /// A receiver has told that it has everything up to this number for good.
    pub fn taken(&mut self, to: NodeNo, upto: u64) -> Result<()> {
        let Some(slot) = self.boxes.get_mut(&to) else { return Ok(()) };
        if upto > slot.taken {
            (slot.taken, slot.progress) = (upto, Instant::now());
            slot.next = slot.next.max(upto + 1);
            if let Some(outbox) = &mut slot.outbox {
                outbox.forget(upto)?;
            }
        }
        Ok(())
    }

    /// Has everything appended again for receivers that have made no progress for long.
    pub fn hurry(&mut self) {
        for slot in self.boxes.values_mut() {
            if slot.next <= slot.taken + 1 {
                slot.progress = Instant::now();
            } else if slot.progress.elapsed() > PATIENCE {
                (slot.next, slot.progress) = (slot.taken + 1, Instant::now());
            }
        }
    }

    /// Numbers of the last batches that were kept, by receiver.
    pub fn kept(&self) -> BTreeMap<NodeNo, u64> {
        let last = |slot: &Slot| slot.outbox.as_ref().map_or(slot.taken, |outbox| outbox.next_number() - 1);
        self.boxes.iter().map(|(to, slot)| (*to, last(slot))).collect()
    }

    /// Whether a receiver has told that it has everything up to this number.
    pub fn has_taken(&self, to: NodeNo, number: u64) -> bool {
        self.boxes.get(&to).is_none_or(|slot| slot.taken >= number)
    }

    /// The first URLs for a receiver that is gone, with the number of the last batch that was looked at: for others to have.
    /// Whatever else was for it alone is void.
    pub fn orphans(&self, of: NodeNo, max: usize) -> Result<Option<(u64, Vec<UrlBody>)>> {
        let Some(slot) = self.boxes.get(&of) else { return Ok(None) };
        let batches = self.waiting_urls(of, slot.taken + 1, max)?;
        let Some(last) = batches.last().map(|(number, _)| *number) else { return Ok(None) };
        let read = |(_, packed): (u64, Vec<u8>)| match unpack_freight(&packed) {
            Ok(Freight::Urls(body)) => Some(body),
            _ => None,
        };
        Ok(Some((last, batches.into_iter().filter_map(read).collect())))
    }

    /// Batches for a receiver from a number on that it has not told to have, as they are packed; those without URLs are
    /// empty.
    pub fn waiting_urls(&self, to: NodeNo, from: u64, max: usize) -> Result<Vec<(u64, Vec<u8>)>> {
        let Some(slot) = self.boxes.get(&to) else { return Ok(Vec::new()) };
        let Some(outbox) = &slot.outbox else { return Ok(Vec::new()) };
        let batches = outbox.batches(from.max(slot.taken + 1), max)?;
        let packed = batches.into_iter().map(|(number, bytes)| {
            let (_, packed) = postcard::take_from_bytes::<u64>(&bytes)?;
            Ok((number, if is_urls(packed) { packed.to_vec() } else { Vec::new() }))
        });
        packed.collect()
    }

    /// Whom there is something for.
    pub fn receivers(&self) -> Vec<NodeNo> {
        self.boxes.keys().copied().collect()
    }

    /// Batches that their receivers have not told of.
    pub fn waiting(&self) -> u64 {
        let waiting = |slot: &Slot| {
            let next = slot.outbox.as_ref().map_or(0, Outbox::next_number);
            next.saturating_sub(slot.taken + 1)
        };
        self.boxes.values().map(waiting).sum()
    }

    /// Bytes on the disk.
    pub fn bytes(&self) -> u64 {
        self.room.used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::freight::{pack_notes, pack_urls, read};

    #[test]
    fn what_was_kept_is_appended_until_it_is_taken_over_restarts() {
        let dir = tempfile::tempdir().unwrap();
        let open = || Outboxes::open(dir.path(), NodeNo(1), 1 << 20).unwrap();
        let (to, body) = (NodeNo(2), |n| UrlBody { learned: vec![(n, 1)], ..UrlBody::default() });
        let mut boxes = open();
        for n in 1..=3 {
            assert_eq!(boxes.keep(to, 7, &pack_urls(&body(n)).unwrap()).unwrap(), n);
        }
        let numbers = |boxes: &mut Outboxes| -> Vec<u64> {
            boxes.next_batches(to, 5, 9).unwrap().iter().map(|(number, _)| *number).collect()
        };
        assert_eq!((numbers(&mut boxes), boxes.waiting()), (vec![1, 2, 3], 3));
        let (_, bytes) = boxes.next_batches(to, 5, 1).unwrap().remove(0);
        let (head, read) = read(&bytes).unwrap();
        assert_eq!(head, FreightHead { from: 1, incarnation: 5, number: 1, kept: 1, epoch: 7 });
        assert_eq!(read, Ok(Freight::Urls(body(1))));
        boxes.appended(to, 1);
        boxes.appended(to, 2);
        assert_eq!(numbers(&mut boxes), [3]);
        boxes.rewind(to, 2);
        assert_eq!(numbers(&mut boxes), [2, 3]);
        drop(boxes);
        let mut boxes = open();
        assert_eq!(numbers(&mut boxes), [1, 2, 3]);
        boxes.taken(to, 3).unwrap();
        assert_eq!((numbers(&mut boxes), boxes.waiting()), (vec![], 0));
        drop(boxes);
        let mut boxes = open();
        boxes.keep(to, 8, &pack_urls(&body(4)).unwrap()).unwrap();
        assert_eq!(numbers(&mut boxes), [4]);
        // Of what was for one that is gone, others get the URLs.
        boxes.keep(to, 8, &pack_notes(1, &[]).unwrap()).unwrap();
        assert_eq!(boxes.orphans(to, 9).unwrap(), Some((5, vec![body(4)])));
        boxes.taken(to, 5).unwrap();
        assert_eq!(boxes.orphans(to, 9).unwrap(), None);
    }

    #[test]
    fn a_full_outbox_says_that_room_would_help() {
        let dir = tempfile::tempdir().unwrap();
        let mut boxes = Outboxes::open(dir.path(), NodeNo(1), 10).unwrap();
        let error = boxes.keep(NodeNo(2), 1, &pack_urls(&UrlBody::default()).unwrap()).unwrap_err();
        assert!(crate::disk::is_full(&error), "{error:#}");
    }
}
