//! Removes files that nobody needs any more, on a thread of its own: giving a large file's room back takes the system
//! tens of milliseconds, and whoever finds URLs need not wait for it.
//!
//! What is left because the process ended, or because removing failed, is removed when the store is opened again.

use farol_base::disk::Disk;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

#[derive(Debug)]
enum Order {
    /// Removes `file` once `follower`, which takes its place, would survive a power cut.
    Remove { file: String, follower: Option<String> },
    /// Says when everything before is done.
    Tell(Sender<()>),
}

#[derive(Debug)]
pub struct Broom {
    disk: Arc<dyn Disk>,
    give: Option<Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl Broom {
    /// Without a thread files are removed by whoever asks.
    pub fn new(disk: Arc<dyn Disk>, with_thread: bool) -> Broom {
        let (give, orders) = channel();
        let sweep = {
            let disk = disk.clone();
            move || {
                for order in orders {
                    match order {
                        Order::Remove { file, follower } => remove(&*disk, &file, follower.as_deref()),
                        // Nobody waits any more: nothing to tell.
                        Order::Tell(done) => done.send(()).unwrap_or_default(),
                    }
                }
            }
        };
        let spawn = || std::thread::Builder::new().name("urls-broom".to_string()).spawn(sweep).ok();
        let thread = if with_thread { spawn() } else { None };
        Broom { disk, give: thread.is_some().then_some(give), thread }
    }

    /// Removes `file`, once `follower` would survive a power cut.
    pub fn remove(&self, file: String, follower: Option<String>) {
        match &self.give {
            // The thread lasts as long as this does.
            Some(give) => give.send(Order::Remove { file, follower }).unwrap_or_default(),
            None => remove(&*self.disk, &file, follower.as_deref()),
        }
    }

    /// Waits until all of it is gone.
    pub fn wait(&self) {
        let (tell, told) = channel();
        if let Some(give) = &self.give
            && give.send(Order::Tell(tell)).is_ok()
        {
            let _ = told.recv();
        }
    }
}

impl Drop for Broom {
    fn drop(&mut self) {
        self.give = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn remove(disk: &dyn Disk, file: &str, follower: Option<&str>) {
    let removed = match follower {
        Some(follower) => disk.sync(follower).and_then(|()| disk.remove(file)),
        None => disk.remove(file),
    };
    if let Err(error) = removed {
        tracing::warn!(file, error = %error, "an old file of the URL store stays for now");
    }
}
