//! Work on several threads whose results are taken in the order in which it was given, in bounded memory.
//!
//! [`ReadAhead`] reads items on a thread of its own; [`Workers`] does the costly part of each beside the thread that
//! takes the results. What both hold at a time is bounded by bytes: an item keeps its [`Permit`] until it is done with.

use anyhow::{Result, anyhow};
use farol_base::sync::Mutex;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes of items between their reading and their end; a larger item is there alone.
const BYTES_MAX: usize = 16 << 20;
/// Items that were read and that nobody has taken yet.
const READ_MAX: usize = 256;

/// Items of an iterator, read ahead of whoever takes them.
pub struct ReadAhead<T> {
    items: Receiver<(T, Permit)>,
    room: Arc<Room>,
}

/// An item's share of the memory; given back when dropped.
pub struct Permit {
    bytes: usize,
    room: Arc<Room>,
}

#[derive(Default)]
struct Room {
    state: std::sync::Mutex<RoomState>,
    changed: Condvar,
}

#[derive(Default)]
struct RoomState {
    used: usize,
    /// Nobody takes items any more.
    closed: bool,
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, RoomState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room; `None` where nobody takes items any more.
    fn enter(self: &Arc<Room>, bytes: usize) -> Option<Permit> {
        let mut state = self.lock();
        while !state.closed && state.used > 0 && state.used + bytes > BYTES_MAX {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.used += bytes;
        (!state.closed).then(|| Permit { bytes, room: self.clone() })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.room.lock().used -= self.bytes;
        self.room.changed.notify_one();
    }
}

impl<T: Send + 'static> ReadAhead<T> {
    /// Starts to read; `bytes` says how much memory an item takes.
    pub fn start(
        items: impl Iterator<Item = T> + Send + 'static,
        bytes: impl Fn(&T) -> usize + Send + 'static,
    ) -> Result<ReadAhead<T>> {
        let (give, taken) = sync_channel(READ_MAX);
        let room = Arc::new(Room::default());
        let shared = room.clone();
        std::thread::Builder::new().name("reader".to_string()).spawn(move || {
            crate::process::be_nice();
            for item in items {
                let Some(permit) = shared.enter(bytes(&item)) else { return };
                if give.send((item, permit)).is_err() {
                    return;
                }
            }
        })?;
        Ok(ReadAhead { items: taken, room })
    }
}

impl<T> Iterator for ReadAhead<T> {
    type Item = (T, Permit);

    fn next(&mut self) -> Option<(T, Permit)> {
        self.items.recv().ok()
    }
}

impl<T> Drop for ReadAhead<T> {
    fn drop(&mut self) {
        self.room.lock().closed = true;
        self.room.changed.notify_all();
    }
}

/// Threads that work on what they are given.
pub struct Workers<T, U> {
    /// `None` only while they end.
    jobs: Option<Sender<Job<T, U>>>,
    pending: VecDeque<Receiver<U>>,
    threads: Vec<JoinHandle<()>>,
}

type Job<T, U> = (T, SyncSender<U>);

impl<T: Send + 'static, U: Send + 'static> Workers<T, U> {
    /// Starts one thread per core; `work` makes what each of them does, state of its own included.
    pub fn start<W: FnMut(T) -> U + Send + 'static>(work: impl Fn(usize) -> W) -> Result<Workers<T, U>> {
        let (give, jobs) = channel::<Job<T, U>>();
        let jobs = Arc::new(Mutex::new(jobs));
        let mut threads = Vec::new();
        for number in 0..std::thread::available_parallelism().map_or(2, |cores| cores.get()) {
            let (jobs, mut work) = (jobs.clone(), work(number));
            let thread = std::thread::Builder::new().name("worker".to_string()).spawn(move || {
                crate::process::be_nice();
                loop {
                    let next = jobs.lock().recv();
                    let Ok((item, reply)) = next else { return };
                    // Whoever gave it may have gone.
                    let _ = reply.send(work(item));
                }
            })?;
            threads.push(thread);
        }
        Ok(Workers { jobs: Some(give), pending: VecDeque::new(), threads })
    }

    /// Gives an item to work on.
    pub fn give(&mut self, item: T) {
        let (reply, result) = sync_channel(1);
        if let Some(jobs) = &self.jobs {
            // Where all have ended, the result says so.
            let _ = jobs.send((item, reply));
        }
        self.pending.push_back(result);
    }

    /// Waits for the result of the item that was given first among those not taken yet; `None` where there is none.
    ///
    /// # Errors
    /// Where the work on it has broken down.
    pub fn take(&mut self) -> Option<Result<U>> {
        let result = self.pending.pop_front()?;
        Some(result.recv().map_err(|_| anyhow!("reading a page broke down, which is a fault of Farol")))
    }

    /// Items given and not taken yet.
    pub fn len(&self) -> usize {
        self.pending.len()
    }
}

impl<T, U> Drop for Workers<T, U> {
    fn drop(&mut self) {
        self.jobs = None;
        for thread in self.threads.drain(..) {
            // One that broke down has been told of by its result.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn results_come_in_the_order_of_the_items_whoever_is_done_first() {
        let mut workers = Workers::start(|_| {
            |item: u64| {
                std::thread::sleep(Duration::from_millis(item % 5));
                item * 2
            }
        })
        .unwrap();
        let mut got = Vec::new();
        for item in 0..100 {
            workers.give(item);
            if workers.len() > 10 {
                got.extend(workers.take().map(Result::unwrap));
            }
        }
        while let Some(result) = workers.take() {
            got.push(result.unwrap());
        }
        assert!(got.into_iter().eq((0..100).map(|item| item * 2)));
    }

    #[test]
    fn work_that_breaks_down_is_told_and_the_others_go_on() {
        let mut workers = Workers::start(|_| {
            |item: u32| {
                assert_ne!(item, 0, "a page that breaks the reader");
                item
            }
        })
        .unwrap();
        workers.give(0);
        assert!(workers.take().unwrap().is_err());
        if std::thread::available_parallelism().is_ok_and(|cores| cores.get() > 1) {
            workers.give(1);
            assert_eq!(workers.take().unwrap().unwrap(), 1);
        }
        assert!(workers.take().is_none());
    }

    #[test]
    fn what_is_read_ahead_is_bounded_by_bytes_and_a_large_item_comes_alone() {
        let read = Arc::new(AtomicUsize::new(0));
        let counted = read.clone();
        let sizes = [BYTES_MAX / 2, BYTES_MAX / 2, 5 * BYTES_MAX, 1];
        let items = sizes.into_iter().inspect(move |_| {
            counted.fetch_add(1, Ordering::SeqCst);
        });
        let mut ahead = ReadAhead::start(items, |bytes| *bytes).unwrap();
        let (first, second) = (ahead.next().unwrap(), ahead.next().unwrap());
        std::thread::sleep(Duration::from_millis(50));
        // The third was read and waits; the fourth was not read.
        assert_eq!(read.load(Ordering::SeqCst), 3);
        drop((first, second));
        let third = ahead.next().unwrap();
        assert_eq!(third.0, 5 * BYTES_MAX);
        std::thread::sleep(Duration::from_millis(50));
        assert!(ahead.items.try_recv().is_err());
        drop(third);
        assert_eq!(ahead.next().unwrap().0, 1);
        assert!(ahead.next().is_none());
    }

    #[test]
    fn a_reader_that_nobody_listens_to_ends() {
        let ended = Arc::new(());
        let held = ended.clone();
        let items = std::iter::repeat_with(move || Arc::strong_count(&held));
        drop(ReadAhead::start(items, |_| BYTES_MAX).unwrap());
        let begun = std::time::Instant::now();
        while Arc::strong_count(&ended) > 1 {
            assert!(begun.elapsed() < Duration::from_secs(60));
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
