//! Logs on streams: append, read from a mark, trim.

use super::api::{self, Api, Trouble};
use super::backoff::Backoff;
use super::reader::{Begin, Reader};
use super::streams::{StreamInfo, Streams};
use crate::{Away, Read, Refused, Seq, StreamId, Topic};
use bytes::Bytes;
use farol_base::sync::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// How long an append may take. A stream whose leader died takes 4 to 7 s to go on.
pub const APPEND: Duration = Duration::from_secs(8);

/// How long trimming may take.
const TRIM: Duration = Duration::from_secs(8);

/// A pull waits no longer than this, so that a dead consumer is noticed.
const PULL_WAIT_MAX: Duration = Duration::from_secs(5);

/// Readers that rest between two reads, of one topic: one for each position that somebody reads at.
const RESTING_MAX: usize = 4;

/// A reader with the stream it was opened on.
struct Open {
    reader: Reader,
    stream: StreamId,
}

/// Readers that rest, by topic.
#[derive(Default)]
pub struct Logs {
    resting: Mutex<HashMap<Topic, Vec<Open>>>,
}

impl Logs {
    fn take(&self, topic: &Topic, after: u64) -> Option<Open> {
        let mut resting = self.resting.lock();
        let readers = resting.get_mut(topic)?;
        readers.retain(|open| open.reader.is_fresh());
        let at = readers.iter().position(|open| open.reader.at() == after)?;
        Some(readers.swap_remove(at))
    }

    fn rest(&self, topic: &Topic, open: Open) {
        let mut resting = self.resting.lock();
        let readers = resting.entry(*topic).or_default();
        if readers.len() >= RESTING_MAX {
            readers.remove(0);
        }
        readers.push(open);
    }

    /// What the topic's stream is now. Readers that rest on another are dropped: what waits in their inboxes is of a
    /// stream that is gone.
    async fn look(&self, api: &Api, streams: &Streams, topic: &Topic) -> Result<StreamInfo, Trouble> {
        let info = streams.log(api, topic).await?;
        if let Some(readers) = self.resting.lock().get_mut(topic) {
            readers.retain(|open| open.stream == info.id);
        }
        Ok(info)
    }

    /// Up to `max` batches that follow `after`; waits for the first of them, and for NATS to answer at all.
    pub async fn read(
        &self,
        api: &Api,
        streams: &Streams,
        topic: &Topic,
        after: u64,
        max: usize,
        wait: Duration,
    ) -> Result<Read, Away> {
        let until = Instant::now() + wait;
        let mut backoff = Backoff::default();
        loop {
            match self.try_read(api, streams, topic, after, max, until).await {
                Ok(Some(read)) => return Ok(read),
                Ok(None) => {}
                Err(trouble) => {
                    let rest = backoff.next_rest();
                    if Instant::now() + rest >= until {
                        tokio::time::sleep_until(until).await;
                        return Err(Away(format!("{topic} cannot be read: {trouble}")));
                    }
                    tokio::time::sleep(rest).await;
                }
            }
        }
    }

    /// `None` where a pull ended before its time.
    async fn try_read(
        &self,
        api: &Api,
        streams: &Streams,
        topic: &Topic,
        after: u64,
        max: usize,
        until: Instant,
    ) -> Result<Option<Read>, Trouble> {
        let mut open = match self.take(topic, after) {
            Some(open) => open,
            None => {
                let info = self.look(api, streams, topic).await?;
                let is_short = info.end < after;
                if is_short || max == 0 {
                    return Ok(Some(Read { stream: info.id, items: Vec::new(), end: Seq(info.end) }));
                }
                let subject = topic.subject(&streams.cluster);
                let reader = Reader::open(api, &info.fill.name, &subject, Begin::After(after)).await?;
                // The stream may have been replaced between the two questions.
                if self.look(api, streams, topic).await?.id != info.id {
                    return Ok(None);
                }
                Open { reader, stream: info.id }
            }
        };
        let left = until.saturating_duration_since(Instant::now()).min(PULL_WAIT_MAX);
        let pulled = open.reader.pull(api, max, left).await?;
        let stream = open.stream;
        if let Some(last) = pulled.items.last() {
            let end = Seq(last.seq + pulled.pending);
            let items = pulled.items.into_iter().map(|item| (Seq(item.seq), item.payload)).collect();
            self.rest(topic, open);
            return Ok(Some(Read { stream, items, end }));
        }
        // Nothing came: is it the same stream still, and as long as it was?
        let info = self.look(api, streams, topic).await?;
        if info.id != stream || info.end < after {
            return Ok(Some(Read { stream: info.id, items: Vec::new(), end: Seq(info.end) }));
        }
        self.rest(topic, open);
        let is_over = Instant::now() >= until;
        Ok(is_over.then(|| Read { stream, items: Vec::new(), end: Seq(info.end) }))
    }
}

/// Appends a batch, and makes the stream where there is none.
pub async fn append(api: &Api, streams: &Streams, topic: &Topic, bytes: Bytes) -> Result<Seq, Refused> {
    let subject = topic.subject(&streams.cluster);
    let until = Instant::now() + APPEND;
    let left = || until.saturating_duration_since(Instant::now());
    let mut appended = api.send(&subject, None, bytes.clone(), left()).await;
    if appended == Err(Trouble::Nobody) {
        // No stream takes this subject, or its leader is gone.
        streams.log(api, topic).await.map_err(|trouble| away(topic, &trouble))?;
        appended = api.send(&subject, None, bytes, left()).await;
    }
    match appended {
        Ok(answer) => match answer.get("seq").and_then(Value::as_u64) {
            // A server acknowledged what it had refused before: nothing was stored.
            None | Some(0) => Err(Refused::Away(format!("{topic} was acknowledged without a number"))),
            Some(seq) => Ok(Seq(seq)),
        },
        Err(Trouble::Refused { code: api::STORE_FAILED, text }) if text.contains("maximum") => {
            Err(Refused::Full)
        }
        Err(trouble) => Err(away(topic, &trouble)),
    }
}

fn away(topic: &Topic, trouble: &Trouble) -> Refused {
    Refused::Away(format!("{topic} takes nothing now: {trouble}"))
}

/// Forgets a topic's batches up to and including a number.
pub async fn trim(api: &Api, streams: &Streams, topic: &Topic, upto: Seq) -> Result<(), Away> {
    let stream = topic.stream(&streams.cluster);
    let question = json!({ "filter": topic.subject(&streams.cluster), "seq": upto.0.saturating_add(1) });
    match api.ask(&format!("STREAM.PURGE.{stream}"), question, TRIM).await {
        Ok(_) => Ok(()),
        Err(trouble) if trouble.is(&[api::NO_STREAM]) => Ok(()),
        Err(trouble) => Err(Away(format!("{topic} cannot be trimmed: {trouble}"))),
    }
}
