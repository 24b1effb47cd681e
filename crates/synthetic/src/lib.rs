//! A synthetic Web: any number of hosts and pages from a formula, with nothing stored; and a checker of how it was crawled.
//!
//! The life of a page: its host and number, the seed and the time are enough. From them follow its address, its kind
//! (plain, duplicate, redirect, missing, broken, …), its links, its language, its version and every byte of its text.
//! [`WebConfig`] says what the Web is like; [`World`] knows everything about it as pure functions. A crawler asks for a
//! URL; [`serve`] finds host and number in it, writes the page, and puts one line into its [`LogSink`]. When the crawl
//! is over, [`check::check`] reads the log beside the formula: was every host asked politely, was every rule obeyed, was
//! anything fetched twice, was anything forgotten? What a perfect crawl would find is [`World::reachable`]; which copies
//! of a crawler are still true is [`truth`](fn@truth).
//!
//! For people who want to judge a search engine there are pages that mean something instead: [`Library`].
//!
//! INVARIANT: [`World`] is pure. Only [`serve`] and [`LogSink`] touch sockets, files and the clock. Serves loopback only.

mod answer;
mod change;
pub mod check;
mod config;
mod deliver;
pub mod library;
mod links;
mod listing;
mod log;
mod place;
pub mod rates;
mod render;
mod request;
mod robots;
mod server;
mod trap;
mod truth;
mod walk;
mod words;
mod world;

pub use answer::{Answer, Ask, Delivery, HUGE_BYTES, RETRY_AFTER_SECS, Served};
pub use change::Version;
pub use config::{Rates, WebConfig};
pub use library::Library;
pub use links::LinkTo;
pub use log::{Entry, LogSink, read_log};
pub use place::{Place, SECTIONS};
pub use render::Marks;
pub use robots::Rules;
pub use server::{CONNECTIONS_MAX, Counts, IDLE_MAX, Server, Site, serve, serve_site};
pub use trap::Trap;
pub use truth::{Truth, truth};
pub use walk::{Reachable, Scope, Walk};
pub use world::{Breakage, Door, Failure, Kind, Likeness, Page, Redirect, World};

/// What can go wrong with a synthetic Web.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("this Web cannot be: {what}")]
    Config { what: &'static str },
    #[error("line {line} of the request log is not an entry")]
    Log { line: u64, source: serde_json::Error },
    #[error("the list of works cannot be read")]
    Library(#[source] serde_json::Error),
    #[error("the request log cannot be read")]
    Read(#[source] std::io::Error),
}
