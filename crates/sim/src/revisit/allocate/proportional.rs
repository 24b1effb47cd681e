//! Every page is visited in proportion to how often it changes, as far as its server bears it. A yardstick.
//!
//! It looks right and is worse than [`super::uniform()`]: most visits go to pages that have changed again by
//! the time anybody looks \[Cho03b\].

use super::{Allocation, Share, fill};
use farol_frontier::revisit::allocate::{Error, Page, Server, validate};

/// Allocates `channel` visits per second in proportion to rates of change; servers that bear less get less.
///
/// # Errors
///
/// See [`Error`].
pub fn proportional(servers: &[Server<'_>], channel: f64) -> Result<Allocation, Error> {
    validate(servers, channel)?;
    let changes = |server: &Server<'_>| {
        server.pages.iter().filter(|page: &&Page| page.is_active()).map(|page| page.change.rate()).sum()
    };
    let wants: Vec<f64> = servers.iter().map(changes).collect();
    let per_change = fill(servers, &wants, channel);
    let rates = per_change.iter().zip(&wants).map(|(visits, want)| visits * want).collect();
    Ok(Allocation { price: 0.0, shares: per_change.into_iter().map(Share::PerChange).collect(), rates })
}
