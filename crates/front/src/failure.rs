//! Refusals and failures, before they are rendered.
//!
//! A handler answers `Err(Failure)`. The [`crate::middleware`] renders it on the way out: as a page in the visitor's
//! locale, or as `{"error":{"code","message"}}` where a program asked.

use crate::EngineError;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// Longest detail that is shown, in characters; an engine's message may quote anything.
const DETAIL_CHARS_MAX: usize = 400;

/// What went wrong, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureKind {
    NotFound,
    Invalid,
    TokenNeeded,
    Forbidden,
    WrongMethod,
    WrongMedia,
    TooLarge,
    TooLong,
    TooMany,
    /// Asked by a name that is not ours.
    Misdirected,
    Internal,
    Busy,
    Unavailable,
}

impl FailureKind {
    #[cfg(test)]
    pub const ALL: [FailureKind; 13] = [
        FailureKind::NotFound,
        FailureKind::Invalid,
        FailureKind::TokenNeeded,
        FailureKind::Forbidden,
        FailureKind::WrongMethod,
        FailureKind::WrongMedia,
        FailureKind::TooLarge,
        FailureKind::TooLong,
        FailureKind::TooMany,
        FailureKind::Misdirected,
        FailureKind::Internal,
        FailureKind::Busy,
        FailureKind::Unavailable,
    ];

    pub fn status(self) -> StatusCode {
        match self {
            FailureKind::NotFound => StatusCode::NOT_FOUND,
            FailureKind::Invalid => StatusCode::BAD_REQUEST,
            FailureKind::TokenNeeded => StatusCode::UNAUTHORIZED,
            FailureKind::Forbidden => StatusCode::FORBIDDEN,
            FailureKind::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            FailureKind::WrongMedia => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            FailureKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            FailureKind::TooLong => StatusCode::URI_TOO_LONG,
            FailureKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
            FailureKind::Misdirected => StatusCode::MISDIRECTED_REQUEST,
            FailureKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            FailureKind::Busy | FailureKind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Its name in the API.
    pub fn code(self) -> &'static str {
        match self {
            FailureKind::NotFound => "not_found",
            FailureKind::Invalid => "invalid",
            FailureKind::TokenNeeded => "token_needed",
            FailureKind::Forbidden => "forbidden",
            FailureKind::WrongMethod => "wrong_method",
            FailureKind::WrongMedia => "wrong_media_type",
            FailureKind::TooLarge => "too_large",
            FailureKind::TooLong => "too_long",
            FailureKind::TooMany => "too_many_requests",
            FailureKind::Misdirected => "misdirected",
            FailureKind::Internal => "internal",
            FailureKind::Busy => "busy",
            FailureKind::Unavailable => "unavailable",
        }
    }
}

/// A request that was not served.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub kind: FailureKind,
    /// What exactly, in English; empty where the kind says it all.
    pub detail: String,
    pub retry_after_secs: Option<u64>,
}

impl Failure {
    pub fn new(kind: FailureKind, detail: impl Into<String>) -> Failure {
        let detail: String = detail.into();
        let detail = match detail.char_indices().nth(DETAIL_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &detail[..end]),
            None => detail,
        };
        Failure { kind, detail, retry_after_secs: None }
    }

    pub fn not_found(what: impl Into<String>) -> Failure {
        Failure::new(FailureKind::NotFound, what)
    }

    pub fn invalid(why: impl Into<String>) -> Failure {
        Failure::new(FailureKind::Invalid, why)
    }

    pub fn internal() -> Failure {
        Failure::new(FailureKind::Internal, "")
    }

    pub fn busy() -> Failure {
        Failure { retry_after_secs: Some(2), ..Failure::new(FailureKind::Busy, "") }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Failure {
        match error {
            EngineError::Busy => Failure::busy(),
            EngineError::Unavailable(why) => {
                Failure { retry_after_secs: Some(30), ..Failure::new(FailureKind::Unavailable, why) }
            }
            EngineError::Invalid(why) => Failure::invalid(why),
        }
    }
}

/// Leaves the body empty and takes the failure along, for the middleware to render.
impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = self.kind.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}
