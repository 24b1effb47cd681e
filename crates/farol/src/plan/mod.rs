//! How many machines a target takes: arithmetic over measured unit costs.
//!
//! Three things are worked out for each role: processor time, memory and disk. The machines are as many as the
//! greatest of the three asks for; that one fills first. Then come the things that no number of machines helps
//! with (one machine ranks, one group of servers keeps the tables, a question waits for every shard), each with how far
//! the target is from what it bears. Pure: no files, no clock.
//!
//! INVARIANT: every page counts as changed at each visit, and each machine keeps room: processors are filled to
//! [`CPU_FILL`], memory and disks to [`ROOM_FILL`]. So the plan errs on the side of more machines.

pub mod costs;
mod limits;

pub use costs::{CostTable, UnitCosts};
pub use limits::Bottleneck;

/// Share of a machine's processors that is planned for; the rest is for peaks and for a neighbour that died.
pub const CPU_FILL: f64 = 0.6;
/// Share of a machine's memory and disk that is planned for.
pub const ROOM_FILL: f64 = 0.8;
/// Longest time that a shard may take for a question, on one core; a page of results takes two such rounds and more.
pub const SHARD_SECONDS: f64 = 0.1;
/// What a merge of segments and a snapshot being made need beside an index.
const INDEX_ROOM: f64 = 2.0;
/// Copies that the servers keep of each message.
const LOG_COPIES: f64 = 3.0;
const DAY: f64 = 86_400.0;

/// What is wanted, and of which machines.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanTarget {
    /// Pages that can be found.
    pub pages: f64,
    /// Questions a second, at the busiest hour.
    pub queries: f64,
    /// Copies of each shard.
    pub replicas: f64,
    /// Mean size of a page as it is fetched.
    pub page_bytes: f64,
    /// Mean time between two visits of a page, in days.
    pub revisit_days: f64,
    pub cores: f64,
    pub memory_bytes: f64,
    pub disk_bytes: f64,
}

/// What a target takes.
#[derive(Clone, Debug, PartialEq)]
pub struct ClusterPlan {
    pub target: PlanTarget,
    /// Pages fetched per second, day and night.
    pub fetches_per_second: f64,
    pub shards: f64,
    pub pages_per_shard: f64,
    pub urls_known: f64,
    pub roles: Vec<RolePlan>,
    /// What no number of machines helps with, the tightest first.
    pub bottlenecks: Vec<Bottleneck>,
    /// The archive keeps every version of a page: what it grows by in a day.
    pub archive_bytes_per_day: f64,
}

/// What all machines of a role take together.
#[derive(Clone, Debug, PartialEq)]
pub struct RolePlan {
    pub role: &'static str,
    pub machines: f64,
    /// Cores that are busy, all together.
    pub cores: f64,
    pub memory_bytes: f64,
    pub disk_bytes: f64,
    /// Bytes per second in and out, all together.
    pub network: f64,
    /// `processors`, `memory`, `disk`, or `nothing` where the least number of machines has room for all.
    pub fills_first: &'static str,
}

impl ClusterPlan {
    pub fn machines(&self) -> f64 {
        self.roles.iter().map(|role| role.machines).sum()
    }

    pub fn disk_bytes(&self) -> f64 {
        self.roles.iter().map(|role| role.disk_bytes).sum()
    }

    pub fn network(&self) -> f64 {
        self.roles.iter().map(|role| role.network).sum()
    }
}

/// Works out what a target takes, or says in one sentence what is wrong with it.
pub fn plan(target: PlanTarget, costs: &UnitCosts) -> Result<ClusterPlan, String> {
    check(&target)?;
    let work = Work::of(&target, costs)?;
    let roles = vec![
        crawl(&target, costs, &work),
        index(&target, costs, &work),
        front(&target, costs, &work),
        rank(&target, costs, &work),
        servers(&target, costs, &work),
    ];
    let bottlenecks =
        limits::bottlenecks(&target, costs, &work, roles.iter().map(|role| role.machines).sum());
    Ok(ClusterPlan {
        target,
        fetches_per_second: work.fetches,
        shards: work.shards,
        pages_per_shard: target.pages / work.shards,
        urls_known: work.urls,
        archive_bytes_per_day: work.fetches * DAY * costs.archive_bytes * work.weight,
        roles,
        bottlenecks,
    })
}

fn check(target: &PlanTarget) -> Result<(), String> {
    let asked = [
        ("pages", target.pages, 1.0),
        ("queries", target.queries, 0.0),
        ("replicas", target.replicas, 1.0),
        ("bytes of a page", target.page_bytes, 1.0),
        ("days between two visits", target.revisit_days, 1e-3),
        ("cores", target.cores, 1.0),
        ("bytes of memory", target.memory_bytes, 1e9),
        ("bytes of disk", target.disk_bytes, 1e9),
    ];
    for (name, value, least) in asked {
        if !(least..1e18).contains(&value) {
            return Err(format!(
                "{value} {name} cannot be planned for: {least} is the least, and 1e18 too much"
            ));
        }
    }
    if target.replicas > 16.0 {
        return Err(format!("{} replicas of each shard are too many: 16 is the most", target.replicas));
    }
    Ok(())
}

/// What follows from the target before machines are counted.
struct Work {
    /// Fetches per second.
    fetches: f64,
    /// How much heavier a page is than those that were measured.
    weight: f64,
    urls: f64,
    shards: f64,
    /// Questions that the cache does not answer, per second.
    misses: f64,
    /// Calls between fronts and shards per second.
    calls: f64,
}

impl Work {
    fn of(target: &PlanTarget, costs: &UnitCosts) -> Result<Work, String> {
        let misses = target.queries * (1.0 - costs.cache_hits);
        let shards = (target.pages / pages_per_shard(target, costs)?).ceil();
        Ok(Work {
            fetches: target.pages / (target.revisit_days * DAY),
            weight: target.page_bytes / costs.crawl_page_bytes,
            urls: target.pages * costs.urls_per_page,
            shards,
            misses,
            calls: misses * shards * costs.rpc_calls,
        })
    }
}

/// The largest shard that answers in time and fits a machine.
fn pages_per_shard(target: &PlanTarget, costs: &UnitCosts) -> Result<f64, String> {
    let weight = target.page_bytes / costs.crawl_page_bytes;
    let in_time = (SHARD_SECONDS - costs.query_cpu) / costs.query_page_cpu;
    let on_disk = target.disk_bytes * ROOM_FILL / (costs.index_bytes * weight * INDEX_ROOM);
    let in_memory = (target.memory_bytes * ROOM_FILL - costs.shard_memory)
        / (costs.index_bytes * weight * costs.shard_cached);
    let most = in_time.min(on_disk).min(in_memory);
    match most >= 1.0 {
        true => Ok(most.floor()),
        false => Err("not one page fits a machine of this kind: give it more memory or disk".into()),
    }
}

/// The least number of machines that bears it all, and what fills first.
fn role(target: &PlanTarget, role: &'static str, least: f64, needs: Needs) -> RolePlan {
    let by = [
        ("processors", needs.cores / (target.cores * CPU_FILL)),
        ("memory", needs.memory / (target.memory_bytes * ROOM_FILL)),
        ("disk", needs.disk / (target.disk_bytes * ROOM_FILL)),
    ];
    let (name, most) =
        by.into_iter().fold(("nothing", 0.0), |most, one| if one.1 > most.1 { one } else { most });
    let machines = most.ceil().max(least);
    RolePlan {
        role,
        machines,
        cores: needs.cores,
        memory_bytes: needs.memory,
        disk_bytes: needs.disk,
        network: needs.network,
        fills_first: name,
    }
}

struct Needs {
    cores: f64,
    memory: f64,
    disk: f64,
    network: f64,
}

/// Agents: they fetch, parse, keep URLs and the archive, and send documents and links on.
fn crawl(target: &PlanTarget, costs: &UnitCosts, work: &Work) -> RolePlan {
    let cores = work.fetches * costs.crawl_cpu * work.weight;
    let disk = target.pages * costs.archive_bytes * work.weight + work.urls * costs.url_bytes;
    // One process per machine: what it holds does not grow with what it has on disk.
    let machines = role(target, "crawl", 1.0, Needs { cores, memory: 0.0, disk, network: 0.0 }).machines;
    let sent = costs.log_document_bytes * work.weight + costs.link_bytes;
    let network = work.fetches * (target.page_bytes + sent);
    role(target, "crawl", 1.0, Needs { cores, memory: machines * costs.crawl_memory, disk, network })
}

/// Index nodes: each replica takes in every document of its shard and answers its share of the questions.
fn index(target: &PlanTarget, costs: &UnitCosts, work: &Work) -> RolePlan {
    let per_shard = costs.query_cpu + costs.query_page_cpu * target.pages / work.shards;
    let asked = work.misses * work.shards * per_shard + work.calls * costs.rpc_cpu / 2.0;
    let taken_in = work.fetches * target.replicas;
    let index_bytes = target.pages * costs.index_bytes * work.weight;
    let snapshots = work.fetches * costs.index_bytes * work.weight * costs.snapshot_factor;
    let needs = Needs {
        cores: asked + taken_in * costs.index_cpu * work.weight,
        memory: target.replicas * (index_bytes * costs.shard_cached + work.shards * costs.shard_memory),
        disk: index_bytes * target.replicas * INDEX_ROOM,
        network: taken_in * costs.log_document_bytes * work.weight + snapshots + work.calls * costs.rpc_bytes,
    };
    // Two replicas of a shard on one machine would die together.
    role(target, "index", target.replicas, needs)
}

/// Fronts: they answer people, ask every shard, and keep answers.
fn front(target: &PlanTarget, costs: &UnitCosts, work: &Work) -> RolePlan {
    let needs = Needs {
        cores: target.queries * costs.front_cpu + work.calls * costs.rpc_cpu / 2.0,
        memory: costs.shard_memory,
        disk: 0.0,
        network: work.calls * costs.rpc_bytes + target.queries * costs.rpc_bytes * 3.0,
    };
    role(target, "front", 2.0, needs)
}

/// The one machine that ranks. Whether one is enough is told among the bottlenecks.
fn rank(target: &PlanTarget, costs: &UnitCosts, work: &Work) -> RolePlan {
    let needs = Needs {
        cores: 1.0,
        memory: work.urls * costs.rank_known_bytes,
        disk: target.pages * costs.link_bytes,
        network: work.fetches * costs.link_bytes,
    };
    RolePlan { machines: 1.0, ..role(target, "rank, control", 1.0, needs) }
}

/// Servers of the fabric: streams of documents, URLs and links, and the tables.
fn servers(target: &PlanTarget, costs: &UnitCosts, work: &Work) -> RolePlan {
    let rate = work.fetches * (costs.log_document_bytes * work.weight + costs.link_bytes);
    let least = (LOG_COPIES * rate / costs.log_stream_rate).ceil().max(3.0);
    // A day of documents, for replicas that were away.
    let disk = rate * DAY * LOG_COPIES;
    let network = rate * (LOG_COPIES + target.replicas);
    role(target, "nats-server", least, Needs { cores: 1.0, memory: least * 1e9, disk, network })
}

#[cfg(test)]
mod tests;
