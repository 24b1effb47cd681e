//! Calls that end well, and those that do not.

use std::sync::Arc;

use farol_rpc::{CallError, Limits, Peer};

use crate::node::{Verbs, client, node, within};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_answered() {
    let (server, peer) = node(Arc::<Verbs>::default(), Limits::default(), None).await;
    let client = client();
    let said: (u32, String) = client.call(&peer, "echo", &(7u32, "olá"), within(2000)).await.unwrap();
    assert_eq!(said, (7, "olá".to_string()));
    let who: (Option<String>, Option<String>) =
        client.call_traced(&peer, "who", &(), within(2000), Some("t1")).await.unwrap();
    assert_eq!(who, (Some("me".to_string()), Some("t1".to_string())));
    let left: u64 = client.call(&peer, "left", &(), within(2000)).await.unwrap();
    assert!((1000..=2000).contains(&left), "{left}");
    assert_eq!(server.metrics().snapshot().verbs["echo"].calls, 1);
    assert_eq!(server.metrics().snapshot().connections_open, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_arrive_with_their_sentence() {
    let (_server, peer) = node(Arc::<Verbs>::default(), Limits::default(), None).await;
    let client = client();
    let ask = async |peer: &Peer, verb: &str| {
        client.call::<_, u64>(peer, verb, &1u8, within(2000)).await.unwrap_err()
    };
    assert_eq!(ask(&peer, "fail").await, CallError::Failed("the disk is gone".to_string()));
    assert_eq!(ask(&peer, "fly").await, CallError::Refused("this node has no verb \"fly\"".to_string()));
    let newer = Peer { wire: 9, ..peer.clone() };
    assert!(matches!(ask(&newer, "echo").await, CallError::WrongVersion(why) if why.contains("1 to 1")));
    // An answer of another shape.
    let damaged = client.call::<_, (u64, String)>(&peer, "echo", &1u8, within(2000)).await;
    assert!(matches!(damaged, Err(CallError::Damaged { .. })));
    // A handler that panics breaks its own call and no other.
    assert!(matches!(ask(&peer, "panic").await, CallError::Unreachable { .. }));
    assert_eq!(client.call::<_, u8>(&peer, "echo", &1u8, within(2000)).await, Ok(1));
}
