//! Who is let in, and who is not.

use std::sync::Arc;
use std::time::Duration;

use farol_base::{Clock, SystemClock, Timestamp};
use farol_rpc::certs::{Authority, Certificate, NODE_VALID};
use farol_rpc::{
    CallError, Client, ClientSettings, Limits, Peer, ServeError, Server, TlsError, TlsSettings, serve,
};
use tokio::runtime::Handle;

use crate::node::{Verbs, client, node, within};

const DAY: Duration = Duration::from_secs(86_400);

fn now() -> Timestamp {
    SystemClock.now()
}

fn settings(ca: &Authority, node: &str, own: &Certificate) -> TlsSettings {
    TlsSettings::from_pem(node, &ca.certificate().cert_pem, &own.cert_pem, &own.key_pem).unwrap()
}

fn member(ca: &Authority, node: &str) -> TlsSettings {
    settings(ca, node, &ca.issue(node, now(), NODE_VALID).unwrap())
}

fn caller(tls: Option<TlsSettings>) -> Client {
    Client::new(ClientSettings { tls, ..ClientSettings::default() }, Handle::current())
}

async fn who(client: &Client, peer: &Peer) -> Result<(Option<String>, Option<String>), CallError> {
    client.call(peer, "who", &(), within(2000)).await
}

/// A stranger is told nothing, and the server has counted it.
async fn refused(server: &Server, client: Client, peer: &Peer) {
    let before = server.metrics().snapshot().connections_refused;
    let answer = who(&client, peer).await;
    assert!(matches!(answer, Err(CallError::Unreachable { .. })), "{answer:?}");
    for _ in 0..200 {
        if server.metrics().snapshot().connections_refused > before {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("it was not counted");
}

#[tokio::test(flavor = "multi_thread")]
async fn members_are_let_in_and_strangers_are_not() {
    let ca = Authority::generate("test", now()).unwrap();
    let (server, peer) = node(Arc::<Verbs>::default(), Limits::default(), Some(member(&ca, "a"))).await;

    let friend = caller(Some(member(&ca, "b")));
    assert_eq!(who(&friend, &peer).await, Ok((Some("b".to_string()), None)));

    // Another authority, even of the same name.
    let other = Authority::generate("test", now()).unwrap();
    let stranger = other.issue("b", now(), NODE_VALID).unwrap();
    refused(&server, caller(Some(settings(&ca, "b", &stranger))), &peer).await;
    // A certificate whose time is over.
    let expired = ca.issue("b", now() - 30 * DAY, 10 * DAY).unwrap();
    refused(&server, caller(Some(settings(&ca, "b", &expired))), &peer).await;
    // No TLS at all.
    refused(&server, client(), &peer).await;

    assert_eq!(who(&friend, &peer).await, Ok((Some("b".to_string()), None)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_must_be_the_node_that_was_meant() {
    let ca = Authority::generate("test", now()).unwrap();
    let (_server, peer) = node(Arc::<Verbs>::default(), Limits::default(), Some(member(&ca, "a"))).await;
    let client = caller(Some(member(&ca, "b")));
    let answer = who(&client, &Peer { node: "c".to_string(), ..peer.clone() }).await;
    assert!(
        matches!(&answer, Err(CallError::Unreachable { why, .. }) if why.contains("certificate")),
        "{answer:?}"
    );
    let other = caller(Some(member(&Authority::generate("test", now()).unwrap(), "b")));
    assert!(matches!(who(&other, &peer).await, Err(CallError::Unreachable { .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authority_is_taken_up_again() {
    let first = Authority::generate("test", now()).unwrap();
    let again = Authority::from_pem("test", first.certificate().clone()).unwrap();
    let (_server, peer) = node(Arc::<Verbs>::default(), Limits::default(), Some(member(&first, "a"))).await;
    assert_eq!(who(&caller(Some(member(&again, "b"))), &peer).await, Ok((Some("b".to_string()), None)));
}

#[tokio::test]
async fn beyond_loopback_there_is_no_plain_text() {
    let listener = tokio::net::TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = serve(listener, None, Arc::<Verbs>::default(), Limits::default()).unwrap_err();
    assert!(matches!(refused, ServeError::PlainBeyondLoopback(_)));
    assert!(refused.to_string().contains("farol cluster certs"), "{refused}");
    // The unspecified address is not loopback's, and would lead nowhere but to this machine.
    let away = Peer::new("a", "0.0.0.0:9".parse().unwrap());
    let answer = client().call::<_, u8>(&away, "echo", &1u8, within(1000)).await;
    assert!(
        matches!(&answer, Err(CallError::Unreachable { why, .. }) if why.contains("need TLS")),
        "{answer:?}"
    );
}

#[test]
fn wrong_texts_are_told_apart() {
    let ca = Authority::generate("test", now()).unwrap();
    let own = ca.issue("a", now(), NODE_VALID).unwrap();
    let read =
        |node: &str, ca: &str, cert: &str, key: &str| TlsSettings::from_pem(node, ca, cert, key).unwrap_err();
    let root = &ca.certificate().cert_pem;
    assert!(matches!(read("b", root, &own.cert_pem, &own.key_pem), TlsError::OtherNode { .. }));
    assert!(matches!(read("a", root, "", &own.key_pem), TlsError::Pem { what: "certificate", .. }));
    assert!(matches!(read("a", root, &own.cert_pem, "x"), TlsError::Pem { what: "key", .. }));
    assert!(matches!(read("a", "", &own.cert_pem, &own.key_pem), TlsError::Config(_)));
    let foreign = ca.issue("a", now(), NODE_VALID).unwrap().key_pem;
    assert!(matches!(read("a", root, &own.cert_pem, &foreign), TlsError::Config(_)));
    for node in ["", "a.b", "-a", "ü"] {
        assert!(matches!(ca.issue(node, now(), NODE_VALID), Err(TlsError::NodeName(_))), "{node}");
    }
}
