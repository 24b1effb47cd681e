//! Batches of logs that this program could not read: kept in the data folder for whoever looks into it, and counted.
//!
//! Nothing waits for them. What a batch held is asked for again where the next one shows the gap; one of a later version
//! is read by the program that comes after an upgrade, once it is sent again.

use farol_base::sync::Mutex;
use farol_fabric::Topic;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the folder in the data folder.
const FOLDER: &str = "dead";
/// Batches that are kept at most, 256 KiB each: 64 MiB. The first are kept, as they say most about what began it.
const KEPT_MAX: usize = 256;

/// What could not be read.
#[derive(Default)]
pub struct DeadLetters {
    /// The folder; `None` where they are counted only.
    folder: Option<PathBuf>,
    counts: Mutex<BTreeMap<Topic, u64>>,
    last: Mutex<String>,
}

impl DeadLetters {
    pub fn in_folder(data: &Path) -> DeadLetters {
        DeadLetters { folder: Some(data.join(FOLDER)), ..DeadLetters::default() }
    }

    /// Counts a batch, and keeps it where there is room.
    pub fn take(&self, topic: Topic, seq: u64, bytes: &[u8], why: &dyn std::fmt::Display) {
        tracing::error!(%topic, seq, error = %why, "a batch cannot be read and is left out");
        *self.counts.lock().entry(topic).or_default() += 1;
        *self.last.lock() = format!("of the log {topic}: {why}");
        let Some(folder) = self.folder.as_ref().filter(|_| self.kept() < KEPT_MAX) else { return };
        let written = std::fs::create_dir_all(folder)
            .and_then(|()| std::fs::write(folder.join(format!("{topic}-{seq}.batch")), bytes));
        if let Err(error) = written {
            tracing::warn!(%error, "a batch that cannot be read is not kept either");
        }
    }

    /// Batches that could not be read since the start, by log.
    pub fn counts(&self) -> BTreeMap<Topic, u64> {
        self.counts.lock().clone()
    }

    /// Batches that are kept, those of earlier starts among them.
    pub fn kept(&self) -> usize {
        let entries = self.folder.as_ref().and_then(|folder| std::fs::read_dir(folder).ok());
        entries.map_or(0, Iterator::count)
    }

    /// What is wrong and what to do, where something is.
    pub fn trouble(&self) -> Option<String> {
        let (kept, last) = (self.kept(), self.last.lock().clone());
        let folder = self.folder.as_deref().unwrap_or(Path::new(FOLDER)).display();
        let what = match (kept, last.is_empty()) {
            (0, true) => return None,
            (_, true) => String::new(),
            (_, false) => format!(" (the last one, {last})"),
        };
        Some(format!(
            "{kept} batches could not be read and are kept in {folder}{what}; what they held is sent again by itself; \
             delete them when you have seen them"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_kept_and_all_are_counted() {
        let data = tempfile::tempdir().unwrap();
        let dead = DeadLetters::in_folder(data.path());
        assert_eq!(dead.trouble(), None);
        for seq in 0..KEPT_MAX as u64 + 10 {
            dead.take(Topic::Docs(3), seq, b"?", &"it is empty");
        }
        assert_eq!(dead.counts()[&Topic::Docs(3)], KEPT_MAX as u64 + 10);
        assert_eq!(dead.kept(), KEPT_MAX);
        let kept = data.path().join(FOLDER).join(format!("{}-0.batch", Topic::Docs(3)));
        assert_eq!(std::fs::read(kept).unwrap(), b"?");
        let told = dead.trouble().unwrap();
        assert!(told.contains("256 batches") && told.contains("it is empty"), "{told}");
        // The next start still tells of them, until somebody has seen to it.
        let later = DeadLetters::in_folder(data.path());
        assert!(later.trouble().unwrap().contains("256 batches"));
        std::fs::remove_dir_all(data.path().join(FOLDER)).unwrap();
        assert_eq!(later.trouble(), None);
    }
}
