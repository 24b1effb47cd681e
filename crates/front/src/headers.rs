//! Security headers, on every response.
//!
//! A handler that needs a different value (the frame of a stored copy) sets it itself; what is set stays.

use axum::http::header::{CACHE_CONTROL, HeaderName};
use axum::http::{HeaderMap, HeaderValue};

/// Nothing may load or run but our own files. `connect-src` is for suggestions and live charts.
pub(crate) const CSP: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
     img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

/// The page around a stored copy may also hold one frame of ours.
pub(crate) const CSP_WITH_FRAME: &str = "default-src 'none'; style-src 'self'; script-src 'self'; \
     connect-src 'self'; img-src 'self' data:; frame-src 'self'; form-action 'self'; frame-ancestors 'none'; \
     base-uri 'none'";

/// A stored copy: no scripts, forms, network or plug-ins; only what the page itself carries inline.
pub(crate) const CSP_OF_COPY: &str = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; \
     font-src data:; form-action 'none'; frame-ancestors 'self'; base-uri 'none'";

const ALWAYS: [(&str, &str); 8] = [
    ("content-security-policy", CSP),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
    ("referrer-policy", "no-referrer"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    (
        "permissions-policy",
        "camera=(), microphone=(), geolocation=(), payment=(), usb=(), interest-cohort=(), browsing-topics=()",
    ),
    ("x-dns-prefetch-control", "off"),
];

/// Adds what is not there yet.
pub(crate) fn secure(headers: &mut HeaderMap) {
    for (name, value) in ALWAYS {
        headers.entry(HeaderName::from_static(name)).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-cache"));
}
