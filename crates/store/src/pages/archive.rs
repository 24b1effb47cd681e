//! The sequence of WARC files that pages are appended to.
//!
//! INVARIANT: [`Archive::end`] is the length of the last file, and everything before it is whole exchanges. A
//! write that fails is cut back to it at once; where that does not work either, the archive refuses to go on
//! until it is opened again, and opening cuts.
//!
//! Only the last file can have a torn tail, because each file is synced before the next begins. Opening reads
//! that file from the last checkpoint on, which is at most 16 MiB behind the last sync.

use super::checkpoint;
use super::encode::{Encoded, Encoder};
use super::group::Groups;
use super::reader::{ArchiveReader, Published};
use crate::{Cut, Error};
use farol_base::PagePosition;
use farol_base::disk::Disk;
use std::sync::Arc;

/// So much of the newest stays in the machine's cache, for an index that is a little behind.
const CACHED_BYTES: u64 = 128 << 20;
/// How far a sync must be ahead of the checkpoint to move it: decompressing so much again takes about 0.2 s.
const CHECKPOINT_BYTES: u64 = 16 << 20;

/// How the archive's files are made.
#[derive(Clone, Debug)]
pub struct ArchiveOptions {
    /// A batch that would make a file longer than this begins the next file. Default: 1 GiB, as the WARC
    /// standard recommends.
    pub file_bytes_max: u64,
    /// Name and version of this program, for `warcinfo`.
    pub software: String,
    /// Who runs it; left out where empty.
    pub operator: String,
    /// The user agent that pages are asked for with; left out where empty.
    pub user_agent: String,
    /// How far the archive is known to have reached. Nothing before it is cut as a torn tail; and where the archive ends
    /// earlier, it goes on in a new file, so that no position is used for a second page. Default: the beginning.
    pub confirmed: PagePosition,
}

impl Default for ArchiveOptions {
    fn default() -> ArchiveOptions {
        ArchiveOptions {
            file_bytes_max: 1 << 30,
            software: concat!("Farol/", env!("CARGO_PKG_VERSION")).to_string(),
            operator: String::new(),
            user_agent: String::new(),
            confirmed: PagePosition::default(),
        }
    }
}

/// What opening found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// The torn tail that was cut off, where a crash had left one.
    pub cut: Option<Cut>,
    /// Where the archive ends now.
    pub end: PagePosition,
}

/// The archive, to be written to. There must be only one of a folder.
#[derive(Debug)]
pub struct Archive {
    disk: Arc<dyn Disk>,
    options: ArchiveOptions,
    published: Published,
    end: PagePosition,
    /// Sum of the lengths of all files but the last.
    bytes_before: u64,
    checkpoint: PagePosition,
    /// What comes next begins the next file.
    is_closed: bool,
    poisoned: bool,
}

impl Archive {
    /// Opens the archive of a folder, or begins one, and cuts a torn tail.
    ///
    /// # Errors
    /// Where the folder cannot be read or the tail not be cut.
    pub fn open(disk: Arc<dyn Disk>, options: ArchiveOptions) -> Result<(Archive, Recovery), Error> {
        let files = list(&*disk)?;
        let mut bytes_before = 0;
        for file in files.iter().rev().skip(1) {
            bytes_before += len(&*disk, *file)?;
        }
        let (mut end, cut) = match files.last() {
            Some(last) => recover(&disk, *last, options.confirmed)?,
            None => (PagePosition::default(), None),
        };
        if end < options.confirmed {
            bytes_before += end.offset;
            let PagePosition { file, offset } = options.confirmed;
            end = PagePosition { file: if offset > 0 { file + 1 } else { file }, offset: 0 };
        }
        let archive = Archive {
            published: Published::new(files, end),
            disk,
            options,
            end,
            bytes_before,
            checkpoint: end,
            is_closed: false,
            poisoned: false,
        };
        Ok((archive, Recovery { cut, end }))
    }

    /// Writes exchanges, in one write, and answers with their positions.
    ///
    /// # Errors
    /// All are written or none. After a full disk ([`Error::is_disk_full`]) the same batch can be tried
    /// again.
    pub fn append(&mut self, batch: &[Encoded]) -> Result<Vec<PagePosition>, Error> {
        if self.poisoned {
            return Err(Error::Poisoned { store: "the archive" });
        }
        let Some(first) = batch.first() else { return Ok(Vec::new()) };
        let batch_bytes: u64 = batch.iter().map(|encoded| encoded.bytes.len() as u64).sum();
        let is_full = self.end.offset + batch_bytes > self.options.file_bytes_max;
        let rolls = self.end.offset > 0 && (is_full || self.is_closed);
        let mut at = self.end;
        if rolls {
            // From here on opening will not look into this file any more.
            self.sync()?;
            at = PagePosition { file: self.end.file + 1, offset: 0 };
        }
        let mut bytes = Vec::with_capacity(usize::try_from(batch_bytes).unwrap_or(0) + 1024);
        if at.offset == 0 {
            bytes.extend_from_slice(&self.warcinfo(first, at.file));
        }
        let mut positions = Vec::with_capacity(batch.len());
        for encoded in batch {
            positions.push(PagePosition { file: at.file, offset: at.offset + bytes.len() as u64 });
            bytes.extend_from_slice(&encoded.bytes);
        }
        let file = file_name(at.file);
        if let Err(source) = self.disk.append(&file, &bytes) {
            self.poisoned = self.undo(&file, at.offset).is_err();
            return Err(Error::io("append to", &file)(source));
        }
        if rolls {
            self.bytes_before += self.end.offset;
            self.is_closed = false;
        }
        self.end = PagePosition { file: at.file, offset: at.offset + bytes.len() as u64 };
        self.published.set(self.end);
        Ok(positions)
    }

    /// Closes the last file, so that it can be copied while the archive goes on: it would survive a power cut, and what
    /// comes next begins another one. Answers where it ends. Opening again opens it too.
    pub fn close_file(&mut self) -> Result<PagePosition, Error> {
        self.sync()?;
        self.is_closed = true;
        Ok(self.end)
    }

    /// Where the next exchange goes; everything before is whole.
    pub fn end(&self) -> PagePosition {
        self.end
    }

    /// Returns once everything appended so far would survive a power cut.
    ///
    /// # Errors
    /// After a failed sync the archive refuses writes until it is opened again: what the machine dropped is
    /// not known.
    pub fn sync(&mut self) -> Result<(), Error> {
        if self.poisoned {
            return Err(Error::Poisoned { store: "the archive" });
        }
        if self.end.offset == 0 {
            return Ok(());
        }
        let file = file_name(self.end.file);
        self.disk.sync(&file).map_err(|source| {
            self.poisoned = true;
            Error::io("sync", &file)(source)
        })?;
        self.drop_cache();
        let moved = self.end.file != self.checkpoint.file
            || self.end.offset >= self.checkpoint.offset.saturating_add(CHECKPOINT_BYTES);
        if moved {
            match checkpoint::write(&*self.disk, self.end) {
                Ok(()) => self.checkpoint = self.end,
                // Only opening becomes slower.
                Err(error) => tracing::warn!(%error, "the archive's checkpoint could not be written"),
            }
        }
        Ok(())
    }

    /// Gives back the memory of what was written a while ago. A crawl writes tens of megabytes a second,
    /// reads hardly any of it again, and would push everything else out of the machine's cache.
    fn drop_cache(&self) {
        let Some(upto) = self.end.offset.checked_sub(CACHED_BYTES) else { return };
        self.disk.drop_cache(&file_name(self.end.file), upto);
        if let Some(before) = self.end.file.checked_sub(1) {
            self.disk.drop_cache(&file_name(before), self.options.file_bytes_max);
        }
    }

    /// Size of all files together.
    pub fn bytes(&self) -> u64 {
        self.bytes_before + self.end.offset
    }

    /// The archive's files and how long each is.
    pub fn lengths(&self) -> Result<Vec<(u32, u64)>, Error> {
        lengths(&*self.disk)
    }

    /// A reader that sees what is appended, as soon as it is.
    pub fn reader(&self) -> ArchiveReader {
        ArchiveReader::new(self.disk.clone(), self.published.clone())
    }

    /// Takes a failed write back.
    fn undo(&self, file: &str, good: u64) -> std::io::Result<()> {
        match self.disk.len(file)? {
            None => Ok(()),
            Some(_) if good == 0 => self.disk.remove(file),
            Some(_) => self.disk.truncate(file, good),
        }
    }

    fn warcinfo(&self, first: &Encoded, file: u32) -> Vec<u8> {
        let options = &self.options;
        let mut fields = vec![("software".to_string(), options.software.clone())];
        for (name, value) in
            [("operator", &options.operator), ("http-header-user-agent", &options.user_agent)]
        {
            if !value.is_empty() {
                fields.push((name.to_string(), value.clone()));
            }
        }
        fields.push(("format".to_string(), "WARC File Format 1.1".to_string()));
        let reference = "http://iipc.github.io/warc-specifications/specifications/warc-format/warc-1.1/";
        fields.push(("conformsTo".to_string(), reference.to_string()));
        Encoder::new(Encoder::LEVEL).warcinfo(first.spare_id, first.fetched, &file_name(file), &fields)
    }
}

/// Reads the last file from its checkpoint on, and cuts it after its last whole exchange. Damage before that
/// one, or before what is confirmed, stays where it is; scans tell it and go on behind it.
fn recover(
    disk: &Arc<dyn Disk>,
    file: u32,
    confirmed: PagePosition,
) -> Result<(PagePosition, Option<Cut>), Error> {
    let name = file_name(file);
    let file_bytes = len(&**disk, file)?;
    let checkpoint = checkpoint::read(&**disk).filter(|at| at.file == file && at.offset <= file_bytes);
    let mut good = checkpoint.map_or(0, |at| at.offset);
    let mut groups = Groups::new(disk.clone(), &name, good, file_bytes, 1 << 20);
    loop {
        match groups.next() {
            Ok(Some(group)) => good = group.end,
            Ok(None) => {
                // Up to here there may still be the file's own record.
                good = groups.position();
                break;
            }
            // Whole exchanges behind it tell damage from a torn tail: nothing of them may be cut.
            Err(Error::Torn { offset, .. } | Error::Damaged { offset, .. }) => {
                if !groups.skip_damage(offset)? {
                    break;
                }
            }
            Err(error) => return Err(error),
        }
    }
    // What is confirmed was whole once. A file that has become shorter has nothing left to keep behind `good`.
    if confirmed.file == file && confirmed.offset <= file_bytes {
        good = good.max(confirmed.offset);
    }
    if good == file_bytes {
        return Ok((PagePosition { file, offset: good }, None));
    }
    disk.truncate(&name, good).map_err(Error::io("cut the torn tail of", &name))?;
    let cut = Cut { file: name, offset: good, bytes: file_bytes - good };
    Ok((PagePosition { file, offset: good }, Some(cut)))
}

/// The files of an archive and how long each is, as they lie on the disk.
pub fn lengths(disk: &dyn Disk) -> Result<Vec<(u32, u64)>, Error> {
    list(disk)?.into_iter().map(|file| Ok((file, len(disk, file)?))).collect()
}

/// `farol-00012.warc.gz`.
pub fn file_name(file: u32) -> String {
    format!("farol-{file:05}.warc.gz")
}

/// The number of a file of the archive, by its name.
pub fn file_number(name: &str) -> Option<u32> {
    let digits = name.strip_prefix("farol-")?.strip_suffix(".warc.gz")?;
    let number = digits.parse().ok()?;
    (file_name(number) == name).then_some(number)
}

/// The numbers of the archive's files, sorted.
pub(super) fn list(disk: &dyn Disk) -> Result<Vec<u32>, Error> {
    let names = disk.list().map_err(Error::io("list", "the archive's folder"))?;
    let mut files: Vec<u32> = names.iter().filter_map(|name| file_number(name)).collect();
    files.sort_unstable();
    Ok(files)
}

pub(super) fn len(disk: &dyn Disk, file: u32) -> Result<u64, Error> {
    let name = file_name(file);
    Ok(disk.len(&name).map_err(Error::io("read", &name))?.unwrap_or(0))
}
