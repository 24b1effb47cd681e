//! A cluster is made once: how many shards its index has at birth, and how many replicas of each.

use super::door::Door;
use crate::wire::WIRE;
use anyhow::{Result, bail, ensure};
use farol_base::{Clock, SystemClock};
use farol_cluster::Key;
use farol_cluster::record::{ClusterRecord, RECORD_VERSION, read, write};
use farol_fabric::{Fabric, Lost, Revision};

/// Shards at birth at most; more come by splitting.
const SHARDS_MAX: u32 = 1024;
/// Replicas at most: each takes in everything.
const REPLICAS_MAX: u16 = 16;

/// What a cluster is to be.
#[derive(Clone, Copy, Debug)]
pub struct Birth {
    pub shards: u32,
    pub replicas: u16,
}

/// Makes the cluster where there is none of its name yet; what it is, and whether it is new.
pub fn bear(door: &Door, birth: Birth) -> Result<(ClusterRecord, bool)> {
    ensure!(
        (1..=SHARDS_MAX).contains(&birth.shards),
        "{} shards are not possible: 1 to {SHARDS_MAX}",
        birth.shards
    );
    ensure!(
        (1..=REPLICAS_MAX).contains(&birth.replicas),
        "{} replicas are not possible: 1 to {REPLICAS_MAX}",
        birth.replicas
    );
    if let Some(known) = door.cluster()? {
        return Ok((known, false));
    }
    let id = getrandom::u64().map_err(|_| anyhow::anyhow!("the system has no random numbers"))?;
    let record = ClusterRecord {
        v: RECORD_VERSION,
        id: format!("{id:016x}"),
        created: SystemClock.now().as_millis(),
        wire: WIRE.1,
        shards: birth.shards,
        replicas: u32::from(birth.replicas),
    };
    let key = Key::Cluster.to_string();
    let why = match door.fabric.set(&key, &write(&record), Revision::NONE) {
        Ok(_) => return Ok((record, true)),
        Err(Lost::Conflict) => "NATS took nothing".to_string(),
        Err(Lost::Unknown(why)) => why.to_string(),
    };
    // Somebody made it a moment ago, maybe this process.
    match door.fabric.get(&key)? {
        Some((value, _)) => {
            let known: ClusterRecord = read(&key, &value)?;
            let is_ours = known == record;
            Ok((known, is_ours))
        }
        None => bail!("the cluster could not be made: {why}; try again"),
    }
}
