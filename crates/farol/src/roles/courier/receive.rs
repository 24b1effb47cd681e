//! Reads this agent's log and hands each batch to the crawl, once and in order.
//!
//! After a restart the log is read from its beginning: it was trimmed to what was taken in for good, and what is left is
//! recognised by its number. A batch that is missing is asked for again; until it comes, later ones of its sender are left
//! in the log.

use super::CourierSources;
use super::inbox::{Inbox, Turn};
use super::quota::Quota;
use crate::archive::{Incoming, Received};
use crate::handles::order::Order;
use crate::handover::import::ParcelBatch;
use crate::wire::WireError;
use crate::wire::freight::{Freight, read};
use farol_base::PagePosition;
use farol_cluster::NodeNo;
use farol_fabric::{Seq, StreamId, Topic};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Batches read in one go.
const READ_MAX: usize = 64;
const READ_WAIT: Duration = Duration::from_secs(1);
/// Batches that the crawl was given and has not taken in yet: 32 × 1,000 URLs.
const UNDER_WAY_MAX: u64 = 32;
/// Rest where the log is out of reach, or the crawl busy.
const REST: Duration = Duration::from_millis(50);
/// Rest where a blob is out of reach.
const BLOB_REST: Duration = Duration::from_secs(2);
/// A sender is asked again no sooner.
const ASK_EVERY: Duration = Duration::from_secs(3);
/// It is said so long after the last batch that somebody sends too much.
const SAID: Duration = Duration::from_secs(60);
const TRIM_EVERY: Duration = Duration::from_secs(30);

struct Reading {
    after: Seq,
    stream: Option<StreamId>,
    inbox: Inbox,
    /// Batches in the log that are not taken in for good: their place, sender and number.
    open: VecDeque<(Seq, NodeNo, u64)>,
    /// From where on the log is to be read again, because a batch was missing.
    missing: BTreeMap<NodeNo, Instant>,
    quota: Quota,
    begun: Instant,
    /// Until when it is said that somebody sends too much.
    said: Option<Instant>,
}

pub fn run(sources: &CourierSources, stop: &AtomicBool) {
    let topic = Topic::Urls(sources.me.0);
    let mut reading = Reading {
        after: Seq(0),
        stream: None,
        inbox: Inbox::new(sources.desk.received.lock().clone()),
        open: VecDeque::new(),
        missing: BTreeMap::new(),
        quota: Quota::new(sources.per_minute),
        begun: Instant::now(),
        said: None,
    };
    let mut trimmed = Instant::now();
    while !stop.load(Ordering::SeqCst) {
        // Who is no member, or has decided to leave, must not take anything any more.
        if !sources.rights.is_leased() {
            std::thread::sleep(REST);
            continue;
        }
        match sources.fabric.read(&topic, reading.after, READ_MAX, READ_WAIT) {
            Ok(read) => {
                let is_another = reading.stream.is_some_and(|known| known != read.stream);
                if is_another || (read.items.is_empty() && read.end < reading.after) {
                    tracing::info!("the log of URLs is not what it was: it is read from its beginning");
                    (reading.after, reading.stream) = (Seq(0), Some(read.stream));
                    reading.open.clear();
                    continue;
                }
                reading.stream = Some(read.stream);
                for (seq, bytes) in read.items {
                    if take(sources, &mut reading, seq, &bytes, stop).is_err() {
                        return;
                    }
                    reading.after = seq;
                }
            }
            Err(away) => {
                tracing::debug!(%away, "the log of URLs is out of reach");
                std::thread::sleep(REST);
            }
        }
        if reading.said.is_some_and(|at| at.elapsed() >= SAID) {
            reading.said = None;
            sources.board.complain("exchange", "");
        }
        if trimmed.elapsed() >= TRIM_EVERY {
            trimmed = Instant::now();
            trim(sources, &mut reading, &topic);
        }
    }
}

/// The crawl has ended, or is to.
struct CrawlEnded;

fn take(
    sources: &CourierSources,
    reading: &mut Reading,
    seq: Seq,
    bytes: &[u8],
    stop: &AtomicBool,
) -> Result<(), CrawlEnded> {
    let counters = &sources.desk.counters;
    let (head, body) = match read(bytes) {
        Ok(batch) => batch,
        Err(error) => {
            counters.damaged.fetch_add(1, Ordering::Relaxed);
            sources.board.dead.take(Topic::Urls(sources.me.0), seq.0, bytes, &error);
            return Ok(());
        }
    };
    let from = NodeNo(head.from);
    if !reading.quota.has_room(from, reading.begun.elapsed()) {
        counters.put_off.fetch_add(1, Ordering::Relaxed);
        if reading.said.is_none() {
            let text = format!(
                "agent {from} sends more than {} URLs a minute: what is more waits, and is sent again; look at what it crawls",
                sources.per_minute
            );
            tracing::warn!("{text}");
            sources.board.complain("exchange", &text);
        }
        reading.said = Some(Instant::now());
        return Ok(());
    }
    match reading.inbox.turn(from, head.number, head.kept) {
        Turn::Known => {
            reading.open.push_back((seq, from, head.number));
            return Ok(());
        }
        Turn::Gap(missing) => {
            let is_due = reading.missing.get(&from).is_none_or(|asked| asked.elapsed() >= ASK_EVERY);
            if is_due {
                reading.missing.insert(from, Instant::now());
                tracing::info!(from = from.0, missing, got = head.number, "a batch of URLs is missing");
                (sources.ask_again)(
                    from,
                    Topic::Urls(sources.me.0),
                    PagePosition { file: 0, offset: missing },
                );
            }
            // It comes once more, behind the one that is missing.
            return Ok(());
        }
        Turn::Take { lost } => {
            counters.lost.fetch_add(lost, Ordering::Relaxed);
            if lost > 0 {
                tracing::warn!(
                    from = from.0,
                    lost,
                    "batches never came: their sender gave them to others while this agent was gone, or has lost them"
                );
            }
        }
    }
    let freight = unpack(sources, body, stop)?.map_err(|error| {
        counters.damaged.fetch_add(1, Ordering::Relaxed);
        let why = format!("number {} of agent {}: {error}", head.number, from.0);
        sources.board.dead.take(Topic::Urls(sources.me.0), seq.0, bytes, &why);
    });
    while sources.desk.under_way.load(Ordering::SeqCst) >= UNDER_WAY_MAX {
        if stop.load(Ordering::SeqCst) {
            return Err(CrawlEnded);
        }
        std::thread::sleep(REST);
    }
    sources.desk.under_way.fetch_add(1, Ordering::SeqCst);
    reading.open.push_back((seq, from, head.number));
    reading.quota.took(from, weight(&freight));
    let batch = Received { from, number: head.number, freight: freight.ok() };
    sources.crawl.order(Order::Received(batch)).map_err(|_| CrawlEnded)
}

/// What a batch counts of its sender's quota. Hosts that are handed over have a pace of their own.
fn weight<E>(freight: &Result<Incoming, E>) -> u64 {
    match freight {
        Ok(Incoming::Urls(body)) => {
            let urls: usize = body.hosts.iter().map(|host| host.urls.len().max(1)).sum();
            (urls + body.learned.len()).max(1) as u64
        }
        Ok(Incoming::Notes(notes)) => notes.notes.len().max(1) as u64,
        Ok(Incoming::Parcel(_)) | Err(_) => 1,
    }
}

/// What a batch brings, with the blob that it names; waits where that is out of reach.
fn unpack(
    sources: &CourierSources,
    freight: Result<Freight, WireError>,
    stop: &AtomicBool,
) -> Result<Result<Incoming, String>, CrawlEnded> {
    let envelope = match freight {
        Ok(Freight::Urls(body)) => return Ok(Ok(Incoming::Urls(body))),
        Ok(Freight::Notes(notes)) => return Ok(Ok(Incoming::Notes(notes))),
        Ok(Freight::Parcel(envelope)) => envelope,
        Err(error) => return Ok(Err(error.to_string())),
    };
    loop {
        match ParcelBatch::open(envelope.clone(), sources.blobs.as_deref()) {
            Err(error) if error.is_away() && !stop.load(Ordering::SeqCst) => {
                tracing::info!(%error, "hosts from another agent wait for a blob");
                std::thread::sleep(BLOB_REST);
            }
            Err(error) if error.is_away() => return Err(CrawlEnded),
            read => return Ok(read.map(Incoming::Parcel).map_err(|error| error.to_string())),
        }
    }
}

/// Lets the log forget what is taken in for good.
fn trim(sources: &CourierSources, reading: &mut Reading, topic: &Topic) {
    // What no backup holds is still needed by whoever might have to bury this agent.
    let done = match &sources.blobs {
        Some(_) => sources.desk.backed_up.lock().clone(),
        None => sources.desk.received.lock().clone(),
    };
    let mut upto = None;
    while let Some((seq, from, number)) = reading.open.front() {
        if done.get(from).is_none_or(|done| number > done) {
            break;
        }
        upto = Some(*seq);
        reading.open.pop_front();
    }
    if let Some(upto) = upto
        && let Err(away) = sources.fabric.trim(topic, upto)
    {
        tracing::debug!(%away, "the log of URLs is not trimmed");
    }
}
