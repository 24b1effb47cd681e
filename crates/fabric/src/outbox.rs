//! What was sent and may have to be sent again: batches on the sender's own disk, until their receiver has them.
//!
//! A batch is written here before it is appended to its log, and gets its number here: one more than the last of this
//! topic, whatever was restarted in between. A file is named by its first number and holds batches up to a size; it is
//! removed when the receiver has passed its last one. The newest file stays, empty or not, because its name and
//! content say which number comes next.
//!
//! INVARIANT: a number that was given out is on the disk, and is never given to another batch. After a failed write
//! the outbox gives out none until it is opened again. Its files have a limit of bytes: when it is reached, whoever
//! sends waits for the receiver.

use farol_base::disk::Disk;
use farol_base::sync::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Bytes that the outboxes of a node may fill together.
#[derive(Clone, Debug)]
pub struct OutboxRoom {
    used: Arc<Mutex<u64>>,
    bytes_max: u64,
}

impl OutboxRoom {
    pub fn new(bytes_max: u64) -> OutboxRoom {
        OutboxRoom { used: Arc::default(), bytes_max }
    }

    /// Bytes of all batches that are kept.
    pub fn used(&self) -> u64 {
        *self.used.lock()
    }

    fn take(&self, bytes: u64) -> bool {
        let mut used = self.used.lock();
        let fits = *used + bytes <= self.bytes_max;
        *used += if fits { bytes } else { 0 };
        fits
    }

    /// What lies on the disk counts, fit or not.
    fn count(&self, bytes: u64) {
        *self.used.lock() += bytes;
    }

    fn give_back(&self, bytes: u64) {
        let mut used = self.used.lock();
        *used = used.saturating_sub(bytes);
    }
}

/// Why a batch was not kept.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutboxError {
    /// No room until receivers have caught up.
    #[error("the outbox is full until its receivers have caught up")]
    Full,
    /// A write failed before: what is on the disk is not known.
    #[error("the outbox takes nothing since a write failed; it is opened again at the next start")]
    Closed,
    #[error("the outbox cannot be {done}: {source}")]
    Disk { done: &'static str, source: io::Error },
    #[error("the outbox has a file {0:?} that is none of its own; move it away")]
    Stranger(String),
}

/// The outbox of one topic, in a folder of its own (`outbox/<topic>`).
pub struct Outbox {
    disk: Arc<dyn Disk>,
    room: OutboxRoom,
    /// By first number.
    files: BTreeMap<u64, Contents>,
    next: u64,
    is_closed: bool,
}

/// Where the batches of a file begin and how long it is.
#[derive(Debug, Default)]
struct Contents {
    starts: Vec<u64>,
    bytes: u64,
}

/// A file gets no more batches beyond this: a thousand usual batches.
const FILE_BYTES: u64 = 16 << 20;

/// Length and checksum of a batch, four bytes each, little-endian.
const HEAD_BYTES: usize = 8;

impl Outbox {
    /// Opens a topic's folder. The torn tail of its newest file, which was never sent, is cut.
    ///
    /// # Errors
    ///
    /// Where the disk fails or has files of somebody else.
    pub fn open(disk: Arc<dyn Disk>, room: OutboxRoom) -> Result<Outbox, OutboxError> {
        let failed = |source| OutboxError::Disk { done: "opened", source };
        let (mut files, mut next) = (BTreeMap::<u64, Contents>::new(), None);
        for name in disk.list().map_err(failed)? {
            let first = name.parse::<u64>().ok().filter(|first| file_name(*first) == name);
            let first = first.ok_or_else(|| OutboxError::Stranger(name.clone()))?;
            let contents = scan(&*disk, &name, first).map_err(failed)?;
            if let Some(next) = next.filter(|next| *next < first) {
                tracing::error!(
                    from = next,
                    to = first - 1,
                    "an outbox file is damaged: these batches cannot be sent again"
                );
            }
            next = Some(first + contents.starts.len() as u64);
            files.insert(first, contents);
        }
        if let Some((first, contents)) = files.last_key_value() {
            disk.truncate(&file_name(*first), contents.bytes).map_err(failed)?;
        }
        room.count(files.values().map(|contents| contents.bytes).sum());
        let next = next.unwrap_or(1);
        Ok(Outbox { disk, room, files, next, is_closed: false })
    }

    /// The number that the next batch gets.
    pub fn next_number(&self) -> u64 {
        self.next
    }

    /// The least number that is kept; [`Outbox::next_number`] where none is.
    pub fn first_number(&self) -> u64 {
        let kept = self.files.iter().find(|(_, contents)| !contents.starts.is_empty());
        kept.map_or(self.next, |(first, _)| *first)
    }

    /// Keeps a batch and returns its number. When this returns, the batch survives a power cut, and may be sent.
    ///
    /// # Errors
    ///
    /// [`OutboxError::Full`] until [`Outbox::forget`] has made room; the others until it is opened again.
    pub fn put(&mut self, batch: &[u8]) -> Result<u64, OutboxError> {
        if self.is_closed {
            return Err(OutboxError::Closed);
        }
        let number = self.next;
        let record = record(number, batch);
        if !self.room.take(record.len() as u64) {
            return Err(OutboxError::Full);
        }
        let newest = self.files.last_key_value().filter(|(_, contents)| contents.bytes < FILE_BYTES);
        let first = newest.map_or(number, |(first, _)| *first);
        let name = file_name(first);
        if let Err(source) = self.disk.append(&name, &record).and_then(|()| self.disk.sync(&name)) {
            // Part of it may be there. It was not sent, and the next start cuts it or counts it.
            self.is_closed = true;
            self.room.give_back(record.len() as u64);
            return Err(OutboxError::Disk { done: "written", source });
        }
        let contents = self.files.entry(first).or_default();
        contents.starts.push(contents.bytes);
        contents.bytes += record.len() as u64;
        self.next += 1;
        Ok(number)
    }

    /// Up to `max` batches from a number on, to send them again; what is forgotten is passed over.
    ///
    /// # Errors
    ///
    /// Where the disk fails, or a batch is not what was written.
    pub fn batches(&self, number: u64, max: usize) -> Result<Vec<(u64, Vec<u8>)>, OutboxError> {
        let failed = |source| OutboxError::Disk { done: "read", source };
        let mut batches = Vec::new();
        let before = self.files.range(..=number).next_back().map_or(0, |(first, _)| *first);
        for (&first, contents) in self.files.range(before..) {
            for (at, &start) in contents.starts.iter().enumerate() {
                let this = first + at as u64;
                if this < number {
                    continue;
                }
                if batches.len() >= max {
                    return Ok(batches);
                }
                let end = contents.starts.get(at + 1).copied().unwrap_or(contents.bytes);
                let mut record = vec![0; (end - start) as usize];
                read_whole(&*self.disk, &file_name(first), start, &mut record).map_err(failed)?;
                let batch = checked(this, &record).ok_or_else(|| failed(damaged(this)))?;
                batches.push((this, batch.to_vec()));
            }
        }
        Ok(batches)
    }

    /// Forgets batches up to and including a number, as whole files.
    ///
    /// # Errors
    ///
    /// Where the disk fails; what stays behind goes the next time.
    pub fn forget(&mut self, upto: u64) -> Result<(), OutboxError> {
        let failed = |source| OutboxError::Disk { done: "emptied", source };
        let has_passed_all = upto.saturating_add(1) >= self.next;
        let newest_is_empty = self.files.last_key_value().is_none_or(|(_, newest)| newest.starts.is_empty());
        if has_passed_all && !newest_is_empty {
            // The number that comes next must outlive the files that told it.
            let name = file_name(self.next);
            self.disk.append(&name, b"").and_then(|()| self.disk.sync(&name)).map_err(failed)?;
            self.files.insert(self.next, Contents::default());
        }
        while let Some((&first, contents)) = self.files.first_key_value() {
            let last = (first + contents.starts.len() as u64).saturating_sub(1);
            if self.files.len() == 1 || last > upto {
                return Ok(());
            }
            self.disk.remove(&file_name(first)).map_err(failed)?;
            self.room.give_back(contents.bytes);
            self.files.remove(&first);
        }
        Ok(())
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.room.give_back(self.files.values().map(|contents| contents.bytes).sum());
    }
}

/// Names sort as their numbers do.
fn file_name(first: u64) -> String {
    format!("{first:020}")
}

fn record(number: u64, batch: &[u8]) -> Vec<u8> {
    let mut record = Vec::with_capacity(HEAD_BYTES + batch.len());
    record.extend_from_slice(&(batch.len() as u32).to_le_bytes());
    record.extend_from_slice(&checksum(number, batch).to_le_bytes());
    record.extend_from_slice(batch);
    record
}

/// Of a batch and its number, so that a file under a wrong name is noticed.
fn checksum(number: u64, batch: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&number.to_le_bytes());
    hasher.update(batch);
    hasher.finalize()
}

/// The batch of a whole record, if it is that batch.
fn checked(number: u64, record: &[u8]) -> Option<&[u8]> {
    let (head, batch) = record.split_first_chunk::<HEAD_BYTES>()?;
    let [a, b, c, d, e, f, g, h] = *head;
    let is_whole = u32::from_le_bytes([a, b, c, d]) as usize == batch.len();
    (is_whole && u32::from_le_bytes([e, f, g, h]) == checksum(number, batch)).then_some(batch)
}

fn damaged(number: u64) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("batch {number} is damaged"))
}

fn read_whole(disk: &dyn Disk, name: &str, at: u64, into: &mut [u8]) -> io::Result<()> {
    if disk.read_at(name, at, into)? == into.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::UnexpectedEof.into())
    }
}

/// Finds the batches of a file, up to the first that is not whole.
fn scan(disk: &dyn Disk, name: &str, first: u64) -> io::Result<Contents> {
    let len = disk.len(name)?.unwrap_or_default();
    let mut contents = Contents::default();
    loop {
        let left = len - contents.bytes;
        let mut head = [0; HEAD_BYTES];
        if left < HEAD_BYTES as u64 {
            return Ok(contents);
        }
        read_whole(disk, name, contents.bytes, &mut head)?;
        let [a, b, c, d, ..] = head;
        let record_bytes = HEAD_BYTES as u64 + u64::from(u32::from_le_bytes([a, b, c, d]));
        if record_bytes > left {
            return Ok(contents);
        }
        let mut record = vec![0; record_bytes as usize];
        read_whole(disk, name, contents.bytes, &mut record)?;
        if checked(first + contents.starts.len() as u64, &record).is_none() {
            return Ok(contents);
        }
        contents.starts.push(contents.bytes);
        contents.bytes += record_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::disk::{Faulty, Mem};

    const ROOMY: u64 = 1 << 30;

    fn open(disk: &Mem) -> Outbox {
        Outbox::open(Arc::new(disk.clone()), OutboxRoom::new(ROOMY)).unwrap()
    }

    fn numbers(outbox: &Outbox, from: u64) -> Vec<u64> {
        outbox.batches(from, usize::MAX).unwrap().into_iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn numbers_go_on_over_restarts_even_when_all_is_forgotten() {
        let disk = Mem::new();
        let mut outbox = open(&disk);
        assert_eq!((outbox.put(b"a").unwrap(), outbox.put(b"b").unwrap()), (1, 2));
        drop(outbox);
        let mut outbox = open(&disk);
        assert_eq!(outbox.batches(1, 9).unwrap(), [(1, b"a".to_vec()), (2, b"b".to_vec())]);
        outbox.forget(2).unwrap();
        assert_eq!((numbers(&outbox, 0), outbox.first_number()), (vec![], 3));
        drop(outbox);
        disk.lose_unsynced();
        let mut outbox = open(&disk);
        assert_eq!((outbox.next_number(), outbox.put(b"c").unwrap()), (3, 3));
        assert_eq!(disk.list().unwrap().len(), 1, "what is forgotten leaves no files");
    }

    #[test]
    fn files_go_when_the_receiver_has_passed_their_last_batch() {
        let disk = Mem::new();
        let mut outbox = open(&disk);
        let batch = vec![7; (FILE_BYTES / 2) as usize];
        for number in 1..=6 {
            assert_eq!(outbox.put(&batch).unwrap(), number);
        }
        assert_eq!(disk.list().unwrap().len(), 3);
        outbox.forget(3).unwrap();
        assert_eq!(
            (outbox.first_number(), disk.list().unwrap().len()),
            (3, 2),
            "4 is still wanted, so its file stays"
        );
        assert_eq!((numbers(&outbox, 4), outbox.batches(4, 2).unwrap().len()), (vec![4, 5, 6], 2));
        outbox.forget(u64::MAX).unwrap();
        assert_eq!((numbers(&outbox, 0), outbox.next_number()), (vec![], 7));
    }

    #[test]
    fn a_full_outbox_has_its_sender_wait_until_something_is_forgotten() {
        let (disk, room) = (Mem::new(), OutboxRoom::new(100));
        let mut one = Outbox::open(Arc::new(disk.clone()), room.clone()).unwrap();
        let mut other = Outbox::open(Arc::new(Mem::new()), room.clone()).unwrap();
        assert_eq!(one.put(&[0; 40]).unwrap(), 1);
        assert_eq!(other.put(&[0; 40]).unwrap(), 1);
        assert!(matches!(one.put(&[0; 1]), Err(OutboxError::Full)), "topics share the room");
        other.forget(1).unwrap();
        assert_eq!((one.put(&[0; 40]).unwrap(), room.used()), (2, 96));
        drop((one, other));
        assert_eq!(room.used(), 0);
        let opened = Outbox::open(Arc::new(disk), room.clone()).unwrap();
        assert_eq!((opened.next_number(), room.used()), (3, 96));
    }

    /// Death at every write, with every torn length: what was given a number is there, and its number is not given again.
    #[test]
    fn a_death_at_any_write_loses_no_number() {
        for nth in 1..=12 {
            for kept in 0..HEAD_BYTES + 3 {
                let mem = Mem::new();
                let faulty = Faulty::new(Arc::new(mem.clone()));
                faulty.die_at_write(nth, kept);
                let mut given = Vec::new();
                if let Ok(mut outbox) = Outbox::open(Arc::new(faulty), OutboxRoom::new(ROOMY)) {
                    while let Ok(number) = outbox.put(&[given.len() as u8; 3]) {
                        given.push(number);
                        if number == 3 && outbox.forget(3).is_err() {
                            break;
                        }
                    }
                    assert!(matches!(outbox.put(b"x"), Err(OutboxError::Closed)) || given == [1, 2, 3]);
                }
                let mut outbox = open(&mem);
                let last = given.last().copied().unwrap_or_default();
                let there = numbers(&outbox, 0);
                for number in given.iter().filter(|number| **number > 3) {
                    let batch = outbox.batches(*number, 1).unwrap();
                    assert_eq!(
                        batch,
                        [(*number, vec![*number as u8 - 1; 3])],
                        "death at {nth}, {kept} bytes: {there:?}"
                    );
                }
                let next = outbox.put(b"new").unwrap();
                assert!(next > last, "death at {nth}, {kept} bytes: {next} was given before");
            }
        }
    }

    #[test]
    fn flipped_bits_and_strange_files_are_noticed() {
        let disk = Mem::new();
        let mut outbox = open(&disk);
        outbox.put(b"one").unwrap();
        outbox.put(b"two").unwrap();
        let name = disk.list().unwrap().remove(0);
        let len = disk.len(&name).unwrap().unwrap();
        disk.truncate(&name, len - 1).unwrap();
        disk.append(&name, b"!").unwrap();
        assert!(matches!(outbox.batches(1, 9), Err(OutboxError::Disk { .. })));
        assert_eq!(numbers(&open(&disk), 1), [1], "the tail that is not whole is cut");
        disk.append("7", b"").unwrap();
        assert!(matches!(
            Outbox::open(Arc::new(disk), OutboxRoom::new(1)),
            Err(OutboxError::Stranger(name)) if name == "7"
        ));
    }
}
