//! Takes changes from the fabric into the searchable shard.
//!
//! The shard remembers how far it has taken in the archive. When it starts behind (after a crash, or because
//! the index was deleted), or when writing fails, it reads on from there by itself.

use crate::anchor_text::anchor_text;
use crate::archive::Interpreter;
use crate::archive::change::{change_of, deletion_of};
use crate::archive::replay::is_damage;
use crate::fabric::{Change, Delivery, Fabric};
use crate::handles::index::IndexProgress;
use crate::in_order::{Permit, ReadAhead, Workers};
use crate::operator::OperatorState;
use anyhow::{Context, Result};
use farol_base::sync::Mutex;
use farol_base::{CanonicalUrl, Document, PagePosition};
use farol_index::{Shard, ShardOptions};
use farol_links::Links;
use farol_store::pages::{ArchiveReader, Archived};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Pages whose anchor texts are renewed in one go, when there is nothing else to do.
const ANCHORS_PER_TURN: usize = 200;
/// Changes between two commits at most, while catching up.
const CATCH_UP_BATCH: u64 = 20_000;
/// Pages that are read beside the thread that indexes them, while catching up.
const CATCH_UP_AHEAD: usize = 64;

/// With less room than this on the disk, a failed write needs no other explanation.
const ROOM_MIN: u64 = 16 << 20;
/// How often the position alone is committed while pages come in that change nothing.
const POSITION_EVERY: Duration = Duration::from_secs(60);

/// What the indexer needs.
pub struct Sources {
    pub dir: PathBuf,
    pub options: ShardOptions,
    pub fabric: Fabric,
    pub links: Arc<Mutex<Links>>,
    pub archive: ArchiveReader,
    pub interpreter: Interpreter,
    pub commit_every: Duration,
}

/// A running indexer.
pub struct Indexer {
    stop: Arc<AtomicBool>,
    progress: Arc<IndexProgress>,
    thread: Option<JoinHandle<Result<()>>>,
}

impl Indexer {
    /// Opens the shard and starts.
    pub fn start(sources: Sources) -> Result<Indexer> {
        let shard = open_or_renew(&sources).with_context(|| {
            format!(
                "cannot open the index in {}; run `farol check --repair` if it is damaged",
                sources.dir.display()
            )
        })?;
        let (stop, progress) = (Arc::new(AtomicBool::new(false)), Arc::new(IndexProgress::of(&shard)));
        let mut work = IndexWorker {
            sources,
            shard: Some(shard),
            stop: stop.clone(),
            progress: progress.clone(),
            upto: PagePosition::default(),
            committed_upto: PagePosition::default(),
            fresh: 0,
            put_since: false,
            received: 0,
        };
        let thread = std::thread::Builder::new().name("indexer".to_string()).spawn(move || {
            crate::process::be_nice();
            work.run()
        })?;
        Ok(Indexer { stop, progress, thread: Some(thread) })
    }

    pub fn progress(&self) -> Arc<IndexProgress> {
        self.progress.clone()
    }

    /// Takes in what is left in the queue, commits and ends.
    pub fn stop(mut self) -> Result<()> {
        self.stop.store(true, Ordering::SeqCst);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_)) => anyhow::bail!("the indexer broke down; run `farol check`"),
            None => Ok(()),
        }
    }
}

/// Opens the shard; one of an earlier version of Farol is built anew from the archive.
fn open_or_renew(sources: &Sources) -> Result<Shard> {
    match Shard::open(&sources.dir, sources.options.clone()) {
        Err(error) if error.is_earlier_format() => {
            tracing::warn!(
                "the index was written by an earlier version and is built anew from the stored pages; \
                 until that is done, search finds a part of them"
            );
            std::fs::remove_dir_all(&sources.dir)?;
            Ok(Shard::open(&sources.dir, sources.options.clone())?)
        }
        opened => Ok(opened?),
    }
}

struct IndexWorker {
    sources: Sources,
    /// `None` only while it is being opened again after trouble.
    shard: Option<Shard>,
    stop: Arc<AtomicBool>,
    progress: Arc<IndexProgress>,
    /// How far the archive has been taken in.
    upto: PagePosition,
    committed_upto: PagePosition,
    /// Changes since the last commit.
    fresh: u64,
    /// A page was put since the last commit: whoever searches does not find it yet.
    put_since: bool,
    /// The last change taken from the queue; 0 before the first.
    received: u64,
}

impl IndexWorker {
    fn run(&mut self) -> Result<()> {
        self.retry_reopening(|work| work.catch_up());
        self.progress.caught_up.store(true, Ordering::SeqCst);
        let mut committed = Instant::now();
        loop {
            let stopping = self.stop.load(Ordering::SeqCst);
            let wait = Duration::from_millis(if stopping { 0 } else { 100 });
            let delivery = self.sources.fabric.changes.receive(wait);
            let quiet = delivery.is_none();
            if let Some(Delivery { seqno, change }) = delivery {
                self.retry_reopening(move |work| work.take(change));
                self.received = seqno;
            }
            let behind = committed.elapsed() >= POSITION_EVERY && self.upto > self.committed_upto;
            if behind
                || self.fresh > 0 && (committed.elapsed() >= self.sources.commit_every || (stopping && quiet))
            {
                self.retry_reopening(|work| work.commit());
                committed = Instant::now();
            }
            if stopping && quiet {
                return Ok(());
            }
            if quiet {
                self.retry_reopening(|work| work.renew_anchors());
            }
        }
    }

    fn shard(&mut self) -> Result<&mut Shard> {
        self.shard.as_mut().context("the index is closed")
    }

    fn take(&mut self, change: Change) -> Result<()> {
        match change {
            Change::Put(mut document) => {
                document.anchors = anchor_text(&self.sources.links.lock(), document.url.id())?;
                self.shard()?.put(&document)?;
                self.put_since = true;
                self.progress.pages.fetch_add(1, Ordering::Relaxed);
            }
            Change::Delete(url) => self.shard()?.delete(&url),
            Change::DeleteHost(host) => self.shard()?.delete_host(&host),
            Change::DeleteUnder(prefix) => self.delete_under(&prefix)?,
            // The graph is this process's own.
            Change::Links { .. } | Change::LinksGone(_) => return Ok(()),
            Change::Upto(position) => {
                self.upto = self.upto.max(position);
                // A position alone is not worth a commit.
                return Ok(());
            }
        }
        self.fresh += 1;
        Ok(())
    }

    fn commit(&mut self) -> Result<()> {
        let upto = self.upto;
        self.shard()?.commit(upto)?;
        self.committed_upto = upto;
        self.fresh = 0;
        self.put_since = false;
        self.sources.fabric.changes.ack(self.received);
        Ok(())
    }

    /// Deletes all pages whose address begins with this one's.
    fn delete_under(&mut self, prefix: &CanonicalUrl) -> Result<()> {
        // Only what is committed can be looked through.
        self.commit()?;
        for url in self.shard()?.searcher().urls_of(&prefix.host())? {
            if url.as_str().starts_with(prefix.as_str()) {
                self.shard()?.delete(&url);
            }
        }
        Ok(())
    }

    /// Reads from the archive what the shard has not taken in.
    fn catch_up(&mut self) -> Result<()> {
        let from = self.shard()?.watermark()?;
        self.upto = self.upto.max(from);
        self.committed_upto = from;
        let operator = OperatorState::open(self.sources.fabric.tables.clone())?;
        // A removal is not in the archive: where the shard may have missed one, it is done again.
        for (host, end) in operator.removed().iter().filter(|(_, end)| **end >= from) {
            tracing::debug!(%host, position = ?end, "removed again");
            self.take(Change::DeleteHost(host.clone()))?;
        }
        for (pages, _) in operator.removed_pages().filter(|(_, end)| *end >= from) {
            self.take(deletion_of(pages))?;
        }
        if self.sources.archive.end() <= from {
            return if self.fresh > 0 { self.commit() } else { Ok(()) };
        }
        let interpreter = self.sources.interpreter.clone();
        let mut workers = Workers::start(|_| {
            let interpreter = interpreter.clone();
            move |(position, next, archived, permit): (_, _, Archived, Permit)| {
                let interpreted = interpreter.interpret_archived(&archived, 0);
                (next, change_of(archived.url(), position, interpreted.outcome), permit)
            }
        })?;
        let bytes_of = |record: &Result<(_, _, Archived), _>| {
            record.as_ref().map_or(0, |(_, _, archived)| archived.bytes())
        };
        for (record, permit) in ReadAhead::start(self.sources.archive.scan(from), bytes_of)? {
            let (position, next, archived) = match record {
                Ok(record) => record,
                Err(error) if is_damage(&error) => {
                    tracing::warn!(error = %error, "a damaged page is left out; run `farol check`");
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let removed = operator.removed().get(&archived.url().host()).is_some_and(|end| position < *end);
            if !removed && operator.removal_of(archived.url()).is_none() {
                workers.give((position, next, archived, permit));
            }
            while workers.len() >= CATCH_UP_AHEAD {
                self.take_read(workers.take())?;
            }
            if self.stop.load(Ordering::SeqCst) {
                break;
            }
        }
        while workers.len() > 0 {
            self.take_read(workers.take())?;
        }
        if self.fresh > 0 { self.commit() } else { Ok(()) }
    }

    /// Takes in what a page that was read from the archive means.
    fn take_read(&mut self, read: Option<Result<(PagePosition, Option<Change>, Permit)>>) -> Result<()> {
        let Some(read) = read else { return Ok(()) };
        let (next, change, _permit) = read?;
        if let Some(change) = change {
            self.take(change)?;
        }
        self.upto = next;
        if self.fresh >= CATCH_UP_BATCH { self.commit() } else { Ok(()) }
    }

    /// Indexes pages again whose incoming links have changed.
    fn renew_anchors(&mut self) -> Result<()> {
        if self.put_since {
            return Ok(()); // A page that is not found yet would be taken for one that is not there.
        }
        let dirty = self.sources.links.lock().take_dirty(ANCHORS_PER_TURN);
        if dirty.is_empty() {
            return Ok(());
        }
        let searcher = self.shard()?.searcher();
        for page in dirty {
            let Some(document) = searcher.find_by_id(page)? else { continue };
            let anchors = anchor_text(&self.sources.links.lock(), page)?;
            if anchors != document.anchors {
                self.shard()?.put(&Document { anchors, ..document })?;
                self.fresh += 1;
            }
        }
        Ok(())
    }

    /// Says why indexing waits, in the log only when the reason is new.
    fn complain(&self, error: &anyhow::Error) {
        let free = crate::disk::free_bytes(&self.sources.dir).unwrap_or(u64::MAX);
        let message = match free < ROOM_MIN {
            true => "indexing waits for room on the disk; make room and it goes on by itself".to_string(),
            false => format!("indexing waits: {error:#}"),
        };
        let mut trouble = self.progress.trouble.lock();
        if *trouble != message {
            tracing::error!(error = %format!("{error:#}"), "{message}");
            *trouble = message;
        }
    }

    /// Does a piece of work; when it fails (a full disk, say), opens the shard again as it was last committed
    /// and reads on from there, as often as needed. Pages wait safely in the archive meanwhile.
    fn retry_reopening(&mut self, work: impl FnOnce(&mut IndexWorker) -> Result<()>) {
        let Err(mut error) = work(self) else { return };
        loop {
            self.complain(&error);
            if self.stop.load(Ordering::SeqCst) {
                return;
            }
            std::thread::sleep(Duration::from_secs(1));
            self.shard = None;
            let opened = Shard::open(&self.sources.dir, self.sources.options.clone());
            let mended = opened.map_err(anyhow::Error::from).and_then(|shard| {
                self.progress.set_searcher(shard.searcher());
                self.shard = Some(shard);
                self.fresh = 0;
                self.put_since = false;
                self.catch_up()
            });
            match mended {
                Ok(()) => break,
                Err(again) => error = again,
            }
        }
        self.progress.trouble.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::replay::tests::{crawled, opened, order_removal, url};
    use crate::folder::Folder;

    /// Lets an indexer take in what the archive has; which of the two pages can be found then.
    fn indexed(folder: &Folder) -> [bool; 2] {
        let opened = opened(folder);
        let indexer = Indexer::start(Sources {
            dir: folder.index(),
            options: ShardOptions::default(),
            fabric: opened.followers.fabric.clone(),
            links: opened.links.clone(),
            archive: opened.archive.reader(),
            interpreter: opened.interpreter.clone(),
            commit_every: Duration::from_secs(1),
        });
        let (indexer, begun) = (indexer.unwrap(), Instant::now());
        while !indexer.progress().caught_up.load(Ordering::SeqCst) {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(5));
        }
        indexer.stop().unwrap();
        let searcher = Shard::open(&folder.index(), ShardOptions::default()).unwrap().searcher();
        ["http://a.org/", "http://b.org/"].map(|page| searcher.document(&url(page)).unwrap().is_some())
    }

    #[test]
    fn the_index_of_an_earlier_version_is_built_anew_and_that_of_a_later_one_is_not_touched() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        crawled(&folder);
        assert_eq!(indexed(&folder), [true, true]);
        let format = folder.index().join("FORMAT");
        let written = std::fs::read_to_string(&format).unwrap();
        std::fs::write(&format, "farol index 1\n").unwrap();
        assert_eq!(indexed(&folder), [true, true]);
        assert_eq!(std::fs::read_to_string(&format).unwrap(), written);
        std::fs::write(&format, "farol index 99\n").unwrap();
        assert!(Shard::open(&folder.index(), ShardOptions::default()).is_err_and(|e| !e.is_earlier_format()));
    }

    #[test]
    fn a_host_leaves_the_index_though_the_process_ends_before_it_does() {
        let dir = tempfile::tempdir().unwrap();
        let folder = Folder::open_or_create(&dir.path().join("data")).unwrap();
        crawled(&folder);
        assert_eq!(indexed(&folder), [true, true]);
        order_removal(&folder, &url("http://a.org/").host());
        assert_eq!(indexed(&folder), [false, true]);
        // Nor does it come back when the index is built anew.
        std::fs::remove_dir_all(folder.index()).unwrap();
        assert_eq!(indexed(&folder), [false, true]);
    }
}
