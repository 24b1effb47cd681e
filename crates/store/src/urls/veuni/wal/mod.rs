//! Write-ahead log: one batch per flush, so that nothing is lost with the process.
//!
//! Segments `log-<first batch>`, drawn in `docs/formats/urls.md`. A batch that a crash cut is cut off when
//! the store is opened. A segment is deleted once everything in it is in buckets or level-0 runs.

mod batch;
mod replay;
mod segment;

use crate::Error;
use crate::urls::Source;
use farol_base::PagePosition;
use farol_base::disk::Disk;
use segment::{WalSegment, header, segment_name};
use std::collections::BTreeMap;
use std::sync::Arc;

pub use batch::{WalOp, WriteBatch};
pub use segment::sync;

/// Length and checksum of what follows, sequence number.
const BATCH_HEAD_BYTES: usize = 4 + 4 + 8;

/// The write-ahead log.
#[derive(Debug)]
pub struct Wal {
    disk: Arc<dyn Disk>,
    segments: Vec<WalSegment>,
    /// Sequence number of the next batch.
    pub next_seqno: u64,
    /// End of what was taken in of the archive.
    pub watermark: PagePosition,
    /// The watermark that the batch will set.
    pub marked: Option<PagePosition>,
    /// The last number of each sender that is in the log, and those that the batch will add.
    numbers: BTreeMap<Source, u64>,
    noted: BTreeMap<Source, u64>,
    pub batch: WriteBatch,
    /// A write failed and could not be undone.
    poisoned: bool,
}

impl Wal {
    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.len).sum()
    }

    /// Bytes of the segment that is appended to.
    pub fn last_bytes(&self) -> u64 {
        self.segments.last().map_or(0, |segment| segment.len)
    }

    /// Damage at the end of it.
    pub fn damaged(&self, what: String) -> Error {
        let last = self.segments.last();
        let (file, offset) = last.map_or(("log".to_string(), 0), |last| (last.file.clone(), last.len));
        Error::Damaged { file, offset, what }
    }

    /// Fails where an append failed and could not be undone.
    pub fn check_usable(&self) -> Result<(), Error> {
        if self.poisoned { Err(Error::Poisoned { store: "the URL store" }) } else { Ok(()) }
    }

    /// The batch will say that everything up to this number of a sender was taken in; a smaller number than before
    /// says nothing.
    pub fn note(&mut self, source: Source, number: u64) {
        if self.numbers.get(&source).is_none_or(|known| *known < number) {
            let noted = self.noted.entry(source).or_default();
            *noted = number.max(*noted);
        }
    }

    /// The last number of each sender, with those of the batch.
    pub fn numbers(&self) -> BTreeMap<Source, u64> {
        let mut numbers = self.numbers.clone();
        numbers.extend(&self.noted);
        numbers
    }

    fn take_number(&mut self, source: Source, number: u64) {
        let known = self.numbers.entry(source).or_default();
        *known = number.max(*known);
    }

    /// Appends the batch, and returns its sequence number; `None` where it is empty.
    pub fn write(&mut self) -> Result<Option<u64>, Error> {
        self.check_usable()?;
        let len = self.batch.bytes.len();
        if let Some(upto) = self.marked.filter(|upto| *upto != self.watermark) {
            self.batch.mark(upto);
        }
        self.noted.iter().for_each(|(source, number)| self.batch.note(*source, *number));
        if self.batch.is_empty() {
            return Ok(None);
        }
        // What is added last is added anew when the batch is tried again.
        self.write_batch().inspect_err(|_| self.batch.bytes.truncate(len))
    }

    fn write_batch(&mut self) -> Result<Option<u64>, Error> {
        let seqno = self.next_seqno;
        if self.segments.is_empty() {
            self.begin_segment();
        }
        let Some(segment) = self.segments.last_mut() else { return Ok(None) };
        let bytes = &mut self.batch.bytes;
        bytes[8..16].copy_from_slice(&seqno.to_le_bytes());
        let (size, crc) = ((bytes.len() - 8) as u32, crc32fast::hash(&bytes[8..]));
        bytes[..4].copy_from_slice(&size.to_le_bytes());
        bytes[4..8].copy_from_slice(&crc.to_le_bytes());
        let result = if segment.len == 0 {
            let mut first = header(segment.first, self.watermark, &self.numbers);
            segment.head_bytes = first.len() as u64;
            first.extend_from_slice(bytes);
            self.disk.append(&segment.file, &first).map(|()| first.len() as u64)
        } else {
            self.disk.append(&segment.file, bytes).map(|()| bytes.len() as u64)
        };
        match result {
            Ok(count) => segment.len += count,
            Err(source) => {
                // Cut off what may have arrived. Where there is no file yet, there is nothing to cut.
                let cut = match self.disk.len(&segment.file) {
                    Ok(None) => Ok(()),
                    _ => self.disk.truncate(&segment.file, segment.len),
                };
                self.poisoned = cut.is_err();
                return Err(Error::io("append to", &segment.file)(source));
            }
        }
        self.watermark = self.marked.take().unwrap_or(self.watermark);
        self.numbers.append(&mut self.noted);
        self.next_seqno += 1;
        self.batch.clear();
        Ok(Some(seqno))
    }

    fn begin_segment(&mut self) {
        self.segments.push(WalSegment {
            file: segment_name(self.next_seqno),
            first: self.next_seqno,
            head_bytes: 0,
            len: 0,
        });
    }

    /// Begins a new segment, so that older ones can be deleted. Where that fails the old one is appended to.
    pub fn roll(&mut self) {
        let has_batches = self.segments.last().is_some_and(|last| last.len > last.head_bytes);
        if !has_batches || self.poisoned || self.marked.is_some() {
            return;
        }
        self.begin_segment();
        if let Some(segment) = self.segments.last_mut() {
            let header = header(segment.first, self.watermark, &self.numbers);
            match self.disk.append(&segment.file, &header) {
                Ok(()) => (segment.head_bytes, segment.len) = (header.len() as u64, header.len() as u64),
                Err(_) => {
                    let _ = self.disk.remove(&segment.file);
                    self.segments.pop();
                }
            }
        }
    }

    /// Gives up segments in which all batches are below this one; returns each with its successor, which
    /// carries the watermark on and must survive a power cut before the other is deleted.
    pub fn drop_segments_below(&mut self, needed: u64) -> Vec<(String, String)> {
        let mut gone = Vec::new();
        while let [first, second, ..] = &self.segments[..]
            && second.first <= needed
            && second.len > 0
        {
            gone.push((first.file.clone(), second.file.clone()));
            self.segments.remove(0);
        }
        gone
    }

    /// Returns when all of it would survive a power cut.
    pub fn sync(&self) -> Result<(), Error> {
        segment::sync(&*self.disk, &self.segment_files())
    }

    /// The segments that have something in them, and their lengths.
    pub fn segment_files(&self) -> Vec<(String, u64)> {
        let written = self.segments.iter().filter(|segment| segment.len > 0);
        written.map(|segment| (segment.file.clone(), segment.len)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::urls::veuni::wal::segment::VERSION;
    use farol_base::CanonicalUrl;
    use farol_base::disk::{Faulty, Mem};

    fn open(disk: &Arc<Mem>) -> (Wal, Vec<String>) {
        let mut ops = Vec::new();
        let mut take = |seqno: u64, op: WalOp<'_>| {
            ops.push(format!("{seqno} {op:?}"));
            true
        };
        let (wal, cut) = Wal::open(disk.clone(), &mut take).unwrap();
        assert!(cut.is_none());
        (wal, ops)
    }

    #[test]
    fn batches_are_replayed_in_their_order_with_their_sequence_numbers() {
        let disk = Arc::new(Mem::new());
        let (mut wal, _) = open(&disk);
        for (url, depth) in [("http://g/b", 1), ("http://g/c", 9)] {
            wal.batch.found(&CanonicalUrl::parse(url).unwrap(), depth, None);
        }
        assert_eq!(wal.write().unwrap(), Some(1));
        wal.roll();
        wal.batch.delete_host("http://g");
        wal.marked = Some(PagePosition { file: 3, offset: 77 });
        assert_eq!(wal.write().unwrap(), Some(2));
        let (wal, ops) = open(&disk);
        let expected = [
            r#"1 Host("http://g")"#,
            r#"1 Found { path: "/b", depth: 1 }"#,
            r#"1 Found { path: "/c", depth: 9 }"#,
            r#"2 Host("http://g")"#,
            "2 DeleteHost",
        ];
        assert_eq!(ops, expected);
        assert_eq!((wal.watermark.offset, wal.next_seqno, wal.segment_files().len()), (77, 3, 2));
    }

    #[test]
    fn a_segment_that_is_gone_from_the_middle_is_missed() {
        let disk = Arc::new(Mem::new());
        let (mut wal, _) = open(&disk);
        for _ in 0..3 {
            wal.batch.delete_host("http://g");
            wal.write().unwrap();
            wal.roll();
        }
        disk.remove(&segment_name(2)).unwrap();
        let error = Wal::open(disk.clone(), &mut |_, _| true).unwrap_err();
        assert!(error.is_damage() && error.to_string().contains("batch 2 is missing"), "{error}");
        // The first may have been given up, and one that nobody needs may be left of those that were.
        Wal::open(disk.clone(), &mut |_, _| false).unwrap();
        disk.remove(&segment_name(1)).unwrap();
        open(&disk);
    }

    /// The header of a segment as another version wrote it, which had no numbers.
    fn old_header(version: u32, watermark: PagePosition) -> Vec<u8> {
        let mut segment = header(5, watermark, &BTreeMap::new());
        segment.truncate(32);
        segment[8..12].copy_from_slice(&version.to_le_bytes());
        segment.extend(crc32fast::hash(&segment).to_le_bytes());
        segment
    }

    #[test]
    fn a_segment_of_version_2_is_read_and_appended_to() {
        let disk = Arc::new(Mem::new());
        let watermark = PagePosition { file: 3, offset: 77 };
        disk.append(&segment_name(5), &old_header(2, watermark)).unwrap();
        let (mut wal, _) = open(&disk);
        assert_eq!((wal.watermark, wal.next_seqno, wal.numbers()), (watermark, 5, BTreeMap::new()));
        wal.batch.delete_host("http://g");
        wal.note(Source(4), 11);
        assert_eq!(wal.write().unwrap(), Some(5));
        let (wal, ops) = open(&disk);
        assert_eq!(ops.len(), 2);
        assert_eq!((wal.watermark, wal.numbers()), (watermark, BTreeMap::from([(Source(4), 11)])));
    }

    #[test]
    fn numbers_outlive_the_segments_that_brought_them() {
        let disk = Arc::new(Mem::new());
        let (mut wal, _) = open(&disk);
        for number in 1..=300u64 {
            wal.note(Source(number % 7), number);
            wal.note(Source(1 << 40), number * number);
            wal.note(Source(1 << 40), 1);
            if number % 3 == 0 {
                wal.write().unwrap();
                wal.roll();
            }
        }
        let expected = wal.numbers();
        assert_eq!(expected[&Source(1 << 40)], 90_000);
        let next = wal.next_seqno;
        for (file, _) in wal.drop_segments_below(next) {
            disk.remove(&file).unwrap();
        }
        assert_eq!(disk.list().unwrap().len(), 1, "a header and nothing else");
        let (wal, ops) = open(&disk);
        assert_eq!((wal.numbers(), ops.len()), (expected.clone(), 0));
        // Cut anywhere, the header is no header; a flipped bit in it is damage.
        let file = segment_name(next);
        let len = disk.len(&file).unwrap().unwrap();
        for cut in 0..len {
            let torn = Arc::new(disk.fork());
            torn.truncate(&file, cut).unwrap();
            let (wal, cut_off) = Wal::open(torn.clone(), &mut |_, _| true).unwrap();
            assert_eq!((wal.numbers().len(), cut_off.is_some()), (0, cut > 0), "cut at {cut}");
            let flipped = Arc::new(disk.fork());
            let mut bytes = vec![0; len as usize];
            flipped.read_at(&file, 0, &mut bytes).unwrap();
            bytes[cut as usize] ^= 1;
            flipped.remove(&file).unwrap();
            flipped.append(&file, &bytes).unwrap();
            let error = Wal::open(flipped, &mut |_, _| true).unwrap_err();
            assert!(error.is_damage(), "byte {cut}: {error}");
        }
    }

    #[test]
    fn a_number_that_could_not_be_written_is_written_with_the_next_try() {
        let disk = Arc::new(Mem::new());
        let faulty = Arc::new(Faulty::new(disk.clone()));
        let (mut wal, _) = Wal::open(faulty.clone(), &mut |_, _| true).unwrap();
        wal.batch.delete_host("http://g");
        wal.note(Source(1), 5);
        faulty.fail_write(1);
        assert!(wal.write().is_err());
        wal.note(Source(1), 6);
        assert_eq!(wal.write().unwrap(), Some(1));
        let (wal, ops) = open(&disk);
        assert_eq!((wal.numbers(), ops.len()), (BTreeMap::from([(Source(1), 6)]), 2));
    }

    #[test]
    fn a_segment_of_another_version_is_refused_by_name() {
        let disk = Arc::new(Mem::new());
        disk.append(&segment_name(5), &old_header(1, PagePosition::default())).unwrap();
        let error = Wal::open(disk, &mut |_, _| true).unwrap_err();
        assert!(matches!(error, Error::Version { found: 1, known: VERSION, .. }), "{error}");
    }
}
