//! Tests of PUNCTUAL.

use super::*;
use farol_base::{Random, Seeded};
use farol_frontier::revisit::Spaced;
use farol_frontier::revisit::allocate::{Server, polite};
use farol_frontier::revisit::select::Merge;

fn page(rate: f64, weight: f32) -> Page {
    Page { change: Change::known(rate).unwrap(), weight }
}

fn pages(random: &mut Seeded, count: usize) -> Vec<Page> {
    (0..count).map(|_| page((random.unit() * 5.0 - 9.0).exp(), 1.0)).collect()
}

/// A server alone in the world, given `load` of what it bears.
fn server(pages: &[Page], delay: f64, load: f64) -> (Punctual, Vec<f64>) {
    let best = polite(&[Server { delay, pages }], load / delay).unwrap();
    let level = best.levels[0];
    let frequencies = pages.iter().map(|page| best.levels[0].frequency(page)).collect();
    (Punctual::with_pages(pages.to_vec(), delay, level.low, best.rates[0], 0.3), frequencies)
}

fn fresh_share(pages: &[Page], table: &mut impl Timetable, horizon: f64) -> f64 {
    let mut last = vec![0.0; pages.len()];
    let mut fresh = 0.0;
    while let Some(visit) = table.next()
        && visit.at < horizon
    {
        let page = visit.page as usize;
        if last[page] > 0.0 {
            fresh += pages[page].change.gain(visit.at - last[page]);
        }
        last[page] = visit.at;
    }
    fresh / horizon
}

#[test]
fn a_page_costs_24_bytes() {
    let heap = size_of::<(u32, u32)>().max(size_of::<(GreatestFirst, u32)>());
    assert!(size_of::<Page>() + size_of::<u32>() + heap <= 24);
}

#[test]
fn it_is_polite_keeps_its_pace_and_beats_merge() {
    let mut random = Seeded::new(11);
    for (count, load) in [(1, 0.5), (2, 0.2), (3, 1.0), (5, 0.7), (40, 0.95), (40, 0.01)] {
        let pages = pages(&mut random, count);
        let delay = 400.0;
        let (mut punctual, frequencies) = server(&pages, delay, load);
        let rate: f64 = frequencies.iter().sum();
        let mut counted = punctual.clone();
        let (mut before, mut visits) = (f64::NEG_INFINITY, 0.0);
        for _ in 0..8_000 {
            let visit = counted.next().unwrap();
            assert!(visit.at - before >= delay - 1e-6, "impolite");
            before = visit.at;
            visits += 1.0;
            assert!(visits <= rate * visit.at + SLACK + 1.0 + 1e-6, "ahead of its pace");
        }
        assert!(
            visits >= rate * before * 0.99 - 2.0 * SLACK,
            "behind its pace: {visits} for {}",
            rate * before
        );
        let horizon = 8_000.0 / rate;
        let ours = fresh_share(&pages, &mut punctual, horizon);
        let merge = Merge::new(&frequencies, &mut Seeded::new(4));
        let merge = fresh_share(&pages, &mut Spaced::new(merge, rate, 0.5), horizon);
        assert!(ours >= merge - 1e-3, "{count} pages at {load}: {ours} and {merge}");
    }
}

#[test]
fn stale_pages_come_by_worth_and_then_in_time() {
    let pages =
        [page(1e-3, 1.0), page(1e-5, 1.0), page(1e-4, 1.0), page(1e-3, 50.0), page(0.0, 1.0), page(9.9, 1.0)];
    let mut server = Punctual::with_pages(pages.to_vec(), 1.0, 500.0, 0.01, 0.0);
    let order: Vec<u32> = (0..5).map(|_| server.next().unwrap().page).collect();
    // The one that never changes first, the one that changes faster than a visit pays for not at all.
    assert_eq!(order, [4, 1, 3, 2, 0]);
    assert!((0..200).all(|_| server.next().unwrap().page < 4));
}

#[test]
fn a_signal_brings_a_page_forward_and_removal_takes_it_out() {
    let pages = [page(1e-4, 1.0), page(1.1e-4, 1.0), page(1.2e-4, 1.0)];
    let (mut server, _) = server(&pages, 60.0, 0.01);
    let times: Vec<Visit> = (0..30).map(|_| server.next().unwrap()).collect();
    let last = times[29].page;
    server.known_stale(&[last, 77]);
    let visit = server.next().unwrap();
    assert_eq!(visit.page, last);
    server.remove(last);
    assert!((0..50).all(|_| server.next().unwrap().page != last));
    // A page that is out when it is removed does not come back.
    let at = server.next_at().unwrap();
    let out = server.take(at).unwrap();
    server.remove(out);
    server.visited(out, at, pages[0]);
    assert!((0..50).all(|_| server.next().unwrap().page != out));
}

#[test]
fn a_page_that_could_not_be_had_is_tried_again() {
    let (mut server, _) = server(&[page(1e-4, 1.0)], 60.0, 0.01);
    let at = server.next_at().unwrap();
    assert_eq!(server.take(at), Some(0));
    assert_eq!(server.next_at(), None);
    server.postponed(0, at + 500.0);
    assert!(server.next_at().unwrap() >= at + 60.0);
    let Visit { at, page } = server.next().unwrap();
    assert_eq!(page, 0);
    assert!((server.last_visit(0).unwrap() - at).abs() < 0.2);
}

#[test]
fn a_new_price_does_not_reset_phases() {
    let mut random = Seeded::new(2);
    let pages = pages(&mut random, 50);
    let (mut server, frequencies) = server(&pages, 60.0, 0.3);
    let some = frequencies.iter().position(|frequency| *frequency > 0.0).unwrap();
    (0..1_000).for_each(|_| assert!(server.next().is_some()));
    let last: Vec<Option<f64>> = (0..50).map(|page| server.last_visit(page)).collect();
    let (price, rate) = server.price();
    server.set_price(price / 2.0, rate * 1.3);
    assert_eq!(last, (0..50).map(|page| server.last_visit(page)).collect::<Vec<_>>());
    let reason = server.explain(some as u32, 1e6).unwrap();
    assert_eq!(reason.price, price / 2.0);
    assert!((reason.due - last[some].unwrap() - pages[some].interval_at(price / 2.0)).abs() < 1e-6);
}

#[test]
fn a_schedule_survives_being_written_down() {
    let mut random = Seeded::new(8);
    let mut pages = pages(&mut random, 30);
    pages[3] = Page { change: Change::believed(1e-5, 0.7).unwrap(), weight: 2.0 };
    let (mut server, _) = server(&pages, 60.0, 0.3);
    (0..40).for_each(|_| assert!(server.next().is_some()));
    let mut bytes = Vec::new();
    server.write(&mut bytes);
    let mut rest = bytes.as_slice();
    let mut again = Punctual::read(&mut rest).unwrap();
    assert!(rest.is_empty());
    assert_eq!(
        (server.pages(), server.price(), server.next_at()),
        (again.pages(), again.price(), again.next_at())
    );
    assert!((0..30).all(|page| server.last_visit(page) == again.last_visit(page)));
    assert!((0..500).all(|_| again.next().is_some()));
    for cut in 0..bytes.len() {
        assert!(Punctual::read(&mut &bytes[..cut]).is_none(), "{cut} bytes are not a schedule");
    }
    bytes[0] = 9;
    assert!(Punctual::read(&mut bytes.as_slice()).is_none());
}

#[test]
fn a_schedule_moves_to_a_later_beginning() {
    let mut random = Seeded::new(9);
    let (mut server, _) = server(&pages(&mut random, 20), 60.0, 0.3);
    (0..500).for_each(|_| assert!(server.next().is_some()));
    let mut moved = server.clone();
    moved.rebase(4_000.0);
    for _ in 0..100 {
        let (a, b) = (server.next().unwrap(), moved.next().unwrap());
        assert!((a.at - b.at - 4_000.0).abs() < 1.0, "{a:?} and {b:?}");
    }
}

#[test]
fn believed_freshness_is_what_the_model_says() {
    let mut server = Punctual::new(60.0, 1.0, 0.01, 0.0);
    server.add(page(1e-3, 2.0), Some(1_000.0));
    server.add(page(0.0, 1.0), Some(0.0));
    server.add(page(1e-3, 1.0), None);
    let freshness = server.freshness(2_000.0);
    assert_eq!(freshness.weight, 4.0);
    assert!((freshness.fresh - (2.0 * (-1.0f64).exp() + 1.0)).abs() < 1e-6, "{freshness:?}");
    assert!((freshness.age - 2.0 * (1_000.0 - 632.12)).abs() < 1.0, "{freshness:?}");
}

#[test]
fn odd_servers_have_defined_answers() {
    assert_eq!(Punctual::new(60.0, 1.0, 0.0, 0.0).next(), None);
    assert_eq!(Punctual::with_pages(vec![page(0.1, 0.0)], 60.0, 1.0, 0.1, 0.0).next(), None);
    assert_eq!(Punctual::with_pages(vec![page(f64::INFINITY, 1.0)], 60.0, 1.0, 0.1, 0.0).next(), None);
    // No delay at all: the pace alone limits.
    let mut free = Punctual::with_pages(vec![page(1e-3, 1.0)], 0.0, 10.0, 0.01, 0.0);
    let visits: Vec<Visit> = (0..1_000).map(|_| free.next().unwrap()).collect();
    assert!((visits[999].at / 1_000.0 - 100.0).abs() < 5.0);
}
