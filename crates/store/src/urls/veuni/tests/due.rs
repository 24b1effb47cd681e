//! The due queue: its pages come up when they are due, once, whatever becomes of their buckets meanwhile.

use super::load::found_url;
use super::*;
use crate::urls::veuni::bucket::BucketState;
use farol_base::Scheduled;
use farol_base::{Random, Seeded};
use std::collections::BTreeMap;

fn after(secs: u64) -> Timestamp {
    NOW + Duration::from_secs(secs)
}

fn host(number: u64) -> Host {
    found_url(number, 0).url.host()
}

/// A store that knows `pages` pages of each of `hosts` hosts.
fn knowing(hosts: u64, pages: u64, options: VeuniOptions) -> Veuni {
    let mut store = open(&Mem::new(), options);
    for host in 0..hosts {
        store.found(&(0..pages).map(|page| found_url(host, page)).collect::<Vec<_>>()).unwrap();
    }
    store.compact_all().unwrap();
    store
}

fn draw(store: &mut Veuni, of: u64, now: Timestamp) -> (Vec<CanonicalUrl>, Option<Timestamp>) {
    let drawn = store.draw(&host(of), 99, now).unwrap();
    (drawn.urls.into_iter().map(|drawn| drawn.url).collect(), drawn.next_due)
}

#[test]
fn it_comes_up_when_it_is_due_without_a_compaction() {
    let mut store = knowing(1, 3, options());
    let generation = store.engine.buckets[0].generation;
    let (pages, next) = draw(&mut store, 0, NOW);
    assert_eq!((pages.len(), next), (3, None));
    for (page_of, due) in pages.iter().zip([30, 10, 20]) {
        store.visited(page_of, &page(after(due))).unwrap();
    }
    assert_eq!(draw(&mut store, 0, NOW), (vec![], Some(after(10))));
    assert_eq!(draw(&mut store, 0, after(25)), (vec![pages[1].clone(), pages[2].clone()], Some(after(30))));
    // One is released, one visited: what is known of both is right, and each is in flight or not.
    assert!(store.get(&pages[1]).unwrap().unwrap().visits == 1);
    store.release(&pages[1..2]).unwrap();
    store.visited(&pages[2], &page(Timestamp::NEVER)).unwrap();
    assert_eq!(store.get(&pages[2]).unwrap().unwrap().visits, 2);
    assert_eq!(draw(&mut store, 0, after(40)), (vec![pages[1].clone(), pages[0].clone()], None));
    assert_eq!(store.engine.buckets[0].generation, generation, "it was merged");
}

#[test]
fn its_host_comes_up_for_it() {
    let mut store = knowing(2, 1, options());
    for host in store.hosts_due(NOW, 9).unwrap() {
        let drawn = store.draw(&host, 9, NOW).unwrap();
        let due = if host == super::due::host(0) { after(10) } else { after(20) };
        store.visited(&drawn.urls[0].url, &page(due)).unwrap();
        store.release_host(&host);
    }
    // The batch is open, so no bucket can be compacted.
    assert_eq!(store.hosts_due(after(9), 9).unwrap(), []);
    assert_eq!(store.hosts_due(after(10), 9).unwrap(), [host(0)]);
    assert_eq!(store.hosts_due(after(30), 9).unwrap(), [host(1)]);
    assert_eq!(store.hosts_due(after(30), 9).unwrap(), []);
    assert_eq!(draw(&mut store, 1, after(30)).0.len(), 1);
    store.flush().unwrap();
    store.compact_all().unwrap();
    assert_eq!(store.hosts_due(after(30), 9).unwrap(), []);
    store.release_host(&host(0));
    assert_eq!(store.hosts_due(after(30), 9).unwrap(), [host(0)]);
    assert_eq!(draw(&mut store, 0, after(30)).0.len(), 1);
}

#[test]
fn a_leased_host_of_a_bucket_that_is_not_active_waits_for_no_compaction() {
    let mut store = knowing(1, 2, options());
    let (pages, _) = draw(&mut store, 0, NOW);
    store.visited(&pages[0], &page(after(10))).unwrap();
    store.release_host(&host(0));
    store.flush().unwrap();
    let number = store.engine.buckets[0].number;
    store.dispatcher.buckets.get_mut(&number).unwrap().active = None;
    // As while a thread compacts it.
    store.engine.buckets[0].state = BucketState::Compacting(Arc::default());
    assert_eq!(store.hosts_due(after(10), 9).unwrap(), [host(0)]);
    assert_eq!(draw(&mut store, 0, after(10)), (vec![pages[0].clone()], None));
    assert_eq!(draw(&mut store, 0, after(10)), (vec![], None));
}

#[test]
fn a_compaction_neither_loses_nor_doubles_it() {
    let mut store = knowing(1, 60_000, VeuniOptions { threads: 1, ..VeuniOptions::default() });
    let drawn = store.draw(&host(0), 400, NOW).unwrap().urls;
    let pages: Vec<CanonicalUrl> = drawn.into_iter().map(|drawn| drawn.url).collect();
    // A hundred before the compaction, a hundred while it goes on, and of both some are drawn again meanwhile.
    pages[..100].iter().for_each(|url| store.visited(url, &page(after(10))).unwrap());
    store.flush().unwrap();
    let generation = store.engine.buckets[0].generation;
    store.engine.start_compaction(0, &mut store.dispatcher);
    assert!(store.engine.buckets[0].is_busy());
    pages[100..200].iter().for_each(|url| store.visited(url, &page(after(10))).unwrap());
    let again = |store: &mut Veuni, limit| -> BTreeSet<CanonicalUrl> {
        let drawn = store.draw(&host(0), limit, after(10)).unwrap().urls;
        drawn.into_iter().filter(|drawn| drawn.revisit).map(|drawn| drawn.url).collect()
    };
    // What was never visited comes first.
    let fresh = store.draw(&host(0), 600, after(9)).unwrap().urls;
    assert!(fresh.iter().all(|drawn| !drawn.revisit));
    let mut seen = again(&mut store, 50);
    assert_eq!(seen.len(), 50);
    while store.wait().unwrap() {}
    assert_eq!(store.engine.buckets[0].generation, generation + 1);
    // Of those in flight one is released, one visited for good.
    let (back, done) = (seen.pop_first().unwrap(), seen.first().unwrap().clone());
    store.release(std::slice::from_ref(&back)).unwrap();
    store.visited(&done, &page(Timestamp::NEVER)).unwrap();
    loop {
        let more = store.draw(&host(0), 1000, after(10)).unwrap().urls;
        if more.is_empty() {
            break;
        }
        for Scheduled { url, revisit, .. } in more {
            assert!(!revisit || seen.insert(url.clone()), "{url} came up twice");
        }
    }
    assert_eq!(seen, pages[..200].iter().cloned().collect());
    assert_eq!(store.get(&done).unwrap().unwrap().visits, 2);
}

#[test]
fn it_is_deleted_with_its_host_and_found_again_after_opening() {
    let mem = Mem::new();
    let mut store = open(&mem, options());
    store.found(&[found_url(0, 0), found_url(1, 0)]).unwrap();
    store.compact_all().unwrap();
    for of in 0..2 {
        let (pages, _) = draw(&mut store, of, NOW);
        store.visited(&pages[0], &page(after(10))).unwrap();
    }
    store.delete_host(&host(0)).unwrap();
    assert_eq!(draw(&mut store, 0, after(10)), (vec![], None));
    store.flush().unwrap();
    drop(store);
    let mut store = open(&mem, options());
    assert_eq!(store.hosts_due(after(9), 9).unwrap(), []);
    assert_eq!(store.hosts_due(after(10), 9).unwrap(), [host(1)]);
    assert_eq!(draw(&mut store, 1, after(10)).0, [found_url(1, 0).url]);
}

#[test]
fn a_hint_brings_it_up_earlier() {
    let mut store = knowing(1, 1, options());
    let (pages, _) = draw(&mut store, 0, NOW);
    store.visited(&pages[0], &page(after(100))).unwrap();
    store.found(&[Found { hint: Some(after(20)), ..found_url(0, 0) }]).unwrap();
    assert_eq!(draw(&mut store, 0, after(19)), (vec![], Some(after(20))));
    assert_eq!(draw(&mut store, 0, after(20)).0, pages);
}

/// Buckets split and are compacted by a thread while their pages come and go: each page comes up when it is
/// due, and never while it is in flight.
#[test]
fn among_compactions_and_splits_each_comes_up_when_it_is_due() {
    let small = VeuniOptions {
        memtable_bytes: 64 << 10,
        bucket_bytes: 24 << 10,
        bucket_hosts: 12,
        threads: 1,
        active_buckets_max: 3,
        ..VeuniOptions::default()
    };
    let (hosts, pages) = (60, 40);
    let mut store = open(&Mem::new(), small);
    let mut random = Seeded::new(9);
    let (mut due, mut in_flight) = (BTreeMap::new(), BTreeSet::new());
    store.found(&(0..hosts * pages).map(|page| found_url(page % hosts, page)).collect::<Vec<_>>()).unwrap();
    store.compact_all().unwrap();
    let mut visits = 0;
    for second in 0..300 {
        let now = after(second);
        // Something new now and then, so that buckets grow.
        let new = Found { depth: 9, ..found_url(second % hosts, 1_000_000 + second) };
        store.found(&[new]).unwrap();
        store.flush().unwrap();
        for host in store.hosts_due(now, 1000).unwrap() {
            for drawn in store.draw(&host, 1000, now).unwrap().urls {
                let planned = due.remove(&drawn.url);
                assert_eq!(planned.is_some(), drawn.revisit, "{}", drawn.url);
                assert!(planned.is_none_or(|planned| planned <= now), "{} comes early", drawn.url);
                assert!(in_flight.insert(drawn.url.clone()), "{} is in flight", drawn.url);
                if random.below(10) == 0 {
                    store.release(std::slice::from_ref(&drawn.url)).unwrap();
                    in_flight.remove(&drawn.url);
                    due.extend(planned.map(|_| (drawn.url, now)));
                }
            }
            store.release_host(&host);
        }
        let late: Vec<_> = due.iter().filter(|(_, due)| **due + Duration::from_secs(1) < now).collect();
        assert!(late.is_empty(), "{} are late at {second}, such as {:?}", late.len(), late[0]);
        // Some visits take longer than others.
        let back: Vec<CanonicalUrl> = in_flight.iter().filter(|_| random.below(3) > 0).cloned().collect();
        for url in back {
            let at = after(second) + Duration::from_millis(500);
            let next = at + Duration::from_secs(random.below(40));
            store.visited(&url, &Visit { at, ..page(next) }).unwrap();
            in_flight.remove(&url);
            due.insert(url, next);
            visits += 1;
        }
    }
    assert!(
        visits > 4_000 && store.engine.buckets.len() > 3,
        "{visits} visits, {} buckets",
        store.engine.buckets.len()
    );
    while store.wait().unwrap() {}
    let generations: u64 = store.engine.buckets.iter().map(|bucket| bucket.generation).sum();
    assert!(generations > 20, "{generations} compactions");
}
