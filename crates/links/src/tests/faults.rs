//! Torn writes, failed writes and a full disk at every write of a workload that seals, merges, compacts and ranks.
//!
//! What was flushed before the fault is there after it; of what came later, some prefix is. Nothing panics.

use super::*;
use crate::Budget;
use farol_base::disk::{Faulty, Mem};

const PUTS: u64 = 60;
const FLUSH_EVERY: u64 = 4;

fn links_of(number: u64) -> Vec<OutLink> {
    let page = number % PAGES;
    vec![link((page + 1) % PAGES, &format!("text {number}")), link((number * 7) % PAGES, "x")]
}

/// The states after each put.
fn states() -> Vec<Naive> {
    let mut naive = Naive::default();
    let mut states = vec![naive.clone()];
    for number in 0..PUTS {
        naive.pages.insert(number % PAGES, links_of(number));
        states.push(naive.clone());
    }
    states
}

/// How far a workload came: puts that were taken in, and those of them that were flushed.
#[derive(Default)]
struct Progress {
    put: u64,
    flushed: u64,
}

/// One put, with a flush, upkeep and ranks every few. Can be repeated after an error.
fn step(store: &mut Links, progress: &mut Progress) -> Result<(), crate::Error> {
    let number = progress.put;
    store.put(id(number % PAGES), host(number % PAGES), &links_of(number), at(number + 1))?;
    progress.put += 1;
    upkeep(store, progress)
}

fn upkeep(store: &mut Links, progress: &mut Progress) -> Result<(), crate::Error> {
    if progress.put.is_multiple_of(FLUSH_EVERY) {
        store.flush()?;
        progress.flushed = progress.put;
        while store.maintain()? {}
    }
    if progress.put.is_multiple_of(20) {
        store.compute_ranks(Budget::default())?;
    }
    Ok(())
}

fn run(store: &mut Links, progress: &mut Progress) -> Result<(), crate::Error> {
    while progress.put < PUTS {
        step(store, progress)?;
    }
    store.sync()?;
    progress.flushed = progress.put;
    Ok(())
}

/// Opens what a fault has left, checks it against the states, and finishes the workload.
fn check_reopened(disk: Arc<dyn Disk>, progress: &Progress, states: &[Naive], fault: &str) {
    let mut store =
        Links::open(Arc::clone(&disk), small()).unwrap_or_else(|error| panic!("{fault}: {error}"));
    store.verify().unwrap_or_else(|error| panic!("{fault}: {error}"));
    let found = view(&store);
    // A put that fails has not been taken in, but the last put may have been written whole before the fault.
    let possible = progress.flushed as usize..=(progress.put as usize).min(states.len() - 1);
    let state = possible.clone().rev().find(|state| states[*state].view() == found);
    let state = state.unwrap_or_else(|| panic!("{fault}: none of the states {possible:?} is there"));
    assert_eq!(store.watermark(), at(state as u64), "{fault}");
    let mut progress = Progress { put: state as u64, flushed: state as u64 };
    run(&mut store, &mut progress).unwrap_or_else(|error| panic!("{fault}: {error}"));
    assert_eq!(view(&store), states[PUTS as usize].view(), "{fault}");
    store.verify().unwrap();
    let unfinished = disk.list().unwrap().into_iter().filter(|name| name.ends_with(".tmp"));
    assert_eq!(unfinished.count(), 0, "{fault}");
}

/// Writes of the whole workload, where nothing fails.
fn writes() -> u64 {
    let disk = Arc::new(Faulty::new(Arc::new(Mem::new())));
    let mut store = Links::open(Arc::clone(&disk) as Arc<dyn Disk>, small()).unwrap();
    run(&mut store, &mut Progress::default()).unwrap();
    let names = disk.list().unwrap();
    assert!(names.iter().any(|name| name.starts_with("run-") && !name.ends_with("-0.run")), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("links-") && !name.ends_with("-0.log")), "{names:?}");
    disk.writes()
}

#[test]
fn a_process_that_dies_at_any_write_loses_nothing_that_was_flushed() {
    let (states, writes) = (states(), writes());
    assert!(writes > 60, "{writes}");
    for nth in 1..=writes {
        for kept_bytes in [0, 1, 13, 40, 400, usize::MAX] {
            let inner = Mem::new();
            let disk = Arc::new(Faulty::new(Arc::new(inner.clone())));
            disk.die_at_write(nth, kept_bytes);
            let mut progress = Progress::default();
            let opened = Links::open(Arc::clone(&disk) as Arc<dyn Disk>, small());
            let failed = opened.and_then(|mut store| run(&mut store, &mut progress));
            assert!(failed.is_err() && disk.is_dead());
            let fault = format!("death at write {nth} after {kept_bytes} bytes");
            check_reopened(Arc::new(inner), &progress, &states, &fault);
        }
    }
}

#[test]
fn a_power_cut_at_any_write_leaves_what_was_synced_and_an_earlier_state() {
    let (states, writes) = (states(), writes());
    for nth in 1..=writes {
        let inner = Mem::new();
        let disk = Arc::new(Faulty::new(Arc::new(inner.clone())));
        disk.die_at_write(nth, 5);
        let mut progress = Progress::default();
        let opened = Links::open(Arc::clone(&disk) as Arc<dyn Disk>, small());
        assert!(opened.and_then(|mut store| run(&mut store, &mut progress)).is_err());
        inner.lose_unsynced();
        // Flushed is not synced: any earlier state may be there.
        progress.flushed = 0;
        check_reopened(Arc::new(inner), &progress, &states, &format!("power cut at write {nth}"));
    }
}

#[test]
fn a_write_that_fails_once_is_repeated_and_nothing_is_lost_or_doubled() {
    let (states, writes) = (states(), writes());
    // The first write is the header of the first segment: opening fails, and is simply tried again.
    for nth in 1..=writes {
        let inner = Mem::new();
        let disk = Arc::new(Faulty::new(Arc::new(inner.clone())));
        disk.fail_write(nth);
        let open = || Links::open(Arc::clone(&disk) as Arc<dyn Disk>, small());
        let mut store = open().or_else(|_| open()).unwrap();
        finish_with_retries(&mut store, &disk, &format!("write {nth} failed"), &states);
        drop(store);
        let whole = Progress { put: PUTS, flushed: PUTS };
        check_reopened(Arc::new(inner), &whole, &states, &format!("reopened after write {nth} failed"));
    }
}

#[test]
fn a_disk_that_is_full_at_any_point_stops_the_store_until_there_is_room() {
    let states = states();
    let (mut full, mut room) = (0, 0);
    loop {
        let inner = Mem::new();
        let disk = Arc::new(Faulty::new(Arc::new(inner.clone())));
        disk.fill_up(room);
        let fault = format!("full after {room} bytes");
        let open = || Links::open(Arc::clone(&disk) as Arc<dyn Disk>, small());
        let mut store = open().unwrap_or_else(|error| {
            assert!(error.is_transient(), "{fault}: {error}");
            disk.make_room();
            open().unwrap()
        });
        let hit = finish_with_retries(&mut store, &disk, &fault, &states);
        drop(store);
        check_reopened(Arc::new(inner), &Progress { put: PUTS, flushed: PUTS }, &states, &fault);
        if room > 0 && hit == 0 {
            break;
        }
        (full, room) = (full + hit, room + 97);
    }
    assert!(full > 50, "the disk was full only {full} times");
}

/// Runs the workload to its end; answers how many calls failed on the way. At each the store still answers as before.
fn finish_with_retries(store: &mut Links, disk: &Faulty, fault: &str, states: &[Naive]) -> u32 {
    let (mut progress, mut failures) = (Progress::default(), 0);
    loop {
        let result = if progress.put == PUTS {
            run(store, &mut progress)
        } else if failures > 0 && progress.flushed < progress.put {
            upkeep(store, &mut progress).and_then(|()| step(store, &mut progress))
        } else {
            step(store, &mut progress)
        };
        match result {
            Ok(()) if progress.put == PUTS => break,
            Ok(()) => {}
            Err(error) => {
                failures += 1;
                assert!(failures < 20, "{fault}: {error}");
                let state = states[progress.put as usize].view();
                assert_eq!(view(store), state, "{fault}: {error}");
                // A call that fails again on a full disk is no worse for it.
                if failures > 2 {
                    disk.make_room();
                }
            }
        }
    }
    run(store, &mut progress).unwrap_or_else(|error| panic!("{fault}: {error}"));
    assert_eq!(view(store), states[PUTS as usize].view(), "{fault}");
    store.verify().unwrap_or_else(|error| panic!("{fault}: {error}"));
    failures
}
