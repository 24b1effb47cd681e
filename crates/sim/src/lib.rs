//! The lab: a synthetic Web to crawl, and a checker of how it was crawled.
//!
//! A page of the synthetic Web is never stored. Its host and number, the seed and the time are enough: from them
//! follow its address, its kind (plain, duplicate, redirect, missing, broken, …), its links, its language, its
//! version and every byte of its text. A crawler asks for its URL; [`web::serve`] finds host and number in the URL,
//! writes the page, and puts one line into its log. When the crawl is over, [`check::check`] reads the log beside the
//! formula: was every host asked politely, was every rule obeyed, was anything fetched twice, was anything forgotten?
//!
//! INVARIANT: [`web::World`] is pure. Only [`web::serve`] and [`web::LogSink`] touch sockets, files and the clock.

pub mod cache;
pub mod change;
pub mod check;
pub mod input;
pub mod live;
pub mod partition;
pub mod revisit;
pub mod urls;
pub mod web;

use std::path::{Path, PathBuf};

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
    #[error("{0}")]
    Input(String),
    #[error("cannot {action} {}", path.display())]
    File { action: &'static str, path: PathBuf, source: std::io::Error },
    #[error("the URL store failed")]
    Store(#[from] farol_store::Error),
    #[error("there is no store {name}; known are {known}")]
    NoStore { name: String, known: String },
    #[error("the process that ran {store} failed")]
    Child { store: String, source: Option<std::io::Error> },
    #[error("{store} is not exact: {what}")]
    NotExact { store: String, what: String },
}

impl Error {
    fn file(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
        move |source| Error::File { action, path: path.to_path_buf(), source }
    }
}
