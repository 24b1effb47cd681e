//! The link store itself: takes links in, gives anchors out.
//!
//! INVARIANT: after [`Links::flush`] returns, everything put before it survives the death of the process; after
//! [`Links::sync`], that of the machine. When it opens it is read by `open`, and kept tidy by `maintain`.

use crate::active_segment::{ActiveSegment, resolve};
use crate::anchors::Tally;
use crate::dirty::Dirty;
use crate::error::Error;
use crate::files::Range;
use crate::rank::{Budget, RankJob, RankReport, RankTable};
use crate::record::{HEAD_BYTES, Kind, LinkReader, Record, append_links};
use crate::run::{Run, write_segment_run};
use crate::segment::Segment;
use crate::snapshot::{HostLinks, Snapshot};
use crate::sources::{Place, Sources};
use farol_base::disk::Disk;
use farol_base::{HostHash, PageId, PagePosition};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What errors call the store where no one of its files is to blame.
pub(crate) const STORE: &str = "the link store";

/// A link from a page, as the store takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutLink {
    pub target: PageId,
    pub target_host: HostHash,
    /// What a reader sees; cut at [`crate::ANCHOR_BYTES_MAX`] bytes.
    pub anchor: String,
    /// The author asks not to count it: kept, but neither ranked nor read as anchor text.
    pub nofollow: bool,
}

/// Sizes that an operator might want to change.
#[derive(Clone, Debug)]
pub struct LinksOptions {
    /// A segment is sealed once it has this many bytes; about twice as many are in memory. Default: 8 MiB.
    pub segment_bytes: usize,
    /// Most bytes that one step of [`Links::maintain`] reads and writes, so that it ends within a second or so.
    /// Default: 64 MiB.
    pub merge_bytes_max: u64,
    /// Most targets remembered for [`Links::take_dirty`], 25 bytes each. Default: 262,144.
    pub dirty_max: usize,
}

impl Default for LinksOptions {
    fn default() -> LinksOptions {
        LinksOptions { segment_bytes: 8 << 20, merge_bytes_max: 64 << 20, dirty_max: 1 << 18 }
    }
}

/// How much there is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages whose links are known.
    pub pages: u64,
    /// Links on them.
    pub links: u64,
    /// Bytes on disk.
    pub bytes: u64,
}

/// What [`Links::verify`] has read and found right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    pub segments: usize,
    pub records: u64,
    pub runs: usize,
    pub texts: u64,
}

/// A segment's number in this process, and how much of it still counts.
#[derive(Default)]
pub(crate) struct Slot {
    /// `None` for the active segment and for a free slot.
    pub segment: Option<Arc<Segment>>,
    /// Bytes of records that are their page's newest.
    pub live_bytes: u64,
    /// Bytes of records that say that a page is gone.
    pub removed_bytes: u64,
}

/// Who links to whom, on disk.
///
/// ```
/// # use farol_links::{Links, LinksOptions, OutLink};
/// # use farol_base::{HostHash, PageId, PagePosition, disk::Mem};
/// # use std::sync::Arc;
/// let mut links = Links::open(Arc::new(Mem::new()), LinksOptions::default())?;
/// let (a, b) = (PageId::of("http://a.test/"), PageId::of("http://b.test/"));
/// let target_host = HostHash::of("http://b.test");
/// let link = OutLink { target: b, target_host, anchor: "the best page".into(), nofollow: false };
/// links.put(a, HostHash::of("http://a.test"), &[link], PagePosition { file: 0, offset: 10 })?;
/// assert_eq!(links.anchors(b)?, [("the best page".to_string(), 1)]);
/// # Ok::<(), farol_links::Error>(())
/// ```
pub struct Links {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: LinksOptions,
    pub(crate) sources: Sources,
    pub(crate) slots: Vec<Slot>,
    /// Slots of sealed segments, oldest first.
    pub(crate) order: Vec<u16>,
    pub(crate) active: ActiveSegment,
    /// Runs, oldest first; together they cover the sealed segments.
    pub(crate) runs: Vec<Arc<Run>>,
    /// Ranges of segments that were compacted, whose runs hold texts that no longer count.
    pub(crate) stale_runs: Vec<Range>,
    pub(crate) dirty: Dirty,
    pub(crate) ranks: Arc<RankTable>,
    pub(crate) link_count: u64,
    pub(crate) next_stamp: u16,
    pub(crate) at_max: PagePosition,
    pub(crate) watermark: PagePosition,
    pub(crate) poisoned: bool,
    pub(crate) jobs: AtomicU64,
    /// Room for encoding one page's links; kept to save an allocation per page.
    pub(crate) scratch: Vec<u8>,
}

impl Links {
    /// Says what a page links to, in the place of whatever it linked to before.
    ///
    /// `at` is where the page stands in the archive. A page whose links have not changed costs a few bytes. Seals
    /// the active segment where that is full, which takes some tens of milliseconds every few ten thousand pages.
    ///
    /// # Errors
    /// Nothing has been taken in where this fails; a full disk ([`Error::is_transient`]) can be tried again.
    pub fn put(
        &mut self,
        page: PageId,
        host: HostHash,
        links: &[OutLink],
        at: PagePosition,
    ) -> Result<(), Error> {
        self.make_room()?;
        let mut kept = std::mem::take(&mut self.scratch);
        kept.clear();
        let count = append_links(&mut kept, host, links);
        let record =
            Record { kind: Kind::Links, stamp: self.next_stamp, page, host, at, count, links: &kept };
        let result = self.put_record(&record);
        self.scratch = kept;
        result
    }

    fn put_record(&mut self, record: &Record<'_>) -> Result<(), Error> {
        let earlier = self.newest_body(record.page.0)?;
        let before = earlier.as_deref().and_then(Record::read);
        self.at_max = self.at_max.max(record.at);
        match &before {
            Some(before) if before.host == record.host && before.links == record.links => {
                self.note_position(record.at);
                return Ok(());
            }
            Some(before) => self.mark_changes(before, record),
            None => {
                for link in record.links().filter(|link| link.speaks(record.page)) {
                    self.dirty.mark(link.target);
                }
            }
        }
        self.next_stamp = self.next_stamp.wrapping_add(1);
        let (offset, bytes) = self.active.append(record);
        let slot = self.active.slot;
        let place = Place { slot, offset, stamp: record.stamp };
        let replaced = self.sources.insert(record.page.0, place);
        self.slots[usize::from(slot)].live_bytes += u64::from(bytes);
        self.link_count += u64::from(record.count);
        self.discount(replaced, earlier.as_deref());
        Ok(())
    }

    /// Forgets a page's links. A page that is not known is no error.
    ///
    /// # Errors
    /// As for [`Links::put`].
    pub fn remove(&mut self, page: PageId) -> Result<(), Error> {
        self.make_room()?;
        let Some(earlier) = self.newest_body(page.0)? else { return Ok(()) };
        if let Some(before) = Record::read(&earlier) {
            for link in before.links().filter(|link| link.speaks(page)) {
                self.dirty.mark(link.target);
            }
        }
        let at = PagePosition::default();
        let gone = Record {
            kind: Kind::Removed,
            stamp: self.next_stamp,
            page,
            host: HostHash(0),
            at,
            count: 0,
            links: &[],
        };
        let (_, bytes) = self.active.append(&gone);
        self.slots[usize::from(self.active.slot)].removed_bytes += u64::from(bytes);
        let replaced = self.sources.remove(page.0);
        self.discount(replaced, Some(&earlier));
        Ok(())
    }

    /// Says that the archive has been taken in up to here, where its last records were no pages with links.
    ///
    /// # Errors
    /// As for [`Links::put`].
    pub fn advance(&mut self, at: PagePosition) -> Result<(), Error> {
        if at > self.at_max {
            self.make_room()?;
            self.at_max = at;
            self.note_position(at);
        }
        Ok(())
    }

    /// Hands everything to the operating system, so that it survives the death of this process. Dropping the store
    /// does not do this.
    ///
    /// # Errors
    /// Where the disk is full the call can be repeated, and goes on where it stopped.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.check_poison()?;
        self.active.flush()?;
        self.watermark = self.at_max;
        Ok(())
    }

    /// Makes everything survive a power cut.
    ///
    /// # Errors
    /// After a failed sync the store takes nothing more until it is opened again: nobody knows what is on the disk.
    pub fn sync(&mut self) -> Result<(), Error> {
        self.flush()?;
        self.sync_active()
    }

    fn sync_active(&mut self) -> Result<(), Error> {
        let synced = self.active.sync();
        self.poisoned |= synced.is_err();
        synced
    }

    /// The position of the archive up to which everything is with the operating system. Pages read again from
    /// there on may be put again.
    pub fn watermark(&self) -> PagePosition {
        self.watermark
    }

    /// What other pages call this one: distinct texts with their weights, heaviest first, at most
    /// [`crate::ANCHORS_MAX`].
    ///
    /// A text weighs as much as there are links from other hosts that have it; n links from the same host add
    /// 1 + floor(log2 n). For much-linked pages it is the newest few thousand links that count.
    ///
    /// # Errors
    /// Where a run cannot be read or is damaged.
    pub fn anchors(&self, target: PageId) -> Result<Vec<(String, u32)>, Error> {
        let mut tally = Tally::default();
        self.active.find(target.0, &mut |record, source, link| {
            !self.is_in_active(source, record) || tally.add(link.anchor, link.other_host)
        });
        for run in self.runs.iter().rev() {
            if tally.is_full() {
                break;
            }
            run.find(target.0, &mut |text| {
                !self.sources.is_current(text.source, text.stamp) || tally.add(text.text, text.other_host)
            })?;
        }
        Ok(tally.finish())
    }

    /// Whether this page's own links are known: it was put, and not removed since.
    pub fn knows(&self, page: PageId) -> bool {
        self.sources.get(page.0).is_some()
    }

    /// Up to `limit` targets whose anchor texts changed since they were last taken, longest waiting first.
    ///
    /// At most `dirty_max` wait; others are forgotten, and so are all when the process ends. Forgotten pages get
    /// their new anchors when they are next fetched themselves.
    pub fn take_dirty(&mut self, limit: usize) -> Vec<PageId> {
        self.dirty.take(limit).into_iter().map(PageId).collect()
    }

    /// How much there is.
    pub fn counts(&self) -> Counts {
        let segments = self.order.iter().filter_map(|slot| self.segment(*slot)).map(|segment| segment.bytes);
        let runs = self.runs.iter().map(|run| run.bytes);
        let bytes = segments.chain(runs).sum::<u64>() + self.active.len() as u64;
        Counts { pages: self.sources.len() as u64, links: self.link_count, bytes }
    }

    /// The ranks as last computed; empty before that. Cheap, and stays as it is while new ones are computed.
    pub fn ranks(&self) -> Arc<RankTable> {
        Arc::clone(&self.ranks)
    }

    /// Takes a snapshot from which ranks are computed, on this thread or another, while links go on coming in.
    ///
    /// Costs 4 bytes per page and a copy of the active segment.
    pub fn snapshot_for_ranks(&self) -> RankJob {
        let number = self.jobs.fetch_add(1, Ordering::Relaxed);
        let scratch = format!("edges-{number}.tmp");
        RankJob::new(Snapshot::of(self), Arc::clone(&self.ranks), Arc::clone(&self.disk), scratch)
    }

    /// Makes these the current ranks, also for the next opening.
    ///
    /// # Errors
    /// Where they cannot be written; then they are current for this process only.
    pub fn install(&mut self, table: RankTable) -> Result<(), Error> {
        self.ranks = Arc::new(table);
        self.ranks.save(&self.disk)
    }

    /// Computes ranks here and now, starting from the previous ones, and makes them current.
    ///
    /// # Errors
    /// Where segments cannot be read or the scratch file cannot be written.
    pub fn compute_ranks(&mut self, budget: Budget) -> Result<RankReport, Error> {
        let ranking = self.snapshot_for_ranks().run(budget)?;
        self.install(ranking.table)?;
        Ok(ranking.report)
    }

    /// How many links lead from each host to each other host, links not to be counted left out, ordered by hosts.
    ///
    /// Reads every record: some hundred megabytes per second.
    ///
    /// # Errors
    /// Where segments cannot be read.
    pub fn host_links(&self) -> Result<impl Iterator<Item = (HostHash, HostHash, u64)>, Error> {
        Snapshot::of(self).host_links(&|_| true)
    }

    /// Takes a snapshot from which links between hosts are counted, on this thread or another, while links go on coming in.
    ///
    /// Costs what [`Links::snapshot_for_ranks`] does.
    pub fn snapshot_for_hosts(&self) -> HostLinks {
        HostLinks::of(self)
    }

    /// Reads everything on disk and compares it with its checksums and with what is in memory.
    ///
    /// # Errors
    /// [`Error::Damaged`] for the first thing that is not right.
    pub fn verify(&self) -> Result<Verified, Error> {
        let mut verified =
            Verified { segments: self.order.len() + 1, runs: self.runs.len(), ..Verified::default() };
        let (mut current, mut links) = (0u64, 0u64);
        for slot in self.order.iter().copied().chain([self.active.slot]) {
            let file = self.segment(slot).map_or(self.active.file(), |segment| &segment.file).to_string();
            let mut visit = |offset: u32, body: &[u8]| {
                verified.records += 1;
                let damaged = |what| Error::damaged(&file, u64::from(offset), what);
                let record = Record::read(body).ok_or_else(|| damaged("a record is not one of ours"))?;
                if record.links().count() != record.count as usize {
                    return Err(damaged("a record does not hold as many links as it says"));
                }
                let place = Place { slot, offset, stamp: record.stamp };
                if record.kind == Kind::Links && self.sources.get(record.page.0) == Some(place) {
                    current += 1;
                    links += u64::from(record.count);
                }
                Ok(())
            };
            match self.segment(slot) {
                Some(segment) => segment.walk(&mut visit)?,
                None => self.active.walk(&mut visit)?,
            }
        }
        if (current, links) != (self.sources.len() as u64, self.link_count) {
            return Err(Error::damaged(STORE, 0, "the segments do not hold what their indexes say"));
        }
        for run in &self.runs {
            verified.texts += run.verify()?;
        }
        Ok(verified)
    }

    pub(crate) fn segment(&self, slot: u16) -> Option<&Arc<Segment>> {
        self.slots.get(usize::from(slot)).and_then(|slot| slot.segment.as_ref())
    }

    /// A slot that nobody uses, new where there is none.
    pub(crate) fn free_slot(&mut self) -> Result<u16, Error> {
        let active = usize::from(self.active.slot);
        let free = self.slots.iter().enumerate().position(|(i, slot)| slot.segment.is_none() && i != active);
        let index = free.unwrap_or(self.slots.len());
        // The last number stays unused: it keeps `slots.len()` within 16 bits.
        let slot = u16::try_from(index).ok().filter(|slot| *slot < u16::MAX);
        let slot = slot.ok_or(Error::Full)?;
        if free.is_none() {
            self.slots.push(Slot::default());
        }
        Ok(slot)
    }

    /// Whether the record at this byte of the active segment is the newest of its page.
    pub(crate) fn is_in_active(&self, source: u64, record: u32) -> bool {
        self.sources.get(source).is_some_and(|place| place.slot == self.active.slot && place.offset == record)
    }

    pub(crate) fn check_poison(&self) -> Result<(), Error> {
        if self.poisoned { Err(Error::Poisoned { file: self.active.file().to_string() }) } else { Ok(()) }
    }

    /// The body of a page's newest record.
    pub(crate) fn newest_body(&self, page: u64) -> Result<Option<Vec<u8>>, Error> {
        let Some(place) = self.sources.get(page) else { return Ok(None) };
        if place.slot == self.active.slot {
            let body = self.active.body_at(place.offset).map(<[u8]>::to_vec);
            let damaged = || Error::damaged(self.active.file(), place.offset.into(), "a record is not there");
            return body.ok_or_else(damaged).map(Some);
        }
        let segment = self.segment(place.slot);
        let segment = segment.ok_or_else(|| Error::damaged(STORE, 0, "a segment is not there"))?;
        segment.body_at(place.offset).map(Some)
    }

    /// Takes a replaced record out of the sums.
    fn discount(&mut self, place: Option<Place>, body: Option<&[u8]>) {
        let (Some(place), Some(body)) = (place, body) else { return };
        let slot = &mut self.slots[usize::from(place.slot)];
        slot.live_bytes = slot.live_bytes.saturating_sub((HEAD_BYTES + body.len()) as u64);
        let count = Record::read(body).map_or(0, |record| record.count);
        self.link_count = self.link_count.saturating_sub(u64::from(count));
    }

    fn note_position(&mut self, at: PagePosition) {
        let (page, host, count) = (PageId(0), HostHash(0), 0);
        self.active.append(&Record { kind: Kind::Position, stamp: 0, page, host, at, count, links: &[] });
    }

    /// Marks the targets that gained or lost a text between two records of a page.
    fn mark_changes(&mut self, before: &Record<'_>, after: &Record<'_>) {
        let texts = |record: &Record<'_>, links: LinkReader<'_>| {
            let mut texts: Vec<(u64, bool, Vec<u8>)> = links
                .filter(|link| link.speaks(record.page))
                .map(|link| (link.target, link.other_host, link.anchor.to_vec()))
                .collect();
            texts.sort_unstable();
            texts
        };
        let (before, after) = (texts(before, before.links()), texts(after, after.links()));
        let (mut old, mut new) = (before.iter().peekable(), after.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => break,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some(a), Some(b)) => a.cmp(b),
            };
            let gone = if order.is_le() { old.next() } else { None };
            let come = if order.is_ge() { new.next() } else { None };
            if let (Some((target, ..)), None) | (None, Some((target, ..))) = (gone, come) {
                self.dirty.mark(*target);
            }
        }
    }

    /// Seals the active segment where it is full.
    fn make_room(&mut self) -> Result<(), Error> {
        self.check_poison()?;
        if self.active.len() >= self.options.segment_bytes { self.seal() } else { Ok(()) }
    }

    /// Ends the active segment and starts another. Every step can be repeated if a later one fails.
    fn seal(&mut self) -> Result<(), Error> {
        let slot = self.active.slot;
        let segment = self.active.seal(self.at_max, self.next_stamp)?;
        self.sync_active()?;
        self.watermark = self.at_max;
        // The postings of a record follow each other: whether it still counts is asked once for all of them.
        let records = self.active.postings().chunk_by(|a, b| a.record == b.record);
        let current = records.filter(|postings| {
            let source = resolve(self.active.bytes(), &postings[0]).map(|(source, ..)| source);
            source.is_some_and(|source| self.is_in_active(source, postings[0].record))
        });
        let postings = current.flatten().copied().collect();
        let run = write_segment_run(&self.disk, segment.range, self.active.bytes(), postings)?;
        let next_slot = self.free_slot()?;
        self.active = ActiveSegment::create(&self.disk, segment.range.last + 1, next_slot)?;
        self.slots[usize::from(slot)].segment = Some(Arc::new(segment));
        self.order.push(slot);
        self.runs.push(Arc::new(run));
        Ok(())
    }
}
