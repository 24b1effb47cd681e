//! What an engine says of itself: nouns that the roles fill in and the pages show.
//!
//! Only what both sides share word for word is here; numbers that only the pages show are the front's own.

pub use crate::seed_status::{SeedReport, SeedState, SeedSummary};

use crate::{CanonicalUrl, Timestamp};
use std::time::Duration;

/// What the engine is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum EngineState {
    /// Pages are being fetched.
    Crawling,
    /// Everything known has been fetched; waiting until a page is due again.
    #[default]
    Idle,
    /// An operator asked for a pause.
    Paused,
    /// Fetching waits until there is room on the disk.
    DiskFull,
    /// Only questions are answered; no crawler runs in this process.
    Serving,
    /// On its way down.
    Stopping,
    /// Fetching stopped because of an error; the message says which.
    Failed,
}

impl EngineState {
    /// Every state.
    pub const ALL: [EngineState; 7] = [
        EngineState::Crawling,
        EngineState::Idle,
        EngineState::Paused,
        EngineState::DiskFull,
        EngineState::Serving,
        EngineState::Stopping,
        EngineState::Failed,
    ];

    /// Its name in the API and in metrics.
    pub fn code(self) -> &'static str {
        match self {
            EngineState::Crawling => "crawling",
            EngineState::Idle => "idle",
            EngineState::Paused => "paused",
            EngineState::DiskFull => "disk_full",
            EngineState::Serving => "serving",
            EngineState::Stopping => "stopping",
            EngineState::Failed => "failed",
        }
    }
}

/// How fresh a set of pages is: estimates from what is known of their changes, not measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Freshness {
    /// Pages that the estimates are about.
    pub pages: u64,
    /// Expected share, 0 to 1, of the pages whose copy is still what the server has.
    pub fresh: f64,
    /// Mean time since copies stopped being true, over all pages; a copy that is still true counts as zero.
    pub age: Duration,
}

/// One fetch.
#[derive(Clone, Debug)]
pub struct RecentVisit {
    /// When it was.
    pub at: Timestamp,
    /// What was fetched.
    pub url: CanonicalUrl,
    /// HTTP status, where there was an answer.
    pub status: Option<u16>,
    /// What came of it, in a few words ("indexed", "unchanged", "timeout").
    pub outcome: String,
    /// How long it took.
    pub took: Duration,
    /// Bytes of the body.
    pub bytes: u64,
}
