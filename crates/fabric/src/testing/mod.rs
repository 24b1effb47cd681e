//! For tests, here and in crates that use the fabric: what every implementation must do, and real servers.

pub mod servers;
pub mod under_kills;

use crate::{Fabric, Lost, Refused, Revision, Seq, Topic};
use std::time::Duration;

const LONG: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(150);

/// Checks the contract of [`Fabric`] on two nodes of an empty world.
///
/// # Panics
///
/// Where an implementation breaks it.
pub fn check_contract(here: &dyn Fabric, there: &dyn Fabric) {
    check_logs(here, there);
    check_limits(here);
    check_tables(here, there);
    check_watching(here, there);
    check_saying(here, there);
    let state = here.state();
    assert!(state.connected && state.trouble.is_none(), "{state:?}");
    assert!(!state.servers.is_empty() && state.streams.len() >= 2, "{state:?}");
}

fn check_logs(here: &dyn Fabric, there: &dyn Fabric) {
    let topic = Topic::Docs(1);
    let empty = there.read(&topic, Seq(0), 10, Duration::ZERO).expect("an empty log can be read");
    assert!(empty.items.is_empty() && empty.end == Seq(0), "{empty:?}");
    for number in 1..=10u8 {
        assert_eq!(
            here.append(&topic, &[number]),
            Ok(Seq(u64::from(number))),
            "numbers start at 1 and have no holes"
        );
    }
    let read = |after: u64, max: usize| {
        let read = there.read(&topic, Seq(after), max, LONG).expect("the log answers");
        assert_eq!(read.stream, empty.stream, "the stream keeps its id");
        read.items.iter().map(|(seq, bytes)| (seq.0, bytes[0])).collect::<Vec<_>>()
    };
    let numbers = |range: std::ops::RangeInclusive<u8>| range.map(|n| (u64::from(n), n)).collect::<Vec<_>>();
    assert_eq!(read(0, 3), numbers(1..=3));
    assert_eq!(read(3, 4), numbers(4..=7), "positions go on");
    assert_eq!(read(0, 2), numbers(1..=2), "and back");
    assert_eq!(read(9, 9), numbers(10..=10));
    let begun = std::time::Instant::now();
    let nothing = there.read(&topic, Seq(10), 9, SHORT).expect("the log answers");
    assert!(nothing.items.is_empty() && nothing.end == Seq(10), "{nothing:?}");
    assert!(begun.elapsed() >= SHORT, "a read waits for what may come");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| there.read(&topic, Seq(10), 9, LONG));
        std::thread::sleep(SHORT);
        here.append(&topic, &[11]).expect("the log takes it");
        let read = waiting.join().expect("no panic").expect("the log answers");
        assert_eq!(read.items.len(), 1, "a waiting read gets what comes: {read:?}");
    });
    let beyond = there.read(&topic, Seq(99), 9, LONG).expect("the log answers");
    assert!(
        begun.elapsed() < LONG && beyond.items.is_empty() && beyond.end == Seq(11),
        "a mark beyond the end is seen"
    );
    here.trim(&topic, Seq(4)).expect("the log can be trimmed");
    assert_eq!(read(0, 2), numbers(5..=6), "what was trimmed is gone");
    assert_eq!(here.append(&topic, &[12]), Ok(Seq(12)), "numbers go on after trimming");
    here.trim(&topic, Seq(12)).expect("the log can be emptied");
    let emptied = there.read(&topic, Seq(0), 9, Duration::ZERO).expect("the log answers");
    assert!(emptied.items.is_empty() && emptied.end == Seq(12), "an emptied log knows its end: {emptied:?}");
    let huge = vec![0; crate::BATCH_BYTES_MAX + 1];
    assert!(matches!(here.append(&topic, &huge), Err(Refused::Away(text)) if text.contains("cut it in two")));
}

/// Topics that share a stream share its numbers, not its limit: trap 7 of a shared stream.
fn check_limits(here: &dyn Fabric) {
    let (slow, fast) = (Topic::Urls(1), Topic::Urls(2));
    let mut last = Seq(0);
    for _ in 0..crate::topic::AGENT_BATCHES_MAX {
        last = here.append(&slow, b"a URL").expect("there is room");
    }
    assert_eq!(here.append(&slow, b"a URL"), Err(Refused::Full), "one receiver has its limit");
    assert_eq!(here.append(&fast, b"another"), Ok(Seq(last.0 + 1)), "which is no limit to another");
    let read = here.read(&fast, Seq(0), 9, LONG).expect("the log answers");
    assert_eq!(read.items.len(), 1, "a topic has its own batches only");
    assert_eq!(here.append(&slow, b"a URL"), Err(Refused::Full), "asking again changes nothing");
    here.trim(&slow, Seq(10)).expect("the log can be trimmed");
    assert_eq!(
        here.append(&slow, b"a URL"),
        Ok(Seq(last.0 + 2)),
        "what was refused is taken when there is room"
    );
    let all = here.read(&slow, Seq(last.0 - 1), 9, LONG).expect("the log answers");
    let seqs: Vec<u64> = all.items.iter().map(|(seq, _)| seq.0).collect();
    assert_eq!(seqs, [last.0, last.0 + 2], "and is stored, once");
}

fn check_tables(here: &dyn Fabric, there: &dyn Fabric) {
    assert_eq!(here.get("k.a"), Ok(None));
    let first = here.set("k.a", b"1", Revision::NONE).expect("a new key");
    assert!(first > Revision::NONE);
    assert_eq!(there.set("k.a", b"2", Revision::NONE), Err(Lost::Conflict), "there is one already");
    let second = there.set("k.a", b"2", first).expect("the revision is right");
    assert!(second > first, "revisions grow");
    assert_eq!(here.set("k.a", b"3", first), Err(Lost::Conflict), "the revision is old");
    let (value, revision) = here.get("k.a").expect("an answer").expect("a value");
    assert_eq!((&value[..], revision), (&b"2"[..], second));
    here.set("k.b", b"x", Revision::NONE).expect("a new key");
    here.set("kk", b"y", Revision::NONE).expect("a new key");
    let keys = |prefix: &str| {
        there
            .list(prefix)
            .expect("a list")
            .into_iter()
            .map(|(key, value, _)| (key, value.to_vec()))
            .collect::<Vec<_>>()
    };
    let row = |key: &str, value: &[u8]| (key.to_string(), value.to_vec());
    assert_eq!(keys("k."), [row("k.a", b"2"), row("k.b", b"x")]);
    assert_eq!(
        keys("k"),
        [row("k.a", b"2"), row("k.b", b"x"), row("kk", b"y")],
        "a prefix need not end at a dot"
    );
    assert_eq!(keys("none"), []);
    assert_eq!(here.delete("k.a", first), Err(Lost::Conflict));
    assert_eq!(here.delete("k.none", Revision::NONE), Err(Lost::Conflict), "there is nothing to remove");
    assert_eq!(here.delete("k.a", second), Ok(()));
    assert_eq!(there.get("k.a"), Ok(None));
    assert_eq!(keys("k."), [row("k.b", b"x")]);
    assert_eq!(here.set("k.a", b"4", second), Err(Lost::Conflict), "a removed key has no revision");
    let third = here.set("k.a", b"4", Revision::NONE).expect("a removed key can be made again");
    assert!(third > second, "and its revisions go on");
    assert!(
        matches!(here.set("no key", b"", Revision::NONE), Err(Lost::Unknown(text)) if text.contains("no key"))
    );
    let large = vec![0; crate::VALUE_BYTES_MAX + 1];
    assert!(
        matches!(here.set("k.c", &large, Revision::NONE), Err(Lost::Unknown(text)) if text.contains("blob"))
    );
}

fn check_watching(here: &dyn Fabric, there: &dyn Fabric) {
    let old = here.set("w.old", b"1", Revision::NONE).expect("a new key");
    here.set("v", b"1", Revision::NONE).expect("a new key");
    let watch = there.watch("w.");
    let entry = watch.next(LONG).expect("what a key holds comes first");
    assert_eq!((entry.key.as_str(), entry.value.as_deref(), entry.revision), ("w.old", Some(&b"1"[..]), old));
    let new = here.set("w.new", b"2", Revision::NONE).expect("a new key");
    here.set("v2", b"1", Revision::NONE).expect("a new key");
    let entry = watch.next(LONG).expect("then every change");
    assert_eq!((entry.key.as_str(), entry.value.as_deref(), entry.revision), ("w.new", Some(&b"2"[..]), new));
    here.delete("w.old", old).expect("the revision is right");
    let entry = watch.next(LONG).expect("removal is a change");
    assert_eq!((entry.key.as_str(), entry.value), ("w.old", None));
    assert!(entry.revision > new);
    assert_eq!(watch.next(SHORT), None, "and nothing else");
}

fn check_saying(here: &dyn Fabric, there: &dyn Fabric) {
    let (beat, other) = (there.hear("beat"), there.hear("other"));
    // What is said while a hearing begins may be lost: say it until it is heard.
    let heard = (0..100).find_map(|_| {
        here.say("beat", b"boom");
        beat.next(Duration::from_millis(50))
    });
    assert_eq!(heard.as_deref(), Some(&b"boom"[..]));
    assert_eq!(other.next(SHORT), None, "a subject is its own");
}
