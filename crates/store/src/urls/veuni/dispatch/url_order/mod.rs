//! Which of a host's URLs are pre-scheduled: the ones that may be handed out before its bucket is merged again.
//!
//! One policy a file. Pure: the merge asks, and obeys.

mod breadth;
mod refresh;
mod shortest;

use farol_base::Timestamp;
use std::fmt;

pub use breadth::Breadth;
pub use refresh::Refresh;
pub use shortest::Shortest;

/// With fewer URLs than this left to hand out, a host's pre-scheduled URLs are chosen anew (thesis, ch. 3).
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
    /// The smallest keys are chosen, and handed out in their order; of equal ones the first in the alphabet.
    /// `new_host` says that nothing of the host was known before.
    fn key(&self, candidate: &Candidate, now: Timestamp, new_host: bool) -> u64;

    /// Whether to choose anew, with so many left to hand out.
    fn is_due(&self, left: u64) -> bool {
        left < LEFT_MIN
    }
}

/// Key of a visited URL that is due then: behind every URL that was never visited.
fn by_due(due: Timestamp) -> u64 {
    1 << 63 | due.as_millis() >> 1
}
