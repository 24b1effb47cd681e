//! A stream that is deleted under load: its reader notices, has all sent again, and misses nothing.

use crate::{ask, one};
use farol_fabric::{Fabric, Refused, Seq, StreamId, Topic};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const TOPIC: Topic = Topic::Links;
const BATCHES: u64 = 3000;

#[test]
fn a_stream_deleted_under_load_is_another_one_and_all_is_there_again() {
    let (_folder, servers) = one();
    let (sender, receiver) = (servers.node(), servers.node());
    // What the receiver has asked the sender to send again from, and what the receiver has.
    let (again, taken, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let streams_seen = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 1;
            while !done.load(Ordering::SeqCst) {
                let asked = again.swap(0, Ordering::SeqCst);
                if asked > 0 {
                    number = asked;
                }
                if number > BATCHES {
                    std::thread::sleep(Duration::from_millis(5));
                    continue;
                }
                match sender.append(&TOPIC, &number.to_le_bytes()) {
                    Ok(_) => number += 1,
                    Err(Refused::Away(_) | Refused::Full) => std::thread::sleep(Duration::from_millis(50)),
                }
            }
        });
        let reading = scope.spawn(|| {
            let (mut mark, mut expected, mut stream) = (Seq(0), 1, None::<StreamId>);
            let (mut streams, begun) = (0, Instant::now());
            let mut asked = Instant::now();
            while expected <= BATCHES {
                assert!(begun.elapsed() < Duration::from_secs(60), "stuck before {expected}");
                let Ok(read) = receiver.read(&TOPIC, mark, 64, Duration::from_millis(300)) else { continue };
                if stream != Some(read.stream) || read.end < mark {
                    (stream, mark, streams) = (Some(read.stream), Seq(0), streams + 1);
                    continue;
                }
                for (seq, bytes) in read.items {
                    mark = seq;
                    let number = u64::from_le_bytes(bytes[..].try_into().unwrap());
                    if number > expected && asked.elapsed() > Duration::from_millis(200) {
                        again.store(expected, Ordering::SeqCst);
                        asked = Instant::now();
                    }
                    expected += u64::from(number == expected);
                }
                taken.store(expected - 1, Ordering::SeqCst);
                if expected <= BATCHES && asked.elapsed() > Duration::from_secs(2) {
                    // The tail is gone, and nothing came behind it.
                    again.store(expected, Ordering::SeqCst);
                    asked = Instant::now();
                }
            }
            done.store(true, Ordering::SeqCst);
            streams
        });
        for part in 1..=2 {
            while taken.load(Ordering::SeqCst) < BATCHES * part / 4 && !reading.is_finished() {
                std::thread::sleep(Duration::from_millis(5));
            }
            let deleted = ask(&servers, "STREAM.DELETE.FAROL_test_LINKS", "");
            assert_eq!(deleted["success"], true, "{deleted}");
        }
        reading.join().unwrap()
    });
    assert_eq!(streams_seen, 3, "each deletion was seen as another stream");
}
