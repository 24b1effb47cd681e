//! Many URLs: a host that is larger than a bucket, buckets that split, compactions on threads, a disk that
//! fills up.

use super::*;
use farol_base::disk::Faulty;
use farol_base::random::mix;
use farol_base::{Random, Seeded};

pub(super) fn found_url(host: u64, page: u64) -> Found {
    // Paths that do not compress to nothing.
    let text = format!("http://h{host}.test/d{}/{:x}", page % 13, mix(page));
    found(&text, (page % 5) as u16)
}

#[test]
fn a_huge_host_stays_in_one_bucket_and_all_of_it_comes_up_once() {
    // Many times what a bucket should have, and 300 times what is pre-scheduled.
    let mem = Mem::new();
    let mut store = open(&mem, VeuniOptions { bucket_bytes: 64 << 10, prescheduled: 1000, ..options() });
    let mut expected = BTreeSet::new();
    for first in (0..300_000).step_by(10_000) {
        let batch: Vec<Found> = (first..first + 10_000).map(|page| found_url(0, page)).collect();
        expected.extend(batch.iter().map(|found| found.url.clone()));
        store.found(&batch).unwrap();
        store.flush().unwrap();
    }
    store.compact_all().unwrap();
    assert_eq!(bucket_files(&mem).len(), 1);
    assert!(store.engine.buckets[0].bytes() > 10 * (64 << 10), "{} bytes", store.engine.buckets[0].bytes());
    let host = Host::parse("http://h0.test").unwrap();
    assert_eq!(store.host_counts(&host).unwrap().known, 300_000);
    visit_all(&mut store, expected, 250);
    store.compact_all().unwrap();
    assert_eq!(bucket_files(&mem).len(), 1);
    let counts = store.counts();
    assert_eq!(
        (counts.hosts, counts.known, counts.collected, counts.waiting, counts.unmerged),
        (1, 300_000, 300_000, 0, 0)
    );
}

#[test]
fn a_small_store_has_several_buckets_which_are_active_together() {
    let load = |store: &mut Veuni, pages: u64| {
        let all: Vec<Found> = (0..pages).map(|page| found_url(page % 500, page)).collect();
        for batch in all.chunks(10_000) {
            store.found(batch).unwrap();
            store.flush().unwrap();
        }
        store.compact_all().unwrap();
        store.engine.buckets.iter().map(Bucket::bytes).collect::<Vec<u64>>()
    };
    // Far from the 32 MiB at which one of a large store is split. Together they count as one active bucket.
    let mut store = open(&Mem::new(), VeuniOptions { active_buckets_max: 1, ..options() });
    let bytes = load(&mut store, 300_000);
    assert!(bytes.len() > 1 && bytes.iter().all(|bytes| (1 << 20..3 << 20).contains(bytes)), "{bytes:?}");
    assert_eq!(store.hosts_due(NOW, 1000).unwrap().len(), 500);
    // Where they are as large as they may be, no more are active than may be.
    let bucket_bytes = 64 << 10;
    let mut store = open(&Mem::new(), VeuniOptions { active_buckets_max: 2, bucket_bytes, ..options() });
    let bytes = load(&mut store, 60_000);
    let hosts = store.hosts_due(NOW, 1000).unwrap().len();
    let active = store.dispatcher.buckets.values().filter(|bucket| bucket.active.is_some()).count();
    assert!(bytes.len() > 5 && hosts < 300 && active == 2, "{hosts} hosts of {active} of {bytes:?}");
}

#[test]
fn what_a_crawl_finds_first_is_compacted_before_it_asks() {
    let mut store = open(&Mem::new(), VeuniOptions { threads: 1, ..options() });
    let bring = |store: &mut Veuni, pages: std::ops::Range<u64>| {
        let batch: Vec<Found> = pages.map(|page| found_url(page % 50, page)).collect();
        store.found(&batch).unwrap();
        store.flush().unwrap();
    };
    bring(&mut store, 0..60_000);
    assert!(!store.wait().unwrap(), "few entries wait for a draw, or for memory to fill up");
    bring(&mut store, 60_000..70_000);
    assert!(store.wait().unwrap());
    assert_eq!(store.counts().known, 70_000);
    // As much again is no reason to rewrite what there is.
    bring(&mut store, 70_000..200_000);
    assert!(!store.wait().unwrap());
    assert_eq!(store.counts().known, 70_000);
}

#[test]
fn the_deltas_of_a_huge_host_are_never_more_than_memory_holds() {
    // Level-0 runs may be as large as they like, but one host's deltas must fit into a compaction.
    let memory = 1 << 20;
    let mem = Mem::new();
    let mut store = open(
        &mem,
        VeuniOptions { memtable_bytes: memory, level0_min: 1 << 40, bucket_bytes: 64 << 10, ..options() },
    );
    let mut most = 0;
    for first in (0..400_000).step_by(2_000) {
        store.found(&(first..first + 2_000).map(|page| found_url(0, page)).collect::<Vec<Found>>()).unwrap();
        store.flush().unwrap();
        most = most.max(store.engine.buckets[0].runs.iter().map(|run| run.largest).sum());
    }
    assert!(most > memory / 2 && most <= 3 * memory, "{most} bytes waited");
    // After opening again as much waits, or is thought to.
    let waits = |store: &Veuni| store.engine.buckets[0].runs.iter().map(|run| run.largest).sum::<u64>();
    let before = waits(&store);
    drop(store);
    let mut store = open(&mem, VeuniOptions { memtable_bytes: memory, ..options() });
    assert!(before > 0 && waits(&store) >= before / 2, "{} of {before} bytes", waits(&store));
    store.compact_all().unwrap();
    let host = Host::parse("http://h0.test").unwrap();
    assert_eq!((store.engine.buckets.len(), store.host_counts(&host).unwrap().known), (1, 400_000));
}

#[test]
fn a_bucket_that_splits_leaves_the_others_alone() {
    let mem = Mem::new();
    let mut store = open(&mem, VeuniOptions { bucket_hosts: 30, bucket_bytes: 32 << 10, ..options() });
    let first: Vec<Found> =
        (0..300).flat_map(|host| (0..20).map(move |page| found_url(host, page))).collect();
    store.found(&first).unwrap();
    store.compact_all().unwrap();
    // The first compaction does not know how many hosts come in; the next ones do.
    store.found(&(0..300).map(|host| found_url(host, 20)).collect::<Vec<Found>>()).unwrap();
    store.compact_all().unwrap();
    let before = bucket_files(&mem);
    assert!(before.len() > 3, "{before:?}");
    let (from, upto) = (store.engine.buckets[1].from, store.engine.buckets[2].from);
    let (number, generation) = (store.engine.buckets[1].number, store.engine.buckets[1].generation);
    let is_inside = |found: &Found| {
        let hash = found.url.host_hash();
        from <= hash && hash < upto
    };
    let deep = |host| Found { depth: 7, ..found_url(host, 0) };
    let more: Vec<Found> = (300..6000).map(deep).filter(is_inside).collect();
    assert!(more.len() > 100, "{}", more.len());
    store.found(&more).unwrap();
    store.compact_all().unwrap();
    store.found(&more.iter().map(|found| Found { depth: 0, ..found.clone() }).collect::<Vec<_>>()).unwrap();
    store.compact_all().unwrap();
    let after = bucket_files(&mem);
    assert!(after.len() > before.len() + 1);
    let changed: Vec<&String> = before.difference(&after).collect();
    assert_eq!(changed, [&format!("block-{number:06}-{generation:08}")], "others were rewritten");
    // What is new lies between the borders of the bucket that split.
    let borders: Vec<HostHash> = store.engine.buckets.iter().map(|bucket| bucket.from).collect();
    assert!(borders.is_sorted() && borders.contains(&from) && borders.contains(&upto));
    let parts =
        store.engine.buckets.iter().filter(|bucket| from <= bucket.from && bucket.from < upto).count();
    assert_eq!(after.len(), before.len() - 1 + parts);
    assert_eq!(store.counts().known, first.len() as u64 + 300 + more.len() as u64);
    let store = open(&mem, options());
    for found in first.iter().chain(&more) {
        assert!(store.get(&found.url).unwrap().is_some(), "{}", found.url);
    }
}

#[test]
fn what_threads_compact_is_what_was_written() {
    let mem = Mem::new();
    let small = VeuniOptions {
        memtable_bytes: 400 << 10,
        bucket_bytes: 96 << 10,
        bucket_hosts: 40,
        prescheduled: 150,
        active_buckets_max: 3,
        threads: 2,
        ..VeuniOptions::default()
    };
    let mut store = open(&mem, small.clone());
    let (mut naive, mut random) = (Naive::new(), Seeded::new(5));
    for _ in 0..100 {
        // Small numbers come up again and again.
        let batch: Vec<Found> = (0..2000)
            .map(|_| {
                let host = random.below(400).min(random.below(400));
                found_url(host, random.below(2000))
            })
            .collect();
        store.found(&batch).unwrap();
        naive.found(&batch).unwrap();
        store.flush().unwrap();
    }
    store.compact_all().unwrap();
    assert_eq!(Counts { bytes_on_disk: 0, ..store.counts() }, naive.counts());
    assert!(store.engine.buckets.len() > 5, "{} buckets", store.engine.buckets.len());
    same(&store, &naive, naive.urls().step_by(17).cloned());
    visit_all(&mut store, naive.urls().cloned().collect(), 40);
    drop(store);
    let mut store = open(&mem, small);
    store.compact_all().unwrap();
    let counts = store.counts();
    assert_eq!((counts.known, counts.collected, counts.waiting), (naive.counts().known, counts.known, 0));
    assert!(store.check().is_empty());
}

#[test]
fn a_full_disk_in_the_middle_of_a_compaction_costs_nothing() {
    let mem = Mem::new();
    let disk = Arc::new(Faulty::new(Arc::new(mem.clone())));
    let mut store = Veuni::open(disk.clone(), options()).unwrap().0;
    let first: Vec<Found> = (0..20_000).map(|number| found_url(number % 50, number)).collect();
    store.found(&first).unwrap();
    store.compact_all().unwrap();
    let before = bucket_files(&mem);
    let second: Vec<Found> = (20_000..40_000).map(|number| found_url(number % 60, number)).collect();
    store.found(&second).unwrap();
    store.flush().unwrap();
    // Less than the new bucket takes, whatever moment of the compaction that hits: its blocks, its end, the manifest.
    let bucket_bytes = mem.len(before.first().unwrap()).unwrap().unwrap();
    for room in [0, 1000, bucket_bytes, bucket_bytes * 3 / 2, bucket_bytes * 2] {
        disk.fill_up(room);
        match store.compact_all() {
            Ok(()) => assert_eq!(room, bucket_bytes * 2, "merged into {room} bytes"),
            Err(error) => {
                assert!(error.is_disk_full(), "{error}");
                assert!(bucket_files(&mem).is_superset(&before), "with room for {room} bytes");
            }
        }
        for found in [&first[7], &second[7], &second[19_999]] {
            assert!(store.get(&found.url).unwrap().is_some(), "{} with room for {room} bytes", found.url);
        }
        let mut other = open(&mem.fork(), options());
        other.compact_all().unwrap();
        assert_eq!((other.counts().known, other.counts().hosts), (40_000, 60));
    }
    disk.make_room();
    store.compact_all().unwrap();
    assert!(store.check().is_empty());
    visit_all(&mut store, first.into_iter().chain(second).map(|found| found.url).collect(), 500);
}

#[test]
fn a_compaction_that_fails_leaves_nothing_behind() {
    let mem = Mem::new();
    let disk = Arc::new(Faulty::new(Arc::new(mem.clone())));
    let mut store =
        Veuni::open(disk.clone(), VeuniOptions { bucket_bytes: 20 << 10, ..options() }).unwrap().0;
    store.found(&(0..9000).map(|number| found_url(number % 50, number)).collect::<Vec<_>>()).unwrap();
    store.flush().unwrap();
    for _ in 0..3 {
        disk.fill_up(45 << 10);
        assert!(store.compact_all().unwrap_err().is_disk_full());
        assert_eq!(bucket_files(&mem), BTreeSet::new());
    }
}

#[test]
fn a_caller_that_writes_more_than_a_full_disk_takes_gets_an_error() {
    let mem = Mem::new();
    let disk = Arc::new(Faulty::new(Arc::new(mem.clone())));
    let small = VeuniOptions { memtable_bytes: 200 << 10, bucket_bytes: 128 << 10, ..options() };
    let mut store = Veuni::open(disk.clone(), small.clone()).unwrap().0;
    disk.fill_up(600 << 10);
    let (mut batches, mut told) = (0, None);
    while told.is_none() && batches < 200 {
        let batch: Vec<Found> = (0..1000).map(|page| found_url(page % 90, 1000 * batches + page)).collect();
        batches += 1;
        told = store.found(&batch).and_then(|()| store.flush()).err();
    }
    let told = told.expect("nobody was told");
    assert!(told.is_disk_full(), "{told}");
    for _ in 0..3 {
        let again = store.flush();
        assert!(again.as_ref().is_ok_and(|()| true) || again.unwrap_err().is_disk_full());
    }
    disk.make_room();
    store.compact_all().unwrap();
    assert_eq!(store.counts().known, 1000 * batches);
    drop(store);
    let mut store = open(&mem, small);
    store.compact_all().unwrap();
    assert_eq!(store.counts().known, 1000 * batches);
}

#[test]
fn a_busy_disk_stalls_writes_and_memory_does_not_grow() {
    let disk = Arc::new(Faulty::new(Arc::new(Mem::new())));
    disk.be_busy(std::time::Duration::from_millis(20));
    let (memory, batch_bytes) = (4 << 20, 300 << 10);
    let busy = VeuniOptions { memtable_bytes: memory, bucket_bytes: 128 << 10, threads: 2, ..options() };
    let mut store = Veuni::open(disk, busy).unwrap().0;
    let mut most = 0;
    for batch in 0..150 {
        let found: Vec<Found> = (0..4000).map(|page| found_url(page % 90, 4000 * batch + page)).collect();
        store.found(&found).unwrap();
        store.flush().unwrap();
        let memtables = |bucket: &Bucket| {
            bucket.memtable.bytes() + bucket.state.sealed().map_or(0, |memtable| memtable.bytes())
        };
        let buffered = store.engine.buckets.iter().map(memtables).sum();
        most = most.max(buffered);
        // Each memtable, one that is being partitioned included, has a chunk that is not full.
        let open_chunks = 3 * store.engine.buckets.len() as u64 * memtable::chunk_pool::CHUNK_BYTES as u64;
        let made = store.engine.chunk_pool.allocated_bytes();
        assert!(made <= memory * 3 / 2 + batch_bytes + open_chunks, "{made} bytes for {buffered}");
    }
    assert!(most > memory && most <= memory * 3 / 2 + batch_bytes, "{most} bytes waited");
    store.compact_all().unwrap();
    assert_eq!(store.counts().known, 600_000);
}

#[test]
fn what_is_visited_while_its_bucket_is_compacted_is_not_drawn_again() {
    let mem = Mem::new();
    let mut store = open(&mem, VeuniOptions { threads: 1, ..VeuniOptions::default() });
    let host = found_url(7, 0).url.host();
    store.found(&(0..60_000).map(|page| found_url(7, page)).collect::<Vec<_>>()).unwrap();
    store.compact_all().unwrap();
    let now = Timestamp::from_secs(9);
    let first = store.draw(&host, 500, now).unwrap().urls;
    assert_eq!(first.len(), 500);
    // Large enough for a thread of its own.
    store.engine.start_compaction(0, &mut store.dispatcher);
    assert!(store.engine.buckets[0].is_busy());
    for drawn in &first {
        store.visited(&drawn.url, &page(Timestamp::NEVER)).unwrap();
    }
    while store.wait().unwrap() {}
    let first: HashSet<CanonicalUrl> = first.into_iter().map(|drawn| drawn.url).collect();
    let second = store.draw(&host, 600, now).unwrap().urls;
    assert!(!second.is_empty());
    assert!(second.iter().all(|drawn| !first.contains(&drawn.url)), "visited already");
}
