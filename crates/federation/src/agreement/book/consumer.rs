//! What a consumer hears from its provider: paths to agree to, and how long it may rely on it.

use super::*;

impl Book {
    pub(super) fn heard_as_consumer(
        &mut self,
        now: Timestamp,
        id: AgreementId,
        message: Message,
        random: &mut dyn Random,
    ) -> Out {
        let Some(taken) = self.taken.get_mut(&id) else { return Vec::new() };
        let terms = taken.terms.clone();
        let is_over = matches!(taken.state, TakenState::Ended | TakenState::Ending(_));
        let mut out = Vec::new();
        match message {
            Message::Accept(digest) if !is_over => {
                if matches!(taken.state, TakenState::Proposed(_)) && digest == terms.digest() {
                    taken.state = TakenState::Filling;
                }
                if let Some(amended) = taken.amending.take_if(|amended| amended.digest() == digest) {
                    self.change_terms(now, id, amended, random, &mut out);
                }
            }
            Message::Refuse(digest) => {
                if matches!(taken.state, TakenState::Proposed(_)) && digest == terms.digest() {
                    taken.state = TakenState::Ended;
                }
                taken.amending.take_if(|amended| amended.digest() == digest);
            }
            Message::End => {
                self.give_up(now, id, random, &mut out);
                if let Some(taken) = self.taken.get_mut(&id) {
                    taken.take_back(TakenState::Ended);
                }
                self.path_is_shorter(&terms.view);
                out.push(self.to(&terms, Message::Ended));
            }
            Message::Ended => {
                self.give_up(now, id, random, &mut out);
                if let Some(taken) = self.taken.get_mut(&id) {
                    taken.take_back(TakenState::Ended);
                }
            }
            _ if is_over => out.push(self.to(&terms, Message::End)),
            Message::Amend(amended) => out.extend(self.amended(id, *amended)),
            Message::Path(round, no, parts, good_for) => {
                let asked =
                    taken.round.as_mut().filter(|asked| asked.began == round && asked.answer.is_none());
                let Some(asked) = asked else { return out };
                let waiting = BTreeMap::new();
                asked.answer = Some(RoundAnswer { no, parts: parts.clone(), good_for, waiting });
                if self.is_refused(&parts) {
                    self.give_up(now, id, random, &mut out);
                    return out;
                }
                let view = terms.view.clone();
                let waiting = self.ask_those_who_rely(now, (id, &view, &parts), &mut out);
                let answer = self.taken.get_mut(&id).and_then(|taken| taken.round.as_mut()?.answer.as_mut());
                if let Some(answer) = answer {
                    answer.waiting = waiting;
                }
                self.go_on(now, id, random, &mut out);
            }
            Message::NotNow(round)
                if taken
                    .round
                    .as_ref()
                    .is_some_and(|asked| asked.began == round && asked.answer.is_none()) =>
            {
                self.give_up(now, id, random, &mut out);
            }
            Message::Chain(no, parts) => self.asked_to_agree(now, id, no, parts, random, &mut out),
            Message::Renewed(sent, no, parts, good_for) => self.renewed(id, sent, no, parts, good_for),
            Message::Lapsed(sent) if sent >= taken.active_since => {
                taken.rejoins = taken.is_left();
                if taken.state == TakenState::TakenBack {
                    taken.state = TakenState::Filling;
                }
            }
            _ => {}
        }
        out
    }

    /// A path that has us in it, or is too long with us in front.
    pub(super) fn is_refused(&self, parts: &[PathPart]) -> bool {
        parts
            .iter()
            .any(|part| (self.rules.own_id && part.path.contains(&self.me)) || part.path.len() >= PATH_MAX)
    }

    pub(super) fn renewed(
        &mut self,
        id: AgreementId,
        sent: Timestamp,
        no: u64,
        parts: Option<Vec<PathPart>>,
        good_for: Duration,
    ) {
        let numbered = self.rules.numbered;
        let Some(taken) = self.taken.get_mut(&id) else { return };
        if taken.state == TakenState::TakenBack {
            // It is back; what it has comes first.
            taken.state = TakenState::Filling;
        }
        if !taken.is_left() || sent < taken.active_since {
            return;
        }
        let newer = no > taken.path_no || !numbered;
        let is_current = no >= taken.path_no || !numbered;
        taken.lease_until = taken.lease_until.max(sent + taken.terms.lease);
        if is_current && taken.horizon.is_none_or(|until| until < sent + good_for) {
            taken.horizon = Some(sent + good_for);
        }
        taken.state = TakenState::Active;
        taken.rejoins = false;
        if let Some(parts) = parts.filter(|_| newer) {
            taken.path_no = no;
            taken.parts = parts;
            let view = taken.in_force.clone();
            self.path_is_shorter(&view);
        }
    }

    /// The provider would leave our part to others.
    pub(super) fn asked_to_agree(
        &mut self,
        now: Timestamp,
        id: AgreementId,
        no: u64,
        parts: Vec<PathPart>,
        random: &mut dyn Random,
        out: &mut Out,
    ) {
        let taken = &self.taken[&id];
        let (terms, view) = (taken.terms.clone(), taken.terms.view.or(&taken.in_force));
        if taken.relay.as_ref().is_some_and(|relay| relay.no == no) {
            return;
        }
        let answer = if no <= taken.path_no {
            Some(Message::Chained(no))
        } else if self.is_refused(&parts) {
            Some(Message::ChainRefused(no))
        } else if (taken.round.is_some() || taken.relay.is_some()) && self.rules.busy
            || self.is_busy(&view, Some(id))
        {
            Some(Message::Busy(no))
        } else {
            None
        };
        if let Some(answer) = answer {
            out.push(self.to(&terms, answer));
            return;
        }
        let in_force = if taken.is_left() { taken.in_force.clone() } else { View::none() };
        let waiting = self.ask_those_who_rely(now, (id, &in_force, &parts), out);
        let until = now + self.timers.round;
        if let Some(taken) = self.taken.get_mut(&id) {
            taken.relay = Some(Relay { no, parts, until, asked_last: now, waiting });
        }
        self.go_on(now, id, random, out);
    }

    /// Ends a round or a relay in which nobody is waited for any more.
    pub(super) fn go_on(&mut self, now: Timestamp, id: AgreementId, random: &mut dyn Random, out: &mut Out) {
        let rules = self.rules;
        let Some(taken) = self.taken.get_mut(&id) else { return };
        if let Some(relay) = taken.relay.take_if(|relay| relay.waiting.is_empty()) {
            taken.path_no = relay.no;
            taken.parts = relay.parts;
            let (terms, view) = (taken.terms.clone(), taken.in_force.clone());
            self.settle_all(&view, false);
            out.push(self.to(&terms, Message::Chained(relay.no)));
            return;
        }
        let is_done =
            |round: &mut Round| round.answer.as_ref().is_some_and(|answer| answer.waiting.is_empty());
        let Some(round) = taken.round.take_if(is_done) else { return };
        let Some(answer) = round.answer else { return };
        let lease_until = round.began + taken.terms.lease;
        let horizon = round.began + answer.good_for;
        if now > lease_until || now > horizon && rules.horizon {
            taken.round = Some(Round { answer: Some(answer), ..round });
            return self.give_up(now, id, random, out);
        }
        taken.state = TakenState::Active;
        taken.in_force = taken.terms.view.clone();
        taken.path_no = answer.no;
        taken.parts = answer.parts;
        taken.horizon = Some(horizon);
        taken.lease_until = lease_until;
        taken.active_since = round.began;
        taken.rejoins = false;
        taken.next_renewal = now;
        let (terms, view) = (taken.terms.clone(), taken.in_force.clone());
        self.settle_all(&view, false);
        out.push(self.to(&terms, Message::Active(round.began)));
    }

    pub(super) fn settle_all(&mut self, view: &View, came_to_nothing: bool) {
        let told = |given: &Given| given.is_pending && may_meet(&given.bound_view, view);
        let ids: Vec<AgreementId> =
            self.given.iter().filter(|(_, given)| told(given)).map(|(id, _)| *id).collect();
        ids.into_iter().for_each(|id| self.settle(id, came_to_nothing));
    }

    /// Ends a round or a relay in vain: the next one begins after a while.
    pub(super) fn give_up(
        &mut self,
        now: Timestamp,
        id: AgreementId,
        random: &mut dyn Random,
        out: &mut Out,
    ) {
        let (least, most) = self.timers.back_off;
        let wait = Duration::from_millis(random.below((most - least).as_millis() as u64 + 1)) + least;
        let Some(taken) = self.taken.get_mut(&id) else { return };
        let (round, relay) = (taken.round.take(), taken.relay.take());
        let (terms, view) = (taken.terms.clone(), taken.terms.view.or(&taken.in_force));
        if round.is_some() {
            taken.next_round = now + wait;
        }
        if let Some(relay) = &relay {
            out.push(self.to(&terms, Message::Busy(relay.no)));
        }
        if round.is_some() || relay.is_some() {
            self.settle_all(&view, true);
        }
    }
}
