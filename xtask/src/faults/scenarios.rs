//! What is done to the cluster, each with the bound that people should see hold.

use super::bench::{Allowed, Bench, Healed, Row};
use super::history::History;
use super::lab::{FRONTS, Lab, REPLICAS, SHARDS};
use std::time::{Duration, Instant};

pub struct Scenario {
    pub name: &'static str,
    pub what: &'static str,
    pub bound: &'static str,
    pub run: fn(&mut Bench, &History) -> Result<Vec<Row>, String>,
}

/// In the order in which they are run: those that leave the cluster changed come last.
pub const SCENARIOS: &[Scenario] = &[
    Scenario { name: "quiet", what: "No fault, to compare with.", bound: "0 failed", run: quiet },
    Scenario {
        name: "kill-index",
        what: "`kill -9` of each index node in turn, started again later.",
        bound: "0 failed, none in part, at most one late second each, equal digests",
        run: kill_index,
    },
    Scenario {
        name: "kill-front",
        what: "`kill -9` of a front, started again later.",
        bound: "0 failed where the other front is asked instead, at most one late second, equal digests",
        run: kill_front,
    },
    Scenario {
        name: "kill-cache",
        what: "`kill -9` of each node that keeps answers, started again later; people ask the same again and again.",
        bound: "0 failed, none in part, at most one late second each, equal digests",
        run: kill_cache,
    },
    Scenario {
        name: "kill-nats",
        what: "`kill -9` of each NATS server in turn, started again later.",
        bound: "0 failed, at most one late second each, equal digests",
        run: kill_nats,
    },
    Scenario {
        name: "kill-leader",
        what: "`kill -9` of the node that leads.",
        bound: "0 failed, at most one late second, another leads within 35 s, equal digests",
        run: kill_leader,
    },
    Scenario {
        name: "stop-index",
        what: "An index node stands still (SIGSTOP), then goes on.",
        bound: "0 failed, at most one late second",
        run: stop_index,
    },
    Scenario {
        name: "stop-leader",
        what: "The node that leads stands still for 60 s (SIGSTOP), then goes on.",
        bound: "0 failed, another leads within 35 s, and the one that slept writes no table afterwards",
        run: stop_leader,
    },
    Scenario {
        name: "rolling-restart",
        what: "Every node and every NATS server in turn is asked to end (SIGTERM) and started again at once.",
        bound: "0 failed, at most one late second each, equal digests at the end",
        run: rolling_restart,
    },
    Scenario {
        name: "shard-gone",
        what: "Both nodes that have a shard are killed at once, and started again later.",
        bound: "0 failed; answers in part, which say so",
        run: shard_gone,
    },
    Scenario {
        name: "newcomer-replica",
        what: "An index node is killed and its replicas are deleted: they come back from snapshot and log.",
        bound: "0 failed, then equal digests",
        run: newcomer,
    },
    Scenario {
        name: "move",
        what: "A replica moves to another node.",
        bound: "0 failed, none in part, then equal digests and no page more or less",
        run: move_replica,
    },
    Scenario {
        name: "kill-all-nats",
        what: "All NATS servers are killed at once, started again later: questions need none.",
        bound: "0 failed, none in part, at most one late second",
        run: super::rare::all_servers,
    },
    Scenario {
        name: "no-blobs",
        what: "A new cluster crawls while the folder of snapshots is mounted read-only, for 75 s at least.",
        bound: "0 failed, none in part; all is crawled meanwhile, the cluster says that snapshots fail, they are made \
                afterwards; equal digests",
        run: super::rare::no_blobs,
    },
    Scenario {
        name: "copied-folder",
        what: "A copy of a running node's folder is started beside it.",
        bound: "0 failed; the copy never takes the name while the node lives",
        run: super::rare::copied_folder,
    },
    Scenario {
        name: "leader-20",
        what: "The node that leads is killed 20 times, and started again at once.",
        bound: "another term within 35 s each time, all 20 seen by the watch of the tables, no lower term written after \
                a greater one, equal digests",
        run: leader_20,
    },
    Scenario {
        name: "blobs-lost",
        what: "Shared storage loses all snapshots, and an index node its replicas: they come back from the archives.",
        bound: "0 failed, then equal digests",
        run: super::logs::no_snapshots_left,
    },
    Scenario {
        name: "split",
        what: "A shard is split in two.",
        bound: "0 failed, none in part, then equal digests and no page more or less",
        run: split,
    },
    Scenario {
        name: "crawl-under-kills",
        what: "A new cluster crawls while its index nodes are killed in turn.",
        bound: "every page in every replica, equal digests",
        run: super::crawl::under_kills,
    },
    Scenario {
        name: "crawl-under-all-kills",
        what: "The same with NATS servers, the leader, a front and the crawler killed as well.",
        bound: "every page in every replica, equal digests",
        run: super::crawl::under_all_kills,
    },
    Scenario {
        name: "stream-lost",
        what: "A new cluster crawls while the log of each shard is deleted from the NATS servers.",
        bound: "0 failed, every page in every replica without anybody's help, equal digests",
        run: super::logs::lost,
    },
    Scenario {
        name: "log-alone",
        what: "An index node loses its replicas where no snapshot was ever made: they come back from the log alone.",
        bound: "0 failed, then equal digests",
        run: super::logs::alone,
    },
    Scenario {
        name: "rebuild",
        what: "All replicas of a shard and its log are lost, without a snapshot; `farol cluster rebuild` is called.",
        bound: "0 failed; answers in part until then; every page again, equal digests",
        run: super::logs::rebuild,
    },
    Scenario {
        name: "grow-under-crawl",
        what: "A new cluster crawls and is asked while a shard is split and a replica of another one moves.",
        bound: "0 failed, none in part; pages that are looked for all the time are found each time, no result is there \
                twice; equal digests, every archived page in the index",
        run: super::grow::under_crawl,
    },
    Scenario {
        name: "same-answers",
        what: "One process crawls the same pages, and both are asked the same 1,000 questions.",
        bound: "the same ten results in the same order, ties aside, and the same totals",
        run: super::same::answers,
    },
    Scenario {
        name: "split-under-crawl",
        what: "A new cluster crawls while a shard is split and replicas are spread anew.",
        bound: "every page in every replica once, equal digests, 0 failed",
        run: super::rare::split_under_crawl,
    },
    Scenario {
        name: "upgrade",
        what: "Nodes of another version (`--before FILE`) are ended in turn, and started as the present one.",
        bound: "0 failed, none in part, at most one late second each",
        run: super::rare::upgrade,
    },
    Scenario {
        name: "cut-index",
        what: "The cable of an index node is pulled for 60 s: a link of its network namespace. Nodes speak TLS.",
        bound: "0 failed, none in part, at most one late second, p99.9 within 1 s; taken for dead within 40 s, a new \
                incarnation afterwards, then equal digests",
        run: super::cut::index,
    },
    Scenario {
        name: "cut-leader",
        what: "The cable of the node that leads is pulled for 60 s. Nodes speak TLS.",
        bound: "as before; another leads within 35 s, and no lower term is written after a greater one",
        run: super::cut::the_leader,
    },
    Scenario {
        name: "cut-nats",
        what: "The node that leads loses all that it and the NATS servers send each other for 60 s; nodes reach it.",
        bound: "as before",
        run: super::cut::the_leader_from_nats,
    },
    Scenario {
        name: "agent-cut",
        what: "Of four agents one loses all that it and the cluster send each other for 120 s; the Web it reaches.",
        bound: "it asks nobody after 22 s; 0 questions failed; no host or address is ever asked twice at once, no page \
                never, by the Web's own log; equal digests",
        run: super::several::cut,
    },
    Scenario {
        name: "agent-stopped",
        what: "Of four agents one stands still for 90 s in the middle of its requests (SIGSTOP), then goes on.",
        bound: "no request before it is a member again; else as before",
        run: super::several::stopped,
    },
    Scenario {
        name: "agents-without-nats",
        what: "All NATS servers are gone for 300 s while four agents crawl.",
        bound: "the crawl stops within 22 s and goes on afterwards; 0 questions failed; else as before",
        run: super::several::without_nats,
    },
    Scenario {
        name: "agents-tables",
        what: "Four agents crawl while they are killed and started again in turn, 20 times: a new table each time.",
        bound: "20 tables within 600 s, each settled; else as before",
        run: super::several::tables,
    },
];

/// Another leader must be there after this.
const LEADER_MAX: Duration = Duration::from_secs(35);

fn quiet(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let row = bench.under_load("none", Allowed::default(), |_, away| {
        std::thread::sleep(away);
        Ok(Healed::default())
    })?;
    Ok(vec![row])
}

/// Kills a node, and starts it again.
fn kill_for(lab: &mut Lab, name: &str, away: Duration) -> Result<Healed, String> {
    lab.node(name)?.kill();
    std::thread::sleep(away);
    lab.node(name)?.start()?;
    Ok(Healed::started(name))
}

fn each(names: &[String], mut run: impl FnMut(&str) -> Result<Row, String>) -> Result<Vec<Row>, String> {
    names.iter().map(|name| run(name)).collect()
}

fn kill_index(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    each(&Lab::index_nodes(), |name| {
        let row = bench.under_load(name, Allowed::default(), |lab, away| kill_for(lab, name, away))?;
        with_digests(&bench.lab, bench.pages, SHARDS, row)
    })
}

fn kill_front(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let allowed = Allowed { moved: true, ..Allowed::default() };
    let row = bench.under_load("front-1", allowed, |lab, away| kill_for(lab, "front-1", away))?;
    Ok(vec![with_digests(&bench.lab, bench.pages, SHARDS, row)?])
}

fn kill_cache(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let names: Vec<String> =
        bench.lab.nodes.keys().filter(|name| name.starts_with("cache")).cloned().collect();
    bench.repeats = true;
    let rows = each(&names, |name| {
        let row = bench.under_load(name, Allowed::default(), |lab, away| kill_for(lab, name, away))?;
        with_digests(&bench.lab, bench.pages, SHARDS, row)
    });
    bench.repeats = false;
    rows
}

fn kill_nats(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    (0..bench.lab.servers.len())
        .map(|nth| {
            let row = bench.under_load(&format!("nats-{}", nth + 1), Allowed::default(), |lab, away| {
                lab.servers[nth].kill();
                std::thread::sleep(away);
                lab.servers[nth].start()?;
                Ok(heard_again())
            })?;
            with_digests(&bench.lab, bench.pages, SHARDS, row)
        })
        .collect()
}

/// Where a server was away: recovered is who is heard again through the servers.
fn heard_again() -> Healed {
    let now = Instant::now();
    let started = Lab::index_nodes().into_iter().map(|name| (name, now)).collect();
    Healed { started, ..Healed::default() }
}

/// Who leads now.
pub fn leader(lab: &Lab) -> Result<(String, u64), String> {
    lab.status()?.leader().ok_or("nobody leads".to_string())
}

/// Waits for a greater term of another node than `but`; seconds since `since`, and whether that was in time.
pub fn next_leader(lab: &mut Lab, term: u64, since: Instant, healed: &mut Healed) -> Result<u64, String> {
    let mut next = 0;
    lab.wait_for("another leader", |status| {
        next = status.leader().map_or(0, |(_, term)| term);
        next > term
    })?;
    let took = since.elapsed();
    healed.notes.push(format!("another leads after {:.0} s", took.as_secs_f64()));
    if took > LEADER_MAX {
        healed.broken.push(format!(
            "{:.0} s without a leader, {} allowed",
            took.as_secs_f64(),
            LEADER_MAX.as_secs()
        ));
    }
    Ok(next)
}

fn kill_leader(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let (name, term) = leader(&bench.lab)?;
    let row = bench.under_load(&format!("{name}, the leader"), Allowed::default(), |lab, _| {
        lab.node(&name)?.kill();
        let (since, mut healed) = (Instant::now(), Healed::default());
        next_leader(lab, term, since, &mut healed)?;
        lab.node(&name)?.start()?;
        healed.started = Healed::started(&name).started;
        Ok(healed)
    })?;
    Ok(vec![with_digests(&bench.lab, bench.pages, SHARDS, row)?])
}

/// Has a node stand still, and wakes it whatever happens meanwhile.
fn asleep<T>(lab: &mut Lab, name: &str, meanwhile: impl FnOnce(&mut Lab) -> T) -> Result<T, String> {
    lab.node(name)?.signal("STOP")?;
    let done = meanwhile(lab);
    lab.node(name)?.signal("CONT")?;
    Ok(done)
}

fn stop_index(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let name = "index-2";
    let row = bench.under_load(name, Allowed::default(), |lab, away| {
        asleep(lab, name, |_| std::thread::sleep(away))?;
        Ok(Healed::started(name))
    })?;
    Ok(vec![row])
}

fn stop_leader(bench: &mut Bench, history: &History) -> Result<Vec<Row>, String> {
    let (name, term) = leader(&bench.lab)?;
    let row = bench.under_load(&format!("{name}, the leader"), Allowed::default(), |lab, _| {
        let (since, mut healed) = (Instant::now(), Healed::default());
        let next = asleep(lab, &name, |lab| {
            let next = next_leader(lab, term, since, &mut healed);
            std::thread::sleep(Duration::from_secs(60).saturating_sub(since.elapsed()));
            next
        })??;
        healed.started = Healed::started(&name).started;
        // Long enough for what it had in mind when it fell asleep.
        std::thread::sleep(Duration::from_secs(10));
        let (_, now) = leader(lab)?;
        if now < next {
            healed.broken.push(format!("term {now} after {next}"));
        }
        Ok(healed)
    })?;
    Ok(vec![with_history(row, history)])
}

/// Adds what the watch of the tables saw.
pub fn with_history(mut row: Row, history: &History) -> Row {
    let terms = history.terms();
    row.notes.push(format!(
        "{} writes of tables and leases seen so far, the lease taken {} times, terms never fell; {} revisions not seen",
        terms.writes, terms.takes, terms.missed
    ));
    if terms.writes == 0 {
        row.broken.push("the watch of the tables saw nothing".to_string());
    }
    if !terms.broken.is_empty() {
        row.notes.pop();
        row.broken.extend(terms.broken);
    }
    row
}

fn rolling_restart(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let fronts = (1..=FRONTS).map(|nth| format!("front-{nth}"));
    let names: Vec<String> =
        Lab::index_nodes().into_iter().chain(fronts).chain(["crawl-1".to_string()]).collect();
    let mut rows = each(&names, |name| {
        // A front that ends is noticed by who asks it while it is away.
        let allowed = Allowed { moved: name.starts_with("front"), ..Allowed::default() };
        bench.under_load(name, allowed, |lab, _| {
            let ended = lab.node(name)?.end(Duration::from_secs(30));
            lab.node(name)?.start()?;
            Ok(Healed { broken: ended.err().into_iter().collect(), ..Healed::started(name) })
        })
    })?;
    for nth in 0..bench.lab.servers.len() {
        rows.push(bench.under_load(&format!("nats-{}", nth + 1), Allowed::default(), |lab, _| {
            // It gives its place in the groups away before it ends.
            let ended = lab.servers[nth].end(Duration::from_secs(60));
            lab.servers[nth].start()?;
            Ok(Healed { broken: ended.err().into_iter().collect(), ..heard_again() })
        })?);
    }
    let last = rows.pop().ok_or("there is no server")?;
    rows.push(with_digests(&bench.lab, bench.pages, SHARDS, last)?);
    Ok(rows)
}

fn shard_gone(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let holders = bench.lab.status()?.holders(0);
    let allowed = Allowed { partial: true, ..Allowed::default() };
    let fault = format!("shard 0: {}", holders.join(" and "));
    let mut row = bench.under_load(&fault, allowed, |lab, away| {
        for name in &holders {
            lab.node(name)?.kill();
        }
        std::thread::sleep(away);
        let mut healed = Healed::default();
        for name in &holders {
            lab.node(name)?.start()?;
            healed.started.push((name.clone(), Instant::now()));
        }
        Ok(healed)
    })?;
    if row.inside.partial == 0 {
        row.broken.push("no answer said that it is in part".to_string());
    }
    Ok(vec![row])
}

/// Adds whether all replicas of each shard hold the same.
pub fn with_digests(lab: &Lab, pages: u64, shards: usize, mut row: Row) -> Result<Row, String> {
    let (mut digests, status) = (lab.digests()?, lab.status()?);
    // What has left or was split stays in its folder for a minute or two.
    for (shard, replicas) in &mut digests {
        let holders = status.holders(*shard);
        replicas.retain(|(name, ..)| holders.contains(name));
    }
    digests.retain(|_, replicas| !replicas.is_empty());
    let mut sum = 0;
    for (shard, replicas) in &digests {
        sum += replicas.first().map_or(0, |replica| replica.1);
        if replicas.len() < REPLICAS {
            row.broken.push(format!("shard {shard} has {} replicas", replicas.len()));
        }
        if replicas.windows(2).any(|pair| (pair[0].1, &pair[0].2) != (pair[1].1, &pair[1].2)) {
            row.broken.push(format!("shard {shard} differs: {replicas:?}"));
        }
    }
    if digests.len() != shards {
        row.broken.push(format!("{} shards have replicas, {shards} should", digests.len()));
    }
    if sum != pages {
        row.broken.push(format!("{sum} pages in all shards, {pages} before"));
    }
    row.notes.push(format!("digests of {} shards compared, {sum} pages", digests.len()));
    Ok(row)
}

fn newcomer(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let name = "index-3";
    let row = bench.under_load(name, Allowed::default(), |lab, _| {
        lab.node(name)?.kill();
        let folder = lab.data(name).join("index");
        std::fs::remove_dir_all(&folder)
            .map_err(|error| format!("cannot empty {}: {error}", folder.display()))?;
        lab.node(name)?.start()?;
        Ok(Healed::started(name))
    })?;
    Ok(vec![with_digests(&bench.lab, bench.pages, SHARDS, row)?])
}

fn move_replica(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let holders = bench.lab.status()?.holders(1);
    let from = holders.first().cloned().ok_or("shard 1 has no replica")?;
    let to =
        Lab::index_nodes().into_iter().find(|name| !holders.contains(name)).ok_or("nobody can take it")?;
    let row = bench.under_load(&format!("shard 1 from {from} to {to}"), Allowed::default(), |lab, _| {
        lab.order(&["move", "1", "--from", &from, "--to", &to])?;
        let took = lab.wait_for("the replica at its new node", |status| {
            let now = status.holders(1);
            now.contains(&to) && !now.contains(&from)
        })?;
        Ok(Healed { notes: vec![format!("moved after {took:.0} s")], ..Healed::default() })
    })?;
    Ok(vec![with_digests(&bench.lab, bench.pages, SHARDS, row)?])
}

fn split(bench: &mut Bench, _: &History) -> Result<Vec<Row>, String> {
    let shards = bench.lab.status()?.shard_count();
    let row = bench.under_load("shard 0", Allowed::default(), |lab, _| {
        lab.order(&["split", "0"])?;
        let took = lab.wait_for("two halves", |status| status.shard_count() == shards + 1)?;
        Ok(Healed { notes: vec![format!("two halves serve after {took:.0} s")], ..Healed::default() })
    })?;
    Ok(vec![with_digests(&bench.lab, bench.pages, shards + 1, row)?])
}

fn leader_20(bench: &mut Bench, history: &History) -> Result<Vec<Row>, String> {
    let (before, taken) = (bench.per_second, history.terms().takes);
    bench.per_second = before.min(20.0);
    let row = bench.under_load("20 leaders", Allowed::default(), |lab, _| {
        let mut healed = Healed::default();
        let mut longest: f64 = 0.0;
        for nth in 1..=20 {
            let (name, term) = leader(lab)?;
            lab.node(&name)?.kill();
            let since = Instant::now();
            lab.node(&name)?.start()?;
            let mut one = Healed::default();
            next_leader(lab, term, since, &mut one)?;
            healed.broken.extend(one.broken);
            longest = longest.max(since.elapsed().as_secs_f64());
            println!("leader {nth} of 20: {name}, next after {:.0} s", since.elapsed().as_secs_f64());
            // Two nodes that are away at once would be another fault.
            lab.wait_for("a whole cluster", |status| {
                status.is_whole(REPLICAS, None) && status.is_heard(&name, since)
            })?;
        }
        healed.notes.push(format!("longest time without a leader {longest:.0} s"));
        Ok(healed)
    });
    bench.per_second = before;
    // Twenty faults in one row: late seconds are told, and have no bound here.
    let mut row = row?;
    row.broken.retain(|text| !text.contains("late seconds"));
    // The last write is told in a moment.
    std::thread::sleep(Duration::from_secs(3));
    let takes = history.terms().takes - taken;
    if takes < 20 {
        row.broken.push(format!("the watch of the tables saw {takes} leaders of 20"));
    }
    let row = with_history(row, history);
    Ok(vec![with_digests(&bench.lab, bench.pages, SHARDS, row)?])
}
