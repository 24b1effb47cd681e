//! Hosts that move between stores, and copies of a store: with background threads, in larger numbers than the race has.

use super::*;
use crate::urls::{KnownUrl, Source, StoreFile};
use std::ops::ControlFlow;

const PAGES: u64 = 30_000;

fn host(number: u64) -> Host {
    Host::parse(&format!("http://h{number}.test")).unwrap()
}

fn page_url(of: u64, page: u64) -> CanonicalUrl {
    host(of).stored_page(&format!("/d{}/p{page}", page % 13)).unwrap()
}

/// Every fifth page was visited, every hundredth failed.
fn fill(store: &mut dyn UrlStore, of: u64, pages: std::ops::Range<u64>) {
    let found: Vec<Found> = (pages.clone())
        .map(|page| Found { url: page_url(of, page), depth: (page % 9) as u16, hint: None })
        .collect();
    store.found(&found).unwrap();
    for number in pages.filter(|page| page % 5 == 0) {
        let outcome = if number % 100 == 0 { VisitOutcome::Failed } else { VisitOutcome::Page };
        store
            .visited(&page_url(of, number), &Visit { outcome, ..page(Timestamp::from_secs(number)) })
            .unwrap();
    }
}

fn exported(store: &mut dyn UrlStore, hosts: &[Host]) -> Vec<KnownUrl> {
    let mut urls = Vec::new();
    let export = store.export(hosts).unwrap();
    export
        .walk(&mut |host, path, record| {
            urls.push(KnownUrl { url: host.stored_page(path).unwrap(), record: record.clone() });
            ControlFlow::Continue(())
        })
        .unwrap();
    urls
}

fn with_threads() -> VeuniOptions {
    VeuniOptions { memtable_bytes: 1 << 20, level0_min: 1 << 20, threads: 2, ..options() }
}

#[test]
fn an_export_is_whole_though_the_store_compacts_and_forgets_the_host_meanwhile() {
    let mem = Mem::new();
    let (mut store, mut naive) = (open(&mem, with_threads()), Naive::new());
    for pages in [0..PAGES / 2, PAGES / 2..PAGES] {
        for of in 0..3 {
            fill(&mut store, of, pages.clone());
            fill(&mut naive, of, pages.clone());
            store.flush().unwrap();
        }
    }
    let hosts = [host(0), host(2), host(7)];
    let export = store.export(&hosts).unwrap();
    // It is read on another thread, while everything under it is replaced.
    let (send, receive) = std::sync::mpsc::sync_channel(0);
    let reader = std::thread::spawn(move || {
        let mut urls = Vec::new();
        let walked = export.walk(&mut |host, path, record| {
            if urls.len() % 1000 == 0 {
                let _ = send.send(());
            }
            urls.push(KnownUrl { url: host.stored_page(path).unwrap(), record: record.clone() });
            ControlFlow::Continue(())
        });
        walked.map(|()| urls)
    });
    receive.recv().unwrap();
    store.forget(&hosts).unwrap();
    fill(&mut store, 1, PAGES..PAGES + 9_000);
    store.compact_all().unwrap();
    assert_eq!(store.counts().known, PAGES + 9_000);
    drop(receive);
    assert_eq!(reader.join().unwrap().unwrap(), exported(&mut naive, &hosts));
    // What the export kept is gone with it.
    let listed: BTreeSet<String> = store.engine.buckets.iter().map(Bucket::file_name).collect();
    assert_eq!(bucket_files(&mem), listed);
}

#[test]
fn an_export_that_is_broken_off_or_dropped_keeps_no_file() {
    let mem = Mem::new();
    let mut store = open(&mem, options());
    fill(&mut store, 0, 0..2_000);
    store.compact_all().unwrap();
    fill(&mut store, 0, 2_000..2_100);
    store.flush().unwrap();
    let mut count = 0;
    let [broken_off, unread] = [(); 2].map(|()| store.export(&[host(0)]).unwrap());
    let stop = |count: &mut u64| {
        *count += 1;
        if *count < 5 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    broken_off.walk(&mut |_, _, _| stop(&mut count)).unwrap();
    assert_eq!(count, 5);
    store.compact_all().unwrap();
    assert_eq!(bucket_files(&mem).len(), 2, "the other export needs the old one");
    drop(unread);
    assert_eq!(bucket_files(&mem).len(), 1);
}

#[test]
fn a_forgotten_host_is_not_drawn_and_comes_back_when_it_is_found_again() {
    let mem = Mem::new();
    let mut store = open(&mem, options());
    fill(&mut store, 0, 0..50);
    fill(&mut store, 1, 0..50);
    store.compact_all().unwrap();
    assert_eq!(store.hosts_due(NOW, 9).unwrap().len(), 2);
    assert_eq!(store.draw(&host(0), 3, NOW).unwrap().urls.len(), 3);
    store.forget(&[host(0)]).unwrap();
    // Nothing was compacted, and its bucket is active: it must not be drawn from all the same.
    assert!(store.engine.buckets[0].has_pending());
    assert_eq!(store.draw(&host(0), 3, NOW).unwrap(), Drawn::default());
    store.release_host(&host(1));
    store.found(&[found("http://h0.test/back", 3)]).unwrap();
    store.flush().unwrap();
    assert!(store.get(&page_url(0, 1)).unwrap().is_none());
    let mut store = open(&mem, options());
    assert!(store.get(&page_url(0, 1)).unwrap().is_none());
    let drawn = store.draw(&host(0), 9, NOW).unwrap();
    assert_eq!(texts(&drawn), ["http://h0.test/back"]);
    store.compact_all().unwrap();
    assert_eq!(store.host_counts(&host(0)).unwrap().known, 1);
    assert_eq!(store.host_counts(&host(1)).unwrap().known, 50);
}

#[test]
fn what_another_store_has_visited_is_not_drawn_as_new() {
    let mut store = open(&Mem::new(), options());
    fill(&mut store, 0, 0..8);
    store.compact_all().unwrap();
    assert_eq!(store.hosts_due(NOW, 9).unwrap(), [host(0)]);
    let record = |at: u64, due: Timestamp| {
        let mut record = Record { depth: 2, ..Record::default() };
        record.visit(&Visit { at: Timestamp::from_secs(at), ..page(due) });
        record
    };
    let never = |number| KnownUrl { url: page_url(0, number), record: record(900, Timestamp::NEVER) };
    let all: Vec<KnownUrl> = (1..8).map(never).collect();
    store.import(&all).unwrap();
    store.flush().unwrap();
    let stored = store.get(&page_url(0, 3)).unwrap().unwrap();
    assert_eq!((stored.position, stored.content_hash, stored.visits), (None, ContentHash(7), 1));
    // The host's pages come up again once its bucket knows better: the one that nobody has visited since.
    store.release_host(&host(0));
    assert_eq!(store.hosts_due(NOW, 9).unwrap(), [host(0)]);
    let drawn = store.draw(&host(0), 20, NOW).unwrap();
    assert_eq!(texts(&drawn), [page_url(0, 0).as_str()]);
}

#[test]
fn copies_of_a_store_open_as_it_was_and_need_no_file_twice() {
    let mem = Mem::new();
    let (mut store, mut naive) = (open(&mem, with_threads()), Naive::new());
    let mut copied: HashSet<(String, u64)> = HashSet::new();
    let (mut all, mut again) = (0, 0);
    for round in 0..12 {
        for of in round % 4 * 8..(round % 4 + 1) * 8 {
            let pages = round / 4 * 300..(round / 4 + 1) * 300;
            fill(&mut store, of, pages.clone());
            fill(&mut naive, of, pages);
            store.note(Source(of), round).unwrap();
            naive.note(Source(of), round).unwrap();
        }
        store.mark(PagePosition { file: 0, offset: round }).unwrap();
        let files = store.files().unwrap().unwrap();
        assert_eq!((files.watermark().offset, files.numbers()), (round, &naive.numbers()));
        // The store goes on.
        store.compact_all().unwrap();
        let elsewhere = Mem::new();
        files.copy_to(&elsewhere).unwrap();
        for StoreFile { name, bytes, is_final } in files.files() {
            let is_new = copied.insert((name.clone(), *bytes));
            assert!(is_new || *is_final || name == "blocks" || name.starts_with("log-"), "{name}");
            (all, again) = (all + bytes, again + if is_new { 0 } else { *bytes });
        }
        let mut copy = open(&elsewhere, with_threads());
        assert_eq!((copy.watermark().offset, copy.numbers()), (round, naive.numbers()));
        copy.compact_all().unwrap();
        assert_eq!(Counts { bytes_on_disk: 0, ..copy.counts() }, naive.counts());
        same(&copy, &naive, naive.urls().cloned().step_by(37));
    }
    assert!(again > 0 && all > again, "{again} of {all} bytes were there already");
}

#[test]
fn a_damaged_store_is_not_copied_and_its_damaged_host_not_exported() {
    let mem = Mem::new();
    let mut store = open(&mem, VeuniOptions { bucket_hosts: 4, ..options() });
    (0..16).for_each(|of| fill(&mut store, of, 0..20));
    store.compact_all().unwrap();
    (0..16).for_each(|of| fill(&mut store, of, 20..40));
    store.compact_all().unwrap();
    let bucket = &store.engine.buckets[0];
    let (file, name) = (bucket.file_name(), bucket.file().unwrap().hosts().next().unwrap().unwrap().host);
    drop(store);
    mem.truncate(&file, 100).unwrap();
    let mut store = open(&mem, options());
    let error = store.files().unwrap_err();
    assert!(error.is_damage() && error.to_string().contains(&file), "{error}");
    let (lost, sound) = (Host::parse(&name).unwrap(), |of: &Host| of.as_str() != name);
    assert!(store.export(std::slice::from_ref(&lost)).err().unwrap().is_damage());
    let others: Vec<Host> = (0..16).map(host).filter(sound).collect();
    let exports = others.iter().filter(|host| store.export(std::slice::from_ref(host)).is_ok()).count();
    assert!(exports >= 8, "{exports} of {} hosts", others.len());
}
