//! Bytes to text, links, robots rules, sitemaps, feeds, fingerprints.
//!
//! The life of a page here: it arrives as bytes with the headers that came along ([`PageInput`]). [`read`] tells it
//! from a list of addresses by what [`sniff`] says the bytes are. [`charset`] finds the encoding and decodes. The scanner in
//! `html` walks the markup once, front to back, without building a tree; as tags pass by, links are
//! collected and resolved, the head's statements (title, robots rules, canonical address, dates) are read,
//! and the text is laid out in blocks. When the page ends, `text` keeps the blocks that belong to the main
//! text, [`language`] names its language and [`fingerprint`] its hashes. What leaves is a [`Parsed`].
//!
//! The other files a site offers to crawlers have their own readers: [`robots`], [`sitemap`], [`feed`].
//!
//! INVARIANT: pure. No file, socket, clock, thread or random source is used, and the same bytes always give
//! the same answer.
//! INVARIANT: [`page`] never fails and never panics. Broken markup is what the Web is made of; what was odd
//! about a page is told in [`Parsed::complaints`].
//! INVARIANT: time grows linearly with the body, and memory with the body plus fixed limits; each limit is
//! a documented constant.
//!
//! To see it at work: `examples/page_to_text.rs` reads a broken page.

#![warn(missing_docs)]

pub mod charset;
pub mod feed;
pub mod fingerprint;
mod html;
mod kind;
pub mod language;
mod page;
mod read;
pub mod robots;
pub mod sitemap;
mod text;

pub use html::directives::Directives;
pub use html::links::{ANCHOR_BYTES_MAX, LINKS_MAX};
pub use kind::{Kind, file_type, sniff};
pub use page::{BODY_BYTES_MAX, Complaint, PageInput, Parsed, Wants, page};
pub use read::{Content, read};
pub use text::{DEPTH_MAX, TEXT_BYTES_MAX};
