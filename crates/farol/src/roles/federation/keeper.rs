//! The keeper of the book: one thread owns all agreements, takes in what is heard and ordered, and sends letters.
//!
//! INVARIANT: no letter goes out before what it follows from is safe on disk; a letter is answered for only once what follows
//! from it is.

use super::orders::Ordered;
use super::partner_desk::{PartnerDesk, Side, ToldAgreement, ToldAgreements};
use super::partners::{self, Partner};
use super::{post, status};
use crate::config::federation::AcceptKind;
use crate::fabric::Table;
use crate::handles::left::LeftParts;
use anyhow::{Context, Result};
use data_encoding::BASE64;
use farol_base::{Clock, Seeded, SystemClock, Timestamp};
use farol_federation::View;
use farol_federation::agreement::{
    AgreementId, Book, EngineId, GivenState, Kind, Message, Outgoing, TakenState,
};
use farol_federation::message::{Card, Letter, Outbox, said};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// How often the book is told the time.
const TICK: Duration = Duration::from_millis(250);
/// How often a provider is asked for what is missing, until all of it is there.
const FILL_AGAIN: Duration = Duration::from_secs(20);
/// Proposals of one engine that wait for an answer.
const UNDECIDED_MAX: usize = 20;
/// How often agreements are looked at that are about more than this engine is.
const FIT_EVERY: Duration = Duration::from_secs(60);

/// What reaches the keeper.
pub enum PartnerEvent {
    /// A message about an agreement; told when what follows is on disk.
    Heard(EngineId, AgreementId, Message, oneshot::Sender<Result<(), String>>),
    /// An engine has introduced itself.
    Hello(EngineId, Card, oneshot::Sender<Result<(), String>>),
    /// An operator's order.
    Ordered(Ordered),
    /// Letters were delivered, or not.
    Posted {
        to: EngineId,
        delivered: Vec<u64>,
        trouble: Option<String>,
    },
    /// An engine was heard of in another way.
    Alive(EngineId),
    /// All that a provider has is taken in, by this revision of the terms.
    Filled(AgreementId, u32),
    Stop,
}

#[derive(Serialize, Deserialize)]
struct LetterRow {
    to: String,
    about: String,
    kind: String,
    payload: String,
}

/// The thread's own.
pub struct Keeper {
    pub desk: Arc<PartnerDesk>,
    pub book: Book,
    pub partners: BTreeMap<EngineId, Partner>,
    pub outbox: Outbox,
    pub runtime: Handle,
    left: LeftParts,
    random: Seeded,
    /// Agreements as they are on disk.
    saved: BTreeMap<AgreementId, Vec<u8>>,
    /// What is to be written next: table, key, value.
    unsaved: Vec<(Table, String, Vec<u8>)>,
    /// Who is told that it is written.
    waiting: Vec<oneshot::Sender<Result<(), String>>>,
    left_before: Vec<(View, EngineId)>,
    /// Parts that are being filled: which time, and when to ask again.
    fills: BTreeMap<AgreementId, (u64, Timestamp)>,
    /// Agreements for which it was proposed that they fit to what this engine is about now, and when to look again.
    fitted: BTreeSet<AgreementId>,
    fit_next: Timestamp,
}

impl Keeper {
    /// Takes up what earlier runs have left.
    pub fn open(desk: Arc<PartnerDesk>, mut book: Book, left: LeftParts, runtime: Handle) -> Result<Keeper> {
        let partners = partners::read_all(&*desk.tables)?;
        let mut saved = BTreeMap::new();
        for (id, row) in desk.tables.scan(Table::Agreements)? {
            let Some(id) = id.strip_prefix(BOOK) else { continue };
            book.take_up(&row).with_context(|| format!("agreement {id}"))?;
            saved.insert(id.parse()?, row);
        }
        let mut outbox = Outbox::default();
        for (number, row) in desk.tables.scan(Table::Letters)? {
            let row: LetterRow = serde_json::from_slice(&row).context("a letter cannot be read")?;
            let letter = Letter {
                to: row.to.parse()?,
                about: row.about,
                kind: row.kind,
                payload: BASE64.decode(row.payload.as_bytes()).context("a letter cannot be read")?,
            };
            outbox.take_up(number.parse().context("a letter has no number")?, letter);
        }
        let now = SystemClock.now();
        book.restart(now);
        let seed = getrandom::u64().unwrap_or(now.as_millis());
        let mut keeper = Keeper {
            desk,
            book,
            partners,
            outbox,
            runtime,
            left,
            random: Seeded::new(seed),
            saved,
            unsaved: Vec::new(),
            waiting: Vec::new(),
            left_before: Vec::new(),
            fills: BTreeMap::new(),
            fitted: BTreeSet::new(),
            fit_next: now,
        };
        keeper.greet();
        let out = keeper.fit(now);
        keeper.settle(out);
        Ok(keeper)
    }

    /// Says to all with whom something is agreed that this engine is there: who waits for it need wait no longer.
    fn greet(&mut self) {
        let given = self.book.given.values().filter(|given| given.state != GivenState::Ended);
        let taken = self.book.taken.values().filter(|taken| taken.state != TakenState::Ended);
        let partners: BTreeSet<EngineId> = given
            .map(|given| given.terms.consumer)
            .chain(taken.map(|taken| taken.terms.provider))
            .filter(|partner| self.partners.contains_key(partner))
            .collect();
        partners.into_iter().for_each(|partner| self.say_hello(partner));
    }

    /// Sends our card.
    pub fn say_hello(&mut self, to: EngineId) {
        let payload = self.desk.card.clone().into_bytes();
        self.write_letter(Letter { to, about: "hello".into(), kind: "hello".into(), payload });
    }

    /// Runs until it is told to stop.
    pub fn run(mut self, events: Receiver<PartnerEvent>) {
        let mut next_tick = Instant::now();
        loop {
            match events.recv_timeout(next_tick.saturating_duration_since(Instant::now())) {
                Ok(PartnerEvent::Stop) | Err(RecvTimeoutError::Disconnected) => return,
                Ok(event) => self.happen(event),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if Instant::now() >= next_tick {
                next_tick = Instant::now() + TICK;
                self.tick();
            }
        }
    }

    fn happen(&mut self, event: PartnerEvent) {
        let now = SystemClock.now();
        match event {
            PartnerEvent::Heard(from, id, message, done) => {
                self.heard(from, now);
                let out = match &message {
                    // Searching at other engines is not built: who proposes it hears so.
                    Message::Propose(terms) if terms.kind == Kind::Search => {
                        vec![Outgoing { to: from, agreement: id, message: Message::Refuse(terms.digest()) }]
                    }
                    Message::Propose(_) if !self.has_room(from, id) => Vec::new(),
                    _ => self.book.receive(now, from, id, message, &mut self.random),
                };
                self.waiting.push(done);
                self.settle(out);
            }
            PartnerEvent::Hello(from, card, done) => {
                let answer = self.hello(from, card, now);
                match answer {
                    Ok(()) => self.waiting.push(done),
                    Err(why) => drop(done.send(Err(why))),
                }
                self.settle(Vec::new());
            }
            PartnerEvent::Ordered(ordered) => self.ordered(ordered),
            PartnerEvent::Posted { to, delivered, trouble } => {
                self.outbox.done(now, to, &delivered, trouble.is_some(), &mut self.random);
                delivered.iter().for_each(|number| self.forget_letter(*number));
                if let Some(partner) = self.partners.get_mut(&to) {
                    if trouble.is_none() {
                        partner.heard = Some(now);
                    }
                    partner.trouble = trouble.unwrap_or_default();
                }
                self.settle(Vec::new());
            }
            PartnerEvent::Alive(engine) => self.heard(engine, now),
            PartnerEvent::Filled(id, revision) => {
                self.book.filled(id, revision);
                self.fills.remove(&id);
                self.settle(Vec::new());
            }
            PartnerEvent::Stop => {}
        }
    }

    fn heard(&mut self, from: EngineId, now: Timestamp) {
        self.outbox.heard(from);
        if let Some(partner) = self.partners.get_mut(&from) {
            partner.heard = Some(now);
            partner.trouble.clear();
        }
    }

    /// Whether one more proposal of an engine may wait for the operator.
    fn has_room(&self, from: EngineId, id: AgreementId) -> bool {
        let given = self.book.given.values().filter(|given| {
            given.terms.consumer == from && given.state == GivenState::Considering && given.terms.id != id
        });
        let taken = self.book.taken.values().filter(|taken| {
            taken.terms.provider == from && taken.state == TakenState::Considering && taken.terms.id != id
        });
        given.count() + taken.count() < UNDECIDED_MAX
    }

    fn hello(&mut self, from: EngineId, card: Card, now: Timestamp) -> Result<(), String> {
        let known = self.partners.get(&from);
        if known.is_none() && !partners::has_room(&self.partners) {
            return Err("too many engines have introduced themselves here; its operator must join you".into());
        }
        let (address, behind_proxy) = match known.filter(|known| known.is_confirmed) {
            // Where the operator has found it counts for as long as its own word is the same.
            Some(known) if known.card.address == card.address => (known.address.clone(), known.behind_proxy),
            _ => (card.address.clone(), card.behind_proxy),
        };
        let is_confirmed = known.is_some_and(|known| known.is_confirmed);
        let partner =
            Partner { card, address, behind_proxy, is_confirmed, heard: Some(now), trouble: String::new() };
        self.put_partner(from, partner).map_err(|error| error.to_string())?;
        self.outbox.heard(from);
        Ok(())
    }

    /// Remembers an engine.
    pub fn put_partner(&mut self, id: EngineId, partner: Partner) -> Result<()> {
        self.unsaved.push((Table::Partners, id.to_string(), partner.row()?));
        self.partners.insert(id, partner);
        Ok(())
    }

    /// Forgets an engine, with all that waits for it.
    pub fn forget_partner(&mut self, id: EngineId) {
        self.partners.remove(&id);
        self.unsaved.push((Table::Partners, id.to_string(), Vec::new()));
        self.outbox.forget(id).into_iter().for_each(|number| self.forget_letter(number));
    }

    fn forget_letter(&mut self, number: u64) {
        self.unsaved.push((Table::Letters, letter_key(number), Vec::new()));
    }

    /// Puts a letter into the outbox.
    pub fn write_letter(&mut self, letter: Letter) {
        let row = LetterRow {
            to: letter.to.to_string(),
            about: letter.about.clone(),
            kind: letter.kind.clone(),
            payload: BASE64.encode(&letter.payload),
        };
        let put = self.outbox.put(letter);
        put.replaced.into_iter().for_each(|number| self.forget_letter(number));
        // Strings have a JSON form.
        let row = serde_json::to_vec(&row).unwrap_or_default();
        self.unsaved.push((Table::Letters, letter_key(put.number), row));
    }

    fn tick(&mut self) {
        let now = SystemClock.now();
        let mut out = self.book.tick(now, &mut self.random);
        if self.desk.config.federation.accept == AcceptKind::Known {
            out.extend(self.accept_known());
        }
        out.extend(self.fit(now));
        self.ask_for_what_is_missing(now);
        self.settle(out);
    }

    /// Where what this engine is about has changed, agreements go on for what is left of them, or end.
    fn fit(&mut self, now: Timestamp) -> Vec<Outgoing> {
        if now < self.fit_next {
            return Vec::new();
        }
        self.fit_next = now + FIT_EVERY;
        let mut out = Vec::new();
        for id in self.book.outgrown() {
            tracing::warn!(agreement = %id, "this engine is not about all of these pages any more");
            out.extend(match self.fitted.insert(id) {
                true => self.book.fit(now, id),
                // The other side did not want that.
                false => self.book.end(now, id),
            });
        }
        out
    }

    /// Accepts what engines propose that the operator has joined.
    fn accept_known(&mut self) -> Vec<Outgoing> {
        let is_known =
            |partner: EngineId| self.partners.get(&partner).is_some_and(|known| known.is_confirmed);
        let given = self.book.given.values().filter(|given| given.state == GivenState::Considering);
        let taken = self.book.taken.values().filter(|taken| taken.state == TakenState::Considering);
        let given = given.map(|given| (given.terms.id, given.terms.consumer));
        let taken = taken.map(|taken| (taken.terms.id, taken.terms.provider));
        let of_known: Vec<AgreementId> =
            given.chain(taken).filter(|(_, partner)| is_known(*partner)).map(|(id, _)| id).collect();
        of_known.into_iter().flat_map(|id| self.book.decide(id, true)).collect()
    }

    /// While a part is being filled, its provider is asked to say when all is there.
    fn ask_for_what_is_missing(&mut self, now: Timestamp) {
        let filling: Vec<(AgreementId, EngineId)> = self
            .book
            .taken
            .values()
            .filter(|taken| taken.is_filling() && taken.terms.kind == Kind::Index)
            .map(|taken| (taken.terms.id, taken.terms.provider))
            .collect();
        self.fills.retain(|id, _| filling.iter().any(|(other, _)| other == id));
        for (id, provider) in filling {
            let (round, again) = *self.fills.entry(id).or_insert((now.as_millis(), now));
            if now < again {
                continue;
            }
            self.fills.insert(id, (round, now + FILL_AGAIN));
            let payload = super::fill::FillLetter { agreement: id.to_string(), round }.write();
            let about = format!("fill {id}");
            self.write_letter(Letter { to: provider, about, kind: super::fill::KIND.into(), payload });
        }
    }

    /// Writes what has changed, and only then lets letters go out, tells who waits, and leaves pages to others.
    pub fn settle(&mut self, out: Vec<Outgoing>) {
        for Outgoing { to, agreement, message } in out {
            let about = format!("{agreement} {}", name_of(&message));
            let payload = said(agreement, &message);
            self.write_letter(Letter { to, about, kind: "agreement".into(), payload });
        }
        let ids: BTreeSet<AgreementId> =
            self.book.given.keys().chain(self.book.taken.keys()).copied().collect();
        let mut changed = Vec::new();
        for id in ids {
            let Some(now) = self.book.saved(id) else { continue };
            if self.saved.get(&id) != Some(&now) {
                changed.push((id, now));
            }
        }
        // What is taken back is crawled at once; what is left to others only once that is on disk.
        let left = self.left_now();
        let shrinks = left.iter().all(|part| self.left_before.contains(part));
        if shrinks {
            self.leave(left.clone());
        }
        if let Err(error) = self.write(&changed) {
            tracing::warn!("what was agreed with other engines cannot be written, and waits: {error:#}");
            return;
        }
        self.saved.extend(changed);
        self.leave(left);
        self.tell();
        self.waiting.drain(..).for_each(|done| drop(done.send(Ok(()))));
        post::send_what_is_due(self);
    }

    fn write(&mut self, changed: &[(AgreementId, Vec<u8>)]) -> Result<()> {
        let keys: Vec<String> = changed.iter().map(|(id, _)| format!("{BOOK}{id}")).collect();
        let of_book = keys.iter().zip(changed).map(|(key, (_, row))| (Table::Agreements, &**key, &**row));
        let others = self.unsaved.iter().map(|(table, key, row)| (*table, &**key, &**row));
        let entries: Vec<(Table, &str, &[u8])> = of_book.chain(others).collect();
        if entries.is_empty() {
            return Ok(());
        }
        self.desk.tables.put(&entries)?;
        self.unsaved.clear();
        Ok(())
    }

    fn left_now(&self) -> Vec<(View, EngineId)> {
        let left =
            self.book.taken.values().filter(|taken| taken.is_left() && taken.terms.kind == Kind::Index);
        left.map(|taken| (taken.in_force.clone(), taken.terms.provider)).collect()
    }

    fn leave(&mut self, left: Vec<(View, EngineId)>) {
        if left != self.left_before {
            tracing::info!(parts = left.len(), "what is left to other engines has changed");
            self.left.set(&left);
            self.left_before = left;
        }
    }

    fn tell(&mut self) {
        let given = self.book.given.iter().map(|(id, given)| {
            let view = given.terms.view.clone();
            (*id, ToldAgreement { terms: given.terms.clone(), side: Side::Given(given.state), view })
        });
        let taken = self.book.taken.iter().map(|(id, taken)| {
            let view = taken.in_force.clone();
            (*id, ToldAgreement { terms: taken.terms.clone(), side: Side::Taken(taken.state), view })
        });
        let told =
            ToldAgreements { partners: self.partners.clone(), agreements: given.chain(taken).collect() };
        *self.desk.told.write() = Arc::new(told);
        *self.desk.status.write() = Arc::new(status::of(self, SystemClock.now()));
    }
}

/// What stands before an agreement's id among the keys of its table.
const BOOK: &str = "book ";

fn letter_key(number: u64) -> String {
    format!("{number:020}")
}

/// What a later message of the same name says anew.
fn name_of(message: &Message) -> String {
    let digest = |name: &str, digest: &[u8; 32]| format!("{name} {:02x}{:02x}", digest[0], digest[1]);
    match message {
        Message::Propose(_) => "propose".to_string(),
        Message::Accept(terms) => digest("accept", terms),
        Message::Refuse(terms) => digest("refuse", terms),
        Message::Ready(..) => "ready".to_string(),
        Message::Path(..) | Message::NotNow(_) => "path".to_string(),
        Message::Chain(..) => "chain".to_string(),
        Message::Chained(_) | Message::Busy(_) | Message::ChainRefused(_) => "chained".to_string(),
        Message::Active(_) => "active".to_string(),
        Message::Renew(..) => "renew".to_string(),
        Message::Renewed(..) | Message::Lapsed(_) => "renewed".to_string(),
        Message::Amend(_) => "amend".to_string(),
        Message::End => "end".to_string(),
        Message::Ended => "ended".to_string(),
    }
}
