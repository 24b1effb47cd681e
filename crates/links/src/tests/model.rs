//! Random operations on the store and on a map; whatever can be asked must be the same.

use super::*;
use proptest::prelude::*;
use std::path::PathBuf;

#[derive(Clone, Debug)]
enum Op {
    Put {
        page: u64,
        links: Vec<(u64, usize, bool)>,
    },
    Remove(u64),
    Flush,
    Maintain,
    /// Flush and open again.
    Reopen,
    /// Open again without flushing, with this many bytes missing at the end of the last segment.
    Crash {
        cut: u64,
    },
}

const TEXTS: [&str; 6] =
    ["", "home", "próxima página", "x", "the best page about bridges and rivers", "Home"];

fn op() -> impl Strategy<Value = Op> {
    let link = (0..PAGES, 0..TEXTS.len(), prop::bool::weighted(0.1));
    prop_oneof![
        10 => (0..PAGES, prop::collection::vec(link, 0..8)).prop_map(|(page, links)| Op::Put { page, links }),
        2 => (0..PAGES).prop_map(Op::Remove),
        2 => Just(Op::Flush),
        4 => Just(Op::Maintain),
        1 => Just(Op::Reopen),
        1 => (0u64..400).prop_map(|cut| Op::Crash { cut }),
    ]
}

/// The segment being written, and its length.
fn last_segment(dir: &Path) -> (PathBuf, u64) {
    let names = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let last = names.filter(|path| path.extension().is_some_and(|suffix| suffix == "log")).max().unwrap();
    let length = last.metadata().unwrap().len();
    (last, length)
}

/// Cuts the end off the segment being written, but nothing that was synced.
fn cut_last_segment(dir: &Path, cut: u64, synced: &(PathBuf, u64)) {
    let (last, length) = last_segment(dir);
    let least = if last == synced.0 { synced.1 } else { 0 };
    let file = std::fs::OpenOptions::new().write(true).open(&last).unwrap();
    file.set_len(length.saturating_sub(cut).max(least)).unwrap();
}

fn race(ops: Vec<Op>) -> Result<(), TestCaseError> {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path());
    let mut naive = Naive::default();
    // Every state so far, and how many of them have been promised to survive the process.
    let (mut history, mut promised) = (vec![naive.clone()], 0);
    let mut synced = last_segment(dir.path());
    for (number, op) in ops.into_iter().enumerate() {
        let before = naive.clone();
        match op {
            Op::Put { page, links } => {
                let links: Vec<OutLink> = links
                    .into_iter()
                    .map(|(target, text, nofollow)| OutLink { nofollow, ..link(target, TEXTS[text]) })
                    .collect();
                store.put(id(page), host(page), &links, at(number as u64 + 1)).unwrap();
                naive.pages.insert(page, links);
            }
            Op::Remove(page) => {
                store.remove(id(page)).unwrap();
                naive.pages.remove(&page);
            }
            Op::Flush => {
                store.flush().unwrap();
                promised = history.len() - 1;
            }
            Op::Maintain => {
                if store.maintain().unwrap() {
                    synced = last_segment(dir.path());
                    promised = history.len() - 1;
                }
            }
            Op::Reopen => {
                store.flush().unwrap();
                let watermark = store.watermark();
                drop(store);
                store = open(dir.path());
                prop_assert_eq!(store.watermark(), watermark);
                promised = history.len() - 1;
            }
            Op::Crash { cut } => {
                drop(store);
                cut_last_segment(dir.path(), cut, &synced);
                store = open(dir.path());
                let found = view(&store);
                let oldest = if cut == 0 { promised } else { 0 };
                let state =
                    history.iter().enumerate().skip(oldest).rev().find(|(_, state)| state.view() == found);
                prop_assert!(state.is_some(), "after the crash no earlier state is there: {:?}", found);
                naive = state.map(|(_, state)| state.clone()).unwrap_or_default();
                history.push(naive.clone());
                promised = history.len() - 1;
                continue;
            }
        }
        let dirty = store.take_dirty(usize::MAX);
        for target in 0..PAGES {
            let changed = before.anchors(target) != naive.anchors(target);
            prop_assert!(
                !changed || dirty.contains(&id(target)),
                "page {} got other anchors unnoticed",
                target
            );
        }
        if before == naive {
            prop_assert_eq!(dirty, Vec::new());
        }
        prop_assert_eq!(view(&store), naive.view());
        history.push(naive.clone());
    }
    while store.maintain().unwrap() {}
    prop_assert_eq!(view(&store), naive.view());
    store.verify().unwrap();
    drop(store);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_a_map(ops in prop::collection::vec(op(), 1..80)) {
        race(ops)?;
    }
}
