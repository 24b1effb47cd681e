//! The one writer of a shard: takes pages in, forgets pages, commits.
//!
//! A commit makes everything before it durable and visible in one step, together with a *mark*: the position up to
//! which what is indexed was taken in. Of the stored pages of this process that is the watermark, `file/offset`; what a
//! replica writes there is its own business. After a crash the index is as it was at its last commit, and is read on
//! from the mark.
//!
//! INVARIANT: `generation` never goes back within one data folder.
//! INVARIANT: after a write that failed, the shard refuses writes until it is opened again.
//! Does not answer questions; see [`crate::Searcher`].

mod replica;

use crate::error::Error;
use crate::limits;
use crate::schema::{self, FORMAT, Fields};
use crate::searcher::{Searcher, Shared};
use crate::text::pretokenized::Pretokenizer;
use farol_base::{CanonicalUrl, Document, Host, HostHash, PagePosition};
use replica::Uncommitted;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tantivy::directory::MmapDirectory;
use tantivy::directory::error::LockError;
use tantivy::index::IndexSettings;
use tantivy::indexer::{IndexWriterOptions, LogMergePolicy};
use tantivy::store::{Compressor, ZstdCompressor};
use tantivy::{Index, IndexReader, IndexWriter, ReloadPolicy, TantivyError, Term};

/// Says which layout the folder holds, in one line: `farol index 1`.
const FORMAT_FILE: &str = "FORMAT";

/// Bytes of text that may wait for the indexing thread before [`Shard::put`] waits for it to catch up:
/// each document waits in three copies (words, stems, stored), so this is about 64 MiB of memory.
const WAITING_BYTES_MAX: usize = 21 * 1024 * 1024;

/// How a shard uses the machine.
#[derive(Clone, Debug)]
pub struct ShardOptions {
    /// Memory for pages that are not yet on disk, over all threads. At least 15 MB per thread are taken.
    /// Default: 64 MiB.
    pub writer_memory_bytes: usize,
    /// Threads that analyse and index. Default: 1.
    pub writer_threads: usize,
    /// Blocks of stored pages (about 16 KiB each) that every segment keeps unpacked for snippets.
    /// Default: 32, so about 10 MiB for the usual 20 segments.
    pub cached_blocks: usize,
}

impl Default for ShardOptions {
    fn default() -> ShardOptions {
        ShardOptions { writer_memory_bytes: 64 * 1024 * 1024, writer_threads: 1, cached_blocks: 32 }
    }
}

/// The position up to which what is indexed was taken in, as it is committed with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark(String);

impl From<PagePosition> for Mark {
    /// `12/3456`: file and offset.
    fn from(at: PagePosition) -> Mark {
        Mark(format!("{}/{}", at.file, at.offset))
    }
}

impl From<&str> for Mark {
    fn from(mark: &str) -> Mark {
        Mark(mark.to_string())
    }
}

impl From<&String> for Mark {
    fn from(mark: &String) -> Mark {
        Mark(mark.clone())
    }
}

/// A part of the index that this process may write to.
pub struct Shard {
    writer: IndexWriter,
    shared: Arc<Shared>,
    fields: Fields,
    pretokenizer: Pretokenizer,
    /// Of the last commit; empty where there was none.
    mark: String,
    /// Tantivy's stamp of the last commit.
    generation: u64,
    /// Something was put or deleted since the last commit.
    changed: bool,
    uncommitted: Uncommitted,
    /// Bytes of text handed over since the indexing threads were last known to be idle.
    waiting_bytes: usize,
    /// [`WAITING_BYTES_MAX`], smaller in tests.
    waiting_bytes_max: usize,
    poisoned: bool,
}

impl Shard {
    /// Opens the shard in a folder, or creates it there.
    ///
    /// # Errors
    /// [`Error::Format`] for a folder with another layout, [`Error::Locked`] while another process writes to
    /// it. A lock that a killed process left behind does not count: the system has freed it.
    pub fn open(dir: &Path, options: ShardOptions) -> Result<Shard, Error> {
        let index = open_index(dir, true)?;
        let (_, fields) = schema::schema();
        let threads = options.writer_threads.clamp(1, 8);
        let writer_options = IndexWriterOptions::builder()
            .num_worker_threads(threads)
            .memory_budget_per_thread(
                (options.writer_memory_bytes / threads).clamp(15_000_000, 2_000_000_000),
            )
            .num_merge_threads(1)
            .build();
        let writer: IndexWriter = index.writer_with_options(writer_options).map_err(|error| match error {
            TantivyError::LockFailure(LockError::LockBusy, _) => Error::Locked { dir: dir.to_path_buf() },
            error => Error::Engine { doing: "be opened for writing", source: Box::new(error) },
        })?;
        // Only now: while another process has the lock they may be its own.
        remove_unfinished(dir)?;
        writer.set_merge_policy(Box::new(merge_policy()));
        let (generation, mark) = last_commit(&index)?;
        let reader = reader_of(&index, options.cached_blocks)?;
        let shared = Shared::new(dir, index, reader, fields)?;
        Ok(Shard {
            writer,
            shared,
            fields,
            pretokenizer: Pretokenizer::default(),
            mark,
            generation,
            changed: false,
            uncommitted: Uncommitted::default(),
            waiting_bytes: 0,
            waiting_bytes_max: WAITING_BYTES_MAX,
            poisoned: false,
        })
    }

    /// Takes a page in; a page with the same URL is replaced.
    pub fn put(&mut self, document: &Document) -> Result<(), Error> {
        self.check()?;
        self.changed = true;
        let texts = [&document.body, &document.rest, &document.headings, &document.anchors];
        let bytes = texts.map(String::len).iter().sum::<usize>() + 1024;
        self.waiting_bytes += bytes;
        if self.waiting_bytes > self.waiting_bytes_max {
            // Preparing a commit waits until the threads have taken everything in, and commits nothing.
            let caught_up = self.writer.prepare_commit().map(drop);
            self.guard("catch up with waiting pages", caught_up)?;
            self.waiting_bytes = bytes;
        }
        self.writer.delete_term(self.fields.page_term(&document.url));
        let added = self.writer.add_document(self.fields.to_tantivy(document, &mut self.pretokenizer));
        self.uncommitted.put(document);
        self.guard("take a page in", added).map(drop)
    }

    /// Forgets the page at a URL, from the next commit on.
    pub fn delete(&mut self, url: &CanonicalUrl) {
        self.changed = true;
        self.uncommitted.delete(url.id());
        self.writer.delete_term(self.fields.page_term(url));
    }

    /// Forgets all pages of a host, from the next commit on.
    pub fn delete_host(&mut self, host: &Host) {
        self.changed = true;
        self.uncommitted.delete_host(HostHash::of(host.as_str()));
        self.writer.delete_term(Term::from_field_text(self.fields.host, host.as_str()));
    }

    /// Makes everything so far durable and visible, and remembers the mark with it.
    ///
    /// Answers the generation that searchers now see. A commit without changes is cheap: it only lets
    /// searchers see segments that were merged meanwhile.
    pub fn commit(&mut self, mark: impl Into<Mark>) -> Result<u64, Error> {
        self.check()?;
        let Mark(mark) = mark.into();
        if self.changed || mark != self.mark {
            // Takes a stamp and deletes nothing: the first stamp after opening is that of the last commit, and
            // a new commit must have a new one.
            self.writer.delete_term(Term::from_field_text(self.fields.host, ""));
            let committed = self.writer.prepare_commit().and_then(|mut prepared| {
                prepared.set_payload(&mark);
                prepared.commit()
            });
            self.generation = self.guard("commit", committed)?;
            self.mark = mark;
            self.changed = false;
            self.uncommitted = Uncommitted::default();
            self.waiting_bytes = 0;
        }
        self.shared.reload(self.generation)?;
        Ok(self.generation)
    }

    /// What the last commit was marked with; empty where there was none.
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// The position up to which stored pages had been taken in at the last commit.
    ///
    /// # Errors
    /// [`Error::Damaged`] where the last commit has another mark.
    pub fn watermark(&self) -> Result<PagePosition, Error> {
        parse_watermark(&self.mark)
    }

    /// A searcher over this shard; it always sees the newest commit.
    pub fn searcher(&self) -> Searcher {
        Searcher::new(self.shared.clone())
    }

    fn check(&self) -> Result<(), Error> {
        if self.poisoned { Err(Error::Poisoned) } else { Ok(()) }
    }

    fn guard<T>(&mut self, doing: &'static str, result: tantivy::Result<T>) -> Result<T, Error> {
        result.map_err(|source| {
            self.poisoned = true;
            Error::Engine { doing, source: Box::new(source) }
        })
    }
}

/// Removes files that a killed process was writing: tantivy writes them as `.tmp…` and renames them when whole.
fn remove_unfinished(dir: &Path) -> Result<(), Error> {
    for entry in std::fs::read_dir(dir).map_err(file_error("could not list", dir))?.flatten() {
        if entry.file_name().as_encoded_bytes().starts_with(b".tmp") {
            match std::fs::remove_file(entry.path()) {
                // A merge of the shard that was closed a moment ago may have finished it meanwhile.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => (),
                done => done.map_err(file_error("could not remove", &entry.path()))?,
            }
        }
    }
    Ok(())
}

/// Small segments are merged eagerly, so that a crawl which commits every two seconds leaves few behind;
/// a segment is also rewritten once a third of it is deleted.
fn merge_policy() -> LogMergePolicy {
    let mut policy = LogMergePolicy::default();
    policy.set_min_num_segments(5);
    policy.set_min_layer_size(2_000);
    policy.set_del_docs_ratio_before_merge(0.34);
    policy
}

/// Opens or creates the tantivy index in a folder after checking its format.
pub(crate) fn open_index(dir: &Path, create: bool) -> Result<Index, Error> {
    let format_file = dir.join(FORMAT_FILE);
    let want = format!("farol index {FORMAT}");
    let wrong = |found: String| Error::Format { dir: dir.to_path_buf(), found, wanted: FORMAT };
    if create {
        std::fs::create_dir_all(dir).map_err(file_error("could not create", dir))?;
    }
    match std::fs::read_to_string(&format_file) {
        Ok(found) if found.trim() == want => {}
        Ok(found) => {
            let number = found.trim().strip_prefix("farol index ").unwrap_or("unknown");
            return Err(wrong(limits::cut(number, 20).to_string()));
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound && create => {
            if dir.join("meta.json").exists() {
                return Err(wrong("unknown".to_string()));
            }
            std::fs::write(&format_file, format!("{want}\n"))
                .map_err(file_error("could not write", &format_file))?;
        }
        Err(error) => return Err(file_error("could not read", &format_file)(error)),
    }
    let directory = MmapDirectory::open(dir).map_err(Error::engine("open its folder"))?;
    let (schema, _) = schema::schema();
    let settings = IndexSettings {
        docstore_compression: Compressor::Zstd(ZstdCompressor { compression_level: Some(1) }),
        ..IndexSettings::default()
    };
    // The format is right, so that another schema is a harmed one.
    let harmed = || Error::Damaged { what: "its fields are not those of its format".to_string() };
    let builder = Index::builder().schema(schema.clone()).settings(settings).tokenizers(schema::tokenizers());
    let opened = if create { builder.open_or_create(directory) } else { Index::open(directory) };
    let mut index = opened.map_err(|error| match error {
        TantivyError::SchemaError(_) => harmed(),
        TantivyError::IncompatibleIndex(_) => wrong("unknown".to_string()),
        error => Error::Engine { doing: "be opened", source: Box::new(error) },
    })?;
    if index.schema() != schema {
        return Err(harmed());
    }
    index.set_tokenizers(schema::tokenizers());
    Ok(index)
}

pub(crate) fn reader_of(index: &Index, cached_blocks: usize) -> Result<IndexReader, Error> {
    index
        .reader_builder()
        .reload_policy(ReloadPolicy::Manual)
        .doc_store_cache_num_blocks(cached_blocks)
        .try_into()
        .map_err(Error::engine("be opened for reading"))
}

/// Stamp and mark of the last commit.
pub(crate) fn last_commit(index: &Index) -> Result<(u64, String), Error> {
    let meta = index.load_metas().map_err(Error::engine("read its list of segments"))?;
    Ok((meta.opstamp, meta.payload.unwrap_or_default()))
}

fn file_error(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path: PathBuf = path.to_path_buf();
    move |source| Error::File { doing, path, source }
}

/// Reads `12/3456`; without a mark, nothing was taken in.
pub(crate) fn parse_watermark(payload: &str) -> Result<PagePosition, Error> {
    if payload.is_empty() {
        return Ok(PagePosition::default());
    }
    let parsed = payload.split_once('/').and_then(|(file, offset)| {
        Some(PagePosition { file: file.parse().ok()?, offset: offset.parse().ok()? })
    });
    parsed.ok_or_else(|| Error::Damaged { what: format!("its watermark reads {payload:?}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{TestShard, page};

    #[test]
    fn catching_up_commits_nothing() {
        let mut test = TestShard::new(&[]);
        test.shard.waiting_bytes_max = 2_000; // Every second page waits for the first.
        for round in 0..3 {
            for number in 0..7 {
                let url = format!("http://a/{number}");
                test.shard.put(&page(&url, "Light", &format!("round{round} {number}"))).unwrap();
            }
            test.shard.delete(&CanonicalUrl::parse("http://a/3").unwrap());
        }
        test.shard.put(&page("http://a/8", "Light", "last")).unwrap();
        let reader = Searcher::open(test.dir.path()).unwrap();
        assert_eq!((reader.documents(), test.searcher().documents()), (0, 0));
        test.shard.commit(PagePosition::default()).unwrap();
        assert_eq!((test.ask("round1").total, test.ask("round2").total, test.ask("last").total), (0, 6, 1));
        assert_eq!(test.searcher().verify().unwrap(), 7);
    }

    #[test]
    fn what_a_killed_process_was_writing_is_removed_at_the_next_opening() {
        let dir = tempfile::tempdir().unwrap();
        drop(Shard::open(dir.path(), ShardOptions::default()).unwrap());
        std::fs::write(dir.path().join(".tmpAbC123"), "half").unwrap();
        drop(Shard::open(dir.path(), ShardOptions::default()).unwrap());
        assert!(!dir.path().join(".tmpAbC123").exists());
        assert!(dir.path().join("meta.json").exists());
    }

    #[test]
    fn watermarks_are_read_as_written() {
        let at = PagePosition { file: u32::MAX, offset: u64::MAX };
        assert_eq!(parse_watermark(&Mark::from(at).0).unwrap(), at);
        assert_eq!(parse_watermark("").unwrap(), PagePosition::default());
        for payload in ["7", "1/x", "1/2/3"] {
            assert!(matches!(parse_watermark(payload), Err(Error::Damaged { .. })), "{payload}");
        }
    }
}
