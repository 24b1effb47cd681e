//! The archive under crashes, full disks and damage, against a list of what was appended.

use super::archive::file_name;
use super::*;
use crate::Error;
use farol_base::disk::{Disk, Faulty, Mem};
use farol_base::{PagePosition, Random, Seeded};
use proptest::prelude::*;
use std::sync::Arc;

/// One of many kinds of exchange, the same for the same number.
fn sample(number: u64) -> Archived {
    if number % 6 == 5 {
        return Archived::Conversion(Conversion {
            url: CanonicalUrl::parse(&format!("http://h{}.test/p/{number}?q", number % 3)).unwrap(),
            fetched: Timestamp::from_millis(1_700_000_000_000 + number * 1234),
            content_type: "application/vnd.example".to_string(),
            block: Bytes::from(format!("\r\n\r\n{number}\0")),
            metadata: (number % 4 > 1).then(|| ("from".to_string(), "x".to_string())).into_iter().collect(),
        });
    }
    let mut random = Seeded::new(number);
    let letters = |random: &mut Seeded, count: u64| {
        (0..random.below(count)).map(|_| b' ' + random.below(64) as u8).collect::<Vec<u8>>()
    };
    let not_modified = number % 5 == 3;
    let revisit = not_modified || number % 5 == 4;
    let status = if not_modified { 304 } else { 200 };
    let metadata = [("via", "http://a.test/"), ("fetchTimeMs", "12"), ("odd", "a: b; ü")];
    Archived::Exchange(Exchange {
        url: CanonicalUrl::parse(&format!("http://h{}.test/p/{number}?q", number % 3)).unwrap(),
        fetched: Timestamp::from_millis(1_700_000_000_000 + number * 1234),
        address: [None, Some("192.0.2.7".parse().unwrap()), Some("2001:db8::1".parse().unwrap())]
            [number as usize % 3],
        status,
        request_head: if number % 7 == 1 { vec![] } else { b"GET /p HTTP/1.1\r\nHost: h\r\n\r\n".to_vec() },
        response_head: format!("HTTP/1.1 {status} Fine\r\nX-Number: {number}\r\n\r\n").into_bytes(),
        body: if not_modified { Bytes::new() } else { letters(&mut random, 400).into() },
        truncated: [None, None, Some(Truncated::Length), Some(Truncated::Time)][number as usize % 4],
        protocol: ["http/1.1", "h2", ""][number as usize % 3].to_string(),
        revisit_of: revisit.then_some(RevisitOf { fetched: Timestamp::from_millis(5), digest: None }),
        metadata: metadata[..number as usize % 4]
            .iter()
            .map(|(a, b)| (a.to_string(), b.to_string()))
            .collect(),
    })
}

/// An entry as it is read back.
fn as_read(mut archived: Archived) -> Archived {
    if let Archived::Exchange(exchange) = &mut archived
        && let Some(revisit) = &mut exchange.revisit_of
    {
        revisit.digest = (exchange.status != 304).then(|| PayloadDigest::of(&exchange.body));
        exchange.body = Bytes::new();
    }
    archived
}

fn encoded(numbers: std::ops::Range<u64>) -> Vec<Encoded> {
    let mut encoder = Encoder::new(1);
    numbers.map(|number| encoder.encode_archived(&sample(number), &mut Seeded::new(number))).collect()
}

fn open(disk: &Arc<dyn Disk>, file_bytes_max: u64) -> (Archive, Recovery) {
    Archive::open(disk.clone(), ArchiveOptions { file_bytes_max, ..ArchiveOptions::default() }).unwrap()
}

fn numbers(archive: &Archive) -> Vec<u64> {
    let mut last_end = PagePosition::default();
    let scan = archive.reader().scan(PagePosition::default());
    scan.map(|item| {
        let (at, next, exchange) = item.unwrap();
        assert!(at >= last_end && next > at);
        last_end = next;
        assert_eq!(archive.reader().read(at).unwrap(), exchange);
        let number = exchange.url().path().rsplit('/').next().unwrap().parse().unwrap();
        assert_eq!(exchange, as_read(sample(number)));
        number
    })
    .collect()
}

#[test]
fn a_closed_file_does_not_change_while_the_archive_goes_on() {
    let mem = Mem::new();
    let disk: Arc<dyn Disk> = Arc::new(mem.clone());
    let (mut archive, _) = open(&disk, u64::MAX);
    assert_eq!(archive.close_file().unwrap(), PagePosition::default(), "nothing to close");
    archive.append(&encoded(0..3)).unwrap();
    let closed = archive.close_file().unwrap();
    assert_eq!((closed, archive.close_file().unwrap()), (archive.end(), closed));
    let next = archive.append(&encoded(3..4)).unwrap()[0];
    assert_eq!((next.file, disk.len(&file_name(0)).unwrap()), (closed.file + 1, Some(closed.offset)));
    // The next one stays open.
    assert_eq!(archive.append(&encoded(4..5)).unwrap()[0].file, next.file);
    assert_eq!(numbers(&archive), [0, 1, 2, 3, 4]);
    assert_eq!(numbers(&open(&disk, u64::MAX).0), [0, 1, 2, 3, 4]);
}

#[test]
fn a_file_cut_anywhere_keeps_its_whole_exchanges() {
    let mem = Mem::new();
    let disk: Arc<dyn Disk> = Arc::new(mem.clone());
    let (mut archive, _) = open(&disk, u64::MAX);
    let first = archive.append(&encoded(0..2)).unwrap()[0];
    archive.append(&encoded(2..5)).unwrap();
    let scan = archive.reader().scan(PagePosition::default());
    let ends: Vec<u64> = scan.map(|item| item.unwrap().1.offset).collect();
    for len in 0..=archive.end().offset {
        let disk: Arc<dyn Disk> = Arc::new(mem.fork());
        disk.truncate(&file_name(0), len).unwrap();
        let (mut archive, recovery) = open(&disk, u64::MAX);
        let whole = ends.iter().filter(|end| **end <= len).count();
        assert_eq!(numbers(&archive), (0..whole as u64).collect::<Vec<u64>>(), "cut at {len}");
        let good = if whole > 0 {
            ends[whole - 1]
        } else if len == first.offset {
            len
        } else {
            0
        };
        assert_eq!(
            recovery.cut.map(|cut| (cut.offset, cut.bytes)),
            (len > good).then_some((good, len - good))
        );
        assert_eq!((archive.end(), archive.bytes()), (PagePosition { file: 0, offset: good }, good));
        if len % 16 == 0 {
            archive.append(&encoded(7..8)).unwrap();
            assert_eq!(numbers(&archive).last(), Some(&7));
        }
    }
}

#[test]
fn damage_is_told_and_the_scan_goes_on_behind_it() {
    let mem = Mem::new();
    let disk: Arc<dyn Disk> = Arc::new(mem.clone());
    let (mut archive, _) = open(&disk, u64::MAX);
    let positions = archive.append(&encoded(0..5)).unwrap();
    let mut bytes = vec![0; archive.end().offset as usize];
    mem.read_at(&file_name(0), 0, &mut bytes).unwrap();
    for at in positions[2].offset..positions[3].offset {
        let mut damaged = bytes.clone();
        damaged[at as usize] ^= 0x55;
        let mem = Mem::new();
        mem.append(&file_name(0), &damaged).unwrap();
        let disk: Arc<dyn Disk> = Arc::new(mem);
        // Opening to write cuts nothing: whole exchanges follow.
        let (opened, recovery) = open(&disk, u64::MAX);
        assert_eq!((opened.end(), recovery.cut), (archive.end(), None), "byte {at}");
        let reader = ArchiveReader::open(disk).unwrap();
        let items: Vec<_> = reader.scan(PagePosition::default()).collect();
        let found: Vec<PagePosition> = items.iter().flatten().map(|(at, _, _)| *at).collect();
        let others = [positions[0], positions[1], positions[3], positions[4]];
        assert!(others.iter().all(|other| found.contains(other)), "byte {at}: {items:?}");
        // Flags in a member's header may change without changing what it holds.
        assert!(items.iter().any(Result::is_err) || found.contains(&positions[2]), "byte {at}");
    }
}

#[test]
fn a_reader_sees_what_is_appended_and_nothing_else() {
    let disk: Arc<dyn Disk> = Arc::new(Mem::new());
    let (mut archive, _) = open(&disk, 2500);
    let reader = archive.reader();
    let mut scan = reader.scan(PagePosition::default());
    assert!(scan.next().is_none());
    for number in 0..20 {
        let at = archive.append(&encoded(number..number + 1)).unwrap()[0];
        let (position, next, exchange) = scan.next().unwrap().unwrap();
        assert_eq!((position, next, exchange), (at, archive.end(), as_read(sample(number))));
        assert!(scan.next().is_none());
    }
    assert!(archive.end().file > 2 && disk.list().unwrap().len() > 3);
    assert!(matches!(reader.read(archive.end()), Err(Error::NoPage { .. })));
    assert!(matches!(reader.read(PagePosition { file: 99, offset: 0 }), Err(Error::NoPage { .. })));
    assert!(reader.read(PagePosition { file: 0, offset: 3 }).is_err());
    assert!(matches!(reader.read(PagePosition::default()), Err(Error::NoPage { .. }))); // That is the file's own record.
}

#[test]
fn a_full_disk_is_waited_for() {
    let faulty = Arc::new(Faulty::new(Arc::new(Mem::new())));
    let disk: Arc<dyn Disk> = faulty.clone();
    let (mut archive, _) = open(&disk, u64::MAX);
    faulty.fill_up(100);
    assert!(archive.append(&encoded(0..2)).unwrap_err().is_disk_full());
    assert_eq!((archive.end(), disk.list().unwrap().len()), (PagePosition::default(), 0));
    faulty.make_room();
    archive.append(&encoded(0..2)).unwrap();
    faulty.fill_up(100);
    assert!(archive.append(&encoded(2..4)).unwrap_err().is_disk_full());
    faulty.make_room();
    archive.append(&encoded(2..4)).unwrap();
    assert_eq!(numbers(&archive), [0, 1, 2, 3]);
    faulty.die_at_write(1, 10);
    assert!(archive.append(&encoded(4..5)).is_err());
    assert!(matches!(archive.append(&encoded(4..5)), Err(Error::Poisoned { .. })));
}

#[test]
fn a_checkpoint_spares_the_reading_but_not_the_truth() {
    let mem = Mem::new();
    let disk: Arc<dyn Disk> = Arc::new(mem.clone());
    let (mut archive, _) = open(&disk, u64::MAX);
    archive.append(&encoded(0..3)).unwrap();
    let middle = archive.end();
    archive.append(&encoded(3..5)).unwrap();
    checkpoint::write(&mem, middle).unwrap();
    mem.append(&file_name(0), b"\x1f\x8b torn").unwrap();
    let (archive, recovery) = open(&disk, u64::MAX);
    assert_eq!((numbers(&archive), recovery.cut.unwrap().bytes), (vec![0, 1, 2, 3, 4], 7));
    // One that is ahead of the file, or of another one, is not believed.
    for wrong in [PagePosition { file: 0, offset: 1 << 40 }, PagePosition { file: 3, offset: 1 }] {
        checkpoint::write(&mem, wrong).unwrap();
        assert_eq!(numbers(&open(&disk, u64::MAX).0).len(), 5);
    }
}

#[derive(Clone, Debug)]
enum Op {
    Append(u64),
    Sync,
    Reopen,
    PowerCut,
    Die { kept: usize },
    FillUp(u64),
    MakeRoom,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        8 => (0u64..4).prop_map(Op::Append),
        2 => Just(Op::Sync),
        1 => Just(Op::Reopen),
        1 => Just(Op::PowerCut),
        2 => (0usize..3000).prop_map(|kept| Op::Die { kept }),
        1 => (0u64..2000).prop_map(Op::FillUp),
        1 => Just(Op::MakeRoom),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]
    #[test]
    fn what_was_answered_for_is_there(ops in proptest::collection::vec(op(), 1..25), file_bytes_max in 1000u64..8000) {
        let mem = Mem::new();
        let faulty = Arc::new(Faulty::new(Arc::new(mem.clone())));
        let disk: Arc<dyn Disk> = faulty.clone();
        let (mut archive, _) = open(&disk, file_bytes_max);
        let (mut appended, mut synced, mut next) = (Vec::new(), 0, 0);
        for op in ops {
            match op {
                Op::Append(count) => {
                    let batch = next..next + count;
                    next += count;
                    match archive.append(&encoded(batch.clone())) {
                        Ok(positions) => {
                            prop_assert_eq!(positions.len() as u64, count);
                            appended.extend(batch);
                        }
                        Err(_) if faulty.is_dead() => {
                            faulty.revive();
                            archive = open(&disk, file_bytes_max).0;
                            // Of the batch that was cut, whole exchanges may be there, in their order.
                            let there = numbers(&archive);
                            let all: Vec<u64> = appended.iter().copied().chain(batch).collect();
                            prop_assert!(there.len() >= appended.len() && all.starts_with(&there));
                            appended = there;
                        }
                        Err(error) => prop_assert!(error.is_disk_full()),
                    }
                }
                Op::Sync => {
                    if archive.sync().is_ok() {
                        synced = appended.len();
                    }
                }
                Op::Reopen => {
                    faulty.revive();
                    let (opened, recovery) = open(&disk, file_bytes_max);
                    prop_assert_eq!(recovery.cut, None);
                    archive = opened;
                }
                Op::PowerCut => {
                    faulty.revive();
                    mem.lose_unsynced();
                    archive = open(&disk, file_bytes_max).0;
                    let there = numbers(&archive);
                    prop_assert!(there.len() >= synced && appended.starts_with(&there));
                    appended = there;
                }
                Op::Die { kept } => faulty.die_at_write(1, kept),
                Op::FillUp(room) => faulty.fill_up(room),
                Op::MakeRoom => faulty.make_room(),
            }
            if !faulty.is_dead() {
                prop_assert_eq!(numbers(&archive), appended.clone());
            }
        }
    }

    #[test]
    fn no_file_breaks_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..400), keep in 0u64..900) {
        let mem = Mem::new();
        let disk: Arc<dyn Disk> = Arc::new(mem.clone());
        open(&disk, u64::MAX).0.append(&encoded(0..1)).unwrap();
        mem.truncate(&file_name(0), keep).unwrap();
        mem.append(&file_name(0), &bytes).unwrap();
        let reader = ArchiveReader::open(disk.clone()).unwrap();
        prop_assert!(reader.scan(PagePosition::default()).count() <= bytes.len() + 2);
        let (archive, _) = open(&disk, u64::MAX);
        prop_assert!(archive.reader().scan(PagePosition::default()).all(|item| item.is_ok()));
    }
}
