//! Tests of all allocations together, the product's among them.

#[path = "../../../../frontier/src/revisit/allocate/tests/random_pages.rs"]
mod random_pages;

use super::*;
use farol_base::{Random, Seeded};
use farol_frontier::revisit::Change;
use random_pages::{page, random_pages};

#[test]
fn the_conditions_hold_for_few_pages() {
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
        let kkt = check(&servers, channel, &fast);
        assert!(kkt.worst() < 1e-6, "seed {seed}: {kkt:?}");
    }
}

#[test]
fn the_conditions_hold_for_many_pages() {
    let mut random = Seeded::new(7);
    let pages: Vec<Vec<Page>> = (0..60)
        .map(|_| {
            let count = 1 + random.below(300);
            random_pages(&mut random, count)
        })
        .collect();
    let servers: Vec<Server<'_>> = pages.iter().map(|pages| Server { delay: 0.05, pages }).collect();
    for share in [0.001, 0.01, 0.1, 0.5, 0.9, 0.9999] {
        let channel = share * 60.0 / 0.05;
        let best = polite(&servers, channel).unwrap();
        let kkt = check(&servers, channel, &best);
        assert!(kkt.worst() < 1e-6, "{share}: {kkt:?}");
        for (server, rate) in servers.iter().zip(&best.rates) {
            assert!(rate * server.delay <= 1.0 + 1e-9);
        }
        // Nobody does better, and the impatient bound is above.
        let bound = best.bound(&servers, Among::Changing);
        for other in [uniform(&servers, channel).unwrap(), proportional(&servers, channel).unwrap()] {
            assert!(other.bound(&servers, Among::Changing) < bound);
            assert!(other.rates.iter().sum::<f64>() <= channel * (1.0 + 1e-9));
            assert!(other.rates.iter().all(|rate| rate * 0.05 <= 1.0 + 1e-9));
        }
        assert!(unpolite(&servers, channel).unwrap().bound(&servers, Among::Changing) >= bound - 1e-12);
    }
}

#[test]
fn the_check_finds_what_is_not_best() {
    let pages = [page(0.1, 1.0), page(3.0, 1.0)];
    let servers = [Server { delay: 0.1, pages: &pages }];
    let best = polite(&servers, 2.0).unwrap();
    assert!(check(&servers, 2.0, &best).worst() < 1e-9);
    assert!(check(&servers, 2.0, &uniform(&servers, 2.0).unwrap()).stationary > 0.1);
    assert!(check(&servers, 1.0, &best).channel > 0.9);
    assert!(check(&[Server { delay: 1.0, pages: &pages }], 2.0, &best).delay > 0.9);
}

#[test]
fn a_yardstick_refuses_what_is_no_weight() {
    for weight in [f32::NAN, f32::INFINITY, -1.0] {
        let heavy = [page(0.5, weight)];
        let servers = [Server { delay: 1.0, pages: &heavy }];
        assert_eq!(uniform(&servers, 1.0).unwrap_err(), Error::Weight { server: 0, page: 0 });
    }
}

#[test]
fn pages_far_too_fast_for_the_channel_still_share_it() {
    // λ/f = 1,000: a visit is worth the same however often it is made, up to the 400th digit.
    let pages = [page(1.0, 1.0); 10];
    for delay in [0.0, 100.0] {
        let servers = [Server { delay, pages: &pages }];
        let shared = polite(&servers, 0.01).unwrap();
        assert!((shared.rates[0] - 0.01).abs() < 1e-9, "{shared:?}");
        assert!(check(&servers, 0.01, &shared).worst() < 1e-6);
    }
}
