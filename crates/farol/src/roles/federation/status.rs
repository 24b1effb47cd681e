//! What people and programs are shown.

use super::keeper::Keeper;
use super::partner_desk::{Flows, Side};
use farol_base::Timestamp;
use farol_federation::agreement::{Delivery, GivenState, Grade, Kind, TakenState, Terms};
use farol_front::{FederationAgreement, FederationPartner, FederationStatus};
use std::fmt::Write as _;

/// The state of all that is shared.
pub fn of(keeper: &Keeper, now: Timestamp) -> FederationStatus {
    let desk = &keeper.desk;
    let mut status = FederationStatus { ..(**desk.status.read()).clone() };
    status.partners = keeper
        .partners
        .iter()
        .map(|(id, partner)| FederationPartner {
            id: id.to_string(),
            name: partner.card.name.clone(),
            address: partner.address.clone(),
            view: partner.card.view.to_string(),
            contact: partner.card.contact.clone(),
            is_confirmed: partner.is_confirmed,
            heard: partner.heard.map(|at| now.since(at)),
            letters: keeper.outbox.waiting(*id) as u64,
            trouble: partner.trouble.clone(),
        })
        .collect();
    let flows = desk.flows.lock();
    let nothing = Flows::default();
    let flow = |terms: &Terms| flows.get(&terms.id).unwrap_or(&nothing);
    let given = keeper.book.given.values().map(|given| {
        let view = match given.state {
            GivenState::Serving => given.bound_view.to_string(),
            _ => String::new(),
        };
        let mut shown = agreement(keeper, &given.terms, Side::Given(given.state), view, flow(&given.terms), now);
        let side = Side::Given(given.state);
        if let Some(held_back) = keeper.book.held_back(&given.terms).filter(|_| side.sends()) {
            shown.trouble = format!(
                "some of its pages come by agreement {held_back} and may not be sent on so far; the consumer crawls all of it \
                 itself: agree on more --forward there"
            );
        }
        shown
    });
    let taken = keeper.book.taken.values().map(|taken| {
        let view = if taken.is_left() { taken.in_force.to_string() } else { String::new() };
        agreement(keeper, &taken.terms, Side::Taken(taken.state), view, flow(&taken.terms), now)
    });
    let mut agreements: Vec<FederationAgreement> = given.chain(taken).collect();
    // What is over comes last.
    agreements.sort_by_key(|agreement| (agreement.state == "ended", agreement.id.clone()));
    status.agreements = agreements;
    status.refused = desk.refused.lock().iter().map(|(why, count)| (why.to_string(), *count)).collect();
    status
}

fn agreement(
    keeper: &Keeper,
    terms: &Terms,
    side: Side,
    in_force: String,
    flow: &Flows,
    now: Timestamp,
) -> FederationAgreement {
    let partner = terms.partner_of(keeper.desk.me());
    let is_undecided =
        matches!(side, Side::Given(GivenState::Considering) | Side::Taken(TakenState::Considering));
    FederationAgreement {
        id: terms.id.to_string(),
        partner: partner.to_string(),
        partner_name: keeper.partners.get(&partner).map_or(String::new(), |known| known.card.name.clone()),
        is_provider: terms.provider == keeper.desk.me(),
        kind: match terms.kind {
            Kind::Index => "index".into(),
            Kind::Search => "search".into(),
        },
        view: terms.view.to_string(),
        in_force,
        revision: terms.revision,
        state: side.code().to_string(),
        is_undecided,
        grade: match terms.grade {
            Grade::Text => "text".into(),
            Grade::Words => "words".into(),
        },
        delivery: match terms.delivery {
            Delivery::Push => "push".into(),
            Delivery::Pull => "pull".into(),
            Delivery::Window(from, to) => {
                format!("{:02}:{:02}-{:02}:{:02}", from / 60, from % 60, to / 60, to % 60)
            }
        },
        lease: terms.lease,
        sent: flow.sent,
        received: flow.received,
        waiting: flow.waiting,
        waiting_since: flow.waiting_since.map(|since| now.since(since)),
        lag: flow.newest.map(|newest| now.since(newest)),
        refused: flow.refused.iter().map(|(why, count)| (why.to_string(), *count)).collect(),
        trouble: flow.trouble.clone(),
    }
}

/// The same as numbers for a monitor.
pub fn metrics(status: &FederationStatus) -> String {
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, help: &str, rows: Vec<(String, f64)>| {
        let _ =
            writeln!(text, "# HELP farol_federation_{name} {help}\n# TYPE farol_federation_{name} {kind}");
        for (labels, value) in rows {
            let _ = writeln!(text, "farol_federation_{name}{{{labels}}} {value}");
        }
    };
    let of = |value: &dyn Fn(&FederationAgreement) -> f64| -> Vec<(String, f64)> {
        let rows = status.agreements.iter();
        rows.map(|agreement| (format!("agreement=\"{}\"", agreement.id), value(agreement))).collect()
    };
    let state = status.agreements.iter().map(|agreement| {
        let labels = format!("agreement=\"{}\",state=\"{}\"", agreement.id, agreement.state);
        (labels, 1.0)
    });
    family("agreement", "gauge", "Agreements with other engines, by state.", state.collect());
    family("pages_sent_total", "counter", "Pages that were acknowledged.", of(&|a| a.sent.pages as f64));
    family("bytes_sent_total", "counter", "Bytes that were acknowledged.", of(&|a| a.sent.bytes as f64));
    family("pages_received_total", "counter", "Pages that were taken in.", of(&|a| a.received.pages as f64));
    family("bytes_received_total", "counter", "Bytes that were taken in.", of(&|a| a.received.bytes as f64));
    family("outbox_bytes", "gauge", "Bytes that wait to be sent.", of(&|a| a.waiting.bytes as f64));
    let age = |a: &FederationAgreement| a.waiting_since.map_or(0.0, |age| age.as_secs_f64());
    family("outbox_seconds", "gauge", "How long the oldest of them waits.", of(&age));
    let lag = |a: &FederationAgreement| a.lag.map_or(0.0, |lag| lag.as_secs_f64());
    family("lag_seconds", "gauge", "Age of the newest page that was received.", of(&lag));
    let refused = status.agreements.iter().flat_map(|agreement| {
        let labels = |why: &str| format!("agreement=\"{}\",reason=\"{why}\"", agreement.id);
        agreement.refused.iter().map(move |(why, count)| (labels(why), *count as f64))
    });
    let at_door =
        status.refused.iter().map(|(why, count)| (format!("agreement=\"\",reason=\"{why}\""), *count as f64));
    family("refused_total", "counter", "What was refused, by reason.", refused.chain(at_door).collect());
    text
}
