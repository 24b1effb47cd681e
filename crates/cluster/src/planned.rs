//! What the leader's planner of the routing table tells: its last plan, what it knows, and what tables have brought.
//!
//! The next leader goes on from it; people read it. The table itself is a file that the routing table's record names.
//! INVARIANT: every list is bounded, so that a record stays far below what a key may hold.

use crate::NodeNo;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Epochs that are remembered with their reasons.
pub const PAST_EPOCHS_MAX: usize = 32;
/// Pairs of agents, agents that were refused something, and places on the map, at most.
pub const LISTED_MAX: usize = 200;
/// Longest sentence that is kept, in bytes.
pub const SENTENCE_BYTES_MAX: usize = 300;

/// The leader's, under `table.plan`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PlanRecord {
    pub v: u16,
    pub term: u64,
    /// Which collection of reports this comes from: where it is another, agents tell everything anew.
    pub atlas: String,
    /// The wish that was heard last.
    #[serde(default)]
    pub wish: u64,
    #[serde(default)]
    pub last: Option<LastPlanRecord>,
    #[serde(default)]
    pub known: KnownRecord,
    /// Agents that have told something.
    #[serde(default)]
    pub agents: BTreeMap<NodeNo, ToldRecord>,
    /// What was not believed: who told it, why, how often.
    #[serde(default)]
    pub refused: Vec<(String, String, u64)>,
    /// Tables that were published, the newest last.
    #[serde(default)]
    pub outcomes: Vec<OutcomeRecord>,
    /// Epochs with their reasons, the newest last.
    #[serde(default)]
    pub epochs: Vec<PastEpoch>,
    /// Where pages are: agent, degrees north and east, pages.
    #[serde(default)]
    pub cells: Vec<(NodeNo, i16, i16, u64)>,
    /// What keeps the planner, a sentence; empty where nothing does.
    #[serde(default)]
    pub trouble: String,
}

/// What the last plan came to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LastPlanRecord {
    /// Plans up to this one.
    pub number: u64,
    /// Milliseconds since 1970, by the leader's clock; for people.
    pub at: u64,
    /// Why it was made.
    pub trigger: String,
    pub published: bool,
    /// Why it was published or not.
    pub why: String,
    /// The version of its table, where it was published.
    pub version: u64,
    pub gain: GainRecord,
    /// From, to, pages; nobody where the owner had gone.
    #[serde(default)]
    pub moves: Vec<(Option<NodeNo>, NodeNo, u64)>,
    /// Milliseconds that planning took.
    #[serde(default)]
    pub took: u64,
    /// Hosts, and the load over its share that was left.
    #[serde(default)]
    pub hosts: u64,
    #[serde(default)]
    pub overload: f64,
}

/// What a table is expected to bring. Shares are 0 to 1, round trips milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GainRecord {
    pub exchange_before: f64,
    pub exchange_after: f64,
    #[serde(default)]
    pub rtt_before: Option<f64>,
    #[serde(default)]
    pub rtt_after: Option<f64>,
    pub pages: u64,
    pub moved_named: u64,
    pub moved_hashed: u64,
    pub orphaned: u64,
    pub overload_before: f64,
    pub overload_after: f64,
    pub underload_after: f64,
}

/// What all agents have told together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KnownRecord {
    pub hosts: u64,
    pub pages: u64,
    pub links: u64,
    pub addresses: u64,
    /// Pairs of an agent and an address by where their round-trip time comes from, at the last plan.
    pub times: BTreeMap<String, u64>,
}

/// What one agent has told.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ToldRecord {
    /// Of its last report.
    pub number: u64,
    /// When that was taken in; milliseconds since 1970.
    pub at: u64,
    /// Pages of its hosts, by the table in force.
    pub pages: u64,
    /// Reports that were not taken in at all: whoever sees that grow tells everything again.
    pub lost: u64,
}

/// A table, what it promised, and what agents counted under it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OutcomeRecord {
    pub version: u64,
    pub at: u64,
    pub expected: GainRecord,
    /// Links between hosts that were found under it, and those of them that went to another agent.
    pub links: u64,
    pub forwarded: u64,
}

/// An epoch that was.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastEpoch {
    pub epoch: u64,
    /// When the planner saw it first; milliseconds since 1970.
    pub at: u64,
    pub why: String,
}

/// Somebody wants a plan now; under `plan.wish`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanWish {
    pub v: u16,
    /// Random: another one is another wish.
    pub nonce: u64,
}

impl PlanRecord {
    /// Notes an epoch, where it is a new one.
    pub fn saw_epoch(&mut self, epoch: u64, at: u64, why: &str) {
        if self.epochs.last().is_none_or(|last| last.epoch < epoch) {
            self.epochs.push(PastEpoch { epoch, at, why: cut(why) });
            self.epochs.drain(..self.epochs.len().saturating_sub(PAST_EPOCHS_MAX));
        }
    }
}

/// A sentence that fits.
pub fn cut(sentence: &str) -> String {
    let mut end = sentence.len().min(SENTENCE_BYTES_MAX);
    while !sentence.is_char_boundary(end) {
        end -= 1;
    }
    sentence[..end].to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{RECORD_VERSION, read, write};

    #[test]
    fn epochs_are_noted_once_and_the_oldest_are_forgotten() {
        let mut record = PlanRecord { v: RECORD_VERSION, ..PlanRecord::default() };
        for epoch in 1..100 {
            record.saw_epoch(epoch, 5 * epoch, "agent 2 joined");
            record.saw_epoch(epoch, 5 * epoch + 1, "again");
        }
        assert_eq!(record.epochs.len(), PAST_EPOCHS_MAX);
        assert_eq!(record.epochs.last().map(|past| (past.epoch, past.at)), Some((99, 495)));
        assert_eq!(read::<PlanRecord>("table.plan", &write(&record)).unwrap(), record);
        let long = "é".repeat(400);
        assert_eq!(cut(&long).len(), SENTENCE_BYTES_MAX);
    }

    #[test]
    fn a_full_record_fits_a_key() {
        let no = NodeNo(65_535);
        let sentence = "x".repeat(SENTENCE_BYTES_MAX);
        let mut record = PlanRecord {
            refused: vec![("65535".into(), "the host belongs to another agent".into(), u64::MAX); LISTED_MAX],
            cells: vec![(no, -90, -180, u64::MAX); LISTED_MAX],
            agents: (0..512)
                .map(|n| {
                    (
                        NodeNo(n),
                        ToldRecord { number: u64::MAX, at: u64::MAX, pages: u64::MAX, lost: u64::MAX },
                    )
                })
                .collect(),
            last: Some(LastPlanRecord {
                moves: vec![(Some(no), no, u64::MAX); LISTED_MAX],
                why: sentence.clone(),
                ..LastPlanRecord::default()
            }),
            ..PlanRecord::default()
        };
        (1..=PAST_EPOCHS_MAX as u64).for_each(|epoch| record.saw_epoch(epoch, u64::MAX, &sentence));
        let bytes = write(&record).len();
        assert!(bytes < 256 << 10, "{bytes}");
    }
}
