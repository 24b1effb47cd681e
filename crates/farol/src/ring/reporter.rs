//! Says what a front has seen, for the leader: every ten seconds, and soon where a node refuses it or a question spreads.

use super::REPORTS;
use super::client::RingClient;
use crate::wire::v1::cache::WireReport;
use farol_fabric::Fabric;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it looks whether a report is due.
const TICK: Duration = Duration::from_millis(200);
/// Time between two reports where nothing happens.
const REPORT: Duration = Duration::from_secs(10);

/// The running reporter.
pub struct RingReporter {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RingReporter {
    pub fn start(fabric: Arc<dyn Fabric>, client: Arc<RingClient>) -> std::io::Result<RingReporter> {
        let stop = Arc::<AtomicBool>::default();
        let stops = stop.clone();
        let thread = std::thread::Builder::new().name("ring reports".to_string()).spawn(move || {
            while !stops.load(Ordering::SeqCst) {
                std::thread::sleep(TICK);
                // Without a ring there is nothing to tell.
                if client.seed().is_none() {
                    continue;
                }
                let Some(report) = client.report(REPORT) else { continue };
                match postcard::to_stdvec(&WireReport::from(&report)) {
                    Ok(bytes) => fabric.say(REPORTS, &bytes),
                    Err(error) => tracing::warn!(%error, "a report cannot be written"),
                }
            }
        })?;
        Ok(RingReporter { stop, thread: Some(thread) })
    }
}

impl Drop for RingReporter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            // What broke it was told where it happened.
            let _ = thread.join();
        }
    }
}
