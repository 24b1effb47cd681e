//! Replays the WAL when a store is opened.

use super::batch::read_ops;
use super::segment::{WalSegment, read_header};
use super::{BATCH_HEAD_BYTES, Wal, WalOp, WriteBatch};
use crate::{Cut, Error};
use farol_base::PagePosition;
use farol_base::disk::Disk;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Largest batch that is believed.
const BATCH_BYTES_MAX: u64 = 1 << 30;

impl Wal {
    /// Opens the WAL, hands all operations to `take` (with the sequence number of their batch), which answers
    /// whether they are still needed, and cuts off a torn tail.
    pub fn open(
        disk: Arc<dyn Disk>,
        take: &mut dyn FnMut(u64, WalOp<'_>) -> bool,
    ) -> Result<(Wal, Option<Cut>), Error> {
        let names = disk.list().map_err(Error::io("list", "the folder of the URL store"))?;
        let mut wal = Wal {
            disk,
            segments: Vec::new(),
            next_seqno: 1,
            watermark: PagePosition::default(),
            marked: None,
            numbers: BTreeMap::new(),
            noted: BTreeMap::new(),
            batch: WriteBatch::default(),
            poisoned: false,
        };
        let files: Vec<&String> = names.iter().filter(|name| name.starts_with("log-")).collect();
        let (mut cut, mut needed) = (None, false);
        for (at, file) in files.iter().enumerate() {
            let before = needed;
            let mut take = |seqno: u64, op: WalOp<'_>| needed |= take(seqno, op);
            cut = wal.replay(file, at + 1 == files.len(), before, &mut take)?;
        }
        Ok((wal, cut))
    }

    /// Replays one segment; only the last may end in a batch that is not whole. `needed` says whether something in
    /// those before it is.
    fn replay(
        &mut self,
        file: &str,
        last: bool,
        needed: bool,
        take: &mut dyn FnMut(u64, WalOp<'_>),
    ) -> Result<Option<Cut>, Error> {
        let len = self.disk.len(file).map_err(Error::io("look at", file))?.unwrap_or(0);
        let damaged = |offset: u64, what: &str| Error::Damaged {
            file: file.to_string(),
            offset,
            what: what.to_string(),
        };
        let mut good = 0;
        if let Some(head) = read_header(&*self.disk, file)? {
            let first = head.first;
            // Each segment goes on where the one before it ended, and they are given up in their order: where one is
            // still needed, so are all behind it.
            if needed && first != self.next_seqno {
                let what = format!("it begins with batch {first}, and batch {} is missing", self.next_seqno);
                return Err(damaged(0, &what));
            }
            self.next_seqno = self.next_seqno.max(first);
            self.watermark = self.watermark.max(head.watermark);
            head.numbers.into_iter().for_each(|(source, number)| self.take_number(source, number));
            good = head.len;
            self.segments.push(WalSegment { file: file.to_string(), first, head_bytes: good, len: good });
        } else if !last {
            return Err(damaged(len, "the file ends too early"));
        }
        let mut body = Vec::new();
        while good > 0 && good < len {
            let mut head = [0; BATCH_HEAD_BYTES];
            let read = self.disk.read_at(file, good, &mut head).map_err(Error::io("read", file))?;
            let size = u64::from(u32::from_le_bytes([head[0], head[1], head[2], head[3]]));
            let is_whole =
                read == BATCH_HEAD_BYTES && (8..=BATCH_BYTES_MAX).contains(&size) && good + 8 + size <= len;
            if is_whole {
                body.resize(size as usize, 0);
                self.disk.read_at(file, good + 8, &mut body).map_err(Error::io("read", file))?;
            }
            if !is_whole || crc32fast::hash(&body).to_le_bytes() != head[4..8] {
                if !last {
                    return Err(damaged(good, "a batch that is not whole"));
                }
                break;
            }
            let (seqno, ops) = body.split_at(8);
            let seqno = u64::from_le_bytes(std::array::from_fn(|i| seqno[i]));
            let (mut mark, mut notes) = (None, Vec::new());
            read_ops(ops, &mut |op| match op {
                WalOp::Mark(upto) => mark = Some(upto),
                WalOp::Note { source, number } => notes.push((source, number)),
                op => take(seqno, op),
            })
            .map_err(|what| damaged(good, what))?;
            self.watermark = mark.unwrap_or(self.watermark);
            notes.into_iter().for_each(|(source, number)| self.take_number(source, number));
            self.next_seqno = self.next_seqno.max(seqno + 1);
            good += 8 + size;
            if let Some(segment) = self.segments.last_mut() {
                segment.len = good;
            }
        }
        if good == len {
            return Ok(None);
        }
        self.disk.truncate(file, good).map_err(Error::io("cut", file))?;
        if good == 0 {
            self.disk.remove(file).map_err(Error::io("remove", file))?;
        }
        Ok(Some(Cut { file: file.to_string(), offset: good, bytes: len - good }))
    }
}
