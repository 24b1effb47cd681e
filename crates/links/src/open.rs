//! Opening: what is on disk becomes what is in memory.
//!
//! The names of the files are the catalogue: each carries the range of segment numbers that it stands for. A file
//! whose range lies inside another's was replaced by it and is deleted; a run that is missing is written again; the
//! last segment, if it was not sealed, is cut after its last whole record. Anything else that does not fit is
//! [`Error::Damaged`].

use crate::active_segment::{ActiveSegment, postings_of};
use crate::dirty::Dirty;
use crate::error::Error;
use crate::files::{Range, read_whole, remove_replaced, split_covered};
use crate::rank::RankTable;
use crate::record::Record;
use crate::run::{Run, write_segment_run};
use crate::segment::{Index, Segment};
use crate::sources::{Place, Seed, Sources};
use crate::store::{Links, LinksOptions, STORE, Slot};
use farol_base::PagePosition;
use farol_base::disk::Disk;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

impl Links {
    /// Opens the link store on this disk, which holds nothing else.
    ///
    /// # Errors
    /// [`Error::Damaged`] names the file and the byte; [`Error::Format`] means that a later version wrote it.
    pub fn open(disk: Arc<dyn Disk>, options: LinksOptions) -> Result<Links, Error> {
        let listing = list(&*disk)?;
        let segments = keep_uncovered(&*disk, listing.segments, "links", "log");
        check_order(&segments)?;

        let mut loader = Loader::default();
        let mut sealed: Vec<(Segment, Index)> = Vec::new();
        let mut unsealed = None;
        for (i, range) in segments.iter().enumerate() {
            // Only the last one may be unfinished, or have been torn while it was sealed.
            let may_be_torn = i + 1 == segments.len() && *range == Range::new(range.first);
            match Segment::open(&disk, *range) {
                Ok(Some(opened)) => sealed.push(opened),
                Ok(None) | Err(Error::Damaged { .. }) if may_be_torn => unsealed = Some(range.first),
                Ok(None) => {
                    let file = range.name("links", "log");
                    return Err(Error::damaged(&file, 0, "it is not sealed, but others follow it"));
                }
                Err(error) => return Err(error),
            }
        }
        let last_sealed = sealed.last().map_or(0, |(segment, _)| segment.range.last);
        let active_slot = u16::try_from(sealed.len()).ok().filter(|slot| *slot < u16::MAX);
        let active_slot = active_slot.ok_or(Error::Full)?;
        let mut active = match unsealed {
            Some(number) => {
                let (active, cut_bytes) = ActiveSegment::load(&disk, number, active_slot)?;
                if cut_bytes > 0 {
                    tracing::warn!(file = active.file(), cut_bytes, "cut the torn end of the link store");
                }
                active
            }
            None => ActiveSegment::create(&disk, last_sealed + 1, active_slot)?,
        };
        active.sync()?;
        loader.take_active(&active)?;
        for (slot, (_, index)) in sealed.iter().enumerate().rev() {
            loader.take_sealed(slot as u16, index);
        }
        loader.slots.resize_with(sealed.len() + 1, Slot::default);
        for (slot, (segment, _)) in sealed.into_iter().enumerate() {
            loader.slots[slot].segment = Some(Arc::new(segment));
        }

        let runs = open_runs(&disk, listing.runs, &loader.slots, &loader.sources)?;
        Ok(Links {
            ranks: Arc::new(RankTable::load(&*disk)?),
            disk,
            dirty: Dirty::new(options.dirty_max),
            options,
            sources: loader.sources,
            order: (0..active_slot).collect(),
            slots: loader.slots,
            active,
            runs,
            stale_runs: Vec::new(),
            link_count: loader.link_count,
            next_stamp: loader.next_stamp.unwrap_or(0),
            at_max: loader.at_max,
            watermark: loader.at_max,
            poisoned: false,
            jobs: AtomicU64::new(0),
            scratch: Vec::new(),
        })
    }
}

#[derive(Default)]
struct Listing {
    segments: Vec<Range>,
    runs: Vec<Range>,
}

/// Sorts out the files of the folder; unfinished ones go.
fn list(disk: &dyn Disk) -> Result<Listing, Error> {
    let mut listing = Listing::default();
    for name in disk.list().map_err(Error::io("list", STORE))? {
        if name.ends_with(".tmp") {
            remove_replaced(disk, &name);
        } else if let Some(range) = Range::of_name(&name, "links", "log") {
            listing.segments.push(range);
        } else if let Some(range) = Range::of_name(&name, "run", "run") {
            listing.runs.push(range);
        }
    }
    Ok(listing)
}

/// Deletes the files that something wider has replaced.
fn keep_uncovered(disk: &dyn Disk, ranges: Vec<Range>, prefix: &str, suffix: &str) -> Vec<Range> {
    let (kept, covered) = split_covered(ranges);
    for range in covered {
        remove_replaced(disk, &range.name(prefix, suffix));
    }
    kept
}

/// Segments must follow each other without a gap, from the first on.
fn check_order(segments: &[Range]) -> Result<(), Error> {
    let mut next = 1;
    for range in segments {
        if range.first != next {
            let file = range.name("links", "log");
            return Err(Error::damaged(&file, 0, "the segment before it is missing or overlaps it"));
        }
        next = range.last + 1;
    }
    Ok(())
}

/// Collects the newest record of each page, from the newest segment to the oldest: the first one seen wins.
#[derive(Default)]
struct Loader {
    sources: Sources,
    slots: Vec<Slot>,
    /// Pages whose newest record says that they are gone.
    gone: HashSet<u64, Seed>,
    link_count: u64,
    next_stamp: Option<u16>,
    at_max: PagePosition,
}

impl Loader {
    fn take_active(&mut self, active: &ActiveSegment) -> Result<(), Error> {
        let mut index = Index::default();
        let mut last_stamp = None;
        active.walk(&mut |offset, body| {
            if let Some(record) = Record::read(body) {
                index.note(offset, body, &record);
                if record.kind == crate::record::Kind::Links {
                    last_stamp = Some(record.stamp);
                }
            }
            Ok(())
        })?;
        self.next_stamp = last_stamp.map(|stamp| stamp.wrapping_add(1));
        self.take_entries(active.slot, &index);
        Ok(())
    }

    fn take_sealed(&mut self, slot: u16, index: &Index) {
        self.next_stamp.get_or_insert(index.next_stamp);
        self.take_entries(slot, index);
    }

    fn take_entries(&mut self, slot: u16, index: &Index) {
        self.at_max = self.at_max.max(index.at_max);
        if self.slots.len() <= usize::from(slot) {
            self.slots.resize_with(usize::from(slot) + 1, Slot::default);
        }
        let sums = &mut self.slots[usize::from(slot)];
        for entry in index.entries.iter().rev() {
            if entry.removed {
                sums.removed_bytes += u64::from(entry.bytes);
            }
            if self.gone.contains(&entry.page) || self.sources.get(entry.page).is_some() {
                continue;
            }
            if entry.removed {
                self.gone.insert(entry.page);
            } else {
                self.sources.insert(entry.page, Place { slot, offset: entry.offset, stamp: entry.stamp });
                sums.live_bytes += u64::from(entry.bytes);
                self.link_count += u64::from(entry.links);
            }
        }
    }
}

/// Opens the runs, and writes those again that are missing for some segment.
fn open_runs(
    disk: &Arc<dyn Disk>,
    found: Vec<Range>,
    slots: &[Slot],
    sources: &Sources,
) -> Result<Vec<Arc<Run>>, Error> {
    let segments: Vec<(u16, &Arc<Segment>)> = slots
        .iter()
        .enumerate()
        .filter_map(|(slot, held)| held.segment.as_ref().map(|segment| (slot as u16, segment)))
        .collect();
    let mut ranges = keep_uncovered(&**disk, found, "run", "run");
    let mut written = Vec::new();
    for (slot, segment) in segments {
        let covered = (segment.range.first..=segment.range.last)
            .all(|number| ranges.iter().any(|range| range.first <= number && number <= range.last));
        if covered {
            continue;
        }
        tracing::info!(file = segment.file, "writing the missing run of a segment");
        let bytes = read_whole(&**disk, &segment.file)?.unwrap_or_default();
        let data = &bytes[..usize::try_from(segment.data_end).unwrap_or(bytes.len()).min(bytes.len())];
        let is_current = |record: &Record<'_>| {
            sources.get(record.page.0).is_some_and(|place| place.slot == slot && place.stamp == record.stamp)
        };
        written.push(write_segment_run(disk, segment.range, data, postings_of(data, is_current))?);
        // Whatever covered only a part of the segment is inside the new run.
        let (inside, outside): (Vec<Range>, Vec<Range>) =
            ranges.into_iter().partition(|range| segment.range.holds(*range));
        ranges = outside;
        for range in inside {
            remove_replaced(&**disk, &range.name("run", "run"));
        }
    }
    let opened = ranges.into_iter().map(|range| Run::open(disk, range));
    let mut runs = opened.chain(written.into_iter().map(Ok)).collect::<Result<Vec<Run>, Error>>()?;
    runs.sort_by_key(|run| run.range);
    for pair in runs.windows(2) {
        if pair[0].range.overlaps(pair[1].range) {
            return Err(Error::damaged(
                &pair[1].file,
                0,
                "two runs stand for the same segments; delete both",
            ));
        }
    }
    Ok(runs.into_iter().map(Arc::new).collect())
}
