//! What does not grow with machines: each with how much of it the target takes.

use super::{PlanTarget, ROOM_FILL, UnitCosts, Work};

/// Longest time that a front may spend on the calls of one question, on one core.
const SCATTER_SECONDS: f64 = 0.1;
/// Time between two renewals of a node's lease, each a write to the tables.
const RENEW_SECONDS: f64 = 5.0;

/// Something that more machines do not help with.
#[derive(Clone, Debug, PartialEq)]
pub struct Bottleneck {
    /// What it is, in a few words.
    pub what: &'static str,
    /// How much of it the target takes, and how much there is, in `unit`.
    pub needs: f64,
    pub bears: f64,
    pub unit: &'static str,
    /// What to do when it is reached.
    pub then: &'static str,
}

impl Bottleneck {
    /// How many times the target it bears; below one it does not bear it.
    pub fn headroom(&self) -> f64 {
        if self.needs > 0.0 { self.bears / self.needs } else { f64::INFINITY }
    }
}

/// All of them, the tightest first.
pub(super) fn bottlenecks(
    target: &PlanTarget,
    costs: &UnitCosts,
    work: &Work,
    machines: f64,
) -> Vec<Bottleneck> {
    let documents = work.fetches * costs.log_document_bytes * work.weight;
    let front_seconds = work.shards * costs.rpc_calls * costs.rpc_cpu / 2.0;
    let mut all = vec![
        Bottleneck {
            what: "memory of the one machine that ranks",
            needs: work.urls * costs.rank_known_bytes,
            bears: target.memory_bytes * ROOM_FILL,
            unit: "B",
            then: "give the role rank a machine with more memory, or rank fewer pages",
        },
        Bottleneck {
            what: "the stream of links to the one machine that ranks",
            needs: work.fetches * costs.link_bytes,
            bears: costs.log_stream_rate,
            unit: "B/s",
            then: "visit pages less often, or put servers with faster disks under the streams",
        },
        Bottleneck {
            what: "the stream of documents of one shard",
            needs: documents / work.shards,
            bears: costs.log_stream_rate,
            unit: "B/s",
            then: "split the index into more shards",
        },
        Bottleneck {
            what: "the width of a question: a front's calls to all shards",
            needs: front_seconds,
            bears: SCATTER_SECONDS,
            unit: "s",
            then: "take machines with more memory and disk, so that shards are larger and fewer",
        },
        Bottleneck {
            what: "leases: each node's record is written every five seconds",
            needs: machines / RENEW_SECONDS,
            bears: costs.table_writes,
            unit: "writes/s",
            then: "run several clusters",
        },
        Bottleneck {
            what: "the map of shards, which is one value in a table",
            needs: work.shards * target.replicas * costs.table_replica_bytes,
            bears: costs.table_bytes_max,
            unit: "B",
            then: "take machines with more memory and disk, so that shards are larger and fewer",
        },
    ];
    all.sort_by(|a, b| a.headroom().total_cmp(&b.headroom()));
    all
}
