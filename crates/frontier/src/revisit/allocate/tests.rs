//! Tests of the allocation against a slow exact solver; the optimality conditions are checked in `crates/sim`.

mod random_pages;

use super::*;
use farol_base::{Random, Seeded};
use random_pages::{page, random_pages};

fn worth(servers: &[Server<'_>], frequency: impl Fn(usize, usize) -> f64) -> f64 {
    let mut sum = 0.0;
    for (s, server) in servers.iter().enumerate() {
        for (p, page) in server.pages.iter().enumerate() {
            sum += f64::from(page.weight) * page.change.freshness(frequency(s, p));
        }
    }
    sum
}

#[test]
fn the_fast_solver_equals_the_slow_one() {
    for seed in 0..40 {
        let mut random = Seeded::new(seed);
        let count = 1 + random.below(3);
        let pages: Vec<Vec<Page>> = (0..count)
            .map(|_| {
                let count = 1 + random.below(4);
                random_pages(&mut random, count)
            })
            .collect();
        let delays = [0.0, 0.3, 1.0, 3.0];
        let servers: Vec<Server<'_>> =
            pages.iter().map(|pages| Server { delay: delays[random.below(4) as usize], pages }).collect();
        let channel = (random.unit() * 4.0 - 2.0).exp();
        let fast = polite(&servers, channel).unwrap();
        let slow = slow::solve(&servers, channel);
        let got = worth(&servers, |s, p| fast.levels[s].frequency(&servers[s].pages[p]));
        let want = worth(&servers, |s, p| slow[s][p]);
        assert!((got - want).abs() < 1e-6 * want.max(1e-9), "seed {seed}: {got} and {want}");
    }
}

#[test]
fn bad_input_is_told_and_odd_input_is_answered() {
    let pages = [page(0.5, 1.0), page(0.0, 1.0), page(f64::INFINITY, 1.0)];
    let one = |delay| [Server { delay, pages: &pages }];
    for channel in [f64::NAN, -1.0] {
        assert!(matches!(polite(&one(1.0), channel), Err(Error::Channel(_))));
    }
    assert_eq!(polite(&one(f64::NAN), 1.0).unwrap_err(), Error::Delay { server: 0 });
    assert_eq!(polite(&one(-1.0), 1.0).unwrap_err(), Error::Delay { server: 0 });
    assert_eq!(polite(&one(0.0), f64::INFINITY).unwrap_err(), Error::Channel(f64::INFINITY));
    for weight in [f32::NAN, f32::INFINITY, -1.0] {
        let heavy = [page(0.5, weight)];
        let servers = [Server { delay: 1.0, pages: &heavy }];
        assert_eq!(polite(&servers, 1.0).unwrap_err(), Error::Weight { server: 0, page: 0 });
    }
    // A server with one active page gets all that it bears, and channel beyond the maximum is left.
    for channel in [10.0, f64::INFINITY] {
        let all = polite(&one(1.0), channel).unwrap();
        assert!((all.levels[0].frequency(&pages[0]) - 1.0).abs() < 1e-9);
        assert_eq!((all.levels[0].frequency(&pages[1]), all.levels[0].frequency(&pages[2])), (0.0, 0.0));
        assert_eq!((all.price, all.rates[0]), (0.0, 1.0));
    }
    // No delay: the channel alone limits. No channel: nothing.
    let free = polite(&one(0.0), 3.0).unwrap();
    assert!((free.levels[0].frequency(&pages[0]) - 3.0).abs() < 1e-9);
    assert_eq!(polite(&one(1.0), 0.0).unwrap().levels[0].frequency(&pages[0]), 0.0);
    // Nothing to visit at all.
    assert!(polite(&[], 1.0).unwrap().levels.is_empty());
    let idle = [page(0.0, 1.0)];
    assert_eq!(polite(&[Server { delay: 1.0, pages: &idle }], 1.0).unwrap().rates, [0.0]);
}

#[test]
fn pages_far_too_fast_for_the_channel_still_share_it() {
    // λ/f = 1,000: a visit is worth the same however often it is made, up to the 400th digit.
    let pages = [page(1.0, 1.0); 10];
    for delay in [0.0, 100.0] {
        let servers = [Server { delay, pages: &pages }];
        let shared = polite(&servers, 0.01).unwrap();
        assert!((shared.rates[0] - 0.01).abs() < 1e-9, "{shared:?}");
    }
}
