//! What a call costs: time and CPU with an answer of 3.3 KB, for 1 and 32 callers, plain and under mutual TLS.
//!
//! Client and server share this process, so the CPU is that of both sides. `cargo run --release -p farol-rpc
//! --example call_cost -- 3` measures each row for three seconds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use farol_base::{Clock, SystemClock};
use farol_rpc::certs::{Authority, NODE_VALID};
use farol_rpc::{
    BoxFuture, CallContext, Client, ClientSettings, Handler, Limits, Peer, RpcError, TlsSettings, encode,
    serve,
};
use tokio::net::TcpListener;
use tokio::runtime::Handle;

/// Ten hits of 330 bytes.
struct Hits(Bytes);

impl Handler for Hits {
    fn call<'a>(&'a self, _: &'a str, _: Bytes, _: CallContext) -> BoxFuture<'a, Result<Bytes, RpcError>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let seconds: u64 = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(3);
    println!("{:<6} {:>7} {:>9} {:>12} {:>12}", "", "callers", "calls", "µs/call", "CPU µs/call");
    for secure in [false, true] {
        let tls = if secure { Some(certificates()?) } else { None };
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let hits = Arc::new(Hits(encode(&vec!["x".repeat(328); 10])?));
        let server = serve(listener, tls.clone(), hits, Limits { waiting: 1024, ..Limits::default() })?;
        let peer = Peer::new("a", server.address());
        let client = Client::new(ClientSettings { tls, ..ClientSettings::default() }, Handle::current());
        for callers in [1, 32] {
            measure(&client, &peer, callers, Duration::from_millis(300)).await?;
            let (started, cpu) = (Instant::now(), cpu_us()?);
            let calls = measure(&client, &peer, callers, Duration::from_secs(seconds)).await?;
            let (wall, cpu) = (started.elapsed().as_micros() as f64, (cpu_us()? - cpu) as f64);
            let name = if secure { "mTLS" } else { "plain" };
            let each = wall * callers as f64 / calls as f64;
            println!("{name:<6} {callers:>7} {calls:>9} {each:>12.0} {:>12.0}", cpu / calls as f64);
        }
    }
    Ok(())
}

/// Calls one after the other from each of several tasks; how many there were.
async fn measure(
    client: &Client,
    peer: &Peer,
    callers: u64,
    time: Duration,
) -> Result<u64, Box<dyn std::error::Error>> {
    let until = Instant::now() + time;
    let tasks: Vec<_> = (0..callers)
        .map(|_| {
            let (client, peer) = (client.clone(), peer.clone());
            tokio::spawn(async move {
                let mut calls = 0;
                while Instant::now() < until {
                    let deadline = Instant::now() + Duration::from_secs(1);
                    client.call::<_, Vec<String>>(&peer, "search", &"ponte rio", deadline).await?;
                    calls += 1;
                }
                Ok::<u64, farol_rpc::CallError>(calls)
            })
        })
        .collect();
    let mut calls = 0;
    for task in tasks {
        calls += task.await??;
    }
    Ok(calls)
}

fn certificates() -> Result<TlsSettings, Box<dyn std::error::Error>> {
    let now = SystemClock.now();
    let authority = Authority::generate("bench", now)?;
    let own = authority.issue("a", now, NODE_VALID)?;
    Ok(TlsSettings::from_pem("a", &authority.certificate().cert_pem, &own.cert_pem, &own.key_pem)?)
}

/// CPU of this process so far, from /proc, whose ticks are hundredths of a second on Linux.
fn cpu_us() -> Result<u64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |at: usize| fields.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    Ok((ticks(11) + ticks(12)) * 10_000)
}
