//! The laboratory: the papers' experiments, and trials of the real crawler.
//!
//! Each folder is one question. [`urls`] drives URL stores, ours and older designs, through the cycles of a long crawl;
//! [`revisit`] measures how fresh revisit rules keep a repository; [`partition`] splits hosts between agents; [`cache`]
//! runs services of cache nodes under streams of queries, failures and bursts; [`cluster`] runs the control of whole
//! clusters under every trouble from one seed, [`hold`] who may ask whose servers, [`federation`] agreements between engines
//! of different owners; [`live`] starts a real `farol` on the
//! synthetic Web and measures it from outside.
//!
//! INVARIANT: the product does not depend on this crate. What is measured here is the product's own code.

pub mod cache;
pub mod cluster;
pub mod federation;
pub mod hold;
pub mod input;
pub mod live;
pub mod partition;
pub mod revisit;
pub mod urls;

use std::path::{Path, PathBuf};

/// What can go wrong in the lab.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
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
