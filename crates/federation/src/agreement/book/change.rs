//! Changes of terms, and what comes with time.

use super::*;

impl Book {
    pub(super) fn amended(&mut self, id: AgreementId, amended: Terms) -> Out {
        let mine = self.given.get(&id).map(|given| (given.terms.clone(), given.amending.is_some()));
        let is_provider = mine.is_some();
        let mine =
            mine.or_else(|| self.taken.get(&id).map(|taken| (taken.terms.clone(), taken.amending.is_some())));
        let Some((mine, amending)) = mine else { return Vec::new() };
        if amended == mine {
            return vec![self.to(&mine, Message::Accept(mine.digest()))];
        }
        // Where both would change it at once, the provider's word counts.
        let crossing = amending && is_provider;
        let is_next = amended.revision == mine.revision + 1
            && (amended.id, amended.provider, amended.consumer) == (mine.id, mine.provider, mine.consumer);
        let digest = amended.digest();
        let before = match (self.given.get(&id), self.taken.get(&id)) {
            (Some(given), _) => given.refused.contains(&digest),
            (None, Some(taken)) => taken.refused.contains(&digest),
            (None, None) => return Vec::new(),
        };
        if crossing || !is_next || before || !self.is_acceptable(&amended) {
            self.refuse(id, digest);
            return vec![self.to(&mine, Message::Refuse(digest))];
        }
        let accept = Message::Accept(amended.digest());
        let mut out = Vec::new();
        if let Some(given) = self.given.get_mut(&id) {
            given.bound_view = given.bound_view.or(&amended.view);
            given.terms = amended;
        } else {
            self.narrow(id, amended);
        }
        out.push(self.to(&mine, accept));
        out
    }

    pub(super) fn refuse(&mut self, id: AgreementId, digest: [u8; 32]) {
        let refused = match (self.given.get_mut(&id), self.taken.get_mut(&id)) {
            (Some(given), _) => &mut given.refused,
            (None, Some(taken)) => &mut taken.refused,
            (None, None) => return,
        };
        refused.retain(|known| *known != digest);
        refused.push(digest);
        let most = refused.len().saturating_sub(REFUSALS_MAX);
        refused.drain(..most);
    }

    pub(super) fn change_terms(
        &mut self,
        now: Timestamp,
        id: AgreementId,
        terms: Terms,
        random: &mut dyn Random,
        out: &mut Out,
    ) {
        self.give_up(now, id, random, out);
        self.narrow(id, terms);
    }

    /// What both terms have stays left to the provider; the rest is crawled by us until a round has agreed on it.
    pub(super) fn narrow(&mut self, id: AgreementId, terms: Terms) {
        let Some(taken) = self.taken.get_mut(&id) else { return };
        let before = taken.in_force.clone();
        taken.in_force = if taken.is_left() { before.and(&terms.view) } else { View::none() };
        if let Ok(boxes) = taken.in_force.boxes() {
            taken.in_force = boxes.to_view();
        }
        taken.amending = None;
        if !surely_holds(&taken.terms.view, &terms.view) {
            // What is added is left to the provider once its pages are here.
            taken.lacks = Some(terms.revision);
            if taken.state == TakenState::Chaining {
                taken.state = TakenState::Filling;
            }
        }
        taken.terms = terms;
        self.path_is_shorter(&before);
    }

    /// Time has passed.
    pub fn tick(&mut self, now: Timestamp, random: &mut dyn Random) -> Out {
        let mut out = Vec::new();
        let ids: Vec<AgreementId> = self.taken.keys().copied().collect();
        ids.into_iter().for_each(|id| self.tick_taken(now, id, random, &mut out));
        let (rules, timers) = (self.rules, self.timers);
        let me = self.me;
        for given in self.given.values_mut() {
            let outgoing =
                |message| Outgoing { to: given.terms.partner_of(me), agreement: given.terms.id, message };
            match given.state {
                GivenState::Proposed(until) if now > until => given.state = GivenState::Ended,
                GivenState::Proposed(_) if now >= given.next_word => {
                    out.push(outgoing(Message::Propose(Box::new(given.terms.clone()))));
                    given.next_word = now + timers.end_repeat.0;
                }
                // Who has not said a word may have refused or forgotten what we agreed to.
                GivenState::Promised if now >= given.next_word => {
                    out.push(outgoing(Message::Accept(given.terms.digest())));
                    given.next_word = now + timers.end_repeat.0;
                }
                GivenState::Serving if !given.is_bound(now, &rules) => given.state = GivenState::Lapsed,
                GivenState::Ending(until) if now > until => given.state = GivenState::Ended,
                GivenState::Ending(_) if now >= given.next_word => {
                    out.push(outgoing(Message::End));
                    given.next_word = now + timers.end_repeat.0;
                }
                _ => {}
            }
            if let Some(amended) = given.amending.as_ref().filter(|_| now >= given.next_word) {
                out.push(outgoing(Message::Amend(Box::new(amended.clone()))));
                given.next_word = now + timers.end_repeat.0;
            }
        }
        out
    }

    /// Whether a round of asking is under way, so that time matters in seconds.
    pub fn is_asking(&self) -> bool {
        self.taken.values().any(|taken| taken.round.is_some() || taken.relay.is_some() || taken.wants_round())
    }

    pub(super) fn tick_taken(
        &mut self,
        now: Timestamp,
        id: AgreementId,
        random: &mut dyn Random,
        out: &mut Out,
    ) {
        let timers = self.timers;
        let me = self.me;
        let Some(taken) = self.taken.get_mut(&id) else { return };
        let terms = taken.terms.clone();
        let say = |message| Outgoing { to: terms.partner_of(me), agreement: id, message };
        match taken.state {
            TakenState::Proposed(until) if now > until => taken.state = TakenState::Ended,
            TakenState::Proposed(_) if now >= taken.next_word => {
                out.push(say(Message::Propose(Box::new(terms.clone()))));
                taken.next_word = now + timers.end_repeat.0;
            }
            TakenState::Ending(until) if now > until => taken.state = TakenState::Ended,
            TakenState::Ending(_) if now >= taken.next_word => {
                out.push(say(Message::End));
                taken.next_word = now + timers.end_repeat.0;
            }
            TakenState::Active if now > taken.lease_until => taken.state = TakenState::Silent,
            TakenState::Silent if now >= taken.lease_until + taken.takeback_after(&timers) => {
                let view = taken.in_force.clone();
                self.give_up(now, id, random, out);
                if let Some(taken) = self.taken.get_mut(&id) {
                    taken.take_back(TakenState::TakenBack);
                }
                return self.path_is_shorter(&view);
            }
            _ => {}
        }
        if let Some(amended) = taken.amending.as_ref().filter(|_| now >= taken.next_word) {
            out.push(say(Message::Amend(Box::new(amended.clone()))));
            taken.next_word = now + timers.end_repeat.0;
        }
        let renews = matches!(taken.state, TakenState::Active | TakenState::Silent | TakenState::TakenBack);
        if renews && now >= taken.next_renewal {
            taken.next_renewal = now + terms.lease / 6;
            out.push(say(Message::Renew(now, terms.revision)));
        }
        if taken.wants_round()
            && now >= taken.next_round
            && !self.is_busy(&terms.view, Some(id))
            && !self.would_hold_back(now, &terms)
        {
            if let Some(taken) = self.taken.get_mut(&id) {
                taken.round = Some(Round { began: now, asked_last: now, answer: None });
            }
            out.push(say(Message::Ready(now, terms.revision)));
            return;
        }
        let Some(taken) = self.taken.get_mut(&id) else { return };
        let began = taken.round.as_ref().map(|round| round.began + timers.round);
        let until = began.or(taken.relay.as_ref().map(|relay| relay.until));
        if until.is_some_and(|until| now > until) {
            return self.give_up(now, id, random, out);
        }
        self.ask_again(now, id, out);
    }

    /// Questions that were not answered are asked again.
    pub(super) fn ask_again(&mut self, now: Timestamp, id: AgreementId, out: &mut Out) {
        let resend = self.timers.resend;
        let Some(taken) = self.taken.get_mut(&id) else { return };
        let terms = taken.terms.clone();
        let (view, parts, waiting) = match (&mut taken.round, &mut taken.relay) {
            (Some(round), _) if now >= round.asked_last + resend => {
                round.asked_last = now;
                match &round.answer {
                    None => {
                        let again = Message::Ready(round.began, terms.revision);
                        return out.push(self.to(&terms, again));
                    }
                    Some(answer) => (terms.view.clone(), answer.parts.clone(), answer.waiting.clone()),
                }
            }
            (_, Some(relay)) if now >= relay.asked_last + resend => {
                relay.asked_last = now;
                (taken.in_force.clone(), relay.parts.clone(), relay.waiting.clone())
            }
            _ => return,
        };
        for (relying, no) in waiting {
            let Some(given) = self.given.get(&relying) else { continue };
            // The path is the one it was told: nothing else can change while we are asking.
            let parts = self.path(&given.bound_view, Some((id, &view, &parts)));
            let again = self.to(&given.terms, Message::Chain(no, parts));
            out.push(again);
        }
    }
}
