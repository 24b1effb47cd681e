//! Agreements: one engine crawls a part of the Web for another, and nobody is left without anybody who does.
//!
//! The life of an agreement: one side proposes [`Terms`], the other accepts. The consumer takes in what the provider has
//! (*filling*), asks who really crawls the part, tells those who rely on itself (*chaining*), and only then leaves it to the
//! provider (*active*). It renews its lease; where that runs out it is *silent*, and after a while takes the part back.
//!
//! The danger is not a page that travels in circles, but A leaving a part to B, B to C, and C to A, so that nobody crawls it.
//! Against it stand path vectors, as between networks, with consent:
//!
//! 1. who finds itself in a path refuses it;
//! 2. who would leave a part on which others rely asks each of them first, and they ask those who rely on them;
//! 3. who is asking answers *busy* to others that ask about pages of the same part;
//! 4. a provider is bound until the consumer has said that it ended, or its lease and a minute are over on its own clock;
//! 5. a path is only passed on while every lease along it is known to hold: its *horizon*;
//! 6. paths are numbered, and of two the later counts;
//! 7. a part is left only to who may send all of it on: [`Terms::reach`].
//!
//! The thesis negotiates and lets go \[Fernandes01 §4.4\]; the rules are ours. The fifth is against chains of silent engines,
//! whose paths nobody keeps true any more.
//!
//! INVARIANT: at any moment, following who leaves a page to whom comes to an end within [`PATH_MAX`] engines. Two machines'
//! clocks are never compared, only their durations.

mod book;
mod ids;
mod messages;
pub mod pages;
mod paths;
mod saved;
mod taken;
mod terms;

pub use book::{Book, Given, GivenState};
pub use messages::{Message, Outgoing};
pub use paths::{Horizon, PATH_MAX, PathPart};
pub use taken::{Taken, TakenState};
pub use terms::{AgreementId, Delivery, EngineId, Grade, Kind, OnEnd, Quota, Rules, Terms, Timers};
