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

/// Why a page is no part of a crawl.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScopeReason {
    /// No seed stands for it; the scope as it is set.
    Around(String),
    /// The pattern that leaves it out.
    Pattern(String),
    /// It fits none of the patterns to keep to.
    NoPattern,
    /// The crawl is of another part of the Web.
    View {
        /// The condition that does not hold.
        wants: String,
        /// What is known of the page, in the words of views; empty where nothing is but its address.
        told: String,
    },
}

impl ScopeReason {
    /// It in one line, to be read by [`ScopeReason::read`].
    pub fn written(&self) -> String {
        match self {
            ScopeReason::Around(scope) => format!("around {scope}"),
            ScopeReason::Pattern(pattern) => format!("pattern {pattern}"),
            ScopeReason::NoPattern => "no-pattern".to_string(),
            ScopeReason::View { wants, told } => format!("view {wants}\n{told}"),
        }
    }

    /// Reads what was written; what is not understood is a condition.
    pub fn read(text: &str) -> ScopeReason {
        match text.split_once(' ') {
            Some(("around", scope)) => ScopeReason::Around(scope.to_string()),
            Some(("pattern", pattern)) => ScopeReason::Pattern(pattern.to_string()),
            None if text == "no-pattern" => ScopeReason::NoPattern,
            Some(("view", view)) => {
                let (wants, told) = view.split_once('\n').unwrap_or((view, ""));
                ScopeReason::View { wants: wants.to_string(), told: told.to_string() }
            }
            _ => ScopeReason::View { wants: text.to_string(), told: String::new() },
        }
    }
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
    /// A short label of what went wrong, where something did.
    pub error: Option<&'static str>,
    /// How long it took.
    pub took: Duration,
    /// Bytes of the body.
    pub bytes: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_read_as_it_was_written() {
        let view = |wants: &str, told: &str| ScopeReason::View { wants: wants.into(), told: told.into() };
        for reason in [
            ScopeReason::Around("host".into()),
            ScopeReason::Pattern("-/a b/".into()),
            ScopeReason::NoPattern,
            view("lang:pt", "ip:1.2.3.4"),
            view("not (a or b)", ""),
        ] {
            assert_eq!(ScopeReason::read(&reason.written()), reason);
        }
        assert_eq!(ScopeReason::read("another"), view("another", ""));
    }
}
