//! Deadlines, cancelling, back-pressure, draining, and connections that break.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use farol_rpc::{CallError, Client, ClientSettings, Limits, Peer};
use tokio::runtime::Handle;

use crate::node::{Verbs, Worker, client, node, reaches, within};

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_stops_work_on_the_server() {
    let verbs = Arc::<Verbs>::default();
    let (server, peer) = node(Arc::new(Worker(verbs.clone())), Limits::default(), None).await;
    let asked = Instant::now();
    let answer = client().call::<_, ()>(&peer, "work", &(), within(150)).await;
    assert!(matches!(answer, Err(CallError::TimedOut { .. })), "{answer:?}");
    assert!(asked.elapsed() >= Duration::from_millis(140), "{:?}", asked.elapsed());
    reaches(&verbs.stopped, 1).await;
    while server.load() != (0, 0) {
        assert!(asked.elapsed() < Duration::from_secs(10), "its place is never free again");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_is_dropped_stops_on_the_server() {
    let (waits, works) = (Arc::<Verbs>::default(), Arc::<Verbs>::default());
    let (_one, waiter) = node(waits.clone(), Limits::default(), None).await;
    let (_two, worker) = node(Arc::new(Worker(works.clone())), Limits::default(), None).await;
    for (verbs, peer) in [(waits, waiter), (works, worker)] {
        let call =
            tokio::spawn(
                async move { client().call::<_, u64>(&peer, "sleep", &60_000u64, within(60_000)).await },
            );
        reaches(&verbs.started, 1).await;
        call.abort();
        reaches(&verbs.stopped, 1).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_node_says_so_at_once() {
    let verbs = Arc::<Verbs>::default();
    let limits = Limits { in_work: 1, waiting: 1, ..Limits::default() };
    let (server, peer) = node(verbs.clone(), limits, None).await;
    let client = client();
    let mut calls = Vec::new();
    for load in [(1, 0), (1, 1)] {
        let (client, peer) = (client.clone(), peer.clone());
        calls.push(tokio::spawn(async move {
            client.call::<_, u64>(&peer, "sleep", &300u64, within(5000)).await
        }));
        while server.load() != load {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    let answer = client.call::<_, u64>(&peer, "sleep", &0u64, within(5000)).await;
    assert!(matches!(&answer, Err(CallError::Busy(why)) if why.contains("1 waiting")), "{answer:?}");
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(300));
    }
    assert_eq!(server.metrics().snapshot().verbs["sleep"].busy, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_finishes_what_is_under_way() {
    let verbs = Arc::<Verbs>::default();
    let (server, peer) = node(verbs.clone(), Limits::default(), None).await;
    let client = client();
    let call = tokio::spawn({
        let (client, peer) = (client.clone(), peer.clone());
        async move { client.call::<_, u64>(&peer, "sleep", &300u64, within(5000)).await }
    });
    reaches(&verbs.started, 1).await;
    assert!(server.drain(Duration::from_secs(5)).await);
    assert_eq!(call.await.unwrap(), Ok(300));
    let late = client.call::<_, u64>(&peer, "sleep", &0u64, within(1000)).await;
    assert!(matches!(late, Err(CallError::Unreachable { .. })), "{late:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn draining_has_an_end() {
    let verbs = Arc::<Verbs>::default();
    let (server, peer) = node(verbs.clone(), Limits::default(), None).await;
    let call =
        tokio::spawn(
            async move { client().call::<_, u64>(&peer, "sleep", &60_000u64, within(60_000)).await },
        );
    reaches(&verbs.started, 1).await;
    assert!(!server.drain(Duration::from_millis(100)).await);
    assert!(matches!(call.await.unwrap(), Err(CallError::Unreachable { .. })));
    reaches(&verbs.stopped, 1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_dies_is_noticed_at_once_and_used_again_when_it_is_back() {
    let verbs = Arc::<Verbs>::default();
    let (server, peer) = node(verbs.clone(), Limits::default(), None).await;
    let client = client();
    let call = tokio::spawn({
        let (client, peer) = (client.clone(), peer.clone());
        async move { client.call::<_, u64>(&peer, "sleep", &60_000u64, within(60_000)).await }
    });
    reaches(&verbs.started, 1).await;
    drop(server);
    assert!(matches!(call.await.unwrap(), Err(CallError::Unreachable { .. })));
    let listener = loop {
        // The port is free as soon as the accepting task has ended.
        match tokio::net::TcpListener::bind(peer.address).await {
            Ok(listener) => break listener,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    let _again = farol_rpc::serve(listener, None, verbs, Limits::default()).unwrap();
    assert_eq!(client.call::<_, u8>(&peer, "echo", &1u8, within(1000)).await, Ok(1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_peer_that_hangs_is_given_up_by_deadline_or_ping() {
    // The kernel accepts, nobody reads: so looks a stopped process, and a machine that was cut off.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = Peer::new("a", listener.local_addr().unwrap());
    let settings = ClientSettings { ping: Duration::from_millis(200), ..ClientSettings::default() };
    let client = Client::new(settings, Handle::current());
    let soon = client.call::<_, u8>(&peer, "echo", &1u8, within(100)).await;
    assert!(matches!(soon, Err(CallError::TimedOut { .. })), "{soon:?}");
    let asked = Instant::now();
    let cut = client.call::<_, u8>(&peer, "echo", &1u8, within(10_000)).await;
    assert!(matches!(cut, Err(CallError::Unreachable { .. })), "{cut:?}");
    assert!(asked.elapsed() < Duration::from_millis(5000), "{:?}", asked.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_unreachable() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let answer = client().call::<_, u8>(&Peer::new("a", gone), "echo", &1u8, within(1000)).await;
    assert!(matches!(&answer, Err(error) if error.is_transient()), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_are_refused_both_ways() {
    let limits = Limits { body_bytes_max: 100_000, ..Limits::default() };
    let (server, peer) = node(Arc::<Verbs>::default(), limits, None).await;
    let client = client();
    for bytes in [100_001, 10 << 20] {
        let answer = client.call::<_, Vec<u8>>(&peer, "echo", &vec![0u8; bytes], within(5000)).await;
        assert!(
            matches!(&answer, Err(CallError::Refused(why)) if why.contains("100000 bytes")),
            "{answer:?}"
        );
    }
    let answer = client
        .call_bytes(&peer, "zeros", farol_rpc::encode(&200_000usize).unwrap(), within(5000), None)
        .await;
    assert!(matches!(&answer, Err(CallError::Refused(why)) if why.contains("200000 bytes")), "{answer:?}");
    let here = client.call::<_, u8>(&peer, "echo", &vec![0u8; 17 << 20], within(5000)).await;
    assert!(matches!(&here, Err(CallError::Refused(why)) if why.contains("16777216")), "{here:?}");
    let fits = client.call::<_, Vec<u8>>(&peer, "echo", &vec![7u8; 90_000], within(5000)).await;
    assert_eq!(fits.map(|bytes| bytes.len()), Ok(90_000));
    assert_eq!(server.load(), (0, 0));

    let small =
        Client::new(ClientSettings { body_bytes_max: 1000, ..ClientSettings::default() }, Handle::current());
    let answer =
        small.call_bytes(&peer, "zeros", farol_rpc::encode(&2000usize).unwrap(), within(5000), None).await;
    assert!(matches!(answer, Err(CallError::Damaged { .. })), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_waiting_calls_do_not_stall_those_in_work() {
    let (_server, peer) =
        node(Arc::<Verbs>::default(), Limits { in_work: 2, ..Limits::default() }, None).await;
    let client = client();
    let calls: Vec<_> = (0..60)
        .map(|_| {
            let (client, peer) = (client.clone(), peer.clone());
            tokio::spawn(async move {
                client.call::<_, Vec<u8>>(&peer, "echo", &vec![1u8; 1 << 20], within(30_000)).await
            })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap().map(|bytes| bytes.len()), Ok(1 << 20));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_calls_take_a_second_connection_and_no_third() {
    let verbs = Arc::<Verbs>::default();
    let limits = Limits { in_work: 300, ..Limits::default() };
    let (server, peer) = node(verbs.clone(), limits, None).await;
    let client = client();
    // Whoever calls while there is no connection yet waits for the first; from then on it is a matter of load.
    assert_eq!(client.call::<_, u8>(&peer, "echo", &1u8, within(5000)).await, Ok(1));
    let calls: Vec<_> = (0..200)
        .map(|_| {
            let (client, peer) = (client.clone(), peer.clone());
            tokio::spawn(async move { client.call::<_, u64>(&peer, "sleep", &300u64, within(5000)).await })
        })
        .collect();
    for call in calls {
        assert_eq!(call.await.unwrap(), Ok(300));
    }
    assert_eq!(client.call::<_, u8>(&peer, "echo", &1u8, within(1000)).await, Ok(1));
    assert_eq!(server.metrics().snapshot().connections_open, 2);
    assert_eq!(verbs.finished.load(Ordering::SeqCst), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_cancelled_calls_leave_the_connection_whole() {
    let (server, peer) =
        node(Arc::<Verbs>::default(), Limits { in_work: 2000, ..Limits::default() }, None).await;
    let client = client();
    for _ in 0..1000 {
        let call = client.call::<_, u64>(&peer, "sleep", &60_000u64, within(60_000));
        assert!(tokio::time::timeout(Duration::from_micros(300), call).await.is_err());
    }
    assert_eq!(client.call::<_, u8>(&peer, "echo", &1u8, within(2000)).await, Ok(1));
    assert_eq!(server.metrics().snapshot().connections_open, 1);
}

#[test]
fn threads_can_call_too() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_server, peer) = runtime.block_on(node(Arc::<Verbs>::default(), Limits::default(), None));
    let caller = runtime.block_on(async { client() }).blocking();
    let answer = std::thread::spawn(move || caller.call::<_, u8>(&peer, "echo", &5u8, within(2000)));
    assert_eq!(answer.join().unwrap(), Ok(5));
}
