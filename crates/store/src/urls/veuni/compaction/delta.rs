//! The deltas of one host, gathered from the runs and the memtable that have something for it.
//!
//! All of it is in memory at once, until the host is merged: some 32 bytes and the path for each.

use crate::urls::veuni::memtable::{Event, head_of};
use crate::urls::veuni::run::{HAS_DEPTH, HAS_EVENTS, RunBlock, TOMBSTONE, VISIT_FIRST};
use farol_base::codec::{DecodeError, Decoder};
use std::ops::Range;

/// The deltas of one host, from one run or more, in their order.
#[derive(Debug, Default)]
pub struct HostDelta {
    texts: Vec<u8>,
    slots: Vec<DeltaSlot>,
    events: Vec<Event>,
    /// What the bucket has of the host is deleted.
    pub tombstone: bool,
}

#[derive(Clone, Copy, Debug)]
struct DeltaSlot {
    head: u64,
    start: u32,
    len: u32,
    depth: u16,
    visit_first: bool,
    first_event: u32,
    events: u32,
}

/// What each takes besides its path.
pub const DELTA_SLOT_BYTES: usize = size_of::<DeltaSlot>();

/// One of them.
#[derive(Clone, Copy, Debug)]
pub struct DeltaEntry<'a> {
    pub path: &'a [u8],
    pub depth: u16,
    pub visit_first: bool,
    pub events: &'a [Event],
}

impl HostDelta {
    pub fn clear(&mut self) {
        self.texts.clear();
        self.slots.clear();
        self.events.clear();
        self.tombstone = false;
    }

    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Bytes of memory that it has.
    pub fn capacity_bytes(&self) -> usize {
        self.texts.capacity()
            + self.slots.capacity() * DELTA_SLOT_BYTES
            + self.events.capacity() * size_of::<Event>()
    }

    /// Whether anything happened but that URLs were found.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    pub fn get(&self, at: usize) -> DeltaEntry<'_> {
        let slot = &self.slots[at];
        DeltaEntry {
            path: &self.texts[slot.start as usize..(slot.start + slot.len) as usize],
            depth: slot.depth,
            visit_first: slot.visit_first,
            events: &self.events[slot.first_event as usize..(slot.first_event + slot.events) as usize],
        }
    }

    /// Puts them in the order of their paths; those of one path stay in the order in which they came.
    pub fn sort(&mut self) {
        let texts = &self.texts;
        let path = |slot: &DeltaSlot| &texts[slot.start as usize..(slot.start + slot.len) as usize];
        // Texts are in the order in which they came. As in a memtable: large numbers first, then what is equal in them.
        self.slots.sort_unstable_by_key(|slot| u128::from(slot.head) << 64 | u128::from(slot.start));
        for same in self.slots.chunk_by_mut(|a, b| a.head == b.head).filter(|same| same.len() > 1) {
            same.sort_by(|a, b| path(a).cmp(path(b)));
        }
    }

    /// Deletes what came before, and what the bucket has.
    pub fn set_tombstone(&mut self) {
        self.clear();
        self.tombstone = true;
    }

    /// Adds a URL with what happened to it, as [`Event::read`] reads it.
    pub fn push(
        &mut self,
        path: &[u8],
        depth: u16,
        visit_first: bool,
        events: &[&[u8]],
    ) -> Result<(), DecodeError> {
        let first_event = self.events.len() as u32;
        for event in events {
            let mut bytes = Decoder::of(event);
            let kind = bytes.byte()?;
            self.events.push(Event::read(&mut bytes, kind)?);
        }
        let start = self.texts.len();
        self.texts.extend_from_slice(path);
        self.add(start, depth, visit_first, first_event);
        Ok(())
    }

    /// Adds a URL whose path is what `texts` has from `start` on.
    fn add(&mut self, start: usize, depth: u16, visit_first: bool, first_event: u32) {
        let path = &self.texts[start..];
        let (head, start, len) = (head_of(path), start as u32, path.len() as u32);
        let events = self.events.len() as u32 - first_event;
        self.slots.push(DeltaSlot { head, start, len, depth, visit_first, first_event, events });
    }

    /// Reads the URLs of a host off a block.
    pub(in crate::urls::veuni) fn read(
        &mut self,
        flags: u8,
        count: u64,
        block: &mut RunBlock,
    ) -> Result<(), DecodeError> {
        if flags & TOMBSTONE != 0 {
            self.set_tombstone();
        }
        let RunBlock { raw, coding, own, flags, depths, events, .. } = block;
        let column = |range: &Range<usize>| Decoder::of(&raw[range.clone()]);
        let (mut coding_left, mut own_left, mut flags_left) = (column(coding), column(own), column(flags));
        let (mut depths_left, mut events_left) = (column(depths), column(events));
        let mut path_start = self.texts.len();
        let mut path_end = path_start;
        for _ in 0..count {
            let (shared, own): (usize, usize) = (coding_left.varint_as()?, coding_left.varint_as()?);
            let own = own_left.take(own)?;
            if shared > path_end - path_start {
                return Err("a path that shares more than there is");
            }
            let start = self.texts.len();
            self.texts.extend_from_within(path_start..path_start + shared);
            self.texts.extend_from_slice(own);
            (path_start, path_end) = (start, self.texts.len());
            let flags = flags_left.byte()?;
            let depth = if flags & HAS_DEPTH != 0 { depths_left.varint_as()? } else { u16::MAX };
            let first_event = self.events.len() as u32;
            let mut more = flags & HAS_EVENTS != 0;
            while more {
                match events_left.byte()? {
                    0 => more = false,
                    kind => self.events.push(Event::read(&mut events_left, kind)?),
                }
            }
            self.add(start, depth, flags & VISIT_FIRST != 0, first_event);
        }
        coding.start = coding.end - coding_left.len();
        own.start = own.end - own_left.len();
        flags.start = flags.end - flags_left.len();
        depths.start = depths.end - depths_left.len();
        events.start = events.end - events_left.len();
        Ok(())
    }
}
