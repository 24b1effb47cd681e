//! What a provider hears from its consumers, and whom it asks before it leaves a part to others.

use super::*;

impl Book {
    pub(super) fn heard_as_provider(
        &mut self,
        now: Timestamp,
        id: AgreementId,
        message: Message,
        random: &mut dyn Random,
    ) -> Out {
        let Some(given) = self.given.get_mut(&id) else { return Vec::new() };
        let terms = given.terms.clone();
        let is_over = matches!(given.state, GivenState::Ended | GivenState::Ending(_));
        let answer = match message {
            Message::Accept(digest) if !is_over => {
                if matches!(given.state, GivenState::Proposed(_)) && digest == terms.digest() {
                    given.state = GivenState::Promised;
                }
                if let Some(amended) = given.amending.take_if(|amended| amended.digest() == digest) {
                    given.bound_view = given.bound_view.or(&amended.view);
                    given.terms = amended;
                }
                return Vec::new();
            }
            Message::Refuse(digest) => {
                if matches!(given.state, GivenState::Proposed(_)) && digest == terms.digest() {
                    given.state = GivenState::Ended;
                }
                given.amending.take_if(|amended| amended.digest() == digest);
                return Vec::new();
            }
            Message::End => {
                given.state = GivenState::Ended;
                Message::Ended
            }
            Message::Ended => {
                given.state = GivenState::Ended;
                return Vec::new();
            }
            _ if is_over => Message::End,
            Message::Amend(amended) => return self.amended(id, *amended),
            Message::Ready(round, revision) => self.ready(now, id, round, revision),
            Message::Renew(sent, revision) => self.renew(now, id, sent, revision),
            Message::Active(_) => return Vec::new(),
            Message::Chained(no) => return self.consented(now, id, no, Some(()), random),
            Message::Busy(no) | Message::ChainRefused(no) => {
                return self.consented(now, id, no, None, random);
            }
            _ => return Vec::new(),
        };
        vec![self.to(&terms, answer)]
    }

    pub(super) fn ready(
        &mut self,
        now: Timestamp,
        id: AgreementId,
        round: Timestamp,
        revision: u32,
    ) -> Message {
        let given = &self.given[&id];
        let view = given.terms.view.clone();
        if revision != given.terms.revision || self.is_busy(&view, None) {
            return Message::NotNow(round);
        }
        if self.rules.reach && self.held_back(&given.terms).is_some() {
            return Message::NotNow(round);
        }
        let mut left =
            self.taken.values().filter(|taken| taken.is_left() && may_meet(&view, &taken.in_force));
        if left.any(|taken| !taken.is_vouched(now, &self.rules)) {
            return Message::NotNow(round);
        }
        let (parts, good_for) = (self.path(&view, None), self.good_for(now, &view));
        let bound_until = now + self.given[&id].terms.lease + self.timers.bound_margin;
        let Some(given) = self.given.get_mut(&id) else { return Message::NotNow(round) };
        given.state = GivenState::Serving;
        given.bound_until = given.bound_until.max(bound_until);
        given.path_no += 1;
        Message::Path(round, given.path_no, parts, good_for)
    }

    pub(super) fn renew(
        &mut self,
        now: Timestamp,
        id: AgreementId,
        sent: Timestamp,
        revision: u32,
    ) -> Message {
        let (timers, rules) = (self.timers, self.rules);
        let Some(given) = self.given.get_mut(&id) else { return Message::End };
        if !given.is_bound(now, &rules) {
            return Message::Lapsed(sent);
        }
        given.bound_until = given.bound_until.max(now + given.terms.lease + timers.bound_margin);
        if revision == given.terms.revision {
            given.bound_view = given.terms.view.clone();
        }
        let (view, no, is_settled) = (given.bound_view.clone(), given.path_no, !given.is_pending);
        let parts = is_settled.then(|| self.path(&view, None));
        Message::Renewed(sent, no, parts, self.good_for(now, &view))
    }

    /// Whether somebody relies on us for pages that may not go on to it once they come from another.
    pub(super) fn would_hold_back(&self, now: Timestamp, taken: &Terms) -> bool {
        self.rules.reach
            && self.given.values().any(|given| {
                given.is_bound(now, &self.rules)
                    && !taken.reach(&given.terms)
                    && may_meet(&given.bound_view, &taken.view)
            })
    }

    /// Whether we are asking, or passing on a question, about pages of this view.
    pub(super) fn is_busy(&self, view: &View, but: Option<AgreementId>) -> bool {
        self.rules.busy
            && self.taken.iter().any(|(id, taken)| {
                (taken.round.is_some() || taken.relay.is_some())
                    && Some(*id) != but
                    && may_meet(&taken.terms.view.or(&taken.in_force), view)
            })
    }

    /// The path of a view through us; `new` is what an agreement's part and path would be.
    pub(super) fn path(&self, over: &View, new: Option<(AgreementId, &View, &[PathPart])>) -> Vec<PathPart> {
        let left = self
            .taken
            .iter()
            .filter(|(id, taken)| taken.is_left() && new.is_none_or(|(new, ..)| new != **id));
        let left = left.map(|(_, taken)| (&taken.in_force, taken.parts.as_slice()));
        path_of(self.me, over, left.chain(new.map(|(_, view, parts)| (view, parts))))
    }

    pub(super) fn good_for(&self, now: Timestamp, view: &View) -> Duration {
        let left = self.taken.values().filter(|taken| taken.is_left() && may_meet(view, &taken.in_force));
        left.map(|taken| taken.good_for(now)).min().unwrap_or(ENDLESS)
    }

    /// Asks all who rely on us for pages of a view whether they agree to a path; answers who is asked.
    pub(super) fn ask_those_who_rely(
        &mut self,
        now: Timestamp,
        new: (AgreementId, &View, &[PathPart]),
        out: &mut Out,
    ) -> BTreeMap<AgreementId, u64> {
        let mut waiting = BTreeMap::new();
        if !self.rules.consent {
            return waiting;
        }
        let relying: Vec<AgreementId> = self
            .given
            .iter()
            .filter(|(_, given)| given.is_bound(now, &self.rules) && may_meet(&given.bound_view, new.1))
            .map(|(id, _)| *id)
            .collect();
        for id in relying {
            let parts = self.path(&self.given[&id].bound_view.clone(), Some(new));
            let Some(given) = self.given.get_mut(&id) else { continue };
            given.path_no += 1;
            given.is_pending = true;
            waiting.insert(id, given.path_no);
            let (terms, no) = (given.terms.clone(), given.path_no);
            out.push(self.to(&terms, Message::Chain(no, parts)));
        }
        waiting
    }

    /// A path that was told holds now, or came to nothing: then the old one holds, under a greater number.
    pub(super) fn settle(&mut self, id: AgreementId, came_to_nothing: bool) {
        if let Some(given) = self.given.get_mut(&id) {
            given.is_pending = false;
            given.path_no += u64::from(came_to_nothing);
        }
    }

    /// We leave less to others than before; who relies on us hears it with the next renewal.
    pub(super) fn path_is_shorter(&mut self, view: &View) {
        for given in self.given.values_mut().filter(|given| !given.is_pending) {
            given.path_no += u64::from(may_meet(&given.bound_view, view));
        }
    }

    /// Somebody who relies on us has answered to a path.
    pub(super) fn consented(
        &mut self,
        now: Timestamp,
        by: AgreementId,
        no: u64,
        agreed: Option<()>,
        random: &mut dyn Random,
    ) -> Out {
        let mut out = Vec::new();
        let ids: Vec<AgreementId> = self.taken.keys().copied().collect();
        for id in ids {
            let Some(taken) = self.taken.get_mut(&id) else { continue };
            let of_round = taken
                .round
                .as_mut()
                .and_then(|round| round.answer.as_mut())
                .map(|answer| &mut answer.waiting);
            let Some(waiting) = of_round.or(taken.relay.as_mut().map(|relay| &mut relay.waiting)) else {
                continue;
            };
            if waiting.get(&by) != Some(&no) {
                continue;
            }
            match agreed {
                None => self.give_up(now, id, random, &mut out),
                Some(()) => {
                    // It stays pending until the whole round is over.
                    waiting.remove(&by);
                    self.go_on(now, id, random, &mut out);
                }
            }
        }
        out
    }
}
