//! Whatever is wrong with the servers is one sentence that says what to do, and nothing is written.

use crate::{ask, one, signal};
use farol_fabric::nats::{Nats, NatsOptions};
use farol_fabric::testing::servers::{TestServers, free_address};
use farol_fabric::{Fabric, Refused, Topic};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

fn refusal(options: &NatsOptions) -> String {
    let begun = Instant::now();
    let sentence = match Nats::connect(options) {
        Ok(_) => panic!("it was let in"),
        Err(error) => error.to_string(),
    };
    assert!(begun.elapsed() < Duration::from_secs(20), "it took {:?} to say: {sentence}", begun.elapsed());
    assert!(!sentence.contains('\n') && sentence.len() < 400, "{sentence}");
    assert!(!sentence.contains("secret"), "no password is shown: {sentence}");
    sentence
}

fn check(options: &NatsOptions, parts: &[&str]) {
    let sentence = refusal(options);
    for part in parts {
        assert!(sentence.contains(part), "{part:?} is not in: {sentence}");
    }
}

#[test]
fn nobody_listens() {
    let address = free_address();
    check(
        &NatsOptions::new("test", &format!("nats://{address}")),
        &["no NATS server listens", "start nats-server"],
    );
}

#[test]
fn what_is_no_address_is_said() {
    check(&NatsOptions::new("test", "http://127.0.0.1:1"), &["nats://", "begins neither"]);
    check(&NatsOptions::new("a b", "nats://127.0.0.1:1"), &["no name of a cluster"]);
    let mut half = NatsOptions::new("test", "nats://127.0.0.1:1");
    half.tls_cert = Some("Cargo.toml".into());
    check(&half, &["cluster.tls_key"]);
    half.tls_ca = Some("/nowhere/ca.pem".into());
    check(&half, &["/nowhere/ca.pem", "correct its path"]);
}

#[test]
fn user_and_password_come_from_the_address_and_wrong_ones_are_said() {
    let folder = tempfile::tempdir().unwrap();
    let servers = TestServers::with(folder.path(), |settings| {
        settings.user = Some(("farol".to_string(), "p@ss/word".to_string()));
    });
    let listen = servers.all[0].settings().listen;
    let with = |inside: &str| {
        let mut options = servers.options();
        options.join = format!("nats://{inside}{listen}");
        options
    };
    check(&with(""), &["names no user", "nats://USER:PASSWORD@HOST"]);
    check(&with("farol:secret@"), &["\"farol\"", "this password", "correct"]);
    let node = Nats::connect(&with("farol:p%40ss%2Fword@")).unwrap();
    assert_eq!(node.get("k"), Ok(None));
    assert!(!format!("{:?}", node.state()).contains("p@ss"), "{:?}", node.state());
}

#[test]
fn jetstream_is_off() {
    let (folder, program) = (tempfile::tempdir().unwrap(), farol_fabric::testing::servers::program());
    let address = free_address();
    let config = folder.path().join("nats.conf");
    std::fs::write(&config, format!("listen: \"{address}\"\n")).unwrap();
    let mut command = std::process::Command::new(program);
    let mut child = command.arg("-c").arg(&config).stderr(std::process::Stdio::null()).spawn().unwrap();
    let begun = Instant::now();
    while std::net::TcpStream::connect(address).is_err() && begun.elapsed() < Duration::from_secs(10) {
        std::thread::sleep(Duration::from_millis(20));
    }
    let sentence = std::panic::catch_unwind(|| refusal(&NatsOptions::new("test", &address.to_string())));
    child.kill().unwrap();
    child.wait().unwrap();
    let sentence = sentence.unwrap();
    assert!(sentence.contains("JetStream switched off") && sentence.contains("nats-config"), "{sentence}");
}

/// A server that greets as an old one does.
#[test]
fn a_server_of_version_2_9_is_refused() {
    let listener = TcpListener::bind(free_address()).unwrap();
    let address = listener.local_addr().unwrap();
    let greeting = format!(
        "INFO {{\"server_id\":\"OLD\",\"version\":\"2.9.10\",\"go\":\"go1.19\",\"host\":\"{}\",\"port\":{},\
         \"headers\":true,\"max_payload\":1048576,\"proto\":1,\"jetstream\":true}}\r\n",
        address.ip(),
        address.port()
    );
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(greeting.as_bytes()).unwrap();
        let (mut heard, mut chunk) = (String::new(), [0; 1024]);
        while let Ok(count @ 1..) = stream.read(&mut chunk) {
            heard += &String::from_utf8_lossy(&chunk[..count]);
            if heard.contains("PING\r\n") {
                heard.clear();
                stream.write_all(b"PONG\r\n").unwrap();
            }
            assert!(!heard.contains("PUB "), "nothing is asked of it");
        }
    });
    check(&NatsOptions::new("test", &address.to_string()), &["2.9.10", "2.10.23", "install a newer"]);
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for() {
    let (_folder, servers) = one();
    signal(&servers, 0, "-STOP");
    check(&servers.options(), &["does not answer", "look at its log"]);
}

#[test]
fn streams_that_do_not_fit_into_the_store_are_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let mut servers = TestServers::with(folder.path(), |settings| settings.store_bytes_max = 200 << 20);
    let node = servers.node();
    node.append(&Topic::Docs(0), b"x").unwrap();
    node.set("k", b"x", farol_fabric::Revision::NONE).unwrap();
    // 64 + 64 MiB are taken, of 160 that may be.
    let refused = node.append(&Topic::Docs(1), b"x");
    let Err(Refused::Away(sentence)) = refused else { panic!("{refused:?}") };
    assert!(sentence.contains("128 MiB") && sentence.contains("cluster.log_max"), "{sentence}");
    let streams = ask(&servers, "STREAM.NAMES", "");
    assert_eq!(streams["total"], 2, "{streams}");
    drop(node);
    let mut smaller = servers.all[0].settings().clone();
    smaller.store_bytes_max = 140 << 20;
    servers.all[0].stop();
    let own = folder.path().join("n1");
    let program = farol_fabric::testing::servers::program();
    servers.all[0] = farol_fabric::nats::server::LocalServer::start(&program, &own, smaller).unwrap();
    check(&servers.options(), &["four fifths", "max_file_store"]);
}

#[test]
fn more_copies_than_servers_are_said() {
    let (_folder, servers) = one();
    let node = Nats::connect(&servers.options().with_copies(3)).unwrap();
    let refused = node.append(&Topic::Links, b"x");
    let Err(Refused::Away(sentence)) = refused else { panic!("{refused:?}") };
    assert!(sentence.contains("the 3 copies") && sentence.contains("cluster.copies"), "{sentence}");
}

#[test]
fn lazy_writing_is_said_and_writing_first_is_seen() {
    let folder = tempfile::tempdir().unwrap();
    let (first, lazy) = (folder.path().join("first"), folder.path().join("lazy"));
    assert_eq!(TestServers::one(&first).node().state().sync_always, Some(true));
    let servers = TestServers::with(&lazy, |settings| settings.sync_always = false);
    let state = servers.node().state();
    assert_eq!(state.sync_always, Some(false));
    assert!(state.trouble.is_some_and(|trouble| trouble.contains("sync_interval")));
    let mut unseen = servers.options();
    unseen.monitors = vec![free_address().to_string()];
    assert_eq!(Nats::connect(&unseen).unwrap().state().sync_always, None);
}
