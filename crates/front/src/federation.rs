//! What an engine shares with engines of other owners at one moment, as plain values: partners, agreements, refusals.
//!
//! Filled in by the binary; an engine that shares nothing has none of this. Nothing here is `Serialize`; what goes over
//! the wire are the twins in `api`.

use std::time::Duration;

/// An engine and those it shares the Web with.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FederationStatus {
    /// Its own key, as it is told to others.
    pub id: String,
    /// Its name for people.
    pub name: String,
    /// How others reach it.
    pub address: String,
    /// The pages that it is about, as a view.
    pub view: String,
    /// Its card, sealed, for engines that cannot ask for it.
    pub card: String,
    /// The other engines that it knows.
    pub partners: Vec<FederationPartner>,
    /// What was agreed on, ended agreements too.
    pub agreements: Vec<FederationAgreement>,
    /// What was refused at the door, by reason.
    pub refused: Vec<(String, u64)>,
}

/// Another engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FederationPartner {
    /// Its key.
    pub id: String,
    /// Its name, by its own word.
    pub name: String,
    /// Where it is, by its own word.
    pub address: String,
    /// The pages that it is about, by its own word.
    pub view: String,
    /// How its owner can be reached.
    pub contact: String,
    /// The operator has joined it, and so confirmed its key.
    pub is_confirmed: bool,
    /// Time since it was last heard of.
    pub heard: Option<Duration>,
    /// Letters that wait for it.
    pub letters: u64,
    /// Why the last letter did not reach it; empty where it did.
    pub trouble: String,
}

/// An agreement with another engine.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FederationAgreement {
    /// Its name for programs.
    pub id: String,
    /// The other engine's key.
    pub partner: String,
    /// The other engine's name.
    pub partner_name: String,
    /// This engine crawls for the other; otherwise the other crawls for this one.
    pub is_provider: bool,
    /// `index` or `search`.
    pub kind: String,
    /// The pages, as a view.
    pub view: String,
    /// The pages that are left to the provider at this moment; empty where none are.
    pub in_force: String,
    /// Which version of the terms.
    pub revision: u32,
    /// Where it stands, as one word: `considering`, `active`, …
    pub state: String,
    /// It waits for this engine's operator.
    pub is_undecided: bool,
    /// `text` or `words`.
    pub grade: String,
    /// `push`, `pull` or `window`.
    pub delivery: String,
    /// How long the consumer trusts the provider without a word.
    pub lease: Duration,
    /// Packets, pages and bytes that the other engine has acknowledged.
    pub sent: FederationFlow,
    /// Packets, pages and bytes that were taken in.
    pub received: FederationFlow,
    /// Packets and bytes that wait to be sent.
    pub waiting: FederationFlow,
    /// How long the oldest of them has waited.
    pub waiting_since: Option<Duration>,
    /// Time since the newest page that was received was fetched.
    pub lag: Option<Duration>,
    /// What was refused of the other engine, by reason.
    pub refused: Vec<(String, u64)>,
    /// What is wrong, in a sentence; empty where nothing is.
    pub trouble: String,
}

/// Packets with pages, one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FederationFlow {
    /// Packets.
    pub packets: u64,
    /// Pages in them.
    pub pages: u64,
    /// Pages in them that are not there any more.
    pub gone: u64,
    /// Their bytes as sent.
    pub bytes: u64,
}

impl FederationStatus {
    /// The agreement of this id, or the only one whose id begins so.
    pub fn agreement(&self, id: &str) -> Option<&FederationAgreement> {
        let mut found = self.agreements.iter().filter(|agreement| agreement.id.starts_with(id));
        let first = found.next().filter(|_| !id.is_empty())?;
        found.next().is_none().then_some(first)
    }
}

/// Something that an operator asks of what is shared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FederationOrder {
    /// Get to know the engine at an address, and confirm its key.
    Join {
        /// Where it is.
        address: String,
        /// The key that it must have; empty = whichever it has.
        key: String,
    },
    /// Forget an engine with which nothing is agreed.
    Forget {
        /// Its key, or how it begins.
        partner: String,
    },
    /// Propose an agreement.
    Propose(Box<FederationProposal>),
    /// Agree to what was proposed.
    Accept {
        /// The agreement's id, or how it begins.
        agreement: String,
    },
    /// Do not agree to what was proposed.
    Refuse {
        /// The agreement's id, or how it begins.
        agreement: String,
    },
    /// Propose other pages for an agreement in force.
    Amend {
        /// The agreement's id, or how it begins.
        agreement: String,
        /// The pages, as a view.
        view: String,
    },
    /// End an agreement.
    End {
        /// The agreement's id, or how it begins.
        agreement: String,
        /// Pages that were received under it leave as well.
        purge: bool,
    },
}

/// What is proposed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FederationProposal {
    /// The other engine's key, name, or how the key begins.
    pub partner: String,
    /// The pages, as a view.
    pub view: String,
    /// `index` or `search`.
    pub kind: String,
    /// This engine crawls for the other.
    pub as_provider: bool,
    /// `text` or `words`.
    pub grade: String,
    /// `push` or `pull`; empty = push, in the window of the settings where there is one.
    pub delivery: String,
    /// Engines that the pages may go on to, one after the other.
    pub forward: u8,
    /// Pages leave the consumer at the end.
    pub purge: bool,
}
