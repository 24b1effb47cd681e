//! Tests of the schedule.

use super::*;
use farol_base::{Random, Seeded};
use farol_frontier::revisit::Change;

fn random_page(random: &mut Seeded) -> Page {
    Page {
        change: Change::known((random.unit() * 6.0 - 14.0).exp()).unwrap(),
        weight: 0.5 + random.unit() as f32,
    }
}

fn schedule(random: &mut Seeded, sizes: &[usize], channel: f64) -> Schedule {
    let mut schedule = Schedule::new(channel);
    for size in sizes {
        let server = schedule.add_server(30.0, random.unit());
        for _ in 0..*size {
            let page = random_page(random);
            schedule.add_page(server, page, None);
        }
    }
    schedule.rebalance().unwrap();
    schedule
}

/// Visits until `until`; checks delays; gives visits per server.
fn run(schedule: &mut Schedule, until: f64, mut after: impl FnMut(Page) -> Page) -> Vec<u64> {
    let mut last = vec![f64::NEG_INFINITY; schedule.servers.len()];
    let mut counts = vec![0; schedule.servers.len()];
    while let Some(at) = schedule.next_at()
        && at < until
    {
        let turn = schedule.take(at).unwrap();
        let server = turn.server as usize;
        assert!(at - last[server] >= 30.0 - 1e-6, "impolite");
        (last[server], counts[server]) = (at, counts[server] + 1);
        let known = schedule.page(turn).unwrap();
        schedule.visited(turn, at, after(known), None);
    }
    counts
}

#[test]
fn the_channel_is_kept_and_shared() {
    let mut random = Seeded::new(1);
    let mut schedule = schedule(&mut random, &[1, 3, 400, 50, 2_000], 0.05);
    let counts = run(&mut schedule, 400_000.0, |page| page);
    let visits: u64 = counts.iter().sum();
    assert!((visits as f64 / 400_000.0 / 0.05 - 1.0).abs() < 0.02, "{counts:?}");
    // The largest server is asked as often as it bears, the smallest seldom.
    assert!((counts[4] as f64 * 30.0 / 400_000.0 - 1.0).abs() < 0.01, "{counts:?}");
    assert!(counts[0] < counts[3]);
}

#[test]
fn incremental_prices_stay_near_the_best() {
    let mut random = Seeded::new(2);
    let mut changed = schedule(&mut random, &[5, 300, 40, 1_500, 12], 0.06);
    // Every visit finds the page somewhat faster or slower; slower in the mean.
    let mut drifts = Seeded::new(5);
    run(&mut changed, 150_000.0, |page| {
        let factor = (drifts.unit() * 0.2 - 0.11).exp();
        Page { change: Change::known(page.change.rate() * factor).unwrap(), ..page }
    });
    let worth = |schedule: &Schedule| -> f64 {
        let mut sum = 0.0;
        for seat in &schedule.servers {
            let (price, rate) = seat.pages.price();
            let demand: f64 = seat.pages.pages().iter().map(|page| page.frequency_at(price)).sum();
            // Paces are kept whatever the price: pages get their share of the pace.
            for page in seat.pages.pages().iter().filter(|_| demand > 0.0) {
                let frequency = page.frequency_at(price) * rate / demand;
                sum += f64::from(page.weight) * page.change.freshness(frequency);
            }
        }
        sum
    };
    let incremental = worth(&changed);
    for seat in &changed.servers {
        let price = seat.pages.price().0;
        let demand: f64 = seat.pages.pages().iter().map(|page| page.frequency_at(price)).sum();
        assert!((seat.demand / demand - 1.0).abs() < 1e-6, "{} counted, {demand} asked", seat.demand);
    }
    assert!(changed.drift() > 0.0);
    changed.rebalance().unwrap();
    assert_eq!(changed.drift(), 0.0);
    let best = worth(&changed);
    assert!((incremental / best - 1.0).abs() < 0.02, "{incremental} and {best}");
}

#[test]
fn it_survives_a_restart() {
    let mut random = Seeded::new(3);
    let mut first = schedule(&mut random, &[1, 30, 200], 0.02);
    run(&mut first, 50_000.0, |page| page);
    let mut bytes = Vec::new();
    first.write(&mut bytes);
    let mut second = Schedule::read(&bytes).unwrap();
    assert!((first.next_at().unwrap() - second.next_at().unwrap()).abs() < 1e-6);
    for server in 0..3 {
        let (a, b) = (first.server(server).unwrap(), second.server(server).unwrap());
        assert_eq!((a.pages(), a.price()), (b.pages(), b.price()));
        assert!((0..200).all(|page| a.last_visit(page) == b.last_visit(page)));
    }
    // Heaps were built again, so among pages due at nearly the same time another may be first.
    let until = 500_000.0;
    let (a, b) = (run(&mut first, until, |page| page), run(&mut second, until, |page| page));
    assert!(a.iter().zip(&b).all(|(a, b)| a.abs_diff(*b) <= 2), "{a:?} and {b:?}");
    let (a, b) = (first.freshness(until), second.freshness(until));
    assert!((a.fresh / b.fresh - 1.0).abs() < 0.01, "{a:?} and {b:?}");
    assert!(Schedule::read(&bytes[..bytes.len() - 1]).is_none());
    assert!(Schedule::read(&[]).is_none());
}

#[test]
fn pages_come_and_go() {
    let mut random = Seeded::new(4);
    let mut schedule = schedule(&mut random, &[3], 0.01);
    let turn = schedule.take(1e4).unwrap();
    assert_eq!(schedule.take(schedule.server_next_at(0).map_or(0.0, |at| at - 1.0)), None);
    schedule.postponed(turn, 5e4);
    (0..3).for_each(|page| schedule.remove(PageOfServer { server: 0, page }));
    assert_eq!(schedule.next_at().and_then(|at| schedule.take(at)), None);
    let page = random_page(&mut random);
    assert_eq!(schedule.add_page(0, page, None), Some(3));
    assert_eq!(schedule.add_page(9, page, None), None);
    schedule.rebalance().unwrap();
    let at = schedule.next_at().unwrap();
    assert_eq!(schedule.take(at), Some(PageOfServer { server: 0, page: 3 }));
    assert!(schedule.explain(PageOfServer { server: 0, page: 3 }, at).is_some());
    assert_eq!(schedule.freshness(at).fresh, 0.0);
    schedule.set_channel(f64::NAN);
    assert!(schedule.rebalance().is_err());
}
