//! What the parts of the role share: who we are, whom we know, what was agreed on, and what was counted.

use super::intake::Intake;
use super::keeper::PartnerEvent;
use super::partners::Partner;
use super::ship::Shipped;
use crate::config::Config;
use crate::fabric::Tables;
use crate::federation::call::EngineCalls;
use crate::federation::key::EngineKey;
use crate::federation::letters;
use farol_base::sync::{Mutex, RwLock};
use farol_base::{Clock, SystemClock, Timestamp};
use farol_federation::View;
use farol_federation::agreement::{AgreementId, EngineId, GivenState, TakenState, Terms};
use farol_federation::message::{Envelope, Seen};
use farol_front::{FederationFlow, FederationStatus};
use hyper::header::HeaderName;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// The header that says who asks, where the body does not: an envelope in base64 whose type is the request.
pub const LETTER_HEADER: &str = "farol-letter";

/// Where an agreement stands, from our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    Given(GivenState),
    Taken(TakenState),
}

impl Side {
    /// Whether we send pages under it.
    pub fn sends(self) -> bool {
        matches!(self, Side::Given(GivenState::Promised | GivenState::Serving | GivenState::Lapsed))
    }

    /// Whether we take pages under it.
    pub fn takes(self) -> bool {
        matches!(
            self,
            Side::Taken(
                TakenState::Filling
                    | TakenState::Chaining
                    | TakenState::Active
                    | TakenState::Silent
                    | TakenState::TakenBack
            )
        )
    }

    /// Its name on screen and in the API.
    pub fn code(self) -> &'static str {
        match self {
            Side::Given(GivenState::Proposed(_)) | Side::Taken(TakenState::Proposed(_)) => "proposed",
            Side::Given(GivenState::Considering) | Side::Taken(TakenState::Considering) => "considering",
            Side::Given(GivenState::Promised) => "promised",
            Side::Given(GivenState::Serving) => "serving",
            Side::Given(GivenState::Lapsed) => "lapsed",
            Side::Given(GivenState::Ending(_)) | Side::Taken(TakenState::Ending(_)) => "ending",
            Side::Given(GivenState::Ended) | Side::Taken(TakenState::Ended) => "ended",
            Side::Taken(TakenState::Filling) => "filling",
            Side::Taken(TakenState::Chaining) => "chaining",
            Side::Taken(TakenState::Active) => "active",
            Side::Taken(TakenState::Silent) => "silent",
            Side::Taken(TakenState::TakenBack) => "taken-back",
        }
    }
}

/// An agreement as the keeper of the book last told of it.
#[derive(Clone, Debug)]
pub struct ToldAgreement {
    pub terms: Terms,
    pub side: Side,
    /// What may be in packets: of a consumer that has not heard of a change yet, the old part too.
    pub view: View,
}

/// What the keeper of the book last told.
#[derive(Clone, Debug, Default)]
pub struct ToldAgreements {
    pub partners: BTreeMap<EngineId, Partner>,
    pub agreements: BTreeMap<AgreementId, ToldAgreement>,
}

/// What went over one agreement.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    pub sent: FederationFlow,
    pub received: FederationFlow,
    pub waiting: FederationFlow,
    pub waiting_since: Option<Timestamp>,
    pub newest: Option<Timestamp>,
    pub refused: BTreeMap<&'static str, u64>,
    pub trouble: String,
}

/// What all parts of the role share.
pub struct PartnerDesk {
    pub key: EngineKey,
    pub config: Arc<Config>,
    pub folder: PathBuf,
    pub tables: Arc<dyn Tables>,
    pub calls: EngineCalls,
    pub seen: Mutex<Seen>,
    pub events: Mutex<Sender<PartnerEvent>>,
    pub told: RwLock<Arc<ToldAgreements>>,
    pub flows: Mutex<BTreeMap<AgreementId, Flows>>,
    /// Consumers that asked for all, each with the number of its question.
    pub fills: Mutex<BTreeMap<AgreementId, u64>>,
    /// Packets of one agreement are taken in one after the other: a slow one holds no other partner up.
    pub turns: Mutex<BTreeMap<AgreementId, Arc<Mutex<()>>>>,
    /// All are unpacked one after the other, fetched ones too.
    pub unpacking: Mutex<()>,
    pub intake: Intake,
    pub shipped: Mutex<Sender<Shipped>>,
    /// What was refused at the door, by reason.
    pub refused: Mutex<BTreeMap<&'static str, u64>>,
    pub status: RwLock<Arc<FederationStatus>>,
    /// Our card, as it is said in letters.
    pub card: String,
}

impl PartnerDesk {
    pub fn me(&self) -> EngineId {
        self.key.id()
    }

    pub fn told(&self) -> Arc<ToldAgreements> {
        self.told.read().clone()
    }

    /// Tells the keeper of the book; it has ended when nobody listens.
    pub fn tell(&self, event: PartnerEvent) -> bool {
        self.events.lock().send(event).is_ok()
    }

    /// Tells the distribution agent; it has ended when nobody listens.
    pub fn ship(&self, event: Shipped) {
        let _ = self.shipped.lock().send(event);
    }

    /// What we are called in packets: our name, and where people search here.
    pub fn label(&self) -> String {
        let identity = &self.config.identity;
        match identity.public_url.as_str() {
            "" => identity.name.clone(),
            site => format!("{} <{site}>", identity.name),
        }
    }

    /// Whose turn it is among those who bring packets of an agreement; it is held while one is taken in.
    pub fn turn(&self, id: AgreementId) -> Arc<Mutex<()>> {
        self.turns.lock().entry(id).or_default().clone()
    }

    /// Signs a letter.
    pub fn seal(&self, to: EngineId, kind: &str, payload: Vec<u8>) -> Envelope {
        letters::seal(&self.key, to, kind, payload, SystemClock.now())
    }

    /// The header that lets us make a request.
    pub fn allow(&self, to: EngineId, request: &str) -> (HeaderName, String) {
        let letter = self.seal(to, request, Vec::new()).to_json();
        (HeaderName::from_static(LETTER_HEADER), data_encoding::BASE64.encode(letter.as_bytes()))
    }

    /// Counts something that was refused at the door.
    pub fn refuse(&self, why: &'static str) {
        *self.refused.lock().entry(why).or_default() += 1;
    }

    /// Changes what is counted of an agreement.
    pub fn flow<T>(&self, id: AgreementId, change: impl FnOnce(&mut Flows) -> T) -> T {
        change(self.flows.lock().entry(id).or_default())
    }
}
