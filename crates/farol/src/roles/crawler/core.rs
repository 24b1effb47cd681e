//! The crawl itself: one thread that owns the frontier, the URL store and the archive.
//!
//! It takes what visits bring, writes it down (archive first, then everything that follows from it), returns
//! the leases, and sends out the next visits. Because one thread does all this, what is written is in one
//! order and needs no locks; fetching and parsing, which cost the time, happen on the runtime.
//!
//! INVARIANT: nothing follows from an answer before that answer is in the archive.

use super::agent::{AgentWork, WhileLeased};
use super::under_way::UnderWay;
use super::visit::{NoAnswer, VisitPlan, Visited, Visitor};
use crate::archive::Followers;
use crate::archive::not_asked::NotAsked;
use crate::archive::page_orders::PageOrder;
use crate::archive::take_in::{Arrived, TakenIn, take_in};
use crate::config::Config;
use crate::disk::{is_full, until_room};
use crate::exchange::packer::Packed;
use crate::handles::crawl::{CrawlSnapshot, Totals, set_full, set_open};
use crate::handles::order::Order;
use crate::handover::backup::Moment;
use anyhow::Result;
use farol_base::status::{EngineState, SeedSummary};
use farol_base::sync::Mutex;
use farol_base::{Clock, Host, PagePosition, SystemClock, Timestamp};
use farol_fetch::FetchError;
use farol_frontier::{Disposition, Frontier, HostState, Lease, Outcome, ROBOTS_VALID, Step, Task};
use farol_partition::Position;
use farol_store::pages::{Archive, Encoded};
use farol_store::urls::State;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// Answers written down in one go.
const BATCH_MAX: usize = 256;
/// From this many visits under way on, answers are gathered rather than waited for.
const BUSY: usize = 32;
/// How long they are gathered.
const GATHER: Duration = Duration::from_millis(1);
/// How long visits are sent out before what came back is looked at: the costliest verdict on a robots.txt takes 1.3 ms,
/// and rules that had to leave memory are read again in 12 ms, so a turn is over in some 60 ms at most.
const DISPATCH_MAX: Duration = Duration::from_millis(50);
/// Hosts brought into the frontier in one go.
pub const HOSTS_PER_TURN: usize = 256;
/// Sleep at most this long, so that orders and clocks are looked at.
const NAP_MAX: Duration = Duration::from_millis(500);
/// A crawl that ends when it is done does not wait so long for a host that never gave a page.
const LONG_PAUSE: Duration = Duration::from_secs(3600);
/// Sleep this long while the URL store merges.
const NAP_WHILE_MERGING: Duration = Duration::from_millis(5);
/// How often the snapshot is renewed.
const SNAPSHOT_EVERY: Duration = Duration::from_millis(500);
/// How often hosts' memories are written, and everything is made to survive a power cut.
const SYNC_EVERY: Duration = Duration::from_secs(5);
/// How often what other agents are to get is put on the disk and sent, full batches or not.
const SETTLE_EVERY: Duration = Duration::from_secs(2);
/// A host whose next page is due later than this leaves the frontier meanwhile.
pub const STAY_MAX: Duration = Duration::from_secs(600);
/// When told to stop, visits under way may end by themselves for so long; then they are abandoned, and their pages visited
/// next time. Most pages come within it, and what follows fits into the ten seconds that `docker stop` waits.
const STOP_GRACE: Duration = Duration::from_secs(5);

/// What reaches the core.
pub enum Event {
    Visited(Visited),
    Resolved {
        host: Host,
        answer: Result<Vec<IpAddr>, FetchError>,
    },
    /// A host was looked up to find its agent.
    Located {
        host: Host,
        hint: Option<IpAddr>,
        answer: Result<Vec<IpAddr>, FetchError>,
    },
    /// A host's name says where it is.
    Stands {
        host: Host,
        position: Position,
    },
    /// Hosts for another agent are in the outbox.
    Packed(Packed),
    Order(Order),
    /// Come to an end: wait a little for what is under way, write, return.
    Stop,
}

pub struct Core {
    pub config: Arc<Config>,
    pub frontier: Frontier,
    pub archive: Archive,
    pub followers: Followers,
    pub visitor: Arc<Visitor>,
    pub runtime: tokio::runtime::Handle,
    pub events: Receiver<Event>,
    pub sender: Sender<Event>,
    pub snapshot: Arc<Mutex<CrawlSnapshot>>,
    pub totals: Totals,
    /// Return when there is nothing left to do.
    pub ends_when_done: bool,
    pub under_way: UnderWay,
    /// When this run began, where the one before did not end as it should: hosts may have been asked just before.
    pub crashed_before: Option<Timestamp>,
    /// Hosts that were sent away for want of room, in all.
    pub sent_away: u64,
    /// When the seeds were last summed up.
    pub summed_up: Instant,
    pub disk_path: std::path::PathBuf,
    /// Somebody wants it to end: a full disk is no longer waited for.
    pub stopping: Arc<AtomicBool>,
    /// The cluster that it is an agent of, if it is.
    pub agent: Option<AgentWork>,
}

/// What the loop carries from turn to state.
struct LoopState {
    stopping: Option<Instant>,
    paused_by_disk: Option<String>,
    idle: bool,
    published: Instant,
    synced: Instant,
    disk_checked: Instant,
    settled: Instant,
}

impl Core {
    /// Reads what earlier runs have learnt. The URL store merges it first, and waits for room to do so.
    pub fn recall(&mut self) -> Result<()> {
        let tell = |message: &str| {
            set_full(&self.snapshot, message);
            !self.stopping.load(Ordering::SeqCst)
        };
        until_room("what is known of pages", tell, || self.followers.recall(SystemClock.now()))
    }

    /// Crawls until told to stop, or until done where that was asked for.
    pub fn run(&mut self) -> Result<()> {
        let long_ago = Instant::now().checked_sub(Duration::from_secs(3600)).unwrap_or_else(Instant::now);
        let mut state = LoopState {
            stopping: None,
            paused_by_disk: None,
            idle: false,
            published: long_ago,
            synced: Instant::now(),
            disk_checked: long_ago,
            settled: Instant::now(),
        };
        let mut wait = Duration::ZERO;
        loop {
            let batch = self.gather(wait, &mut state)?;
            self.commit(batch)?;
            self.check_disk(&mut state);
            wait = self.dispatch(&mut state)?;
            self.tick(&mut state)?;
            let done = state.idle && self.ends_when_done;
            let is_over = state.stopping.is_some_and(|since| since.elapsed() >= STOP_GRACE);
            if is_over || ((state.stopping.is_some() || done) && self.under_way.is_empty()) {
                break;
            }
        }
        self.publish(&state);
        self.finish()
    }

    /// Waits for something to happen and takes all that has.
    fn gather(&mut self, wait: Duration, state: &mut LoopState) -> Result<Vec<Visited>> {
        let mut batch = Vec::new();
        let mut next = if self.under_way.len() >= BUSY {
            // With this much under way something will have come: being woken for each answer would cost more
            // than the answer's own work.
            std::thread::sleep(wait.min(GATHER));
            self.events.try_recv().ok()
        } else {
            self.events.recv_timeout(wait).ok()
        };
        while let Some(event) = next {
            match event {
                Event::Visited(visited) => batch.push(visited),
                Event::Resolved { host, answer } => self.resolved(&host, answer)?,
                Event::Located { host, hint, answer } => self.located(&host, hint, answer)?,
                Event::Stands { host, position } => self.followers.hosts.stands_at(&host, position)?,
                Event::Packed(packed) => self.packed(packed)?,
                Event::Order(order) => self.apply_order(order)?,
                Event::Stop => state.stopping = state.stopping.or(Some(Instant::now())),
            }
            if batch.len() >= BATCH_MAX {
                break;
            }
            next = self.events.try_recv().ok();
        }
        Ok(batch)
    }

    /// Archive, then everything that follows.
    fn commit(&mut self, batch: Vec<Visited>) -> Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let mut batch = batch;
        let records = batch.iter_mut().map(Visited::take_encoded).collect();
        self.followers.now = SystemClock.now();
        let positions = map_present(records, |encoded| self.append(encoded))?;
        for (visited, position) in batch.into_iter().zip(positions) {
            self.take_in(visited, position)?;
        }
        self.followers.flush(self.archive.end())
    }

    /// Appends to the archive, waiting for room when the disk is full: nothing that was fetched is lost.
    fn append(&mut self, encoded: &[Encoded]) -> Result<Vec<PagePosition>> {
        let tell = |message: &str| {
            set_full(&self.snapshot, message);
            !self.stopping.load(Ordering::SeqCst)
        };
        until_room("more pages", tell, || Ok(self.archive.append(encoded)?))
    }

    /// Sends out visits until there is nothing to do before some later time, which is returned.
    fn dispatch(&mut self, state: &mut LoopState) -> Result<Duration> {
        state.idle = false;
        if state.stopping.is_some() || self.followers.operator().paused() || state.paused_by_disk.is_some() {
            return Ok(NAP_MAX);
        }
        if !self.may_ask() {
            return Ok(NAP_MAX);
        }
        if self.limit_reached() {
            state.idle = self.under_way.is_empty();
            return Ok(NAP_MAX);
        }
        self.bring_hosts()?;
        let begun = Instant::now();
        // Bounds the visits sent out, and the time that takes, before events are looked at again.
        for _ in 0..4 * BATCH_MAX {
            if begun.elapsed() >= DISPATCH_MAX {
                break;
            }
            let now = SystemClock.now();
            match self.frontier.poll(now) {
                Step::Resolve(host) => self.resolve(host),
                Step::Refill { host, want } => self.refill(now, host, want)?,
                Step::Left { host, memory } => self.guest_left(&host, &memory)?,
                Step::Fetch(lease) => {
                    let Some(lease) = self.own(now, lease)? else { continue };
                    let Some(lease) = self.not_left(now, lease)? else { continue };
                    self.send(now, lease)?;
                    if self.limit_reached() {
                        return Ok(NAP_MAX);
                    }
                }
                Step::WaitUntil(then) => {
                    state.idle = self.ends_when_done && self.only_waits_in_vain(then.since(now), now);
                    return Ok(then.since(now).min(self.nap(now)));
                }
                Step::Idle => {
                    // Idle with nothing under way, and nothing that becomes due soon: all is done.
                    let nap = self.nap(now);
                    let nothing_comes = nap == NAP_MAX;
                    state.idle =
                        self.under_way.is_empty() && self.frontier.counts().hosts == 0 && nothing_comes;
                    return Ok(nap);
                }
            }
        }
        Ok(Duration::ZERO)
    }

    /// Whether all that is left are hosts that do not answer: those that were given up for a day or more, and those that
    /// never gave a page. A crawl that ends when it is done does not wait for them; the next run tries again.
    fn only_waits_in_vain(&mut self, pause: Duration, now: Timestamp) -> bool {
        // Looking at all hosts is worth while only where nothing happens for some time.
        if pause < NAP_MAX || !self.under_way.is_empty() || self.nap(now) != NAP_MAX {
            return false;
        }
        let collected =
            |host: &Host| self.followers.urls.host_counts(host).map_or(0, |counts| counts.collected);
        self.frontier.hosts().all(|view| match view.state {
            HostState::Unreachable | HostState::Refused => true,
            HostState::Resting => {
                // Of a host that was refused in an earlier run only its long pause is left.
                let given_up = view.memory.failures > 0 || view.memory.not_before > now + LONG_PAUSE;
                given_up && collected(&view.host) == 0
            }
            _ => false,
        })
    }

    /// How long to sleep where nothing else is to be done: shortly while the URL store makes more hosts ready.
    fn nap(&mut self, now: Timestamp) -> Duration {
        let is_near = self.followers.urls.next_host_due().is_some_and(|due| due <= now);
        if is_near { NAP_WHILE_MERGING } else { NAP_MAX }
    }

    fn limit_reached(&self) -> bool {
        let max = self.config.crawl.max_pages;
        max > 0 && self.totals.pages + self.under_way.len() as u64 >= max
    }

    /// Starts a visit, unless robots.txt forbids it or the page is out of scope.
    fn send(&mut self, now: Timestamp, lease: Lease) -> Result<()> {
        let mut previous = None;
        if let Task::Page(page) = lease.task() {
            let page = page.clone();
            let mut not_asked = self.followers.not_asked_at(&page.url, Some(lease.address()))?;
            if not_asked.is_none() && self.followers.is_trapped(&page.url, now)? {
                not_asked = Some(NotAsked::Trap);
            }
            if let Some(why) = not_asked {
                self.count_error(why.code());
                tracing::debug!("not asked for: {} ({})", page.url, why.code());
                self.followers.seed_not_asked(&page.url, why, now)?;
                let again = if why == NotAsked::Removed { Timestamp::NEVER } else { now + ROBOTS_VALID };
                self.followers.refused(&page.url, why, now, again)?;
                let _finished = self.frontier.done(now, lease, Outcome::NotAsked);
                return Ok(());
            }
            if page.revisit {
                // A page that had left the index, or a seed that is to tell what it is like, must come whole.
                let record = self.followers.urls.get(&page.url)?;
                let is_kept = !self.followers.seeds.is_waiting(&page.url);
                let record = record.filter(|record| is_kept && record.state != State::Refused);
                previous = record.and_then(|record| record.position);
            }
        }
        tracing::debug!("asking {} at {} for {:?}", lease.host(), lease.address(), lease.task());
        let (visitor, plan) = (self.visitor.clone(), VisitPlan::of(&lease));
        let Some(rights) = self.rights() else {
            self.under_way.start(lease, async move { visitor.visit(&plan, previous).await });
            return Ok(());
        };
        let (id, host, address) = (self.under_way.next_id(), lease.host().clone(), lease.address());
        rights.expect(id);
        self.under_way.start(lease, async move {
            // Looked at on the thread that asks: much may have happened since.
            if rights.begin(id, &host, address).is_err() {
                return Err(NoAnswer::NoRight);
            }
            let visit = async move { visitor.visit(&plan, previous).await };
            WhileLeased::new(rights, visit).await.unwrap_or(Err(NoAnswer::NoRight))
        });
        Ok(())
    }

    fn apply_order(&mut self, order: Order) -> Result<()> {
        match order {
            Order::Pause => self.followers.set_paused(true),
            Order::Resume => self.followers.set_paused(false),
            Order::AddSeed(url) => {
                self.followers.add_seed(&url)?;
                if let Some(host) = self.followers.wake_seed(&url, SystemClock.now())? {
                    self.come_again(&host)?;
                }
                self.followers.flush(self.archive.end())
            }
            Order::RemoveHost(host) => {
                self.frontier.remove_host(&host);
                self.followers.remove_host(&host, self.archive.end())?;
                self.followers.flush(self.archive.end())
            }
            Order::Pages(order, reply) => {
                if let PageOrder::Refetch(pages) = &order {
                    self.stop_backing_off(&pages.host())?;
                }
                let (archive, interpreter) = (self.archive.reader(), &self.visitor.interpreter);
                let done = self.followers.order_pages(&order, SystemClock.now(), &archive, interpreter)?;
                // Whoever ordered may have gone meanwhile.
                let _ = reply.send(done);
                Ok(())
            }
            Order::Received(batch) => self.received(batch),
            Order::Orphaned(freight) => self.orphaned(freight),
            Order::Settle(reply) => {
                self.followers.settle(self.archive.end())?;
                // Whoever waits may have ended meanwhile.
                let _ = reply.send(());
                Ok(())
            }
            Order::BackUp(reply) => {
                self.followers.settle(self.archive.end())?;
                let moment = Moment::take(&mut *self.followers.urls, &mut self.archive);
                let _ = reply.send(moment.map_err(|error| format!("{error:#}")));
                Ok(())
            }
            Order::TakeIn(arrived, reply) => {
                let taken = self.take_arrived(*arrived)?;
                // Whoever asked may have gone meanwhile, and asks again.
                let _ = reply.send(taken);
                Ok(())
            }
            Order::Told(number, order, reply) => self.told(number, &order, &reply),
            Order::Inspect(inspect) => {
                let frontier = &self.frontier;
                if let Err(error) = self.followers.answer(inspect, &|host| frontier.host(host)) {
                    tracing::warn!(error = %format!("{error:#}"), "a question stays without an answer");
                }
                Ok(())
            }
        }
    }

    /// Archives and applies pages of another engine, waiting for room when the disk is full.
    fn take_arrived(&mut self, arrived: Arrived) -> Result<TakenIn> {
        crate::folder::grow_format(&self.disk_path)?;
        let tell = |message: &str| {
            set_full(&self.snapshot, message);
            !self.stopping.load(Ordering::SeqCst)
        };
        let mut append = |archive: &mut Archive, batch: &[Encoded]| {
            until_room("more pages", tell, || Ok(archive.append(batch)?))
        };
        let (followers, interpreter) = (&mut self.followers, &self.visitor.interpreter);
        take_in(&mut self.archive, &mut append, followers, interpreter, SystemClock.now(), arrived)
    }

    fn check_disk(&mut self, state: &mut LoopState) {
        if state.disk_checked.elapsed() < Duration::from_secs(1) {
            return;
        }
        state.disk_checked = Instant::now();
        let reserve = self.config.archive.disk_reserve.get();
        state.paused_by_disk = match crate::disk::free_bytes(&self.disk_path) {
            Some(free) if free < reserve => Some(format!(
                "only {} MiB free on the disk, less than the {} MiB set aside (archive.disk_reserve); make room and crawling goes on",
                free >> 20,
                reserve >> 20
            )),
            _ => None,
        };
    }

    fn tick(&mut self, state: &mut LoopState) -> Result<()> {
        if state.published.elapsed() >= SNAPSHOT_EVERY {
            state.published = Instant::now();
            let waiting = self.followers.urls.counts().waiting;
            self.followers.revisits.keep_balance(waiting);
            self.publish(state);
        }
        self.agent_turn()?;
        if self.agent.is_some() && state.settled.elapsed() >= SETTLE_EVERY {
            state.settled = Instant::now();
            let end = self.archive.end();
            self.followers.settle(end)?;
        }
        if state.synced.elapsed() >= SYNC_EVERY {
            state.synced = Instant::now();
            match self.write_memories() {
                // Nothing is lost: it is written with the next ones.
                Err(error) if is_full(&error) => set_full(&self.snapshot, &format!("no room: {error:#}")),
                written => written?,
            }
        }
        Ok(())
    }

    fn write_memories(&mut self) -> Result<()> {
        self.archive.sync()?;
        self.followers.urls.sync()?;
        self.followers.linker.maintain()?;
        self.followers.confirm(&self.archive)?;
        self.totals.write(&*self.followers.fabric.tables)
    }

    /// The seeds; where there are very many, a summary that was made some seconds ago may do.
    fn seed_summary(&mut self) -> Arc<SeedSummary> {
        let known = self.snapshot.lock().seeds.clone();
        let is_costly = known.total > 10_000 && self.summed_up.elapsed() < SYNC_EVERY;
        let news = if is_costly { None } else { self.followers.seeds.news() };
        self.summed_up = if news.is_some() { Instant::now() } else { self.summed_up };
        news.map_or(known, Arc::new)
    }

    fn publish(&mut self, round: &LoopState) {
        let counts = self.followers.urls.counts();
        let hosts = self.frontier.counts();
        let usage = self.visitor.fetcher.usage();
        let (state, message) = match (&round.paused_by_disk, self.followers.operator().paused()) {
            _ if round.stopping.is_some() => (EngineState::Stopping, String::new()),
            (Some(message), _) => (EngineState::DiskFull, message.clone()),
            (None, true) => (EngineState::Paused, String::new()),
            (None, false) if self.limit_reached() => {
                let max = self.config.crawl.max_pages;
                (EngineState::Idle, format!("the limit of {max} pages is reached; raise max_pages to go on"))
            }
            (None, false) if self.under_way.is_empty() && counts.waiting + counts.unmerged == 0 => {
                (EngineState::Idle, String::new())
            }
            (None, false) => (EngineState::Crawling, String::new()),
        };
        let snapshot = CrawlSnapshot {
            state,
            message,
            totals: self.totals.clone(),
            queue: counts.waiting,
            urls_known: counts.known,
            hosts_known: counts.hosts,
            hosts: HostState::ALL
                .iter()
                .map(|state| (state.name().to_string(), hosts.in_state(*state) as u64))
                .collect(),
            archive_bytes: self.archive.bytes(),
            urls_bytes: counts.bytes_on_disk,
            links_bytes: self.followers.linker.bytes(),
            robots_bytes: self.followers.hosts.rules_bytes() as u64,
            shapes: self.followers.shapes().hosts() as u64,
            texts: self.followers.shapes().texts() as u64,
            visits: self.under_way.len() as u64,
            connections: usage.connections,
            body_bytes: usage.body_bytes,
            hosts_sent_away: self.sent_away,
            freshness: self.followers.revisits.freshness(SystemClock.now()),
            seeds: self.seed_summary(),
        };
        *self.snapshot.lock() = snapshot;
    }

    fn finish(&mut self) -> Result<()> {
        for (host, memory, pages) in self.frontier.drain() {
            self.followers.hosts.remember(&host, &memory);
            self.give_back(pages)?;
            self.followers.urls.release_host(&host);
        }
        // Their hosts are out of the frontier now, so all that comes of these leases are their pages.
        for lease in self.under_way.abandon() {
            let no_answer = Outcome::Failed { transient: true };
            if let Disposition::GivenBack(page) = self.frontier.done(SystemClock.now(), lease, no_answer) {
                self.give_back(vec![page])?;
            }
        }
        self.followers.settle(self.archive.end())?;
        self.followers.linker.sync()?;
        self.write_memories()?;
        set_open(&*self.followers.fabric.tables, false)
    }
}

/// Maps those that are there, all at once; each result stands where its item stood.
fn map_present<T, U>(
    items: Vec<Option<T>>,
    map: impl FnOnce(&[T]) -> Result<Vec<U>>,
) -> Result<Vec<Option<U>>> {
    let is_present: Vec<bool> = items.iter().map(Option::is_some).collect();
    let present: Vec<T> = items.into_iter().flatten().collect();
    let mapped = map(&present)?;
    anyhow::ensure!(mapped.len() == present.len(), "{} of {} were mapped", mapped.len(), present.len());
    let mut mapped = mapped.into_iter();
    Ok(is_present.into_iter().map(|is| if is { mapped.next() } else { None }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_not_archived_do_not_shift_the_others_positions() {
        let batch = vec![None, Some(1), Some(2), None, None, Some(3), None];
        let tenfold = |present: &[i32]| Ok(present.iter().map(|one| one * 10).collect::<Vec<_>>());
        let want = [None, Some(10), Some(20), None, None, Some(30), None];
        assert_eq!(map_present(batch, tenfold).unwrap(), want);
        assert_eq!(map_present(Vec::new(), tenfold).unwrap(), []);
        assert!(map_present(vec![Some(1)], |_| Ok(Vec::<i32>::new())).is_err());
    }
}
