//! What is known of single pages, as plain values: why one is found or not, and links that lead nowhere.
//!
//! Nothing here is `Serialize`; what goes over the wire are the twins in `api`.

use crate::status::RobotsTry;
use farol_base::status::ScopeReason;
use farol_base::{CanonicalUrl, Language, Timestamp};
use std::time::Duration;

/// What is known of a page, why it is found or not, and why it is visited when it is.
#[derive(Clone, Debug)]
pub struct PageDetail {
    /// The page.
    pub url: CanonicalUrl,
    /// Why it is found or not, in a word and what belongs to it.
    pub verdict: PageVerdict,
    /// What its visits so far say; `None` where the page is not known.
    pub state: Option<&'static str>,
    /// It is one of the seeds.
    pub is_seed: bool,
    /// Links between it and the nearest seed, where it is known.
    pub depth: Option<u16>,
    /// The operator's order that removed it, as it was given.
    pub removed_by: Option<String>,
    /// Why it is no part of this crawl, where it is none.
    pub out_of_scope: Option<ScopeReason>,
    /// What its host's robots.txt says; `None` where it was not read yet.
    pub robots: Option<RobotsTry>,
    /// What its host is doing: the same words as in [`crate::HostRow::state`]; `None` where it is not being visited.
    pub host_state: Option<String>,
    /// When its host may be asked again, where it rests.
    pub host_wakes: Option<Timestamp>,
    /// Visits of its host that failed in a row.
    pub host_failures: u32,
    /// Where it is instead, by its server's word or its own.
    pub moved_to: Option<CanonicalUrl>,
    /// It can be found.
    pub is_indexed: bool,
    /// Its title, where it can be found.
    pub title: String,
    /// The language that it was indexed in.
    pub language: Option<Language>,
    /// Other pages with the same text, of which a list of results shows one.
    pub twins: Vec<CanonicalUrl>,
    /// Known pages with nearly the same address, where this one is not known.
    pub similar: Vec<CanonicalUrl>,
    /// Who links to it.
    pub linked_from: LinkedFrom,
    /// Its visits, newest first.
    pub log: Vec<PageVisit>,
    /// Those are all of them.
    pub log_is_whole: bool,
    /// How often it was visited.
    pub visits: u32,
    /// Visits in a row that brought no answer.
    pub failures: u32,
    /// When it was last visited.
    pub last_visit: Option<Timestamp>,
    /// When a visit last saw a change.
    pub last_change: Option<Timestamp>,
    /// When it is visited next; `None` where it is not, or where it waits for its first visit.
    pub due: Option<Timestamp>,
    /// Why then.
    pub plan: RevisitPlan,
}

/// Why a page is visited when it is; all zero before its first visit.
#[derive(Clone, Copy, Debug, Default)]
pub struct RevisitPlan {
    /// Visits that saw a change, as far as they are remembered.
    pub changes: f64,
    /// As often as it is believed to change.
    pub changes_per_day: f64,
    /// What its freshness counts, where a page without links counts 1.
    pub weight: f64,
    /// Probability that the copy is what the server has.
    pub fresh: f64,
    /// What a visit now would bring: time of freshness of a page of weight 1.
    pub worth: Duration,
    /// What a visit must bring, in the same unit.
    pub price: Duration,
    /// Its host bears no more visits, so the price is the host's own.
    pub host_is_full: bool,
    /// Time between two visits at this price.
    pub interval: Duration,
}

/// Why a page is found or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageVerdict {
    /// In a word.
    pub kind: VerdictKind,
    /// What belongs to it: a rule, an address, a status, the label of a failure or trap, a [`ScopeReason`] as it is
    /// written; empty where nothing does.
    pub detail: String,
}

macro_rules! verdicts {
    ($($(#[$doc:meta])* $kind:ident = $code:literal,)*) => {
        /// Why a page is found or not, in a word.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum VerdictKind {
            $($(#[$doc])* $kind,)*
        }

        impl VerdictKind {
            /// All of them.
            pub const ALL: &[VerdictKind] = &[$(VerdictKind::$kind,)*];

            /// The word for programs.
            pub fn code(self) -> &'static str {
                match self {
                    $(VerdictKind::$kind => $code,)*
                }
            }
        }
    };
}

verdicts! {
    /// It can be found.
    Found = "found",
    /// The operator has removed it.
    Removed = "removed",
    /// The operator has removed its host.
    HostRemoved = "host_removed",
    /// It is no part of this crawl.
    OutOfScope = "out_of_scope",
    /// robots.txt forbids it.
    Robots = "robots",
    /// It looks like one of pages without end.
    Trap = "trap",
    /// Nobody has named it.
    Unknown = "unknown",
    /// It waits for its first visit.
    Waiting = "waiting",
    /// The same, while the crawl is paused.
    Paused = "paused",
    /// The same, while its host does not answer.
    HostFailing = "host_failing",
    /// It was asked for, and no answer came.
    NoAnswer = "no_answer",
    /// Its server says that it is not there.
    Gone = "gone",
    /// It leads elsewhere.
    Redirect = "redirect",
    /// It was not asked for when it was last due, and may be now.
    AllowedAgain = "allowed_again",
    /// It asks not to be found.
    NoIndex = "noindex",
    /// It asks not to be found any more.
    Expired = "expired",
    /// It names another address as its own.
    Canonical = "canonical",
    /// It is no text.
    NotText = "not_text",
    /// It has no text.
    Empty = "empty",
    /// It is a list of addresses.
    List = "list",
    /// It was fetched and is about to be indexed.
    NotYet = "not_yet",
}

/// A visit to a page, as the archive has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageVisit {
    /// When.
    pub at: Timestamp,
    /// The server's status; `None` where no answer came.
    pub status: Option<u16>,
    /// What came of it, in a few words.
    pub outcome: String,
    /// Bytes of the body.
    pub bytes: u64,
}

/// Who links to a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkedFrom {
    /// How many pages do, as far as they were counted.
    pub pages: u64,
    /// Some of them.
    pub links: Vec<PageLink>,
}

/// A link to a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageLink {
    /// The page that has it.
    pub url: CanonicalUrl,
    /// What a reader sees; may be empty.
    pub text: String,
    /// Its author asks not to count it.
    pub nofollow: bool,
}

/// A stretch of the list of pages that were asked for and are not there.
#[derive(Clone, Debug, Default)]
pub struct BrokenList {
    /// How many there are.
    pub total: usize,
    /// Those of this stretch.
    pub rows: Vec<BrokenPage>,
}

/// A page that was asked for and is not there.
#[derive(Clone, Debug)]
pub struct BrokenPage {
    /// Its address.
    pub url: CanonicalUrl,
    /// The server's status; `None` where no answer came.
    pub status: Option<u16>,
    /// When it was last asked for.
    pub last_visit: Timestamp,
    /// Who links to it.
    pub linked_from: LinkedFrom,
}
