//! Every yardstick against the naive store, on small random loads.

use super::central::Central;
use super::drum::{Drum, MergeRule};
use super::load::{Load, LoadConfig};
use super::mercator::Mercator;
use farol_store::urls::{Naive, UrlStore, Verifier};
use std::collections::BTreeSet;
use std::path::Path;

/// Runs a load, and asks the naive store, which is told the same, about everything.
fn check(open: impl Fn(&Path) -> Box<dyn Verifier>) {
    for seed in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let mut store = open(folder.path());
        let mut naive = Naive::new();
        let (new, repeats) = [(1, 0), (700, 900), (3000, 500)][seed as usize % 3];
        let config = LoadConfig { collected: 150, new, repeats, seed };
        let mut load = Load::generated(config.clone());
        let (mut out, mut batch) = (BTreeSet::new(), Vec::new());
        for _ in 0..9 {
            load.begin_cycle();
            let taken = store.take(config.collected, load.now()).unwrap();
            assert!(taken.len() <= config.collected);
            for url in &taken {
                assert!(UrlStore::get(&naive, url).unwrap().is_some(), "{url} was never found");
                assert!(out.insert(url.clone()), "{url} was taken twice");
                let visit = load.visit();
                store.visited(url, &visit).unwrap();
                UrlStore::visited(&mut naive, url, &visit).unwrap();
            }
            // Somebody else may report what nobody took, or report a page again.
            let stray =
                farol_base::CanonicalUrl::parse(&format!("http://stray/{}", load.now().as_secs() / 600));
            let visit = load.visit();
            store.visited(stray.as_ref().unwrap(), &visit).unwrap();
            UrlStore::visited(&mut naive, stray.as_ref().unwrap(), &visit).unwrap();
            loop {
                load.extract(&mut batch).unwrap();
                if batch.is_empty() {
                    break;
                }
                store.found(&batch).unwrap();
                UrlStore::found(&mut naive, &batch).unwrap();
            }
            store.flush().unwrap();
        }
        store.compact_all().unwrap();
        let (got, want) = (store.counts(), UrlStore::counts(&naive));
        assert_eq!((got.known, got.collected, got.waiting), (want.known, want.collected, want.waiting));
        // All that was never visited comes out in the end, and nothing else.
        loop {
            let taken = store.take(1000, load.now()).unwrap();
            if taken.is_empty() {
                break;
            }
            for url in taken {
                assert_eq!(
                    UrlStore::get(&naive, &url).unwrap().map(|record| record.visits),
                    Some(0),
                    "{url}"
                );
                assert!(out.insert(url.clone()), "{url} was taken twice");
                // A store may need to see progress before it hands out more.
                store.visited(&url, &load.visit()).unwrap();
            }
            store.flush().unwrap();
        }
        let known: BTreeSet<_> =
            naive.urls().filter(|url| !url.as_str().starts_with("http://stray/")).cloned().collect();
        assert_eq!(out, known);
    }
}

#[test]
fn drum_agrees() {
    check(|folder| Box::new(Drum::new(folder, MergeRule::EveryFlush).unwrap()));
}

#[test]
fn lazy_drum_agrees() {
    for bytes in [3000, 1 << 30] {
        check(|folder| Box::new(Drum::new(folder, MergeRule::BucketBytes(bytes)).unwrap()));
    }
}

#[test]
fn mercator_agrees() {
    check(|folder| Box::new(Mercator::new(folder).unwrap()));
}

#[test]
fn central_agrees() {
    check(|folder| Box::new(Central::new(folder).unwrap()));
}
