//! A synthetic Web: any number of hosts and pages from a formula, with nothing stored.
//!
//! [`WebConfig`] says what it is like; [`World`] knows everything about it (names, pages, links, changes, rules,
//! answers) as pure functions; [`serve`] puts it on loopback and logs each request to a [`LogSink`]. What a perfect
//! crawl would find is [`World::reachable`].

mod answer;
mod change;
mod config;
mod deliver;
mod links;
mod listing;
mod log;
mod place;
mod render;
mod request;
mod robots;
mod server;
mod trap;
mod walk;
mod words;
mod world;

pub use answer::{Answer, Ask, Delivery, HUGE_BYTES, RETRY_AFTER_SECS, Served};
pub use change::Version;
pub use config::{Rates, WebConfig};
pub use links::LinkTo;
pub use log::{Entry, LogSink, read_log};
pub use place::{Place, SECTIONS};
pub use render::Marks;
pub use robots::Rules;
pub use server::{CONNECTIONS_MAX, Counts, IDLE_MAX, Server, serve};
pub use trap::Trap;
pub use walk::{Reachable, Scope, Walk};
pub use world::{Breakage, Door, Failure, Kind, Likeness, Page, Redirect, World};
