//! Ranks against a dense matrix, from cold and warm starts, and while the store goes on.

use super::*;
use crate::Budget;
use crate::rank::edges::SAME_HOST_WEIGHT;
use crate::rank::power::DAMPING;
use farol_base::{Random, Seeded};
use proptest::prelude::*;

const EXACT: Budget = Budget { iterations_max: 300, tolerance: 1e-8 };

/// Power iteration on a dense matrix of link weights, in double precision.
fn dense(weights: &[Vec<f64>]) -> Vec<f64> {
    let n = weights.len();
    let mut rank = vec![1.0 / n as f64; n];
    for _ in 0..300 {
        let mut next = vec![(1.0 - DAMPING) / n as f64; n];
        for (from, row) in weights.iter().enumerate() {
            let sum: f64 = row.iter().sum();
            for (to, weight) in row.iter().enumerate() {
                let share = if sum > 0.0 { weight / sum } else { 1.0 / n as f64 };
                next[to] += DAMPING * rank[from] * share;
            }
        }
        rank = next;
    }
    rank
}

fn check(naive: &Naive) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Links::open(folder(dir.path()), LinksOptions::default()).unwrap();
    let (mut pages, mut hosts) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for (page, links) in &naive.pages {
        store.put(id(*page), host(*page), links, at(1)).unwrap();
        pages.insert(id(*page).0);
        hosts.insert(host(*page));
        for link in links.iter().filter(|link| !link.nofollow) {
            pages.insert(link.target.0);
            hosts.insert(link.target_host);
        }
    }
    let pages: Vec<u64> = pages.into_iter().collect();
    let hosts: Vec<HostHash> = hosts.into_iter().collect();
    let number = |ids: &[u64], id: u64| ids.binary_search(&id).unwrap();
    let host_number = |id: HostHash| hosts.binary_search(&id).unwrap();
    let mut page_weights = vec![vec![0.0; pages.len()]; pages.len()];
    let mut host_links = vec![vec![0u32; hosts.len()]; hosts.len()];
    for (page, links) in &naive.pages {
        for link in links.iter().filter(|link| !link.nofollow && link.target != id(*page)) {
            let same = link.target_host == host(*page);
            page_weights[number(&pages, id(*page).0)][number(&pages, link.target.0)] +=
                if same { SAME_HOST_WEIGHT } else { 1.0 };
            host_links[host_number(host(*page))][host_number(link.target_host)] += u32::from(!same);
        }
    }
    let host_weights: Vec<Vec<f64>> =
        host_links.iter().map(|row| row.iter().map(|links| f64::from(1 + *links).ln()).collect()).collect();

    let report = store.compute_ranks(EXACT).unwrap();
    prop_assert_eq!((report.pages, report.hosts), (pages.len(), hosts.len()));
    let ranks = store.ranks();
    for (page, want) in pages.iter().zip(dense(&page_weights)) {
        let got = ranks.page_share(PageId(*page)).unwrap();
        prop_assert!((f64::from(got) - want).abs() < 1e-6, "page {}: {} and not {}", page, got, want);
    }
    for (host, want) in hosts.iter().zip(dense(&host_weights)) {
        let got = ranks.host_share(*host).unwrap();
        prop_assert!((f64::from(got) - want).abs() < 1e-6, "host {:?}: {} and not {}", host, got, want);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn ranks_are_those_of_a_dense_matrix(
        pages in prop::collection::btree_map(0u64..14, prop::collection::vec((0u64..14, prop::bool::weighted(0.1)), 0..8), 1..14),
    ) {
        let with_links = |(page, links): (u64, Vec<(u64, bool)>)| {
            (page, links.into_iter().map(|(target, nofollow)| OutLink { nofollow, ..link(target, "x") }).collect())
        };
        check(&Naive { pages: pages.into_iter().map(with_links).collect() })?;
    }
}

/// A Web of 600 pages where low numbers are linked to more often.
fn random_web(store: &mut Links, random: &mut Seeded, pages: std::ops::Range<u64>) {
    for page in pages {
        let links: Vec<OutLink> =
            (0..8).map(|_| link(random.below(1 + random.clone().below(600)), "x")).collect();
        store.put(id(page), host(page), &links, at(page)).unwrap();
    }
}

#[test]
fn a_warm_start_needs_fewer_passes_and_survives_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let options = LinksOptions { segment_bytes: 20_000, ..LinksOptions::default() };
    let mut store = Links::open(folder(dir.path()), options.clone()).unwrap();
    let mut random = Seeded::new(5);
    random_web(&mut store, &mut random, 0..600);
    let budget = Budget { iterations_max: 300, tolerance: 1e-6 };
    let cold = store.compute_ranks(budget).unwrap();
    assert!(cold.residual < 1e-6 && cold.links > 4000, "{cold:?}");
    assert!(store.ranks().page(id(0)) > store.ranks().page(id(599)));

    random_web(&mut store, &mut random, 0..5);
    store.flush().unwrap();
    drop(store);
    let mut store = Links::open(folder(dir.path()), options).unwrap();
    assert_eq!(store.ranks().pages(), 600);
    let warm = store.compute_ranks(budget).unwrap();
    assert!(warm.iterations < cold.iterations, "{warm:?} after {cold:?}");
    assert_eq!(store.compute_ranks(budget).unwrap().iterations, 1);
}

#[test]
fn a_job_runs_elsewhere_while_the_store_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let options = LinksOptions { segment_bytes: 5_000, merge_bytes_max: 50_000, ..LinksOptions::default() };
    let mut store = Links::open(folder(dir.path()), options).unwrap();
    let mut random = Seeded::new(9);
    random_web(&mut store, &mut random, 0..200);
    let (then, later) = (store.snapshot_for_ranks(), store.snapshot_for_ranks());
    let expected = then.run(EXACT).unwrap();
    // All of it is written anew, and the segments under the waiting job are replaced.
    random_web(&mut store, &mut random, 0..200);
    let mut steps = 0;
    while store.maintain().unwrap() {
        steps += 1;
    }
    assert!(steps > 2, "{steps}");
    let ranking = std::thread::spawn(move || later.run(EXACT)).join().unwrap().unwrap();
    assert_eq!(ranking.report, expected.report);
    assert_eq!(ranking.table, expected.table);
    store.install(ranking.table).unwrap();
    assert_eq!(store.ranks().pages(), expected.report.pages);
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| !name.to_string_lossy().ends_with(".tmp")), "{left:?}");
}

#[test]
fn an_empty_store_has_no_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let report = store.compute_ranks(Budget::default()).unwrap();
    assert_eq!((report.pages, report.iterations), (0, 0));
    assert_eq!(store.ranks().page(id(1)), 0.0);
}
