//! The trace of a request: what joins its log lines with those of other nodes, and of what stands before the front.

use axum::http::HeaderMap;
use farol_base::trace::Trace;
use std::future::Future;

tokio::task_local! {
    static TRACE: Trace;
}

/// The step of this request: of the trace that its sender names (`traceparent`), or of a new one.
pub(crate) fn of(headers: &HeaderMap) -> Trace {
    let named = headers.get("traceparent").and_then(|value| Trace::parse(value.to_str().ok()?));
    named.map_or_else(Trace::new, Trace::child)
}

/// Runs a future as part of a trace.
pub(crate) fn during<F: Future>(trace: Trace, future: F) -> impl Future<Output = F::Output> {
    TRACE.scope(trace, future)
}

/// The trace that this task is part of.
pub(crate) fn current() -> Option<Trace> {
    TRACE.try_with(|trace| *trace).ok()
}
