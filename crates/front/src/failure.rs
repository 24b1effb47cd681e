//! Refusals and failures, before anybody has decided how they look.
//!
//! A handler answers `Err(Failure)`. The [`crate::gate`] dresses it on the way out: as a page in the asker's
//! tongue, or as `{"error":{"code","message"}}` where a program asked.

use crate::Trouble;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};

/// Longest detail that is shown, in characters; an engine's message may quote anything.
const DETAIL_CHARS_MAX: usize = 400;

/// What went wrong, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    NotFound,
    Invalid,
    TokenNeeded,
    Forbidden,
    WrongMethod,
    WrongMedia,
    TooLarge,
    TooLong,
    TooMany,
    Internal,
    Busy,
    Unavailable,
}

impl Kind {
    #[cfg(test)]
    pub const ALL: [Kind; 12] = [
        Kind::NotFound,
        Kind::Invalid,
        Kind::TokenNeeded,
        Kind::Forbidden,
        Kind::WrongMethod,
        Kind::WrongMedia,
        Kind::TooLarge,
        Kind::TooLong,
        Kind::TooMany,
        Kind::Internal,
        Kind::Busy,
        Kind::Unavailable,
    ];

    pub fn status(self) -> StatusCode {
        match self {
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Invalid => StatusCode::BAD_REQUEST,
            Kind::TokenNeeded => StatusCode::UNAUTHORIZED,
            Kind::Forbidden => StatusCode::FORBIDDEN,
            Kind::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Kind::WrongMedia => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::TooLong => StatusCode::URI_TOO_LONG,
            Kind::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Kind::Busy | Kind::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Its name in the API.
    pub fn code(self) -> &'static str {
        match self {
            Kind::NotFound => "not_found",
            Kind::Invalid => "invalid",
            Kind::TokenNeeded => "token_needed",
            Kind::Forbidden => "forbidden",
            Kind::WrongMethod => "wrong_method",
            Kind::WrongMedia => "wrong_media_type",
            Kind::TooLarge => "too_large",
            Kind::TooLong => "too_long",
            Kind::TooMany => "too_many_requests",
            Kind::Internal => "internal",
            Kind::Busy => "busy",
            Kind::Unavailable => "unavailable",
        }
    }
}

/// A request that was not served.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub kind: Kind,
    /// What exactly, in English; empty where the kind says it all.
    pub detail: String,
    pub retry_after_secs: Option<u64>,
}

impl Failure {
    pub fn new(kind: Kind, detail: impl Into<String>) -> Failure {
        let detail: String = detail.into();
        let detail = match detail.char_indices().nth(DETAIL_CHARS_MAX) {
            Some((end, _)) => format!("{}…", &detail[..end]),
            None => detail,
        };
        Failure { kind, detail, retry_after_secs: None }
    }

    pub fn not_found(what: impl Into<String>) -> Failure {
        Failure::new(Kind::NotFound, what)
    }

    pub fn invalid(why: impl Into<String>) -> Failure {
        Failure::new(Kind::Invalid, why)
    }

    pub fn internal() -> Failure {
        Failure::new(Kind::Internal, "")
    }

    pub fn busy() -> Failure {
        Failure { retry_after_secs: Some(2), ..Failure::new(Kind::Busy, "") }
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Failure {
        match trouble {
            Trouble::Busy => Failure::busy(),
            Trouble::Unavailable(why) => {
                Failure { retry_after_secs: Some(30), ..Failure::new(Kind::Unavailable, why) }
            }
            Trouble::Invalid(why) => Failure::invalid(why),
        }
    }
}

/// Leaves the body empty and takes the failure along, for the gate to dress.
impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let mut response = self.kind.status().into_response();
        response.extensions_mut().insert(self);
        response
    }
}
