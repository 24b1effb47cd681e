//! A made-up cache service: four nodes of which one is passed over and one has left, a burst, and a hostile question.

use super::HOSTILE_TITLE;
use crate::{RingBurst, RingChange, RingHot, RingMember, RingStatus};
use farol_base::Timestamp;
use std::time::Duration;

/// The service as a front sees it.
pub(super) fn ring() -> RingStatus {
    let at = |minutes: u64| Timestamp::from_secs(1_780_000_000 + 60 * minutes);
    let node = |no: u16, name: &str, end: f64, share: f64, per_second: f64| RingMember {
        no,
        name: name.into(),
        is_on_ring: share > 0.0,
        is_asked: (share > 0.0).then_some(no != 8),
        share,
        end,
        per_second,
        hit_rate: 0.472,
        lookups: 1_200_441,
        hits: 566_608,
        adopted: 3_021,
        inserts: 633_833,
        protects: 41,
        handed: 12,
        entries: 15_402,
        bytes: 63_086_592,
        busy: 0.31,
        silent: Duration::from_millis(900),
    };
    RingStatus {
        term: 1_204,
        version: 31,
        hot_version: 44,
        told: Some(at(7)),
        fronts: 2,
        efficiency: 0.912,
        hit_rate: 0.472,
        nodes: vec![
            node(6, "opala", 0.21, 0.31, 412.5),
            node(7, "jaspe", 0.58, 0.37, 398.0),
            node(8, "", 0.9, 0.32, 451.25),
            node(9, "topázio", 0.0, 0.0, 0.0),
        ],
        hot: vec![
            RingHot { text: "farol da barra".into(), nodes: 3, count: 1_902, severity: 4 },
            RingHot { text: format!("tempo {HOSTILE_TITLE}"), nodes: 3, count: 221, severity: 0 },
        ],
        bursts: vec![
            RingBurst { at: at(6), text: "farol da barra".into(), severity: 4 },
            RingBurst { at: at(2), text: "maré".into(), severity: 0 },
        ],
        changes: vec![
            RingChange {
                at: at(5),
                version: 31,
                left: vec!["topázio".into()],
                moved: 0.25,
                ..RingChange::default()
            },
            RingChange {
                at: at(1),
                version: 30,
                joined: vec!["jaspe".into()],
                moved: 0.125,
                ..RingChange::default()
            },
        ],
    }
}
