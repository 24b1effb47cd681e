//! The seam to the rest of the product: what the front asks of the engine behind it.
//!
//! The binary implements [`Engine`] over the crawler, the index and the archive; tests and the preview
//! implement it over made-up pages. Calls may block: the front runs each on a thread for blocking work,
//! with a deadline, and at most [`crate::CALLS_MAX`] of them at a time.

use crate::cluster::{ClusterOrder, ClusterStatus};
use crate::federation::{FederationOrder, FederationStatus};
use crate::page_detail::{BrokenList, PageDetail};
use crate::ring::RingStatus;
use crate::status::{History, HostDetail, HostList, RobotsTry, Status};
use farol_base::query::{Answer, Request};
use farol_base::{CanonicalUrl, Host, Origin, Timestamp};

/// What stands behind the pages.
pub trait Engine: Send + Sync + 'static {
    /// Answers a question.
    fn search(&self, request: &Request) -> Result<Answer, EngineError>;

    /// Completes what somebody is typing; the likeliest first, at most `count`.
    fn suggest(&self, prefix: &str, count: usize) -> Vec<String>;

    /// The bytes kept of a page; `None` where it was never fetched or is no longer kept.
    fn stored_copy(&self, url: &CanonicalUrl) -> Result<Option<StoredCopy>, EngineError>;

    /// Somebody opened this page from the results. Called where [`crate::Settings::clicks`] says so.
    fn clicked(&self, _url: &CanonicalUrl) {}

    /// The numbers of this moment. Must be cheap: the dashboard asks every two seconds.
    fn status(&self) -> Status;

    /// The numbers of the recent past, oldest first.
    fn history(&self) -> History;

    /// Hosts whose name contains `filter` and that are in `state` (a [`crate::HostRow::state`] code, any
    /// where `None`), in a stable order, from number `first` on, at most `count`.
    fn hosts(&self, filter: &str, state: Option<&str>, first: usize, count: usize) -> HostList;

    /// Everything known of one host.
    fn host(&self, host: &Host) -> Option<HostDetail>;

    /// Whether the host's robots.txt, as last read, lets us fetch this page. `None` where no rules are known.
    fn try_robots(&self, _url: &CanonicalUrl) -> Option<RobotsTry> {
        None
    }

    /// What is known of a page, why it is found or not, and why it is visited when it is; also of a page that is not
    /// known at all.
    fn explain(&self, url: &CanonicalUrl) -> Result<PageDetail, EngineError>;

    /// Pages that were asked for and are not there, of hosts whose name contains `filter`, in a stable order, from
    /// number `first` on, at most `count`; with who links to them.
    fn broken(&self, filter: &str, first: usize, count: usize) -> Result<BrokenList, EngineError>;

    /// What the operator has removed: addresses, those with a `*` behind for all that begin so.
    fn removed_pages(&self) -> Result<Vec<String>, EngineError>;

    /// Does what an operator asks and says in one sentence what was done.
    fn command(&self, command: Command) -> Result<String, EngineError>;

    /// The cluster of which this process is a member; `None` where it is of none, which never changes while it runs.
    /// Must be cheap, as [`Engine::status`].
    fn cluster(&self) -> Option<ClusterStatus> {
        None
    }

    /// The cache nodes of that cluster; `None` where there are none. Must be cheap, too.
    fn ring(&self) -> Option<RingStatus> {
        None
    }

    /// Numbers of the engine's own, in Prometheus' text format, to stand behind the others.
    fn metrics_text(&self) -> String {
        String::new()
    }

    /// What this engine shares with engines of other owners; `None` where it shares nothing, which never changes while it
    /// runs. Must be cheap, as [`Engine::status`].
    fn federation(&self) -> Option<FederationStatus> {
        None
    }

    /// Does what an operator asks of what is shared and says in one sentence what was done.
    fn federation_order(&self, _order: FederationOrder) -> Result<String, EngineError> {
        Err(EngineError::Unavailable(
            "this engine shares nothing: set enabled = true under [federation] and start it again".into(),
        ))
    }

    /// Does what an operator asks of the cluster and says in one sentence what was done.
    fn cluster_order(&self, _order: ClusterOrder) -> Result<String, EngineError> {
        Err(EngineError::Unavailable("this process is not a member of a cluster".into()))
    }
}

/// What an operator can ask for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Stop fetching; searching goes on.
    Pause,
    /// Go on fetching.
    Resume,
    /// Crawl from this URL too. The text is as typed; the engine reads it.
    AddSeed(String),
    /// Forget a host: its queue, its pages in the index, and visit it no more.
    RemoveHost(Host),
    /// Fetch a page again soon, or all whose address begins so where a `*` stands behind. As typed; the engine reads
    /// it, here and below.
    Refetch(String),
    /// Have a page, or all whose address begins so, found and fetched no more.
    RemovePages(String),
    /// Take such a removal back.
    RestorePages(String),
}

/// Why the engine cannot do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Too much to do at the moment; the same request may succeed later.
    #[error("the engine is busy, try again in a moment")]
    Busy,
    /// This engine cannot do it now, for the reason given.
    #[error("{0}")]
    Unavailable(String),
    /// The request itself is wrong, for the reason given.
    #[error("{0}")]
    Invalid(String),
}

impl EngineError {
    /// Whether asking again, unchanged, may succeed.
    pub fn is_transient(&self) -> bool {
        !matches!(self, EngineError::Invalid(_))
    }
}

/// A page as it was fetched.
#[derive(Clone, Debug)]
pub struct StoredCopy {
    /// Where it was fetched from.
    pub url: CanonicalUrl,
    /// When it was fetched.
    pub fetched: Timestamp,
    /// Media type without parameters, as the server sent it: `text/html`.
    pub content_type: String,
    /// The character encoding that the parser settled on, where it is known.
    pub charset: Option<String>,
    /// The body, content encodings removed.
    pub body: Vec<u8>,
    /// Whether copies may be shown; `false` where the page says `noarchive`.
    pub archive: bool,
    /// The engine that fetched it and has the copy, where that is not this one: there is no body then.
    pub source: Option<Origin>,
}
