//! Deletes obsolete files on a thread of its own: unlinking a large file takes the system tens of
//! milliseconds, and the caller need not wait for it.
//!
//! What is left because the process ended, or because deleting failed, is deleted when the store is opened
//! again.
//!
//! INVARIANT: a pinned file is not deleted. Somebody reads it beside the store (an export, a backup), so it goes once the
//! last pin does. Only files that make up the store are pinned, and a name is never used again: so nothing is pinned
//! that is on its way out.

use farol_base::disk::Disk;
use farol_base::sync::Mutex;
use std::collections::HashMap;
use std::io;
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

/// Files that are being read beside the store.
#[derive(Debug, Default)]
struct PinnedFiles(Mutex<HashMap<String, PinState>>);

#[derive(Debug, Default)]
struct PinState {
    pins: usize,
    /// It is no part of the store any more.
    is_obsolete: bool,
}

impl PinnedFiles {
    /// Whether a file stays because it is pinned: it is deleted with its last pin.
    fn keeps(&self, file: &str) -> bool {
        self.0.lock().get_mut(file).is_some_and(|state| {
            state.is_obsolete = true;
            true
        })
    }
}

/// Keeps files as long as it lasts.
#[derive(Debug)]
pub struct Pins {
    disk: Arc<dyn Disk>,
    pinned: Arc<PinnedFiles>,
    files: Vec<String>,
}

impl Drop for Pins {
    fn drop(&mut self) {
        for file in std::mem::take(&mut self.files) {
            let mut pinned = self.pinned.0.lock();
            let Some(state) = pinned.get_mut(&file) else { continue };
            state.pins -= 1;
            if state.pins == 0 && pinned.remove(&file).is_some_and(|state| state.is_obsolete) {
                drop(pinned);
                delete(&*self.disk, &file);
            }
        }
    }
}

#[derive(Debug)]
pub struct ObsoleteFiles {
    disk: Arc<dyn Disk>,
    pinned: Arc<PinnedFiles>,
    requests: Option<Sender<DeleteRequest>>,
    thread: Option<JoinHandle<()>>,
}

impl ObsoleteFiles {
    /// Without a thread files are deleted by the caller.
    pub fn new(disk: Arc<dyn Disk>, with_thread: bool) -> ObsoleteFiles {
        let (requests, orders) = channel();
        let pinned = Arc::new(PinnedFiles::default());
        let work = {
            let (disk, pinned) = (disk.clone(), pinned.clone());
            move || {
                for order in orders {
                    match order {
                        DeleteRequest::Delete { file, successor } => {
                            remove(&*disk, &pinned, &file, successor.as_deref())
                        }
                        // Nobody waits any more: nothing to tell.
                        DeleteRequest::Notify(done) => done.send(()).unwrap_or_default(),
                    }
                }
            }
        };
        let spawn = || std::thread::Builder::new().name("urls-delete".to_string()).spawn(work).ok();
        let thread = if with_thread { spawn() } else { None };
        ObsoleteFiles { disk, pinned, requests: thread.is_some().then_some(requests), thread }
    }

    /// Keeps files that make up the store now, until the answer is dropped.
    pub fn pin(&self, files: Vec<String>) -> Pins {
        let mut pinned = self.pinned.0.lock();
        files.iter().for_each(|file| pinned.entry(file.clone()).or_default().pins += 1);
        Pins { disk: self.disk.clone(), pinned: self.pinned.clone(), files }
    }

    /// Removes `file`, once `successor` would survive a power cut.
    pub fn remove(&self, file: String, successor: Option<String>) {
        match &self.requests {
            // The thread lasts as long as this does.
            Some(requests) => requests.send(DeleteRequest::Delete { file, successor }).unwrap_or_default(),
            None => remove(&*self.disk, &self.pinned, &file, successor.as_deref()),
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

fn remove(disk: &dyn Disk, pinned: &PinnedFiles, file: &str, successor: Option<&str>) {
    match successor.map_or(Ok(()), |successor| disk.sync(successor)) {
        Ok(()) if pinned.keeps(file) => {}
        Ok(()) => delete(disk, file),
        Err(error) => stays(file, &error),
    }
}

fn delete(disk: &dyn Disk, file: &str) {
    disk.remove(file).unwrap_or_else(|error| stays(file, &error));
}

fn stays(file: &str, error: &io::Error) {
    tracing::warn!(file, error = %error, "an old file of the URL store stays for now");
}

#[cfg(test)]
mod tests {
    use super::*;
    use farol_base::disk::Mem;

    #[test]
    fn a_pinned_file_is_deleted_with_its_last_pin_and_not_before() {
        for with_thread in [false, true] {
            let disk = Arc::new(Mem::new());
            ["a", "b", "c"].iter().for_each(|file| disk.append(file, b"x").unwrap());
            let obsolete = ObsoleteFiles::new(disk.clone(), with_thread);
            let (first, second) =
                (obsolete.pin(vec!["a".into(), "b".into()]), obsolete.pin(vec!["a".into()]));
            ["a", "c"].iter().for_each(|file| obsolete.remove(file.to_string(), None));
            obsolete.wait();
            assert_eq!(disk.list().unwrap(), ["a", "b"]);
            drop(first);
            assert_eq!(
                disk.list().unwrap(),
                ["a", "b"],
                "another pin holds it, and nobody gave the other up"
            );
            drop(obsolete);
            drop(second);
            assert_eq!(disk.list().unwrap(), ["b"]);
        }
    }
}
