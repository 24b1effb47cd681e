//! Writes links beside the crawl: what the link graph takes to seal and merge must not keep the crawl waiting.
//!
//! Everything is done in the order in which it was given, by one thread. The link graph follows the archive with a
//! watermark of its own, so that it may be a little behind; what a crash takes of it is read again.

use crate::disk::{OnFullDisk, until_room};
use anyhow::{Result, anyhow};
use farol_base::sync::Mutex;
use farol_base::{HostHash, PageId, PagePosition};
use farol_links::{Links, OutLink, RankTable};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Pages that may wait for their links to be written: 4,096 × about 3 KB = 12 MB.
const WAITING_MAX: usize = 4096;

enum LinkJob {
    Put {
        page: PageId,
        host: HostHash,
        links: Vec<OutLink>,
        at: PagePosition,
    },
    Remove(PageId),
    /// All of the archive up to here was given.
    Upto(PagePosition),
    /// One step of upkeep.
    Maintain,
    /// Makes everything survive a power cut, and says so.
    Sync(SyncSender<()>),
}

/// The thread that writes links.
pub struct Linker {
    pub links: Arc<Mutex<Links>>,
    give: Option<SyncSender<LinkJob>>,
    thread: Option<JoinHandle<()>>,
    shared: Arc<LinkerShared>,
}

#[derive(Default)]
struct LinkerShared {
    bytes: AtomicU64,
    ranks: Mutex<Arc<RankTable>>,
    /// What went wrong, until somebody hears of it.
    trouble: Mutex<Option<anyhow::Error>>,
    /// `None`: nobody waits for room.
    on_full_disk: Mutex<Option<OnFullDisk>>,
}

impl Linker {
    pub fn start(links: Arc<Mutex<Links>>) -> Result<Linker> {
        let (give, jobs) = sync_channel(WAITING_MAX);
        let shared = Arc::new(LinkerShared::default());
        shared.learn(&links.lock());
        let (on, with) = (links.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("links".to_string()).spawn(move || {
            crate::process::be_nice();
            if let Err(error) = work(&on, &jobs, &with) {
                *with.trouble.lock() = Some(error);
            }
        })?;
        Ok(Linker { links, give: Some(give), thread: Some(thread), shared })
    }

    /// Says whom to tell, about once a second, while the disk is full. Until then a full disk is not waited for.
    pub fn on_full_disk(&self, tell: OnFullDisk) {
        *self.shared.on_full_disk.lock() = Some(tell);
    }

    /// Notes what a page links to.
    pub fn put(&self, page: PageId, host: HostHash, links: Vec<OutLink>, at: PagePosition) -> Result<()> {
        self.give(LinkJob::Put { page, host, links, at })
    }

    pub fn remove(&self, page: PageId) -> Result<()> {
        self.give(LinkJob::Remove(page))
    }

    /// Says that everything up to this position of the archive was given.
    pub fn upto(&self, at: PagePosition) -> Result<()> {
        self.give(LinkJob::Upto(at))
    }

    pub fn maintain(&self) -> Result<()> {
        self.give(LinkJob::Maintain)
    }

    /// Waits until everything that was given is written and would survive a power cut.
    pub fn sync(&self) -> Result<()> {
        let (reply, done) = sync_channel(1);
        self.give(LinkJob::Sync(reply))?;
        done.recv().map_err(|_| self.trouble())
    }

    /// Bytes on the disk, as of the last upkeep.
    pub fn bytes(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Ranks as of the last upkeep.
    pub fn ranks(&self) -> Arc<RankTable> {
        self.shared.ranks.lock().clone()
    }

    fn give(&self, job: LinkJob) -> Result<()> {
        let given = self.give.as_ref().map(|give| give.send(job));
        if matches!(given, Some(Ok(()))) { Ok(()) } else { Err(self.trouble()) }
    }

    /// Why the thread has ended.
    fn trouble(&self) -> anyhow::Error {
        let told = self.shared.trouble.lock().take();
        told.unwrap_or_else(|| anyhow!("the link graph has stopped; run `farol check`, then start again"))
    }
}

impl Drop for Linker {
    fn drop(&mut self) {
        self.give = None;
        if let Some(thread) = self.thread.take() {
            // Whatever went wrong there is told at the next start.
            let _ = thread.join();
        }
    }
}

impl LinkerShared {
    fn learn(&self, links: &Links) {
        self.bytes.store(links.counts().bytes, Ordering::Relaxed);
        *self.ranks.lock() = links.ranks();
    }
}

fn work(links: &Mutex<Links>, jobs: &Receiver<LinkJob>, shared: &LinkerShared) -> Result<()> {
    let tell = |message: &str| shared.on_full_disk.lock().as_ref().is_some_and(|tell| tell(message));
    while let Ok(job) = jobs.recv() {
        until_room("links", tell, || Ok(once(links, &job, shared)?))?;
    }
    Ok(())
}

fn once(links: &Mutex<Links>, job: &LinkJob, shared: &LinkerShared) -> Result<(), farol_links::Error> {
    let mut graph = links.lock();
    match job {
        LinkJob::Put { page, host, links, at } => graph.put(*page, *host, links, *at),
        LinkJob::Remove(page) => graph.remove(*page),
        LinkJob::Upto(at) => {
            graph.advance(*at)?;
            graph.flush()
        }
        LinkJob::Maintain => {
            // What fails now is tried again at the next turn.
            if let Err(error) = graph.maintain() {
                tracing::warn!(error = %error, "the link graph waits for its upkeep");
            }
            shared.learn(&graph);
            Ok(())
        }
        LinkJob::Sync(reply) => {
            graph.sync()?;
            // Whoever waited may have gone.
            let _ = reply.send(());
            Ok(())
        }
    }
}
