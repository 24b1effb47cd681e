//! How engines of different owners reach each other: who signs, how a letter is sealed, and HTTP over TLS with
//! certificates that are made of the engines' own keys.
//!
//! What they agree on is in `farol_federation`; the role that does it all is [`crate::roles::federation`].

pub mod call;
pub mod door;
pub mod key;
pub mod letters;
pub mod pack;
pub mod pages;
pub mod tls;
