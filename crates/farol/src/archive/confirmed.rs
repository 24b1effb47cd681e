//! How far the archive is known to have reached: what a lost or shortened WARC file has taken with it can be
//! told.
//!
//! The last file's length is known from those that follow the archive: each remembers how far it has taken it
//! in. Of the files before it the tables keep the length, `pages 00012` among the marks: some 20 bytes for each
//! gigabyte of pages. Records that were found damaged, told, and left behind by a repair are kept there too
//! (`damaged 00012/345`).

use super::position::{read_position, write_position};
use crate::fabric::{Table, Tables};
use crate::progress::grouped;
use anyhow::Result;
use farol_base::PagePosition;
use farol_store::pages::file_name;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

const LENGTH: &str = "pages ";
const DAMAGED: &str = "damaged ";
/// Where the archive went on after a loss.
const END: &str = "pages end";

/// A WARC file that is missing, or shorter than it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostPages {
    pub file: u32,
    /// Bytes that are left; `None` where the file is gone.
    pub left: Option<u64>,
    /// Bytes that it had, where that is known.
    pub had: Option<u64>,
}

impl fmt::Display for LostPages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = file_name(self.file);
        match (self.left, self.had) {
            (Some(left), Some(had)) => {
                write!(f, "{file} ends at byte {}, and had {} bytes", grouped(left), grouped(had))
            }
            (_, Some(had)) => write!(f, "{file} is missing, and had {} bytes", grouped(had)),
            (_, None) => write!(f, "{file} is missing"),
        }
    }
}

/// What is known of the archive besides its files.
#[derive(Clone, Debug, Default)]
pub struct Confirmed {
    lengths: BTreeMap<u32, u64>,
    /// Damaged records that are known.
    pub damaged: BTreeSet<PagePosition>,
    /// The archive reached this far.
    pub upto: PagePosition,
}

impl Confirmed {
    /// Without tables: all that is known is how far it reached.
    pub fn upto(upto: PagePosition) -> Confirmed {
        Confirmed { upto, ..Confirmed::default() }
    }

    /// Reads what the tables tell. `watermarks` are those of what follows the archive.
    pub fn read(
        tables: &dyn Tables,
        watermarks: impl IntoIterator<Item = PagePosition>,
    ) -> Result<Confirmed> {
        let mut confirmed = Confirmed::upto(watermarks.into_iter().max().unwrap_or_default());
        for (key, value) in tables.scan(Table::Marks)? {
            if let Some(file) = key.strip_prefix(LENGTH).and_then(|file| file.parse().ok()) {
                confirmed.lengths.insert(file, read_position(&value).offset);
            } else if key.starts_with(DAMAGED) {
                confirmed.damaged.insert(read_position(&value));
            } else if key == super::hosts::MARK || key == END {
                confirmed.upto = confirmed.upto.max(read_position(&value));
            }
        }
        Ok(confirmed)
    }

    /// What is missing of an archive with these files, each with its length.
    pub fn lost(&self, files: &[(u32, u64)]) -> Vec<LostPages> {
        let mut had: BTreeMap<u32, Option<u64>> = (0..self.upto.file).map(|file| (file, None)).collect();
        had.extend(self.lengths.iter().map(|(file, had)| (*file, Some(*had))));
        if self.upto.offset > 0 {
            let last = had.entry(self.upto.file).or_default();
            *last = Some(last.unwrap_or(0).max(self.upto.offset));
        }
        let all = had.into_iter().map(|(file, had)| {
            let left = files.iter().find(|(number, _)| *number == file).map(|(_, left)| *left);
            LostPages { file, left, had }
        });
        all.filter(|lost| match (lost.left, lost.had) {
            (Some(left), had) => had.is_some_and(|had| left < had),
            (None, had) => had != Some(0),
        })
        .collect()
    }
}

/// Notes how long the files before the last one are.
pub fn note(tables: &dyn Tables, files: &[(u32, u64)]) -> Result<()> {
    let known = Confirmed::read(tables, [])?.lengths;
    let finished = files.iter().rev().skip(1).filter(|(file, _)| !known.contains_key(file));
    put_lengths(tables, finished.copied())
}

/// Keeps in mind how long files were that have become shorter, while everything else goes on behind them.
pub fn remember(tables: &dyn Tables, lost: &[LostPages]) -> Result<()> {
    put_lengths(tables, lost.iter().filter_map(|lost| Some((lost.file, lost.had?))))
}

/// From now on these losses count as known, in an archive that goes on at `end`: nobody is told of them again.
pub fn accept(
    tables: &dyn Tables,
    lost: &[LostPages],
    damaged: &[PagePosition],
    end: PagePosition,
) -> Result<()> {
    put_lengths(tables, lost.iter().map(|lost| (lost.file, lost.left.unwrap_or(0))))?;
    let mut entries: Vec<(String, [u8; 12])> = damaged
        .iter()
        .map(|at| (format!("{DAMAGED}{:05}/{}", at.file, at.offset), write_position(*at)))
        .collect();
    entries.push((END.to_string(), write_position(end)));
    put(tables, &entries)
}

fn put_lengths(tables: &dyn Tables, lengths: impl Iterator<Item = (u32, u64)>) -> Result<()> {
    let entries: Vec<(String, [u8; 12])> = lengths
        .map(|(file, offset)| (format!("{LENGTH}{file:05}"), write_position(PagePosition { file, offset })))
        .collect();
    put(tables, &entries)
}

fn put(tables: &dyn Tables, entries: &[(String, [u8; 12])]) -> Result<()> {
    let entries: Vec<(Table, &str, &[u8])> =
        entries.iter().map(|(key, value)| (Table::Marks, key.as_str(), &value[..])).collect();
    if entries.is_empty() { Ok(()) } else { tables.put(&entries) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::LocalTables;

    #[test]
    fn what_is_missing_of_the_archive_is_told_until_it_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let tables = LocalTables::open(&dir.path().join("t")).unwrap();
        note(&tables, &[(0, 100), (1, 200), (2, 7)]).unwrap();
        let upto = PagePosition { file: 3, offset: 50 };
        let lost = |files: &[(u32, u64)]| -> Vec<String> {
            let confirmed = Confirmed::read(&tables, [PagePosition::default(), upto]).unwrap();
            confirmed.lost(files).iter().map(ToString::to_string).collect()
        };
        // What is behind the confirmed length may come and go.
        assert!(lost(&[(0, 100), (1, 200), (2, 7), (3, 50)]).is_empty());
        assert!(lost(&[(0, 100), (1, 200), (2, 7), (3, 99)]).is_empty());
        let damaged = [(0, 100), (1, 20), (3, 49)];
        let want = [
            "farol-00001.warc.gz ends at byte 20, and had 200 bytes",
            "farol-00002.warc.gz is missing",
            "farol-00003.warc.gz ends at byte 49, and had 50 bytes",
        ];
        assert_eq!(lost(&damaged), want);
        let all = Confirmed::read(&tables, [upto]).unwrap().lost(&damaged);
        accept(&tables, &all[..2], &[upto], upto).unwrap();
        assert_eq!(lost(&damaged), want[2..]);
        accept(&tables, &all, &[], PagePosition { file: 4, offset: 0 }).unwrap();
        assert!(lost(&damaged).is_empty());
        assert_eq!(Confirmed::read(&tables, []).unwrap().damaged, BTreeSet::from([upto]));
    }
}
