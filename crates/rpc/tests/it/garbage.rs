//! Bytes that are no calls.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use farol_base::{Clock, Random, Seeded, SystemClock};
use farol_rpc::certs::{Authority, NODE_VALID};
use farol_rpc::{Limits, TlsSettings};

use crate::node::{Verbs, client, node, within};

/// The first bytes of an HTTP/2 connection, RFC 9113 §3.4, and an empty SETTINGS frame.
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// Sends random bytes after various openings, and reads what comes until the server hangs up or says nothing.
fn pester(address: SocketAddr, seed: u64) {
    let mut random = Seeded::new(seed);
    for _ in 0..200 {
        let Ok(mut stream) = TcpStream::connect(address) else { continue };
        let _ = stream.set_read_timeout(Some(Duration::from_millis(2)));
        let opening: &[u8] =
            [PREFACE, b"", b"POST /v1/echo HTTP/1.1\r\n\r\n", &PREFACE[..10]][random.below(4) as usize];
        let mut bytes = opening.to_vec();
        bytes.extend((0..random.below(400)).map(|_| random.next_u64() as u8));
        // A frame's head that promises what may not come.
        bytes.extend([
            0,
            0,
            random.next_u64() as u8,
            random.below(11) as u8,
            5,
            0,
            0,
            0,
            random.below(6) as u8,
        ]);
        let _ = stream.write_all(&bytes);
        let _ = stream.read(&mut [0; 256]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_bytes_break_nothing() {
    let (server, peer) = node(Arc::<Verbs>::default(), Limits::default(), None).await;
    tokio::task::spawn_blocking(move || pester(peer.address, 1)).await.unwrap();
    assert_eq!(client().call::<_, u8>(&peer_of(&server), "echo", &1u8, within(2000)).await, Ok(1));
    assert!(server.metrics().snapshot().connections_refused > 50);
}

#[tokio::test(flavor = "multi_thread")]
async fn random_bytes_do_not_pass_for_tls() {
    let now = SystemClock.now();
    let ca = Authority::generate("test", now).unwrap();
    let own = ca.issue("a", now, NODE_VALID).unwrap();
    let tls = TlsSettings::from_pem("a", &ca.certificate().cert_pem, &own.cert_pem, &own.key_pem).unwrap();
    let (server, peer) = node(Arc::<Verbs>::default(), Limits::default(), Some(tls)).await;
    tokio::task::spawn_blocking(move || pester(peer.address, 2)).await.unwrap();
    assert!(server.metrics().snapshot().connections_refused > 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_says_nothing_is_hung_up_on() {
    let limits = Limits { handshake_max: Duration::from_millis(100), ..Limits::default() };
    let (server, peer) = node(Arc::<Verbs>::default(), limits, None).await;
    let silent = tokio::task::spawn_blocking(move || {
        let mut stream = TcpStream::connect(peer.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(3))).unwrap();
        stream.read_to_end(&mut Vec::new())
    });
    assert!(silent.await.unwrap().is_ok(), "the server ends the connection");
    assert_eq!(server.metrics().snapshot().connections_refused, 1);
}

fn peer_of(server: &farol_rpc::Server) -> farol_rpc::Peer {
    farol_rpc::Peer::new("a", server.address())
}
