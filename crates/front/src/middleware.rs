//! The middleware that every request and every response passes.
//!
//! Only requests for names that are ours are served: another name was pointed at us by somebody who wants to read our
//! pages through a visitor's browser ([`client::is_our_name`]).
//!
//! Limits: a URL has at most [`URI_BYTES_MAX`] bytes, a request takes at most [`REQUEST_TIME_MAX`] with its body,
//! and a client asks at most [`crate::Settings::rate_per_minute`] questions a minute. A handler that panics costs
//! its own request and nothing else.

use crate::failure::{Failure, FailureKind};
use crate::shared::Shared;
use crate::text::Visitor;
use crate::{api, client, headers, pages, trace};
use axum::extract::{MatchedPath, Request, State};
use axum::http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Uri};
use axum::middleware::Next;
use axum::response::Response;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest path and query; a question has at most 2 KiB, which escapes to 6 KiB.
const URI_BYTES_MAX: usize = 8 * 1024;

/// Longest that a request may take, reading its body and waiting for the engine included.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(30);

/// Admits a request, runs its handler, renders its failure, secures and counts the response.
pub(crate) async fn handle(State(shared): State<Arc<Shared>>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let uri = request.uri().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let visitor = Visitor::of(&uri, request.headers());
    let mut response = match admit(&shared, &request, route.as_ref()) {
        Ok(()) => serve(request, next).await,
        Err(failure) => axum::response::IntoResponse::into_response(failure),
    };
    if let Some(failure) = response.extensions_mut().remove::<Failure>() {
        response = render_failure(&shared, &uri, &visitor, failure, response);
    }
    headers::secure(response.headers_mut());
    let route = route.as_ref().map_or("unmatched", MatchedPath::as_str);
    shared.request_metrics.count(route, response.status().as_u16(), start.elapsed());
    response
}

/// Refuses what is too long or too much.
fn admit(shared: &Shared, request: &Request, route: Option<&MatchedPath>) -> Result<(), Failure> {
    if request.uri().path_and_query().is_some_and(|text| text.as_str().len() > URI_BYTES_MAX) {
        return Err(Failure::new(FailureKind::TooLong, format!("the limit is {URI_BYTES_MAX} bytes")));
    }
    if let Some(name) = client::authority(request.uri(), request.headers())
        && !client::is_our_name(name, &shared.settings)
    {
        let advice = "name it in public_url under [identity] or in names under [serve]";
        return Err(Failure::new(
            FailureKind::Misdirected,
            format!("{name:?} is no name of this engine; {advice}"),
        ));
    }
    if !shared.settings.trust_forwarded && client::is_forwarded(request.headers()) {
        shared.tell_of_proxy();
    }
    let cost = cost(route.map_or("", MatchedPath::as_str));
    let client = client::address(request.extensions(), request.headers(), &shared.settings);
    shared.limiter.take(client, cost, shared.now()).map_err(|wait| {
        let failure = Failure::new(FailureKind::TooMany, "");
        Failure { retry_after_secs: Some(wait.as_secs() + 1), ..failure }
    })
}

/// What a request takes out of its client's bucket: 1 for a question. Somebody who types asks for many
/// suggestions, so those are cheap; what costs the engine nothing is free.
fn cost(route: &str) -> f64 {
    match route {
        "/search" | "/api/v1/search" | "/copy" | "/copy/raw" => 1.0,
        "/suggest" | "/api/v1/suggest" | "/clicked" => 0.1,
        _ => 0.0,
    }
}

/// Runs the handler in a task of its own, so that a panic ends there, and within the time limit.
async fn serve(request: Request, next: Next) -> Response {
    let trace = trace::of(request.headers());
    let path = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str);
    // Ended with the request, however that ends; what it is for, see `farol_base::trace`.
    let _span = tracing::info_span!(
        target: "farol::span", "request", kind = "server",
        trace = trace.id(), step = trace.step(), parent = trace.parent(), path
    );
    let mut task = tokio::spawn(trace::during(trace, next.run(request)));
    let failure = match tokio::time::timeout(REQUEST_TIME_MAX, &mut task).await {
        Ok(Ok(response)) => return response,
        Ok(Err(error)) => {
            tracing::error!(%error, "a request handler broke off");
            Failure::internal()
        }
        Err(_) => {
            task.abort();
            Failure::busy()
        }
    };
    axum::response::IntoResponse::into_response(failure)
}

/// Renders a failure, for people or for programs.
fn render_failure(
    shared: &Shared,
    uri: &Uri,
    visitor: &Visitor,
    failure: Failure,
    bare: Response,
) -> Response {
    let path = uri.path();
    let for_programs = path.starts_with("/api/") || matches!(path, "/suggest" | "/metrics" | "/healthz");
    let mut response = if for_programs {
        api::error(&failure)
    } else if failure.kind == FailureKind::TokenNeeded && path.starts_with("/admin") {
        crate::admin::login::ask(shared, visitor, &failure)
    } else {
        pages::failure::show(shared, visitor, uri, &failure)
    };
    if let Some(allow) = bare.headers().get(ALLOW) {
        response.headers_mut().insert(ALLOW, allow.clone());
    }
    if let Some(secs) = failure.retry_after_secs {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(secs));
    }
    if failure.kind == FailureKind::TokenNeeded {
        let challenge = HeaderValue::from_static("Bearer realm=\"farol\"");
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge);
    }
    response
}
