//! Which of a host's URLs are pre-scheduled, that is, may be drawn before its bucket is compacted again:
//! policies, one file each.
//!
//! Pure: facts in, a key out. Compaction chooses by them, and dispatch draws in their order.

mod breadth;
mod refresh;
mod shortest;

use crate::urls::veuni::bucket::UrlEntry;
use farol_base::Timestamp;
use farol_base::codec::DecodeError;
use std::fmt;

pub use breadth::Breadth;
pub use refresh::Refresh;
pub use shortest::Shortest;

/// With fewer URLs than this left to draw, a host's pre-scheduled URLs are chosen anew [Henrique11 ch. 3].
pub const LEFT_MIN: u64 = 10;

/// A URL that may be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Candidate {
    pub path_bytes: usize,
    /// Links from the nearest seed.
    pub depth: u16,
    /// When it is due again; `None` before its first visit.
    pub due: Option<Timestamp>,
}

/// Orders a host's URLs.
pub trait UrlOrder: Send + Sync + fmt::Debug {
    /// The smallest keys are chosen, and drawn in their order; of equal ones the first in the alphabet.
    /// `new_host` says that nothing of the host was known before.
    fn key(&self, candidate: &Candidate, now: Timestamp, new_host: bool) -> u64;

    /// Whether to choose anew, with `left` of them left to draw.
    fn is_due(&self, left: u64) -> bool {
        left < LEFT_MIN
    }
}

/// The key of a stored URL; `None` where it is not visited again.
pub(in crate::urls::veuni) fn entry_key(
    order: &dyn UrlOrder,
    entry: &UrlEntry<'_>,
    now: Timestamp,
    new_host: bool,
) -> Result<Option<u64>, DecodeError> {
    let due = entry.ready()?;
    if due == Timestamp::NEVER {
        return Ok(None);
    }
    let candidate = Candidate {
        path_bytes: entry.path.len(),
        depth: entry.depth,
        due: (entry.state != 0).then_some(due),
    };
    Ok(Some(order.key(&candidate, now, new_host)))
}

/// Key of a visited URL that is due then: after every URL that was never visited.
fn by_due(due: Timestamp) -> u64 {
    1 << 63 | due.as_millis() >> 1
}
