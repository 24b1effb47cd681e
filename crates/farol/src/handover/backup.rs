//! An agent's backup: its archive, and the files of its URL store as of a moment that the archive covers.
//!
//! Three steps. On the crawl's thread, in no time: the store names its files and pins them, the archive closes its file
//! ([`Moment::take`]). On a thread of its own, beside the crawl: what is new is uploaded ([`Moment::upload`]). Then whoever
//! writes shared tables moves `back.<no>` to it ([`pointer_to`]), and what two manifests no longer name is
//! deleted ([`deletable`]).
//!
//! INVARIANT: the store's mark is not behind the end of what was uploaded of the archive. The store is asked first.
//! INVARIANT: a blob is written once, under a name that holds the backup's number; nothing is deleted that the newest
//! manifest or the one before it names.

use crate::archive::hosts::HostRow;
use crate::fabric::{Table, Tables};
use crate::wire::batch::{pack, unpack_within};
use crate::wire::freight::{Freight, unpack_freight};
use crate::wire::parcel::WireHostRow;
use crate::wire::urls::UrlBody;
use anyhow::{Context, Result, bail, ensure};
use farol_base::PagePosition;
use farol_base::disk::Disk;
use farol_cluster::record::RECORD_VERSION;
use farol_cluster::route::BackupRecord;
use farol_cluster::{ArchivePosition, NodeNo};
use farol_fabric::Topic;
use farol_fabric::blobs::Blobs;
use farol_store::pages::{Archive, file_name};
use farol_store::urls::{StoreFile, StoreFiles, UrlStore};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Uploaded at a time.
const PIECE_BYTES: u64 = 8 << 20;
/// A file in more pieces than this is uploaded whole again, so that manifests stay small.
const PIECES_MAX: usize = 64;
const VERSION: u16 = 1;
/// Rows of hosts in one batch, and the bytes that they unpack to: each has 15 times of connections and few errors.
const ROWS: usize = 1_000;
const ROWS_BYTES_MAX: usize = 16 << 20;

/// Batches that wait in the agent's log for a backup; at half of what a log holds senders would soon have to wait.
const BATCHES_MAX: u64 = 1_024;
/// Backups that somebody waits for are this part of the usual time apart.
const WANTED_PART: u32 = 20;

/// When backups are made.
#[derive(Clone, Copy, Debug)]
pub struct BackupRules {
    pub every: Duration,
    /// Or after so much of the archive.
    pub archive_bytes: u64,
}

/// What there is since the last backup began.
#[derive(Clone, Copy, Debug, Default)]
pub struct SinceBackup {
    pub time: Duration,
    pub archive_bytes: u64,
    /// Batches of other agents that were taken in.
    pub batches: u64,
    /// Somebody waits for one.
    pub is_wanted: bool,
}

impl BackupRules {
    pub fn is_due(&self, since: &SinceBackup) -> bool {
        let has_news = since.archive_bytes > 0 || since.batches > 0;
        let is_much = since.archive_bytes >= self.archive_bytes || since.batches >= BATCHES_MAX;
        is_much
            || (has_news && since.time >= self.every)
            || (since.is_wanted && since.time >= self.every / WANTED_PART)
    }
}

/// A stretch of a file, in a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Piece {
    pub blob: String,
    pub bytes: u64,
    /// CRC-32, as eight hexadecimal digits.
    pub digest: String,
}

/// A file, in one piece or more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackedUpFile {
    pub name: String,
    pub pieces: Vec<Piece>,
}

impl BackedUpFile {
    fn bytes(&self) -> u64 {
        self.pieces.iter().map(|piece| piece.bytes).sum()
    }
}

/// A position of the archive, as people read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ArchivePlace {
    pub file: u32,
    pub offset: u64,
}

impl From<PagePosition> for ArchivePlace {
    fn from(PagePosition { file, offset }: PagePosition) -> ArchivePlace {
        ArchivePlace { file, offset }
    }
}

impl From<ArchivePlace> for PagePosition {
    fn from(ArchivePlace { file, offset }: ArchivePlace) -> PagePosition {
        PagePosition { file, offset }
    }
}

/// What a backup consists of; JSON, in a blob.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentManifest {
    pub v: u16,
    pub agent: NodeNo,
    /// Grows with every backup of the agent.
    pub number: u64,
    /// What the URL store had taken in of the archive.
    pub mark: ArchivePlace,
    /// What is uploaded of the archive.
    pub end: ArchivePlace,
    /// The last number of each sender that the store had.
    pub numbers: Vec<(u64, u64)>,
    pub urls: Vec<BackedUpFile>,
    pub pages: Vec<BackedUpFile>,
    /// URLs that other agents had not told to have: packed batches, each behind its length.
    #[serde(default)]
    pub outbox: Vec<Piece>,
    /// What was remembered of hosts: pauses that they asked for, delays, failures, times to connect; packed batches, each
    /// behind its length. Their robots.txt is not among it: whoever takes a host over asks for that first.
    #[serde(default)]
    pub rows: Vec<Piece>,
}

/// The pointer to a manifest, unless there is a newer one already. Logs of the agent may be trimmed up to its numbers.
pub fn pointer_to(manifest: &AgentManifest, present: Option<&BackupRecord>) -> Option<BackupRecord> {
    if present.is_some_and(|present| present.number >= manifest.number) {
        return None;
    }
    let sender = |(from, number): &(u64, u64)| Some((NodeNo(u16::try_from(*from).ok()?), number + 1));
    let expects = manifest.numbers.iter().filter_map(sender).collect();
    Some(BackupRecord {
        v: RECORD_VERSION,
        no: manifest.agent,
        number: manifest.number,
        manifest: manifest.name(),
        before: present.map(|present| present.manifest.clone()),
        archive: ArchivePosition { file: u64::from(manifest.end.file), offset: manifest.end.offset },
        expects: [(Topic::Urls(manifest.agent.0).to_string(), expects)].into(),
    })
}

impl AgentManifest {
    /// Name of its blob.
    pub fn name(&self) -> String {
        format!("urls/{}/{:010}.manifest", self.agent, self.number)
    }

    /// Reads the manifest of a pointer.
    pub fn read(blobs: &Blobs, name: &str) -> Result<AgentManifest> {
        let bytes = blobs.get(name)?;
        let manifest: AgentManifest =
            serde_json::from_slice(&bytes).with_context(|| format!("{name} cannot be read"))?;
        ensure!(manifest.v == VERSION, "{name} has version {}, and this Farol reads {VERSION}", manifest.v);
        ensure!(manifest.mark <= manifest.end, "{name} is of a store that was ahead of its archive");
        Ok(manifest)
    }

    fn blobs(&self) -> impl Iterator<Item = &str> {
        let pieces = self.urls.iter().chain(&self.pages).flat_map(|file| &file.pieces);
        pieces.chain(&self.outbox).chain(&self.rows).map(|piece| piece.blob.as_str())
    }

    /// Hands over the URLs that other agents had not told to have, batch by batch.
    ///
    /// # Errors
    /// Where a blob is not what was uploaded, or cannot be reached; a batch that cannot be read is left out.
    pub fn waiting_urls(&self, blobs: &Blobs, take: &mut dyn FnMut(UrlBody) -> Result<()>) -> Result<()> {
        batches(&self.outbox, blobs, &mut |blob, packed| match unpack_freight(packed) {
            Ok(Freight::Urls(body)) => take(body),
            Ok(_) => Ok(()),
            Err(error) => {
                tracing::warn!(%error, "URLs in {blob} are left out");
                Ok(())
            }
        })
    }

    /// Hands over what was remembered of hosts, some at a time.
    ///
    /// # Errors
    /// As [`AgentManifest::waiting_urls`].
    pub fn remembered(
        &self,
        blobs: &Blobs,
        take: &mut dyn FnMut(Vec<(String, WireHostRow)>) -> Result<()>,
    ) -> Result<()> {
        batches(&self.rows, blobs, &mut |blob, packed| match unpack_within(packed, ROWS_BYTES_MAX) {
            Ok(rows) => take(rows),
            Err(error) => {
                tracing::warn!(%error, "what was remembered of hosts in {blob} is left out");
                Ok(())
            }
        })
    }
}

/// Hands over batches in pieces, each with the name of its blob.
fn batches(pieces: &[Piece], blobs: &Blobs, take: &mut dyn FnMut(&str, &[u8]) -> Result<()>) -> Result<()> {
    for piece in pieces {
        let bytes = blobs.get(&piece.blob)?;
        let found = format!("{:08x}", crc32fast::hash(&bytes));
        ensure!(found == piece.digest, "blob {} is not what was uploaded", piece.blob);
        let mut rest = &bytes[..];
        while let Some((len, behind)) = rest.split_first_chunk::<4>() {
            let (packed, behind) = behind
                .split_at_checked(u32::from_le_bytes(*len) as usize)
                .with_context(|| format!("blob {} ends in the middle of a batch", piece.blob))?;
            rest = behind;
            take(&piece.blob, packed)?;
        }
    }
    Ok(())
}

/// What the tables remember of hosts that were asked, packed, a thousand at a time. Their robots.txt counts as unknown.
pub struct RememberedHosts<'a> {
    tables: &'a dyn Tables,
    after: String,
}

impl RememberedHosts<'_> {
    pub fn of(tables: &dyn Tables) -> RememberedHosts<'_> {
        RememberedHosts { tables, after: String::new() }
    }

    fn read(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let rows = self.tables.scan_after(Table::Hosts, &self.after, ROWS)?;
            let Some((last, _)) = rows.last() else { return Ok(None) };
            self.after.clone_from(last);
            let read = |(host, row): (String, Vec<u8>)| {
                let row: HostRow = serde_json::from_slice(&row).ok()?;
                let was_asked = row.robots_fetched_ms > 0
                    || row.asked_to_wait_ms > 0
                    || row.failures > 0
                    || !row.connects.is_empty();
                let wire = WireHostRow { robots_fetched: 0, robots_status: 0, ..WireHostRow::from(&row) };
                was_asked.then_some((host, wire))
            };
            let rows: Vec<(String, WireHostRow)> = rows.into_iter().filter_map(read).collect();
            if !rows.is_empty() {
                return Ok(Some(pack(&rows)?));
            }
        }
    }
}

impl Iterator for RememberedHosts<'_> {
    type Item = Result<Vec<u8>>;

    fn next(&mut self) -> Option<Result<Vec<u8>>> {
        self.read().transpose()
    }
}

/// Which of an agent's blobs nobody needs any more. Those of later numbers are an upload under way.
pub fn deletable(names: &[String], newest: &AgentManifest, before: Option<&AgentManifest>) -> Vec<String> {
    let both = || [Some(newest), before].into_iter().flatten();
    let manifests: BTreeSet<String> = both().map(AgentManifest::name).collect();
    let needed: BTreeSet<&str> = both().flat_map(AgentManifest::blobs).collect();
    let is_past = |name: &str| {
        let number = name.split('/').nth(2).and_then(|rest| rest.get(..10)?.parse::<u64>().ok());
        number.is_some_and(|number| number < newest.number)
    };
    let is_over =
        |name: &&String| !needed.contains(name.as_str()) && !manifests.contains(*name) && is_past(name);
    names.iter().filter(is_over).cloned().collect()
}

/// The agent at one moment: what is to be uploaded, pinned.
pub struct Moment {
    files: StoreFiles,
    archive: Vec<(u32, u64)>,
    end: PagePosition,
}

impl Moment {
    /// Names the files of the store, and closes the archive's file; the crawl goes on at once.
    pub fn take(urls: &mut dyn UrlStore, archive: &mut Archive) -> Result<Moment> {
        let files = urls.files()?.context("this URL store keeps nothing on disk")?;
        let end = archive.close_file()?;
        ensure!(files.watermark() <= end, "the URL store is ahead of the archive");
        let archive = archive.lengths()?.into_iter().filter(|(file, _)| *file <= end.file).collect();
        Ok(Moment { files, archive, end })
    }

    /// Uploads what the last backup lacks, then the manifest, and answers it. `waiting` are packed URLs for other agents,
    /// `rows` what is remembered of hosts ([`RememberedHosts`]).
    /// May take minutes; done twice it does no harm.
    pub fn upload(
        &self,
        agent: NodeNo,
        blobs: &Blobs,
        pages: &Path,
        last: Option<&AgentManifest>,
        waiting: &mut dyn Iterator<Item = Result<Vec<u8>>>,
        rows: &mut dyn Iterator<Item = Result<Vec<u8>>>,
    ) -> Result<AgentManifest> {
        let number = last.map_or(0, |last| last.number) + 1;
        let mut manifest = AgentManifest {
            v: VERSION,
            agent,
            number,
            mark: self.files.watermark().into(),
            end: self.end.into(),
            numbers: self.files.numbers().iter().map(|(source, number)| (source.0, *number)).collect(),
            urls: Vec::new(),
            pages: Vec::new(),
            outbox: Vec::new(),
            rows: Vec::new(),
        };
        // The archive first: the store may not be ahead of it, even where this is broken off and begun again.
        // Files that are here no more stay where they were uploaded to.
        let is_gone =
            |file: &&BackedUpFile| !self.archive.iter().any(|(here, _)| file_name(*here) == file.name);
        manifest.pages.extend(last.into_iter().flat_map(|last| &last.pages).filter(is_gone).cloned());
        for (file, bytes) in &self.archive {
            let before = last.and_then(|last| known(&last.pages, &file_name(*file)));
            manifest.pages.push(self.upload_pages(agent, number, (*file, *bytes), before, blobs, pages)?);
        }
        for file in self.files.files() {
            let before = last.and_then(|last| known(&last.urls, &file.name));
            manifest.urls.push(self.upload_urls(agent, number, file, before, blobs)?);
        }
        manifest.outbox = upload_batches((agent, number), "outbox", waiting, blobs)?;
        manifest.rows = upload_batches((agent, number), "rows", rows, blobs)?;
        blobs.put(&manifest.name(), &serde_json::to_vec_pretty(&manifest)?)?;
        Ok(manifest)
    }

    /// A closed file of the archive: as it was uploaded, or anew. One that was opened again is another file.
    fn upload_pages(
        &self,
        agent: NodeNo,
        number: u64,
        (file, bytes): (u32, u64),
        before: Option<&BackedUpFile>,
        blobs: &Blobs,
        pages: &Path,
    ) -> Result<BackedUpFile> {
        if let Some(before) = before.filter(|before| before.bytes() == bytes) {
            return Ok(before.clone());
        }
        let name = file_name(file);
        let path = pages.join(&name);
        let digest = digest(&path, bytes)?;
        let blob = format!("pages/{agent}/{number:010}-{name}");
        blobs.put_file(&blob, &path)?;
        Ok(BackedUpFile { name, pieces: vec![Piece { blob, bytes, digest }] })
    }

    /// A file of the store, which only grows: what was uploaded stays, and the rest follows in more pieces.
    fn upload_urls(
        &self,
        agent: NodeNo,
        number: u64,
        file: &StoreFile,
        before: Option<&BackedUpFile>,
        blobs: &Blobs,
    ) -> Result<BackedUpFile> {
        // The manifest of the store is replaced whole, and names nothing twice.
        let goes_on = |before: &&BackedUpFile| {
            file.name != "blocks" && before.bytes() <= file.bytes && before.pieces.len() < PIECES_MAX
        };
        let mut pieces = before.filter(goes_on).map_or_else(Vec::new, |before| before.pieces.clone());
        let mut offset: u64 = pieces.iter().map(|piece| piece.bytes).sum();
        let mut bytes = Vec::new();
        while offset < file.bytes {
            bytes.resize(PIECE_BYTES.min(file.bytes - offset) as usize, 0);
            if self.files.read_at(file, offset, &mut bytes)? < bytes.len() {
                bail!("{} ends before byte {}", file.name, file.bytes);
            }
            let blob = format!("urls/{agent}/{number:010}-{}-{offset}", file.name);
            blobs.put(&blob, &bytes)?;
            let digest = format!("{:08x}", crc32fast::hash(&bytes));
            pieces.push(Piece { blob, bytes: bytes.len() as u64, digest });
            offset += bytes.len() as u64;
        }
        Ok(BackedUpFile { name: file.name.clone(), pieces })
    }
}

/// Batches, in pieces.
fn upload_batches(
    (agent, number): (NodeNo, u64),
    what: &str,
    waiting: &mut dyn Iterator<Item = Result<Vec<u8>>>,
    blobs: &Blobs,
) -> Result<Vec<Piece>> {
    let (mut pieces, mut bytes) = (Vec::new(), Vec::new());
    let mut upload = |bytes: &mut Vec<u8>| -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        let blob = format!("urls/{agent}/{number:010}-{what}-{}", pieces.len());
        blobs.put(&blob, bytes)?;
        let digest = format!("{:08x}", crc32fast::hash(bytes));
        pieces.push(Piece { blob, bytes: bytes.len() as u64, digest });
        bytes.clear();
        Ok(())
    };
    for packed in waiting {
        let packed = packed?;
        bytes.extend_from_slice(&(packed.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&packed);
        if bytes.len() as u64 >= PIECE_BYTES {
            upload(&mut bytes)?;
        }
    }
    upload(&mut bytes)?;
    Ok(pieces)
}

fn known<'a>(files: &'a [BackedUpFile], name: &str) -> Option<&'a BackedUpFile> {
    files.iter().find(|file| file.name == name)
}

/// CRC-32 of a file, which must be as long as it was.
fn digest(path: &Path, bytes: u64) -> Result<String> {
    let (mut file, mut hasher, mut read) = (std::fs::File::open(path)?, crc32fast::Hasher::new(), 0);
    let mut piece = vec![0; 1 << 16];
    loop {
        match file.read(&mut piece)? {
            0 => break,
            count => {
                hasher.update(&piece[..count]);
                read += count as u64;
            }
        }
    }
    ensure!(read == bytes, "{} has {read} bytes, and had {bytes}", path.display());
    Ok(format!("{:08x}", hasher.finalize()))
}

/// Writes a file of a backup into a folder, checked piece by piece. Memory does not grow with the file.
pub fn restore_file(blobs: &Blobs, file: &BackedUpFile, folder: &Path) -> Result<()> {
    let disk = farol_base::disk::File::at(folder)?;
    disk.remove(&file.name)?;
    for piece in &file.pieces {
        let (part, path) = (format!("{}.part", file.name), folder.join(format!("{}.part", file.name)));
        blobs.get_file(&piece.blob, &path)?;
        let found = digest(&path, piece.bytes).with_context(|| format!("blob {} was cut", piece.blob))?;
        ensure!(
            found == piece.digest,
            "blob {} is not what was uploaded: its checksum is {found}, not {}",
            piece.blob,
            piece.digest
        );
        if file.pieces.len() == 1 {
            disk.rename(&part, &file.name)?;
            return Ok(());
        }
        disk.append(&file.name, &std::fs::read(&path)?)?;
        disk.remove(&part)?;
    }
    if !file.pieces.is_empty() {
        disk.sync(&file.name)?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "backup_tests.rs"]
mod tests;
