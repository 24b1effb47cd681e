//! Scatter-gather without I/O: which replica of each shard is asked, when a second one is, and when to give up.
//!
//! The life of a scattered question: [`Scatter::start`] picks a replica per shard, the better of two random ones
//! by calls under way and smoothed time. A replica that fails is followed by another at once; one that takes
//! longer than 95 of 100 calls of its shard do is *hedged*: another is asked besides, for at most one call in
//! twenty. The first answer wins, the other call is cancelled. Where half the time has gone by and a replica
//! has answered nobody, it is taken to hang, and another is asked whatever the number of hedges. What has no
//! answer by the deadline is given up. The driver does what the [`Action`]s say and tells what came of it; what
//! is learnt about replicas stays in the [`ReplicaBook`], which all questions share.
//!
//! INVARIANTS: no replica is asked twice for the same question and shard; one that is passed over is asked only
//! where no healthy one is left; every question ends by its deadline; hedges are at most 5 % of the asks.
//! Hedging and its limits are Dean and Barroso's ("The Tail at Scale", 2013), choosing by load times
//! the peak of a moving average is known from Finagle's balancer.

mod book;
mod quantile;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

pub use book::{Failure, ReplicaBook, ReplicaView};

/// A shard of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardNo(pub u32);

/// A node that serves shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReplicaNo(pub u32);

/// One call of one question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptNo(pub u32);

/// A shard that must be asked, with the replica that should be where it is healthy: titles and snippets come best
/// from the replica that named the pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Which shard.
    pub shard: ShardNo,
    /// Whom to ask first.
    pub prefer: Option<ReplicaNo>,
}

impl From<ShardNo> for Wanted {
    fn from(shard: ShardNo) -> Wanted {
        Wanted { shard, prefer: None }
    }
}

/// A call to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// For which shard.
    pub shard: ShardNo,
    /// At which replica.
    pub replica: ReplicaNo,
    /// What to call it when telling what came of it.
    pub attempt: AttemptNo,
}

/// What the driver is to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Make this call.
    Ask(Ask),
    /// Drop this call; nothing need be told about it any more.
    Cancel(AttemptNo),
    /// No replica of this shard has answered, and none will be asked any more.
    GiveUp(ShardNo),
    /// Every shard has answered or was given up.
    Done,
}

/// Part of a question's time that one of its steps has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// How many pages have each word: 15 %.
    Count,
    /// The best pages: 60 %.
    Search,
    /// Titles and snippets: the rest.
    Show,
}

impl Stage {
    /// When a stage must have ended, for a question that began at `start` and has `whole` in all. What an earlier
    /// stage did not need is the later ones'.
    pub fn ends(self, start: Instant, whole: Duration) -> Instant {
        let percent = match self {
            Stage::Count => 15,
            Stage::Search => 75,
            Stage::Show => 100,
        };
        start + whole * percent / 100
    }
}

/// One question to many shards.
#[derive(Debug)]
pub struct Scatter {
    deadline: Instant,
    shards: Vec<ShardState>,
    attempts: Vec<AttemptState>,
    done: bool,
}

#[derive(Debug)]
struct ShardState {
    shard: ShardNo,
    tried: Vec<ReplicaNo>,
    hedged: bool,
    settled: bool,
}

#[derive(Debug)]
struct AttemptState {
    /// Position in `Scatter::shards`.
    at: usize,
    replica: ReplicaNo,
    started: Instant,
    probe: bool,
    open: bool,
    hedge_at: Option<Instant>,
    rescue_at: Option<Instant>,
}

impl Scatter {
    /// Asks one replica of each shard that is wanted.
    pub fn start(
        book: &mut ReplicaBook,
        wanted: impl IntoIterator<Item = Wanted>,
        deadline: Instant,
        now: Instant,
    ) -> (Scatter, Vec<Action>) {
        let mut scatter = Scatter { deadline, shards: Vec::new(), attempts: Vec::new(), done: false };
        let mut actions = Vec::new();
        for Wanted { shard, prefer } in wanted {
            let at = scatter.shards.len();
            scatter.shards.push(ShardState { shard, tried: Vec::new(), hedged: false, settled: false });
            let chosen = if now < deadline { book.first(shard, prefer, now) } else { None };
            match chosen {
                Some(chosen) => {
                    book.count_ask();
                    actions.push(scatter.ask(book, at, chosen, now));
                }
                None => scatter.give_up(at, &mut actions),
            }
        }
        scatter.finish(&mut actions);
        (scatter, actions)
    }

    /// An answer came.
    pub fn answered(&mut self, book: &mut ReplicaBook, attempt: AttemptNo, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some((at, started)) = self.close(attempt) else { return actions };
        let shard = self.shards[at].shard;
        let winner = &self.attempts[attempt.0 as usize];
        book.answered(shard, winner.replica, now.saturating_duration_since(started), now);
        self.shards[at].settled = true;
        for (number, other) in self.attempts.iter_mut().enumerate().filter(|(_, a)| a.at == at && a.open) {
            other.open = false;
            let waited = now.saturating_duration_since(other.started);
            if other.started < started {
                book.overtaken(shard, other.replica, waited, other.probe, now);
            } else {
                book.released(other.replica, other.probe, now);
            }
            actions.push(Action::Cancel(AttemptNo(number as u32)));
        }
        self.finish(&mut actions);
        actions
    }

    /// A call failed: another replica is asked at once, where there is one.
    pub fn failed(
        &mut self,
        book: &mut ReplicaBook,
        attempt: AttemptNo,
        failure: Failure,
        now: Instant,
    ) -> Vec<Action> {
        let mut actions = Vec::new();
        let Some((at, started)) = self.close(attempt) else { return actions };
        let ended = &self.attempts[attempt.0 as usize];
        let waited = now.saturating_duration_since(started);
        book.failed(self.shards[at].shard, ended.replica, failure, waited, ended.probe, now);
        let state = &self.shards[at];
        let alone = !self.attempts.iter().any(|other| other.at == at && other.open);
        let chosen =
            if now >= self.deadline { None } else { book.another(state.shard, &state.tried, alone, now) };
        match chosen {
            Some(chosen) => actions.push(self.ask(book, at, chosen, now)),
            None if alone => self.give_up(at, &mut actions),
            None => (),
        }
        self.finish(&mut actions);
        actions
    }

    /// Time has gone by; see [`Scatter::next_timer`].
    pub fn timer(&mut self, book: &mut ReplicaBook, now: Instant) -> Vec<Action> {
        let mut actions = Vec::new();
        if now >= self.deadline {
            self.end(book, now, &mut actions);
            return actions;
        }
        for number in 0..self.attempts.len() {
            let attempt = &mut self.attempts[number];
            if !attempt.open {
                continue;
            }
            let (at, started, replica) = (attempt.at, attempt.started, attempt.replica);
            let hedge = attempt.hedge_at.take_if(|due| *due <= now).is_some();
            let rescue = attempt.rescue_at.take_if(|due| *due <= now).is_some();
            let state = &self.shards[at];
            if rescue && book.silent_since(replica, started) {
                // Where all others are passed over, one of them is still better than one that hangs.
                if let Some(chosen) = book.another(state.shard, &state.tried, true, now) {
                    actions.push(self.ask(book, at, chosen, now));
                }
            } else if hedge
                && !state.hedged
                && let Some(chosen) = book.hedge(state.shard, &state.tried, now)
            {
                self.shards[at].hedged = true;
                actions.push(self.ask(book, at, chosen, now));
            }
        }
        actions
    }

    /// When [`Scatter::timer`] wants to be called next; `None` once all is done.
    pub fn next_timer(&self) -> Option<Instant> {
        let open = self.attempts.iter().filter(|attempt| attempt.open);
        let timers = open.flat_map(|attempt| attempt.hedge_at.into_iter().chain(attempt.rescue_at));
        (!self.done).then(|| timers.fold(self.deadline, Instant::min))
    }

    /// Whether every shard has answered or was given up.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Nobody waits any more: takes the calls under way off the replicas' books, without blame.
    pub fn abandon(&mut self, book: &mut ReplicaBook, now: Instant) {
        self.done = true;
        for attempt in self.attempts.iter_mut().filter(|attempt| attempt.open) {
            attempt.open = false;
            book.released(attempt.replica, attempt.probe, now);
        }
    }

    fn ask(&mut self, book: &mut ReplicaBook, at: usize, chosen: book::Chosen, now: Instant) -> Action {
        let state = &mut self.shards[at];
        state.tried.push(chosen.replica);
        let left = self.deadline.saturating_duration_since(now);
        let attempt = AttemptNo(self.attempts.len() as u32);
        self.attempts.push(AttemptState {
            at,
            replica: chosen.replica,
            started: now,
            probe: chosen.probe,
            open: true,
            hedge_at: Some(now + book.hedge_delay(state.shard)),
            rescue_at: Some(now + left / 2),
        });
        book.asked(chosen.replica);
        Action::Ask(Ask { shard: state.shard, replica: chosen.replica, attempt })
    }

    /// Closes an attempt that is open: the position of its shard, and when it was started.
    fn close(&mut self, attempt: AttemptNo) -> Option<(usize, Instant)> {
        let state = self.attempts.get_mut(attempt.0 as usize).filter(|state| state.open)?;
        state.open = false;
        Some((state.at, state.started))
    }

    fn give_up(&mut self, at: usize, actions: &mut Vec<Action>) {
        self.shards[at].settled = true;
        actions.push(Action::GiveUp(self.shards[at].shard));
    }

    /// Gives up what has no answer by the deadline.
    fn end(&mut self, book: &mut ReplicaBook, now: Instant, actions: &mut Vec<Action>) {
        for (number, attempt) in self.attempts.iter_mut().enumerate().filter(|(_, attempt)| attempt.open) {
            attempt.open = false;
            let waited = now.saturating_duration_since(attempt.started);
            let shard = self.shards[attempt.at].shard;
            book.overtaken(shard, attempt.replica, waited, attempt.probe, now);
            actions.push(Action::Cancel(AttemptNo(number as u32)));
        }
        for at in 0..self.shards.len() {
            if !self.shards[at].settled {
                self.give_up(at, actions);
            }
        }
        self.finish(actions);
    }

    fn finish(&mut self, actions: &mut Vec<Action>) {
        if !self.done && self.shards.iter().all(|shard| shard.settled) {
            self.done = true;
            actions.push(Action::Done);
        }
    }
}
