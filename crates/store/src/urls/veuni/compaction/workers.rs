//! Work off the caller's path: threads that write pending files, and threads that merge.
//!
//! Writing empties memory, and whoever brings URLs waits when memory is full. A merge takes seconds. So where there are
//! several threads one of them only writes, and goes before those that merge; where there is one, it writes first.

use crate::urls::veuni::compaction::scheduler::Done;
use farol_base::sync::{Mutex, wait};
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar};
use std::thread::JoinHandle;

type Work = Box<dyn FnOnce() -> Done + Send>;

/// What there is to do.
pub enum Job {
    /// Empties memory into a pending file.
    Write(Work),
    Merge(Work),
    /// A merge that takes a few milliseconds: done at once.
    ShortMerge(Work),
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Writes,
    Merges,
    Both,
}

impl Role {
    /// How far the thread steps back behind whoever finds URLs and asks for them, in the system's measure.
    fn steps_back(self) -> i32 {
        match self {
            Role::Writes => 10,
            Role::Both => 15,
            Role::Merges => 19,
        }
    }
}

/// Jobs that nobody has begun.
#[derive(Default)]
struct Queue {
    writes: VecDeque<Work>,
    merges: VecDeque<Work>,
    is_closed: bool,
}

#[derive(Default)]
struct Board {
    queue: Mutex<Queue>,
    news: Condvar,
}

impl Board {
    fn change(&self, change: impl FnOnce(&mut Queue)) {
        change(&mut self.queue.lock());
        self.news.notify_all();
    }

    /// The next job of this kind; `None` when all are done and no more will come.
    fn next(&self, role: Role) -> Option<Work> {
        let mut queue = self.queue.lock();
        loop {
            let write = if role == Role::Merges { None } else { queue.writes.pop_front() };
            let next = write.or_else(|| if role == Role::Writes { None } else { queue.merges.pop_front() });
            if next.is_some() || queue.is_closed {
                return next;
            }
            queue = wait(&self.news, queue);
        }
    }
}

/// Jobs under way, and those that are done.
pub struct Jobs {
    board: Arc<Board>,
    done: Receiver<Done>,
    finish: Sender<Done>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that merge.
    mergers: usize,
    /// Given and not yet taken back; and of them, merges.
    pub running: usize,
    merging: usize,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jobs {{ threads: {}, running: {} }}", self.threads.len(), self.running)
    }
}

impl Jobs {
    /// With no threads every job is done by whoever gives it.
    pub fn new(threads: usize) -> Jobs {
        let (finish, done) = channel();
        let board = Arc::new(Board::default());
        let role = |number| match (number, threads) {
            (_, 1) => Role::Both,
            (0, _) => Role::Writes,
            _ => Role::Merges,
        };
        let work = |number: usize| {
            let (board, finish, role) = (board.clone(), finish.clone(), role(number));
            let work = move || {
                // Where the system refuses, nothing changes.
                let _ = rustix::process::nice(role.steps_back());
                while let Some(work) = board.next(role) {
                    if finish.send(work()).is_err() {
                        return;
                    }
                }
            };
            std::thread::Builder::new().name(format!("urls-{number}")).spawn(work)
        };
        // Without all of them, whoever calls does the work: no kind of job may be left without a thread.
        let started: Result<Vec<JoinHandle<()>>, _> = (0..threads).map(work).collect();
        let threads = started.unwrap_or_else(|_| {
            board.change(|queue| queue.is_closed = true);
            Vec::new()
        });
        let mergers = threads.len().saturating_sub(usize::from(threads.len() > 1));
        Jobs { board, done, finish, threads, mergers, running: 0, merging: 0 }
    }

    pub fn has_threads(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Whether a merge is under way.
    pub fn is_merging(&self) -> bool {
        self.merging > 0
    }

    /// Whether a merge that is given now would begin at once.
    pub fn has_idle_merger(&self) -> bool {
        self.merging < self.mergers
    }

    /// Whether another merge may be given: one may wait for those that are under way.
    pub fn has_room_to_merge(&self) -> bool {
        self.merging <= self.mergers
    }

    /// Has a job done, by a thread where there is one for it.
    pub fn start(&mut self, job: Job) {
        self.running += 1;
        self.merging += usize::from(!matches!(job, Job::Write(_)));
        match job {
            Job::Write(work) if self.has_threads() => self.board.change(|queue| queue.writes.push_back(work)),
            Job::Merge(work) if self.has_threads() => self.board.change(|queue| queue.merges.push_back(work)),
            Job::Write(work) | Job::Merge(work) | Job::ShortMerge(work) => {
                // Both ends are here: sending cannot fail.
                let _ = self.finish.send(work());
            }
        }
    }

    /// A job that is done; waits for one where `wait`.
    pub fn take(&mut self, wait: bool) -> Option<Done> {
        if self.running == 0 {
            return None;
        }
        let done = if wait { self.done.recv().ok() } else { self.done.try_recv().ok() }?;
        self.running -= 1;
        self.merging -= usize::from(matches!(done, Done::Merged { .. }));
        Some(done)
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.board.change(|queue| queue.is_closed = true);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::time::Duration;

    fn failed() -> Error {
        Error::Poisoned { store: "a test" }
    }

    fn write(number: u32) -> Job {
        Job::Write(Box::new(move || Done::Written { number, upto: 0, result: Err(failed()) }))
    }

    /// A merge that tells when it begins, and ends when it is told to.
    fn merge(number: u32) -> (Receiver<()>, Sender<()>, Job) {
        let ((begin, begun), (end, told)) = (channel(), channel());
        let work = move || {
            let _ = begin.send(());
            let _ = told.recv();
            Done::Merged { number, result: Err(failed()), took: Duration::ZERO }
        };
        (begun, end, Job::Merge(Box::new(work)))
    }

    fn number(done: Option<Done>) -> u32 {
        match done {
            Some(Done::Merged { number, .. } | Done::Written { number, .. }) => number,
            None => 0,
        }
    }

    #[test]
    fn writing_does_not_wait_for_merges() {
        let mut jobs = Jobs::new(3);
        let ends: Vec<Sender<()>> = (1..=3)
            .map(|number| {
                assert!(jobs.has_room_to_merge());
                let (_, end, merge) = merge(number);
                jobs.start(merge);
                end
            })
            .collect();
        // Two are under way, the third waits for them, and more are not wanted.
        assert!(!jobs.has_room_to_merge() && !jobs.has_idle_merger());
        jobs.start(write(9));
        assert_eq!(number(jobs.take(true)), 9);
        assert!(jobs.take(false).is_none() && !jobs.has_room_to_merge());
        drop(ends);
        let mut rest: Vec<u32> = (0..3).map(|_| number(jobs.take(true))).collect();
        rest.sort_unstable();
        assert_eq!((rest, jobs.running, jobs.has_idle_merger()), (vec![1, 2, 3], 0, true));
    }

    #[test]
    fn one_thread_alone_writes_first_and_leaves_nothing_undone() {
        let mut jobs = Jobs::new(1);
        let (begun, end, first) = merge(1);
        jobs.start(first);
        begun.recv().unwrap();
        let (_, second_end, second) = merge(2);
        drop(second_end);
        jobs.start(second);
        jobs.start(write(3));
        drop(end);
        assert_eq!(number(jobs.take(true)), 1);
        let (board, done) = (jobs.board.clone(), (number(jobs.take(true)), number(jobs.take(true))));
        assert_eq!(done, (3, 2));
        jobs.start(write(4));
        drop(jobs);
        let queue = board.queue.lock();
        assert!(queue.writes.is_empty() && queue.merges.is_empty());
    }

    #[test]
    fn without_threads_whoever_gives_a_job_does_it() {
        let mut jobs = Jobs::new(0);
        assert!(!jobs.has_threads() && jobs.has_room_to_merge() && !jobs.has_idle_merger());
        let (_, end, first) = merge(1);
        drop(end);
        jobs.start(first);
        assert!(!jobs.has_room_to_merge());
        jobs.start(write(2));
        assert_eq!((number(jobs.take(false)), number(jobs.take(false)), number(jobs.take(true))), (1, 2, 0));
    }
}
