//! Tables on a stream with one message per key: get, compare-and-set, list, watch.
//!
//! A key's revision is the number of its message; a removed key keeps a marker. The layout is that of a key-value bucket,
//! so that NATS's own tools show it. Reading goes to the stream's leader, never to a follower.

use super::api::{self, Api, Trouble};
use super::backoff::Backoff;
use super::reader::{Begin, Reader, Stored};
use super::streams::Streams;
use crate::watch::WatchFeed;
use crate::{Away, Entry, Lost, Revision, StreamId};
use async_nats::HeaderMap;
use bytes::Bytes;
use data_encoding::BASE64;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

/// How long one question about a key may take. Leases are renewed every 5 s.
pub const CALL: Duration = Duration::from_secs(5);

/// How long listing may take: a thousand keys of the largest size at 50 MB/s.
pub const LIST: Duration = Duration::from_secs(10);

/// A watch looks so often whether its bucket is still the same.
const LOOK: Duration = Duration::from_secs(5);

/// Keys that are listed or watched in one pull.
const PULL: usize = 256;

const REVISION_HEADER: &str = "Nats-Expected-Last-Subject-Sequence";

/// What a key's message says.
struct Found {
    value: Option<Bytes>,
    revision: Revision,
}

async fn find(api: &Api, streams: &Streams, key: &str) -> Result<Option<Found>, Trouble> {
    let question = json!({ "last_by_subj": streams.key_subject(key) });
    let answer = match api.ask(&format!("STREAM.MSG.GET.{}", streams.tables()), question, CALL).await {
        Ok(answer) => answer,
        Err(trouble) if trouble.is(&[api::NO_MESSAGE, api::NO_STREAM]) => return Ok(None),
        Err(trouble) => return Err(trouble),
    };
    let unread = || Trouble::Silent(format!("what it says of key {key} cannot be read"));
    let message = answer.get("message").ok_or_else(unread)?;
    let decoded = |name: &str| {
        let text = message.get(name).and_then(Value::as_str).unwrap_or_default();
        BASE64.decode(text.as_bytes()).map_err(|_| unread())
    };
    let revision = Revision(message.get("seq").and_then(Value::as_u64).ok_or_else(unread)?);
    let headers = String::from_utf8_lossy(&decoded("hdrs")?).into_owned();
    let is_removal = headers.lines().any(|line| {
        let value = line.strip_prefix("KV-Operation:").map(str::trim);
        matches!(value, Some("DEL" | "PURGE"))
    });
    let value = if is_removal { None } else { Some(Bytes::from(decoded("data")?)) };
    Ok(Some(Found { value, revision }))
}

pub async fn get(api: &Api, streams: &Streams, key: &str) -> Result<Option<(Bytes, Revision)>, Away> {
    match find(api, streams, key).await {
        Ok(found) => Ok(found.and_then(|found| Some((found.value?, found.revision)))),
        Err(trouble) => Err(Away(format!("key {key} cannot be read: {trouble}"))),
    }
}

/// Writes a key's next message if the last one has this number.
async fn write(
    api: &Api,
    streams: &Streams,
    key: &str,
    value: Option<Bytes>,
    expected: Revision,
) -> Result<Revision, Trouble> {
    let mut headers = HeaderMap::new();
    headers.insert(REVISION_HEADER, expected.0.to_string().as_str());
    if value.is_none() {
        headers.insert("KV-Operation", "DEL");
    }
    let subject = streams.key_subject(key);
    let answer = api.send(&subject, Some(headers), value.unwrap_or_default(), CALL).await?;
    match answer.get("seq").and_then(Value::as_u64) {
        None | Some(0) => Err(Trouble::Silent("it acknowledged without a number".to_string())),
        Some(seq) => Ok(Revision(seq)),
    }
}

pub async fn set(
    api: &Api,
    streams: &Streams,
    key: &str,
    value: Bytes,
    expected: Revision,
) -> Result<Revision, Lost> {
    let unknown = |trouble: Trouble| Lost::Unknown(format!("key {key} may not be set: {trouble}"));
    let mut written = write(api, streams, key, Some(value.clone()), expected).await;
    if written == Err(Trouble::Nobody) {
        streams.make_tables(api).await.map_err(unknown)?;
        written = write(api, streams, key, Some(value.clone()), expected).await;
    }
    let is_conflict = |trouble: &Trouble| trouble.is(&api::WRONG_REVISION);
    if expected == Revision::NONE && written.as_ref().is_err_and(is_conflict) {
        // A removed key has a marker: the new value follows that.
        let marker = find(api, streams, key).await.map_err(unknown)?;
        let Some(marker) = marker.filter(|found| found.value.is_none()) else { return Err(Lost::Conflict) };
        written = write(api, streams, key, Some(value), marker.revision).await;
    }
    written.map_err(|trouble| if is_conflict(&trouble) { Lost::Conflict } else { unknown(trouble) })
}

pub async fn delete(api: &Api, streams: &Streams, key: &str, expected: Revision) -> Result<(), Lost> {
    match write(api, streams, key, None, expected).await {
        Ok(_) => Ok(()),
        Err(trouble) if trouble.is(&api::WRONG_REVISION) => Err(Lost::Conflict),
        Err(trouble) => Err(Lost::Unknown(format!("key {key} may not be removed: {trouble}"))),
    }
}

/// The subject that a prefix of keys lies in: its whole parts, and everything below.
fn subject_of(streams: &Streams, prefix: &str) -> String {
    let whole = prefix.rfind('.').map_or("", |dot| &prefix[..=dot]);
    streams.key_subject(&format!("{whole}>"))
}

fn entry(streams: &Streams, stored: Stored) -> Option<Entry> {
    let key = stored.subject.strip_prefix(&streams.key_subject(""))?.to_string();
    let value = (!stored.is_removal).then_some(stored.payload);
    Some(Entry { key, value, revision: Revision(stored.seq) })
}

pub async fn list(
    api: &Api,
    streams: &Streams,
    prefix: &str,
) -> Result<Vec<(String, Bytes, Revision)>, Away> {
    let until = Instant::now() + LIST;
    let mut backoff = Backoff::default();
    loop {
        match list_once(api, streams, prefix, until).await {
            Ok(rows) => return Ok(rows),
            // Of several servers one may not know yet that another has just made the reader, and says that nobody is
            // there.
            Err(Trouble::Silent(_)) if Instant::now() < until => {
                tokio::time::sleep(backoff.next_rest()).await
            }
            Err(trouble) => return Err(Away(format!("keys {prefix}* cannot be listed: {trouble}"))),
        }
    }
}

async fn list_once(
    api: &Api,
    streams: &Streams,
    prefix: &str,
    until: Instant,
) -> Result<Vec<(String, Bytes, Revision)>, Trouble> {
    let mut rows: Vec<(String, Option<Bytes>, Revision)> = Vec::new();
    let subject = subject_of(streams, prefix);
    let Some(keys) = streams.subjects(api, &streams.tables(), &subject).await? else {
        return Ok(Vec::new());
    };
    let mut reader = Reader::open(api, &streams.tables(), &subject, Begin::Newest).await?;
    let mut left = reader.pending();
    while left > 0 {
        let wait = until.saturating_duration_since(Instant::now());
        let pulled = reader.pull(api, PULL, wait).await?;
        if pulled.items.is_empty() {
            return Err(Trouble::Silent("nothing came of what there is".to_string()));
        }
        left = pulled.pending;
        let entries = pulled.items.into_iter().filter_map(|stored| entry(streams, stored));
        rows.extend(entries.map(|entry| (entry.key, entry.value, entry.revision)));
    }
    // A key that changed meanwhile stands there twice: the later one counts.
    rows.sort_by(|a, b| a.0.cmp(&b.0).then(b.2.cmp(&a.2)));
    rows.dedup_by(|later, first| later.0 == first.0);
    // The reader may be at a server that has not got yet what the leader has taken.
    if rows.len() < keys {
        return Err(Trouble::Silent(format!("{} of {keys} keys came", rows.len())));
    }
    rows.retain(|(key, ..)| key.starts_with(prefix));
    Ok(rows.into_iter().filter_map(|(key, value, revision)| Some((key, value?, revision))).collect())
}

/// Feeds a watch until nobody watches any more.
pub async fn follow(api: Api, streams: Streams, prefix: String, feed: WatchFeed) {
    let mut seen = Seen::default();
    let mut backoff = Backoff::default();
    while feed.is_watched() {
        if let Err(trouble) = follow_once(&api, &streams, &prefix, &feed, &mut seen, &mut backoff).await {
            tracing::debug!(%trouble, prefix, "a watch begins anew");
        }
        tokio::time::sleep(backoff.next_rest()).await;
    }
}

/// Which bucket a watch has seen, and how far.
#[derive(Default)]
struct Seen {
    bucket: Option<StreamId>,
    revision: u64,
}

async fn follow_once(
    api: &Api,
    streams: &Streams,
    prefix: &str,
    feed: &WatchFeed,
    seen: &mut Seen,
    backoff: &mut Backoff,
) -> Result<(), Trouble> {
    let Some(bucket) = streams.find(api, &streams.tables()).await? else { return Ok(()) };
    if seen.bucket.is_some_and(|id| id != bucket.id) || bucket.end < seen.revision {
        // The bucket was made anew, or has lost its end: its revisions count from there.
        feed.start_over();
        seen.revision = 0;
    }
    seen.bucket = Some(bucket.id);
    let subject = subject_of(streams, prefix);
    let mut reader = Reader::open(api, &streams.tables(), &subject, Begin::Newest).await?;
    backoff.reset();
    while feed.is_watched() {
        let pulled = reader.pull(api, PULL, LOOK).await?;
        for stored in pulled.items {
            seen.revision = seen.revision.max(stored.seq);
            let entry = entry(streams, stored).filter(|entry| entry.key.starts_with(prefix));
            if entry.is_some_and(|entry| !feed.offer(entry)) {
                return Ok(());
            }
        }
    }
    Ok(())
}
