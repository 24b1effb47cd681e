//! What engines say to each other besides pages: signed envelopes, cards, and the messages of agreements as JSON.
//!
//! The life of a message: it is written as JSON ([`said`]), put into an [`Envelope`] that names both engines and the
//! time, and signed by the shell over [`Envelope::signed_bytes`]. Who gets it looks at the cheap things first: whom it is
//! for, how old it is and whether it came before ([`Seen`]); then at the signature; then it is read ([`heard`]).
//!
//! INVARIANT: nothing is read beyond [`ENVELOPE_BYTES_MAX`], and what is read says the same when it is written again.

mod agreement;
mod card;
mod envelope;
mod outbox;
mod rest;
mod seen;

#[cfg(test)]
pub(crate) use agreement::tests::terms as tests_terms;
pub use agreement::{MESSAGE_PARTS_MAX, heard, said};
pub(crate) use agreement::{PathPartText, TermsText};
pub use card::{CARD_BYTES_MAX, Card};
pub use envelope::{ENVELOPE_BYTES_MAX, Envelope, MESSAGE_ID_BYTES, MessageError};
pub use outbox::{LETTERS_MAX, LETTERS_PER_TURN, Letter, Outbox, Put};
pub use rest::{REST, Rest};
pub use seen::{Seen, SeenVerdict, WINDOW};
