//! Deletes obsolete files on a thread of its own: unlinking a large file takes the system tens of
//! milliseconds, and the caller need not wait for it.
//!
//! What is left because the process ended, or because deleting failed, is deleted when the store is opened
//! again.

use farol_base::disk::Disk;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

#[derive(Debug)]
enum DeleteRequest {
    /// Removes `file` once `successor`, which takes its place, would survive a power cut.
    Delete { file: String, successor: Option<String> },
    /// Reports when everything before is done.
    Notify(Sender<()>),
}

#[derive(Debug)]
pub struct ObsoleteFiles {
    disk: Arc<dyn Disk>,
    requests: Option<Sender<DeleteRequest>>,
    thread: Option<JoinHandle<()>>,
}

impl ObsoleteFiles {
    /// Without a thread files are deleted by the caller.
    pub fn new(disk: Arc<dyn Disk>, with_thread: bool) -> ObsoleteFiles {
        let (requests, orders) = channel();
        let work = {
            let disk = disk.clone();
            move || {
                for order in orders {
                    match order {
                        DeleteRequest::Delete { file, successor } => {
                            remove(&*disk, &file, successor.as_deref())
                        }
                        // Nobody waits any more: nothing to tell.
                        DeleteRequest::Notify(done) => done.send(()).unwrap_or_default(),
                    }
                }
            }
        };
        let spawn = || std::thread::Builder::new().name("urls-delete".to_string()).spawn(work).ok();
        let thread = if with_thread { spawn() } else { None };
        ObsoleteFiles { disk, requests: thread.is_some().then_some(requests), thread }
    }

    /// Removes `file`, once `successor` would survive a power cut.
    pub fn remove(&self, file: String, successor: Option<String>) {
        match &self.requests {
            // The thread lasts as long as this does.
            Some(requests) => requests.send(DeleteRequest::Delete { file, successor }).unwrap_or_default(),
            None => remove(&*self.disk, &file, successor.as_deref()),
        }
    }

    /// Waits until all of it is gone.
    pub fn wait(&self) {
        let (tell, told) = channel();
        if let Some(requests) = &self.requests
            && requests.send(DeleteRequest::Notify(tell)).is_ok()
        {
            let _ = told.recv();
        }
    }
}

impl Drop for ObsoleteFiles {
    fn drop(&mut self) {
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn remove(disk: &dyn Disk, file: &str, successor: Option<&str>) {
    let removed = match successor {
        Some(successor) => disk.sync(successor).and_then(|()| disk.remove(file)),
        None => disk.remove(file),
    };
    if let Err(error) = removed {
        tracing::warn!(file, error = %error, "an old file of the URL store stays for now");
    }
}
