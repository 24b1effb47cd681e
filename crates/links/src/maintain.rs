//! Keeps the number of runs small and the segments free of garbage, one bounded step at a time.
//!
//! Runs are merged when at least four neighbours are of like size, as a log-structured tree does: each text is
//! rewritten about log4 of (merge limit / segment size) times. Segments are rewritten when records that no longer
//! count make up more than half of them. What replaces a record must be on the disk before the record is dropped, so
//! each step starts with a sync; otherwise a crash would lose both. No step reads or writes more than about `merge_bytes_max`.

use crate::error::Error;
use crate::files::{HEADER_BYTES, NewFile, Range, footer_and_trailer, header, remove_replaced};
use crate::record::{Kind, Record, append};
use crate::run::merge_runs;
use crate::segment::{Index, MAGIC, SEGMENT_BYTES_MAX, Segment};
use crate::sources::Place;
use crate::store::{Links, Slot};
use std::sync::Arc;

/// Fewest runs that are worth merging: fewer would rewrite the same texts too often.
const MERGE_RUNS_MIN: usize = 4;

/// Most segments rewritten as one.
const COMPACT_SEGMENTS_MAX: usize = 16;

impl Links {
    /// Does one step of upkeep and answers whether there was something to do. Call it between batches of
    /// [`Links::put`], as long as there is time.
    ///
    /// # Errors
    /// Where files cannot be read or written. Nothing is lost by that; the step is tried again at the next call.
    pub fn maintain(&mut self) -> Result<bool, Error> {
        self.check_poison()?;
        if let Some(stale) = self.stale_runs.last().copied() {
            self.sync()?;
            self.filter_runs(stale)?;
            self.stale_runs.pop();
            return Ok(true);
        }
        let sizes: Vec<u64> = self.runs.iter().map(|run| run.bytes).collect();
        if let Some(chosen) = choose_runs(&sizes, self.options.merge_bytes_max) {
            self.sync()?;
            return self.replace_runs(chosen).map(|()| true);
        }
        let garbage: Vec<Share> = self.order.iter().map(|slot| self.share(*slot)).collect();
        if let Some(chosen) = choose_segments(&garbage, self.options.merge_bytes_max) {
            self.sync()?;
            return self.compact(chosen).map(|()| true);
        }
        Ok(false)
    }

    fn replace_runs(&mut self, chosen: std::ops::Range<usize>) -> Result<(), Error> {
        let sources = &self.sources;
        let counts = |text: &crate::run::Text<'_>| sources.is_current(text.source, text.stamp);
        let merged = merge_runs(&self.disk, &self.runs[chosen.clone()], counts)?;
        for replaced in self.runs.splice(chosen, [Arc::new(merged)]) {
            remove_replaced(&*self.disk, &replaced.file);
        }
        Ok(())
    }

    /// Rewrites the runs of segments that have just lost their garbage.
    fn filter_runs(&mut self, stale: Range) -> Result<(), Error> {
        for i in 0..self.runs.len() {
            if self.runs[i].range.overlaps(stale) {
                self.replace_runs(i..i + 1)?;
            }
        }
        Ok(())
    }

    fn share(&self, slot: u16) -> Share {
        let held = &self.slots[usize::from(slot)];
        let records = held.segment.as_ref().map_or(0, |segment| segment.data_end - HEADER_BYTES as u64);
        Share { records, live: held.live_bytes, removed: held.removed_bytes }
    }

    /// Writes the records of neighbouring segments that still count into one segment.
    fn compact(&mut self, chosen: std::ops::Range<usize>) -> Result<(), Error> {
        let old_slots: Vec<u16> = self.order[chosen.clone()].to_vec();
        let old: Vec<Arc<Segment>> =
            old_slots.iter().filter_map(|slot| self.segment(*slot).cloned()).collect();
        let Some(range) = Range::replacing(old.iter().map(|segment| segment.range)) else { return Ok(()) };
        // A removal must be remembered as long as an older segment could bring the page back.
        let keep_removals = chosen.start > 0;

        let slot = self.free_slot()?;
        let mut out = NewFile::create(&self.disk, range.name("links", "log"))?;
        out.write(&header(MAGIC, range))?;
        let mut index = Index::default();
        let mut sums = Slot::default();
        let mut moved: Vec<(u64, Place)> = Vec::new();
        let mut bytes = Vec::new();
        for (old_slot, segment) in old_slots.iter().zip(&old) {
            segment.walk(&mut |offset, body| {
                let Some(record) = Record::read(body) else { return Ok(()) };
                index.at_max = index.at_max.max(record.at);
                let here = Place { slot: *old_slot, offset, stamp: record.stamp };
                let current = self.sources.get(record.page.0);
                let keep = match record.kind {
                    Kind::Links => current == Some(here),
                    Kind::Removed => keep_removals && current.is_none(),
                    Kind::Position => false,
                };
                if !keep {
                    return Ok(());
                }
                bytes.clear();
                append(&mut bytes, &record);
                let new_offset = out.written as u32;
                index.note(new_offset, body, &record);
                out.write(&bytes)?;
                if record.kind == Kind::Links {
                    sums.live_bytes += bytes.len() as u64;
                    moved.push((record.page.0, Place { slot, offset: new_offset, stamp: record.stamp }));
                } else {
                    sums.removed_bytes += bytes.len() as u64;
                }
                Ok(())
            })?;
        }
        self.complete_index(&mut index, &old)?;
        let data_end = out.written;
        out.write(&footer_and_trailer(data_end, &index.to_bytes()))?;
        let (file, written) = out.finish()?;

        sums.segment = Some(Arc::new(Segment::new(Arc::clone(&self.disk), range, file, data_end, written)));
        self.slots[usize::from(slot)] = sums;
        for (page, place) in moved {
            self.sources.insert(page, place);
        }
        self.order.splice(chosen, [slot]);
        for (old_slot, segment) in old_slots.iter().zip(&old) {
            segment.retire();
            self.slots[usize::from(*old_slot)] = Slot::default();
        }
        self.stale_runs.push(range);
        Ok(())
    }

    /// Position and stamp of the replaced segments' indexes hold more than their records alone can tell.
    fn complete_index(&self, index: &mut Index, old: &[Arc<Segment>]) -> Result<(), Error> {
        for segment in old {
            let opened = Segment::open(&self.disk, segment.range)?;
            let (_, before) = opened.ok_or_else(|| segment.damaged(segment.data_end))?;
            index.at_max = index.at_max.max(before.at_max);
            index.next_stamp = before.next_stamp;
        }
        Ok(())
    }
}

/// Bytes of a segment's records: all, those that count, and those that say that a page is gone.
#[derive(Clone, Copy, Debug)]
struct Share {
    records: u64,
    live: u64,
    removed: u64,
}

/// Chooses neighbouring runs to merge: at least four, the oldest no larger than the others together.
fn choose_runs(sizes: &[u64], bytes_max: u64) -> Option<std::ops::Range<usize>> {
    for end in (MERGE_RUNS_MIN..=sizes.len()).rev() {
        let mut newer = sizes[end - 1];
        let mut best = None;
        for start in (0..end - 1).rev() {
            if newer + sizes[start] > bytes_max {
                break;
            }
            if end - start >= MERGE_RUNS_MIN && sizes[start] <= newer {
                best = Some(start..end);
            }
            newer += sizes[start];
        }
        if best.is_some() {
            return best;
        }
    }
    None
}

/// Chooses neighbouring segments more than half of which is garbage, the most garbage of all such neighbours.
fn choose_segments(shares: &[Share], bytes_max: u64) -> Option<std::ops::Range<usize>> {
    let bytes_max = bytes_max.min(SEGMENT_BYTES_MAX / 2);
    let mut best: Option<(u64, std::ops::Range<usize>)> = None;
    for start in 0..shares.len() {
        let (mut records, mut garbage) = (0u64, 0u64);
        for (end, share) in shares.iter().enumerate().skip(start).take(COMPACT_SEGMENTS_MAX) {
            records += share.records;
            // Only the oldest segments may forget what was removed.
            let kept = share.live + if start == 0 { 0 } else { share.removed };
            garbage += share.records.saturating_sub(kept);
            let single = end == start;
            if records > bytes_max && !single {
                break;
            }
            if garbage * 2 > records && best.as_ref().is_none_or(|(most, _)| garbage > *most) {
                best = Some((garbage, start..end + 1));
            }
        }
    }
    best.map(|(_, chosen)| chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_runs(sizes: &[u64], want: Option<std::ops::Range<usize>>) {
        assert_eq!(choose_runs(sizes, 64), want, "{sizes:?}");
    }

    #[test]
    fn neighbours_of_like_size_are_merged() {
        check_runs(&[], None);
        check_runs(&[8, 8, 8], None);
        check_runs(&[8, 8, 8, 8], Some(0..4));
        check_runs(&[32, 8, 8, 8], None);
        check_runs(&[32, 8, 8, 8, 8], Some(0..5));
        check_runs(&[60, 8, 8, 8, 8], Some(1..5)); // The large one would pass the limit.
        check_runs(&[8, 8, 8, 8, 60], Some(0..4)); // Not only at the new end.
        check_runs(&[40, 40, 40, 40], None);
    }

    #[test]
    fn runs_stay_few_and_are_not_rewritten_too_often() {
        let (mut sizes, mut written): (Vec<u64>, u64) = (Vec::new(), 0);
        for _ in 0..1000 {
            sizes.extend([8]);
            while let Some(chosen) = choose_runs(&sizes, 512) {
                let sum: u64 = sizes[chosen.clone()].iter().sum();
                written += sum;
                sizes.splice(chosen, [sum]);
            }
        }
        // 8,000 in runs of up to 512: at least 16 runs, and each part rewritten at most four times.
        assert!(sizes.len() <= 16 * 2 + 8, "{sizes:?}");
        assert!(written <= 4 * 8000, "{written}");
    }

    #[track_caller]
    fn check_segments(shares: &[(u64, u64, u64)], want: Option<std::ops::Range<usize>>) {
        let shares: Vec<Share> = shares
            .iter()
            .map(|(records, live, removed)| Share { records: *records, live: *live, removed: *removed })
            .collect();
        assert_eq!(choose_segments(&shares, 100), want, "{shares:?}");
    }

    #[test]
    fn segments_of_mostly_garbage_are_rewritten() {
        check_segments(&[], None);
        check_segments(&[(10, 10, 0), (10, 5, 0)], None);
        check_segments(&[(10, 10, 0), (10, 4, 0)], Some(1..2));
        check_segments(&[(10, 2, 0), (10, 3, 0)], Some(0..2));
        check_segments(&[(60, 2, 0), (60, 3, 0)], Some(0..1)); // Both together pass the limit.
        check_segments(&[(10, 10, 0), (10, 1, 9)], None); // Removals must be remembered.
        check_segments(&[(10, 1, 9)], Some(0..1)); // But not by the oldest.
        check_segments(&[(0, 0, 0)], None);
    }
}
