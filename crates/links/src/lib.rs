//! Who links to whom, anchor text, ranks.
//!
//! The life of a link: a page is fetched and parsed, and [`Links::put`] appends a record with all its links to the
//! *active* segment, which is in memory and, after [`Links::flush`], with the operating system. When the segment is
//! full it is *sealed*: it gets an index of its records, and its anchor texts are written once more, sorted by
//! target, as a *run*. From then on one read per run finds what the Web calls a page ([`Links::anchors`]). When the
//! page is fetched again, its newest record wins: the older one, and its texts in the runs, count no more.
//! [`Links::backlinks`] says who has those links.
//! [`Links::maintain`] merges runs and rewrites segments that hold mostly such garbage. Now and then a [`RankJob`],
//! made from a snapshot and run on any thread, walks all records and computes what the links say about each page and
//! each host; its [`RankTable`] is what the index asks.
//!
//! ```text
//! put ─► active segment (memory + file) ─seal─► segment ─┬─► RankJob ─► RankTable ─► index
//!          └── anchors ◄────── runs ◄─────── sorted by target, merged by maintain()
//! ```
//!
//! Everything here is rebuilt from the archive of fetched pages if it is lost: [`Links::watermark`] says up to which
//! position of the archive it has been taken in, and putting a page again changes nothing. docs/formats/links.md
//! draws the files.
//!
//! Memory, with default options: about 30 bytes per page that was put, 13 per page known to the rank table, 17 MiB
//! for the active segment, 7 MiB for targets whose anchors changed. A rank job needs 22 bytes per known page while it
//! runs; edges stay on disk. 200,000 pages with 50 links to 1.5 million pages: about 100 MB while ranking.
//!
//! INVARIANT: one writer. This crate reads no clock, starts no thread, and does not know URLs, only their ids.

mod active_segment;
mod anchors;
mod backlinks;
mod dirty;
mod error;
mod files;
mod maintain;
mod open;
mod rank;
mod record;
mod run;
mod segment;
mod snapshot;
mod sources;
mod store;

pub use anchors::ANCHORS_MAX;
pub use backlinks::{Backlinks, InLink, InLinks};
pub use error::Error;
pub use rank::{Budget, RankJob, RankReport, RankSlice, RankTable, Ranking};
pub use record::{ANCHOR_BYTES_MAX, PAGE_LINKS_MAX};
pub use snapshot::HostLinks;
pub use store::{Counts, Links, LinksOptions, OutLink, Verified};

#[cfg(test)]
mod tests;
