//! Work off the caller's path: threads that merge and write pending files.

use std::fmt;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::upkeep::Done;

/// How far these threads step back behind their maker's, in the system's measure: as far as it goes.
const STEPS_BACK: i32 = 19;

type Job = Box<dyn FnOnce() -> Done + Send>;

/// Jobs under way, and those that are done.
pub struct Jobs {
    give: Option<Sender<Job>>,
    done: Receiver<Done>,
    finish: Sender<Done>,
    threads: Vec<JoinHandle<()>>,
    /// Given and not yet taken back.
    pub running: usize,
}

impl fmt::Debug for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Jobs {{ threads: {}, running: {} }}", self.threads.len(), self.running)
    }
}

impl Jobs {
    /// With no threads every job is done by whoever gives it.
    pub fn new(threads: usize) -> Jobs {
        let (give, jobs) = channel::<Job>();
        let (finish, done) = channel();
        let jobs = Arc::new(Mutex::new(jobs));
        let threads = (0..threads)
            .filter_map(|number| {
                let (jobs, finish) = (jobs.clone(), finish.clone());
                let work = move || {
                    // Whoever finds URLs and asks for them goes first. Where the system refuses, nothing changes.
                    let _ = rustix::process::nice(STEPS_BACK);
                    loop {
                        let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                        let Ok(job) = job else { return };
                        if finish.send(job()).is_err() {
                            return;
                        }
                    }
                };
                // Without threads of its own the store works as well, only slower.
                std::thread::Builder::new().name(format!("urls-{number}")).spawn(work).ok()
            })
            .collect();
        Jobs { give: Some(give), done, finish, threads, running: 0 }
    }

    pub fn has_threads(&self) -> bool {
        !self.threads.is_empty()
    }

    /// Has a job done, by a thread or, where it is `short` or there is none, at once.
    pub fn start(&mut self, job: Job, short: bool) {
        self.running += 1;
        if short || self.threads.is_empty() {
            // Both ends are here: sending cannot fail.
            let _ = self.finish.send(job());
        } else if let Some(give) = &self.give {
            let _ = give.send(job);
        }
    }

    /// A job that is done; waits for one where `wait`.
    pub fn take(&mut self, wait: bool) -> Option<Done> {
        if self.running == 0 {
            return None;
        }
        let done = if wait { self.done.recv().ok() } else { self.done.try_recv().ok() };
        self.running -= usize::from(done.is_some());
        done
    }
}

impl Drop for Jobs {
    fn drop(&mut self) {
        self.give = None;
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
