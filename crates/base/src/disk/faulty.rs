//! A disk that fails when it is told to, for crash tests.

use super::Disk;
use crate::sync::Mutex;
use std::io;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// Another disk, with faults: a process that dies at the n-th write, a write that fails, a disk that is full or busy.
///
/// ```
/// use farol_base::disk::{Disk, Faulty, Mem};
/// use std::sync::Arc;
/// let disk = Faulty::new(Arc::new(Mem::new()));
/// disk.die_at_write(2, 3);
/// disk.append("log", b"whole").unwrap();
/// assert!(disk.append("log", b"torn").is_err());
/// disk.revive();
/// assert_eq!(disk.len("log").unwrap(), Some(5 + 3));
/// ```
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Disk>,
    plan: Mutex<Plan>,
}

#[derive(Debug, Default)]
struct Plan {
    writes: u64,
    /// Write at which the process dies, and how many bytes of it still arrive.
    death: Option<(u64, usize)>,
    dead: bool,
    /// Write that fails without a trace.
    fault: Option<u64>,
    /// Bytes until the disk is full.
    room: Option<u64>,
    /// How long it takes until something is on the disk.
    sync_takes: Duration,
}

impl Faulty {
    /// Passes everything on to `inner` until told otherwise.
    pub fn new(inner: Arc<dyn Disk>) -> Faulty {
        Faulty { inner, plan: Mutex::default() }
    }

    /// Tears the n-th append from now (1 is the next): `kept_bytes` of it arrive, then nothing works any more.
    pub fn die_at_write(&self, nth: u64, kept_bytes: usize) {
        let mut plan = self.plan();
        plan.death = Some((plan.writes + nth, kept_bytes));
    }

    /// Lets the n-th append from now fail, once, without writing anything.
    pub fn fail_write(&self, nth: u64) {
        let mut plan = self.plan();
        plan.fault = Some(plan.writes + nth);
    }

    /// Leaves room for so many bytes; appends beyond write what fits and fail as on a full disk.
    pub fn fill_up(&self, room_bytes: u64) {
        self.plan().room = Some(room_bytes);
    }

    /// Ends a full disk.
    pub fn make_room(&self) {
        self.plan().room = None;
    }

    /// Takes so long to sync a file, as a disk does that has much else to write.
    pub fn be_busy(&self, sync_takes: Duration) {
        self.plan().sync_takes = sync_takes;
    }

    /// Ends every fault, as a restart on a good disk does.
    pub fn revive(&self) {
        let mut plan = self.plan();
        *plan = Plan { writes: plan.writes, ..Plan::default() };
    }

    /// Appends so far, failed ones included.
    pub fn writes(&self) -> u64 {
        self.plan().writes
    }

    /// Whether the death that was planned has happened.
    pub fn is_dead(&self) -> bool {
        self.plan().dead
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock()
    }

    fn alive(&self) -> io::Result<&dyn Disk> {
        if self.plan().dead { Err(dead()) } else { Ok(&*self.inner) }
    }
}

fn dead() -> io::Error {
    io::Error::other("the disk is gone (planned fault)")
}

impl Disk for Faulty {
    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.alive()?;
        let mut plan = self.plan();
        plan.writes += 1;
        if plan.fault == Some(plan.writes) {
            plan.fault = None;
            return Err(io::Error::other("the write failed (planned fault)"));
        }
        if let Some((at, kept_bytes)) = plan.death
            && plan.writes >= at
        {
            plan.dead = true;
            self.inner.append(name, &bytes[..kept_bytes.min(bytes.len())])?;
            return Err(dead());
        }
        if let Some(room) = &mut plan.room {
            let fitting = usize::try_from(*room).unwrap_or(usize::MAX).min(bytes.len());
            *room -= fitting as u64;
            if fitting < bytes.len() {
                self.inner.append(name, &bytes[..fitting])?;
                return Err(io::Error::new(io::ErrorKind::StorageFull, "no space left (planned fault)"));
            }
        }
        self.inner.append(name, bytes)
    }

    fn read_at(&self, name: &str, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        self.alive()?.read_at(name, offset, into)
    }

    fn len(&self, name: &str) -> io::Result<Option<u64>> {
        self.alive()?.len(name)
    }

    fn truncate(&self, name: &str, len: u64) -> io::Result<()> {
        let before = self.alive()?.len(name)?.unwrap_or(0);
        self.inner.truncate(name, len)?;
        if let Some(room) = &mut self.plan().room {
            *room += before.saturating_sub(len);
        }
        Ok(())
    }

    fn sync(&self, name: &str) -> io::Result<()> {
        let takes = self.plan().sync_takes;
        std::thread::sleep(takes);
        self.alive()?.sync(name)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.alive()?.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.alive()?.remove(name)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.alive()?.list()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let free = self.alive()?.free_bytes()?;
        Ok(self.plan().room.map_or(free, |room| room.min(free)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::Mem;

    fn faulty() -> Faulty {
        Faulty::new(Arc::new(Mem::new()))
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_recovers() {
        let disk = faulty();
        disk.fill_up(5);
        disk.append("a", b"123").unwrap();
        assert_eq!(disk.append("a", b"456").unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(disk.len("a").unwrap(), Some(5));
        disk.truncate("a", 3).unwrap();
        assert_eq!(disk.free_bytes().unwrap(), 2);
        disk.make_room();
        disk.append("a", b"456").unwrap();
        assert_eq!(disk.len("a").unwrap(), Some(6));
    }

    #[test]
    fn a_failed_write_leaves_no_trace_and_a_dead_disk_does_nothing() {
        let disk = faulty();
        disk.fail_write(1);
        assert!(disk.append("a", b"x").is_err());
        disk.append("a", b"y").unwrap();
        disk.die_at_write(1, 0);
        assert!(disk.append("a", b"z").is_err() && disk.list().is_err() && disk.is_dead());
        disk.revive();
        assert_eq!((disk.len("a").unwrap(), disk.writes()), (Some(1), 3));
    }
}
