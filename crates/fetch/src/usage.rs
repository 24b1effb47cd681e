//! What fetching uses at this moment, and the room for large bodies.
//!
//! Every fetch may hold [`SMALL_BYTES`] of its body as it likes. Whoever holds more needs room for the largest body that
//! its limit allows, out of one sum for all (`large_bodies_bytes_max`): so each that has room can be read to its end,
//! and nobody waits for somebody who waits. While there is none, a body is not read on and its server waits; one that
//! was compressed so much that it is far beyond already is given up, to be fetched again later.
//!
//! INVARIANT: bodies being read hold at most `fetches × 2 × SMALL_BYTES + large_bodies_bytes_max`, and for moments what
//! one piece of a compressed body turned into, once per thread: 256 × 512 KiB + 256 MiB = 384 MiB by default.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};

/// Most pages are smaller.
pub(crate) const SMALL_BYTES: usize = 256 << 10;
/// What room is counted in.
const UNIT_BYTES: usize = 64 << 10;

/// What fetching uses at this moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Connections that are open, idle ones included.
    pub connections: u64,
    /// Bytes of bodies that are being read.
    pub body_bytes: u64,
}

/// Counts what is used.
pub(crate) struct Meter {
    connections: AtomicU64,
    body_bytes: AtomicU64,
    room: Arc<Semaphore>,
    units: usize,
}

/// There is no room, and waiting for some would take too long or hold too much.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NoRoom {
    /// The time for the fetch is over.
    Late,
    /// Too much is held already.
    Held,
}

impl Meter {
    pub fn new(large_bodies_bytes_max: u64) -> Arc<Meter> {
        let units = usize::try_from(large_bodies_bytes_max).unwrap_or(usize::MAX) / UNIT_BYTES;
        let units = units.clamp(1, Semaphore::MAX_PERMITS.min(u32::MAX as usize));
        Arc::new(Meter {
            connections: AtomicU64::new(0),
            body_bytes: AtomicU64::new(0),
            room: Arc::new(Semaphore::new(units)),
            units,
        })
    }

    pub fn usage(&self) -> Usage {
        Usage {
            connections: self.connections.load(Ordering::Relaxed),
            body_bytes: self.body_bytes.load(Ordering::Relaxed),
        }
    }

    /// A connection is open for as long as this lives.
    pub fn connection(self: &Arc<Meter>) -> Arc<OpenConnection> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Arc::new(OpenConnection { meter: self.clone() })
    }

    /// A body of at most `bytes_max` is being read for as long as this lives.
    pub fn body(self: &Arc<Meter>, bytes_max: usize) -> BodyRoom {
        BodyRoom { meter: self.clone(), bytes_max, held: 0, large: None }
    }
}

/// A connection that counts as open.
pub(crate) struct OpenConnection {
    meter: Arc<Meter>,
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.meter.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What a body that is being read holds.
pub(crate) struct BodyRoom {
    meter: Arc<Meter>,
    bytes_max: usize,
    held: u64,
    large: Option<OwnedSemaphorePermit>,
}

impl BodyRoom {
    /// Most bytes of the body.
    pub fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Says that so many bytes are held now; waits for room where they are more than a small body's.
    pub async fn holds(&mut self, bytes: usize, deadline: Instant) -> Result<(), NoRoom> {
        let now = bytes as u64;
        self.meter.body_bytes.fetch_add(now.saturating_sub(self.held), Ordering::Relaxed);
        self.held = self.held.max(now);
        if bytes <= SMALL_BYTES || self.large.is_some() {
            return Ok(());
        }
        // More than there is in all is never needed: it would be waited for in vain.
        let units = self.bytes_max.div_ceil(UNIT_BYTES).clamp(1, self.meter.units) as u32;
        let room = self.meter.room.clone();
        if let Ok(permit) = room.clone().try_acquire_many_owned(units) {
            self.large = Some(permit);
            return Ok(());
        }
        if bytes > 2 * SMALL_BYTES {
            return Err(NoRoom::Held);
        }
        match timeout_at(deadline, room.acquire_many_owned(units)).await {
            Ok(Ok(permit)) => {
                self.large = Some(permit);
                Ok(())
            }
            _ => Err(NoRoom::Late),
        }
    }
}

impl Drop for BodyRoom {
    fn drop(&mut self) {
        self.meter.body_bytes.fetch_sub(self.held, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(50)
    }

    #[tokio::test]
    async fn large_bodies_wait_for_each_other_and_small_ones_for_nobody() {
        let meter = Meter::new(3 << 20);
        let (mut first, mut second) = (meter.body(2 << 20), meter.body(2 << 20));
        assert_eq!(first.holds(1 << 20, soon()).await, Ok(()));
        assert_eq!(second.holds(SMALL_BYTES, soon()).await, Ok(()));
        assert_eq!(second.holds(SMALL_BYTES + 1, soon()).await, Err(NoRoom::Late));
        assert_eq!(second.holds(1 << 20, soon()).await, Err(NoRoom::Held));
        assert_eq!(meter.usage(), Usage { connections: 0, body_bytes: 2 << 20 });
        drop(first);
        assert_eq!(second.holds(1 << 20, soon()).await, Ok(()));
        drop(second);
        assert_eq!(meter.usage(), Usage::default());
        // A body whose limit is beyond all room takes all of it, and is read.
        assert_eq!(meter.body(1 << 30).holds(2 << 20, soon()).await, Ok(()));
        let open = meter.connection();
        assert_eq!(meter.usage().connections, 1);
        drop(open);
        assert_eq!(meter.usage(), Usage::default());
    }
}
