//! Files cut at every byte, damaged, missing, or left over.

use super::*;
use crate::Error;
use std::path::PathBuf;

/// Fills a store until it has a few sealed segments; answers the states after each put.
fn filled(dir: &Path, puts: u64) -> Vec<Naive> {
    let mut store = open(dir);
    let mut naive = Naive::default();
    let mut states = vec![naive.clone()];
    for number in 0..puts {
        let page = number % PAGES;
        let links =
            vec![link((page + 1) % PAGES, &format!("text {number}")), link((number * 7) % PAGES, "x")];
        store.put(id(page), host(page), &links, at(number + 1)).unwrap();
        naive.pages.insert(page, links);
        states.push(naive.clone());
    }
    store.sync().unwrap();
    states
}

fn files(dir: &Path, suffix: &str) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|s| s == suffix)).collect();
    paths.sort();
    paths
}

fn flip(path: &Path, from_end: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    let at = bytes.len() - from_end;
    bytes[at] ^= 0x40;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_tail_torn_at_any_byte_leaves_an_earlier_state() {
    let dir = tempfile::tempdir().unwrap();
    let states = filled(dir.path(), 20);
    let last = files(dir.path(), "log").pop().unwrap();
    let whole = std::fs::read(&last).unwrap();
    let mut newest = 0;
    for length in 0..=whole.len() {
        std::fs::write(&last, &whole[..length]).unwrap();
        let store = open(dir.path());
        let found = view(&store);
        let state = states.iter().position(|state| state.view() == found);
        let state = state.unwrap_or_else(|| panic!("cut at {length}: {found:?}"));
        assert!(state >= newest, "a longer file holds less");
        assert_eq!(store.watermark(), at(state as u64), "the watermark says what is there");
        newest = state;
    }
    assert_eq!(newest, 20);
}

#[test]
fn garbage_after_the_last_record_is_cut_and_the_store_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let states = filled(dir.path(), 20);
    let last = files(dir.path(), "log").pop().unwrap();
    let mut bytes = std::fs::read(&last).unwrap();
    bytes.extend_from_slice(&[0xAB; 300]);
    std::fs::write(&last, bytes).unwrap();
    let mut store = open(dir.path());
    assert_eq!(view(&store), states[20].view());
    store.put(id(0), host(0), &[link(1, "again")], at(50)).unwrap();
    store.flush().unwrap();
    drop(store);
    assert_eq!(open(dir.path()).anchors(id(1)).unwrap()[0].0, "again");
}

#[test]
fn damage_is_named() {
    let damaged = |spoil: &dyn Fn(&Path)| {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 40);
        spoil(dir.path());
        let error = Links::open(folder(dir.path()), small()).and_then(|store| store.verify()).unwrap_err();
        assert!(matches!(error, Error::Damaged { .. }), "{error}");
        error.to_string()
    };
    let first_log = |dir: &Path| files(dir, "log").remove(0);
    let first_run = |dir: &Path| files(dir, "run").remove(0);
    // A record, the index and the header of a segment; a block and the end of a run; a segment that is not there.
    assert!(damaged(&|dir| flip(&first_log(dir), 500)).contains("the checksum of a record"));
    assert!(damaged(&|dir| flip(&first_log(dir), 40)).contains("footer"));
    let header = damaged(&|dir| {
        let path = first_log(dir);
        flip(&path, std::fs::read(&path).unwrap().len() - 14);
    });
    assert!(header.contains("links-00000001-00000001-0.log is damaged at byte 8"), "{header}");
    assert!(damaged(&|dir| flip(&first_run(dir), 100)).contains("the checksum of a block"));
    assert!(damaged(&|dir| flip(&first_run(dir), 1)).contains("does not end"));
    assert!(damaged(&|dir| std::fs::remove_file(first_log(dir)).unwrap()).contains("missing"));
}

#[test]
fn a_later_format_is_refused_politely() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 40);
    let path = files(dir.path(), "log").remove(0);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8] = 2;
    std::fs::write(&path, bytes).unwrap();
    let error = Links::open(folder(dir.path()), small()).err().unwrap();
    assert!(error.to_string().ends_with("has format 2, this program reads format 1"), "{error}");
    assert!(!error.is_transient());
}

#[test]
fn a_missing_run_is_written_again() {
    let dir = tempfile::tempdir().unwrap();
    let states = filled(dir.path(), 40);
    let runs = files(dir.path(), "run");
    assert!(runs.len() > 3);
    std::fs::remove_file(&runs[1]).unwrap();
    let store = open(dir.path());
    assert_eq!(view(&store), states[40].view());
    assert_eq!(files(dir.path(), "run"), runs);
    store.verify().unwrap();
}

#[test]
fn what_a_crash_left_between_two_steps_is_cleaned_up() {
    let dir = tempfile::tempdir().unwrap();
    let states = filled(dir.path(), 60);
    let (kept, spare) = (tempfile::tempdir().unwrap(), files(dir.path(), "log"));
    for path in spare.iter().chain(&files(dir.path(), "run")) {
        std::fs::copy(path, kept.path().join(path.file_name().unwrap())).unwrap();
    }
    let mut store = open(dir.path());
    let mut steps = 0;
    while store.maintain().unwrap() {
        steps += 1;
    }
    assert!(steps >= 2, "there was something to merge and to compact");
    assert_eq!(view(&store), states[60].view());
    let tidy = (files(dir.path(), "log"), files(dir.path(), "run"));
    assert!(tidy.0.len() < spare.len());
    drop(store);

    // Put the replaced files back, as if they had not been deleted yet, and leave something unfinished.
    for entry in std::fs::read_dir(kept.path()).unwrap() {
        let from = entry.unwrap().path();
        std::fs::copy(&from, dir.path().join(from.file_name().unwrap())).unwrap();
    }
    std::fs::write(dir.path().join("run-00000001-00000009-7.run.tmp"), b"half").unwrap();
    let store = open(dir.path());
    assert_eq!(view(&store), states[60].view());
    store.verify().unwrap();
    assert_eq!((files(dir.path(), "log"), files(dir.path(), "run")), tidy);
    assert!(files(dir.path(), "tmp").is_empty());
}

#[test]
fn pages_that_stay_the_same_cost_little() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Links::open(folder(dir.path()), LinksOptions::default()).unwrap();
    let links: Vec<OutLink> =
        (0..8).map(|target| link(target, "a text of some length that need not be kept twice")).collect();
    store.put(id(1), host(1), &links, at(1)).unwrap();
    let (first, _) = (store.counts().bytes, store.take_dirty(99));
    store.put(id(1), host(1), &links, at(2)).unwrap();
    assert!(store.counts().bytes - first < 60);
    assert_eq!(store.take_dirty(99), []);
    store.advance(at(7)).unwrap();
    store.flush().unwrap();
    drop(store);
    assert_eq!(Links::open(folder(dir.path()), LinksOptions::default()).unwrap().watermark(), at(7));
}
