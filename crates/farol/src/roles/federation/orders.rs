//! What the operator orders: whom to know, what to agree on.

use super::keeper::{Keeper, PartnerEvent};
use super::partner_desk::PartnerDesk;
use super::partners::{self, Partner};
use super::{purge, receive};
use crate::config::federation::read_window;
use crate::federation::call::{EngineAddress, read_address};
use crate::federation::key::verify;
use farol_base::{Clock, SystemClock};
use farol_federation::agreement::{
    AgreementId, Delivery, EngineId, GivenState, Grade, Kind, OnEnd, Quota, TakenState, Terms,
};
use farol_federation::message::{Card, Envelope};
use farol_federation::view::Atom;
use farol_federation::{Answer, View};
use farol_front::{EngineError, FederationOrder, FederationProposal};
use hyper::Method;
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

type OrderAnswer = Result<String, EngineError>;

/// An order on its way, and who waits for what came of it.
pub enum Ordered {
    New(FederationOrder, SyncSender<OrderAnswer>),
    /// The engine at an address has shown its card.
    Met(EngineId, Box<Partner>, SyncSender<OrderAnswer>),
}

/// Time between saying and doing a change.
const NOTICE: Duration = Duration::from_secs(86_400);

impl Keeper {
    pub fn ordered(&mut self, ordered: Ordered) {
        match ordered {
            Ordered::New(FederationOrder::Join { address, key }, reply) => {
                self.runtime.spawn(meet(self.desk.clone(), address, key, reply));
            }
            Ordered::New(order, reply) => {
                let done = self.carry_out(order).map_err(EngineError::Invalid);
                // Whoever ordered may have gone meanwhile.
                let _ = reply.send(done);
            }
            Ordered::Met(id, partner, reply) => {
                let name = partner.card.name.clone();
                let done = match self.put_partner(id, *partner) {
                    Ok(()) => {
                        self.say_hello(id);
                        self.settle(Vec::new());
                        Ok(format!(
                            "{name} is known now, by the key {id}; make sure with its owner that this is it."
                        ))
                    }
                    Err(error) => Err(EngineError::Unavailable(format!("{error:#}"))),
                };
                let _ = reply.send(done);
            }
        }
    }

    fn carry_out(&mut self, order: FederationOrder) -> Result<String, String> {
        let now = SystemClock.now();
        match order {
            FederationOrder::Join { .. } => Err("an engine is joined elsewhere".into()),
            FederationOrder::Forget { partner } => {
                let id = partners::find(&self.partners, &partner)?;
                let told = self.desk.told();
                let open = told.agreements.values().find(|agreement| {
                    agreement.terms.partner_of(self.desk.me()) == id && agreement.side.code() != "ended"
                });
                if let Some(agreement) = open {
                    return Err(format!(
                        "the agreement {} is not over; `farol federation end {0}` comes first",
                        agreement.terms.id
                    ));
                }
                self.forget_partner(id);
                self.settle(Vec::new());
                Ok(format!("{id} is forgotten."))
            }
            FederationOrder::Propose(proposal) => {
                let (terms, name) = self.terms_of(&proposal)?;
                let id = terms.id;
                let out = self.book.propose(now, terms.clone()).ok_or_else(|| self.why_not(&terms))?;
                self.settle(out);
                Ok(format!("Agreement {id} is proposed to {name}; it counts when they accept."))
            }
            FederationOrder::Accept { agreement } => self.decide(&agreement, true),
            FederationOrder::Refuse { agreement } => self.decide(&agreement, false),
            FederationOrder::Amend { agreement, view } => {
                let id = self.find_agreement(&agreement)?;
                let view = read_view(&view)?;
                self.needs_places(&view)?;
                let out = self.book.amend(id, view.clone());
                if out.is_empty() {
                    let terms = self.terms(id).ok_or("there is no such agreement")?;
                    return Err(format!(
                        "agreement {id} cannot be changed now: {}",
                        self.why_not(&Terms { view, ..terms })
                    ));
                }
                self.settle(out);
                Ok(format!("The change of {id} is proposed; what both versions have goes on meanwhile."))
            }
            FederationOrder::End { agreement, purge } => {
                let id = self.find_agreement(&agreement)?;
                let out = self.book.end(now, id);
                if out.is_empty() {
                    return Err(format!("agreement {id} is over already"));
                }
                if purge {
                    purge::order(&self.desk, id).map_err(|error| format!("{error:#}"))?;
                }
                self.settle(out);
                Ok(format!(
                    "Agreement {id} ends; pages of it that were left to the other engine are crawled here again."
                ))
            }
        }
    }

    fn decide(&mut self, agreement: &str, accept: bool) -> Result<String, String> {
        let id = self.find_agreement(agreement)?;
        if let Some(terms) = self.terms(id).filter(|_| accept) {
            self.needs_places(&terms.view)?;
        }
        let out = self.book.decide(id, accept);
        if out.is_empty() && accept && self.take_up_again(id)? {
            return Ok(format!("Pages are taken in again under agreement {id}."));
        }
        if out.is_empty() {
            return Err(format!(
                "agreement {id} does not wait for an answer; `farol federation status` shows where it stands"
            ));
        }
        self.settle(out);
        Ok(match accept {
            true => format!("Agreement {id} is accepted."),
            false => format!("Agreement {id} is refused."),
        })
    }

    /// Lifts the suspension of an agreement, if it was suspended.
    fn take_up_again(&self, id: AgreementId) -> Result<bool, String> {
        let words = |error: anyhow::Error| format!("{error:#}");
        let turn = self.desk.turn(id);
        let _turn = turn.lock();
        let mut mark = receive::read_mark(&self.desk, id).map_err(words)?;
        if !mark.is_suspended {
            return Ok(false);
        }
        mark.take_up_again();
        receive::write_mark(&self.desk, id, &mark).map_err(words)?;
        Ok(true)
    }

    /// The agreement that somebody means: by its id or how that begins.
    fn find_agreement(&self, text: &str) -> Result<AgreementId, String> {
        let text = text.trim();
        let all = self.book.given.keys().chain(self.book.taken.keys());
        let found: Vec<AgreementId> =
            all.filter(|id| !text.is_empty() && id.to_string().starts_with(text)).copied().collect();
        match found.as_slice() {
            [one] => Ok(*one),
            [] => Err(format!("no agreement begins with {text:?}; `farol federation status` lists them")),
            _ => Err(format!("{} agreements begin with {text:?}; write more of it", found.len())),
        }
    }

    fn terms(&self, id: AgreementId) -> Option<Terms> {
        let given = self.book.given.get(&id).map(|given| &given.terms);
        given.or_else(|| self.book.taken.get(&id).map(|taken| &taken.terms)).cloned()
    }

    fn terms_of(&self, proposal: &FederationProposal) -> Result<(Terms, String), String> {
        let settings = &self.desk.config.federation;
        let partner = partners::find(&self.partners, &proposal.partner)?;
        let me = self.desk.me();
        let (provider, consumer) = if proposal.as_provider { (me, partner) } else { (partner, me) };
        let delivery = match (proposal.delivery.as_str(), read_window(&settings.window)) {
            ("pull", _) => Delivery::Pull,
            ("push", _) | ("", None) => Delivery::Push,
            ("", Some((from, to))) => Delivery::Window(from, to),
            (window, _) => {
                let (from, to) = read_window(window)
                    .ok_or_else(|| format!("delivery {window:?} is none; write push, pull or 02:00-05:00"))?;
                Delivery::Window(from, to)
            }
        };
        let mut id = [0; 16];
        getrandom::fill(&mut id).map_err(|_| "the system has no random numbers")?;
        let terms = Terms {
            id: AgreementId(id),
            revision: 1,
            provider,
            consumer,
            kind: match proposal.kind.as_str() {
                "" | "index" => Kind::Index,
                "search" => {
                    return Err(
                        "only index can be shared: searching at other engines is not built yet".into()
                    );
                }
                other => return Err(format!("{other:?} cannot be shared; write index")),
            },
            view: read_view(&proposal.view)?,
            grade: match proposal.grade.as_str() {
                "" | "text" => Grade::Text,
                "words" => Grade::Words,
                other => return Err(format!("{other:?} is no grade; write text or words")),
            },
            delivery,
            delay_max: settings.delay_max.get(),
            quota: Quota { pages_day: settings.pages_per_day, bytes_day: settings.bytes_per_day.get() },
            forward: proposal.forward.min(8),
            on_end: if proposal.purge { OnEnd::Purge } else { OnEnd::Keep },
            notice: NOTICE,
            lease: settings.lease.get(),
        };
        self.needs_places(&terms.view)?;
        let theirs = &self.partners[&partner].card;
        if let Some(page) = missing(&theirs.view, &terms.view) {
            return Err(format!(
                "{} is not about all of these pages, such as {page}; narrow --view",
                theirs.name
            ));
        }
        Ok((terms, theirs.name.clone()))
    }

    /// Countries and places are told by a table.
    fn needs_places(&self, view: &View) -> Result<(), String> {
        let is_by_place = |atom: &&Atom| matches!(atom, Atom::Country(_) | Atom::Within(_));
        match view.atoms().iter().any(is_by_place) && self.desk.config.crawl.places.is_empty() {
            true => Err("country: and geo: need a table of where servers stand, at both engines: set crawl.places to its \
                         file, and start again"
                .to_string()),
            false => Ok(()),
        }
    }

    /// Why the book does not take such terms.
    fn why_not(&self, terms: &Terms) -> String {
        let own = self.book.view();
        if let Some(page) = missing(own, &terms.view) {
            return format!("this engine is not about all of these pages, such as {page}; narrow --view");
        }
        let is_open = |state: TakenState| !matches!(state, TakenState::Ended | TakenState::Ending(_));
        let taken = self.book.taken.values().find(|taken| {
            taken.terms.id != terms.id && is_open(taken.state) && may_meet(&taken.terms.view, &terms.view)
        });
        let given = self.book.given.values().find(|given| {
            given.terms.id != terms.id
                && given.state != GivenState::Ended
                && may_meet(&given.terms.view, &terms.view)
        });
        match taken.map(|taken| taken.terms.id).or(given.map(|given| given.terms.id)) {
            Some(id) => format!("agreement {id} is about some of the same pages; end or amend it first"),
            None => "a change is under way, or it is not in force yet".to_string(),
        }
    }
}

fn read_view(text: &str) -> Result<View, String> {
    if text.trim().is_empty() {
        return Err("which pages is it about? name them with --view, such as --view .example.org".into());
    }
    View::parse(text).map_err(|error| format!("the view cannot be read: {}", error.pointed()))
}

fn may_meet(a: &View, b: &View) -> bool {
    a.intersects(b).map_or(true, |(answer, _)| answer != Answer::No)
}

/// A page that one view does not surely hold of another, in words; `None` where it holds them all.
fn missing(view: &View, of: &View) -> Option<String> {
    match view.contains(of) {
        Ok((Answer::Yes, _)) => None,
        Ok((_, Some(witness))) => Some(witness.to_string()),
        Ok((_, None)) => Some("some that cannot be told apart".to_string()),
        Err(error) => Some(error.to_string()),
    }
}

/// Asks the engine at an address for its card.
async fn meet(desk: Arc<PartnerDesk>, address: String, key: String, reply: SyncSender<OrderAnswer>) {
    match card_at(&desk, &address, &key).await {
        Ok((id, partner)) => {
            desk.tell(PartnerEvent::Ordered(Ordered::Met(id, Box::new(partner), reply)));
        }
        Err(error) => {
            let _ = reply.send(Err(EngineError::Invalid(format!("{error:#}"))));
        }
    }
}

async fn card_at(desk: &PartnerDesk, address: &str, key: &str) -> anyhow::Result<(EngineId, Partner)> {
    let expected: Option<EngineId> = match key.trim() {
        "" => None,
        key => Some(key.parse()?),
    };
    let url = read_address(address)?;
    let whole = if address.contains("://") { address.to_string() } else { format!("https://{address}") };
    let whole = whole.trim_end_matches('/').to_string();
    let line = |behind_proxy: bool| EngineAddress {
        url: whole.clone(),
        engine: expected.filter(|_| !behind_proxy),
        behind_proxy,
    };
    let path = "/federation/v1/card";
    let ask = async |behind_proxy: bool| {
        desk.calls.call(&line(behind_proxy), Method::GET, path, &[], bytes::Bytes::new()).await
    };
    let (reply, behind_proxy) = match url.is_plain {
        true => (ask(true).await?, true),
        false => match ask(false).await {
            Ok(reply) => (reply, false),
            // A certificate of the Web: it stands behind a proxy.
            Err(error) if format!("{error:#}").contains("BadEncoding") => (ask(true).await?, true),
            Err(error) => return Err(error),
        },
    };
    anyhow::ensure!(
        reply.status.is_success(),
        "{whole} answered {}; is federation enabled there, and is it the address of federation.listen?",
        reply.status.as_u16()
    );
    let envelope = Envelope::from_json(&reply.body).map_err(|_| {
        anyhow::anyhow!("{whole} shows no card; is it the address of an engine's federation.listen?")
    })?;
    let id = envelope.from;
    let is_signed = envelope.kind == "card" && verify(id, &envelope.signed_bytes(), &envelope.signature);
    anyhow::ensure!(
        is_signed && reply.end.is_none_or(|end| end == id),
        "the card at {whole} is not signed by its engine"
    );
    anyhow::ensure!(
        expected.is_none_or(|expected| expected == id),
        "whoever answers at {whole} is {id}, not the engine that you named"
    );
    anyhow::ensure!(id != desk.me(), "{whole} is this engine itself");
    let card = Card::from_json(&envelope.payload)?;
    let partner = Partner {
        card,
        address: whole,
        behind_proxy,
        is_confirmed: true,
        heard: Some(SystemClock.now()),
        trouble: String::new(),
    };
    Ok((id, partner))
}
