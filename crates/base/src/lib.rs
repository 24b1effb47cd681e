//! Nouns that cross crates, and the small seams to the outside: clock, random source and disk.
//!
//! A URL enters as text and becomes a [`CanonicalUrl`], which belongs to a [`Host`]. A fetched page is
//! written at a [`PagePosition`], read into a [`Document`] with its [`Link`]s, and found again by a
//! [`query::Query`] as a [`query::Hit`]. Instants are [`Timestamp`]s that come from a [`Clock`], so that
//! policies never read the time themselves.
//!
//! INVARIANT: this crate uses nothing else of ours and, apart from [`disk`] and [`SystemClock`], does no I/O.

pub mod codec;
pub mod disk;
pub mod fingerprint;
pub mod host;
pub mod language;
pub mod page;
pub mod query;
pub mod random;
mod seed_status;
pub mod status;
pub mod sync;
pub mod time;
pub mod trace;
pub mod url;

pub use fingerprint::{ContentHash, HostHash, PageId};
pub use host::Host;
pub use language::{Language, Languages};
pub use page::{Document, Link, Origin, PagePosition, Scheduled, Shown, Truncated};
pub use random::{Random, Seeded};
pub use time::{Clock, ManualClock, SystemClock, Timestamp};
pub use url::{CanonicalUrl, UrlError};
