//! The simplest client of cache nodes, for [`super::replay`]: so many callers, a connection and a thread each, that ask for
//! what is there, one question after another, as fast as they are answered. What a front adds (keys, monitors, flights,
//! reading the answer) is not in it.

use crate::ring::PeerOf;
use crate::ring::tables::RingTables;
use crate::wire::v1::cache::{
    CacheHead, InsertReply, InsertRequest, LookupReply, LookupRequest, WireAged, WireAnswer, WireEntry,
    WireKept, WireLookup, WireSender, verb,
};
use anyhow::{Context, Result, bail, ensure};
use farol_base::query::Answer;
use farol_cache::NodeId;
use farol_cache::key::QueryKey;
use farol_cluster::NodeId as ClusterNode;
use farol_rpc::{Client, ClientSettings, TlsSettings};
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nothing on loopback takes longer, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(10);

pub struct RawLoad {
    pub time: Duration,
    pub callers: usize,
    pub tls: Option<TlsSettings>,
    pub tables: Arc<RingTables>,
    pub peer_of: PeerOf,
}

/// A question, and who has its answer.
struct RawQuestion {
    key: String,
    node: NodeId,
}

/// Puts an answer in for each text, asks for them, and tells how often it was answered.
pub fn run(asked: &RawLoad, texts: &[String], answer: &Answer, as_json: bool) -> Result<()> {
    let ring = asked.tables.now().ring.context("the cache nodes have no ring yet")?;
    let kept: Vec<RawQuestion> = texts
        .iter()
        .filter_map(|text| {
            let key = QueryKey::of_sent(text, ring.seed);
            Some(RawQuestion { node: ring.ring.owner(key.hash())?, key: text.clone() })
        })
        .collect();
    ensure!(!kept.is_empty(), "there is nothing to ask for");
    let head = CacheHead { ring: ring.epoch.into(), from: WireSender::Front(0) };
    let bytes = postcard::to_stdvec(&WireAnswer::from(answer))?;
    one_caller(asked, async |client| {
        for one in &kept {
            let kept = WireKept { answer: bytes.clone(), spelling: None };
            let entry =
                WireEntry { key: one.key.clone(), aged: WireAged { kept, age_ms: 0, state: 1 }, uses: 0 };
            let request = InsertRequest { head, entry, lease: None };
            let peer = (asked.peer_of)(one.node).context("nobody knows where a cache node is")?;
            let deadline = Instant::now() + PATIENCE;
            let _: InsertReply = client.call(&peer, verb::INSERT, &request, deadline).await?;
        }
        Ok(0)
    })?;
    let begun = Instant::now();
    let ends = begun + asked.time;
    let counts: Vec<Result<u64>> = std::thread::scope(|scope| {
        let callers: Vec<_> = (0..asked.callers)
            .map(|caller| {
                scope.spawn({
                    let kept = &kept;
                    move || {
                        one_caller(asked, async |client| {
                            ask(client, asked, head, &kept[..], caller, ends).await
                        })
                    }
                })
            })
            .collect();
        callers
            .into_iter()
            .map(|caller| match caller.join() {
                Ok(counted) => counted,
                Err(_) => bail!("a caller broke down"),
            })
            .collect()
    });
    let mut hits = 0;
    for counted in counts {
        hits += counted?;
    }
    let secs = begun.elapsed().as_secs_f64();
    let (callers, size) = (asked.callers, bytes.len());
    match as_json {
        true => println!(
            "{}",
            json!({
                "total": true, "asked": hits, "failed": 0, "made": 0, "seconds": secs, "answer_bytes": size,
                "counters": { "hits": hits },
            })
        ),
        false => println!(
            "{callers} callers: {:.0} answers of {size} bytes a second",
            hits as f64 / secs.max(1e-9)
        ),
    }
    Ok(())
}

/// Runs a caller on this thread, with a client, and so a connection, of its own.
fn one_caller(asked: &RawLoad, work: impl AsyncFnOnce(&Client) -> Result<u64>) -> Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let node = asked.tls.is_none().then(|| ClusterNode(0).to_string());
    let settings = ClientSettings { node, tls: asked.tls.clone(), ..ClientSettings::default() };
    let client = Client::new(settings, runtime.handle().clone());
    runtime.block_on(work(&client))
}

async fn ask(
    client: &Client,
    asked: &RawLoad,
    head: CacheHead,
    kept: &[RawQuestion],
    from: usize,
    ends: Instant,
) -> Result<u64> {
    let mut hits = 0;
    for one in kept.iter().cycle().skip(from) {
        if Instant::now() >= ends {
            break;
        }
        let request = LookupRequest { head, key: one.key.clone(), need: 1, lease_wanted: false };
        let peer = (asked.peer_of)(one.node).context("nobody knows where a cache node is")?;
        let deadline = Instant::now() + PATIENCE;
        let reply: LookupReply = client.call(&peer, verb::LOOKUP, &request, deadline).await?;
        match reply.found {
            WireLookup::Hit(_) => hits += 1,
            other => bail!("an answer that was put in is not there: {other:?}"),
        }
    }
    Ok(hits)
}
