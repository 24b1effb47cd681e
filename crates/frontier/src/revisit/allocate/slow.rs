//! A slow exact solver, the judge of [`super::polite()`]: hands out the channel in ever smaller coins.
//!
//! Each coin goes from the page that misses it least to the page that gains most, within the delays. It uses nothing
//! but the values of the freshness function: no derivative, no level, no price. For small cases in tests.

use super::{Page, Server};

pub(super) fn solve(servers: &[Server<'_>], channel: f64) -> Vec<Vec<f64>> {
    let mut given: Vec<Vec<f64>> = servers.iter().map(|server| vec![0.0; server.pages.len()]).collect();
    let value = |page: &Page, f: f64| page.weight() * page.change.freshness(f.max(0.0));
    let mut coin = channel / 4.0;
    while coin > channel * 1e-9 {
        loop {
            let visits: Vec<f64> = given.iter().map(|pages| pages.iter().sum()).collect();
            let free = channel - visits.iter().sum::<f64>();
            let mut best = (0.0, None);
            for (s, server) in servers.iter().enumerate() {
                let room = server.delay == 0.0 || visits[s] + coin <= 1.0 / server.delay + 1e-15;
                for (p, page) in server.pages.iter().enumerate() {
                    let f = given[s][p];
                    let gain = value(page, f + coin) - value(page, f);
                    if room && free >= coin * (1.0 - 1e-9) && gain > best.0 {
                        best = (gain, Some((s, p, None)));
                    }
                    for (t, other) in servers.iter().enumerate() {
                        for (q, giver) in other.pages.iter().enumerate() {
                            if given[t][q] < coin || (s, p) == (t, q) || !(room || s == t) {
                                continue;
                            }
                            let net = gain - (value(giver, given[t][q]) - value(giver, given[t][q] - coin));
                            if net > best.0 {
                                best = (net, Some((s, p, Some((t, q)))));
                            }
                        }
                    }
                }
            }
            // A gain in the last digits is no gain.
            let (gain, Some((s, p, from))) = best else { break };
            if gain < 1e-15 {
                break;
            }
            given[s][p] += coin;
            if let Some((t, q)) = from {
                given[t][q] -= coin;
            }
        }
        coin /= 2.0;
    }
    given
}
