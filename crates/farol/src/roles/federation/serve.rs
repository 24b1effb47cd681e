//! Lets a consumer fetch its packets.

use super::desk::{Desk, ToldAgreement};
use crate::federation::door::Reply;
use hyper::{HeaderMap, StatusCode};

pub fn list(_: &Desk, _: &ToldAgreement, _: &str) -> Reply {
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, "later")
}

pub fn get(_: &Desk, _: &ToldAgreement, _: u64, _: &HeaderMap) -> Reply {
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, "later")
}
