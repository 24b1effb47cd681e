//! Appends batches to the logs of the agents that they are for.
//!
//! A log that takes nothing keeps only its own receiver waiting. What a receiver has taken in for good it tells in its
//! node's record, and only then is it forgotten here.

use super::CourierSources;
use farol_cluster::NodeNo;
use farol_fabric::{Refused, Topic};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Rest where there is nothing to append.
const REST: Duration = Duration::from_millis(200);
/// Batches of one receiver in a row.
const TURN: usize = 32;
/// A log that refused is tried again after this, doubling up to the last.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(8));

/// A log that took nothing.
struct Waits {
    until: Instant,
    pause: Duration,
}

pub fn run(sources: &CourierSources, stop: &AtomicBool) {
    let mut waiting: BTreeMap<NodeNo, Waits> = BTreeMap::new();
    while !stop.load(Ordering::SeqCst) {
        learn(sources);
        let mut quiet = true;
        let receivers = sources.desk.outboxes.lock().receivers();
        for to in receivers {
            if waiting.get(&to).is_some_and(|waits| Instant::now() < waits.until) {
                continue;
            }
            match append(sources, to, stop) {
                Ok(0) => {
                    waiting.remove(&to);
                }
                Ok(_) => {
                    quiet = false;
                    waiting.remove(&to);
                }
                Err(why) => {
                    let pause = waiting.get(&to).map_or(RETRY.0, |waits| (waits.pause * 2).min(RETRY.1));
                    waiting.insert(to, Waits { until: Instant::now() + pause, pause });
                    tracing::info!("URLs for agent {to} wait: {why}");
                }
            }
        }
        let troubled: Vec<String> =
            waiting.iter().filter(|(_, waits)| waits.pause > RETRY.0).map(|(to, _)| to.to_string()).collect();
        let sentence = match troubled.is_empty() {
            true => String::new(),
            false => format!(
                "URLs for other agents wait in the outbox: the logs of {} take nothing",
                troubled.join(", ")
            ),
        };
        sources.board.complain("courier", &sentence);
        if quiet {
            std::thread::sleep(REST);
        }
    }
}

/// What receivers have told.
fn learn(sources: &CourierSources) {
    let view = sources.cluster.view();
    let mut boxes = sources.desk.outboxes.lock();
    for node in view.nodes.values() {
        let Some(no) = node.no else { continue };
        let expected =
            node.report.expects.get(&Topic::Urls(no.0).to_string()).and_then(|from| from.get(&sources.me));
        if let Some(expected) = expected
            && let Err(error) = boxes.taken(no, expected.saturating_sub(1))
        {
            tracing::warn!(error = %format!("{error:#}"), "an outbox could not be emptied");
        }
    }
    boxes.hurry();
}

/// Appends a few batches; how many.
fn append(sources: &CourierSources, to: NodeNo, stop: &AtomicBool) -> Result<usize, String> {
    let incarnation = sources.incarnation();
    let batches = sources.desk.outboxes.lock().next_batches(to, incarnation, TURN);
    let batches = batches.map_err(|error| format!("{error:#}"))?;
    let count = batches.len();
    for (number, bytes) in batches {
        if stop.load(Ordering::SeqCst) {
            return Ok(0);
        }
        match sources.fabric.append(&Topic::Urls(to.0), &bytes) {
            Ok(_) => {}
            Err(refused @ (Refused::Full | Refused::Away(_))) => return Err(refused.to_string()),
        }
        sources.desk.outboxes.lock().appended(to, number);
        sources.desk.counters.batches_sent.fetch_add(1, Ordering::Relaxed);
    }
    Ok(count)
}

impl CourierSources {
    fn incarnation(&self) -> u64 {
        let view = self.cluster.view();
        view.nodes.get(&view.me).map_or(0, |node| node.incarnation)
    }
}
