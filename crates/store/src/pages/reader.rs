//! Reads the archive while it grows.
//!
//! A reader sees exactly what [`Archive::append`](super::Archive::append) has answered for, never half a
//! write.

use super::Archived;
use super::archive::{file_name, len, list};
use super::group::Groups;
use crate::Error;
use farol_base::PagePosition;
use farol_base::disk::Disk;
use farol_base::sync::RwLock;
use std::sync::Arc;

/// How much is read at a time for one page, which usually takes less, and for a scan.
const PAGE_PIECE_BYTES: usize = 16 << 10;
const SCAN_PIECE_BYTES: usize = 256 << 10;

/// What the archive has, as its writer tells its readers.
#[derive(Clone, Debug)]
pub(super) struct Published(Arc<RwLock<PublishedState>>);

#[derive(Debug)]
struct PublishedState {
    files: Vec<u32>,
    end: PagePosition,
}

impl Published {
    pub fn new(files: Vec<u32>, end: PagePosition) -> Published {
        Published(Arc::new(RwLock::new(PublishedState { files, end })))
    }

    pub fn set(&self, end: PagePosition) {
        let mut state = self.0.write();
        state.end = end;
        if state.files.last().is_none_or(|last| *last < end.file) {
            state.files.push(end.file);
        }
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, PublishedState> {
        self.0.read()
    }
}

/// Reads entries, from as many threads as there are clones.
#[derive(Clone, Debug)]
pub struct ArchiveReader {
    disk: Arc<dyn Disk>,
    published: Published,
}

impl ArchiveReader {
    pub(super) fn new(disk: Arc<dyn Disk>, published: Published) -> ArchiveReader {
        ArchiveReader { disk, published }
    }

    /// Reads the archive of a folder without writing to it, as far as it reaches now.
    ///
    /// A torn tail stays, and shows up as [`Error::Torn`] at the end of a scan.
    pub fn open(disk: Arc<dyn Disk>) -> Result<ArchiveReader, Error> {
        let files = list(&*disk)?;
        let end = match files.last() {
            Some(file) => PagePosition { file: *file, offset: len(&*disk, *file)? },
            None => PagePosition::default(),
        };
        Ok(ArchiveReader { disk, published: Published::new(files, end) })
    }

    /// Where the archive ends now.
    pub fn end(&self) -> PagePosition {
        self.published.read().end
    }

    /// Reads the entry at a position that [`Archive::append`](super::Archive::append) or a scan has given.
    ///
    /// # Errors
    /// [`Error::NoPage`] where none begins there, [`Error::Damaged`] where it cannot be read any more.
    pub fn read(&self, at: PagePosition) -> Result<Archived, Error> {
        let file = file_name(at.file);
        let no_page = || Error::NoPage { file: file_name(at.file), offset: at.offset };
        let limit = self.limit(at).ok_or_else(no_page)?;
        let mut groups = Groups::new(self.disk.clone(), &file, at.offset, limit, PAGE_PIECE_BYTES);
        match groups.next()? {
            Some(group) if group.start == at.offset => Ok(group.archived),
            _ => Err(no_page()),
        }
    }

    /// Reads all entries from a position on, in the order in which they were appended.
    ///
    /// Each comes with its own position and with that at which the next one begins. Damage is told once, and
    /// the scan goes on behind it. When it has given `None`, it can be asked again after more was appended.
    pub fn scan(&self, from: PagePosition) -> Scan {
        Scan { reader: self.clone(), at: from, groups: None, failed: false }
    }

    /// How far the file of a position may be read; `None` where the archive does not reach there.
    fn limit(&self, at: PagePosition) -> Option<u64> {
        let state = self.published.read();
        if at >= state.end || state.files.binary_search(&at.file).is_err() {
            return None;
        }
        Some(if at.file == state.end.file { state.end.offset } else { u64::MAX })
    }

    /// The first file at or after a number.
    fn file_from(&self, file: u32) -> Option<u32> {
        let state = self.published.read();
        state.files.iter().copied().find(|known| *known >= file)
    }
}

/// A scan over the archive; see [`ArchiveReader::scan`].
#[derive(Debug)]
pub struct Scan {
    reader: ArchiveReader,
    at: PagePosition,
    /// Of the file of `at`, standing at its offset.
    groups: Option<Groups>,
    failed: bool,
}

impl Scan {
    /// Where the scan stands: everything before was given.
    pub fn position(&self) -> PagePosition {
        self.at
    }

    fn groups(&mut self, limit: u64) -> &mut Groups {
        let groups = self.groups.get_or_insert_with(|| {
            let file = file_name(self.at.file);
            Groups::new(self.reader.disk.clone(), &file, self.at.offset, limit, SCAN_PIECE_BYTES)
        });
        groups.set_end(limit);
        groups
    }

    /// Goes behind the damage at an offset; `at` is left there.
    fn skip_damage(&mut self, offset: u64, limit: u64) -> Result<(), Error> {
        let groups = self.groups(limit);
        let next = if groups.skip_damage(offset)? { Some(groups.position()) } else { None };
        match next {
            Some(offset) => self.at.offset = offset,
            None => self.leave_file(),
        }
        Ok(())
    }

    fn leave_file(&mut self) {
        self.groups = None;
        let end = self.reader.end();
        self.at = match self.reader.file_from(self.at.file.saturating_add(1)) {
            Some(file) => PagePosition { file, offset: 0 },
            None => end.max(self.at),
        };
    }
}

impl Iterator for Scan {
    type Item = Result<(PagePosition, PagePosition, Archived), Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed && self.at < self.reader.end() {
            let Some(limit) = self.reader.limit(self.at) else {
                self.leave_file();
                continue;
            };
            let file = self.at.file;
            match self.groups(limit).next() {
                Ok(Some(group)) => {
                    let position = |offset| PagePosition { file, offset };
                    self.at = position(group.end);
                    return Some(Ok((position(group.start), self.at, group.archived)));
                }
                Ok(None) => self.leave_file(),
                Err(error) => {
                    let skipped = match &error {
                        Error::Damaged { offset, .. } | Error::Torn { offset, .. } => {
                            self.skip_damage(*offset, limit).is_ok()
                        }
                        _ => false,
                    };
                    self.failed = !skipped;
                    return Some(Err(error));
                }
            }
        }
        None
    }
}
