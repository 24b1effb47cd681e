//! Traces for collectors: steps of questions go to an OpenTelemetry collector, where one is named.
//!
//! Front, broker and desk make a span (`farol::span`) of each step, with the trace's names in its fields
//! ([`farol_base::trace`]); here spans that have ended are gathered and posted ([`otlp`]). Without
//! `OTEL_EXPORTER_OTLP_ENDPOINT` nobody listens, and a span costs the look that finds it out.
//!
//! Promise: a question never waits for a collector. What it does not take in time is dropped and counted.

mod otlp;

use otlp::{Collector, Step};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::FilterFn;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// The standard's own names of these settings.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const SERVICE: &str = "OTEL_SERVICE_NAME";

const TARGET: &str = "farol::span";
/// 4,096 steps of some 500 bytes = 2 MiB.
const WAITING_MAX: usize = 4096;
const POST_AT: usize = 512;
const POST_EVERY: Duration = Duration::from_secs(2);

/// Steps that were dropped because the collector was away or slow.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// What listens for steps: nobody where no collector is named.
///
/// # Errors
/// A sentence, where one is named in a way that nothing can be sent to.
pub fn exporter<S>() -> Result<Option<impl Layer<S>>, String>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let Some(endpoint) = std::env::var(ENDPOINT).ok().filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let service = std::env::var(SERVICE).unwrap_or_else(|_| "farol".to_string());
    let collector =
        Collector::at(&endpoint, service).map_err(|why| format!("{ENDPOINT}={endpoint}: {why}"))?;
    let (steps, waiting) = sync_channel(WAITING_MAX);
    std::thread::Builder::new()
        .name("traces".to_string())
        .spawn(move || post_all(&waiting, &collector))
        .map_err(|error| format!("no thread for traces: {error}"))?;
    Ok(Some(Exporter { steps }.with_filter(FilterFn::new(is_step))))
}

fn is_step(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target() == TARGET && *metadata.level() <= Level::INFO
}

/// Posts what has come every two seconds, until nobody is left who could send.
fn post_all(waiting: &Receiver<Step>, collector: &Collector) {
    let (mut steps, mut posted, mut told) = (Vec::new(), Instant::now(), false);
    loop {
        let left = POST_EVERY.saturating_sub(posted.elapsed());
        let is_over = match waiting.recv_timeout(left) {
            Ok(step) => {
                steps.push(step);
                false
            }
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => true,
        };
        if !steps.is_empty() && (is_over || steps.len() >= POST_AT || posted.elapsed() >= POST_EVERY) {
            let result = collector.post(&steps);
            if let Err(why) = &result {
                DROPPED.fetch_add(steps.len() as u64, Ordering::Relaxed);
                if !told {
                    let dropped = DROPPED.load(Ordering::Relaxed);
                    tracing::warn!(
                        collector = collector.name(),
                        error = why,
                        dropped,
                        "the collector of traces takes nothing"
                    );
                }
            }
            told = result.is_err();
            steps.clear();
        }
        if posted.elapsed() >= POST_EVERY {
            posted = Instant::now();
        }
        if is_over {
            return;
        }
    }
}

struct Exporter {
    steps: SyncSender<Step>,
}

impl<S> Layer<S> for Exporter
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut step = Step::new(attributes.metadata().name(), now());
        attributes.record(&mut Fields(&mut step));
        span.extensions_mut().insert(step);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(step) = span.extensions_mut().get_mut::<Step>() {
            values.record(&mut Fields(step));
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(mut step) = span.extensions_mut().remove::<Step>() else { return };
        step.ended = now();
        match self.steps.try_send(step) {
            Ok(()) => (),
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                DROPPED.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

/// Nanoseconds since 1970, as collectors want them.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}

/// Reads a span's fields into a step.
struct Fields<'a>(&'a mut Step);

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.set(field.name(), value.to_string());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.set(field.name(), format!("{value:?}"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Read, Write};
    use std::net::TcpListener;
    use tracing_subscriber::layer::SubscriberExt;

    /// A collector that takes one post.
    fn listen() -> (String, std::thread::JoinHandle<(String, serde_json::Value)>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let taken = std::thread::spawn(move || {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(stream);
            let (mut first, mut line, mut length) = (String::new(), String::new(), 0);
            reader.read_line(&mut first).unwrap();
            while reader.read_line(&mut line).unwrap() > 2 {
                if let Some(text) = line.to_lowercase().strip_prefix("content-length:") {
                    length = text.trim().parse().unwrap();
                }
                line.clear();
            }
            let mut body = vec![0; length];
            reader.read_exact(&mut body).unwrap();
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
            (first, serde_json::from_slice(&body).unwrap())
        });
        (format!("http://{address}"), taken)
    }

    #[test]
    fn steps_reach_a_collector_with_their_names_and_errors() {
        let (endpoint, taken) = listen();
        let collector = Collector::at(&endpoint, "a-node".to_string()).unwrap();
        let (steps, waiting) = sync_channel(WAITING_MAX);
        let poster = std::thread::spawn(move || post_all(&waiting, &collector));
        let layer = Exporter { steps }.with_filter(FilterFn::new(is_step));
        let question = farol_base::trace::Trace::new();
        let step = question.child();
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let span = tracing::info_span!(
                target: "farol::span", "call", kind = "client", trace = step.id(), step = step.step(),
                parent = step.parent(), shard = 3, error = tracing::field::Empty
            );
            span.record("error", "it is away");
            drop(span);
            let _other = tracing::info_span!("not a step of a question");
        });
        // The last sender is gone: what is left is posted.
        poster.join().unwrap();
        let (first, body) = taken.join().unwrap();
        assert_eq!(first.trim(), "POST /v1/traces HTTP/1.1");
        let resource = &body["resourceSpans"][0];
        assert_eq!(resource["resource"]["attributes"][0]["value"]["stringValue"], "a-node");
        let spans = resource["scopeSpans"][0]["spans"].as_array().unwrap();
        assert_eq!(spans.len(), 1);
        let span = &spans[0];
        assert_eq!(
            (span["traceId"].as_str(), span["spanId"].as_str()),
            (Some(&*step.id()), Some(&*step.step()))
        );
        assert_eq!(span["parentSpanId"].as_str(), Some(&*question.step()));
        assert_eq!((span["name"].as_str(), span["kind"].as_u64()), (Some("call"), Some(3)));
        assert_eq!(span["status"], serde_json::json!({ "code": 2, "message": "it is away" }));
        assert_eq!(
            span["attributes"][0],
            serde_json::json!({ "key": "shard", "value": { "stringValue": "3" } })
        );
        let at = |name: &str| span[name].as_str().unwrap().parse::<u64>().unwrap();
        assert!(at("startTimeUnixNano") > 0 && at("endTimeUnixNano") >= at("startTimeUnixNano"));
    }

    #[test]
    fn who_is_away_costs_nobody_anything() {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let collector = Collector::at(&format!("http://{free}"), "farol".to_string()).unwrap();
        let before = DROPPED.load(Ordering::Relaxed);
        let (steps, waiting) = sync_channel(WAITING_MAX);
        steps.send(Step::new("request", 1)).unwrap();
        drop(steps);
        post_all(&waiting, &collector);
        assert!(DROPPED.load(Ordering::Relaxed) > before);
    }
}
