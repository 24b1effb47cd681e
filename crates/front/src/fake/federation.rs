//! A made-up federation: one partner that sends, one that waits for an answer.

use super::HOSTILE_TITLE;
use crate::{FederationAgreement, FederationFlow, FederationPartner, FederationStatus};
use std::time::Duration;

/// What the engine `Praia` shares.
pub(super) fn federation() -> FederationStatus {
    let key = |letter: &str| format!("farol:{}", letter.repeat(52));
    let partner = |name: &str, letter: &str| FederationPartner {
        id: key(letter),
        name: name.into(),
        address: "https://busca.example:8090".into(),
        view: "domain:ufpe.br".into(),
        contact: "owner@busca.example".into(),
        is_confirmed: true,
        heard: Some(Duration::from_secs(12)),
        letters: 0,
        trouble: String::new(),
    };
    let agreement = |id: &str, name: &str, state: &str| FederationAgreement {
        id: id.repeat(16),
        partner: key("b"),
        partner_name: name.into(),
        is_provider: false,
        kind: "index".into(),
        view: "domain:cin.ufpe.br".into(),
        in_force: String::new(),
        revision: 1,
        state: state.into(),
        is_undecided: state == "considering",
        grade: "text".into(),
        delivery: "push".into(),
        lease: Duration::from_secs(1800),
        ..FederationAgreement::default()
    };
    FederationStatus {
        id: key("a"),
        name: "Praia".into(),
        address: "https://praia.example:8090".into(),
        view: "domain:br".into(),
        card: "{\"from\":\"farol:…\"}".into(),
        partners: vec![
            partner("CIn", "b"),
            FederationPartner {
                is_confirmed: false,
                heard: None,
                letters: 3,
                trouble: "it answered 503: later".into(),
                ..partner(HOSTILE_TITLE, "c")
            },
        ],
        agreements: vec![
            FederationAgreement {
                in_force: "domain:cin.ufpe.br".into(),
                received: FederationFlow { packets: 41, pages: 17_995, gone: 12, bytes: 44_981_227 },
                lag: Some(Duration::from_secs(640)),
                refused: vec![("page_outside".into(), 3), ("packet_gap".into(), 1)],
                ..agreement("0a", "CIn", "active")
            },
            agreement("0b", HOSTILE_TITLE, "considering"),
            FederationAgreement {
                is_provider: true,
                waiting: FederationFlow { packets: 2, bytes: 81_002, ..FederationFlow::default() },
                waiting_since: Some(Duration::from_secs(70)),
                trouble: "it answered 429: the day's quota is used up".into(),
                ..agreement("0c", "Radix", "serving")
            },
            agreement("0d", "CIn", "ended"),
        ],
        refused: vec![("letter_forged".into(), 2)],
    }
}
