//! The lab: a synthetic Web to crawl, and a checker of how it was crawled.
//!
//! A page of the synthetic Web is never stored. Its host and number, the seed and the time are enough: from them
//! follow its address, its kind (plain, duplicate, redirect, missing, broken, …), its links, its language, its
//! version and every byte of its text. A crawler asks for its URL; [`web::serve`] finds host and number in the URL,
//! writes the page, and puts one line into its log. When the crawl is over, [`check::check`] reads the log beside the
//! formula: was every host asked politely, was every rule obeyed, was anything fetched twice, was anything forgotten?
//!
//! INVARIANT: [`web::World`] is pure. Only [`web::serve`] and [`web::LogSink`] touch sockets, files and the clock.

pub mod check;
pub mod web;

/// What can go wrong in the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error("this Web cannot be: {what}")]
    Config { what: &'static str },
    #[error("line {line} of the request log is not an entry")]
    Log { line: u64, source: serde_json::Error },
    #[error("the request log cannot be read")]
    Read(#[source] std::io::Error),
}
