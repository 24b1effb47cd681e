//! The ranker at work: reads the log of links, tells anchors, ranks.

use super::RankerService;
use super::mark::{read_mark, write_mark};
use super::pending::{PendingAnchors, Waiting};
use super::publish::{publish, shard_ids};
use super::schedule::RankSchedule;
use crate::anchor_text::anchor_text;
use crate::handles::cluster::{ClusterView, RankerFigures};
use crate::wire::batch::{DocumentBatch, LinkBatch, LinkChange, WireChange, pack, unpack};
use crate::wire::values::read_position;
use anyhow::{Context, Result};
use farol_base::{HostHash, PageId, PagePosition};
use farol_cluster::record::{RanksReport, ReplicaMark, Role};
use farol_cluster::stretch::{Fit, Reached, Stretch};
use farol_cluster::{ArchivePosition, NodeNo, NodeRecord, ShardId};
use farol_fabric::{Seq, Topic};
use farol_links::{Budget, Error, Links, LinksOptions, OutLink, RankTable};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Batches that are read at a time.
const READ_MAX: usize = 64;
/// How long to wait for the next batch.
const READ_WAIT: Duration = Duration::from_millis(200);
/// How often anchors are told, and what was told is made durable.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// Pages whose anchors are told in one go, and pages of one batch.
const TELL_MAX: usize = 2_000;
const BATCH_MAX: usize = 64;
/// While so many pages wait for their anchors to be told, no more links are read: 50,000 × 56 bytes = 3 MB.
const PENDING_MAX: usize = 50_000;
/// An agent is asked again for the same gap after this.
const ASK_EVERY: Duration = Duration::from_secs(5);
/// An agent that has sent nothing at all is asked again after this.
const ASK_ALL_EVERY: Duration = Duration::from_secs(30);
/// How often the log is trimmed, and a failed upload tried again.
const TRIM_EVERY: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_secs(10);
/// Ranks come out the same whatever they were computed from before, so that it does not matter who computes them: an
/// error of 6e-7 in all of them together.
const BUDGET: Budget = Budget { iterations_max: 120, tolerance: 1e-7 };

/// Ranks that were computed, where they were, and what came of uploading them.
struct Done {
    table: Option<RankTable>,
    uploaded: Result<Option<RanksReport>>,
}

/// Everything up to `mark` is durable once `round` has been told.
struct Cut {
    mark: ReplicaMark,
    round: u64,
}

pub struct RankerWorker<'a> {
    service: &'a RankerService,
    links: Links,
    /// How far the log was read, durable or not.
    mark: ReplicaMark,
    durable: ReplicaMark,
    cut: Option<Cut>,
    /// Batches up to here may have come before a crash, which has forgotten whose anchors they changed.
    repeats_upto: Option<u64>,
    is_at_end: bool,
    pending: PendingAnchors,
    schedule: RankSchedule,
    job: Option<JoinHandle<Result<Done>>>,
    /// Shards that have the newest ranks.
    shown_to: BTreeSet<ShardId>,
    uploads_rest: Option<Instant>,
    /// Agents that were asked to send again, and when.
    asked: BTreeMap<u16, Instant>,
    told: Instant,
    trimmed: (Instant, u64),
}

/// Opens the graph; one that is damaged is made anew, which has all links sent again.
fn open_links(dir: &Path) -> Result<Links> {
    let folder = dir.join("links");
    match Links::open(crate::disk::at(&folder)?, LinksOptions::default()) {
        Err(error @ Error::Damaged { .. }) => {
            tracing::warn!("the graph of links cannot be used and is built anew: {error}");
            std::fs::remove_dir_all(&folder)?;
            Ok(Links::open(crate::disk::at(&folder)?, LinksOptions::default())?)
        }
        opened => opened.with_context(|| format!("cannot open the graph of links in {}", folder.display())),
    }
}

impl<'a> RankerWorker<'a> {
    pub fn open(service: &'a RankerService) -> Result<RankerWorker<'a>> {
        std::fs::create_dir_all(&service.dir)?;
        let links = open_links(&service.dir)?;
        // A mark without its graph says nothing.
        let is_new = links.counts().pages == 0;
        let mark = if is_new { ReplicaMark::default() } else { read_mark(&service.dir)? };
        let mut schedule = RankSchedule::new(service.rank_every);
        if !is_new {
            schedule.changed(Instant::now());
        }
        Ok(RankerWorker {
            service,
            links,
            durable: mark.clone(),
            mark,
            cut: None,
            repeats_upto: None,
            is_at_end: false,
            pending: PendingAnchors::default(),
            schedule,
            job: None,
            shown_to: BTreeSet::new(),
            uploads_rest: None,
            asked: BTreeMap::new(),
            told: Instant::now(),
            trimmed: (Instant::now(), 0),
        })
    }

    /// Works until it is told to stop, or another node is named.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        while !stop.load(Ordering::SeqCst) && self.service.is_named() {
            match self.pending.len() < PENDING_MAX {
                true => self.read_log()?,
                false => std::thread::sleep(READ_WAIT),
            }
            if self.told.elapsed() >= TELL_EVERY {
                self.told = Instant::now();
                self.tell_and_commit()?;
                self.ask_the_silent();
            }
            self.rank()?;
        }
        if let Some(job) = self.job.take() {
            // What it has come to is computed again by whoever goes on.
            let _ = job.join();
        }
        Ok(())
    }

    fn read_log(&mut self) -> Result<()> {
        let after = Seq(self.mark.seq);
        let read = match self.service.fabric.read(&Topic::Links, after, READ_MAX, READ_WAIT) {
            Ok(read) => read,
            Err(away) => {
                tracing::debug!(%away, "the log of links is away");
                std::thread::sleep(READ_WAIT);
                return Ok(());
            }
        };
        let stream = read.stream.to_string();
        if stream != self.mark.stream || read.end < after {
            // Another log, or one that has lost its end: it is read from its beginning. What agents do not send again by
            // themselves shows as a gap.
            if !self.mark.stream.is_empty() {
                tracing::warn!("the log of links is not the one it was; it is read from its beginning");
            }
            (self.mark.stream, self.mark.seq) = (stream, 0);
            return Ok(());
        }
        let repeats_upto = *self.repeats_upto.get_or_insert(read.end.0);
        for (seq, bytes) in &read.items {
            self.take_batch(*seq, bytes, seq.0 <= repeats_upto)?;
            self.mark.seq = seq.0;
        }
        self.is_at_end = read.items.last().is_none_or(|(seq, _)| *seq >= read.end);
        Ok(())
    }

    fn take_batch(&mut self, seq: Seq, bytes: &[u8], repeats: bool) -> Result<()> {
        let batch: LinkBatch = match unpack(bytes) {
            Ok(batch) => batch,
            Err(error) => {
                // What it held is asked for again when the next one shows the gap.
                self.service.board.dead.take(Topic::Links, seq.0, bytes, &error);
                return Ok(());
            }
        };
        let wire = &batch.stretch;
        let stretch = Stretch {
            from: wire.from,
            prev: read_position(wire.prev),
            upto: read_position(wire.upto),
            cut: wire.cut,
            piece: wire.piece,
        };
        match self.mark.take(&stretch) {
            Fit::Take(_) => drop(self.asked.remove(&stretch.from)),
            Fit::Known => return Ok(()),
            Fit::Gap => {
                self.ask_again(stretch.from, ASK_EVERY);
                return Ok(());
            }
        }
        if !batch.changes.is_empty() {
            self.schedule.changed(Instant::now());
        }
        batch.changes.into_iter().try_for_each(|change| self.take(stretch.from, change, repeats))
    }

    fn take(&mut self, agent: u16, change: LinkChange, repeats: bool) -> Result<()> {
        match change {
            LinkChange::Put { page, host, at, links } => {
                let at = read_position(at);
                let links: Vec<OutLink> = links.into_iter().map(OutLink::from).collect();
                self.links.put(PageId(page), HostHash(host), &links, at)?;
                self.pending.fetched(PageId(page), agent, at);
                if repeats {
                    links.iter().for_each(|link| self.pending.found(link.target));
                }
            }
            LinkChange::Remove { page } => self.links.remove(PageId(page))?,
        }
        Ok(())
    }

    /// Has an agent send again from where this graph lacks something.
    fn ask_again(&mut self, agent: u16, every: Duration) {
        if self.asked.get(&agent).is_some_and(|asked| asked.elapsed() < every) {
            return;
        }
        self.asked.insert(agent, Instant::now());
        let from = self.mark.reached(NodeNo(agent)).position;
        tracing::info!(agent, ?from, "links are missing and asked for again");
        (self.service.ask_again)(NodeNo(agent), Topic::Links, from);
    }

    /// A log that was trimmed for another ranker shows no gap while nothing new comes: agents of whom nothing is known
    /// are asked for everything.
    fn ask_the_silent(&mut self) {
        if !self.is_at_end {
            return;
        }
        let view = self.service.cluster.view();
        let agents =
            view.nodes.values().filter(|node| !node.state.is_gone() && node.roles.contains(&Role::Crawl));
        for agent in agents.filter_map(|node| node.no) {
            if self.mark.reached(agent) == Reached::default() {
                self.ask_again(agent.0, ASK_ALL_EVERY);
            }
        }
    }

    /// Tells the shards what their pages are called, and makes durable what needs no more telling.
    fn tell_and_commit(&mut self) -> Result<()> {
        loop {
            let dirty = self.links.take_dirty(TELL_MAX);
            if dirty.is_empty() {
                break;
            }
            // Of the others, anchors are told once they are fetched.
            let links = &self.links;
            dirty.into_iter().filter(|page| links.knows(*page)).for_each(|page| self.pending.found(page));
        }
        if self.cut.is_none() && self.mark != self.durable {
            self.cut = Some(Cut { mark: self.mark.clone(), round: self.pending.end_round() });
        }
        self.tell()?;
        if let Some(cut) = self.cut.take_if(|cut| self.pending.has_told(cut.round)) {
            self.links.sync()?;
            write_mark(&self.service.dir, &cut.mark)?;
            self.durable = cut.mark;
        }
        self.trim();
        self.tell_figures();
        // What fails now is tried again at the next turn.
        if let Err(error) = self.links.maintain() {
            tracing::warn!(%error, "the graph of links waits for its upkeep");
        }
        Ok(())
    }

    fn tell_figures(&self) {
        let counts = self.links.counts();
        *self.service.board.ranker.lock() = Some(RankerFigures {
            pages: counts.pages,
            links: counts.links,
            bytes: counts.bytes,
            anchors_waiting: self.pending.len() as u64,
            mark: self.durable.seq,
            is_ranking: self.job.is_some(),
        });
    }

    fn tell(&mut self) -> Result<()> {
        let view = self.service.cluster.view();
        let ready = self.pending.take(TELL_MAX, |page, agent, at| is_sent(&view, page, agent, at));
        let mut by_shard: BTreeMap<ShardId, Vec<(PageId, Waiting)>> = BTreeMap::new();
        for (page, waiting) in ready {
            match shard_of(&view, page) {
                Some(shard) => by_shard.entry(shard).or_default().push((page, waiting)),
                None => self.pending.put_back([(page, waiting)]),
            }
        }
        for (shard, pages) in by_shard {
            for pages in pages.chunks(BATCH_MAX) {
                self.tell_shard(shard, pages)?;
            }
        }
        Ok(())
    }

    fn tell_shard(&mut self, shard: ShardId, pages: &[(PageId, Waiting)]) -> Result<()> {
        let mut changes = Vec::new();
        for (page, waiting) in pages {
            // A page that has gone needs none.
            if self.links.knows(*page) {
                let text = anchor_text(&self.links, *page)?;
                if waiting.has_changed || !text.is_empty() {
                    changes.push(WireChange::Anchors { page: page.0, text });
                }
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        let bytes = pack(&DocumentBatch { stretch: None, changes })?;
        if let Err(refused) = self.service.fabric.append(&Topic::Docs(shard.0), &bytes) {
            tracing::debug!(%refused, %shard, "anchors wait");
            self.pending.put_back(pages.iter().copied());
        }
        Ok(())
    }

    /// Lets the log forget what is durable here: nobody else reads it.
    fn trim(&mut self) {
        let (at, upto) = self.trimmed;
        if at.elapsed() < TRIM_EVERY || self.durable.seq <= upto || self.durable.stream != self.mark.stream {
            return;
        }
        self.trimmed = (Instant::now(), self.durable.seq);
        if let Err(away) = self.service.fabric.trim(&Topic::Links, Seq(self.durable.seq)) {
            tracing::debug!(%away, "the log of links is not trimmed");
        }
    }

    /// Computes ranks where it is time, and uploads them; also where there are shards that have none.
    fn rank(&mut self) -> Result<()> {
        if let Some(job) = self.job.take_if(|job| job.is_finished()) {
            let done = job.join().unwrap_or_else(|_| anyhow::bail!("ranking broke down"));
            self.take_ranks(done)?;
        }
        if self.job.is_some() {
            return Ok(());
        }
        let (now, pages) = (Instant::now(), self.links.counts().pages);
        let service = self.service.clone();
        let view = service.cluster.view();
        let shards = view.shards.as_deref().map(shard_ids).unwrap_or_default();
        if self.schedule.is_due(pages, now) && !shards.is_empty() {
            self.schedule.begin(pages, now);
            self.shown_to = shards;
            let job = self.links.snapshot_for_ranks();
            self.job = Some(beside(move || {
                let table = job.run(BUDGET)?.table;
                let uploaded = publish(&service, &table);
                Ok(Done { table: Some(table), uploaded })
            })?);
        } else if self.shown_to != shards && self.uploads_rest.is_none_or(|until| now >= until) {
            self.shown_to = shards;
            let table = self.links.ranks();
            self.job = Some(beside(move || Ok(Done { table: None, uploaded: publish(&service, &table) }))?);
        }
        Ok(())
    }

    fn take_ranks(&mut self, done: Result<Done>) -> Result<()> {
        let now = Instant::now();
        self.schedule.end(done.is_ok(), now);
        let uploaded = match done {
            Ok(Done { table, uploaded }) => {
                table.map_or(Ok(()), |table| self.links.install(table))?;
                uploaded
            }
            Err(error) => Err(error),
        };
        match uploaded {
            Ok(report) => {
                if report.is_some() {
                    *self.service.board.ranks.lock() = report;
                }
                self.service.board.complain("uploads of ranks", "");
            }
            Err(error) => {
                // The ranks of before stay in use.
                self.shown_to.clear();
                self.uploads_rest = Some(now + RETRY);
                let text = format!("new ranks wait: {error:#}");
                self.service.board.complain("uploads of ranks", &text);
            }
        }
        Ok(())
    }
}

fn beside(work: impl FnOnce() -> Result<Done> + Send + 'static) -> Result<JoinHandle<Result<Done>>> {
    let thread = std::thread::Builder::new().name("ranks".to_string());
    Ok(thread.spawn(move || {
        crate::process::be_nice();
        work()
    })?)
}

/// The shard whose log a page's documents go to.
fn shard_of(view: &ClusterView, page: PageId) -> Option<ShardId> {
    let holds = |from: u64, to: u64| (from..=to).contains(&page.0);
    let map = view.shards.as_ref()?;
    map.written().find(|entry| holds(entry.from, entry.to)).map(|entry| entry.id)
}

/// Whether an agent has put a page of its archive into the log of its shard. One that is gone sends no more.
fn is_sent(view: &ClusterView, page: PageId, agent: u16, at: PagePosition) -> bool {
    let Some(shard) = shard_of(view, page) else { return false };
    let is_agent = |node: &&NodeRecord| node.no == Some(NodeNo(agent)) && !node.state.is_gone();
    let Some(agent) = view.nodes.values().find(is_agent) else { return true };
    let at = ArchivePosition { file: u64::from(at.file), offset: at.offset };
    agent.report.sent.get(&shard).is_some_and(|sent| *sent > at)
}
