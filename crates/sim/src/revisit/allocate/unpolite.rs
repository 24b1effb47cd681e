//! The UNPOLITE bound: the greatest freshness under the channel alone, as if servers bore any number of requests.

use super::{Allocation, polite};
use farol_frontier::revisit::allocate::{Error, Server, validate};

/// Allocates `channel` visits per second without regard for delays.
///
/// # Errors
///
/// See [`Error`]; a channel without limit is one here.
pub fn unpolite(servers: &[Server<'_>], channel: f64) -> Result<Allocation, Error> {
    validate(servers, channel)?;
    let patient: Vec<Server<'_>> = servers.iter().map(|server| Server { delay: 0.0, ..*server }).collect();
    polite(&patient, channel)
}
