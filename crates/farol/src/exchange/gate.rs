//! Whether a backup holds what is to leave: whoever gets a host will not visit it again as new, and what was found on its
//! pages would die with its giver.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Backups by their order of beginning, for those who wait for one.
#[derive(Debug, Default)]
pub struct BackupGate {
    /// Nobody makes backups: there is no place for them.
    is_open: bool,
    begun: AtomicU64,
    done: AtomicU64,
    is_wanted: AtomicBool,
}

impl BackupGate {
    /// `has_backups` says whether somebody makes them.
    pub fn new(has_backups: bool) -> BackupGate {
        BackupGate { is_open: !has_backups, ..BackupGate::default() }
    }

    /// Asks for a backup that begins after this moment; to be handed to [`BackupGate::has`].
    pub fn want(&self) -> u64 {
        if self.is_open {
            return 0;
        }
        self.is_wanted.store(true, Ordering::SeqCst);
        self.begun.load(Ordering::SeqCst) + 1
    }

    pub fn has(&self, backup: u64) -> bool {
        self.done.load(Ordering::SeqCst) >= backup
    }

    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::SeqCst)
    }

    /// A backup begins; what comes of it is told with its number.
    pub fn begin(&self) -> u64 {
        self.is_wanted.store(false, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub fn done(&self, backup: u64) {
        self.done.fetch_max(backup, Ordering::SeqCst);
    }

    /// It came to nothing: whoever waits for it waits for the next one.
    pub fn failed(&self) {
        self.is_wanted.store(true, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_backup_that_began_later_counts() {
        let gate = BackupGate::new(true);
        let under_way = gate.begin();
        let wanted = gate.want();
        gate.done(under_way);
        assert!(!gate.has(wanted) && gate.is_wanted());
        let next = gate.begin();
        assert!(!gate.is_wanted());
        gate.failed();
        assert!(gate.is_wanted() && !gate.has(wanted));
        gate.done(next.max(gate.begin()));
        assert!(gate.has(wanted));
        let open = BackupGate::new(false);
        assert!(open.has(open.want()) && !open.is_wanted());
    }
}
