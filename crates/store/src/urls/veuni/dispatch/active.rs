//! A block's turn: its servers that have something to hand out, and how far each has got.
//!
//! Takes 24 bytes per server that waits, some 300 bytes per server that was asked, and for each that is held up to 64
//! URLs, or as many as are asked for at a time; and room for the pre-scheduled URLs of one server. All of it is made anew
//! when the block is merged.

use crate::Error;
use crate::urls::record::Slim;
use crate::urls::veuni::bucket::{BlockFile, Cursor, Entry, Server};
use crate::urls::veuni::compaction::merge::{key, ready, record_of};
use crate::urls::veuni::dispatch::host_order::{Facts, Schedule};
use crate::urls::veuni::dispatch::in_flight::Place;
use crate::urls::veuni::dispatch::top_k::Choice;
use crate::urls::veuni::dispatch::url_order::Redistribution;
use crate::urls::veuni::{Block, Veuni};
use farol_base::fingerprint::{SeededHasher, hash64};
use farol_base::{CanonicalUrl, Host, Timestamp};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// URLs of a server that are made ready at a time, where no more are asked for.
const WINDOW: usize = 64;
/// URLs set aside, after which a turn ends early: 100,000 × some 100 bytes = 10 MB.
const ASIDE_MAX: usize = 100_000;

/// When, in which order, and which server (its number in the directory).
type Waiting = Reverse<(Timestamp, u64, u32)>;

#[derive(Debug)]
pub struct Turn {
    pub(in crate::urls::veuni) file: Arc<BlockFile>,
    pub(in crate::urls::veuni) waiting: BinaryHeap<Waiting>,
    pub(in crate::urls::veuni) seats: HashMap<Box<str>, Seat, SeededHasher>,
    /// URLs that may stand among the pre-scheduled ones and are not to be handed out from there: visited without
    /// having been handed out in this turn, or handed out before it and given back.
    pub(in crate::urls::veuni) aside: HashSet<CanonicalUrl, SeededHasher>,
    /// The page of the directory that was read last.
    page: Option<(u32, Vec<Server>)>,
    cursor: Cursor,
    choice: Choice,
}

/// How far a server has got.
#[derive(Debug)]
pub struct Seat {
    pub(in crate::urls::veuni) ordinal: u32,
    /// Its place in the schedule.
    pub(in crate::urls::veuni) order: u64,
    server: Server,
    /// What was made ready last; URLs behind it are still to come.
    last: Option<(u64, Vec<u8>)>,
    pub(in crate::urls::veuni) window: VecDeque<Ready>,
    /// Nothing comes after the window.
    is_last_window: bool,
    /// Given back, with the block from which each was handed out first.
    pub(in crate::urls::veuni) returned: Vec<(String, Slim, Place)>,
}

/// A URL that can be handed out.
#[derive(Debug)]
pub struct Ready {
    pub key: u64,
    path: Vec<u8>,
    known: Slim,
}

impl Ready {
    fn of(key: u64, entry: &Entry<'_>) -> Result<Ready, Error> {
        let known = if entry.state == 0 { Slim::found_at(entry.depth) } else { Slim::of(record_of(entry)?) };
        Ok(Ready { key, path: entry.path.to_vec(), known })
    }

    pub fn due(&self) -> Timestamp {
        self.known.due().unwrap_or(Timestamp::EPOCH)
    }

    pub fn path(&self) -> &str {
        text(&self.path)
    }

    /// Takes what is known of it.
    pub fn take_known(&mut self) -> Slim {
        std::mem::take(&mut self.known)
    }
}

impl Turn {
    pub fn of(file: &Arc<BlockFile>, schedule: &dyn Schedule) -> Result<Turn, Error> {
        let mut waiting = Vec::new();
        for (ordinal, server) in file.servers().enumerate() {
            let server = server?;
            let ready = server.prescheduled.ready();
            if ready == Timestamp::NEVER {
                continue;
            }
            let facts = Facts {
                host: &server.host,
                known: server.counts.known,
                waiting: server.waiting(),
                visited: server.visited,
                download_millis: server.download_millis.checked_div(server.visited).unwrap_or(0),
            };
            if let Some(key) = schedule.key(&facts) {
                waiting.push(Reverse((ready, key, ordinal as u32)));
            }
        }
        Ok(Turn {
            file: file.clone(),
            waiting: BinaryHeap::from(waiting),
            seats: HashMap::default(),
            aside: HashSet::default(),
            page: None,
            cursor: file.cursor(32 << 10),
            choice: Choice::default(),
        })
    }

    pub fn next(&self) -> Option<Timestamp> {
        self.waiting.peek().map(|Reverse((at, _, _))| *at)
    }

    /// A URL was visited that was not handed out in this turn: it may still stand among the pre-scheduled ones.
    pub fn set_aside(&mut self, url: &CanonicalUrl) {
        self.aside.insert(url.clone());
    }

    fn is_overrun(&self) -> bool {
        self.aside.len() > ASIDE_MAX
    }

    fn server(&mut self, ordinal: u32) -> Result<Option<Server>, Error> {
        let page = ordinal / 64;
        if self.page.as_ref().is_none_or(|(number, _)| *number != page) {
            self.page = Some((page, self.file.page_of(ordinal)?));
        }
        let servers = self.page.as_ref().map(|(_, servers)| servers);
        Ok(servers.and_then(|servers| servers.get(ordinal as usize % 64)).cloned())
    }

    /// Makes a place for a server.
    pub(in crate::urls::veuni) fn sit(&mut self, ordinal: u32, order: u64, server: Server) {
        let host: Box<str> = server.host.as_str().into();
        self.seats.entry(host).or_insert_with(|| Seat {
            ordinal,
            order,
            server,
            last: None,
            window: VecDeque::new(),
            is_last_window: false,
            returned: Vec::new(),
        });
    }

    /// When a server's next URL can be handed out; `usable` says which of its paths can, `count` how many are wanted.
    fn ready(
        &mut self,
        host: &str,
        policy: &dyn Redistribution,
        now: Timestamp,
        count: usize,
        usable: &mut dyn FnMut(&str) -> bool,
    ) -> Result<Option<Timestamp>, Error> {
        let Some(seat) = self.seats.get_mut(host) else { return Ok(None) };
        if !seat.returned.is_empty() {
            return Ok(Some(Timestamp::EPOCH));
        }
        loop {
            while let Some(first) = seat.window.front() {
                if usable(text(&first.path)) {
                    return Ok(Some(first.due()));
                }
                seat.take_first(|_| ());
            }
            if seat.is_last_window {
                return Ok(None);
            }
            seat.fill(&mut self.cursor, &mut self.choice, policy, now, count)?;
        }
    }
}

pub(in crate::urls::veuni) fn text(path: &[u8]) -> &str {
    // Only whole texts went in, and checksums say that they are as they were.
    std::str::from_utf8(path).unwrap_or_default()
}

impl Seat {
    /// Takes the first off the window, and hands it to `take`.
    pub(in crate::urls::veuni) fn take_first<T>(&mut self, take: impl FnOnce(&mut Ready) -> T) -> Option<T> {
        let mut first = self.window.pop_front()?;
        let taken = take(&mut first);
        self.last = Some((first.key, first.path));
        Some(taken)
    }

    /// Makes the next URLs ready, those with the smallest keys beyond the last: up to `count` that are due, or
    /// [`WINDOW`], and a few that are due later.
    fn fill(
        &mut self,
        cursor: &mut Cursor,
        choice: &mut Choice,
        policy: &dyn Redistribution,
        now: Timestamp,
        count: usize,
    ) -> Result<(), Error> {
        let group = &self.server.prescheduled;
        choice.clear();
        if group.len > 0 {
            cursor.seek(group.at)?;
        }
        for _ in 0..group.len {
            let entry = cursor.advance()?;
            let Some(key) = key(policy, &entry, now, false)? else { continue };
            if self.last.as_ref().is_none_or(|last| (key, entry.path) > (last.0, &last.1[..])) {
                choice.offer(key, &entry, ready(&entry)? > now);
            }
        }
        self.window.clear();
        for (key, entry) in choice.first(count.max(WINDOW)) {
            self.window.push_back(Ready::of(key, &entry)?);
        }
        self.is_last_window = self.window.len() == choice.len();
        Ok(())
    }
}

impl Veuni {
    /// Hosts with something to hand out now; starts what is needed to have more of them.
    pub(in crate::urls::veuni) fn hosts_ready(
        &mut self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<Host>, Error> {
        self.now = self.now.max(now);
        self.collect()?;
        let mut hosts = Vec::new();
        // What is merged at once gives its hosts at once.
        self.take_soon(now, limit, &mut hosts);
        while self.take_hosts(now, limit, &mut hosts)? < limit && self.next_turn(now)? {}
        Ok(hosts)
    }

    /// Hosts whose pages wait in memory.
    fn take_soon(&mut self, now: Timestamp, limit: usize, hosts: &mut Vec<Host>) {
        while hosts.len() < limit
            && let Some(name) = self.soon.next_host(now)
        {
            let at = self.route(hash64(name.as_bytes()));
            // The servers of a damaged block stand still.
            if self.blocks[at].damage.is_none()
                && let Ok(host) = Host::parse(&name)
            {
                self.hold(at, &host);
                hosts.push(host);
            }
        }
    }

    fn take_hosts(&mut self, now: Timestamp, limit: usize, hosts: &mut Vec<Host>) -> Result<usize, Error> {
        for at in 0..self.blocks.len() {
            while hosts.len() < limit
                && let Some(turn) = &mut self.blocks[at].turn
                && let Some(Reverse((due, order, ordinal))) = turn.waiting.pop()
            {
                if due > now {
                    turn.waiting.push(Reverse((due, order, ordinal)));
                    break;
                }
                let server = turn.server(ordinal);
                let Some(server) = self.unless_damaged(at, server)?.flatten() else { continue };
                let Ok(host) = Host::parse(&server.host) else { continue };
                if self.held.contains(&host) {
                    // It comes up again when it is let go; meanwhile its holder is told.
                    self.woken.insert(host);
                    continue;
                }
                if let Some(turn) = &mut self.blocks[at].turn {
                    turn.sit(ordinal, order, server);
                }
                // As many are made ready as will be asked for: each time a server is gone through as a whole.
                let ready = self.ready(at, host.as_str(), now, self.asked);
                match self.unless_damaged(at, ready)?.flatten() {
                    Some(ready) if ready <= now => {
                        self.hold(at, &host);
                        hosts.push(host);
                    }
                    Some(later) => {
                        if let Some(turn) = &mut self.blocks[at].turn {
                            turn.waiting.push(Reverse((later, order, ordinal)));
                        }
                    }
                    None => {}
                }
            }
            let block = &mut self.blocks[at];
            // A turn without anything to hand out now makes room for another block's.
            if block.held == 0
                && let Some(turn) = &block.turn
                && let next = turn.next().unwrap_or(Timestamp::NEVER)
                && (next > now || turn.is_overrun())
            {
                block.resume = Some(next);
                block.turn = None;
            }
        }
        Ok(hosts.len())
    }

    pub(in crate::urls::veuni) fn hold(&mut self, at: usize, host: &Host) {
        if self.held.insert(host.clone()) {
            self.blocks[at].held += 1;
            self.soon.set_held(host.as_str(), true);
        }
    }

    /// Counts the hosts that are held, after blocks have changed.
    pub(in crate::urls::veuni) fn count_held(&mut self, blocks: std::ops::Range<usize>) {
        blocks.clone().for_each(|at| self.blocks[at].held = 0);
        let routes: Vec<usize> =
            self.held.iter().map(|host| self.route(hash64(host.as_str().as_bytes()))).collect();
        routes.into_iter().filter(|at| blocks.contains(at)).for_each(|at| self.blocks[at].held += 1);
    }

    /// When a host of a block in turn has something to hand out.
    pub(in crate::urls::veuni) fn ready(
        &mut self,
        at: usize,
        host: &str,
        now: Timestamp,
        count: usize,
    ) -> Result<Option<Timestamp>, Error> {
        let policy = self.options.redistribution.clone();
        let Some(mut turn) = self.blocks[at].turn.take() else { return Ok(None) };
        let (out, aside) = (&self.out, std::mem::take(&mut turn.aside));
        let soon = self.soon.of(host);
        let mut url = String::with_capacity(host.len() + 100);
        let mut usable = |path: &str| {
            url.clear();
            url.push_str(host);
            url.push_str(path);
            !out.has(&url) && !aside.contains(url.as_str()) && !soon.is_some_and(|soon| soon.has(path))
        };
        let ready = turn.ready(host, &*policy, now, count, &mut usable);
        turn.aside = aside;
        self.blocks[at].turn = Some(turn);
        ready
    }

    /// A block that turns out to be damaged is set aside; the others go on.
    pub(in crate::urls::veuni) fn unless_damaged<T>(
        &mut self,
        at: usize,
        result: Result<T, Error>,
    ) -> Result<Option<T>, Error> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error @ Error::Damaged { .. }) => {
                self.failed(at, error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Sees to it that more blocks come to their turn; `true` where one did.
    fn next_turn(&mut self, now: Timestamp) -> Result<bool, Error> {
        if !self.log.batch.is_empty() {
            return Ok(false);
        }
        let (count, has_room_for) = (self.blocks.len(), self.room_for_turn());
        for step in 1..=count {
            let at = (self.last_turn + step) % count;
            let block = &self.blocks[at];
            if block.damage.is_some() {
                continue;
            }
            if block.turn.is_none() && !has_room_for(block) {
                continue;
            }
            let file = block.file.as_ref();
            let ready = |of: fn(&BlockFile) -> Timestamp| file.map_or(Timestamp::NEVER, |file| of(file));
            let resume = block.resume.unwrap_or_else(|| ready(|file| file.totals.prescheduled_ready));
            if block.turn.is_none() && !block.is_urgent() && resume <= now {
                // What it has is as it was written: no need to merge it first.
                self.last_turn = at;
                self.begin_turn(at);
                return Ok(self.blocks[at].turn.is_some());
            }
            // What was due at the last merge and was not chosen then is not chosen now either.
            let remaining = ready(|file| file.totals.remaining_ready);
            let due_since = remaining <= now && remaining > block.merged;
            let wants_merge = block.is_behind() || due_since;
            if !wants_merge || block.is_busy || !self.is_rested(at) || !self.jobs.has_room_to_merge() {
                continue;
            }
            self.last_turn = at;
            let number = block.number;
            self.blocks[at].wants_turn = true;
            self.start_merge(at)?;
            let Some(at) = self.blocks.iter().position(|block| block.number == number) else {
                return Ok(false);
            };
            if self.blocks[at].is_busy {
                continue;
            }
            // Where it could not be merged, what went wrong is told at the next flush.
            return Ok(!self.blocks[at].is_behind() && self.blocks[at].turn.is_some());
        }
        Ok(false)
    }

    /// Whether a block may come to its turn beside those that are: small blocks count as what they are.
    fn room_for_turn(&self) -> impl Fn(&Block) -> bool + use<> {
        let in_turn = self.blocks.iter().filter(|block| block.turn.is_some());
        let (count, bytes) = in_turn.fold((0, 0), |(count, bytes), block| (count + 1, bytes + block.bytes()));
        let (count_max, bytes_max) =
            (self.options.turns, self.options.turns as u64 * self.options.block_bytes);
        move |block| count < count_max || bytes + block.bytes() <= bytes_max
    }

    pub(in crate::urls::veuni) fn next_ready(&mut self) -> Option<Timestamp> {
        let of_block = |block: &Block| {
            let file = block.file.as_ref();
            if block.damage.is_some() {
                return Timestamp::NEVER;
            }
            if block.is_behind() || block.is_busy {
                return Timestamp::EPOCH;
            }
            let remaining = file.map_or(Timestamp::NEVER, |file| file.totals.remaining_ready);
            let remaining = if remaining > block.merged { remaining } else { Timestamp::NEVER };
            let prescheduled = match (&block.turn, block.resume) {
                (Some(turn), _) => turn.next().unwrap_or(Timestamp::NEVER),
                (None, Some(resume)) => resume,
                (None, None) => file.map_or(Timestamp::NEVER, |file| file.totals.prescheduled_ready),
            };
            remaining.min(prescheduled)
        };
        let in_memory = self.soon.next_host_due();
        self.blocks.iter().map(of_block).chain(in_memory).min().filter(|next| *next != Timestamp::NEVER)
    }

    /// Brings the block of a server to its turn, for whoever did not ask which hosts are due.
    pub(in crate::urls::veuni) fn bring_to_turn(&mut self, hash: u64) -> Result<(), Error> {
        let at = self.route(hash);
        if self.blocks[at].turn.is_some() || self.blocks[at].damage.is_some() {
            return Ok(());
        }
        if self.blocks[at].is_behind() && self.log.batch.is_empty() {
            while self.blocks[self.route(hash)].is_busy && self.wait_for_a_job()? {}
            self.start_merge(self.route(hash))?;
            while self.blocks[self.route(hash)].is_busy && self.wait_for_a_job()? {}
        }
        let at = self.route(hash);
        if self.blocks[at].turn.is_none() && !self.blocks[at].is_behind() {
            self.begin_turn(at);
        }
        Ok(())
    }

    pub(in crate::urls::veuni) fn end_hold(&mut self, host: &Host) {
        if !self.held.remove(host) {
            return;
        }
        self.woken.remove(host);
        self.soon.set_held(host.as_str(), false);
        let at = self.route(hash64(host.as_str().as_bytes()));
        let block = &mut self.blocks[at];
        block.held = block.held.saturating_sub(1);
        let Some(turn) = &mut block.turn else { return };
        let Some(seat) = turn.seats.get_mut(host.as_str()) else {
            // Held since before the block was written anew.
            if let Ok(Some((ordinal, server))) =
                turn.file.server(hash64(host.as_str().as_bytes()), host.as_str())
                && server.prescheduled.ready() != Timestamp::NEVER
            {
                turn.waiting.push(Reverse((server.prescheduled.ready(), 0, ordinal)));
            }
            return;
        };
        let next = match seat.window.front() {
            _ if !seat.returned.is_empty() => Some(Timestamp::EPOCH),
            Some(first) => Some(first.due()),
            None if seat.is_last_window => None,
            None => Some(Timestamp::EPOCH),
        };
        // What was made ready is made so again when it is needed.
        if !seat.window.is_empty() {
            seat.window = VecDeque::new();
            seat.is_last_window = false;
        }
        if let Some(next) = next {
            turn.waiting.push(Reverse((next, seat.order, seat.ordinal)));
        }
    }
}
