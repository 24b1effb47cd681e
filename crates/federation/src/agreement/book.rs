//! All agreements of one engine: what it hears, what it says, and what it crawls.
//!
//! Every call answers with messages, which may only be sent once the book is safe on disk. What a round has gathered is not kept:
//! after a crash it begins again.

mod change;
mod consumer;
mod provider;
#[cfg(test)]
mod tests;

use super::messages::{Message, Outgoing};
use super::paths::{ENDLESS, PATH_MAX, PathPart, may_meet, path_of, surely_holds};
use super::taken::{Relay, Round, RoundAnswer, Taken, TakenState};
use super::terms::{AgreementId, EngineId, Rules, Terms, Timers};
use crate::view::{Answer, Facts, View};
use farol_base::{Random, Timestamp};
use std::collections::BTreeMap;
use std::time::Duration;

/// Where an agreement stands with its provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenState {
    /// We proposed it; until when an answer is waited for.
    Proposed(Timestamp),
    /// They proposed it, and the operator decides.
    Considering,
    /// Agreed; the consumer does not rely on us yet.
    Promised,
    /// The consumer relies on us, or may: we are bound.
    Serving,
    /// Its lease is over.
    Lapsed,
    /// We said that it is over, and are bound until the consumer has heard or its lease is over.
    Ending(Timestamp),
    /// It is over.
    Ended,
}

/// An agreement as its provider sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// What was agreed on.
    pub terms: Terms,
    /// Where it stands.
    pub state: GivenState,
    /// What the consumer may rely on: after a change the old part and the new, until it has said which.
    pub bound_view: View,
    pub(super) bound_until: Timestamp,
    /// The greatest number that a path to it was given.
    pub(super) path_no: u64,
    /// It was told a path that may yet come to nothing.
    pub(super) is_pending: bool,
    pub(super) next_word: Timestamp,
    pub(super) amending: Option<Terms>,
    /// Digests of changes that were refused, the last ones: who hears one again gets the same answer.
    pub(super) refused: Vec<[u8; 32]>,
}

impl Given {
    fn new(terms: Terms, state: GivenState) -> Given {
        Given {
            bound_view: terms.view.clone(),
            terms,
            state,
            bound_until: Timestamp::EPOCH,
            path_no: 0,
            is_pending: false,
            next_word: Timestamp::EPOCH,
            amending: None,
            refused: Vec::new(),
        }
    }

    /// Whether the consumer may rely on us.
    fn is_bound(&self, now: Timestamp, rules: &Rules) -> bool {
        match self.state {
            GivenState::Serving => now <= self.bound_until,
            GivenState::Ending(_) => rules.bound && now <= self.bound_until,
            _ => false,
        }
    }
}

/// The agreements of an engine.
#[derive(Clone, Debug)]
pub struct Book {
    me: EngineId,
    view: View,
    timers: Timers,
    rules: Rules,
    /// Where we provide.
    pub given: BTreeMap<AgreementId, Given>,
    /// Where we are the consumer.
    pub taken: BTreeMap<AgreementId, Taken>,
}

type Out = Vec<Outgoing>;

/// Refused changes that are remembered of an agreement.
const REFUSALS_MAX: usize = 16;

impl Book {
    /// An engine without agreements, about these pages.
    pub fn new(me: EngineId, view: View, timers: Timers, rules: Rules) -> Book {
        Book { me, view, timers, rules, given: BTreeMap::new(), taken: BTreeMap::new() }
    }

    /// Whose book it is.
    pub fn me(&self) -> EngineId {
        self.me
    }

    /// The pages that it is about.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether a page is left to somebody else, and to whom.
    pub fn left_to(&self, page: &Facts) -> Option<EngineId> {
        let left = self.taken.values().filter(|taken| taken.is_left());
        left.filter(|taken| taken.in_force.has(page) == Answer::Yes).map(Taken::provider).next()
    }

    /// After a start: rounds under way are forgotten.
    pub fn restart(&mut self, now: Timestamp) {
        for taken in self.taken.values_mut() {
            if taken.round.take().is_some() {
                taken.next_round = now;
            }
            taken.relay = None;
        }
        // Who was told a longer path that came to nothing hears the true one, under a greater number.
        let pending: Vec<AgreementId> =
            self.given.iter().filter(|(_, given)| given.is_pending).map(|(id, _)| *id).collect();
        pending.into_iter().for_each(|id| self.settle(id, true));
    }

    /// Proposes an agreement; refused where the part is not ours to give or already taken.
    pub fn propose(&mut self, now: Timestamp, terms: Terms) -> Option<Out> {
        let until = now + self.timers.answer;
        if !self.is_acceptable(&terms) {
            return None;
        }
        let out = vec![self.to(&terms, Message::Propose(Box::new(terms.clone())))];
        match terms.provider == self.me {
            true => drop(self.given.insert(terms.id, Given::new(terms, GivenState::Proposed(until)))),
            false => drop(self.taken.insert(terms.id, Taken::new(terms, TakenState::Proposed(until)))),
        }
        Some(out)
    }

    /// The operator decides on a proposal.
    pub fn decide(&mut self, id: AgreementId, accept: bool) -> Out {
        let mut out = Vec::new();
        if let Some(given) = self.given.get_mut(&id).filter(|given| given.state == GivenState::Considering) {
            given.state = if accept { GivenState::Promised } else { GivenState::Ended };
            out.push(given.terms.clone());
        } else if let Some(taken) =
            self.taken.get_mut(&id).filter(|taken| taken.state == TakenState::Considering)
        {
            taken.state = if accept { TakenState::Filling } else { TakenState::Ended };
            out.push(taken.terms.clone());
        }
        let answer = |terms: &Terms| {
            if accept { Message::Accept(terms.digest()) } else { Message::Refuse(terms.digest()) }
        };
        out.iter().map(|terms| self.to(terms, answer(terms))).collect()
    }

    /// All that the provider has is taken in, by this revision of the terms.
    pub fn filled(&mut self, id: AgreementId, revision: u32) {
        let Some(taken) = self.taken.get_mut(&id) else { return };
        if taken.lacks.is_some_and(|lacking| revision < lacking) {
            return;
        }
        taken.lacks = None;
        if taken.state == TakenState::Filling {
            taken.state = TakenState::Chaining;
        }
    }

    /// Ends an agreement. As a consumer we crawl the part at once; as a provider we stay bound until that was heard.
    pub fn end(&mut self, now: Timestamp, id: AgreementId) -> Out {
        let until = now + self.timers.end_repeat.1;
        if let Some(taken) = self.taken.get_mut(&id).filter(|taken| taken.state != TakenState::Ended) {
            taken.take_back(TakenState::Ending(until));
            taken.next_word = now + self.timers.end_repeat.0;
            let (terms, view) = (taken.terms.clone(), taken.terms.view.clone());
            self.path_is_shorter(&view);
            return vec![self.to(&terms, Message::End)];
        }
        if let Some(given) = self.given.get_mut(&id).filter(|given| given.state != GivenState::Ended) {
            given.state = GivenState::Ending(until);
            given.next_word = now + self.timers.end_repeat.0;
            let terms = given.terms.clone();
            return vec![self.to(&terms, Message::End)];
        }
        Vec::new()
    }

    /// Proposes other pages for an agreement in force; what both terms have goes on meanwhile.
    pub fn amend(&mut self, id: AgreementId, view: View) -> Out {
        let terms = self.given.get(&id).map(|given| &given.terms);
        let Some(terms) = terms.or_else(|| self.taken.get(&id).map(|taken| &taken.terms)) else {
            return Vec::new();
        };
        // Before both sides hold terms there is nothing to change.
        let is_agreed = self.given.get(&id).is_some_and(|given| {
            matches!(given.state, GivenState::Promised | GivenState::Serving | GivenState::Lapsed)
        }) || self.taken.get(&id).is_some_and(|taken| {
            matches!(
                taken.state,
                TakenState::Filling
                    | TakenState::Chaining
                    | TakenState::Active
                    | TakenState::Silent
                    | TakenState::TakenBack
            )
        });
        // One change at a time: of two under way nobody knows which one the other side holds.
        let is_changing = self.given.get(&id).is_some_and(|given| given.amending.is_some())
            || self.taken.get(&id).is_some_and(|taken| taken.amending.is_some());
        if !is_agreed || is_changing {
            return Vec::new();
        }
        let terms = Terms { revision: terms.revision + 1, view, ..terms.clone() };
        if !self.is_acceptable(&terms) {
            return Vec::new();
        }
        let out = vec![self.to(&terms, Message::Amend(Box::new(terms.clone())))];
        if let Some(given) = self.given.get_mut(&id) {
            given.amending = Some(terms);
        } else if let Some(taken) = self.taken.get_mut(&id) {
            taken.amending = Some(terms);
        }
        out
    }

    /// Takes a message in.
    pub fn receive(
        &mut self,
        now: Timestamp,
        from: EngineId,
        id: AgreementId,
        message: Message,
        random: &mut dyn Random,
    ) -> Out {
        if let Message::Propose(terms) = message {
            return self.proposed(from, id, *terms);
        }
        let is_party = |terms: &Terms| terms.partner_of(self.me) == from;
        if self.given.get(&id).is_some_and(|given| is_party(&given.terms)) {
            return self.heard_as_provider(now, id, message, random);
        }
        if self.taken.get(&id).is_some_and(|taken| is_party(&taken.terms)) {
            return self.heard_as_consumer(now, id, message, random);
        }
        // What nobody knows here may still be on its way. To say that it is over would end it once it has come.
        match message {
            Message::End => vec![Outgoing { to: from, agreement: id, message: Message::Ended }],
            _ => Vec::new(),
        }
    }

    fn proposed(&mut self, from: EngineId, id: AgreementId, terms: Terms) -> Out {
        let known = self.given.get(&id).map(|given| (&given.terms, given.state == GivenState::Considering));
        let known = known.or_else(|| {
            self.taken.get(&id).map(|taken| (&taken.terms, taken.state == TakenState::Considering))
        });
        if let Some((known, undecided)) = known {
            // The answer was lost, or is to come.
            let answer = (!undecided && *known == terms).then(|| Message::Accept(terms.digest()));
            let ended = self.given.get(&id).is_some_and(|given| given.state == GivenState::Ended)
                || self.taken.get(&id).is_some_and(|taken| taken.state == TakenState::Ended);
            let answer = if ended { Some(Message::Refuse(terms.digest())) } else { answer };
            return answer.map(|answer| self.to(&terms, answer)).into_iter().collect();
        }
        let is_ours = terms.id == id && terms.partner_of(self.me) == from && from != self.me;
        if !is_ours || !self.is_acceptable(&terms) {
            return vec![Outgoing { to: from, agreement: id, message: Message::Refuse(terms.digest()) }];
        }
        match terms.provider == self.me {
            true => drop(self.given.insert(id, Given::new(terms, GivenState::Considering))),
            false => drop(self.taken.insert(id, Taken::new(terms, TakenState::Considering))),
        }
        Vec::new()
    }

    /// Agreements about pages that this engine is not about any more, since its own view is another one.
    pub fn outgrown(&self) -> Vec<AgreementId> {
        let given = self.given.values().filter(|given| {
            !matches!(given.state, GivenState::Ended | GivenState::Ending(_)) && given.amending.is_none()
        });
        let taken = self.taken.values().filter(|taken| {
            !matches!(taken.state, TakenState::Ended | TakenState::Ending(_)) && taken.amending.is_none()
        });
        let terms = given.map(|given| &given.terms).chain(taken.map(|taken| &taken.terms));
        terms.filter(|terms| !surely_holds(&self.view, &terms.view)).map(|terms| terms.id).collect()
    }

    /// Proposes for such an agreement what both have; ends it where that is nothing, or cannot be proposed.
    pub fn fit(&mut self, now: Timestamp, id: AgreementId) -> Out {
        let terms = self.given.get(&id).map(|given| &given.terms);
        let Some(terms) = terms.or_else(|| self.taken.get(&id).map(|taken| &taken.terms)) else {
            return Vec::new();
        };
        let both = terms.view.and(&self.view);
        let both = both.boxes().map(|boxes| (boxes.any_page().0 != Answer::No).then(|| boxes.to_view()));
        let out = both.ok().flatten().map_or_else(Vec::new, |view| self.amend(id, view));
        if out.is_empty() {
            return self.end(now, id);
        }
        // Nobody else is asked about what we are not about.
        let own = self.view.clone();
        if let Some(taken) = self.taken.get_mut(&id).filter(|taken| taken.is_left()) {
            let before = std::mem::replace(&mut taken.in_force, View::none());
            let rest = before.and(&own);
            taken.in_force = rest.boxes().map_or_else(|_| View::none(), |boxes| boxes.to_view());
            self.path_is_shorter(&before);
        }
        out
    }

    /// Agreements whose consumer may not leave all of it to us, as some of it comes from others and may not go on.
    pub fn held_back(&self, given: &Terms) -> Option<AgreementId> {
        let mut left = self.taken.values().filter(|taken| taken.is_left());
        left.find(|taken| !taken.terms.reach(given) && may_meet(&given.view, &taken.in_force))
            .map(|taken| taken.terms.id)
    }

    /// The part lies in what we are about; and a page is left to one engine only, and not to one that leaves it to us.
    fn is_acceptable(&self, terms: &Terms) -> bool {
        let others = self.taken.values().filter(|taken| {
            taken.terms.id != terms.id && !matches!(taken.state, TakenState::Ended | TakenState::Ending(_))
        });
        let is_consumer = terms.consumer == self.me;
        let mut clashing = others.filter(|taken| is_consumer || taken.provider() == terms.consumer);
        let mut given_back = self.given.values().filter(|given| {
            is_consumer && given.terms.consumer == terms.provider && given.state != GivenState::Ended
        });
        (is_consumer || terms.provider == self.me)
            && terms.provider != terms.consumer
            && surely_holds(&self.view, &terms.view)
            && !clashing.any(|taken| may_meet(&taken.terms.view, &terms.view))
            && !given_back.any(|given| may_meet(&given.bound_view, &terms.view))
    }

    fn to(&self, terms: &Terms, message: Message) -> Outgoing {
        Outgoing { to: terms.partner_of(self.me), agreement: terms.id, message }
    }
}
