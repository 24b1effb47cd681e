//! What went wrong with NATS in trials, one test each, numbered as in docs/decisions/cluster.md.
//!
//! 5 and 7 are in the contract too; 8 is in `refusals`, 12 in `kills`.

use crate::{ask, by_hand, one, signal};
use farol_fabric::nats::Nats;
use farol_fabric::testing::servers::{TestServers, test_settings};
use farol_fabric::{Fabric, Lost, Refused, Revision, Seq, Topic};
use futures_util::StreamExt;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

const SOON: Duration = Duration::from_secs(5);

/// Appends until it works: a server that begins anew needs a moment.
fn append(node: &Nats, topic: &Topic, bytes: &[u8]) -> Seq {
    let begun = Instant::now();
    loop {
        match node.append(topic, bytes) {
            Ok(seq) => return seq,
            Err(refused) => assert!(begun.elapsed() < Duration::from_secs(30), "{refused}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Reads until something comes.
fn read(node: &Nats, topic: &Topic, after: u64) -> Vec<(u64, Vec<u8>)> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(30) {
        let read = node.read(topic, Seq(after), 64, Duration::from_millis(500));
        let items = read.map(|read| read.items).unwrap_or_default();
        if !items.is_empty() {
            return items.into_iter().map(|(seq, bytes)| (seq.0, bytes.to_vec())).collect();
        }
    }
    panic!("nothing follows {after}")
}

#[test]
fn trap_1_what_a_limit_refused_is_stored_when_it_is_sent_again() {
    let folder = tempfile::tempdir().unwrap();
    let servers = TestServers::cluster(folder.path(), 3);
    let mut options = servers.options();
    options.log_bytes_max = 64 << 10;
    let (node, topic) = (Nats::connect(&options).unwrap(), Topic::Docs(0));
    let batch = vec![b'x'; 20 << 10];
    let last = (0..3).map(|_| append(&node, &topic, &batch)).last().unwrap();
    assert_eq!((last, node.append(&topic, &batch)), (Seq(3), Err(Refused::Full)));
    assert_eq!(node.append(&topic, &batch), Err(Refused::Full), "asking again changes nothing");
    node.trim(&topic, Seq(2)).unwrap();
    let seq = append(&node, &topic, &batch);
    assert_eq!(read(&node, &topic, 3), [(seq.0, batch)], "it is in the log, once");
}

#[test]
fn trap_1_an_acknowledgement_without_number_is_a_refusal() {
    let (_folder, servers) = one();
    let node = servers.node();
    by_hand(&servers, async |client| {
        let mut asked = client.subscribe("farol.test.docs.7").await.unwrap();
        client.flush().await.unwrap();
        let appending = std::thread::spawn(move || node.append(&Topic::Docs(7), b"x"));
        let message = tokio::time::timeout(SOON, asked.next()).await.unwrap().unwrap();
        assert!(message.headers.is_none(), "no id is sent: {:?}", message.headers);
        let lie = r#"{"stream":"FAROL_test_DOCS_7","seq":0,"duplicate":true}"#;
        client.publish(message.reply.unwrap(), lie.into()).await.unwrap();
        client.flush().await.unwrap();
        let refused = appending.join().unwrap();
        assert!(
            matches!(&refused, Err(Refused::Away(text)) if text.contains("without a number")),
            "{refused:?}"
        );
    });
}

#[test]
fn trap_2_a_reader_goes_on_at_its_mark_after_a_restart() {
    let (_folder, mut servers) = one();
    let (node, topic) = (servers.node(), Topic::Links);
    for number in 1..=10u8 {
        append(&node, &topic, &[number]);
    }
    // Its consumer has given nothing yet when the server dies.
    let read_nothing = node.read(&topic, Seq(10), 9, Duration::from_millis(100)).unwrap();
    assert!(read_nothing.items.is_empty());
    servers.all[0].kill();
    servers.all[0].begin().unwrap();
    assert_eq!(append(&node, &topic, &[11]), Seq(11));
    assert_eq!(read(&node, &topic, 10), [(11, vec![11])]);
    assert_eq!(
        node.read(&topic, Seq(0), 1, SOON).unwrap().stream,
        read_nothing.stream,
        "it is the same stream"
    );
}

#[test]
fn trap_3_reading_without_servers_takes_its_time() {
    let (_folder, mut servers) = one();
    let (node, wait) = (servers.node(), Duration::from_millis(600));
    append(&node, &Topic::Links, b"x");
    servers.all[0].kill();
    let begun = Instant::now();
    for _ in 0..3 {
        assert!(node.read(&Topic::Links, Seq(1), 9, wait).is_err());
    }
    assert!(begun.elapsed() >= wait * 3, "three failures in {:?}", begun.elapsed());
    let state = node.state();
    assert!(!state.connected && state.trouble.is_some_and(|trouble| trouble.contains("no connection")));
    servers.all[0].begin().unwrap();
    assert_eq!(append(&node, &Topic::Links, b"y"), Seq(2));
}

#[test]
fn trap_4_and_11_every_call_ends_though_the_server_hangs_and_outcomes_are_unknown() {
    let (_folder, servers) = one();
    let node = servers.node();
    let first = node.set("k", b"1", Revision::NONE).unwrap();
    append(&node, &Topic::Links, b"x");
    signal(&servers, 0, "-STOP");
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let calls = [
            scope.spawn(|| assert!(matches!(node.append(&Topic::Links, b"y"), Err(Refused::Away(_))))),
            scope.spawn(|| assert!(node.read(&Topic::Links, Seq(1), 9, Duration::from_millis(500)).is_err())),
            scope.spawn(|| assert!(node.trim(&Topic::Links, Seq(1)).is_err())),
            scope.spawn(|| assert!(matches!(node.set("k", b"2", first), Err(Lost::Unknown(_))))),
            scope.spawn(|| assert!(node.get("k").is_err())),
            scope.spawn(|| assert!(node.list("").is_err())),
            scope.spawn(|| assert!(node.state().trouble.is_some())),
        ];
        calls.into_iter().for_each(|call| call.join().unwrap());
    });
    assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?}", begun.elapsed());
    signal(&servers, 0, "-CONT");
    let begun = Instant::now();
    // It happened, it did not, or it happens now: who reads the key and builds on that gets through.
    let (last, revision) = loop {
        assert!(begun.elapsed() < Duration::from_secs(30), "the key cannot be set");
        std::thread::sleep(Duration::from_millis(100));
        let Ok(found) = node.get("k") else { continue };
        let now = found.unwrap();
        match node.set("k", b"3", now.1) {
            Ok(revision) => break (now, revision),
            Err(Lost::Conflict | Lost::Unknown(_)) => {}
        }
    };
    let happened = last.0[..] == b"2"[..] && last.1 > first;
    assert!(last == (b"1"[..].into(), first) || happened, "{last:?}");
    assert!(revision > last.1 && node.get("k") == Ok(Some((b"3"[..].into(), revision))));
}

#[test]
fn trap_5_6_7_and_11_streams_have_limits_no_ages_and_no_stale_answers() {
    let (_folder, servers) = one();
    let node = servers.node();
    for topic in [Topic::Docs(0), Topic::Links, Topic::Urls(1), Topic::Parcels(1)] {
        append(&node, &topic, b"x");
    }
    node.set("k", b"x", Revision::NONE).unwrap();
    let listed = ask(&servers, "STREAM.LIST", "");
    let streams = listed["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 5, "{listed}");
    for stream in streams {
        let config = &stream["config"];
        let is = |name: &str| config[name].as_i64().unwrap_or_default();
        assert!(is("max_bytes") > 0 && is("max_age") == 0 && config["discard"] == "new", "{config}");
        assert!(config["allow_direct"] != true && config["storage"] == "file", "{config}");
        assert!(config["metadata"]["farol-stream-id"].as_str().is_some_and(|id| id.len() == 16), "{config}");
        let name = config["name"].as_str().unwrap();
        if name.ends_with("URLS") || name.ends_with("PARCELS") {
            assert!(
                is("max_msgs_per_subject") == 4096 && config["discard_new_per_subject"] == true,
                "{config}"
            );
        }
    }
}

#[test]
fn trap_9_a_disk_that_takes_no_more_means_later() {
    let folder = tempfile::tempdir().unwrap();
    // A limit of file sizes stands for a full disk.
    let wrapper = folder.path().join("limited");
    let program = farol_fabric::testing::servers::program();
    let script = format!("#!/bin/sh\nulimit -f 2048\nexec {} \"$@\"\n", program.display());
    std::fs::write(&wrapper, script).unwrap();
    std::fs::set_permissions(&wrapper, std::fs::Permissions::from_mode(0o755)).unwrap();
    let settings = test_settings(folder.path(), "n1");
    let own = folder.path().join("n1");
    let server = farol_fabric::nats::server::LocalServer::start(&wrapper, &own, settings.clone()).unwrap();
    let mut servers = TestServers { all: vec![server] };
    let (node, topic, batch) = (servers.node(), Topic::Docs(0), vec![b'x'; 100 << 10]);
    let mut taken = 0;
    let refused = (0..40).find_map(|_| match node.append(&topic, &batch) {
        Ok(seq) => {
            taken = seq.0;
            None
        }
        Err(refused) => Some(refused),
    });
    assert!(taken > 0 && matches!(refused, Some(Refused::Away(_) | Refused::Full)), "{taken} {refused:?}");
    // With room again, the same goes in.
    servers.all[0].kill();
    servers.all[0] = farol_fabric::nats::server::LocalServer::start(&program, &own, settings).unwrap();
    let seq = append(&node, &topic, &batch);
    let stored = read(&node, &topic, seq.0 - 1);
    assert_eq!(stored, [(seq.0, batch)]);
}

#[test]
fn a_watch_survives_a_restart_and_a_bucket_made_anew() {
    let (_folder, mut servers) = one();
    let node = servers.node();
    let watch = node.watch("w.");
    let first = node.set("w.a", b"1", Revision::NONE).unwrap();
    assert_eq!(watch.next(SOON).unwrap().revision, first);
    servers.all[0].kill();
    servers.all[0].begin().unwrap();
    let begun = Instant::now();
    let second = loop {
        match node.set("w.a", b"2", first) {
            Ok(revision) => break revision,
            Err(lost) => assert!(begun.elapsed() < Duration::from_secs(30), "{lost}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(watch.next(Duration::from_secs(30)).unwrap().revision, second);
    let deleted = ask(&servers, "STREAM.DELETE.KV_farol_test", "");
    assert_eq!(deleted["success"], true, "{deleted}");
    let anew = node.set("w.a", b"3", Revision::NONE).unwrap();
    assert!(anew < second, "revisions count from the beginning");
    let entry = watch.next(Duration::from_secs(30)).unwrap();
    assert_eq!((entry.value.as_deref(), entry.revision), (Some(&b"3"[..]), anew));
}

#[test]
fn a_reader_that_only_some_servers_know_yet_is_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let servers = TestServers::cluster(folder.path(), 3);
    servers.wait_until_ready();
    // Each node is connected to another server, and the consumers are wherever the servers put them.
    let nodes: Vec<Nats> = (0..3).map(|_| servers.node()).collect();
    let begun = Instant::now();
    while nodes[0].set("a", b"1", Revision::NONE).is_err() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the servers take nothing");
        std::thread::sleep(Duration::from_millis(100));
    }
    for round in 0..40 {
        for node in &nodes {
            let listed = node.list("").unwrap_or_else(|away| panic!("round {round}: {away}"));
            assert_eq!(listed.len(), 1);
        }
    }
}
