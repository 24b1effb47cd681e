//! Background threads: some flush memtables to level-0 runs, some compact.
//!
//! A flush frees memory, and writes stall when memory is full. A compaction takes seconds. So where there are
//! several threads one of them only flushes; where there is one, it flushes first.
//!
//! INVARIANT: the threads have the caller's priority. The caller waits for them where too much is pending, and
//! behind programs that keep the processor busy a thread of low priority would make it wait for most of a
//! minute; no system lets an ordinary user raise a priority again once somebody waits.

use crate::urls::veuni::compaction::scheduler::JobDone;
use farol_base::sync::{Mutex, wait};
use std::collections::VecDeque;
use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar};
use std::thread::JoinHandle;

type Work = Box<dyn FnOnce() -> JobDone + Send>;

/// What there is to do.
pub enum Job {
    /// Writes a memtable to a level-0 run.
    Flush(Work),
    Compact(Work),
    /// A compaction that takes a few milliseconds: done at once.
    CompactInline(Work),
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Worker {
    Flushes,
    Compacts,
    Both,
}

/// Jobs that nobody has begun.
#[derive(Default)]
struct QueueState {
    flushes: VecDeque<Work>,
    compactions: VecDeque<Work>,
    is_closed: bool,
}

#[derive(Default)]
struct JobQueue {
    queue: Mutex<QueueState>,
    changed: Condvar,
}

impl JobQueue {
    fn change(&self, change: impl FnOnce(&mut QueueState)) {
        change(&mut self.queue.lock());
        self.changed.notify_all();
    }

    /// The next job of this kind; `None` when all are done and no more will come.
    fn next(&self, role: Worker) -> Option<Work> {
        let mut queue = self.queue.lock();
        loop {
            let flush = if role == Worker::Compacts { None } else { queue.flushes.pop_front() };
            let next =
                flush.or_else(|| if role == Worker::Flushes { None } else { queue.compactions.pop_front() });
            if next.is_some() || queue.is_closed {
                return next;
            }
            queue = wait(&self.changed, queue);
        }
    }
}

/// Jobs under way, and those that are done.
pub struct Workers {
    queue: Arc<JobQueue>,
    done: Receiver<JobDone>,
    finish: Sender<JobDone>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that compact.
    compactors: usize,
    /// Jobs that were started and not taken back; and of them, compactions.
    pub running: usize,
    compacting: usize,
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Workers {{ threads: {}, running: {} }}", self.threads.len(), self.running)
    }
}

impl Workers {
    /// With no threads every job is done by the caller.
    pub fn new(threads: usize) -> Workers {
        let (finish, done) = channel();
        let queue = Arc::new(JobQueue::default());
        let role = |number| match (number, threads) {
            (_, 1) => Worker::Both,
            (0, _) => Worker::Flushes,
            _ => Worker::Compacts,
        };
        let work = |number: usize| {
            let (queue, finish, role) = (queue.clone(), finish.clone(), role(number));
            let work = move || {
                while let Some(work) = queue.next(role) {
                    if finish.send(work()).is_err() {
                        return;
                    }
                }
            };
            std::thread::Builder::new().name(format!("urls-{number}")).spawn(work)
        };
        // Without all of them the caller does the work: no kind of job may be left without a thread.
        let started: Result<Vec<JoinHandle<()>>, _> = (0..threads).map(work).collect();
        let threads = started.unwrap_or_else(|_| {
            queue.change(|queue| queue.is_closed = true);
            Vec::new()
        });
        let compactors = threads.len().saturating_sub(usize::from(threads.len() > 1));
        Workers { queue, done, finish, threads, compactors, running: 0, compacting: 0 }
    }

    pub fn has_threads(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Whether a compaction is under way.
    pub fn is_compacting(&self) -> bool {
        self.compacting > 0
    }

    /// Whether a compaction that is started now would begin at once.
    pub fn has_idle_compactor(&self) -> bool {
        self.compacting < self.compactors
    }

    /// Whether another compaction may be started: one may wait for those that are under way.
    pub fn can_queue_compaction(&self) -> bool {
        self.compacting <= self.compactors
    }

    /// Has a job done, by a thread where there is one for it.
    pub fn start(&mut self, job: Job) {
        self.running += 1;
        self.compacting += usize::from(!matches!(job, Job::Flush(_)));
        match job {
            Job::Flush(work) if self.has_threads() => {
                self.queue.change(|queue| queue.flushes.push_back(work))
            }
            Job::Compact(work) if self.has_threads() => {
                self.queue.change(|queue| queue.compactions.push_back(work))
            }
            Job::Flush(work) | Job::Compact(work) | Job::CompactInline(work) => {
                // Both ends are here: sending cannot fail.
                let _ = self.finish.send(work());
            }
        }
    }

    /// A job that is done; waits for one where `wait`.
    pub fn take(&mut self, wait: bool) -> Option<JobDone> {
        if self.running == 0 {
            return None;
        }
        let done = if wait { self.done.recv().ok() } else { self.done.try_recv().ok() }?;
        self.running -= 1;
        self.compacting -= usize::from(matches!(done, JobDone::Compacted { .. }));
        Some(done)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.queue.change(|queue| queue.is_closed = true);
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

    fn flush(number: u32) -> Job {
        Job::Flush(Box::new(move || JobDone::Flushed { number, flushed_seqno: 0, result: Err(failed()) }))
    }

    /// A compaction that reports when it begins, and ends when it is told to.
    fn compact(number: u32) -> (Receiver<()>, Sender<()>, Job) {
        let ((begin, begun), (end, told)) = (channel(), channel());
        let work = move || {
            let _ = begin.send(());
            let _ = told.recv();
            JobDone::Compacted { number, result: Err(failed()), took: Duration::ZERO }
        };
        (begun, end, Job::Compact(Box::new(work)))
    }

    fn number(done: Option<JobDone>) -> u32 {
        match done {
            Some(JobDone::Compacted { number, .. } | JobDone::Flushed { number, .. }) => number,
            None => 0,
        }
    }

    #[test]
    fn a_flush_does_not_wait_for_compactions() {
        let mut jobs = Workers::new(3);
        let ends: Vec<Sender<()>> = (1..=3)
            .map(|number| {
                assert!(jobs.can_queue_compaction());
                let (_, end, compact) = compact(number);
                jobs.start(compact);
                end
            })
            .collect();
        // Two are under way, the third waits for them, and more are not wanted.
        assert!(!jobs.can_queue_compaction() && !jobs.has_idle_compactor());
        jobs.start(flush(9));
        assert_eq!(number(jobs.take(true)), 9);
        assert!(jobs.take(false).is_none() && !jobs.can_queue_compaction());
        drop(ends);
        let mut rest: Vec<u32> = (0..3).map(|_| number(jobs.take(true))).collect();
        rest.sort_unstable();
        assert_eq!((rest, jobs.running, jobs.has_idle_compactor()), (vec![1, 2, 3], 0, true));
    }

    #[test]
    fn one_thread_alone_flushes_first_and_leaves_nothing_undone() {
        let mut jobs = Workers::new(1);
        let (begun, end, first) = compact(1);
        jobs.start(first);
        begun.recv().unwrap();
        let (_, second_end, second) = compact(2);
        drop(second_end);
        jobs.start(second);
        jobs.start(flush(3));
        drop(end);
        assert_eq!(number(jobs.take(true)), 1);
        let (queue, done) = (jobs.queue.clone(), (number(jobs.take(true)), number(jobs.take(true))));
        assert_eq!(done, (3, 2));
        jobs.start(flush(4));
        drop(jobs);
        let queue = queue.queue.lock();
        assert!(queue.flushes.is_empty() && queue.compactions.is_empty());
    }

    #[test]
    fn without_threads_the_caller_does_the_jobs() {
        let mut jobs = Workers::new(0);
        assert!(!jobs.has_threads() && jobs.can_queue_compaction() && !jobs.has_idle_compactor());
        let (_, end, first) = compact(1);
        drop(end);
        jobs.start(first);
        assert!(!jobs.can_queue_compaction());
        jobs.start(flush(2));
        assert_eq!((number(jobs.take(false)), number(jobs.take(false)), number(jobs.take(true))), (1, 2, 0));
    }
}
