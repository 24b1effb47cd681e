//! The files that make up the store at one moment, to be copied elsewhere while it goes on.
//!
//! Bucket files never change, level-0 files and segments of the WAL only grow at their end: so a moment is a list of
//! names and lengths, and the manifest of that moment, which is small. The files are pinned: compactions go on, and what
//! they replace is deleted once nobody copies it any more.
//!
//! PROMISE: a folder with these files, each as long as it says, opens as the store that was flushed last before. A name
//! with a length always means the same bytes, so who copied them once need not do it again.

use super::bucket::{Bucket, Damage};
use super::compaction::obsolete_files::Pins;
use super::engine::Engine;
use super::manifest::{self, ManifestEntry};
use crate::Error;
use crate::urls::Source;
use farol_base::PagePosition;
use farol_base::disk::Disk;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Read at a time when a file is copied.
const PIECE_BYTES: u64 = 1 << 20;

/// One file of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFile {
    pub name: String,
    /// It counts up to here; more may follow meanwhile.
    pub bytes: u64,
    /// Nothing will ever follow.
    pub is_final: bool,
}

/// The files of a store at one moment; they stay as long as this does.
#[derive(Debug)]
pub struct StoreFiles {
    disk: Arc<dyn Disk>,
    files: Vec<StoreFile>,
    manifest: String,
    watermark: PagePosition,
    numbers: BTreeMap<Source, u64>,
    _pins: Pins,
}

impl StoreFiles {
    /// All of them, the manifest last.
    pub fn files(&self) -> &[StoreFile] {
        &self.files
    }

    /// End of what was taken in of the archive.
    pub fn watermark(&self) -> PagePosition {
        self.watermark
    }

    /// The last number of each sender.
    pub fn numbers(&self) -> &BTreeMap<Source, u64> {
        &self.numbers
    }

    /// Reads from an offset of a file, as [`Disk::read_at`] does, but not behind what counts.
    pub fn read_at(&self, file: &StoreFile, offset: u64, into: &mut [u8]) -> Result<usize, Error> {
        let room = usize::try_from(file.bytes.saturating_sub(offset)).unwrap_or(usize::MAX);
        let into = match into.len().min(room) {
            0 => return Ok(0),
            count => &mut into[..count],
        };
        if file.name == manifest::FILE {
            let from = &self.manifest.as_bytes()[offset as usize..];
            into.copy_from_slice(&from[..into.len()]);
            return Ok(into.len());
        }
        self.disk.read_at(&file.name, offset, into).map_err(Error::io("read", &file.name))
    }

    /// Copies all of it to an empty folder, such that it survives a power cut.
    pub fn copy_to(&self, disk: &dyn Disk) -> Result<(), Error> {
        let mut piece = Vec::new();
        for file in &self.files {
            let mut offset = 0;
            while offset < file.bytes {
                piece.resize(PIECE_BYTES.min(file.bytes - offset) as usize, 0);
                if self.read_at(file, offset, &mut piece)? < piece.len() {
                    let what = "the file ends too early".to_string();
                    return Err(Error::Damaged { file: file.name.clone(), offset, what });
                }
                disk.append(&file.name, &piece).map_err(Error::io("append to", &file.name))?;
                offset += piece.len() as u64;
            }
            disk.sync(&file.name).map_err(Error::io("sync", &file.name))?;
        }
        Ok(())
    }
}

impl Engine {
    /// The files of the store as it was flushed last.
    pub fn files(&self) -> Result<StoreFiles, Error> {
        if let Some(damage) = self.buckets.iter().find_map(|bucket| bucket.damage.clone()) {
            return Err(Damage::into(damage));
        }
        let mut files = Vec::with_capacity(2 * self.buckets.len() + 2);
        for bucket in &self.buckets {
            if let Some(file) = bucket.file() {
                files.push(StoreFile { name: file.file.clone(), bytes: file.bytes, is_final: true });
            }
            if !bucket.runs.is_empty() {
                let (name, bytes) = (bucket.level0_file(), bucket.level0_bytes());
                files.push(StoreFile { name, bytes, is_final: false });
            }
        }
        let segments = self.wal.segment_files();
        files.extend(segments.into_iter().map(|(name, bytes)| StoreFile { name, bytes, is_final: false }));
        let pins = self.obsolete_files.pin(files.iter().map(|file| file.name.clone()).collect());
        let list: Vec<ManifestEntry> = self.buckets.iter().map(Bucket::listed).collect();
        let manifest = manifest::text(&list, self.next_number.load(Ordering::Relaxed));
        let bytes = manifest.len() as u64;
        // Without it the rest is no store: so it comes last.
        files.push(StoreFile { name: manifest::FILE.to_string(), bytes, is_final: false });
        Ok(StoreFiles {
            disk: self.disk.clone(),
            files,
            manifest,
            watermark: self.wal.watermark,
            numbers: self.wal.numbers(),
            _pins: pins,
        })
    }
}
