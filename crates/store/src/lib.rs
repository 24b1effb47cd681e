//! What the crawler keeps on disk: every known URL once, and every fetched page.
//!
//! The life of a page in here: a link to it is *found*, and [`urls`] learns its URL, once. When its host may
//! be asked the URL is *drawn*, and is in flight until the visit ends. What came back becomes an
//! [`pages::Exchange`], is *encoded* as WARC records and *appended* to the [`pages::Archive`], which answers
//! with a [`PagePosition`](farol_base::PagePosition). The visit is then *recorded* with that position and
//! with the instant at which it is due again, the links that were on the page are found like any other, and
//! one *flush* makes all of that outlive the process. After a crash the archive cuts its torn tail, the URL
//! store cuts that of its write-ahead log, and whatever the archive holds beyond the URL store's *watermark*
//! is replayed from it.
//!
//! Both write through [`farol_base::disk`], so that a crash can be tested at every single write.
//!
//! INVARIANT: the archive is the only source of truth about pages. It is written first; everything that was
//! recorded about a page lies at or before the archive's end.
//!
//! Does not decide what is fetched or when; that is the frontier's work.
//!
//! To see it at work: `examples/known_urls.rs` finds, draws and visits URLs on a disk in memory.

mod error;
pub mod pages;
mod reading;
pub mod urls;

pub use error::{Cut, Error};
