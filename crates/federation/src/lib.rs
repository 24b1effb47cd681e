//! Federation: engines of different owners share the Web between them \[Fernandes01\].
//!
//! The life of a shared part: an owner says which pages an engine is about, as a [`View`]. Two engines whose views
//! meet agree that one of them crawls the part that both want ([`agreement`]). What they say to each other travels in signed
//! envelopes ([`message`]), pages in [`packet`]s.
//!
//! INVARIANT: this crate does no I/O, reads no clock and signs nothing: it says what holds, and what to do next.

#![warn(missing_docs)]

pub mod agreement;
mod error;
pub mod message;
pub mod packet;
pub mod view;

pub use error::{Error, Expected};
pub use view::{Answer, Facts, View};
