//! `farol cluster replan`: has the planner of a running cluster plan now, and tells what came of it.

use super::place::ClusterPlace;
use crate::cluster::door::Door;
use crate::cluster::orders::{plan_record, wish_for_plan};
use anyhow::{Result, bail};
use std::io::Write as _;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A plan waits until the table in force is settled, and takes its time.
const PATIENCE: Duration = Duration::from_secs(90);
const LOOK_EVERY: Duration = Duration::from_millis(200);

pub fn run(place: &ClusterPlace) -> Result<ExitCode> {
    let door = Door::connect(&place.settings()?)?;
    door.enter()?;
    let number =
        |record: &farol_cluster::planned::PlanRecord| record.last.as_ref().map_or(0, |last| last.number);
    let before = plan_record(&*door.fabric)?.as_ref().map_or(0, number);
    let nonce = wish_for_plan(&*door.fabric)?;
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if let Some(record) = plan_record(&*door.fabric)?.filter(|record| record.wish == nonce)
            && let Some(last) = record.last.as_ref().filter(|last| last.number > before)
        {
            let said = if last.published { "A new table is published" } else { "The table stays" };
            writeln!(
                std::io::stdout(),
                "{said}: {}. Links to other agents {:.1} % → {:.1} %, {} of {} pages move.",
                last.why,
                100.0 * last.gain.exchange_before,
                100.0 * last.gain.exchange_after,
                last.gain.moved_named + last.gain.moved_hashed + last.gain.orphaned,
                last.gain.pages
            )?;
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    bail!(
        "no plan was made yet: nobody leads, an agent has not released the table in force, or the nodes share no \
         cluster.blobs; it is made as soon as it can be, and `farol cluster agents` shows it"
    )
}
