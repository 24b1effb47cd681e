//! Says every 1.2 seconds that the node is there, and what it has done since it started.

use super::TICK;
use crate::handles::cache_node::CacheShelf;
use crate::ring::BEATS;
use crate::wire::v1::cache::WireBeat;
use farol_cache::NodeId;
use farol_fabric::Fabric;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Time between two beats.
const BEAT: Duration = Duration::from_millis(1_200);
/// Slots of each shard that are cleared up between two looks.
const CLEARED_UP: usize = 64;

pub fn beat(shelf: &CacheShelf, fabric: &dyn Fabric, stop: &AtomicBool) {
    let mut work = WorkTime::now();
    let mut said: Option<Instant> = None;
    while !stop.load(Ordering::SeqCst) {
        if said.is_none_or(|at| at.elapsed() >= BEAT) {
            said = Some(Instant::now());
            shelf.busy.store(work.busy(), Ordering::Relaxed);
            let beat = WireBeat::of(NodeId(shelf.me.no), &shelf.beat());
            match postcard::to_stdvec(&beat) {
                Ok(bytes) => fabric.say(BEATS, &bytes),
                Err(error) => tracing::warn!(%error, "a beat cannot be written"),
            }
        }
        let now = shelf.now();
        shelf.node.each().for_each(|mut shard| shard.clear_up(now, CLEARED_UP));
        std::thread::sleep(TICK);
    }
}

/// Processor time of this process, against what passed meanwhile.
struct WorkTime {
    at: Instant,
    worked: Duration,
    cores: u32,
}

impl WorkTime {
    fn now() -> WorkTime {
        let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        let cores = u32::try_from(cores).unwrap_or(1);
        WorkTime { at: Instant::now(), worked: crate::process::worked(), cores }
    }

    /// Since the last time, per mille of what all cores could do.
    fn busy(&mut self) -> u16 {
        let now = WorkTime::now();
        let worked = now.worked.saturating_sub(self.worked).as_secs_f64();
        let passed = now.at.saturating_duration_since(self.at).as_secs_f64() * f64::from(now.cores);
        *self = now;
        if passed > 0.0 { (worked / passed * 1000.0).clamp(0.0, 1000.0) as u16 } else { 0 }
    }
}
