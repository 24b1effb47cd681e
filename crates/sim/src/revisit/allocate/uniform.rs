//! Every page that changes is visited equally often, as far as its server bears it. A yardstick.

use super::{Allocation, Share, fill};
use farol_frontier::revisit::allocate::{Error, Page, Server, validate};

/// Allocates `channel` visits per second, the same to each active page; servers that bear less get less.
///
/// # Errors
///
/// See [`Error`].
pub fn uniform(servers: &[Server<'_>], channel: f64) -> Result<Allocation, Error> {
    validate(servers, channel)?;
    let active =
        |server: &Server<'_>| server.pages.iter().filter(|page: &&Page| page.is_active()).count() as f64;
    let wants: Vec<f64> = servers.iter().map(active).collect();
    let each = fill(servers, &wants, channel);
    let rates = each.iter().zip(&wants).map(|(each, want)| each * want).collect();
    Ok(Allocation { price: 0.0, shares: each.into_iter().map(Share::Equal).collect(), rates })
}
