//! What others may see of the sender, and how they ask it to send again.

use farol_base::PagePosition;
use farol_base::sync::Mutex;
use farol_fabric::Topic;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;

/// How sending goes.
#[derive(Default)]
pub struct SendProgress {
    /// How far each log has come.
    pub sent: Mutex<BTreeMap<Topic, PagePosition>>,
    /// What receivers lack: from where on each log is to be filled again.
    wanted: Mutex<BTreeMap<Topic, PagePosition>>,
    pub batches: AtomicU64,
    pub bytes: AtomicU64,
    /// Logs that are filled from the archive at the moment.
    pub behind: AtomicU64,
    /// Why sending waits; empty while all is well.
    pub trouble: Mutex<String>,
}

impl SendProgress {
    /// A receiver lacks something of a log from here on.
    pub fn ask_again(&self, topic: Topic, from: PagePosition) {
        let mut wanted = self.wanted.lock();
        let at = wanted.entry(topic).or_insert(from);
        *at = from.min(*at);
    }

    /// What receivers have asked for since the last time.
    pub fn take_wanted(&self) -> BTreeMap<Topic, PagePosition> {
        std::mem::take(&mut self.wanted.lock())
    }
}
