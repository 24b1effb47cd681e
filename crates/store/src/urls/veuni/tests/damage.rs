//! Flipped bits: each is reported with its file and offset, the other buckets go on, and what was lost can be
//! written again.

use super::*;
use crate::urls::veuni::block_frame::{HEAD_BYTES, lengths};
use crate::urls::veuni::bucket::BucketState;
use std::ops::Range;

const HOSTS: u64 = 30;
const PAGES: u64 = 70;
const BLOCK_HEADER_BYTES: u64 = 44;
const TRAILER_BYTES: u64 = 20;

fn text(host: u64, page: u64) -> String {
    format!("http://h{host}.test/d{}/p{page}", page % 7)
}

fn small() -> VeuniOptions {
    VeuniOptions { bucket_hosts: 6, bucket_bytes: 100 << 10, ..options() }
}

/// What is written of a host, the first time and after a repair: URLs, and visits that the archive has.
fn write(store: &mut dyn UrlStore, host: u64, pages: Range<u64>) {
    let batch: Vec<Found> = pages.clone().map(|page| found(&text(host, page), (page % 4) as u16)).collect();
    store.found(&batch).unwrap();
    for page_number in pages.filter(|page| page % 5 == 0) {
        store.visited(&url(&text(host, page_number)), &page(Timestamp::NEVER)).unwrap();
    }
}

/// A store of several buckets, none of which has anything pending, and the naive one that knows the same.
fn settled() -> (Mem, Naive) {
    let (mem, mut naive) = (Mem::new(), Naive::new());
    let mut store = open(&mem, small());
    // Twice, because the first compaction does not know how many hosts come in.
    for pages in [0..1, 1..PAGES] {
        for host in 0..HOSTS {
            write(&mut store, host, pages.clone());
            write(&mut naive, host, pages.clone());
        }
        store.compact_all().unwrap();
    }
    assert!(store.engine.buckets.len() > 3 && store.check().is_empty());
    (mem, naive)
}

fn bytes_of(mem: &Mem, file: &str) -> Vec<u8> {
    let mut bytes = vec![0; mem.len(file).unwrap().unwrap() as usize];
    mem.read_at(file, 0, &mut bytes).unwrap();
    bytes
}

fn with_flip(mem: &Mem, file: &str, offset: u64) -> Mem {
    let (mem, mut bytes) = (mem.fork(), bytes_of(mem, file));
    bytes[offset as usize] ^= 0x10;
    mem.remove(file).unwrap();
    mem.append(file, &bytes).unwrap();
    mem.sync(file).unwrap();
    mem
}

/// The compressed blocks of a file between two offsets.
fn frame_reader(bytes: &[u8], mut at: u64, end: u64) -> Vec<Range<u64>> {
    let mut frame_reader = Vec::new();
    while at < end {
        let head: [u8; HEAD_BYTES] = std::array::from_fn(|i| bytes[at as usize + i]);
        let next = at + (HEAD_BYTES + lengths(&head).1) as u64;
        frame_reader.push(at..next);
        at = next;
    }
    frame_reader
}

/// The regions of a bucket's file: header, first and last block of URLs, last page of the directory, footer,
/// trailer.
fn regions(bytes: &[u8], hosts: u64) -> Vec<(&'static str, Range<u64>)> {
    let len = bytes.len() as u64;
    let trailer = len - TRAILER_BYTES;
    let footer = u64::from_le_bytes(std::array::from_fn(|i| bytes[trailer as usize + i]));
    let mut blocks = frame_reader(bytes, BLOCK_HEADER_BYTES, footer);
    let pages = blocks.split_off(blocks.len() - hosts.div_ceil(64) as usize);
    vec![
        ("header", 0..BLOCK_HEADER_BYTES),
        ("first block", blocks[0].clone()),
        ("last block", blocks[blocks.len() - 1].clone()),
        ("page", pages[pages.len() - 1].clone()),
        ("footer", footer..trailer),
        ("trailer", trailer..len),
    ]
}

/// Some bytes of a region: its ends, its middle, and the lengths and the checksum at the head of a block.
fn spots(region: &Range<u64>) -> BTreeSet<u64> {
    let ends = [region.start, region.end - 1, (region.start + region.end) / 2];
    let head = [1, 2, 4, 5, 8, 9, 12].map(|at| region.start + at);
    ends.into_iter().chain(head).collect()
}

fn in_range(range: &Range<u64>, url: &CanonicalUrl) -> bool {
    range.contains(&url.host_hash().0)
}

/// URLs of a naive store that wait, but for those of hosts in a range.
fn waiting_outside(naive: &Naive, range: &Range<u64>) -> BTreeSet<CanonicalUrl> {
    let waits = |url: &&CanonicalUrl| naive.get(url).unwrap().unwrap().visits == 0 && !in_range(range, url);
    naive.urls().filter(waits).cloned().collect()
}

/// Number, file and range of the second bucket.
fn second_bucket(mem: &Mem) -> (String, String, Range<u64>, u64) {
    let store = open(&mem.fork(), small());
    let bucket = &store.engine.buckets[1];
    let file = bucket.file().unwrap();
    (
        file.file.clone(),
        bucket.level0_file(),
        bucket.from.0..store.engine.buckets[2].from.0,
        file.totals.hosts,
    )
}

/// Empties what is damaged, writes it again, and compares.
fn repair(mut store: Veuni, naive: &Naive, range: &Range<u64>, pages: u64) {
    assert_eq!(store.empty_damaged().unwrap(), [range.start..=range.end - 1]);
    assert!(store.check().is_empty());
    for host in 0..HOSTS {
        if range.contains(&HostHash::of(&format!("http://h{host}.test")).0) {
            write(&mut store, host, 0..pages);
        }
    }
    store.compact_all().unwrap();
    assert_eq!(Counts { bytes_on_disk: 0, ..store.counts() }, naive.counts());
    same(&store, naive, naive.urls().cloned());
}

#[test]
fn a_flipped_bit_in_a_bucket_is_reported_and_its_hosts_come_back() {
    let (mem, naive) = settled();
    let (file, _, range, hosts) = second_bucket(&mem);
    for (name, region) in regions(&bytes_of(&mem, &file), hosts) {
        for (number, at) in spots(&region).into_iter().enumerate() {
            let bad = with_flip(&mem, &file, at);
            let mut store = open(&bad, small());
            let damage = store.check();
            assert_eq!(damage.len(), 1, "{name}, byte {at}");
            assert_eq!(damage[0].file, file, "{name}, byte {at}");
            assert!(region.start <= damage[0].offset, "{name}, byte {at}: {damage:?}");
            // A length that is too large is noticed where the file ends.
            assert!(region.contains(&damage[0].offset) || damage[0].what.contains("too early"), "{damage:?}");
            // All of it once for each region.
            if number == 2 {
                repair(open_and_check(&bad), &naive, &range, PAGES);
                visit_all(&mut store, waiting_outside(&naive, &range), 50);
            }
        }
    }
}

fn open_and_check(mem: &Mem) -> Veuni {
    let mut store = open(&mem.fork(), small());
    assert_eq!(store.check().len(), 1);
    store
}

/// Nobody checks: the crawl comes upon the damage.
#[test]
fn damage_that_the_crawl_comes_upon_stops_only_its_bucket() {
    let (mem, naive) = settled();
    let (file, _, range, hosts) = second_bucket(&mem);
    for (name, region) in regions(&bytes_of(&mem, &file), hosts) {
        let bad = with_flip(&mem, &file, (region.start + region.end) / 2);
        let mut store = open(&bad, small());
        let mut expected = waiting_outside(&naive, &range);
        let mut troubles = Vec::new();
        for _ in 0..100 {
            let hosts = match store.hosts_due(NOW, 64) {
                Ok(hosts) => hosts,
                Err(error) => {
                    troubles.push(error.to_string());
                    troubles.truncate(3);
                    continue;
                }
            };
            for host in &hosts {
                match store.draw(host, 500, NOW) {
                    Ok(drawn) => drawn.urls.iter().for_each(|drawn| {
                        assert!(expected.remove(&drawn.url) || in_range(&range, &drawn.url));
                        store.visited(&drawn.url, &page(Timestamp::NEVER)).unwrap();
                    }),
                    Err(error) => troubles.push(error.to_string()),
                }
                store.release_host(host);
            }
            store.flush().unwrap();
        }
        assert!(
            expected.is_empty(),
            "{name}: {} URLs of other buckets never came up; reported {troubles:?}",
            expected.len()
        );
        assert!(troubles.len() <= 1, "{name}: told {} times: {}", troubles.len(), troubles[0]);
        assert_eq!(store.damage().len(), 1, "{name}");
    }
}

/// As [`settled`], and then more URLs, that wait in level-0 runs: two runs for each bucket.
fn with_pending() -> (Mem, Naive) {
    let (mem, mut naive) = settled();
    let mut store = open(&mem, VeuniOptions { memtable_bytes: 1, ..small() });
    for pages in [PAGES..PAGES + 5, PAGES + 5..PAGES + 10] {
        for host in 0..HOSTS {
            write(&mut store, host, pages.clone());
            write(&mut naive, host, pages.clone());
        }
        store.flush().unwrap();
        // Takes in what the first one wrote.
        store.flush().unwrap();
    }
    assert!(store.engine.buckets.iter().all(|bucket| bucket.runs.len() == 2 && bucket.memtable.is_empty()));
    // As a WAL does that has grown: segments whose batches are in level-0 runs are deleted.
    store.engine.wal.roll();
    store.flush().unwrap();
    assert_eq!(store.engine.wal.segment_files().len(), 1);
    (mem, naive)
}

/// Bytes of the head and the index of the run at this offset.
fn run_head(bytes: &[u8], at: u64) -> Range<u64> {
    let blocks = u32::from_le_bytes(std::array::from_fn(|i| bytes[at as usize + 12 + i]));
    at..at + 28 + 16 * u64::from(blocks) + 4
}

#[test]
fn a_flipped_bit_in_a_block_of_a_run_is_reported_and_its_hosts_come_back() {
    let (mem, naive) = with_pending();
    let (_, pending, range, _) = second_bucket(&mem);
    let bytes = bytes_of(&mem, &pending);
    let head = run_head(&bytes, 0);
    let block = frame_reader(&bytes, head.end, head.end + 1).remove(0);
    for at in spots(&block) {
        let bad = with_flip(&mem, &pending, at);
        let mut store = open(&bad, small());
        let damage = store.check();
        assert_eq!(damage.len(), 1, "byte {at}");
        assert_eq!(damage[0].file, pending, "byte {at}");
        assert!(block.contains(&damage[0].offset) || damage[0].what.contains("too early"), "{damage:?}");
    }
    let bad = with_flip(&mem, &pending, (block.start + block.end) / 2);
    let mut store = open(&bad, small());
    store.check();
    repair(open_and_check(&bad), &naive, &range, PAGES + 10);
    visit_all(&mut store, waiting_outside(&naive, &range), 50);
}

/// Runs are synced before the WAL drops their batches, so a head that does not fit is damage, not a torn
/// write.
#[test]
fn a_flipped_bit_in_the_head_of_a_run_is_reported() {
    let (mem, naive) = with_pending();
    let (_, pending, range, _) = second_bucket(&mem);
    let bytes = bytes_of(&mem, &pending);
    for at in spots(&run_head(&bytes, 0)) {
        let bad = with_flip(&mem, &pending, at);
        let mut store = open(&bad, small());
        let damage = store.check();
        if damage.is_empty() {
            let lost = naive.urls().filter(|url| store.get(url).unwrap().is_none()).count();
            assert_eq!(lost, 0, "byte {at}: URLs are lost silently");
        } else {
            assert_eq!((damage.len(), &damage[0].file), (1, &pending), "byte {at}");
            repair(store, &naive, &range, PAGES + 10);
        }
    }
}

/// Until it is repaired, whatever else is written, for this bucket and for others.
#[test]
fn damage_is_not_forgotten() {
    let (mem, mut naive) = with_pending();
    let (file, pending, range, hosts) = second_bucket(&mem);
    for host in 0..HOSTS {
        write(&mut naive, host, PAGES + 10..PAGES + 15);
    }
    let mut regions = regions(&bytes_of(&mem, &file), hosts);
    regions.push(("run", run_head(&bytes_of(&mem, &pending), 0)));
    for (name, region) in regions {
        let damaged = if name == "run" { &pending } else { &file };
        let bad = with_flip(&mem, damaged, (region.start + region.end) / 2);
        let mut store = open(&bad, VeuniOptions { memtable_bytes: 1, ..small() });
        assert_eq!(store.check().len(), 1);
        for host in 0..HOSTS {
            write(&mut store, host, PAGES + 10..PAGES + 15);
        }
        store.flush().unwrap();
        store.compact_all().unwrap();
        drop(store);
        let mut store = open(&bad, small());
        assert_eq!(store.check().iter().map(|damage| &damage.file).collect::<Vec<_>>(), [damaged], "{name}");
        repair(store, &naive, &range, PAGES + 15);
    }
}

#[test]
fn a_repair_that_was_not_finished_is_not_forgotten_when_another_bucket_is_compacted() {
    let (mem, mut naive) = settled();
    let (file, _, range, _) = second_bucket(&mem);
    let bad = with_flip(&mem, &file, BLOCK_HEADER_BYTES + 20);
    let mut store = open(&bad, small());
    assert_eq!(store.check().len(), 1);
    store.empty_damaged().unwrap();
    drop(store);
    let mut store = open(&bad, small());
    assert_eq!(store.damage().len(), 1);
    let other = (0..HOSTS).find(|host| !range.contains(&HostHash::of(&format!("http://h{host}.test")).0));
    let new = [found(&text(other.unwrap(), 9999), 1)];
    store.found(&new).unwrap();
    naive.found(&new).unwrap();
    store.compact_all().unwrap();
    drop(store);
    let store = open(&bad, small());
    assert_eq!(store.damage().len(), 1, "half of a bucket counts as whole");
    repair(store, &naive, &range, PAGES);
}

/// A crawl looks a page up when it has visited it, and must not end because of that.
#[test]
fn damage_that_a_look_up_comes_upon_stops_only_its_bucket() {
    let (mem, naive) = settled();
    let (file, _, range, hosts) = second_bucket(&mem);
    for (name, region) in regions(&bytes_of(&mem, &file), hosts) {
        let bad = with_flip(&mem, &file, (region.start + region.end) / 2);
        let mut store = open(&bad, small());
        let (inside, outside): (Vec<_>, Vec<_>) = naive.urls().partition(|url| in_range(&range, url));
        for url in inside {
            store.get(url).unwrap();
        }
        same(&store, &naive, outside.into_iter().cloned());
        store.flush().unwrap();
        assert_eq!(store.damage().len(), 1, "{name}");
        visit_all(&mut store, waiting_outside(&naive, &range), 50);
    }
}

/// Whatever is lost of the list or of the WAL, the store does not open as if it were whole, and can begin anew.
#[test]
fn a_lost_or_damaged_list_or_log_is_told_and_the_store_begins_anew() {
    let (mem, _) = settled();
    let log = mem.list().unwrap().into_iter().rfind(|name| name.starts_with("log-")).unwrap();
    for file in ["blocks", &log] {
        let whole = bytes_of(&mem, file);
        let flipped = (0..whole.len()).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            Some(bytes)
        });
        let cut = (0..whole.len()).map(|len| Some(whole[..len].to_vec()));
        for bytes in flipped.chain(cut).chain([None]) {
            let bad = mem.fork();
            bad.remove(file).unwrap();
            if let Some(bytes) = &bytes {
                bad.append(file, bytes).unwrap();
            }
            let error = Veuni::open(Arc::new(bad.clone()), small()).err().unwrap();
            assert!(matches!(error, Error::Damaged { .. }), "{file} {bytes:?}: {error}");
            Veuni::remove_all(&bad).unwrap();
            assert_eq!(open(&bad, small()).counts().known, 0);
        }
    }
}

#[test]
fn damage_that_is_found_while_a_job_is_under_way_leaves_the_job_its_memtable() {
    let mut store = open(&Mem::new(), options());
    store.found(&[found("http://h/a", 1)]).unwrap();
    store.flush().unwrap();
    let Engine { buckets, wal, .. } = &mut store.engine;
    let sealed = Arc::new(buckets[0].memtable.take());
    let first_seqno = sealed.first_seqno();
    buckets[0].state = BucketState::Flushing(sealed.clone());
    assert!(first_seqno < wal.next_seqno);
    let damage = Error::Damaged { file: "f".to_string(), offset: 1, what: "torn".to_string() };
    store.engine.on_read_failed(0, damage, &mut store.dispatcher);
    // The job still has it, so the WAL must keep it, and look-ups must see it.
    assert!(store.engine.buckets[0].is_busy() && store.damage().len() == 1);
    assert!(store.get(&url("http://h/a")).unwrap().is_some());
    drop(sealed);
    let kept = store.engine.buckets[0].state.end().and_then(Arc::into_inner);
    assert_eq!(kept.map(|memtable| memtable.len()), Some(1));
}
