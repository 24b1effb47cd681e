//! Builds the blocks of a run.

use super::{HAS_DEPTH, HAS_EVENTS, RAW_BYTES, TOMBSTONE, VISIT_FIRST};
use crate::Error;
use crate::urls::veuni::block_frame::write_block;
use crate::urls::veuni::codec::shared_bytes;
use crate::urls::veuni::compaction::delta::DELTA_SLOT_BYTES;
use crate::urls::veuni::memtable::Event;
use farol_base::HostHash;
use farol_base::codec::{put_bytes, put_varint};

/// The compressed blocks of a run, one after the other, with the first hash and the offset of each.
#[derive(Default)]
pub struct BlockBuffer {
    pub(super) out: Vec<u8>,
    pub(super) index: Vec<(HostHash, u64)>,
    /// Memory that the deltas of the largest host take when they are merged.
    pub(super) largest: u64,
    /// The block that is open.
    columns: BlockColumns,
    /// What precedes and what follows the paths' own bytes in the block.
    front: Vec<u8>,
    rest: Vec<u8>,
}

/// The columns of a block.
#[derive(Debug, Default)]
struct BlockColumns {
    hosts: Vec<u8>,
    coding: Vec<u8>,
    own: Vec<u8>,
    flags: Vec<u8>,
    depths: Vec<u8>,
    events: Vec<u8>,
}

impl BlockColumns {
    fn all(&mut self) -> [&mut Vec<u8>; 6] {
        let BlockColumns { hosts, coding, own, flags, depths, events } = self;
        [hosts, coding, own, flags, depths, events]
    }
}

impl BlockBuffer {
    /// Empties it, also of what a run that failed has left.
    pub(super) fn clear(&mut self) {
        self.out.clear();
        self.index.clear();
        self.largest = 0;
        self.columns.all().into_iter().for_each(Vec::clear);
    }
}

/// Builds a run.
pub struct RunBuilder<'a> {
    into: &'a mut BlockBuffer,
    block_first: HostHash,
    /// URLs of the open host in the open block.
    count: u64,
    /// Memory that the deltas of the open host take when they are merged, with those in earlier blocks.
    bytes: u64,
    before: Vec<u8>,
    hash: HostHash,
    host: String,
    host_flags: u8,
}

impl<'a> RunBuilder<'a> {
    pub fn new(into: &'a mut BlockBuffer) -> RunBuilder<'a> {
        RunBuilder {
            into,
            block_first: HostHash(0),
            count: 0,
            bytes: 0,
            before: Vec::new(),
            hash: HostHash(0),
            host: String::new(),
            host_flags: 0,
        }
    }

    /// Begins a host; they come in the order of their hashes, then of their names.
    pub fn begin(&mut self, hash: HostHash, host: &str, tombstone: bool) {
        self.hash = hash;
        self.host.clear();
        self.host.push_str(host);
        self.host_flags = if tombstone { TOMBSTONE } else { 0 };
        self.bytes = 0;
        self.before.clear();
    }

    /// Adds a URL with its events, each as [`Event::read`](crate::urls::veuni::memtable::Event::read) takes
    /// it.
    pub fn push(
        &mut self,
        path: &[u8],
        depth: u16,
        visit_first: bool,
        events: &[&[u8]],
    ) -> Result<(), Error> {
        let columns = &mut self.into.columns;
        let shared = shared_bytes(&self.before, path);
        put_varint(&mut columns.coding, shared as u64);
        put_varint(&mut columns.coding, (path.len() - shared) as u64);
        columns.own.extend_from_slice(&path[shared..]);
        let mut flags = u8::from(visit_first) * VISIT_FIRST;
        if depth != u16::MAX {
            flags |= HAS_DEPTH;
            put_varint(&mut columns.depths, u64::from(depth));
        }
        if !events.is_empty() {
            flags |= HAS_EVENTS;
            events.iter().for_each(|event| columns.events.extend_from_slice(event));
            columns.events.push(0);
        }
        columns.flags.push(flags);
        self.before.truncate(shared);
        self.before.extend_from_slice(&path[shared..]);
        self.count += 1;
        let events: usize = events.iter().map(|event| Event::memory_of(event)).sum();
        self.bytes += (DELTA_SLOT_BYTES + path.len() + events) as u64;
        if self.is_full() {
            self.close_host();
            self.close_block()?;
            self.before.clear();
        }
        Ok(())
    }

    fn is_full(&mut self) -> bool {
        self.into.columns.all().iter().map(|column| column.len()).sum::<usize>() >= RAW_BYTES
    }

    /// Ends a host.
    pub fn end(&mut self) -> Result<(), Error> {
        self.close_host();
        self.into.largest = self.into.largest.max(self.bytes);
        if self.is_full() { self.close_block() } else { Ok(()) }
    }

    /// Ends a host's part in this block.
    fn close_host(&mut self) {
        if self.count == 0 && self.host_flags == 0 {
            return;
        }
        let hosts = &mut self.into.columns.hosts;
        if hosts.is_empty() {
            self.block_first = self.hash;
        }
        put_bytes(hosts, self.host.as_bytes());
        hosts.push(self.host_flags);
        put_varint(hosts, self.count);
        self.count = 0;
        // The tombstone precedes all of the host's entries: what goes on in the next block is not deleted by it.
        self.host_flags = 0;
    }

    fn close_block(&mut self) -> Result<(), Error> {
        let BlockBuffer { out, index, columns, front, rest, .. } = &mut *self.into;
        let BlockColumns { hosts, coding, own, flags, depths, events } = &*columns;
        if hosts.is_empty() {
            return Ok(());
        }
        // As separate frames of like bytes.
        front.clear();
        put_bytes(front, hosts);
        put_bytes(front, coding);
        put_varint(front, own.len() as u64);
        rest.clear();
        [flags, depths, events].into_iter().for_each(|column| put_bytes(rest, column));
        index.push((self.block_first, out.len() as u64));
        write_block(out, &[front, own, rest])?;
        columns.all().into_iter().for_each(Vec::clear);
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), Error> {
        self.close_block()
    }
}
