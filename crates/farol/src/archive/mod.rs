//! The archive is the log: what pages mean, and everything that is written because of them.
//!
//! An answer is archived first. [`interpret`] says what it means, from the archived bytes alone; [`followers`] writes
//! what follows from that; [`change`] is what the index is told. Each follower remembers how far it has come, and
//! [`replay`] brings it up to the archive's end after a crash. Nothing here fetches, and nothing here is a role: the
//! crawler writes through it live, the indexer reads through it, and so do `farol import` and `farol check`.
//!
//! INVARIANT: reading an answer live and reading it again from the archive come to the same.

pub mod change;
pub mod confirmed;
pub mod conversion;
pub mod crawl_view;
pub mod explain;
pub mod followers;
pub mod hosts;
mod inspect;
pub mod interpret;
pub mod linker;
pub mod not_asked;
mod open;
pub mod page_orders;
pub mod places;
pub mod position;
mod received;
pub mod replay;
pub mod revisit;
mod rules_cache;
pub mod scope;
mod seed_outcomes;
pub mod seeds;
mod settings_mark;
mod shapes;
pub mod take_in;
mod timeless;

pub use followers::{ArchivedVisit, FollowerSet, Followers};
pub use interpret::Interpreter;
pub use open::{Opened, is_damage, open, open_in_cluster, open_links, open_urls};
pub use received::{Incoming, Received, source};
pub use seed_outcomes::state_of;
