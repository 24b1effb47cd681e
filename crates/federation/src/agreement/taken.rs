//! An agreement as its consumer sees it.

use super::paths::{Horizon, PathPart};
use super::terms::{AgreementId, EngineId, Kind, Rules, Terms, Timers};
use crate::view::View;
use farol_base::Timestamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// Where an agreement stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TakenState {
    /// We proposed it; until when an answer is waited for.
    Proposed(Timestamp),
    /// They proposed it, and the operator decides.
    Considering,
    /// The pages that the provider has come in. We crawl.
    Filling,
    /// It is asked who crawls the part. We still crawl.
    Chaining,
    /// The part is left to the provider.
    Active,
    /// The lease is over. The part is still left to the provider.
    Silent,
    /// We crawl it again.
    TakenBack,
    /// We said that it is over; until when that is repeated.
    Ending(Timestamp),
    /// It is over.
    Ended,
}

/// One round of asking; lost with the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Round {
    /// When it began, which names it.
    pub began: Timestamp,
    pub asked_last: Timestamp,
    /// What the provider said; `None` while it is asked.
    pub answer: Option<RoundAnswer>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RoundAnswer {
    pub no: u64,
    pub parts: Vec<PathPart>,
    pub good_for: Duration,
    /// Those who rely on us and have not answered, each with the number of the path that it was told.
    pub waiting: BTreeMap<AgreementId, u64>,
}

/// A path that the provider wants us to agree to, while those who rely on us are asked; lost with the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Relay {
    pub no: u64,
    pub parts: Vec<PathPart>,
    pub until: Timestamp,
    pub asked_last: Timestamp,
    pub waiting: BTreeMap<AgreementId, u64>,
}

/// An agreement as its consumer sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// What was agreed on.
    pub terms: Terms,
    /// Where it stands.
    pub state: TakenState,
    /// The pages that are left to the provider while it is active or silent; what a change adds comes with the next round.
    pub in_force: View,
    pub(crate) path_no: u64,
    pub(crate) parts: Vec<PathPart>,
    pub(crate) horizon: Horizon,
    pub(crate) lease_until: Timestamp,
    /// When the round began that made it active: what was sent before says nothing of it.
    pub(crate) active_since: Timestamp,
    /// The provider is not bound any more, so the path must be agreed on again.
    pub(crate) rejoins: bool,
    /// Pages that a change has added are still to come: those of this revision.
    pub(crate) lacks: Option<u32>,
    pub(crate) next_renewal: Timestamp,
    pub(crate) next_round: Timestamp,
    /// When a word that was not answered is said again.
    pub(crate) next_word: Timestamp,
    pub(crate) amending: Option<Terms>,
    pub(crate) refused: Vec<[u8; 32]>,
    pub(crate) round: Option<Round>,
    pub(crate) relay: Option<Relay>,
}

impl Taken {
    pub(crate) fn new(terms: Terms, state: TakenState) -> Taken {
        Taken {
            in_force: View::none(),
            terms,
            state,
            path_no: 0,
            parts: Vec::new(),
            horizon: None,
            lease_until: Timestamp::EPOCH,
            active_since: Timestamp::EPOCH,
            rejoins: false,
            lacks: None,
            next_renewal: Timestamp::EPOCH,
            next_round: Timestamp::EPOCH,
            next_word: Timestamp::EPOCH,
            amending: None,
            refused: Vec::new(),
            round: None,
            relay: None,
        }
    }

    /// Who crawls for us.
    pub fn provider(&self) -> EngineId {
        self.terms.provider
    }

    /// Whether the part is left to the provider, rightly or not.
    pub fn is_left(&self) -> bool {
        matches!(self.state, TakenState::Active | TakenState::Silent)
    }

    /// Whether the provider still has to send what there is.
    pub fn is_filling(&self) -> bool {
        self.state == TakenState::Filling || self.lacks.is_some() && self.is_left()
    }

    /// Whether the path is known to hold.
    pub(crate) fn is_vouched(&self, now: Timestamp, rules: &Rules) -> bool {
        !rules.horizon
            || self.state == TakenState::Active
                && now <= self.lease_until
                && self.horizon.is_none_or(|until| now <= until)
    }

    /// How long what we say of the path is good for.
    pub(crate) fn good_for(&self, now: Timestamp) -> Duration {
        let lease = self.lease_until.since(now);
        self.horizon.map_or(lease, |until| until.since(now).min(lease))
    }

    /// Whether a round is to begin.
    pub(crate) fn wants_round(&self) -> bool {
        let extends =
            self.state == TakenState::Active && self.in_force != self.terms.view && self.lacks.is_none();
        let rejoins = self.rejoins && self.is_left();
        self.round.is_none()
            && self.relay.is_none()
            && (self.state == TakenState::Chaining || extends || rejoins)
    }

    /// How long after its lease the part is taken back.
    pub(crate) fn takeback_after(&self, timers: &Timers) -> Duration {
        match self.terms.kind {
            Kind::Index => timers.takeback_after,
            Kind::Search => timers.takeback_search_after,
        }
    }

    /// The part is crawled by us again.
    pub(crate) fn take_back(&mut self, state: TakenState) {
        self.state = state;
        self.in_force = View::none();
        self.parts = Vec::new();
        self.horizon = None;
        self.rejoins = false;
        self.lacks = None;
        self.round = None;
    }
}
