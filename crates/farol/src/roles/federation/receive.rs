//! Takes packets in.

use super::desk::{Desk, ToldAgreement};
use crate::federation::door::{Asked, Reply};
use hyper::StatusCode;

pub fn put(_: &Desk, _: &ToldAgreement, _: u64, _: &Asked) -> Reply {
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, "later")
}

pub fn head(_: &Desk, _: &ToldAgreement, _: u64) -> Reply {
    Reply::text(StatusCode::SERVICE_UNAVAILABLE, "later")
}
